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

/* A store that is open, and what is waited for it to say. */
struct sight {
	struct fixture f;
	struct loop_timer timer; /* a thread looks: each turn asks again */
	const char *word;        /* NULL: nothing is wrong */
};

static bool
is_said(void *arg)
{
	const struct sight *sight = arg;
	const char *text = sight->f.meta->ops->displaced(sight->f.meta);

	return sight->word == NULL ? text == NULL : text != NULL && strstr(text, sight->word);
}

static void
on_turn(struct loop_timer *timer, void *arg)
{
	loop_timer_start(((struct sight *)arg)->f.loop, timer, NUM_MS(1));
}

static void
wait_said(struct sight *sight, const char *word)
{
	sight->word = word;
	cr_assert_eq(loop_run(sight->f.loop, is_said, sight), 0);
}

/* Moved away, a copy in its place, deleted, put back: while it is open, and used. */
Test(meta_place, a_store_that_is_open_is_missed_at_its_path)
{
	char path[64], moved[64], copy[96], text[160];
	struct sight sight;

	path_make(path);
	open_shared(&sight.f, path);
	loop_timer_init(&sight.timer, on_turn, &sight);
	loop_timer_start(sight.f.loop, &sight.timer, NUM_MS(1));
	wait_said(&sight, NULL);
	(void)snprintf(moved, sizeof(moved), "%.48s.moved", path);
	cr_assert_eq(rename(path, moved), 0);
	(void)snprintf(text, sizeof(text), "it was moved or deleted: %s/data.mdb", path);
	wait_said(&sight, text);
	cr_assert_eq(mkdir(path, 0700), 0);
	copy_file(moved, path, "data.mdb");
	(void)snprintf(text, sizeof(text),
	    "it is another file than the one that is in use: %s/data.mdb", path);
	wait_said(&sight, text);
	(void)snprintf(copy, sizeof(copy), "%s/data.mdb", path);
	cr_assert_eq(unlink(copy), 0);
	wait_said(&sight, "was moved or deleted");
	cr_assert_eq(rmdir(path), 0);
	/* An error that says nothing about the file is told when it stays. */
	cr_assert_eq(symlink(path, path), 0);
	wait_said(&sight, "it cannot be looked at: ");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rename(moved, path), 0);
	wait_said(&sight, NULL);
	loop_timer_stop(sight.f.loop, &sight.timer);
	fixture_fini(&sight.f);
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
