/* SPDX-License-Identifier: Apache-2.0 */
/* format_pages.c -- the pages of an empty disk; how they reach it is the caller's business */
#include "format_pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "ondisk.h"

#define SLOT_BYTES_DEFAULT NUM_MIB(64)
#define SLOT_BYTES_DEFAULT_MIN NUM_MIB(1)
#define SLOTS_WANTED 512u
#define RESERVE_ONE_IN 16u /* of all slots */
#define RESERVE_MIN 3u     /* for runs, for tombstones, for a manifest: one each */
#define RESERVE_MIN_FEW 2u /* of fewer than RESERVE_SLOTS slots */
#define RESERVE_SLOTS 16u
#define RESERVE_MERGE_ONE_IN 8u /* of all slots, at most, for the merge of a whole chunk */

struct format_target {
	int (*put)(void *arg, uint64_t offset_bytes, const void *page);
	void *arg;
};

static int
format_fences(const struct ondisk_super *super, const struct format_target *to, void *page)
{
	int rc = 0;

	assert(super->slot_count > 0);
	for (uint32_t i = 0; rc == 0 && i < 2 * ONDISK_FENCE_PAGES; i++) {
		struct ondisk_fence fence = { .page_index = i / 2, .generation = i % 2 };

		ondisk_fence_encode(page, super, &fence);
		rc = to->put(to->arg, ondisk_fence_offset(i / 2, i % 2), page);
	}
	return rc;
}

static int
format_supers(struct ondisk_super *super, const struct format_target *to, void *page)
{
	int rc = 0;

	assert(super->slot_count > 0);
	/* The first copy last: before it is there the disk is not formatted. */
	for (uint32_t i = ONDISK_SUPER_COPIES; rc == 0 && i-- > 0;) {
		super->generation = i;
		ondisk_super_encode(page, super);
		rc = to->put(to->arg, ondisk_super_offset(i), page);
	}
	return rc;
}

static int
format_plan(const struct node_format *format, struct ondisk_super *ret_super, char *reason)
{
	int rc;

	*ret_super = (struct ondisk_super){
		.cluster_id = format->cluster_id,
		.node_id = format->node_id,
		.slot_bytes = format->slot_bytes != 0 ? format->slot_bytes : SLOT_BYTES_DEFAULT,
		.created_unix_ns = format->created_unix_ns,
	};
	memcpy(ret_super->disk_uuid, format->disk_uuid, sizeof(ret_super->disk_uuid));
	if (format->cluster_id == 0 || format->node_id == 0) {
		(void)snprintf(reason, FORMAT_REASON_BYTES_MAX, "%s must not be 0",
		    format->cluster_id == 0 ? "the cluster id" : "the node id");
		return -EINVAL;
	}
	rc = ondisk_super_plan(ret_super, format->capacity_bytes);
	if (rc == -EINVAL)
		(void)snprintf(reason, FORMAT_REASON_BYTES_MAX,
		    "the slot size must be a multiple of 4 KiB from 64 KiB to 64 MiB");
	else if (rc == -ENOSPC)
		(void)snprintf(reason, FORMAT_REASON_BYTES_MAX,
		    "%llu bytes are too few for one slot of %llu",
		    (unsigned long long)format->capacity_bytes,
		    (unsigned long long)ret_super->slot_bytes);
	assert(rc != 0 || ret_super->slot_count > 0);
	return rc;
}

uint32_t
node_format_slot_count(const struct node_format *format)
{
	char reason[FORMAT_REASON_BYTES_MAX];
	struct ondisk_super super;

	return format_plan(format, &super, reason) == 0 ? super.slot_count : 0;
}

uint64_t
node_format_slot_bytes(uint64_t capacity_bytes)
{
	uint64_t slot_bytes = SLOT_BYTES_DEFAULT;

	while (slot_bytes > SLOT_BYTES_DEFAULT_MIN && capacity_bytes / slot_bytes < SLOTS_WANTED)
		slot_bytes /= 2;
	return slot_bytes;
}

uint32_t
node_format_reserve(uint64_t slot_count, uint64_t extent_bytes)
{
	/* Slots of two chunks: half of the reserve is for runs, and a merge writes a chunk. */
	uint64_t merge_count = 2 * (CLEAVE_CHUNK_BYTES / extent_bytes + 2);
	uint32_t min_count = slot_count >= RESERVE_SLOTS ? RESERVE_MIN : RESERVE_MIN_FEW;

	assert(slot_count > 0 && extent_bytes > 0);
	return (uint32_t)num_max(num_max(slot_count / RESERVE_ONE_IN, min_count),
	    num_min(merge_count, slot_count / RESERVE_MERGE_ONE_IN));
}

int
node_format(const struct node_format *format,
    int (*put)(void *arg, uint64_t offset_bytes, const void *page), void *arg, char *reason)
{
	struct format_target to = { .put = put, .arg = arg };
	struct ondisk_super super;
	void *page;
	int rc = format_plan(format, &super, reason);

	assert(reason != NULL);
	assert(put != NULL);
	if (rc != 0)
		return rc;
	page = aligned_alloc(ONDISK_PAGE_BYTES, ONDISK_PAGE_BYTES);
	if (page == NULL) {
		(void)snprintf(reason, FORMAT_REASON_BYTES_MAX, "out of memory");
		return -ENOMEM;
	}
	rc = format_fences(&super, &to, page);
	if (rc == 0)
		rc = format_supers(&super, &to, page);
	if (rc != 0)
		(void)snprintf(reason, FORMAT_REASON_BYTES_MAX, "cannot write: %s", strerror(-rc));
	free(page);
	return rc;
}

int
node_probe(const void *page, struct node_format *ret_format)
{
	struct ondisk_super super;
	const char *field;
	int rc = ondisk_super_decode(page, UINT64_MAX, &super, &field);

	assert(page != NULL && ret_format != NULL);
	if (rc != 0)
		return rc;
	*ret_format = (struct node_format){ .capacity_bytes = ONDISK_SLOTS_OFFSET +
		    super.slot_count * super.slot_bytes,
		.slot_bytes = super.slot_bytes,
		.cluster_id = super.cluster_id,
		.node_id = super.node_id,
		.created_unix_ns = super.created_unix_ns };
	memcpy(ret_format->disk_uuid, super.disk_uuid, sizeof(ret_format->disk_uuid));
	return 0;
}
