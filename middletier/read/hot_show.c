/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot_show.c -- slots that a client may read by itself: shown, and hidden before a change of their block is acknowledged
 *
 *	VALID, hidden --the index says that it is the newest--> shown --a change; another block; its shard stops--> hidden
 *
 * A slot of a session's page is named as the session's client names its block. Who finds it by its place needs no such
 * care (hot.h); a client knows the name alone. So it is shown only while the index has no other version in what the
 * session sees. A change hides it when it enters the index, which is before it is answered. Both are the port's turn.
 *
 * A reader of its own sees head and block in any order, and may see parts of two of them. What it believes is what was
 * there when control said "shown" (cleave/hot.h): no newer change had been acknowledged by this owner then. Others' are
 * kept off by the read lease of the head's shard and epoch, which the reader looks at when it has ended.
 */
#include "read/hot_show.h"

#include "base/mutant.h"
#include "base/num.h"
#include "cleave/hot.h"
#include "cleave/split.h"
#include "read/hot_inside.h"
#include "read/hot_pages.h"
#include "read/read_path.h"

/* A change of more blocks goes through all slots of its volume instead. */
#define SHOW_LOOKS_MAX 64u

static dev_ptr
slot_head(const struct mt_hot *hot, const struct mt_hot_slot *slot)
{
	uint32_t at = mt_hot_slot_index(hot, slot);

	return dev_ptr_add(hot->memory,
	    (uint64_t)(at / HOT_PAGE_SLOTS) * HOT_PAGE_BYTES + wire_hot_at(at % HOT_PAGE_SLOTS));
}

/* A hint: readers believe the head alone. */
static void
slot_write_tag(const struct mt_hot *hot, const struct mt_hot_slot *slot, uint32_t tag)
{
	uint32_t at = mt_hot_slot_index(hot, slot);
	uint8_t bytes[sizeof(tag)];

	num_put_le32(bytes, tag);
	dev_copy_from_host(hot->port->split,
	    dev_ptr_add(hot->memory,
		(uint64_t)(at / HOT_PAGE_SLOTS) * HOT_PAGE_BYTES +
		    (uint64_t)(at % HOT_PAGE_SLOTS) * sizeof(tag)),
	    bytes, sizeof(bytes));
}

void
mt_hot_hide(struct mt_hot *hot, struct mt_hot_slot *slot)
{
	if (!slot->is_shown)
		return;
	slot->is_shown = false;
	dev_publish(hot->port->split, slot_head(hot, slot), slot->version << 1);
	slot_write_tag(hot, slot, 0);
}

void
mt_hot_show(struct mt_hot *hot, struct mt_hot_slot *slot, uint32_t epoch)
{
	uint32_t at = mt_hot_slot_index(hot, slot);
	struct wire_hot_head head = { .segment = slot->key.segment,
		.block = slot->key.block,
		.shard = hot->shards[at],
		.epoch = epoch,
		.block_crc = slot->crc,
		.version = ++slot->version };
	uint8_t bytes[HOT_HEAD_BYTES];

	CHECK_OBJ(hot, HOT_MAGIC);
	assert(slot->sm.state == MT_HOT_VALID && !slot->is_shown && slot->key.object != NULL);
	assert(hot->owners[at / HOT_PAGE_SLOTS] == slot->key.object);
	head.volume = slot->key.object->volume;
	wire_hot_head_encode(bytes, &head);
	dev_copy_from_host(hot->port->split, dev_ptr_add(slot_head(hot, slot), sizeof(uint64_t)),
	    bytes + sizeof(uint64_t), sizeof(bytes) - sizeof(uint64_t));
	dev_publish(hot->port->split, slot_head(hot, slot), slot->version << 1 | 1);
	slot_write_tag(hot, slot, hot->tags[at]);
	slot->is_shown = true;
}

/* ---- changes ---- */

static bool
change_has(const struct mt_change *change, const struct mt_hot_key *key)
{
	return key->segment == change->segment && key->block >= change->block &&
	    key->block - change->block < change->count;
}

static void
object_hide_one(struct mt_hot *hot, const struct mt_hot_object *object, uint64_t segment,
    uint32_t block)
{
	uint64_t hash = wire_hot_hash(segment, block);
	uint32_t at = mt_hot_set_at(hot, object, hash), tag = wire_hot_tag(hash);

	for (uint32_t i = at; i < at + HOT_WAYS; i++) {
		struct mt_hot_slot *slot = &hot->slots[i];

		if (hot->tags[i] == tag && slot->key.segment == segment && slot->key.block == block)
			mt_hot_hide(hot, slot);
	}
}

static void
object_hide_range(struct mt_hot *hot, const struct mt_hot_object *object,
    const struct mt_change *change)
{
	for (uint32_t i = 0; i < object->page_count; i++) {
		struct mt_hot_slot *slots =
		    &hot->slots[(uint64_t)object->pages[i] * HOT_PAGE_SLOTS];

		for (uint32_t at = 0; at < HOT_PAGE_SLOTS; at++) {
			if (slots[at].is_shown && change_has(change, &slots[at].key))
				mt_hot_hide(hot, &slots[at]);
		}
	}
}

void
mt_hot_on_change(struct mt_port *port, const struct mt_change *change)
{
	struct mt_hot *hot = port->read->hot;
	struct loop_link *link, *next;

	CHECK_OBJ(hot, HOT_MAGIC);
	if (MUTANT(hot_not_hidden))
		return;
	LIST_FOREACH_SAFE(&hot->objects, link, next) {
		const struct mt_hot_object *object = LIST_ENTRY(link, struct mt_hot_object, link);

		if (object->volume != change->volume || object->page_count == 0)
			continue;
		if (change->count > SHOW_LOOKS_MAX) {
			object_hide_range(hot, object, change);
			continue;
		}
		for (uint32_t i = 0; i < change->count; i++)
			object_hide_one(hot, object, change->segment, change->block + i);
	}
}
