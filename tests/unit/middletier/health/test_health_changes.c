/* SPDX-License-Identifier: Apache-2.0 */
/* test_health_changes.c -- looks at the health, and the events between them */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/event.h"
#include "middletier/health/health.h"
#include "middletier/health/health_changes.h"

static struct mt_health_changes changes;
static struct mt_health health;
static struct mt_events *events;
static uint64_t now_ns;

static void
set_up(void)
{
	changes = (struct mt_health_changes){ 0 };
	events = mt_events_create();
	cr_assert_not_null(events);
	now_ns = NUM_S(1000);
}

static void
tear_down(void)
{
	mt_events_destroy(events);
}

TestSuite(health_changes, .init = set_up, .fini = tear_down);

static void
begin(void)
{
	health.level = CLEAVE_HEALTH_OK;
	health.count = health.left_out = 0;
}

/* A second later: what was put since begin() stands. */
static void
look(void)
{
	now_ns += NUM_S(1);
	mt_health_changes_take(&changes, &health, now_ns, events);
	begin();
}

static void
has(enum cleave_health_code code, const char *object, uint64_t age_ns)
{
	mt_health_add(&health, code, object, age_ns, "text of %s", object);
}

static void
expect(uint64_t errors, uint64_t warns, uint64_t over)
{
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_HEALTH_ERROR), errors);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_HEALTH_WARN), warns);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_HEALTH_OVER), over);
}

static const struct mt_event *
newest(void)
{
	static struct mt_event all[MT_EVENTS_MAX];
	uint32_t count = mt_events_read(events, 0, all, MT_EVENTS_MAX);

	cr_assert_gt(count, 0);
	return &all[count - 1];
}

Test(health_changes, an_error_is_told_at_once_and_once)
{
	begin();
	for (int i = 0; i < 5; i++) {
		has(CLEAVE_HEALTH_WRITES_WAIT, "gateway 1", 0);
		look();
		expect(1, 0, 0);
	}
	cr_assert_str_eq(newest()->object, "gateway 1");
	cr_assert_str_eq(newest()->text, "health: writes-wait: text of gateway 1");
}

Test(health_changes, a_warning_is_told_when_it_stands)
{
	begin();
	has(CLEAVE_HEALTH_NODE_DOWN, "node 3", 0);
	look();
	expect(0, 0, 0);
	has(CLEAVE_HEALTH_NODE_DOWN, "node 3", 0);
	look();
	expect(0, 1, 0);
	has(CLEAVE_HEALTH_NODE_DOWN, "node 3", 0);
	look();
	expect(0, 1, 0);
}

Test(health_changes, two_of_a_kind_in_one_look_are_one)
{
	begin();
	health.reasons[health.count++] = (struct mt_health_reason){ .code = CLEAVE_HEALTH_NODE_DOWN,
		.object = "node 3",
		.text = "a" };
	health.reasons[health.count] = health.reasons[0];
	health.count++;
	look();
	expect(0, 0, 0);
}

Test(health_changes, what_was_there_for_one_look_was_nothing)
{
	begin();
	for (int i = 0; i < 4; i++) {
		has(CLEAVE_HEALTH_SHARD_STARTING, "gateway 1", 0);
		look();
		look();
	}
	expect(0, 0, 0);
	cr_assert_eq(changes.count, 0);
}

Test(health_changes, it_is_over_when_two_looks_miss_it)
{
	begin();
	has(CLEAVE_HEALTH_NODES_FEW, "cluster", NUM_MS(2500));
	look();
	look();
	expect(1, 0, 0);
	has(CLEAVE_HEALTH_NODES_FEW, "cluster", 0); /* it flaps: that is no end, and no begin */
	look();
	look();
	expect(1, 0, 0);
	look();
	expect(1, 0, 1);
	cr_assert_str_eq(newest()->object, "cluster");
	cr_assert_str_eq(newest()->text, "health: nodes-few of cluster is over, after 6.5 s");
	cr_assert_eq(changes.count, 0);
	look();
	expect(1, 0, 1);
	has(CLEAVE_HEALTH_NODES_FEW, "cluster", 0);
	look();
	expect(2, 0, 1);
}

Test(health_changes, reasons_are_told_apart_by_code_and_object)
{
	begin();
	for (int i = 0; i < 2; i++) {
		has(CLEAVE_HEALTH_NODE_DOWN, "node 1", 0);
		has(CLEAVE_HEALTH_NODE_DOWN, "node 2", 0);
		has(CLEAVE_HEALTH_NODE_SLOW, "node 1", 0);
		look();
	}
	expect(0, 3, 0);
	for (int i = 0; i < 2; i++) {
		has(CLEAVE_HEALTH_NODE_SLOW, "node 1", 0);
		look();
	}
	expect(0, 3, 2);
	cr_assert_eq(changes.count, 1);
	cr_assert_eq(changes.entries[0].code, CLEAVE_HEALTH_NODE_SLOW);
}

Test(health_changes, what_has_no_age_has_that_of_the_first_look)
{
	begin();
	has(CLEAVE_HEALTH_NODE_READ_ONLY, "node 1", 0);
	has(CLEAVE_HEALTH_NODE_DOWN, "node 2", NUM_S(7));
	look();
	has(CLEAVE_HEALTH_NODE_READ_ONLY, "node 1", 0);
	has(CLEAVE_HEALTH_NODE_DOWN, "node 2", NUM_S(8));
	has(CLEAVE_HEALTH_NODE_SLOW, "node 1", 0);
	mt_health_changes_date(&changes, now_ns + NUM_S(4), &health);
	cr_assert_eq(health.reasons[0].age_ns, NUM_S(4));
	cr_assert_eq(health.reasons[1].age_ns, NUM_S(8), "the cause knows better");
	cr_assert_eq(health.reasons[2].age_ns, 0, "no look had it");
}

Test(health_changes, more_than_there_is_room_for_are_left_to_the_status)
{
	char object[MT_HEALTH_OBJECT_BYTES];

	for (uint32_t turn = 0; turn < 2; turn++) {
		begin();
		for (uint32_t i = 0; i < MT_HEALTH_REASONS_MAX; i++) {
			(void)snprintf(object, sizeof(object), "node %u", turn * 1000 + i);
			has(CLEAVE_HEALTH_NODES_FEW, object, 0);
		}
		look();
	}
	expect(MT_HEALTH_REASONS_MAX, 0, 0);
	for (int i = 0; i < 2; i++)
		look();
	expect(MT_HEALTH_REASONS_MAX, 0, MT_HEALTH_REASONS_MAX);
	cr_assert_eq(changes.count, 0);
}
