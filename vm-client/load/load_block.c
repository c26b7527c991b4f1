/* SPDX-License-Identifier: Apache-2.0 */
/* load_block.c -- what the blocks of a run hold: filled before a write, checked after a read */
#include <inttypes.h>

#include "base/check.h"
#include "load_expect.h"
#include "load_run.h"
#include "stamp.h"

#define COMPLAINTS_MAX 10u

void
load_block_fill(struct run *run, struct slot *slot)
{
	struct cleave_client *client = run->load->client;
	struct stamp stamp = {
		.volume_id = slot->target->volume->info.id,
		.block = slot->unit * blocks_per_unit(run),
		.writer = run->writer,
		.sequence = slot->sequence,
	};
	dev_ptr to = slot->buffer;

	assert(slot->op == WORKLOAD_WRITE && slot->sequence > 0);
	for (uint64_t i = 0; i < blocks_per_unit(run); i++) {
		uint64_t index = source_pick(&run->source, stamp.block, stamp.sequence);
		const uint8_t *data = source_block(&run->source, index);

		cleave_buffer_fill(client, to, data, LOAD_BLOCK_BYTES);
		if (!run->options->is_data_exact) {
			uint8_t bytes[STAMP_BYTES];

			stamp.content_crc = run->source.content_crcs[index];
			stamp_put(&stamp, bytes);
			cleave_buffer_fill(client, to, bytes, STAMP_BYTES);
		}
		stamp.block++;
		to = dev_ptr_add(to, LOAD_BLOCK_BYTES);
	}
}

static void
on_mismatch(struct run *run, const struct slot *slot, uint64_t block, const char *got)
{
	const struct unit *unit = unit_of(slot);

	assert(slot->op == WORKLOAD_READ);
	if (run->report->mismatch_count++ >= COMPLAINTS_MAX)
		return;
	load_complain("volume %s, offset %" PRIu64
		      ": mismatch: expected sequence %u to %u of writer %" PRIx64 "%s, got %s",
	    slot->target->volume->name, block * LOAD_BLOCK_BYTES, slot->acknowledged, unit->issued,
	    run->writer,
	    unit->discarded != 0 && unit->discarded >= slot->acknowledged ? " or zeros" : "", got);
}

bool
load_block_check(struct run *run, const struct slot *slot)
{
	const struct unit *unit = unit_of(slot);
	struct load_expected expected = {
		.writer = run->writer,
		.volume_id = slot->target->volume->info.id,
		.acknowledged = slot->acknowledged,
		.issued = unit->issued,
		.discarded = unit->discarded,
	};
	uint64_t first = slot->unit * blocks_per_unit(run);
	uint64_t before = run->report->mismatch_count;
	char got[LOAD_EXPECT_TEXT_BYTES];

	assert(slot->op == WORKLOAD_READ && slot->acknowledged <= unit->issued);
	cleave_buffer_copy(run->load->client, run->scratch, slot->buffer, slot->io.length_bytes);
	for (uint64_t i = 0; i < blocks_per_unit(run); i++) {
		const uint8_t *data = run->scratch + i * LOAD_BLOCK_BYTES;

		expected.block = first + i;
		if (run->options->is_data_exact
			? !load_expect_exact(&expected, &run->source, data, got)
			: !load_expect_stamped(&expected, data, got))
			on_mismatch(run, slot, first + i, got);
	}
	return run->report->mismatch_count == before;
}
