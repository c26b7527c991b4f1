/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_find.c -- FIND: a batch's head with the frames that are wanted, whether the head was in memory or not
 *
 * The file is built in with a planted bug, find_wrong.
 */
#define CLEAVE_MUTANTS
#include "storage-node/find.c"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cleave/batch_directory.h"
#include "support/node_rig.h"

#define BLOCKS 3u /* of a batch, a frame each */

struct mutant_set mutants_on;

static struct node_rig *rig;
static struct rig_extent extent;

static void
make(uint64_t head_cache_bytes)
{
	rig = rig_create(&(struct rig_options){ .seed = 7, .head_cache_bytes = head_cache_bytes });
	rig_up(rig);
	rig_extent_init(&extent, 3, 5, 1, EXTENT_RUN);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(rig_append(rig, &extent, BLOCKS), 0);
}

static void
setup(void)
{
	make(0);
}

static void
teardown(void)
{
	rig_extent_fini(&extent);
	rig_destroy(rig);
}

TestSuite(find, .init = setup, .fini = teardown);

/* The length of a batch's head, as it was sent. */
static uint32_t
head_bytes_of(uint32_t batch)
{
	const struct batch_header_disk *header =
	    (const void *)(extent.data + extent.batches[batch].offset_bytes);

	return BATCH_HEADER_BYTES + header->desc_bytes;
}

static struct rig_call *
find_post(uint32_t batch, uint32_t block, uint32_t count)
{
	return rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_FIND,
		.id = extent.id,
		.epoch = extent.epoch,
		.offset_bytes = extent.batches[batch].offset_bytes,
		.length_bytes = head_bytes_of(batch),
		.block = (uint16_t)block,
		.block_count = (uint16_t)count },
	    NULL, 0);
}

static int
find_rc(uint32_t batch, uint32_t block, uint32_t count)
{
	struct rig_call *call = find_post(batch, block, count);
	int rc = rig_wait(call);

	rig_done(call);
	return rc;
}

/* Is the answer the head and @count frames from @block on, as they were sent? */
static bool
answers(uint32_t batch, uint32_t block, uint32_t asked, uint32_t count)
{
	struct rig_call *call = find_post(batch, block, asked);
	const uint8_t *sent = extent.data + extent.batches[batch].offset_bytes;
	uint32_t head_bytes = head_bytes_of(batch), bytes = count * CLEAVE_BLOCK_BYTES;
	uint64_t at = count == 0 ? 0 : head_bytes + block * CLEAVE_BLOCK_BYTES;
	bool is_right;

	cr_assert_eq(rig_wait(call), 0, "rc %d", call->rc);
	is_right = call->payload_bytes == head_bytes + bytes &&
	    call->reply.offset_bytes == extent.batches[batch].offset_bytes + at &&
	    memcmp(call->payload, sent, head_bytes) == 0 &&
	    memcmp(call->payload + head_bytes, sent + at, bytes) == 0;
	rig_done(call);
	return is_right;
}

/* A directory of the last batch, sent as the next one. */
static int
append_directory(void)
{
	uint32_t last = extent.batch_count - 1, bytes;
	struct batch_place place = { .offset_bytes = (uint32_t)extent.batches[last].offset_bytes,
		.batch_crc = extent.batches[last].crc,
		.head_bytes = head_bytes_of(last) };
	struct batch_info info = { .id = extent.id,
		.kind = EXTENT_RUN,
		.is_directory = true,
		.offset_bytes = extent.end_bytes,
		.prev_crc = extent.end_crc };
	uint8_t *batch = (uint8_t *)rig_batch(rig, &extent, 1, 0, &bytes);

	memset(batch, 0, bytes);
	info.desc_bytes = batch_directory_encode(batch + BATCH_HEADER_BYTES, 1, 2);
	batch_directory_put_place(batch + BATCH_HEADER_BYTES, 0, &place);
	batch_directory_put_bound(batch + BATCH_HEADER_BYTES, 1, BLOCKS);
	info.used_bytes = BATCH_HEADER_BYTES + info.desc_bytes;
	info.batch_bytes = BATCH_ALIGN;
	batch_head_encode(batch, &info);
	extent.end_bytes = info.offset_bytes + BATCH_ALIGN;
	extent.end_crc = info.batch_crc;
	extent.batches[last + 1].bytes = BATCH_ALIGN;
	extent.batches[last + 1].crc = info.batch_crc;
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent.id,
		.kind = extent.kind,
		.offset_bytes = info.offset_bytes,
		.length_bytes = info.batch_bytes,
		.epoch = extent.epoch },
	    batch, info.batch_bytes, NULL);
}

Test(find, a_directory_is_kept_and_verified_and_has_no_frames)
{
	cr_assert_eq(append_directory(), 0);
	cr_assert_eq(find_rc(3, 0, 1), -EBADMSG);
	cr_assert(answers(2, 1, 1, 1));
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
	rig_kill(rig, true);
	rig_up(rig);
	cr_assert(rig_extent_matches(rig, &extent, extent.end_bytes));
	cr_assert_eq(rig_verify(rig, &extent, NULL), 0);
	/* A byte of it is as good as one of any other batch. */
	disk_sim_rot(rig->disk, rig_data_offset(rig, 0, extent.batches[3].offset_bytes + 150), 3);
	cr_assert_eq(rig_verify(rig, &extent, NULL), -EBADMSG);
}

Test(find, answers_the_head_and_the_frame)
{
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 3 * BLOCKS; i++)
			cr_assert(answers(i / BLOCKS, i % BLOCKS, 1, 1), "%u", i);
	}
	cr_assert_eq(node_counters(rig->node)->finds, 6 * BLOCKS);
	cr_assert_eq(node_counters(rig->node)->heads_read, 3, "others were in memory");
}

Test(find, a_planted_bug_is_seen)
{
	mutant_set_add(&mutants_on, MUTANT_find_wrong);
	cr_assert_not(answers(0, 1, 1, 1));
	mutants_on = (struct mutant_set){ 0 };
	cr_assert(answers(0, 1, 1, 1));
}

Test(find, frames_next_to_each_other_come_together)
{
	cr_assert(answers(1, 0, 2, 2));
	cr_assert(answers(1, 1, 16, 2));
	cr_assert(answers(1, BLOCKS, 5, 0), "the head alone");
	cr_assert(answers(1, 0, CLEAVE_CHUNK_BLOCKS, BLOCKS));
}

Test(find, no_more_than_a_gateway_can_take)
{
	struct rig_extent *big = &extent;
	uint32_t wanted = WIRE_FIND_BYTES_MAX / CLEAVE_BLOCK_BYTES;

	teardown();
	rig = rig_create(&(struct rig_options){ .slot_bytes = NUM_KIB(256) });
	rig_up(rig);
	rig_extent_init(big, 3, 5, 1, EXTENT_RUN);
	cr_assert_eq(rig_extent_create(rig, big), 0);
	cr_assert_eq(rig_append(rig, big, wanted + 4), 0);
	cr_assert(answers(0, 0, wanted + 4, wanted - 1),
	    "with the head there is room for one less");
	cr_assert(answers(0, 3, wanted - 1, wanted - 1));
}

Test(find, refuses_what_is_not_there)
{
	struct wire_node request = { .opcode = WIRE_EXTENT_FIND,
		.id = extent.id,
		.epoch = extent.epoch,
		.length_bytes = head_bytes_of(0),
		.block_count = 1 };

	request.length_bytes += 44;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), -EBADMSG, "no head of that length");
	request.length_bytes -= 88;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), -EBADMSG);
	request.length_bytes += 44;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), 0);
	request.length_bytes += 44;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), -EBADMSG, "from memory, too");
	request.length_bytes -= 44;
	request.offset_bytes = BATCH_ALIGN;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), -EBADMSG, "a batch's payload");
	request.offset_bytes = extent.end_bytes;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), -ERANGE);
	request.id.counter++;
	cr_assert_eq(rig_call_rc(rig, &request, NULL, 0, NULL), -ENOENT);
	cr_assert_eq(rig->node->reads_count, 0);
}

Test(find, heads_of_logs_are_not_looked_into)
{
	rig_extent_fini(&extent);
	rig_extent_init(&extent, 3, 5, 2, EXTENT_LOG);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(find_rc(0, 0, 1), -EBADMSG);
}

Test(find, a_head_in_memory_is_not_read_past_the_end)
{
	cr_assert(answers(2, 0, 1, 1));
	cr_assert_eq(rig_freeze(rig, &extent, 6, NULL), 0);
	extent.epoch = 6;
	cr_assert_eq(rig_cut(rig, &extent, 6, extent.batches[2].offset_bytes), 0);
	cr_assert_eq(find_rc(2, 0, 1), -ERANGE);
	cr_assert(answers(1, 0, 1, 1));
}

Test(find, another_copy_of_that_name_has_heads_of_its_own)
{
	struct rig_extent other;

	cr_assert(answers(0, 0, 1, 1));
	cr_assert_eq(rig_delete(rig, &extent, 5), 0);
	rig_extent_init(&other, 3, 5, 1, EXTENT_RUN);
	cr_assert_eq(rig_extent_create(rig, &other), 0);
	cr_assert_eq(rig_append(rig, &other, BLOCKS), 0);
	rig_extent_fini(&extent);
	extent = other;
	cr_assert(answers(0, 2, 1, 1));
}

Test(find, disk_errors_are_told)
{
	uint32_t slot = sn_extent_find(rig->node, &extent.id)->slot.slot_index;

	for (uint32_t batch = 0; batch < 2; batch++) { /* at the head; behind it, at the frame */
		uint64_t at = extent.batches[batch].offset_bytes + batch * 2 * BATCH_ALIGN;

		cr_assert_eq(disk_sim_add_rule(rig->disk,
				 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_READ),
				     .rc = -EIO,
				     .offset_bytes = rig_data_offset(rig, slot, at),
				     .bytes = 1 }),
		    0);
		cr_assert_eq(find_rc(batch, 1, 1), -EIO);
		cr_assert_eq(node_counters(rig->node)->reads_failed, batch + 1);
		cr_assert_eq(node_counters(rig->node)->heads_read, 2 * batch);
		disk_sim_clear_rules(rig->disk);
		cr_assert(answers(batch, 1, 1, 1));
		cr_assert_eq(rig->node->reads_count, 0);
	}
}

Test(find, delete_waits_for_it)
{
	struct rig_call *finds[4], *delete;

	disk_sim_set_slowness(rig->disk, 20);
	for (uint32_t i = 0; i < 4; i++)
		finds[i] = find_post(i % 3, 0, 1);
	delete = rig_post(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_DELETE,
		.id = extent.id,
		.offset_bytes = extent.incarnation,
		.epoch = 5 },
	    NULL, 0);
	cr_assert_eq(rig_wait(delete), 0);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert(finds[i]->is_answered);
		cr_assert_eq(finds[i]->rc, 0);
		rig_done(finds[i]);
	}
	rig_done(delete);
}

/* ---- the heads in memory ---- */

static uint32_t
head_length(uint64_t number)
{
	return 200 + (uint32_t)(number * 7919 % 4000);
}

static void
put(const struct sn_extent *copy, uint64_t number)
{
	static uint8_t head[BATCH_HEAD_BYTES_MAX];
	struct batch_info info = { .offset_bytes = number * BATCH_ALIGN,
		.desc_bytes = head_length(number) };

	memset(head, (int)(number % 251), sizeof(head));
	(void)sn_heads_put(rig->node, copy, &info, head);
}

static void
check_oldest_go(uint64_t head_cache_bytes, uint64_t most)
{
	const struct sn_extent *copy;
	uint64_t kept = 0;

	teardown();
	make(head_cache_bytes);
	copy = sn_extent_find(rig->node, &extent.id);
	for (uint64_t last = 0; last < 3000; last++) {
		put(copy, last);
		for (uint64_t i = last > 60 ? last - 60 : 0; i <= last; i++) {
			const struct sn_head *head = sn_heads_get(rig->node, copy, i * BATCH_ALIGN);

			cr_assert(head != NULL || i + 5 < last, "%u of %u", (unsigned)i,
			    (unsigned)last);
			if (head == NULL)
				continue;
			kept++;
			cr_assert_eq(head->info.offset_bytes, i * BATCH_ALIGN);
			cr_assert_eq(head->info.desc_bytes, head_length(i));
			cr_assert_eq(head->bytes[0], i % 251);
			cr_assert_eq(head->bytes[BATCH_HEADER_BYTES + head_length(i) - 1], i % 251);
		}
	}
	cr_assert_gt(kept / 3000, 15, "64 KiB hold 26 of 2.4 KiB");
	cr_assert_lt(kept / 3000, most);
	cr_assert(answers(0, 0, 1, 1));
}

Test(find, the_oldest_heads_go_and_none_is_another)
{
	check_oldest_go(NODE_HEAD_CACHE_BYTES_MIN, 32);
}

Test(find, a_cache_of_any_length)
{
	check_oldest_go(NODE_HEAD_CACHE_BYTES_MIN + 1000, 32);
	check_oldest_go(NUM_KIB(96), 48);
}
