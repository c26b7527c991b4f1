/* SPDX-License-Identifier: Apache-2.0 */
/* test_scope.c -- the spans of volumes, snapshots, clones and roll-backs */
#include <criterion/criterion.h>
#include <errno.h>

#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"

#define BASE 0x801u
#define CLONE ((UINT64_C(5) << 32) | BASE)

static struct mt_scope
plain(void)
{
	struct mt_scope scope;

	mt_scope_init(&scope, BASE);
	return scope;
}

static void
expect_span(const struct mt_scope *scope, uint32_t index, uint64_t base, uint64_t from,
    uint64_t below)
{
	cr_assert_eq(scope->spans[index].segment_base, base);
	cr_assert_eq(scope->spans[index].cut_from, from);
	cr_assert_eq(scope->spans[index].cut_below, below);
}

Test(scope, plain_is_what_init_leaves)
{
	struct mt_scope scope = plain();

	cr_assert(mt_scope_is_plain(&scope, BASE));
	cr_assert_not(mt_scope_is_plain(&scope, BASE + 1));
	mt_scope_before(&scope, 7, &scope);
	cr_assert_not(mt_scope_is_plain(&scope, BASE));
	expect_span(&scope, 0, BASE, 0, 7);
	cr_assert(mt_scope_is_plain(&(struct mt_scope){ 0 }, BASE));
}

Test(scope, clone_of_a_clone_sees_three_volumes)
{
	struct mt_scope scope = plain();
	uint64_t other = CLONE + (UINT64_C(1) << 32);

	mt_scope_before(&scope, 3, &scope);
	cr_assert_eq(mt_scope_above(CLONE, 0, &scope, &scope), 0);
	mt_scope_before(&scope, 9, &scope);
	cr_assert_eq(mt_scope_above(other, 0, &scope, &scope), 0);
	cr_assert_eq(scope.span_count, 3);
	expect_span(&scope, 0, other, 0, UINT64_MAX);
	expect_span(&scope, 1, CLONE, 0, 9);
	expect_span(&scope, 2, BASE, 0, 3);
	cr_assert_null(mt_scope_check(&scope, other));
}

Test(scope, rolled_back_has_a_gap)
{
	struct mt_scope scope = plain();

	mt_scope_before(&scope, 3, &scope);
	cr_assert_eq(mt_scope_above(BASE, 8, &scope, &scope), 0);
	expect_span(&scope, 0, BASE, 8, UINT64_MAX);
	expect_span(&scope, 1, BASE, 0, 3);
	cr_assert(mt_scope_names(&scope, 3));
	cr_assert(mt_scope_names(&scope, 8));
	cr_assert_not(mt_scope_names(&scope, 5));
}

Test(scope, as_many_spans_as_there_is_room_for)
{
	struct mt_scope scope = plain();

	for (uint64_t i = 1; i < MT_SPANS_MAX; i++) {
		mt_scope_before(&scope, 10 * i, &scope);
		cr_assert_eq(mt_scope_above(BASE, 10 * i + 1, &scope, &scope), 0);
	}
	cr_assert_null(mt_scope_check(&scope, BASE));
	cr_assert_eq(mt_scope_above(BASE, 999, &scope, &scope), -E2BIG);
	cr_assert_eq(scope.span_count, MT_SPANS_MAX);
}

Test(scope, what_is_wrong_is_named)
{
	struct mt_scope scope = plain();

	cr_assert_str_eq(mt_scope_check(&(struct mt_scope){ 0 }, BASE), "span_count");
	cr_assert_str_eq(mt_scope_check(&scope, BASE + 1), "segment_base of a span");
	scope.spans[0].cut_from = UINT64_MAX;
	cr_assert_str_eq(mt_scope_check(&scope, BASE), "cut_below of a span");
	scope.spans[0].cut_from = 1;
	scope.spans[0].cut_below = MT_NUMBER_MAX + 1;
	cr_assert_str_eq(mt_scope_check(&scope, BASE), "cut_below of a span");
	scope.spans[0] = (struct mt_span){ BASE, MT_NUMBER_MAX + 1, UINT64_MAX };
	cr_assert_str_eq(mt_scope_check(&scope, BASE), "cut_from of a span");
	mt_scope_init(&scope, UINT64_C(1) << 55 | BASE);
	cr_assert_str_eq(mt_scope_check(&scope, scope.spans[0].segment_base),
	    "segment_base of a span");
	scope = plain();
	cr_assert_eq(mt_scope_above(CLONE + 1, 0, &scope, &scope), 0);
	cr_assert_str_eq(mt_scope_check(&scope, CLONE + 1), "segment_base of a span");
}

/* Snapshots 2 and 4 with a roll-back to 1 between them: what one has and the other has not. */
Test(scope, difference_is_what_one_sees_alone)
{
	struct mt_scope one = plain(), two = plain(), four, difference;

	mt_scope_before(&one, 1, &one);
	mt_scope_before(&two, 2, &two);
	cr_assert_eq(mt_scope_above(BASE, 3, &one, &four), 0);
	mt_scope_before(&four, 4, &four);
	cr_assert_eq(mt_scope_difference(&two, &four, BASE, &difference), 0);
	cr_assert_eq(difference.span_count, 3);
	expect_span(&difference, 0, BASE, 0, 0);
	expect_span(&difference, 1, BASE, 1, 2);
	expect_span(&difference, 2, BASE, 3, 4);
	cr_assert_eq(mt_scope_difference(&two, &two, BASE, &difference), 0);
	cr_assert_eq(difference.span_count, 1);
}

Test(scope, difference_of_a_clones_snapshots_is_in_its_own_segments)
{
	struct mt_scope first = plain(), second, difference;

	mt_scope_before(&first, 1, &first);
	cr_assert_eq(mt_scope_above(CLONE, 0, &first, &second), 0);
	mt_scope_before(&second, 5, &first);
	cr_assert_eq(mt_scope_difference(&first, &second, CLONE, &difference), 0);
	cr_assert_eq(difference.span_count, 2);
	expect_span(&difference, 1, CLONE, 5, UINT64_MAX);
}

Test(scope, difference_may_be_too_long)
{
	struct mt_scope a = { .span_count = MT_SPANS_MAX }, b = plain(), difference;

	for (uint64_t i = 0; i < MT_SPANS_MAX; i++)
		a.spans[i] = (struct mt_span){ BASE, 10 * i + 1, 10 * i + 2 };
	cr_assert_eq(mt_scope_difference(&a, &b, BASE, &difference), -E2BIG);
}

/* A clone's scope, its snapshots', and those of clones of these: what lies behind the clone's own spans goes. */
Test(scope, what_a_clone_was_made_from_is_cut_off)
{
	struct mt_scope scope = plain(), other;
	uint64_t second = CLONE + (UINT64_C(1) << 32);

	cr_assert_eq(mt_scope_tail(&scope, BASE), 1, "a volume has no origin");
	cr_assert_not(mt_scope_cut_tail(&scope, BASE));
	mt_scope_before(&scope, 3, &scope);
	cr_assert_eq(mt_scope_above(CLONE, 0, &scope, &scope), 0);
	cr_assert_eq(mt_scope_tail(&scope, CLONE), 1);
	cr_assert_eq(mt_scope_tail(&scope, second), scope.span_count,
	    "of another volume nothing is known");
	/* A snapshot of it, to which it is rolled back; and a clone of that. */
	mt_scope_before(&scope, 9, &other);
	cr_assert_eq(mt_scope_above(CLONE, 11, &other, &scope), 0);
	cr_assert_eq(mt_scope_tail(&scope, CLONE), 2);
	mt_scope_before(&scope, 15, &other);
	cr_assert_eq(mt_scope_above(second, 0, &other, &other), 0);
	cr_assert_eq(other.span_count, 4);
	cr_assert_eq(mt_scope_tail(&other, second), 1);
	cr_assert(mt_scope_cut_tail(&other, CLONE));
	cr_assert_eq(other.span_count, 3);
	expect_span(&other, 2, CLONE, 0, 9);
	cr_assert_not(mt_scope_cut_tail(&other, CLONE), "it was cut already");
	cr_assert(mt_scope_cut_tail(&scope, CLONE));
	cr_assert_not(mt_scope_names(&scope, 3));
}
