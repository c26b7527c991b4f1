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
#include "base/num.h"
#include "base/plain.h"
#include "common/alloc.h"

/* The last MT_EVENTS_MAX of a kind: the n-th since the gateway has run, from 0 on, lies at n modulo that. */
struct event_ring {
	uint64_t count;
	struct mt_event events[MT_EVENTS_MAX];
};

struct mt_events {
	pthread_mutex_t lock;
	uint64_t number; /* of the last */
	uint64_t counts[CLEAVE_EVENT_CODE_NR];
	struct event_ring rings[MT_EVENTS_KINDS]; /* what is told; what is wrong */
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
    const char *object, const struct mt_event_who *who, const char *text)
{
	struct event_ring *ring = &events->rings[event_info(code)->level > CLEAVE_EVENT_INFO];
	struct mt_event *event;

	(void)pthread_mutex_lock(&events->lock);
	events->counts[code]++;
	event = &ring->events[ring->count++ % MT_EVENTS_MAX];
	*event = (struct mt_event){ .number = ++events->number,
		.at_ns = now_ns,
		.wall_ms = log_wall_ms(),
		.code = code };
	(void)snprintf(event->object, sizeof(event->object), "%s", object);
	(void)snprintf(event->text, sizeof(event->text), "%.*s", (int)sizeof(event->text) - 1,
	    text); /* the log has it whole */
	if (who != NULL) {
		(void)snprintf(event->by, sizeof(event->by), "%s", who->by);
		(void)snprintf(event->from, sizeof(event->from), "%s", who->from);
	}
	(void)plain_text(event->by);
	(void)plain_text(event->from);
	(void)plain_text(event->object);
	(void)plain_text(event->text);
	(void)pthread_mutex_unlock(&events->lock);
}

static void
event_tell(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code,
    const char *object, const struct mt_event_who *who, const char *text)
{
	static const enum log_level levels[CLEAVE_EVENT_LEVEL_NR] = {
		[CLEAVE_EVENT_INFO] = LOG_INFO,
		[CLEAVE_EVENT_WARN] = LOG_WARN,
		[CLEAVE_EVENT_ERROR] = LOG_ERROR,
	};

	assert(object[0] != '\0');
	log_event(levels[event_info(code)->level], event_info(code)->name, object, "%s", text);
	if (events != NULL)
		events_keep(events, now_ns, code, object, who, text);
}

void
mt_event(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code, const char *object,
    const char *format, ...)
{
	char text[LOG_LINE_BYTES_MAX];
	va_list args;

	assert(format != NULL);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	event_tell(events, now_ns, code, object, NULL, text);
}

const char *
mt_event_who_text(const struct mt_event_who *who, char ret_text[MT_EVENT_WHO_TEXT_BYTES])
{
	if (who->by[0] != '\0')
		(void)snprintf(ret_text, MT_EVENT_WHO_TEXT_BYTES, "by=\"%.63s\" from=%.63s",
		    who->by, who->from);
	else
		(void)snprintf(ret_text, MT_EVENT_WHO_TEXT_BYTES, "from=%.63s", who->from);
	return ret_text;
}

void
mt_event_by(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code,
    const char *object, const struct mt_event_who *who, const char *format, ...)
{
	char text[LOG_LINE_BYTES_MAX], end[MT_EVENT_WHO_TEXT_BYTES];
	va_list args;
	size_t used;

	assert(format != NULL);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text) - sizeof(end), format, args);
	va_end(args);
	used = strlen(text);
	if (who != NULL)
		(void)snprintf(text + used, sizeof(text) - used, " %s",
		    mt_event_who_text(who, end));
	event_tell(events, now_ns, code, object, who, text);
}

/* The first event that is kept in @ring behind number @after; ring->count: there is none. */
static uint64_t
ring_find(const struct event_ring *ring, uint64_t after)
{
	uint64_t low = ring->count - num_min(ring->count, MT_EVENTS_MAX), high = ring->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (ring->events[middle % MT_EVENTS_MAX].number > after)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t
mt_events_read(struct mt_events *events, uint64_t after, struct mt_event *ret_events, uint32_t max)
{
	uint64_t next[MT_EVENTS_KINDS];
	uint32_t count = 0;

	assert(events != NULL && max > 0);
	(void)pthread_mutex_lock(&events->lock);
	for (uint32_t i = 0; i < MT_EVENTS_KINDS; i++)
		next[i] = ring_find(&events->rings[i], after);
	while (count < max) {
		const struct mt_event *first = NULL;
		uint32_t kind = 0;

		for (uint32_t i = 0; i < MT_EVENTS_KINDS; i++) {
			const struct event_ring *ring = &events->rings[i];
			const struct mt_event *event = &ring->events[next[i] % MT_EVENTS_MAX];

			if (next[i] == ring->count ||
			    (first != NULL && first->number < event->number))
				continue;
			first = event;
			kind = i;
		}
		if (first == NULL)
			break;
		ret_events[count++] = *first;
		next[kind]++;
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
