/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_revoked.h -- lists of revoked keys, which nodes have from the gateways that were: they are in the new store, too */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_REVOKED_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_REVOKED_H

struct mt_rebuild_copy;
struct mt_rebuild_node;
struct mt_rebuild_nodes;
struct mt_rebuild_store;

/*
 * mt_rebuild_revoked_ask -- have @node say which lists of revoked keys it has; they are added to nodes->key
 *
 * Lists are signed, so a node is believed in nothing. One that does not answer, or is of a release that does not say, is
 * named in the log.
 *
 * Returns: 0: @fn once, later, and node->call is out until then; else a negative errno, and @fn never is.
 * Threads: the port's.
 */
int mt_rebuild_revoked_ask(struct mt_rebuild_node *node, void (*fn)(struct mt_rebuild_node *node));
/*
 * mt_rebuild_revoked_plan -- what nodes->key has, and what the old store had, is what @store shall have; the log says it
 *
 * A no-op where the recovery has no key. Where the old store has lists of an authority that this key does not know, they
 * stay as they are, and nothing is added. Returns 0; -ENOMEM.
 */
int mt_rebuild_revoked_plan(struct mt_rebuild_nodes *nodes, struct mt_rebuild_store *store);

/*
 * mt_rebuild_revoked_copy -- likewise of a copy of another store's keys: *@ret_lists is nodes->key's, or NULL: as there
 *
 * A copy that is left as it is gets none: the log warns. Returns 0; -ENOMEM.
 */
int mt_rebuild_revoked_copy(struct mt_rebuild_nodes *nodes, const struct mt_rebuild_copy *copy,
    const char **ret_lists);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_REVOKED_H */
