/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paint.h -- what a scope shows of a range, painted: span by span, run by run, layer by layer, the oldest first
 *
 * That takes as long as there are frames and keys, however many runs lie over each other; asking for each block would
 * take the product of both.
 */
#ifndef CLEAVE_MIDDLETIER_READ_PAINT_H
#define CLEAVE_MIDDLETIER_READ_PAINT_H

#include <stdbool.h>
#include <stdint.h>

struct mt_frame;
struct mt_read;
struct mt_run_index;

/* Neighbouring blocks that one record holds. */
struct read_stroke {
	uint32_t at, count;               /* blocks, counted from the range's first */
	uint8_t record_kind;              /* enum record_kind */
	const struct mt_run_index *index; /* whose frame it is; NULL: a layer's record */
	const struct mt_frame *frame;
};

/* The canvas: count blocks of a read's range, from its first on. */
struct read_canvas {
	uint32_t count;
	/* A stroke covers those before. */
	void (*paint)(struct read_canvas *canvas, const struct read_stroke *stroke);
};

/*
 * mt_read_paint_is_ready -- are all indexes in memory that @read's range wants?
 *
 * If not, they are waited for: mt_read_again follows, or mt_read_on_painted with why not.
 * *@ret_is_known: something is known of the chunk, in any span.
 */
bool mt_read_paint_is_ready(struct mt_read *read, bool *ret_is_known);
/* mt_read_paint -- it is: paint all that the session's scope shows of the range's first canvas->count blocks. */
void mt_read_paint(const struct mt_read *read, struct read_canvas *canvas);

#endif /* CLEAVE_MIDDLETIER_READ_PAINT_H */
