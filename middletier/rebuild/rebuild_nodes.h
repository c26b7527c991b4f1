/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_nodes.h -- the storage nodes that a rebuild asks: what they hold, and which store they obey */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_NODES_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/wire.h"
#include "common/port.h"
#include "extent/call.h"

struct mt_link;
struct mt_rebuild_nodes;
struct mt_survey;
struct split_key;

struct mt_rebuild_node {
	struct mt_rebuild_nodes *nodes;
	struct mt_link *link;
	struct mt_call call;
	bool is_out;            /* call is */
	bool is_listed;         /* to its end */
	struct store_id obeyed; /* is_listed: which store it obeyed then; zero: none */
	uint32_t node_id;       /* of one that was up when the listing began */
	uint32_t extent_count;
	void (*on_revoked)(struct mt_rebuild_node *node); /* it was asked (rebuild_revoked.h) */
};

struct mt_rebuild_nodes {
	struct mt_port *port;     /* a link of it each; borrowed */
	struct mt_survey *survey; /* filled by the listing; borrowed */
	struct mt_rebuild_node node[MT_NODES_MAX];
	struct split_key *key;  /* the port's, and lists of revoked ones; NULL: it has none */
	uint32_t revoked_count; /* nodes that had a list */
	void (*fn)(void *arg);  /* NULL: no listing is under way */
	void *arg;
};

/* mt_rebuild_nodes_init -- none is asked yet. */
void mt_rebuild_nodes_init(struct mt_rebuild_nodes *nodes, struct mt_port *port,
    struct mt_survey *survey);
/* mt_rebuild_nodes_fini -- no call is out any more. */
void mt_rebuild_nodes_fini(struct mt_rebuild_nodes *nodes);
/*
 * mt_rebuild_nodes_list -- every copy on every node that is up goes into the survey
 *
 * A node whose list breaks off is not is_listed, and the survey has nothing of it. The log names each.
 *
 * Returns: 0: @fn once, when all have ended; perhaps within the call. Else never, and @ret_text says why:
 *          -EINVAL two addresses lead to one node; -ENODATA no node is up.
 * Threads: the port's.
 */
int mt_rebuild_nodes_list(struct mt_rebuild_nodes *nodes, void (*fn)(void *arg), void *arg,
    char *ret_text, size_t text_bytes);
/* mt_rebuild_nodes_unlisted -- the number of nodes of which it is not known what they hold. */
uint32_t mt_rebuild_nodes_unlisted(const struct mt_rebuild_nodes *nodes);
/* mt_rebuild_nodes_is_listed -- it is known what @node_id holds. */
bool mt_rebuild_nodes_is_listed(const struct mt_rebuild_nodes *nodes, uint32_t node_id);
/* mt_rebuild_nodes_obey -- every node that was listed obeyed @store_id then, or no store. */
bool mt_rebuild_nodes_obey(const struct mt_rebuild_nodes *nodes, const struct store_id *store_id);
/* mt_rebuild_nodes_untold -- the number of listed nodes that are not up now, or do not obey @store_id yet. */
uint32_t mt_rebuild_nodes_untold(const struct mt_rebuild_nodes *nodes,
    const struct store_id *store_id);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_NODES_H */
