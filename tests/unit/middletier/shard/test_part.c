/* SPDX-License-Identifier: Apache-2.0 */
/* test_part.c -- the list of a shard's parts: in which order what is done with them, and what has nothing to do */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/shard.h"
#include "middletier/shard/part.h"

/* The calls, and of which parts: "init a, init b". */
static char calls[512];
static char failing; /* the part whose init, or take, fails; 0: none */
static char busy;    /* the part that is not quiet; 0: none */
static struct mt_shard shard;

static void
note(const char *what, char part)
{
	size_t at = strlen(calls);

	(void)snprintf(calls + at, sizeof(calls) - at, "%s%s %c", at == 0 ? "" : ", ", what, part);
}

static void
expect_calls(const char *expected)
{
	cr_assert_str_eq(calls, expected, "%s", calls);
	calls[0] = 0;
}

static int
note_init(const char *what, char part)
{
	note(what, part);
	return part == failing ? -ENOMEM : 0;
}

#define PART_INIT(what, part)                                                                      \
	static int what##_##part(struct mt_shard *of)                                              \
	{                                                                                          \
		cr_assert_eq(of, &shard);                                                          \
		return note_init(#what, #part[0]);                                                 \
	}
#define PART_CALL(what, part)                                                                      \
	static void what##_##part(struct mt_shard *of)                                             \
	{                                                                                          \
		cr_assert_eq(of, &shard);                                                          \
		note(#what, #part[0]);                                                             \
	}
#define PART_STOP_RC(part)                                                                         \
	static void stop_rc_##part(struct mt_shard *of, int rc)                                    \
	{                                                                                          \
		cr_assert_eq(rc, -EREMCHG);                                                        \
		cr_assert_eq(of, &shard);                                                          \
		note("stop_rc", #part[0]);                                                         \
	}
#define PART_CALLS(part)                                                                           \
	PART_INIT(init, part)                                                                      \
	PART_INIT(take, part)                                                                      \
	PART_CALL(give, part)                                                                      \
	PART_CALL(start, part)                                                                     \
	PART_CALL(stop, part)                                                                      \
	PART_CALL(reset, part)                                                                     \
	PART_CALL(fini, part)                                                                      \
	static bool is_quiet_##part(const struct mt_shard *of)                                     \
	{                                                                                          \
		cr_assert_eq(of, &shard);                                                          \
		return busy != #part[0];                                                           \
	}                                                                                          \
	static void on_link_##part(struct mt_shard *of, struct mt_link *link, bool is_up)          \
	{                                                                                          \
		cr_assert(of == &shard && link == NULL && is_up);                                  \
		note("link", #part[0]);                                                            \
	}

PART_CALLS(a)
PART_CALLS(b)
PART_CALLS(c)
PART_STOP_RC(a)
PART_STOP_RC(b)

#define PART(part)                                                                                 \
	{                                                                                          \
		.name = #part, .init = init_##part, .take = take_##part, .give = give_##part,      \
		.start = start_##part, .stop = stop_##part, .is_quiet = is_quiet_##part,           \
		.reset = reset_##part, .on_link = on_link_##part, .fini = fini_##part              \
	}

static const struct mt_part whole[] = { PART(a), PART(b), PART(c) };
/* Between two parts one that has nothing to do at all. */
static const struct mt_part holey[] = {
	{ .name = "a", .init = init_a, .stop_rc = stop_rc_a, .reset = reset_a },
	{ .name = "nothing" },
	{ .name = "b", .start = start_b, .stop_rc = stop_rc_b, .fini = fini_b },
	{ .name = "c", .init = init_c, .stop = stop_c, .on_link = on_link_c, .fini = fini_c },
};

static void
do_all(const struct mt_part *parts, uint32_t count)
{
	mt_parts_start(parts, count, &shard);
	mt_parts_on_link(parts, count, &shard, NULL, true);
	mt_parts_stop(parts, count, &shard, -EREMCHG);
	cr_assert_null(mt_parts_busy(parts, count, &shard));
	mt_parts_reset(parts, count, &shard);
	mt_parts_fini(parts, count, &shard);
}

Test(part, all_are_made_in_order_and_all_else_goes_backwards)
{
	cr_assert_eq(mt_parts_init(whole, NUM_COUNT(whole), &shard), 0);
	expect_calls("init a, init b, init c");
	do_all(whole, NUM_COUNT(whole));
	expect_calls("start c, start b, start a, link c, link b, link a, stop c, stop b, stop a, "
		     "reset c, reset b, reset a, fini c, fini b, fini a");
}

Test(part, what_a_part_lacks_is_left_out)
{
	cr_assert_eq(mt_parts_init(holey, NUM_COUNT(holey), &shard), 0);
	expect_calls("init a, init c");
	do_all(holey, NUM_COUNT(holey));
	expect_calls("start b, link c, stop c, stop_rc b, stop_rc a, reset a, fini c, fini b");
}

Test(part, memory_is_taken_in_order_and_given_back_backwards)
{
	static const char *const expected[] = { "take a", "take a, take b, give a",
		"take a, take b, take c, give b, give a" };

	cr_assert_eq(mt_parts_take(whole, NUM_COUNT(whole), &shard), 0);
	expect_calls("take a, take b, take c");
	mt_parts_give(whole, NUM_COUNT(whole), &shard);
	expect_calls("give c, give b, give a");
	for (uint32_t i = 0; i < NUM_COUNT(expected); i++) {
		failing = "abc"[i];
		cr_assert_eq(mt_parts_take(whole, NUM_COUNT(whole), &shard), -ENOMEM);
		expect_calls(expected[i]);
	}
	failing = 0;
}

Test(part, those_before_one_that_cannot_be_made_end_again)
{
	static const char *const expected[] = { "init a", "init a, init b, fini a",
		"init a, init b, init c, fini b, fini a" };

	for (uint32_t i = 0; i < NUM_COUNT(whole); i++) {
		failing = whole[i].name[0];
		cr_assert_eq(mt_parts_init(whole, NUM_COUNT(whole), &shard), -ENOMEM);
		expect_calls(expected[i]);
	}
	failing = 'c';
	cr_assert_eq(mt_parts_init(holey, NUM_COUNT(holey), &shard), -ENOMEM);
	expect_calls("init a, init c, fini b");
}

Test(part, each_that_is_busy_is_named)
{
	for (uint32_t i = 0; i < NUM_COUNT(whole); i++) {
		busy = whole[i].name[0];
		cr_assert_str_eq(mt_parts_busy(whole, NUM_COUNT(whole), &shard), whole[i].name);
		cr_assert_null(mt_parts_busy(holey, NUM_COUNT(holey), &shard));
	}
}
