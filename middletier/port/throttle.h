/* SPDX-License-Identifier: Apache-2.0 */
/* throttle.h -- requests of volumes that are over their limits, held by a port until their time comes */
#ifndef CLEAVE_MIDDLETIER_PORT_THROTTLE_H
#define CLEAVE_MIDDLETIER_PORT_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bucket.h"
#include "base/num.h"
#include "catalog/volume.h"
#include "cleave/loop.h"
#include "cleave/wire.h"

struct mt_port;
struct mt_session;
struct split_msg;

/* A client that keeps its limits may be behind by so much, at a port: it sends again after an interruption. */
#define MT_THROTTLE_SPARE_NS NUM_S(5)
/* Volumes that `cleave status` and monitors are told of, a port: those that waited longest. */
#define MT_THROTTLE_TOLD_MAX 32u

/* Volumes whose use a port tells, for one limit over all ports: those that use most. */
#define MT_THROTTLE_USES_MAX 32u
/* A share holds for so long: who is told nothing keeps the whole limit by itself. */
#define MT_THROTTLE_SHARE_NS NUM_S(5)
/* A volume of which a port has held something is one that wants for so long. */
#define MT_THROTTLE_WANTS_NS NUM_S(1)

/* A volume with limits that has sessions at the port, or had some and has not paid for all yet. */
struct mt_throttle_volume {
	struct loop_link link;      /* throttle->volumes */
	struct loop_link wait_link; /* throttle->waiting: it has requests that are held */
	uint64_t volume_id;
	char name[MT_NAME_BYTES]; /* as its newest session knows it */
	struct limiter limiter;
	struct loop_link held; /* its requests, in order of arrival */
	uint32_t held_count;
	uint32_t session_count;           /* that point to this */
	uint64_t waited_count, waited_ns; /* requests that were held and let go, and for how long */
	uint64_t refused_count;           /* answered BUSY: enough are held */
	uint32_t share;          /* of the limit, of LIMITER_SHARE_ALL, that this port has, */
	uint64_t share_until_ns; /* until then; then all of it */
	uint64_t held_ns;        /* when something was held last; 0: never */
	uint64_t spent_ns, spent_since_ns; /* of the limit, since then: mt_throttle_uses */
};

/* How much of its limit a volume has used at a port; 65536 (LIMITER_SHARE_ALL) is all of it. */
struct mt_throttle_use {
	uint64_t volume_id, spent;
	bool is_wanting; /* and something was held */
};

/* A volume of which a port has held requests, for status and monitors. */
struct mt_throttle_told {
	char name[MT_NAME_BYTES];
	uint32_t held_count;
	uint64_t waited_count, waited_ns, refused_count;
};

/* A request that was held may go: it is checked anew, and charged where it passes. */
typedef void (
    *mt_throttle_fn)(struct mt_session *session, struct split_msg *msg, const struct wire_io *io);

struct mt_throttle {
	struct mt_port *port;
	mt_throttle_fn fn;
	struct mt_throttle_held *entries;   /* held_max of them */
	uint32_t held_max, volume_held_max; /* of all volumes; of one */
	uint32_t held_count;
	struct loop_link free, volumes, waiting;
	struct loop_timer timer; /* the first of waiting may go on */
};

enum mt_throttle_verdict {
	MT_THROTTLE_GO,   /* charged: do it */
	MT_THROTTLE_HELD, /* the throttle's: it comes back by fn, or goes with its session */
	MT_THROTTLE_BUSY, /* neither: its client shall come again */
};

/*
 * mt_throttle_init -- before the port listens: its receives are counted
 *
 * @fn is called for what was held, on the port's thread, by a timer or within mt_throttle_set. Returns 0; -ENOMEM.
 */
int mt_throttle_init(struct mt_port *port, mt_throttle_fn fn);
/* mt_throttle_fini -- when no queue pair is left; also where init failed, or never ran. */
void mt_throttle_fini(struct mt_port *port);
/*
 * mt_throttle_judge -- a request of @session that could be done now
 *
 * @was_held: it comes from fn, so nothing is before it, and its time has come. @session has limits (limits_tag).
 * Ownership: MT_THROTTLE_HELD: @msg is the throttle's.
 * Threads:   the port's, as for all of this header.
 */
enum mt_throttle_verdict mt_throttle_judge(struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io, bool was_held);
/* mt_throttle_set -- the volume has these limits now; what may go by them goes. */
void mt_throttle_set(struct mt_port *port, uint64_t volume_id, const struct cleave_limits *limits);
/* mt_throttle_uses -- since it was asked last, into @ret_uses; returns how many volumes: none that hardly uses its limit. */
uint32_t mt_throttle_uses(struct mt_port *port,
    struct mt_throttle_use ret_uses[MT_THROTTLE_USES_MAX]);
/* mt_throttle_share -- for MT_THROTTLE_SHARE_NS the volume has @share of its limit here, if it wants more or @is_over it. */
void mt_throttle_share(struct mt_port *port, uint64_t volume_id, uint32_t share, bool is_over);
/* mt_throttle_drop -- @session has gone: what is held of it is not done (I11), nor answered. */
void mt_throttle_drop(struct mt_session *session);
/* mt_throttle_holds -- does a request wait here that is of shard @shard_number? */
bool mt_throttle_holds(const struct mt_port *port, uint32_t shard_number);
/* mt_throttle_is_used -- volumes with limits have, or had lately, sessions here. */
bool mt_throttle_is_used(const struct mt_port *port);
/* mt_throttle_tell -- at most MT_THROTTLE_TOLD_MAX volumes that have waited, into @ret_told; returns how many. */
uint32_t mt_throttle_tell(const struct mt_port *port,
    struct mt_throttle_told ret_told[MT_THROTTLE_TOLD_MAX]);

#endif /* CLEAVE_MIDDLETIER_PORT_THROTTLE_H */
