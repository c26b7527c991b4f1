/* SPDX-License-Identifier: Apache-2.0 */
/* volume_refresh.h -- what other gateways did to the volumes */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VOLUME_REFRESH_H
#define CLEAVE_MIDDLETIER_CLUSTER_VOLUME_REFRESH_H

struct loop_link;
struct mt_gateway;
struct mt_volumes_waiter;

/*
 * mt_volumes_refresh -- read cluster and volumes anew; those who ask meanwhile share one reading
 *
 * @waiter->fn, once (within the call only with -ENOMEM): rc 0 the table is as the store was after the call, and every
 * port knows the attaches and deletions of other gateways; -EIO, -ETIMEDOUT, -ENOMEM; -EBADMSG the
 * cluster's key cannot be understood or is of another cluster; -ESHUTDOWN the gateway stops.
 */
void mt_volumes_refresh(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter);
/* mt_volumes_refresh_soon -- as if a watch had fired, after mt_volumes_watch; else nothing. */
void mt_volumes_refresh_soon(struct mt_gateway *gateway);
/* mt_volumes_watch -- from now on read anew whatever other gateways change. 0 or -ENOMEM. */
int mt_volumes_watch(struct mt_gateway *gateway);
/* mt_volumes_unwatch -- changes by others start no reading any more. */
void mt_volumes_unwatch(struct mt_gateway *gateway);
/* mt_volumes_drop_waiters -- the gateway is destroyed: all get -ECANCELED. */
void mt_volumes_drop_waiters(struct mt_gateway *gateway);
/* mt_waiters_move -- all of a list of mt_volumes_waiter, in order, behind those in @to. mt_waiters_answer -- @rc to all, who go. */
void mt_waiters_move(struct loop_link *from, struct loop_link *to);
void mt_waiters_answer(struct loop_link *waiters, int rc);
/* mt_volumes_on_change_end -- volume_change.c: a change was made, or was not. */
void mt_volumes_on_change_end(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VOLUME_REFRESH_H */
