/* SPDX-License-Identifier: Apache-2.0 */
/* health_changes.h -- from one look at the health to the next: what has come up, and what is over */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_CHANGES_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "health/health.h"

struct mt_events;

/* A warning is told when two looks in a row have it, an error at once; either is over when two have it not. */
#define MT_HEALTH_LOOKS 2u

/* A reason that was seen: by its code and its object. */
struct mt_health_entry {
	enum cleave_health_code code;
	char object[MT_HEALTH_OBJECT_BYTES];
	uint64_t since_ns;     /* its cause's time where that is known, else the first look's */
	uint32_t seen, missed; /* looks in a row, up to MT_HEALTH_LOOKS */
	bool is_told;
};

/* All zeros: nothing was seen yet. */
struct mt_health_changes {
	struct mt_health_entry entries[MT_HEALTH_REASONS_MAX];
	uint32_t count;
};

/*
 * mt_health_changes_take -- one look more: an event for each reason that has come up, and for each that is over
 *
 * @events: NULL: they are only logged. Threads: the main loop's.
 */
void mt_health_changes_take(struct mt_health_changes *changes, const struct mt_health *health,
    uint64_t now_ns, struct mt_events *events);
/* mt_health_changes_date -- reasons of @health whose age is not known get that of the look that first had them. */
void mt_health_changes_date(const struct mt_health_changes *changes, uint64_t now_ns,
    struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_CHANGES_H */
