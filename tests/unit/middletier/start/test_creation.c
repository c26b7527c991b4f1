/* SPDX-License-Identifier: Apache-2.0 */
/* test_creation.c -- a cluster is made over empty nodes, once, and else nothing is written */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "middletier/start/creation.h"
#include "splitlib/sim/loop_sim.h"
#include "support/made_cluster.h"
#include "support/mt_rig.h"

static struct mt_rig *rig;

struct outcome {
	bool is_done;
	int rc;
	char text[512];
	struct loop *loop;
	struct meta *meta;
};

static void
on_made(int rc, const char *text, void *arg)
{
	struct outcome *outcome = arg;

	cr_assert_not(outcome->is_done);
	outcome->is_done = true;
	outcome->rc = rc;
	(void)snprintf(outcome->text, sizeof(outcome->text), "%s", text);
}

static void
ignore(int rc, void *arg)
{
	(void)rc;
	(void)arg;
}

static bool
is_made(void *arg)
{
	return ((const struct outcome *)arg)->is_done;
}

static struct meta *
open_store(char *ret_error, size_t error_bytes, void *arg)
{
	struct outcome *outcome = arg;

	(void)ret_error;
	(void)error_bytes;
	outcome->meta = meta_memory_open(rig->store, outcome->loop);
	return outcome->meta;
}

static void
make(struct outcome *outcome, bool has_store, uint32_t fail_nth)
{
	struct mt_creation_options options = { .gateway = rig->gateway_options,
		.open = open_store,
		.fn = on_made,
		.arg = outcome };
	struct mt_creation *creation;

	*outcome = (struct outcome){ .loop = sim_loop_create(rig->world, "gateway") };
	options.gateway.loop = outcome->loop;
	options.gateway.store_id = (struct store_id){ 9, 9 };
	if (has_store)
		options.gateway.meta = open_store(NULL, 0, outcome);
	mt_alloc_fail_at(fail_nth);
	creation = mt_creation_start(&options, outcome->text, sizeof(outcome->text));
	if (creation == NULL)
		outcome->rc = -ENOMEM;
	else
		cr_assert(mt_rig_run_until(rig, is_made, outcome));
	mt_creation_destroy(creation);
	if (outcome->meta != NULL)
		outcome->meta->ops->close(outcome->meta);
	loop_destroy(outcome->loop);
	sim_host_kill(rig->gateway_host, SIM_DEATH_RESET);
	sim_host_start(rig->gateway_host);
}

static uint32_t
key_count(void)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(rig->store, "", &items, &count), 0);
	mt_free(items);
	return count;
}

static void
expect_refused(int rc, const char *text)
{
	uint32_t count = key_count();
	struct outcome outcome;

	make(&outcome, true, 0);
	cr_assert_eq(outcome.rc, rc, "%s", outcome.text);
	cr_assert_not_null(strstr(outcome.text, text), "%s", outcome.text);
	cr_assert_eq(key_count(), count);
}

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 2 });
	rig->is_unmade = true;
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_start(rig, i);
	mt_rig_run(rig, NUM_MS(100));
}

static void
teardown(void)
{
	mt_alloc_fail_at(0);
	mt_rig_destroy(rig);
}

TestSuite(creation, .init = setup, .fini = teardown);

Test(creation, it_is_made_once)
{
	struct outcome outcome;

	make(&outcome, false, 0);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	cr_assert_eq(key_count(), 1);
	expect_refused(-EEXIST, "holds a cluster already");
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
}

/* The oldest of several releases decides: all of its nodes are to serve it. */
Test(creation, it_begins_at_the_level_that_all_nodes_speak)
{
	struct mt_cluster cluster;
	struct outcome outcome;

	make(&outcome, true, 0);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	made_cluster_read(rig->store, &cluster);
	cr_assert_eq(cluster.level, CLEAVE_LEVEL_MAX);
}

Test(creation, an_older_node_keeps_it_at_its_level)
{
	struct mt_cluster cluster;
	struct outcome outcome;

	mt_rig_node_kill(rig, 1, false);
	rig->node_level_max = CLEAVE_LEVEL_MIN;
	mt_rig_node_start(rig, 1);
	mt_rig_run(rig, NUM_MS(100));
	make(&outcome, true, 0);
	cr_assert_eq(outcome.rc, 0, "%s", outcome.text);
	made_cluster_read(rig->store, &cluster);
	cr_assert_eq(cluster.level, CLEAVE_LEVEL_MIN);
}

Test(creation, rest_of_a_recovery_is_no_new_store)
{
	struct meta *meta = meta_memory_open(rig->store, sim_world_nature(rig->world));
	const struct meta_op op = { .kind = META_PUT,
		.key = "shards/00000",
		.value = "{}",
		.value_bytes = 2 };

	cr_assert_eq(meta->ops->txn(meta, &op, 1, ignore, NULL), 0);
	mt_rig_run(rig, NUM_MS(10));
	meta->ops->close(meta);
	expect_refused(-EEXIST, "cleave recover");
}

Test(creation, a_node_that_is_away_may_hold_data)
{
	mt_rig_node_kill(rig, 1, false);
	expect_refused(-EHOSTDOWN, "sim://node2:1 was not reached");
}

static bool
is_linked(void *arg)
{
	(void)arg;
	return mt_rig_logged(rig, "node 1: link up") && mt_rig_logged(rig, "node 2: link up") &&
	    mt_rig_logged(rig, "node 3: link up");
}

/* All are up, and one says nothing of what it holds. */
Test(creation, a_node_that_falls_silent_is_named)
{
	struct outcome outcome = { .loop = sim_loop_create(rig->world, "gateway") };
	struct mt_creation_options options = { .gateway = rig->gateway_options,
		.open = open_store,
		.fn = on_made,
		.arg = &outcome };
	struct mt_creation *creation;

	options.gateway.loop = outcome.loop;
	options.gateway.store_id = (struct store_id){ 9, 9 };
	creation = mt_creation_start(&options, outcome.text, sizeof(outcome.text));
	cr_assert_not_null(creation);
	cr_assert(mt_rig_run_until(rig, is_linked, NULL));
	sim_loop_pause(rig->nodes[1].loop, NUM_S(600));
	cr_assert(mt_rig_run_until(rig, is_made, &outcome));
	cr_assert_eq(outcome.rc, -EHOSTDOWN, "%s", outcome.text);
	cr_assert_not_null(strstr(outcome.text, "sim://node2:1"), "%s", outcome.text);
	mt_creation_destroy(creation);
	cr_assert_null(outcome.meta);
	loop_destroy(outcome.loop);
	sim_host_kill(rig->gateway_host, SIM_DEATH_RESET);
	sim_host_start(rig->gateway_host);
}

/* Extents at the nodes that a cluster of before has left, whose store is gone. */
static void
lose_store(bool has_served)
{
	struct meta_snapshot *none = meta_store_snapshot(rig->store);

	rig->is_unmade = false;
	mt_rig_gateway_start(rig);
	if (has_served)
		cr_assert(mt_rig_wait_ready(rig));
	else
		mt_rig_run(rig, NUM_MS(5));
	mt_rig_gateway_kill(rig);
	cr_assert_eq(meta_store_restore(rig->store, none), 0);
	meta_snapshot_destroy(none);
}

Test(creation, nodes_with_data_are_left_alone)
{
	lose_store(true);
	expect_refused(-ENOTEMPTY, "holds a cluster's data");
}

/* A first gateway has met the nodes, and made nothing there: it may be about to. */
Test(creation, nodes_that_obey_a_store_are_left_alone)
{
	for (uint32_t i = 1; i < 3; i++)
		mt_rig_node_kill(rig, i, false);
	lose_store(false);
	for (uint32_t i = 1; i < 3; i++)
		mt_rig_node_start(rig, i);
	mt_rig_run(rig, NUM_MS(100));
	expect_refused(-ENOTEMPTY, "obeys another metadata store");
}

/* Made or not, as it says; where it says that it is not, it may be all the same, once it was written. */
Test(creation, nth_allocation_fails)
{
	struct meta_snapshot *none = meta_store_snapshot(rig->store);
	bool is_over = false;

	for (uint32_t nth = 1; !is_over; nth++) {
		struct outcome outcome;

		make(&outcome, nth % 2 == 0, nth);
		is_over = !mt_alloc_has_failed();
		mt_alloc_fail_at(0);
		cr_assert(!is_over || outcome.rc == 0, "%s", outcome.text);
		cr_assert(outcome.rc != 0 || key_count() == 1);
		mt_rig_run(rig, NUM_MS(10));
		cr_assert_eq(meta_store_restore(rig->store, none), 0);
		cr_assert_lt(nth, 500);
	}
	meta_snapshot_destroy(none);
}
