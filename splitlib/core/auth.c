/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.c -- the handshake that goes before a sealed hello
 *
 *	connector                                      acceptor
 *	TALKING                                        TALKING
 *	  AUTH level wanted | ClientHello   ------->
 *	               <-------   AUTH level chosen | ServerHello .. Finished
 *	  AUTH | Certificate .. Finished    ------->
 *	KEYED: is it believed?                         KEYED: is it believed?
 *	  yes: sealed HELLO                 ------->     yes: waits for the hello
 *	  no: sealed AUTH with status, text ------->     no: sealed AUTH with status and text, then REFUSING
 *	REFUSING: closed once that is out
 *
 * An AUTH message: opcode WIRE_AUTH both ways; flags: the level, enum split_security; epoch: SEAL_FORMAT; status and
 * the text behind it in a refusal; all else zero. The level that the connector wants is the least that it takes, the
 * chosen one is at least that and at least the acceptor's; both are in the keys, so who changes them on the way gets a
 * connection on which nothing opens.
 *
 * Until a queue pair is keyed, nothing that comes is believed. A refusal in the clear ends the connection, as anybody
 * on the way could, and means nothing more: its status is not what our owner is told, but for "busy".
 *
 * Bounds: handshake.h's, AUTH_TIME_NS, and AUTH_MAX at a time with who comes in. Who comes then waits, its first message
 * unread, for keepalive_ns at most as any stranger. While somebody waits, handshakes give way whose peers have had
 * AUTH_TURN_NS: AUTH_GIVE_WAY_MAX of them a turn, the oldest, since a crowd that is merely slow would lose all that was
 * done for it, come again, and never be through. A place goes to the host that has the fewest, and of its connections to
 * the newest: the oldest ones' peers are about to give up. So a flood from one host keeps no other host out, and whoever
 * shares its host waits for a turn.
 */
#include "auth.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/status.h"
#include "connect.h"
#include "port.h"
#include "qp.h"
#include "sealed.h"
#include "secure/handshake.h"
#include "secure/key.h"
#include "send_post.h"
#include "transport.h"

#define AUTH_TIME_NS NUM_S(5)
#define AUTH_TURN_NS NUM_S(1) /* a peer with a thousand others in its loop is slow, too */
#define AUTH_FLIGHT_BYTES_MAX (SPLIT_HEADER_BYTES_MAX - WIRE_HEADER_BYTES)
#define AUTH_ROLES_ALL                                                                             \
	(SPLIT_ROLE_GATEWAY | SPLIT_ROLE_NODE | SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN |             \
	    SPLIT_ROLE_MONITOR)

enum auth_state { AUTH_TALKING, AUTH_KEYED, AUTH_REFUSING, AUTH_STATE_NR };

static const struct sm_state auth_table[AUTH_STATE_NR] = {
	[AUTH_TALKING] = { "talking", SM_TO(AUTH_KEYED), SM_INITIAL },
	[AUTH_KEYED] = { "keyed", SM_TO(AUTH_REFUSING), SM_FINAL },
	[AUTH_REFUSING] = { "refusing", 0, SM_FINAL | SM_FAILURE },
};

struct qp_auth {
	struct sm sm;
	struct handshake *handshake;
	struct handshake_context context;
	uint64_t began_ns;
	uint16_t status; /* of the message that comes in */
	uint32_t in_bytes;
	struct split_send flight, refusal;
	struct wire_header header __attribute__((aligned(8)));
	uint8_t out[AUTH_FLIGHT_BYTES_MAX]; /* behind the header, as it travels */
	struct {
		struct wire_header header __attribute__((aligned(8)));
		char why[HANDSHAKE_WHY_BYTES_MAX];
	} refused;
	uint8_t in[HANDSHAKE_BYTES_MAX];
};
_Static_assert(offsetof(struct qp_auth, out) ==
	offsetof(struct qp_auth, header) + WIRE_HEADER_BYTES,
    "a flight goes behind its header");

enum split_security
auth_security(const struct split_port *port)
{
	if (port->options.key == NULL)
		return SPLIT_SECURITY_OPEN;
	return port->options.security == SPLIT_SECURITY_DEFAULT ? SPLIT_SECURITY_SEAL
								: port->options.security;
}

bool
auth_is_flight(const struct split_qp *qp, const struct split_send *send)
{
	return qp->auth != NULL && send == &qp->auth->flight;
}

/* ---- places ---- */

/* HOST of PROTOCOL://HOST:PORT, as a number. */
static uint32_t
auth_host_of(const char *peer)
{
	const char *end = strrchr(peer, ':');

	return end == NULL ? 0 : crc32c(0, peer, (size_t)(end - peer));
}

static void
auth_place_take(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	assert(port->auth_count < AUTH_MAX);
	qp->auth_host = auth_host_of(qp->peer);
	port->auth_hosts[port->auth_count++] = qp->auth_host;
}

/* The next to go on: of the host with the fewest places, the newest. NULL: nobody waits. */
static struct split_qp *
auth_choose(struct split_port *port)
{
	struct split_qp *chosen = NULL;
	struct loop_link *link, *next;
	uint32_t fewest = UINT32_MAX;

	LIST_FOREACH_SAFE(&port->auth_waiting, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, auth_link);
		uint32_t count = 0;

		for (uint32_t i = 0; i < port->auth_count; i++)
			count += port->auth_hosts[i] == qp->auth_host;
		if (count <= fewest) {
			fewest = count;
			chosen = qp;
		}
	}
	return chosen;
}

/* The handshake of @qp, which came in, is through, or over: the next one may begin. */
static void
auth_place_free(struct split_qp *qp)
{
	struct split_port *port = qp->port;
	struct split_qp *chosen;
	uint32_t i = 0;

	assert(port->auth_count > 0);
	while (port->auth_hosts[i] != qp->auth_host) {
		i++;
		assert(i < port->auth_count);
	}
	port->auth_hosts[i] = port->auth_hosts[--port->auth_count];
	chosen = auth_choose(port);
	if (chosen != NULL) {
		list_remove(&chosen->auth_link);
		chosen->ops->kick_receive(chosen);
	}
}

static void
auth_set_state(struct split_qp *qp, enum auth_state state)
{
	struct qp_auth *auth = qp->auth;

	if (qp->is_acceptor && auth->sm.state == AUTH_TALKING)
		auth_place_free(qp);
	sm_move(&auth->sm, (uint32_t)state);
}

static int
auth_create(struct split_qp *qp)
{
	struct qp_auth *auth = split_calloc(1, sizeof(*auth));

	assert(qp->auth == NULL && qp->sealed == NULL);
	if (auth == NULL)
		return -ENOMEM;
	auth->handshake = handshake_create(qp->port->options.key, qp->is_acceptor);
	if (auth->handshake == NULL) {
		split_free(auth);
		return -ENOMEM;
	}
	sm_init(&auth->sm, "auth", auth_table, AUTH_TALKING, qp->sm.id);
	auth->began_ns = loop_now_ns(qp->port->loop);
	auth->context.format = SEAL_FORMAT;
	qp->auth = auth;
	if (qp->is_acceptor)
		auth_place_take(qp);
	return 0;
}

void
auth_end(struct split_qp *qp)
{
	struct qp_auth *auth = qp->auth;

	if (auth == NULL)
		return;
	assert(!qp_is(qp, SPLIT_QP_READY) ||
	    !(list_contains(&auth->flight.link) || list_contains(&auth->refusal.link)));
	qp->auth = NULL;
	if (qp->is_acceptor && auth->sm.state == AUTH_TALKING)
		auth_place_free(qp);
	handshake_free(auth->handshake);
	split_free(auth);
}

void
auth_refused(struct split_qp *qp, const char *why)
{
	struct split_port *port = qp->port;

	if (!qp->is_acceptor)
		return;
	metric_add(&port->counters.auths_refused, 1);
	if (port->options.on_refused == NULL)
		return;
	port_call_begin(port);
	port->options.on_refused(qp->peer, why, port->options.on_refused_arg);
	port_call_end(port);
}

static void
auth_on_sent(struct split_send *send, int rc, void *arg)
{
	struct split_qp *qp = arg;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	/* A flight is followed by what the peer says; a refusal by nothing. */
	if (rc == 0 && send == &qp->auth->refusal)
		qp_fail(qp, -EKEYREJECTED, "%s", qp->auth->refused.why);
}

static void
auth_post(struct split_qp *qp, struct split_send *send, struct wire_header *header, size_t bytes)
{
	assert(!list_contains(&send->link));
	header->opcode = WIRE_AUTH;
	header->epoch = SEAL_FORMAT;
	send->header = header;
	send->header_bytes = WIRE_HEADER_BYTES + (uint32_t)bytes;
	send->total_bytes = send->header_bytes | SEND_LIBRARYS;
	send->fn = auth_on_sent;
	send->arg = qp;
	send_queue(qp, send);
}

/* No handshake comes of this. */
static void
auth_fail(struct split_qp *qp, int rc, const char *why)
{
	assert(rc < 0);
	auth_refused(qp, why);
	qp_fail(qp, rc, "%s", why);
}

/* The peer is not believed, and both have keys: tell it, then close. */
static void
auth_refuse(struct split_qp *qp)
{
	struct qp_auth *auth = qp->auth;

	auth_refused(qp, handshake_why(auth->handshake));
	(void)snprintf(auth->refused.why, sizeof(auth->refused.why), "%s",
	    handshake_why(auth->handshake));
	auth->refused.header.status = status_from_errno(-EKEYREJECTED);
	auth_set_state(qp, AUTH_REFUSING);
	qp->is_rejecting = true;
	auth_post(qp, &auth->refusal, &auth->refused.header, strlen(auth->refused.why));
}

/* The handshake is complete. */
static void
auth_on_complete(struct split_qp *qp)
{
	struct qp_auth *auth = qp->auth;
	uint8_t out[HANDSHAKE_SECRET_BYTES], in[HANDSHAKE_SECRET_BYTES];
	struct split_subject peer;
	unsigned roles = qp->is_acceptor || MUTANT(connect_role_ignored) ? AUTH_ROLES_ALL
									 : qp->peer_roles;
	int verdict =
	    handshake_judge(auth->handshake, qp->port->options.key, roles, log_wall_s(), &peer);
	char why[HANDSHAKE_WHY_BYTES_MAX];
	int rc;

	/* The secrets may fail too, and what was judged is the reason to tell. */
	(void)snprintf(why, sizeof(why), "%s", handshake_why(auth->handshake));
	rc = handshake_secrets(auth->handshake, &auth->context, out, in);
	if (rc == 0)
		rc = sealed_begin(qp, (enum split_security)auth->context.chosen, out, in);
	gnutls_memset(out, 0, sizeof(out));
	gnutls_memset(in, 0, sizeof(in));
	if (rc != 0) {
		auth_fail(qp, rc, rc == -ENOMEM ? "out of memory" : "the handshake gave no keys");
		return;
	}
	auth_set_state(qp, AUTH_KEYED);
	if (verdict != 0 && !MUTANT(verdict_ignored)) {
		auth_refuse(qp);
		return;
	}
	qp->sealed->peer = peer;
	qp->sealed->certificate = *handshake_certificate(auth->handshake);
	qp->sealed->is_believed = true;
	if (!qp->is_acceptor)
		send_post_control(qp, &qp->hello);
}

static void
auth_step(struct split_qp *qp)
{
	struct qp_auth *auth = qp->auth;
	const uint8_t *out;
	size_t bytes;
	int rc = handshake_step(auth->handshake, auth->in, auth->in_bytes);

	if (rc < 0) {
		auth_fail(qp, rc, handshake_why(auth->handshake));
		return;
	}
	out = handshake_out(auth->handshake, &bytes);
	if (bytes > 0 && (bytes > AUTH_FLIGHT_BYTES_MAX || list_contains(&auth->flight.link))) {
		auth_fail(qp, -EPROTO, "the handshake is too long");
		return;
	}
	if (bytes > 0) {
		memcpy(auth->out, out, bytes);
		memset(&auth->header, 0, sizeof(auth->header));
		auth->header.flags = qp->is_acceptor ? auth->context.chosen : auth->context.offered;
		auth_post(qp, &auth->flight, &auth->header, bytes);
	}
	if (rc == 1)
		auth_on_complete(qp);
}

void
auth_begin(struct split_qp *qp)
{
	int rc = auth_create(qp);

	assert(!qp->is_acceptor);
	if (rc != 0) {
		qp_fail(qp, rc, "out of memory");
		return;
	}
	qp->auth->context.offered = (uint8_t)auth_security(qp->port);
	auth_step(qp);
}

/* While somebody waits: who had its turn goes. */
static void
auth_on_timer(struct loop_timer *timer, void *arg)
{
	struct split_port *port = arg;
	uint64_t now_ns = loop_now_ns(port->loop);
	struct loop_link *link, *next;
	uint32_t count = 0;

	(void)timer;
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (list_is_empty(&port->auth_waiting))
		return;
	LIST_FOREACH_SAFE(&port->qps, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);

		if (qp->is_acceptor && qp_is(qp, SPLIT_QP_ACCEPTING) && qp->auth != NULL &&
		    qp->auth->sm.state == AUTH_TALKING &&
		    now_ns - qp->auth->began_ns >= AUTH_TURN_NS && count++ < AUTH_GIVE_WAY_MAX)
			auth_fail(qp, -ETIMEDOUT,
			    "the handshake was not finished, and others waited");
	}
	loop_timer_start(port->loop, &port->auth_timer, AUTH_TURN_NS);
}

void
auth_port_init(struct split_port *port)
{
	list_init(&port->auth_waiting);
	loop_timer_init(&port->auth_timer, auth_on_timer, port);
}

void
auth_port_fini(struct split_port *port)
{
	assert(list_is_empty(&port->auth_waiting));
	loop_timer_stop(port->loop, &port->auth_timer);
}

void
auth_wait_end(struct split_qp *qp)
{
	list_remove(&qp->auth_link);
}

static int
auth_wait(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	assert(!list_contains(&qp->auth_link));
	qp->auth_host = auth_host_of(qp->peer);
	list_push_back(&port->auth_waiting, &qp->auth_link);
	if (!port->auth_timer.is_active)
		loop_timer_start(port->loop, &port->auth_timer, AUTH_TURN_NS);
	return -EINPROGRESS;
}

int
auth_admit(struct split_qp *qp)
{
	struct split_port *port = qp->port;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->is_acceptor);
	if (port->options.key == NULL) {
		connect_reject(qp, -EKEYREJECTED, "no key here: start it with --key");
		return -EAGAIN;
	}
	if (qp->is_surplus) {
		connect_reject_surplus(qp);
		return -EAGAIN;
	}
	if (port->auth_count >= AUTH_MAX)
		return auth_wait(qp);
	if (auth_create(qp) != 0) {
		connect_reject(qp, -EBUSY, "out of memory: try again");
		return -EAGAIN;
	}
	loop_timer_start(port->loop, &qp->timer, num_min(port->options.keepalive_ns, AUTH_TIME_NS));
	return 0;
}

static const char *
auth_header_field(const struct split_qp *qp, const struct wire_header *header)
{
	struct wire_header zero = *header;
	bool is_refusal = header->status != 0;

	zero.magic = 0;
	zero.version = 0;
	zero.opcode = 0;
	zero.payload_bytes = 0;
	zero.epoch = 0;
	zero.flags = 0;
	zero.status = 0;
	zero.header_crc = 0;
	if (header->epoch != SEAL_FORMAT)
		return "epoch";
	if (header->payload_bytes == 0 || header->payload_bytes > HANDSHAKE_BYTES_MAX)
		return "payload_bytes";
	if (memcmp(&zero, &(struct wire_header){ 0 }, sizeof(zero)) != 0)
		return "reserved";
	if (is_refusal)
		return qp->sealed != NULL && header->status == status_from_errno(-EKEYREJECTED) &&
			header->flags == 0
		    ? NULL
		    : "status";
	if (qp->sealed != NULL || (!qp->is_acceptor && qp->auth == NULL))
		return "opcode";
	return header->flags == SPLIT_SECURITY_SIGN || header->flags == SPLIT_SECURITY_SEAL
	    ? NULL
	    : "flags";
}

int
auth_recv_begin(struct split_qp *qp, const struct wire_header *header, const char **ret_field)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	*ret_field = auth_header_field(qp, header);
	if (*ret_field == NULL && (qp->is_offered || qp->is_rejecting))
		*ret_field = "opcode";
	if (*ret_field != NULL)
		return -EPROTO;
	if (qp->auth == NULL) {
		int rc = auth_admit(qp);

		if (rc != 0)
			return rc;
	}
	if (qp->is_acceptor && qp->auth->context.offered == 0) {
		qp->auth->context.offered = (uint8_t)header->flags;
		qp->auth->context.chosen = (uint8_t)num_max(header->flags,
		    num_max(auth_security(qp->port), SPLIT_SECURITY_SIGN));
	} else if (qp->is_acceptor && header->status == 0 &&
	    header->flags != qp->auth->context.offered) {
		*ret_field = "flags";
		return -EPROTO;
	} else if (!qp->is_acceptor && header->status == 0) {
		if (header->flags < qp->auth->context.offered) {
			*ret_field = "flags";
			return -EPROTO;
		}
		qp->auth->context.chosen = (uint8_t)header->flags;
	}
	qp->auth->status = header->status;
	qp->auth->in_bytes = header->payload_bytes;
	qp->fill = (struct recv_fill){
		.kind = RECV_AUTH,
		.host = qp->auth->in,
		.host_left = header->payload_bytes,
		.payload_bytes = header->payload_bytes,
	};
	return 0;
}

/* The refusal came sealed, so it is the peer's own word; still the peer chose every byte of it. */
static void
auth_on_refusal(struct split_qp *qp)
{
	struct qp_auth *auth = qp->auth;
	char why[HANDSHAKE_WHY_BYTES_MAX + 32];
	uint32_t bytes = (uint32_t)num_min(auth->in_bytes, HANDSHAKE_WHY_BYTES_MAX - 1);

	for (uint32_t i = 0; i < bytes; i++)
		if (auth->in[i] < ' ' || auth->in[i] > '~' || auth->in[i] == '"')
			auth->in[i] = '?';
	(void)snprintf(why, sizeof(why), "the peer refused: %.*s", (int)bytes,
	    (const char *)auth->in);
	auth_fail(qp, -EKEYREJECTED, why);
}

void
auth_on_message(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp->auth->status != 0)
		auth_on_refusal(qp);
	else
		auth_step(qp);
}
