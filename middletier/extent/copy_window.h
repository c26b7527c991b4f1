/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_window.h -- a part of an extent in the messages that it arrived in, and the batches that lie in it whole
 *
 *	 at                    next                                      end
 *	 | batch | batch | batch | batch | batch | the beginning of one   |
 *	 +------- messages[0] -------+------- messages[1] ---- ... -------+
 *	         sent            \___ mt_copy_window_batch: its head, checked in its chain
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_COPY_WINDOW_H
#define CLEAVE_MIDDLETIER_EXTENT_COPY_WINDOW_H

#include <stdint.h>

#include "cleave/batch.h"
#include "common/port.h"
#include "extent/call.h"

struct split_msg;

#define COPY_READS_MAX 4u /* messages of a window, each of MT_RECEIVE_BYTES but the last */
#define COPY_WINDOW_BYTES (COPY_READS_MAX * MT_RECEIVE_BYTES)

_Static_assert(COPY_WINDOW_BYTES >= BATCH_BYTES_MAX, "a window holds a batch");

struct copy_window {
	uint64_t at_bytes, end_bytes;           /* of the extent */
	struct split_msg *msgs[COPY_READS_MAX]; /* as their READs were answered; the window's */
	uint64_t next_bytes;                    /* the batch that is sent next */
	uint32_t next_crc;                      /* of the one before it */
	uint8_t head[BATCH_HEAD_BYTES_MAX];
};

/* mt_copy_window_begin -- at @at_bytes, behind a batch of @crc; @bytes of it are about to be read. */
void mt_copy_window_begin(struct copy_window *window, uint64_t at_bytes, uint64_t bytes,
    uint32_t crc);
/* mt_copy_window_release -- give its messages back. */
void mt_copy_window_release(struct copy_window *window);
/*
 * mt_copy_window_batch -- the batch at next_bytes, by its head
 *
 * @length_bytes: the extent's; no batch ends behind it.
 * Returns 0; -EMSGSIZE: it is not in the window whole, so the next window begins with it; -EBADMSG.
 */
int mt_copy_window_batch(struct copy_window *window, struct split_port *port,
    const struct extent_id *id, enum extent_kind kind, uint64_t length_bytes,
    struct batch_info *ret_info);
/* mt_copy_window_fill -- the APPEND of the batch at next_bytes: its place and its bytes. */
void mt_copy_window_fill(const struct copy_window *window, const struct batch_info *info,
    struct mt_call *call);
/* mt_copy_window_next -- the batch at next_bytes was sent. */
void mt_copy_window_next(struct copy_window *window, const struct batch_info *info);

#endif /* CLEAVE_MIDDLETIER_EXTENT_COPY_WINDOW_H */
