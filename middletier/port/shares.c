/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.c -- requests of several volumes that want more of a port than there is: by their minimums and weights
 *
 *	dispatch --limits--> several volumes, one has shares? --no--> done
 *	                       |                    '--yes, but few are under way--> done
 *	                       '--held, by volume --a request has ended: share_queue.c says who is next--> dispatch
 *
 * Where requests wait by themselves is no place to choose: behind a busy processor they lie in sockets, behind busy
 * nodes in batches that are under way, behind both at clients, for credits. So a port makes the place: no more are under
 * way than keep it busy (share_window.c), and the others wait here. There is something to choose from, and what is chosen
 * is not behind all the rest. A port that is not busy has all of them under way.
 *
 * That is done while somebody has asked for it and could notice: within the last SHARES_PRESENT_NS requests of several
 * volumes have come, and one of a volume that has a weight, or has a minimum and is SHARES_OWED_NS behind it. Others
 * count as of SHARE_WEIGHT_DEFAULT then. A port without such a session does not come here at all.
 *
 * Who waits for what: a request waits for those of its kind that are under way to end, and for those that share_queue.c
 * puts before it. Writes that are under way may wait for room, for a node or for a take-over, and keep the window for
 * that long. So where none has ended for SHARES_STALL_NS nobody waits here for SHARES_OPEN_NS, and what is for a shard
 * that does not serve goes there at once.
 *
 * Order: a volume's writes leave in the order in which they came, and none goes past those that are held: no write
 * overtakes one that it overlaps. Requests of the latency class are not held; all of a session are of one class.
 * What is held has not begun: its session does not wait for it, and when that goes it is not done (I11).
 */
#include "port/shares.h"

#include <errno.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/latency.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "session/rates.h"
#include "session/session.h"

#define SHARES_PRESENT_NS NUM_S(1) /* requests come in bursts, behind batches that have ended */
#define SHARES_OWED_NS NUM_MS(25)  /* that a minimum is behind before others wait for it */
#define SHARES_STALL_NS NUM_MS(250)
#define SHARES_OPEN_NS NUM_S(1)

struct mt_share_held {
	struct share_item item; /* in its flow; or its link in shares->free */
	struct mt_session *session;
	struct split_msg *msg;
	struct wire_io io;
	uint64_t since_ns;
};

static struct mt_share_held *
held_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_share_held, item.link);
}

static bool
shares_io_is_write(const struct wire_io *io)
{
	return io->opcode == WIRE_WRITE || io->opcode == WIRE_DISCARD ||
	    io->opcode == WIRE_WRITE_ZEROES;
}

static uint32_t
shares_cost(const struct wire_io *io)
{
	bool has_data = io->opcode == WIRE_WRITE || io->opcode == WIRE_READ;

	return (uint32_t)num_min(limits_ops(has_data ? io->length_bytes : 0), SHARE_COST_MAX);
}

/* ---- volumes ---- */

static struct mt_share_volume *
shares_find(struct mt_shares *shares, uint64_t volume_id)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&shares->volumes, link, next) {
		struct mt_share_volume *volume = LIST_ENTRY(link, struct mt_share_volume, link);

		if (volume->volume_id == volume_id)
			return volume;
	}
	return NULL;
}

/* The first request of a session: its volume's entry; NULL: no memory. */
static struct mt_share_volume *
shares_join(struct mt_session *session)
{
	struct mt_shares *shares = session->port->shares;
	const struct cleave_limits *limits = &session->volume.limits;
	struct mt_share_volume *volume = shares_find(shares, session->hello.volume_id);

	assert(session->share == NULL);
	if (volume == NULL) {
		volume = mt_calloc(1, sizeof(*volume));
		if (volume == NULL)
			return NULL;
		volume->volume_id = session->hello.volume_id;
		mt_share_set(&volume->share, limits->weight, limits->min_iops);
		mt_share_flow_init(&volume->flows[0], &volume->share);
		mt_share_flow_init(&volume->flows[1], &volume->share);
		list_push_back(&shares->volumes, &volume->link);
	}
	volume->session_count++;
	session->share = volume;
	return volume;
}

/* ---- is there a queue? ---- */

/* A weight always wants a choice; a minimum does while it is owed something. */
static bool
shares_has_wish(const struct mt_session *session, uint64_t now_ns)
{
	const struct cleave_limits *limits = &session->volume.limits;

	return limits->weight != 0 ||
	    (limits->min_iops != 0 && session->share->share.due_ns + SHARES_OWED_NS <= now_ns);
}

static void
shares_note(struct mt_shares *shares, const struct mt_session *session, uint64_t now_ns)
{
	if (session->has_shares && shares_has_wish(session, now_ns))
		shares->wished_ns = now_ns;
	if (session->hello.volume_id == shares->last_id)
		return;
	if (shares->last_id != 0)
		shares->other_ns = now_ns;
	shares->last_id = session->hello.volume_id;
}

/* Several volumes are here, and one of them has shares. */
static bool
shares_are_wanted(const struct mt_shares *shares, uint64_t now_ns)
{
	return shares->other_ns != 0 && now_ns - shares->other_ns < SHARES_PRESENT_NS &&
	    now_ns - shares->wished_ns < SHARES_PRESENT_NS;
}

static uint32_t
shares_under_way(const struct mt_shares *shares, bool is_write)
{
	return is_write ? shares->port->write_count : shares->port->flow.read_count;
}

/* May another be under way? */
static bool
shares_have_room(const struct mt_shares *shares, bool is_write, uint64_t now_ns)
{
	const struct mt_share_kind *kind = &shares->kinds[is_write];
	uint32_t count = shares_under_way(shares, is_write);

	return !shares_are_wanted(shares, now_ns) || now_ns < kind->open_until_ns ||
	    count < mt_share_window_max(&kind->window);
}

/* ---- letting go ---- */

/* While something is held, each request that ends has the task look. */
static void
shares_watch(struct mt_shares *shares)
{
	bool is_any = shares->kinds[0].queue.count + shares->kinds[1].queue.count > 0;

	shares->port->flow.waiting = is_any ? &shares->task : NULL;
}

static void
shares_let_go(struct mt_shares *shares, struct mt_share_held *entry, uint64_t now_ns)
{
	struct mt_port *port = shares->port;
	struct mt_share_held held = *entry;

	list_push_back(&shares->free, &entry->item.link);
	if (!mt_session_is_live(held.session) || port->sm.state >= MT_PORT_STOPPING) {
		split_msg_release(held.msg);
		return;
	}
	metric_add(&port->metrics[MT_METRIC_requests_shared], 1);
	latency_count(&port->hops.share_wait, now_ns - held.since_ns);
	mt_rate_add_wait(held.session->rate, now_ns - held.since_ns);
	shares->fn(held.session, held.msg, &held.io);
}

static void
shares_run_kind(struct mt_shares *shares, bool is_write)
{
	struct mt_share_kind *kind = &shares->kinds[is_write];
	uint64_t now_ns = loop_now_ns(shares->port->loop);

	while (kind->queue.count > 0 && shares_have_room(shares, is_write, now_ns)) {
		struct share_flow *flow;
		struct share_item *item = mt_share_pop(&kind->queue, now_ns, &flow);

		shares_let_go(shares, held_of(&item->link), now_ns);
	}
}

static void
shares_on_task(struct loop_task *task, void *arg)
{
	struct mt_shares *shares = arg;

	assert(task == &shares->task);
	(void)task;
	shares_run_kind(shares, false);
	shares_run_kind(shares, true);
	shares_watch(shares);
}

/* ---- ticks ---- */

static struct share_seen
shares_look(struct mt_shares *shares, bool is_write, uint64_t now_ns)
{
	struct mt_port *port = shares->port;

	mt_port_flow_step(port, is_write, now_ns);
	return (struct share_seen){ .now_ns = now_ns,
		.done = port->flow.done[is_write],
		.area_ns = port->flow.area_ns[is_write],
		.under_way = shares_under_way(shares, is_write),
		.held = shares->kinds[is_write].queue.count };
}

static void
shares_start_ticks(struct mt_shares *shares, uint64_t now_ns)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct mt_share_kind *kind = &shares->kinds[i];
		struct share_seen seen = shares_look(shares, i == 1, now_ns);

		kind->seen_done = seen.done;
		kind->seen_ns = now_ns;
		mt_share_window_restart(&kind->window, &seen);
	}
	loop_timer_start(shares->port->loop, &shares->tick_timer, SHARE_TICK_NS);
}

static void
shares_tick_kind(struct mt_shares *shares, bool is_write, uint64_t now_ns)
{
	struct mt_share_kind *kind = &shares->kinds[is_write];
	struct share_seen seen = shares_look(shares, is_write, now_ns);

	if (now_ns < kind->open_until_ns)
		mt_share_window_restart(&kind->window, &seen);
	else
		mt_share_window_tick(&kind->window, &seen);
	if (seen.done != kind->seen_done || kind->queue.count == 0) {
		kind->seen_done = seen.done;
		kind->seen_ns = now_ns;
	} else if (now_ns - kind->seen_ns >= SHARES_STALL_NS) {
		kind->open_until_ns = now_ns + SHARES_OPEN_NS;
	}
}

/* Also for what waits when the last of the other volumes has fallen silent. */
static void
shares_on_tick(struct loop_timer *timer, void *arg)
{
	struct mt_shares *shares = arg;
	uint64_t now_ns = loop_now_ns(shares->port->loop);

	assert(timer == &shares->tick_timer);
	(void)timer;
	shares_tick_kind(shares, false, now_ns);
	shares_tick_kind(shares, true, now_ns);
	if (shares->port->flow.waiting != NULL)
		loop_defer(shares->port->loop, &shares->task);
	if (shares_are_wanted(shares, now_ns) || shares->port->flow.waiting != NULL)
		loop_timer_start(shares->port->loop, &shares->tick_timer, SHARE_TICK_NS);
}

/* ---- judging ---- */

static void
shares_hold(struct mt_shares *shares, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io)
{
	bool is_write = shares_io_is_write(io);
	struct mt_share_kind *kind = &shares->kinds[is_write];
	struct share_flow *flow = &session->share->flows[is_write];
	struct loop_link *link = list_pop_front(&shares->free);
	struct mt_share_held *held;

	assert(link != NULL); /* one for each receive of the pool, and @msg is one of these */
	held = held_of(link);
	held->session = session;
	held->msg = msg;
	held->io = *io;
	held->since_ns = loop_now_ns(shares->port->loop);
	held->item.cost = shares_cost(io);
	if (mt_share_is_short(&kind->queue, flow, held->since_ns,
		mt_share_window_moment_ns(&kind->window)))
		mt_share_window_short(&kind->window,
		    mt_share_is_owed(&session->share->share, held->since_ns));
	mt_share_push(&kind->queue, flow, &held->item);
	shares_watch(shares);
}

bool
mt_shares_judge(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    bool is_ready)
{
	struct mt_shares *shares = session->port->shares;
	bool is_write = shares_io_is_write(io);
	uint64_t now_ns = loop_now_ns(session->port->loop);
	struct mt_share_volume *volume = session->share;
	bool is_first;

	if (volume == NULL)
		volume = shares_join(session);
	if (volume == NULL)
		return true;
	shares_note(shares, session, now_ns);
	if (!shares->tick_timer.is_active && shares_are_wanted(shares, now_ns))
		shares_start_ticks(shares, now_ns);
	is_first = volume->flows[is_write].count == 0;
	if (is_first &&
	    (!is_ready || session->volume.service_class == SERVICE_LATENCY ||
		(shares->kinds[is_write].queue.count == 0 &&
		    shares_have_room(shares, is_write, now_ns)))) {
		mt_share_charge(&volume->share, shares_cost(io), now_ns);
		return true;
	}
	shares_hold(shares, session, msg, io);
	if (shares_have_room(shares, is_write, now_ns))
		loop_defer(session->port->loop, &shares->task);
	return false;
}

/* ---- what changes ---- */

void
mt_shares_set(struct mt_port *port, uint64_t volume_id, const struct cleave_limits *limits)
{
	struct mt_shares *shares = port->shares;
	struct mt_share_volume *volume = shares_find(shares, volume_id);

	assert(volume_id != 0);
	if (volume == NULL)
		return;
	mt_share_set(&volume->share, limits->weight, limits->min_iops);
	for (uint32_t i = 0; i < 2; i++)
		mt_share_flow_renew(&shares->kinds[i].queue, &volume->flows[i]);
}

static void
shares_drop_kind(struct mt_shares *shares, struct mt_session *session, bool is_write)
{
	struct share_flow *flow = &session->share->flows[is_write];
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&flow->items, link, next) {
		struct mt_share_held *held = held_of(link);

		if (held->session != session)
			continue;
		mt_share_remove(&shares->kinds[is_write].queue, flow, &held->item);
		split_msg_release(held->msg);
		list_push_back(&shares->free, &held->item.link);
	}
}

void
mt_shares_drop(struct mt_session *session)
{
	struct mt_shares *shares = session->port->shares;
	struct mt_share_volume *volume = session->share;

	if (volume == NULL)
		return;
	shares_drop_kind(shares, session, false);
	shares_drop_kind(shares, session, true);
	shares_watch(shares);
	session->share = NULL;
	assert(volume->session_count > 0);
	if (--volume->session_count > 0)
		return;
	assert(volume->flows[0].count + volume->flows[1].count == 0);
	list_remove(&volume->link);
	mt_free(volume);
}

/* ---- a port's life ---- */

int
mt_shares_init(struct mt_port *port, mt_shares_fn fn)
{
	struct mt_shares *shares = mt_calloc(1, sizeof(*shares));

	assert(port->receive_count > 0 && fn != NULL && port->shares == NULL);
	if (shares == NULL)
		return -ENOMEM;
	port->shares = shares;
	shares->port = port;
	shares->fn = fn;
	list_init(&shares->free);
	list_init(&shares->volumes);
	mt_share_queue_init(&shares->kinds[0].queue);
	mt_share_queue_init(&shares->kinds[1].queue);
	loop_task_init(&shares->task, shares_on_task, shares);
	loop_timer_init(&shares->tick_timer, shares_on_tick, shares);
	mt_share_window_init(&shares->kinds[0].window);
	mt_share_window_init(&shares->kinds[1].window);
	shares->entries = mt_calloc(port->receive_count, sizeof(*shares->entries));
	if (shares->entries == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < port->receive_count; i++)
		list_push_back(&shares->free, &shares->entries[i].item.link);
	return 0;
}

void
mt_shares_fini(struct mt_port *port)
{
	struct mt_shares *shares = port->shares;
	struct loop_link *link;

	if (shares == NULL)
		return;
	port->flow.waiting = NULL;
	loop_timer_stop(port->loop, &shares->tick_timer);
	loop_task_cancel(port->loop, &shares->task);
	while ((link = list_pop_front(&shares->volumes)) != NULL)
		mt_free(LIST_ENTRY(link, struct mt_share_volume, link));
	mt_free(shares->entries);
	mt_free(shares);
	port->shares = NULL;
}
