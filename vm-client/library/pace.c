/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.c -- a volume's limits, kept by the only session that writes it, and so exactly
 *
 *	submitted --> split_ios, split_reads --limits?--> message --> gateway
 *	                        ^                 |                      |
 *	                        '---- timer <-----'                      '-- answer with another tag --> "volume.limits"
 *
 * What is over the limits waits in the volume's queue, where a request has no deadline yet: volume.c asks pace_lets
 * before it makes a message, and each message that is made is charged. One that asks for more of its request (a status
 * that goes on, holes of the next port) is charged as another one, and waits in its own timer. What is sent again after
 * an error is not charged again here; gateways, which do, have room for that.
 *
 * Limits come with the answer that opened the volume. Later ones are learnt by their tag, a number in each answer of a
 * gateway: where it is another than ours a gateway is asked for the limits, one volume of a client at a time. While the
 * next request is more than a second away no answer may come that has a tag, so they are asked for each second. The
 * call is the client's: a volume that is closed does not wait for it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "internal.h"
#include "volume_info.h"

#define PACE_ASK_NS NUM_MS(500) /* between two questions for one volume */
#define PACE_LOOK_NS NUM_S(1)   /* a wait that is longer: the limits may have changed meanwhile */
#define PACE_TICK_NS                                                                               \
	NUM_MS(1) /* requests go in groups: a timer a request would cost more than they do */

static void pace_ask(struct cleave_volume *volume);

/* Tests have a client that keeps no limits. */
static bool
pace_is_off(void)
{
#ifdef CLEAVE_TEST_BUILD
	const char *text = getenv("CLEAVE_PACE");

	if (text != NULL && strcmp(text, "off") == 0)
		return true;
#endif
	return MUTANT(pace_ignored);
}

/* ---- waiting ---- */

/* How long requests of a kind wait that there are; UINT64_MAX: none of them waits. */
static uint64_t
pace_queue_wait_ns(const struct cleave_volume *volume, bool is_write)
{
	uint64_t wait_ns;

	if (is_write ? list_is_empty(&volume->split_ios) || volume->asker != NULL
		     : list_is_empty(&volume->split_reads))
		return UINT64_MAX;
	wait_ns = pace_wait_ns(volume, is_write);
	return wait_ns == 0 ? UINT64_MAX : wait_ns;
}

uint64_t
pace_wait_ns(const struct cleave_volume *volume, bool is_write)
{
	if (volume->pace.tag == 0 || volume->pace.is_off)
		return 0;
	return limiter_wait_ns(&volume->pace.limiter, is_write, loop_now_ns(volume->client->loop));
}

void
pace_take(struct cleave_volume *volume, const struct message *message)
{
	const struct limiter_cost cost = {
		.is_write = message->is_write && !message->is_holes,
		.data_bytes = message->io->op == CLEAVE_READ || message->io->op == CLEAVE_WRITE
		    ? message->length_bytes
		    : 0,
	};

	if (volume->pace.tag != 0)
		limiter_take(&volume->pace.limiter, &cost, loop_now_ns(volume->client->loop));
}

void
pace_route(struct message *message)
{
	struct cleave_volume *volume = message->volume;
	uint64_t wait_ns = pace_wait_ns(volume, false);

	assert(!message->is_sending && !message->is_paced);
	pace_take(volume, message);
	if (wait_ns == 0) {
		message_route(message);
		return;
	}
	message->is_paced = true;
	sm_move(&message->sm, MESSAGE_DELAYED);
	list_push_back(&volume->delayed, &message->queue_link);
	loop_timer_start(message->client->loop, &message->timer, wait_ns);
}

void
pace_resume(struct message *message)
{
	if (!message->is_paced)
		return;
	message->is_paced = false;
	message->begun_ns = loop_now_ns(message->client->loop);
	volume_on_progress(message->volume, message->io);
}

static void
pace_end_wait(struct cleave_volume *volume)
{
	struct pace *pace = &volume->pace;
	uint64_t now_ns = loop_now_ns(volume->client->loop);

	if (!pace->is_waiting)
		return;
	pace->is_waiting = false;
	CLIENT_STAT(volume->client, limit_wait_ns, now_ns - pace->since_ns);
}

void
pace_watch(struct cleave_volume *volume)
{
	struct pace *pace = &volume->pace;
	struct loop *loop = volume->client->loop;
	uint64_t wait_ns =
	    num_min(pace_queue_wait_ns(volume, true), pace_queue_wait_ns(volume, false));

	if (wait_ns == UINT64_MAX || !volume_is_live(volume)) {
		pace_end_wait(volume);
		loop_timer_stop(loop, &pace->timer);
		return;
	}
	if (!pace->is_waiting) {
		pace->is_waiting = true;
		pace->since_ns = loop_now_ns(loop);
		CLIENT_STAT(volume->client, limit_waits, 1);
	}
	pace->is_long = wait_ns > PACE_LOOK_NS;
	if (!pace->timer.is_active)
		loop_timer_start(loop, &pace->timer,
		    num_min(num_max(wait_ns, PACE_TICK_NS), PACE_LOOK_NS));
}

static void
pace_on_timer(struct loop_timer *timer, void *arg)
{
	struct cleave_volume *volume = arg;
	struct pace *pace = &volume->pace;

	assert(timer == &pace->timer);
	(void)timer;
	/* Not silence, but our own doing: what waits has its whole time from now on. */
	volume->progress_ns = loop_now_ns(volume->client->loop);
	pace_end_wait(volume);
	if (pace->is_long && volume_is_live(volume))
		pace_ask(volume);
	volume_wake(volume);
}

bool
pace_holds(const struct cleave_io *io)
{
	const struct cleave_volume *volume = io->volume;
	const struct loop_link *link;

	if (io->message_count == 0)
		return volume->pace.is_waiting && list_contains(&io->split_link);
	for (link = volume->delayed.next; link != &volume->delayed; link = link->next) {
		const struct message *message = LIST_ENTRY(link, const struct message, queue_link);

		if (message->io == io && message->is_paced)
			return true;
	}
	return false;
}

/* ---- other limits ---- */

void
pace_set(struct cleave_volume *volume, const struct cleave_limits *limits)
{
	struct pace *pace = &volume->pace;
	struct loop *loop = volume->client->loop;
	struct loop_link *link, *next;

	volume->info.limits = *limits;
	pace->tag = limits_tag(limits);
	limiter_set(&pace->limiter, limits, 0, loop_now_ns(loop));
	loop_timer_stop(loop, &pace->timer);
	LIST_FOREACH_SAFE(&volume->delayed, link, next) {
		struct message *message = LIST_ENTRY(link, struct message, queue_link);

		if (message->is_paced)
			loop_timer_start(loop, &message->timer, 0);
	}
	volume_wake(volume);
}

static void
pace_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_client *client = arg;
	struct cleave_volume *volume = client->limits_of;
	struct cleave_limits limits = { 0 };
	struct reader reader = { 0 };
	struct loop_link *link, *next;
	json_t *root;

	(void)error; /* the next answer with another tag asks again */
	assert(call == &client->limits_call && client->is_limits_call_out);
	(void)call;
	client->is_limits_call_out = false;
	client->limits_of = NULL;
	root = rc == 0 && volume != NULL ? reader_load(&reader, reply, strlen(reply)) : NULL;
	if (root != NULL) {
		volume_limits_read(&reader, root, &limits);
		if (reader_rc(&reader) == 0 && volume_is_live(volume))
			pace_set(volume, &limits);
		json_decref(root);
	}
	LIST_FOREACH_SAFE(&client->volumes, link, next) {
		volume = LIST_ENTRY(link, struct cleave_volume, link);
		if (volume->pace.is_stale && volume_is_live(volume)) {
			pace_ask(volume);
			return;
		}
	}
}

static void
pace_ask(struct cleave_volume *volume)
{
	struct cleave_client *client = volume->client;
	char text[64];

	volume->pace.is_stale = client->is_limits_call_out;
	if (client->is_limits_call_out)
		return;
	volume->pace.asked_ns = loop_now_ns(client->loop);
	(void)snprintf(text, sizeof(text), "{\"op\":\"volume.limits\",\"id\":%llu}",
	    (unsigned long long)volume->info.id);
	client->limits_call = (struct cleave_call){ .fn = pace_on_answer, .arg = client };
	client->is_limits_call_out = cleave_control(client, &client->limits_call, text) == 0;
	client->limits_of = client->is_limits_call_out ? volume : NULL;
}

void
pace_on_tag(struct cleave_volume *volume, uint32_t tag)
{
	struct pace *pace = &volume->pace;

	if (tag == pace->tag || pace->is_stale || volume->client->limits_of == volume ||
	    !volume_is_live(volume))
		return;
	if (pace->asked_ns != 0 && loop_now_ns(volume->client->loop) - pace->asked_ns < PACE_ASK_NS)
		return;
	pace_ask(volume);
}

/* ---- a volume's life ---- */

void
pace_init(struct cleave_volume *volume)
{
	loop_timer_init(&volume->pace.timer, pace_on_timer, volume);
	volume->pace.is_off = pace_is_off();
}

void
pace_fini(struct cleave_volume *volume)
{
	loop_timer_stop(volume->client->loop, &volume->pace.timer);
	if (volume->client->limits_of == volume)
		volume->client->limits_of = NULL; /* the answer is nobody's any more */
}
