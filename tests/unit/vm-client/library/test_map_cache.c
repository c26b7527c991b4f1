/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_map_cache.c -- the rules by which a client goes by maps: map_cache.c is built into this test, with planted bugs
 *
 * Its surroundings are faked: a lease, one connection, and whatever a gateway answers.
 */
#define CLEAVE_MUTANTS
#include "vm-client/library/map_cache.c"

#include <criterion/criterion.h>
#include <string.h>

#include "cleave/status.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/time_passes.h"

#define EPOCH 7u
#define WINDOW_BLOCKS 4096u
#define WINDOWS 8u
#define SHARDS 4u

struct mutant_set mutants_on;

static struct sim_world *world;
static struct cleave_client client;
static struct client_map map;
static struct cleave_volume volume;
static struct connection connection;
static struct message change, reader;
static struct cleave_io change_io = { .op = CLEAVE_WRITE }, read_io = { .op = CLEAVE_READ };
static struct {
	bool holds;
	uint32_t epoch;
	uint32_t told_count; /* answers that told of one */
} lease;
static uint32_t send_count;
static int send_rc;
static const uint8_t *arrived; /* the payload of the answer */

/* ---- surroundings ---- */

bool
volume_is_live(const struct cleave_volume *of)
{
	(void)of;
	return true;
}

struct connection *
volume_connection_of(struct cleave_volume *of, uint32_t shard)
{
	(void)of;
	(void)shard;
	return &connection;
}

bool
leases_hold(const struct cleave_volume *of, uint32_t shard, uint32_t epoch)
{
	(void)of;
	(void)shard;
	return lease.holds && epoch == lease.epoch;
}

bool
leases_hold_any(const struct cleave_volume *of, uint32_t shard)
{
	(void)of;
	(void)shard;
	return lease.holds;
}

uint64_t
leases_now_ns(const struct cleave_volume *of)
{
	(void)of;
	return 1;
}

void
leases_on_reply(struct cleave_volume *of, uint32_t shard, const struct wire_io_reply *reply,
    uint64_t sent_boot_ns)
{
	(void)of;
	(void)shard;
	(void)sent_boot_ns;
	lease.told_count += reply->is_leased;
}

int
split_send(struct split_qp *qp, struct split_send *send)
{
	(void)qp;
	cr_assert_eq(send, &connection.map.send);
	send_count += send_rc == 0;
	return send_rc;
}

void
dev_copy_to_host(struct split_port *port, void *dst, dev_ptr src, size_t bytes)
{
	(void)port;
	(void)src;
	memcpy(dst, arrived, bytes);
}

static void
pass(uint64_t ns)
{
	time_passes(world, client.loop, ns);
}

static void
setup(void)
{
	const struct maps_options options = { 0 };

	world = sim_world_create(1);
	client = (struct cleave_client){ .loop = sim_loop_create(world, "client"), .map = &map };
	client.status = calloc(1, CLIENT_MESSAGE_BYTES_MAX);
	map = (struct client_map){ .shard_count = SHARDS };
	for (uint32_t i = 0; i < SHARDS; i++)
		map.epoch_of_shard[i] = EPOCH;
	volume = (struct cleave_volume){ .magic = VOLUME_MAGIC,
		.client = &client,
		.leases = (struct leases *)&lease,
		.sm = { .state = VOLUME_OPEN } };
	volume.info.size_bytes = WINDOWS * MAP_BYTES;
	list_init(&volume.messages);
	connection = (struct connection){ .magic = CONNECTION_MAGIC,
		.volume = &volume,
		.agreed_level = CLEAVE_LEVEL_READS,
		.sm = { .state = CONNECTION_UP } };
	lease.holds = true;
	lease.epoch = EPOCH;
	lease.told_count = send_count = 0;
	send_rc = 0;
	memset(&mutants_on, 0, sizeof(mutants_on));
	pass(NUM_S(1));
	cr_assert_eq(maps_want(&volume, &options), 0);
}

static void
teardown(void)
{
	maps_fini(&volume);
	free(client.status);
	loop_destroy(client.loop);
	sim_world_destroy(world);
}

TestSuite(map_cache, .init = setup, .fini = teardown);

/* ---- what happens ---- */

static void
begin(struct message *message, struct cleave_io *io, uint64_t block, uint32_t count)
{
	message->volume = &volume;
	message->io = io;
	message->is_write = message_is_write(io->op);
	message->offset_bytes = block * CLEAVE_BLOCK_BYTES;
	message->length_bytes = count * (uint32_t)CLEAVE_BLOCK_BYTES;
	maps_on_start(message);
}

static void
read_block(uint64_t block)
{
	begin(&reader, &read_io, block, 1);
}

static void
change_begin(uint64_t block, uint32_t count)
{
	begin(&change, &change_io, block, count);
	list_push_back(&volume.messages, &change.all_link);
}

static void
change_end(void)
{
	list_remove(&change.all_link);
}

static bool
looks(uint64_t block)
{
	struct map_block out;

	return maps_look(&volume, block * CLEAVE_BLOCK_BYTES, &out);
}

/* Was it asked since the last time? Its send completes. */
static bool
was_asked(void)
{
	bool was = connection.map.is_sending;

	if (was)
		map_on_send(&connection.map.send, 0, &connection);
	return was;
}

/* The answer to what is asked: @payload of @bytes. */
static bool
answer(int rc, uint32_t epoch, const uint8_t *payload, uint32_t bytes)
{
	struct wire_io request = { .opcode = WIRE_CHUNK_MAP,
		.request_id = connection.map.request_id,
		.length_bytes = connection.map.header.length_bytes };
	struct split_msg msg = { 0 };
	struct wire_header header;

	arrived = payload;
	wire_io_reply(&header, &request, rc, rc == 0 ? crc32c(0, payload, bytes) : 0, epoch);
	header.payload_bytes = msg.payload_bytes = rc == 0 ? bytes : 0;
	header.flags = rc == 0 ? WIRE_FLAG_LEASED : 0;
	msg.header = &header;
	return maps_on_message(&connection, &msg);
}

/* A map of @count blocks: even ones lie in a run, in records of two, odd ones are zeros, and every tenth is not named. */
static uint32_t
make_map(uint8_t *out, uint32_t first, uint32_t count)
{
	const struct wire_map_source source = { .extent = 5,
		.to_bytes = 1u << 25,
		.copies = { { .node_id = 1 } } };
	struct wire_map_head head = { .block_count = count, .source_count = 1 };
	uint8_t *at = out + WIRE_MAP_HEAD_BYTES + WIRE_MAP_SOURCE_BYTES;

	wire_map_source_encode(out + WIRE_MAP_HEAD_BYTES, &source);
	for (uint32_t i = 0; i < count; i++) {
		struct wire_map_entry entry = { .block = i, .block_count = 1 };

		if (i % 10 == 9)
			continue;
		if (i % 2 != 0) {
			entry.source = WIRE_MAP_ZEROS;
		} else {
			entry.first_block = 1;
			entry.record_blocks = 2;
			entry.stored_bytes = 100;
			entry.offset_bytes = 100 * i;
			entry.block_crcs[0] = first + i;
		}
		at += wire_map_entry_encode(at, &entry);
	}
	head.entry_bytes = (uint32_t)(at - out) - WIRE_MAP_HEAD_BYTES - WIRE_MAP_SOURCE_BYTES;
	wire_map_head_encode(out, &head);
	return (uint32_t)(at - out);
}

/* Told of @count blocks from where the question begins. */
static void
answer_map(uint32_t epoch, uint32_t count)
{
	uint8_t *payload = calloc(1, WIRE_CLIENT_PAYLOAD_BYTES_MAX);
	uint64_t first = connection.map.header.offset_bytes / CLEAVE_BLOCK_BYTES;

	cr_assert(
	    answer(0, epoch, payload, make_map(payload, (uint32_t)(first % WINDOW_BLOCKS), count)));
	free(payload);
}

/* 2,000 blocks of the window of @block are told of, and the rest holds nothing that is named. */
static void
ask_and_tell(uint64_t block, uint32_t epoch)
{
	uint8_t rest[WIRE_MAP_HEAD_BYTES];

	read_block(block);
	cr_assert(was_asked());
	answer_map(epoch, 2000);
	cr_assert(was_asked(), "the rest is asked for");
	wire_map_head_encode(rest, &(struct wire_map_head){ .block_count = WINDOW_BLOCKS - 2000 });
	cr_assert(answer(0, epoch, rest, sizeof(rest)));
	cr_assert_not(was_asked());
}

/* ---- looking ---- */

Test(map_cache, a_read_asks_for_its_window_and_the_next_one_goes_by_it)
{
	struct map_block block;

	cr_assert_not(looks(4));
	ask_and_tell(5000, EPOCH);
	cr_assert_eq(connection.map.header.opcode, WIRE_CHUNK_MAP);
	cr_assert_eq(lease.told_count, 2, "its answers tell of leases, too");
	cr_assert_not(looks(4), "of another window");
	cr_assert(maps_look(&volume, (WINDOW_BLOCKS + 4) * CLEAVE_BLOCK_BYTES, &block));
	cr_assert_eq(block.block_crc, 4);
	cr_assert_eq(block.in_record, 1);
	cr_assert_eq(block.epoch, EPOCH);
	cr_assert_eq(block.source->extent, 5);
	cr_assert_eq(block.record->offset_bytes, 400);
	cr_assert(maps_look(&volume, (WINDOW_BLOCKS + 5) * CLEAVE_BLOCK_BYTES, &block));
	cr_assert_null(block.source, "zeros");
	cr_assert_not(looks(WINDOW_BLOCKS + 9), "not named");
	cr_assert_not(looks(WINDOW_BLOCKS + 3000), "not named");
	read_block(WINDOW_BLOCKS + 4);
	cr_assert_not(was_asked());
}

Test(map_cache, without_a_lease_nothing_is_asked_nor_read)
{
	lease.holds = false;
	read_block(0);
	cr_assert_not(was_asked());
	lease.holds = true;
	ask_and_tell(0, EPOCH);
	cr_assert(looks(4));
	lease.holds = false;
	cr_assert_not(looks(4));
	lease.holds = true;
	cr_assert(looks(4));
}

Test(map_cache, the_end_of_a_volume_ends_its_window)
{
	volume.info.size_bytes = MAP_BYTES + 100 * CLEAVE_BLOCK_BYTES;
	read_block(WINDOW_BLOCKS + 1);
	cr_assert(was_asked());
	cr_assert_eq(connection.map.header.offset_bytes, MAP_BYTES);
	cr_assert_eq(connection.map.header.length_bytes, 100 * CLEAVE_BLOCK_BYTES);
	answer_map(EPOCH, 100);
	cr_assert_not(was_asked());
	cr_assert(looks(WINDOW_BLOCKS + 98));
}

/* ---- rule 1: a change marks its blocks when it is made ---- */

Test(map_cache, a_change_makes_its_blocks_dirty_at_once)
{
	ask_and_tell(0, EPOCH);
	change_begin(4, 3);
	cr_assert(looks(3));
	cr_assert_not(looks(4));
	cr_assert_not(looks(6));
	cr_assert(looks(7));
	change_end();
	cr_assert_not(looks(4), "until the window is asked for again");
}

Test(map_cache, a_discard_of_a_chunk_makes_all_its_windows_dirty)
{
	ask_and_tell(0, EPOCH);
	ask_and_tell(WINDOW_BLOCKS, EPOCH);
	ask_and_tell(4 * WINDOW_BLOCKS, EPOCH);
	change_io.op = CLEAVE_DISCARD;
	change_begin(0, CLEAVE_CHUNK_BLOCKS);
	change_io.op = CLEAVE_WRITE;
	for (uint64_t block = 0; block < 2 * WINDOW_BLOCKS; block++)
		cr_assert_not(looks(block));
	cr_assert(looks(4 * WINDOW_BLOCKS + 4), "of another chunk");
}

/* ---- rule 2: asked while nothing is out; marked since then is marked ---- */

Test(map_cache, a_window_is_not_asked_for_while_a_change_of_it_is_out)
{
	change_begin(100, 1);
	read_block(0);
	cr_assert_not(was_asked());
	read_block(WINDOW_BLOCKS);
	cr_assert(was_asked(), "another window is");
	answer_map(EPOCH, 2000);
	cr_assert(was_asked());
	answer_map(EPOCH, 2000);
	(void)was_asked();
	answer_map(EPOCH, 96);
	change_end();
	read_block(0);
	cr_assert(was_asked());
}

Test(map_cache, a_question_for_holes_is_no_change)
{
	change.is_holes = true;
	change_begin(100, 1);
	read_block(0);
	cr_assert(was_asked());
	change.is_holes = false;
}

/* A change that was given up may take effect after the map was made. */
Test(map_cache, nothing_is_asked_for_while_the_volume_has_debts)
{
	volume.debt_count = 1;
	read_block(0);
	cr_assert_not(was_asked());
	volume.debt_count = 0;
	read_block(0);
	cr_assert(was_asked());
}

Test(map_cache, what_is_changed_while_it_is_asked_for_stays_dirty)
{
	read_block(0);
	cr_assert(was_asked());
	change_begin(4, 1);
	change_end();
	change_begin(2500, 2); /* of what the next page tells of */
	change_end();
	answer_map(EPOCH, 2000);
	cr_assert(was_asked());
	change_begin(6, 1);
	change_end();
	answer_map(EPOCH, 2000);
	cr_assert_not(looks(4));
	cr_assert_not(looks(6));
	cr_assert_not(looks(2500));
	cr_assert(looks(2));
	cr_assert(looks(2502));
}

/* ---- rule 3: by a lease of the map's epoch ---- */

Test(map_cache, a_map_of_another_owner_is_void)
{
	ask_and_tell(0, EPOCH);
	lease.epoch = EPOCH + 1;
	cr_assert_not(looks(4));
	lease.epoch = EPOCH;
	cr_assert(looks(4));
}

/* ---- rule 4: asked for again ---- */

Test(map_cache, a_window_that_misses_is_asked_for_again_not_often)
{
	ask_and_tell(0, EPOCH);
	for (uint32_t i = 0; i < 2 * MAPS_MISS_MAX; i++)
		read_block(9); /* not named */
	cr_assert_not(was_asked(), "within a second");
	pass(MAPS_AGAIN_NS);
	read_block(4);
	cr_assert_not(was_asked(), "what it can serve is no reason");
	change_begin(6, 1);
	read_block(9);
	cr_assert_not(was_asked(), "a change is out");
	cr_assert(looks(4), "and what is known stays");
	change_end();
	ask_and_tell(9, EPOCH);
	cr_assert(looks(6), "not dirty any more");
	pass(MAPS_AGAIN_NS);
	for (uint32_t i = 1; i < MAPS_MISS_MAX; i++) {
		read_block(9);
		cr_assert_not(was_asked(), "%u misses", i);
	}
	ask_and_tell(9, EPOCH);
}

/* @block is read at the gateway, which says that a map would name it. */
static void
read_mapped(uint64_t block)
{
	read_block(block);
	reader.sent_ns = loop_now_ns(client.loop);
	maps_on_mapped(&reader);
}

Test(map_cache, what_lies_in_runs_since_is_asked_for_soon)
{
	ask_and_tell(0, EPOCH);
	read_mapped(9); /* at that moment it was under way already */
	pass(MAPS_AGAIN_NS / MAPS_SOON_PART);
	for (uint32_t i = 1; i < MAPS_MISS_MAX; i++) {
		read_mapped(9);
		read_mapped(4); /* a read that began before the map was there */
		cr_assert_not(was_asked(), "%u of them", i);
	}
	read_mapped(9);
	cr_assert_not(was_asked(), "the next read asks");
	ask_and_tell(9, EPOCH);
	for (uint32_t i = 0; i < 2 * MAPS_MISS_MAX; i++)
		read_mapped(9);
	cr_assert_not(was_asked(), "not at once again");
	pass(MAPS_AGAIN_NS / MAPS_SOON_PART);
	for (uint32_t i = 0; i < 2 * MAPS_MISS_MAX; i++)
		read_block(9); /* it lies in the log */
	cr_assert_not(was_asked(), "those that were sent when it was asked for do not count");
}

Test(map_cache, another_owner_is_asked_at_once)
{
	ask_and_tell(0, EPOCH);
	for (uint32_t i = 0; i < SHARDS; i++)
		map.epoch_of_shard[i] = EPOCH + 1;
	read_block(4);
	cr_assert_not(was_asked(), "the lease of before holds");
	lease.epoch = EPOCH + 1;
	ask_and_tell(4, EPOCH + 1);
	cr_assert(looks(4));
}

/* ---- pages ---- */

Test(map_cache, pages_of_two_owners_are_no_map)
{
	read_block(0);
	cr_assert(was_asked());
	answer_map(EPOCH, 2000);
	cr_assert(was_asked());
	cr_assert_eq(connection.map.header.offset_bytes, 2000 * CLEAVE_BLOCK_BYTES);
	cr_assert(looks(4));
	answer_map(EPOCH + 1, 2000);
	cr_assert_not(was_asked());
	cr_assert_not(looks(4));
	lease.epoch = EPOCH + 1;
	cr_assert_not(looks(2002));
}

/* ---- another size ---- */

Test(map_cache, a_volume_of_another_size_has_none_of_its_maps)
{
	ask_and_tell(0, EPOCH);
	read_block(3 * WINDOW_BLOCKS);
	cr_assert(was_asked());
	maps_forget(&volume);
	volume.info.size_bytes = MAP_BYTES;
	cr_assert_not(looks(4));
	answer_map(EPOCH, 2000); /* of what is not there any more */
	cr_assert_not(was_asked());
	volume.info.size_bytes = WINDOWS * MAP_BYTES;
	cr_assert_not(looks(3 * WINDOW_BLOCKS + 4));
	ask_and_tell(0, EPOCH);
	cr_assert(looks(4));
	pass(MAPS_AGAIN_NS);
	ask_and_tell(3 * WINDOW_BLOCKS, EPOCH);
	cr_assert(looks(3 * WINDOW_BLOCKS + 4));
}

/* ---- bounds ---- */

Test(map_cache, the_least_recently_read_windows_go)
{
	uint64_t one;

	ask_and_tell(0, EPOCH);
	one = maps_bytes(&volume);
	volume.maps->options.bytes_max = 3 * one;
	ask_and_tell(WINDOW_BLOCKS, EPOCH);
	ask_and_tell(2 * WINDOW_BLOCKS, EPOCH);
	read_block(4);
	ask_and_tell(3 * WINDOW_BLOCKS, EPOCH);
	cr_assert_leq(maps_bytes(&volume), 3 * one);
	cr_assert(looks(4), "read since");
	cr_assert_not(looks(WINDOW_BLOCKS + 4));
	cr_assert(looks(2 * WINDOW_BLOCKS + 4));
	cr_assert(looks(3 * WINDOW_BLOCKS + 4));
}

Test(map_cache, a_connection_asks_for_one_window_at_a_time)
{
	read_block(0);
	cr_assert(was_asked());
	read_block(WINDOW_BLOCKS);
	cr_assert_not(was_asked());
	volume.maps->options.bytes_max = 1;
	read_block(2 * WINDOW_BLOCKS);
	answer_map(EPOCH, 2000); /* that window stays while it is asked for */
	cr_assert(was_asked());
	answer_map(EPOCH, 2000);
	cr_assert_eq(send_count, 3);
}

/* ---- errors ---- */

Test(map_cache, a_gateway_that_refuses_is_left_alone_for_a_while)
{
	read_block(0);
	cr_assert(was_asked());
	cr_assert(answer(-ENOTSUP, EPOCH, NULL, 0));
	read_block(WINDOW_BLOCKS);
	cr_assert_not(was_asked());
	pass(MAPS_AGAIN_NS);
	read_block(WINDOW_BLOCKS);
	cr_assert(was_asked());
}

Test(map_cache, who_gets_an_error_asks_again_later)
{
	read_block(0);
	cr_assert(was_asked());
	cr_assert(answer(-EREMCHG, EPOCH, NULL, 0));
	read_block(0);
	cr_assert_not(was_asked());
	pass(MAPS_AGAIN_NS);
	ask_and_tell(0, EPOCH);
	cr_assert(looks(4));
}

Test(map_cache, a_connection_that_ends_answers_nothing)
{
	read_block(0);
	cr_assert(was_asked());
	maps_on_closed(&connection);
	cr_assert_not(looks(4));
	pass(MAPS_AGAIN_NS);
	ask_and_tell(0, EPOCH);
}

Test(map_cache, nobody_can_be_asked)
{
	connection.sm.state = CONNECTION_DOWN;
	read_block(0);
	connection.sm.state = CONNECTION_UP;
	connection.agreed_level = CLEAVE_LEVEL_READS - 1;
	read_block(0);
	connection.agreed_level = CLEAVE_LEVEL_READS;
	send_rc = -ENOBUFS;
	read_block(0);
	cr_assert_eq(send_count, 0);
	send_rc = 0;
	ask_and_tell(0, EPOCH);
	/* A window that cannot be asked for again keeps what it has. */
	pass(MAPS_AGAIN_NS);
	send_rc = -ENOBUFS;
	for (uint32_t i = 0; i < 2 * MAPS_MISS_MAX; i++)
		read_block(9);
	cr_assert(looks(4));
}

Test(map_cache, answers_that_break_the_protocol_are_refused)
{
	uint8_t payload[WIRE_MAP_HEAD_BYTES];

	wire_map_head_encode(payload, &(struct wire_map_head){ .block_count = WINDOW_BLOCKS });
	cr_assert_not(answer(0, EPOCH, payload, sizeof(payload)), "nobody has asked");
	volume.info.size_bytes = 100 * CLEAVE_BLOCK_BYTES;
	read_block(0);
	cr_assert(was_asked());
	cr_assert_not(answer(0, EPOCH, payload, sizeof(payload)), "of more than was asked for");
	maps_on_closed(&connection);
	cr_assert_not(looks(4));
}

Test(map_cache, the_nth_allocation_fails)
{
	const struct maps_options options = { 0 };
	uint32_t nth = 0;

	maps_fini(&volume);
	alloc_fail_at(ALLOC_CLIENT, 1);
	cr_assert_eq(maps_want(&volume, &options), -ENOMEM);
	alloc_fail_at(ALLOC_CLIENT, 0);
	do {
		maps_fini(&volume);
		cr_assert_eq(maps_want(&volume, &options), 0);
		alloc_fail_at(ALLOC_CLIENT, ++nth);
		read_block(0);
		if (was_asked())
			answer_map(EPOCH, 2000);
		if (was_asked())
			answer_map(EPOCH, 2000);
		cr_assert_eq(maps_bytes(&volume) > sizeof(struct map_window), looks(4));
		(void)was_asked();
		if (connection.map.is_out)
			maps_on_closed(&connection);
	} while (alloc_has_failed(ALLOC_CLIENT));
	alloc_fail_at(ALLOC_CLIENT, 0);
	cr_assert_eq(nth, 4, "a window, two pages; then all of them are there");
}

/* ---- planted bugs: each breaks the rule that its test is of ---- */

Test(map_cache, bug_dirty_ignored)
{
	mutant_set_add(&mutants_on, MUTANT_map_dirty_ignored);
	ask_and_tell(0, EPOCH);
	change_begin(4, 3);
	cr_assert(looks(4));
}

Test(map_cache, bug_cleared_under_write)
{
	mutant_set_add(&mutants_on, MUTANT_map_cleared_under_write);
	change_begin(4, 1);
	ask_and_tell(0, EPOCH);
	cr_assert(looks(4));
}

Test(map_cache, bug_epoch_ignored)
{
	mutant_set_add(&mutants_on, MUTANT_map_epoch_ignored);
	ask_and_tell(0, EPOCH);
	lease.epoch = EPOCH + 1;
	cr_assert(looks(4));
}
