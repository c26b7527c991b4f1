/* SPDX-License-Identifier: Apache-2.0 */
/* test_stale.c -- a store that knows less than the nodes, and roots that are not ours: what is claimed, and what is not */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/root.h"
#include "middletier/common/event.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/gateway/gateway.h"
#include "middletier/manifest/edit.h"
#include "middletier/port/waits.h"
#include "middletier/shard/shard.h"
#include "support/mt_rig.h"

static struct mt_rig *rig;

static void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ 0 });
	mt_rig_log_start(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(stale, .init = setup, .fini = teardown);

Test(stale, newer_owner_stops_it)
{
	struct mt_shard *shard;
	struct mt_root root;

	mt_rig_up(rig);
	shard = mt_rig_shard(rig, 0);
	root = *shard->root;
	/* Somebody else has moved on: nodes are fenced, the root is theirs. */
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_node fence = { .opcode = WIRE_SHARD_FENCE, .id.shard = 0, .epoch = 9 };

		cr_assert_eq(mt_rig_call(rig, i, &fence, NULL), 0);
	}
	cr_assert_null(mt_rig_log_open(rig));
	(void)root;
	/* The root is still ours: the store must be stale. */
	mt_rig_gateway_kill(rig);
	mt_rig_log_clear(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	cr_assert(mt_rig_logged(rig, "cleave recover"));
	/* Said once, and nothing is claimed that cannot be used. */
	cr_assert_not(mt_rig_logged(rig, "claimed epoch"));
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(600));
	cr_assert_not(mt_rig_logged(rig, "stale"));
	cr_assert_not(mt_rig_logged(rig, "claimed epoch"));
}

struct looks {
	enum mt_shard_state state;
	uint32_t count;
};

static bool
is_looked_at_thrice(void *arg)
{
	struct looks *looks = arg;
	const struct mt_shard *shard = mt_rig_shard(rig, 0);

	cr_assert_eq(mt_shard_wait(shard), MT_WAIT_STALE, "in state %u", (unsigned)shard->sm.state);
	looks->count += looks->state == MT_SHARD_IDLE && shard->sm.state == MT_SHARD_CLAIMING;
	looks->state = shard->sm.state;
	return looks->count == 3;
}

/* Clients hear the same while it is looked at again: one that gives up says what it heard last. */
Test(stale, what_was_found_is_told_while_it_is_looked_at_again)
{
	struct looks looks = { .state = MT_SHARD_STOPPED };

	mt_rig_up(rig);
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_node fence = { .opcode = WIRE_SHARD_FENCE, .id.shard = 0, .epoch = 9 };

		cr_assert_eq(mt_rig_call(rig, i, &fence, NULL), 0);
	}
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_run_until(rig, is_looked_at_thrice, &looks), "%u looks", looks.count);
}

static void
put_on_txn(int rc, void *arg)
{
	*(int *)arg = rc == 0 ? 1 : rc;
}

static bool
is_nonzero(void *arg)
{
	return *(int *)arg != 0;
}

static void
put_key(const char *key, const char *text)
{
	int outcome = 0;

	cr_assert_eq(rig->meta->ops->txn(rig->meta,
			 &(struct meta_op){ .kind = META_PUT,
			     .key = key,
			     .value = text,
			     .value_bytes = (uint32_t)strlen(text) },
			 1, put_on_txn, &outcome),
	    0);
	cr_assert(mt_rig_run_until(rig, is_nonzero, &outcome));
	cr_assert_eq(outcome, 1);
}

/* Changes the root behind the shard's back. */
static void
put_root(const struct mt_root *root)
{
	char key[MT_ROOT_KEY_BYTES];
	char *text = mt_root_encode(root);

	mt_root_key(key, 0);
	put_key(key, text);
	free(text);
}

/* The node that is there has never held anything of the shard: it cannot know that the store was set back. */
Test(stale, only_nodes_of_its_manifest_tell_that_a_store_is_old)
{
	struct mt_root old;
	uint32_t other = 0;

	teardown();
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = 4 });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	old = *mt_rig_shard(rig, 0)->root;
	cr_assert_eq(old.manifest_replica_count, 3);
	for (uint32_t i = 0; i < old.manifest_replica_count; i++)
		other |= 1u << mt_rig_index(&old.manifest_replicas[i]);
	other = (uint32_t)__builtin_ctz(~other);
	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, other, false);
	mt_rig_gateway_start(rig); /* the next owner, whose manifest is another */
	cr_assert(mt_rig_wait_ready(rig));
	mt_rig_run(rig, NUM_S(30));
	put_root(&old);
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < 4; i++) {
		if (i == other)
			mt_rig_node_start(rig, i);
		else
			mt_rig_node_kill(rig, i, false);
	}
	mt_rig_log_clear(rig);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(20));
	cr_assert(mt_rig_logged(rig, "waits for nodes that have its manifest"));
	cr_assert_not(mt_rig_logged(rig, "claimed epoch"));
	for (uint32_t i = 0; i < 4; i++) {
		if (i != other)
			mt_rig_node_start(rig, i);
	}
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	cr_assert(mt_rig_logged(rig, "the metadata store is stale"));
	cr_assert_not(mt_rig_logged(rig, "claimed epoch"));
}

Test(stale, lost_root_stops_the_shard)
{
	struct mt_edit edit = { .kind = MT_EDIT_CUT, .cut = 1, .sequence = 4 };
	struct mt_root root;

	mt_rig_up(rig);
	root = *mt_rig_shard(rig, 0)->root;
	root.epoch = 7;
	root.gateway_id = 2;
	root.boot_id = 77;
	put_key("gateways/2",
	    "{\"format\":1,\"boot_id\":\"000000000000004d\",\"ports\":[\"sim://other:7100\"]}");
	put_root(&root);
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_node fence = { .opcode = WIRE_SHARD_FENCE, .id.shard = 0, .epoch = 7 };

		cr_assert_eq(mt_rig_call(rig, i, &fence, NULL), 0);
	}
	/* Whoever asks a node first finds out: this commit, or the write path before it. */
	if (mt_rig_shard(rig, 0)->manifest != NULL)
		cr_assert_eq(mt_rig_commit(rig, &edit, 1), -ESTALE);
	/* And it is not taken again by itself. */
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_IDLE);
	cr_assert(mt_rig_logged(rig, "another gateway has taken it over"));
}

/* A root from nowhere: its epoch would use up the shard's epochs, and shut its owner out. */
Test(stale, nodes_that_refuse_its_epoch_say_why)
{
	struct mt_root root;

	mt_rig_up(rig);
	root = *mt_rig_shard(rig, 0)->root;
	root.epoch += 1u << 21;
	put_root(&root);
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(mt_rig_shard(rig, 0)->sm.state, MT_SHARD_AGREEING);
	cr_assert(mt_rig_logged(rig, "to freeze extent 0.1.1: an epoch far above the fence"));
}

/* Another try begins; until then it is in no state that anybody would take for another gateway's shard. */
static bool
is_tried_again(void *arg)
{
	const struct mt_shard *shard = mt_rig_shard(rig, 0);
	uint32_t *state = arg;
	bool is_again = *state != MT_SHARD_CLAIMING && shard->sm.state == MT_SHARD_CLAIMING;

	cr_assert(mt_shard_failed_why(shard) == NULL || mt_shard_wait(shard) == MT_WAIT_FAILED);
	*state = shard->sm.state;
	return is_again;
}

/* Clients of it wait for ever, and what its owner says of itself is all that anybody can see of that. */
Test(stale, root_that_makes_no_sense_is_told_of_all_the_time_and_logged_once)
{
	uint32_t state = MT_SHARD_CLAIMING;
	int outcome = 0;

	mt_rig_up(rig);
	cr_assert_eq(rig->meta->ops->txn(rig->meta,
			 &(struct meta_op){ .kind = META_PUT,
			     .key = "shards/00000",
			     .value = "{}",
			     .value_bytes = 2 },
			 1, put_on_txn, &outcome),
	    0);
	cr_assert(mt_rig_run_until(rig, is_nonzero, &outcome));
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_STOPPED));
	for (uint32_t i = 0; i < 5; i++)
		cr_assert(mt_rig_run_until(rig, is_tried_again, &state), "try %u", i);
	cr_assert(mt_rig_logged(rig, "its root cannot be understood"));
	cr_assert_eq(mt_events_count(rig->gateway->shared.events, CLEAVE_EVENT_SHARD_STOPPED), 1);
}
