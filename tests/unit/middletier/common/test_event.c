/* SPDX-License-Identifier: Apache-2.0 */
/* test_event.c -- lines of the log that are kept: in order, the last of them, counted all */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "middletier/common/event.h"

static struct mt_events *events;
static struct mt_event kept[MT_EVENTS_KINDS * MT_EVENTS_MAX + 1];
static char lines[4][LOG_LINE_BYTES_MAX];
static enum log_level levels[4];
static uint32_t line_count;

static void
keep_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	levels[line_count % 4] = level;
	(void)snprintf(lines[line_count++ % 4], LOG_LINE_BYTES_MAX, "%s", line);
}

static void
open_events(void)
{
	events = mt_events_create();
	cr_assert_not_null(events);
	log_set_sink(keep_line, NULL);
}

static void
close_events(void)
{
	log_set_sink(NULL, NULL);
	mt_events_destroy(events);
}

TestSuite(event, .init = open_events, .fini = close_events);

Test(event, an_event_is_a_line_of_the_log_that_is_kept)
{
	mt_event(events, 5, CLEAVE_EVENT_NODE_LOST, "node 3", "node %d: lost rc=%s", 3, "-EIO");
	mt_event(events, 7, CLEAVE_EVENT_LEASE_LOST, "gateway", "gone");
	mt_event_of(events, 9, CLEAVE_EVENT_SHARD_SERVED, "shard", 12, "serving");
	cr_assert_eq(line_count, 3);
	cr_assert_str_eq(lines[0], "node 3: lost rc=-EIO");
	cr_assert(levels[0] == LOG_WARN && levels[1] == LOG_ERROR && levels[2] == LOG_INFO);
	cr_assert_eq(mt_events_read(events, 0, kept, MT_EVENTS_MAX), 3);
	cr_assert(kept[0].number == 1 && kept[0].at_ns == 5);
	cr_assert_eq(kept[0].code, CLEAVE_EVENT_NODE_LOST);
	cr_assert_str_eq(kept[0].object, "node 3");
	cr_assert_str_eq(kept[0].text, "node 3: lost rc=-EIO");
	cr_assert_str_eq(kept[2].object, "shard 12");
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_NODE_LOST), 1);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_NODE_UP), 0);
}

Test(event, where_none_are_kept_it_is_logged)
{
	mt_event(NULL, 5, CLEAVE_EVENT_NODE_UP, "node 3", "up");
	cr_assert_eq(line_count, 1);
	cr_assert_str_eq(lines[0], "up");
	mt_events_destroy(NULL);
}

Test(event, pages_go_on_behind_the_last_number)
{
	for (uint32_t i = 0; i < 10; i++)
		mt_event(events, i, CLEAVE_EVENT_NODE_UP, "node 1", "%u", i);
	cr_assert_eq(mt_events_read(events, 0, kept, 4), 4);
	cr_assert_eq(kept[3].number, 4);
	cr_assert_eq(mt_events_read(events, 4, kept, 100), 6);
	cr_assert_str_eq(kept[0].text, "4");
	cr_assert_eq(mt_events_read(events, 10, kept, 4), 0);
	cr_assert_eq(mt_events_read(events, 11, kept, 4), 0, "nobody has told that number");
}

Test(event, the_last_are_kept_and_all_are_counted)
{
	for (uint32_t i = 0; i < MT_EVENTS_MAX + 100; i++)
		mt_event(events, i, CLEAVE_EVENT_NODE_UP, "node 1", "%u", i);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_NODE_UP), MT_EVENTS_MAX + 100);
	cr_assert_eq(mt_events_read(events, 7, kept, MT_EVENTS_MAX + 1), MT_EVENTS_MAX);
	for (uint32_t i = 0; i < MT_EVENTS_MAX; i++)
		cr_assert(kept[i].number == i + 101 && kept[i].at_ns == i + 100);
}

/* Somebody opens and closes a volume in a loop: what went wrong is still there. */
Test(event, what_is_wrong_is_not_pushed_out_by_what_is_not)
{
	uint32_t count;

	mt_event(events, 1, CLEAVE_EVENT_VOLUME_CREATED, "v", "told");
	mt_event(events, 1, CLEAVE_EVENT_NODE_LOST, "node 1", "wrong");
	for (uint32_t i = 0; i < 2 * MT_EVENTS_MAX; i++)
		mt_event(events, i, CLEAVE_EVENT_VOLUME_CREATED, "v", "%u", i);
	mt_event(events, 1, CLEAVE_EVENT_HEALTH_ERROR, "node 1", "worse");
	count = mt_events_read(events, 0, kept, NUM_COUNT(kept));
	cr_assert_eq(count, MT_EVENTS_MAX + 2);
	cr_assert_str_eq(kept[0].text, "wrong");
	cr_assert_eq(kept[0].number, 2);
	for (uint32_t i = 1; i < count; i++)
		cr_assert_gt(kept[i].number, kept[i - 1].number, "in order");
	cr_assert_str_eq(kept[count - 1].text, "worse");
	/* Page by page the same, each once. */
	cr_assert_eq(mt_events_read(events, 0, kept, 2), 2);
	cr_assert_eq(mt_events_read(events, kept[1].number, kept, NUM_COUNT(kept)), count - 2);
}

Test(event, what_is_longer_is_cut)
{
	char text[LOG_LINE_BYTES_MAX], object[200];

	memset(text, 'x', sizeof(text) - 1);
	memset(object, 'y', sizeof(object) - 1);
	text[sizeof(text) - 1] = object[sizeof(object) - 1] = '\0';
	mt_event(events, 1, CLEAVE_EVENT_NODE_UP, object, "%s", text);
	cr_assert_eq(strlen(lines[0]), LOG_LINE_BYTES_MAX - 1, "the log has it whole");
	cr_assert_eq(mt_events_read(events, 0, kept, 1), 1);
	cr_assert_eq(strlen(kept[0].text), MT_EVENT_TEXT_BYTES - 1);
	cr_assert_eq(strlen(kept[0].object), MT_EVENT_OBJECT_BYTES - 1);
}

static void *
add_many(void *arg)
{
	for (uint32_t i = 0; i < 1000; i++)
		mt_event(arg, i, CLEAVE_EVENT_NODE_UP, "node 1", "%u", i);
	return NULL;
}

static void
drop_line(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

Test(event, ports_and_main_add_at_the_same_time)
{
	pthread_t threads[4];

	log_set_sink(drop_line, NULL);
	for (uint32_t i = 0; i < NUM_COUNT(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, add_many, events), 0);
	for (uint32_t i = 0; i < NUM_COUNT(threads); i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_eq(mt_events_count(events, CLEAVE_EVENT_NODE_UP), 4000);
	cr_assert_eq(mt_events_read(events, 0, kept, MT_EVENTS_MAX), MT_EVENTS_MAX);
	cr_assert_eq(kept[MT_EVENTS_MAX - 1].number, 4000);
}

Test(event, who_did_it_is_told_at_the_end_and_apart)
{
	const struct mt_event_who who = { .by = "cleave[7]@host", .from = "tcp://10.0.0.1:5" };
	const struct mt_event_who old = { .by = "", .from = "tcp://10.0.0.2:6" };
	char text[600];

	log_set_sink(drop_line, NULL);
	mt_event_by(events, 1, CLEAVE_EVENT_VOLUME_CREATED, "v", &who, "volume: created name=%s",
	    "v");
	mt_event_by(events, 2, CLEAVE_EVENT_VOLUME_DELETED, "v", &old, "volume: deleted");
	mt_event_by(events, 3, CLEAVE_EVENT_GATEWAY_SET, "gateway", NULL, "gateway: by a signal");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	mt_event_by(events, 4, CLEAVE_EVENT_VOLUME_CREATED, "v", &who, "%s", text);
	cr_assert_eq(mt_events_read(events, 0, kept, 8), 4);
	cr_assert_str_eq(kept[0].text,
	    "volume: created name=v by=\"cleave[7]@host\" from=tcp://10.0.0.1:5");
	cr_assert_str_eq(kept[0].by, "cleave[7]@host");
	cr_assert_str_eq(kept[0].from, "tcp://10.0.0.1:5");
	cr_assert_str_eq(kept[1].text, "volume: deleted from=tcp://10.0.0.2:6");
	cr_assert_str_eq(kept[1].by, "");
	cr_assert_str_eq(kept[2].text, "gateway: by a signal");
	cr_assert_str_eq(kept[2].from, "");
	cr_assert_str_eq(kept[3].by, "cleave[7]@host", "though the text is cut");
}

Test(event, each_code_has_its_words)
{
	for (uint32_t i = 0; i < CLEAVE_EVENT_CODE_NR; i++) {
		const struct cleave_event_info *info = event_info((enum cleave_event_code)i);

		cr_assert_lt(info->level, CLEAVE_EVENT_LEVEL_NR);
		cr_assert_gt(strlen(info->means), 10, "%s", info->name);
		for (uint32_t k = 0; k < i; k++)
			cr_assert_str_neq(info->name, event_info((enum cleave_event_code)k)->name);
	}
}
