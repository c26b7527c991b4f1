/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h -- a snapshot; snapshot_table.h has all of them */
#ifndef CLEAVE_MIDDLETIER_CATALOG_SNAPSHOT_H
#define CLEAVE_MIDDLETIER_CATALOG_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/scope.h"
#include "cleave/wire.h"

enum mt_snapshot_state {
	MT_SNAPSHOT_PENDING, /* being taken, or given up in the middle */
	MT_SNAPSHOT_LIVE,
	MT_SNAPSHOT_DELETED, /* or never was: its cut may still matter to a volume's scope */
	MT_SNAPSHOT_STATE_NR
};

struct mt_snapshot {
	uint64_t number; /* of the cut */
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];
	uint64_t volume_id;
	uint64_t size_bytes;
	uint64_t segment_base;
	uint32_t segment_count;
	uint64_t created_s; /* by the clock on the wall; DELETED and 0: it came to nothing */
	enum mt_snapshot_state state;
	uint32_t clone_count;
	bool is_protected; /* it is not deleted; from level 2 on */
	/* The number of the first of those that were taken at one point in time; 0: alone. From level 2 on. */
	uint64_t group;
	struct mt_scope scope;
};
/*
 * The volume id by which a client names a snapshot in its hello, with 1 as its attach; or the difference
 * between the snapshot that is its attach less 1 and that one, or a volume as it is now.
 */
#define MT_SNAPSHOT_ID WIRE_SNAPSHOT_ID
#define MT_SNAPSHOT_OF_VOLUME (UINT64_C(1) << 61)

#endif /* CLEAVE_MIDDLETIER_CATALOG_SNAPSHOT_H */
