/* SPDX-License-Identifier: Apache-2.0 */
/*
 * throttle.c -- requests of volumes that are over their limits, held by a port until their time comes
 *
 *	dispatch --passes its checks--> limits? --within--> charged, done
 *	                                  |   '--over, or behind others of its volume--> held --timer--> dispatch
 *	                                  '--enough are held--> BUSY
 *
 * libcleave keeps a volume's limits itself (vm-client/library/pace.c), and nothing is held of it here. This is for
 * clients that do not: old ones, several readers of one volume, broken ones. A port charges what it does itself; where
 * a client goes to several ports beyond its limit, each is told its share of it a few times a second (limit_share.h), and
 * charges as if the share were the limit.
 *
 * A bucket here is deeper than the client's by MT_THROTTLE_SPARE_NS: what is sent again after an interruption is charged
 * again, and must not make a client wait that kept its limits. Requests that are refused cost nothing.
 *
 * Who waits for what: a volume's requests wait in the order of their arrival, each for its volume's bucket alone. One
 * volume may have an eighth of the room, so those over their limits do not keep others from waiting; nothing waits
 * of a volume that has no limits. A request that is held has not begun: its session does not wait for it, a newer
 * incarnation is let in past it, and then it is not done (I11).
 *
 * A volume's entry stays for as long as it has sessions here or owes anything: who comes anew finds the bucket as it
 * was.
 */
#include "port/throttle.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "catalog/cluster_key.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "session/rates.h"
#include "session/session.h"

#define THROTTLE_VOLUME_HELD_MIN 4u
#define THROTTLE_USE_MIN (LIMITER_SHARE_ALL / 64u) /* of a limit: less is not told */

struct mt_throttle_held {
	struct loop_link link; /* volume->held, or throttle->free */
	struct mt_session *session;
	struct split_msg *msg;
	struct wire_io io;
	uint64_t since_ns;
};

static struct mt_throttle_held *
held_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_throttle_held, link);
}

static struct mt_throttle_volume *
volume_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_throttle_volume, link);
}

static bool
io_is_write(const struct wire_io *io)
{
	return io->opcode == WIRE_WRITE || io->opcode == WIRE_DISCARD ||
	    io->opcode == WIRE_WRITE_ZEROES;
}

/* ---- volumes ---- */

/* Nobody comes from there any more, and it owes nothing. */
static void
throttle_forget_idle(struct mt_throttle *throttle, uint64_t now_ns)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&throttle->volumes, link, next) {
		struct mt_throttle_volume *volume = volume_of(link);

		if (volume->session_count > 0 || !limiter_is_paid(&volume->limiter, now_ns))
			continue;
		assert(volume->held_count == 0 && !list_contains(&volume->wait_link));
		list_remove(link);
		mt_free(volume);
	}
}

static struct mt_throttle_volume *
throttle_find(struct mt_throttle *throttle, uint64_t volume_id)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&throttle->volumes, link, next) {
		if (volume_of(link)->volume_id == volume_id)
			return volume_of(link);
	}
	return NULL;
}

/* The first request of a session: its volume's entry; NULL: no memory. */
static struct mt_throttle_volume *
throttle_join(struct mt_session *session)
{
	struct mt_throttle *throttle = session->port->throttle;
	uint64_t now_ns = loop_now_ns(session->port->loop);
	struct mt_throttle_volume *volume = throttle_find(throttle, session->hello.volume_id);

	assert(session->throttle == NULL);
	if (volume == NULL) {
		throttle_forget_idle(throttle, now_ns);
		volume = mt_calloc(1, sizeof(*volume));
		if (volume == NULL)
			return NULL;
		volume->volume_id = session->hello.volume_id;
		volume->spent_since_ns = now_ns;
		list_init(&volume->held);
		list_push_back(&throttle->volumes, &volume->link);
	}
	limiter_set(&volume->limiter, &session->volume.limits, MT_THROTTLE_SPARE_NS, now_ns);
	memcpy(volume->name, session->volume.name, sizeof(volume->name));
	volume->session_count++;
	session->throttle = volume;
	return volume;
}

/* ---- one limit over all ports ---- */

static bool
throttle_wants(const struct mt_throttle_volume *volume, uint64_t now_ns)
{
	return volume->held_count > 0 ||
	    (volume->held_ns != 0 && now_ns - volume->held_ns < MT_THROTTLE_WANTS_NS);
}

static struct mt_throttle_use
throttle_use(struct mt_throttle_volume *volume, uint64_t now_ns)
{
	uint64_t passed_ns = num_max(now_ns - volume->spent_since_ns, 1);
	const struct mt_throttle_use use = { .volume_id = volume->volume_id,
		.spent = volume->spent_ns * LIMITER_SHARE_ALL / passed_ns,
		.is_wanting = throttle_wants(volume, now_ns) };

	volume->spent_ns = 0;
	volume->spent_since_ns = now_ns;
	return use;
}

uint32_t
mt_throttle_uses(struct mt_port *port, struct mt_throttle_use ret_uses[MT_THROTTLE_USES_MAX])
{
	struct mt_throttle *throttle = port->throttle;
	uint64_t now_ns = loop_now_ns(port->loop);
	struct loop_link *link, *next;
	uint32_t count = 0;

	if (throttle == NULL)
		return 0;
	LIST_FOREACH_SAFE(&throttle->volumes, link, next) {
		struct mt_throttle_use use = throttle_use(volume_of(link), now_ns);
		uint32_t at = count;

		if (!use.is_wanting && use.spent < THROTTLE_USE_MIN)
			continue;
		while (at > 0 && ret_uses[at - 1].spent < use.spent)
			at--;
		if (at == MT_THROTTLE_USES_MAX)
			continue;
		count = (uint32_t)num_min(count + 1, MT_THROTTLE_USES_MAX);
		memmove(&ret_uses[at + 1], &ret_uses[at], (count - at - 1) * sizeof(ret_uses[0]));
		ret_uses[at] = use;
	}
	return count;
}

void
mt_throttle_share(struct mt_port *port, uint64_t volume_id, uint32_t share, bool is_over)
{
	struct mt_throttle_volume *volume =
	    port->throttle == NULL ? NULL : throttle_find(port->throttle, volume_id);
	uint64_t now_ns = loop_now_ns(port->loop);

	assert(share > 0 && share <= LIMITER_SHARE_ALL);
	if (volume == NULL)
		return;
	volume->share = is_over || throttle_wants(volume, now_ns) ? share : LIMITER_SHARE_ALL;
	volume->share_until_ns = now_ns + MT_THROTTLE_SHARE_NS;
}

/* ---- letting go ---- */

static void
throttle_leave(struct mt_throttle *throttle, struct mt_throttle_volume *volume,
    struct mt_throttle_held *held)
{
	assert(volume->held_count > 0 && throttle->held_count > 0);
	list_remove(&held->link);
	list_push_back(&throttle->free, &held->link);
	volume->held_count--;
	throttle->held_count--;
	if (volume->held_count == 0)
		list_remove(&volume->wait_link);
}

/* The first of @volume's goes on; its session may have been closed, or the port be stopping. */
static void
throttle_let_go(struct mt_throttle *throttle, struct mt_throttle_volume *volume)
{
	struct mt_throttle_held held = *held_of(list_first(&volume->held));
	struct mt_port *port = throttle->port;
	uint64_t waited_ns = loop_now_ns(port->loop) - held.since_ns;

	throttle_leave(throttle, volume, held_of(list_first(&volume->held)));
	if (!mt_session_is_live(held.session) || port->sm.state >= MT_PORT_STOPPING) {
		split_msg_release(held.msg);
		return;
	}
	volume->waited_count++;
	volume->waited_ns += waited_ns;
	metric_add(&port->metrics[MT_METRIC_requests_held], 1);
	latency_count(&port->hops.qos_wait, waited_ns);
	mt_rate_add_wait(held.session->rate, waited_ns);
	throttle->fn(held.session, held.msg, &held.io);
}

/* Returns when the first that is left may go. */
static uint64_t
throttle_run_volume(struct mt_throttle *throttle, struct mt_throttle_volume *volume)
{
	struct loop_link *link;

	while ((link = list_first(&volume->held)) != NULL) {
		uint64_t wait_ns = limiter_wait_ns(&volume->limiter,
		    io_is_write(&held_of(link)->io), loop_now_ns(throttle->port->loop));

		if (wait_ns > 0 && mt_session_is_live(held_of(link)->session))
			return wait_ns;
		throttle_let_go(throttle, volume);
	}
	return UINT64_MAX;
}

static void
throttle_start_timer(struct mt_throttle *throttle, uint64_t wait_ns)
{
	struct loop *loop = throttle->port->loop;

	if (wait_ns != UINT64_MAX && throttle->held_count > 0)
		loop_timer_start(loop, &throttle->timer, wait_ns);
}

/* Requests that are let go may close sessions, and those take what is held of them out of any list. */
static void
throttle_run(struct mt_throttle *throttle)
{
	struct loop_link turn, *link;
	uint64_t wait_ns = UINT64_MAX;

	list_init(&turn);
	while ((link = list_pop_front(&throttle->waiting)) != NULL)
		list_push_back(&turn, link);
	while ((link = list_pop_front(&turn)) != NULL) {
		struct mt_throttle_volume *volume =
		    LIST_ENTRY(link, struct mt_throttle_volume, wait_link);

		wait_ns = num_min(wait_ns, throttle_run_volume(throttle, volume));
		if (volume->held_count > 0 && !list_contains(&volume->wait_link))
			list_push_back(&throttle->waiting, &volume->wait_link);
	}
	throttle_start_timer(throttle, wait_ns);
}

static void
throttle_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_throttle *throttle = arg;

	assert(timer == &throttle->timer);
	(void)timer;
	throttle_run(throttle);
}

/* ---- judging ---- */

static enum mt_throttle_verdict
throttle_hold(struct mt_throttle_volume *volume, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io)
{
	struct mt_throttle *throttle = session->port->throttle;
	struct loop_link *link = list_first(&throttle->free);
	uint64_t now_ns = loop_now_ns(session->port->loop);
	struct mt_throttle_held *held;
	bool is_first = volume->held_count == 0;

	if (link == NULL || volume->held_count >= throttle->volume_held_max) {
		volume->refused_count++;
		return MT_THROTTLE_BUSY;
	}
	held = held_of(list_pop_front(&throttle->free));
	held->session = session;
	held->msg = msg;
	held->io = *io;
	held->since_ns = volume->held_ns = now_ns;
	list_push_back(&volume->held, &held->link);
	volume->held_count++;
	throttle->held_count++;
	if (is_first) {
		uint64_t wait_ns = limiter_wait_ns(&volume->limiter, io_is_write(io), now_ns);

		list_push_back(&throttle->waiting, &volume->wait_link);
		/* The timer runs for the first of all volumes: this one may be before it. */
		if (!throttle->timer.is_active || now_ns + wait_ns < throttle->timer.due_ns)
			loop_timer_start(session->port->loop, &throttle->timer, wait_ns);
	}
	return MT_THROTTLE_HELD;
}

enum mt_throttle_verdict
mt_throttle_judge(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    bool was_held)
{
	struct mt_throttle_volume *volume = session->throttle;
	uint64_t now_ns = loop_now_ns(session->port->loop);
	const struct limiter_cost cost = {
		.is_write = io_is_write(io),
		.data_bytes = io->opcode == WIRE_WRITE || io->opcode == WIRE_READ ? io->length_bytes
										  : 0,
	};

	if (volume == NULL)
		volume = throttle_join(session);
	if (volume == NULL)
		return MT_THROTTLE_BUSY;
	if (!was_held && !MUTANT(throttle_ignored) &&
	    (volume->held_count > 0 ||
		limiter_wait_ns(&volume->limiter, cost.is_write, now_ns) > 0))
		return throttle_hold(volume, session, msg, io);
	volume->spent_ns += limiter_take_share(&volume->limiter, &cost,
	    now_ns < volume->share_until_ns ? volume->share : LIMITER_SHARE_ALL, now_ns);
	return MT_THROTTLE_GO;
}

/* ---- what changes ---- */

void
mt_throttle_set(struct mt_port *port, uint64_t volume_id, const struct cleave_limits *limits)
{
	struct mt_throttle_volume *volume = throttle_find(port->throttle, volume_id);
	struct loop_link *link, *next;

	assert(volume_id != 0);
	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);

		if (session->hello.volume_id == volume_id)
			mt_session_set_limits(session, limits);
	}
	if (volume == NULL)
		return;
	limiter_set(&volume->limiter, limits, MT_THROTTLE_SPARE_NS, loop_now_ns(port->loop));
	if (volume->held_count > 0)
		throttle_run(port->throttle);
}

void
mt_throttle_drop(struct mt_session *session)
{
	struct mt_throttle *throttle = session->port->throttle;
	struct mt_throttle_volume *volume = session->throttle;
	struct loop_link *link, *next;

	if (volume == NULL)
		return;
	LIST_FOREACH_SAFE(&volume->held, link, next) {
		struct mt_throttle_held *held = held_of(link);

		if (held->session != session)
			continue;
		split_msg_release(held->msg);
		throttle_leave(throttle, volume, held);
	}
	assert(volume->session_count > 0);
	volume->session_count--;
	session->throttle = NULL;
}

/* ---- telling ---- */

bool
mt_throttle_holds(const struct mt_port *port, uint32_t shard_number)
{
	const struct mt_throttle *throttle = port->throttle;

	if (throttle == NULL || throttle->held_count == 0)
		return false;
	for (const struct loop_link *wait = throttle->waiting.next; wait != &throttle->waiting;
	     wait = wait->next) {
		const struct mt_throttle_volume *volume =
		    LIST_ENTRY(wait, const struct mt_throttle_volume, wait_link);

		for (const struct loop_link *link = volume->held.next; link != &volume->held;
		     link = link->next) {
			const struct wire_io *io =
			    &LIST_ENTRY(link, const struct mt_throttle_held, link)->io;

			if (wire_shard_of(io->segment, io->offset_bytes,
				port->cluster->shard_count) == shard_number)
				return true;
		}
	}
	return false;
}

bool
mt_throttle_is_used(const struct mt_port *port)
{
	return port->throttle != NULL && !list_is_empty(&port->throttle->volumes);
}

uint32_t
mt_throttle_tell(const struct mt_port *port, struct mt_throttle_told ret_told[MT_THROTTLE_TOLD_MAX])
{
	const struct mt_throttle *throttle = port->throttle;
	uint32_t count = 0;

	for (const struct loop_link *link = throttle->volumes.next; link != &throttle->volumes;
	     link = link->next) {
		const struct mt_throttle_volume *volume =
		    LIST_ENTRY(link, const struct mt_throttle_volume, link);
		uint32_t at = count;

		if (volume->waited_count == 0 && volume->held_count == 0 &&
		    volume->refused_count == 0)
			continue;
		while (at > 0 && ret_told[at - 1].waited_ns < volume->waited_ns)
			at--;
		if (at == MT_THROTTLE_TOLD_MAX)
			continue;
		count = (uint32_t)num_min(count + 1, MT_THROTTLE_TOLD_MAX);
		memmove(&ret_told[at + 1], &ret_told[at], (count - at - 1) * sizeof(ret_told[0]));
		ret_told[at] = (struct mt_throttle_told){ .held_count = volume->held_count,
			.waited_count = volume->waited_count,
			.waited_ns = volume->waited_ns,
			.refused_count = volume->refused_count };
		memcpy(ret_told[at].name, volume->name, sizeof(volume->name));
	}
	return count;
}

/* ---- a port's life ---- */

int
mt_throttle_init(struct mt_port *port, mt_throttle_fn fn)
{
	struct mt_throttle *throttle = mt_calloc(1, sizeof(*throttle));

	assert(port->receive_count > 0 && fn != NULL && port->throttle == NULL);
	if (throttle == NULL)
		return -ENOMEM;
	port->throttle = throttle;
	throttle->port = port;
	throttle->fn = fn;
	throttle->held_max = port->receive_count / 4;
	throttle->volume_held_max =
	    (uint32_t)num_max(THROTTLE_VOLUME_HELD_MIN, throttle->held_max / 8);
	list_init(&throttle->free);
	list_init(&throttle->volumes);
	list_init(&throttle->waiting);
	loop_timer_init(&throttle->timer, throttle_on_timer, throttle);
	throttle->entries = mt_calloc(throttle->held_max, sizeof(*throttle->entries));
	if (throttle->entries == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < throttle->held_max; i++)
		list_push_back(&throttle->free, &throttle->entries[i].link);
	return 0;
}

void
mt_throttle_fini(struct mt_port *port)
{
	struct mt_throttle *throttle = port->throttle;
	struct loop_link *link;

	if (throttle == NULL)
		return;
	loop_timer_stop(port->loop, &throttle->timer);
	while ((link = list_pop_front(&throttle->volumes)) != NULL)
		mt_free(volume_of(link));
	mt_free(throttle->entries);
	mt_free(throttle);
	port->throttle = NULL;
}
