/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_resize.c -- NBD_CMD_RESIZE: the export's volume gets another size
 *
 * The new size is in the request's offset, which has 64 bits; its length is 0. One at a time of an
 * export; the next waits in export->resizes.
 *
 *	grow:   ask the gateway -> every connection may use what is new
 *	shrink: nothing new begins behind the new end -> changes that did have ended -> what is there is
 *	        discarded, so that it is not back when the volume grows again -> ask the gateway
 *
 * When the last step fails the export has its old size again, with zeros where the end was.
 */
#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "nbd.h"

static void
resize_end(struct nbd_export *export, struct nbd_request *request, int rc)
{
	assert(rc <= 0);
	export->is_shrinking = export->is_resize_ready = false;
	if (rc == -ENOENT)
		rc = -EIO; /* of that name: the volume was renamed, and is not lost */
	if (rc == -ENOKEY)
		rc = -EPERM; /* the right that lacks is another one than that to write */
	if (export->volume != NULL)
		export->size_bytes = cleave_volume_info(export->volume)->size_bytes;
	if (rc == 0)
		log_info("export: resized name=%s size_bytes=%llu", export->name,
		    (unsigned long long)export->size_bytes);
	else
		log_warn("export: not resized name=%s wanted_bytes=%llu rc=%s", export->name,
		    (unsigned long long)request->head.offset_bytes, log_errno(rc));
	/* Clients that came meanwhile are told the new size. */
	loop_defer(export->server->options.loop, &export->open_task);
	loop_defer(export->server->options.loop, &export->resize_task);
	nbd_request_end(request, rc);
}

static void
resize_on_size(int rc, const char *error, void *arg)
{
	struct nbd_request *request = arg;

	CHECK_OBJ(request, REQUEST_MAGIC);
	if (rc != 0)
		log_debug("export: resize name=%s text=\"%s\"", request->export->name, error);
	resize_end(request->export, request, rc);
}

static void
resize_ask(struct nbd_request *request)
{
	struct nbd_export *export = request->export;
	int rc = cleave_volume_resize(export->volume, request->head.offset_bytes,
	    export->is_shrinking, resize_on_size, request);

	assert(export->volume != NULL && !export->is_resize_ready);
	/* Somebody new is being told the size: when that is over, the task runs again. */
	if (rc == -EBUSY)
		export->is_resize_ready = true;
	else if (rc != 0)
		resize_end(export, request, rc);
}

static void
resize_on_discard(struct cleave_io *io, int rc, void *arg)
{
	struct nbd_request *request = arg;

	(void)io;
	assert(io == &request->ios[0]);
	if (rc != 0)
		resize_end(request->export, request, rc);
	else
		resize_ask(request);
}

/* Does a change that began before go behind the new end? */
static bool
is_in_use_behind(const struct nbd_export *export, uint64_t end_bytes)
{
	struct loop_link *link, *next, *at, *after;

	LIST_FOREACH_SAFE(&export->server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->export != export)
			continue;
		LIST_FOREACH_SAFE(&connection->requests, at, after) {
			const struct nbd_request *request =
			    LIST_ENTRY(at, struct nbd_request, link);

			if (request->end_bytes > end_bytes &&
			    request->sm.state != NBD_REQUEST_REPLYING)
				return true;
		}
	}
	return false;
}

static void
resize_shrink(struct nbd_request *request)
{
	struct nbd_export *export = request->export;
	uint64_t size_bytes = cleave_volume_info(export->volume)->size_bytes;
	int rc;

	assert(request->head.offset_bytes < size_bytes);
	export->is_shrinking = true;
	export->size_bytes = request->head.offset_bytes;
	if (is_in_use_behind(export, request->head.offset_bytes))
		return; /* again when one of these has ended */
	request->ios[0] = (struct cleave_io){ .op = CLEAVE_DISCARD,
		.offset_bytes = request->head.offset_bytes,
		.length_bytes = size_bytes - request->head.offset_bytes,
		.fn = resize_on_discard,
		.arg = request };
	rc = cleave_submit(export->volume, &request->ios[0]);
	if (rc == -ENOBUFS)
		return;
	sm_move(&request->sm, NBD_REQUEST_RUNNING);
	if (rc != 0)
		resize_end(export, request, rc);
}

void
nbd_resize_fail(struct nbd_export *export, int rc)
{
	struct loop_link *link = list_first(&export->resizes);
	struct nbd_request *request;

	assert(rc < 0);
	if (link == NULL || export->is_shrinking || export->is_resize_ready)
		return;
	request = LIST_ENTRY(link, struct nbd_request, lock_link);
	if (request->sm.state != NBD_REQUEST_WAITING)
		return;
	/* The next one, if there is any, tries again. */
	sm_move(&request->sm, NBD_REQUEST_RUNNING);
	resize_end(export, request, rc);
}

void
nbd_resize_run(struct nbd_export *export)
{
	struct loop_link *link = list_first(&export->resizes);
	struct nbd_request *request;
	uint64_t size_bytes;

	CHECK_OBJ(export, EXPORT_MAGIC);
	if (link == NULL)
		return;
	request = LIST_ENTRY(link, struct nbd_request, lock_link);
	if (request->sm.state != NBD_REQUEST_WAITING && !export->is_resize_ready)
		return;
	if (export->sm.state != NBD_EXPORT_OPEN || export->is_lost) {
		if (request->sm.state == NBD_REQUEST_WAITING)
			sm_move(&request->sm, NBD_REQUEST_RUNNING);
		resize_end(export, request, -ESHUTDOWN);
		return;
	}
	if (nbd_attach_is_due(export)) {
		nbd_attach_start(export); /* it comes here again, or to nbd_resize_fail */
		return;
	}
	if (export->is_asking)
		return; /* one at a time */
	if (export->is_resize_ready) {
		export->is_resize_ready = false;
		resize_ask(request);
		return;
	}
	size_bytes = cleave_volume_info(export->volume)->size_bytes;
	if (request->head.offset_bytes < size_bytes &&
	    export->server->options.resize != NBD_RESIZE_ANY) {
		sm_move(&request->sm, NBD_REQUEST_RUNNING);
		resize_end(export, request, -EPERM);
	} else if (request->head.offset_bytes < size_bytes) {
		resize_shrink(request);
	} else {
		sm_move(&request->sm, NBD_REQUEST_RUNNING);
		resize_ask(request);
	}
}

void
nbd_resize_start(struct nbd_request *request)
{
	assert(request->head.type == NBD_CMD_RESIZE);
	list_push_back(&request->export->resizes, &request->lock_link);
	loop_defer(request->export->server->options.loop, &request->export->resize_task);
}

bool
nbd_resize_is_offered(const struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	return !export->is_read_only && export->server->options.resize != NBD_RESIZE_NONE;
}

int
nbd_resize_check(const struct nbd_export *export, const struct nbd_request_head *head)
{
	assert(head->type == NBD_CMD_RESIZE);
	if (export->is_read_only)
		return -EPERM;
	if (!nbd_resize_is_offered(export) || head->length_bytes != 0 || head->offset_bytes == 0 ||
	    !num_is_aligned(head->offset_bytes, CLEAVE_BLOCK_BYTES))
		return -EINVAL;
	return head->offset_bytes > CLEAVE_VOLUME_BYTES_MAX ? -ENOSPC : 0;
}
