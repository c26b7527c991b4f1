/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_lease.c -- from when a client counts its read leases: lease.c is built into this test, with a planted bug */
#define CLEAVE_MUTANTS
#include "vm-client/library/lease.c"

#include <criterion/criterion.h>

#include "splitlib/base/num.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/time_passes.h"

#define EPOCH 7u
#define LENGTH_NS NUM_MS(400)

struct mutant_set mutants_on;

static struct sim_world *world;
static struct cleave_client client;
static struct cleave_volume volume;

static void
setup(void)
{
	world = sim_world_create(1);
	client = (struct cleave_client){ .loop = sim_loop_create(world, "client") };
	volume = (struct cleave_volume){ .client = &client };
	volume.leases = calloc(1, sizeof(*volume.leases) + sizeof(struct lease));
	cr_assert_not_null(volume.leases);
	volume.leases->shard_count = 1;
	volume.leases->length_ns = LENGTH_NS;
}

static void
teardown(void)
{
	free(volume.leases);
	loop_destroy(client.loop);
	sim_world_destroy(world);
}

TestSuite(lease, .init = setup, .fini = teardown);

static void
pass(uint64_t ns)
{
	time_passes(world, client.loop, ns);
}

/* The answer to a request comes @late_ns after that was sent. */
static void
hear(uint64_t late_ns)
{
	const struct wire_io_reply reply = { .is_leased = true, .epoch = EPOCH };
	uint64_t sent_ns = leases_now_ns(&volume);

	pass(late_ns);
	leases_on_reply(&volume, 0, &reply, sent_ns);
}

/* However late its answer: the gateway may have granted it as soon as it was asked. */
Test(lease, counts_from_when_its_request_was_sent)
{
	hear(NUM_MS(300));
	cr_assert(leases_hold(&volume, 0, EPOCH));
	pass(NUM_MS(51));
	cr_assert_not(leases_hold(&volume, 0, EPOCH), "an eighth is for clocks that drift apart");
	hear(NUM_MS(351));
	cr_assert_not(leases_hold(&volume, 0, EPOCH), "it was over when it came");
}

Test(lease, with_its_planted_bug_it_counts_from_the_answer)
{
	mutant_set_add(&mutants_on, MUTANT_read_lease_from_answer);
	hear(NUM_MS(351));
	cr_assert(leases_hold(&volume, 0, EPOCH));
}

Test(lease, of_an_epoch_before_is_none)
{
	const struct wire_io_reply older = { .is_leased = true, .epoch = EPOCH - 1 };

	hear(0);
	leases_on_reply(&volume, 0, &older, leases_now_ns(&volume));
	cr_assert(leases_hold(&volume, 0, EPOCH));
	cr_assert_not(leases_hold(&volume, 0, EPOCH - 1));
}

/* A change of the client's own that a newer owner has made is not shown by one before. */
Test(lease, ends_with_any_answer_of_a_newer_owner)
{
	struct wire_io_reply newer = { .epoch = EPOCH + 1 };

	hear(0);
	newer.rc = -EREMCHG;
	leases_on_reply(&volume, 0, &newer, leases_now_ns(&volume));
	cr_assert(leases_hold(&volume, 0, EPOCH), "it has done nothing");
	newer.rc = 0;
	leases_on_reply(&volume, 0, &newer, leases_now_ns(&volume));
	cr_assert_not(leases_hold_any(&volume, 0));
	hear(0);
	cr_assert_not(leases_hold_any(&volume, 0), "whatever the one before says");
}
