/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot_sketch.h -- about how often each of many keys was met of late, in few bytes (a count-min sketch)
 *
 * A key's counters, four of them, lie in one line of 64 bytes, so that to meet it costs one line of memory. Keys share
 * counters: the least of a key's four is what it is taken for, so a count may be too high and is never too low. All
 * counts halve each HOT_SKETCH_HALF meetings a slot of the table that asks; a line that is looked at makes up for the
 * halvings that it has missed, so that nobody ever goes through all of them.
 */
#ifndef CLEAVE_MIDDLETIER_READ_HOT_SKETCH_H
#define CLEAVE_MIDDLETIER_READ_HOT_SKETCH_H

#include <stdint.h>

#define HOT_SKETCH_ROWS 4u
#define HOT_SKETCH_COLUMNS 15u /* four rows of them, and the line's age, are 64 bytes */
#define HOT_SKETCH_MAX UINT8_MAX
/*
 * Bytes of lines, and meetings between two halvings, a slot of the table. Of reads by Zipf's law with 0.99, a table of
 * a tenth of the blocks has 0.753 of them with these; 0.721 with 4 bytes and 16 meetings; 0.775 could be had at best.
 */
#define HOT_SKETCH_SLOT_BYTES 16u
#define HOT_SKETCH_HALF 32u

struct hot_sketch_line {
	uint32_t age; /* the sketch's, when it was looked at last */
	uint8_t counts[HOT_SKETCH_ROWS * HOT_SKETCH_COLUMNS];
};

struct hot_sketch {
	struct hot_sketch_line *lines;
	uint32_t line_count;
	uint32_t age;       /* halvings */
	uint64_t met_count; /* since the last one */
	uint64_t half_count;
};

/* mt_hot_sketch_init -- for a table of @slot_count slots, at least one. Returns 0; -ENOMEM. */
int mt_hot_sketch_init(struct hot_sketch *sketch, uint32_t slot_count);
/* mt_hot_sketch_fini -- once it was zeroed, or initialized. */
void mt_hot_sketch_fini(struct hot_sketch *sketch);
/* mt_hot_sketch_meet -- the key of this @hash, whose bits are well mixed, is met once more. */
void mt_hot_sketch_meet(struct hot_sketch *sketch, uint64_t hash);
/* mt_hot_sketch_count -- how often it was met, halved as said above: 0 to HOT_SKETCH_MAX. */
uint32_t mt_hot_sketch_count(struct hot_sketch *sketch, uint64_t hash);

#endif /* CLEAVE_MIDDLETIER_READ_HOT_SKETCH_H */
