/* SPDX-License-Identifier: Apache-2.0 */
/* hot_inside.h -- the table of hot blocks, its memory, as hot.c, hot_show.c and hot_pages.c share it */
#ifndef CLEAVE_MIDDLETIER_READ_HOT_INSIDE_H
#define CLEAVE_MIDDLETIER_READ_HOT_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "cleave/hot.h"
#include "common/port.h"
#include "read/hot.h"
#include "session/session.h"

#define HOT_MAGIC 0x54544f48u /* "HOTT" */

/*
 * No slot of a set was met less often than @least, as long as the sketch is of that age: counts only grow then, and
 * whoever comes in was met more often. So most blocks that are not hot enough cost no look at eight counts.
 */
struct mt_hot_set {
	uint32_t age, least;
};

/* Pages of a session whose client reads by itself. */
struct mt_hot_object {
	struct mt_session_pages told; /* session->pages */
	struct loop_link link;        /* hot->objects */
	struct mt_hot *hot;
	uint64_t volume;
	uint32_t page_count;
	uint32_t pages[HOT_PAGES_MAX]; /* of the table */
	struct dev_region *regions[HOT_PAGES_MAX];
	struct dev_remote remotes[HOT_PAGES_MAX];
};

struct mt_hot {
	uint32_t magic;
	struct mt_port *port;
	dev_ptr memory;
	uint32_t set_count, used_count, count_min;
	uint32_t *tags;
	uint16_t *shards;
	struct mt_hot_set *sets;
	struct mt_hot_slot *slots;
	struct hot_sketch sketch;
	/* hot_pages.c's: whole pages, which may be a session's. */
	uint32_t page_count;
	struct mt_hot_object **owners; /* of each page; NULL: everybody's */
	uint32_t *stand_ins;  /* of each page: the page of everybody's that has its blocks */
	uint32_t owned_count; /* pages */
	struct loop_link objects;
	uint32_t object_count;
	uint32_t generation;
};

static inline uint32_t
mt_hot_slot_index(const struct mt_hot *hot, const struct mt_hot_slot *slot)
{
	assert(slot >= hot->slots && slot < hot->slots + hot->set_count * HOT_WAYS);
	return (uint32_t)(slot - hot->slots);
}

#endif /* CLEAVE_MIDDLETIER_READ_HOT_INSIDE_H */
