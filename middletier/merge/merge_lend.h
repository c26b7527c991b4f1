/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_lend.h -- nodes are told that another gateway executes a merge: with keys they let nobody else in unasked
 *
 * With keys a node lets only the owner of a shard's epoch read and write what is the shard's (storage-node/claim.c). So
 * before a recipe goes away each node that it names is told who may append to the target, and read; and afterwards that
 * nobody may. One at a time, a port. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_LEND_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_LEND_H

#include <stdbool.h>
#include <stdint.h>

struct merge_lend;
struct mt_port;
struct mt_recipe;

/* mt_merge_lend_create -- @fn is called with @arg when all that were told have answered. NULL: no memory. */
struct merge_lend *mt_merge_lend_create(struct mt_port *port, void (*fn)(int rc, void *arg),
    void *arg);
/* mt_merge_lend_destroy -- nothing comes back any more. NULL is none. */
void mt_merge_lend_destroy(struct merge_lend *lend);
/*
 * mt_merge_lend_begin -- quiet: the nodes of @recipe, which has a target, are told that gateway @gateway may
 *
 * 0: fn follows, once, with 0 or why a node of the target would not let it in; unless mt_merge_lend_end comes before. Else
 * nobody was told: -ENOTCONN: a node of the target cannot be reached, or is of a release that knows no such request.
 */
int mt_merge_lend_begin(struct merge_lend *lend, const struct mt_recipe *recipe, uint64_t gateway);
/* mt_merge_lend_end -- who was told is told that nobody may any more. No answer is waited for. A no-op without begin. */
void mt_merge_lend_end(struct merge_lend *lend);
/* mt_merge_lend_is_quiet -- nothing is out. */
bool mt_merge_lend_is_quiet(const struct merge_lend *lend);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_LEND_H */
