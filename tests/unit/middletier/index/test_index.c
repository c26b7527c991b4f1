/* SPDX-License-Identifier: Apache-2.0 */
/* test_index.c -- chunks, layers, promises, records, cuts, scopes, the lists of runs */
#include <errno.h>

#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/alloc.h"
#include "middletier/index/index_apply.h"
#include "middletier/index/index_cuts.h"
#include "middletier/index/memtable.h"
#include "unit/index_look.h"
#include "unit/index_rig.h"

#define SEGMENT UINT64_C(5)
#define CHUNK ((uint32_t)CLEAVE_CHUNK_BLOCKS)

static uint64_t sequence;

static void
setup(void)
{
	sequence = 0;
	index_rig_init(EXTENT_RUN);
}

static void
teardown(void)
{
	index_rig_fini();
}

TestSuite(index, .init = setup, .fini = teardown);

/* ---- records ---- */

static struct record_desc
record_of(enum record_kind kind, uint64_t segment, uint32_t block, uint32_t block_count)
{
	struct record_desc record = { .kind = (uint8_t)kind,
		.segment = segment,
		.block = block,
		.block_count = block_count,
		.sequence = ++sequence };

	if (kind == RECORD_WRITE)
		record.stored_bytes = 100 * block_count;
	for (uint32_t i = 0; kind == RECORD_WRITE && i < block_count; i++)
		record.block_crcs[i] = (uint32_t)sequence + i;
	return record;
}

static void
apply(enum record_kind kind, uint64_t segment, uint32_t block, uint32_t block_count, uint64_t cut)
{
	struct record_desc record = record_of(kind, segment, block, block_count);

	cr_assert_eq(mt_index_apply(map, &record, cut, 9, 0, 0), 0);
}

static void
write_block(uint32_t block, uint64_t cut)
{
	apply(RECORD_WRITE, SEGMENT, block, 1, cut);
}

/* The sequence of the write that @scope shows; 0: nothing is known, UINT64_MAX: a tombstone. */
static uint64_t
seen(const struct mt_scope *scope, uint32_t block)
{
	struct mt_location location;
	struct mt_run *run;
	enum mt_found found =
	    mt_index_find(map, scope, scope->spans[0].segment_base, block, &location, &run);

	cr_assert_neq(found, MT_FOUND_UNLOADED);
	if (found == MT_FOUND_NOTHING)
		return 0;
	return location.stored_bytes == 0 ? UINT64_MAX : location.block_crc;
}

static uint64_t
live(uint32_t block)
{
	struct mt_scope scope;

	mt_scope_init(&scope, SEGMENT);
	return seen(&scope, block);
}

static uint64_t
at_snapshot(uint64_t snapshot, uint32_t block)
{
	struct mt_scope scope = { .span_count = 1, .spans = { { SEGMENT, 0, snapshot } } };

	return seen(&scope, block);
}

static struct mt_layer *
first_layer(uint64_t segment, uint32_t block)
{
	struct mt_chunk *chunk = mt_index_chunk(map, mt_chunk_number(segment, block));

	return LIST_ENTRY(list_first(&chunk->layers), struct mt_layer, link);
}

Test(index, an_empty_one_shows_nothing)
{
	cr_assert_eq(live(0), 0);
	cr_assert_null(mt_index_chunk(map, 0));
	cr_assert_eq(mt_index_flushed(map, 0), 0);
	mt_index_prefetch(map, 1, 1);
	mt_index_destroy(NULL);
}

Test(index, without_memory_there_is_none)
{
	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_null(mt_index_create(&shard));
		cr_assert_eq(errno, ENOMEM);
	}
	mt_alloc_fail_at(0);
}

Test(index, a_record_becomes_its_blocks)
{
	struct record_desc record = record_of(RECORD_WRITE, SEGMENT, CHUNK + 100, 3);

	record.codec_id = ENGINE_LZ4;
	record.stored_crc = 0xabc;
	record.payload_offset_bytes = 300;
	cr_assert_eq(mt_index_apply(map, &record, 0, 8, 40960, 777), 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct mt_location *location = index_look(map, SEGMENT, CHUNK + 100 + i);

		cr_assert_not_null(location);
		cr_assert_eq(location->extent_index, 8);
		cr_assert_eq(location->offset_bytes, 41260);
		cr_assert_eq(location->ring_position, 777);
		cr_assert_eq(location->stored_bytes, 300);
		cr_assert_eq(location->stored_crc, 0xabc);
		cr_assert_eq(location->block_crc, 1 + i);
		cr_assert_eq(location->codec_id, ENGINE_LZ4);
		cr_assert_eq(location->record_blocks, 3);
		cr_assert_eq(location->block_in_record, i);
	}
	cr_assert_null(index_look(map, SEGMENT, 100));
	cr_assert_null(index_look(map, SEGMENT + 1, CHUNK + 100));
	cr_assert_eq(map->key_count, 3);
	cr_assert_eq(first_layer(SEGMENT, CHUNK)->stored_bytes, 300);
	cr_assert_eq(first_layer(SEGMENT, CHUNK)->first_extent, 8);
}

Test(index, many_chunks_are_found_while_their_table_grows)
{
	enum { CHUNKS = 5000 };

	for (uint32_t i = 0; i < CHUNKS; i++)
		apply(RECORD_WRITE, i / 7, i % 7 * CHUNK, 1, 0);
	for (uint32_t i = 0; i < CHUNKS; i++)
		cr_assert_eq(index_look(map, i / 7, i % 7 * CHUNK)->block_crc, i + 1);
	cr_assert_eq(map->chunk_count, CHUNKS);
	cr_assert_null(mt_index_chunk(map, CHUNKS));
}

Test(index, without_memory_for_a_larger_table_chunks_are_found_all_the_same)
{
	for (uint32_t i = 0; i < 64; i++)
		apply(RECORD_WRITE, i, 0, 1, 0);
	mt_alloc_fail_at(3); /* the chunk and its segment come first */
	apply(RECORD_WRITE, 64, 0, 1, 0);
	cr_assert(mt_alloc_has_failed());
	for (uint32_t i = 0; i <= 64; i++)
		cr_assert_not_null(index_look(map, i, 0));
}

static void
add_segment(const struct mt_segment *segment, void *arg)
{
	struct mt_segment *sum = arg;

	sum->number++; /* of segments */
	sum->chunk_count += segment->chunk_count;
	sum->layer_bytes += segment->layer_bytes;
	sum->run_bytes += segment->run_bytes;
}

static struct mt_segment
all_segments(void)
{
	struct mt_segment sum = { .number = 0 };

	mt_segments_each(map, add_segment, &sum);
	return sum;
}

Test(index, segments_count_what_their_chunks_hold)
{
	struct mt_segment sum;

	for (uint32_t segment = 0; segment < 1000; segment++)
		apply(RECORD_WRITE, segment, 0, 1, 0);
	apply(RECORD_WRITE, 7, CLEAVE_CHUNK_BLOCKS, 2, 0); /* another chunk */
	apply(RECORD_WRITE, 7, 0, 1, 0);                   /* and a block again */
	sum = all_segments();
	cr_assert_eq(sum.number, 1000);
	cr_assert_eq(sum.chunk_count, map->chunk_count);
	cr_assert_eq(sum.layer_bytes, 100 * (1000 + 2 + 1));
	/* Chunks that go take their bytes along; a segment goes with its last chunk. */
	mt_index_remove_chunk(mt_index_chunk(map, mt_chunk_number(7, 0)));
	mt_index_remove_chunk(mt_index_chunk(map, mt_chunk_number(7, CLEAVE_CHUNK_BLOCKS)));
	sum = all_segments();
	cr_assert_eq(sum.number, 999);
	cr_assert_eq(sum.layer_bytes, 100 * 999);
	mt_alloc_fail_at(2); /* without a segment there is no chunk */
	cr_assert_null(mt_chunk_create(map, mt_chunk_number(5000, 0)));
	cr_assert_eq(map->chunk_count, 999);
}

Test(index, layers_are_listed_by_age)
{
	uint64_t last = 0;
	struct loop_link *link;

	for (uint32_t i = 0; i < 50; i++)
		apply(RECORD_WRITE, i * 7 % 10, 0, 1, 0);
	for (link = map->layers_by_age.next; link != &map->layers_by_age; link = link->next) {
		const struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, age_link);

		cr_assert_gt(layer->first_sequence, last);
		cr_assert_eq(layer->last_sequence, layer->first_sequence + 40);
		last = layer->first_sequence;
	}
	cr_assert_eq(last, 10);
}

/* ---- tombstones ---- */

Test(index, a_tombstone_covers_what_is_there_and_adds_nothing)
{
	write_block(5, 0);
	write_block(CHUNK, 0);
	apply(RECORD_DISCARD, SEGMENT, 0, 100, 0);
	cr_assert_eq(map->key_count, 2);
	cr_assert_eq(live(5), UINT64_MAX);
	cr_assert_eq(live(6), 0);
	cr_assert_eq(live(CHUNK), 2);
	cr_assert_eq(index_look(map, SEGMENT, 5)->record_kind, RECORD_DISCARD);
	apply(RECORD_ZEROES, SEGMENT, 0, 100, 0);
	cr_assert_eq(index_look(map, SEGMENT, 5)->record_kind, RECORD_ZEROES);
}

Test(index, a_tombstone_over_nothing_leaves_no_trace)
{
	apply(RECORD_DISCARD, SEGMENT, 0, CHUNK, 0);
	apply(RECORD_ZEROES, SEGMENT, CHUNK, 16, 0);
	cr_assert_eq(map->chunk_count, 0);
	cr_assert_eq(map->memory_bytes, 0);
}

Test(index, a_clone_must_hide_its_origin)
{
	uint64_t clone = wire_segment(3, 5);

	apply(RECORD_DISCARD, clone, 7, 2, 0);
	cr_assert_eq(map->key_count, 2);
	cr_assert_eq(index_look(map, clone, 8)->record_kind, RECORD_DISCARD);
	cr_assert_null(index_look(map, clone, 9));
}

Test(index, a_discard_of_a_whole_chunk_is_no_key)
{
	for (uint32_t i = 0; i < 200; i++)
		write_block(i, 0);
	apply(RECORD_DISCARD, SEGMENT, 0, CHUNK, 0);
	cr_assert_eq(map->key_count, 0);
	cr_assert_eq(first_layer(SEGMENT, 0)->stored_bytes, 0);
	cr_assert_eq(mt_index_chunk(map, mt_chunk_number(SEGMENT, 0))->layer_bytes, 0);
	cr_assert_eq(live(0), UINT64_MAX);
	cr_assert_eq(live(CHUNK - 1), UINT64_MAX);
	write_block(3, 0);
	cr_assert_eq(live(3), sequence);
	cr_assert_eq(live(4), UINT64_MAX);
	apply(RECORD_DISCARD, SEGMENT, 0, 10, 0);
	cr_assert_eq(map->key_count, 1, "what is hidden already needs no key");
	cr_assert_eq(live(3), UINT64_MAX);
	apply(RECORD_ZEROES, SEGMENT, 0, CHUNK, 0);
	cr_assert_eq(index_look(map, SEGMENT, 4)->record_kind, RECORD_ZEROES);
}

Test(index, a_tombstone_over_a_run_adds_keys)
{
	struct mt_run like = { .extent_index = extent.index,
		.length_bytes = 4096,
		.flushed_sequence = 1 };

	cr_assert_not_null(mt_index_add_run(map, mt_chunk_number(SEGMENT, 0), &like));
	apply(RECORD_DISCARD, SEGMENT, 5, 3, 0);
	cr_assert_eq(map->key_count, 3, "whether it holds them is not known before it is loaded");
	cr_assert_eq(live(5), UINT64_MAX);
}

/* ---- promises ---- */

Test(index, what_was_promised_needs_no_memory)
{
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(mt_index_promise(map, SEGMENT, i * 16, 16), 0);
	mt_alloc_fail_at(1);
	for (uint32_t i = 0; i < 100; i++) {
		apply(i % 3 == 0 ? RECORD_ZEROES : RECORD_WRITE, SEGMENT, i * 16, 16, 0);
		mt_index_unpromise(map, SEGMENT, i * 16, 16);
	}
	cr_assert_not(mt_alloc_has_failed());
	mt_alloc_fail_at(0);
	cr_assert_eq(mt_index_chunk(map, mt_chunk_number(SEGMENT, 0))->promised_count, 0);
}

Test(index, a_layer_that_freezes_leaves_the_next_its_promises)
{
	struct mt_chunk *chunk;

	cr_assert_eq(mt_index_promise(map, SEGMENT, 0, 1), 0);
	write_block(0, 0);
	mt_index_unpromise(map, SEGMENT, 0, 1);
	for (uint32_t i = 0; i < 20; i++)
		cr_assert_eq(mt_index_promise(map, SEGMENT, i * 16, 16), 0);
	chunk = mt_index_chunk(map, mt_chunk_number(SEGMENT, 0));
	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_index_freeze(chunk), -ENOMEM);
		cr_assert_eq(chunk->layer_count, 1);
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(mt_index_freeze(chunk), 0);
	cr_assert_eq(chunk->layer_count, 2);
	cr_assert_eq(mt_index_freeze(chunk), 0, "the next one has no record yet");
	cr_assert_eq(chunk->layer_count, 2);
	mt_alloc_fail_at(1);
	for (uint32_t i = 0; i < 20; i++) {
		apply(RECORD_WRITE, SEGMENT, i * 16, 16, 0);
		mt_index_unpromise(map, SEGMENT, i * 16, 16);
	}
	cr_assert_not(mt_alloc_has_failed());
	mt_alloc_fail_at(0);
	cr_assert_eq(live(0), 2);
	mt_index_remove_layer(
	    LIST_ENTRY(first_layer(SEGMENT, 0)->link.next, struct mt_layer, link));
	cr_assert_eq(live(0), 2);
}

Test(index, a_promise_that_cannot_be_given_leaves_nothing)
{
	for (uint32_t nth = 1; nth <= 3; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_index_promise(map, SEGMENT, 0, 16), -ENOMEM);
		cr_assert_eq(map->chunk_count, 0);
		cr_assert_eq(map->memory_bytes, 0);
	}
	mt_alloc_fail_at(0);
}

Test(index, a_promise_that_is_given_up_leaves_nothing)
{
	cr_assert_eq(mt_index_promise(map, SEGMENT, 0, 16), 0);
	cr_assert_eq(mt_index_promise(map, SEGMENT, 0, CHUNK), 0);
	mt_index_unpromise(map, SEGMENT, 0, 16);
	cr_assert_eq(map->chunk_count, 1);
	mt_index_unpromise(map, SEGMENT, 0, CHUNK);
	cr_assert_eq(map->chunk_count, 0);
	cr_assert_eq(map->memory_bytes, 0);
}

Test(index, a_replayed_record_without_memory_can_come_again)
{
	struct record_desc record = record_of(RECORD_WRITE, SEGMENT, 0, 16);
	struct record_desc tombstone = record_of(RECORD_DISCARD, wire_segment(1, 1), 0, 16);

	for (uint32_t nth = 1; nth <= 3; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_index_apply(map, &record, 0, 1, 0, 0),
		    mt_alloc_has_failed() ? -ENOMEM : 0);
		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_index_apply(map, &tombstone, 0, 1, 0, 0),
		    mt_alloc_has_failed() ? -ENOMEM : 0);
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(mt_index_apply(map, &record, 0, 1, 0, 0), 0);
	cr_assert_eq(mt_index_apply(map, &tombstone, 0, 1, 0, 0), 0);
	cr_assert_eq(map->key_count, 32);
}

/* ---- cuts and scopes ---- */

static void
add_cut(uint64_t cut, uint64_t segment_base, uint32_t segment_count)
{
	struct mt_index_cut like = { cut, segment_base, segment_count };

	cr_assert_eq(mt_index_add_cut(map, &like), 0);
}

Test(index, cuts_part_what_lies_on_both_sides_of_them)
{
	uint64_t chunk = mt_chunk_number(SEGMENT + 1, 5);

	add_cut(9, SEGMENT, 2);
	add_cut(4, SEGMENT + 1, 1);
	for (uint64_t i = 20; i < 40; i++)
		add_cut(i, 1000, 1);
	cr_assert_eq(mt_index_cut_count(map), 22);
	cr_assert(mt_index_is_cut_between(map, chunk, 3, 4));
	cr_assert(mt_index_is_cut_between(map, chunk, 0, 100));
	cr_assert(mt_index_is_cut_between(map, chunk, 4, 9));
	cr_assert_not(mt_index_is_cut_between(map, chunk, 4, 8));
	cr_assert_not(mt_index_is_cut_between(map, chunk, 4, 4));
	cr_assert_not(mt_index_is_cut_between(map, chunk, 9, 100));
	cr_assert_not(mt_index_is_cut_between(map, mt_chunk_number(SEGMENT, 5), 0, 8));
	cr_assert_not(mt_index_is_cut_between(map, mt_chunk_number(SEGMENT + 2, 5), 0, 15));
	cr_assert_not(mt_index_is_cut_between(map, mt_chunk_number(SEGMENT - 1, 5), 0, 15));
	mt_index_drop_cut(map, 9);
	mt_index_drop_cut(map, 10);
	cr_assert_not(mt_index_is_cut_between(map, chunk, 4, 9));
	cr_assert(mt_index_is_cut_between(map, chunk, 3, 9));
}

Test(index, a_cut_without_memory_is_refused)
{
	struct mt_index_cut like = { 1, SEGMENT, 1 };

	mt_alloc_fail_at(1);
	cr_assert_eq(mt_index_add_cut(map, &like), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_eq(mt_index_cut_count(map), 0);
}

Test(index, a_snapshot_sees_what_is_below_its_cut)
{
	write_block(1, 0);
	write_block(2, 0);
	add_cut(3, SEGMENT, 1);
	write_block(2, 3);
	apply(RECORD_DISCARD, SEGMENT, 1, 1, 3);
	add_cut(5, SEGMENT, 1);
	write_block(3, 5);
	cr_assert_eq(live(1), UINT64_MAX);
	cr_assert_eq(live(2), 3);
	cr_assert_eq(live(3), 5);
	cr_assert_eq(at_snapshot(3, 1), 1);
	cr_assert_eq(at_snapshot(3, 2), 2);
	cr_assert_eq(at_snapshot(3, 3), 0);
	cr_assert_eq(at_snapshot(5, 2), 3);
	cr_assert_eq(at_snapshot(5, 3), 0);
	cr_assert_eq(mt_index_chunk(map, mt_chunk_number(SEGMENT, 0))->layer_count, 3);
}

Test(index, a_cut_of_another_volume_begins_no_layer)
{
	write_block(1, 0);
	add_cut(3, SEGMENT + 1, 1);
	write_block(2, 3);
	cr_assert_eq(mt_index_chunk(map, mt_chunk_number(SEGMENT, 0))->layer_count, 1);
	cr_assert_eq(first_layer(SEGMENT, 0)->cut, 3);
}

Test(index, behind_a_cut_a_record_without_memory_can_come_again)
{
	struct record_desc record;

	cr_assert_eq(mt_index_promise(map, SEGMENT, 0, 1), 0);
	cr_assert_eq(mt_index_promise(map, SEGMENT, 1, 1), 0);
	write_block(0, 0);
	mt_index_unpromise(map, SEGMENT, 0, 1);
	add_cut(1, SEGMENT, 1);
	record = record_of(RECORD_WRITE, SEGMENT, 1, 1);
	mt_alloc_fail_at(1);
	cr_assert_eq(mt_index_apply(map, &record, 1, 1, 0, 0), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_eq(mt_index_apply(map, &record, 1, 1, 0, 0), 0);
	mt_index_unpromise(map, SEGMENT, 1, 1);
	cr_assert_eq(live(1), 2);
	cr_assert_eq(at_snapshot(1, 1), 0);
}

Test(index, a_discard_of_a_whole_chunk_hides_it_from_its_cut_on)
{
	write_block(1, 0);
	add_cut(3, SEGMENT, 1);
	apply(RECORD_DISCARD, SEGMENT, 0, CHUNK, 3);
	cr_assert_eq(live(1), UINT64_MAX);
	cr_assert_eq(at_snapshot(3, 1), 1);
}

Test(index, a_clone_sees_its_origin_as_it_was)
{
	uint64_t clone = wire_segment(1, SEGMENT);
	struct mt_scope scope = { .span_count = 2,
		.spans = { { clone, 0, UINT64_MAX }, { SEGMENT, 0, 3 } } };

	write_block(1, 0);
	write_block(2, 0);
	add_cut(3, SEGMENT, 1);
	write_block(1, 3);
	apply(RECORD_WRITE, clone, 2, 1, 3);
	cr_assert_eq(seen(&scope, 1), 1);
	cr_assert_eq(seen(&scope, 2), 4);
	cr_assert_eq(live(1), 3);
	cr_assert_eq(live(2), 2);
	apply(RECORD_DISCARD, clone, 1, 1, 3);
	cr_assert_eq(seen(&scope, 1), UINT64_MAX);
	cr_assert_eq(live(1), 3);
}

Test(index, a_volume_that_was_rolled_back_does_not_see_the_gap)
{
	struct mt_scope scope = { .span_count = 2,
		.spans = { { SEGMENT, 7, UINT64_MAX }, { SEGMENT, 0, 3 } } };

	write_block(1, 0);
	write_block(2, 0);
	add_cut(3, SEGMENT, 1);
	write_block(1, 3);
	write_block(4, 3);
	add_cut(7, SEGMENT, 1);
	write_block(2, 7);
	cr_assert_eq(seen(&scope, 1), 1);
	cr_assert_eq(seen(&scope, 2), 5);
	cr_assert_eq(seen(&scope, 4), 0);
}

/*
 * Write, snapshot, zero, roll back, zero again: whatever the zeros are, and however many cuts lie between.
 * The block that was written before the snapshot reads as zeros, and the snapshot has it for ever.
 */
static void
zero_around_a_roll_back(uint64_t segment, enum record_kind kind, uint32_t block, uint32_t count)
{
	struct mt_scope scope = { .span_count = 2,
		.spans = { { segment, 7, UINT64_MAX }, { segment, 0, 3 } } };
	struct mt_scope then = { .span_count = 1, .spans = { { segment, 0, 3 } } };
	uint64_t written;

	apply(RECORD_WRITE, segment, 8, 1, 0);
	written = sequence;
	add_cut(3, segment, 1);
	apply(kind, segment, block, count, 3);
	add_cut(7, segment, 1);
	cr_assert_eq(seen(&scope, 8), written, "what came behind the snapshot is not seen");
	apply(kind, segment, block, count, 7);
	cr_assert_eq(seen(&scope, 8), UINT64_MAX, "zeros of kind %d came back", (int)kind);
	cr_assert_eq(seen(&then, 8), written);
}

Test(index, zeros_behind_a_roll_back_hide_what_it_brought_back)
{
	zero_around_a_roll_back(SEGMENT, RECORD_ZEROES, 8, 1);
	zero_around_a_roll_back(SEGMENT + 1, RECORD_DISCARD, 0, 16);
	zero_around_a_roll_back(SEGMENT + 2, RECORD_DISCARD, 0, CHUNK);
	zero_around_a_roll_back(SEGMENT + 3, RECORD_ZEROES, 0, CHUNK);
}

Test(index, zeros_of_a_clone_behind_its_roll_back_hide_its_origin)
{
	uint64_t clone = wire_segment(1, SEGMENT);
	struct mt_scope scope = { .span_count = 3,
		.spans = { { clone, 7, UINT64_MAX }, { clone, 0, 5 }, { SEGMENT, 0, 3 } } };

	write_block(8, 0);
	add_cut(3, SEGMENT, 1);
	add_cut(5, clone, 1);
	apply(RECORD_DISCARD, clone, 0, 16, 5);
	add_cut(7, clone, 1);
	cr_assert_eq(seen(&scope, 8), 1);
	apply(RECORD_DISCARD, clone, 8, 1, 7);
	cr_assert_eq(seen(&scope, 8), UINT64_MAX);
	zero_around_a_roll_back(wire_segment(2, SEGMENT), RECORD_ZEROES, 8, 1);
}

Test(index, behind_a_cut_zeros_over_nothing_still_leave_no_trace)
{
	write_block(1, 0);
	add_cut(3, SEGMENT, 1);
	apply(RECORD_DISCARD, SEGMENT, 0, 16, 3);
	cr_assert_eq(map->key_count, 2);
	apply(RECORD_DISCARD, SEGMENT, 0, 16, 3);
	cr_assert_eq(map->key_count, 2, "no cut lies between");
	add_cut(7, SEGMENT, 1);
	apply(RECORD_DISCARD, SEGMENT, 0, 16, 7);
	cr_assert_eq(map->key_count, 3, "what was never written needs none");
	cr_assert_eq(live(1), UINT64_MAX);
}

Test(index, behind_a_cut_the_room_of_a_promise_is_not_taken_for_a_layer)
{
	write_block(8, 0);
	add_cut(3, SEGMENT, 1);
	apply(RECORD_ZEROES, SEGMENT, 8, 1, 3);
	cr_assert_eq(mt_index_promise(map, SEGMENT, 0, 16), 0);
	cr_assert_eq(mt_index_freeze(mt_index_chunk(map, mt_chunk_number(SEGMENT, 0))), 0);
	apply(RECORD_ZEROES, SEGMENT, 8, 1, 3);
	cr_assert_eq(map->key_count, 2, "the layer that has no record yet parts nothing");
	mt_index_unpromise(map, SEGMENT, 0, 16);
}

/* ---- runs ---- */

static struct mt_run *
add_run(uint64_t chunk, uint64_t flushed_sequence, uint64_t cut, uint32_t offset_bytes)
{
	struct mt_run like = { .extent_index = extent.index,
		.offset_bytes = offset_bytes,
		.length_bytes = 8192,
		.flushed_sequence = flushed_sequence,
		.cut = cut };
	struct mt_run *run = mt_index_add_run(map, chunk, &like);

	cr_assert_not_null(run);
	return run;
}

Test(index, runs_are_in_order_and_counted)
{
	uint64_t number = mt_chunk_number(SEGMENT, 0), last = UINT64_MAX;
	struct mt_chunk *chunk;
	struct mt_run *runs[4];
	struct loop_link *link;

	runs[0] = add_run(number, 10, 0, 0);
	runs[1] = add_run(number, 30, 0, 8192);
	runs[2] = add_run(number, 20, 0, 16384);
	runs[3] = add_run(number, 20, 0, 24576);
	chunk = mt_index_chunk(map, number);
	for (link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		const struct mt_run *run = LIST_ENTRY(link, struct mt_run, link);

		cr_assert_leq(run->flushed_sequence, last);
		last = run->flushed_sequence;
	}
	cr_assert_eq(mt_index_flushed(map, number), 30);
	cr_assert_eq(chunk->run_count, 4);
	cr_assert_eq(chunk->run_bytes, 4 * 8192);
	cr_assert_eq(extent.run_count, 4);
	cr_assert_eq(extent.run_bytes, 4 * 8192);
	mt_index_remove_run(runs[1]);
	cr_assert_eq(mt_index_flushed(map, number), 20);
	cr_assert_eq(extent.run_count, 3);
	cr_assert_eq(map->run_bytes, 3 * 8192);
	cr_assert_not(mt_index_drop_empty(chunk));
	mt_index_remove_run(runs[0]);
	mt_index_remove_run(runs[2]);
	mt_index_remove_run(runs[3]);
	cr_assert_eq(extent.run_bytes, 0);
	cr_assert(mt_index_drop_empty(chunk));
	cr_assert_eq(map->chunk_count, 0);
}

Test(index, a_run_that_is_not_loaded_must_be)
{
	struct mt_run *run = add_run(mt_chunk_number(SEGMENT, 0), 1, 2, 0), *found = NULL;
	struct mt_scope scope;
	struct mt_location location;

	sequence = 1;
	write_block(7, 2);
	mt_scope_init(&scope, SEGMENT);
	cr_assert_eq(mt_index_find(map, &scope, SEGMENT, 1, &location, &found), MT_FOUND_UNLOADED);
	cr_assert_eq(found, run);
	cr_assert_eq(mt_index_find(map, &scope, SEGMENT, 7, &location, &found), MT_FOUND_RECORD);
	scope.spans[0].cut_below = 2;
	cr_assert_eq(mt_index_find(map, &scope, SEGMENT, 1, &location, &found), MT_FOUND_NOTHING,
	    "it is of no interest to who does not see it");
}

Test(index, a_run_without_memory_is_not_added)
{
	struct mt_run like = { .extent_index = extent.index, .length_bytes = 4096 };

	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_null(mt_index_add_run(map, 7, &like));
		cr_assert_eq(errno, ENOMEM);
		cr_assert_eq(map->chunk_count, 0);
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(extent.run_count, 0);
}

Test(index, a_removed_chunk_takes_all_with_it)
{
	write_block(1, 0);
	write_block(CHUNK, 0);
	(void)add_run(mt_chunk_number(SEGMENT, 0), 1, 0, 0);
	mt_index_remove_chunk(mt_index_chunk(map, mt_chunk_number(SEGMENT, 0)));
	cr_assert_eq(live(1), 0);
	cr_assert_eq(live(CHUNK), 2);
	cr_assert_eq(map->key_count, 1);
	cr_assert_eq(extent.run_count, 0);
}

/* ---- a model ---- */

#define MODEL_CUTS 12u
enum { MODEL_BLOCKS = 600 };

static uint64_t
model_seen(const struct mt_scope *scope, uint32_t block)
{
	uint64_t sees = seen(scope, block);

	return sees == UINT64_MAX ? 0 : sees;
}

static uint32_t
model_block(uint64_t *state, uint32_t count)
{
	/* Half of all meets in a few blocks, so that zeros meet zeros on both sides of a cut. */
	uint32_t range = random_below(state, 2) == 0 ? 32 : MODEL_BLOCKS;

	return (uint32_t)random_below(state, range - count);
}

/*
 * Writes, zeros, snapshots and roll-backs at random: each snapshot shows for ever what it showed at first,
 * and the volume what it was rolled back to.
 */
static void
model_run(uint64_t seed)
{
	static uint64_t now[MODEL_BLOCKS], then[MODEL_CUTS + 1][MODEL_BLOCKS];
	struct mt_scope scope, scopes[MODEL_CUTS + 1];
	uint64_t state[4], cut = 0;

	random_seed(state, seed);
	log_info("seed %u", (unsigned int)seed);
	memset(now, 0, sizeof(now));
	mt_scope_init(&scope, SEGMENT);
	for (uint32_t step = 0; step < 40000; step++) {
		uint32_t count = 1 + (uint32_t)random_below(state, 16);
		uint32_t block = model_block(state, count);
		uint64_t dice = random_below(state, 100);

		if (step % 3000 == 2999 && cut < MODEL_CUTS) {
			uint64_t back = random_below(state, 2) == 0 ? random_below(state, cut + 1)
								    : 0;

			add_cut(++cut, SEGMENT, 1);
			mt_scope_before(&scope, cut, &scopes[cut]);
			memcpy(then[cut], now, sizeof(now));
			if (back != 0) {
				cr_assert_eq(mt_scope_above(SEGMENT, cut, &scopes[back], &scope),
				    0);
				memcpy(now, then[back], sizeof(now));
			}
		}
		if (step % 500 == 499)
			cr_assert_eq(mt_index_freeze(
					 mt_index_chunk(map, mt_chunk_number(SEGMENT, 0))),
			    0);
		apply(dice < 20     ? RECORD_DISCARD
			: dice < 40 ? RECORD_ZEROES
				    : RECORD_WRITE,
		    SEGMENT, block, count, cut);
		for (uint32_t i = 0; i < count; i++)
			now[block + i] = dice < 40 ? 0 : sequence + i;
	}
	for (uint32_t i = 0; i < MODEL_BLOCKS; i++) {
		for (uint64_t n = 1; n <= cut; n++)
			cr_assert_eq(model_seen(&scopes[n], i), then[n][i]);
		cr_assert_eq(model_seen(&scope, i), now[i]);
	}
}

Test(index, random_use_against_a_model)
{
	for (uint64_t seed = 11; seed < 19; seed++) {
		teardown();
		setup();
		model_run(seed);
	}
}
