/* SPDX-License-Identifier: Apache-2.0 */
/* test_health_add.c -- reasons: their texts, and which are told where there are too many */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "middletier/health/health.h"

static struct mt_health health;

static bool
has(enum cleave_health_code code, const char *object)
{
	for (uint32_t i = 0; i < health.count; i++) {
		if (health.reasons[i].code == code && strcmp(health.reasons[i].object, object) == 0)
			return true;
	}
	return false;
}

/* A reason that JSON does not take would be missing there, and the cluster called well. */
Test(health_add, bytes_that_are_no_text_are_told_as_such)
{
	char path[2 * MT_HEALTH_TEXT_BYTES];

	mt_health_add(&health, CLEAVE_HEALTH_STORE_DISPLACED, "metadata store", 0,
	    "it was moved or deleted: %s", "/m/\xe4rger\x1b[2J");
	cr_assert_str_eq(health.reasons[0].text, "it was moved or deleted: /m/?rger?[2J");
	memset(path, 'x', sizeof(path));
	for (size_t i = 0; i + 2 < sizeof(path); i += 2)
		memcpy(path + i, "\xc3\xa4", 2);
	path[sizeof(path) - 1] = '\0';
	mt_health_add(&health, CLEAVE_HEALTH_STORE_SLOW, "x", 0, "1%s", path);
	cr_assert_eq(health.reasons[1].text[MT_HEALTH_TEXT_BYTES - 2], '\xa4');
	mt_health_add(&health, CLEAVE_HEALTH_STORE_FULL, "x", 0, "%s", path);
	cr_assert_eq(health.reasons[2].text[MT_HEALTH_TEXT_BYTES - 2], '?');
}

static void
add_node(enum cleave_health_code code, uint32_t node)
{
	char object[MT_HEALTH_OBJECT_BYTES];

	(void)snprintf(object, sizeof(object), "node %u", node);
	mt_health_add(&health, code, object, 0, "%u", node);
}

Test(health_add, more_reasons_than_there_is_room_for_are_counted)
{
	for (uint32_t i = 0; i < MT_HEALTH_REASONS_MAX + 3; i++)
		add_node(i == 0 ? CLEAVE_HEALTH_NODE_DOWN : CLEAVE_HEALTH_NODE_FULL, i);
	cr_assert_eq(health.count, MT_HEALTH_REASONS_MAX);
	cr_assert_eq(health.left_out, 3);
	cr_assert_eq(health.level, CLEAVE_HEALTH_WARN);
	/* An error is told in place of a warning. */
	mt_health_add(&health, CLEAVE_HEALTH_ROOM_OUT, "node 1", 0, "the last");
	cr_assert_eq(health.level, CLEAVE_HEALTH_ERROR);
	cr_assert(has(CLEAVE_HEALTH_ROOM_OUT, "node 1"));
	cr_assert_eq(health.count, MT_HEALTH_REASONS_MAX);
	cr_assert_eq(health.left_out, 4);
	for (uint32_t i = 0; i < MT_HEALTH_REASONS_MAX; i++)
		add_node(CLEAVE_HEALTH_ROOM_OUT, i);
	cr_assert_eq(health.left_out, 3 + MT_HEALTH_REASONS_MAX, "what is left out counts");
	cr_assert_eq(health.count, MT_HEALTH_REASONS_MAX);
}
