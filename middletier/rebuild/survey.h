/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.h -- what the storage nodes hold, all of it, for rebuild.c
 *
 * A survey is every copy of every extent, as the nodes' lists tell. It answers what a lost metadata
 * store knew: how many shards there are, how high epochs went, which manifest extents there are.
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_SURVEY_H
#define CLEAVE_MIDDLETIER_REBUILD_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "common/replica.h"

struct wire_listed;

struct mt_survey_copy {
	struct extent_id id;
	enum extent_kind kind;
	uint32_t node_id;
	uint64_t incarnation, length_bytes;
	uint32_t fence_epoch; /* of its shard at that node */
	bool is_damaged;
	bool is_tried; /* rebuild.c's */
};

struct mt_survey {
	struct mt_survey_copy *copies; /* sorted by mt_survey_sort */
	uint32_t count, max;
};

/* The copies of one extent: copies[first] to copies[first + count - 1]. */
struct mt_survey_extent {
	struct extent_id id;
	uint32_t first, count;
};

/* mt_survey_add -- a copy that node @node_id lists. Returns 0; -ENOMEM. */
int mt_survey_add(struct mt_survey *survey, uint32_t node_id, const struct wire_listed *listed);
/* mt_survey_drop_node -- forget all copies at @node_id, whose list broke off. */
void mt_survey_drop_node(struct mt_survey *survey, uint32_t node_id);
/* mt_survey_sort -- sort the copies by shard, epoch, counter, node; before any question below is asked. */
void mt_survey_sort(struct mt_survey *survey);
void mt_survey_fini(struct mt_survey *survey);

/* mt_survey_shard_count -- one more than the number of the greatest shard seen; 0: none was. */
uint32_t mt_survey_shard_count(const struct mt_survey *survey);
/* mt_survey_epoch -- the greatest epoch of @shard, of extents and fences; 0: none. */
uint32_t mt_survey_epoch(const struct mt_survey *survey, uint32_t shard);
/* mt_survey_find -- the copies of extent @id; false: none was seen. */
bool mt_survey_find(const struct mt_survey *survey, const struct extent_id *id,
    struct mt_survey_extent *ret_extent);
/* mt_survey_manifest -- the @nth newest manifest extent of @shard, 0 the newest; false: there are fewer. */
bool mt_survey_manifest(const struct mt_survey *survey, uint32_t shard, uint32_t nth,
    struct mt_survey_extent *ret_extent);
/*
 * mt_survey_best_copy -- the longest copy of @extent that is whole and not tried yet; NULL: none is left
 *
 * An append is acknowledged when all copies have it, so any whole copy has what was acknowledged.
 */
struct mt_survey_copy *mt_survey_best_copy(struct mt_survey *survey,
    const struct mt_survey_extent *extent);
/* mt_survey_replicas -- the copies as a root's replicas, at most MT_REPLICAS_MAX: whole ones first. */
uint32_t mt_survey_replicas(const struct mt_survey *survey, const struct mt_survey_extent *extent,
    struct mt_replica ret_replicas[MT_REPLICAS_MAX]);

#endif /* CLEAVE_MIDDLETIER_REBUILD_SURVEY_H */
