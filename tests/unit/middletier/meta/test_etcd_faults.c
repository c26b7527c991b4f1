/* SPDX-License-Identifier: Apache-2.0 */
/* test_etcd_faults.c -- meta_etcd on an etcd of which everything fails now and then, by seed */
#include <inttypes.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/etcd_json.h"
#include "splitlib/sim/loop_sim.h"
#include "support/fake_etcd.h"
#include "unit/etcd_fixture.h"
#include "unit/meta_fixture.h"

static const struct fake_etcd_faults all_faults = { .refused = 50,
	.lost = 20,
	.unanswered = 20,
	.late = 20,
	.unavailable = 20,
	.busy = 20,
	.empty = 20,
	.tokens = 5,
	.ended = 20,
	.silent = 10,
	.withheld = 10,
	.compacted = 5 };

struct racer {
	struct fixture *f;
	uint32_t won, perhaps, rounds_left;
	struct meta_op ops[2];
	char value[16];
};

static void racer_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg);

static void
racer_look(struct racer *racer)
{
	struct meta *meta = racer->f->meta;

	if (racer->rounds_left-- > 1)
		cr_assert_eq(meta->ops->list(meta, "sum", racer_on_list, racer), 0);
	else
		racer->rounds_left = 0;
}

static void
racer_on_txn(int rc, void *arg)
{
	struct racer *racer = arg;

	cr_assert(rc == 0 || rc == -EAGAIN || rc == -ETIMEDOUT, "rc %d", rc);
	racer->won += rc == 0;
	racer->perhaps += rc == -ETIMEDOUT;
	racer_look(racer);
}

static void
racer_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct racer *racer = arg;
	struct meta *meta = racer->f->meta;

	cr_assert(rc == 0 || rc == -ETIMEDOUT, "rc %d", rc);
	if (rc != 0) {
		racer_look(racer);
		return;
	}
	cr_assert_leq(count, 1);
	(void)snprintf(racer->value, sizeof(racer->value), "%lu",
	    count == 0 ? 1 : strtoul(items[0].value, NULL, 10) + 1);
	racer->ops[0] = compare("sum", count == 0 ? 0 : items[0].version);
	racer->ops[1] = put("sum", racer->value);
	cr_assert_eq(meta->ops->txn(meta, racer->ops, 2, racer_on_txn, racer), 0);
}

static bool
racers_are_done(void *arg)
{
	const struct racer *racers = arg;

	return racers[0].rounds_left == 0 && racers[1].rounds_left == 0;
}

/* Each addition that was answered counts once; one that "perhaps" happened at most once; others never. */
Test(etcd_faults, additions_of_two_processes_count_once_whatever_fails, .timeout = 120)
{
	uint32_t perhaps = 0, won = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct fixture f;
		struct other other;
		struct racer racers[2] = { { .f = &f, .rounds_left = 60 },
			{ .f = &other.f, .rounds_left = 60 } };
		struct answer sum;
		uint64_t value;

		fixture_init_etcd(&f, seed);
		other_init(&other, &f);
		fake_etcd_set_faults(f.etcd, &all_faults);
		racer_look(&racers[0]);
		racer_look(&racers[1]);
		cr_assert_eq(sim_world_run(f.world, racers_are_done, racers, SIM_FOR_EVER), 0);
		fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ 0 });
		run_for(&f, NUM_S(30));
		sum = list(&f, "sum");
		value = sum.item_count == 0 ? 0 : strtoull(sum.items[0].value, NULL, 10);
		won += racers[0].won + racers[1].won;
		perhaps += racers[0].perhaps + racers[1].perhaps;
		cr_assert_geq(value, racers[0].won + racers[1].won, "seed %" PRIu64, seed);
		cr_assert_leq(value,
		    racers[0].won + racers[1].won + racers[0].perhaps + racers[1].perhaps,
		    "seed %" PRIu64, seed);
		other_fini(&other);
		fixture_fini(&f);
	}
	cr_assert_gt(won, 0);
	cr_assert_gt(perhaps, 0);
}

struct owner {
	struct fixture *f;
	uint64_t lease, sent_ns, until_ns; /* by its own clock */
	struct loop_timer timer;
	uint32_t renewed_count, lost_count;
};

#define OWNER_TTL_NS NUM_S(10)

static void
owner_on_answer(int rc, uint64_t lease, void *arg)
{
	struct owner *owner = arg;
	uint64_t now_ns = loop_now_ns(owner->f->loop), due_ns;

	if (rc == 0) {
		owner->lease = lease;
		owner->renewed_count++;
		owner->until_ns = owner->sent_ns + OWNER_TTL_NS - OWNER_TTL_NS / 8;
	} else if (rc == -ENOENT) {
		owner->lost_count++;
		owner->lease = 0;
		owner->until_ns = 0;
	}
	due_ns = rc == 0 ? owner->sent_ns + OWNER_TTL_NS / 3 : now_ns + OWNER_TTL_NS / 12;
	loop_timer_start(owner->f->loop, &owner->timer, due_ns > now_ns ? due_ns - now_ns : 0);
}

static void
owner_begin(struct owner *owner)
{
	struct meta *meta = owner->f->meta;

	owner->sent_ns = loop_now_ns(owner->f->loop);
	if (owner->lease == 0)
		cr_assert_eq(meta->ops->lease_grant(meta, OWNER_TTL_NS, owner_on_answer, owner), 0);
	else
		cr_assert_eq(meta->ops->lease_renew(meta, owner->lease, owner_on_answer, owner), 0);
}

static void
owner_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	owner_begin(arg);
}

/* As the store itself has it now. */
static bool
lease_is_there(struct fixture *f, uint64_t lease)
{
	char text[64];
	struct etcd_text key = { 0 };
	bool is_there = false;

	(void)snprintf(text, sizeof(text), "/cleave/c1ea7e0000000001/l/%016" PRIx64, lease);
	etcd_text_base64(&key, NULL, 0, text, strlen(text));
	for (uint32_t i = 0; i < f->etcd->change_count; i++) {
		const struct fake_change *change = &f->etcd->changes[i];

		if (strncmp(change->key, key.bytes + 1, key.count - 2) == 0)
			is_there = change->value != NULL;
	}
	etcd_text_fini(&key);
	return is_there;
}

/* I7: as long as the owner believes in its lease, nobody has ended it. */
static void
check_owner(uint64_t seed, uint32_t *renewed, uint32_t *lost)
{
	struct fixture f;
	struct other others[2];
	struct owner owner = { .f = &f };
	struct loop *nature;

	fixture_init_etcd(&f, seed);
	nature = sim_world_nature(f.world);
	other_init(&others[0], &f);
	other_init(&others[1], &f);
	/* Clocks are a sixteenth off at most, as the eighth allows. */
	sim_loop_set_skew(f.loop, 0, (int32_t)loop_random_below(nature, 120001) - 60000);
	for (uint32_t i = 0; i < 2; i++)
		sim_loop_set_skew(others[i].f.loop, 0,
		    (int32_t)loop_random_below(nature, 120001) - 60000);
	fake_etcd_set_faults(f.etcd, &all_faults);
	loop_timer_init(&owner.timer, owner_on_timer, &owner);
	owner_begin(&owner);
	for (uint32_t i = 0; i < 1200; i++) {
		run_for(&f, NUM_MS(250));
		if (loop_now_fresh_ns(f.loop) < owner.until_ns)
			cr_assert(lease_is_there(&f, owner.lease), "seed %" PRIu64, seed);
		if (loop_random_below(nature, 100) == 0)
			sim_loop_pause(others[i % 2].f.loop, loop_random_below(nature, NUM_S(15)));
		if (loop_random_below(nature, 200) == 0)
			sim_loop_pause(f.loop, loop_random_below(nature, NUM_S(15)));
		if (loop_random_below(nature, 40) == 0)
			fake_etcd_cut_off(loop_random_below(nature, 2) == 0 ? f.way : others[0].way,
			    loop_random_below(nature, 2) == 0);
	}
	*renewed += owner.renewed_count;
	*lost += owner.lost_count;
	loop_timer_stop(f.loop, &owner.timer);
	other_fini(&others[0]);
	other_fini(&others[1]);
	fixture_fini(&f);
}

Test(etcd_faults, owner_that_believes_in_its_lease_has_it_whatever_fails, .timeout = 120)
{
	uint32_t renewed = 0, lost = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		check_owner(seed, &renewed, &lost);
	cr_assert_gt(renewed, 100);
	cr_assert_gt(lost, 5);
}
