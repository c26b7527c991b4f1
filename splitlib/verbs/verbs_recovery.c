/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_recovery.c -- a port's RDMA device goes, and another comes
 *
 * A device is lost when it is removed, when it or one of the port's queues breaks, or when the address
 * that the port uses has left it (for another device, or for none). Then all that the port had of it
 * goes: connections, queues, registrations. The port, its memory and its listeners stay.
 *
 *	                 an address leads to a device
 *	  NONE ------------------------------------------> OPEN <--------------------+
 *	   ^                                                | lost: all connections   |
 *	   | nobody listens (who connects                   | fail, listeners close   | an address has a
 *	   | asks again by itself)                          v                         | device again; each
 *	   +-------------------------------------------- LEAVING                      | has been looked for
 *	   |                                                | the last connection is  | with backoff
 *	   | nobody listens any more                        | out: let go of all      |
 *	   +---------------------------------------------- AWAITED -------------------+
 *
 * In LEAVING the device may still have our buffers; the drain of each connection (verbs.c)
 * bounds the time. Receives that the shared receive queue had come back when it is destroyed. In
 * AWAITED, listeners are bound again and again, from VERBS_AWAIT_NS to VERBS_AWAIT_MAX_NS apart: the
 * first that finds a device opens it anew, with new registrations; what connects meanwhile may, too.
 *
 * Some devices (software ones) are not removed before every process has closed them, and librdmacm keeps
 * those open that it has met, until it meets one that is new. So each port has a connection manager's id
 * that does nothing but hold the device, and is told of the removal when no other is left; when the last
 * port of the process has left a device that is being removed, device_let_go closes it.
 *
 * Lost for good: regions, whose keys were the device's (they reach nothing and are to be opened again),
 * and the device's own memory with what it held. A dmabuf is registered again.
 */
#include "base/check.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "base/tcp_address.h"
#include "core/connect.h"
#include "core/port.h"
#include "core/transport.h"

#define VERBS_AWAIT_NS NUM_MS(100)
#define VERBS_AWAIT_MAX_NS NUM_S(2)
#define VERBS_DEVICES_MAX 64u
#define VERBS_NOTICE_BYTES_MAX 320u

static const struct sm_state device_table[VERBS_DEVICE_STATE_NR] = {
	[VERBS_DEVICE_NONE] = { "none", SM_TO(VERBS_DEVICE_OPEN), SM_INITIAL },
	[VERBS_DEVICE_OPEN] = { "open", SM_TO(VERBS_DEVICE_LEAVING), 0 },
	[VERBS_DEVICE_LEAVING] = { "leaving",
	    SM_TO(VERBS_DEVICE_AWAITED) | SM_TO(VERBS_DEVICE_NONE), 0 },
	[VERBS_DEVICE_AWAITED] = { "awaited", SM_TO(VERBS_DEVICE_OPEN) | SM_TO(VERBS_DEVICE_NONE),
	    0 },
};

static void notice(struct verbs_port *verbs, bool is_there, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
notice(struct verbs_port *verbs, bool is_there, const char *format, ...)
{
	const struct split_port_options *options = &verbs->port->options;
	char text[VERBS_NOTICE_BYTES_MAX];
	va_list args;

	assert(format != NULL);
	if (options->on_device == NULL)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	port_call_begin(verbs->port);
	options->on_device(is_there, text, options->on_device_arg);
	port_call_end(verbs->port);
}

static struct verbs_listener *
listener_of(struct loop_link *link)
{
	assert(link != NULL);
	return LIST_ENTRY(link, struct split_listener, link)->transport;
}

static bool
is_anybody_waiting(const struct verbs_port *verbs)
{
	const struct loop_link *listeners = &verbs->port->listeners;

	for (struct loop_link *link = listeners->next; link != listeners; link = link->next)
		if (listener_of(link)->id == NULL)
			return true;
	return false;
}

/* Losing it. */

static void
listeners_close(struct verbs_port *verbs)
{
	const struct loop_link *listeners = &verbs->port->listeners;

	for (struct loop_link *link = listeners->next; link != listeners; link = link->next) {
		struct verbs_listener *listener = listener_of(link);

		/* A listener at "any address" has no device, and lives on. */
		if (listener->id != NULL && listener->id->verbs != NULL)
			verbs_listener_close(listener);
	}
}

void
verbs_device_lost(struct verbs_port *verbs, const char *reason)
{
	assert(reason != NULL);
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	/* Told by each connection, and by the device itself: once is enough. */
	if (verbs->device.state != VERBS_DEVICE_OPEN)
		return;
	(void)snprintf(verbs->lost_text, sizeof(verbs->lost_text), "%s: %s", verbs->device_name,
	    reason); /* or cut */
	sm_move(&verbs->device, VERBS_DEVICE_LEAVING);
	metric_add(&verbs->port->counters.devices_lost, 1);
	verbs_fail_all(verbs, -ECONNRESET, reason);
	listeners_close(verbs);
	loop_timer_start(verbs->port->loop, &verbs->device_timer, 0);
}

/* Ports of this process by their device, while they have anything of it. */

static struct device_user {
	const struct ibv_context *context;
	uint32_t count;
} device_users[VERBS_DEVICES_MAX];
static uint32_t device_users_other; /* of devices that there was no room for */
static pthread_mutex_t device_users_lock = PTHREAD_MUTEX_INITIALIZER;

/* Where @context's users are counted. A free entry where it has none and @is_new. */
static uint32_t *
device_users_find(const struct ibv_context *context, bool is_new)
{
	assert(context != NULL);
	for (uint32_t i = 0; i < VERBS_DEVICES_MAX; i++)
		if (device_users[i].count > 0 && device_users[i].context == context)
			return &device_users[i].count;
	for (uint32_t i = 0; i < VERBS_DEVICES_MAX && is_new; i++)
		if (device_users[i].count == 0) {
			device_users[i].context = context;
			return &device_users[i].count;
		}
	return &device_users_other;
}

/* Adds @change to the users of @context. Returns how many there may be then. */
static uint32_t
device_users_add(const struct ibv_context *context, int change)
{
	uint32_t *count, total;

	assert(change >= -1);
	assert(change <= 1);
	(void)pthread_mutex_lock(&device_users_lock); /* of the default kind: cannot fail */
	count = device_users_find(context, change > 0);
	assert(change >= 0 || *count > 0);
	*count = (uint32_t)((int)*count + change);
	total = count == &device_users_other ? *count : *count + device_users_other;
	(void)pthread_mutex_unlock(&device_users_lock);
	return total;
}

/*
 * The device behind @context is being removed. Put nothing in its files' place: whoever closes the
 * context later closes that.
 */
static void
device_let_go(const struct ibv_context *context)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert(context->async_fd >= 0 && context->cmd_fd >= 0);
	if (nothing < 0)
		return;                                    /* the removal waits for our end, then */
	(void)dup3(nothing, context->async_fd, O_CLOEXEC); /* both are valid */
	(void)dup3(nothing, context->cmd_fd, O_CLOEXEC);
	(void)close(nothing);
}

static void
holder_close(struct verbs_port *verbs)
{
	if (verbs->holder == NULL)
		return;
	if (verbs->is_holder_removed && device_users_add(verbs->holder->verbs, 0) == 0)
		device_let_go(verbs->holder->verbs);
	(void)rdma_destroy_id(verbs->holder); /* whatever it says: nothing can be done */
	verbs->holder = NULL;
	verbs->is_holder_removed = false;
}

/* At the local address of @id. Without one the port works, but may keep a device from its removal. */
static void
holder_open(struct verbs_port *verbs, struct rdma_cm_id *id)
{
	struct sockaddr_storage address = { 0 };
	const struct sockaddr *local = rdma_get_local_addr(id);

	assert(verbs->context != NULL);
	holder_close(verbs);
	memcpy(&address, local, verbs_address_bytes(local));
	verbs_address_clear_port(&address);
	if (rdma_create_id(verbs->channel, &verbs->holder, verbs, RDMA_PS_TCP) != 0) {
		verbs->holder = NULL;
	} else if (rdma_bind_addr(verbs->holder, (struct sockaddr *)&address) != 0 ||
	    verbs->holder->verbs != verbs->context) {
		(void)rdma_destroy_id(verbs->holder); /* it did nothing yet */
		verbs->holder = NULL;
	}
}

void
verbs_on_holder_event(struct verbs_port *verbs, enum rdma_cm_event_type type)
{
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (type == RDMA_CM_EVENT_ADDR_CHANGE)
		verbs_device_lost(verbs, "the device's address has changed");
	if (type != RDMA_CM_EVENT_DEVICE_REMOVAL || verbs->holder == NULL)
		return;
	verbs->is_holder_removed = true;
	if (verbs->context == verbs->holder->verbs)
		verbs_device_lost(verbs, "the RDMA device is gone");
	else
		holder_close(verbs);
}

static bool
is_device_used(const struct verbs_port *verbs)
{
	assert(verbs->context != NULL);
	for (struct loop_link *link = verbs->qps.next; link != &verbs->qps; link = link->next)
		if (LIST_ENTRY(link, struct verbs_qp, link)->id->verbs == verbs->context)
			return true;
	return false;
}

static void
leave(struct verbs_port *verbs)
{
	bool is_awaited = is_anybody_waiting(verbs);

	assert(verbs->device.state == VERBS_DEVICE_LEAVING);
	if (verbs->lost_text[0] != '\0')
		notice(verbs, false, "%s", verbs->lost_text);
	verbs->lost_text[0] = '\0';
	/* A connection that ends starts the timer: verbs_device_left. */
	if (is_device_used(verbs))
		return;
	verbs_device_forget(verbs);
	/* A port that only connects is free to come from elsewhere. */
	verbs->has_source = verbs->has_source && is_awaited;
	verbs->await_ns = VERBS_AWAIT_NS;
	sm_move(&verbs->device, is_awaited ? VERBS_DEVICE_AWAITED : VERBS_DEVICE_NONE);
	if (is_awaited)
		loop_timer_start(verbs->port->loop, &verbs->device_timer, verbs->await_ns);
}

void
verbs_device_forget(struct verbs_port *verbs)
{
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (verbs->context != NULL) {
		(void)device_users_add(verbs->context, -1);
		verbs_device_close(verbs);
	}
	/* A device that is still there may be removed later. */
	if (verbs->is_holder_removed || verbs->port->is_closing)
		holder_close(verbs);
}

void
verbs_device_left(struct verbs_port *verbs)
{
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (verbs->device.state == VERBS_DEVICE_LEAVING)
		loop_timer_start(verbs->port->loop, &verbs->device_timer, 0);
}

/* Finding it. */

void
verbs_device_found(struct verbs_port *verbs, struct rdma_cm_id *id)
{
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	assert(verbs->context != NULL);
	sm_move(&verbs->device, VERBS_DEVICE_OPEN);
	(void)device_users_add(verbs->context, 1);
	holder_open(verbs, id);
	(void)snprintf(verbs->device_name, sizeof(verbs->device_name), "RDMA device %s",
	    ibv_get_device_name(verbs->context->device)); /* names are short */
	/* A connection may have found it: those who listen want it, too. */
	if (is_anybody_waiting(verbs))
		loop_timer_start(verbs->port->loop, &verbs->device_timer, 0);
}

/* Bind all that wait. Returns whether none is left. */
static bool
listeners_open(struct verbs_port *verbs)
{
	const struct loop_link *listeners = &verbs->port->listeners;
	bool is_done = true;

	for (struct loop_link *link = listeners->next; link != listeners; link = link->next) {
		struct verbs_listener *listener = listener_of(link);
		int rc;

		if (listener->id != NULL)
			continue;
		verbs->port->reason[0] = '\0';
		rc = verbs_listener_open(listener);
		if (rc == 0) {
			notice(verbs, true, "%s: listening again at %s", verbs->device_name,
			    listener->listener->address);
			listener->rc = 0;
			continue;
		}
		is_done = false;
		/* Once for each reason: that there is no device is known already. */
		if (rc != -ENODEV && rc != -EADDRNOTAVAIL && rc != listener->rc)
			notice(verbs, false, "cannot listen again at %s: %s",
			    listener->listener->address,
			    verbs->port->reason[0] != '\0' ? verbs->port->reason
							   : strerrordesc_np(-rc));
		listener->rc = rc;
	}
	return is_done;
}

void
verbs_on_device_timer(struct loop_timer *timer, void *arg)
{
	struct verbs_port *verbs = arg;

	assert(timer == &verbs->device_timer);
	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (verbs->device.state == VERBS_DEVICE_LEAVING) {
		leave(verbs);
		return;
	}
	if (!listeners_open(verbs)) {
		loop_timer_start(verbs->port->loop, timer, verbs->await_ns);
		verbs->await_ns = num_min(2 * verbs->await_ns, VERBS_AWAIT_MAX_NS);
	} else if (verbs->device.state == VERBS_DEVICE_AWAITED) {
		sm_move(&verbs->device, VERBS_DEVICE_NONE);
	}
}

/* The address. */

/*
 * Addresses of the device have changed: is ours still there? Connections of one that is not would die
 * of silence, and nobody would reach who listens there.
 */
void
verbs_address_check(struct verbs_port *verbs)
{
	struct sockaddr_storage source = verbs->source;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct rdma_cm_id *id;
	bool is_there;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (verbs->device.state != VERBS_DEVICE_OPEN || !verbs->has_source ||
	    rdma_create_id(verbs->channel, &id, verbs, RDMA_PS_TCP) != 0)
		return;
	is_there = rdma_bind_addr(id, (struct sockaddr *)&source) == 0 &&
	    id->verbs == verbs->context;
	(void)rdma_destroy_id(id); /* it did nothing yet */
	if (is_there)
		return;
	tcp_address_format_as("verbs", &source, address);
	transport_reason(verbs->port, "the device's address has changed: %s has left it", address);
	verbs_device_lost(verbs, verbs->port->reason);
}

void
verbs_device_init(struct verbs_port *verbs)
{
	assert(verbs->context == NULL);
	sm_init(&verbs->device, "verbs_device", device_table, VERBS_DEVICE_NONE, 0);
	loop_timer_init(&verbs->device_timer, verbs_on_device_timer, verbs);
}
