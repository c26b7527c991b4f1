/* SPDX-License-Identifier: Apache-2.0
 *
 * mutant.h -- bugs that can be switched on, to measure what the simulator finds
 *
 * MUTANT(name) asks whether one is on. It is the constant false in every build but the target
 * sim_mutants (tests/sim/mutants.c), so the daemons that users run hold none of this. Each line of the
 * table is a mistake that a system of this kind has made; tests/sim/mutants.tsv tells in which seed the
 * simulator finds it, and by what.
 *
 *	if (!is_acked_by_all && !MUTANT(ack_two_of_three))
 *		return;
 */
#ifndef CLEAVE_BASE_MUTANT_H
#define CLEAVE_BASE_MUTANT_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, what the daemon does wrong while it is on) */
#define MUTANT_LIST(X)                                                                             \
	/* The two safety layers of a take-over: each is tested with the other one off. */         \
	X(lease_ignored, "a gateway serves without a lease")                                       \
	X(epoch_ignored, "a node refuses no append for its epoch, nor after a freeze")             \
	/* Storage node. */                                                                        \
	X(ack_before_flush, "an append is acknowledged once written, before its flush")            \
	X(fence_forgotten, "a node starts with the fences it had when formatted")                  \
	X(gap_accepted, "an append is acknowledged although one before it failed")                 \
	X(flush_retried, "a failed flush is tried again and believed")                             \
	X(slot_trusted, "a batch's extent and predecessor are not checked on recovery")            \
	X(identity_ignored, "a node takes the gateways of any metadata store")                     \
	X(incarnation_ignored, "a node deletes whatever incarnation of a copy is there")           \
	X(maker_ignored, "a node lets an owner older than a copy's maker change it")               \
	X(unread_left, "what a start of a node could not read is not read on before the next one") \
	X(ticket_unchecked, "a node believes any ticket of a client")                              \
	X(fence_volume_ignored, "a node believes tickets of attaches that were fenced")            \
	/* Gateway. */                                                                             \
	X(cut_to_shortest, "every replica is cut to the shortest answer")                          \
	X(lone_answer, "a take-over believes one copy while the others are away")                  \
	X(mark_forgotten, "what a copy has told as acknowledged goes with it from a take-over")    \
	X(damaged_unasked, "a take-over asks no damaged copy again while a node is away")          \
	X(tail_not_copied, "a take-over serves what not all replicas hold")                        \
	X(ack_two_of_three, "a write is acknowledged although one replica failed")                 \
	X(replay_twice, "the first extent is replayed again over newer records")                   \
	X(mirror_unchecked, "a head in memory is taken whatever the batch before it was")          \
	X(backup_mirrored, "what a store lacks that was set back goes from the manifest, too")     \
	X(mirror_last_believed, "the last head of an extent is taken from memory, too")            \
	X(last_batch_dropped, "the replay leaves each extent's last batch out")                    \
	X(discard_not_replayed, "the replay leaves discards out")                                  \
	X(unacked_sealed, "a roll-over seals at what was sent, not at what is acknowledged")       \
	X(buffer_reused, "a batch is sent again while older sends may still read its buffers")     \
	X(quiet_unasked, "a stopped shard's memory goes back while some of it is in use")          \
	X(session_drop_skipped, "a new incarnation does not wait for writes of the older one")     \
	X(attach_ignored, "a client whose volume another one has attached is let in")              \
	X(attach_untold, "a roll-back does not wait until every gateway has read of it")           \
	X(exclusive_ignored, "a second writer takes the volume without having said so")            \
	X(opened_by_name, "whoever has the name is opened, though another volume's id was said")   \
	X(gone_admitted, "what waits for a shard is written though its session has ended")         \
	X(replica_unverified, "a returning replica counts as whole, whatever it answers")          \
	X(lease_from_answer, "a lease is counted from its answer, not from its request")           \
	X(lease_sleeps, "a lease is counted by a clock that stands still while the host sleeps")   \
	X(lease_behind_disk, "leases wait for the disk of the metadata store, as other keys do")   \
	X(expiry_without_compare, "who ends a lease in an etcd looks not whether it was renewed")  \
	X(watch_gap_ignored, "what an etcd has compacted before it was told counts as known")      \
	X(generation_ignored, "an etcd that was set back to a backup counts as the same")          \
	X(death_assumed, "a process that stands still counts as dead, and its lease as over")      \
	X(salt_not_drawn, "who encrypts begins with the same salt each time")                      \
	X(place_not_bound, "an encrypted record opens at any place")                               \
	X(crcs_kept, "the CRCs of an encrypted record's blocks stay in its descriptor")            \
	X(counter_kept, "a write encrypts with the counter that its engine job had before")        \
	X(merge_stores_plain, "a merge stores plain what was encrypted")                           \
	X(key_missing_is_bad, "a copy whose key is not there counts as bad")                       \
	X(writer_failure_unseen, "a merge goes on with a block whose place was given up")          \
	X(tombstone_scope_ignored, "a discard counts for a volume that was rolled back over it")   \
	X(empty_root_trusted, "a shard without a manifest begins, though nodes hold data of it")   \
	X(publish_unasked, "a list that revokes the cluster's own nodes is taken without a word")  \
	X(any_node_tells, "a claim hears a node that need not know the shard")                     \
	X(mark_missing, "batches do not say what was acknowledged when they were sent")            \
	X(open_unscrubbed, "a scrub passes over extents that are still written to")                \
	X(run_order_ignored, "of runs of one flushed_sequence the oldest is found first")          \
	X(stage_flushed_early, "a merge counts as done, for a take-over, with its first stage")    \
	X(haste_unlooked, "a merge in haste takes a record whole, whatever newer lies over it")    \
	X(covered_in_part, "a run goes though newer ones lack some of its blocks")                 \
	X(pool_overlent, "a log borrows room that no other has left")                              \
	X(lender_counted, "a shard that has gone from its port still lends room to the others")    \
	X(hold_ended_confirmed, "a hold that has ended counts as held to the end of a snapshot")   \
	X(group_held_apart, "of volumes whose snapshots are taken together only one is held")      \
	X(group_in_part, "of such snapshots those are made that can be, without the rest")         \
	X(manifest_room_ignored, "a manifest that is long is pressed back by nobody")              \
	X(orphan_grace_ignored, "the sweep deletes an orphan when it first sees it")               \
	X(manifest_dropped_early, "a manifest is deleted while the root still names it")           \
	X(upgrade_unasked, "an upgrade asks neither gateways nor nodes what they speak")           \
	X(drain_unasked, "a gateway is drained, whoever could take its shards")                    \
	X(address_asked_once, "one question without an answer says that nobody is at the address") \
	X(severed_blind, "a severed gateway gives its shards to one that reaches no nodes either") \
	/* The two that keep a volume's limits: each is tested with the other one off. */          \
	X(throttle_ignored, "a gateway keeps no limits")                                           \
	X(pace_ignored, "a client keeps no limits")                                                \
	X(relief_restless,                                                                         \
	    "shards go to and fro by load: no margin, no pause, none stays a while")               \
	X(relief_keeps, "a gateway keeps what was placed at it, though it has no room for all")    \
	X(removed_unasked, "a node is removed as empty though other gateways were not asked")      \
	X(removed_taken_back, "a node that has left the cluster is added again, its disk with it") \
	X(nodes_imported_twice, "two gateways write the nodes of their options into the store")    \
	X(drain_uncompared, "two drains that count on each other's node to stay both pass")        \
	X(draining_taken, "new copies are put on a node that drains")                              \
	X(health_silent, "a node that is away is not said to be")                                  \
	X(flatten_above, "what a clone gets of its origin lies above what was written to it")      \
	X(flatten_early, "a clone loses its origin before all shards have copied it")              \
	X(trash_early, "a volume in the trash is purged before its time")                          \
	X(trash_name, "a volume comes back from the trash over another one of its name")           \
	X(trash_forgotten, "snapshots of a volume in the trash go as those of one that is gone")   \
	X(newcomer_ignored,                                                                        \
	    "what is done where nobody uses a volume is done to who came meanwhile")               \
	X(find_wrong, "a node that looks a frame's last block up sends the next frame")            \
	X(set_short, "the last block that a run holds is missing in the directory of it")          \
	X(number_unpassed, "a snapshot's number is dropped where an order to cut it may come yet") \
	X(conflict_forgets, "a volume that a change did not find under its name counts as gone")   \
	X(loss_unverified,                                                                         \
	    "blocks that no copy gave to a merge are lost, whole though their copies be")          \
	X(part_unverified, "runs are named whose last batches not all replicas were seen to have") \
	X(gather_believed, "stored records that come several in a message are merged unchecked")   \
	X(lent_all, "who was lent an extent may change all that is the shard's")                   \
	X(job_works_on, "a job that its owner gives up goes on, and keeps its place")              \
	X(told_short, "who executes a recipe may say that it has made a part of it")               \
	X(garbage_believed, "of frames that others have made none is read before it is named")     \
	X(recipe_trusted, "who executes a recipe is believed to have made what it says")           \
	X(share_overtakes, "of a volume whose requests wait for others, the last one goes first")  \
	X(address_ignored, "shards are taken though clients are told another gateway's address")   \
	X(failing_ignored, "a node whose disk fails writes gets new extents all the same")         \
	X(slots_ignored, "copies are put on nodes whose slots are too small for them")             \
	/* Read leases: who waits until nobody reads by himself any more. */                       \
	X(read_lease_unwaited, "a newer session is let in while an older one may still read")      \
	X(read_lease_outlives_claim, "a new owner takes changes while leases of the last one run") \
	X(read_lease_from_answer,                                                                  \
	    "a client counts its read lease from the answer that it came by")                      \
	X(fence_unwaited, "a volume is changed by force while who was put out may still read it")  \
	X(fence_unlisted, "a gateway that another one does not see yet is not asked for a fence")  \
	X(reads_unfenced, "a volume is read at gateways alone while read leases of it run")        \
	X(recover_unwaited, "a store is made anew while leases of gateways that died may last")    \
	X(store_unjudged, "ids are given out before the store is known to be no older copy")       \
	X(holder_untold, "a gateway answers that it knows an attach before its ports do")          \
	/* Chunk maps: what a session may read by them. */                                         \
	X(map_log_ignored, "a map names blocks of runs that the log has newer ones of")            \
	X(direct_lease_unjudged, "a client's reads at nodes are not judged by its lease")          \
	X(map_dirty_ignored, "a client goes by a map though it has changed the block since")       \
	X(map_cleared_under_write, "a map counts as new though changes were under way")            \
	X(map_epoch_ignored, "a client goes by the map of an owner before")                        \
	/* Keys: who is let in, and to what. */                                                    \
	X(verdict_ignored, "a key of another authority is believed")                               \
	X(accept_role_ignored, "whoever has a key comes as what it says that it is")               \
	X(connect_role_ignored, "whoever has a key may answer in a node's place")                  \
	X(number_ignored, "a node's key is believed whatever its number")                          \
	X(plain_believed, "a port with a key takes a hello in the clear")                          \
	X(claim_unasked, "a node serves any gateway under any epoch")                              \
	X(claim_forgotten, "a start of a node lets any gateway have the epochs before it")         \
	X(right_unasked, "volumes are made and changed by clients without a right")                \
	X(session_right_unasked, "whoever may ask has a session of any volume")                    \
	X(revoked_forgotten, "who was revoked is let in again by a newer list that lacks the key") \
	X(session_kept, "a session goes on when its user has lost the right")                      \
	/* The table of hot blocks. */                                                             \
	X(hot_place_unchecked, "a hot block is served for a version of it that lies elsewhere")    \
	X(hot_hold_ignored, "a hot block's slot is filled anew while it is read")                  \
	X(hot_not_hidden, "a client goes on reading a hot block by itself that was changed")       \
	X(hot_shown_stale, "a hot block is shown to a client though a newer one is there")         \
	X(hot_page_unwiped, "a client may read what others had in a page of hot blocks")           \
	X(hot_kept_shown, "hot blocks of a shard that was lost stay shown, and their keys good")   \
	/* Client. */                                                                              \
	X(hot_torn_accepted, "a client takes a hot block whatever its CRC")                        \
	X(hot_name_ignored, "a client takes a hot block for another one that was there before")    \
	X(hot_epoch_ignored, "a client takes a hot block of an owner before")                      \
	X(hot_change_ignored,                                                                      \
	    "a client reads a hot block by itself while a change of it is under way")              \
	X(hot_lease_unjudged, "a client takes a hot block though its lease is over")               \
	X(debt_ignored, "writes go on at other ports while one that was given up may still land")

enum mutant {
#define MUTANT_ENUM(name, text) MUTANT_##name,
	MUTANT_LIST(MUTANT_ENUM)
#undef MUTANT_ENUM
	    MUTANT_NR
};

#ifdef CLEAVE_MUTANTS
/* Bit n % 64 of word n / 64: mutant n is on. Defined and set by the test program, before anything runs. */
struct mutant_set {
	uint64_t words[(MUTANT_NR + 63) / 64];
};
extern struct mutant_set mutants_on;

static inline void
mutant_set_add(struct mutant_set *set, enum mutant mutant)
{
	set->words[mutant / 64] |= UINT64_C(1) << mutant % 64;
}

static inline bool
mutant_is_on(enum mutant mutant)
{
	return (mutants_on.words[mutant / 64] >> mutant % 64 & 1) != 0;
}
#define MUTANT(name) mutant_is_on(MUTANT_##name)
#else
#define MUTANT(name) false
#endif

#endif /* CLEAVE_BASE_MUTANT_H */
