/* SPDX-License-Identifier: Apache-2.0 */
/* holes.h -- chunks that hold nothing */
#ifndef CLEAVE_MIDDLETIER_READ_HOLES_H
#define CLEAVE_MIDDLETIER_READ_HOLES_H

#include <stdbool.h>
#include <stdint.h>

struct mt_index;
struct mt_scope;
struct mt_session;
struct split_msg;
struct wire_io;

/*
 * mt_chunk_is_hole -- nothing is known of the block's chunk in any span of @scope, and no write to it is under way
 *
 * @segment is that of the scope's span 0. The shard is served (all of its log is in the index).
 */
bool mt_chunk_is_hole(const struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block);

/* mt_holes -- holes.c: answer a HOLES of a segment that is the session's volume's, at once. */
void mt_holes(struct mt_session *session, struct split_msg *msg, const struct wire_io *io);

#endif /* CLEAVE_MIDDLETIER_READ_HOLES_H */
