/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_events.c -- events: what happened here, page by page
 *
 *	{"op":"events","after":N}
 *	{"boot":ID,"events":[{"number":N,"age_ms":N,"time":T,"code":"node-lost","level":"WARN","object":"node 3","text":T,
 *	    "by":NAME,"from":ADDRESS}, ...],"more":false}
 *
 * An act of a person or a client has "from", and "by" where the client says what it is called.
 *
 * Events of several gateways are put in order by their ages, since clocks of hosts differ; "time" is this host's, for
 * people: "2026-01-31T23:59:59.123Z". Numbers begin anew with each process, which boot tells.
 */
#include "control/control_events.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/event.h"
#include "control/control_request.h"

#define EVENT_TIME_BYTES 48u
#define EVENTS_PAGE                                                                                \
	48u /* with all texts as long as they may be, escaped, they fit into an answer */

static const char *
event_time(const struct mt_event *event, char ret_text[EVENT_TIME_BYTES])
{
	time_t seconds = (time_t)(event->wall_ms / 1000);
	size_t used = 0;
	struct tm utc;

	if (gmtime_r(&seconds, &utc) != NULL)
		used = strftime(ret_text, EVENT_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(ret_text + used, EVENT_TIME_BYTES - used, ".%03uZ",
	    (unsigned)(event->wall_ms % 1000));
	return ret_text;
}

json_t *
mt_json_event(const struct mt_event *event, uint64_t now_ns)
{
	const struct cleave_event_info *info = event_info(event->code);
	uint64_t age_ns = now_ns - num_min(event->at_ns, now_ns);
	char time[EVENT_TIME_BYTES];

	json_t *object = json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s}", "number",
	    (json_int_t)event->number, "age_ms", (json_int_t)(age_ns / NUM_MS(1)), "time",
	    event_time(event, time), "code", info->name, "level", event_level_name(info->level),
	    "object", event->object, "text", event->text);
	if (object != NULL && event->from[0] != '\0')
		json_object_set_new(object, "from", json_string(event->from));
	if (object != NULL && event->by[0] != '\0')
		json_object_set_new(object, "by", json_string(event->by));
	return object;
}

static json_t *
json_events(const struct mt_gateway *gateway, const struct mt_event *events, uint32_t count)
{
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	json_t *list = json_array();
	char boot[17];

	assert(count <= EVENTS_PAGE);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, mt_json_event(&events[i], now_ns));
	return json_pack("{s:s, s:o, s:b}", "boot", boot, "events", list, "more",
	    count == EVENTS_PAGE);
}

void
mt_control_events(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;
	struct mt_event *events = mt_calloc(EVENTS_PAGE, sizeof(*events));
	uint64_t after = 0;
	const struct reader_member members[] = {
		{ "after", READER_U64, false, 0, INT64_MAX, { .u64 = &after } },
	};
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else if (events == NULL)
		mt_control_finish(request, NULL);
	else
		mt_control_finish(request,
		    json_events(gateway, events,
			mt_events_read(gateway->shared.events, after, events, EVENTS_PAGE)));
	mt_free(events);
}
