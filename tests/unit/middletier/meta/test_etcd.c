/* SPDX-License-Identifier: Apache-2.0 */
/* test_etcd.c -- meta_etcd on an etcd that misbehaves, in virtual time */
#include <inttypes.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/etcd_call.h"
#include "middletier/meta/meta_etcd.h"
#include "splitlib/sim/loop_sim.h"
#include "support/fake_etcd.h"
#include "unit/etcd_fixture.h"
#include "unit/meta_fixture.h"

static void
all_down(struct fixture *f, bool is_down)
{
	for (uint32_t i = 0; i < ETCD_MEMBERS; i++)
		fake_etcd_set_down(f->etcd, i, is_down);
}

static void
all_hung(struct fixture *f, bool is_hung)
{
	for (uint32_t i = 0; i < ETCD_MEMBERS; i++)
		fake_etcd_set_hung(f->etcd, i, is_hung);
}

static int
list_rc(struct fixture *f, const char *prefix)
{
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->list(f->meta, prefix, on_list, &answer), 0);
	wait_for(f, &answer);
	return answer.rc;
}

/* ---- members ---- */

Test(etcd, member_that_is_down_is_left_at_once)
{
	struct fixture f;
	uint64_t before_ns;

	fixture_init_etcd(&f, 1);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	before_ns = sim_world_now_ns(f.world);
	for (uint32_t i = 0; i < ETCD_MEMBERS; i++) {
		fake_etcd_set_down(f.etcd, i, true);
		fake_etcd_set_down(f.etcd, (i + 1) % ETCD_MEMBERS, true);
		cr_assert_eq(put_one(&f, "k", "w"), 0);
		cr_assert_str_eq(list(&f, "k").items[0].value, "w");
		all_down(&f, false);
	}
	cr_assert_lt(sim_world_now_ns(f.world) - before_ns, NUM_MS(100));
	fixture_fini(&f);
}

Test(etcd, list_goes_to_the_next_member_when_one_hangs)
{
	struct fixture f;

	fixture_init_etcd(&f, 1);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	for (uint32_t i = 0; i < ETCD_MEMBERS; i++) {
		fake_etcd_set_hung(f.etcd, i, true);
		fake_etcd_set_hung(f.etcd, (i + 1) % ETCD_MEMBERS, true);
		cr_assert_str_eq(list(&f, "k").items[0].value, "v");
		all_hung(&f, false);
	}
	fixture_fini(&f);
}

/* Compares would not hold the second time, and "nothing happened" would be a lie. */
Test(etcd, transaction_is_never_sent_twice)
{
	struct fixture f;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct meta_op ops[] = { compare("k", 0), put("k", "v") };
		uint64_t before_ns;
		int rc;

		fixture_init_etcd(&f, seed);
		fake_etcd_set_faults(f.etcd,
		    &(struct fake_etcd_faults){ .unanswered = 500, .empty = 200, .late = 200 });
		before_ns = sim_world_now_ns(f.world);
		rc = txn(&f, ops, 2);
		cr_assert(rc == 0 || rc == -ETIMEDOUT, "seed %" PRIu64 " rc %d", seed, rc);
		cr_assert_leq(sim_world_now_ns(f.world) - before_ns, NUM_MS(3001));
		fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ 0 });
		run_for(&f, NUM_S(10));
		cr_assert_leq(list(&f, "k").item_count, 1);
		fixture_fini(&f);
	}
}

Test(etcd, store_that_answers_nothing_is_a_time_out_within_each_budget)
{
	struct fixture f;
	uint64_t before_ns, lease;

	fixture_init_etcd(&f, 1);
	lease = grant(&f, NUM_S(1000));
	for (uint32_t round = 0; round < 2; round++) {
		if (round == 0)
			all_hung(&f, true);
		else
			all_down(&f, true);
		before_ns = sim_world_now_ns(f.world);
		cr_assert_eq(put_one(&f, "k", "v"), -ETIMEDOUT);
		cr_assert_leq(sim_world_now_ns(f.world) - before_ns, NUM_MS(3001));
		before_ns = sim_world_now_ns(f.world);
		cr_assert_eq(list_rc(&f, "k"), -ETIMEDOUT);
		cr_assert_leq(sim_world_now_ns(f.world) - before_ns, NUM_MS(5001));
		before_ns = sim_world_now_ns(f.world);
		cr_assert_eq(lease_renew(&f, lease), -ETIMEDOUT);
		cr_assert_leq(sim_world_now_ns(f.world) - before_ns, NUM_MS(2001));
		all_hung(&f, false);
		all_down(&f, false);
		run_for(&f, NUM_S(5));
	}
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	fixture_fini(&f);
}

Test(etcd, member_of_another_etcd_is_never_given_a_transaction)
{
	struct fixture f;
	uint64_t before;
	bool is_refused;

	fixture_init_etcd(&f, 1);
	for (uint32_t i = 0; i < ETCD_MEMBERS; i++) {
		meta_reopen(&f);
		fake_etcd_set_foreign(f.etcd, i, true);
		run_for(&f, NUM_S(11));
		before = fake_etcd_revision(f.etcd);
		fake_etcd_set_down(f.etcd, (i + 1) % ETCD_MEMBERS, true);
		fake_etcd_set_down(f.etcd, (i + 2) % ETCD_MEMBERS, true);
		cr_assert_eq(put_one(&f, "k", "v"), -ETIMEDOUT);
		cr_assert_eq(fake_etcd_revision(f.etcd), before);
		cr_assert_not_null(strstr(meta_etcd_trouble(f.meta, &is_refused), "another etcd"),
		    "%s", meta_etcd_trouble(f.meta, &is_refused));
		all_down(&f, false);
		fake_etcd_set_foreign(f.etcd, i, false);
		cr_assert_eq(list(&f, "k").item_count, 0);
	}
	fixture_fini(&f);
}

Test(etcd, member_that_is_no_etcd_is_told_and_left)
{
	struct fixture f;
	bool is_refused;

	fixture_init_etcd(&f, 1);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	fake_etcd_set_no_etcd(f.etcd, 0, true);
	fake_etcd_set_no_etcd(f.etcd, 1, true);
	for (uint32_t i = 0; i < 3; i++) {
		meta_reopen(&f);
		cr_assert_str_eq(list(&f, "k").items[0].value, "v");
	}
	fake_etcd_set_no_etcd(f.etcd, 2, true);
	cr_assert_eq(list_rc(&f, "k"), -ETIMEDOUT);
	cr_assert_not_null(strstr(meta_etcd_trouble(f.meta, &is_refused), "no etcd"));
	fixture_fini(&f);
}

Test(etcd, full_store_is_told)
{
	struct fixture f;

	fixture_init_etcd(&f, 1);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	fake_etcd_set_full(f.etcd, true);
	cr_assert_eq(put_one(&f, "k", "w"), -ENOSPC);
	cr_assert_str_eq(list(&f, "k").items[0].value, "v");
	fake_etcd_set_full(f.etcd, false);
	cr_assert_eq(put_one(&f, "k", "w"), 0);
	fixture_fini(&f);
}

/* ---- who we are ---- */

static void
user_init(struct fixture *f, const char *user, const char *password, const char *password_file,
    bool is_to_be_ready)
{
	*f = (struct fixture){ .world = sim_world_create(1) };
	f->etcd = fake_etcd_create(sim_world_nature(f->world), ETCD_MEMBERS);
	f->loop = sim_loop_create(f->world, "process");
	fake_etcd_set_user(f->etcd, "cleave", "secret \"1\"");
	f->way = fake_etcd_open(f->etcd, f->loop);
	f->meta = meta_etcd_open(&(struct meta_etcd_options){ .loop = f->loop,
	    .http = f->way,
	    .endpoints = etcd_names,
	    .endpoint_count = ETCD_MEMBERS,
	    .prefix = "/cleave/1/",
	    .user = user,
	    .password = password,
	    .password_file = password_file });
	cr_assert_not_null(f->meta);
	if (is_to_be_ready)
		cr_assert_eq(loop_run(f->loop, etcd_is_ready, f), 0);
}

Test(etcd, user_is_named_and_a_token_that_expired_is_replaced)
{
	struct fixture f;
	struct answer watch = { 0 };

	user_init(&f, "cleave", "secret \"1\"", NULL, true);
	cr_assert_eq(f.meta->ops->watch(f.meta, "k", on_watch, &watch), 0);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	fake_etcd_expire_tokens(f.etcd);
	cr_assert_eq(put_one(&f, "k", "w"), 0);
	fake_etcd_expire_tokens(f.etcd);
	fake_etcd_end_streams(f.etcd);
	watch = (struct answer){ 0 };
	run_for(&f, NUM_S(5));
	cr_assert_eq(put_one(&f, "k", "x"), 0);
	wait_for(&f, &watch);
	cr_assert_str_eq(list(&f, "k").items[0].value, "x");
	fixture_fini(&f);
}

Test(etcd, user_who_is_refused_is_told_at_once)
{
	const char *const cases[][3] = { { "cleave", "wrong", "user cleave" },
		{ NULL, NULL, "--meta-user" } };

	for (uint32_t i = 0; i < NUM_COUNT(cases); i++) {
		struct fixture f;
		bool is_refused;

		user_init(&f, cases[i][0], cases[i][1], NULL, false);
		cr_assert_eq(put_one(&f, "k", "v"), -EIO);
		cr_assert_not_null(strstr(meta_etcd_trouble(f.meta, &is_refused), cases[i][2]),
		    "%s", meta_etcd_trouble(f.meta, &is_refused));
		cr_assert(is_refused);
		cr_assert_not(meta_etcd_is_ready(f.meta));
		fixture_fini(&f);
	}
}

static void
write_password(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_geq(fprintf(file, "%s\n", text), 0);
	cr_assert_eq(fclose(file), 0);
}

Test(etcd, password_that_is_refused_is_read_anew)
{
	char path[] = "/tmp/cleave-password-XXXXXX";
	struct fixture f;
	bool is_refused;

	cr_assert_geq(close(mkstemp(path)), 0);
	user_init(&f, "cleave", "secret \"1\"", path, true);
	write_password(path, "secret 2");
	fake_etcd_set_user(f.etcd, "cleave", "secret 2");
	fake_etcd_expire_tokens(f.etcd);
	cr_assert_eq(put_one(&f, "k", "v"), 0, "%s", meta_etcd_trouble(f.meta, &is_refused));
	/* The etcd first: refused for as long as the file has the old one. */
	fake_etcd_set_user(f.etcd, "cleave", "secret 3");
	fake_etcd_expire_tokens(f.etcd);
	cr_assert_eq(put_one(&f, "k", "w"), -EIO);
	cr_assert_not_null(strstr(meta_etcd_trouble(f.meta, &is_refused), path), "%s",
	    meta_etcd_trouble(f.meta, &is_refused));
	cr_assert(is_refused);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(put_one(&f, "k", "w"), -EIO);
	cr_assert_not_null(strstr(meta_etcd_trouble(f.meta, &is_refused), "No such file"), "%s",
	    meta_etcd_trouble(f.meta, &is_refused));
	write_password(path, "secret 3");
	cr_assert_eq(put_one(&f, "k", "x"), 0, "%s", meta_etcd_trouble(f.meta, &is_refused));
	cr_assert_eq(unlink(path), 0);
	fixture_fini(&f);
}

/* A stranger at the address of a member knows no users: that is no reason to forget who we are. */
Test(etcd, user_is_named_again_after_a_member_of_another_etcd_needed_none)
{
	struct fixture f;
	struct answer answer = { 0 };
	bool is_refused;

	user_init(&f, "cleave", "secret \"1\"", NULL, true);
	for (uint32_t i = 1; i < ETCD_MEMBERS; i++)
		fake_etcd_set_foreign(f.etcd, i, true);
	(void)list(&f, "k");
	/* No answer at all may mean that our token has expired: the next member is asked for a new one. */
	fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ .empty = 1000 });
	cr_assert_eq(f.meta->ops->list(f.meta, "k", on_list, &answer), 0);
	run_for(&f, NUM_US(600));
	fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ 0 });
	wait_for(&f, &answer);
	cr_assert_eq(answer.rc, 0, "%s", meta_etcd_trouble(f.meta, &is_refused));
	fixture_fini(&f);
}

Test(etcd, user_where_nobody_has_one_is_not_needed)
{
	struct fixture f;

	user_init(&f, "cleave", "x", NULL, false);
	fake_etcd_set_user(f.etcd, NULL, NULL);
	cr_assert_eq(loop_run(f.loop, etcd_is_ready, &f), 0);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	fixture_fini(&f);
}

/* ---- watches ---- */

/* A change by another process is heard of, whatever happened to the stream. */
static void
check_is_heard(struct fixture *f, struct other *other, struct answer *watch, uint64_t within_ns)
{
	uint64_t before_ns = sim_world_now_ns(f->world);

	*watch = (struct answer){ 0 };
	cr_assert_eq(put_one(&other->f, "k", "v"), 0);
	wait_for(f, watch);
	cr_assert_leq(sim_world_now_ns(f->world) - before_ns, within_ns);
}

Test(etcd, watch_hears_of_a_change_whatever_happens_to_the_stream)
{
	struct fixture f;
	struct other other;
	struct answer watch;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	cr_assert_eq(f.meta->ops->watch(f.meta, "k", on_watch, &watch), 0);
	check_is_heard(&f, &other, &watch, NUM_MS(10));
	fake_etcd_end_streams(f.etcd);
	check_is_heard(&f, &other, &watch, NUM_S(1));
	/* Ended, and the change is learned of by an answer, which tells no watch of it. */
	fake_etcd_end_streams(f.etcd);
	watch = (struct answer){ 0 };
	cr_assert_eq(put_one(&other.f, "k", "v"), 0);
	(void)list(&f, "other");
	wait_for(&f, &watch);
	/* Ended, and what it has missed is compacted meanwhile. */
	fake_etcd_end_streams(f.etcd);
	cr_assert_eq(put_one(&other.f, "k", "v"), 0);
	fake_etcd_compact(f.etcd);
	check_is_heard(&f, &other, &watch, NUM_S(2));
	/* Silent: a change of our own does not come back. */
	run_for(&f, NUM_S(3));
	fake_etcd_silence_streams(f.etcd);
	cr_assert_eq(put_one(&f, "other", "v"), 0);
	check_is_heard(&f, &other, &watch, NUM_S(5));
	/* Silent, and nobody here changes anything: once a minute. */
	run_for(&f, NUM_S(3));
	fake_etcd_silence_streams(f.etcd);
	check_is_heard(&f, &other, &watch, NUM_S(61));
	other_fini(&other);
	fixture_fini(&f);
}

Test(etcd, change_that_a_stream_leaves_out_is_made_up_for)
{
	struct fixture f;
	struct other other;
	struct answer watch;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	cr_assert_eq(f.meta->ops->watch(f.meta, "k", on_watch, &watch), 0);
	fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ .withheld = 1000 });
	check_is_heard(&f, &other, &watch, NUM_S(61));
	other_fini(&other);
	fixture_fini(&f);
}

/* The lease's owner dies before anything else tells of it. */
Test(etcd, lease_that_a_stream_leaves_out_is_ended_all_the_same)
{
	struct fixture f;
	struct other other;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ .withheld = 1000 });
	cr_assert_eq(put_leased(&other.f, "gateways/2", grant(&other.f, NUM_S(10))), 0);
	other_fini(&other);
	run_for(&f, NUM_S(5));
	fake_etcd_set_faults(f.etcd, &(struct fake_etcd_faults){ 0 });
	for (uint32_t i = 0; i < 7; i++) {
		cr_assert_eq(put_one(&f, "k", "v"), 0); /* the stream lives */
		run_for(&f, NUM_S(10));
	}
	cr_assert_eq(version_of(&f, "gateways/2"), 0);
	fixture_fini(&f);
}

static void
on_watch_close(void *arg)
{
	struct fixture *f = arg;

	f->meta->ops->close(f->meta);
	f->meta = NULL;
	f->until_ns = 1;
}

static bool
is_closed(void *arg)
{
	return ((struct fixture *)arg)->until_ns != 0;
}

Test(etcd, watch_may_close_the_store)
{
	struct fixture f;
	struct answer answer = { 0 }, watch = { 0 };
	struct meta_op op = put("k", "v");

	fixture_init_etcd(&f, 1);
	cr_assert_eq(f.meta->ops->watch(f.meta, "k", on_watch_close, &f), 0);
	cr_assert_eq(f.meta->ops->watch(f.meta, "k", on_watch, &watch), 0);
	cr_assert_eq(f.meta->ops->txn(f.meta, &op, 1, on_txn, &answer), 0);
	cr_assert_eq(loop_run(f.loop, is_closed, &f), 0);
	cr_assert_eq(watch.count, 0);
	fixture_fini(&f);
}

/* ---- pages ---- */

#define PAGE_KEYS 600u

struct pages {
	bool is_done;
	int rc;
	uint32_t count, changed_count;
};

static void
on_pages(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct pages *pages = arg;

	pages->is_done = true;
	pages->rc = rc;
	pages->count = count;
	for (uint32_t i = 0; i < count; i++) {
		cr_assert(i == 0 || strcmp(items[i - 1].key, items[i].key) < 0);
		pages->changed_count += ((const char *)items[i].value)[0] == 'w';
	}
}

static bool
pages_are_done(void *arg)
{
	return ((struct pages *)arg)->is_done;
}

static void
put_keys(struct fixture *f, const char *value)
{
	for (uint32_t i = 0; i < PAGE_KEYS; i += META_TXN_OPS_MAX) {
		struct meta_op ops[META_TXN_OPS_MAX];
		char keys[META_TXN_OPS_MAX][16];
		uint32_t count = 0;

		for (; count < META_TXN_OPS_MAX && i + count < PAGE_KEYS; count++) {
			(void)snprintf(keys[count], sizeof(keys[count]), "k/%05u", i + count);
			ops[count] = put(keys[count], value);
		}
		cr_assert_eq(txn(f, ops, count), 0);
	}
}

/* All of it is of one moment, also when that is compacted away between two pages. */
Test(etcd, list_of_many_pages_is_of_one_moment, .timeout = 60)
{
	struct meta_op both[] = { put("k/00000", "w"), put("k/00599", "w") };
	struct fixture f;
	struct other other;

	fixture_init_etcd(&f, 1);
	put_keys(&f, "v");
	other_init(&other, &f);
	for (uint32_t i = 0; i < 40; i++) {
		struct pages pages = { 0 };
		struct answer answer = { 0 };

		both[0].value = both[1].value = i % 2 == 0 ? "w" : "v";
		cr_assert_eq(f.meta->ops->list(f.meta, "k/", on_pages, &pages), 0);
		run_for(&f, loop_random_below(sim_world_nature(f.world), NUM_MS(3)));
		cr_assert_eq(other.f.meta->ops->txn(other.f.meta, both, 2, on_txn, &answer), 0);
		if (i % 3 == 0) {
			wait_for(&other.f, &answer);
			fake_etcd_compact(f.etcd);
		}
		cr_assert_eq(loop_run(f.loop, pages_are_done, &pages), 0);
		cr_assert_eq(pages.rc, 0);
		cr_assert_eq(pages.count, PAGE_KEYS);
		cr_assert(pages.changed_count == 0 || pages.changed_count == 2);
		if (!answer.is_done)
			wait_for(&other.f, &answer);
		cr_assert_eq(answer.rc, 0);
	}
	other_fini(&other);
	fixture_fini(&f);
}

/* ---- a backup ---- */

Test(etcd, store_that_was_set_back_voids_versions_and_leases)
{
	struct fixture f;
	struct fake_etcd_copy *copy;
	struct answer watch = { 0 };
	struct meta_op ops[2];
	uint64_t lease, version;

	fixture_init_etcd(&f, 1);
	cr_assert_eq(put_one(&f, "k", "old"), 0);
	lease = grant(&f, NUM_S(1000));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	version = version_of(&f, "k");
	copy = fake_etcd_copy(f.etcd);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(put_one(&f, "other", "new"), 0);
	cr_assert_eq(f.meta->ops->watch(f.meta, "k", on_watch, &watch), 0);
	fake_etcd_restore(f.etcd, copy);
	/* The first answer tells; whether it happened is not sure. */
	cr_assert_eq(lease_renew(&f, lease), -ETIMEDOUT);
	wait_for(&f, &watch);
	cr_assert_eq(lease_renew(&f, lease), -ENOENT);
	cr_assert_eq(put_leased(&f, "gateways/1", lease), -ENOENT);
	/* The very same key as before the backup: its version is another. */
	ops[0] = compare("k", version);
	ops[1] = put("k", "mine");
	cr_assert_eq(txn(&f, ops, 2), -EAGAIN);
	cr_assert_gt(version_of(&f, "k"), version);
	ops[0] = compare("k", version_of(&f, "k"));
	cr_assert_eq(txn(&f, ops, 2), 0);
	/* The lease of the backup is nobody's, and ends by its time. */
	cr_assert_eq(f.meta->ops->watch(f.meta, "gateways/", on_watch, &watch), 0);
	run_for(&f, NUM_S(1100));
	cr_assert_eq(version_of(&f, "gateways/1"), 0);
	fake_etcd_copy_destroy(copy);
	fixture_fini(&f);
}

/* Later writes are so many that no answer tells a revision which was known already. */
Test(etcd, store_that_was_set_back_is_found_out_by_our_own_lease)
{
	struct fixture f;
	struct other other;
	struct fake_etcd_copy *copy;
	uint64_t lease, version;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	cr_assert_eq(put_one(&f, "k", "old"), 0);
	lease = grant(&f, NUM_S(1000));
	copy = fake_etcd_copy(f.etcd);
	cr_assert_eq(lease_renew(&f, lease), 0);
	cr_assert_eq(put_one(&f, "k", "new"), 0);
	version = version_of(&f, "k");
	fake_etcd_cut_off(f.way, true);
	fake_etcd_restore(f.etcd, copy);
	for (uint32_t i = 0; i < 20; i++)
		(void)put_one(&other.f, "other", "v");
	fake_etcd_cut_off(f.way, false);
	cr_assert_eq(lease_renew(&f, lease), -ETIMEDOUT);
	cr_assert_eq(lease_renew(&f, lease), -ENOENT);
	cr_assert_neq(version_of(&f, "k") >> 48, version >> 48, "no new generation");
	fake_etcd_copy_destroy(copy);
	other_fini(&other);
	fixture_fini(&f);
}

/* ---- leases ---- */

Test(etcd, lease_of_another_process_is_ended_by_who_observes_it)
{
	struct fixture f;
	struct other other;
	uint64_t lease, granted_ns;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	granted_ns = sim_world_now_ns(f.world);
	lease = grant(&other.f, NUM_S(10));
	cr_assert_eq(put_leased(&other.f, "gateways/2", lease), 0);
	/* From any handle: renewed, and used. */
	run_for(&f, NUM_S(5));
	cr_assert_eq(lease_renew(&f, lease), 0);
	cr_assert_eq(put_leased(&f, "gateways/2/ports", lease), 0);
	sim_loop_pause(other.f.loop, SIM_FOR_EVER);
	run_for(&f, NUM_S(9));
	cr_assert_neq(version_of(&f, "gateways/2"), 0);
	run_for(&f, NUM_S(2));
	cr_assert_eq(version_of(&f, "gateways/2"), 0);
	cr_assert_eq(version_of(&f, "gateways/2/ports"), 0);
	cr_assert_gt(sim_world_now_ns(f.world) - granted_ns, NUM_S(15));
	sim_loop_pause(other.f.loop, 0);
	cr_assert_eq(lease_renew(&other.f, lease), -ENOENT);
	other_fini(&other);
	fixture_fini(&f);
}

/* A process that stood still has seen no renewals; its clock alone says that time is over. */
Test(etcd, observer_that_stood_still_ends_no_lease_that_lives)
{
	struct fixture f;
	struct other other;
	uint64_t lease;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	lease = grant(&f, NUM_S(10));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	for (uint32_t i = 0; i < 20; i++) {
		sim_loop_pause(other.f.loop, NUM_S(30) + NUM_S(i));
		for (uint32_t k = 0; k < 15; k++) {
			run_for(&f, NUM_S(3));
			cr_assert_eq(lease_renew(&f, lease), 0);
		}
	}
	cr_assert_neq(version_of(&f, "gateways/1"), 0);
	other_fini(&other);
	fixture_fini(&f);
}

/* A renewal, or a put, that is on its way while the lease is ended: one of the two wins, never a half of each. */
static void
check_end_against_use(uint64_t seed, bool is_put, uint32_t *ret_won, uint32_t *ret_lost)
{
	struct meta_op op = put("gateways/1/ports", "v");
	struct answer answer = { 0 };
	struct fixture f;
	struct other other;
	uint64_t lease;

	fixture_init_etcd(&f, seed);
	other_init(&other, &f);
	fake_etcd_set_delay(f.etcd, NUM_MS(1), NUM_MS(30));
	lease = op.lease = grant(&f, NUM_S(10));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	run_for(&f, NUM_S(10) - NUM_MS(20) + loop_random_below(f.loop, NUM_MS(100)));
	if (is_put)
		cr_assert_eq(f.meta->ops->txn(f.meta, &op, 1, on_txn, &answer), 0);
	else
		cr_assert_eq(f.meta->ops->lease_renew(f.meta, lease, on_lease, &answer), 0);
	wait_for(&f, &answer);
	cr_assert(answer.rc == 0 || answer.rc == -ENOENT);
	*ret_won += answer.rc == 0;
	*ret_lost += answer.rc != 0;
	run_for(&f, NUM_S(1));
	cr_assert_eq(version_of(&f, "gateways/1") != 0, answer.rc == 0, "seed %" PRIu64, seed);
	run_for(&f, NUM_S(12));
	cr_assert_eq(list(&f, "gateways/").item_count, 0, "seed %" PRIu64, seed);
	other_fini(&other);
	fixture_fini(&f);
}

Test(etcd, lease_is_used_or_ended_and_never_half, .timeout = 60)
{
	uint32_t won = 0, lost = 0;

	for (uint64_t seed = 1; seed <= 10 * SEEDS; seed++)
		check_end_against_use(seed, seed % 2 == 0, &won, &lost);
	cr_assert_gt(won, SEEDS);
	cr_assert_gt(lost, SEEDS);
}

/* ---- one process a gateway ---- */

struct claimed {
	bool is_done;
	uint32_t count;
	int rc;
	char other[64];
};

static void
on_claimed(int rc, const char *other, void *arg)
{
	struct claimed *claimed = arg;

	claimed->is_done = true;
	claimed->count++;
	claimed->rc = rc;
	(void)snprintf(claimed->other, sizeof(claimed->other), "%s", other);
}

static bool
claim_is_done(void *arg)
{
	return ((struct claimed *)arg)->is_done;
}

Test(etcd, gateway_id_is_claimed_once)
{
	struct fixture f;
	struct other other;
	struct claimed mine = { 0 }, theirs = { 0 };
	uint64_t before_ns;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	cr_assert_eq(meta_etcd_claim(f.meta, 7, NUM_S(10), on_claimed, &mine), 0);
	cr_assert_eq(loop_run(f.loop, claim_is_done, &mine), 0);
	cr_assert_eq(mine.rc, 0);
	cr_assert_eq(meta_etcd_claim(f.meta, 8, NUM_S(10), on_claimed, &mine), -EBUSY);
	cr_assert_eq(meta_etcd_claim(other.f.meta, 7, NUM_S(10), on_claimed, &theirs), 0);
	cr_assert_eq(loop_run(other.f.loop, claim_is_done, &theirs), 0);
	cr_assert_eq(theirs.rc, -EBUSY);
	cr_assert_str_eq(theirs.other, "a test");
	/* Another one is free, and the first one is free once its holder is gone for a lease's time. */
	other.f.meta->ops->close(other.f.meta);
	other.f.meta = NULL;
	meta_reopen(&other.f);
	f.meta->ops->close(f.meta);
	f.meta = NULL;
	before_ns = sim_world_now_ns(f.world);
	theirs = (struct claimed){ 0 };
	cr_assert_eq(meta_etcd_claim(other.f.meta, 7, NUM_S(10), on_claimed, &theirs), 0);
	cr_assert_eq(loop_run(other.f.loop, claim_is_done, &theirs), 0);
	cr_assert_eq(theirs.rc, 0);
	cr_assert_lt(sim_world_now_ns(f.world) - before_ns, NUM_S(16));
	other_fini(&other);
	fixture_fini(&f);
}

static bool
process_is_dead(const char *process)
{
	cr_assert_str_eq(process, "one");
	return true;
}

/* A process that restarts after a crash waits for no lease of its own. */
Test(etcd, claim_of_a_process_that_has_surely_died_ends_at_once)
{
	struct meta_etcd_options options = { .endpoints = etcd_names,
		.endpoint_count = ETCD_MEMBERS,
		.prefix = "/cleave/1/",
		.by = "a test",
		.process = "one",
		.is_dead = process_is_dead };
	struct claimed claimed = { 0 };
	struct fixture f;
	uint64_t before_ns;

	fixture_init_etcd(&f, 1);
	for (uint32_t i = 0; i < 3; i++) {
		f.meta->ops->close(f.meta);
		options.loop = f.loop;
		options.http = fake_etcd_open(f.etcd, f.loop);
		f.meta = meta_etcd_open(&options);
		claimed.is_done = false;
		before_ns = sim_world_now_ns(f.world);
		cr_assert_eq(meta_etcd_claim(f.meta, 7, NUM_S(10), on_claimed, &claimed), 0);
		cr_assert_eq(loop_run(f.loop, claim_is_done, &claimed), 0);
		cr_assert_eq(claimed.rc, 0);
		cr_assert_lt(sim_world_now_ns(f.world) - before_ns, NUM_MS(100));
	}
	fixture_fini(&f);
}

/* ---- history ---- */

Test(etcd, history_is_kept_short_by_one_of_many)
{
	struct fixture f;
	struct other other;
	uint64_t revision;

	fixture_init_etcd(&f, 1);
	other_init(&other, &f);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	revision = fake_etcd_revision(f.etcd);
	run_for(&f, NUM_S(2000));
	cr_assert_geq(fake_etcd_compacted(f.etcd), revision);
	cr_assert_lt(fake_etcd_compacted(f.etcd), fake_etcd_revision(f.etcd));
	cr_assert_str_eq(list(&f, "k").items[0].value, "v");
	other_fini(&other);
	fixture_fini(&f);
}
