/* SPDX-License-Identifier: Apache-2.0 */
/* shares.h -- requests of several volumes that want more of a port than there is: by their minimums and weights */
#ifndef CLEAVE_MIDDLETIER_PORT_SHARES_H
#define CLEAVE_MIDDLETIER_PORT_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/units.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "port/share_queue.h"
#include "port/share_window.h"

struct mt_session;
struct mt_share_held;
struct split_msg;

/* A volume that has sessions at the port, each with a request since there are shares here. */
struct mt_share_volume {
	struct loop_link link; /* shares->volumes */
	uint64_t volume_id;
	uint32_t session_count; /* that point to this */
	struct share share;
	struct share_flow flows[2]; /* [1]: of its writes */
};

/* Requests of one kind: reads wait for reads alone, so nothing that keeps writes from going on keeps them. */
struct mt_share_kind {
	struct share_queue queue;
	struct share_window window;
	uint64_t seen_done, seen_ns; /* flow.done when it had grown last, and when that was */
	uint64_t
	    open_until_ns; /* nothing came back for SHARES_STALL_NS: nobody waits here until then */
};

/* A request that was held may go: it is checked anew. */
typedef void (
    *mt_shares_fn)(struct mt_session *session, struct split_msg *msg, const struct wire_io *io);

struct mt_shares {
	struct mt_port *port;
	mt_shares_fn fn;
	struct mt_share_held *entries; /* one for each receive of the port */
	struct loop_link free, volumes;
	struct mt_share_kind kinds[2]; /* [1]: writes */
	uint64_t last_id;              /* the volume of the newest request */
	uint64_t other_ns;             /* when one came of another volume than the one before it */
	uint64_t wished_ns;           /* when one came of a volume that has a minimum or a weight */
	struct loop_task task;        /* requests have ended: who is next? */
	struct loop_timer tick_timer; /* SHARE_TICK_NS, while several volumes want something */
};

/*
 * mt_shares_init -- before the port listens: its receives are counted
 *
 * @fn is called for what was held, on the port's thread, from a task of its loop. Returns 0; -ENOMEM.
 */
int mt_shares_init(struct mt_port *port, mt_shares_fn fn);
/* mt_shares_fini -- when no queue pair is left; also where init failed, or never ran. */
void mt_shares_fini(struct mt_port *port);

/* mt_shares_are_used -- a volume with a minimum or a weight has sessions here: requests are to be judged. */
static inline bool
mt_shares_are_used(const struct mt_port *port)
{
	return port->flow.share_sessions > 0;
}
/*
 * mt_shares_judge -- may a request of @session that could be done now go on?
 *
 * @is_ready: its shard serves, so that it would use something. False: it is held, and comes back by fn, or goes with
 * its session; @msg is the shares' then. Where mt_shares_are_used.
 * Threads: the port's, as for all of this header.
 */
bool mt_shares_judge(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    bool is_ready);
/* mt_shares_set -- the volume has these from now on; sessions know it already (mt_throttle_set). */
void mt_shares_set(struct mt_port *port, uint64_t volume_id, const struct cleave_limits *limits);
/* mt_shares_drop -- @session has gone: what is held of it is not done (I11), nor answered. */
void mt_shares_drop(struct mt_session *session);

#endif /* CLEAVE_MIDDLETIER_PORT_SHARES_H */
