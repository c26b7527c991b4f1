/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten.h -- a clone gets what its origin shows: which chunk of a shard is copied next
 *
 * Of each chunk a merge writes what the clone's scope sees behind the clone's own spans to runs of the clone that
 * are the oldest of their chunk. No reader sees a difference; SNAPSHOTS.md says why.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_FLATTEN_H
#define CLEAVE_MIDDLETIER_MERGE_FLATTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/scope.h"

struct mt_index;
struct mt_merge_input;
struct mt_port;
struct mt_shard;

/* A shard's. All zero: no clone is flattened. */
struct flatten {
	struct mt_scope
	    scope;         /* the clone's, with its origin's spans; span_count 0: there is none */
	uint32_t key_id;   /* the clone's newest data key; 0: it has none */
	uint64_t next;     /* the clone's chunks below this one have been copied */
	uint64_t retry_ns; /* nothing is copied before */
	uint64_t began_ns; /* the first copy was looked for */
	uint64_t copying_bytes, copied_bytes; /* of the copy under way; of those that have ended */
	bool is_copying;                      /* a merge is at work, and has @scope */
	bool is_off;                          /* no more are begun */
	bool is_done;
};

/* Bytes that a clone shares with its origins in a shard: stored, of one copy, rather too many than too few. */
struct mt_flatten_share {
	uint64_t bytes;
	uint64_t copied_bytes; /* of these: of chunks that have been copied */
};

/* mt_flatten_count -- adds what is in @index; walks its chunks. @scope: of any volume. */
void mt_flatten_count(const struct mt_scope *scope, const struct mt_index *index,
    struct mt_flatten_share *share);
/* mt_flatten_bytes_s -- how fast it goes, as it has gone since it began; 0: not at all, or done. */
uint64_t mt_flatten_bytes_s(const struct flatten *flatten, uint64_t now_ns);

/* mt_flatten_has_room -- enough nodes have room that clients will not miss, for what gives none back. */
bool mt_flatten_has_room(const struct mt_port *port);
/*
 * mt_flatten_ask -- the clone whose scope is @scope is to be flattened; NULL: none is any more
 *
 * 0: all that this shard has of it is copied, and durable; always for NULL. -EAGAIN: not yet.
 */
int mt_flatten_ask(struct flatten *flatten, const struct mt_scope *scope);
/* mt_flatten_find -- the next copy. 0; -ENOENT: none, or not now; -ENOMEM. mt_flatten_began -- it was begun. */
int mt_flatten_find(struct flatten *flatten, const struct mt_shard *shard,
    struct mt_merge_input *ret_input);
void mt_flatten_began(struct flatten *flatten);
/* mt_flatten_ended -- the copy of chunk @target has ended with @rc. */
void mt_flatten_ended(struct flatten *flatten, const struct mt_shard *shard, uint64_t target,
    int rc);

#endif /* CLEAVE_MIDDLETIER_MERGE_FLATTEN_H */
