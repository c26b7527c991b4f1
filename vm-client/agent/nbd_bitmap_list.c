/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_bitmap_list.c -- which bitmaps an export has: one for each snapshot of its volume, or, of a snapshot, each earlier one
 *
 * A gateway is asked page by page, by rising number. The newest NBD_BITMAPS_LISTED_MAX are kept: a client may ask for
 * an older one by its name all the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/manage.h"
#include "nbd_bitmap.h"

#define LISTING_MAGIC 0x4c42424eu /* "NBBL" */
#define LISTING_NAME_BYTES (CLEAVE_VOLUME_NAME_BYTES_MAX + 1)

struct nbd_listing {
	uint32_t magic;
	struct loop_link link; /* server->listings */
	struct nbd_server *server;
	struct nbd_connection *connection; /* NULL: gone */
	struct cleave_ask ask;
	char volume[LISTING_NAME_BYTES];
	char until[LISTING_NAME_BYTES]; /* the export's own snapshot: those before it; "" all */
	bool has_all;
	char wanted[NBD_BITMAPS_MAX][LISTING_NAME_BYTES];
	uint32_t wanted_count;
	uint64_t after; /* the last number that was told of */
	bool is_over;
	uint64_t name_count; /* that were found; the last ones are in names */
	char names[NBD_BITMAPS_LISTED_MAX][LISTING_NAME_BYTES];
};

static int listing_ask(struct nbd_listing *listing);

static void
listing_free(struct nbd_listing *listing)
{
	CHECK_OBJ(listing, LISTING_MAGIC);
	if (listing->connection != NULL)
		listing->connection->listing = NULL;
	list_remove(&listing->link);
	listing->magic = 0;
	free(listing);
}

static bool
listing_wants(const struct nbd_listing *listing, const char *name)
{
	CHECK_OBJ(listing, LISTING_MAGIC);
	for (uint32_t i = 0; i < listing->wanted_count; i++) {
		if (strcmp(listing->wanted[i], name) == 0)
			return true;
	}
	return listing->has_all;
}

static void
listing_take(struct nbd_listing *listing, const struct cleave_snapshot *snapshot)
{
	const char *at = strchr(snapshot->name, '@');

	assert(at != NULL);
	listing->after = snapshot->number;
	if (strcmp(at + 1, listing->until) == 0)
		listing->is_over = true;
	if (listing->is_over || !listing_wants(listing, at + 1))
		return;
	(void)snprintf(listing->names[listing->name_count % NBD_BITMAPS_LISTED_MAX],
	    LISTING_NAME_BYTES, "%s", at + 1);
	listing->name_count++;
}

/* All is known, or nothing (@rc). */
static void
listing_finish(struct nbd_listing *listing, int rc, const char *error)
{
	struct nbd_connection *connection = listing->connection;
	uint64_t count = listing->name_count, first = 0;
	const char *names[NBD_BITMAPS_LISTED_MAX];
	char text[CLEAVE_ERROR_BYTES_MAX];

	CHECK_OBJ(listing, LISTING_MAGIC);
	(void)snprintf(text, sizeof(text), "%s", error == NULL ? "" : error);
	if (count > NBD_BITMAPS_LISTED_MAX) {
		log_limited(LOG_INFO, "bitmap: the newest %u of %llu are listed volume=%s",
		    NBD_BITMAPS_LISTED_MAX, (unsigned long long)count, listing->volume);
		first = count - NBD_BITMAPS_LISTED_MAX;
	}
	for (uint64_t i = first; i < count; i++)
		names[i - first] = listing->names[i % NBD_BITMAPS_LISTED_MAX];
	if (connection == NULL || connection->sm.state != NBD_CONNECTION_OPENING) {
		listing_free(listing);
		return;
	}
	rc = nbd_option_on_list(connection, rc, text, names, (uint32_t)(count - first));
	listing_free(listing);
	nbd_connection_on_option(connection, rc);
}

static void
listing_on_page(struct cleave_ask *ask, int rc, const struct cleave_snapshot_page *page,
    const char *error, void *arg)
{
	struct nbd_listing *listing = arg;

	CHECK_OBJ(listing, LISTING_MAGIC);
	assert(ask == &listing->ask);
	for (uint32_t i = 0; rc == 0 && i < page->snapshot_count; i++)
		listing_take(listing, &page->snapshots[i]);
	if (rc == 0 && page->is_more && page->snapshot_count > 0 && !listing->is_over &&
	    listing->connection != NULL) {
		rc = listing_ask(listing);
		if (rc == 0)
			return;
		error = cleave_error_text(rc);
	}
	listing_finish(listing, rc, error);
}

static int
listing_ask(struct nbd_listing *listing)
{
	CHECK_OBJ(listing, LISTING_MAGIC);
	return cleave_snapshot_list(listing->server->options.client, &listing->ask, listing->volume,
	    listing->after, listing_on_page, listing);
}

/* Names that are too long for a snapshot's are of none. */
static void
listing_want(struct nbd_listing *listing, const struct nbd_meta_request *request)
{
	assert(request->bitmap_count <= NBD_BITMAPS_MAX);
	listing->has_all = request->has_all_bitmaps;
	for (uint32_t i = 0; i < request->bitmap_count; i++) {
		const struct nbd_meta_bitmap *bitmap = &request->bitmaps[i];

		if (bitmap->name_bytes < LISTING_NAME_BYTES)
			memcpy(listing->wanted[listing->wanted_count++], bitmap->name,
			    bitmap->name_bytes);
	}
}

int
nbd_bitmap_list(struct nbd_connection *connection, const char *export,
    const struct nbd_meta_request *request)
{
	struct nbd_listing *listing = client_calloc(1, sizeof(*listing));
	size_t volume_bytes = strcspn(export, "@");
	int rc;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->listing == NULL);
	if (listing == NULL)
		return -ENOMEM;
	listing->magic = LISTING_MAGIC;
	listing->server = connection->server;
	(void)snprintf(listing->volume, sizeof(listing->volume), "%.*s", (int)volume_bytes, export);
	if (export[volume_bytes] == '@')
		(void)snprintf(listing->until, sizeof(listing->until), "%s",
		    export + volume_bytes + 1);
	listing_want(listing, request);
	list_push_back(&connection->server->listings, &listing->link);
	rc = listing_ask(listing);
	if (rc != 0) {
		listing_free(listing);
		return rc;
	}
	listing->connection = connection;
	connection->listing = listing;
	return 0;
}

void
nbd_bitmap_list_cancel(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->listing != NULL)
		connection->listing->connection = NULL;
	connection->listing = NULL;
}

void
nbd_bitmap_list_fini_all(struct nbd_server *server)
{
	struct loop_link *link;

	CHECK_OBJ(server, SERVER_MAGIC);
	while ((link = list_first(&server->listings)) != NULL)
		listing_free(LIST_ENTRY(link, struct nbd_listing, link));
}

uint64_t
nbd_bitmap_list_bytes(void)
{
	/* The text's memory doubles as it grows. */
	return sizeof(struct nbd_listing) +
	    UINT64_C(2) * NBD_BITMAPS_LISTED_MAX *
	    (NBD_OPTION_REPLY_BYTES + 4 + sizeof(NBD_CONTEXT_BITMAP) + LISTING_NAME_BYTES);
}
