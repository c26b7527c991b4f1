/* SPDX-License-Identifier: Apache-2.0 */
/* control.h -- what people and gateways ask about a node: LIST, and JSON */
#ifndef CLEAVE_STORAGE_CONTROL_H
#define CLEAVE_STORAGE_CONTROL_H

struct node;
struct sn_request;
struct split_msg;

/* sn_control_init -- the memory in which answers are made, once. Returns 0 or -ENOMEM. */
int sn_control_init(struct node *node);
/* sn_control_fini -- free it. Also before sn_control_init. */
void sn_control_fini(struct node *node);
/* sn_list_run -- @req, a decoded LIST: answered at once with the entries that fit, and the next cursor. READY. */
void sn_list_run(struct sn_request *req);
/*
 * sn_control_run -- answer @msg, a CONTROL message, at once
 *
 * Returns 0: @msg is gone; -EPROTO and *@ret_field, a static name: @msg is the caller's still, its queue pair is to
 * be closed.
 */
int sn_control_run(struct node *node, struct split_msg *msg, const char **ret_field);

#endif /* CLEAVE_STORAGE_CONTROL_H */
