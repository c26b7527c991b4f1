/* SPDX-License-Identifier: Apache-2.0 */
/* part.h -- a list of a shard's parts, and what is done with all of them in its order */
#ifndef CLEAVE_MIDDLETIER_SHARD_PART_H
#define CLEAVE_MIDDLETIER_SHARD_PART_H

#include <stdbool.h>
#include <stdint.h>

struct mt_link;
struct mt_shard;

/* A member is NULL where the part has nothing to do. */
struct mt_part {
	const char *name;
	int (*init)(struct mt_shard *shard); /* 0, or an error that leaves nothing of this part */
	/* A life begins: the memory that it needs of its port. 0, or an error that leaves nothing of it. */
	int (*take)(struct mt_shard *shard);
	void (*give)(struct mt_shard *shard);  /* after reset, or without: that memory goes back */
	void (*start)(struct mt_shard *shard); /* the shard is SERVING */
	/* Nobody is called any more, and nothing new is begun; what is out still ends in the part. */
	void (*stop)(struct mt_shard *shard);
	/* The same for a part that has requests: they are answered @rc. */
	void (*stop_rc)(struct mt_shard *shard, int rc);
	bool (*is_quiet)(const struct mt_shard *shard); /* all that was out is back */
	void (*reset)(struct mt_shard *shard);          /* all are quiet: as after init */
	void (*on_link)(struct mt_shard *shard, struct mt_link *link, bool is_up);
	void (*fini)(struct mt_shard *shard); /* in any state, also when init is all that was */
};

/* mt_parts_init -- in the list's order. The first error is returned; the parts before it are ended again. */
int mt_parts_init(const struct mt_part *parts, uint32_t count, struct mt_shard *shard);
/* mt_parts_take -- in the list's order, too. The first error is returned; the parts before it give theirs back. */
int mt_parts_take(const struct mt_part *parts, uint32_t count, struct mt_shard *shard);

/* The others go through the list from its end to its beginning. */
/* mt_parts_start -- the shard is SERVING. */
void mt_parts_start(const struct mt_part *parts, uint32_t count, struct mt_shard *shard);
/* mt_parts_stop -- @rc < 0 is the answer to requests. */
void mt_parts_stop(const struct mt_part *parts, uint32_t count, struct mt_shard *shard, int rc);
/* mt_parts_busy -- the name of a part that is not quiet; NULL: all are. */
const char *mt_parts_busy(const struct mt_part *parts, uint32_t count,
    const struct mt_shard *shard);
/* mt_parts_reset -- the parts are quiet; a shard that was stopped may be started again. */
void mt_parts_reset(const struct mt_part *parts, uint32_t count, struct mt_shard *shard);
/* mt_parts_give -- the memory of the life that has ended goes back; nothing, where none was taken. */
void mt_parts_give(const struct mt_part *parts, uint32_t count, struct mt_shard *shard);
/* mt_parts_on_link -- @link came up or went down. mt_parts_fini -- the parts go, in any state. */
void mt_parts_on_link(const struct mt_part *parts, uint32_t count, struct mt_shard *shard,
    struct mt_link *link, bool is_up);
void mt_parts_fini(const struct mt_part *parts, uint32_t count, struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_SHARD_PART_H */
