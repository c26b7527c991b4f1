/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_peer.h -- does the next gateway answer, and is it that one?
 *
 * Each gateway asks one other: that of the next greater id, the last one the first. So each is asked by somebody.
 */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_PEER_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/split.h"
#include "cluster/peer.h"

struct mt_gateway;
struct mt_health;

struct mt_health_peer {
	struct mt_gateway *gateway;
	struct mt_peer_call call;
	struct loop_timer timer; /* the second question, soon after the first has failed */
	void (*on_silent)(void *arg);
	void *arg;
	bool is_stopped;
	uint64_t gateway_id, boot_id; /* whom we ask */
	uint32_t port;                /* at which of its ports */
	uint32_t turn;                /* the port that was asked in its turn last */
	char address[SPLIT_ADDRESS_BYTES_MAX];
	uint64_t asked_ms;    /* by the clock on the wall */
	int64_t clock_gap_ms; /* of its clock on the wall against ours; 0: none, or not told */
	uint64_t asked_ns, since_ns; /* since_ns: of the first question that has no answer */
	uint64_t other_id;           /* the gateway that answers in its place; 0: none */
	uint32_t failure_count;      /* in a row; HEALTH_PEER_FAILURES at most */
	int rc;                      /* the last one's */
};

/*
 * mt_health_peer_init -- nobody is asked yet
 *
 * @on_silent: called when the other one has begun to be silent, and may be judged.
 * Threads: all of these: the main loop's.
 */
void mt_health_peer_init(struct mt_health_peer *peer, struct mt_gateway *gateway,
    void (*on_silent)(void *arg), void *arg);
/* mt_health_peer_ask -- ask, unless the last question is under way still. */
void mt_health_peer_ask(struct mt_health_peer *peer);
/* mt_health_peer_judge -- adds the reason, where it is silent, or another one answers. */
void mt_health_peer_judge(const struct mt_health_peer *peer, struct mt_health *health);
/* mt_health_peer_stop -- ask no more; again: a no-op. */
void mt_health_peer_stop(struct mt_health_peer *peer);
/* mt_health_peer_fini -- nobody runs the ports' loops any more. */
void mt_health_peer_fini(struct mt_health_peer *peer);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_PEER_H */
