/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rebuild_lease.c -- a metadata store is made anew while leases of gateways that died are left: theirs, in it, and
 * those of clients, which no key tells of
 *
 * The code under test is built in with its planted bug.
 */
#define CLEAVE_MUTANTS
#include "middletier/rebuild/rebuild.c"

#include <criterion/criterion.h>

#include "cleave/meta.h"
#include "middletier/cluster/mirror.h"
#include "middletier/cluster/volume_change.h"
#include "middletier/manifest/manifest.h"
#include "middletier/manifest/manifest_state.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "tests/support/mt_rig.h"

#define LEASE_NS NUM_S(10)

struct mutant_set mutants_on;

struct outcome {
	bool is_done;
	int rc;
	char text[256];
};

static void
on_rebuilt(int rc, const char *text, void *arg)
{
	struct outcome *outcome = arg;

	outcome->is_done = true;
	outcome->rc = rc;
	(void)snprintf(outcome->text, sizeof(outcome->text), "%s", text);
}

static bool
is_done(void *arg)
{
	return ((const struct outcome *)arg)->is_done;
}

static void
on_lease(int rc, uint64_t lease, void *arg)
{
	cr_assert_eq(rc, 0);
	*(uint64_t *)arg = lease;
}

static bool
is_lease(void *arg)
{
	return *(const uint64_t *)arg != 0;
}

static void
on_put(int rc, void *arg)
{
	cr_assert_eq(rc, 0);
	*(uint64_t *)arg = 0;
}

static bool
is_put(void *arg)
{
	return !is_lease(arg);
}

/* A gateway that has registered, and died. */
static void
leave_gateway(struct mt_rig *rig)
{
	struct loop *loop = sim_loop_create(rig->world, "other");
	struct meta *meta = meta_memory_open(rig->store, loop);
	struct meta_op put = { .kind = META_PUT,
		.key = "gateways/7",
		.value = "{}",
		.value_bytes = 2 };
	uint64_t lease = 0;

	cr_assert_eq(meta->ops->lease_grant(meta, LEASE_NS, on_lease, &lease), 0);
	cr_assert(mt_rig_run_until(rig, is_lease, &lease));
	put.lease = lease;
	cr_assert_eq(meta->ops->txn(meta, &put, 1, on_put, &lease), 0);
	cr_assert(mt_rig_run_until(rig, is_put, &lease));
	meta->ops->close(meta);
	loop_destroy(loop);
}

static struct mt_rebuild_options
options_of(struct mt_rig *rig, struct outcome *outcome)
{
	struct mt_rebuild_options options = { .gateway = rig->gateway_options,
		.fn = on_rebuilt,
		.arg = outcome };

	if (!sim_host_is_up(rig->gateway_host))
		sim_host_start(rig->gateway_host);
	options.gateway.shard_count = 0;
	options.gateway.store_id = (struct store_id){ 0x570e, 2 };
	options.gateway.loop = sim_loop_create(rig->world, "gateway");
	options.gateway.meta = meta_memory_open(rig->store, options.gateway.loop);
	return options;
}

static void
rebuild_to_its_end(struct mt_rig *rig, struct mt_rebuild_options *options, struct outcome *outcome)
{
	struct mt_rebuild *rebuild =
	    mt_rebuild_start(options, outcome->text, sizeof(outcome->text));

	cr_assert_not_null(rebuild, "%s", outcome->text);
	cr_assert(mt_rig_run_until(rig, is_done, outcome));
	mt_rebuild_destroy(rebuild);
	options->gateway.meta->ops->close(options->gateway.meta);
	loop_destroy(options->gateway.loop);
}

/* The store of those who are all dead: whoever comes has to stay until their leases end. */
Test(rebuild_lease, gateway_that_died_is_waited_for_where_leases_are_observed)
{
	struct mt_rig *rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 2 });
	struct meta_snapshot *empty = meta_store_snapshot(rig->store);
	struct outcome outcome = { 0 };
	struct mt_rebuild_options options;
	struct meta_ops observed;
	uint64_t before_ns;

	mt_rig_up(rig);
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, empty), 0);
	before_ns = sim_world_now_ns(rig->world);
	leave_gateway(rig);
	options = options_of(rig, &outcome);
	observed = *options.gateway.meta->ops;
	observed.are_leases_observed = true;
	options.gateway.meta->ops = &observed;
	rebuild_to_its_end(rig, &options, &outcome);
	/* The recovery goes on; of a cluster without volumes no node tells of any. */
	cr_assert_eq(outcome.rc, -ENODATA, "%s", outcome.text);
	cr_assert_geq(sim_world_now_ns(rig->world) - before_ns, LEASE_NS);
	meta_snapshot_destroy(empty);
	mt_rig_destroy(rig);
}

static void
on_volume(int rc, const struct mt_volume *volume, void *arg)
{
	(void)volume;
	cr_assert_eq(rc, 0);
	*(bool *)arg = true;
}

static bool
is_true(void *arg)
{
	return *(bool *)arg;
}

static bool
is_mirrored(void *arg)
{
	struct mt_rig *rig = arg;
	const struct mt_manifest_state *state = mt_manifest_state(mt_rig_shard(rig, 0));

	return state != NULL && state->volume_count == 1 && !rig->gateway->mirror->is_out;
}

/* How long it takes to make the store of a cluster with one volume anew, from the death of its gateway on. */
static uint64_t
recovery_ns(void)
{
	const struct mt_volume wish = { .name = "v",
		.size_bytes = NUM_GIB(1),
		.codec_id = 1,
		.replica_count = 3 };
	struct mt_rig *rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 2 });
	struct meta_snapshot *empty = meta_store_snapshot(rig->store);
	struct outcome outcome = { 0 };
	struct mt_rebuild_options options;
	bool is_made = false;
	uint64_t from_ns;

	mt_rig_up(rig);
	cr_assert_eq(mt_volume_create(rig->gateway, &wish, on_volume, &is_made), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_made));
	cr_assert(mt_rig_run_until(rig, is_mirrored, rig));
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, empty), 0);
	from_ns = sim_world_now_ns(rig->world);
	options = options_of(rig, &outcome);
	rebuild_to_its_end(rig, &options, &outcome);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	from_ns = sim_world_now_ns(rig->world) - from_ns;
	meta_snapshot_destroy(empty);
	mt_rig_destroy(rig);
	return from_ns;
}

/* The mirror may say of a volume that it is read at gateways alone, and its clients have leases: nobody serves before their end. */
Test(rebuild_lease, clients_leases_end_before_the_store_is_written)
{
	cr_assert_geq(recovery_ns(), MT_READ_LEASE_NS);
	mutant_set_add(&mutants_on, MUTANT_recover_unwaited);
	cr_assert_lt(recovery_ns(), MT_READ_LEASE_NS);
}
