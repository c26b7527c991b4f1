/* SPDX-License-Identifier: Apache-2.0 */
/* survey.c -- see survey.h: one sorted array of copies, and questions to it */
#include "rebuild/survey.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "base/search.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/replica.h"

#define SURVEY_GROWTH_MIN 256u

int
mt_survey_add(struct mt_survey *survey, uint32_t node_id, const struct wire_listed *listed)
{
	assert(survey->count <= survey->max);
	assert(node_id != 0);
	if (survey->count == survey->max) {
		uint32_t max = survey->max == 0 ? SURVEY_GROWTH_MIN : 2 * survey->max;
		struct mt_survey_copy *copies =
		    mt_realloc(survey->copies, (size_t)max * sizeof(*copies));

		if (copies == NULL)
			return -ENOMEM;
		survey->copies = copies;
		survey->max = max;
	}
	survey->copies[survey->count++] = (struct mt_survey_copy){ .id = listed->id,
		.kind = listed->kind,
		.node_id = node_id,
		.incarnation = listed->incarnation,
		.length_bytes = listed->length_bytes,
		.fence_epoch = listed->fence_epoch,
		.is_damaged = listed->is_damaged };
	return 0;
}

void
mt_survey_drop_node(struct mt_survey *survey, uint32_t node_id)
{
	uint32_t kept = 0;

	assert(survey->count <= survey->max);
	for (uint32_t i = 0; i < survey->count; i++) {
		if (survey->copies[i].node_id != node_id)
			survey->copies[kept++] = survey->copies[i];
	}
	survey->count = kept;
}

static int
id_compare(const struct extent_id *a, const struct extent_id *b)
{
	uint64_t packed_a = extent_id_pack(a), packed_b = extent_id_pack(b);

	return packed_a < packed_b ? -1 : packed_a > packed_b;
}

static int
copy_compare(const void *a, const void *b)
{
	const struct mt_survey_copy *left = a, *right = b;
	int by_id = id_compare(&left->id, &right->id);

	if (by_id != 0)
		return by_id;
	return left->node_id < right->node_id ? -1 : left->node_id > right->node_id;
}

void
mt_survey_sort(struct mt_survey *survey)
{
	assert(survey->count <= survey->max);
	if (survey->count > 0)
		qsort(survey->copies, survey->count, sizeof(*survey->copies), copy_compare);
}

void
mt_survey_fini(struct mt_survey *survey)
{
	assert(survey->count <= survey->max);
	mt_free(survey->copies);
	*survey = (struct mt_survey){ 0 };
}

/* ---- questions ---- */

uint32_t
mt_survey_shard_count(const struct mt_survey *survey)
{
	assert(survey->count <= survey->max);
	return survey->count == 0 ? 0 : survey->copies[survey->count - 1].id.shard + 1;
}

/* The first copy of @id, or of what comes behind it. */
static uint32_t
survey_position(const struct mt_survey *survey, const struct extent_id *id)
{
	uint32_t at;

	assert(survey->count == 0 || survey->copies != NULL);
	SEARCH_FIRST(at, survey->count, id_compare(&survey->copies[at].id, id) < 0);
	return at;
}

static uint32_t
survey_shard_begin(const struct mt_survey *survey, uint32_t shard)
{
	assert(shard <= CLEAVE_SHARDS_MAX);
	if (shard >= CLEAVE_SHARDS_MAX)
		return survey->count;
	return survey_position(survey, &(struct extent_id){ .shard = shard });
}

uint32_t
mt_survey_epoch(const struct mt_survey *survey, uint32_t shard)
{
	uint32_t epoch = 0;

	assert(shard < CLEAVE_SHARDS_MAX);
	for (uint32_t i = survey_shard_begin(survey, shard);
	     i < survey->count && survey->copies[i].id.shard == shard; i++) {
		const struct mt_survey_copy *copy = &survey->copies[i];

		epoch = (uint32_t)num_max(epoch, num_max(copy->id.epoch, copy->fence_epoch));
	}
	return epoch;
}

bool
mt_survey_find(const struct mt_survey *survey, const struct extent_id *id,
    struct mt_survey_extent *ret_extent)
{
	uint32_t first = survey_position(survey, id), end = first;

	while (end < survey->count && id_compare(&survey->copies[end].id, id) == 0)
		end++;
	if (end == first)
		return false;
	*ret_extent = (struct mt_survey_extent){ .id = *id, .first = first, .count = end - first };
	return true;
}

bool
mt_survey_manifest(const struct mt_survey *survey, uint32_t shard, uint32_t nth,
    struct mt_survey_extent *ret_extent)
{
	uint32_t begin = survey_shard_begin(survey, shard);
	uint32_t at = survey_shard_begin(survey, shard + 1);

	assert(shard < CLEAVE_SHARDS_MAX);
	while (at > begin) {
		struct mt_survey_extent extent;

		(void)mt_survey_find(survey, &survey->copies[at - 1].id, &extent);
		at = extent.first;
		if (survey->copies[at].kind != EXTENT_MANIFEST || nth-- > 0)
			continue;
		*ret_extent = extent;
		return true;
	}
	return false;
}

struct mt_survey_copy *
mt_survey_best_copy(struct mt_survey *survey, const struct mt_survey_extent *extent)
{
	struct mt_survey_copy *best = NULL;

	assert(extent->count > 0 && extent->first + extent->count <= survey->count);
	for (uint32_t i = extent->first; i < extent->first + extent->count; i++) {
		struct mt_survey_copy *copy = &survey->copies[i];

		if (!copy->is_damaged && !copy->is_tried &&
		    (best == NULL || copy->length_bytes > best->length_bytes))
			best = copy;
	}
	return best;
}

uint32_t
mt_survey_replicas(const struct mt_survey *survey, const struct mt_survey_extent *extent,
    struct mt_replica ret_replicas[MT_REPLICAS_MAX])
{
	uint32_t count = 0;

	assert(extent->count > 0 && extent->first + extent->count <= survey->count);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = extent->first;
		     i < extent->first + extent->count && count < MT_REPLICAS_MAX; i++) {
			const struct mt_survey_copy *copy = &survey->copies[i];

			if (copy->is_damaged == (pass == 1))
				ret_replicas[count++] =
				    (struct mt_replica){ .node_id = copy->node_id,
					    .incarnation = copy->incarnation,
					    .is_damaged = copy->is_damaged };
		}
	}
	return count;
}
