/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_address.c -- each port's address is asked, by that port, who answers there
 *
 *	start --> asked: another gateway? --yes--> the log says so; again in a second --.
 *	                   ^   | no, says somebody; or three questions in a row are     |
 *	                   |   v silent: the first may be lost, or its answer late      |
 *	                   |  mt_member_start: it gets a lease, and takes shards        |
 *	                   |   | ten seconds; one, while something is wrong             |
 *	                   '---+--------------------------------------------------------'
 *
 * Clients know a port by its address alone. With the address of another gateway they would go to and fro: that one
 * sends them to the owner of the shard, which is said to be where they are. So such a gateway takes no shards.
 *
 * An address where nobody answers is none to stay away for: many a network leads no host back to itself. Health warns of
 * it, for it may as well be a wrong one. Where the operator says that this is to be expected (--advertise-outside), it
 * warns only of an address that has answered before. A gateway of an older release does not tell who it is, and is taken
 * for us; one that has no place left (-EBUSY) says nothing of who it is, and is not silent.
 *
 * The question names who asks: another gateway that gets it knows whose address leads to it, and tells that as well,
 * for who is kept out is in nobody's list of gateways.
 */
#include "cluster/own_address.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "common/alloc.h"
#include "common/port.h"

#define OWN_ANSWER_NS NUM_MS(750)
#define OWN_WRONG_NS NUM_S(1)    /* between two questions while something is wrong */
#define OWN_RIGHT_NS NUM_S(10)   /* and while nothing is */
#define OWN_AGAIN_NS NUM_MS(100) /* and at the start, until somebody has answered, */
#define OWN_ASKED_MIN                                                                              \
	3u /* or so many were silent: a gateway under load may not answer in OWN_ANSWER_NS */
#define OWN_LED_NS NUM_S(5) /* who has not asked again meanwhile has ended, or was mended */

/* ---- judging ---- */

static uint32_t
own_count(const struct mt_own_address *own)
{
	assert(own->gateway->port_count <= MT_PORTS_MAX);
	return own->gateway->port_count;
}

static bool
own_has_other(const struct mt_own_address *own)
{
	for (uint32_t i = 0; i < own_count(own); i++) {
		if (own->ports[i].other_id != 0)
			return true;
	}
	return false;
}

/* Nothing is wrong, or nobody answers, and that has been told: many a network leads no host back to itself. */
static bool
own_is_settled(const struct mt_own_address *own)
{
	for (uint32_t i = 0; i < own_count(own); i++) {
		const struct mt_own_port *port = &own->ports[i];

		if (port->other_id != 0 ||
		    (port->silent_count > 0 && port->silent_count < MT_OWN_SILENT_MAX))
			return false;
	}
	return true;
}

/* A port of which nobody has said yet whose address it tells, and that was not asked often enough. */
static bool
own_is_open(const struct mt_own_address *own)
{
	for (uint32_t i = 0; i < own_count(own); i++) {
		if (own->gateway->ports[i].address[0] != '\0' && !own->ports[i].has_answered &&
		    own->ports[i].silent_count < OWN_ASKED_MIN)
			return true;
	}
	return false;
}

static void
own_let_in(struct mt_own_address *own)
{
	struct mt_gateway *gateway = own->gateway;
	int rc = mt_member_start(&gateway->member);

	assert(own->is_kept_out);
	own->is_kept_out = false;
	if (rc != 0)
		mt_gateway_fail(gateway, rc, "membership: %s", strerror(-rc));
}

/* All have answered, or nobody has in time. */
static void
own_judge(struct mt_own_address *own)
{
	uint64_t wait_ns = own_is_settled(own) ? OWN_RIGHT_NS : OWN_WRONG_NS;
	bool is_open = own->is_kept_out && own_is_open(own) && !MUTANT(address_asked_once);

	assert(own->out_count == 0);
	loop_timer_start(own->gateway->options.loop, &own->timer, is_open ? OWN_AGAIN_NS : wait_ns);
	if (own->is_kept_out && !is_open && (!own_has_other(own) || MUTANT(address_ignored)) &&
	    own->gateway->sm.state == MT_GATEWAY_TAKING)
		own_let_in(own);
}

static void
own_tell_other(const struct mt_own_port *port)
{
	const struct mt_own_address *own = port->own;
	uint32_t index = (uint32_t)(port - own->ports);

	assert(port->other_id != 0);
	log_error("gateway: port %" PRIu32
		  " tells clients that it is at %s, where gateway %016" PRIx64
		  " answers: %s. Give each port of each gateway an advertise= that leads to it "
		  "(--port tcp://HOST:PORT,advertise=HOST:PORT), and start that gateway again",
	    index, own->gateway->ports[index].address, port->other_id,
	    own->is_kept_out ? "this gateway takes no shards"
			     : "clients do not find the shards of this one");
}

/* From the start on nobody has answered, which the operator expects. */
static bool
own_is_expected(const struct mt_own_port *port)
{
	return port->own->gateway->options.is_address_outside && !port->has_answered;
}

static void
own_tell_silent(const struct mt_own_port *port)
{
	uint32_t index = (uint32_t)(port - port->own->ports);

	assert(port->silent_count > 0);
	log_at(own_is_expected(port) ? LOG_INFO : LOG_WARN,
	    "gateway: port %" PRIu32
	    " tells clients that it is at %s, where nobody answers this gateway (%s): it goes on. Do "
	    "clients reach it there? If not, give the port another advertise=",
	    index, port->own->gateway->ports[index].address, log_errno(port->rc));
}

/* ---- asking ---- */

/* A gateway that is full answers, and does not say who it is. */
static bool
own_is_there(const struct mt_own_port *port)
{
	return port->call.is_answered || port->call.rc == -EBUSY;
}

/* The log has what is new. */
static void
own_take(struct mt_own_port *port)
{
	const struct mt_own_address *own = port->own;
	uint64_t before_id = port->other_id, id = mt_peer_told_id(&port->call);
	uint32_t before_silent = port->silent_count;
	bool was_right = port->other_id == 0 && port->silent_count == 0;

	if (!port->call.is_answered && (port->call.rc == -ENOMEM || port->call.rc == -ESHUTDOWN))
		return; /* our own trouble */
	port->has_answered = port->has_answered || own_is_there(port);
	if (own_is_there(port))
		port->silent_count = 0;
	else if (port->silent_count < MT_OWN_SILENT_MAX)
		port->silent_count++;
	/* Another one that has answered there is not gone by one silence: it may be starting again. */
	if (port->call.is_answered || port->silent_count == MT_OWN_SILENT_MAX)
		port->other_id = id == own->gateway->options.gateway_id ? 0 : id;
	port->rc = port->call.rc;
	if (was_right)
		port->since_ns = port->asked_ns;
	if (port->other_id != 0 && port->other_id != before_id)
		own_tell_other(port);
	else if (port->other_id == 0 && port->silent_count > before_silent &&
	    port->silent_count == (own->is_kept_out ? OWN_ASKED_MIN : 1))
		own_tell_silent(port);
}

static void
own_on_answer(struct mt_peer_call *call, void *arg)
{
	struct mt_own_port *port = arg;
	struct mt_own_address *own = port->own;

	assert(call == &port->call && own->out_count > 0);
	own->out_count--;
	if (!own->is_stopped)
		own_take(port);
	mt_free(call->reply);
	call->reply = NULL;
	if (own->out_count == 0 && !own->is_stopped)
		own_judge(own);
}

/* To be freed with free(); NULL: no memory. */
static char *
own_question(const struct mt_gateway *gateway, const char *address)
{
	json_t *question;
	char id[17], *text;

	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	question = json_pack("{s:s, s:s, s:s}", "op", MT_PEER_OP, "self", id, "at", address);
	text = question == NULL ? NULL : json_dumps(question, JSON_COMPACT);
	json_decref(question);
	return text;
}

/* No memory: as if nothing had been asked. A port that listens nowhere has no address. */
static void
own_ask_port(struct mt_own_address *own, uint32_t index)
{
	struct mt_own_port *port = &own->ports[index];
	const char *address = own->gateway->ports[index].address;
	char *question = address[0] == '\0' ? NULL : own_question(own->gateway, address);

	port->asked_ns = loop_now_ns(own->gateway->options.loop);
	if (question != NULL &&
	    mt_peer_call_own(own->gateway, &port->call, index, question, OWN_ANSWER_NS,
		own_on_answer, port) == 0)
		own->out_count++;
	free(question);
}

static void
own_ask(struct mt_own_address *own)
{
	assert(own->out_count == 0);
	for (uint32_t i = 0; i < own_count(own); i++)
		own_ask_port(own, i);
	if (own->out_count == 0)
		loop_timer_start(own->gateway->options.loop, &own->timer, OWN_WRONG_NS);
}

static void
own_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_own_address *own = arg;

	assert(timer == &own->timer && !own->is_stopped);
	(void)timer;
	own_ask(own);
}

/* ---- others that are led to us ---- */

static bool
own_is_led(const struct mt_own_address *own, const struct mt_own_led *led)
{
	uint64_t now_ns = loop_now_ns(own->gateway->options.loop);

	return led->gateway_id != 0 && now_ns - num_min(led->seen_ns, now_ns) <= OWN_LED_NS;
}

void
mt_own_address_on_led(struct mt_gateway *gateway, uint64_t gateway_id, const char *address)
{
	struct mt_own_address *own = gateway->own_address;
	struct mt_own_led *led = NULL;

	assert(gateway_id != 0);
	if (own == NULL || gateway_id == gateway->options.gateway_id)
		return;
	for (uint32_t i = 0; i < MT_OWN_LED_MAX; i++) {
		if (own->led[i].gateway_id == gateway_id)
			led = &own->led[i];
		else if (led == NULL && !own_is_led(own, &own->led[i]))
			led = &own->led[i];
	}
	if (led == NULL)
		return; /* those that are known are enough to tell of */
	if (led->gateway_id != gateway_id || !own_is_led(own, led))
		led->since_ns = loop_now_ns(gateway->options.loop);
	led->gateway_id = gateway_id;
	led->seen_ns = loop_now_ns(gateway->options.loop);
	(void)snprintf(led->address, sizeof(led->address), "%s", address);
}

const struct mt_own_led *
mt_own_address_led(const struct mt_gateway *gateway, uint32_t index)
{
	const struct mt_own_address *own = gateway->own_address;

	for (uint32_t i = 0; own != NULL && i < MT_OWN_LED_MAX; i++) {
		if (own_is_led(own, &own->led[i]) && index-- == 0)
			return &own->led[i];
	}
	return NULL;
}

bool
mt_own_address_is_silent(const struct mt_gateway *gateway, uint32_t index)
{
	const struct mt_own_port *port = &gateway->own_address->ports[index];

	assert(index < gateway->port_count);
	return port->silent_count == MT_OWN_SILENT_MAX && !own_is_expected(port);
}

/* ---- its life ---- */

int
mt_own_address_start(struct mt_gateway *gateway)
{
	struct mt_own_address *own;
	int rc;

	assert(gateway->own_address == NULL && gateway->opened_count == gateway->port_count);
	if (!gateway->options.is_address_asked)
		return mt_member_start(&gateway->member);
	own = mt_calloc(1, sizeof(*own));
	if (own == NULL)
		return -ENOMEM;
	*own = (struct mt_own_address){ .gateway = gateway, .is_kept_out = true };
	loop_timer_init(&own->timer, own_on_timer, own);
	for (uint32_t i = 0; i < MT_PORTS_MAX; i++)
		own->ports[i].own = own;
	gateway->own_address = own;
	rc = mt_member_watch(&gateway->member);
	if (rc == 0)
		own_ask(own);
	return rc;
}

bool
mt_own_address_keeps_out(const struct mt_gateway *gateway)
{
	const struct mt_own_address *own = gateway->own_address;

	return own != NULL && own->is_kept_out && own_has_other(own);
}

void
mt_own_address_stop(struct mt_gateway *gateway)
{
	if (gateway->own_address == NULL)
		return;
	gateway->own_address->is_stopped = true;
	loop_timer_stop(gateway->options.loop, &gateway->own_address->timer);
}

void
mt_own_address_fini(struct mt_gateway *gateway)
{
	if (gateway->own_address == NULL)
		return;
	mt_own_address_stop(gateway);
	for (uint32_t i = 0; i < MT_PORTS_MAX; i++)
		mt_free(gateway->own_address->ports[i].call.reply);
	mt_free(gateway->own_address);
	gateway->own_address = NULL;
}
