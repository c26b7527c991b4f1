/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_list.h -- all keys that begin so, of one moment, in pages */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_LIST_H
#define CLEAVE_MIDDLETIER_META_ETCD_LIST_H

#include "cleave/loop.h"
#include "cleave/meta.h"

struct etcd_client;

/*
 * etcd_list_start -- list the seam's keys that begin with @prefix into @fn, as the seam says it
 *
 * The listing is in @lists until it is over. Returns: 0; -ENOMEM: @fn is never called.
 */
int etcd_list_start(struct etcd_client *client, struct loop_link *lists, const char *prefix,
    meta_list_fn fn, void *arg);
/* etcd_list_cancel_all -- nobody is called any more. */
void etcd_list_cancel_all(struct loop_link *lists);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_LIST_H */
