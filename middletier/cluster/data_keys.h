/* SPDX-License-Identifier: Apache-2.0 */
/* data_keys.h -- the data keys of encrypted volumes: the keys "keys/", read, watched, unwrapped, told to the ports */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_H
#define CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/data_key.h"
#include "catalog/volume.h"
#include "cleave/loop.h"
#include "cluster/watched.h"
#include "kms/kms.h"

struct keyring;
struct mt_gateway;

#define MT_DATA_KEY_CALLS 8u /* that are unwrapped at a time */

/* Main's. */
struct mt_data_keys {
	struct mt_data_key_table table; /* as the store had it at some time since the start */
	int *open_rcs; /* of each of the table: 0 it is in the ring, 1 not tried yet, or why not */
	struct keyring *ring; /* those that are open here; NULL: no memory */
	uint32_t bad_count;   /* keys that cannot be read */
	bool is_loaded;
	struct mt_watched watched;
	struct loop_timer retry_timer; /* until those that could not be unwrapped are tried again */
	struct mt_data_key_call {
		struct mt_kms_call call;
		struct mt_gateway *gateway;
		bool is_out, is_first; /* is_first: the reading waits for it */
	} calls[MT_DATA_KEY_CALLS];
	struct loop_link tells;   /* out with the ports */
	char why[MT_ERROR_BYTES]; /* of the last that failed otherwise than for want of a KEK */
	uint64_t refused_ns; /* when a session was last refused for want of a key; 0: none was */
	char refused[MT_NAME_BYTES]; /* its volume */
	/* A data key that is being made: changes of volumes are made one after the other. */
	struct mt_kms_call make;
	bool is_making, is_made;
	void (*make_fn)(int rc, void *arg);
	void *make_arg;
};

/* mt_data_keys_init -- none is known. 0; -ENOMEM. */
int mt_data_keys_init(struct mt_gateway *gateway);
/* mt_data_keys_drop_waiters -- the gateway goes: who waits for a reading gets -ECANCELED. */
void mt_data_keys_drop_waiters(struct mt_gateway *gateway);
/* mt_data_keys_fini -- nobody runs the ports' loops any more, and nobody waits: all secrets are wiped. */
void mt_data_keys_fini(struct mt_gateway *gateway);
/*
 * mt_data_keys_watch -- from now on the ports have what the store has, within a moment, as far as its KEKs are here
 *
 * Returns 0; -ENOMEM.
 */
int mt_data_keys_watch(struct mt_gateway *gateway);
void mt_data_keys_unwatch(struct mt_gateway *gateway);
/*
 * mt_data_keys_read -- read them anew; those who ask meanwhile share a reading
 *
 * @waiter->fn, once, never within the call but with -ENOMEM: 0, and each key that is new was tried, and sent to every
 * port before it; -EIO, -ETIMEDOUT, -ENOMEM; -ECANCELED: the gateway goes.
 */
void mt_data_keys_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter);

/* mt_data_keys_refused -- a session waits for a key of @volume: for health. */
void mt_data_keys_refused(struct mt_gateway *gateway, const char *volume);
/* mt_data_keys_missing -- how many are not open here; *@ret_first: the first of them, or NULL. */
uint32_t mt_data_keys_missing(const struct mt_gateway *gateway,
    const struct mt_data_key **ret_first);

/*
 * mt_data_keys_make -- a new data key for @volume, wrapped with @kek
 *
 * One at a time. @fn, once, later: 0 and mt_data_keys_made has it until mt_data_keys_done; or as mt_kms_wrap, and
 * make.why says why. Returns 0; -EBUSY; -ENOSPC no id is left; -EIO no random bytes: @fn is not called.
 */
int mt_data_keys_make(struct mt_gateway *gateway, uint64_t volume, const char *kek,
    void (*fn)(int rc, void *arg), void *arg);
const struct mt_data_key *mt_data_keys_made(const struct mt_gateway *gateway);
/*
 * mt_data_keys_done -- the key that was made is in the store (@is_stored), and goes to every port now; or is forgotten
 *
 * Its secret is wiped here. A no-op where none was made.
 */
void mt_data_keys_done(struct mt_gateway *gateway, bool is_stored);
/* mt_data_keys_of -- keys of @volume: up to @max ids into @ret_ids, in order. Returns how many there are. */
uint32_t mt_data_keys_of(const struct mt_gateway *gateway, uint64_t volume, uint64_t *ret_ids,
    uint32_t max);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_H */
