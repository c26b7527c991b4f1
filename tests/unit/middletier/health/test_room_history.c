/* SPDX-License-Identifier: Apache-2.0 */
/* test_room_history.c -- rates of what a gateway has seen, over an hour and a day */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "base/num.h"
#include "health/room_history.h"

static struct mt_room_history history;

/* @count looks, one in two seconds, that find a MiB more in use each hour and write 2 bytes for each stored one. */
static uint64_t
look(uint64_t from_s, uint64_t until_s)
{
	for (uint64_t s = from_s; s <= until_s; s += 2) {
		const struct mt_room_sample sample = { .at_ns = NUM_S(s),
			.used_bytes = NUM_GIB(1) + NUM_MIB(1) * s / 3600,
			.write_bytes = s * 2000,
			.stored_bytes = s * 1000 };

		mt_room_history_note(&history, &sample);
	}
	return until_s;
}

Test(room_history, nothing_is_known_at_first)
{
	struct mt_room_rates rates;

	mt_room_history_rates(&history, &rates);
	cr_assert_eq(rates.hour_ns, 0);
	cr_assert_eq(rates.day_ns, 0);
	(void)look(2, 2);
	mt_room_history_rates(&history, &rates);
	cr_assert_eq(rates.hour_ns, 0);
}

Test(room_history, before_an_hour_all_of_it_counts)
{
	struct mt_room_rates rates;

	(void)look(2, 602);
	mt_room_history_rates(&history, &rates);
	cr_assert_eq(rates.hour_ns, NUM_S(600));
	cr_assert_eq(rates.hour_write_bytes, 600 * 2000);
	cr_assert_eq(rates.hour_stored_bytes, 600 * 1000);
	cr_assert_eq(rates.day_ns, NUM_S(600));
}

Test(room_history, what_is_older_than_an_hour_and_a_day_is_left_out)
{
	struct mt_room_rates rates;

	(void)look(2, 3 * 86400);
	mt_room_history_rates(&history, &rates);
	cr_assert_leq(rates.hour_ns, MT_ROOM_HOUR_NS);
	cr_assert_geq(rates.hour_ns, MT_ROOM_HOUR_NS - MT_ROOM_STEP_NS);
	cr_assert_eq(rates.hour_write_bytes, 2 * rates.hour_stored_bytes);
	cr_assert_leq(rates.day_ns, NUM_S(86400) + MT_ROOM_STEP_NS);
	cr_assert_geq(rates.day_ns, NUM_S(86400) - 2 * MT_ROOM_STEP_NS);
	cr_assert_leq((uint64_t)rates.day_gain_bytes, NUM_MIB(25));
	cr_assert_geq((uint64_t)rates.day_gain_bytes, NUM_MIB(23));
}

Test(room_history, less_in_use_is_a_loss)
{
	struct mt_room_sample sample = { .at_ns = NUM_S(1), .used_bytes = NUM_MIB(9) };
	struct mt_room_rates rates;

	mt_room_history_note(&history, &sample);
	sample.at_ns = NUM_S(1000);
	sample.used_bytes = NUM_MIB(4);
	mt_room_history_note(&history, &sample);
	mt_room_history_rates(&history, &rates);
	cr_assert_eq(rates.day_gain_bytes, -(int64_t)NUM_MIB(5));
}
