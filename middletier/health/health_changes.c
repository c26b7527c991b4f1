/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_changes.c -- from one look at the health to the next
 *
 *	          seen                  seen again, or an error            missed twice
 *	(unknown) ----> seen, not told ------------------------> told ------------------> (unknown), "is over"
 *	                    |                                     |   ^
 *	                    +--> missed once: (unknown)           +---+ missed once, and seen again: nothing is told
 *
 * So what comes and goes with every look makes no more than an event a look, and a shard that is taken over within a
 * second makes none.
 */
#include "health/health_changes.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "common/event.h"

static struct mt_health_entry *
changes_find(struct mt_health_changes *changes, const struct mt_health_reason *reason)
{
	for (uint32_t i = 0; i < changes->count; i++) {
		struct mt_health_entry *entry = &changes->entries[i];

		if (entry->code == reason->code && strcmp(entry->object, reason->object) == 0)
			return entry;
	}
	return NULL;
}

static void
changes_tell(struct mt_health_entry *entry, const struct mt_health_reason *reason, uint64_t now_ns,
    struct mt_events *events)
{
	const struct cleave_health_info *info = health_info(entry->code);

	assert(!entry->is_told && info->level > CLEAVE_HEALTH_OK);
	entry->is_told = true;
	mt_event(events, now_ns,
	    info->level == CLEAVE_HEALTH_ERROR ? CLEAVE_EVENT_HEALTH_ERROR
					       : CLEAVE_EVENT_HEALTH_WARN,
	    entry->object, "health: %s: %s", info->name, reason->text);
}

static void
changes_see(struct mt_health_changes *changes, const struct mt_health_reason *reason,
    uint64_t now_ns, struct mt_events *events)
{
	struct mt_health_entry *entry = changes_find(changes, reason);

	if (entry == NULL && changes->count == MT_HEALTH_REASONS_MAX)
		return; /* the status has it all the same */
	if (entry == NULL) {
		entry = &changes->entries[changes->count++];
		*entry = (struct mt_health_entry){ .code = reason->code,
			.since_ns = now_ns - num_min(reason->age_ns, now_ns) };
		memcpy(entry->object, reason->object, sizeof(entry->object));
	}
	/* Once a look. */
	entry->seen += (entry->missed > 0 || entry->seen == 0) && entry->seen < MT_HEALTH_LOOKS;
	entry->missed = 0;
	if (!entry->is_told &&
	    (entry->seen == MT_HEALTH_LOOKS ||
		health_info(entry->code)->level == CLEAVE_HEALTH_ERROR))
		changes_tell(entry, reason, now_ns, events);
}

static void
changes_end(const struct mt_health_entry *entry, uint64_t now_ns, struct mt_events *events)
{
	uint64_t age_ns = now_ns - num_min(entry->since_ns, now_ns);

	mt_event(events, now_ns, CLEAVE_EVENT_HEALTH_OVER, entry->object,
	    "health: %s of %s is over, after %" PRIu64 ".%" PRIu64 " s",
	    health_info(entry->code)->name, entry->object, age_ns / NUM_S(1),
	    age_ns % NUM_S(1) / NUM_MS(100));
}

void
mt_health_changes_take(struct mt_health_changes *changes, const struct mt_health *health,
    uint64_t now_ns, struct mt_events *events)
{
	assert(changes->count <= MT_HEALTH_REASONS_MAX);
	assert(health->count <= MT_HEALTH_REASONS_MAX);
	for (uint32_t i = 0; i < changes->count; i++)
		changes->entries[i].missed++;
	for (uint32_t i = 0; i < health->count; i++)
		changes_see(changes, &health->reasons[i], now_ns, events);
	for (uint32_t i = changes->count; i-- > 0;) {
		struct mt_health_entry *entry = &changes->entries[i];

		if (entry->missed == 0 || (entry->is_told && entry->missed < MT_HEALTH_LOOKS))
			continue;
		if (entry->is_told)
			changes_end(entry, now_ns, events);
		*entry = changes->entries[--changes->count];
	}
}

void
mt_health_changes_date(const struct mt_health_changes *changes, uint64_t now_ns,
    struct mt_health *health)
{
	for (uint32_t i = 0; i < health->count; i++) {
		struct mt_health_reason *reason = &health->reasons[i];

		for (uint32_t k = 0; k < changes->count && reason->age_ns == 0; k++) {
			const struct mt_health_entry *entry = &changes->entries[k];

			if (entry->code == reason->code &&
			    strcmp(entry->object, reason->object) == 0)
				reason->age_ns = now_ns - num_min(entry->since_ns, now_ns);
		}
	}
}
