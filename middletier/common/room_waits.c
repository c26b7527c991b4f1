/* SPDX-License-Identifier: Apache-2.0 */
/* room_waits.c -- see room_waits.h */
#include "common/room_waits.h"

#include <stdio.h>

#include "base/check.h"
#include "common/event.h"

static const char *const refused_texts[] = {
	[MT_ROOM_REFUSED] = "no room is left: delete or discard what is not needed, or add a node",
	[MT_ROOM_PINNED] = "too much of it cannot be merged, and fills the gateway's memory: give "
			   "this gateway the volume's --kek, or bring the nodes of its copies back",
};

/* The volume's entry; a free one, or the one that was quiet for longest, where it has none. */
static struct mt_room_wait *
waits_entry(struct mt_room_waits *waits, uint64_t volume_id)
{
	struct mt_room_wait *quietest = &waits->volumes[0];

	assert(volume_id != 0);
	for (uint32_t i = 0; i < MT_ROOM_WAITS_MAX; i++) {
		struct mt_room_wait *wait = &waits->volumes[i];

		if (wait->volume_id == volume_id)
			return wait;
		if (wait->last_ns < quietest->last_ns)
			quietest = wait;
	}
	*quietest = (struct mt_room_wait){ .volume_id = volume_id };
	return quietest;
}

void
mt_room_waits_note(struct mt_room_waits *waits, struct mt_events *events, uint64_t volume_id,
    const char *name, uint64_t now_ns, enum mt_room_end end)
{
	struct mt_room_wait *wait = waits_entry(waits, volume_id);

	assert(now_ns >= wait->last_ns);
	if (now_ns - wait->last_ns > MT_ROOM_EPISODE_NS)
		wait->is_wait_told = wait->is_refusal_told = false;
	wait->last_ns = now_ns;
	/* The volume may have another name by now. */
	(void)snprintf(wait->name, sizeof(wait->name), "%s", name);
	if (end != MT_ROOM_WAITS) {
		wait->refused_count++;
		if (!wait->is_refusal_told)
			mt_event(events, now_ns, CLEAVE_EVENT_VOLUME_REFUSED, wait->name,
			    "volume '%s': writes are refused, %s", name, refused_texts[end]);
		wait->is_refusal_told = true;
		return;
	}
	wait->waited_count++;
	if (!wait->is_wait_told && !wait->is_refusal_told)
		mt_event(events, now_ns, CLEAVE_EVENT_VOLUME_WAITS, wait->name,
		    "volume '%s': writes wait for room: merges may bring some", name);
	wait->is_wait_told = true;
}
