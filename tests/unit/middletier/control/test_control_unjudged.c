/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_unjudged.c -- nothing gets an id before the owner of shard 0 has compared the store with what the nodes know
 *
 * The view is built in with its planted bug, which no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/cluster/member_view.c"

#include "unit/control_rig.h"

#define DEAD_GATEWAY 77u
#define BOOT_OF_BEFORE 1u

struct mutant_set mutants_on;

static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_GROUPS);
}

TestSuite(unjudged, .init = setup, .fini = rig_teardown);

/* The root of shard 0: its owner, of @boot_id, has epoch 9, and its manifest is of @manifest_epoch. */
static void
put_root(uint64_t gateway_id, uint64_t boot_id, uint32_t manifest_epoch, bool is_released)
{
	struct mt_root root = { .epoch = 9,
		.is_released = is_released,
		.gateway_id = gateway_id,
		.boot_id = boot_id,
		.has_manifest = true,
		.manifest = { .shard = 0, .epoch = manifest_epoch, .counter = 1 },
		.manifest_replica_count = 1,
		.manifest_sealed_bytes = MT_ROOT_OPEN };
	char key[MT_ROOT_KEY_BYTES];
	char *text;

	root.manifest_replicas[0] = (struct mt_replica){ .node_id = 1, .incarnation = 1 };
	(void)snprintf(root.port_address, sizeof(root.port_address), "sim://gateway:1");
	text = mt_root_encode(&root);
	cr_assert_not_null(text);
	mt_root_key(key, 0);
	rig_put(key, text);
	free(text);
}

static void
expect_refused(const char *request)
{
	json_t *answer = ask(-EBUSY, "%s", request);

	cr_assert_not_null(strstr(error_of(answer), "older copy"), "%s", error_of(answer));
	json_decref(answer);
}

#define CREATE "{'op':'volume.create','name':'w','size_bytes':8192}"

Test(unjudged, a_cluster_that_was_just_made_has_nothing_to_compare)
{
	cr_assert(mt_view_is_judged(&sg.gateway->member));
	done(ask(0, CREATE));
}

Test(unjudged, a_gateway_that_is_no_member_yet_has_nothing_compared)
{
	static const struct mt_member none;

	cr_assert_not(mt_view_is_judged(&none));
}

Test(unjudged, nothing_is_made_while_shard_0_is_nobodys)
{
	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	put_root(DEAD_GATEWAY, BOOT_OF_BEFORE, 9, false);
	expect_refused(CREATE);
	expect_refused("{'op':'snapshot.create','name':'v@s'}");
	expect_refused("{'op':'snapshot.group','names':['v@s']}");
	/* A change that gives out no id goes on. */
	done(ask(0, "{'op':'volume.rename','name':'v','new':'x'}"));
}

Test(unjudged, nor_before_its_owner_has_its_manifest_nor_when_it_has_given_it_up)
{
	uint64_t id = sg.options.gateway_id, boot_id = sg.gateway->options.boot_id;

	put_root(id, boot_id, 8, false);
	expect_refused(CREATE);
	put_root(id, boot_id, 9, true);
	expect_refused(CREATE);
	put_root(id, boot_id + 1, 9, false);
	expect_refused(CREATE);
	put_root(id, boot_id, 9, false);
	done(ask(0, CREATE));
}

Test(unjudged, believing_an_unjudged_store_is_found)
{
	put_root(DEAD_GATEWAY, BOOT_OF_BEFORE, 9, false);
	mutant_set_add(&mutants_on, MUTANT_store_unjudged);
	done(ask(0, CREATE));
}
