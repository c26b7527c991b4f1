/* SPDX-License-Identifier: Apache-2.0 */
/* view_heir.h -- where our shards go without us, for our ports, which tell these gateways of what they write */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VIEW_HEIR_H
#define CLEAVE_MIDDLETIER_CLUSTER_VIEW_HEIR_H

struct mt_member;

/* mt_heirs_tell -- the view was read: ports are told of their heirs. A no-op where no port keeps heads of batches. */
void mt_heirs_tell(const struct mt_member *member);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VIEW_HEIR_H */
