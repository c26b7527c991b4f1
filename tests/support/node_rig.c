/* SPDX-License-Identifier: Apache-2.0 */
/* node_rig.c -- see node_rig.h */
#include "node_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/status.h"
#include "storage-node/format/format_pages.h"
#include "storage-node/format/ondisk.h"

#define RIG_WAIT_NS NUM_S(60)
#define RIG_ADDRESS "sim://node:1"
#define RIG_DESC_BYTES (BATCH_DESC_FIXED_BYTES + 4u)

static void __attribute__((noreturn)) rig_abort(const char *what)
{
	(void)fprintf(stderr, "node_rig: %s\n", what);
	abort();
}

#define RIG_CHECK(condition)                                                                       \
	do {                                                                                       \
		if (!(condition))                                                                  \
			rig_abort(#condition);                                                     \
	} while (0)

static int
rig_poke(void *arg, uint64_t offset_bytes, const void *page)
{
	disk_sim_poke(arg, offset_bytes, page, DISK_ALIGN);
	return 0;
}

static void
rig_make_disk(struct node_rig *rig)
{
	char reason[FORMAT_REASON_BYTES_MAX];
	struct disk_sim_options options = { .seed = rig->options.seed,
		.capacity_bytes = ONDISK_SLOTS_OFFSET +
		    rig->options.slot_count * rig->options.slot_bytes };
	struct node_format format = { .capacity_bytes = options.capacity_bytes,
		.slot_bytes = rig->options.slot_bytes,
		.cluster_id = RIG_CLUSTER_ID,
		.node_id = RIG_NODE_ID,
		.disk_uuid = { 1, 2, 3, 4 } };

	rig->disk = disk_sim_create(&options);
	RIG_CHECK(rig->disk != NULL);
	disk_sim_set_written_ahead(rig->disk, rig->options.is_written_ahead);
	RIG_CHECK(node_format(&format, rig_poke, rig->disk, reason) == 0);
}

struct split_port *
rig_port_open(struct node_rig *rig, const struct split_key *key)
{
	const struct split_port_options options = { .loop = rig->gateway_loop,
		.key = key,
		.sim_host = rig->gateway_host,
		.device_bytes = NUM_MIB(40),
		.receive_count = 96,
		.receive_payload_bytes = WIRE_PAYLOAD_BYTES_MAX };
	struct split_port *port = open_roce_instance(&options);

	RIG_CHECK(port != NULL);
	return port;
}

struct node_rig *
rig_create(const struct rig_options *options)
{
	struct node_rig *rig = calloc(1, sizeof(*rig));

	RIG_CHECK(rig != NULL);
	if (getenv("CLEAVE_TEST_LOG") == NULL)
		log_set_level(LOG_OFF);
	if (options != NULL)
		rig->options = *options;
	if (rig->options.slot_bytes == 0)
		rig->options.slot_bytes = RIG_SLOT_BYTES;
	if (rig->options.slot_count == 0)
		rig->options.slot_count = 16;
	random_seed(rig->random_state, rig->options.seed + 1);
	rig->world = sim_world_create(rig->options.seed);
	rig->net = sim_net_create(rig->world);
	rig->node_host = sim_host_create(rig->net, "node");
	rig->gateway_host = sim_host_create(rig->net, "gateway");
	rig->gateway_loop = sim_loop_create(rig->world, "gateway");
	RIG_CHECK(rig->gateway_loop != NULL);
	rig->port = rig_port_open(rig, rig->options.own_key);
	rig_make_disk(rig);
	return rig;
}

void
rig_destroy(struct node_rig *rig)
{
	rig_kill(rig, false);
	for (uint32_t i = 0; i < RIG_CALLS_MAX; i++)
		free(rig->calls[i].payload);
	split_port_close(rig->port);
	loop_destroy(rig->gateway_loop);
	sim_net_destroy(rig->net);
	sim_world_destroy(rig->world);
	disk_sim_destroy(rig->disk);
	free(rig);
}

uint64_t
rig_random(struct node_rig *rig, uint64_t below)
{
	return random_below(rig->random_state, below);
}

/* ---- running ---- */

void
rig_run(struct node_rig *rig, uint64_t duration_ns)
{
	(void)sim_world_run(rig->world, NULL, NULL, sim_world_now_ns(rig->world) + duration_ns);
}

void
rig_run_until(struct node_rig *rig, bool (*until)(void *arg), void *arg)
{
	(void)sim_world_run(rig->world, until, arg, sim_world_now_ns(rig->world) + RIG_WAIT_NS);
}

/* ---- the node ---- */

static void
rig_on_ready(struct node *node, int rc, const char *reason, void *arg)
{
	struct node_rig *rig = arg;

	(void)node;
	rig->is_ready_called = true;
	rig->ready_rc = rc;
	if (rc != 0)
		(void)snprintf(rig->ready_reason, sizeof(rig->ready_reason), "%s", reason);
}

static bool
rig_is_ready_called(void *arg)
{
	return ((struct node_rig *)arg)->is_ready_called;
}

void
rig_start_begin(struct node_rig *rig)
{
	struct node_options options = {
		.sim_host = rig->node_host,
		.disk_name = "sim",
		.listen = RIG_ADDRESS,
		.cluster_id = rig->options.cluster_id != 0 ? rig->options.cluster_id
							   : RIG_CLUSTER_ID,
		.node_id = rig->options.node_id,
		.write_cache = rig->options.write_cache,
		.must_prewrite = rig->options.must_prewrite,
		.engine_threads = rig->options.engine_threads,
		.verify_bytes_s = rig->options.verify_bytes_s,
		.head_cache_bytes = rig->options.head_cache_bytes,
		.direct = rig->options.direct,
		.security = rig->options.security,
		.connections_max = rig->options.connections_max,
		.device_bytes = NUM_MIB(24),
		.key = rig->options.node_key,
		.on_ready = rig_on_ready,
		.arg = rig,
	};

	RIG_CHECK(rig->node == NULL);
	if (!sim_host_is_up(rig->node_host))
		sim_host_start(rig->node_host);
	rig->is_ready_called = rig->is_stopped = false;
	rig->node_loop = sim_loop_create(rig->world, "node");
	RIG_CHECK(rig->node_loop != NULL);
	options.loop = rig->node_loop;
	RIG_CHECK(disk_sim_open(rig->disk, rig->node_loop, &options.disk) == 0);
	rig->node = node_create(&options);
	RIG_CHECK(rig->node != NULL);
	node_start(rig->node);
}

int
rig_start(struct node_rig *rig)
{
	rig_start_begin(rig);
	rig_run_until(rig, rig_is_ready_called, rig);
	return rig->is_ready_called ? rig->ready_rc : -ETIME;
}

static void
rig_on_stopped(struct node *node, int rc, void *arg)
{
	struct node_rig *rig = arg;

	(void)node;
	rig->is_stopped = true;
	rig->ready_rc = rc;
}

static bool
rig_is_stopped(void *arg)
{
	return ((struct node_rig *)arg)->is_stopped;
}

int
rig_stop(struct node_rig *rig)
{
	node_stop(rig->node, rig_on_stopped, rig);
	rig_run_until(rig, rig_is_stopped, rig);
	return rig->is_stopped ? rig->ready_rc : -ETIME;
}

static bool
rig_is_unconnected(void *arg)
{
	return ((struct node_rig *)arg)->qp == NULL;
}

void
rig_kill(struct node_rig *rig, bool is_power_loss)
{
	if (rig->node == NULL)
		return;
	node_destroy(rig->node);
	rig->node = NULL;
	sim_host_kill(rig->node_host, SIM_DEATH_RESET);
	loop_destroy(rig->node_loop);
	rig->node_loop = NULL;
	if (is_power_loss)
		disk_sim_power_loss(rig->disk);
	rig_run_until(rig, rig_is_unconnected, rig);
	RIG_CHECK(rig->qp == NULL);
}

void
rig_up(struct node_rig *rig)
{
	int rc = rig_start(rig);

	if (rc != 0)
		rig_abort(rig->ready_reason);
	RIG_CHECK(rig_connect(rig) == 0);
}

/* ---- the gateway's side ---- */

static void
rig_on_ready_qp(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct node_rig *rig = arg;

	(void)qp;
	RIG_CHECK(hello_bytes == WIRE_HELLO_BYTES);
	memcpy(rig->hello, hello, hello_bytes);
	rig->is_connected = true;
}

static void
rig_on_reply(struct node_rig *rig, struct split_msg *msg)
{
	const struct wire_header *header = msg->header;
	struct rig_call *call;
	const char *field;

	RIG_CHECK(header->request_id < RIG_CALLS_MAX);
	call = &rig->calls[header->request_id];
	RIG_CHECK(call->is_used && !call->is_answered);
	call->is_answered = true;
	call->payload_bytes = msg->payload_bytes;
	if (msg->payload_bytes > 0) {
		call->payload = malloc(msg->payload_bytes + 1u);
		RIG_CHECK(call->payload != NULL);
		dev_copy_to_host(rig->port, call->payload, msg->payload, msg->payload_bytes);
		call->payload[msg->payload_bytes] = 0;
	}
	call->rc = status_to_errno(header->status);
	if ((header->opcode & ~WIRE_REPLY) >= WIRE_TICKETS)
		RIG_CHECK(wire_node_reply_decode(header, &call->reply, &field) == 0);
}

static void
rig_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		rig_on_reply(arg, msgs[i]);
		split_msg_release(msgs[i]);
	}
}

static void
rig_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct node_rig *rig = arg;

	(void)reason;
	if (qp != rig->qp)
		return; /* a test has put it aside */
	rig->qp = NULL;
	rig->is_closed = true;
	rig->is_connected = false;
	rig->closed_rc = rc;
	for (struct rig_call *call = rig->calls; call < rig->calls + RIG_CALLS_MAX; call++) {
		if (call->is_used && !call->is_answered) {
			call->is_answered = true;
			call->rc = -ECONNRESET;
		}
	}
}

static const struct split_qp_ops rig_qp_ops = { .on_ready = rig_on_ready_qp,
	.on_messages = rig_on_messages,
	.on_closed = rig_on_closed };

static bool
rig_is_settled(void *arg)
{
	struct node_rig *rig = arg;

	return rig->is_connected || rig->is_closed;
}

int
rig_connect_as(struct node_rig *rig, const struct wire_hello *hello)
{
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct split_connect_options options = { .address = RIG_ADDRESS,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.ops = &rig_qp_ops,
		.arg = rig,
		.peer_roles = SPLIT_ROLE_NODE };

	wire_hello_encode(bytes, hello);
	rig->is_connected = rig->is_closed = false;
	rig->qp = connect_qp(rig->port, &options);
	RIG_CHECK(rig->qp != NULL);
	rig_run_until(rig, rig_is_settled, rig);
	return rig->is_connected ? 0 : rig->is_closed ? rig->closed_rc : -ETIME;
}

int
rig_connect(struct node_rig *rig)
{
	return rig_connect_as(rig,
	    &(struct wire_hello){ .role = WIRE_ROLE_GATEWAY, .cluster_id = RIG_CLUSTER_ID });
}

void
rig_disconnect(struct node_rig *rig)
{
	if (rig->qp != NULL)
		split_qp_close(rig->qp);
	rig_run_until(rig, rig_is_unconnected, rig);
}

/* ---- calls ---- */

static void
rig_on_sent(struct split_send *send, int rc, void *arg)
{
	struct rig_call *call = arg;

	(void)send;
	(void)rc; /* a lost queue pair tells it, too */
	call->is_sent = true;
}

static struct rig_call *
rig_call_alloc(struct node_rig *rig)
{
	for (uint32_t i = 0; i < RIG_CALLS_MAX; i++) {
		struct rig_call *call = &rig->calls[i];

		if (call->is_used)
			continue;
		*call = (struct rig_call){ .rig = rig, .is_used = true };
		return call;
	}
	rig_abort("too many calls");
}

static int
rig_call_send(struct rig_call *call, const void *payload, uint32_t payload_bytes)
{
	struct node_rig *rig = call->rig;

	if (payload_bytes > 0) {
		call->piece.ptr = dev_alloc(rig->port, payload_bytes);
		call->piece.bytes = payload_bytes;
		RIG_CHECK(!dev_ptr_is_null(call->piece.ptr));
		dev_copy_from_host(rig->port, call->piece.ptr, payload, payload_bytes);
	}
	call->send = (struct split_send){ .header = &call->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &call->piece,
		.piece_count = payload_bytes > 0,
		.fn = rig_on_sent,
		.arg = call };
	return rig->qp == NULL ? -ENOTCONN : split_send(rig->qp, &call->send);
}

void
rig_done(struct rig_call *call)
{
	if (call->piece.bytes > 0)
		dev_free(call->rig->port, call->piece.ptr);
	free(call->payload);
	call->payload = NULL;
	call->piece.bytes = 0;
	call->is_used = false;
}

struct rig_call *
rig_post(struct node_rig *rig, const struct wire_node *request, const void *payload,
    uint32_t payload_bytes)
{
	struct rig_call *call = rig_call_alloc(rig);

	call->request = *request;
	call->request.request_id = (uint64_t)(call - rig->calls);
	wire_node_encode(&call->header, &call->request);
	if (rig_call_send(call, payload, payload_bytes) == 0)
		return call;
	rig_done(call);
	return NULL;
}

static bool
rig_call_is_answered(void *arg)
{
	const struct rig_call *call = arg;

	/* The send's memory is ours again only once it has left, or never will. */
	return call->is_answered && (call->is_sent || call->rig->qp == NULL);
}

int
rig_wait(struct rig_call *call)
{
	rig_run_until(call->rig, rig_call_is_answered, call);
	return call->is_answered ? call->rc : -ETIME;
}

int
rig_call_rc(struct node_rig *rig, const struct wire_node *request, const void *payload,
    uint32_t payload_bytes, struct wire_node_reply *ret_reply)
{
	struct rig_call *call = rig_post(rig, request, payload, payload_bytes);
	int rc;

	if (call == NULL)
		return -ENOTCONN;
	rc = rig_wait(call);
	if (ret_reply != NULL)
		*ret_reply = call->reply;
	rig_done(call);
	return rc;
}

struct rig_call *
rig_post_raw(struct node_rig *rig, const struct wire_header *header, const void *payload,
    uint32_t payload_bytes)
{
	struct rig_call *call = rig_call_alloc(rig);

	call->header = *header;
	call->header.request_id = (uint64_t)(call - rig->calls);
	call->rc = rig_call_send(call, payload, payload_bytes);
	call->is_answered = call->is_sent = call->rc != 0;
	return call;
}

int
rig_send_raw(struct node_rig *rig, const struct wire_header *header, const void *payload,
    uint32_t payload_bytes)
{
	struct rig_call *call = rig_post_raw(rig, header, payload, payload_bytes);
	int rc = rig_wait(call);

	rig_done(call);
	return rc;
}

int
rig_control(struct node_rig *rig, const char *text, char **ret_text)
{
	const struct wire_header header = { .opcode = WIRE_CONTROL };
	struct rig_call *call = rig_post_raw(rig, &header, text, (uint32_t)strlen(text));
	int rc = rig_wait(call);

	*ret_text = (char *)call->payload;
	call->payload = NULL;
	rig_done(call);
	return rc;
}

/* ---- extents ---- */

void
rig_extent_init(struct rig_extent *extent, uint32_t shard, uint32_t epoch, uint64_t counter,
    enum extent_kind kind)
{
	*extent = (struct rig_extent){
		.id = { .shard = shard, .epoch = epoch, .counter = counter },
		.kind = kind,
		.epoch = epoch,
		.data = calloc(1, ONDISK_SLOT_BYTES_MAX / 16),
	};
	RIG_CHECK(extent->data != NULL);
	extent->end_crc = batch_chain_seed(&extent->id, kind);
}

void
rig_extent_fini(struct rig_extent *extent)
{
	free(extent->data);
	extent->data = NULL;
}

int
rig_extent_create(struct node_rig *rig, struct rig_extent *extent)
{
	struct wire_node request = { .opcode = WIRE_EXTENT_CREATE,
		.id = extent->id,
		.kind = extent->kind,
		.epoch = extent->epoch };
	struct wire_node_reply reply;
	int rc = rig_call_rc(rig, &request, NULL, 0, &reply);

	if (rc == 0)
		extent->incarnation = reply.offset_bytes;
	return rc;
}

const uint8_t *
rig_batch(struct node_rig *rig, struct rig_extent *extent, uint32_t blocks, uint64_t mark_bytes,
    uint32_t *ret_bytes)
{
	uint8_t *batch = extent->data + extent->end_bytes;
	uint32_t desc_bytes = blocks * RIG_DESC_BYTES;
	struct batch_info info = {
		.id = extent->id,
		.kind = extent->kind,
		.record_count = extent->kind == EXTENT_MANIFEST ? 1 : blocks,
		.offset_bytes = extent->end_bytes,
		.mark_bytes = mark_bytes,
		.base_sequence = extent->end_bytes / BATCH_ALIGN,
		.desc_bytes = desc_bytes,
		.prev_crc = extent->end_crc,
	};

	info.used_bytes = BATCH_HEADER_BYTES + desc_bytes +
	    (extent->kind == EXTENT_MANIFEST ? 0 : blocks * CLEAVE_BLOCK_BYTES);
	info.batch_bytes = (uint32_t)num_round_up(info.used_bytes, BATCH_ALIGN);
	RIG_CHECK(extent->end_bytes + info.batch_bytes <= ONDISK_SLOT_BYTES_MAX / 16);
	RIG_CHECK(extent->batch_count < RIG_BATCHES_MAX);
	memset(batch, 0, info.batch_bytes);
	for (uint32_t i = 0; i < blocks && extent->kind != EXTENT_MANIFEST; i++) {
		uint8_t *block = batch + BATCH_HEADER_BYTES + desc_bytes + i * CLEAVE_BLOCK_BYTES;
		struct record_desc record = { .kind = RECORD_WRITE,
			.codec_id = ENGINE_NONE,
			.stored_bytes = CLEAVE_BLOCK_BYTES,
			.block = i,
			.block_count = 1 };

		for (uint32_t j = 0; j < CLEAVE_BLOCK_BYTES; j += 8)
			num_put_le64(block + j, random_u64(rig->random_state));
		record.stored_crc = crc32c(0, block, CLEAVE_BLOCK_BYTES);
		record.block_crcs[0] = record.stored_crc;
		RIG_CHECK(record_encode(batch + BATCH_HEADER_BYTES + i * RIG_DESC_BYTES, &record) ==
		    RIG_DESC_BYTES);
	}
	batch_head_encode(batch, &info);
	extent->batches[extent->batch_count].offset_bytes = extent->end_bytes;
	extent->batches[extent->batch_count].bytes = info.batch_bytes;
	extent->batches[extent->batch_count].crc = info.batch_crc;
	extent->batch_count++;
	extent->end_bytes += info.batch_bytes;
	extent->end_crc = info.batch_crc;
	*ret_bytes = info.batch_bytes;
	return batch;
}

struct rig_call *
rig_append_post(struct node_rig *rig, struct rig_extent *extent, uint32_t blocks)
{
	uint64_t offset = extent->end_bytes;
	uint32_t bytes;
	const uint8_t *batch = rig_batch(rig, extent, blocks, extent->acked_bytes, &bytes);

	return rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent->id,
		.kind = extent->kind,
		.offset_bytes = offset,
		.length_bytes = bytes,
		.epoch = extent->epoch },
	    batch, bytes);
}

int
rig_append(struct node_rig *rig, struct rig_extent *extent, uint32_t blocks)
{
	struct rig_call *call = rig_append_post(rig, extent, blocks);
	int rc;

	if (call == NULL)
		return -ENOTCONN;
	rc = rig_wait(call);
	if (rc == 0)
		extent->acked_bytes = call->reply.offset_bytes;
	rig_done(call);
	return rc;
}

int
rig_append_again(struct node_rig *rig, struct rig_extent *extent, uint32_t index, uint32_t epoch)
{
	uint64_t offset = extent->batches[index].offset_bytes;

	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent->id,
		.kind = extent->kind,
		.offset_bytes = offset,
		.length_bytes = extent->batches[index].bytes,
		.epoch = epoch,
		.flags = WIRE_FLAG_RECOVERY },
	    extent->data + offset, extent->batches[index].bytes, NULL);
}

int
rig_freeze(struct node_rig *rig, const struct rig_extent *extent, uint32_t epoch,
    struct wire_node_reply *ret_reply)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FREEZE, .id = extent->id, .epoch = epoch },
	    NULL, 0, ret_reply);
}

int
rig_cut(struct node_rig *rig, const struct rig_extent *extent, uint32_t epoch,
    uint64_t length_bytes)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_TRUNCATE,
		.id = extent->id,
		.epoch = epoch,
		.offset_bytes = length_bytes },
	    NULL, 0, NULL);
}

int
rig_delete(struct node_rig *rig, const struct rig_extent *extent, uint32_t epoch)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = extent->id,
		.epoch = epoch,
		.offset_bytes = extent->incarnation },
	    NULL, 0, NULL);
}

static struct wire_node
rig_verify_request(const struct rig_extent *extent)
{
	return (struct wire_node){ .opcode = WIRE_EXTENT_VERIFY,
		.id = extent->id,
		.epoch = extent->epoch };
}

struct rig_call *
rig_verify_post(struct node_rig *rig, const struct rig_extent *extent)
{
	struct wire_node request = rig_verify_request(extent);

	return rig_post(rig, &request, NULL, 0);
}

int
rig_verify(struct node_rig *rig, const struct rig_extent *extent, struct wire_node_reply *ret_reply)
{
	struct wire_node request = rig_verify_request(extent);

	return rig_call_rc(rig, &request, NULL, 0, ret_reply);
}

int
rig_fence(struct node_rig *rig, uint32_t shard, uint32_t epoch)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_SHARD_FENCE,
		.id = { .shard = shard },
		.epoch = epoch },
	    NULL, 0, NULL);
}

int
rig_read(struct node_rig *rig, const struct rig_extent *extent, uint64_t offset_bytes,
    uint32_t bytes, void *out)
{
	struct rig_call *call = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.epoch = extent->epoch,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes },
	    NULL, 0);
	int rc;

	if (call == NULL)
		return -ENOTCONN;
	rc = rig_wait(call);
	if (rc == 0) {
		RIG_CHECK(call->payload_bytes == bytes);
		memcpy(out, call->payload, bytes);
	}
	rig_done(call);
	return rc;
}

int
rig_list(struct node_rig *rig, uint32_t shard, struct wire_extent_entry *entries, uint32_t max)
{
	uint64_t cursor = 0;
	uint32_t count = 0;

	do {
		struct rig_call *call = rig_post(rig,
		    &(struct wire_node){ .opcode = WIRE_EXTENT_LIST,
			.id = { .shard = shard },
			.offset_bytes = cursor },
		    NULL, 0);
		int rc = call == NULL ? -ENOTCONN : rig_wait(call);

		if (rc != 0)
			return rc;
		for (uint32_t at = 0; at < call->payload_bytes; at += (uint32_t)sizeof(*entries))
			if (count < max)
				memcpy(&entries[count++], call->payload + at, sizeof(*entries));
		cursor = call->reply.offset_bytes;
		rig_done(call);
	} while (cursor != 0);
	return (int)count;
}

bool
rig_extent_matches(struct node_rig *rig, const struct rig_extent *extent, uint64_t length_bytes)
{
	uint8_t *out = malloc(WIRE_PAYLOAD_BYTES_MAX);
	bool is_equal = true;

	RIG_CHECK(out != NULL);
	for (uint64_t at = 0; is_equal && at < length_bytes;) {
		uint32_t step = (uint32_t)num_min(length_bytes - at, WIRE_PAYLOAD_BYTES_MAX);

		is_equal = rig_read(rig, extent, at, step, out) == 0 &&
		    memcmp(out, extent->data + at, step) == 0;
		at += step;
	}
	free(out);
	return is_equal;
}

bool
rig_is_boundary(const struct rig_extent *extent, uint64_t length_bytes)
{
	if (length_bytes == 0)
		return true;
	for (uint32_t i = 0; i < extent->batch_count; i++)
		if (extent->batches[i].offset_bytes + extent->batches[i].bytes == length_bytes)
			return true;
	return false;
}

uint64_t
rig_data_offset(const struct node_rig *rig, uint32_t slot, uint64_t offset_bytes)
{
	return ONDISK_SLOTS_OFFSET + slot * rig->options.slot_bytes + ONDISK_SLOT_HEAD_BYTES +
	    offset_bytes;
}

uint64_t
rig_capacity(const struct node_rig *rig)
{
	return rig->options.slot_bytes - ONDISK_SLOT_HEAD_BYTES;
}
