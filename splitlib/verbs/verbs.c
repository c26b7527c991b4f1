/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.c -- queue pairs over RDMA: connections by librdmacm, messages by libibverbs
 *
 * A queue pair is two reliable connections side by side, its *lanes*, set up by one exchange of the
 * connection manager. Messages go over the data lane: a send is one work request, a receive is one
 * with two entries, header and payload. All queue pairs with handlers take their receives from the
 * port's pool, which is a shared receive queue; a queue pair without handlers has a receive queue of
 * its own, filled by dev_mixed_recv. Bare credit messages go over the control lane, where each side
 * keeps VERBS_CONTROL_WINDOW receives for the other and tells, in the immediate data, how many it has
 * given back: so a credit message never takes what was promised to a request or a reply, and neither
 * lane ever meets a receiver that is not ready. (With one exception, by intent: a reply for which
 * nobody has called dev_mixed_recv yet waits in the sender's device.)
 *
 *	connector                                             acceptor
 *	ADDRESS, ROUTE
 *	ASKED       -- request: hello, control lane's number --> OFFERED   on_accept
 *	            <-- reply: status, credits, number, hello -- ANSWERED  split_qp_accept
 *	OPEN        -- established ---------------------------->  OPEN
 *
 * Reads and writes of regions go over lanes of their own, one each way, because the protocol ends the
 * connection of one that is refused: verbs_lane.c.
 *
 * Where there is a key, a handshake goes before the hello, over the control lane, and the data lane comes after both:
 * verbs_greet.c. Frames are made in memory of the port's, and one-sided work there is none.
 *
 * Private data of a request is at most 56 bytes, all of it the hello's. Its bytes 6 and 12 to 15, zero
 * in any hello (wire.c), carry the hello's length and the control lane's number.
 *
 * The end. Closing, and any error, puts both lanes into the error state: the device gives back what
 * it has, sends complete (in error), and only then the queue pair is closed (quiesce); receives of the
 * shared queue come back until the lanes are destroyed VERBS_LINGER_NS later. A device that gives
 * nothing back within VERBS_DRAIN_NS has its lanes destroyed, which ends its access, and the sends are
 * taken out of the ring. So every buffer comes back once, and not before the device is through with it.
 *
 * A device that goes away, and comes again: verbs_recovery.c.
 *
 * A peer that is silent: each quarter of keepalive_ns a queue pair that heard nothing posts a write of
 * no bytes, which the peer's device acknowledges or the retries run out.
 */
#include "verbs.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "core/alloc.h"
#include "core/event.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define VERBS_DRAIN_NS NUM_S(1)
#define VERBS_LINGER_NS NUM_MS(50)
#define VERBS_KEEPALIVE_PARTS 4u

static const struct sm_state verbs_table[VERBS_STATE_NR] = {
	[VERBS_ADDRESS] = { "address", SM_TO(VERBS_ROUTE) | SM_TO(VERBS_DEAD), SM_INITIAL },
	[VERBS_ROUTE] = { "route", SM_TO(VERBS_ASKED) | SM_TO(VERBS_DRAINING) | SM_TO(VERBS_DEAD),
	    0 },
	[VERBS_ASKED] = { "asked", SM_TO(VERBS_OPEN) | SM_TO(VERBS_DRAINING) | SM_TO(VERBS_DEAD),
	    0 },
	[VERBS_OFFERED] = { "offered",
	    SM_TO(VERBS_ANSWERED) | SM_TO(VERBS_DRAINING) | SM_TO(VERBS_DEAD), SM_INITIAL },
	[VERBS_ANSWERED] = { "answered",
	    SM_TO(VERBS_OPEN) | SM_TO(VERBS_DRAINING) | SM_TO(VERBS_DEAD), 0 },
	[VERBS_OPEN] = { "open", SM_TO(VERBS_DRAINING) | SM_TO(VERBS_DEAD), 0 },
	[VERBS_DRAINING] = { "draining", SM_TO(VERBS_DEAD), 0 },
	[VERBS_DEAD] = { "dead", 0, SM_FINAL },
};

static struct verbs_qp *
verbs_of(const struct split_qp *qp)
{
	return qp->transport;
}

/* The port's part. */

static void
verbs_on_keepalive(struct loop_timer *timer, void *arg)
{
	struct verbs_port *verbs = arg;
	uint64_t interval_ns = verbs->port->options.keepalive_ns / VERBS_KEEPALIVE_PARTS;
	uint64_t now_ns = loop_now_ns(verbs->port->loop);
	struct loop_link *link, *next;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	LIST_FOREACH_SAFE(&verbs->qps, link, next) {
		struct verbs_qp *vq = LIST_ENTRY(link, struct verbs_qp, link);

		if (verbs_is(vq, VERBS_OPEN) && now_ns - vq->heard_ns >= interval_ns)
			verbs_post_probe(vq);
		else if (verbs_is(vq, VERBS_ANSWERED) &&
		    now_ns - vq->heard_ns >= verbs->port->options.keepalive_ns)
			qp_fail(vq->qp, -ETIMEDOUT, "the peer does not confirm our answer");
	}
	if (!list_is_empty(&verbs->qps))
		loop_timer_start(verbs->port->loop, timer, interval_ns);
}

static int
channel_open(struct verbs_port *verbs)
{
	int flags, rc;

	assert(verbs->channel == NULL);
	verbs->channel = rdma_create_event_channel();
	if (verbs->channel == NULL) {
		rc = errno != 0 ? -errno : -ENODEV;
		transport_reason(verbs->port,
		    "no RDMA connection manager (kernel modules rdma_ucm, ib_uverbs): %s",
		    strerrordesc_np(-rc));
		return rc;
	}
	flags = fcntl(verbs->channel->fd, F_GETFL);
	(void)fcntl(verbs->channel->fd, F_SETFL, flags | O_NONBLOCK); /* a valid descriptor */
	loop_fd_init(&verbs->channel_watcher, verbs->channel->fd, verbs_on_channel_fd, verbs);
	rc = loop_fd_start(verbs->port->loop, &verbs->channel_watcher, LOOP_READABLE);
	if (rc != 0)
		rdma_destroy_event_channel(verbs->channel);
	return rc;
}

/* The port's part, made with its first address. */
int
verbs_port_get(struct split_port *port, struct verbs_port **ret_verbs)
{
	struct verbs_port *verbs = port->verbs;
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (verbs == NULL) {
		verbs = split_calloc(1, sizeof(*verbs));
		if (verbs == NULL)
			return -ENOMEM;
		verbs->magic = VERBS_PORT_MAGIC;
		verbs->port = port;
		list_init(&verbs->qps);
		list_init(&verbs->blocked);
		list_init(&verbs->deliver);
		for (uint32_t i = 0; i < VERBS_HASH; i++)
			list_init(&verbs->hash[i]);
		verbs_device_init(verbs);
		loop_task_init(&verbs->poll_task, verbs_on_poll_task, verbs);
		loop_timer_init(&verbs->keepalive_timer, verbs_on_keepalive, verbs);
		rc = channel_open(verbs);
		if (rc != 0) {
			split_free(verbs);
			return rc;
		}
		port->verbs = verbs;
	}
	*ret_verbs = verbs;
	return 0;
}

static void
verbs_port_turn(struct split_port *port)
{
	if (port->verbs != NULL)
		verbs_srq_fill(port->verbs);
}

void
verbs_fail_all(struct verbs_port *verbs, int rc, const char *reason)
{
	struct loop_link *link, *next;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	assert(rc < 0);
	LIST_FOREACH_SAFE(&verbs->qps, link, next) {
		struct verbs_qp *vq = LIST_ENTRY(link, struct verbs_qp, link);

		if (vq->qp != NULL)
			qp_fail(vq->qp, rc, "%s", reason);
	}
}

/* A queue pair's part. */

static void
vq_destroy(struct verbs_qp *vq)
{
	struct verbs_port *verbs = vq->verbs;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	verbs_lanes_destroy(vq);
	if (vq->qp != NULL)
		vq->qp->transport = NULL;
	(void)rdma_destroy_id(vq->id); /* whatever it says: nothing can be done */
	loop_timer_stop(verbs->port->loop, &vq->timer);
	loop_task_cancel(verbs->port->loop, &vq->admit_task);
	list_remove(&vq->link);
	list_remove(&vq->blocked_link);
	list_remove(&vq->deliver_link);
	sm_move(&vq->sm, VERBS_DEAD);
	vq->magic = 0;
	split_free(vq);
	verbs_device_left(verbs);
}

static bool
vq_is_drained(const struct verbs_qp *vq)
{
	assert(vq->posted_seq - vq->done_seq <= vq->depth);
	return vq->is_overdue || (vq->posted_seq == vq->done_seq && vq->one_sided_count == 0);
}

void
verbs_drain_check(struct verbs_qp *vq)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(verbs_is(vq, VERBS_DRAINING));
	if (vq->qp != NULL && vq_is_drained(vq))
		loop_defer(vq->verbs->port->loop, &vq->qp->close_task);
}

static void
vq_on_timer(struct loop_timer *timer, void *arg)
{
	struct verbs_qp *vq = arg;

	(void)timer;
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	(void)verbs_poll(vq->verbs); /* what came back is not forgotten with its queue pair */
	if (vq->qp == NULL) {
		vq_destroy(vq);
		return;
	}
	vq->is_overdue = true;
	verbs_drain_check(vq);
}

struct verbs_qp *
verbs_qp_create(struct verbs_port *verbs, struct split_qp *qp, enum verbs_state state)
{
	struct verbs_qp *vq = split_calloc(1, sizeof(*vq));

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	assert(qp->transport == NULL);
	if (vq == NULL)
		return NULL;
	vq->magic = VERBS_QP_MAGIC;
	vq->verbs = verbs;
	vq->qp = qp;
	sm_init(&vq->sm, "verbs", verbs_table, (uint32_t)state, qp->sm.id);
	loop_timer_init(&vq->timer, vq_on_timer, vq);
	loop_task_init(&vq->admit_task, verbs_on_admit_task, vq);
	vq->heard_ns = loop_now_ns(verbs->port->loop);
	list_push_back(&verbs->qps, &vq->link);
	if (!verbs->keepalive_timer.is_active)
		loop_timer_start(verbs->port->loop, &verbs->keepalive_timer,
		    verbs->port->options.keepalive_ns / VERBS_KEEPALIVE_PARTS);
	return vq;
}

static bool
verbs_quiesce(struct split_qp *qp)
{
	struct verbs_qp *vq = verbs_of(qp);

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (vq->control.ibv == NULL)
		return true;
	if (!verbs_is(vq, VERBS_DRAINING)) {
		verbs_lanes_fail(vq);
		if (verbs_is(vq, VERBS_OPEN) || verbs_is(vq, VERBS_ANSWERED))
			(void)rdma_disconnect(vq->id); /* the peer may be first, or gone */
		sm_move(&vq->sm, VERBS_DRAINING);
		loop_timer_start(qp->port->loop, &vq->timer, VERBS_DRAIN_NS);
	}
	return vq_is_drained(vq);
}

static void
verbs_close(struct split_qp *qp)
{
	struct verbs_qp *vq = verbs_of(qp);

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->qp == qp);
	/* Lanes whose receives may still be in the device's hands stay for a while, without @qp. */
	if (vq->data.ibv != NULL && vq->is_shared && !vq->is_overdue && !qp->port->is_closing) {
		qp->transport = NULL;
		vq->qp = NULL;
		list_remove(&vq->blocked_link);
		list_remove(&vq->deliver_link);
		loop_timer_start(qp->port->loop, &vq->timer, VERBS_LINGER_NS);
		return;
	}
	vq_destroy(vq);
}

static void
verbs_port_fini(struct split_port *port)
{
	struct verbs_port *verbs = port->verbs;
	struct loop_link *link;

	if (verbs == NULL)
		return;
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	while ((link = list_first(&verbs->qps)) != NULL)
		vq_destroy(LIST_ENTRY(link, struct verbs_qp, link));
	loop_timer_stop(port->loop, &verbs->keepalive_timer);
	loop_timer_stop(port->loop, &verbs->device_timer);
	verbs_device_forget(verbs);
	loop_fd_stop(port->loop, &verbs->channel_watcher);
	rdma_destroy_event_channel(verbs->channel);
	verbs->magic = 0;
	split_free(verbs);
	port->verbs = NULL;
}

static void
verbs_kick_send(struct split_qp *qp)
{
	struct verbs_qp *vq = verbs_of(qp);

	if (vq == NULL)
		return;
	if (verbs_is(vq, VERBS_OFFERED))
		verbs_answer(vq);
	if (verbs_is(vq, VERBS_OPEN) && vq->is_keyed && !vq->is_greeted) {
		verbs_greet(vq);
	} else if (verbs_is(vq, VERBS_OPEN)) {
		verbs_one_sided_post(vq);
		verbs_post_sends(vq);
	}
}

static void
verbs_kick_receive(struct split_qp *qp)
{
	struct verbs_qp *vq = verbs_of(qp);

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (verbs_is(vq, VERBS_OFFERED)) /* auth.c: a place has become free */
		loop_defer(qp->port->loop, &vq->admit_task);
	/* Receives of a queue pair with handlers come from the pool, and are copied. */
	if (!vq->is_shared && vq->is_data_up &&
	    (verbs_is(vq, VERBS_OPEN) || verbs_is(vq, VERBS_ANSWERED)))
		verbs_post_receives(vq);
}

static bool
verbs_may_cancel(struct split_qp *qp, const struct dev_event *event)
{
	const struct verbs_qp *vq = verbs_of(qp);
	struct loop_link *link, *next;
	uint32_t index = 0;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(event->kind == EVENT_RECV);
	/* The device has the oldest ones. */
	LIST_FOREACH_SAFE(&qp->posted, link, next) {
		if (link == &event->link)
			return index >= vq->receives_posted;
		index++;
	}
	return true;
}

const struct transport_ops transport_verbs_ops = {
	.scheme = "verbs",
	.has_names = true,
	.has_lanes = true,
	.is_exclusive = true,
	.listen = verbs_listen,
	.unlisten = verbs_unlisten,
	.connect = verbs_connect,
	.close = verbs_close,
	.kick_send = verbs_kick_send,
	.kick_receive = verbs_kick_receive,
	.quiesce = verbs_quiesce,
	.may_cancel = verbs_may_cancel,
	.kick_one_sided = verbs_kick_one_sided,
	.region_open = verbs_region_open,
	.region_close = verbs_region_close,
	.memory_open = verbs_memory_open,
	.memory_close = verbs_memory_close,
	.memory_copy = verbs_memory_copy,
	.port_turn = verbs_port_turn,
	.port_fini = verbs_port_fini,
};
