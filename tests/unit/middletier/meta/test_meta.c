/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_meta.c -- what every metadata store must do, asked of each; then what one alone does
 *
 * META_TEST runs a check against each store.
 */
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/meta_lmdb.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/meta_fixture.h"

/* ---- a real etcd, one for all tests ---- */

static struct real_etcd real_members;

/* Tests are processes of their own, which see what is in the environment. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
	(void)tests;
	if (!real_etcd_is_here())
		return;
	real_etcd_start(&real_members, 1);
	(void)setenv(REAL_ETCD_URL, real_members.urls[0], 1);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
	(void)stats;
	real_etcd_stop(&real_members);
}

/* ---- keys ---- */

META_TEST(empty_store_has_no_keys)
{
	cr_assert_eq(list(f, "").item_count, 0);
	cr_assert_eq(list(f, "shards/").item_count, 0);
}

META_TEST(put_is_listed)
{
	struct answer answer;

	cr_assert_eq(put_one(f, "a/1", "one"), 0);
	answer = list(f, "a/1");
	cr_assert_eq(answer.item_count, 1);
	cr_assert_str_eq(answer.items[0].key, "a/1");
	cr_assert_str_eq(answer.items[0].value, "one");
	cr_assert_gt(answer.items[0].version, 0);
}

META_TEST(list_is_sorted_and_by_prefix)
{
	const char *keys[] = { "b/2", "a/9", "b/1", "b", "c", "b/10" };
	const char *expected[] = { "b", "b/1", "b/10", "b/2" };
	struct answer answer;

	for (uint32_t i = 0; i < NUM_COUNT(keys); i++)
		cr_assert_eq(put_one(f, keys[i], "x"), 0);
	answer = list(f, "b");
	cr_assert_eq(answer.item_count, NUM_COUNT(expected));
	for (uint32_t i = 0; i < NUM_COUNT(expected); i++)
		cr_assert_str_eq(answer.items[i].key, expected[i]);
	cr_assert_eq(list(f, "").item_count, NUM_COUNT(keys));
	cr_assert_eq(list(f, "b/1").item_count, 2);
	cr_assert_eq(list(f, "bb").item_count, 0);
}

META_TEST(versions_grow_with_each_change)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < 5; i++) {
		uint64_t version;

		cr_assert_eq(put_one(f, "k", "v"), 0);
		version = version_of(f, "k");
		cr_assert_gt(version, last);
		last = version;
	}
	/* Also over a deletion: nobody takes the new key for the old one. */
	cr_assert_eq(txn(f, &(struct meta_op){ .kind = META_DELETE, .key = "k" }, 1), 0);
	cr_assert_eq(version_of(f, "k"), 0);
	cr_assert_eq(put_one(f, "k", "v"), 0);
	cr_assert_gt(version_of(f, "k"), last);
}

META_TEST(compare_decides)
{
	struct meta_op absent[] = { compare("k", 0), put("k", "first") };
	struct meta_op ops[2];
	uint64_t version;

	cr_assert_eq(txn(f, absent, 2), 0);
	cr_assert_eq(txn(f, absent, 2), -EAGAIN);
	version = version_of(f, "k");
	ops[0] = compare("k", version);
	ops[1] = put("k", "second");
	cr_assert_eq(txn(f, ops, 2), 0);
	cr_assert_eq(txn(f, ops, 2), -EAGAIN);
	cr_assert_str_eq(list(f, "k").items[0].value, "second");
}

META_TEST(transaction_is_all_or_nothing)
{
	struct meta_op ops[] = { put("a", "1"), put("b", "2"), compare("c", 0), put("c", "3"),
		{ .kind = META_DELETE, .key = "d" } };

	cr_assert_eq(put_one(f, "c", "old"), 0);
	cr_assert_eq(put_one(f, "d", "old"), 0);
	cr_assert_eq(txn(f, ops, NUM_COUNT(ops)), -EAGAIN);
	cr_assert_eq(list(f, "").item_count, 2);
	cr_assert_str_eq(list(f, "c").items[0].value, "old");
	ops[2] = compare("c", version_of(f, "c"));
	cr_assert_eq(txn(f, ops, NUM_COUNT(ops)), 0);
	cr_assert_eq(list(f, "").item_count, 3);
	cr_assert_eq(version_of(f, "d"), 0);
}

META_TEST(deleting_what_is_absent_is_no_error)
{
	cr_assert_eq(txn(f, &(struct meta_op){ .kind = META_DELETE, .key = "k" }, 1), 0);
}

META_TEST(inputs_are_copied)
{
	char key[] = "key", value[] = "value";
	struct meta_op op = put(key, value);
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->txn(f->meta, &op, 1, on_txn, &answer), 0);
	memset(key, 'x', 3);
	memset(value, 'x', 5);
	wait_for(f, &answer);
	cr_assert_str_eq(list(f, "key").items[0].value, "value");
}

META_TEST(longest_and_emptiest)
{
	char key[META_KEY_BYTES_MAX + 1];
	char *value = calloc(1, META_VALUE_BYTES_MAX);
	struct meta_op op = { .kind = META_PUT,
		.key = key,
		.value = value,
		.value_bytes = META_VALUE_BYTES_MAX };

	memset(key, 'k', META_KEY_BYTES_MAX);
	key[META_KEY_BYTES_MAX] = '\0';
	cr_assert_eq(txn(f, &op, 1), 0);
	cr_assert_eq(list(f, key).items[0].value_bytes, META_VALUE_BYTES_MAX);
	op = (struct meta_op){ .kind = META_PUT, .key = "e" };
	cr_assert_eq(txn(f, &op, 1), 0);
	cr_assert_eq(list(f, "e").items[0].value_bytes, 0);
	free(value);
}

META_TEST(bad_inputs_are_refused_at_once)
{
	char key[META_KEY_BYTES_MAX + 2];
	struct meta_op many[META_TXN_OPS_MAX + 1], op = put("k", "v");
	struct answer answer = { 0 };

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	for (uint32_t i = 0; i < NUM_COUNT(many); i++)
		many[i] = put("k", "v");
	cr_assert_eq(f->meta->ops->txn(f->meta, many, 0, on_txn, &answer), -EINVAL);
	cr_assert_eq(f->meta->ops->txn(f->meta, many, META_TXN_OPS_MAX + 1, on_txn, &answer),
	    -EINVAL);
	op.key = key;
	cr_assert_eq(f->meta->ops->txn(f->meta, &op, 1, on_txn, &answer), -EINVAL);
	op.key = "";
	cr_assert_eq(f->meta->ops->txn(f->meta, &op, 1, on_txn, &answer), -EINVAL);
	op = put("k", "v");
	op.value_bytes = META_VALUE_BYTES_MAX + 1;
	cr_assert_eq(f->meta->ops->txn(f->meta, &op, 1, on_txn, &answer), -EINVAL);
	cr_assert_eq(f->meta->ops->list(f->meta, key, on_list, &answer), -EINVAL);
	cr_assert_eq(f->meta->ops->lease_grant(f->meta, 0, on_lease, &answer), -EINVAL);
	cr_assert_eq(list(f, "").item_count, 0);
	cr_assert_eq(answer.count, 0);
}

META_TEST(transaction_that_is_too_much_is_refused_at_once)
{
	char *value = calloc(1, META_VALUE_BYTES_MAX), keys[META_TXN_OPS_MAX][8];
	struct meta_op ops[META_TXN_OPS_MAX];
	uint32_t fits = META_TXN_BYTES_MAX / META_VALUE_BYTES_MAX;
	struct answer answer = { 0 };

	for (uint32_t i = 0; i < META_TXN_OPS_MAX; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "k/%u", i);
		ops[i] = (struct meta_op){ .kind = META_PUT,
			.key = keys[i],
			.value = value,
			.value_bytes = META_VALUE_BYTES_MAX };
	}
	cr_assert_lt(fits, META_TXN_OPS_MAX);
	cr_assert_eq(f->meta->ops->txn(f->meta, ops, fits + 1, on_txn, &answer), -EINVAL);
	cr_assert_eq(txn(f, ops, fits), 0);
	/* A key twice: which of both would it be? */
	ops[1].key = ops[0].key;
	cr_assert_eq(f->meta->ops->txn(f->meta, ops, 2, on_txn, &answer), -EINVAL);
	ops[1] = (struct meta_op){ .kind = META_DELETE, .key = ops[0].key };
	cr_assert_eq(f->meta->ops->txn(f->meta, ops, 2, on_txn, &answer), -EINVAL);
	cr_assert_eq(answer.count, 0);
	free(value);
}

META_TEST(keys_survive_the_process)
{
	cr_assert_eq(put_one(f, "k", "v"), 0);
	meta_reopen(f);
	cr_assert_str_eq(list(f, "k").items[0].value, "v");
}

META_TEST(closing_calls_nobody)
{
	struct answer answer = { 0 };
	struct meta_op op = put("k", "v");

	for (uint32_t i = 0; i < 10; i++) {
		cr_assert_eq(f->meta->ops->txn(f->meta, &op, 1, on_txn, &answer), 0);
		cr_assert_eq(f->meta->ops->list(f->meta, "", on_list, &answer), 0);
	}
	meta_reopen(f);
	(void)list(f, "");
	cr_assert_eq(answer.count, 0);
}

/* ---- leases ---- */

/* Until @key is gone: looks again when the watch calls. */
static void
wait_until_gone(struct fixture *f, struct answer *watch, const char *key)
{
	while (version_of(f, key) != 0) {
		wait_for(f, watch);
		watch->is_done = false;
	}
}

META_TEST(keys_go_with_their_lease)
{
	uint64_t lease = grant(f, NUM_S(1000)), other = grant(f, NUM_S(1000));

	cr_assert_neq(lease, other);
	cr_assert_eq(put_leased(f, "gateways/a", lease), 0);
	cr_assert_eq(put_leased(f, "gateways/b", other), 0);
	cr_assert_eq(put_one(f, "c", "v"), 0);
	cr_assert_eq(lease_renew(f, lease), 0);
	cr_assert_eq(lease_revoke(f, lease), 0);
	cr_assert_eq(version_of(f, "gateways/a"), 0);
	cr_assert_neq(version_of(f, "gateways/b"), 0);
	cr_assert_neq(version_of(f, "c"), 0);
	cr_assert_eq(lease_renew(f, lease), -ENOENT);
	cr_assert_eq(lease_revoke(f, lease), -ENOENT);
	cr_assert_eq(put_leased(f, "gateways/a", lease), -ENOENT);
	cr_assert_eq(version_of(f, "gateways/a"), 0);
}

META_TEST(lease_expires_by_itself)
{
	struct answer watch = { 0 };
	uint64_t lease;

	cr_assert_eq(f->meta->ops->watch(f->meta, "gateways/", on_watch, &watch), 0);
	lease = put_leased_briefly(f, "gateways/1", "gateways/2");
	wait_until_gone(f, &watch, "gateways/1");
	cr_assert_eq(lease_renew(f, lease), -ENOENT);
}

META_TEST(key_put_without_lease_stays)
{
	uint64_t lease = grant(f, NUM_S(1000));

	cr_assert_eq(put_leased(f, "gateways/a", lease), 0);
	cr_assert_eq(put_one(f, "gateways/a", "mine"), 0);
	cr_assert_eq(lease_revoke(f, lease), 0);
	cr_assert_str_eq(list(f, "gateways/a").items[0].value, "mine");
}

META_TEST(key_put_again_belongs_to_the_last_lease_alone)
{
	uint64_t old = grant(f, NUM_S(1000)), lease = grant(f, NUM_S(1000));

	cr_assert_eq(put_leased(f, "gateways/1", old), 0);
	cr_assert_eq(put_leased(f, "gateways/1", lease), 0);
	cr_assert_eq(lease_revoke(f, old), 0);
	cr_assert_neq(version_of(f, "gateways/1"), 0);
	cr_assert_eq(lease_revoke(f, lease), 0);
	cr_assert_eq(version_of(f, "gateways/1"), 0);
}

META_TEST(key_put_again_outlives_the_first_lease)
{
	struct answer watch = { 0 };
	uint64_t lease = grant(f, NUM_S(1000));

	cr_assert_eq(f->meta->ops->watch(f->meta, "gateways/b", on_watch, &watch), 0);
	(void)put_leased_briefly(f, "gateways/a", "gateways/b");
	cr_assert_eq(put_leased(f, "gateways/a", lease), 0);
	wait_until_gone(f, &watch, "gateways/b");
	cr_assert_neq(version_of(f, "gateways/a"), 0);
}

META_TEST(key_deleted_and_put_again_is_free_of_its_lease)
{
	uint64_t lease = grant(f, NUM_S(1000));

	cr_assert_eq(put_leased(f, "gateways/a", lease), 0);
	cr_assert_eq(txn(f, &(struct meta_op){ .kind = META_DELETE, .key = "gateways/a" }, 1), 0);
	cr_assert_eq(put_one(f, "gateways/a", "mine"), 0);
	cr_assert_eq(lease_revoke(f, lease), 0);
	cr_assert_neq(version_of(f, "gateways/a"), 0);
}

META_TEST(a_version_that_differs_is_told_before_a_lease_that_is_gone)
{
	struct meta_op ops[] = { put("gateways/a", "v"), compare("gateways/a", 99) };

	ops[0].lease = 12345;
	cr_assert_eq(txn(f, ops, 2), -EAGAIN);
	ops[1].version = 0;
	cr_assert_eq(txn(f, ops, 2), -ENOENT);
}

/* ---- watches ---- */

/* ---- leased keys and durable ones ---- */

META_TEST(leases_are_for_their_keys_and_these_for_themselves)
{
	struct answer answer = { 0 };
	struct meta_op ops[] = { put("gateways/a", "v"), put("b", "v") };

	cr_assert_eq(f->meta->ops->txn(f->meta, ops, 2, on_txn, &answer), -EINVAL);
	ops[1] = compare("b", 0);
	cr_assert_eq(f->meta->ops->txn(f->meta, ops, 2, on_txn, &answer), -EINVAL);
	ops[1] = (struct meta_op){ .kind = META_DELETE, .key = "gateways/b" };
	cr_assert_eq(txn(f, ops, 2), 0);
	ops[0] = put("gateway", "v"); /* the prefix has a slash */
	ops[0].lease = grant(f, NUM_S(1000));
	cr_assert_eq(f->meta->ops->txn(f->meta, ops, 1, on_txn, &answer), -EINVAL);
	cr_assert_eq(answer.count, 0);
}

META_TEST(durable_change_may_compare_leased_keys)
{
	uint64_t lease = grant(f, NUM_S(1000)), version;
	struct meta_op ops[] = { put("shards/0", "mine"), compare("gateways/1", 0),
		compare("shards/0", 0) };

	cr_assert_eq(put_leased(f, "gateways/1", lease), 0);
	version = version_of(f, "gateways/1");
	cr_assert_eq(txn(f, ops, 3), -EAGAIN);
	cr_assert_eq(version_of(f, "shards/0"), 0);
	ops[1].version = version;
	cr_assert_eq(txn(f, ops, 3), 0);
	cr_assert_neq(version_of(f, "shards/0"), 0);
	cr_assert_eq(lease_revoke(f, lease), 0);
	ops[2].version = version_of(f, "shards/0");
	cr_assert_eq(txn(f, ops, 3), -EAGAIN);
	ops[1].version = 0;
	cr_assert_eq(txn(f, ops, 3), 0);
}

META_TEST(list_of_both_is_sorted)
{
	const char *keys[] = { "shards/0", "gateways/2", "cluster", "gateways/10", "g" };
	const char *expected[] = { "cluster", "g", "gateways/10", "gateways/2", "shards/0" };
	struct answer answer;

	for (uint32_t i = 0; i < NUM_COUNT(keys); i++)
		cr_assert_eq(put_one(f, keys[i], keys[i]), 0);
	answer = list(f, "");
	cr_assert_eq(answer.item_count, NUM_COUNT(expected));
	for (uint32_t i = 0; i < NUM_COUNT(expected); i++) {
		cr_assert_str_eq(answer.items[i].key, expected[i]);
		cr_assert_str_eq(answer.items[i].value, expected[i]);
	}
	cr_assert_eq(list(f, "g").item_count, 3);
	cr_assert_eq(list(f, "gateways/").item_count, 2);
}

/* A store on several hosts waits for the disks of most of them, for leases as for keys. */
META_TEST_OF_A_HOST(nothing_about_leases_waits_for_the_disk)
{
	uint64_t lease = grant(f, NUM_S(1000)), other;
	struct answer durable = { 0 }, watch = { 0 }, behind = { 0 };
	struct meta_op op = put("shards/0", "v");

	cr_assert_eq(put_leased(f, "gateways/1", lease), 0);
	stall(f, true);
	cr_assert_eq(f->meta->ops->txn(f->meta, &op, 1, on_txn, &durable), 0);
	cr_assert_eq(f->meta->ops->list(f->meta, "shards/", on_list, &behind), 0);
	stall_wait(f);
	cr_assert_eq(f->meta->ops->watch(f->meta, "gateways/", on_watch, &watch), 0);
	cr_assert_eq(lease_renew(f, lease), 0);
	other = grant(f, NUM_S(1000));
	cr_assert_eq(put_leased(f, "gateways/2", other), 0);
	cr_assert_neq(version_of(f, "gateways/2"), 0);
	cr_assert_eq(lease_revoke(f, other), 0);
	cr_assert_eq(version_of(f, "gateways/2"), 0);
	(void)put_leased_briefly(f, "gateways/3", "gateways/4");
	wait_until_gone(f, &watch, "gateways/3");
	cr_assert_not(durable.is_done);
	cr_assert_not(behind.is_done);
	stall(f, false);
	wait_for(f, &durable);
	wait_for(f, &behind);
	cr_assert_eq(durable.rc, 0);
	cr_assert_eq(lease_renew(f, lease), 0);
}

META_TEST(watch_sees_its_prefix_alone)
{
	struct answer watch = { 0 }, other = { 0 };

	cr_assert_eq(f->meta->ops->watch(f->meta, "a/", on_watch, &watch), 0);
	cr_assert_eq(f->meta->ops->watch(f->meta, "b/", on_watch, &other), 0);
	cr_assert_eq(put_one(f, "a/1", "v"), 0);
	wait_for(f, &watch);
	cr_assert_eq(other.count, 0);
	/* A compare that failed is no change. */
	watch.is_done = false;
	watch.count = 0;
	cr_assert_eq(txn(f, (struct meta_op[]){ compare("a/1", 99), put("a/1", "w") }, 2), -EAGAIN);
	(void)list(f, "");
	cr_assert_eq(watch.count, 0);
	cr_assert_eq(txn(f, &(struct meta_op){ .kind = META_DELETE, .key = "a/1" }, 1), 0);
	wait_for(f, &watch);
	f->meta->ops->unwatch(f->meta, on_watch, &watch);
	watch.count = 0;
	cr_assert_eq(put_one(f, "a/2", "v"), 0);
	cr_assert_eq(put_one(f, "b/2", "v"), 0);
	wait_for(f, &other);
	cr_assert_eq(watch.count, 0);
}

/* ---- memory runs out ---- */

META_TEST(nth_allocation_fails)
{
	for (uint32_t nth = 1; nth < 20; nth++) {
		struct meta_op op = put("k", "v");
		struct answer put_answer = { 0 }, list_answer = { 0 }, lease_answer = { 0 };
		int rc;

		mt_alloc_fail_at(nth);
		rc = f->meta->ops->txn(f->meta, &op, 1, on_txn, &put_answer);
		cr_assert(rc == 0 || rc == -ENOMEM);
		if (rc == 0)
			wait_for(f, &put_answer);
		rc = f->meta->ops->list(f->meta, "", on_list, &list_answer);
		cr_assert(rc == 0 || rc == -ENOMEM);
		if (rc == 0)
			wait_for(f, &list_answer);
		rc = f->meta->ops->lease_grant(f->meta, NUM_S(1), on_lease, &lease_answer);
		cr_assert(rc == 0 || rc == -ENOMEM);
		if (rc == 0)
			wait_for(f, &lease_answer);
		mt_alloc_fail_at(0);
		cr_assert_leq(put_answer.count, 1);
		cr_assert_leq(list_answer.count, 1);
		cr_assert_leq(lease_answer.count, 1);
	}
	cr_assert_eq(put_one(f, "k", "v"), 0);
}

/* ---- LMDB alone ---- */

Test(meta_lmdb, path_that_cannot_be_is_told)
{
	struct loop *loop = loop_ev_create(1);
	char error[256] = "";

	cr_assert_null(meta_lmdb_open(loop, "/proc/nowhere/meta", error, sizeof(error)));
	cr_assert_not_null(strstr(error, "/proc/nowhere/meta"), "%s", error);
	loop_destroy(loop);
}

/* In a child that writes until it is killed. */
static void
write_until_killed(const char *path)
{
	struct fixture f = { .is_lmdb = true, .loop = loop_ev_create(1) };
	char error[256], value[16];
	FILE *told;

	f.meta = meta_lmdb_open(f.loop, path, error, sizeof(error));
	told = f.meta == NULL ? NULL : fdopen(STDOUT_FILENO, "w");
	for (uint32_t i = 1; told != NULL; i++) {
		struct answer answer = { 0 };
		struct meta_op ops[2];

		(void)snprintf(value, sizeof(value), "%u", i);
		ops[0] = put("a", value);
		ops[1] = put("b", value);
		if (f.meta->ops->txn(f.meta, ops, 2, on_txn, &answer) != 0 ||
		    loop_run(f.loop, answer_is_done, &answer) != 0 || answer.rc != 0)
			break;
		(void)fprintf(told, "%u\n", i);
		(void)fflush(told);
	}
	_exit(1);
}

Test(meta_lmdb, what_was_answered_survives_a_kill)
{
	struct fixture fixture;
	int pipes[2];
	pid_t child;
	FILE *told;
	unsigned last = 0;
	struct answer answer;

	fixture_init(&fixture, true);
	fixture.meta->ops->close(fixture.meta);
	fixture.meta = NULL;
	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		(void)dup2(pipes[1], STDOUT_FILENO);
		(void)close(pipes[0]);
		write_until_killed(fixture.path);
	}
	(void)close(pipes[1]);
	told = fdopen(pipes[0], "r");
	while (last < 200)
		cr_assert_eq(fscanf(told, "%u", &last), 1);
	(void)kill(child, SIGKILL);
	while (fscanf(told, "%u", &last) == 1)
		;
	(void)waitpid(child, NULL, 0);
	(void)fclose(told);
	meta_reopen(&fixture);
	answer = list(&fixture, "");
	cr_assert_eq(answer.item_count, 2);
	cr_assert_geq(strtoul(answer.items[0].value, NULL, 10), last);
	cr_assert_str_eq(answer.items[0].value, answer.items[1].value);
	fixture_fini(&fixture);
}

/* ---- memory alone ---- */

Test(meta_memory, request_of_a_dead_process_still_arrives)
{
	struct fixture fixture;
	struct answer answer = { 0 };
	struct meta_op op = put("k", "v");

	fixture_init(&fixture, false);
	cr_assert_eq(fixture.meta->ops->txn(fixture.meta, &op, 1, on_txn, &answer), 0);
	fixture.meta->ops->close(fixture.meta);
	fixture.meta = NULL;
	loop_destroy(fixture.loop);
	(void)sim_world_run(fixture.world, NULL, NULL, NUM_S(10));
	fixture.loop = sim_loop_create(fixture.world, "again");
	meta_reopen(&fixture);
	cr_assert_eq(list(&fixture, "").item_count, 1);
	cr_assert_eq(answer.count, 0);
	fixture_fini(&fixture);
}

Test(meta_memory, time_outs_happen_both_ways)
{
	struct fixture fixture;
	uint32_t lost = 0, late = 0, good = 0;

	fixture_init(&fixture, false);
	meta_store_set_timeouts(fixture.store, 300, 300);
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t before = meta_store_applied_count(fixture.store);
		int rc = put_one(&fixture, "k", "v");
		bool is_applied = meta_store_applied_count(fixture.store) > before;

		cr_assert(rc == 0 || rc == -ETIMEDOUT);
		cr_assert(rc != 0 || is_applied);
		good += rc == 0;
		late += rc != 0 && is_applied;
		lost += !is_applied;
	}
	cr_assert(good > 20 && late > 20 && lost > 20, "%u %u %u", good, late, lost);
	meta_store_set_timeouts(fixture.store, 0, 0);
	fixture_fini(&fixture);
}

Test(meta_memory, one_that_is_cut_off_hears_nothing)
{
	struct fixture fixture;
	struct meta *other;
	struct answer watch = { 0 };

	fixture_init(&fixture, false);
	other = meta_memory_open(fixture.store, fixture.loop);
	cr_assert_eq(other->ops->watch(other, "", on_watch, &watch), 0);
	meta_memory_cut_off(fixture.meta, true);
	cr_assert_eq(put_one(&fixture, "k", "v"), -ETIMEDOUT);
	cr_assert_eq(watch.count, 0);
	meta_memory_cut_off(fixture.meta, false);
	cr_assert_eq(put_one(&fixture, "k", "v"), 0);
	wait_for(&fixture, &watch);
	other->ops->close(other);
	fixture_fini(&fixture);
}

Test(meta_memory, delay_is_what_was_set)
{
	struct fixture fixture;
	uint64_t start_ns;

	fixture_init(&fixture, false);
	meta_store_set_delay(fixture.store, NUM_MS(10), NUM_MS(20));
	start_ns = loop_now_ns(fixture.loop);
	cr_assert_eq(put_one(&fixture, "k", "v"), 0);
	cr_assert_geq(loop_now_ns(fixture.loop) - start_ns, NUM_MS(20));
	cr_assert_leq(loop_now_ns(fixture.loop) - start_ns, NUM_MS(41));
	fixture_fini(&fixture);
}

Test(meta_memory, store_that_is_down_answers_nobody)
{
	struct fixture fixture;
	struct answer watch = { 0 };
	uint64_t lease;

	fixture_init(&fixture, false);
	lease = grant(&fixture, NUM_MS(500));
	cr_assert_eq(put_leased(&fixture, "gateways/a", lease), 0);
	cr_assert_eq(fixture.meta->ops->watch(fixture.meta, "gateways/a", on_watch, &watch), 0);
	meta_store_set_down(fixture.store, true);
	cr_assert_eq(put_one(&fixture, "k", "v"), -ETIMEDOUT);
	cr_assert_eq(lease_renew(&fixture, lease), -ETIMEDOUT);
	cr_assert_eq(watch.count, 0);
	meta_store_set_down(fixture.store, false);
	wait_for(&fixture, &watch);
	cr_assert_eq(version_of(&fixture, "gateways/a"), 0);
	cr_assert_eq(version_of(&fixture, "k"), 0);
	fixture_fini(&fixture);
}

Test(meta_memory, restored_store_forgets_what_came_after_the_snapshot)
{
	struct fixture fixture;
	struct meta_snapshot *snapshot;
	struct answer watch = { 0 };
	uint64_t version;

	fixture_init(&fixture, false);
	cr_assert_eq(put_one(&fixture, "a", "old"), 0);
	cr_assert_eq(put_one(&fixture, "b", "old"), 0);
	version = version_of(&fixture, "a");
	snapshot = meta_store_snapshot(fixture.store);
	for (uint32_t round = 0; round < 2; round++) {
		cr_assert_eq(put_one(&fixture, "a", "new"), 0);
		cr_assert_eq(put_one(&fixture, "c", "new"), 0);
		cr_assert_eq(txn(&fixture, &(struct meta_op){ .kind = META_DELETE, .key = "b" }, 1),
		    0);
		watch = (struct answer){ 0 };
		cr_assert_eq(fixture.meta->ops->watch(fixture.meta, "z", on_watch, &watch), 0);
		cr_assert_eq(meta_store_restore(fixture.store, snapshot), 0);
		wait_for(&fixture, &watch);
		fixture.meta->ops->unwatch(fixture.meta, on_watch, &watch);
		cr_assert_eq(list(&fixture, "").item_count, 2);
		cr_assert_str_eq(list(&fixture, "a").items[0].value, "old");
		cr_assert_eq(version_of(&fixture, "a"), version);
	}
	meta_snapshot_destroy(snapshot);
	fixture_fini(&fixture);
}

Test(meta_memory, leases_of_a_snapshot_end_when_their_time_is_over)
{
	struct fixture fixture;
	struct meta_snapshot *snapshot;
	struct answer watch = { 0 };
	uint64_t brief, lasting;

	fixture_init(&fixture, false);
	brief = grant(&fixture, NUM_MS(50));
	lasting = grant(&fixture, NUM_S(1000));
	cr_assert_eq(put_leased(&fixture, "gateways/a", brief), 0);
	cr_assert_eq(put_leased(&fixture, "gateways/b", lasting), 0);
	snapshot = meta_store_snapshot(fixture.store);
	cr_assert_eq(fixture.meta->ops->watch(fixture.meta, "gateways/a", on_watch, &watch), 0);
	wait_for(&fixture, &watch);
	cr_assert_eq(meta_store_restore(fixture.store, snapshot), 0);
	cr_assert_eq(version_of(&fixture, "gateways/a"), 0);
	cr_assert_neq(version_of(&fixture, "gateways/b"), 0);
	cr_assert_eq(lease_renew(&fixture, lasting), 0);
	cr_assert_eq(lease_renew(&fixture, brief), -ENOENT);
	meta_snapshot_destroy(snapshot);
	fixture_fini(&fixture);
}

Test(meta_memory, nth_allocation_of_a_copy_fails)
{
	struct fixture fixture;
	struct meta_snapshot *snapshot = NULL;
	uint32_t failed = 0;

	fixture_init(&fixture, false);
	cr_assert_eq(put_leased(&fixture, "gateways/a", grant(&fixture, NUM_S(1000))), 0);
	cr_assert_eq(put_one(&fixture, "b", "v"), 0);
	for (uint32_t nth = 1; snapshot == NULL; nth++) {
		mt_alloc_fail_at(nth);
		snapshot = meta_store_snapshot(fixture.store);
		failed += snapshot == NULL;
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(failed, 4);
	mt_alloc_fail_at(2);
	cr_assert_eq(meta_store_restore(fixture.store, snapshot), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_eq(list(&fixture, "").item_count, 2);
	meta_snapshot_destroy(snapshot);
	fixture_fini(&fixture);
}
