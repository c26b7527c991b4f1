/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h -- struct split_port: what the files of the core, and transports, know of a port
 *
 * Transports move bytes and know nothing of credits, events or handlers. A transport tells recv_split.c
 * about headers and finished messages, and takes from send_assemble.c what is to go next; those two ask
 * credit.c, and end in handlers or event.c. Every object belongs to its port's loop thread.
 */
#ifndef CLEAVE_SPLIT_PORT_H
#define CLEAVE_SPLIT_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "auth.h"
#include "cleave/split.h"
#include "credit.h"
#include "device_memory.h"

struct dev_event;
struct errand_desk;
struct transport_ops;
struct verbs_port;

#define SPLIT_PORT_MAGIC 0x54524f50u /* "PORT" */
#define SPLIT_FLUSH_ROUNDS_MAX 8u    /* send, complete, send again in one turn */
#define SPLIT_TRANSPORTS_MAX 4u      /* of one port */

struct split_port {
	uint32_t magic;
	struct split_port_options options; /* defaults filled in */
	struct loop *loop;
	struct arena host, device;
	struct arena strays; /* tcp_receive.c's, from the first queue pair on */
	struct receive_pool pool;
	struct port_credits credits;
	struct loop_link qps;              /* oldest first */
	uint32_t qp_count, accepted_count; /* the surplus ones are in neither */
	uint32_t qp_room;         /* qp_count_max, or less: what the port's device has room for */
	uint32_t surplus_count;   /* beyond the room: to be told that there is none */
	struct loop_link guests;  /* QPs that came in and are not kept: longest silent first */
	struct loop_link lodgers; /* kept, but their places: the least used first */
	struct split_qp
	    *lodger_leaving; /* was cut, and its place is free soon; NULL: there is none */
	struct loop_timer guest_timer; /* some owe receives */
	uint32_t qp_id_next;
	struct loop_link
	    auth_waiting; /* QPs for which the handshakes under way are too many, oldest first */
	struct loop_timer auth_timer;  /* while some wait */
	uint32_t auth_count;           /* handshakes with who came in, under way */
	uint32_t auth_hosts[AUTH_MAX]; /* their peers' hosts, in no order */
	struct loop_link listeners;
	struct loop_link send_due; /* QPs with something to put on the wire */
	struct loop_turn_end turn_end;
	uint64_t turn_began_ns;     /* tcp/'s: this turn's first receive; 0: it had none yet */
	struct loop_task wake_task; /* makes sure that a turn, and so its end, comes */
	struct loop_link orphans;   /* replies whose queue pair is gone: handlers to call */
	struct loop_task orphan_task;
	struct dev_event *events;
	struct loop_link events_free;
	struct loop_link events_done;   /* completed, to be polled or harvested */
	struct loop_link events_called; /* completed, their handlers are to be called */
	struct loop_task event_task;
	uint32_t events_running_count; /* in an engine's hands */
	struct loop_link memories;     /* struct dev_memory */
	uint32_t memory_count;
	struct dev_region **regions; /* SPLIT_REGIONS_MAX, by index; NULL: none so far */
	struct split_qp *awaited_qp; /* dev_wait_ready's */
	int awaited_rc;
	uint32_t handler_depth; /* handlers of this port on the stack */
	bool is_closing;        /* split_port_close waits for nothing */
	/* The transports that its addresses may name, and that of its addresses so far. */
	const struct transport_ops *transports[SPLIT_TRANSPORTS_MAX];
	uint32_t transport_count;
	const struct transport_ops *transport;
	struct errand_desk *desk; /* for names that are looked up; NULL until the first */
	struct verbs_port *verbs; /* verbs/verbs.h; NULL until the first verbs:// address */
	char reason[SPLIT_REASON_BYTES_MAX]; /* split_port_reason */
	struct loop_link sim_link;           /* sim/: in its host's ports */
	struct split_counters counters;
};

/* Round every call of a user's handler. */
static inline void
port_call_begin(struct split_port *port)
{
	port->handler_depth++;
}

static inline void
port_call_end(struct split_port *port)
{
	port->handler_depth--;
}

/* The handler just called killed or paused the simulated process: go no further. */
static inline bool
port_is_halted(const struct split_port *port)
{
	return port->loop->is_halted;
}

/* port_wake -- make sure that the turn's end comes soon. */
static inline void
port_wake(struct split_port *port)
{
	loop_defer(port->loop, &port->wake_task);
}

/*
 * port_create -- open_roce_instance (cleave/split.h), with addresses that may name one of @transports
 *
 * @transports: @transport_count < SPLIT_TRANSPORTS_MAX static ones; a simulated machine (options->sim_host) adds its
 * own. Returns the port; NULL with errno: ENOMEM; EINVAL an option is out of range, or the pool does not fit.
 */
struct split_port *port_create(const struct split_port_options *options,
    const struct transport_ops *const *transports, uint32_t transport_count);
/* port_abandon -- free everything of a simulated process that was killed; calls nothing back. */
void port_abandon(struct split_port *port);

#endif /* CLEAVE_SPLIT_PORT_H */
