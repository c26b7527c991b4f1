/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_qp_history.c -- random histories of a few ports, and what must hold in all of them
 *
 * Three simulated processes connect, send, hold, answer, cancel and close at random, while links are
 * cut, healed and reset. Always: each send completes once, and a reply answers a request of its own
 * queue pair. In the end, with the links healed: every request on a queue pair that lived was
 * answered, in order where answers were given in order, and every receive is back in its pool.
 *
 * CLEAVE_SEED=n runs that history alone; its steps are the same each time.
 */
#include <stdlib.h>

#include "base/list.h"
#include "splitlib/core/alloc.h"
#include "unit/split_fixture.h"

#define HOSTS 3u
#define PAIRS_MAX 24u
#define SENDS_MAX 3000u
#define STEPS 1500u
#define SEEDS 60u

/* An end of a queue pair; both ends of a connection have one. */
struct end {
	struct split_qp *qp;
	uint32_t host_index;
	uint32_t asked_count, answered_count; /* requests sent here, replies that came */
	uint64_t next_reply_id;               /* replies come in the order of the requests */
	bool was_closed;
};

struct history_send {
	struct test_send request;
	struct end *end;
	bool is_pending;
};

struct history {
	struct sim_world *world;
	struct sim_net *net;
	struct loop *loops[HOSTS];
	struct sim_host *hosts[HOSTS];
	struct split_port *ports[HOSTS];
	char addresses[HOSTS][SPLIT_ADDRESS_BYTES_MAX];
	struct end ends[2 * PAIRS_MAX];
	uint32_t end_count;
	struct history_send sends[SENDS_MAX];
	uint32_t send_count, completed_count, cancelled_count;
	uint32_t asleep_count; /* seen after a step: queue pairs that are not counted */
	struct split_msg *held[HOSTS * 256];
	uint32_t held_count;
	bool is_draining;
};

static struct history *h;

TestSuite(qp_history, .timeout = 110);

static uint64_t
pick(uint64_t below)
{
	return sim_world_random_below(h->world, below);
}

static void
on_reply(struct end *end, const struct split_msg *msg)
{
	cr_assert_eq(msg->header->request_id, end->next_reply_id, "a reply out of order");
	end->next_reply_id++;
	end->answered_count++;
	cr_assert_leq(end->answered_count, end->asked_count);
}

static void
on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct end *end = arg;

	cr_assert_eq(end->qp, qp);
	cr_assert(!end->was_closed);
	for (uint32_t i = 0; i < count; i++) {
		if ((msgs[i]->header->opcode & WIRE_REPLY) != 0) {
			on_reply(end, msgs[i]);
			split_msg_release(msgs[i]);
		} else {
			h->held[h->held_count++] = msgs[i];
		}
	}
}

static void
on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct end *end = arg;

	cr_assert_eq(end->qp, qp);
	cr_assert(!end->was_closed);
	cr_assert_neq(rc, -EPROTO, "%s", reason);
	end->was_closed = true;
	end->qp = NULL;
	for (uint32_t i = 0; i < h->send_count; i++)
		cr_assert(!(h->sends[i].end == end && h->sends[i].is_pending));
}

static const struct split_qp_ops ops = { .on_messages = on_messages, .on_closed = on_closed };

static struct end *
end_new(uint32_t host_index)
{
	struct end *end = &h->ends[h->end_count++];

	end->host_index = host_index;
	return end;
}

static void
on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	uint32_t host_index = (uint32_t)(uintptr_t)arg;
	struct end *end;

	(void)hello;
	(void)hello_bytes;
	if (h->is_draining || pick(10) == 0) {
		split_qp_reject(qp, -EBUSY);
		return;
	}
	end = end_new(host_index);
	end->qp = qp;
	split_qp_accept(qp, &ops, end, NULL, 0);
}

static void
on_sent(struct split_send *send, int rc, void *arg)
{
	struct history_send *self = arg;

	(void)send;
	cr_assert(self->is_pending);
	cr_assert(rc == 0 || rc == -ECANCELED || rc == -ECONNRESET);
	self->is_pending = false;
	h->completed_count++;
}

static void
do_connect(void)
{
	uint32_t from = (uint32_t)pick(HOSTS), to = (uint32_t)pick(HOSTS);
	struct split_connect_options options = { .address = h->addresses[to], .ops = &ops };
	struct end *end;

	if (from == to || h->end_count + 2 > NUM_COUNT(h->ends) / 2)
		return;
	end = end_new(from);
	options.arg = end;
	end->qp = connect_qp(h->ports[from], &options);
	cr_assert_not_null(end->qp);
}

static struct end *
end_pick(void)
{
	struct end *end = &h->ends[pick(num_max(h->end_count, 1))];

	return end->qp != NULL && split_qp_state(end->qp) == SPLIT_QP_READY ? end : NULL;
}

static void
do_send(void)
{
	struct end *end = end_pick();
	struct history_send *self = &h->sends[h->send_count];

	if (end == NULL || h->send_count == SENDS_MAX)
		return;
	test_send_init(&self->request, NULL, WIRE_ECHO, end->asked_count, DEV_PTR_NULL, 0);
	self->request.send.fn = on_sent;
	self->request.send.arg = self;
	self->end = end;
	if (split_send(end->qp, &self->request.send) != 0)
		return;
	self->is_pending = true;
	end->asked_count++;
	h->send_count++;
}

/* Only the newest of its queue pair: ids stay dense. */
static void
do_cancel(void)
{
	struct history_send *self = &h->sends[pick(num_max(h->send_count, 1))];
	struct end *end = self->end;

	if (!self->is_pending || end->qp == NULL ||
	    self->request.header.request_id + 1 != end->asked_count)
		return;
	if (split_send_cancel(end->qp, &self->request.send) == 0)
		return;
	self->is_pending = false;
	end->asked_count--;
	h->cancelled_count++;
}

static void
do_answer(void)
{
	if (h->held_count == 0)
		return;
	side_answer(h->held[0]);
	h->held_count--;
	memmove(h->held, h->held + 1, h->held_count * sizeof(h->held[0]));
}

static void
do_close(void)
{
	struct end *end = end_pick();

	if (end != NULL)
		split_qp_close(end->qp);
}

static void
do_fault(void)
{
	struct sim_host *a = h->hosts[pick(HOSTS)], *b = h->hosts[pick(HOSTS)];

	if (a == b)
		return;
	switch (pick(4)) {
	case 0:
		sim_net_cut(a, b);
		break;
	case 1:
		sim_net_heal(a, b);
		break;
	case 2:
		sim_net_join(a, b);
		break;
	default:
		(void)sim_net_reset(a, b);
		break;
	}
}

/* Mostly no time at all; now and then long enough for credits to be recalled, and to be taken back. */
static uint64_t
pause_ns(void)
{
	uint64_t which = pick(100);

	if (which == 0)
		return NUM_MS(900 + pick(200));
	return pick(which <= 5 ? NUM_MS(3) : NUM_US(40));
}

static void
step(void)
{
	uint64_t what = pick(1000);

	if (what < 30)
		do_connect();
	else if (what < 600)
		do_send();
	else if (what < 640)
		do_cancel();
	else if (what < 985)
		do_answer();
	else if (what < 990)
		do_close();
	else if (what < 995)
		do_fault();
	else
		sim_loop_pause(h->loops[pick(HOSTS)], NUM_US(pick(5000)));
	(void)sim_world_run(h->world, NULL, NULL, sim_world_now_ns(h->world) + pause_ns());
	for (uint32_t i = 0; i < HOSTS; i++) {
		const struct port_credits *credits = &h->ports[i]->credits;

		promises_check(h->ports[i]);
		h->asleep_count += credits->granting_qp_count - credits->awake_count;
	}
}

static void
history_open(uint64_t seed)
{
	static const uint32_t pools[] = { 2, 3, 8, 64 };

	h = calloc(1, sizeof(*h));
	cr_assert_not_null(h);
	h->world = sim_world_create(seed);
	h->net = sim_net_create(h->world);
	sim_world_set_shuffle(h->world, pick(2) == 0);
	for (uint32_t i = 0; i < HOSTS; i++) {
		struct split_port_options options = { .receive_count = pools[pick(4)],
			.receive_payload_bytes = 4096,
			.qp_credits_max = (uint32_t)(1 + pick(16)),
			.device_bytes = NUM_MIB(1) };
		char name[8], address[32];

		(void)snprintf(name, sizeof(name), "h%u", i);
		(void)snprintf(address, sizeof(address), "sim://h%u:0", i);
		h->loops[i] = sim_loop_create(h->world, name);
		h->hosts[i] = sim_host_create(h->net, name);
		options.loop = h->loops[i];
		options.sim_host = h->hosts[i];
		h->ports[i] = open_roce_instance(&options);
		cr_assert_not_null(h->ports[i]);
		cr_assert_eq(split_listen(h->ports[i], address, on_accept, (void *)(uintptr_t)i,
				 h->addresses[i]),
		    0);
	}
}

/* Everything is answered until nothing is left to answer. */
static void
history_drain(void)
{
	h->is_draining = true;
	sim_net_heal_all(h->net);
	for (uint32_t quiet = 0; quiet < 50; quiet++) {
		if (h->held_count > 0)
			quiet = 0;
		while (h->held_count > 0)
			do_answer();
		(void)sim_world_run(h->world, NULL, NULL, sim_world_now_ns(h->world) + NUM_MS(50));
	}
}

static void
history_check(uint64_t seed)
{
	for (uint32_t i = 0; i < h->end_count; i++) {
		const struct end *end = &h->ends[i];

		if (!end->was_closed)
			cr_assert_eq(end->answered_count, end->asked_count,
			    "seed %u: end %u asked %u, was answered %u", (unsigned)seed, i,
			    end->asked_count, end->answered_count);
	}
	cr_assert_eq(h->completed_count + h->cancelled_count, h->send_count);
	for (uint32_t i = 0; i < HOSTS; i++) {
		const struct split_port *port = h->ports[i];

		cr_assert_eq(split_port_receives_free(port), port->pool.count);
		cr_assert_eq(port->credits.reserved_count, 0);
		cr_assert_eq(port->credits.held_requests_count, 0);
		cr_assert_eq(port->credits.held_replies_count, 0);
	}
}

static uint32_t
history_run(uint64_t seed, uint32_t *asleep_count)
{
	uint32_t send_count;

	history_open(seed);
	for (uint32_t i = 0; i < STEPS; i++)
		step();
	history_drain();
	history_check(seed);
	send_count = h->send_count;
	*asleep_count += h->asleep_count;
	for (uint32_t i = 0; i < HOSTS; i++)
		split_port_close(h->ports[i]);
	for (uint32_t i = 0; i < h->end_count; i++)
		cr_assert(h->ends[i].was_closed);
	sim_net_destroy(h->net);
	sim_world_destroy(h->world);
	free(h);
	return send_count;
}

Test(qp_history, all_that_is_asked_is_answered)
{
	const char *seed = getenv("CLEAVE_SEED");
	uint32_t live_count = split_alloc_live_count(), send_count = 0, asleep_count = 0;

	if (seed != NULL) {
		(void)history_run(strtoull(seed, NULL, 0), &asleep_count);
		return;
	}
	for (uint64_t i = 1; i <= SEEDS; i++)
		send_count += history_run(i, &asleep_count);
	cr_assert_gt(send_count, SEEDS * 100);
	cr_assert_gt(asleep_count, SEEDS * 10);
	cr_assert_eq(split_alloc_live_count(), live_count);
}
