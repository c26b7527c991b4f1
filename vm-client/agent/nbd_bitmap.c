/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_bitmap.c -- see nbd_bitmap.h
 *
 *	OPENING --> OPEN --> LOST: a snapshot was deleted, or the volume
 *	   '-------------------^   refused
 *
 * Freed when nobody uses it. What is LOST is found by nobody new, so who comes again asks a gateway again: there may
 * be another snapshot of that name by then.
 */
#include "nbd_bitmap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"

static const struct sm_state bitmap_table[NBD_BITMAP_STATE_NR] = {
	[NBD_BITMAP_OPENING] = { "opening", SM_TO(NBD_BITMAP_OPEN) | SM_TO(NBD_BITMAP_LOST),
	    SM_INITIAL | SM_FINAL },
	[NBD_BITMAP_OPEN] = { "open", SM_TO(NBD_BITMAP_LOST), SM_FINAL },
	[NBD_BITMAP_LOST] = { "lost", 0, SM_FINAL | SM_FAILURE },
};

/* ---- its end ---- */

static void
bitmap_free(struct nbd_bitmap *bitmap)
{
	CHECK_OBJ(bitmap, BITMAP_MAGIC);
	assert(list_is_empty(&bitmap->users) && list_is_empty(&bitmap->waiting));
	loop_task_cancel(bitmap->server->options.loop, &bitmap->open_task);
	list_remove(&bitmap->link);
	if (bitmap->volume != NULL)
		cleave_volume_close(bitmap->volume, NULL, NULL);
	bitmap->magic = 0;
	free(bitmap);
}

static void
bitmap_try_free(struct nbd_bitmap *bitmap)
{
	CHECK_OBJ(bitmap, BITMAP_MAGIC);
	if (bitmap->sm.state != NBD_BITMAP_OPENING && !bitmap->is_telling &&
	    list_is_empty(&bitmap->users) && list_is_empty(&bitmap->waiting))
		bitmap_free(bitmap);
}

static void
use_drop(struct nbd_bitmap_use *use)
{
	struct nbd_bitmap *bitmap = use->bitmap;

	assert(bitmap != NULL && list_contains(&use->link));
	list_remove(&use->link);
	use->bitmap = NULL;
	bitmap_try_free(bitmap);
}

void
nbd_bitmap_drop_all(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->bitmap_count <= NBD_BITMAPS_MAX);
	while (connection->bitmap_count > 0)
		use_drop(&connection->bitmaps[--connection->bitmap_count]);
}

void
nbd_bitmap_lose(struct nbd_bitmap *bitmap, int rc)
{
	CHECK_OBJ(bitmap, BITMAP_MAGIC);
	assert(rc < 0);
	if (bitmap->sm.state == NBD_BITMAP_LOST)
		return;
	bitmap->rc = rc;
	sm_move(&bitmap->sm, NBD_BITMAP_LOST);
}

void
nbd_bitmap_fini_all(struct nbd_server *server)
{
	struct loop_link *link;

	CHECK_OBJ(server, SERVER_MAGIC);
	while ((link = list_first(&server->bitmaps)) != NULL) {
		struct nbd_bitmap *bitmap = LIST_ENTRY(link, struct nbd_bitmap, link);

		bitmap->volume = NULL; /* it went with the client */
		bitmap_free(bitmap);
	}
}

/* ---- opening ---- */

static void
bitmap_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct nbd_bitmap *bitmap = arg;
	struct loop_link *link;

	CHECK_OBJ(bitmap, BITMAP_MAGIC);
	assert((rc == 0) == (volume != NULL));
	bitmap->volume = volume;
	if (rc == 0) {
		sm_move(&bitmap->sm, NBD_BITMAP_OPEN);
	} else {
		log_info("bitmap: cannot be opened name=%s rc=%s text=\"%s\"", bitmap->name,
		    log_errno(rc), error == NULL ? "" : error);
		nbd_bitmap_lose(bitmap, rc);
	}
	/* Telling one may end it, and others: the bitmap is kept until all know. */
	bitmap->is_telling = true;
	while ((link = list_pop_front(&bitmap->waiting)) != NULL) {
		list_push_back(&bitmap->users, link);
		nbd_connection_on_export(LIST_ENTRY(link, struct nbd_bitmap_use, link)->connection,
		    0, NULL);
	}
	bitmap->is_telling = false;
	bitmap_try_free(bitmap);
}

/* In a turn of its own, so that a connection is never told inside nbd_bitmap_add. */
static void
bitmap_on_open_task(struct loop_task *task, void *arg)
{
	struct nbd_bitmap *bitmap = arg;
	int rc;

	(void)task;
	CHECK_OBJ(bitmap, BITMAP_MAGIC);
	assert(task == &bitmap->open_task && bitmap->sm.state == NBD_BITMAP_OPENING);
	rc = cleave_volume_open(bitmap->server->options.client, bitmap->name, CLEAVE_OPEN_READ_ONLY,
	    bitmap_on_open, bitmap);
	if (rc != 0)
		bitmap_on_open(NULL, rc, cleave_error_text(rc), bitmap);
}

/* VOLUME@OLD@NEW, or VOLUME@OLD@ of a volume as it is. -ENOENT: nothing is named so. */
static int
bitmap_name(char out[CLEAVE_NAME_BYTES_MAX + 1], const char *export, const char *old,
    uint32_t old_bytes)
{
	size_t volume_bytes = strcspn(export, "@");
	const char *until = export[volume_bytes] == '\0' ? "" : export + volume_bytes + 1;

	assert(old_bytes > 0);
	if (old_bytes > CLEAVE_VOLUME_NAME_BYTES_MAX ||
	    volume_bytes > CLEAVE_VOLUME_NAME_BYTES_MAX ||
	    strlen(until) > CLEAVE_VOLUME_NAME_BYTES_MAX || strchr(until, '@') != NULL ||
	    memchr(old, '@', old_bytes) != NULL || memchr(old, '\0', old_bytes) != NULL)
		return -ENOENT;
	(void)snprintf(out, CLEAVE_NAME_BYTES_MAX + 1, "%.*s@%.*s@%s", (int)volume_bytes, export,
	    (int)old_bytes, old, until);
	return 0;
}

/* A bitmap that was opened before its volume became larger knows the old size. */
static bool
bitmap_is_current(const struct nbd_bitmap *bitmap, const struct nbd_export *export)
{
	if (bitmap->sm.state == NBD_BITMAP_OPENING)
		return true;
	return bitmap->sm.state == NBD_BITMAP_OPEN &&
	    (export == NULL || export->sm.state != NBD_EXPORT_OPEN ||
		export->size_bytes == cleave_volume_info(bitmap->volume)->size_bytes);
}

static struct nbd_bitmap *
bitmap_find(struct nbd_server *server, const char *name, const struct nbd_export *export)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&server->bitmaps, link, next) {
		struct nbd_bitmap *bitmap = LIST_ENTRY(link, struct nbd_bitmap, link);

		if (strcmp(bitmap->name, name) == 0 && bitmap_is_current(bitmap, export))
			return bitmap;
	}
	return NULL;
}

static struct nbd_bitmap *
bitmap_create(struct nbd_server *server, const char *name)
{
	struct nbd_bitmap *bitmap = client_calloc(1, sizeof(*bitmap));

	CHECK_OBJ(server, SERVER_MAGIC);
	if (bitmap == NULL)
		return NULL;
	bitmap->magic = BITMAP_MAGIC;
	bitmap->server = server;
	(void)snprintf(bitmap->name, sizeof(bitmap->name), "%s", name); /* it fits */
	list_init(&bitmap->waiting);
	list_init(&bitmap->users);
	sm_init(&bitmap->sm, "bitmap", bitmap_table, NBD_BITMAP_OPENING, 0);
	loop_task_init(&bitmap->open_task, bitmap_on_open_task, bitmap);
	list_push_back(&server->bitmaps, &bitmap->link);
	loop_defer(server->options.loop, &bitmap->open_task);
	return bitmap;
}

int
nbd_bitmap_add(struct nbd_connection *connection, const char *export, const char *old,
    uint32_t old_bytes)
{
	struct nbd_server *server = connection->server;
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	struct nbd_bitmap_use *use;
	struct nbd_bitmap *bitmap;
	int rc = bitmap_name(name, export, old, old_bytes);

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->bitmap_count < NBD_BITMAPS_MAX);
	if (rc != 0)
		return rc;
	bitmap =
	    bitmap_find(server, name, nbd_export_find(server, export, (uint32_t)strlen(export)));
	if (bitmap == NULL)
		bitmap = bitmap_create(server, name);
	if (bitmap == NULL)
		return -ENOMEM;
	use = &connection->bitmaps[connection->bitmap_count++];
	*use = (struct nbd_bitmap_use){ .connection = connection, .bitmap = bitmap };
	list_push_back(bitmap->sm.state == NBD_BITMAP_OPENING ? &bitmap->waiting : &bitmap->users,
	    &use->link);
	return 0;
}

/* ---- users ---- */

bool
nbd_bitmap_is_waiting(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	for (uint32_t i = 0; i < connection->bitmap_count; i++) {
		if (connection->bitmaps[i].bitmap->sm.state == NBD_BITMAP_OPENING)
			return true;
	}
	return false;
}

/* There is no such snapshot, or nobody can tell what has changed since it. */
static bool
is_unknown(int rc)
{
	assert(rc < 0);
	return rc == -ENOENT || rc == -EINVAL || rc == -ENOTSUP;
}

int
nbd_bitmap_keep_open(struct nbd_connection *connection)
{
	uint32_t count = 0;
	int rc = 0;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(!nbd_bitmap_is_waiting(connection));
	for (uint32_t i = 0; i < connection->bitmap_count; i++) {
		struct nbd_bitmap_use *use = &connection->bitmaps[i], *place;
		struct nbd_bitmap *bitmap = use->bitmap;

		if (bitmap->sm.state == NBD_BITMAP_LOST) {
			if (!is_unknown(bitmap->rc))
				rc = bitmap->rc;
			use_drop(use);
			continue;
		}
		place = &connection->bitmaps[count++];
		if (place == use)
			continue;
		/* A member of a list cannot be moved: it is put there anew. */
		*place = (struct nbd_bitmap_use){ .connection = connection, .bitmap = bitmap };
		list_push_back(&bitmap->users, &place->link);
		list_remove(&use->link);
		use->bitmap = NULL;
	}
	connection->bitmap_count = count;
	if (rc != 0)
		nbd_bitmap_drop_all(connection);
	return rc;
}

const char *
nbd_bitmap_since(const struct nbd_bitmap *bitmap, uint32_t *ret_bytes)
{
	const char *since = strchr(bitmap->name, '@') + 1;

	CHECK_OBJ(bitmap, BITMAP_MAGIC);
	*ret_bytes = (uint32_t)strcspn(since, "@");
	return since;
}
