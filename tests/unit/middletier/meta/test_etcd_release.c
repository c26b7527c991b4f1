/* SPDX-License-Identifier: Apache-2.0 */
/* test_etcd_release.c -- what a dead process left in an etcd goes at once; a living one's, and a newer one's, stays */
#include <string.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/meta_etcd.h"
#include "splitlib/sim/loop_sim.h"
#include "support/fake_etcd.h"
#include "unit/etcd_fixture.h"
#include "unit/meta_fixture.h"

/* No lease ends by itself in any of these tests. */
#define LEASE_NS NUM_S(36000)

struct answered {
	bool is_done;
	int rc;
	char other[64];
};

static bool is_dead; /* the process that called itself "one" */

static bool
process_is_dead(const char *process)
{
	return is_dead && strcmp(process, "one") == 0;
}

static void
on_answered(int rc, const char *other, void *arg)
{
	struct answered *answered = arg;

	cr_assert_not(answered->is_done);
	answered->is_done = true;
	answered->rc = rc;
	(void)snprintf(answered->other, sizeof(answered->other), "%s", other);
}

static bool
answered_is_done(void *arg)
{
	return ((struct answered *)arg)->is_done;
}

/* The store as process @process opens it. */
static void
open_as(struct fixture *f, const char *by, const char *process)
{
	if (f->meta != NULL)
		f->meta->ops->close(f->meta);
	f->meta = meta_etcd_open(&(struct meta_etcd_options){ .loop = f->loop,
	    .http = fake_etcd_open(f->etcd, f->loop),
	    .endpoints = etcd_names,
	    .endpoint_count = ETCD_MEMBERS,
	    .prefix = "/cleave/1/",
	    .by = by,
	    .process = process,
	    .is_dead = process_is_dead });
	cr_assert_not_null(f->meta);
	cr_assert_eq(loop_run(f->loop, etcd_is_ready, f), 0);
}

static void
claim(struct fixture *f)
{
	struct answered answered = { 0 };

	cr_assert_eq(meta_etcd_claim(f->meta, 7, LEASE_NS, on_answered, &answered), 0);
	cr_assert_eq(loop_run(f->loop, answered_is_done, &answered), 0);
	cr_assert_eq(answered.rc, 0);
}

static void
register_it(struct fixture *f)
{
	struct meta_op op = put("gateways/7", "here");

	op.lease = grant(f, LEASE_NS);
	cr_assert_eq(txn(f, &op, 1), 0);
}

static int
release(struct fixture *f, char ret_other[64])
{
	struct answered answered = { 0 };

	cr_assert_eq(meta_etcd_release(f->meta, 7, on_answered, &answered), 0);
	cr_assert_eq(loop_run(f->loop, answered_is_done, &answered), 0);
	if (ret_other != NULL)
		memcpy(ret_other, answered.other, 64);
	return answered.rc;
}

/* Gateway 7 has run as process "one", and this is another one. */
static void
setup(struct fixture *f, uint64_t seed)
{
	fixture_init_etcd(f, seed);
	open_as(f, "gateway 7", "one");
	claim(f);
	register_it(f);
	open_as(f, "a command", "two");
	is_dead = true;
}

Test(etcd_release, dead_process_leaves_nothing)
{
	char other[64];
	struct fixture f;
	uint64_t before_ns;

	setup(&f, 1);
	before_ns = sim_world_now_ns(f.world);
	cr_assert_eq(release(&f, other), 0);
	cr_assert_str_eq(other, "gateway 7");
	cr_assert_eq(list(&f, "gateways/").item_count, 0);
	open_as(&f, "gateway 7 again", "three");
	claim(&f); /* which would call process "one" living */
	cr_assert_lt(sim_world_now_ns(f.world) - before_ns, NUM_S(1));
	fixture_fini(&f);
}

Test(etcd_release, living_process_keeps_what_it_has)
{
	char other[64];
	struct fixture f;

	setup(&f, 1);
	is_dead = false;
	cr_assert_eq(release(&f, other), -EBUSY);
	cr_assert_str_eq(other, "gateway 7");
	cr_assert_eq(list(&f, "gateways/").item_count, 1);
	fixture_fini(&f);
}

/* The claim is of the dead one still, but the key was put by another process, under a lease of its own. */
Test(etcd_release, key_of_another_process_stays)
{
	struct fixture f;

	setup(&f, 1);
	open_as(&f, "gateway 7 elsewhere", "three");
	register_it(&f);
	open_as(&f, "a command", "two");
	cr_assert_eq(release(&f, NULL), 0);
	cr_assert_eq(list(&f, "gateways/").item_count, 1);
	open_as(&f, "a command", "two");
	cr_assert_eq(release(&f, NULL), -ENOENT);
	cr_assert_eq(list(&f, "gateways/").item_count, 1);
	fixture_fini(&f);
}

Test(etcd_release, nothing_is_there_to_release)
{
	struct fixture f;

	fixture_init_etcd(&f, 1);
	open_as(&f, "a command", "two");
	cr_assert_eq(release(&f, NULL), -ENOENT);
	cr_assert_eq(meta_etcd_release(f.meta, 7, on_answered, NULL), -EBUSY); /* once a handle */
	fixture_fini(&f);
}

/* A newer incarnation comes while the dead one's keys are deleted: at each point of it. */
Test(etcd_release, newer_incarnation_is_never_ended)
{
	uint32_t early_count = 0;

	for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
		struct answered released = { 0 }, claimed = { 0 };
		struct fixture f;
		struct other other;

		setup(&f, seed);
		other_init(&other, &f);
		open_as(&other.f, "gateway 7 anew", "three");
		cr_assert_eq(meta_etcd_claim(other.f.meta, 7, LEASE_NS, on_answered, &claimed), 0);
		run_for(&f, loop_random_below(f.loop, NUM_MS(2)));
		cr_assert_eq(meta_etcd_release(f.meta, 7, on_answered, &released), 0);
		cr_assert_eq(loop_run(f.loop, answered_is_done, &released), 0);
		cr_assert(released.rc == 0 || released.rc == -EBUSY || released.rc == -ENOENT);
		early_count += released.rc == 0;
		cr_assert_eq(loop_run(f.loop, answered_is_done, &claimed), 0);
		cr_assert_eq(claimed.rc, 0);
		register_it(&other.f);
		run_for(&f, NUM_S(10));
		cr_assert_eq(list(&other.f, "gateways/").item_count, 1);
		open_as(&f, "a command", "two");
		cr_assert_eq(release(&f, NULL), -EBUSY, "seed %u: its claim is gone",
		    (unsigned)seed);
		other_fini(&other);
		fixture_fini(&f);
	}
	cr_assert(early_count > SEEDS / 2 && early_count < 4 * SEEDS - SEEDS / 2, "%u",
	    early_count);
}
