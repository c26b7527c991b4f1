/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h -- the slots of a disk and the extents they hold; extent.c has the picture of their states */
#ifndef CLEAVE_STORAGE_EXTENT_H
#define CLEAVE_STORAGE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "format/ondisk.h"

struct node;
struct sn_scan_job;

enum extent_state {
	EXTENT_FREE,
	EXTENT_ZEROING,
	EXTENT_BAD,
	EXTENT_CREATING,
	EXTENT_OPEN,
	EXTENT_STOPPED,
	EXTENT_FREEZING,
	EXTENT_FROZEN,
	EXTENT_SEALING,
	EXTENT_SEALED,
	EXTENT_DELETING,
	EXTENT_STATE_NR
};
extern const struct sm_state extent_table[EXTENT_STATE_NR];

/* A slot of the disk, for good, and the extent that is in it now. */
struct sn_extent {
	uint32_t magic;
	struct sm sm;
	struct node *node;
	struct loop_link link; /* in one of the node's free lists */
	struct sn_extent *hash_next;
	struct ondisk_slot slot; /* identity; of a free slot: the last one's */
	bool is_virgin;          /* never held an extent */
	bool is_failed; /* the write of the last header failed: in free_failed, while free */
	struct extent_id
	    former_id; /* of the extent before the last, whose bytes are there, while is_failed */
	bool is_header_lost; /* at the start its header page was not a good one */
	bool is_prewritten;  /* all its blocks are written ones (disk_is_written) */
	uint64_t end_bytes;  /* where the next append goes, those in flight counted */
	uint64_t durable_bytes;
	uint64_t mark_bytes;   /* highest mark in the durable bytes */
	uint64_t whole_bytes;  /* shorter than this it is damaged */
	uint64_t unread_bytes; /* shorter than this the start could not read it */
	uint32_t chain_crc;    /* of the last durable batch, or the seed */
	uint32_t end_crc;      /* of the last batch that passed its check */
	uint32_t freeze_epoch; /* FROZEN: who may re-send */
	uint64_t state_generation;
	bool is_rotten;        /* a verification has found damage; not on the disk */
	int stop_rc;           /* STOPPED: what plain appends get */
	uint64_t failed_bytes; /* in-flight appends from here on fail; UINT64_MAX: none */
	int failed_rc;
	struct loop_link checking;   /* appends; only the first one's check runs */
	struct loop_link queued;     /* appends that the next commit writes */
	struct loop_link in_flight;  /* appends, WRITING to DURABLE */
	struct loop_link ready_link; /* in node->ready: has queued appends */
	struct loop_link changes;    /* requests; the first is at work */
	uint32_t read_count;         /* reads in flight */
};

/* sn_extent_init_all -- an extent for each slot of the superblock, all FREE, in no list. Once. 0 or -ENOMEM. */
int sn_extent_init_all(struct node *node);
/* sn_extent_fini_all -- free them; nothing may use one any more. Also before sn_extent_init_all. */
void sn_extent_fini_all(struct node *node);
/* sn_extent_find -- the extent called @id: held, being created, or being deleted. NULL: there is none. */
struct sn_extent *sn_extent_find(struct node *node, const struct extent_id *id);
/* sn_extent_insert, sn_extent_remove -- into and out of sn_extent_find's table; no other there has its id. */
void sn_extent_insert(struct sn_extent *extent);
void sn_extent_remove(struct sn_extent *extent);
/*
 * sn_extent_claim -- a free slot for the extent that @create asks for, moved to CREATING and into the table
 *
 * @create: a decoded CREATE of an id that sn_extent_find does not find. Slots are kept back for what frees space
 * (sn_extent_reserve). Returns 0 and *@ret_extent; -ENOSPC no slot is left for this kind; -EBUSY the last one is
 * being zeroed, or has held this very id before.
 */
int sn_extent_claim(struct node *node, const struct wire_node *create,
    struct sn_extent **ret_extent);
/* sn_extent_release -- take @extent out of the table, its slot into a free list. No append or read is on its way. */
void sn_extent_release(struct sn_extent *extent);
/* sn_extent_give_up -- end a CREATING @extent whose header may be on the disk: its slot is the last to be tried again. */
void sn_extent_give_up(struct sn_extent *extent);
/* sn_extent_stop -- refuse plain appends to @extent from now on with @rc < 0. No-op where it is sealed or not held. */
void sn_extent_stop(struct sn_extent *extent, int rc);
/*
 * sn_extent_look_written -- are all blocks of @extent's slot written ones (disk_is_written)? A yes is remembered
 *
 * Asks the file system: not on the way of an append. True counts from the next flush on: that of the create.
 */
bool sn_extent_look_written(struct sn_extent *extent);
/* sn_extent_add_free -- put @extent, FREE and in no list, into the free list that fits. */
void sn_extent_add_free(struct sn_extent *extent);
/* sn_extent_free_count -- slots without an extent, with the one that is being zeroed. */
uint32_t sn_extent_free_count(const struct node *node);
/* sn_extent_damaged_count -- held copies that are damaged, as sn_extent_is_damaged says. Walks all slots. */
uint32_t sn_extent_damaged_count(const struct node *node);
/* sn_extent_reserve -- free slots that extents of @kind may not take. The superblock is known. */
uint32_t sn_extent_reserve(const struct node *node, enum extent_kind kind);
/* sn_extent_is_damaged -- are acknowledged bytes missing, unread, or has a verification found rot? */
bool sn_extent_is_damaged(const struct sn_extent *extent);
/* sn_extent_is_unread -- the disk failed the start's reads of it, so there may be more than durable_bytes. */
bool sn_extent_is_unread(const struct sn_extent *extent);
/*
 * sn_extent_take_chain -- @job has followed the chain of @extent to its end, and looked ahead: length, mark and CRC
 *
 * For one that is not OPEN, and settled, whose bytes were flushed since they were written: a start does that. Unread
 * where @job could not read on.
 */
void sn_extent_take_chain(struct sn_extent *extent, const struct sn_scan_job *job);
/* sn_extent_is_held -- is it durably there, so that requests may name it? */
bool sn_extent_is_held(const struct sn_extent *extent);
/* sn_extent_is_settled -- is none of its appends checked, queued, written or flushed now? */
bool sn_extent_is_settled(const struct sn_extent *extent);
/* sn_extent_wire_state -- the state that LIST tells of @extent, which is held. */
enum wire_extent_state sn_extent_wire_state(const struct sn_extent *extent);
/* sn_extent_clear -- lengths, marks, chain and errors of @extent as before its first append. It is settled, unread. */
void sn_extent_clear(struct sn_extent *extent);
/* sn_capacity -- bytes of batches that each extent of this disk can hold. The superblock is known. */
uint64_t sn_capacity(const struct node *node);

#endif /* CLEAVE_STORAGE_EXTENT_H */
