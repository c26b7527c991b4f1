/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_share.h -- a volume's limit, divided among all ports of all gateways: arithmetic alone
 *
 * A client that keeps its limits is held nowhere, whichever ports it goes to: there every port may take the whole limit.
 * One that does not makes ports *want*: they hold its requests. Or it stays below the limit at each of them, and is over
 * it with all of them together: that is seen by the *debt* of the volume, of all ports, which no client has that keeps
 * its limits. Then all ports get the same share, so large that what they use together is the limit ("max-min"): those
 * that use less leave the rest to the others.
 *
 *	share = (limit - what ports use that use less than share) / how many others there are
 *
 * Uses and shares are parts of the limit: LIMIT_SHARE_ALL is all of it. Of a volume's six limits the one counts that
 * requests use most of. Each gateway works its ports' share out by itself, from what it has heard: cluster/limit_round.c.
 */
#ifndef CLEAVE_MIDDLETIER_PORT_LIMIT_SHARE_H
#define CLEAVE_MIDDLETIER_PORT_LIMIT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bucket.h"

#define LIMIT_SHARE_ALL LIMITER_SHARE_ALL
#define LIMIT_SHARE_MIN 256u /* no port waits for ever */

/* Ports of one gateway at which a volume is used. */
struct limit_use {
	uint32_t wanting;     /* ports that hold requests of it, or have in the last second */
	uint32_t quiet;       /* the others */
	uint64_t quiet_spent; /* of these together */
	uint64_t spent;       /* of all */
};

/* All that a gateway knows of a volume's debt. */
struct limit_debt {
	uint64_t debt_ns; /* of the limit: used by all ports beyond it, and not made good */
	uint64_t at_ns;   /* as of then; 0: never counted */
};

/* mt_limit_debt_add -- all ports together have used @spent since the last time. @depth_ns: what a client may be behind, at most. */
void mt_limit_debt_add(struct limit_debt *debt, uint64_t spent, uint64_t depth_ns, uint64_t now_ns);
/*
 * mt_limit_debt_all -- what all ports together may use: LIMIT_SHARE_ALL where the debt is @depth_ns, else more, or less
 *
 * So the debt stays where it is, whatever was wrong with the figures, or was not used of a share. Below LIMIT_SHARE_ALL the
 * client owes more than one that keeps its limits can.
 */
uint32_t mt_limit_debt_all(const struct limit_debt *debt, uint64_t depth_ns);
/*
 * mt_limit_share -- what each port may use of the limit, LIMIT_SHARE_MIN to LIMIT_SHARE_ALL
 *
 * @uses: of @count gateways. @all: mt_limit_debt_all.
 */
uint32_t mt_limit_share(const struct limit_use *uses, uint32_t count, uint32_t all);

#endif /* CLEAVE_MIDDLETIER_PORT_LIMIT_SHARE_H */
