/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_node.h -- storage nodes, engines and device memory behind fake_port.h, which includes it
 *
 * A node keeps extents as bytes, checks every batch as a real one does, answers in order after a
 * seeded delay, and fails as it is told. Engine jobs run at once, or as threads would: each after a
 * seeded delay of its own.
 */
#ifndef CLEAVE_TESTS_FAKE_NODE_H
#define CLEAVE_TESTS_FAKE_NODE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../../engines/internal.h"
#include "base/crc32c.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/ticket.h"
#include "cleave/wire.h"
#include "middletier/common/port.h"
#include "middletier/common/settings.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/link_ticket.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/peer_link.h"
#include "middletier/extent/placement.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/read/read_path.h"
#include "middletier/session/session.h"
#include "middletier/write/write_path.h"
#include "splitlib/sim/loop_sim.h"

#define FAKE_NODES 5u
#define FAKE_EXTENTS_MAX 512u
#define FAKE_MSGS 450u /* more than a batch has records */
#define FAKE_REPLY_MSGS 512u
#define FAKE_JOBS 128u
#define FAKE_DEVICE_BYTES NUM_MIB(128)
#define FAKE_SLOT_BYTES (NUM_KIB(512) + 12288u)
#define FAKE_RING_BYTES NUM_MIB(2)
#define FAKE_SEGMENT 7u

struct fake_copy {
	struct extent_id id;
	enum extent_kind kind;
	uint8_t *bytes;
	uint64_t length, sealed_bytes;
	uint64_t incarnation;
	uint32_t chain_crc;
	bool exists, is_sealed;
};

/* The @countdown-th request with @opcode from now on fails with @rc. */
struct fake_fault {
	enum wire_opcode opcode;
	uint32_t countdown; /* 0: never */
	int rc;
	bool is_sticky;
	bool is_done_anyway; /* the node does it, and then says that it failed */
	bool is_link_lost;   /* the link goes down instead of an answer */
};

struct fake_node {
	bool is_up, is_stalled, is_rotten;
	uint32_t wrong_count;
	bool refuses_wrong;            /* a batch that is none fails its append, not the test */
	uint64_t lent_to;              /* LEND */
	bool is_astray;                /* FIND: what follows the head is not what it says */
	bool is_full, is_reserve_full; /* for what is not, and for what is from the reserve */
	uint32_t slots_max;            /* 0: as many as are asked for */
	uint32_t index;
	struct fake_copy copies[FAKE_EXTENTS_MAX];
	uint32_t copy_count;
	uint64_t next_incarnation;
	struct fake_fault fault;
	struct loop_timer timer;
	uint32_t counts[256];              /* requests carried out, by opcode */
	struct wire_ticket_key ticket_key; /* number 0: it takes no clients */
};

struct fake_msg {
	struct split_msg msg;
	struct wire_header header;
	bool is_out;
	void (*on_reply)(struct fake_msg *fake, void *arg); /* NULL: recorded only */
	void *arg;
	/* The answer. */
	bool is_answered;
	struct wire_io_reply reply;
	uint32_t answer_number; /* 1 was the first */
	uint8_t *payload;       /* ENGINE_RECORD_BYTES_MAX of it */
};

struct engine_set {
	struct engine_runner runner;
	bool is_threaded;
	bool is_refusing; /* its queue is full */
	struct fake_job {
		struct engine_job *job;
		struct loop_timer timer;
	} jobs[FAKE_JOBS];
	uint32_t running_count, submit_count, urgent_count;
	uint32_t kind_counts[ENGINE_JOB_KIND_NR]; /* of those that were submitted */
};

struct fake_commit {
	struct mt_edit edits[MT_COMMIT_EDITS_MAX];
	uint32_t count;
	mt_manifest_fn fn;
	void *arg;
};

static struct fake_world {
	struct sim_world *world;
	struct loop *loop;
	struct mt_settings settings; /* a test changes them as it likes */
	struct mt_shared shared;     /* a lease for ever */
	struct mt_port port;
	struct mt_shard shard;
	struct mt_session session;
	struct mt_session latency_session; /* of another volume */
	bool is_latency;                   /* fake_submit: by that one */
	struct mt_link links[FAKE_NODES];
	struct fake_node nodes[FAKE_NODES];
	uint8_t *device;
	uint64_t device_used;
	uint32_t region_count; /* open */
	bool refuses_regions;
	struct fake_msg msgs[FAKE_MSGS];
	uint32_t next_msg;
	uint32_t hosts_until_failure; /* the n-th host_alloc from now on fails; 0: none */
	struct split_msg replies[FAKE_REPLY_MSGS];
	bool reply_used[FAKE_REPLY_MSGS];
	struct engine_set engines;
	struct keyring *keys;          /* of its engines */
	struct fake_commit commits[8]; /* under way, oldest first */
	uint32_t commit_count;
	struct loop_timer commit_timer;
	int commit_rc;              /* what the next ones end with */
	struct mt_edit edits[2048]; /* durable */
	uint32_t edit_count;
	uint32_t answer_count, done_count;
	int stop_rc;
	uint64_t slot_bytes;
	bool is_session_gone;
	bool is_flushing; /* flush.c has, or will have, a merge at work */
	/* The answer of mt_peer_link_send; NULL: nobody is there. */
	int (*on_peer)(const char *address, struct mt_peer_request *request);
	void (*on_forgotten)(struct mt_peer_request *request);
	uint64_t peer_gateway; /* that its key names; 0: there are none */
} fake;

/* ---- the split library ---- */

void *
host_alloc(struct split_port *port, size_t bytes)
{
	(void)port;
	if (fake.hosts_until_failure > 0 && --fake.hosts_until_failure == 0)
		return NULL;
	return calloc(1, bytes);
}

void
host_free(struct split_port *port, void *memory)
{
	(void)port;
	free(memory);
}

dev_ptr
dev_alloc(struct split_port *port, size_t bytes)
{
	dev_ptr at = { (uintptr_t)fake.device + fake.device_used };

	(void)port;
	if (fake.device_used + bytes > FAKE_DEVICE_BYTES)
		return DEV_PTR_NULL;
	fake.device_used = num_round_up(fake.device_used + bytes, 4096);
	return at;
}

void
dev_free(struct split_port *port, dev_ptr memory)
{
	(void)port;
	(void)memory;
}

static inline void
fake_from_device(void *out, dev_ptr at, size_t bytes)
{
	guard_enter();
	memcpy(out, (const void *)at.device_address_private, bytes);
	guard_leave();
}

static inline void
fake_to_device(dev_ptr at, const void *in, size_t bytes)
{
	guard_enter();
	if (bytes > 0) /* @in may be NULL otherwise */
		memcpy((void *)at.device_address_private, in, bytes);
	guard_leave();
}

void
dev_copy_to_host(struct split_port *port, void *dst, dev_ptr src, size_t bytes)
{
	(void)port;
	fake_from_device(dst, src, bytes);
}

void
dev_copy_from_host(struct split_port *port, dev_ptr dst, const void *src, size_t bytes)
{
	(void)port;
	fake_to_device(dst, src, bytes);
}

void
dev_publish(struct split_port *port, dev_ptr dst, uint64_t value)
{
	uint8_t bytes[sizeof(value)];

	(void)port;
	num_put_le64(bytes, value);
	fake_to_device(dst, bytes, sizeof(bytes));
}

/* A region's key is its address. */
struct dev_region {
	dev_ptr memory;
};

struct dev_region *
dev_region_open(struct split_port *port, dev_ptr memory, size_t bytes, uint32_t rights,
    struct dev_remote *ret_remote)
{
	struct dev_region *region = fake.refuses_regions ? NULL : calloc(1, sizeof(*region));

	(void)port;
	if (region == NULL)
		return NULL;
	fake.region_count++;
	region->memory = memory;
	*ret_remote = (struct dev_remote){ .address = memory.device_address_private,
		.bytes = bytes,
		.rights = rights };
	return region;
}

void
dev_region_close(struct dev_region *region)
{
	cr_assert_gt(fake.region_count, 0);
	fake.region_count--;
	free(region);
}

void
split_msg_reply(struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *pieces, uint32_t piece_count, void (*fn)(int rc, void *arg), void *arg)
{
	struct fake_msg *out = NUM_CONTAINER_OF(msg, struct fake_msg, msg);
	struct wire_header stamped = *header;
	const char *field = "";
	uint32_t bytes = 0;

	(void)fn;
	(void)arg;
	cr_assert(out->is_out, "answered twice");
	for (uint32_t i = 0; i < piece_count; i++) {
		fake_from_device(out->payload + bytes, pieces[i].ptr, pieces[i].bytes);
		bytes += pieces[i].bytes;
	}
	stamped.payload_bytes = bytes;
	cr_assert_eq(wire_io_reply_decode(&stamped, &out->reply, &field), 0, "%s", field);
	if (bytes > 0)
		cr_assert_eq(crc32c(0, out->payload, bytes), out->reply.payload_crc);
	out->is_out = false;
	out->is_answered = true;
	out->answer_number = ++fake.answer_count;
	if (out->on_reply != NULL)
		out->on_reply(out, out->arg);
}

void
split_msg_release(struct split_msg *msg)
{
	size_t index = (size_t)(msg - fake.replies);

	cr_assert_lt(index, FAKE_REPLY_MSGS);
	cr_assert(fake.reply_used[index]);
	fake.reply_used[index] = false;
}

static inline struct split_msg *
fake_reply_msg(const uint8_t *bytes, uint32_t count)
{
	uint32_t i = 0;

	while (fake.reply_used[i])
		cr_assert_lt(++i, FAKE_REPLY_MSGS);
	fake.reply_used[i] = true;
	if (dev_ptr_is_null(fake.replies[i].payload))
		fake.replies[i].payload = dev_alloc(NULL, ENGINE_STORED_BYTES_MAX);
	cr_assert(!dev_ptr_is_null(fake.replies[i].payload));
	fake_to_device(fake.replies[i].payload, bytes, count);
	fake.replies[i].payload_bytes = count;
	return &fake.replies[i];
}

static inline uint32_t
fake_replies_held(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_REPLY_MSGS; i++)
		count += fake.reply_used[i];
	return count;
}

/* ---- engines ---- */

static inline void
fake_on_job_timer(struct loop_timer *timer, void *arg)
{
	struct fake_job *slot = arg;
	struct engine_job *job = slot->job;

	(void)timer;
	slot->job = NULL;
	fake.engines.running_count--;
	engine_job_run(&fake.engines.runner, job);
	job->fn(job, job->arg);
}

int
engine_submit(struct engine_set *set, struct engine_job *job)
{
	uint32_t i = 0;

	set->submit_count++;
	set->kind_counts[job->kind]++;
	if (engine_job_check(job) != 0)
		return -EINVAL;
	if (!set->is_threaded) {
		engine_job_run(&set->runner, job);
		return 1;
	}
	if (set->is_refusing)
		return -ENOBUFS;
	while (i < FAKE_JOBS && set->jobs[i].job != NULL)
		i++;
	if (i == FAKE_JOBS)
		return -ENOBUFS;
	set->jobs[i].job = job;
	set->running_count++;
	loop_timer_init(&set->jobs[i].timer, fake_on_job_timer, &set->jobs[i]);
	loop_timer_start(fake.loop, &set->jobs[i].timer, loop_random_below(fake.loop, NUM_US(50)));
	return 0;
}

int
engine_submit_urgent(struct engine_set *set, struct engine_job *job)
{
	set->urgent_count++;
	return engine_submit(set, job);
}

uint32_t
engine_set_queued_count(const struct engine_set *set)
{
	(void)set;
	return 0;
}

/* ---- nodes ---- */

static inline struct fake_copy *
fake_copy_find(struct fake_node *node, const struct extent_id *id)
{
	for (uint32_t i = 0; i < node->copy_count; i++) {
		struct fake_copy *copy = &node->copies[i];

		if (copy->exists && copy->id.epoch == id->epoch && copy->id.counter == id->counter)
			return copy;
	}
	return NULL;
}

static inline uint32_t
fake_slots_taken(const struct fake_node *node)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < node->copy_count; i++)
		count += node->copies[i].exists;
	return count;
}

static inline int
fake_do_create(struct fake_node *node, const struct wire_node *request,
    struct wire_node_reply *reply)
{
	struct fake_copy *copy;

	if ((request->flags & WIRE_FLAG_RESERVE) != 0 ? node->is_reserve_full : node->is_full)
		return -ENOSPC;
	if (node->slots_max != 0 && fake_slots_taken(node) >= node->slots_max)
		return -ENOSPC;
	if (fake_copy_find(node, &request->id) != NULL)
		return -EEXIST;
	cr_assert_lt(node->copy_count, FAKE_EXTENTS_MAX);
	copy = &node->copies[node->copy_count++];
	*copy = (struct fake_copy){ .id = request->id,
		.kind = request->kind,
		.exists = true,
		.incarnation = ++node->next_incarnation,
		.chain_crc = batch_chain_seed(&request->id, request->kind) };
	copy->bytes = malloc(fake.slot_bytes);
	reply->offset_bytes = copy->incarnation;
	return 0;
}

static inline bool
fake_is_opened(const struct extent_id *id)
{
	for (uint32_t i = 0; i < fake.edit_count; i++)
		if (fake.edits[i].kind == MT_EDIT_EXTENT_OPENED &&
		    fake.edits[i].id.counter == id->counter)
			return true;
	return false;
}

static inline int
fake_do_append(struct fake_node *node, const struct mt_call *call, struct wire_node_reply *reply)
{
	const struct wire_node *request = &call->request;
	struct fake_copy *copy = fake_copy_find(node, &request->id);
	static uint8_t data[BATCH_BYTES_MAX];
	uint32_t bytes = call->head_bytes;
	struct batch_check check;

	memcpy(data, call->host + WIRE_HEADER_BYTES, bytes);
	for (uint32_t i = 0; i < call->piece_count; i++) {
		fake_from_device(data + bytes, call->pieces[i].ptr, call->pieces[i].bytes);
		bytes += call->pieces[i].bytes;
	}
	cr_assert_eq(bytes, request->length_bytes);
	if (copy == NULL)
		return -ENOENT;
	if (copy->is_sealed)
		return -EPERM;
	if (request->offset_bytes != copy->length)
		return -ESPIPE;
	cr_assert(request->kind != EXTENT_LOG || fake_is_opened(&request->id));
	check = (struct batch_check){ .id = request->id,
		.kind = request->kind,
		.offset_bytes = copy->length,
		.prev_crc = copy->chain_crc,
		.must_check_payload = true };
	if (batch_check_run(data, bytes, &check) != 0) {
		cr_assert(node->refuses_wrong, "%s", check.ret_field);
		node->wrong_count++;
		return -EBADMSG;
	}
	cr_assert_leq(copy->length + bytes, fake.slot_bytes - MT_EXTENT_OVERHEAD_BYTES);
	memcpy(copy->bytes + copy->length, data, bytes);
	copy->length += bytes;
	copy->chain_crc = check.info.batch_crc;
	reply->offset_bytes = copy->length;
	return 0;
}

static inline int
fake_do_read(struct fake_node *node, const struct wire_node *request, struct split_msg **ret_msg)
{
	struct fake_copy *copy = fake_copy_find(node, &request->id);

	if (copy == NULL)
		return -ENOENT;
	if (request->offset_bytes + request->length_bytes > copy->length)
		return -ERANGE;
	if (node->is_rotten)
		copy->bytes[request->offset_bytes + request->length_bytes / 2] ^= 1;
	*ret_msg = fake_reply_msg(copy->bytes + request->offset_bytes, request->length_bytes);
	if (node->is_rotten)
		copy->bytes[request->offset_bytes + request->length_bytes / 2] ^= 1;
	return 0;
}

#include "unit/fake_looks.h" /* GATHER and FIND, over what is above */

static inline int
fake_do_cut(struct fake_node *node, const struct wire_node *request)
{
	struct fake_copy *copy = fake_copy_find(node, &request->id);

	if (copy == NULL)
		return -ENOENT;
	if (copy->length < request->offset_bytes)
		return -ERANGE;
	copy->length = copy->sealed_bytes = request->offset_bytes;
	copy->is_sealed = true;
	return 0;
}

static inline int
fake_do_delete(struct fake_node *node, const struct wire_node *request)
{
	struct fake_copy *copy = fake_copy_find(node, &request->id);

	if (copy == NULL || copy->incarnation != request->offset_bytes)
		return -ENOENT;
	free(copy->bytes);
	copy->bytes = NULL;
	copy->exists = false;
	return 0;
}

static inline int
fake_do(struct fake_node *node, struct mt_call *call, struct wire_node_reply *reply,
    struct split_msg **ret_msg)
{
	node->counts[call->request.opcode]++;
	switch (call->request.opcode) {
	case WIRE_EXTENT_CREATE:
		return fake_do_create(node, &call->request, reply);
	case WIRE_EXTENT_APPEND:
		return fake_do_append(node, call, reply);
	case WIRE_EXTENT_READ:
		return fake_do_read(node, &call->request, ret_msg);
	case WIRE_EXTENT_FIND:
		return fake_do_find(node, &call->request, reply, ret_msg);
	case WIRE_EXTENT_GATHER:
		return fake_do_gather(node, call, ret_msg);
	case WIRE_EXTENT_LEND:
		node->lent_to = call->request.offset_bytes;
		return 0;
	case WIRE_EXTENT_TRUNCATE:
		return fake_do_cut(node, &call->request);
	case WIRE_EXTENT_DELETE:
		return fake_do_delete(node, &call->request);
	default:
		cr_assert_fail("opcode %d", call->request.opcode);
		return -EINVAL;
	}
}

static inline void
fake_tell(struct mt_link *link, bool is_up)
{
	struct mt_shard *shard = &fake.shard;

	for (uint32_t i = 0; i < shard->extent_count; i++)
		if (shard->extents[i] != NULL)
			mt_extent_on_link(shard->extents[i], link, is_up);
	mt_write_path_on_link(shard, link, is_up);
	mt_read_path_on_link(&fake.port);
}

/* The link is lost: the node has carried out the first @done_count calls, and nobody was told. */
static inline void
fake_node_down(uint32_t index, uint32_t done_count)
{
	struct mt_link *link = &fake.links[index];
	struct fake_node *node = &fake.nodes[index];
	struct loop_link *first;

	if (!node->is_up)
		return;
	node->is_up = node->is_stalled = false;
	loop_timer_stop(fake.loop, &node->timer);
	while ((first = list_pop_front(&link->calls)) != NULL) {
		struct mt_call *call = LIST_ENTRY(first, struct mt_call, link);
		struct wire_node_reply reply = { 0 };
		struct split_msg *msg = NULL;

		if (done_count > 0) {
			done_count--;
			(void)fake_do(node, call, &reply, &msg);
			if (msg != NULL)
				split_msg_release(msg);
		}
		link->call_count--;
		call->fn(call, -ECONNRESET, NULL, NULL, call->arg);
	}
	fake_tell(link, false);
}

static inline void
fake_node_up(uint32_t index)
{
	if (fake.nodes[index].is_up)
		return;
	fake.nodes[index].is_up = true;
	fake_tell(&fake.links[index], true);
}

static inline void
fake_node_schedule(struct fake_node *node)
{
	if (!node->timer.is_active && !node->is_stalled &&
	    !list_is_empty(&fake.links[node->index].calls))
		loop_timer_start(fake.loop, &node->timer,
		    NUM_US(20) + loop_random_below(fake.loop, NUM_US(100)));
}

static inline void
fake_node_resume(uint32_t index)
{
	fake.nodes[index].is_stalled = false;
	fake_node_schedule(&fake.nodes[index]);
}

static inline void
fake_on_node_timer(struct loop_timer *timer, void *arg)
{
	struct fake_node *node = arg;
	struct mt_link *link = &fake.links[node->index];
	struct mt_call *call = LIST_ENTRY(list_first(&link->calls), struct mt_call, link);
	struct fake_fault *fault = &node->fault;
	struct wire_node_reply reply = { .opcode = call->request.opcode };
	struct split_msg *msg = NULL;
	int rc;

	(void)timer;
	if (fault->countdown > 0 && fault->opcode == call->request.opcode &&
	    --fault->countdown == 0) {
		if (fault->is_link_lost) {
			fake_node_down(node->index, fault->is_done_anyway);
			return;
		}
		if (fault->is_done_anyway)
			(void)fake_do(node, call, &reply, &msg);
		if (msg != NULL)
			split_msg_release(msg);
		msg = NULL;
		fault->countdown = fault->is_sticky;
		rc = fault->rc;
	} else {
		rc = fake_do(node, call, &reply, &msg);
	}
	list_remove(&call->link);
	link->call_count--;
	call->fn(call, rc, &reply, msg, call->arg);
	if (node->is_up)
		fake_node_schedule(node);
}

int
mt_link_call(struct mt_link *link, struct mt_call *call)
{
	if (!fake.nodes[link->index].is_up)
		return -ENOTCONN;
	/* A request must be one that a real link can send. */
	cr_assert_leq(WIRE_HEADER_BYTES + call->head_bytes, SPLIT_HEADER_BYTES_MAX);
	cr_assert_leq(call->piece_count, NUM_COUNT(call->pieces));
	call->node = link;
	call->sent_ns = loop_now_ns(fake.loop);
	call->link = (struct loop_link){ NULL, NULL };
	list_push_back(&link->calls, &call->link);
	link->call_count++;
	fake_node_schedule(&fake.nodes[link->index]);
	return 0;
}

bool
mt_link_is_up(const struct mt_link *link)
{
	return fake.nodes[link->index].is_up;
}

void
mt_link_refresh(struct mt_link *link)
{
	(void)link;
}

struct mt_link *
mt_port_link(struct mt_port *port, uint32_t node_id)
{
	(void)port;
	return node_id >= 1 && node_id <= fake.port.link_count ? &fake.links[node_id - 1] : NULL;
}

/* No gateway beside this one. */
struct mt_peer_link *
mt_peer_link_to(struct mt_port *port, const char *address)
{
	static struct mt_peer_link links[4];
	struct mt_peer_link *link = links;

	while (link->address[0] != '\0' && strcmp(link->address, address) != 0)
		cr_assert_lt(++link, links + NUM_COUNT(links));
	(void)snprintf(link->address, sizeof(link->address), "%s", address);
	return fake.on_peer == NULL || port == NULL ? NULL : link;
}

int
mt_peer_link_send(struct mt_peer_link *link, struct mt_peer_request *request)
{
	return fake.on_peer(link->address, request);
}

uint64_t
mt_peer_link_gateway(const struct mt_peer_link *link)
{
	(void)link;
	return fake.peer_gateway;
}

bool
mt_peer_link_forget(struct mt_peer_request *request)
{
	cr_assert_not(request->is_forgotten);
	fake.on_forgotten(request); /* which sets that where its bytes are on their way */
	return !request->is_forgotten;
}

int
mt_link_ticket(struct mt_link *link, uint64_t session_id, const struct split_subject *subject,
    struct wire_ticket *ticket)
{
	const struct ticket_bearer bearer = { link->node_id, session_id, subject };
	const struct wire_ticket_key *key = &fake.nodes[link->index].ticket_key;

	return key->number == 0 ? -ENOTSUP : ticket_make(key, &bearer, ticket);
}

int
mt_placement_pick(struct mt_port *port, enum extent_kind kind, uint32_t count,
    struct mt_link **ret_links)
{
	uint32_t first = (uint32_t)loop_random_below(fake.loop, port->link_count);
	uint32_t up_count = 0, picked = 0;

	for (uint32_t i = 0; i < port->link_count; i++)
		up_count += fake.nodes[i].is_up;
	if (up_count < count)
		return -EHOSTDOWN;
	for (uint32_t i = 0; i < port->link_count && picked < count; i++) {
		uint32_t at = (first + i) % port->link_count;

		if (fake.nodes[at].is_up &&
		    !(kind == MT_PLACE_RESERVE ? fake.nodes[at].is_reserve_full
					       : fake.nodes[at].is_full))
			ret_links[picked++] = &fake.links[at];
	}
	return picked == count ? 0 : -ENOSPC;
}

uint32_t
mt_placement_domain_count(struct mt_port *port)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port->link_count; i++)
		count += fake.nodes[i].is_up;
	return count;
}

#endif /* CLEAVE_TESTS_FAKE_NODE_H */
