/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_export.c -- a volume as several connections see it
 *
 *	CLOSED <---------------- CLOSING
 *	  | first user             ^  last user has left
 *	  v                        |
 *	OPENING ---------------> OPEN
 *	  \-> CLOSED: refused, every waiter is told
 *
 * It is opened for reading when a client comes, which takes nothing from anybody, and for writing with the first
 * change (nbd_attach.c). A user that comes while it closes waits for that, then it opens again.
 * A user that comes to what is open gets the volume that has the name now, or nothing: where that is another one, or
 * none, it is refused, and those that were there go on (export_refuse).
 * Clients that a predecessor gave have a volume, not a name, which may be another volume's by now: it is opened for
 * reading first, and taken from the predecessor once its id is the one that they had. Where nobody has the name, it is
 * opened by that id, whatever it is called: for them alone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "library/retry.h"
#include "nbd.h"

static const struct sm_state export_table[NBD_EXPORT_STATE_NR] = {
	[NBD_EXPORT_CLOSED] = { "closed", SM_TO(NBD_EXPORT_OPENING), SM_INITIAL | SM_FINAL },
	[NBD_EXPORT_OPENING] = { "opening", SM_TO(NBD_EXPORT_OPEN) | SM_TO(NBD_EXPORT_CLOSED), 0 },
	[NBD_EXPORT_OPEN] = { "open", SM_TO(NBD_EXPORT_CLOSING), 0 },
	[NBD_EXPORT_CLOSING] = { "closing", SM_TO(NBD_EXPORT_CLOSED), 0 },
};

static void
export_tell(struct loop_link *waiters, int rc, const char *error)
{
	struct loop_link *link;

	assert(rc <= 0);
	while ((link = list_pop_front(waiters)) != NULL)
		nbd_connection_on_export(LIST_ENTRY(link, struct nbd_connection, wait_link), rc,
		    error);
}

static void
export_on_closed(void *arg)
{
	struct nbd_export *export = arg;

	CHECK_OBJ(export, EXPORT_MAGIC);
	export->volume = NULL;
	sm_move(&export->sm, NBD_EXPORT_CLOSED);
	log_info("export: closed name=%s", export->name);
	loop_defer(export->server->options.loop, &export->open_task);
	nbd_server_export_closed(export->server);
}

static void
export_close(struct nbd_export *export)
{
	assert(export->volume != NULL);
	export->is_writer = export->is_stalled = false;
	if (export->is_another)
		(void)nbd_export_set_problem(export, ""); /* the next open asks for the name */
	loop_timer_stop(export->server->options.loop, &export->reclaim_timer);
	sm_move(&export->sm, NBD_EXPORT_CLOSING);
	cleave_volume_close(export->volume, export_on_closed, export);
}

/* No client that a predecessor gave waits any more: who comes takes the volume from nobody. */
static void
export_forget_given(struct nbd_export *export)
{
	export->given_id = 0;
	export->must_take = false;
}

/* The volume is open to read: is it the one that the predecessor's clients have? Else they are cut off. */
static void
export_compare_given(struct nbd_export *export)
{
	uint64_t id = cleave_volume_info(export->volume)->id, given_id = export->given_id;
	struct loop_link *link, *next;

	assert(given_id != 0);
	export->given_id = 0;
	if (id == given_id) {
		if (!export->is_read_only && export->user_count > 0 &&
		    (export->must_take || export->server->options.attaches_at_once))
			nbd_attach_start(export);
		return;
	}
	export->must_take = false;
	log_error(
	    "export: not handed over name=%s: that is volume %llu now, the clients' is volume "
	    "%llu: they are cut off",
	    export->name, (unsigned long long)id, (unsigned long long)given_id);
	LIST_FOREACH_SAFE(&export->server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->export == export && connection->is_adopted)
			nbd_connection_break(connection, "its volume has another name now");
	}
}

/* Opened by its id, for those that a predecessor gave. Who came meanwhile wants the name: that is asked for anew. */
static void
export_tell_adopted(struct nbd_export *export)
{
	struct loop_link adopted, *link, *next;

	assert(export->sm.state == NBD_EXPORT_OPEN);
	list_init(&adopted);
	LIST_FOREACH_SAFE(&export->waiters, link, next) {
		if (!LIST_ENTRY(link, struct nbd_connection, wait_link)->is_adopted)
			continue;
		list_remove(link);
		list_push_back(&adopted, link);
	}
	export_tell(&adopted, 0, NULL);
	if (!list_is_empty(&export->waiters))
		loop_defer(export->server->options.loop, &export->open_task);
}

static void export_open(struct nbd_export *export);

static void
export_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct nbd_export *export = arg;

	CHECK_OBJ(export, EXPORT_MAGIC);
	assert((rc == 0) == (volume != NULL));
	if (rc == -ENOENT && export->given_id != 0 && !export->is_by_id) {
		log_debug("export: nobody has its name name=%s: by its id", export->name);
		export->is_by_id = true;
		export_open(export);
		return;
	}
	export->is_by_id = export->is_opening_writer = false;
	if (rc != 0) {
		log_warn("export: cannot be opened name=%s rc=%s text=\"%s\"", export->name,
		    log_errno(rc), error == NULL ? "" : error);
		(void)nbd_export_set_problem(export, error == NULL ? cleave_error_text(rc) : error);
		export_forget_given(export); /* those that had it go */
		sm_move(&export->sm, NBD_EXPORT_CLOSED);
		export_tell(&export->waiters, rc, error);
		loop_defer(export->server->options.loop, &export->open_task); /* who frees it? */
		nbd_server_export_closed(export->server);
		return;
	}
	export->volume = volume;
	export->is_lost = false;
	export->lost_text[0] = '\0';
	metric_add(&export->stats.opens, 1);
	(void)nbd_export_set_problem(export, "");
	export->size_bytes = cleave_volume_info(volume)->size_bytes;
	if (!cleave_volume_info(volume)->is_read_only)
		nbd_attach_on_writer(export);
	if (export->given_id != 0)
		export_compare_given(export);
	sm_move(&export->sm, NBD_EXPORT_OPEN);
	log_info("export: open name=%s size_bytes=%llu", export->name,
	    (unsigned long long)export->size_bytes);
	if (export->user_count == 0)
		export_close(export);
	else if (nbd_export_is_renamed(export))
		export_tell_adopted(export);
	else
		export_tell(&export->waiters, 0, NULL);
}

static void
export_open(struct nbd_export *export)
{
	const struct nbd_server_options *options = &export->server->options;
	bool writes = !export->is_read_only && export->given_id == 0 &&
	    (options->attaches_at_once || export->must_take);
	bool takes = options->takes || export->must_take;
	const struct cleave_open_options how = { .name = export->is_by_id ? NULL : export->name,
		.flags = !writes ? CLEAVE_OPEN_READ_ONLY
		    : takes      ? CLEAVE_OPEN_TAKE
				 : 0,
		.id = export->is_by_id ? export->given_id : export->wanted_id };
	int rc;

	assert(export->volume == NULL && export->sm.state == NBD_EXPORT_OPENING);
	export->is_opening_writer = writes;
	rc = cleave_volume_open_as(options->client, &how, export_on_open, export);
	if (rc != 0)
		export_on_open(NULL, rc, cleave_error_text(rc), export);
}

static void
export_begin(struct nbd_export *export)
{
	sm_move(&export->sm, NBD_EXPORT_OPENING);
	export_open(export);
}

/*
 * Somebody new wants what another session took, or what was deleted and perhaps made again. Those that
 * had it get no second volume below them unasked: they are cut off, and may come again.
 */
static void
export_cut_off(struct nbd_export *export)
{
	struct loop_link *link, *next;

	assert(export->is_lost);
	if (list_is_empty(&export->waiters))
		return;
	LIST_FOREACH_SAFE(&export->server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->export == export && !list_contains(&connection->wait_link))
			nbd_connection_break(connection, "its volume was lost");
	}
	export_close(export);
	loop_defer(export->server->options.loop, &export->resize_task);
}

/* Some client has what is open, and does not only ask for it. */
static bool
export_has_client(const struct nbd_export *export)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&export->server->connections, link, next) {
		const struct nbd_connection *connection =
		    LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->export == export && !list_contains(&connection->wait_link))
			return true;
	}
	return false;
}

/*
 * The name is another volume's by now than the one that is open here, or nobody's: those that ask for it mean what is
 * not here. @error: whose it is. Where all others have left while it was asked, the name is opened anew.
 */
static void
export_refuse(struct nbd_export *export, const char *error)
{
	char text[CLEAVE_ERROR_BYTES_MAX], which[64] = "an earlier snapshot";
	struct loop_link *link;

	assert(export->sm.state == NBD_EXPORT_OPEN);
	if (!export->is_attaching && !export_has_client(export)) {
		while ((link = list_pop_front(&export->asking)) != NULL)
			list_push_back(&export->waiters, link);
		export_close(export);
		return;
	}
	if (strchr(export->name, '@') == NULL)
		(void)snprintf(which, sizeof(which), "volume %llu",
		    (unsigned long long)cleave_volume_info(export->volume)->id);
	(void)snprintf(text, sizeof(text), "%s is open here until its clients have left: %.300s",
	    which, error);
	log_limited(LOG_WARN, "export: client refused name=%s: %s", export->name, text);
	(void)nbd_export_set_problem(export, text);
	export->is_another = true;
	export_tell(&export->asking, -ENOENT, text);
}

static void
export_on_size(int rc, const char *error, void *arg)
{
	struct nbd_export *export = arg;
	struct loop_link *link;

	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(export->is_asking);
	export->is_asking = false;
	if (rc != 0)
		log_debug("export: size not known name=%s text=\"%s\"", export->name, error);
	if (rc == -ESHUTDOWN)
		nbd_export_on_error(export, rc);
	/* Clients that asked are told when the export has been opened again. */
	while ((export->sm.state != NBD_EXPORT_OPEN || export->is_lost) &&
	    (link = list_pop_front(&export->asking)) != NULL)
		list_push_back(&export->waiters, link);
	if (export->sm.state != NBD_EXPORT_OPEN)
		return;
	if (rc == 0 && !export->is_shrinking)
		export->size_bytes = cleave_volume_info(export->volume)->size_bytes;
	if (rc == 0 && nbd_export_is_renamed(export)) {
		rc = -ENOENT;
		error = "it has another name";
	}
	if (rc == 0 && export->is_another)
		(void)nbd_export_set_problem(export, "");
	/* Other errors: the size that is known will do, and requests tell what is wrong. */
	if (rc == -ENOENT && !export->is_lost)
		export_refuse(export, error);
	else
		export_tell(&export->asking, 0, NULL);
	loop_defer(export->server->options.loop, &export->resize_task);
	loop_defer(export->server->options.loop, &export->open_task);
}

/*
 * Somebody comes to what is open: does it have the name still, and has its size been changed by another than us?
 * Who comes while that is being asked may know of a later change, and is asked for again.
 */
static void
export_refresh(struct nbd_export *export)
{
	struct loop_link *link;
	int rc;

	assert(export->volume != NULL);
	if (list_is_empty(&export->waiters) || export->is_asking)
		return;
	rc = cleave_volume_refresh(export->volume, export_on_size, export);
	if (rc == -EBUSY)
		return; /* it is being resized, and whoever does that comes here again */
	if (rc != 0)
		nbd_export_on_error(export, rc);
	if (export->is_lost) {
		loop_defer(export->server->options.loop, &export->open_task);
		return;
	}
	export->is_asking = true;
	while ((link = list_pop_front(&export->waiters)) != NULL)
		list_push_back(&export->asking, link);
	if (rc != 0)
		export_on_size(rc, cleave_error_text(rc), export);
}

static void
export_on_resize_task(struct loop_task *task, void *arg)
{
	struct nbd_export *export = arg;

	(void)task;
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(task == &export->resize_task);
	nbd_resize_run(export);
}

/* In a turn of its own, so that a user is never told inside nbd_export_use. */
static void
export_on_open_task(struct loop_task *task, void *arg)
{
	struct nbd_export *export = arg;

	(void)task;
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(task == &export->open_task);
	if (export->sm.state == NBD_EXPORT_OPEN && export->user_count == 0 &&
	    export->volume != NULL && !export->is_attaching)
		export_close(export);
	else if (export->sm.state == NBD_EXPORT_OPEN && nbd_attach_is_reclaiming(export))
		export_tell(&export->waiters, 0, NULL); /* it shares what the others get */
	else if (export->sm.state == NBD_EXPORT_OPEN && export->is_lost)
		export_cut_off(export);
	else if (export->sm.state == NBD_EXPORT_OPEN)
		export_refresh(export);
	else if (export->sm.state == NBD_EXPORT_CLOSED && export->user_count > 0)
		export_begin(export);
	else if (export->sm.state == NBD_EXPORT_CLOSED && export->is_on_demand &&
	    !export->is_attaching)
		nbd_export_free(export);
}

void
nbd_export_use(struct nbd_export *export, struct nbd_connection *connection)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(!list_contains(&connection->wait_link));
	if (connection->export != export) {
		assert(connection->export == NULL);
		connection->export = export;
		export->user_count++;
	}
	list_push_back(&export->waiters, &connection->wait_link);
	loop_defer(export->server->options.loop, &export->open_task);
}

void
nbd_export_leave(struct nbd_export *export, struct nbd_connection *connection)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(export->user_count > 0);
	assert(connection->export == export);
	if (list_contains(&connection->wait_link))
		list_remove(&connection->wait_link);
	connection->export = NULL;
	export->user_count--;
	if (export->user_count > 0)
		return;
	export_forget_given(export);
	if (export->sm.state == NBD_EXPORT_OPEN && export->volume != NULL && !export->is_attaching)
		export_close(export);
	else if (export->sm.state == NBD_EXPORT_CLOSED)
		loop_defer(export->server->options.loop, &export->open_task);
}

void
nbd_export_on_error(struct nbd_export *export, int rc)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(rc <= 0);
	if (!retry_is_fatal(rc))
		return;
	if (export->is_lost || export->sm.state != NBD_EXPORT_OPEN)
		return;
	export->is_lost = true;
	(void)snprintf(export->lost_text, sizeof(export->lost_text), "volume '%s': %s",
	    export->name,
	    cleave_error_text(rc)); /* who took it from a writer is told later: nbd_attach.c */
	metric_add(&export->stats.losses, 1);
	nbd_attach_on_lost(export, rc);
	log_warn("export: lost name=%s rc=%s text=\"%s\"", export->name, log_errno(rc),
	    cleave_error_text(rc));
}

bool
nbd_export_is_renamed(const struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	return export->volume != NULL &&
	    strcmp(cleave_volume_info(export->volume)->name, export->name) != 0;
}

struct nbd_export *
nbd_export_by_name(struct nbd_server *server, const char *name)
{
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (strcmp(export->name, name) == 0)
			return export;
	}
	return NULL;
}

bool
nbd_export_set_problem(struct nbd_export *export, const char *text)
{
	char before[sizeof(export->problem)];

	CHECK_OBJ(export, EXPORT_MAGIC);
	memcpy(before, export->problem, sizeof(before));
	export->is_another = false;
	(void)snprintf(export->problem, sizeof(export->problem), "%s", text);
	return strcmp(before, export->problem) != 0;
}

struct nbd_export *
nbd_export_add(struct nbd_server *server, const char *name, bool is_read_only)
{
	struct nbd_export *export;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(server->export_count <= NBD_EXPORTS_MAX);
	if (*name == '\0' || strlen(name) > CLEAVE_NAME_BYTES_MAX) {
		errno = EINVAL;
		return NULL;
	}
	if (server->export_count == NBD_EXPORTS_MAX) {
		errno = ENOSPC;
		return NULL;
	}
	export = client_calloc(1, sizeof(*export));
	if (export == NULL)
		return NULL;
	export->magic = EXPORT_MAGIC;
	export->server = server;
	export->is_read_only = is_read_only || strchr(name, '@') != NULL;
	memcpy(export->name, name, strlen(name) + 1);
	list_init(&export->waiters);
	list_init(&export->active);
	list_init(&export->waiting);
	list_init(&export->ready);
	list_init(&export->asking);
	list_init(&export->resizes);
	loop_task_init(&export->resize_task, export_on_resize_task, export);
	loop_task_init(&export->open_task, export_on_open_task, export);
	nbd_attach_init(export);
	sm_init(&export->sm, "export", export_table, NBD_EXPORT_CLOSED, server->export_count);
	list_push_back(&server->exports, &export->link);
	server->export_count++;
	return export;
}

struct nbd_export *
nbd_export_find(struct nbd_server *server, const char *name, uint32_t name_bytes)
{
	char text[CLEAVE_NAME_BYTES_MAX + 1];
	struct nbd_export *export;
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(name != NULL || name_bytes == 0);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		export = LIST_ENTRY(link, struct nbd_export, link);

		/* Exports made on demand come and go with their client; a detached one is going. */
		if (export->is_on_demand && (name_bytes == 0 || !server->options.allows_any))
			continue;
		if (name_bytes == 0 ||
		    (strlen(export->name) == name_bytes &&
			memcmp(export->name, name, name_bytes) == 0))
			return export;
	}
	if (!server->options.allows_any || name_bytes == 0 || name_bytes >= sizeof(text))
		return NULL;
	memcpy(text, name, name_bytes);
	text[name_bytes] = '\0';
	if (strlen(text) != name_bytes)
		return NULL; /* a NUL in it */
	export = nbd_export_add(server, text, server->options.is_read_only);
	if (export == NULL)
		return NULL;
	export->is_on_demand = true;
	loop_defer(server->options.loop, &export->open_task); /* to free it, if it was only named */
	return export;
}

void
nbd_export_free(struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(export->user_count == 0 && export->edged_count == 0);
	loop_task_cancel(export->server->options.loop, &export->open_task);
	loop_task_cancel(export->server->options.loop, &export->resize_task);
	nbd_attach_fini(export);
	nbd_metrics_retire(export);
	list_remove(&export->link);
	export->server->export_count--;
	export->magic = 0;
	free(export);
}
