/* SPDX-License-Identifier: Apache-2.0 */
/* backup_keep.c -- see backup_keep.h */
#include "backup_keep.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

#define HOUR_S UINT64_C(3600)
#define DAY_S (24 * HOUR_S)
#define WEEK_S (7 * DAY_S)
#define MONDAY_S (3 * DAY_S)              /* 1970-01-01 was a Thursday: three days into its week */
#define TIME_S_MAX UINT64_C(253402300799) /* 9999-12-31T23:59:59Z */
#define NAME_FORMAT "auto-%Y-%m-%dT%H%MZ"

void
backup_keep_name(uint64_t time_s, char ret_name[BACKUP_KEEP_NAME_BYTES])
{
	time_t when = (time_t)time_s;
	struct tm parts;
	size_t bytes;

	assert(time_s <= TIME_S_MAX);
	(void)gmtime_r(&when, &parts); /* no year of these is too large */
	bytes = strftime(ret_name, BACKUP_KEEP_NAME_BYTES, NAME_FORMAT, &parts);
	assert(bytes > 0);
}

bool
backup_keep_time(const char *name, uint64_t *ret_time_s)
{
	char again[BACKUP_KEEP_NAME_BYTES];
	struct tm parts = { 0 };
	const char *end = strptime(name, NAME_FORMAT, &parts);
	time_t when;

	assert(ret_time_s != NULL);
	if (end == NULL || *end != '\0')
		return false;
	when = timegm(&parts);
	if (when < 0 || (uint64_t)when > TIME_S_MAX)
		return false;
	/* The 31st of February is none of ours, nor is a hand-made 2026-1-2. */
	backup_keep_name((uint64_t)when, again);
	if (strcmp(again, name) != 0)
		return false;
	*ret_time_s = (uint64_t)when;
	return true;
}

/* The newest of each period, of the last @wanted that have one. */
static void
keep_newest_of(uint64_t period_s, uint64_t begin_s, uint32_t wanted, enum backup_keep_reason reason,
    const uint64_t *times_s, uint32_t count, unsigned *reasons)
{
	uint64_t last = UINT64_MAX;

	for (uint32_t i = count; i-- > 0 && wanted > 0;) {
		uint64_t period = (times_s[i] + begin_s) / period_s;

		assert(i + 1 == count || times_s[i] < times_s[i + 1]);
		if (period == last)
			continue;
		last = period;
		reasons[i] |= reason;
		wanted--;
	}
}

void
backup_keep_apply(const struct backup_keep *keep, uint64_t now_s, const uint64_t *times_s,
    uint32_t count, unsigned *ret_reasons)
{
	assert(count == 0 || (times_s != NULL && ret_reasons != NULL));
	assert(now_s <= TIME_S_MAX);
	for (; count > 0 && times_s[count - 1] > now_s + HOUR_S; count--)
		ret_reasons[count - 1] = BACKUP_KEEP_FUTURE;
	for (uint32_t i = 0; i < count; i++)
		ret_reasons[i] = 0;
	keep_newest_of(HOUR_S, 0, keep->hourly, BACKUP_KEEP_HOURLY, times_s, count, ret_reasons);
	keep_newest_of(DAY_S, 0, keep->daily, BACKUP_KEEP_DAILY, times_s, count, ret_reasons);
	keep_newest_of(WEEK_S, MONDAY_S, keep->weekly, BACKUP_KEEP_WEEKLY, times_s, count,
	    ret_reasons);
}
