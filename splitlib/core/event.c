/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c -- work that somebody may wait for, from its beginning to its completion
 *
 *	FREE --dev_mixed_recv, dev_mixed_send, dev_func--> pending --event_complete--> done --+
 *	  ^                                                                                   |
 *	  '--------- dev_poll, dev_poll_many, or after the handler of dev_event_on ------------'
 *
 * A port has event_count_max of them, made when it is opened. A done event is in one of two lists:
 * events_done, to be polled; events_called, its handler to be run from the event task.
 */
#include "event.h"

#include <errno.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "port.h"

static void
event_on_task(struct loop_task *task, void *arg)
{
	(void)task;
	event_run_handlers(arg);
}

int
event_port_init(struct split_port *port)
{
	uint32_t count = port->options.event_count_max;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(count > 0);
	assert(port->events == NULL);
	port->events = split_calloc(count, sizeof(*port->events));
	if (port->events == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		port->events[i].magic = SPLIT_EVENT_MAGIC;
		port->events[i].port = port;
		list_push_back(&port->events_free, &port->events[i].link);
	}
	loop_task_init(&port->event_task, event_on_task, port);
	return 0;
}

void
event_port_fini(struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	split_free(port->events);
	port->events = NULL;
}

struct dev_event *
event_take(struct split_port *port, enum event_kind kind)
{
	struct loop_link *link = list_pop_front(&port->events_free);
	struct dev_event *event;

	if (link == NULL) {
		errno = ENOBUFS;
		return NULL;
	}
	event = LIST_ENTRY(link, struct dev_event, link);
	assert(event->kind == EVENT_FREE);
	assert(kind != EVENT_FREE);
	event->kind = kind;
	event->is_done = false;
	event->qp = NULL;
	event->fn = NULL;
	event->arg = NULL;
	return event;
}

void
event_release(struct dev_event *event)
{
	assert(event->kind != EVENT_FREE);
	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	list_remove(&event->link);
	event->kind = EVENT_FREE;
	list_push_front(&event->port->events_free, &event->link);
}

static void
event_queue_handler(struct dev_event *event)
{
	struct split_port *port = event->port;

	assert(event->is_done);
	assert(event->fn != NULL);
	list_remove(&event->link);
	list_push_back(&port->events_called, &event->link);
	loop_defer(port->loop, &port->event_task);
}

void
event_complete(struct dev_event *event, int rc, uint32_t bytes)
{
	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(event->kind != EVENT_FREE);
	assert(!event->is_done);
	event->is_done = true;
	event->qp = NULL;
	event->completion = (struct dev_completion){ .event = event, .rc = rc, .bytes = bytes };
	if (event->fn != NULL) {
		event_queue_handler(event);
		return;
	}
	list_remove(&event->link);
	list_push_back(&event->port->events_done, &event->link);
}

void
event_run_handlers(struct split_port *port)
{
	struct loop_link *link;

	while (!port_is_halted(port) && (link = list_pop_front(&port->events_called)) != NULL) {
		struct dev_event *event = LIST_ENTRY(link, struct dev_event, link);
		struct dev_completion completion = event->completion;
		void (*fn)(const struct dev_completion *, void *) = event->fn;
		void *arg = event->arg;

		event_release(event);
		port_call_begin(port);
		fn(&completion, arg);
		port_call_end(port);
	}
	if (!list_is_empty(&port->events_called))
		loop_defer(port->loop, &port->event_task);
}

void
event_call(struct dev_event *event, void (*fn)(const struct dev_completion *completion, void *arg),
    void *arg)
{
	assert(fn != NULL);
	assert(event->fn == NULL);
	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	event->fn = fn;
	event->arg = arg;
	if (event->is_done)
		event_queue_handler(event);
}
