/* SPDX-License-Identifier: Apache-2.0 */
/* ca_rig.h -- an authority in a folder of its own, and a key that it issues, for unit tests */
#ifndef CLEAVE_TESTS_CA_RIG_H
#define CLEAVE_TESTS_CA_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/durable.h"
#include "vm-client/keys/ca.h"
#include "vm-client/keys/key_look.h"

#define CLUSTER UINT64_C(0xc1ea7e0000000001)
#define NOW UINT64_C(1800000000)
#define PATH_BYTES 128u

struct rig {
	char folder[32], ca[PATH_BYTES], key[PATH_BYTES], why[CA_WHY_BYTES];
	struct issued_entry entry, old;
	struct key_look look;
};

/* rig_init -- a folder of an authority that is 1,000 days old at most, and room for a key beside it. */
static inline void
rig_init(struct rig *rig)
{
	*rig = (struct rig){ .folder = "/tmp/cleave-keys-XXXXXX" };
	cr_assert_not_null(mkdtemp(rig->folder));
	(void)snprintf(rig->ca, PATH_BYTES, "%s/ca", rig->folder);
	(void)snprintf(rig->key, PATH_BYTES, "%s/key", rig->folder);
	cr_assert_eq(ca_init(rig->ca, CLUSTER, 1000, NOW, rig->why), 0, "%s", rig->why);
}

/* in -- the path of @name in @folder; valid until the next one. */
static inline const char *
in(const char *folder, const char *name)
{
	static char path[2 * PATH_BYTES];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static inline int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

/* rig_fini -- all of it is gone. */
static inline void
rig_fini(struct rig *rig)
{
	cr_assert_eq(nftw(rig->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* issue -- a key, to rig->key; as ca_issue. */
static inline int
issue(struct rig *rig, const char *subject, uint64_t days, uint64_t now_s, bool replaces)
{
	const struct ca_wish wish = { .subject = subject,
		.out = rig->key,
		.days = days,
		.replaces = replaces };
	struct ca *ca = ca_open(rig->ca, rig->why);
	int rc;

	if (ca == NULL)
		return -errno;
	rc = ca_issue(ca, &wish, now_s, &rig->entry, rig->why);
	ca_close(ca);
	return rc;
}

/* read_text -- all of the file, to be freed. */
static inline char *
read_text(const char *path, size_t *ret_bytes)
{
	char *text;

	cr_assert_eq(durable_read(AT_FDCWD, path, 65536, &text, ret_bytes), 0);
	return text;
}

#endif /* CLEAVE_TESTS_CA_RIG_H */
