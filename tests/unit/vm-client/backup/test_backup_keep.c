/* SPDX-License-Identifier: Apache-2.0 */
/* test_backup_keep.c -- names of snapshots by the clock, and which of them are kept: against a model that only counts */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/random.h"
#include "vm-client/backup/backup_keep.h"

#define TIMES_MAX 400u
#define NOW_MAX_S UINT64_C(253402300799) /* the last second of the year 9999 */

Test(backup_keep, names_are_times_and_nothing_else_is_ours)
{
	static const char *const others[] = { "auto-", "monday", "auto-2026-11-24",
		"auto-2026-11-24T10:00Z", "auto-2026-11-24T1000", "auto-2026-11-24T1000Zx",
		"auto-2026-02-30T1000Z", "auto-2026-1-2T1000Z", "auto-2026-11-24T2460Z",
		"Auto-2026-11-24T1000Z", "auto- 2026-11-24T1000Z", "auto-1969-11-24T1000Z",
		"auto-26-11-24T1000Z", "" };
	char name[BACKUP_KEEP_NAME_BYTES];
	uint64_t time_s = 1, state[4];

	backup_keep_name(1795514459, name);
	cr_assert_str_eq(name, "auto-2026-11-24T1000Z");
	cr_assert(backup_keep_time(name, &time_s));
	cr_assert_eq(time_s, 1795514400u);
	for (size_t i = 0; i < NUM_COUNT(others); i++)
		cr_assert_not(backup_keep_time(others[i], &time_s), "'%s'", others[i]);
	random_seed(state, 1);
	for (uint32_t i = 0; i < 10000; i++) {
		uint64_t when = random_below(state, 253402300800);

		backup_keep_name(when, name);
		cr_assert(backup_keep_time(name, &time_s), "%s", name);
		cr_assert_eq(time_s, when - when % 60, "%s", name);
	}
}

/* The period that a time is in, as a calendar says it: no arithmetic of ours. */
static void
period_of(uint64_t time_s, const char *format, char *ret_text)
{
	time_t when = (time_t)time_s;
	struct tm parts;

	cr_assert_not_null(gmtime_r(&when, &parts));
	cr_assert_gt(strftime(ret_text, 32, format, &parts), 0u);
}

/* Kept: no later one is in its period, and fewer than @wanted later periods have any. */
static bool
model_keeps(const uint64_t *times_s, uint32_t count, uint32_t index, const char *format,
    uint32_t wanted)
{
	char own[32], period[32], last[32] = "";
	uint32_t later = 0;

	period_of(times_s[index], format, own);
	for (uint32_t i = index + 1; i < count; i++) {
		period_of(times_s[i], format, period);
		if (strcmp(period, own) == 0)
			return false;
		if (strcmp(period, last) != 0)
			later++;
		memcpy(last, period, sizeof(last));
	}
	return later < wanted;
}

static void
expect_as_model(const struct backup_keep *keep, const uint64_t *times_s, uint32_t count)
{
	unsigned reasons[TIMES_MAX];

	backup_keep_apply(keep, NOW_MAX_S, times_s, count, reasons);
	for (uint32_t i = 0; i < count; i++) {
		unsigned want = 0;

		if (model_keeps(times_s, count, i, "%Y-%j %H", keep->hourly))
			want |= BACKUP_KEEP_HOURLY;
		if (model_keeps(times_s, count, i, "%Y-%j", keep->daily))
			want |= BACKUP_KEEP_DAILY;
		if (model_keeps(times_s, count, i, "%G-%V", keep->weekly))
			want |= BACKUP_KEEP_WEEKLY;
		cr_assert_eq(reasons[i], want, "%u of %u: %x, wanted %x", i, count, reasons[i],
		    want);
	}
}

Test(backup_keep, any_times_are_kept_as_a_calendar_says)
{
	static const uint64_t steps_s[] = { 120, 3600, 5000, 40000, 86400, 400000, 2000000 };
	uint64_t times_s[TIMES_MAX], state[4];

	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t step_s, at_s;
		uint32_t count;

		random_seed(state, seed);
		count = (uint32_t)random_below(state, seed % 10 == 0 ? TIMES_MAX : 60);
		step_s = steps_s[random_below(state, NUM_COUNT(steps_s))];
		at_s = random_below(state, 4000000000);
		for (uint32_t i = 0; i < count; i++) {
			at_s += 60 + random_below(state, step_s);
			times_s[i] = at_s;
		}
		expect_as_model(&(const struct backup_keep){ (uint32_t)random_below(state, 30),
				    (uint32_t)random_below(state, 10),
				    (uint32_t)random_below(state, 6) },
		    times_s, count);
	}
}

/* A year of a timer that runs each hour, rotated each time: so many are there at its end, and how old they are. */
Test(backup_keep, a_year_of_hours_leaves_what_was_asked_for)
{
	const struct backup_keep keep = { 24, 7, 4 };
	uint64_t times_s[TIMES_MAX];
	unsigned reasons[TIMES_MAX];
	uint32_t count = 0;

	for (uint64_t hour = 0; hour < 366u * 24; hour++) {
		uint32_t kept = 0;

		cr_assert_lt(count, TIMES_MAX);
		times_s[count++] = 1767225600 + hour * 3600;
		backup_keep_apply(&keep, times_s[count - 1], times_s, count, reasons);
		for (uint32_t i = 0; i < count; i++) {
			if (reasons[i] != 0)
				times_s[kept++] = times_s[i];
		}
		count = kept;
	}
	cr_assert_leq(count, 24u + 7 + 4);
	cr_assert_geq(count, 24u + 5 + 2);
	cr_assert_geq(times_s[count - 1] - times_s[0], 2u * 7 * 86400);
}

/* A clock was weeks ahead for a day, and was mended: what is taken since is kept as if those were not there. */
Test(backup_keep, those_of_a_time_to_come_take_nobodys_place)
{
	const struct backup_keep keep = { 24, 7, 4 };
	const uint64_t now_s = 1795514400;
	uint64_t times_s[30];
	unsigned reasons[30];

	for (uint32_t i = 0; i < 4; i++)
		times_s[i] = now_s - (3 - i) * 3600;
	times_s[4] = now_s + 3600; /* as far as clocks are apart */
	for (uint32_t i = 5; i < 30; i++)
		times_s[i] = now_s + 20u * 86400 + i * 3600;
	backup_keep_apply(&keep, now_s, times_s, 30, reasons);
	for (uint32_t i = 0; i < 30; i++) {
		cr_assert_eq(reasons[i] == BACKUP_KEEP_FUTURE, i >= 5, "%u: %x", i, reasons[i]);
		cr_assert((reasons[i] & BACKUP_KEEP_HOURLY) != 0 || i >= 5, "%u: %x", i,
		    reasons[i]);
	}
}
