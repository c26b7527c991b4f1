/* SPDX-License-Identifier: Apache-2.0 */
/* hot_sketch.c -- see hot_sketch.h */
#include "read/hot_sketch.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/num.h"
#include "common/alloc.h"

#define SKETCH_COUNT_BITS 8u

_Static_assert(sizeof(struct hot_sketch_line) == 64, "a line of memory");

int
mt_hot_sketch_init(struct hot_sketch *sketch, uint32_t slot_count)
{
	uint64_t bytes = (uint64_t)slot_count * HOT_SKETCH_SLOT_BYTES;

	assert(slot_count > 0);
	*sketch = (struct hot_sketch){ .half_count = (uint64_t)slot_count * HOT_SKETCH_HALF,
		.line_count = (uint32_t)(bytes / sizeof(*sketch->lines)) + 1 };
	sketch->lines = mt_calloc(sketch->line_count, sizeof(*sketch->lines));
	return sketch->lines == NULL ? -ENOMEM : 0;
}

void
mt_hot_sketch_fini(struct hot_sketch *sketch)
{
	mt_free(sketch->lines);
	*sketch = (struct hot_sketch){ 0 };
}

/* The line of @hash, by its upper half, with all halvings. */
static struct hot_sketch_line *
sketch_line(struct hot_sketch *sketch, uint64_t hash)
{
	struct hot_sketch_line *line = &sketch->lines[((hash >> 32) * sketch->line_count) >> 32];
	uint32_t missed = sketch->age - line->age;

	if (missed == 0)
		return line;
	line->age = sketch->age;
	for (uint32_t i = 0; i < NUM_COUNT(line->counts); i++)
		line->counts[i] =
		    missed >= SKETCH_COUNT_BITS ? 0 : (uint8_t)(line->counts[i] >> missed);
	return line;
}

/* Where its counters are in the line, by the lower half of @hash. */
static uint32_t
sketch_column(uint64_t hash, uint32_t row)
{
	return row * HOT_SKETCH_COLUMNS +
	    ((uint32_t)(hash >> (8 * row) & UINT8_MAX) * HOT_SKETCH_COLUMNS >> 8);
}

static uint32_t
line_count(const struct hot_sketch_line *line, uint64_t hash)
{
	uint32_t least = HOT_SKETCH_MAX;

	for (uint32_t row = 0; row < HOT_SKETCH_ROWS; row++)
		least = (uint32_t)num_min(least, line->counts[sketch_column(hash, row)]);
	return least;
}

void
mt_hot_sketch_meet(struct hot_sketch *sketch, uint64_t hash)
{
	struct hot_sketch_line *line = sketch_line(sketch, hash);
	uint32_t count = line_count(line, hash);

	/* Counters that are higher already are so by other keys. */
	for (uint32_t row = 0; row < HOT_SKETCH_ROWS && count < HOT_SKETCH_MAX; row++) {
		uint8_t *counter = &line->counts[sketch_column(hash, row)];

		*counter = (uint8_t)(*counter + (*counter == count));
	}
	if (++sketch->met_count == sketch->half_count) {
		sketch->met_count = 0;
		sketch->age++;
	}
}

uint32_t
mt_hot_sketch_count(struct hot_sketch *sketch, uint64_t hash)
{
	return line_count(sketch_line(sketch, hash), hash);
}
