/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_leases.c -- see lmdb_leases.h */
#include "meta/lmdb_leases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/meta.h"

#define LEASES_PATH "/dev/shm/cleave-leases-"
#define LEASES_ID_CHARS 16u
#define LEASES_PATH_CHARS (sizeof(LEASES_PATH) - 1 + LEASES_ID_CHARS)
#define LEASES_ROUNDS 20u
#define LEASES_ROUND_NS NUM_MS(50)
#define HOLDER_NAME_BYTES 32u

static_assert(LEASES_PATH_CHARS < LMDB_LEASES_PATH_BYTES, "the path has room");

/* ---- which memory ---- */

/* Reads leases.lock. False: this program did not write it. */
static bool
name_read(int lock_fd, char ret_path[LMDB_LEASES_PATH_BYTES])
{
	ssize_t bytes = pread(lock_fd, ret_path, LMDB_LEASES_PATH_BYTES - 1, 0);

	assert(lock_fd >= 0);
	if (bytes < (ssize_t)LEASES_PATH_CHARS)
		return false;
	ret_path[LEASES_PATH_CHARS] = '\0';
	return strncmp(ret_path, LEASES_PATH, sizeof(LEASES_PATH) - 1) == 0 &&
	    strspn(ret_path + sizeof(LEASES_PATH) - 1, "0123456789abcdef") == LEASES_ID_CHARS;
}

static int
name_write(int lock_fd, const char *path)
{
	size_t bytes = strlen(path);

	assert(lock_fd >= 0);
	assert(strlen(path) == LEASES_PATH_CHARS);
	return pwrite(lock_fd, path, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

/* Unless somebody uses it: a copy of a store's directory names the memory of the other one. */
static void
memory_remove(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;

	if (directory == NULL)
		return;
	if (flock(dirfd(directory), LOCK_EX | LOCK_NB) != 0) {
		(void)closedir(directory);
		return;
	}
	while ((entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(directory), entry->d_name, 0);
	(void)closedir(directory);
	(void)rmdir(path); /* another user's stays, and is nobody's */
}

/* With nobody else at the store. */
static int
memory_make(struct lmdb_leases *leases)
{
	uint64_t id;

	assert(leases->directory_fd < 0);
	if (name_read(leases->lock_fd, leases->path))
		memory_remove(leases->path);
	if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return -EIO;
	(void)snprintf(leases->path, sizeof(leases->path), LEASES_PATH "%016" PRIx64, id);
	if (mkdir(leases->path, 0700) != 0)
		return -errno;
	return name_write(leases->lock_fd, leases->path);
}

static int
memory_open(struct lmdb_leases *leases)
{
	assert(leases->directory_fd < 0);
	if (!name_read(leases->lock_fd, leases->path))
		return -ENOENT;
	leases->directory_fd = open(leases->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (leases->directory_fd < 0 || flock(leases->directory_fd, LOCK_SH) != 0)
		return -errno;
	return 0;
}

/*
 * A round: -EAGAIN another process may be making or removing it. Asking for an exclusive lock gives up a shared one,
 * and becoming shared again leaves a gap: so the name counts that is read under the shared lock.
 */
static int
memory_try(struct lmdb_leases *leases)
{
	bool is_alone = flock(leases->lock_fd, LOCK_EX | LOCK_NB) == 0;
	int rc;

	assert(leases->lock_fd >= 0);
	if (is_alone) {
		rc = memory_make(leases);
		if (rc != 0)
			return rc;
	}
	if (flock(leases->lock_fd, LOCK_SH) != 0)
		return -errno;
	rc = memory_open(leases);
	leases->is_first = is_alone;
	return rc == -ENOENT ? -EAGAIN : rc;
}

static int
memory_find(struct lmdb_leases *leases)
{
	const struct timespec pause = { .tv_nsec = (long)LEASES_ROUND_NS };
	int rc = memory_try(leases);

	for (uint32_t i = 1; rc == -EAGAIN && i < LEASES_ROUNDS; i++) {
		(void)nanosleep(&pause, NULL); /* tidy: allow call: no loop runs yet */
		rc = memory_try(leases);
	}
	return rc;
}

/* ---- who holds ---- */

static void
holder_name(char out[HOLDER_NAME_BYTES], uint64_t holder)
{
	(void)snprintf(out, HOLDER_NAME_BYTES, "holder-%016" PRIx64, holder);
}

static int
holder_make(struct lmdb_leases *leases)
{
	char name[HOLDER_NAME_BYTES];

	assert(leases->directory_fd >= 0);
	assert(leases->holder_fd < 0);
	if (getrandom(&leases->holder, sizeof(leases->holder), 0) !=
	    (ssize_t)sizeof(leases->holder))
		return -EIO;
	holder_name(name, leases->holder);
	/* Open for writing: so its end rings for who watches the directory (IN_CLOSE_WRITE). */
	leases->holder_fd =
	    openat(leases->directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (leases->holder_fd < 0 || flock(leases->holder_fd, LOCK_EX | LOCK_NB) != 0)
		return -errno;
	return 0;
}

bool
lmdb_leases_is_dead(void *arg, uint64_t holder)
{
	struct lmdb_leases *leases = arg;
	char name[HOLDER_NAME_BYTES];
	bool is_dead;
	int fd;

	assert(leases->directory_fd >= 0);
	assert(leases->dead_count <= LMDB_LEASES_DEAD_MAX);
	holder_name(name, holder);
	/* For reading: our own closing does not ring. */
	fd = openat(leases->directory_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false; /* somebody removed the file: that proves nothing */
	is_dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
	(void)close(fd);
	if (is_dead && leases->dead_count < LMDB_LEASES_DEAD_MAX)
		leases->dead[leases->dead_count++] = holder;
	return is_dead;
}

void
lmdb_leases_sweep(struct lmdb_leases *leases)
{
	char name[HOLDER_NAME_BYTES];

	assert(leases->dead_count <= LMDB_LEASES_DEAD_MAX);
	while (leases->dead_count > 0) {
		holder_name(name, leases->dead[--leases->dead_count]);
		(void)unlinkat(leases->directory_fd, name, 0);
	}
}

/* ---- opening and closing ---- */

int
lmdb_leases_open(struct lmdb_leases *leases, int store_fd, const char *path, char *ret_error,
    size_t error_bytes)
{
	struct stat st;
	int rc = 0;

	assert(error_bytes > 0);
	*leases = (struct lmdb_leases){ .lock_fd = -1, .directory_fd = -1, .holder_fd = -1 };
	leases->lock_fd = openat(store_fd, "leases.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (leases->lock_fd < 0) {
		rc = -errno;
		(void)snprintf(ret_error, error_bytes, "%s/leases.lock: %s", path, strerror(-rc));
		return rc;
	}
	/* The administrator's command must not lock out the daemons' user. */
	if (geteuid() == 0 && fstat(store_fd, &st) == 0)
		(void)!fchown(leases->lock_fd, st.st_uid, st.st_gid);
	rc = memory_find(leases);
	if (rc == 0)
		rc = holder_make(leases);
	if (rc == -EAGAIN) {
		rc = -EBUSY;
		(void)snprintf(ret_error, error_bytes,
		    "%s: other gateways run on it, and their leases are in %s, which this process does "
		    "not see: give it their /dev/shm, or stop them all first",
		    path, leases->path);
	} else if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: leases of %s: %s",
		    leases->path[0] != '\0' ? leases->path : LEASES_PATH, path, strerror(-rc));
	}
	return rc;
}

void
lmdb_leases_close(struct lmdb_leases *leases)
{
	assert(leases->directory_fd < 0 || leases->lock_fd >= 0);
	if (leases->holder_fd >= 0)
		(void)close(leases->holder_fd);
	if (leases->directory_fd >= 0)
		(void)close(leases->directory_fd);
	if (leases->directory_fd >= 0 && flock(leases->lock_fd, LOCK_EX | LOCK_NB) == 0)
		memory_remove(leases->path);
	if (leases->lock_fd >= 0)
		(void)close(leases->lock_fd);
	leases->holder_fd = leases->directory_fd = leases->lock_fd = -1;
}

/* ---- leases that lay on disk ---- */

/* As older versions stored one. */
struct old_lease {
	uint64_t ttl_ns;
	uint64_t expires_ns;
	char boot[LMDB_BOOT_BYTES];
};

/* 0, -EBUSY one lives, or LMDB's error. */
static int
old_leases_judge(MDB_txn *txn, MDB_dbi table, const char *boot, uint64_t now_ns)
{
	MDB_val name, value;
	MDB_cursor *cursor;
	int rc = mdb_cursor_open(txn, table, &cursor);

	if (rc != 0)
		return rc;
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
		struct old_lease lease;

		if (value.mv_size < offsetof(struct old_lease, boot) + sizeof(lease.boot))
			continue;
		memcpy(&lease, value.mv_data,
		    offsetof(struct old_lease, boot) + sizeof(lease.boot));
		if (lease.expires_ns > now_ns &&
		    memcmp(lease.boot, boot, sizeof(lease.boot)) == 0) {
			rc = -EBUSY;
			break;
		}
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int
old_keys_delete(MDB_txn *txn, MDB_dbi keys)
{
	MDB_val name = { .mv_size = sizeof(META_LEASED_PREFIX) - 1,
		.mv_data = (void *)(uintptr_t)META_LEASED_PREFIX };
	MDB_val value;
	MDB_cursor *cursor;
	int rc = mdb_cursor_open(txn, keys, &cursor);

	if (rc != 0)
		return rc;
	rc = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
	while (rc == 0 && name.mv_size >= sizeof(META_LEASED_PREFIX) - 1 &&
	    memcmp(name.mv_data, META_LEASED_PREFIX, sizeof(META_LEASED_PREFIX) - 1) == 0) {
		rc = mdb_cursor_del(cursor, 0);
		if (rc == 0)
			rc = mdb_cursor_get(cursor, &name, &value, MDB_GET_CURRENT);
		if (rc == EINVAL) /* that was the last key */
			rc = MDB_NOTFOUND;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* A value where older versions look for a table: they refuse the store by that. */
static int
old_table_replace(MDB_txn *txn, MDB_dbi table)
{
	MDB_val name = { .mv_size = 6, .mv_data = (void *)(uintptr_t) "leases" };
	MDB_val value = { .mv_size = 6, .mv_data = (void *)(uintptr_t) "memory" };
	MDB_dbi all;
	int rc = mdb_drop(txn, table, 1);

	if (rc == 0)
		rc = mdb_dbi_open(txn, NULL, 0, &all);
	return rc != 0 ? rc : mdb_put(txn, all, &name, &value, 0);
}

int
lmdb_leases_retire(MDB_env *env, MDB_dbi keys, const char *boot, uint64_t now_ns)
{
	MDB_dbi table;
	MDB_txn *txn;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	assert(env != NULL);
	if (rc != 0)
		return -EIO;
	rc = mdb_dbi_open(txn, "leases", 0, &table);
	if (rc == MDB_NOTFOUND || rc == MDB_INCOMPATIBLE) {
		mdb_txn_abort(txn);
		return 0;
	}
	if (rc == 0)
		rc = old_leases_judge(txn, table, boot, now_ns);
	if (rc == 0)
		rc = old_keys_delete(txn, keys);
	if (rc == 0)
		rc = old_table_replace(txn, table);
	if (rc != 0) {
		mdb_txn_abort(txn);
		return rc == -EBUSY ? -EBUSY : -EIO;
	}
	return mdb_txn_commit(txn) == 0 ? 0 : -EIO;
}
