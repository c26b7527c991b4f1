/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_sight.h -- are the files that a store has open those that are found by its path?
 *
 * A store goes on in the files that it has open when they are moved, deleted, or others are put in their place. Nobody
 * would notice before the next start, when it is too late. To look waits for a disk, so a thread does.
 */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_SIGHT_H
#define CLEAVE_MIDDLETIER_META_LMDB_SIGHT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/errand.h"
#include "cleave/meta.h"

#define LMDB_SIGHT_TEXT_BYTES (PATH_MAX + 64u)

struct lmdb_sight_look;

struct lmdb_sight {
	struct errand_desk desk;
	bool is_open;
	char path[PATH_MAX];          /* of the file, from the root on */
	char place[META_PLACE_BYTES]; /* of the one that is open: lmdb_place.h */
	uint32_t failures;            /* looks in a row that have ended in an error */
	struct lmdb_sight_look *out;  /* on its way; NULL: none */
	char
	    text[LMDB_SIGHT_TEXT_BYTES]; /* what is wrong; "": nothing, as the last look found it */
};

/*
 * lmdb_sight_open -- of data.mdb in @directory, which is open, and whose place is @place
 *
 * Threads: the loop's, as of all of these. Returns: 0; else a negative errno, and nothing is open.
 */
int lmdb_sight_open(struct lmdb_sight *sight, struct loop *loop, const char *directory,
    const char *place);
/* lmdb_sight_close -- one that is not open: a no-op. Waits for nobody. */
void lmdb_sight_close(struct lmdb_sight *sight);
/*
 * lmdb_sight_look -- what the look before this one found, and begin another one if none is on its way
 *
 * Returns: a text for people, the path last, valid until the next call; NULL: nothing is wrong, or it is not known yet.
 */
const char *lmdb_sight_look(struct lmdb_sight *sight);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_SIGHT_H */
