/* SPDX-License-Identifier: Apache-2.0 */
/* list_page.h -- a page of a node's list of its copies, checked whole before anybody believes it */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LIST_PAGE_H
#define CLEAVE_MIDDLETIER_EXTENT_LIST_PAGE_H

struct mt_call;
struct mt_port;
struct split_msg;
struct wire_listed;
struct wire_node_reply;

/* 0, or what ends the walk. */
typedef int (*mt_listed_fn)(const struct wire_listed *listed, void *arg);

/*
 * mt_list_page -- @fn for each copy in the page that answered @call
 *
 * The page and its cursor are checked first, all of them: of a page that a node may not send, no copy
 * is told. That is logged with the node's name and the field.
 *
 * Ownership: @msg stays the caller's; NULL is a page without copies.
 * Returns:   0; -EPROTO: not what a node may say; what @fn returned.
 */
int mt_list_page(struct mt_port *port, const struct mt_call *call,
    const struct wire_node_reply *reply, const struct split_msg *msg, mt_listed_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_EXTENT_LIST_PAGE_H */
