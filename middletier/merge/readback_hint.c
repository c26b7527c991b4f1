/* SPDX-License-Identifier: Apache-2.0 */
/* readback_hint.c -- where the batches of a part are, as its directory says before any of it was seen */
#include "merge/readback_hint.h"

#include "base/check.h"
#include "common/limits.h"
#include "index/index.h"
#include "index/run_dir.h"
#include "index/run_heads.h"
#include "index/run_index.h"

_Static_assert(MT_RECEIVE_BYTES <= WIRE_GATHER_BYTES_MAX, "an answer may be as long as a receive");

void
mt_readback_hint_take(struct readback_hint *hint, const struct mt_run *run,
    const struct extent_id *id, uint32_t length_bytes)
{
	struct mt_run_heads heads;

	assert(hint->dir == NULL && length_bytes <= sizeof(hint->bytes));
	mt_run_heads_init_directory(&heads, run);
	if (mt_run_heads_take(&heads, id, hint->bytes, length_bytes) == 0) {
		hint->dir = mt_run_heads_end_directory(&heads);
		hint->slot_at = 0;
		hint->length_bytes = length_bytes;
	}
	mt_run_heads_fini(&heads);
}

uint32_t
mt_readback_hint_stretches(struct readback_hint *hint, uint32_t at_bytes, uint32_t end_bytes,
    struct wire_stretch *stretches)
{
	const struct mt_run_dir *dir = hint->dir;
	uint32_t count = 0, bytes = 0, behind = at_bytes;

	assert(at_bytes < end_bytes);
	if (dir == NULL)
		return 0;
	while (hint->slot_at < dir->slot_count &&
	    dir->slots[hint->slot_at].place.offset_bytes < at_bytes)
		hint->slot_at++;
	for (uint32_t i = hint->slot_at; i < dir->slot_count && count < WIRE_GATHER_MAX; i++) {
		const struct mt_run_place *place = &dir->slots[i].place;

		if ((count == 0 && place->offset_bytes != at_bytes) ||
		    place->offset_bytes < behind || place->offset_bytes >= end_bytes ||
		    place->head_bytes > end_bytes - place->offset_bytes ||
		    place->head_bytes > MT_RECEIVE_BYTES - bytes)
			break;
		assert(place->head_bytes > 0 && place->head_bytes <= BATCH_HEAD_BYTES_MAX);
		stretches[count++] = (struct wire_stretch){ .offset_bytes = place->offset_bytes,
			.length_bytes = place->head_bytes };
		bytes += place->head_bytes;
		behind = place->offset_bytes + place->head_bytes;
	}
	return count;
}

void
mt_readback_hint_spend(struct readback_hint *hint)
{
	if (hint->dir != NULL)
		hint->slot_at = hint->dir->slot_count;
}

void
mt_readback_hint_drop(struct readback_hint *hint)
{
	mt_run_dir_free(hint->dir);
	hint->dir = NULL;
}
