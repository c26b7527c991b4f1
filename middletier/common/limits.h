/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h -- numbers that many folders share: how many there may be, how long they may be */
#ifndef CLEAVE_MIDDLETIER_COMMON_LIMITS_H
#define CLEAVE_MIDDLETIER_COMMON_LIMITS_H

#define MT_NODES_MAX 64u       /* storage nodes of a cluster */
#define MT_NODE_KEYS_MAX 1024u /* nodes that it ever had, tombstones too */
#define MT_GATEWAYS_MAX 64u    /* of a cluster, that live at a time */
#define MT_PORTS_MAX 16u       /* of a gateway */
#define MT_PORT_RINGS_MAX 256u /* shards at a port at once; 16 ports: CLEAVE_SHARDS_MAX */
#define MT_METRICS_MAX 96u     /* counters of a port: what enum mt_metric may have */
#define MT_RECEIVE_BYTES                                                                           \
	(64u * 1024u) /* of a port's receive: a node's longest reply, but for one record */
#define MT_RECEIVE_ROOM_BYTES                                                                      \
	(MT_RECEIVE_BYTES + 104u) /* of memory: a record may have an envelope round it */
#define MT_ERROR_BYTES 384u       /* of a sentence that says what is wrong; a longer one is cut */

#endif /* CLEAVE_MIDDLETIER_COMMON_LIMITS_H */
