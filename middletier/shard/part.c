/* SPDX-License-Identifier: Apache-2.0 */
/* part.c -- a list of a shard's parts, and what is done with all of them in its order */
#include <stddef.h>

#include "base/check.h"
#include "shard/part.h"

int
mt_parts_init(const struct mt_part *parts, uint32_t count, struct mt_shard *shard)
{
	assert(count > 0);
	for (uint32_t i = 0; i < count; i++) {
		int rc = parts[i].init == NULL ? 0 : parts[i].init(shard);

		assert(parts[i].name != NULL);
		if (rc != 0) {
			mt_parts_fini(parts, i, shard);
			return rc;
		}
	}
	return 0;
}

int
mt_parts_take(const struct mt_part *parts, uint32_t count, struct mt_shard *shard)
{
	assert(count > 0);
	for (uint32_t i = 0; i < count; i++) {
		int rc = parts[i].take == NULL ? 0 : parts[i].take(shard);

		assert(parts[i].take == NULL || parts[i].give != NULL);
		if (rc != 0) {
			mt_parts_give(parts, i, shard);
			return rc;
		}
	}
	return 0;
}

void
mt_parts_give(const struct mt_part *parts, uint32_t count, struct mt_shard *shard)
{
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].give != NULL)
			parts[i].give(shard);
	}
}

void
mt_parts_start(const struct mt_part *parts, uint32_t count, struct mt_shard *shard)
{
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].start != NULL)
			parts[i].start(shard);
	}
}

void
mt_parts_stop(const struct mt_part *parts, uint32_t count, struct mt_shard *shard, int rc)
{
	assert(rc < 0);
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].stop != NULL)
			parts[i].stop(shard);
		if (parts[i].stop_rc != NULL)
			parts[i].stop_rc(shard, rc);
	}
}

const char *
mt_parts_busy(const struct mt_part *parts, uint32_t count, const struct mt_shard *shard)
{
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].is_quiet != NULL && !parts[i].is_quiet(shard))
			return parts[i].name;
	}
	return NULL;
}

void
mt_parts_reset(const struct mt_part *parts, uint32_t count, struct mt_shard *shard)
{
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].reset != NULL)
			parts[i].reset(shard);
	}
}

void
mt_parts_on_link(const struct mt_part *parts, uint32_t count, struct mt_shard *shard,
    struct mt_link *link, bool is_up)
{
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].on_link != NULL)
			parts[i].on_link(shard, link, is_up);
	}
}

void
mt_parts_fini(const struct mt_part *parts, uint32_t count, struct mt_shard *shard)
{
	for (uint32_t i = count; i-- > 0;) {
		if (parts[i].fini != NULL)
			parts[i].fini(shard);
	}
}
