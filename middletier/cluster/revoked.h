/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.h -- this gateway's key, and the lists of revoked ones as the store has them: the key MT_REVOKED_KEY, read,
 * watched, and told to the ports, which tell the nodes
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_REVOKED_H
#define CLEAVE_MIDDLETIER_CLUSTER_REVOKED_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"
#include "cleave/secure.h"
#include "cluster/watched.h"

struct mt_gateway;
struct split_key;

/* The value is the lists, in PEM, one behind the other: nothing of ours is round them. Level CLEAVE_LEVEL_REVOKED. */
#define MT_REVOKED_KEY "revoked"

/* Main's. */
struct mt_revoked {
	struct split_key
	    *key; /* a share: that the ports have, or are being told; NULL: the gateway has none */
	uint64_t version; /* of the store's key when it was read last; 0: there was none */
	bool is_stored;   /* what was read has all that the key knows */
	bool is_loaded;   /* it was read since the start, and the ports know */
	bool is_untold;   /* the key has changed, and not all ports know */
	char refused
	    [SPLIT_KEY_WHY_BYTES_MAX]; /* why what was read last is not taken, or not all of it; "": it is */
	uint64_t refused_ns;           /* since when */
	struct mt_watched watched;
};

/* mt_revoked_init -- @key: NULL: there are no lists then. mt_revoked_fini -- who waits gets -ECANCELED. */
void mt_revoked_init(struct mt_gateway *gateway, const struct split_key *key);
void mt_revoked_fini(struct mt_gateway *gateway);
/* mt_revoked_watch -- from now on what the store has counts, within a moment. Of a gateway with a key. 0; -ENOMEM. */
int mt_revoked_watch(struct mt_gateway *gateway);
void mt_revoked_unwatch(struct mt_gateway *gateway);
/*
 * mt_revoked_is_ready -- may anybody who showed a key be answered?
 *
 * Not before the lists of the store were read: a gateway that starts would let in who was revoked before.
 */
bool mt_revoked_is_ready(const struct mt_gateway *gateway);
/*
 * mt_revoked_read -- what the store has now; those who ask meanwhile share a reading
 *
 * @waiter->fn, once, never within the call but with -ENOMEM: 0, and every port was told; -EIO, -ETIMEDOUT, -ENOMEM;
 * -ECANCELED: the gateway goes.
 */
void mt_revoked_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter);
/* mt_revoked_rekey -- a renewed @key, whose lists are at least those of the one before: the ports are told. */
void mt_revoked_rekey(struct mt_gateway *gateway, const struct split_key *key);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_REVOKED_H */
