/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_meta_shared.c -- one meta_lmdb directory, several processes of a host
 *
 * A test forks its peers before it opens anything itself. A peer runs a function on a handle of its
 * own and speaks with the test in lines over two pipes.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/lmdb_lease_table.h"
#include "middletier/meta/lmdb_leases.h"
#include "middletier/meta/lmdb_store.h"
#include "middletier/meta/meta_lmdb.h"
#include "unit/meta_fixture.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define RACE_ROUNDS 1000u

struct peer {
	pid_t pid;
	FILE *to, *from; /* in the peer: its stdin and stdout, told and asked by the test */
	struct fixture f;
};

typedef void (*peer_fn)(struct peer *self);

static void
say(FILE *to, const char *line)
{
	(void)fprintf(to, "%s\n", line);
	(void)fflush(to);
}

/* Blocks until a line comes; it must be @line unless that is NULL. */
static void
hear(FILE *from, const char *line, char ret_line[64])
{
	char text[64] = "";

	cr_assert_not_null(fgets(text, sizeof(text), from), "waiting for '%s'", line);
	text[strcspn(text, "\n")] = '\0';
	if (line != NULL)
		cr_assert_str_eq(text, line);
	if (ret_line != NULL)
		memcpy(ret_line, text, sizeof(text));
}

static void
peer_start(struct peer *peer, const char *path, peer_fn fn)
{
	int there[2], back[2];

	*peer = (struct peer){ 0 };
	cr_assert_eq(pipe2(there, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(back, O_CLOEXEC), 0);
	peer->pid = fork();
	if (peer->pid == 0) {
		/* Nothing of the test's own, the test runner's pipes among it, stays open here. */
		(void)dup2(there[0], STDIN_FILENO);
		(void)dup2(back[1], STDOUT_FILENO);
		(void)close_range(STDERR_FILENO + 1, ~0u, 0);
		peer->from = stdin;
		peer->to = stdout;
		open_shared(&peer->f, path);
		say(peer->to, "open");
		fn(peer);
		peer->f.meta->ops->close(peer->f.meta);
		_exit(0);
	}
	(void)close(there[0]);
	(void)close(back[1]);
	peer->to = fdopen(there[1], "w");
	peer->from = fdopen(back[0], "r");
	hear(peer->from, "open", NULL);
}

static void
peer_end(struct peer *peer, bool is_killed)
{
	int status;

	if (is_killed)
		(void)kill(peer->pid, SIGKILL);
	cr_assert_eq(waitpid(peer->pid, &status, 0), peer->pid);
	cr_assert(is_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	(void)fclose(peer->to);
	(void)fclose(peer->from);
}

static void
watch_start(struct fixture *f, const char *prefix, struct answer *watch)
{
	*watch = (struct answer){ 0 };
	cr_assert_eq(f->meta->ops->watch(f->meta, prefix, on_watch, watch), 0);
}

/* Until @key is there, or is not: looks again only when the watch calls. */
static void
wait_for_key(struct fixture *f, struct answer *watch, const char *key, bool is_there)
{
	while ((version_of(f, key) != 0) != is_there) {
		wait_for(f, watch);
		watch->is_done = false;
	}
}

/* ---- watches ---- */

static void
put_and_delete_when_told(struct peer *self)
{
	hear(self->from, "put", NULL);
	cr_assert_eq(put_one(&self->f, "gateways/2", "two"), 0);
	hear(self->from, "delete", NULL);
	cr_assert_eq(txn(&self->f, &(struct meta_op){ .kind = META_DELETE, .key = "gateways/2" },
			 1),
	    0);
}

Test(meta_shared, change_by_one_process_calls_the_watch_of_another)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct peer peer;

	path_make(path);
	peer_start(&peer, path, put_and_delete_when_told);
	open_shared(&f, path);
	watch_start(&f, "gateways/", &watch);
	say(peer.to, "put");
	wait_for_key(&f, &watch, "gateways/2", true);
	cr_assert_str_eq(list(&f, "gateways/2").items[0].value, "two");
	say(peer.to, "delete");
	wait_for_key(&f, &watch, "gateways/2", false);
	peer_end(&peer, false);
	fixture_fini(&f);
}

static void
put_and_die(struct peer *self)
{
	struct answer answer = { 0 };
	struct meta_op op = put("last", "words");

	hear(self->from, "go", NULL);
	cr_assert_eq(self->f.meta->ops->txn(self->f.meta, &op, 1, on_txn, &answer), 0);
	wait_for(&self->f, &answer);
	(void)kill(getpid(), SIGKILL);
}

Test(meta_shared, last_change_of_a_killed_process_is_heard)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct peer peer;

	path_make(path);
	peer_start(&peer, path, put_and_die);
	open_shared(&f, path);
	watch_start(&f, "", &watch);
	say(peer.to, "go");
	wait_for_key(&f, &watch, "last", true);
	peer_end(&peer, true);
	fixture_fini(&f);
}

/* ---- leases ---- */

static void
lease_and_wait(struct peer *self)
{
	(void)put_leased_briefly(&self->f, "gateways/2", "gateways/2/ports");
	say(self->to, "leased");
	hear(self->from, "never", NULL);
}

/* The survivor granted no lease and asks for nothing: it learns of the lease, and of its end. */
Test(meta_shared, lease_of_a_stopped_process_expires_for_the_others)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct peer peer;

	path_make(path);
	open_shared(&f, path);
	cr_assert_eq(put_one(&f, "mine", "stays"), 0);
	f.meta->ops->close(f.meta);
	f.meta = NULL;
	loop_destroy(f.loop);
	peer_start(&peer, path, lease_and_wait);
	open_shared(&f, path);
	watch_start(&f, "gateways/", &watch);
	hear(peer.from, "leased", NULL);
	cr_assert_eq(kill(peer.pid, SIGSTOP), 0);
	wait_for_key(&f, &watch, "gateways/2", false);
	peer_end(&peer, true);
	cr_assert_neq(version_of(&f, "mine"), 0);
	fixture_fini(&f);
}

static void
renew_until_told(struct peer *self)
{
	uint64_t lease = grant(&self->f, NUM_S(1000));
	char line[64];

	cr_assert_eq(put_leased(&self->f, "gateways/2", lease), 0);
	(void)snprintf(line, sizeof(line), "%" PRIu64, lease);
	say(self->to, line);
	hear(self->from, "revoked", NULL);
	cr_assert_eq(lease_renew(&self->f, lease), -ENOENT);
	cr_assert_eq(put_leased(&self->f, "gateways/2", lease), -ENOENT);
	say(self->to, "gone");
}

static void
lease_other(struct peer *self)
{
	cr_assert_eq(put_leased(&self->f, "gateways/3", grant(&self->f, NUM_S(1000000))), 0);
	say(self->to, "leased");
	hear(self->from, "never", NULL);
}

static void
lease_for_ever(struct peer *self)
{
	cr_assert_eq(put_leased(&self->f, "gateways/2", grant(&self->f, NUM_S(1000000))), 0);
	say(self->to, "leased");
	hear(self->from, "close", NULL);
}

/* The lease's time would be eleven days: it is the kernel that tells. */
Test(meta_shared, lease_of_a_killed_process_ends_with_it, .timeout = 60)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct peer peer;

	path_make(path);
	open_shared(&f, path);
	f.meta->ops->close(f.meta);
	f.meta = NULL;
	loop_destroy(f.loop);
	for (uint32_t round = 0; round < 20; round++) {
		peer_start(&peer, path, lease_for_ever);
		open_shared(&f, path);
		watch_start(&f, "gateways/", &watch);
		hear(peer.from, "leased", NULL);
		cr_assert_neq(version_of(&f, "gateways/2"), 0);
		if (round % 2 == 0)
			say(peer.to, "close");
		peer_end(&peer, round % 2 != 0);
		wait_for_key(&f, &watch, "gateways/2", false);
		f.meta->ops->close(f.meta);
		f.meta = NULL;
		loop_destroy(f.loop);
	}
	open_shared(&f, path);
	fixture_fini(&f);
}

/* A process that comes later finds the lease of one that nobody saw die, beside one that lives. */
Test(meta_shared, who_comes_later_ends_leases_of_the_dead_alone, .timeout = 60)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct peer living, dead;

	path_make(path);
	peer_start(&living, path, renew_until_told);
	hear(living.from, NULL, (char[64]){ 0 });
	/* Stopped: it does not look. */
	cr_assert_eq(kill(living.pid, SIGSTOP), 0);
	peer_start(&dead, path, lease_other);
	hear(dead.from, "leased", NULL);
	peer_end(&dead, true);
	open_shared(&f, path);
	watch_start(&f, "gateways/", &watch);
	wait_for_key(&f, &watch, "gateways/3", false);
	cr_assert_neq(version_of(&f, "gateways/2"), 0);
	cr_assert_eq(kill(living.pid, SIGCONT), 0);
	peer_end(&living, true);
	wait_for_key(&f, &watch, "gateways/2", false);
	fixture_fini(&f);
}

/* ---- whose disk stalls ---- */

static void
put_into_a_stall(struct peer *self)
{
	struct answer answer = { 0 };
	struct meta_op op = put("shards/0", "v");

	hear(self->from, "go", NULL);
	stall(&self->f, true);
	cr_assert_eq(self->f.meta->ops->txn(self->f.meta, &op, 1, on_txn, &answer), 0);
	stall_wait(&self->f);
	say(self->to, "stalled");
	hear(self->from, "end", NULL);
	stall(&self->f, false);
	wait_for(&self->f, &answer);
	cr_assert_eq(answer.rc, 0);
}

Test(meta_shared, commit_of_another_process_that_stalls_delays_no_lease, .timeout = 60)
{
	char path[64];
	struct fixture f;
	struct peer peer;
	struct answer answer = { 0 };
	struct meta_op op = put("shards/0", "mine");
	uint64_t lease;

	path_make(path);
	peer_start(&peer, path, put_into_a_stall);
	open_shared(&f, path);
	lease = grant(&f, NUM_S(1000));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	say(peer.to, "go");
	hear(peer.from, "stalled", NULL);
	cr_assert_eq(f.meta->ops->txn(f.meta, &op, 1, on_txn, &answer), 0);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(lease_renew(&f, lease), 0);
	cr_assert_neq(version_of(&f, "gateways/1"), 0);
	cr_assert_not(answer.is_done);
	say(peer.to, "end");
	wait_for(&f, &answer);
	cr_assert_eq(answer.rc, 0);
	peer_end(&peer, false);
	fixture_fini(&f);
}

/* ---- who sees whose leases ---- */

static void
wait_until_told(struct peer *self)
{
	hear(self->from, "end", NULL);
}

/* As in a container with a /dev/shm of its own: the memory is there, but not for us. */
Test(meta_shared, process_that_cannot_see_the_leases_is_refused)
{
	char path[64], name[128], memory[64] = "", away[80], error[256] = "";
	struct loop *loop = loop_ev_create(1);
	struct fixture f;
	struct peer peer;
	int fd;

	path_make(path);
	peer_start(&peer, path, wait_until_told);
	(void)snprintf(name, sizeof(name), "%s/leases.lock", path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	cr_assert_gt(read(fd, memory, sizeof(memory) - 1), 0);
	(void)close(fd);
	(void)snprintf(away, sizeof(away), "%s-away", memory);
	cr_assert_eq(rename(memory, away), 0, "%s", memory);
	cr_assert_null(meta_lmdb_open(loop, path, error, sizeof(error)));
	cr_assert_not_null(strstr(error, "does not see"), "%s", error);
	cr_assert_eq(rename(away, memory), 0);
	say(peer.to, "end");
	peer_end(&peer, false);
	loop_destroy(loop);
	open_shared(&f, path);
	cr_assert_eq(access(memory, F_OK), -1, "the last one takes it away");
	fixture_fini(&f);
}

/* A copy of a directory that is in use is another store: it does not touch the memory of the first. */
Test(meta_shared, copy_of_a_directory_has_leases_of_its_own)
{
	char path[64], copy[64], name[128], memory[64] = "";
	struct fixture f, other;
	uint64_t lease;
	int fd;

	path_make(path);
	path_make(copy);
	open_shared(&f, path);
	lease = grant(&f, NUM_S(1000));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	copy_file(path, copy, "data.mdb");
	copy_file(path, copy, "leases.lock");
	(void)snprintf(name, sizeof(name), "%s/leases.lock", copy);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	cr_assert_gt(read(fd, memory, sizeof(memory) - 1), 0);
	(void)close(fd);
	open_shared(&other, copy);
	cr_assert_eq(version_of(&other, "gateways/1"), 0);
	cr_assert_neq(version_of(&other, "k"), 0);
	cr_assert_eq(access(memory, F_OK), 0, "%s", memory);
	cr_assert_eq(lease_renew(&f, lease), 0);
	fixture_fini(&other);
	fixture_fini(&f);
	cr_assert_eq(access(memory, F_OK), -1, "%s", memory);
}

/* As a version left it that kept leases on disk: {ttl, end, boot}, and a key under one. */
static void
old_lease_put(const char *path, uint64_t expires_ns)
{
	struct lmdb_store store = { .leased = &store };
	uint64_t lease[2] = { NUM_S(3), expires_ns };
	uint8_t value[sizeof(lease) + LMDB_BOOT_BYTES];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	MDB_val name = { 8, (uint64_t[]){ 1 } }, data = { sizeof(value), value };
	MDB_val key = { 10, (char[]){ "gateways/1" } };
	MDB_txn *txn;
	MDB_dbi table;

	memcpy(value, lease, sizeof(lease));
	cr_assert_eq(read(fd, value + sizeof(lease), LMDB_BOOT_BYTES), LMDB_BOOT_BYTES);
	(void)close(fd);
	cr_assert_eq(lmdb_store_open(&store, path), 0);
	cr_assert_eq(mdb_txn_begin(store.env, NULL, 0, &txn), 0);
	cr_assert_eq(mdb_dbi_open(txn, "leases", MDB_CREATE, &table), 0);
	cr_assert_eq(mdb_put(txn, table, &name, &data, 0), 0);
	cr_assert_eq(mdb_put(txn, store.keys, &key, &data, 0), 0);
	cr_assert_eq(mdb_txn_commit(txn), 0);
	lmdb_store_close(&store);
}

Test(meta_shared, leases_of_an_older_version_are_waited_for_and_then_go)
{
	char path[64], error[256] = "";
	struct loop *loop = loop_ev_create(1);
	struct lmdb_store store = { .leased = &store };
	struct fixture f;
	MDB_txn *txn;
	MDB_dbi table;

	path_make(path);
	old_lease_put(path, UINT64_MAX);
	cr_assert_null(meta_lmdb_open(loop, path, error, sizeof(error)));
	cr_assert_not_null(strstr(error, "older version"), "%s", error);
	loop_destroy(loop);
	old_lease_put(path, 1);
	open_shared(&f, path);
	cr_assert_eq(list(&f, "").item_count, 0);
	meta_reopen(&f);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	f.meta->ops->close(f.meta);
	f.meta = NULL;
	/* The older version asks for its table, and is told that there is none. */
	cr_assert_eq(lmdb_store_open(&store, path), 0);
	cr_assert_eq(mdb_txn_begin(store.env, NULL, 0, &txn), 0);
	cr_assert_eq(mdb_dbi_open(txn, "leases", MDB_CREATE, &table), MDB_INCOMPATIBLE);
	mdb_txn_abort(txn);
	lmdb_store_close(&store);
	fixture_fini(&f);
}

static void
lease_later(struct peer *self)
{
	hear(self->from, "go", NULL);
	lease_and_wait(self);
}

/* The same, granted when the survivor is asleep and knows of no expiry. */
Test(meta_shared, lease_granted_by_another_process_wakes_who_slept)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct peer peer;

	path_make(path);
	peer_start(&peer, path, lease_later);
	open_shared(&f, path);
	watch_start(&f, "gateways/", &watch);
	(void)list(&f, "");
	say(peer.to, "go");
	hear(peer.from, "leased", NULL);
	peer_end(&peer, true);
	wait_for(&f, &watch); /* put, or already gone */
	watch.is_done = false;
	wait_for_key(&f, &watch, "gateways/2", false);
	fixture_fini(&f);
}

Test(meta_shared, lease_that_another_process_revoked_is_gone)
{
	char path[64], line[64];
	struct fixture f;
	struct peer peer;

	path_make(path);
	peer_start(&peer, path, renew_until_told);
	open_shared(&f, path);
	hear(peer.from, NULL, line);
	cr_assert_eq(lease_revoke(&f, strtoull(line, NULL, 10)), 0);
	cr_assert_eq(version_of(&f, "gateways/2"), 0);
	say(peer.to, "revoked");
	hear(peer.from, "gone", NULL);
	peer_end(&peer, false);
	fixture_fini(&f);
}

/* ---- clocks ---- */

Test(meta_shared, offset_of_a_time_namespace_is_read)
{
	cr_assert_eq(lmdb_clock_offset_read("monotonic           0         0\n"
					    "boottime            0         0\n"),
	    0);
	cr_assert_eq(lmdb_clock_offset_read("monotonic       86400  500000000\nboottime 7 0\n"),
	    INT64_C(86400500000000));
	cr_assert_eq(lmdb_clock_offset_read("monotonic         -10         0\n"),
	    -INT64_C(10000000000));
	cr_assert_eq(lmdb_clock_offset_read("boottime 7 0\n"), 0);
	cr_assert_eq(lmdb_clock_offset_read(""), 0);
}

/* In a time namespace whose clock is a day ahead; false where this may not be. */
static bool
shift_clock(void)
{
	static const char offsets[] = "monotonic 86400 0\n";
	bool is_shifted;
	int fd;

	if (unshare(CLONE_NEWTIME) != 0)
		return false;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	is_shifted = fd >= 0 && write(fd, offsets, sizeof(offsets) - 1) > 0;
	if (fd >= 0)
		(void)close(fd);
	return is_shifted;
}

static void
hold_lease_then_look(struct peer *self)
{
	uint64_t lease = grant(&self->f, NUM_S(3600));

	cr_assert_eq(put_leased(&self->f, "gateways/2", lease), 0);
	say(self->to, "leased");
	hear(self->from, "look", NULL);
	cr_assert_neq(version_of(&self->f, "gateways/1"), 0);
	cr_assert_neq(version_of(&self->f, "gateways/2"), 0);
	cr_assert_eq(lease_renew(&self->f, lease), 0);
	say(self->to, "good");
}

/* Leases of both live an hour, though one's clock is a day ahead of the other's. */
Test(meta_shared, time_namespaces_do_not_end_leases, .timeout = 30)
{
	char path[64];
	struct fixture f;
	struct peer peer;

	path_make(path);
	/* Children forked from now on live in the namespace. */
	if (!shift_clock())
		cr_skip_test("no time namespace may be made here");
	peer_start(&peer, path, hold_lease_then_look);
	open_shared(&f, path);
	hear(peer.from, "leased", NULL);
	cr_assert_eq(put_leased(&f, "gateways/1", grant(&f, NUM_S(3600))), 0);
	cr_assert_neq(version_of(&f, "gateways/2"), 0);
	say(peer.to, "look");
	hear(peer.from, "good", NULL);
	peer_end(&peer, false);
	fixture_fini(&f);
}

/* ---- races ---- */

/* Adds one to the key "sum" RACE_ROUNDS times; returns how many of its compares held. */
static uint32_t
race(struct fixture *f)
{
	uint32_t won = 0;

	for (uint32_t i = 0; i < RACE_ROUNDS; i++) {
		struct answer now = list(f, "sum");
		char value[16];
		struct meta_op ops[2];
		int rc;

		(void)snprintf(value, sizeof(value), "%lu",
		    strtoul(now.items[0].value, NULL, 10) + 1);
		ops[0] = compare("sum", now.items[0].version);
		ops[1] = put("sum", value);
		rc = txn(f, ops, 2);
		cr_assert(rc == 0 || rc == -EAGAIN);
		won += rc == 0;
	}
	return won;
}

static void
race_as_peer(struct peer *self)
{
	char line[64];

	hear(self->from, "go", NULL);
	(void)snprintf(line, sizeof(line), "%u", race(&self->f));
	say(self->to, line);
}

Test(meta_shared, of_two_processes_that_compare_one_wins, .timeout = 60)
{
	char path[64], line[64];
	struct fixture f;
	struct peer peer;
	uint32_t won;

	path_make(path);
	peer_start(&peer, path, race_as_peer);
	open_shared(&f, path);
	cr_assert_eq(put_one(&f, "sum", "0"), 0);
	say(peer.to, "go");
	won = race(&f);
	hear(peer.from, NULL, line);
	won += (uint32_t)strtoul(line, NULL, 10);
	cr_assert_eq(strtoul(list(&f, "sum").items[0].value, NULL, 10), won);
	cr_assert_gt(won, 0);
	peer_end(&peer, false);
	fixture_fini(&f);
}

static void
write_for_ever(struct peer *self)
{
	for (;;) {
		cr_assert_eq(put_one(&self->f, "k", "v"), 0);
		say(self->to, "put");
	}
}

/* Whatever a killed process was doing within the store, it holds nobody up. */
Test(meta_shared, writers_that_are_killed_leave_the_store_to_others, .timeout = 60)
{
	char path[64];
	struct fixture f;

	path_make(path);
	for (uint32_t round = 0; round < 10; round++) {
		struct peer peers[2];

		for (uint32_t i = 0; i < 2; i++)
			peer_start(&peers[i], path, write_for_ever);
		for (uint32_t i = 0; i < 10 + round; i++)
			hear(peers[i % 2].from, "put", NULL);
		peer_end(&peers[0], true);
		peer_end(&peers[1], true);
	}
	open_shared(&f, path);
	cr_assert_eq(put_one(&f, "k", "after"), 0);
	cr_assert_str_eq(list(&f, "k").items[0].value, "after");
	fixture_fini(&f);
}

/* ---- idle ---- */

static bool
clock_is_past(void *arg)
{
	struct fixture *f = arg;

	return loop_now_ns(f->loop) >= f->until_ns;
}

static void
timer_ignore(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
}

/* A process that nobody changes anything for is not woken: no look at the clock, no poll. */
Test(meta_shared, nothing_happens_when_nothing_changes)
{
	char path[64];
	struct fixture f;
	struct answer watch;
	struct loop_timer timer;
	struct rusage before, after;

	path_make(path);
	open_shared(&f, path);
	watch_start(&f, "", &watch);
	(void)list(&f, "");
	(void)list(&f, "");
	cr_assert_eq(getrusage(RUSAGE_SELF, &before), 0);
	loop_timer_init(&timer, timer_ignore, NULL);
	loop_timer_start(f.loop, &timer, NUM_MS(300));
	f.until_ns = loop_now_ns(f.loop) + NUM_MS(300);
	cr_assert_eq(loop_run(f.loop, clock_is_past, &f), 0);
	cr_assert_eq(getrusage(RUSAGE_SELF, &after), 0);
	cr_assert_leq(after.ru_nvcsw - before.ru_nvcsw, 10);
	cr_assert_eq(watch.count, 0);
	fixture_fini(&f);
}

/* ---- one process a gateway id ---- */

static void
claim_seven(struct peer *self)
{
	char error[256] = "";

	cr_assert_eq(meta_lmdb_claim_id(self->f.meta, 7, error, sizeof(error)), 0, "%s", error);
	say(self->to, "claimed");
	hear(self->from, "never", NULL);
}

Test(meta_shared, gateway_id_runs_once)
{
	char path[64], error[256] = "";
	struct fixture f;
	struct peer peer;

	path_make(path);
	peer_start(&peer, path, claim_seven);
	open_shared(&f, path);
	hear(peer.from, "claimed", NULL);
	cr_assert_eq(meta_lmdb_claim_id(f.meta, 7, error, sizeof(error)), -EBUSY);
	cr_assert_not_null(strstr(error, "gateway 7 runs already"), "%s", error);
	peer_end(&peer, true);
	cr_assert_eq(meta_lmdb_claim_id(f.meta, 7, error, sizeof(error)), 0);
	cr_assert_eq(meta_lmdb_claim_id(f.meta, 8, error, sizeof(error)), -EBUSY);
	cr_assert_not_null(strstr(error, "claimed an id already"), "%s", error);
	meta_reopen(&f);
	cr_assert_eq(meta_lmdb_claim_id(f.meta, 8, error, sizeof(error)), 0, "%s", error);
	fixture_fini(&f);
}

Test(meta_shared, lock_that_cannot_be_made_is_told)
{
	char path[64], lock[128], error[256] = "";
	struct fixture f;

	path_make(path);
	(void)snprintf(lock, sizeof(lock), "%s/gateway-7.lock", path);
	cr_assert_eq(mkdir(lock, 0700), 0);
	open_shared(&f, path);
	cr_assert_eq(meta_lmdb_claim_id(f.meta, 7, error, sizeof(error)), -EISDIR);
	cr_assert_not_null(strstr(error, "gateway-7.lock"), "%s", error);
	fixture_fini(&f);
}
