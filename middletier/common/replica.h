/* SPDX-License-Identifier: Apache-2.0 */
/* replica.h -- one copy of an extent: where it is, and what is known of it */
#ifndef CLEAVE_MIDDLETIER_COMMON_REPLICA_H
#define CLEAVE_MIDDLETIER_COMMON_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

#define MT_REPLICAS_MAX CLEAVE_COPIES

struct mt_replica {
	uint32_t node_id;
	uint64_t incarnation;
	bool is_truncated; /* the node has confirmed the sealed length */
	bool is_damaged;   /* not what it should be: not counted, and read from last */
	uint32_t listed;   /* the sweep in which its node last named it; of a manifest's state */
	bool is_suspect;   /* a read of it has failed: to be verified */
	uint64_t
	    failed_ns; /* scrub.c: when its node has last found it bad or unreadable; 0: it has not */
};

#endif /* CLEAVE_MIDDLETIER_COMMON_REPLICA_H */
