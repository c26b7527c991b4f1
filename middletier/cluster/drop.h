/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h -- what is deleted is reclaimed */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_DROP_H
#define CLEAVE_MIDDLETIER_CLUSTER_DROP_H

struct mt_gateway;

/* mt_drop_init -- cannot fail: without memory for it nothing is reclaimed, and all else goes on. */
void mt_drop_init(struct mt_gateway *gateway);
/* mt_drop_fini -- nobody runs the ports' loops any more. */
void mt_drop_fini(struct mt_gateway *gateway);
/* mt_drop_kick -- main: the tables have been read; look what can be reclaimed. */
void mt_drop_kick(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_DROP_H */
