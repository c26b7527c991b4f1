/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_link.h -- a queue pair from a port to a port of another gateway: requests, and their answers
 *
 * Who wants something of a peer sends it a request. The link is dialled for that, and stays: there is nothing to start.
 * What becomes of the peer is its requests' alone: where the queue pair ends, or is not made, each of them ends. A
 * request without an answer waits as long as the queue pair lasts: who wants less has a timer, and mt_peer_link_forget.
 * Threads: the port's, as all of this.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_PEER_LINK_H
#define CLEAVE_MIDDLETIER_EXTENT_PEER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "common/limits.h"

struct mt_peer_link;
struct mt_peer_request;
struct mt_port;

#define MT_PEER_REQUESTS_MAX 64u /* of a link, at a time */
#define MT_PEER_PAYLOAD_BYTES_MAX                                                                  \
	(SPLIT_HEADER_BYTES_MAX - WIRE_HEADER_BYTES) /* of a request: host memory, in one piece */

/*
 * @rc 0: @msg is the answer, whose status is in its header; it is borrowed during the call. Else @msg is NULL: the queue
 * pair has ended, or was not made; -ECANCELED: mt_peer_link_forget. The request is its owner's again.
 */
typedef void (
    *mt_peer_request_fn)(struct mt_peer_request *request, int rc, struct split_msg *msg, void *arg);

/* Owned by who sends it. message is borrowed from mt_peer_link_send until fn. */
struct mt_peer_request {
	uint8_t *message;       /* a header without its request_id, and behind it the payload */
	uint32_t message_bytes; /* of both */
	mt_peer_request_fn fn;
	void *arg;
	/* The link's. */
	struct loop_link link; /* link->requests */
	struct mt_peer_link *peer;
	struct split_send send;
	struct split_msg *answer;
	bool is_posted, is_sent, is_forgotten;
};

enum mt_peer_link_state {
	MT_PEER_LINK_DOWN,
	MT_PEER_LINK_CONNECTING, /* requests wait */
	MT_PEER_LINK_UP,
	MT_PEER_LINK_STATE_NR
};

struct mt_peer_link {
	uint32_t magic;
	struct sm sm;
	struct mt_port *port;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct split_qp *qp;
	struct loop_link requests; /* oldest first */
	uint32_t request_count;
	uint64_t next_request_id;
	struct wire_level level;
	uint64_t retry_ns; /* DOWN: it is not dialled before */
	uint64_t backoff_ns;
	bool is_ending; /* DOWN: its requests are told so, and it is nobody else's yet */
	int close_rc;   /* why we close it; 0: we do not */
	const char *close_reason;
};

/* mt_peer_links_init -- the port opens: it has no link yet. 0; -ENOMEM. */
int mt_peer_links_init(struct mt_port *port);
/* mt_peer_links_stop -- the port closes: requests end, and nothing is dialled any more. _are_quiet: all have ended. */
void mt_peer_links_stop(struct mt_port *port);
bool mt_peer_links_are_quiet(const struct mt_port *port);
/* mt_peer_links_fini -- the queue pairs have gone, and nobody runs the loop. Also without init. */
void mt_peer_links_fini(struct mt_port *port);

/*
 * mt_peer_link_to -- the port's link to @address, a port of another gateway
 *
 * It stays as long as a request of it is out. NULL: the port has MT_GATEWAYS_MAX of them that are in use, or stops.
 */
struct mt_peer_link *mt_peer_link_to(struct mt_port *port, const char *address);
/*
 * mt_peer_link_send -- @request goes to the peer, behind those that were sent before; it is dialled where it must be
 *
 * Returns 0: @request->fn once, later. Else never: -ENOTCONN: it was tried a short while ago; -ENOBUFS: there are
 * MT_PEER_REQUESTS_MAX.
 */
int mt_peer_link_send(struct mt_peer_link *link, struct mt_peer_request *request);
/* mt_peer_link_gateway -- UP: the number of the gateway that its key names; 0: the connection is open, or not UP. */
uint64_t mt_peer_link_gateway(const struct mt_peer_link *link);
/*
 * mt_peer_link_forget -- nobody waits for the answer any more
 *
 * Once a request. True: @request is its owner's again, and fn is not called. False: its bytes are on their way: fn follows,
 * when they are sent, or the queue pair has ended: as late as a peer takes that is cut off. The peer hears nothing of it.
 */
bool mt_peer_link_forget(struct mt_peer_request *request);

#endif /* CLEAVE_MIDDLETIER_EXTENT_PEER_LINK_H */
