/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot_pages.c -- see hot_pages.h
 *
 *	everybody's --wiped, its region is opened--> a session's --its region is closed--> everybody's
 *
 * A page is one session's or everybody's. Its region's key is the right to read all that is in it, so nothing of another
 * volume may be there: it is empty and wiped before it is opened, and closed before anything else comes in. From then on
 * the session's blocks go to its own pages, under the names that its client has for them (hot_show.c).
 *
 * Sessions that read by themselves have equal parts of three quarters of the pages. A part is taken and given back when
 * its session asks, a few pages at a time: a page costs a wipe, and a registration where a device serves it. Other pages
 * mean other sets: what the session has there is forgotten each time.
 *
 * What is everybody's goes by page, too: where the page of a block is somebody's, the next one that is not stands in.
 */
#include "read/hot_pages.h"

#include <errno.h>

#include "base/mutant.h"
#include "base/num.h"
#include "cleave/hot.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "read/hot_inside.h"
#include "read/hot_show.h"
#include "read/read_path.h"

#define PAGES_MIN 2u     /* a table of fewer is everybody's */
#define PAGES_AT_ONCE 8u /* are taken when a session asks */
#define PAGES_OBJECTS_MAX 64u
#define PAGES_WIPE_BYTES NUM_KIB(64)

static const uint8_t zeros[PAGES_WIPE_BYTES];

/* ---- whose they are ---- */

static uint32_t
page_sets(const struct mt_hot *hot, uint32_t page)
{
	return (uint32_t)num_min(HOT_PAGE_SETS, hot->set_count - page * HOT_PAGE_SETS);
}

static uint32_t
page_stand_in(const struct mt_hot *hot, uint32_t page)
{
	for (uint32_t i = 0; i < hot->page_count; i++) {
		uint32_t at = (page + i) % hot->page_count;

		if (hot->owners[at] == NULL)
			return at;
	}
	assert(false); /* a part of them stays everybody's */
	return page;
}

static void
stand_ins_choose(struct mt_hot *hot)
{
	for (uint32_t i = 0; i < hot->page_count; i++)
		hot->stand_ins[i] = page_stand_in(hot, i);
}

uint32_t
mt_hot_set_at(const struct mt_hot *hot, const struct mt_hot_object *object, uint64_t hash)
{
	uint32_t set, page;

	if (object != NULL) {
		set = wire_hot_set(hash, object->page_count * HOT_PAGE_SETS);
		page = object->pages[set / HOT_PAGE_SETS];
		return (page * HOT_PAGE_SETS + set % HOT_PAGE_SETS) * HOT_WAYS;
	}
	set = wire_hot_set(hash, hot->set_count);
	page = set / HOT_PAGE_SETS;
	if (page < hot->page_count && hot->owners[page] != NULL)
		page = hot->stand_ins[page];
	return (page * HOT_PAGE_SETS + set % HOT_PAGE_SETS) * HOT_WAYS;
}

static struct mt_hot_slot *
page_slots(const struct mt_hot *hot, uint32_t page)
{
	return &hot->slots[(uint64_t)page * HOT_PAGE_SLOTS];
}

static void
page_forget(struct mt_hot *hot, uint32_t page)
{
	struct mt_hot_slot *slots = page_slots(hot, page);

	for (uint32_t i = 0; i < page_sets(hot, page) * HOT_WAYS; i++)
		mt_hot_forget(hot, &slots[i]);
}

static bool
page_is_busy(const struct mt_hot *hot, uint32_t page)
{
	const struct mt_hot_slot *slots = page_slots(hot, page);

	for (uint32_t i = 0; i < HOT_PAGE_SLOTS; i++) {
		if (mt_hot_is_busy(&slots[i]))
			return true;
	}
	return false;
}

/* ---- a page changes hands ---- */

static dev_ptr
page_memory(const struct mt_hot *hot, uint32_t page)
{
	return dev_ptr_add(hot->memory, (uint64_t)page * HOT_PAGE_BYTES);
}

/* Tags of none, slots that are hidden, and nothing of whose blocks were there. */
static void
page_wipe(struct mt_hot *hot, uint32_t page)
{
	for (uint32_t at = 0; at < HOT_PAGE_BYTES && !MUTANT(hot_page_unwiped);
	     at += PAGES_WIPE_BYTES)
		dev_copy_from_host(hot->port->split, dev_ptr_add(page_memory(hot, page), at), zeros,
		    PAGES_WIPE_BYTES);
}

/* False: no page is free, or peers cannot be let in. */
static bool
object_take_page(struct mt_hot *hot, struct mt_hot_object *object)
{
	uint32_t at = object->page_count, page;

	for (page = 0; page < hot->page_count; page++) {
		if (hot->owners[page] == NULL && !page_is_busy(hot, page))
			break;
	}
	if (page == hot->page_count)
		return false;
	object->regions[at] = dev_region_open(hot->port->split, page_memory(hot, page),
	    HOT_PAGE_BYTES, DEV_REGION_READ, &object->remotes[at]);
	if (object->regions[at] == NULL)
		return false;
	page_forget(hot, page);
	page_wipe(hot, page); /* before anybody is told of the key */
	object->pages[at] = page;
	object->page_count++;
	hot->owners[page] = object;
	hot->owned_count++;
	return true;
}

/* The last one: closed first, so that what comes there is for nobody's eyes. */
static void
object_give_page(struct mt_hot *hot, struct mt_hot_object *object)
{
	uint32_t at = --object->page_count, page = object->pages[at];

	dev_region_close(object->regions[at]);
	page_forget(hot, page);
	/* The page that stood in has blocks of it, which are not looked for there any more. */
	page_forget(hot, hot->stand_ins[page]);
	hot->owners[page] = NULL;
	hot->owned_count--;
}

/* ---- a session's part ---- */

static void
object_forget(struct mt_hot *hot, const struct mt_hot_object *object)
{
	for (uint32_t i = 0; i < object->page_count; i++)
		page_forget(hot, object->pages[i]);
}

/* Has more or fewer pages than it had: sets are others now. */
static void
object_changed(struct mt_hot *hot, struct mt_hot_object *object)
{
	object_forget(hot, object);
	stand_ins_choose(hot);
	if (++hot->generation == 0)
		hot->generation = 1;
	object->told = (struct mt_session_pages){ object->page_count > 0 ? hot->generation : 0,
		object->page_count, object->remotes };
}

uint32_t
mt_hot_pages_max(uint64_t hot_bytes)
{
	uint64_t count = num_min(hot_bytes / HOT_PAGE_BYTES, UINT32_MAX);

	return count < PAGES_MIN ? 0 : (uint32_t)(count - num_max(1, count / 4));
}

static uint32_t
object_part(const struct mt_hot *hot)
{
	uint32_t part = (hot->page_count - hot->page_count / 4) / hot->object_count;

	return (uint32_t)num_max(1, num_min(part, HOT_PAGES_MAX));
}

static void
object_fit(struct mt_hot *hot, struct mt_hot_object *object)
{
	uint32_t part = object_part(hot), before = object->page_count;

	while (object->page_count > part)
		object_give_page(hot, object);
	while (object->page_count < part && object->page_count < before + PAGES_AT_ONCE &&
	    hot->owned_count < hot->page_count - num_max(1, hot->page_count / 4) &&
	    object_take_page(hot, object))
		;
	if (object->page_count != before)
		object_changed(hot, object);
}

static struct mt_hot_object *
object_create(struct mt_hot *hot, const struct mt_session *session)
{
	struct mt_hot_object *object;

	if (hot->object_count == PAGES_OBJECTS_MAX)
		return NULL;
	object = mt_calloc(1, sizeof(*object));
	if (object == NULL)
		return NULL;
	object->hot = hot;
	object->volume = session->hello.volume_id;
	object->told.remotes = object->remotes;
	list_push_back(&hot->objects, &object->link);
	hot->object_count++;
	hot->port->on_change = mt_hot_on_change;
	return object;
}

static void
object_destroy(struct mt_hot *hot, struct mt_hot_object *object)
{
	assert(hot->object_count > 0);
	while (object->page_count > 0)
		object_give_page(hot, object);
	stand_ins_choose(hot);
	list_remove(&object->link);
	if (--hot->object_count == 0)
		hot->port->on_change = NULL;
	mt_free(object);
}

static struct mt_hot_object *
object_of(const struct mt_session *session)
{
	return session->pages == NULL
	    ? NULL
	    : NUM_CONTAINER_OF(session->pages, struct mt_hot_object, told);
}

void
mt_hot_pages_ask(struct mt_session *session)
{
	struct mt_hot *hot = session->port->read->hot;
	struct mt_hot_object *object = object_of(session);

	if (hot == NULL || hot->page_count < PAGES_MIN)
		return;
	if (object == NULL) {
		object = object_create(hot, session);
		if (object == NULL)
			return; /* it asks again */
		session->pages = &object->told;
	}
	object_fit(hot, object);
}

void
mt_hot_pages_left(struct mt_session *session)
{
	struct mt_hot_object *object = object_of(session);

	session->pages = NULL;
	if (object != NULL)
		object_destroy(object->hot, object);
}

void
mt_hot_pages_revoke(struct mt_port *port)
{
	struct mt_hot *hot = port->read == NULL ? NULL : port->read->hot;
	struct loop_link *link, *next;

	if (hot == NULL || MUTANT(hot_kept_shown))
		return;
	LIST_FOREACH_SAFE(&hot->objects, link, next) {
		struct mt_hot_object *object = LIST_ENTRY(link, struct mt_hot_object, link);

		if (object->page_count == 0)
			continue;
		while (object->page_count > 0)
			object_give_page(hot, object);
		object_changed(hot, object);
	}
}

struct mt_hot_object *
mt_hot_pages_of(const struct mt_session *session)
{
	struct mt_hot_object *object = object_of(session);

	return object == NULL || object->page_count == 0 ? NULL : object;
}

/* ---- the table's life ---- */

int
mt_hot_pages_init(struct mt_hot *hot)
{
	uint32_t count = hot->set_count / HOT_PAGE_SETS;

	if (count < PAGES_MIN)
		return 0;
	hot->page_count = count;
	hot->owners = mt_calloc(count, sizeof(struct mt_hot_object *));
	hot->stand_ins = mt_calloc(count, sizeof(*hot->stand_ins));
	return hot->owners == NULL || hot->stand_ins == NULL ? -ENOMEM : 0;
}

void
mt_hot_pages_fini(struct mt_hot *hot)
{
	struct loop_link *link;

	while ((link = list_pop_front(&hot->objects)) != NULL) {
		struct mt_hot_object *object = LIST_ENTRY(link, struct mt_hot_object, link);

		/* A port that was closed has taken its regions along. */
		for (uint32_t i = 0; i < object->page_count && hot->port->split != NULL; i++)
			dev_region_close(object->regions[i]);
		mt_free(object);
	}
	mt_free(hot->owners);
	mt_free(hot->stand_ins);
}
