/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_bitmap.h -- dirty bitmaps: what has changed in an export since a snapshot, as others' tools ask for it
 *
 *	export VOLUME            qemu:dirty-bitmap:OLD    what has changed since VOLUME@OLD, as it is when it is asked for
 *	export VOLUME@NEW        qemu:dirty-bitmap:OLD    what has changed between VOLUME@OLD and VOLUME@NEW
 *
 * A *bitmap* is a reading session of that difference (VOLUME@OLD@, VOLUME@OLD@NEW), shared by the connections that agreed
 * upon the context: a hole of it has not changed. A *use* is a connection's place for one.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_BITMAP_H
#define CLEAVE_VM_CLIENT_NBD_BITMAP_H

#include "nbd.h"

#define BITMAP_MAGIC 0x5042424eu /* "NBBP" */

enum nbd_bitmap_state {
	NBD_BITMAP_OPENING,
	NBD_BITMAP_OPEN,
	NBD_BITMAP_LOST, /* it could not be opened, or an end of the difference is gone */
	NBD_BITMAP_STATE_NR
};

struct nbd_bitmap {
	uint32_t magic;
	struct loop_link link; /* server->bitmaps */
	struct nbd_server *server;
	char name[CLEAVE_NAME_BYTES_MAX + 1]; /* of the difference */
	struct sm sm;
	struct cleave_volume *volume;    /* NULL: OPENING, or it could not be opened */
	int rc;                          /* why it could not */
	struct loop_link waiting, users; /* uses: to be told that it is open; and those that were */
	struct loop_task open_task;
	bool is_telling; /* those that waited: it is not freed under that */
};

/*
 * nbd_bitmap_add -- one more context of @connection, the last in connection->bitmaps: what has changed since @old
 *
 * @export: its name. The bitmap may be open at once; else nbd_connection_on_export comes when it is, or is LOST.
 * Returns 0; -ENOENT nothing can have that name; -ENOMEM. @connection has room for it.
 */
int nbd_bitmap_add(struct nbd_connection *connection, const char *export, const char *old,
    uint32_t old_bytes);
/* nbd_bitmap_is_waiting -- one of @connection's bitmaps is not open yet. */
bool nbd_bitmap_is_waiting(const struct nbd_connection *connection);
/*
 * nbd_bitmap_keep_open -- forget those of @connection that could not be opened
 *
 * Returns 0: there are none of these any more, for nothing is named so; else a negative errno: a gateway could not
 * be asked.
 */
int nbd_bitmap_keep_open(struct nbd_connection *connection);
/* nbd_bitmap_since -- the name of the earlier snapshot; not terminated. */
const char *nbd_bitmap_since(const struct nbd_bitmap *bitmap, uint32_t *ret_bytes);
/* nbd_bitmap_drop_all -- @connection has no bitmaps. */
void nbd_bitmap_drop_all(struct nbd_connection *connection);
/* nbd_bitmap_lose -- it says nothing any more, for @rc: its clients' questions fail. */
void nbd_bitmap_lose(struct nbd_bitmap *bitmap, int rc);
/* nbd_bitmap_fini_all -- the client is gone, with all sessions, and so are all connections. */
void nbd_bitmap_fini_all(struct nbd_server *server);

/* ---- nbd_bitmap_list.c: which there are ---- */
#define NBD_BITMAPS_LISTED_MAX 1024u /* the newest of them */
/*
 * nbd_bitmap_list -- ask a gateway for the snapshots of the volume of @export, a name
 *
 * nbd_option_on_list tells @connection, unless it is gone by then. Returns 0; -ENOMEM, -ENOBUFS: it is not told.
 */
int nbd_bitmap_list(struct nbd_connection *connection, const char *export,
    const struct nbd_meta_request *request);
/* nbd_bitmap_list_cancel -- @connection goes, and is not told. */
void nbd_bitmap_list_cancel(struct nbd_connection *connection);
/* nbd_bitmap_list_fini_all -- the client is gone, with all calls. */
void nbd_bitmap_list_fini_all(struct nbd_server *server);
/* nbd_bitmap_list_bytes -- the memory that an answer takes. */
uint64_t nbd_bitmap_list_bytes(void);

/* ---- nbd_status.c: NBD_CMD_BLOCK_STATUS, which asks about each context ---- */
/* nbd_status_contexts -- how many contexts @connection has agreed upon. */
uint32_t nbd_status_contexts(const struct nbd_connection *connection);
/* nbd_status_bytes -- the memory for an answer. */
uint64_t nbd_status_bytes(const struct nbd_connection *connection);
/* nbd_status_plan -- @request->ios: one for each context; @fn is told of its end, with @request. */
void nbd_status_plan(struct nbd_request *request, cleave_io_fn fn);
/*
 * nbd_status_submit -- start one of those
 *
 * Returns as cleave_submit does; 1: nothing needs to be asked, and its extents are there.
 */
int nbd_status_submit(struct nbd_request *request, struct cleave_io *io);
/* nbd_status_error -- what the request ends with when @io has ended with @rc: a bitmap's error says nothing of its export. */
int nbd_status_error(struct nbd_request *request, const struct cleave_io *io, int rc);
/* nbd_status_reply -- @request's reply, of the extents of each context. */
void nbd_status_reply(struct nbd_request *request);

#endif /* CLEAVE_VM_CLIENT_NBD_BITMAP_H */
