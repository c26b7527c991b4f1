/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreached.h -- storage nodes that a client cannot reach, by its own word
 *
 * Who reads at storage nodes dials addresses that no gateway dials (cleave-storage --advertise): a refused connection is seen by
 * the client alone. It tells of it when it asks at which nodes it may read (volume.nodes), at least each 64 s.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_UNREACHED_H
#define CLEAVE_MIDDLETIER_CLUSTER_UNREACHED_H

#include <stdint.h>

#include "base/num.h"

#define MT_UNREACHED_MAX 16u /* nodes that are remembered: of more, those told of last */
#define MT_UNREACHED_NS                                                                            \
	NUM_S(150) /* after it a client that does not say so again is believed to reach it */
#define MT_UNREACHED_WHO_BYTES 192u

/* All zero: nobody has said anything. */
struct mt_unreached {
	struct mt_unreached_node {
		uint32_t node_id; /* 0: none */
		uint64_t told_ns, first_ns;
		char who[MT_UNREACHED_WHO_BYTES]; /* the client that said so last, for people */
	} nodes[MT_UNREACHED_MAX];
};

/*
 * mt_unreached_note -- @who says that it cannot reach node @node_id, which this gateway reaches
 *
 * Returns 1 where that is news; 0 else. Nothing but what people see hangs on it. Threads: the main loop's, as of the other.
 */
int mt_unreached_note(struct mt_unreached *unreached, uint32_t node_id, const char *who,
    uint64_t now_ns);
/* mt_unreached_find -- what was said of @node_id lately; NULL: nothing. Valid until the next note. */
const struct mt_unreached_node *mt_unreached_find(const struct mt_unreached *unreached,
    uint32_t node_id, uint64_t now_ns);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_UNREACHED_H */
