/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h -- what a manifest says, and how a take-over begins a new one
 *
 * The *state* is what all edits so far come to: the extents that live, the runs in them, the cuts. A
 * checkpoint is the state written as edits.
 */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_H
#define CLEAVE_MIDDLETIER_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"
#include "recovery.h"

#define MT_COMMIT_EDITS_MAX 192u /* a merge's: at most 52 bytes each */
/*
 * Extents that are read before the one that the root names. What makes a manifest longer is pressed back
 * when it needs half as many, or so many bytes (manifest_room.c); the rest is for what cannot wait.
 */
#define MT_MANIFEST_PARTS_MAX 128u
#define MT_MANIFEST_BYTES_SOFT                                                                     \
	UINT64_C(0x10000000) /* a copy of it is in memory while it is written */

/* ---- manifest_state.c ---- */

struct mt_state_extent {
	struct extent_id id;
	enum extent_kind kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	bool is_sealed;
	uint64_t sealed_bytes;
};

struct mt_state_run {
	struct extent_id id;
	uint64_t chunk;
	uint64_t offset_bytes, length_bytes;
	uint64_t flushed_sequence;
	uint64_t cut;
};

struct mt_state_cut {
	uint64_t cut;
	uint64_t sequence;
	uint64_t segment_base;
	uint32_t segment_count; /* 0: dropped; the greatest stays, as a number */
};

struct mt_manifest_state {
	uint32_t epoch;
	struct mt_state_extent *extents; /* by id, which is by age */
	uint32_t extent_count, extent_max;
	struct mt_state_run *runs; /* by chunk, then as added */
	uint32_t run_count, run_max;
	struct mt_state_cut *cuts;
	uint32_t cut_count, cut_max;
	/* Shard 0's: what mirror.c has written of the metadata store. shard_count 0: nothing yet. */
	struct mt_volume *volumes; /* by id */
	uint32_t volume_count, volume_max;
	struct mt_snapshot *snapshots; /* by number */
	uint32_t snapshot_count, snapshot_max;
	uint64_t next_volume_id, next_segment, next_snapshot, next_clone;
	uint32_t shard_count;
	uint64_t next_sequence; /* at least; of the checkpoint */
	bool is_complete;       /* a checkpoint's end was seen */
	/* The extents before the one it was read from. Not part of a checkpoint. */
	struct mt_state_extent *parts;
	uint32_t part_count, part_max;
	uint64_t mirror_bytes; /* that volumes and snapshots take as edits */
};

void mt_manifest_state_init(struct mt_manifest_state *state);
void mt_manifest_state_fini(struct mt_manifest_state *state);
/*
 * mt_manifest_state_apply -- 0; -ENOMEM; -EBADMSG and the field: the edit contradicts the state
 *
 * Nothing changes unless it is 0.
 */
int mt_manifest_state_apply(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field);
/*
 * mt_manifest_state_apply_batch -- the edits of a manifest's batch, whose head was checked
 *
 * 0; -ENOMEM, having changed nothing; -EBADMSG and the field: the state is of no use any more.
 */
int mt_manifest_state_apply_batch(struct mt_manifest_state *state, const struct batch_info *info,
    const uint8_t *head, const char **ret_field);
/* mt_manifest_state_reserve -- so that the next @count edits do not need memory. 0 or -ENOMEM. */
int mt_manifest_state_reserve(struct mt_manifest_state *state, uint32_t count);
/* mt_manifest_state_find -- NULL where there is no such extent. Valid until the next edit. */
struct mt_state_extent *mt_manifest_state_find(const struct mt_manifest_state *state,
    const struct extent_id *id);
/* mt_manifest_state_volume -- NULL where it is not mirrored. Valid until the next edit. */
const struct mt_volume *mt_manifest_state_volume(const struct mt_manifest_state *state,
    uint64_t id);
/* mt_manifest_state_snapshot -- the same of a snapshot. */
const struct mt_snapshot *mt_manifest_state_snapshot(const struct mt_manifest_state *state,
    uint64_t number);
/* mt_manifest_state_cut -- the greatest cut that the shard was told of; 0: none. */
uint64_t mt_manifest_state_cut(const struct mt_manifest_state *state);
/* mt_manifest_state_flushed -- the sequence that @chunk's runs reach; 0: it has none. */
uint64_t mt_manifest_state_flushed(const struct mt_manifest_state *state, uint64_t chunk);
/* mt_manifest_state_bytes -- at most so many bytes of edits are a checkpoint of it; kept, not counted. */
uint64_t mt_manifest_state_bytes(const struct mt_manifest_state *state);
/* mt_manifest_state_pressed_bytes -- of these all but extents, whose number has a bound of its own. */
uint64_t mt_manifest_state_pressed_bytes(const struct mt_manifest_state *state);
/* mt_manifest_volume_bytes -- what the mirror of a volume, or a snapshot, takes. */
uint64_t mt_manifest_volume_bytes(const struct mt_volume *volume);
uint64_t mt_manifest_snapshot_bytes(const struct mt_snapshot *snapshot);
/*
 * mt_manifest_state_edit -- the @index-th edit of a checkpoint; false behind the last
 *
 * @next_sequence goes into the last one.
 */
bool mt_manifest_state_edit(const struct mt_manifest_state *state, uint64_t index,
    uint64_t next_sequence, struct mt_edit *ret_edit);

/* ---- manifest_read.c ---- */

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
 * a newer owner; -EBADMSG. The replay has ended then. Waits for nodes as long as it takes.
 * Returns 0; -ENOMEM: no @fn.
 */
int mt_manifest_read_start(struct mt_manifest_read *read);
/* mt_manifest_read_fini -- after @fn, or when the replay is quiet. */
void mt_manifest_read_fini(struct mt_manifest_read *read);

/* ---- manifest_parts.c: the extents of a manifest before the one that the root names ---- */

struct mt_manifest_parts {
	struct mt_extent
	    *extents[MT_MANIFEST_PARTS_MAX]; /* sealed, in the order they are read in */
	uint32_t count;
};

/* mt_manifest_parts_add -- @extent is full, and all of it is durable: it is sealed there. */
void mt_manifest_parts_add(struct mt_manifest_parts *parts, struct mt_extent *extent);
/* mt_manifest_parts_encode -- the edits that name them, into @out. Returns their number. */
uint32_t mt_manifest_parts_encode(const struct mt_manifest_parts *parts, uint8_t *out,
    uint32_t *ret_bytes);
/* mt_manifest_parts_delete -- at the nodes, too. */
void mt_manifest_parts_delete(struct mt_manifest_parts *parts);
void mt_manifest_parts_free(struct mt_manifest_parts *parts);
void mt_manifest_parts_on_link(struct mt_manifest_parts *parts, struct mt_link *link, bool is_up);
/*
 * mt_manifest_parts_lack -- has one of them fewer good copies than it could have?
 *
 * *@ret_next_ns is lowered to when that may change by itself: a node has been away for too long.
 */
bool mt_manifest_parts_lack(const struct mt_manifest_parts *parts, uint32_t domain_count,
    uint64_t *ret_next_ns);

/* ---- manifest_room.c ---- */

/* mt_manifest_soft_bytes -- with the smallest slot of @slot_bytes: from so many on it is long. */
uint64_t mt_manifest_soft_bytes(uint64_t slot_bytes);
/* mt_manifest_is_long -- no merge may leave more runs than it found. */
bool mt_manifest_is_long(const struct mt_shard *shard);
/* mt_manifest_part_bytes -- a checkpoint goes on in another extent behind so many of @extent. */
uint64_t mt_manifest_part_bytes(const struct mt_extent *extent);
/* mt_gateway_note_slot_bytes -- a port: a node has slots of that size. */
void mt_gateway_note_slot_bytes(struct mt_gateway *gateway, uint64_t slot_bytes);

/* ---- manifest.c ---- */

/*
 * mt_manifest_open -- begin a new manifest under the shard's epoch
 *
 * Takes @state over (it is empty afterwards), writes it as a checkpoint, to as many extents as it takes,
 * moves the root (shard->root is the present one) to the last, deletes what the root named before.
 * Waits for nodes as long as it takes. @fn: 0; -ESTALE the root is another's.
 * Returns 0; -ENOMEM: no @fn, @state is the caller's still.
 */
int mt_manifest_open(struct mt_shard *shard, struct mt_manifest_state *state, mt_manifest_fn fn,
    void *arg);
/* mt_manifest_state -- what has been committed or is being; NULL before mt_manifest_open. */
const struct mt_manifest_state *mt_manifest_state(const struct mt_shard *shard);
void mt_manifest_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
/* mt_manifest_extent -- the one that the root names; NULL: it is another owner's, or none. */
struct mt_extent *mt_manifest_extent(const struct mt_shard *shard);
/* mt_manifest_part -- the @index-th of those before it; NULL behind the last. */
struct mt_extent *mt_manifest_part(const struct mt_shard *shard, uint32_t index);
/* mt_manifest_is_settled -- all that the state says is durable. */
bool mt_manifest_is_settled(const struct mt_shard *shard);
/*
 * mt_manifest_tend -- begin a new manifest extent where the present one has lost a replica, has a
 * damaged one, or fewer than there are domains for
 *
 * Returns when to ask again, UINT64_MAX: there is nothing to be done.
 */
uint64_t mt_manifest_tend(struct mt_shard *shard, uint32_t domain_count);
/* mt_manifest_stop -- every commit ends with @rc, later ones at once; appends in flight run out. */
void mt_manifest_stop(struct mt_shard *shard, int rc);
/* mt_manifest_is_quiet -- stopped or not there, and no append is out: it may go. */
bool mt_manifest_is_quiet(const struct mt_shard *shard);
void mt_manifest_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_H */
