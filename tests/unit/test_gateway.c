/* SPDX-License-Identifier: Apache-2.0 */
/* test_gateway.c -- a gateway's start, its refusals and its end */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "middletier/control.h"
#include "support/sim_gateway.h"

static struct sg sg;

static void
setup(void)
{
	sg_init(&sg, 3);
}

static void
teardown(void)
{
	sg_fini(&sg);
}

TestSuite(gateway, .init = setup, .fini = teardown);

static void
ignore(int rc, void *arg)
{
	(void)rc;
	(void)arg;
}

static bool
has_failed(void *arg)
{
	const struct sg *self = arg;

	return self->has_failed;
}

static void
expect_failure(const char *word)
{
	cr_assert(sg_run(&sg, has_failed, &sg), "nothing failed");
	cr_assert(strstr(sg.failure, word) != NULL, "'%s' does not name %s", sg.failure, word);
}

static void
expect_refusal(const char *word)
{
	cr_assert_neq(sg_start(&sg), 0);
	cr_assert(strstr(sg.error, word) != NULL, "'%s' does not name %s", sg.error, word);
	sg_stop(&sg);
}

Test(gateway, options_out_of_range_are_named)
{
	struct mt_gateway_options good = sg.options;

	sg.options.cluster_id = 0;
	expect_refusal("cluster-id");
	sg.options = good;
	sg.options.port_count = 0;
	expect_refusal("port");
	sg.options = good;
	sg.options.node_count = 0;
	expect_refusal("node");
	sg.options = good;
	sg.options.min_replicas = 4;
	expect_refusal("min-replicas");
	sg.options = good;
	sg.options.shard_count = CLEAVE_SHARDS_MAX + 1;
	expect_refusal("shards");
	sg.options = good;
	sg.options.device_bytes = 4096;
	expect_refusal("device-memory");
	sg.options = good;
	strcpy(sg.options.nodes[2].address, sg.options.nodes[0].address);
	expect_refusal("twice");
}

Test(gateway, an_address_in_use_is_named)
{
	sg.options.port_count = 2;
	strcpy(sg.options.ports[1].address, sg.options.ports[0].address);
	expect_refusal("in use");
}

Test(gateway, an_address_that_makes_no_sense_is_named)
{
	strcpy(sg.options.ports[0].address, "nonsense");
	expect_refusal("nonsense");
}

Test(gateway, another_cluster_is_refused)
{
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	sg_stop(&sg);
	sg.options.cluster_id++;
	cr_assert_eq(sg_start(&sg), 0);
	expect_failure("cluster-id");
}

Test(gateway, another_number_of_shards_is_refused)
{
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	cr_assert(!sg.has_failed, "%s", sg.failure);
	sg_stop(&sg);
	sg.options.shard_count = 5;
	cr_assert_eq(sg_start(&sg), 0);
	expect_failure("shards");
	sg_stop(&sg);
	/* 0: whatever the cluster was made with. */
	sg.options.shard_count = 0;
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	cr_assert(!sg.has_failed, "%s", sg.failure);
}

Test(gateway, too_little_device_memory_for_the_shards_is_refused)
{
	sg.options.shard_count = 32;
	cr_assert_eq(sg_start(&sg), 0);
	expect_failure("device-memory");
}

Test(gateway, a_broken_cluster_key_is_named)
{
	struct meta *meta = meta_memory_open(sg.store, sg.client_loop);
	const struct meta_op op = { .kind = META_PUT,
		.key = "cluster",
		.value = "{}",
		.value_bytes = 2 };

	cr_assert_eq(meta->ops->txn(meta, &op, 1, ignore, NULL), 0);
	sg_run_for(&sg, NUM_MS(10));
	meta->ops->close(meta);
	cr_assert_eq(sg_start(&sg), 0);
	expect_failure("metadata store");
}

Test(gateway, a_store_that_does_not_answer_is_asked_again)
{
	cr_assert_eq(sg_start(&sg), 0);
	meta_memory_cut_off(sg.meta, true);
	sg_run_for(&sg, NUM_S(5));
	cr_assert(!sg.has_failed);
	cr_assert(!mt_gateway_is_killed(sg.gateway));
	meta_memory_cut_off(sg.meta, false);
	sg_run_for(&sg, NUM_S(5));
	cr_assert_eq(sg.gateway->sm.state, MT_GATEWAY_TAKING);
}

Test(gateway, shards_are_spread_over_ports)
{
	sg.options.port_count = 3;
	sg.options.shard_count = 8;
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	cr_assert_eq(sg.gateway->ports[0].shard_count, 3);
	cr_assert_eq(sg.gateway->ports[1].shard_count, 3);
	cr_assert_eq(sg.gateway->ports[2].shard_count, 2);
	for (uint32_t i = 0; i < 8; i++) {
		for (uint32_t k = 0; k < 3; k++)
			cr_assert_eq(sg.gateway->ports[k].shard_by_number[i] != NULL, i % 3 == k);
		cr_assert_eq(sg.gateway->ports[i % 3].shard_by_number[i]->index, i);
	}
}

Test(gateway, two_starts_and_kills_leave_nothing_behind)
{
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(sg_start(&sg), 0);
		sg_run_for(&sg, NUM_US(100) * (unsigned)i);
		sg_kill(&sg);
	}
	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	cr_assert(!sg.has_failed);
}

Test(gateway, status_is_one_json_object)
{
	char *text;
	json_t *status;

	cr_assert_eq(sg_start(&sg), 0);
	sg_run_for(&sg, NUM_MS(50));
	text = mt_gateway_status_json(sg.gateway);
	status = json_loads(text, 0, NULL);
	cr_assert(json_is_object(status));
	cr_assert_eq(json_array_size(json_object_get(status, "shards")), 4);
	json_decref(status);
	free(text);
}
