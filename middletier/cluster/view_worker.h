/* SPDX-License-Identifier: Apache-2.0 */
/* view_worker.h -- the other gateways, for our ports, whose merges may go there */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VIEW_WORKER_H
#define CLEAVE_MIDDLETIER_CLUSTER_VIEW_WORKER_H

struct mt_member;

/* mt_view_workers_tell -- the view was read: ports are told of the others' ports. A no-op without --offload. */
void mt_view_workers_tell(const struct mt_member *member);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VIEW_WORKER_H */
