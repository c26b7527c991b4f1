/* SPDX-License-Identifier: Apache-2.0 */
/* control_upgrade.h -- the cluster's level (cleave/level.h): whether it can be raised, and that it is */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_UPGRADE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_UPGRADE_H

struct mt_control_request;

/* mt_control_cluster_level -- the op cluster.level: the level, the next one, and who does not speak that. */
void mt_control_cluster_level(struct mt_control_request *request);
/* mt_control_cluster_upgrade -- the op cluster.upgrade: raise it by one, if everybody speaks that. */
void mt_control_cluster_upgrade(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_UPGRADE_H */
