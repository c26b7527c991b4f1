/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_direct.c -- a read at storage nodes, and each way in which it ends at its gateway: direct*.c are built into this
 * test, with a planted bug
 *
 * Their surroundings are faked: a map of one block at three nodes, a lease, and whatever nodes answer.
 */
#define CLEAVE_MUTANTS
#include "vm-client/library/direct.c"
#include "vm-client/library/direct_list.c"
#include "vm-client/library/direct_node.c"
#include "vm-client/library/direct_tell.c"

#include <criterion/criterion.h>

#include "base/crc32c.h"
#include "cleave/status.h"
#include "splitlib/core/dev_ptr_raw.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/time_passes.h"

#define NODES 3u
#define EPOCH 7u
#define SHARD 2u /* of the source */

struct mutant_set mutants_on;

static struct sim_world *world;
static struct cleave_client client;
static struct cleave_volume volume;
static struct message message;
static struct cleave_io io;
static struct connection connection, other_connection;
static struct map_record record;
static struct wire_map_source source;
static uint8_t stored[CLEAVE_BLOCK_BYTES], read_into[CLEAVE_BLOCK_BYTES], staging[65536];
static uint8_t tickets[DIRECT_READS_MAX * DIRECT_REQUESTS_MAX * DIRECT_TICKET_STRIDE];
static bool has_map, has_lease, is_done, is_routed;
static uint32_t doubt_count, useless_count, ask_count;
static char ask_text[256]; /* the last one's */
static struct fake_qp {
	const struct split_qp_ops *ops;
	void *arg;
	struct split_send *sends[4];
	uint32_t send_count;
	bool is_closed;
} qps[NODES];

/* ---- surroundings ---- */

bool
volume_is_live(const struct cleave_volume *of)
{
	(void)of;
	return true;
}

void
volume_wake(struct cleave_volume *of)
{
	(void)of;
}

int
leases_want(struct cleave_volume *of, bool while_used)
{
	(void)of;
	return while_used ? 0 : -EINVAL;
}

void
leases_use(struct cleave_volume *of)
{
	(void)of;
}

bool
leases_hold(const struct cleave_volume *of, uint32_t shard, uint32_t epoch)
{
	(void)of;
	(void)shard;
	return has_lease && epoch == EPOCH;
}

bool
maps_are_leased(const struct cleave_volume *of, uint64_t offset_bytes)
{
	(void)of;
	(void)offset_bytes;
	return has_lease;
}

struct connection *
volume_connection_of(struct cleave_volume *of, uint32_t shard)
{
	(void)of;
	return shard == SHARD ? &connection : &other_connection;
}

int
maps_want(struct cleave_volume *of, const struct maps_options *options)
{
	(void)of;
	(void)options;
	return 0;
}

bool
maps_look(struct cleave_volume *of, uint64_t offset_bytes, struct map_block *ret_block)
{
	(void)of;
	(void)offset_bytes;
	*ret_block = (struct map_block){ .record = &record,
		.source = record.source == WIRE_MAP_ZEROS ? NULL : &source,
		.block_crc = crc32c(0, stored, sizeof(stored)),
		.epoch = EPOCH,
		.serial = 1 };
	return has_map && has_lease;
}

void
maps_doubt(struct cleave_volume *of, uint64_t offset_bytes, uint64_t serial, bool is_useless)
{
	(void)of;
	(void)offset_bytes;
	cr_assert_eq(serial, 1);
	doubt_count++;
	useless_count += is_useless;
}

void
message_route(struct message *of)
{
	cr_assert_eq(of, &message);
	is_routed = true;
}

void
message_on_direct(struct message *of)
{
	cr_assert_eq(of, &message);
	memcpy(read_into, staging, sizeof(read_into));
	is_done = true;
}

int
cleave_control(struct cleave_client *of, struct cleave_call *call, const char *text)
{
	(void)of;
	(void)call;
	(void)snprintf(ask_text, sizeof(ask_text), "%s", text);
	ask_count++;
	return 0;
}

dev_ptr
dev_alloc(struct split_port *port, size_t bytes)
{
	(void)port;
	cr_assert_eq(bytes, sizeof(tickets));
	return dev_ptr_of(tickets);
}

void
dev_free(struct split_port *port, dev_ptr memory)
{
	(void)port;
	(void)memory;
}

void
dev_copy_from_host(struct split_port *port, dev_ptr dst, const void *src, size_t bytes)
{
	(void)port;
	memcpy(dev_ptr_raw(dst), src, bytes);
}

static struct fake_qp *
fake_of(struct split_qp *qp)
{
	return (struct fake_qp *)(void *)qp;
}

struct split_qp *
connect_qp(struct split_port *port, const struct split_connect_options *options)
{
	struct fake_qp *qp = &qps[options->address[0] - '1'];

	(void)port;
	*qp = (struct fake_qp){ .ops = options->ops, .arg = options->arg };
	return (struct split_qp *)(void *)qp;
}

void
split_qp_close(struct split_qp *qp)
{
	fake_of(qp)->is_closed = true;
}

int
split_send(struct split_qp *qp, struct split_send *send)
{
	struct fake_qp *fake = fake_of(qp);

	cr_assert_lt(fake->send_count, NUM_COUNT(fake->sends));
	fake->sends[fake->send_count++] = send;
	return 0;
}

void
split_msg_release(struct split_msg *msg)
{
	(void)msg;
}

/* ---- what happens ---- */

static void
node_ready(uint32_t index)
{
	uint8_t hello[WIRE_HELLO_BYTES];

	wire_hello_encode(hello,
	    &(struct wire_hello){ .level = CLEAVE_LEVEL_READS,
		.role = WIRE_ROLE_NODE,
		.node_id = index + 1 });
	qps[index].ops->on_ready((struct split_qp *)(void *)&qps[index], hello, sizeof(hello),
	    qps[index].arg);
}

static bool
start(void)
{
	is_done = is_routed = false;
	message.direct = NULL;
	return direct_start(&message);
}

static void
setup(void)
{
	world = sim_world_create(1);
	client = (struct cleave_client){ .loop = sim_loop_create(world, "client") };
	client.engines = engine_set_create(client.loop, &(struct engine_set_options){ 0 });
	volume = (struct cleave_volume){ .magic = VOLUME_MAGIC,
		.client = &client,
		.sm = { .state = VOLUME_OPEN } };
	io = (struct cleave_io){ .op = CLEAVE_READ, .data = read_into };
	message = (struct message){ .magic = MESSAGE_MAGIC,
		.client = &client,
		.volume = &volume,
		.io = &io,
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.staging = dev_ptr_of(staging) };
	for (uint32_t i = 0; i < sizeof(stored); i++)
		stored[i] = (uint8_t)(i * 7);
	record = (struct map_record){ .block_count = 1,
		.record_blocks = 1,
		.stored_bytes = sizeof(stored),
		.stored_crc = crc32c(0, stored, sizeof(stored)) };
	source =
	    (struct wire_map_source){ .extent = extent_id_pack(&(struct extent_id){ SHARD, 1, 5 }),
		    .to_bytes = 1u << 20 };
	connection.volume = other_connection.volume = &volume;
	for (uint32_t i = 0; i < NODES; i++)
		source.copies[i] = (struct wire_map_copy){ .node_id = i + 1, .key_number = 9 };
	has_map = has_lease = true;
	doubt_count = useless_count = ask_count = 0;
	memset(qps, 0, sizeof(qps));
	memset(&mutants_on, 0, sizeof(mutants_on));
	time_passes(world, client.loop, NUM_S(1));
	cr_assert_eq(direct_want(&volume), 0);
	cr_assert_eq(ask_count, 1);
	nodes_on_answer(&client.nodes_call, 0,
	    "{\"nodes\":[{\"id\":1,\"address\":\"1\"},{\"id\":2,\"address\":\"2\"},"
	    "{\"id\":3,\"address\":\"3\"}]}",
	    NULL, &client);
	cr_assert_not(start(), "nobody is connected yet");
	for (uint32_t i = 0; i < NODES; i++)
		node_ready(i);
}

static void
teardown(void)
{
	direct_fini(&volume);
	free(connection.lease.message);
	connection.lease.message = NULL;
	engine_set_destroy(client.engines);
	loop_destroy(client.loop);
	sim_world_destroy(world);
}

TestSuite(direct, .init = setup, .fini = teardown);

/* The node that was asked last; its sends have completed. */
static uint32_t
asked(void)
{
	for (uint32_t i = 0; i < NODES; i++) {
		if (qps[i].send_count == 0)
			continue;
		for (uint32_t k = 0; k < qps[i].send_count; k++)
			qps[i].sends[k]->fn(qps[i].sends[k], 0, qps[i].sends[k]->arg);
		return i;
	}
	cr_assert(false, "no node was asked");
	return 0;
}

static void
take(uint32_t node, const struct wire_node_reply *reply, const uint8_t *payload)
{
	struct wire_header header;
	struct split_msg msg = { .header = &header }, *msgs[] = { &msg };

	wire_node_reply_encode(&header, reply);
	if (payload != NULL) {
		header.payload_bytes = msg.payload_bytes = reply->length_bytes;
		msg.payload = dev_ptr_of(payload);
	}
	qps[node].ops->on_messages((struct split_qp *)(void *)&qps[node], msgs, 1, qps[node].arg);
}

/* @node answers all that it was asked: tickets believed or not, the read with @rc, or @payload. */
static void
answer(uint32_t node, bool believes, int rc, const uint8_t *payload)
{
	struct fake_qp *qp = &qps[node];
	uint32_t count = qp->send_count;

	qp->send_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct wire_header *header = qp->sends[i]->header;
		struct wire_node_reply reply = { .opcode = (enum wire_opcode)header->opcode,
			.request_id = header->request_id,
			.id = { .shard = UINT32_MAX } };

		if (header->opcode == WIRE_TICKETS) {
			reply.offset_bytes = believes;
			take(node, &reply, NULL);
			continue;
		}
		reply.id = extent_id_unpack(header->object_id);
		reply.rc = rc;
		reply.length_bytes = rc == 0 ? header->length_bytes : 0;
		take(node, &reply, rc == 0 ? payload : NULL);
	}
}

static void
node_ends(uint32_t node)
{
	qps[node].send_count = 0;
	qps[node].ops->on_closed((struct split_qp *)(void *)&qps[node], -ECONNRESET, NULL,
	    qps[node].arg);
}

/* ---- */

Test(direct, a_block_is_read_at_a_node_its_ticket_shown_once)
{
	uint32_t node;

	cr_assert(start());
	node = asked();
	cr_assert_eq(qps[node].send_count, 2, "a ticket, and the read");
	answer(node, true, 0, stored);
	cr_assert(is_done && !is_routed);
	cr_assert_eq(memcmp(read_into, stored, sizeof(stored)), 0);
	cr_assert_eq(client.stats.direct_reads, 1);
	for (uint32_t i = 0; i < 2 * NODES; i++) {
		cr_assert(start());
		node = asked();
		if (i >= NODES)
			cr_assert_eq(qps[node].send_count, 1, "it was shown");
		answer(node, true, 0, stored);
		cr_assert(is_done);
	}
}

Test(direct, without_a_map_a_lease_or_a_ticket_the_gateway_is_asked)
{
	uint64_t unreached = client.stats.direct_unreached;

	has_map = false;
	cr_assert_not(start());
	cr_assert_eq(client.stats.direct_unmapped, 1);
	has_map = true;
	has_lease = false;
	cr_assert_not(start());
	cr_assert_eq(client.stats.direct_unleased, 1);
	has_lease = true;
	memset(source.copies, 0, sizeof(source.copies));
	source.copies[0].node_id = 1;
	cr_assert_not(start());
	cr_assert_eq(client.stats.direct_unreached, unreached + 1);
}

Test(direct, more_than_there_are_places_for_are_read_at_the_gateway)
{
	record.source =
	    WIRE_MAP_ZEROS; /* no node is asked, and each has its place until the loop's next turn */
	for (uint32_t i = 0; i < DIRECT_READS_MAX; i++)
		cr_assert(start());
	cr_assert_eq(client.stats.direct_crowded, 0);
	cr_assert_not(start());
	cr_assert_eq(client.stats.direct_crowded, 1);
}

Test(direct, a_lease_tells_how_much_was_read_once)
{
	struct wire_lease lease = { .is_reply = false };

	for (uint32_t i = 0; i < 2; i++) {
		cr_assert(start());
		answer(asked(), true, 0, stored);
	}
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.read_count, 2);
	cr_assert_eq(lease.read_bytes, 2 * CLEAVE_BLOCK_BYTES);
	cr_assert_eq(lease.suspect, 0);
	/* Another read, while that is being sent. */
	cr_assert(start());
	answer(asked(), true, 0, stored);
	direct_told(&connection, &lease);
	lease = (struct wire_lease){ .is_reply = false };
	direct_tell(&other_connection, &lease);
	cr_assert_eq(lease.read_count, 1);
	cr_assert_eq(lease.read_bytes, CLEAVE_BLOCK_BYTES);
}

/* So many reads of a block. */
static void
read_often(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		cr_assert(start());
		answer(asked(), true, 0, stored);
		cr_assert(is_done);
	}
}

static struct wire_lease_read
told(const struct wire_lease *lease, uint32_t index)
{
	struct wire_lease_read read;
	const uint8_t *reads = connection.lease.message->reads;
	const char *field = NULL;

	cr_assert(wire_lease_reads_are_whole(reads, lease->payload_bytes));
	reads += WIRE_LEASE_READS_HEAD_BYTES;
	cr_assert_geq(lease->payload_bytes, (index + 1) * WIRE_LEASE_READ_BYTES);
	cr_assert_eq(wire_lease_read_decode(reads + index * WIRE_LEASE_READ_BYTES, &read, &field),
	    0, "%s", field);
	return read;
}

Test(direct, the_owner_of_a_run_is_told_of_some_of_its_reads)
{
	struct wire_lease lease = { .wants_hot = true };
	struct wire_lease_read read;

	volume.info.segment_base = 40;
	message.offset_bytes = CLEAVE_SEGMENT_BYTES + 3 * CLEAVE_CHUNK_BYTES;
	source.from_bytes = 4096;
	record.offset_bytes = 8192;
	record.codec_id = ENGINE_NONE;
	read_often(32 * WIRE_LEASE_SAMPLE);
	direct_tell(&other_connection, &lease);
	cr_assert_eq(lease.payload_bytes, 0, "it has another port's shards");
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.payload_bytes, WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES);
	read = told(&lease, 0);
	cr_assert_eq(read.segment, 41);
	cr_assert_eq(read.chunk, 3);
	cr_assert_eq(read.extent, source.extent);
	cr_assert_eq(read.from_bytes, 4096);
	cr_assert(read.read_count > 16 && read.read_count < 48, "%u", read.read_count);
	cr_assert_eq(read.small_count, read.read_count);
	cr_assert_eq(read.stored_bytes, read.read_count * record.stored_bytes);
	cr_assert_eq(read.codec_id, record.codec_id);
	/* Not sent: it is told again. Sent: it is not. */
	lease = (struct wire_lease){ .is_reply = false };
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.payload_bytes, WIRE_LEASE_READS_HEAD_BYTES + WIRE_LEASE_READ_BYTES);
	direct_told(&connection, &lease);
	lease = (struct wire_lease){ .is_reply = false };
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.payload_bytes, 0);
}

Test(direct, runs_are_told_of_as_far_as_there_is_room)
{
	struct wire_lease lease = { .is_reply = false };

	for (uint32_t i = 0; i < WIRE_LEASE_READS_MAX + 8; i++) {
		source.extent = extent_id_pack(&(struct extent_id){ SHARD, 1, 1 + i });
		read_often(8 * WIRE_LEASE_SAMPLE);
	}
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.payload_bytes, WIRE_LEASE_READS_BYTES_MAX);
	for (uint32_t i = 1; i < WIRE_LEASE_READS_MAX; i++)
		cr_assert_gt(told(&lease, i).extent, told(&lease, i - 1).extent);
	direct_told(&connection, &lease);
	cr_assert_eq(volume.direct->run_count, 0);
}

Test(direct, the_owner_of_a_copy_that_is_bad_is_told_of_it)
{
	static uint8_t other[CLEAVE_BLOCK_BYTES];
	struct wire_lease lease = { .is_reply = false };
	uint32_t node;

	cr_assert(start());
	node = asked();
	answer(node, true, 0, other);
	answer(asked(), true, 0, stored);
	cr_assert(is_done);
	cr_assert_eq(client.stats.direct_damaged, 0, "another copy was good");
	direct_tell(&other_connection, &lease);
	cr_assert_eq(lease.suspect, 0, "it has another port's shards");
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.suspect, source.extent);
	cr_assert_eq(lease.suspect_node, node + 1);
	direct_told(&connection, &lease);
	lease = (struct wire_lease){ .is_reply = false };
	direct_tell(&connection, &lease);
	cr_assert_eq(lease.suspect, 0, "it was told");
}

Test(direct, a_lease_that_is_over_at_its_end_has_it_read_again)
{
	uint32_t node;

	cr_assert(start());
	node = asked();
	has_lease = false;
	answer(node, true, 0, stored);
	cr_assert(is_routed && !is_done);
	cr_assert_eq(client.stats.direct_unleased, 1);
}

Test(direct, with_its_planted_bug_the_end_is_not_judged)
{
	uint32_t node;

	mutant_set_add(&mutants_on, MUTANT_direct_lease_unjudged);
	cr_assert(start());
	node = asked();
	has_lease = false;
	answer(node, true, 0, stored);
	cr_assert(is_done);
}

/* Each copy fails once; with the last one the gateway is asked. */
static void
fails_everywhere(bool believes, int rc, const uint8_t *payload)
{
	cr_assert(start());
	for (uint32_t i = 0; i < NODES; i++) {
		cr_assert_not(is_routed);
		answer(asked(), believes, rc, payload);
	}
	cr_assert(is_routed && !is_done);
	cr_assert_eq(client.stats.direct_retries, NODES - 1);
}

Test(direct, an_extent_that_is_gone_is_asked_for_elsewhere_and_the_map_anew)
{
	fails_everywhere(true, -ENOENT, NULL);
	cr_assert_eq(doubt_count, NODES);
	cr_assert_eq(useless_count, 1, "no copy is left");
}

Test(direct, bytes_that_are_not_what_the_map_says_are_not_returned)
{
	static uint8_t other[CLEAVE_BLOCK_BYTES];

	fails_everywhere(true, 0, other);
	cr_assert_eq(client.stats.checksum_errors, NODES);
	cr_assert_eq(client.stats.direct_damaged, 1);
	cr_assert(start());
	answer(asked(), true, 0, other);
	answer(asked(), true, 0, stored);
	cr_assert(is_done, "the next copy was good");
}

Test(direct, a_ticket_that_is_refused_is_not_shown_again)
{
	fails_everywhere(false, -EKEYREVOKED, NULL);
	cr_assert_gt(doubt_count, 0);
	cr_assert_geq(client.stats.direct_tickets_refused, NODES);
	cr_assert_not(start(), "no ticket is left");
	for (uint32_t i = 0; i < NODES; i++)
		source.copies[i].key_number++;
	cr_assert(start(), "a newer map has others");
	answer(asked(), true, 0, stored);
	cr_assert(is_done);
}

Test(direct, a_node_that_is_gone_is_left_out_and_another_one_asked)
{
	uint32_t node;

	cr_assert(start());
	node = asked();
	node_ends(node);
	cr_assert_not(is_routed);
	answer(asked(), true, 0, stored);
	cr_assert(is_done);
	for (uint32_t i = 0; i < 2 * NODES; i++) {
		cr_assert(start());
		cr_assert_neq(asked(), node);
		answer(asked(), true, 0, stored);
	}
	time_passes(world, client.loop, DIRECT_LEFT_OUT_NS);
	cr_assert(start());
	cr_assert_eq(volume.direct->nodes[node]->sm.state, DIRECT_NODE_CONNECTING);
	answer(asked(), true, 0, stored);
}

/* The answer to who is where: all three, at the addresses of before. */
static void
nodes_answer(void)
{
	nodes_on_answer(&client.nodes_call, 0,
	    "{\"nodes\":[{\"id\":1,\"address\":\"1\"},{\"id\":2,\"address\":\"2\"},"
	    "{\"id\":3,\"address\":\"3\"}]}",
	    NULL, &client);
}

/* The first node's connection, or the attempt, ends; so long later that it is tried again. */
static void
first_node_fails(void)
{
	node_ends(0);
	if (client.is_nodes_call_out)
		nodes_answer();
	time_passes(world, client.loop, NUM_S(65));
	if (start())
		answer(asked(), true, 0, stored);
}

Test(direct, a_node_that_is_not_reached_time_after_time_is_named_to_a_gateway)
{
	static const char nobody[] = "{\"op\":\"volume.nodes\",\"id\":0}";

	first_node_fails(); /* a connection that stood: the first attempt is under way */
	cr_assert_str_eq(ask_text, nobody);
	for (uint32_t i = 1; i < DIRECT_UNREACHED_DIALS; i++) {
		first_node_fails();
		cr_assert_str_eq(ask_text, nobody, "after %u", i);
	}
	first_node_fails();
	cr_assert_str_eq(ask_text, "{\"op\":\"volume.nodes\",\"id\":0,\"unreached\":[1]}");
	/* The node is reached: said at once, though a question was answered just now. */
	ask_text[0] = '\0';
	node_ready(0);
	cr_assert_str_eq(ask_text, nobody, "it was reached");
	nodes_answer();
	first_node_fails();
	cr_assert_str_eq(ask_text, nobody);
}

/* A node has moved: that it was not reached where it was is no word about where it is now. */
Test(direct, a_node_that_has_moved_is_not_called_unreached)
{
	struct direct_node *node = volume.direct->nodes[0];

	node->dials_failed = DIRECT_UNREACHED_DIALS;
	node_leave_out(node);
	volume.direct->asked_ns = 0;
	direct_nodes_ask(volume.direct);
	cr_assert_str_eq(ask_text, "{\"op\":\"volume.nodes\",\"id\":0,\"unreached\":[1]}");
	nodes_on_answer(&client.nodes_call, 0,
	    "{\"nodes\":[{\"id\":1,\"address\":\"elsewhere\"},{\"id\":2,\"address\":\"2\"},"
	    "{\"id\":3,\"address\":\"3\"}]}",
	    NULL, &client);
	cr_assert_str_eq(ask_text, "{\"op\":\"volume.nodes\",\"id\":0}", "at once");
	cr_assert(client.is_nodes_call_out);
	cr_assert_not(node_is_left_out(node), "it is tried where it is now");
	nodes_answer();
}

/* An attempt costs nobody anything, and is what tells people that the node is reached again. */
Test(direct, a_node_that_is_not_reached_is_tried_again_soon)
{
	struct direct_node *node = volume.direct->nodes[0];

	node->failures_in_row = node->dials_failed = 100;
	node_leave_out(node);
	cr_assert_eq(node->left_out_until_ns - loop_now_ns(client.loop), NUM_S(16));
	node->dials_failed = 0; /* it is slow */
	node_leave_out(node);
	cr_assert_eq(node->left_out_until_ns - loop_now_ns(client.loop), NUM_S(64));
}

Test(direct, all_nodes_that_are_not_reached_have_room_in_a_question)
{
	char text[NODES_TEXT_BYTES];

	for (uint32_t i = 0; i < DIRECT_NODES_MAX; i++) {
		if (volume.direct->nodes[i] == NULL)
			volume.direct->nodes[i] = direct_node_create(volume.direct, i);
		volume.direct->nodes[i]->id = UINT32_MAX - i;
		volume.direct->nodes[i]->is_listed = true;
		volume.direct->nodes[i]->dials_failed = DIRECT_UNREACHED_DIALS;
	}
	volume.info.id = UINT64_MAX;
	nodes_ask_write(volume.direct, text);
	cr_assert_str_eq(text + strlen(text) - 13, ",4294967232]}");
}

Test(direct, a_node_that_is_slow_loses_its_connection)
{
	uint32_t node;

	cr_assert(start());
	node = asked();
	time_passes(world, client.loop, DIRECT_SLOW_NS);
	cr_assert(qps[node].is_closed);
	node_ends(node);
	answer(asked(), true, 0, stored);
	cr_assert(is_done);
}

Test(direct, nothing_is_returned_for_a_read_that_was_given_up)
{
	uint32_t node;

	cr_assert(start());
	node = asked();
	direct_cancel(&message);
	answer(node, true, 0, stored);
	cr_assert(!is_done && !is_routed);
	cr_assert(start(), "its place is free again");
	answer(asked(), true, 0, stored);
}

Test(direct, zeros_need_no_node)
{
	record.source = WIRE_MAP_ZEROS;
	memset(staging, 1, sizeof(staging));
	cr_assert(start());
	cr_assert_not(is_done, "no callback runs inside the call");
	time_passes(world, client.loop, 1);
	cr_assert(is_done);
	cr_assert_eq(read_into[0], 0);
}

Test(direct, an_answer_that_breaks_the_protocol_ends_the_connection)
{
	uint32_t node;

	cr_assert(start());
	node = asked();
	qps[node].sends[1]->header->request_id += 2;
	answer(node, true, 0, stored);
	cr_assert(qps[node].is_closed);
	node_ends(node);
	answer(asked(), true, 0, stored);
	cr_assert(is_done);
}

Test(direct, a_volume_that_is_closed_waits_for_its_connections)
{
	cr_assert(direct_close(&volume));
	for (uint32_t i = 0; i < NODES; i++)
		node_ends(i);
	cr_assert_not(direct_close(&volume));
	cr_assert_not(start());
}

Test(direct, the_nth_allocation_fails)
{
	direct_fini(&volume);
	for (uint32_t nth = 1; nth <= 2; nth++) {
		alloc_fail_at(ALLOC_CLIENT, nth);
		cr_assert_eq(direct_want(&volume), -ENOMEM);
	}
	alloc_fail_at(ALLOC_CLIENT, 0);
	cr_assert_eq(direct_want(&volume), 0);
}
