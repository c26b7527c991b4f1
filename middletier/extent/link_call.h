/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_call.h -- the calls that are on a link: sent, answered, given up; and what the answers say of room
 *
 * For node_link.c and link_status.c; others call mt_link_call (node_link.h).
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LINK_CALL_H
#define CLEAVE_MIDDLETIER_EXTENT_LINK_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

struct mt_call;
struct mt_link;
struct split_msg;

/* mt_link_calls_init -- no call is out. Returns 0; -ENOMEM: mt_link_calls_fini takes what there is. */
int mt_link_calls_init(struct mt_link *link);
/* mt_link_calls_fini -- calls that are out end unseen: the process is being killed. */
void mt_link_calls_fini(struct mt_link *link);
/* mt_link_calls_pause -- the queue pair has gone: nothing is timed out any more. */
void mt_link_calls_pause(struct mt_link *link);
/* mt_link_calls_finish -- end every call that is out with @rc; the link is DOWN, so no handler adds one. */
void mt_link_calls_finish(struct mt_link *link, int rc);

/* mt_link_submit -- mt_link_call, whether the link is UP yet or not; its queue pair is there. */
int mt_link_submit(struct mt_link *link, struct mt_call *call);
/*
 * mt_link_on_message -- an answer has come
 *
 * Returns 0: its call has @msg now, or it is released; else what is wrong, in @ret_field, too: @msg is the
 * caller's, who closes the queue pair.
 */
int mt_link_on_message(struct mt_link *link, struct split_msg *msg, const char **ret_field);
/*
 * mt_link_close -- close the queue pair for a reason of ours; its on_closed does the rest
 *
 * The first reason stays: @rc and @reason, which is a constant text.
 */
void mt_link_close(struct mt_link *link, int rc, const char *reason);
/* mt_link_set_read_only -- the node's disk takes writes, or none any more: then its copies are to be elsewhere. */
void mt_link_set_read_only(struct mt_link *link, bool is_read_only);

#endif /* CLEAVE_MIDDLETIER_EXTENT_LINK_CALL_H */
