/* SPDX-License-Identifier: Apache-2.0 */
/* meta_proxy.h -- the metadata store belongs to the main loop; shards ask through posts */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_META_PROXY_H
#define CLEAVE_MIDDLETIER_CLUSTER_META_PROXY_H

#include "common/root_ops.h"

/* mt_meta_proxy -- the calls of common/root_ops.h, through posts to main and back. */
extern const struct mt_root_ops mt_meta_proxy;

#endif /* CLEAVE_MIDDLETIER_CLUSTER_META_PROXY_H */
