/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup_keep.h -- which snapshots of a row in time are kept: the newest of each of the last hours, days, weeks
 *
 * Snapshots that a timer takes are called auto-YYYY-MM-DDTHHMMZ: the name says when, and that nobody else made it. All
 * times are UTC; a week begins on Monday.
 */
#ifndef CLEAVE_BACKUP_KEEP_H
#define CLEAVE_BACKUP_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#define BACKUP_KEEP_NAME_BYTES 24u

/* Hours, days, weeks of which one is kept, counted are those that have one; 0: none for that reason. */
struct backup_keep {
	uint32_t hourly, daily, weekly;
};

enum backup_keep_reason {
	BACKUP_KEEP_HOURLY = 1u << 0,
	BACKUP_KEEP_DAILY = 1u << 1,
	BACKUP_KEEP_WEEKLY = 1u << 2,
	BACKUP_KEEP_FUTURE = 1u << 3, /* no rule's: its time has not come */
};

/* backup_keep_name -- what a snapshot taken at @time_s, seconds since 1970, is called; before the year 10000. */
void backup_keep_name(uint64_t time_s, char ret_name[BACKUP_KEEP_NAME_BYTES]);
/* backup_keep_time -- true and when it was taken, if @name is one that backup_keep_name makes; else it is not ours. */
bool backup_keep_time(const char *name, uint64_t *ret_time_s);
/*
 * backup_keep_apply -- why each is kept
 *
 * Those of more than an hour after @now_s, seconds since 1970, were taken by a clock that was wrong, or that one is: they
 * stay, and take no place of those that the rules keep.
 * @times_s: @count, rising, none twice. @ret_reasons: of as many, enum backup_keep_reason; 0: no rule keeps it.
 */
void backup_keep_apply(const struct backup_keep *keep, uint64_t now_s, const uint64_t *times_s,
    uint32_t count, unsigned *ret_reasons);

#endif /* CLEAVE_BACKUP_KEEP_H */
