/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_read_lease.c -- rules S and C at a port, and planted bugs of theirs: read_lease.c is built into this test with them
 *
 * Who gets leases, and what clients do with them: tests/sim/test_leases.c.
 */
#define CLEAVE_MUTANTS
#include "middletier/session/read_lease.c"

#include <criterion/criterion.h>
#include <string.h>

#include "splitlib/sim/loop_sim.h"
#include "unit/time_passes.h"

struct mutant_set mutants_on;

static struct sim_world *world;
static struct mt_port port;
static struct mt_shard shard;

static void
pass(uint64_t ns)
{
	time_passes(world, port.loop, ns);
}

static void
setup(void)
{
	world = sim_world_create(1);
	port = (struct mt_port){ .loop = sim_loop_create(world, "port") };
	shard = (struct mt_shard){ .port = &port, .sm = { .state = MT_SHARD_SERVING } };
	memset(&mutants_on, 0, sizeof(mutants_on));
	pass(NUM_S(1));
}

static void
teardown(void)
{
	loop_destroy(port.loop);
	sim_world_destroy(world);
}

TestSuite(read_lease, .init = setup, .fini = teardown);

static struct mt_session
session_of(uint64_t volume_id, uint64_t attach)
{
	return (struct mt_session){ .magic = MT_SESSION_MAGIC,
		.port = &port,
		.hello = { .volume_id = volume_id, .attach = attach },
		.volume = { .reads = MT_READS_DIRECT },
		.lease = { .is_asked = true } };
}

static bool
is_stamped(struct mt_session *session)
{
	struct wire_header header = { .opcode = WIRE_READ | WIRE_REPLY };

	mt_read_lease_stamp(session, &shard, &header);
	return header.flags == WIRE_FLAG_LEASED;
}

Test(read_lease, an_answer_carries_it_where_the_shard_serves_who_has_asked)
{
	struct mt_session session = session_of(1, 1);

	cr_assert(is_stamped(&session));
	cr_assert_eq(session.lease.end_ns, mt_lease_now_ns(port.loop) + MT_READ_LEASE_NS);
	shard.sm.state = MT_SHARD_STOPPED;
	cr_assert_not(is_stamped(&session));
	shard.sm.state = MT_SHARD_SERVING;
	session.lease.is_asked = false;
	cr_assert_not(is_stamped(&session));
}

Test(read_lease, only_writers_of_such_volumes_may_have_one)
{
	struct mt_session session = session_of(1, 1);

	cr_assert(mt_read_lease_may_be_had(&session));
	session.volume.reads = MT_READS_GATEWAY;
	cr_assert_not(mt_read_lease_may_be_had(&session));
	session = session_of(1, 0); /* beside the writer */
	cr_assert_not(mt_read_lease_may_be_had(&session));
	session = session_of(0, 0);
	cr_assert_not(mt_read_lease_may_be_had(&session));
}

Test(read_lease, pages_of_hot_blocks_are_for_who_writes_a_volume_that_is_read_so)
{
	struct mt_session session = session_of(1, 1);

	session.volume.reads = MT_READS_HOT;
	cr_assert(mt_read_lease_has_pages(&session));
	session.volume.reads = MT_READS_DIRECT;
	cr_assert_not(mt_read_lease_has_pages(&session));
	session = session_of(1, 0); /* beside the writer */
	session.volume.reads = MT_READS_HOT;
	cr_assert_not(mt_read_lease_has_pages(&session));
}

Test(read_lease, maps_are_for_who_has_asked_for_leases_of_a_volume_that_is_read_at_nodes)
{
	struct mt_session session = session_of(1, 1);

	cr_assert(mt_read_lease_has_maps(&session));
	session.lease.is_asked = false;
	cr_assert_not(mt_read_lease_has_maps(&session));
	session.lease.is_asked = true;
	session.volume.reads = MT_READS_HOT;
	cr_assert_not(mt_read_lease_has_maps(&session));
}

/* A node keeps no limits, nor does a client that is somebody else's. */
Test(read_lease, a_volume_with_limits_is_read_at_its_gateway_as_long_as_it_has_them)
{
	struct mt_session session = session_of(1, 1);

	session.limits_tag = 1;
	cr_assert_not(is_stamped(&session));
	cr_assert_not(mt_read_lease_has_maps(&session));
	session.limits_tag = 0;
	cr_assert(is_stamped(&session));
	cr_assert(mt_read_lease_has_maps(&session));
}

/* The newer session's wait, when an older one of before was given a lease and has gone. */
static uint64_t
wait_behind(uint64_t attach)
{
	struct mt_session older = session_of(1, 1), newer = session_of(1, attach);

	(void)is_stamped(&older);
	pass(MT_READ_LEASE_NS / 4);
	mt_read_lease_left(&older);
	cr_assert_not(older.lease.is_asked);
	return mt_read_lease_wait_ns(&newer);
}

Test(read_lease, a_newer_session_waits_until_it_is_over)
{
	struct mt_session newer = session_of(1, 2);

	cr_assert_eq(wait_behind(2), MT_READ_LEASE_NS - MT_READ_LEASE_NS / 4);
	pass(MT_READ_LEASE_NS);
	cr_assert_eq(mt_read_lease_wait_ns(&newer), 0);
}

Test(read_lease, a_session_does_not_wait_for_its_own)
{
	cr_assert_eq(wait_behind(1), 0);
}

Test(read_lease, a_newer_session_that_does_not_wait_is_found)
{
	mutant_set_add(&mutants_on, MUTANT_read_lease_unwaited);
	cr_assert_eq(wait_behind(2), 0);
}

Test(read_lease, who_had_none_is_not_waited_for)
{
	struct mt_session older = session_of(1, 1), newer = session_of(1, 2);

	mt_read_lease_left(&older);
	cr_assert_eq(mt_read_lease_wait_ns(&newer), 0);
}

Test(read_lease, what_was_returned_is_not_waited_for)
{
	struct mt_session older = session_of(1, 1), again = session_of(1, 1),
			  newer = session_of(1, 2);

	(void)is_stamped(&older);
	mt_read_lease_left(&older);
	cr_assert_gt(mt_read_lease_wait_ns(&newer), 0);
	(void)is_stamped(&again);
	lease_return(&again);
	mt_read_lease_left(&again);
	cr_assert_eq(mt_read_lease_wait_ns(&newer), 0);
}

/* Two volumes in one place of the table: the later end counts for both, and for each one's reconnect. */
Test(read_lease, volumes_that_meet_in_the_table_wait_for_the_later_one)
{
	struct mt_session first = session_of(1, 1), other = session_of(2, 1);
	uint64_t end_ns;

	while (lease_end_of(&other) != lease_end_of(&first))
		other.hello.volume_id++;
	(void)is_stamped(&first);
	pass(MT_READ_LEASE_NS / 2);
	(void)is_stamped(&other);
	end_ns = other.lease.end_ns - mt_lease_now_ns(port.loop);
	mt_read_lease_left(&other);
	cr_assert_eq(mt_read_lease_wait_ns(&other), 0);
	mt_read_lease_left(&first);
	cr_assert_eq(mt_read_lease_wait_ns(&first), end_ns);
	cr_assert_eq(mt_read_lease_wait_ns(&other), end_ns);
	pass(MT_READ_LEASE_NS);
	cr_assert_eq(mt_read_lease_wait_ns(&first), 0);
}

/* Whose place several volumes share is nobody's: not of a connection without a volume either, whatever attach it says. */
Test(read_lease, what_several_volumes_wait_for_is_returned_by_none)
{
	struct mt_session first = session_of(1, 7), other = session_of(2, 1),
			  stranger = session_of(0, 7);
	uint64_t wait_ns;

	while (lease_end_of(&first) != lease_end_of(&stranger))
		first.hello.volume_id++;
	other.hello.volume_id = first.hello.volume_id + 1;
	while (lease_end_of(&other) != lease_end_of(&stranger))
		other.hello.volume_id++;
	(void)is_stamped(&first);
	(void)is_stamped(&other);
	mt_read_lease_left(&first);
	mt_read_lease_left(&other);
	wait_ns = mt_read_lease_wait_ns(&first);
	cr_assert_gt(wait_ns, 0);
	lease_return(&stranger);
	cr_assert_eq(mt_read_lease_wait_ns(&first), wait_ns);
	cr_assert_eq(mt_read_lease_wait_ns(&other), wait_ns);
}

/* How long changes of a volume wait, a while after a claim. */
static uint64_t
wait_after_claim(enum mt_reads reads, uint64_t after_ns)
{
	const struct mt_volume volume = { .reads = reads };

	mt_read_lease_claimed(&shard);
	pass(after_ns);
	return mt_read_lease_claim_wait_ns(&shard, &volume);
}

Test(read_lease, a_new_owner_lets_changes_wait)
{
	cr_assert_eq(wait_after_claim(MT_READS_DIRECT, NUM_MS(1)), MT_READ_LEASE_NS - NUM_MS(1));
	cr_assert_eq(wait_after_claim(MT_READS_HOT, NUM_MS(1)), MT_READ_LEASE_NS - NUM_MS(1));
	cr_assert_eq(wait_after_claim(MT_READS_GATEWAY, NUM_MS(1)), 0);
	cr_assert_eq(wait_after_claim(MT_READS_DIRECT, MT_READ_LEASE_NS), 0);
}

Test(read_lease, a_new_owner_that_lets_none_wait_is_found)
{
	mutant_set_add(&mutants_on, MUTANT_read_lease_outlives_claim);
	cr_assert_eq(wait_after_claim(MT_READS_DIRECT, NUM_MS(1)), 0);
}
