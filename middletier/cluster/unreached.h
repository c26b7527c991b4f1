/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreached.h -- storage nodes that a client cannot reach, by its own word
 *
 * Who reads at storage nodes dials addresses that no gateway dials (cleave-storage --advertise): a refused connection is seen by
 * the client alone. It names such nodes when it asks at which it may read (volume.nodes): behind each attempt that fails, at
 * least each 16 s while it wants to read there, and at once when it has reached one again.
 *
 * A word counts until its client asks without it, until the node is told at another address, or until the volume is written by
 * another session or read elsewhere; and no longer than MT_UNREACHED_NS, as a client may have gone.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_UNREACHED_H
#define CLEAVE_MIDDLETIER_CLUSTER_UNREACHED_H

#include <stdint.h>

#include "base/num.h"
#include "catalog/volume.h"
#include "cleave/split.h"

struct mt_volumes;

#define MT_UNREACHED_MAX 64u /* words that are remembered: of more, the newest */
#define MT_UNREACHED_NS                                                                            \
	NUM_S(150) /* after it a client that does not say so again is believed to reach it */

/* A client that cannot reach a node, and where that was said to be. */
struct mt_unreached_word {
	uint32_t node_id; /* 0: none */
	uint64_t volume_id,
	    attach; /* that it wants to read there, and the volume's attach number then */
	uint64_t told_ns, first_ns; /* mt_unreached_note's */
	bool is_repeated;           /* by the question that is being read */
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char by[MT_HOLDER_CLIENT_BYTES], peer[MT_HOLDER_ADDRESS_BYTES]; /* the client, for people */
};

/* All zero: nobody has said anything. */
struct mt_unreached {
	struct mt_unreached_word words[MT_UNREACHED_MAX];
};

/*
 * mt_unreached_begin, mt_unreached_note, mt_unreached_end -- the nodes that a client names in one question
 *
 * What @by has said of the volume before and does not note between begin and end is over. note: @word's times are filled in
 * here. Returns 1 where nobody has said so of the node; 0 else. Nothing but what people see hangs on it. Threads: the main
 * loop's, as of the other.
 */
void mt_unreached_begin(struct mt_unreached *unreached, uint64_t volume_id, const char *by);
int mt_unreached_note(struct mt_unreached *unreached, const struct mt_unreached_word *word,
    uint64_t now_ns);
void mt_unreached_end(struct mt_unreached *unreached, uint64_t volume_id, const char *by);
/* mt_unreached_find -- a word that counts of @node_id, which is told at @address; NULL: none. Valid until the next note. */
const struct mt_unreached_word *mt_unreached_find(const struct mt_unreached *unreached,
    const struct mt_volumes *volumes, uint32_t node_id, const char *address, uint64_t now_ns);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_UNREACHED_H */
