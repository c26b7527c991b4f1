/* SPDX-License-Identifier: Apache-2.0 */
/* test_meta_place.c -- what tells a metadata store's file from a copy of it */
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/place.h"
#include "middletier/meta/lmdb_place.h"
#include "unit/meta_fixture.h"

static char fake_place_text[META_PLACE_BYTES];

static const char *
fake_place(struct meta *meta)
{
	(void)meta;
	return fake_place_text;
}

/* A store's place stays with its file: opened again, renamed. A copy has another. */
Test(meta_place, it_is_that_of_the_file)
{
	char path[64], copy[64], moved[64];
	struct mt_cluster cluster = { 0 };
	struct fixture f, other;

	path_make(path);
	path_make(copy);
	open_shared(&f, path);
	mt_place_of(f.meta, cluster.place);
	cr_assert(cluster.place[0] != '\0' && mt_place_is_valid(cluster.place), "%s",
	    cluster.place);
	cr_assert(!mt_place_is_other(f.meta, &cluster));
	f.meta->ops->close(f.meta);
	(void)snprintf(moved, sizeof(moved), "%.48s.moved", path);
	cr_assert_eq(rename(path, moved), 0);
	copy_file(moved, copy, "data.mdb");
	loop_destroy(f.loop);
	open_shared(&f, moved);
	cr_assert(!mt_place_is_other(f.meta, &cluster));
	open_shared(&other, copy);
	cr_assert(mt_place_is_other(other.meta, &cluster), "%s", cluster.place);
	/* Not known, since the key is of before there were places. */
	cluster.place[0] = '\0';
	cr_assert(!mt_place_is_other(other.meta, &cluster));
	fixture_fini(&other);
	fixture_fini(&f);
}

/* A file system that tells no birth time, or did not before: the inode decides. */
Test(meta_place, one_without_a_birth_time_is_the_inode)
{
	struct statx file = { .stx_mask = STATX_INO | STATX_BTIME,
		.stx_ino = 12,
		.stx_btime = { .tv_sec = 1767323045, .tv_nsec = 6 } };
	const struct meta_ops ops = { .place = fake_place };
	struct meta meta = { .ops = &ops };
	struct mt_cluster cluster = { 0 };

	lmdb_place_write(&file, cluster.place);
	cr_assert_str_eq(cluster.place, "12@2026-01-02T03:04:05.000000006Z");
	lmdb_place_write(&file, fake_place_text);
	cr_assert(!mt_place_is_other(&meta, &cluster));
	file.stx_btime.tv_nsec++; /* the inode's number was given again */
	lmdb_place_write(&file, fake_place_text);
	cr_assert(mt_place_is_other(&meta, &cluster));
	file.stx_mask = STATX_INO;
	lmdb_place_write(&file, fake_place_text);
	cr_assert_str_eq(fake_place_text, "12");
	cr_assert(!mt_place_is_other(&meta, &cluster));
	file.stx_ino = 1;
	lmdb_place_write(&file, fake_place_text);
	cr_assert(mt_place_is_other(&meta, &cluster));
}
