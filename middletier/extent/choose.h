/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.h -- which copy of an extent is read next, and when there is no hope
 *
 * A *request* (a piece of a read, a source of a merge, the head of a batch) wants bytes that every copy should
 * have. It asks one copy after the other until one gives them:
 *
 *	mt_chooser_pick ----> a copy: ask it ----> it helps: mt_chooser_reset, for the next request
 *	      ^     |                |
 *	      |     |                +--> it cannot be reached: mt_chooser_note_failed
 *	      |     |                +--> its bytes are wrong:  mt_chooser_note_bad
 *	      |     |                                |
 *	      +-----|--------------------------------+
 *	      |     +--> -1: nobody is left to ask now
 *	      |             mt_chooser_is_hopeless: every copy's bytes are wrong, so give up
 *	      +------------ else mt_chooser_retry, a little later
 *
 * Invariant: a copy that failed a request is not asked again for it while one whose link is up was not asked,
 * and a request is hopeless only when every copy was asked and is known to be bad.
 *
 * Copies are known by their index among the extent's replicas. A repair may put another copy in the place
 * of one that failed; the request at hand then does not ask it, the next one does.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_CHOOSE_H
#define CLEAVE_MIDDLETIER_EXTENT_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/replica.h"

struct mt_link;
struct mt_port;

/* A request's knowledge of the copies; all zeros: nothing yet. */
struct mt_chooser {
	uint8_t
	    tried; /* bit set by index: asked in vain since the last mt_chooser_retry; includes bad */
	uint8_t bad; /* bit set by index: what they returned is wrong, and will be */
};

/* Short requests of one turn of the loop go where the first of them went, while that link has so few more calls out. */
#define CHOOSE_JOIN_MAX 8u

/* A port's, or a part of it: where the present turn's short requests go; all zeros: nowhere yet. */
struct mt_chooser_turn {
	uint64_t turn_ns; /* the loop's time in that turn */
	struct mt_link *link;
};

/* The copies among which a chooser chooses. */
struct mt_copies {
	const struct mt_replica *replicas;
	uint32_t count;  /* 1 to MT_REPLICAS_MAX */
	uint32_t *rotor; /* the extent's: whose turn it is among links that are equally loaded */
	struct mt_chooser_turn *turn; /* the request is a short one of this; NULL: it is not */
};

/* mt_chooser_reset -- a new request begins: no copy was asked. */
void mt_chooser_reset(struct mt_chooser *chooser);

/*
 * mt_chooser_pick -- the copy to ask next
 *
 * Among the copies that were not asked in vain and whose link is up: damaged ones last, since what they
 * return must pass its checks like any other's; of the rest the one whose link has the fewest calls out; of
 * those whose turn it is, which moves the rotor on. A short request (copies->turn) goes where those before it in its
 * turn of the loop went, if there is a copy that is not damaged, and fewer than CHOOSE_JOIN_MAX calls are out there more.
 * Returns:   its index, with its link in @ret_link; -1: there is none now, @ret_link is untouched.
 * Threads:   the port's loop thread. Does not block or allocate.
 */
int mt_chooser_pick(const struct mt_chooser *chooser, struct mt_port *port,
    const struct mt_copies *copies, struct mt_link **ret_link);

/* mt_chooser_note_failed -- copy @index could not be asked, or did not answer. */
void mt_chooser_note_failed(struct mt_chooser *chooser, uint32_t index);

/* mt_chooser_note_bad -- copy @index has answered, and not with what it should hold. */
void mt_chooser_note_bad(struct mt_chooser *chooser, uint32_t index);

/* mt_chooser_retry -- copies that could not be reached may be asked again; bad ones may not. */
void mt_chooser_retry(struct mt_chooser *chooser);

/* mt_chooser_bad_count -- so many copies are known to be bad. */
uint32_t mt_chooser_bad_count(const struct mt_chooser *chooser);

/* mt_chooser_is_hopeless -- is every one of @count copies known to be bad? Of none: yes. */
bool mt_chooser_is_hopeless(const struct mt_chooser *chooser, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_EXTENT_CHOOSE_H */
