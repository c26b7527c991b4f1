/* SPDX-License-Identifier: Apache-2.0 */
/* test_page.c -- what a gateway tells over HTTP: all ports, or those that answer within a second; and its JSON */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/num.h"
#include "middletier/catalog/trash.h"
#include "middletier/cluster/ask.h"
#include "middletier/cluster/look.h"
#include "middletier/common/event.h"
#include "middletier/common/port.h"
#include "middletier/control/metrics.h"
#include "middletier/health/health.h"
#include "middletier/page/page.h"
#include "middletier/page/page_json.h"
#include "middletier/page/page_volumes.h"
#include "middletier/port/throttle.h"
#include "support/sim_gateway.h"

#define PORTS 2u
#define NODES 3u

/* The last answer of a look. */
struct told {
	uint32_t count;
	bool is_null;
	uint32_t silent_count;
	uint64_t at_ns;
	json_t *page;
	char *metrics;
	size_t metrics_bytes;
	enum cleave_health_level level;
	bool has_node_reason, has_port_reason;
};

static struct sg sg;
static struct mt_look look;
static struct told told;
static struct loop *stuck, *loop_of_port;

static bool
is_loaded(void *arg)
{
	const struct mt_gateway *gateway = ((const struct sg *)arg)->gateway;

	return gateway->volumes.is_loaded && gateway->sm.state == MT_GATEWAY_TAKING;
}

static void
setup(void)
{
	sg_init(&sg, 7);
	sg.options.port_count = PORTS;
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	cr_assert(sg_run(&sg, is_loaded, &sg));
	told = (struct told){ .count = 0 };
	mt_look_init(&look, sg.gateway_loop, MT_ASK_STATUS);
}

static void
told_fini(void)
{
	json_decref(told.page);
	free(told.metrics);
	told.page = NULL;
	told.metrics = NULL;
}

static void
teardown(void)
{
	mt_look_fini(&look);
	told_fini();
	if (stuck != NULL)
		sg.gateway->ports[1].loop = loop_of_port;
	sg_kill(&sg);
	sg_fini(&sg);
}

TestSuite(page, .init = setup, .fini = teardown);

static void
on_told(const struct mt_ask *ask, void *arg)
{
	struct mt_health health;
	FILE *out;

	(void)arg;
	told_fini();
	told.count++;
	told.at_ns = loop_now_ns(sg.gateway_loop);
	told.is_null = ask == NULL;
	if (ask == NULL)
		return;
	told.silent_count = ask->silent_count;
	told.page = mt_page_json(ask);
	out = open_memstream(&told.metrics, &told.metrics_bytes);
	cr_assert_eq(mt_metrics_write(out, ask), 0);
	cr_assert_eq(fclose(out), 0);
	mt_health_judge(sg.gateway, ask, &health);
	told.level = health.level;
	for (uint32_t i = 0; i < health.count; i++) {
		told.has_node_reason |= health.reasons[i].code == CLEAVE_HEALTH_NODE_DOWN;
		told.has_port_reason |= health.reasons[i].code == CLEAVE_HEALTH_PORT_SILENT;
	}
}

static bool
is_told(void *arg)
{
	return told.count >= *(const uint32_t *)arg;
}

static void
expect_told(uint32_t count)
{
	cr_assert(sg_run(&sg, is_told, &count), "%u of %u were told", told.count, count);
}

/* Port 1 does not run its loop any more. */
static void
stick(void)
{
	stuck = sim_loop_create(sg.world, "stuck");
	sim_loop_pause(stuck, SIM_FOR_EVER);
	loop_of_port = sg.gateway->ports[1].loop;
	sg.gateway->ports[1].loop = stuck;
}

static const char *
text_of(const char *name)
{
	return json_string_value(json_object_get(told.page, name));
}

Test(page, nobody_can_be_told_before_there_is_a_gateway)
{
	cr_assert_eq(mt_look(&look, on_told, NULL), -EHOSTDOWN);
}

Test(page, all_who_ask_at_once_are_told_by_one_question)
{
	mt_look_begin(&look, sg.gateway);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	cr_assert_eq(told.count, 0, "a callback ran inside the call");
	cr_assert_eq(list_first(&sg.gateway->asks)->next, &sg.gateway->asks, "one question");
	expect_told(3);
	cr_assert_eq(told.silent_count, 0);
	cr_assert(list_is_empty(&sg.gateway->asks));
	cr_assert_not_null(strstr(told.metrics, "\ncleave_gateway_scrape_partial 0\n"));
}

Test(page, members_are_there_and_of_their_types)
{
	static const struct {
		const char *name;
		json_type type;
	} members[] = {
		{ "schema", JSON_INTEGER },
		{ "version", JSON_STRING },
		{ "commit", JSON_STRING },
		{ "cluster", JSON_STRING },
		{ "gateway", JSON_STRING },
		{ "boot", JSON_STRING },
		{ "state", JSON_STRING },
		{ "uptime_s", JSON_INTEGER },
		{ "level", JSON_INTEGER },
		{ "time_ms", JSON_INTEGER },
		{ "partial", JSON_FALSE },
		{ "silent_ports", JSON_ARRAY },
		{ "health", JSON_OBJECT },
		{ "unknown", JSON_OBJECT },
		{ "shards", JSON_OBJECT },
		{ "nodes", JSON_ARRAY },
		{ "gateways", JSON_OBJECT },
		{ "rebalance", JSON_OBJECT },
		{ "volumes", JSON_ARRAY },
		{ "volume_count", JSON_INTEGER },
		{ "waits", JSON_ARRAY },
		{ "trash", JSON_ARRAY },
		{ "trash_count", JSON_INTEGER },
		{ "counters", JSON_OBJECT },
		{ "oldest_write_ms", JSON_INTEGER },
		{ "rates", JSON_ARRAY },
		{ "latency_us", JSON_OBJECT },
		{ "events", JSON_ARRAY },
	};

	mt_look_begin(&look, sg.gateway);
	cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	expect_told(1);
	for (size_t i = 0; i < NUM_COUNT(members); i++) {
		const json_t *value = json_object_get(told.page, members[i].name);

		cr_expect(value != NULL && json_typeof(value) == members[i].type, "%s",
		    members[i].name);
	}
	cr_assert_eq(json_object_size(told.page), NUM_COUNT(members), "one that is not known here");
	cr_assert_str_eq(text_of("cluster"), "c1ea7e0000000001");
	cr_assert_eq(json_array_size(json_object_get(told.page, "nodes")), NODES);
	cr_assert_str_eq(json_string_value(
			     json_object_get(json_object_get(told.page, "unknown"), "text")),
	    "", "there is no other gateway");
}

Test(page, events_are_the_last_ones_newest_first)
{
	const json_t *events;
	char text[32];

	for (unsigned i = 0; i < 2 * MT_PAGE_EVENTS_MAX; i++)
		mt_event(sg.gateway->shared.events, loop_now_ns(sg.gateway_loop),
		    CLEAVE_EVENT_VOLUME_CREATED, "v", "the %u-th", i);
	mt_look_begin(&look, sg.gateway);
	cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	expect_told(1);
	events = json_object_get(told.page, "events");
	cr_assert_eq(json_array_size(events), MT_PAGE_EVENTS_MAX);
	(void)snprintf(text, sizeof(text), "the %u-th", 2 * MT_PAGE_EVENTS_MAX - 1);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(events, 0), "text")),
	    text);
}

Test(page, trash_is_listed_by_who_goes_first)
{
	struct mt_volume volume = { .size_bytes = NUM_MIB(1), .replica_count = 3 };
	json_t *list;

	(void)snprintf(volume.trash.name, sizeof(volume.trash.name), "%s", "old");
	/* The last one by id has the least time left. */
	for (uint32_t id = 1; id <= MT_PAGE_TRASH_MAX + 3; id++) {
		volume.id = id;
		mt_trash_name(id, volume.name);
		volume.trash.left_ms = NUM_S(1000) / NUM_MS(1) - id * 1000;
		cr_assert_eq(mt_volumes_put(&sg.gateway->volumes, &volume, 1), 0);
	}
	list = mt_page_trash(sg.gateway);
	cr_assert_eq(json_array_size(list), MT_PAGE_TRASH_MAX);
	for (uint32_t i = 0; i < MT_PAGE_TRASH_MAX; i++) {
		const json_t *one = json_array_get(list, i);
		json_int_t id = (json_int_t)MT_PAGE_TRASH_MAX + 3 - i;

		cr_assert_eq(json_integer_value(json_object_get(one, "id")), id, "the %u-th", i);
		cr_assert_eq(json_integer_value(json_object_get(one, "left_s")), 1000 - id);
	}
	json_decref(list);
	cr_assert_eq(json_array_size(list = mt_page_volumes(sg.gateway)), 0, "they are in both");
	json_decref(list);
}

static void
waited(struct mt_ask *ask, uint32_t port, const char *name, uint64_t ms)
{
	struct mt_port_status *status = &ask->legs[port].status;
	struct mt_throttle_told *row = &status->told[status->told_count++];

	(void)snprintf(row->name, sizeof(row->name), "%s", name);
	row->held_count = 1;
	row->waited_count = 10;
	row->waited_ns = NUM_MS(ms);
	row->refused_count = 2;
}

static json_int_t
number_of(const json_t *list, size_t index, const char *name)
{
	return json_integer_value(json_object_get(json_array_get(list, index), name));
}

Test(page, waits_of_all_ports_are_added_up_the_longest_first)
{
	struct mt_throttle_told rows[PORTS][MT_THROTTLE_TOLD_MAX] = { 0 };
	struct mt_ask *ask = calloc(1, sizeof(*ask));
	char name[8];
	json_t *list;

	cr_assert_not_null(ask);
	ask->gateway = sg.gateway;
	list = mt_page_waits(ask);
	cr_assert_eq(json_array_size(list), 0);
	json_decref(list);
	for (uint32_t i = 0; i < PORTS; i++)
		ask->legs[i].status.told = rows[i];
	waited(ask, 0, "few", 5);
	waited(ask, 0, "both", 20);
	waited(ask, 1, "both", 30);
	waited(ask, 1, "one", 40);
	list = mt_page_waits(ask);
	cr_assert_eq(json_array_size(list), 3);
	cr_assert_eq(number_of(list, 0, "wait_ms"), 50, "both");
	cr_assert_eq(number_of(list, 0, "held"), 2);
	cr_assert_eq(number_of(list, 0, "waited"), 20);
	cr_assert_eq(number_of(list, 0, "refused"), 4);
	cr_assert_eq(number_of(list, 1, "wait_ms"), 40, "one");
	cr_assert_eq(number_of(list, 2, "wait_ms"), 5, "few");
	json_decref(list);
	/* Names of their own at each port: more than are listed. */
	for (uint32_t i = 0; i < PORTS; i++) {
		ask->legs[i].status.told_count = 0;
		for (uint32_t k = 0; k < MT_THROTTLE_TOLD_MAX; k++) {
			(void)snprintf(name, sizeof(name), "%u-%u", i, k);
			waited(ask, i, name, 1 + i);
		}
	}
	list = mt_page_waits(ask);
	cr_assert_eq(json_array_size(list), MT_PAGE_WAITS_MAX);
	cr_assert_eq(number_of(list, MT_PAGE_WAITS_MAX - 1, "wait_ms"), 2, "the longest");
	json_decref(list);
	free(ask);
}

Test(page, port_that_hangs_is_waited_for_a_second_and_left_out)
{
	const json_t *ports, *nodes;
	uint64_t asked_ns;

	sg_run_for(&sg, 2 * MT_HEALTH_LINK_NS);
	asked_ns = loop_now_ns(sg.gateway_loop);
	mt_look_begin(&look, sg.gateway);
	stick();
	cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	expect_told(1);
	cr_assert_eq(told.at_ns - asked_ns, MT_LOOK_NS);
	cr_assert_eq(told.silent_count, 1);
	cr_assert_not_null(strstr(told.metrics, "\ncleave_gateway_scrape_partial 1\n"));
	cr_assert(json_is_true(json_object_get(told.page, "partial")));
	ports = json_object_get(told.page, "silent_ports");
	cr_assert_eq(json_array_size(ports), 1);
	cr_assert_eq(json_integer_value(json_array_get(ports, 0)), 1);
	/* The other port has told of its nodes, which nobody runs here. */
	nodes = json_object_get(told.page, "nodes");
	cr_assert_eq(json_array_size(nodes), NODES);
	cr_assert(told.has_node_reason);
	cr_assert(told.has_port_reason);
	cr_assert_eq(told.level, CLEAVE_HEALTH_ERROR);
	/* A later one waits no second more, and the ports are not asked again. */
	asked_ns = loop_now_ns(sg.gateway_loop);
	cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	expect_told(2);
	cr_assert_lt(told.at_ns - asked_ns, NUM_MS(1));
	cr_assert_eq(list_first(&sg.gateway->asks)->next, &sg.gateway->asks, "one question");
	/* The port goes on: the question ends, and the next one is answered by all. */
	sim_loop_pause(stuck, 0);
	sg_run_for(&sg, NUM_MS(10));
	cr_assert(list_is_empty(&sg.gateway->asks));
	cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	expect_told(3);
	cr_assert_eq(told.silent_count, 0);
}

Test(page, who_still_waits_at_the_end_is_told_that)
{
	mt_look_begin(&look, sg.gateway);
	stick();
	cr_assert_eq(mt_look(&look, on_told, NULL), 0);
	mt_look_fini(&look);
	cr_assert_eq(told.count, 1);
	cr_assert(told.is_null);
}

Test(page, no_part_of_it_is_found_elsewhere)
{
	char *html = calloc(1, mt_page_html_bytes + 1);

	cr_assert_not_null(html);
	memcpy(html, mt_page_html, mt_page_html_bytes); /* it has no NUL */
	cr_assert_leq(mt_page_html_bytes, 30 * 1024);
	cr_assert_null(strstr(html, "innerHTML"));
	cr_assert_null(strstr(html, " src="));
	cr_assert_null(strstr(html, "@import"));
	cr_assert_null(strstr(html, "url("));
	cr_assert_null(strstr(html, "@CSS@"));
	cr_assert_null(strstr(html, "@JS@"));
	free(html);
}
