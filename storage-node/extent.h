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

/* A slot has one for good; the extent in it changes. */
struct sn_extent {
	uint32_t magic;
	struct sm sm;
	struct node *node;
	struct loop_link link; /* in one of the node's free lists */
	struct sn_extent *hash_next;
	struct ondisk_slot slot; /* identity; of a free slot: the last one's */
	bool is_virgin;          /* never held an extent */
	bool is_prewritten;      /* all its blocks are written ones (disk_is_written) */
	uint64_t end_bytes;      /* where the next append goes, those in flight counted */
	uint64_t durable_bytes;
	uint64_t mark_bytes;   /* highest mark in the durable bytes */
	uint64_t whole_bytes;  /* shorter than this it is damaged */
	uint32_t chain_crc;    /* of the last durable batch, or the seed */
	uint32_t end_crc;      /* of the last batch that passed its check */
	uint32_t freeze_epoch; /* FROZEN: who may re-send */
	uint64_t state_generation;
	bool is_rotten;        /* a verification has found so; not on the disk */
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

/* sn_extent_init_all -- one a slot, all FREE, none in a free list. Returns 0 or -ENOMEM. */
int sn_extent_init_all(struct node *node);
void sn_extent_fini_all(struct node *node);
/* sn_extent_find -- the one called @id, held or about to be or to go; NULL: none is. */
struct sn_extent *sn_extent_find(struct node *node, const struct extent_id *id);
/* sn_extent_insert, sn_extent_remove -- into and out of the table that sn_extent_find looks in. */
void sn_extent_insert(struct sn_extent *extent);
void sn_extent_remove(struct sn_extent *extent);
/*
 * sn_extent_claim -- a free slot for the extent that @create asks for, moved to CREATING and into the table
 *
 * No extent of that name is there. Keeps slots back: manifest before run before log. Returns 0; -ENOSPC;
 * -EBUSY the last one is being zeroed.
 */
int sn_extent_claim(struct node *node, const struct wire_node *create,
    struct sn_extent **ret_extent);
/* sn_extent_release -- the slot is free again; out of the table. Nothing of it is on its way. */
void sn_extent_release(struct sn_extent *extent);
/* sn_extent_retire -- its header may be half on the disk: nothing is created in this slot before a restart. */
void sn_extent_retire(struct sn_extent *extent);
/* sn_extent_stop -- refuse plain appends from now on with @rc; one that is sealed, or held no more, stays. */
void sn_extent_stop(struct sn_extent *extent, int rc);
/*
 * sn_extent_look_written -- are all its blocks written ones? Asks the disk, and remembers a yes
 *
 * True is good from the next flush on, which is the one of the extent's create.
 */
bool sn_extent_look_written(struct sn_extent *extent);
/* sn_extent_add_free -- into the free list that fits. Its state is FREE, and it is in none. */
void sn_extent_add_free(struct sn_extent *extent);
/* sn_extent_free_count -- slots that hold no extent; that which is being zeroed is one. */
uint32_t sn_extent_free_count(const struct node *node);
/* sn_extent_damaged_count -- copies that are known to be damaged. */
uint32_t sn_extent_damaged_count(const struct node *node);
/* sn_extent_reserve -- how many slots stay free of extents of @kind. */
uint32_t sn_extent_reserve(const struct node *node, enum extent_kind kind);
/* sn_extent_is_damaged -- bytes are missing that were acknowledged, or a verification found rot. */
bool sn_extent_is_damaged(const struct sn_extent *extent);
/* sn_extent_is_held -- it is there, durably, and requests may name it. */
bool sn_extent_is_held(const struct sn_extent *extent);
/* sn_extent_is_settled -- no append of it is on its way. */
bool sn_extent_is_settled(const struct sn_extent *extent);
/* sn_extent_wire_state -- what LIST says of one that is held. */
enum wire_extent_state sn_extent_wire_state(const struct sn_extent *extent);
/* sn_extent_clear -- everything of it but identity, slot and lists, as before its first append. */
void sn_extent_clear(struct sn_extent *extent);
/* sn_capacity -- bytes of batches that an extent can hold. */
uint64_t sn_capacity(const struct node *node);

#endif /* CLEAVE_STORAGE_EXTENT_H */
