/* SPDX-License-Identifier: Apache-2.0 */
/* test_room_waits.c -- writes without room: counted by volume, told once an episode */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/event.h"
#include "middletier/common/room_waits.h"

static struct mt_room_waits waits;
static struct mt_events *events;

static void
open_events(void)
{
	events = mt_events_create();
	cr_assert_not_null(events);
}

static void
close_events(void)
{
	mt_events_destroy(events);
}

TestSuite(room_waits, .init = open_events, .fini = close_events);

static const struct mt_room_wait *
find(uint64_t volume_id)
{
	for (uint32_t i = 0; i < MT_ROOM_WAITS_MAX; i++) {
		if (waits.volumes[i].volume_id == volume_id)
			return &waits.volumes[i];
	}
	return NULL;
}

Test(room_waits, an_episode_is_told_once_of_each_kind)
{
	for (uint32_t i = 1; i <= 100; i++)
		mt_room_waits_note(&waits, events, 7, "v", NUM_S(1) + i,
		    i > 50 ? MT_ROOM_REFUSED : MT_ROOM_WAITS);
	cr_assert_eq(find(7)->waited_count, 50);
	cr_assert_eq(find(7)->refused_count, 50);
	cr_assert_str_eq(find(7)->name, "v");
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_VOLUME_WAITS), 1);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_VOLUME_REFUSED), 1);
	/* Refusals that go on without a pause are the same episode. */
	for (uint64_t s = 2; s < 300; s++)
		mt_room_waits_note(&waits, events, 7, "v", NUM_S(s), MT_ROOM_REFUSED);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_VOLUME_REFUSED), 1);
	mt_room_waits_note(&waits, events, 7, "v", NUM_S(300) + MT_ROOM_EPISODE_NS, MT_ROOM_WAITS);
	mt_room_waits_note(&waits, events, 7, "v", NUM_S(301) + MT_ROOM_EPISODE_NS,
	    MT_ROOM_REFUSED);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_VOLUME_WAITS), 2);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_VOLUME_REFUSED), 2);
}

Test(room_waits, the_volume_that_was_quiet_for_longest_gives_way)
{
	for (uint64_t id = 1; id <= MT_ROOM_WAITS_MAX; id++)
		mt_room_waits_note(&waits, events, id, "v", NUM_S(id), MT_ROOM_REFUSED);
	mt_room_waits_note(&waits, events, 1, "v", NUM_S(100), MT_ROOM_REFUSED);
	mt_room_waits_note(&waits, events, 1000, "w", NUM_S(101), MT_ROOM_REFUSED);
	cr_assert_null(find(2));
	cr_assert_eq(find(1)->refused_count, 2);
	cr_assert_eq(find(1000)->refused_count, 1);
}
