/* SPDX-License-Identifier: Apache-2.0 */
/* root_ops.h -- a shard's root in the metadata store, which belongs to main: shards ask for it */
#ifndef CLEAVE_MIDDLETIER_COMMON_ROOT_OPS_H
#define CLEAVE_MIDDLETIER_COMMON_ROOT_OPS_H

#include "common/port.h"
#include "common/shard.h"

struct mt_manifest_state;
struct mt_root;

typedef void (*mt_root_fn)(int rc, const struct mt_root *root, void *arg);

/* A port's way to the metadata store: cluster/meta_proxy.c has them. What each does stands at its call below. */
struct mt_root_ops {
	int (*load)(struct mt_shard *shard, mt_root_fn fn, void *arg);
	int (*store)(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg);
	int (*claim)(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg);
	void (*abandon)(struct mt_shard *shard);
	int (*volumes_refresh)(struct mt_shard *shard, void (*fn)(int rc, void *arg), void *arg);
	int (*mirror_check)(struct mt_shard *shard, const struct mt_manifest_state *state,
	    void (*fn)(int rc, void *arg), void *arg);
};

/*
 * mt_shard_volumes_refresh -- main reads the volumes anew, for a shard that was claimed
 *
 * What was attached or deleted elsewhere before the claim is known on this gateway, and older sessions
 * are closed, when @fn runs with rc 0, on the shard's port loop. Else -EIO, -ETIMEDOUT, -ENOMEM,
 * -ESHUTDOWN. Returns 0; -ENOMEM: no handler. mt_root_abandon covers these calls as well.
 */
static inline int
mt_shard_volumes_refresh(struct mt_shard *shard, void (*fn)(int rc, void *arg), void *arg)
{
	return shard->port->root_ops->volumes_refresh(shard, fn, arg);
}

/*
 * mt_shard_mirror_check -- is the metadata store as new as the mirror in this shard's manifest?
 *
 * @state is read before it returns. It is what the manifest says once its nodes obey the new epoch, so the
 * store, which main reads after that, knows at least as much. Where it knows less it is an older copy: @fn
 * gets -ESTALE, and the gateway has failed (mt_gateway_fail). Else as mt_shard_volumes_refresh.
 */
static inline int
mt_shard_mirror_check(struct mt_shard *shard, const struct mt_manifest_state *state,
    void (*fn)(int rc, void *arg), void *arg)
{
	return shard->port->root_ops->mirror_check(shard, state, fn, arg);
}

/*
 * mt_root_load, mt_root_store -- read @shard's root; put another one in its place
 *
 * Completions run on the shard's port loop. load: rc 0 and the root; -ENOENT there is none yet;
 * -EBADMSG it cannot be understood; -EIO, -ETIMEDOUT, -ENOMEM: try again.
 *
 * store: a compare-and-swap on root->version (0: must be absent). rc 0 and the root as it is now,
 * with its version; -ESTALE somebody else has changed it; -EIO, -ETIMEDOUT, -ENOMEM, -ENOSPC it is
 * not known to have happened: store the same root again until it is 0 or -ESTALE.
 *
 * Return 0; -ENOMEM: no handler.
 */
static inline int
mt_root_load(struct mt_shard *shard, mt_root_fn fn, void *arg)
{
	return shard->port->root_ops->load(shard, fn, arg);
}

static inline int
mt_root_store(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg)
{
	return shard->port->root_ops->store(shard, root, fn, arg);
}

/*
 * mt_root_claim -- store @root, which names us as its owner under a new epoch, if nobody living owns it
 *
 * Beside the compare of mt_root_store: the old owner is ourselves, or has released it, or its key
 * "gateways/ID" is gone or of another boot; and our own key is as we left it. @root->version is that of
 * the root it was made from. rc as of mt_root_store, and -EBUSY: the old owner lives, or we are no
 * member just now; nothing was changed, and it is worth another try later. To release: mt_root_store
 * with is_released.
 */
static inline int
mt_root_claim(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg)
{
	return shard->port->root_ops->claim(shard, root, fn, arg);
}

/* mt_root_abandon -- forget @shard's calls: their handlers are not called any more. */
static inline void
mt_root_abandon(struct mt_shard *shard)
{
	shard->port->root_ops->abandon(shard);
}

#endif /* CLEAVE_MIDDLETIER_COMMON_ROOT_OPS_H */
