/* SPDX-License-Identifier: Apache-2.0
 *
 * mutant.h -- bugs that can be switched on, to measure what the simulator finds
 *
 * MUTANT(name) asks whether one is on. It is the constant false in every build but the target
 * sim_mutants (tests/sim/mutants.c), so the daemons that users run hold none of this. Each line of the
 * table is a mistake that a system of this kind has made; HACKING.md tells in how many seeds the
 * simulator finds it.
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
	X(lease_ignored, "a gateway serves without looking at its lease")                          \
	X(epoch_ignored, "a node lets older epochs pass its fence")                                \
	/* Storage node. */                                                                        \
	X(ack_before_flush, "an append is acknowledged once written, before its flush")            \
	X(fence_forgotten, "a node starts with the fences it had when formatted")                  \
	X(fence_not_durable, "a freeze is answered before its fence is on disk")                   \
	X(gap_accepted, "an append behind a gap is accepted")                                      \
	X(flush_retried, "a failed flush is tried again and believed")                             \
	X(slot_trusted, "a batch's extent and predecessor are not checked on recovery")            \
	X(last_batch_dropped, "recovery of an extent leaves its last batch out")                   \
	/* Gateway. */                                                                             \
	X(cut_to_shortest, "every replica is cut to the shortest answer")                          \
	X(tail_not_copied, "a take-over serves what not all replicas hold")                        \
	X(ack_two_of_three, "a write is acknowledged when all replicas but one have it")           \
	X(replay_twice, "the log is replayed again over newer records")                            \
	X(replay_short, "the replay leaves the log's last batch out")                              \
	X(buffer_reused, "a batch leaves the ring while a send may still read it")                 \
	X(session_drop_skipped, "a new incarnation does not wait for writes of the older one")     \
	X(replica_unverified, "a returning replica counts as whole, unread")                       \
	X(read_own_crc_skipped, "a block's stored CRC is not compared with the index")

enum mutant {
#define MUTANT_ENUM(name, text) MUTANT_##name,
	MUTANT_LIST(MUTANT_ENUM)
#undef MUTANT_ENUM
	    MUTANT_NR
};

#ifdef CLEAVE_MUTANTS
/* Bit n: mutant n is on. Defined and set by the test program, before anything runs. */
extern uint64_t mutants_on;

static inline bool
mutant_is_on(enum mutant mutant)
{
	return (mutants_on >> mutant & 1) != 0;
}
#define MUTANT(name) mutant_is_on(MUTANT_##name)
#else
#define MUTANT(name) false
#endif

_Static_assert(MUTANT_NR <= 64, "one bit each");

#endif /* CLEAVE_BASE_MUTANT_H */
