/* SPDX-License-Identifier: Apache-2.0 */
/* merge_recall.h -- who was given a job and is given up is told to end; owned by merge_away.c */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_RECALL_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_RECALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/message.h"
#include "extent/peer_link.h"

struct merge_peer;
struct mt_port;

enum merge_recall_state {
	RECALL_IDLE,
	RECALL_SENT, /* its answer is waited for */
	RECALL_LEFT, /* it is not any more, but the message's bytes are on their way */
	RECALL_STATE_NR
};

struct merge_recall {
	struct sm sm;
	struct mt_port *port;
	struct merge_peer *peer; /* not IDLE: who was told */
	struct mt_peer_request request;
	uint8_t message[WIRE_HEADER_BYTES];
	struct loop_timer timer; /* SENT */
};

/* mt_merge_recall_init -- IDLE; @port is borrowed. */
void mt_merge_recall_init(struct merge_recall *recall, struct mt_port *port);
/*
 * mt_merge_recall_send -- IDLE: @peer is told that job number @job is given up
 *
 * Nothing is called back. It is IDLE again when the peer has answered, when its connection has ended or cannot be used,
 * or else after a second, in which case the peer has failed. @peer is borrowed until then.
 */
void mt_merge_recall_send(struct merge_recall *recall, struct merge_peer *peer, uint64_t job);
/* mt_merge_recall_is_quiet -- IDLE: nothing is out. */
bool mt_merge_recall_is_quiet(const struct merge_recall *recall);
/* mt_merge_recall_stop -- the process is being taken down: no answer is waited for. */
void mt_merge_recall_stop(struct merge_recall *recall);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_RECALL_H */
