/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_peek.c -- a read out of a gateway's memory, and each way in which it is made elsewhere: peek.c is built into this
 * test, with planted bugs
 *
 * Its surroundings are faked: one page, a lease, and one-sided reads that end when a test says so.
 */
#define CLEAVE_MUTANTS
#include "vm-client/library/peek.c"

#include <criterion/criterion.h>

#include "base/crc32c.h"
#include "splitlib/core/dev_ptr_raw.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/time_passes.h"

#define EPOCH 7u
#define SHARD 3u
#define VOLUME 77u
#define SEGMENT 1000u
#define BLOCK 5u
#define EVENTS 4u

struct mutant_set mutants_on;

static struct sim_world *world;
static struct cleave_client client;
static struct cleave_volume volume;
static struct connection connection;
static struct message message;
static struct cleave_io io;
static uint8_t page[HOT_PAGE_BYTES], staging[CLIENT_MESSAGE_BYTES_MAX],
    read_into[CLEAVE_BLOCK_BYTES];
static uint8_t tags[PEEK_FETCHES_MAX * HOT_PAGE_TAG_BYTES];
static uint32_t lease_epoch; /* 0: there is none */
static bool is_routed, is_done, is_direct, is_full;
static int given_up_rc;
static struct fake_event {
	void (*fn)(const struct dev_completion *completion, void *arg);
	void *arg;
	dev_ptr to;
	size_t bytes;
	uint64_t at;
} events[EVENTS];
static uint32_t event_count;

/* ---- surroundings ---- */

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
	return shard == SHARD && lease_epoch != 0 && epoch == lease_epoch;
}

bool
leases_hold_any(const struct cleave_volume *of, uint32_t shard)
{
	return leases_hold(of, shard, lease_epoch);
}

uint32_t
volume_shard_of(const struct cleave_volume *of, uint64_t offset_bytes)
{
	(void)of;
	(void)offset_bytes;
	return SHARD;
}

struct connection *
volume_connection_of(struct cleave_volume *of, uint32_t shard)
{
	(void)of;
	cr_assert_eq(shard, SHARD);
	return &connection;
}

void
connection_watch(struct connection *of)
{
	cr_assert_eq(of, &connection);
}

bool
direct_start(struct message *of)
{
	(void)of;
	return is_direct;
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
	is_done = true;
}

void
message_give_up(struct message *of, int rc)
{
	cr_assert_not(of->is_peeking);
	given_up_rc = rc;
}

bool
cleave_payload_is(const struct message *of, dev_ptr block, uint32_t crc)
{
	(void)of;
	return crc32c(0, dev_ptr_raw(block), CLEAVE_BLOCK_BYTES) == crc;
}

void
cleave_payload_peeked(struct message *of, dev_ptr block)
{
	(void)of;
	memcpy(read_into, dev_ptr_raw(block), sizeof(read_into));
}

dev_ptr
dev_alloc(struct split_port *port, size_t bytes)
{
	(void)port;
	cr_assert_eq(bytes, sizeof(tags));
	return is_full ? DEV_PTR_NULL : dev_ptr_of(tags);
}

void
dev_free(struct split_port *port, dev_ptr memory)
{
	(void)port;
	(void)memory;
}

void
dev_copy_to_host(struct split_port *port, void *dst, dev_ptr src, size_t bytes)
{
	(void)port;
	memcpy(dst, dev_ptr_raw(src), bytes);
}

struct dev_event *
dev_read(struct split_qp *qp, dev_ptr to, size_t bytes, const struct dev_remote *remote,
    uint64_t at)
{
	(void)qp;
	cr_assert_eq(remote->address, 42);
	if (event_count == EVENTS)
		return NULL;
	events[event_count++] = (struct fake_event){ .to = to, .bytes = bytes, .at = at };
	return (struct dev_event *)(void *)&events[event_count - 1];
}

void
dev_event_on(struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg)
{
	struct fake_event *fake = (struct fake_event *)(void *)event;

	fake->fn = fn;
	fake->arg = arg;
}

/* ---- what happens ---- */

/* The page's memory is read, or @rc says why not. */
static void
end_event(uint32_t index, int rc)
{
	const struct dev_completion completion = { .rc = rc };
	struct fake_event event = events[index];

	cr_assert_lt(index, event_count);
	memmove(&events[index], &events[index + 1], (event_count - index - 1) * sizeof(events[0]));
	event_count--;
	if (rc == 0)
		memcpy(dev_ptr_raw(event.to), page + event.at, event.bytes);
	event.fn(&completion, event.arg);
}

/* The block is there, as a gateway shows it: its place is the set's third slot. */
static uint32_t
slot_of(uint32_t block)
{
	uint32_t set = wire_hot_set(wire_hot_hash(SEGMENT, block), HOT_PAGE_SETS);

	return set * HOT_WAYS + 2;
}

static struct wire_hot_head
head_of(uint32_t block)
{
	return (struct wire_hot_head){ .control = 9 << 1 | 1,
		.segment = SEGMENT,
		.block = block,
		.shard = SHARD,
		.epoch = EPOCH,
		.volume = VOLUME,
		.version = 9 };
}

static void
show(const struct wire_hot_head *shown)
{
	uint32_t slot = slot_of(BLOCK);
	uint8_t *at = page + wire_hot_at(slot);
	struct wire_hot_head head = *shown;

	for (uint32_t i = 0; i < CLEAVE_BLOCK_BYTES; i++)
		at[HOT_HEAD_BYTES + i] = (uint8_t)(i * 5);
	head.block_crc = crc32c(0, at + HOT_HEAD_BYTES, CLEAVE_BLOCK_BYTES);
	wire_hot_head_encode(at, &head);
	num_put_le32(page + slot * sizeof(uint32_t), wire_hot_tag(wire_hot_hash(SEGMENT, BLOCK)));
}

static bool
start(void)
{
	is_routed = is_done = false;
	message.connection = NULL;
	message.sm.state = MESSAGE_FREE;
	message.queue_link = (struct loop_link){ NULL, NULL };
	if (!peek_start(&message))
		return false;
	message.sm.state = MESSAGE_PEEKING;
	return true;
}

/* An answer to LEASE tells of the page. */
static bool
tell(uint32_t generation, uint32_t page_count)
{
	const struct wire_lease_head head = { .generation = generation, .page_count = page_count };
	uint8_t bytes[2 * DEV_REMOTE_BYTES];

	dev_remote_encode(bytes,
	    &(struct dev_remote){ .address = 42,
		.bytes = HOT_PAGE_BYTES,
		.key = 1,
		.rights = DEV_REGION_READ });
	memcpy(bytes + DEV_REMOTE_BYTES, bytes, DEV_REMOTE_BYTES);
	return peeks_take(&connection, &head, bytes);
}

/* Tags are known, and what they say is the block. */
static void
learn(void)
{
	cr_assert_not(start(), "its tags are not known yet");
	cr_assert_eq(event_count, 1);
	cr_assert_eq(events[0].bytes, HOT_PAGE_TAG_BYTES);
	end_event(0, 0);
	connection.peek.until_told = HOT_TELL_PART;
}

static void
setup(void)
{
	const struct wire_hot_head head = head_of(BLOCK);

	world = sim_world_create(1);
	client = (struct cleave_client){ .loop = sim_loop_create(world, "client") };
	volume = (struct cleave_volume){ .magic = VOLUME_MAGIC,
		.client = &client,
		.sm = { .state = VOLUME_OPEN } };
	volume.info.id = VOLUME;
	volume.info.segment_base = SEGMENT;
	connection = (struct connection){ .magic = CONNECTION_MAGIC,
		.volume = &volume,
		.sm = { .state = CONNECTION_UP } };
	list_init(&connection.peek.out);
	list_init(&volume.connections);
	overlap_init(&volume.overlap);
	io = (struct cleave_io){ .op = CLEAVE_READ, .data = read_into };
	message = (struct message){ .magic = MESSAGE_MAGIC,
		.client = &client,
		.volume = &volume,
		.io = &io,
		.offset_bytes = BLOCK * CLEAVE_BLOCK_BYTES,
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.span_bytes = CLEAVE_BLOCK_BYTES,
		.staging = dev_ptr_of(staging) };
	lease_epoch = EPOCH;
	is_direct = is_full = false;
	given_up_rc = 0;
	event_count = 0;
	memset(page, 0, sizeof(page));
	memset(&mutants_on, 0, sizeof(mutants_on));
	time_passes(world, client.loop, NUM_S(1));
	show(&head);
	cr_assert_eq(peeks_want(&volume, &(struct peeks_options){ 0 }), 0);
	cr_assert(tell(1, 1));
}

static void
teardown(void)
{
	peeks_forget(&connection);
	peeks_fini(&volume);
	loop_destroy(client.loop);
	sim_world_destroy(world);
}

TestSuite(peek, .init = setup, .fini = teardown);

/* True: the block was read there. Else it was read elsewhere, for which a reason is counted. */
static bool
reads(void)
{
	cr_assert(start());
	end_event(0, 0);
	cr_assert_neq(is_done, is_routed);
	cr_assert_eq(client.stats.hot_fallbacks, is_routed);
	return is_done;
}

Test(peek, a_hot_block_is_read_without_its_gateway)
{
	learn();
	cr_assert(start());
	cr_assert_eq(events[0].bytes, HOT_SLOT_BYTES);
	cr_assert_eq(events[0].at, wire_hot_at(slot_of(BLOCK)));
	cr_assert_eq(peek_oldest_ns(&connection), loop_now_ns(client.loop));
	end_event(0, 0);
	cr_assert(is_done);
	cr_assert_eq(memcmp(read_into, page + wire_hot_at(slot_of(BLOCK)) + HOT_HEAD_BYTES,
			 sizeof(read_into)),
	    0);
	cr_assert_eq(client.stats.hot_reads, 1);
	cr_assert_eq(connection.peek.untold_count, 1);
	cr_assert_eq(peek_oldest_ns(&connection), UINT64_MAX);
}

Test(peek, without_a_lease_none_is)
{
	learn();
	lease_epoch = 0;
	cr_assert_not(start());
	lease_epoch = EPOCH;
	connection.sm.state = CONNECTION_CLOSING;
	cr_assert_not(start());
	connection.sm.state = CONNECTION_UP;
	message.length_bytes *= 2;
	cr_assert_not(start(), "of one block alone");
	message.length_bytes /= 2;
	io.op = CLEAVE_WRITE;
	cr_assert_not(start());
}

static bool
reads_after_lease(void)
{
	learn();
	cr_assert(start());
	lease_epoch = 0;
	end_event(0, 0);
	return is_done;
}

Test(peek, a_lease_that_ends_meanwhile_is_none)
{
	cr_assert_not(reads_after_lease());
	cr_assert(is_routed);
	cr_assert_eq(client.stats.hot_fallbacks, 1);
}

Test(peek, with_a_planted_bug_its_lease_is_unjudged)
{
	mutant_set_add(&mutants_on, MUTANT_hot_lease_unjudged);
	cr_assert(reads_after_lease());
}

static bool
reads_of_an_owner_before(void)
{
	learn();
	lease_epoch = EPOCH + 1;
	return reads();
}

Test(peek, the_lease_of_a_newer_owner_is_none)
{
	cr_assert_not(reads_of_an_owner_before());
}

Test(peek, with_a_planted_bug_it_is_one)
{
	mutant_set_add(&mutants_on, MUTANT_hot_epoch_ignored);
	cr_assert(reads_of_an_owner_before());
}

/* A change of @block is on its way, or was and has ended. */
static bool
reads_beside_a_change(uint32_t block, uint32_t bytes, bool has_ended)
{
	struct message change = { .magic = MESSAGE_MAGIC,
		.is_write = true,
		.offset_bytes = (uint64_t)block * CLEAVE_BLOCK_BYTES,
		.span_bytes = bytes };
	bool is_peeked;

	learn();
	overlap_add(&volume.overlap, &change);
	if (has_ended)
		overlap_remove(&volume.overlap, &change);
	is_peeked = start();
	if (!has_ended)
		overlap_remove(&volume.overlap, &change);
	if (is_peeked)
		end_event(0, 0);
	return is_peeked;
}

Test(peek, a_block_that_is_being_changed_is_read_elsewhere)
{
	cr_assert_not(reads_beside_a_change(BLOCK, CLEAVE_BLOCK_BYTES, false));
}

Test(peek, a_block_that_is_being_discarded_is_read_elsewhere)
{
	cr_assert_not(reads_beside_a_change(0, 2 * CLIENT_REGION_BYTES, false));
}

Test(peek, a_change_of_another_block_is_none)
{
	cr_assert(reads_beside_a_change(BLOCK + 1, CLEAVE_BLOCK_BYTES, false));
}

Test(peek, a_change_that_has_ended_is_none)
{
	cr_assert(reads_beside_a_change(BLOCK, CLEAVE_BLOCK_BYTES, true));
}

Test(peek, with_a_planted_bug_a_block_that_is_being_changed_is_read)
{
	mutant_set_add(&mutants_on, MUTANT_hot_change_ignored);
	cr_assert(reads_beside_a_change(BLOCK, CLEAVE_BLOCK_BYTES, false));
}

static bool
reads_torn(void)
{
	learn();
	page[wire_hot_at(slot_of(BLOCK)) + HOT_HEAD_BYTES + 99] ^= 1;
	return reads();
}

Test(peek, bytes_of_two_moments_are_not_believed)
{
	cr_assert_not(reads_torn());
	cr_assert_eq(client.stats.hot_torn, 1);
	cr_assert(start(), "the slot may be good by now");
}

Test(peek, with_a_planted_bug_they_are)
{
	mutant_set_add(&mutants_on, MUTANT_hot_torn_accepted);
	cr_assert(reads_torn());
}

/* Whoever is there now is not asked for this block again, until tags have it anew. */
static bool
reads_other(const struct wire_hot_head *head)
{
	bool is_read;

	learn();
	show(head);
	is_read = reads();
	cr_assert_eq(start(), is_read);
	return is_read;
}

Test(peek, another_block_is_none)
{
	const struct wire_hot_head head = head_of(BLOCK + 1);

	cr_assert_not(reads_other(&head));
	cr_assert_eq(client.stats.hot_torn, 0);
}

Test(peek, with_a_planted_bug_another_block_is_taken)
{
	const struct wire_hot_head head = head_of(BLOCK + 1);

	mutant_set_add(&mutants_on, MUTANT_hot_name_ignored);
	cr_assert(reads_other(&head));
}

Test(peek, another_volume_is_none)
{
	struct wire_hot_head head = head_of(BLOCK);

	head.volume++;
	cr_assert_not(reads_other(&head));
}

Test(peek, another_segment_is_none)
{
	struct wire_hot_head head = head_of(BLOCK);

	head.segment++;
	cr_assert_not(reads_other(&head));
}

Test(peek, another_shard_is_none)
{
	struct wire_hot_head head = head_of(BLOCK);

	head.shard++;
	cr_assert_not(reads_other(&head));
}

Test(peek, a_hidden_block_is_none)
{
	uint8_t *at = page + wire_hot_at(slot_of(BLOCK));

	learn();
	num_put_le64(at, 9 << 1);
	cr_assert_not(reads());
	cr_assert_eq(client.stats.hot_torn, 0);
	cr_assert_not(start());
}

/* The control is of another version than the rest. */
Test(peek, a_head_of_two_moments_is_not_believed)
{
	learn();
	num_put_le64(page + wire_hot_at(slot_of(BLOCK)), 10 << 1 | 1);
	cr_assert_not(reads());
	cr_assert_eq(client.stats.hot_torn, 1);
}

Test(peek, where_it_will_not_do_nodes_are_asked_first)
{
	is_direct = true;
	learn();
	cr_assert(start());
	sm_init(&message.sm, "message",
	    (const struct sm_state[]){ [MESSAGE_DIRECT] = { "direct", 0, 0 },
		[MESSAGE_PEEKING] = { "peeking", SM_TO(MESSAGE_DIRECT), SM_INITIAL } },
	    MESSAGE_PEEKING, 0);
	end_event(0, -ECONNRESET);
	cr_assert_not(is_routed);
	cr_assert_eq(message.sm.state, MESSAGE_DIRECT);
}

Test(peek, one_of_so_many_goes_to_the_gateway)
{
	uint32_t count = 0;

	learn();
	connection.peek.until_told = 0;
	for (uint32_t i = 0; i < 3 * HOT_TELL_PART; i++) {
		if (!start()) {
			count++;
			continue;
		}
		end_event(0, 0);
		cr_assert(is_done);
	}
	cr_assert_eq(count, 3);
}

Test(peek, what_was_given_up_ends_with_its_read)
{
	learn();
	cr_assert(start());
	cr_assert(message.is_peeking);
	message.is_given_up = true;
	message.rc = -ETIMEDOUT;
	end_event(0, -ECANCELED);
	cr_assert_eq(given_up_rc, -ETIMEDOUT);
	cr_assert_not(is_routed);
}

Test(peek, a_revoked_key_is_used_no_more)
{
	learn();
	cr_assert(start());
	end_event(0, -EKEYREVOKED);
	cr_assert(is_routed);
	cr_assert_eq(connection.peek.generation, 0, "LEASE asks for other pages");
	cr_assert_not(start());
	cr_assert_eq(event_count, 0);
	cr_assert(tell(2, 1));
	learn();
	client.stats.hot_fallbacks = 0;
	cr_assert(reads());
}

Test(peek, tags_are_read_again_when_blocks_are_missed)
{
	num_put_le32(page + slot_of(BLOCK) * sizeof(uint32_t), 0);
	cr_assert_not(start());
	end_event(0, 0);
	for (uint32_t i = 0; i < PEEK_MISSES_MAX; i++)
		cr_assert_not(start());
	cr_assert_eq(event_count, 0);
	time_passes(world, client.loop, PEEK_AGAIN_NS);
	num_put_le32(page + slot_of(BLOCK) * sizeof(uint32_t),
	    wire_hot_tag(wire_hot_hash(SEGMENT, BLOCK)));
	learn();
	cr_assert(start());
	cr_assert_eq(client.stats.hot_misses, PEEK_MISSES_MAX + 2);
}

/* Pages are others by the time that the old ones' tags come. */
Test(peek, tags_of_pages_before_are_dropped)
{
	cr_assert_not(start());
	cr_assert(tell(2, 1));
	end_event(0, 0);
	cr_assert_not(start());
	cr_assert_eq(event_count, 1);
	end_event(0, -EKEYREVOKED);
	cr_assert_eq(connection.peek.page_count, 0);
}

/* A gateway says a generation twice, of other pages: there may be fewer of them. */
Test(peek, tags_of_pages_before_are_dropped_whatever_generation_they_are_of)
{
	cr_assert_not(start());
	cr_assert(tell(1, 1));
	end_event(0, 0);
	cr_assert_not(start(), "its tags are not known");
	cr_assert_eq(client.stats.hot_misses, 2);
}

Test(peek, a_full_queue_is_tried_again)
{
	event_count = EVENTS;
	cr_assert_not(start());
	event_count = 0;
	learn();
	event_count = EVENTS;
	cr_assert_not(start());
	event_count = 0;
	cr_assert(start());
}

Test(peek, pages_are_what_lease_says)
{
	const struct wire_lease_head wrong = { .generation = 3, .page_count = 1 };
	uint8_t bytes[DEV_REMOTE_BYTES];

	cr_assert(tell(1, 0), "the same");
	cr_assert_eq(connection.peek.page_count, 1);
	cr_assert(tell(2, 2));
	cr_assert_eq(connection.peek.page_count, 2);
	cr_assert(tell(0, 0), "none any more");
	cr_assert_eq(connection.peek.page_count, 0);
	dev_remote_encode(bytes,
	    &(struct dev_remote){ .address = 42, .bytes = 4096, .rights = DEV_REGION_READ });
	cr_assert_not(peeks_take(&connection, &wrong, bytes), "no page is so short");
	peeks_fini(&volume);
	cr_assert_not(tell(4, 1), "nobody has asked");
}

Test(peek, without_memory_it_reads_as_any_other)
{
	alloc_fail_at(ALLOC_CLIENT, 1);
	cr_assert(tell(2, 1));
	alloc_fail_at(ALLOC_CLIENT, 0);
	cr_assert_not(start());
	cr_assert_eq(event_count, 0);
	peeks_fini(&volume);
	is_full = true;
	cr_assert_eq(peeks_want(&volume, &(struct peeks_options){ 0 }), -ENOMEM);
	is_full = false;
	alloc_fail_at(ALLOC_CLIENT, 1);
	cr_assert_eq(peeks_want(&volume, &(struct peeks_options){ 0 }), -ENOMEM);
	alloc_fail_at(ALLOC_CLIENT, 0);
	cr_assert_not(start());
}
