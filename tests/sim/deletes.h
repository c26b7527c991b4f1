/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deletes.h -- each deletion at a storage node is judged at the moment when its page reaches the disk
 *
 * The table of middletier/upkeep/DELETES.md, as a checker:
 *
 *	any change      its owner is not older than the copy's maker
 *	any deletion    it goes by the incarnation that its owner saw
 *	                the newest durable manifest does not name the copy as good: the root as the metadata
 *	                store has it, and the edits that are on every replica of the manifest's extents, read
 *	                from the simulated disks themselves
 *	                where it names it, and the copy is bad, another copy that it names is good
 *	of the sweep    it has seen the copy for --orphan-grace, by its owner's own records
 *
 * What it cannot see:
 *
 *	- a manifest of which no replica's node runs, and a page that is written as its node is killed
 *	- what is wrong with a copy on the disk that destroys data (the seed's victim): of this one nothing is
 *	  judged by the manifest
 *	- an edit that is on those replicas that run, and not on one that does not, passes for durable
 *	- the sweep's records where its owner has died since, and how many went in one grace period
 */
#ifndef CLEAVE_TESTS_SIM_DELETES_H
#define CLEAVE_TESTS_SIM_DELETES_H

#include "cleave/batch.h"
#include "cluster.h"

/* A change of a copy, as its node is about to have it. */
struct sim_node_change {
	uint32_t node; /* index */
	bool is_delete;
	struct extent_id id;
	uint64_t incarnation, durable_bytes;
	uint32_t maker_epoch;
	bool is_damaged; /* as its node itself says */
	/* The epoch and length that its owner's request says. */
	uint32_t owner_epoch;
	uint64_t owner_incarnation;
};

struct sim_deletes;
struct sim_deletes *sim_deletes_create(struct sim_cluster *cluster);
void sim_deletes_destroy(struct sim_deletes *deletes);
/* sim_deletes_note -- the metadata store is about to be changed behind the gateways' backs. */
void sim_deletes_note(struct sim_deletes *deletes);
/* sim_deletes_epoch -- the newest that @shard's root has had; 0: it has no root yet. */
uint32_t sim_deletes_epoch(struct sim_deletes *deletes, uint32_t shard);
/* sim_deletes_judge -- a violation where the rules above forbid @change. */
void sim_deletes_judge(struct sim_deletes *deletes, const struct sim_node_change *change);
/* sim_deletes_count -- those judged so far; @ret_blind_count: of these those without a manifest. */
uint64_t sim_deletes_count(const struct sim_deletes *deletes, uint64_t *ret_blind_count);
/*
 * sim_deletes_named -- does the newest durable manifest of @shard name a copy at node @node_id?
 *
 * Of all that it names, @ret_id is one. False also where it cannot be seen now.
 */
bool sim_deletes_named(struct sim_deletes *deletes, uint32_t shard, uint32_t node_id,
    struct extent_id *ret_id);
/* sim_deletes_held_bytes -- memory that the manifests take which it has read: no process's. */
uint64_t sim_deletes_held_bytes(const struct sim_deletes *deletes);

/* deletes_node.c */

/* sim_deletes_watch -- node @index has been started; until it is killed its pages are looked at. */
void sim_deletes_watch(struct sim_cluster *cluster, uint32_t index);
void sim_deletes_unwatch(struct sim_cluster *cluster, uint32_t index);

#endif /* CLEAVE_TESTS_SIM_DELETES_H */
