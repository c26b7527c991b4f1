/* SPDX-License-Identifier: Apache-2.0 */
/* view_worker.h -- the other gateways, for our ports, whose merges may go there */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VIEW_WORKER_H
#define CLEAVE_MIDDLETIER_CLUSTER_VIEW_WORKER_H

struct mt_member;

/*
 * mt_view_workers_tell -- the view was read: ports are told of the others' ports, if these have changed
 *
 * A no-op without --offload. No memory: as the last time.
 */
void mt_view_workers_tell(struct mt_member *member);
void mt_view_workers_fini(struct mt_member *member);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VIEW_WORKER_H */
