/* SPDX-License-Identifier: Apache-2.0 */
/* node_import.h -- the nodes of the options become the cluster's: once, by whichever gateway is first */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_NODE_IMPORT_H
#define CLEAVE_MIDDLETIER_CLUSTER_NODE_IMPORT_H

struct mt_gateway;

/*
 * mt_node_import -- write the options' nodes into the store, when all of them have said who they are
 *
 * The table was just read, and the store names no nodes. A no-op while one is under way. It ends in another reading of
 * the table.
 */
void mt_node_import(struct mt_gateway *gateway);
/* mt_node_import_stop -- it goes no further. mt_node_import_fini -- free it; nobody runs main's loop any more. */
void mt_node_import_stop(struct mt_gateway *gateway);
void mt_node_import_fini(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_NODE_IMPORT_H */
