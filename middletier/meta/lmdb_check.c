/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_check.c -- see lmdb_check.h
 *
 *	the caller --fork--> a child reads all keys --> its exit status: whole, broken, not known; a signal: broken
 *
 * Without a lock nobody keeps pages for the child: they may be written anew behind two commits of others. What fails then is
 * looked at again, by another child.
 */
#include "meta/lmdb_check.h"

#include <errno.h>
#include <lmdb.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"

#define CHECK_PAGE_BYTES 4096u
#define CHECK_TABLES_MAX 3u
#define CHECK_TRIES_MAX 10u /* children, while others change the store */
#define CHECK_SECONDS 60u   /* of a child, whose disk may stand still */

enum look { LOOK_WHOLE, LOOK_BROKEN, LOOK_UNKNOWN };

/* ---- the child ---- */

/* Each page of @value is read: what is longer than a page lies in pages of its own. */
static void
value_touch(const MDB_val *value)
{
	const volatile uint8_t *bytes = value->mv_data;

	for (size_t at = 0; at < value->mv_size; at += CHECK_PAGE_BYTES)
		(void)bytes[at];
	if (value->mv_size > 0)
		(void)bytes[value->mv_size - 1];
}

static int
table_walk(MDB_txn *txn, MDB_dbi table)
{
	MDB_cursor *cursor;
	MDB_val name, value;
	int rc = mdb_cursor_open(txn, table, &cursor);

	if (rc != 0)
		return rc;
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0)
		value_touch(&value);
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* The table of free pages, that of tables, and those that it names, as lmdb_store.c makes them. */
static int
tables_walk(MDB_txn *txn)
{
	static const char *const names[] = { NULL, "keys", "state" };
	MDB_dbi table;
	int rc = table_walk(txn, 0);

	for (size_t i = 0; rc == 0 && i < NUM_COUNT(names); i++) {
		rc = mdb_dbi_open(txn, names[i], 0, &table);
		if (rc == 0)
			rc = table_walk(txn, table);
		else if (rc == MDB_NOTFOUND)
			rc = 0; /* nobody has made it yet */
	}
	return rc;
}

static bool
is_broken(int rc)
{
	return rc == MDB_INVALID || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
	    rc == MDB_VERSION_MISMATCH || rc == MDB_INCOMPATIBLE || rc == MDB_BAD_VALSIZE;
}

static enum look
store_look(MDB_env *env)
{
	MDB_envinfo info;
	MDB_txn *txn;
	size_t began;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc != 0)
		return is_broken(rc) ? LOOK_BROKEN : LOOK_UNKNOWN;
	began = mdb_txn_id(txn);
	rc = tables_walk(txn);
	if (rc == 0)
		return LOOK_WHOLE;
	if (!is_broken(rc) || mdb_env_info(env, &info) != 0 || info.me_last_txnid > began + 1)
		return LOOK_UNKNOWN;
	return LOOK_BROKEN;
}

static void
child_on_assert(MDB_env *env, const char *text)
{
	(void)env;
	(void)text;
	_exit(LOOK_BROKEN);
}

/* The parent's signal handlers would tell people of the child's end. */
static void __attribute__((noreturn)) child_run(const char *path)
{
	static const int deadly[] = { SIGBUS, SIGSEGV, SIGABRT, SIGALRM };
	const struct rlimit none = { 0, 0 };
	MDB_env *env;
	int rc;

	for (size_t i = 0; i < NUM_COUNT(deadly); i++)
		(void)signal(deadly[i], SIG_DFL);
	(void)setrlimit(RLIMIT_CORE, &none); /* a core file would be clutter, no more */
	(void)alarm(CHECK_SECONDS);
	if (mdb_env_create(&env) != 0 || mdb_env_set_maxdbs(env, CHECK_TABLES_MAX) != 0 ||
	    mdb_env_set_assert(env, child_on_assert) != 0)
		_exit(LOOK_UNKNOWN);
	rc = mdb_env_open(env, path, MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0);
	if (rc != 0)
		_exit(is_broken(rc) ? LOOK_BROKEN : LOOK_UNKNOWN);
	_exit((int)store_look(env));
}

/* ---- the caller ---- */

static enum look
child_look(const char *path)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		child_run(path);
	if (child < 0)
		return LOOK_UNKNOWN;
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return LOOK_UNKNOWN;
	}
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? LOOK_UNKNOWN : LOOK_BROKEN;
	return WEXITSTATUS(status) == LOOK_WHOLE || WEXITSTATUS(status) == LOOK_BROKEN
	    ? (enum look)WEXITSTATUS(status)
	    : LOOK_UNKNOWN;
}

bool
lmdb_check_is_whole(const char *path)
{
	enum look look = LOOK_UNKNOWN;
	uint32_t broken_count = 0;

	assert(path != NULL);
	/* A signal tells nothing of changes by others: it counts when it comes again. */
	for (uint32_t i = 0; i < CHECK_TRIES_MAX && look != LOOK_WHOLE && broken_count < 2; i++) {
		look = child_look(path);
		broken_count += look == LOOK_BROKEN;
	}
	return broken_count < 2;
}
