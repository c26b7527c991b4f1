/* SPDX-License-Identifier: Apache-2.0 */
/* control_node.h -- changes of the cluster's storage nodes: what is common to them, and add, set, show, usage */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_H

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

void mt_control_node_add(struct mt_control_request *request);
void mt_control_node_set(struct mt_control_request *request);
void mt_control_node_show(struct mt_control_request *request);
void mt_control_node_usage(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_NODE_H */
