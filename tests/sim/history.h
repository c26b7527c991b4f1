/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h -- who wrote what to a volume, and what a read may therefore see
 *
 * Each block that is written names its volume, its place and the operation that wrote it. Operations
 * have growing numbers. A volume has one writing session at a time, and libcleave keeps overlapping
 * writes in order, so the writes to a block have one order, that of their numbers, and a block's
 * history is linearizable exactly when each read sees
 *
 *   - no operation older than the newest one that was known to have happened when the read was
 *     submitted: one that was acknowledged, or that another read had seen (the floor);
 *   - none that had not been submitted when the read completed.
 *
 * An operation without an acknowledgement may have happened or not, and may still. One that its session
 * was told to be given up is *over* once a write that the session submitted after that is acknowledged (I11):
 * what is read from then on shows whether it has happened, and it must not happen any more if it has not.
 * A snapshot is a read of the moment when it was asked for, and the one that may see the difference: a port
 * ends what it was sent before it serves the session again.
 *
 * A session that
 * was superseded is fenced: once a newer session has seen a block of it, no other of its operations
 * may turn up there; and what it submits after the newer one was served never may.
 */
#ifndef CLEAVE_TESTS_SIM_HISTORY_H
#define CLEAVE_TESTS_SIM_HISTORY_H

#include "cluster.h"

struct history;

struct history_op {
	enum cleave_op op;
	uint32_t first_block,
	    block_count; /* at most HISTORY_BLOCKS_MAX, but what makes zeros of all of the volume */
	uint32_t session;
	bool is_forbidden; /* must never be seen: its session was fenced before */
	bool is_snapshot;  /* a read of a snapshot that is asked for now */
	bool is_beside;    /* a read of a read-only session, which fences nobody */
	uint32_t
	    acked_at; /* history.c: how many were submitted when it was acknowledged; 0: never */
};

#define HISTORY_BLOCKS_MAX 16u

/* history_create -- of @volume, whose @block_count blocks lie in @chunk_count chunks. */
struct history *history_create(struct sim_cluster *cluster, uint32_t volume, uint32_t block_count,
    uint32_t chunk_count);
/*
 * history_offset -- where @block is in the volume
 *
 * They go to the chunks in groups of HISTORY_BLOCKS_MAX, a group to each in turn. A request stays in one
 * chunk's group: history_limit is how many blocks from @first on, of @count, it takes.
 */
uint64_t history_offset(const struct history *history, uint32_t block);
uint32_t history_limit(const struct history *history, uint32_t first, uint32_t count);
/* history_block_count -- of the volume. */
uint32_t history_block_count(const struct history *history);
/* history_block -- what is at @offset_bytes of the volume; not below block_count: nothing. */
uint64_t history_block(const struct history *history, uint64_t offset_bytes);
void history_destroy(struct history *history);
/* history_held_bytes -- of memory, for what was noted; it grows with each operation, reads too. */
uint64_t history_held_bytes(const struct history *history);
/* history_session -- a newer session begins; its number, 1 and up. */
uint32_t history_session(struct history *history);
/* history_submit -- note @op; returns its number. A read gets one @ret_floors value a block. */
uint32_t history_submit(struct history *history, const struct history_op *op, uint32_t *ret_floors);
/* history_fill -- the bytes that write @number puts into @block. */
void history_fill(const struct history *history, uint32_t number, uint32_t block, uint8_t *data);
/* history_stamp_decode -- @data, HISTORY_STAMP_BYTES, begins a block that was written to volume *@ret_volume? */
#define HISTORY_STAMP_BYTES 32u
bool history_stamp_decode(const uint8_t *data, uint32_t *ret_volume);
/* history_written -- @number was acknowledged. The newest write that is over by that; 0: none. */
uint32_t history_written(struct history *history, uint32_t number);
/* history_given_up -- whoever submitted @number was told so. */
void history_given_up(struct history *history, uint32_t number);
/* history_op -- as it was submitted. */
const struct history_op *history_op(const struct history *history, uint32_t number);
/* history_read -- @number, a read, returned @data. */
void history_read(struct history *history, uint32_t number, const uint8_t *data,
    const uint32_t *floors);

/*
 * A snapshot takes both: the newest operation of each block that is known to have happened now, and the
 * newest that has been submitted.
 */
void history_happened(const struct history *history, uint32_t *ret_numbers);
void history_issued(const struct history *history, uint32_t *ret_numbers);
/* history_look -- the write that put @data into @block; 0: zeros. Garbage is a violation. */
uint32_t history_look(const struct history *history, uint32_t block, const uint8_t *data);
/*
 * history_check_snapshot -- @numbers, by block and as history_look has told, are a point in time
 *
 * Of each block nothing older than @floors, nothing newer than @ceilings. And no operation without all
 * those that had been acknowledged when it was submitted (I5).
 */
void history_check_snapshot(const struct history *history, const char *name,
    const uint32_t *numbers, const uint32_t *floors, const uint32_t *ceilings);

#endif /* CLEAVE_TESTS_SIM_HISTORY_H */
