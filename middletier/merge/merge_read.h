/* SPDX-License-Identifier: Apache-2.0 */
/* merge_read.h -- a window's sources that nodes are asked for, as many in a message as lie in an extent and have room */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_READ_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"

struct merge_exec;
struct merge_read;
struct merge_source;

/* mt_merge_source_is_in_ring -- need no node be asked for it? */
bool mt_merge_source_is_in_ring(const struct merge_exec *exec, const struct merge_source *source);
/*
 * mt_merge_read_send -- a node is asked for window->order[@first], which is WANTED, and what can come with it
 *
 * They are ASKED then, and back to WANTED when the answer is none. @read is free. Returns whether to look again: either
 * it is out, or this node could not be asked and another may; false: there is nobody to ask.
 */
bool mt_merge_read_send(struct merge_exec *exec, struct merge_read *read, uint32_t first);
/* mt_merge_read_at -- where @source is in the answer, which has come. */
dev_ptr mt_merge_read_at(const struct merge_read *read, const struct merge_source *source);
/* mt_merge_read_try_release -- it is free, and so is its message, if nobody needs that any more. */
void mt_merge_read_try_release(struct merge_read *read);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_READ_H */
