/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback_hint.h -- where the batches of a part are, as its directory says before any of it was seen; for merge_readback.c
 *
 * So their heads are asked for together, each as long as it is. It is no more than that: what comes is judged as if it had
 * been asked for head after head, and the directory itself last of all.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_READBACK_HINT_H
#define CLEAVE_MIDDLETIER_MERGE_READBACK_HINT_H

#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/gather.h"

struct extent_id;
struct mt_run;
struct mt_run_dir;

/* All zeros: there is none. */
struct readback_hint {
	struct mt_run_dir *dir;
	uint32_t slot_at; /* of dir: the next */
	uint32_t length_bytes;
	uint8_t bytes[BATCH_HEAD_BYTES_MAX]; /* of the directory, as a replica has it */
};

/* mt_readback_hint_take -- @length_bytes of hint->bytes are the directory of @run, in @id: else there is no hint. */
void mt_readback_hint_take(struct readback_hint *hint, const struct mt_run *run,
    const struct extent_id *id, uint32_t length_bytes);
/*
 * mt_readback_hint_stretches -- heads from that at @at_bytes of the extent on, before @end_bytes, as many as an answer holds
 *
 * Whoever has made the directory: what is asked for is in order, and lies between the two. Returns how many, up to
 * WIRE_GATHER_MAX of @stretches; 0: it knows of none there.
 */
uint32_t mt_readback_hint_stretches(struct readback_hint *hint, uint32_t at_bytes,
    uint32_t end_bytes, struct wire_stretch *stretches);
/* mt_readback_hint_spend -- it was wrong: it knows of no heads any more. */
void mt_readback_hint_spend(struct readback_hint *hint);
/* mt_readback_hint_drop -- there is none. */
void mt_readback_hint_drop(struct readback_hint *hint);

#endif /* CLEAVE_MIDDLETIER_MERGE_READBACK_HINT_H */
