/* SPDX-License-Identifier: Apache-2.0 */
/* link_store.h -- whose store a link speaks for, and nodes that obey another */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LINK_STORE_H
#define CLEAVE_MIDDLETIER_EXTENT_LINK_STORE_H

#include <stdbool.h>

struct mt_link;
struct mt_port;
struct wire_hello;

/* mt_link_store_hello -- @hello says our store, and one of those that it replaces. */
void mt_link_store_hello(struct mt_link *link, struct wire_hello *hello);
/* mt_link_store_next -- the node refused our store: is there another that ours replaces to tell it of? */
bool mt_link_store_next(struct mt_link *link);
/* mt_link_store_refused -- there is none: said once; shards stop where the other nodes are too few. */
void mt_link_store_refused(struct mt_link *link);
/* mt_port_is_refused -- fewer nodes than --min-replicas are left that may obey our store. */
bool mt_port_is_refused(const struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_EXTENT_LINK_STORE_H */
