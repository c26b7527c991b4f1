/* SPDX-License-Identifier: Apache-2.0 */
/* event.h -- work that somebody may wait for: a send, a receive, a function, a one-sided piece */
#ifndef CLEAVE_SPLIT_EVENT_H
#define CLEAVE_SPLIT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/engine.h"
#include "cleave/split.h"

struct split_port;
struct split_qp;

#define SPLIT_EVENT_MAGIC 0x544e5645u /* "EVNT" */

enum event_kind { EVENT_FREE, EVENT_SEND, EVENT_RECV, EVENT_FUNC, EVENT_ONE_SIDED };

struct dev_event {
	uint32_t magic;
	enum event_kind kind;
	bool is_done;
	struct split_port *port;
	struct split_qp *qp;   /* SEND, RECV, until done */
	struct loop_link link; /* events_free, qp->posted, events_done or events_called */
	struct dev_completion completion;
	void (*fn)(const struct dev_completion *completion, void *arg);
	void *arg;
	/* RECV. */
	uint8_t *host;
	uint32_t host_bytes;
	dev_ptr device;
	uint64_t device_bytes;
	/* SEND. */
	struct split_send send;
	struct dev_piece pieces[SPLIT_PIECES_MAX];
	/* FUNC. */
	struct engine_job job;
	/* ONE_SIDED; its memory is @device, @device_bytes. */
	struct dev_remote remote;
	uint64_t remote_offset_bytes;
	bool is_write;
	uint64_t issued_bytes; /* in pieces so far */
	uint64_t moved_bytes;  /* by pieces that ended well */
	uint32_t pieces_out;   /* that did not end yet */
	int one_sided_rc;      /* the first that went wrong */
};

/* event_port_init -- options.event_count_max free ones. Returns 0 or -ENOMEM. */
int event_port_init(struct split_port *port);
/* event_port_fini -- free them, in whatever state. */
void event_port_fini(struct split_port *port);
/* event_take -- a free one, pending from now on. NULL with errno ENOBUFS. */
struct dev_event *event_take(struct split_port *port, enum event_kind kind);
/* event_release -- @event was taken in vain, or its completion has been told: it is free. */
void event_release(struct dev_event *event);
/* event_complete -- exactly once: @rc 0 or a negative errno, @bytes moved. A handler runs from a task. */
void event_complete(struct dev_event *event, int rc, uint32_t bytes);
/* event_call -- @fn gets the completion of @event, which has no handler yet; from a task where it is done. */
void event_call(struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg);
/* event_run_handlers -- of all that are done: what the task does. */
void event_run_handlers(struct split_port *port);

#endif /* CLEAVE_SPLIT_EVENT_H */
