/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.c -- see hot.h: sets of slots; what tells them apart is in host memory, in the order of the slots
 *
 *	tags    of each slot 31 bits of its name's hash and a 1, or 0: a set's are 32 bytes
 *	shards  whose block it is, so that a stop goes through two bytes a slot
 *	sets    how hot a block must be at least to come in
 *	slots   the rest
 *	pages   whose they are: hot_pages.c
 *
 *	a page  | tags, 1 KiB | head, block | head, block | ...      31 sets of 8; the last page may have fewer
 */
#include "read/hot.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "read/hot_inside.h"
#include "read/hot_pages.h"
#include "read/hot_show.h"
#include "read/read_path.h"

#define HOT_NO_SHARD UINT16_MAX

_Static_assert(HOT_PAGE_TAG_BYTES + HOT_SET_BYTES <= HOT_BYTES_MIN, "the least has a set");
_Static_assert(CLEAVE_SHARDS_MAX < HOT_NO_SHARD, "a shard's number");

static const struct sm_state hot_table[MT_HOT_STATE_NR] = {
	[MT_HOT_EMPTY] = { "empty", SM_TO(MT_HOT_FILLING), SM_INITIAL },
	[MT_HOT_FILLING] = { "filling",
	    SM_TO(MT_HOT_VALID) | SM_TO(MT_HOT_EMPTY) | SM_TO(MT_HOT_FORGOTTEN), 0 },
	[MT_HOT_VALID] = { "valid", SM_TO(MT_HOT_EMPTY), 0 },
	[MT_HOT_FORGOTTEN] = { "forgotten", SM_TO(MT_HOT_EMPTY), 0 },
};

/* ---- names and places ---- */

static uint64_t
key_hash(const struct mt_hot_key *key)
{
	return wire_hot_hash(key->segment, key->block);
}

static bool
is_same_name(const struct mt_hot_key *a, const struct mt_hot_key *b)
{
	return a->segment == b->segment && a->block == b->block;
}

static bool
is_same_place(const struct mt_hot_key *a, const struct mt_hot_key *b)
{
	if (MUTANT(hot_place_unchecked))
		return true;
	return a->extent == b->extent && a->offset_bytes == b->offset_bytes &&
	    a->block_in_record == b->block_in_record;
}

dev_ptr
mt_hot_at(const struct mt_hot *hot, const struct mt_hot_slot *slot)
{
	uint32_t at = mt_hot_slot_index(hot, slot);

	return dev_ptr_add(hot->memory,
	    (uint64_t)(at / HOT_PAGE_SLOTS) * HOT_PAGE_BYTES + wire_hot_at(at % HOT_PAGE_SLOTS) +
		HOT_HEAD_BYTES);
}

/* ---- slots ---- */

static void
slot_empty(struct mt_hot *hot, struct mt_hot_slot *slot)
{
	mt_hot_hide(hot, slot);
	hot->used_count -= slot->sm.state == MT_HOT_VALID;
	sm_move(&slot->sm, MT_HOT_EMPTY);
	slot->key = (struct mt_hot_key){ 0 };
	hot->sets[(slot - hot->slots) / HOT_WAYS].least = 0;
	hot->tags[slot - hot->slots] = 0;
	hot->shards[slot - hot->slots] = HOT_NO_SHARD;
}

void
mt_hot_meet(struct mt_hot *hot, const struct mt_hot_key *key)
{
	CHECK_OBJ(hot, HOT_MAGIC);
	mt_hot_sketch_meet(&hot->sketch, key_hash(key));
}

struct mt_hot_slot *
mt_hot_find(struct mt_hot *hot, const struct mt_hot_key *key)
{
	uint64_t hash = key_hash(key);
	uint32_t at = mt_hot_set_at(hot, key->object, hash), tag = wire_hot_tag(hash);

	CHECK_OBJ(hot, HOT_MAGIC);
	for (uint32_t i = at; i < at + HOT_WAYS; i++) {
		struct mt_hot_slot *slot = &hot->slots[i];

		if (hot->tags[i] == tag && slot->sm.state == MT_HOT_VALID &&
		    is_same_name(&slot->key, key) && is_same_place(&slot->key, key))
			return slot;
	}
	return NULL;
}

bool
mt_hot_is_busy(const struct mt_hot_slot *slot)
{
	return (slot->hold_count > 0 && !MUTANT(hot_hold_ignored)) ||
	    slot->sm.state == MT_HOT_FILLING || slot->sm.state == MT_HOT_FORGOTTEN;
}

/* The slot of another version of @key's block, or of itself; NULL: there is none in the set that begins at @at. */
static struct mt_hot_slot *
set_find_name(const struct mt_hot *hot, const struct mt_hot_key *key, uint32_t tag, uint32_t at)
{
	for (uint32_t i = at; i < at + HOT_WAYS; i++) {
		if (hot->tags[i] == tag && is_same_name(&hot->slots[i].key, key))
			return &hot->slots[i];
	}
	return NULL;
}

/* The coldest slot of the set that is colder than @count, and is not in use; NULL: there is none. */
static struct mt_hot_slot *
set_find_colder(struct mt_hot *hot, uint32_t at, uint32_t count)
{
	struct mt_hot_set *set = &hot->sets[at / HOT_WAYS];
	struct mt_hot_slot *coldest = NULL;
	uint32_t least = count, least_of_all = HOT_SKETCH_MAX;

	if (set->age == hot->sketch.age && count <= set->least)
		return NULL;
	for (uint32_t i = at; i < at + HOT_WAYS; i++) {
		struct mt_hot_slot *slot = &hot->slots[i];
		uint32_t own = slot->sm.state == MT_HOT_EMPTY
		    ? 0
		    : mt_hot_sketch_count(&hot->sketch, key_hash(&slot->key));

		least_of_all = (uint32_t)num_min(least_of_all, own);
		if (own < least && !mt_hot_is_busy(slot)) {
			least = own;
			coldest = slot;
		}
	}
	*set = (struct mt_hot_set){ .age = hot->sketch.age, .least = least_of_all };
	return coldest;
}

/* The slot that goes for a block of this @hash in the set at @at; NULL: none does. */
static struct mt_hot_slot *
set_choose(struct mt_hot *hot, const struct mt_hot_key *key, uint64_t hash, uint32_t at)
{
	uint32_t count = mt_hot_sketch_count(&hot->sketch, hash);
	struct mt_hot_slot *same;

	if (count < hot->count_min)
		return NULL;
	same = set_find_name(hot, key, wire_hot_tag(hash), at);
	if (same == NULL)
		return set_find_colder(hot, at, count);
	return mt_hot_is_busy(same) || is_same_place(&same->key, key) ? NULL : same;
}

struct mt_hot_slot *
mt_hot_fill(struct mt_hot *hot, const struct mt_hot_key *key, uint32_t crc, uint32_t shard)
{
	uint64_t hash = key_hash(key);
	struct mt_hot_slot *slot;

	CHECK_OBJ(hot, HOT_MAGIC);
	assert(shard < CLEAVE_SHARDS_MAX);
	slot = set_choose(hot, key, hash, mt_hot_set_at(hot, key->object, hash));
	if (slot == NULL)
		return NULL;
	if (slot->sm.state == MT_HOT_VALID)
		slot_empty(hot, slot);
	sm_move(&slot->sm, MT_HOT_FILLING);
	slot->key = *key;
	slot->crc = crc;
	hot->tags[slot - hot->slots] = wire_hot_tag(hash);
	hot->shards[slot - hot->slots] = (uint16_t)shard;
	return slot;
}

void
mt_hot_filled(struct mt_hot *hot, struct mt_hot_slot *slot, bool is_right)
{
	CHECK_OBJ(hot, HOT_MAGIC);
	if (!is_right || slot->sm.state == MT_HOT_FORGOTTEN) {
		slot_empty(hot, slot);
		return;
	}
	sm_move(&slot->sm, MT_HOT_VALID);
	hot->used_count++;
}

void
mt_hot_hold(struct mt_hot_slot *slot)
{
	assert(slot->sm.state == MT_HOT_VALID);
	slot->hold_count++;
}

void
mt_hot_release(struct mt_hot_slot *slot)
{
	assert(slot->hold_count > 0);
	slot->hold_count--;
}

void
mt_hot_spoil(struct mt_hot *hot, struct mt_hot_slot *slot)
{
	CHECK_OBJ(hot, HOT_MAGIC);
	assert(slot->hold_count > 0);
	if (slot->sm.state ==
	    MT_HOT_VALID) /* else its shard has stopped, or another reader was here */
		slot_empty(hot, slot);
}

void
mt_hot_forget(struct mt_hot *hot, struct mt_hot_slot *slot)
{
	if (slot->sm.state == MT_HOT_VALID)
		slot_empty(hot, slot);
	else if (slot->sm.state == MT_HOT_FILLING)
		sm_move(&slot->sm, MT_HOT_FORGOTTEN);
	slot->key.object = NULL;
}

void
mt_hot_drop_shard(struct mt_hot *hot, uint32_t shard)
{
	CHECK_OBJ(hot, HOT_MAGIC);
	for (uint32_t i = 0; i < hot->set_count * HOT_WAYS; i++) {
		struct mt_hot_slot *slot = &hot->slots[i];

		if (hot->shards[i] == shard)
			mt_hot_forget(hot, slot);
	}
}

uint32_t
mt_hot_slot_count(const struct mt_hot *hot)
{
	return hot == NULL ? 0 : hot->set_count * HOT_WAYS;
}

uint32_t
mt_hot_used_count(const struct mt_hot *hot)
{
	return hot == NULL ? 0 : hot->used_count;
}

/* ---- the port's life ---- */

/* Sets of the last page, which is no whole one. */
static uint32_t
rest_set_count(uint64_t bytes)
{
	uint64_t rest = bytes % HOT_PAGE_BYTES;

	return rest < HOT_PAGE_TAG_BYTES ? 0
					 : (uint32_t)((rest - HOT_PAGE_TAG_BYTES) / HOT_SET_BYTES);
}

uint64_t
mt_hot_device_bytes(uint64_t bytes)
{
	uint64_t rest = rest_set_count(bytes);

	if (bytes < HOT_BYTES_MIN)
		return 0;
	return num_round_down(bytes, HOT_PAGE_BYTES) +
	    (rest == 0 ? 0 : HOT_PAGE_TAG_BYTES + rest * HOT_SET_BYTES);
}

static uint32_t
set_count_of(uint64_t bytes)
{
	assert(bytes / HOT_SLOT_BYTES < UINT32_MAX);
	return bytes < HOT_BYTES_MIN
	    ? 0
	    : (uint32_t)(bytes / HOT_PAGE_BYTES) * HOT_PAGE_SETS + rest_set_count(bytes);
}

static int
hot_alloc(struct mt_hot *hot)
{
	uint32_t slot_count = hot->set_count * HOT_WAYS;

	hot->memory =
	    dev_alloc(hot->port->split, mt_hot_device_bytes(hot->port->settings->hot_bytes));
	hot->tags = mt_calloc(slot_count, sizeof(*hot->tags));
	hot->shards = mt_calloc(slot_count, sizeof(*hot->shards));
	hot->sets = mt_calloc(hot->set_count, sizeof(*hot->sets));
	hot->slots = mt_calloc(slot_count, sizeof(*hot->slots));
	if (dev_ptr_is_null(hot->memory) || hot->tags == NULL || hot->shards == NULL ||
	    hot->sets == NULL || hot->slots == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < slot_count; i++) {
		hot->shards[i] = HOT_NO_SHARD;
		sm_init(&hot->slots[i].sm, "hot", hot_table, MT_HOT_EMPTY, i);
	}
	if (mt_hot_pages_init(hot) != 0)
		return -ENOMEM;
	return mt_hot_sketch_init(&hot->sketch, slot_count);
}

int
mt_hot_init(struct mt_port *port)
{
	uint32_t set_count = set_count_of(port->settings->hot_bytes);
	struct mt_hot *hot;

	assert(port->read != NULL && port->read->hot == NULL);
	if (set_count == 0)
		return 0;
	hot = mt_calloc(1, sizeof(*hot));
	if (hot == NULL)
		return -ENOMEM;
	hot->magic = HOT_MAGIC;
	hot->port = port;
	hot->set_count = set_count;
	list_init(&hot->objects);
	hot->count_min = port->settings->hot_count_min != 0 ? port->settings->hot_count_min
							    : HOT_COUNT_MIN;
	port->read->hot = hot; /* mt_read_path_fini frees what there is of it */
	return hot_alloc(hot);
}

void
mt_hot_fini(struct mt_hot *hot)
{
	if (hot == NULL)
		return;
	CHECK_OBJ(hot, HOT_MAGIC);
	mt_hot_pages_fini(hot);
	/* A port that was closed has taken its arenas along. */
	if (!dev_ptr_is_null(hot->memory) && hot->port->split != NULL)
		dev_free(hot->port->split, hot->memory);
	mt_hot_sketch_fini(&hot->sketch);
	mt_free(hot->slots);
	mt_free(hot->sets);
	mt_free(hot->shards);
	mt_free(hot->tags);
	hot->magic = 0;
	mt_free(hot);
}
