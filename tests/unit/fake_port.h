/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_port.h -- a port's surroundings in memory and virtual time, for tests of one shard's paths
 *
 * Stands in for node_link.c, placement.c, manifest.c, shard.c, session.c, the split library and the
 * engine set: it defines their functions, so a test program includes it once and links the rest.
 */
#ifndef CLEAVE_TESTS_FAKE_PORT_H
#define CLEAVE_TESTS_FAKE_PORT_H

#include "base/crc32c.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/envelope.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/scope.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/settings.h"
#include "middletier/common/shard.h"
#include "middletier/common/shard_events.h"
#include "middletier/extent/extent_table.h"
#include "middletier/extent/node_link.h"
#include "middletier/gateway/gateway.h"
#include "middletier/index/index.h"
#include "middletier/index/ring.h"
#include "middletier/index/run_index.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/merge/flush.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/reclaim_room.h"
#include "middletier/port/port.h"
#include "middletier/read/read_path.h"
#include "middletier/session/session.h"
#include "middletier/write/cut.h"
#include "middletier/write/write_path.h"
#include "middletier/write/write_room.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_node.h"
#include "unit/index_look.h"

/* ---- manifest, shard, session, gateway ---- */

static inline void
fake_on_commit(struct loop_timer *timer, void *arg)
{
	struct fake_commit commit = fake.commits[0];
	int rc = fake.commit_rc;

	(void)arg;
	fake.commit_count--;
	memmove(fake.commits, fake.commits + 1, fake.commit_count * sizeof(commit));
	if (fake.commit_count > 0)
		loop_timer_start(fake.loop, timer, loop_random_below(fake.loop, NUM_US(500)));
	for (uint32_t i = 0; i < commit.count && rc == 0; i++) {
		cr_assert_lt(fake.edit_count, NUM_COUNT(fake.edits));
		fake.edits[fake.edit_count++] = commit.edits[i];
	}
	commit.fn(rc, commit.arg);
}

int
mt_manifest_commit(struct mt_shard *shard, const struct mt_edit *edits, uint32_t count,
    mt_manifest_fn fn, void *arg)
{
	struct fake_commit *commit = &fake.commits[fake.commit_count];

	(void)shard;
	cr_assert_lt(fake.commit_count, NUM_COUNT(fake.commits));
	memcpy(commit->edits, edits, count * sizeof(*edits));
	commit->count = count;
	commit->fn = fn;
	commit->arg = arg;
	if (fake.commit_count++ == 0)
		loop_timer_start(fake.loop, &fake.commit_timer,
		    loop_random_below(fake.loop, NUM_US(500)));
	return 0;
}

/* The state that cut.c looks at: the edits above do not go into it. */
static struct mt_manifest_state fake_state;
static bool fake_is_settled = true;

const struct mt_manifest_state *
mt_manifest_state(const struct mt_shard *shard)
{
	(void)shard;
	return &fake_state;
}

bool
mt_manifest_is_settled(const struct mt_shard *shard)
{
	(void)shard;
	return fake_is_settled;
}

static inline void
fake_shard_stop(struct mt_shard *shard, int rc)
{
	fake.stop_rc = rc;
	mt_cut_stop(shard, rc);
	mt_write_path_stop(shard, rc);
	mt_read_path_on_shard(shard);
}

static const struct mt_shard_events fake_shard_events = {
	.stop = fake_shard_stop,
	.on_room = mt_write_path_on_room,
	.on_freed = mt_write_path_on_freed,
	.on_ring = mt_write_path_kick,
};

void
mt_session_request_done(struct mt_session *session, bool is_write)
{
	session->request_count--;
	session->write_count -= is_write;
	fake.done_count++;
}

bool
mt_session_may_write(const struct mt_session *session)
{
	(void)session;
	return !fake.is_session_gone;
}

bool
mt_session_is_live(const struct mt_session *session)
{
	(void)session;
	return !fake.is_session_gone;
}

void
mt_flush_kick(struct mt_shard *shard)
{
	(void)shard;
}

bool
mt_flush_can_gain(const struct mt_shard *shard)
{
	(void)shard;
	return fake.is_flushing;
}

int
mt_flush_drop(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	(void)shard;
	(void)segment_base;
	(void)segment_count;
	return 0;
}

uint32_t
mt_flush_pressure(const struct mt_shard *shard)
{
	return mt_reclaim_pressure(shard, 0);
}

/* ---- set-up ---- */

static uint8_t fake_payloads[FAKE_MSGS][ENGINE_RECORD_BYTES_MAX];

/* For the next fake_init. */
static uint64_t fake_ring_bytes = FAKE_RING_BYTES;
static const struct mt_cluster fake_cluster = { .shard_count = 1 };

static inline void
fake_init_engines(bool is_threaded)
{
	fake.keys = keyring_create();
	cr_assert_not_null(fake.keys);
	cr_assert_eq(engine_runner_init(&fake.engines.runner, fake.keys), 0);
	fake.engines.is_threaded = is_threaded;
}

#define FAKE_KEY_ID 7u

/* Writes from now on are encrypted with data key @key_id, which the port has from here on; 0: nothing is. */
static inline void
fake_encrypt(uint32_t key_id)
{
	uint8_t key[KEYRING_KEY_BYTES] = { (uint8_t)key_id, 1 };

	if (key_id != 0)
		cr_assert_eq(keyring_put(fake.keys, key_id, key), 0);
	fake.session.volume.key_id = key_id;
	fake.latency_session.volume.key_id = key_id;
}

static inline void
fake_init(uint64_t seed, bool is_threaded)
{
	memset(&fake, 0, sizeof(fake));
	log_set_level(LOG_OFF);
	fake.world = sim_world_create(seed);
	fake.loop = sim_loop_create(fake.world, "port");
	fake.slot_bytes = FAKE_SLOT_BYTES;
	fake.shared.lease_until_ns = UINT64_MAX;
	fake.settings = (struct mt_settings){ .min_replicas = MT_REPLICAS_MAX,
		.frame_bytes = NUM_KIB(16),
		.node_timeout_ns = NUM_S(2),
		.index_cache_bytes = NUM_MIB(64),
		.hold_ns = NUM_S(5) };
	(void)guard_init();
	fake.device = mmap(NULL, FAKE_DEVICE_BYTES, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq((void *)fake.device, MAP_FAILED);
	cr_assert_eq(guard_add(fake.device, FAKE_DEVICE_BYTES), 0);
	fake_init_engines(is_threaded);
	fake.port = (struct mt_port){ .loop = fake.loop,
		.settings = &fake.settings,
		.shared = &fake.shared,
		.cluster = &fake_cluster,
		.links = fake.links,
		.link_count = FAKE_NODES,
		.engines = &fake.engines,
		.keys = fake.keys,
		.receive_count = FAKE_MSGS };
	fake.port.split = (struct split_port *)(void *)&fake;
	envelope_writer_init(&fake.port.envelopes, NULL, NULL);
	loop_timer_init(&fake.commit_timer, fake_on_commit, NULL);
	fake.port.zero_page = dev_alloc(NULL, 4096);
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.links[i] = (struct mt_link){ .port = &fake.port,
			.index = i,
			.node_id = i + 1,
			.slot_bytes = fake.slot_bytes };
		list_init(&fake.links[i].calls);
		fake.nodes[i].index = i;
		fake.nodes[i].is_up = true;
		loop_timer_init(&fake.nodes[i].timer, fake_on_node_timer, &fake.nodes[i]);
	}
	for (uint32_t i = 0; i < FAKE_MSGS; i++) {
		fake.msgs[i].msg.payload = dev_alloc(NULL, ENGINE_RECORD_BYTES_MAX);
		fake.msgs[i].msg.header = &fake.msgs[i].header;
		fake.msgs[i].payload = fake_payloads[i];
	}
	fake.session = (struct mt_session){ .port = &fake.port };
	fake.session.volume.id = 1;
	memcpy(fake.session.volume.name, "v", 2);
	fake.session.volume.codec_id = ENGINE_LZ4;
	fake.session.volume.level = 1;
	mt_scope_init(&fake.session.volume.scope, FAKE_SEGMENT);
	fake.latency_session = fake.session;
	fake.latency_session.volume.service_class = SERVICE_LATENCY;
	if (getenv("CLEAVE_TEST_ENCRYPTED") != NULL)
		fake_encrypt(FAKE_KEY_ID);
	fake.shard = (struct mt_shard){ .port = &fake.port,
		.events = &fake_shard_events,
		.index = 3,
		.epoch = 5,
		.next_sequence = 100 };
	fake.shard.sm.state = MT_SHARD_SERVING;
	fake.shard.block_index = mt_index_create(&fake.shard);
	cr_assert_not_null(fake.shard.block_index);
	fake.shard.ring = mt_ring_create(&fake.port, fake_ring_bytes);
	cr_assert_not_null(fake.shard.ring);
	cr_assert_eq(mt_reclaim_init(&fake.shard), 0);
	cr_assert_eq(mt_read_path_init(&fake.port), 0);
	cr_assert_eq(mt_run_cache_init(&fake.port), 0);
	cr_assert_eq(mt_write_path_init(&fake.shard), 0);
	cr_assert_eq(mt_write_path_take(&fake.shard), 0);
}

static inline void
fake_set_slot_bytes(uint64_t bytes)
{
	fake.slot_bytes = bytes;
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slot_bytes = bytes;
}

static inline void
fake_fini(void)
{
	mt_cut_stop(&fake.shard, 0);
	mt_write_path_fini(&fake.shard);
	mt_read_path_fini(&fake.port);
	mt_ring_destroy(fake.shard.ring, &fake.port);
	mt_reclaim_fini(&fake.shard);
	mt_index_destroy(fake.shard.block_index);
	mt_run_cache_fini(&fake.port);
	mt_shard_extents_free(&fake.shard);
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		loop_timer_stop(fake.loop, &fake.nodes[i].timer);
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++)
			free(fake.nodes[i].copies[k].bytes);
	}
	engine_runner_fini(&fake.engines.runner);
	keyring_destroy(fake.keys);
	sim_world_destroy(fake.world);
	guard_remove(fake.device, FAKE_DEVICE_BYTES);
	(void)munmap(fake.device, FAKE_DEVICE_BYTES);
}

/* The parts that answer requests, as shard.c stops them. */
static inline void
fake_stop(int rc)
{
	mt_write_path_stop(&fake.shard, rc);
	mt_read_path_on_shard(&fake.shard);
}

static inline void
fake_run_for(uint64_t ns)
{
	(void)sim_world_run(fake.world, NULL, NULL, sim_world_now_ns(fake.world) + ns);
}

static inline void
fake_on_passed(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

/* Time goes on though nothing else happens. */
static inline void
fake_pass(uint64_t ns)
{
	struct loop_timer timer;

	loop_timer_init(&timer, fake_on_passed, NULL);
	loop_timer_start(fake.loop, &timer, ns);
	fake_run_for(ns + NUM_MS(1));
}

static inline bool
fake_is_quiet(void *arg)
{
	(void)arg;
	return fake.session.request_count + fake.latency_session.request_count == 0;
}

/* Until every request is answered; false: some never are. */
static inline bool
fake_run_quiet(void)
{
	return sim_world_run(fake.world, fake_is_quiet, NULL,
		   sim_world_now_ns(fake.world) + NUM_S(60)) == 0;
}

/* ---- requests ---- */

/* The bytes of version @version of @block: every fourth version does not compress. */
static inline void
fake_pattern(uint8_t out[CLEAVE_BLOCK_BYTES], uint32_t block, uint64_t version)
{
	uint64_t words[CLEAVE_BLOCK_BYTES / 8];

	for (uint32_t i = 0; i < NUM_COUNT(words); i++)
		words[i] = version % 4 == 0 ? num_mix_u64((version << 32) + block * 512 + i)
					    : version;
	words[0] = version;
	words[1] = block;
	memcpy(out, words, sizeof(words));
}

/* The one that was given back longest ago, so that a test can look at answers for a while. */
static inline struct fake_msg *
fake_msg_take(void)
{
	for (uint32_t i = 0; i < FAKE_MSGS; i++) {
		struct fake_msg *msg = &fake.msgs[fake.next_msg++ % FAKE_MSGS];

		if (!msg->is_out) {
			msg->is_out = true;
			msg->is_answered = false;
			msg->on_reply = NULL;
			return msg;
		}
	}
	return NULL;
}

/* Are all messages of the pool out? */
static inline bool
fake_msg_take_is_empty(void)
{
	for (uint32_t i = 0; i < FAKE_MSGS; i++)
		if (!fake.msgs[i].is_out)
			return false;
	return true;
}

static inline struct wire_io
fake_io(enum wire_opcode opcode, uint32_t block, uint32_t block_count)
{
	return (struct wire_io){ .opcode = opcode,
		.segment = FAKE_SEGMENT,
		.request_id = fake.done_count,
		.offset_bytes = (uint64_t)block * CLEAVE_BLOCK_BYTES,
		.length_bytes = block_count * CLEAVE_BLOCK_BYTES,
		.epoch = 5 };
}

static inline void
fake_submit(struct fake_msg *msg, const struct wire_io *io)
{
	struct mt_session *session = fake.is_latency ? &fake.latency_session : &fake.session;

	session->request_count++;
	if (io->opcode == WIRE_READ || io->opcode == WIRE_BLOCK_STATUS ||
	    io->opcode == WIRE_CHUNK_MAP) {
		msg->msg.payload_bytes = 0;
		mt_read(&fake.shard, session, &msg->msg, io);
		return;
	}
	session->write_count++;
	mt_write(&fake.shard, session, &msg->msg, io);
}

/* Nodes answer nothing, or go on. */
static inline void
fake_stall_all(bool is_stalled)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		fake.nodes[i].is_stalled = is_stalled;
		if (!is_stalled)
			fake_node_resume(i);
		else
			loop_timer_stop(fake.loop, &fake.nodes[i].timer);
	}
}

/* As @io says, with the content that @block has in @version, and the blocks after it. */
static inline struct fake_msg *
fake_write_as(struct wire_io io, uint32_t block, uint64_t version)
{
	struct fake_msg *msg = fake_msg_take();
	uint8_t data[ENGINE_RECORD_BYTES_MAX];

	cr_assert_not_null(msg);
	for (uint32_t i = 0; i < io.length_bytes / CLEAVE_BLOCK_BYTES; i++)
		fake_pattern(data + i * CLEAVE_BLOCK_BYTES, block + i, version);
	fake_to_device(msg->msg.payload, data, io.length_bytes);
	msg->msg.payload_bytes = io.length_bytes;
	io.payload_crc = crc32c(0, data, io.length_bytes);
	fake_submit(msg, &io);
	return msg;
}

static inline struct fake_msg *
fake_write(uint32_t block, uint32_t block_count, uint64_t version)
{
	return fake_write_as(fake_io(WIRE_WRITE, block, block_count), block, version);
}

/* Writes by @more, which is told how many there were, until one waits: it is returned. At most @most. */
static inline struct fake_msg *
fake_write_until_one_waits(struct fake_msg *(*more)(uint32_t), uint32_t most)
{
	for (uint32_t i = 0; i < most; i++) {
		struct fake_msg *msg = more(i);

		fake_run_for(NUM_S(2));
		if (!msg->is_answered)
			return msg;
		cr_assert_eq(msg->reply.rc, 0);
	}
	cr_assert(false, "nothing waits");
	return NULL;
}

static inline struct fake_msg *
fake_read(uint32_t block, uint32_t block_count)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_READ, block, block_count);

	cr_assert_not_null(msg);
	fake_submit(msg, &io);
	return msg;
}

static inline struct fake_msg *
fake_discard(uint32_t block, uint32_t block_count)
{
	struct fake_msg *msg = fake_msg_take();
	struct wire_io io = fake_io(WIRE_DISCARD, block, block_count);

	cr_assert_not_null(msg);
	fake_submit(msg, &io);
	return msg;
}

/* Run until @msg is answered, and say how. */
static inline int
fake_wait(struct fake_msg *msg)
{
	cr_assert(fake_run_quiet());
	cr_assert(msg->is_answered);
	return msg->reply.rc;
}

/* A read of one block now gives @version; 0: zeros. */
static inline void
fake_expect(uint32_t block, uint64_t version)
{
	struct fake_msg *msg = fake_read(block, 1);
	uint8_t expected[CLEAVE_BLOCK_BYTES] = { 0 };

	if (version != 0)
		fake_pattern(expected, block, version);
	cr_assert_eq(fake_wait(msg), 0, "block %u rc %d", block, msg->reply.rc);
	cr_assert(memcmp(msg->payload, expected, sizeof(expected)) == 0, "block %u", block);
}

/* Serve, with nothing in the log yet. */
static inline void
fake_start(void)
{
	mt_write_path_start(&fake.shard);
	mt_read_path_on_shard(&fake.shard);
}

/* As fake_start, and its first log extent is open. */
static inline void
fake_start_quiet(void)
{
	fake_start();
	fake_run_for(NUM_MS(10));
	cr_assert_not_null(fake.shard.log);
}

/* FAKE_SUITES -- suites NAME, and NAME_threads with engine threads: of the test's setup_with(is_threaded), and teardown */
#define FAKE_SUITES(name)                                                                          \
	static void setup(void)                                                                    \
	{                                                                                          \
		setup_with(false);                                                                 \
	}                                                                                          \
	static void setup_threads(void)                                                            \
	{                                                                                          \
		setup_with(true);                                                                  \
	}                                                                                          \
	TestSuite(name, .init = setup, .fini = teardown);                                          \
	TestSuite(name##_threads, .init = setup_threads, .fini = teardown);

#endif /* CLEAVE_TESTS_FAKE_PORT_H */
