/* SPDX-License-Identifier: Apache-2.0 */
/* volume_change.h -- this gateway's changes of volumes, and the reading that ends each of them */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VOLUME_CHANGE_H
#define CLEAVE_MIDDLETIER_CLUSTER_VOLUME_CHANGE_H

#include <stdint.h>

#include "catalog/volume.h"
#include "cleave/meta.h"

struct mt_cluster;
struct mt_data_key;
struct mt_gateway;
struct mt_holder;

/*
 * mt_cluster_count -- make the counters @next's, and give what was numbered its key, in one transaction
 *
 * @key, which must not be there yet, is put with the value @text; NULL: -ENOMEM. So is @data_key's own key, where it is
 * not NULL. Nothing is written unless the key "cluster" has @next's version.
 * Returns: 0: @fn once, as of a transaction (cleave/meta.h); < 0: never.
 */
int mt_cluster_count(struct mt_gateway *gateway, const struct mt_cluster *next, const char *key,
    const char *text, const struct mt_data_key *data_key, meta_txn_fn fn, void *arg);

/* mt_volumes_load -- read cluster and volumes anew; @fn's rc: 0 or why not. */
int mt_volumes_load(struct mt_gateway *gateway, mt_volume_fn fn, void *arg);
/*
 * mt_volumes_read_cluster -- the answer to a list of "cluster" becomes gateway->cluster
 *
 * Once the gateway has started, the counters alone do. @rc is the list's. Returns 0; @rc; -ENOENT: there is
 * no such key; -EBADMSG: it cannot be read, or is of another cluster or store; -EPROTONOSUPPORT: it is of a
 * level that this gateway does not speak, which has failed.
 */
int mt_volumes_read_cluster(struct mt_gateway *gateway, int rc, const struct meta_item *items,
    uint32_t count);

/*
 * Changes, one at a time: 0 and @fn later, or a negative errno and never. @fn's rc: 0 durable;
 * -EAGAIN another change came first (and has been read by now). A wish with a key_id is that of mt_data_keys_made.
 */
int mt_volume_create(struct mt_gateway *gateway, const struct mt_volume *wish, mt_volume_fn fn,
    void *arg);
int mt_volume_attach(struct mt_gateway *gateway, const char *name, uint64_t session_id,
    const struct mt_holder *holder, mt_volume_fn fn, void *arg);
/* mt_volume_detach -- its session has closed it; -ENOENT: that session does not have it. */
int mt_volume_detach(struct mt_gateway *gateway, uint64_t volume_id, uint64_t session_id,
    mt_volume_fn fn, void *arg);
int mt_volume_delete(struct mt_gateway *gateway, const char *name, mt_volume_fn fn, void *arg);
/* mt_volumes_stamp -- attach numbers, and versions of keys, that are new here were heard of now. */
void mt_volumes_stamp(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VOLUME_CHANGE_H */
