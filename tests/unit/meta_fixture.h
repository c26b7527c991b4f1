/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_fixture.h -- a metadata store to ask: meta_memory in virtual time, meta_lmdb in a directory of its
 * own, meta_etcd over a fake etcd in virtual time or over a real one
 */
#ifndef CLEAVE_TESTS_META_FIXTURE_H
#define CLEAVE_TESTS_META_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/etcd_curl.h"
#include "middletier/meta/meta_etcd.h"
#include "middletier/meta/meta_lmdb.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "support/fake_etcd.h"
#include "support/real_etcd.h"
#include "support/test_folder.h"

#define ITEMS_MAX 16

struct fixture {
	bool is_lmdb;
	struct sim_world *world;
	struct meta_store *store;
	struct fake_etcd *etcd;
	struct etcd_http *way; /* to it, of `meta` */
	const struct real_etcd *real;
	char prefix[64]; /* in it */
	char path[64];
	struct loop *loop;
	struct meta *meta;
	uint64_t until_ns; /* when a test stops waiting */
};

/* An answer, copied. */
struct answer {
	bool is_done;
	uint32_t count; /* how often it came */
	int rc;
	uint64_t lease;
	uint32_t item_count;
	struct {
		char key[64];
		char value[64];
		uint32_t value_bytes;
		uint64_t version;
	} items[ITEMS_MAX];
};

/* ---- a disk that stalls ---- */

static pthread_mutex_t stall_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stall_changed = PTHREAD_COND_INITIALIZER;
static bool is_stalled;
static uint32_t stall_count; /* who waits in it */

int fdatasync(int fd);
/* In front of the C library's: what LMDB waits for with its lock held. */
int
fdatasync(int fd)
{
	(void)pthread_mutex_lock(&stall_mutex);
	stall_count++;
	(void)pthread_cond_broadcast(&stall_changed);
	while (is_stalled)
		(void)pthread_cond_wait(&stall_changed, &stall_mutex);
	stall_count--;
	(void)pthread_mutex_unlock(&stall_mutex);
	return fsync(fd);
}

/* The store's disk no longer finishes anything, until told false. */
static inline void
stall(struct fixture *f, bool is_on)
{
	if (!f->is_lmdb) {
		meta_store_set_stalled(f->store, is_on);
		return;
	}
	(void)pthread_mutex_lock(&stall_mutex);
	is_stalled = is_on;
	(void)pthread_cond_broadcast(&stall_changed);
	(void)pthread_mutex_unlock(&stall_mutex);
}

/* Until a commit hangs in it. */
static inline void
stall_wait(struct fixture *f)
{
	if (!f->is_lmdb)
		return;
	(void)pthread_mutex_lock(&stall_mutex);
	while (stall_count == 0)
		(void)pthread_cond_wait(&stall_changed, &stall_mutex);
	(void)pthread_mutex_unlock(&stall_mutex);
}

#define ETCD_MEMBERS 3u

static const char *const etcd_names[ETCD_MEMBERS] = { "http://a:2379", "http://b:2379",
	"http://c:2379" };

/* Another handle of the same store, for a process whose loop is @loop. */
static inline struct meta *
etcd_open(struct fixture *f, struct loop *loop, struct etcd_http **ret_way)
{
	*ret_way = fake_etcd_open(f->etcd, loop);
	return meta_etcd_open(&(struct meta_etcd_options){ .loop = loop,
	    .http = *ret_way,
	    .endpoints = etcd_names,
	    .endpoint_count = ETCD_MEMBERS,
	    .prefix = "/cleave/c1ea7e0000000001/",
	    .by = "a test",
	    .compacts = true });
}

/* The same of a real one. */
static inline struct meta *
real_open(const struct real_etcd *real, const char *prefix, struct loop *loop)
{
	const char *urls[REAL_ETCD_MEMBERS_MAX];
	struct etcd_http *way;

	for (uint32_t i = 0; i < real->count; i++)
		urls[i] = real->urls[i];
	way = etcd_curl_open(
	    &(struct etcd_curl_options){ .loop = loop, .urls = urls, .url_count = real->count });
	cr_assert_not_null(way);
	return meta_etcd_open(&(struct meta_etcd_options){ .loop = loop,
	    .http = way,
	    .endpoints = urls,
	    .endpoint_count = real->count,
	    .prefix = prefix,
	    .by = "a test" });
}

static inline bool
etcd_is_ready(void *arg)
{
	return meta_etcd_is_ready(((struct fixture *)arg)->meta);
}

static inline void
meta_reopen(struct fixture *f)
{
	char error[256] = "";

	if (f->meta != NULL)
		f->meta->ops->close(f->meta);
	if (f->etcd != NULL || f->real != NULL) {
		f->meta = f->real != NULL ? real_open(f->real, f->prefix, f->loop)
					  : etcd_open(f, f->loop, &f->way);
		cr_assert_not_null(f->meta);
		cr_assert_eq(loop_run(f->loop, etcd_is_ready, f), 0);
		return;
	}
	f->meta = f->is_lmdb ? meta_lmdb_open(f->loop, f->path, error, sizeof(error))
			     : meta_memory_open(f->store, f->loop);
	cr_assert_not_null(f->meta, "%s", error);
}

static inline void
fixture_init(struct fixture *f, bool is_lmdb)
{
	*f = (struct fixture){ .is_lmdb = is_lmdb };
	if (is_lmdb) {
		test_folder_make(f->path, sizeof(f->path), "meta");
		f->loop = loop_ev_create(1);
	} else {
		f->world = sim_world_create(1);
		f->store = meta_store_create(
		    &(struct meta_store_options){ .loop = sim_world_nature(f->world) });
		f->loop = sim_loop_create(f->world, "process");
	}
	meta_reopen(f);
}

static inline void
fixture_init_etcd(struct fixture *f, uint64_t seed)
{
	*f = (struct fixture){ .world = sim_world_create(seed) };
	f->etcd = fake_etcd_create(sim_world_nature(f->world), ETCD_MEMBERS);
	f->loop = sim_loop_create(f->world, "process");
	meta_reopen(f);
}

#define REAL_ETCD_URL "CLEAVE_TEST_ETCD_URL"

/* Each test has a prefix of its own. @real NULL: the one of the environment. */
static inline void
fixture_init_real(struct fixture *f, const struct real_etcd *real)
{
	static struct real_etcd one = { .count = 1 };

	if (real == NULL)
		(void)snprintf(one.urls[0], sizeof(one.urls[0]), "%s", getenv(REAL_ETCD_URL));
	*f = (struct fixture){ .real = real == NULL ? &one : real, .loop = loop_ev_create(0) };
	(void)snprintf(f->prefix, sizeof(f->prefix), "/cleave/test/%d/", (int)getpid());
	meta_reopen(f);
}

static inline int
remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline void
fixture_fini(struct fixture *f)
{
	if (f->meta != NULL)
		f->meta->ops->close(f->meta);
	if (f->is_lmdb)
		(void)nftw(f->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	loop_destroy(f->loop);
	meta_store_destroy(f->store);
	fake_etcd_destroy(f->etcd);
	sim_world_destroy(f->world);
}

/* ---- directories ---- */

static inline void
path_make(char path[64])
{
	test_folder_make(path, 64, "meta");
}

static inline void
open_shared(struct fixture *f, const char *path)
{
	*f = (struct fixture){ .is_lmdb = true, .loop = loop_ev_create(1) };
	(void)snprintf(f->path, sizeof(f->path), "%s", path);
	meta_reopen(f);
}

static inline void
copy_file(const char *from, const char *to, const char *name)
{
	char path[128], bytes[4096];
	ssize_t count;
	int in, out;

	(void)snprintf(path, sizeof(path), "%s/%s", from, name);
	in = open(path, O_RDONLY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/%s", to, name);
	out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert(in >= 0 && out >= 0);
	while ((count = read(in, bytes, sizeof(bytes))) > 0)
		cr_assert_eq(write(out, bytes, (size_t)count), count);
	(void)close(in);
	(void)close(out);
}

/* META_TEST runs a check against each store; META_TEST_OF_A_HOST against those that one host has. */
#define META_TEST(check)                                                                           \
	static void check(struct fixture *f);                                                      \
	Test(meta_etcd, check)                                                                     \
	{                                                                                          \
		struct fixture fixture;                                                            \
		fixture_init_etcd(&fixture, 1);                                                    \
		check(&fixture);                                                                   \
		fixture_fini(&fixture);                                                            \
	}                                                                                          \
	Test(meta_etcd_real, check, .timeout = 60)                                                 \
	{                                                                                          \
		struct fixture fixture;                                                            \
		if (getenv(REAL_ETCD_URL) == NULL)                                                 \
			cr_skip_test("there is no etcd");                                          \
		fixture_init_real(&fixture, NULL);                                                 \
		check(&fixture);                                                                   \
		fixture_fini(&fixture);                                                            \
	}                                                                                          \
	META_TEST_OF_A_HOST(check)

#define META_TEST_OF_A_HOST(check)                                                                 \
	static void check(struct fixture *f);                                                      \
	Test(meta_memory, check)                                                                   \
	{                                                                                          \
		struct fixture fixture;                                                            \
		fixture_init(&fixture, false);                                                     \
		check(&fixture);                                                                   \
		fixture_fini(&fixture);                                                            \
	}                                                                                          \
	Test(meta_lmdb, check)                                                                     \
	{                                                                                          \
		struct fixture fixture;                                                            \
		fixture_init(&fixture, true);                                                      \
		check(&fixture);                                                                   \
		fixture_fini(&fixture);                                                            \
	}                                                                                          \
	static void check(struct fixture *f)

/* ---- asking ---- */

static inline bool
answer_is_done(void *arg)
{
	return ((struct answer *)arg)->is_done;
}

static inline void
wait_for(struct fixture *f, struct answer *answer)
{
	cr_assert_eq(loop_run(f->loop, answer_is_done, answer), 0);
}

static inline void
on_txn(int rc, void *arg)
{
	struct answer *answer = arg;

	answer->is_done = true;
	answer->count++;
	answer->rc = rc;
}

static inline void
on_lease(int rc, uint64_t lease, void *arg)
{
	on_txn(rc, arg);
	((struct answer *)arg)->lease = lease;
}

static inline void
on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct answer *answer = arg;

	on_txn(rc, arg);
	cr_assert_leq(count, ITEMS_MAX);
	answer->item_count = count;
	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(answer->items[i].key, sizeof(answer->items[i].key), "%s",
		    items[i].key);
		(void)snprintf(answer->items[i].value, sizeof(answer->items[i].value), "%.*s",
		    (int)items[i].value_bytes, (const char *)items[i].value);
		answer->items[i].value_bytes = items[i].value_bytes;
		answer->items[i].version = items[i].version;
	}
}

static inline void
on_watch(void *arg)
{
	on_txn(0, arg);
}

static inline int
txn(struct fixture *f, const struct meta_op *ops, uint32_t count)
{
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->txn(f->meta, ops, count, on_txn, &answer), 0);
	cr_assert_not(answer.is_done, "answered within the call");
	wait_for(f, &answer);
	cr_assert_eq(answer.count, 1);
	return answer.rc;
}

static inline struct meta_op
put(const char *key, const char *value)
{
	return (struct meta_op){ .kind = META_PUT,
		.key = key,
		.value = value,
		.value_bytes = (uint32_t)strlen(value) };
}

static inline struct meta_op
compare(const char *key, uint64_t version)
{
	return (struct meta_op){ .kind = META_COMPARE_VERSION, .key = key, .version = version };
}

static inline int
put_one(struct fixture *f, const char *key, const char *value)
{
	struct meta_op op = put(key, value);

	return txn(f, &op, 1);
}

static inline struct answer
list(struct fixture *f, const char *prefix)
{
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->list(f->meta, prefix, on_list, &answer), 0);
	cr_assert_not(answer.is_done, "answered within the call");
	wait_for(f, &answer);
	cr_assert_eq(answer.rc, 0);
	return answer;
}

static inline uint64_t
version_of(struct fixture *f, const char *key)
{
	struct answer answer = list(f, key);

	return answer.item_count == 0 ? 0 : answer.items[0].version;
}

/* ---- leases ---- */

static inline uint64_t
grant(struct fixture *f, uint64_t ttl_ns)
{
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->lease_grant(f->meta, ttl_ns, on_lease, &answer), 0);
	wait_for(f, &answer);
	cr_assert_eq(answer.rc, 0);
	cr_assert_neq(answer.lease, 0);
	return answer.lease;
}

static inline int
put_leased(struct fixture *f, const char *key, uint64_t lease)
{
	struct meta_op op = put(key, "v");

	op.lease = lease;
	return txn(f, &op, 1);
}

/* Both keys, with a lease that ends soon: as soon as a slow machine can. */
static inline uint64_t
put_leased_briefly(struct fixture *f, const char *key, const char *other)
{
	for (uint64_t ttl_ns = NUM_MS(50);; ttl_ns *= 2) {
		uint64_t lease = grant(f, ttl_ns);
		struct meta_op ops[] = { put(key, "v"), put(other, "v") };
		int rc;

		ops[0].lease = ops[1].lease = lease;
		rc = txn(f, ops, 2);
		if (rc == 0)
			return lease;
		cr_assert_eq(rc, -ENOENT);
	}
}

static inline int
lease_renew(struct fixture *f, uint64_t lease)
{
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->lease_renew(f->meta, lease, on_lease, &answer), 0);
	wait_for(f, &answer);
	return answer.rc;
}

static inline int
lease_revoke(struct fixture *f, uint64_t lease)
{
	struct answer answer = { 0 };

	cr_assert_eq(f->meta->ops->lease_revoke(f->meta, lease, on_lease, &answer), 0);
	wait_for(f, &answer);
	return answer.rc;
}

#endif /* CLEAVE_TESTS_META_FIXTURE_H */
