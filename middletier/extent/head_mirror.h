/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head_mirror.h -- heads of other gateways' batches, kept in memory for a take-over
 *
 * A cache of bytes that never change, by extent and place. It may lack any of them, and what it has may be anything: who
 * takes a head from it checks that head as if it had come from a node. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_HEAD_MIRROR_H
#define CLEAVE_MIDDLETIER_EXTENT_HEAD_MIRROR_H

#include <stdint.h>

struct extent_id;
struct mt_head_mirror;

#define MT_HEAD_MIRROR_BYTES_MIN (256u * 1024u)
#define MT_HEAD_MIRROR_DEPTH_MAX 16u /* heads that a look-up passes: by chance it is some 13 */

/* mt_head_mirror_create -- one that holds nothing, and takes @bytes at once, at least the above; NULL: no memory. */
struct mt_head_mirror *mt_head_mirror_create(uint64_t bytes);
/* mt_head_mirror_destroy -- NULL is a no-op. */
void mt_head_mirror_destroy(struct mt_head_mirror *mirror);
/*
 * mt_head_mirror_put -- keep @head of the batch at @offset_bytes of @id
 *
 * @head_bytes: 1 to BATCH_HEAD_BYTES_MAX; copied. The heads that came first make room. Of two heads of one batch the last
 * one counts: as long as the one before, it takes that one's room, and grows no younger.
 */
void mt_head_mirror_put(struct mt_head_mirror *mirror, const struct extent_id *id,
    uint64_t offset_bytes, const void *head, uint32_t head_bytes);
/* mt_head_mirror_get -- copy that head to @out, of BATCH_HEAD_BYTES_MAX. Returns its bytes; 0: it is not there. */
uint32_t mt_head_mirror_get(const struct mt_head_mirror *mirror, const struct extent_id *id,
    uint64_t offset_bytes, void *out);
/* mt_head_mirror_forget -- the head that mt_head_mirror_get found is not worth anything. */
void mt_head_mirror_forget(struct mt_head_mirror *mirror, const struct extent_id *id,
    uint64_t offset_bytes);
/* mt_head_mirror_depth -- how many heads a look-up passes at most: for tests, all are looked at. */
uint32_t mt_head_mirror_depth(const struct mt_head_mirror *mirror);
/* mt_head_mirror_clear -- no head is there any more. */
void mt_head_mirror_clear(struct mt_head_mirror *mirror);

#endif /* CLEAVE_MIDDLETIER_EXTENT_HEAD_MIRROR_H */
