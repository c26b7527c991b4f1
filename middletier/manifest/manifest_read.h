/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_read.h -- a manifest's edits, read back from all of its extents */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_READ_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_READ_H

#include <stdbool.h>

#include "extent/replay.h"

struct mt_manifest_state;

typedef void (*mt_manifest_read_fn)(int rc, void *arg);

/* The first group is the caller's. */
struct mt_manifest_read {
	struct mt_replay *replay; /* its shard is set; the caller stops and ends it */
	struct mt_replay_source head;
	struct mt_manifest_state *state; /* empty */
	mt_manifest_read_fn fn;
	void *arg;

	struct mt_replay_source *sources; /* the parts, then the head */
	bool has_begun, is_listing;
};

/*
 * mt_manifest_read_start -- read a manifest into read->state: the extents that its head names, then itself
 *
 * @fn: 0, and whether state->is_complete says if it has a whole checkpoint; -ENOMEM; -ESTALE a node knows
 * a newer owner; -EBADMSG; -EPROTONOSUPPORT a newer release has written it. The replay has ended then. Waits for nodes as long
 * as it takes.
 * Returns 0; -ENOMEM: no @fn.
 */
int mt_manifest_read_start(struct mt_manifest_read *read);
/* mt_manifest_read_fini -- after @fn, or when the replay is quiet. */
void mt_manifest_read_fini(struct mt_manifest_read *read);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_READ_H */
