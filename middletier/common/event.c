/* SPDX-License-Identifier: Apache-2.0 */
/* event.c -- lines of the log that are kept */
#include "common/event.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "common/alloc.h"

struct mt_events {
	pthread_mutex_t lock;
	uint64_t number; /* of the last */
	uint64_t counts[CLEAVE_EVENT_CODE_NR];
	struct mt_event ring[MT_EVENTS_MAX]; /* by number, modulo MT_EVENTS_MAX */
};

struct mt_events *
mt_events_create(void)
{
	struct mt_events *events = mt_calloc(1, sizeof(*events));

	if (events == NULL)
		return NULL;
	if (pthread_mutex_init(&events->lock, NULL) != 0) {
		mt_free(events);
		return NULL;
	}
	return events;
}

void
mt_events_destroy(struct mt_events *events)
{
	if (events == NULL)
		return;
	(void)pthread_mutex_destroy(&events->lock);
	mt_free(events);
}

const char *
mt_event_object(char ret_text[MT_EVENT_OBJECT_BYTES], const char *noun, uint64_t number)
{
	assert(noun != NULL);
	(void)snprintf(ret_text, MT_EVENT_OBJECT_BYTES, "%s %" PRIu64, noun, number);
	return ret_text;
}

static void
events_keep(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code,
    const char *object, const char *text)
{
	struct mt_event *event;

	(void)pthread_mutex_lock(&events->lock);
	events->counts[code]++;
	event = &events->ring[++events->number % MT_EVENTS_MAX];
	*event = (struct mt_event){ .number = events->number,
		.at_ns = now_ns,
		.wall_ms = log_wall_ms(),
		.code = code };
	(void)snprintf(event->object, sizeof(event->object), "%s", object);
	(void)snprintf(event->text, sizeof(event->text), "%.*s", (int)sizeof(event->text) - 1,
	    text); /* the log has it whole */
	(void)pthread_mutex_unlock(&events->lock);
}

void
mt_event(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code, const char *object,
    const char *format, ...)
{
	static const enum log_level levels[CLEAVE_EVENT_LEVEL_NR] = {
		[CLEAVE_EVENT_INFO] = LOG_INFO,
		[CLEAVE_EVENT_WARN] = LOG_WARN,
		[CLEAVE_EVENT_ERROR] = LOG_ERROR,
	};
	char text[LOG_LINE_BYTES_MAX];
	va_list args;

	assert(object[0] != '\0' && format != NULL);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_event(levels[event_info(code)->level], event_info(code)->name, object, "%s", text);
	if (events != NULL)
		events_keep(events, now_ns, code, object, text);
}

uint32_t
mt_events_read(struct mt_events *events, uint64_t after, struct mt_event *ret_events, uint32_t max)
{
	uint32_t count = 0;

	assert(events != NULL && max > 0);
	(void)pthread_mutex_lock(&events->lock);
	if (events->number > MT_EVENTS_MAX && after < events->number - MT_EVENTS_MAX)
		after = events->number - MT_EVENTS_MAX;
	for (uint64_t number = after + 1; number <= events->number && count < max; number++) {
		assert(events->ring[number % MT_EVENTS_MAX].number == number);
		ret_events[count++] = events->ring[number % MT_EVENTS_MAX];
	}
	(void)pthread_mutex_unlock(&events->lock);
	return count;
}

uint64_t
mt_events_count(struct mt_events *events, enum cleave_event_code code)
{
	uint64_t count;

	assert(events != NULL && code < CLEAVE_EVENT_CODE_NR);
	(void)pthread_mutex_lock(&events->lock);
	count = events->counts[code];
	(void)pthread_mutex_unlock(&events->lock);
	return count;
}
