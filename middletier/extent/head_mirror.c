/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head_mirror.c -- see head_mirror.h
 *
 *	room  | entry | entry |  free  | entry | entry | entry |  too short for the next |
 *	                      ^ end    ^ first, the oldest     ^ wrap                     ^ room_units
 *
 * Entries lie in the order in which they came, each in one piece: a ring. The oldest go when there is no room for a new one.
 * That is nearly the order in which they become useless, for a log gets shorter at its old end. An entry is found by a
 * table of chains, newest first; one that was forgotten is in none, and its room comes free in its turn.
 *
 * A chain is short whatever a peer sends. A head that comes again takes its own place, or stands for the one before it; and
 * of heads of one chain the newest MT_HEAD_MIRROR_DEPTH_MAX are there.
 */
#include "extent/head_mirror.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "common/alloc.h"

#define HEAD_MIRROR_MAGIC 0x524d4448u /* "HDMR" */
#define MIRROR_UNIT 8u                /* bytes: places in the room are counted in it */
#define MIRROR_BYTES_A_CHAIN 512u     /* of the room: heads are seldom shorter */
#define MIRROR_NONE UINT32_MAX

struct mirror_entry {
	uint64_t extent; /* packed */
	uint64_t offset_bytes;
	uint32_t next;       /* in its chain: a place */
	uint32_t head_bytes; /* 0: forgotten */
	uint32_t units;      /* of the entry and the head, which is behind it */
	uint32_t reserved;
};
_Static_assert(sizeof(struct mirror_entry) % MIRROR_UNIT == 0, "a head behind it is aligned");

struct mt_head_mirror {
	uint32_t magic;
	uint32_t chain_count; /* a power of two */
	uint32_t *chains;     /* places of their newest entries; MIRROR_NONE */
	uint64_t *room;
	uint32_t room_units;
	uint32_t first, end, wrap; /* places; wrap counts while is_wrapped */
	bool is_wrapped;           /* end is below first */
	uint32_t entry_count;      /* forgotten ones, too */
};

static struct mirror_entry *
mirror_at(const struct mt_head_mirror *mirror, uint32_t place)
{
	assert(place < mirror->room_units);
	return (struct mirror_entry *)(void *)(mirror->room + place);
}

static uint32_t *
mirror_chain(const struct mt_head_mirror *mirror, uint64_t extent, uint64_t offset_bytes)
{
	uint64_t hash = num_mix_u64(extent ^ num_mix_u64(offset_bytes + 1));

	return &mirror->chains[hash & (mirror->chain_count - 1)];
}

/* The link that points to the entry of that batch; NULL: there is none. */
static uint32_t *
mirror_find(const struct mt_head_mirror *mirror, uint64_t extent, uint64_t offset_bytes)
{
	uint32_t *at = mirror_chain(mirror, extent, offset_bytes);

	while (*at != MIRROR_NONE) {
		struct mirror_entry *entry = mirror_at(mirror, *at);

		if (entry->extent == extent && entry->offset_bytes == offset_bytes)
			return at;
		at = &entry->next;
	}
	return NULL;
}

static void
mirror_unlink(struct mt_head_mirror *mirror, uint32_t place)
{
	struct mirror_entry *entry = mirror_at(mirror, place);
	uint32_t *at = mirror_chain(mirror, entry->extent, entry->offset_bytes);

	while (*at != place) {
		assert(*at != MIRROR_NONE);
		at = &mirror_at(mirror, *at)->next;
	}
	*at = entry->next;
}

static void
mirror_drop_first(struct mt_head_mirror *mirror)
{
	struct mirror_entry *entry = mirror_at(mirror, mirror->first);

	assert(mirror->entry_count > 0);
	if (entry->head_bytes != 0)
		mirror_unlink(mirror, mirror->first);
	mirror->first += entry->units;
	mirror->entry_count--;
	if (mirror->is_wrapped && mirror->first == mirror->wrap) {
		mirror->first = 0;
		mirror->is_wrapped = false;
	}
	if (mirror->entry_count == 0) {
		assert(!mirror->is_wrapped);
		mirror->first = mirror->end = 0;
	}
}

/* The place of @units that are free, behind the newest entry. */
static uint32_t
mirror_make_room(struct mt_head_mirror *mirror, uint32_t units)
{
	uint32_t place;

	assert(units <= mirror->room_units);
	for (;;) {
		if (mirror->is_wrapped) {
			if (mirror->first - mirror->end >= units)
				break;
			mirror_drop_first(mirror);
		} else if (mirror->room_units - mirror->end >= units) {
			break;
		} else {
			mirror->wrap = mirror->end;
			mirror->end = 0;
			mirror->is_wrapped = true;
		}
	}
	place = mirror->end;
	mirror->end += units;
	return place;
}

/* The entry that *@link points to is in no chain any more. */
static void
mirror_forget(struct mt_head_mirror *mirror, uint32_t *link)
{
	struct mirror_entry *entry = mirror_at(mirror, *link);

	assert(entry->head_bytes != 0);
	entry->head_bytes = 0;
	*link = entry->next;
}

/* @chain has room for one more, and none of that batch. True: a head as long was there, and is @head now. */
static bool
mirror_replace(struct mt_head_mirror *mirror, uint32_t *chain, const struct mirror_entry *wanted,
    const void *head)
{
	uint32_t depth = 0;

	for (uint32_t *at = chain; *at != MIRROR_NONE;) {
		struct mirror_entry *entry = mirror_at(mirror, *at);

		if (entry->extent == wanted->extent &&
		    entry->offset_bytes == wanted->offset_bytes) {
			if (entry->head_bytes == wanted->head_bytes) {
				memcpy(entry + 1, head, entry->head_bytes);
				return true;
			}
			mirror_forget(mirror, at);
		} else if (++depth >= MT_HEAD_MIRROR_DEPTH_MAX) {
			mirror_forget(mirror, at);
		} else {
			at = &entry->next;
		}
	}
	return false;
}

void
mt_head_mirror_put(struct mt_head_mirror *mirror, const struct extent_id *id, uint64_t offset_bytes,
    const void *head, uint32_t head_bytes)
{
	const struct mirror_entry wanted = { .extent = extent_id_pack(id),
		.offset_bytes = offset_bytes,
		.head_bytes = head_bytes,
		.units = (uint32_t)(num_round_up(sizeof(wanted) + head_bytes, MIRROR_UNIT) /
		    MIRROR_UNIT) };
	uint32_t *chain = mirror_chain(mirror, wanted.extent, offset_bytes), place;
	struct mirror_entry *entry;

	CHECK_OBJ(mirror, HEAD_MIRROR_MAGIC);
	assert(head_bytes > 0 && head_bytes <= BATCH_HEAD_BYTES_MAX);
	if (mirror_replace(mirror, chain, &wanted, head))
		return;
	place = mirror_make_room(mirror, wanted.units);
	entry = mirror_at(mirror, place);
	*entry = wanted;
	memcpy(entry + 1, head, head_bytes);
	entry->next = *chain;
	*chain = place;
	mirror->entry_count++;
}

uint32_t
mt_head_mirror_get(const struct mt_head_mirror *mirror, const struct extent_id *id,
    uint64_t offset_bytes, void *out)
{
	const uint32_t *at = mirror_find(mirror, extent_id_pack(id), offset_bytes);
	const struct mirror_entry *entry;

	CHECK_OBJ(mirror, HEAD_MIRROR_MAGIC);
	if (at == NULL)
		return 0;
	entry = mirror_at(mirror, *at);
	memcpy(out, entry + 1, entry->head_bytes);
	return entry->head_bytes;
}

void
mt_head_mirror_forget(struct mt_head_mirror *mirror, const struct extent_id *id,
    uint64_t offset_bytes)
{
	uint32_t *at = mirror_find(mirror, extent_id_pack(id), offset_bytes);

	CHECK_OBJ(mirror, HEAD_MIRROR_MAGIC);
	if (at != NULL)
		mirror_forget(mirror, at);
}

uint32_t
mt_head_mirror_depth(const struct mt_head_mirror *mirror)
{
	uint32_t longest = 0;

	CHECK_OBJ(mirror, HEAD_MIRROR_MAGIC);
	for (uint32_t i = 0; i < mirror->chain_count; i++) {
		uint32_t depth = 0;

		for (uint32_t at = mirror->chains[i]; at != MIRROR_NONE;
		     at = mirror_at(mirror, at)->next)
			depth++;
		longest = (uint32_t)num_max(longest, depth);
	}
	return longest;
}

void
mt_head_mirror_clear(struct mt_head_mirror *mirror)
{
	CHECK_OBJ(mirror, HEAD_MIRROR_MAGIC);
	memset(mirror->chains, 0xff, mirror->chain_count * sizeof(*mirror->chains));
	mirror->first = mirror->end = mirror->wrap = mirror->entry_count = 0;
	mirror->is_wrapped = false;
}

struct mt_head_mirror *
mt_head_mirror_create(uint64_t bytes)
{
	struct mt_head_mirror *mirror = mt_calloc(1, sizeof(*mirror));
	uint32_t chain_count = 1;

	assert(bytes >= MT_HEAD_MIRROR_BYTES_MIN);
	if (mirror == NULL)
		return NULL;
	/* Places are of 32 bits. */
	bytes = num_min(bytes, (uint64_t)(MIRROR_NONE - 1) * MIRROR_UNIT);
	while ((uint64_t)chain_count * 2 * MIRROR_BYTES_A_CHAIN <= bytes)
		chain_count *= 2;
	*mirror = (struct mt_head_mirror){ .magic = HEAD_MIRROR_MAGIC,
		.chain_count = chain_count,
		.room_units = (uint32_t)((bytes - chain_count * sizeof(uint32_t)) / MIRROR_UNIT) };
	mirror->chains = mt_calloc(chain_count, sizeof(*mirror->chains));
	mirror->room = mt_calloc(mirror->room_units, MIRROR_UNIT);
	if (mirror->chains == NULL || mirror->room == NULL) {
		mt_head_mirror_destroy(mirror);
		return NULL;
	}
	mt_head_mirror_clear(mirror);
	return mirror;
}

void
mt_head_mirror_destroy(struct mt_head_mirror *mirror)
{
	if (mirror == NULL)
		return;
	CHECK_OBJ(mirror, HEAD_MIRROR_MAGIC);
	mt_free(mirror->chains);
	mt_free(mirror->room);
	mirror->magic = 0;
	mt_free(mirror);
}
