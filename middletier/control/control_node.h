/* SPDX-License-Identifier: Apache-2.0 */
/* control_node.h -- changes of the cluster's storage nodes: what is common to them, and add, show, usage */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/node_probe.h"

struct mt_control_request;
struct mt_node;

typedef void (*mt_control_node_fn)(struct mt_control_request *request);

/*
 * mt_control_node_begin -- read the nodes as the store has them now, then @fn
 *
 * Where nodes are no members, or the store does not answer, the request ends here, and the text says what to do.
 */
void mt_control_node_begin(struct mt_control_request *request, mt_control_node_fn fn);
/*
 * mt_control_node_put -- request->node.node becomes its key's value, and the request ends: with the node, or why not
 *
 * @what: for the log, "drained" and the like. It is logged when it is durable.
 */
void mt_control_node_put(struct mt_control_request *request, const char *what);
/*
 * mt_control_node_take -- members that describe a node, into request->node.node
 *
 * NULL, and @weight 0: it was not given. False: the request has ended, the text says why.
 */
bool mt_control_node_take(struct mt_control_request *request, const char *address,
    const char *domain, uint64_t weight, const char *note);
/* mt_control_node_probe -- who answers at request->node.node.address: @fn, with @request; else the request ends, and says why */
void mt_control_node_probe(struct mt_control_request *request, mt_node_probe_fn fn);
/* mt_control_node_answer -- the request ends, with @node; a set (request->node.changes) says whether it is other than before */
void mt_control_node_answer(struct mt_control_request *request, const struct mt_node *node,
    bool is_changed);

void mt_control_node_add(struct mt_control_request *request);
void mt_control_node_show(struct mt_control_request *request);
void mt_control_node_usage(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_H */
