/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_attach.c -- an export's writing session: got with the first change, lost to others, and got back
 *
 *	          first change           opened
 *	reading --------------> attaching -------> writing ---> lost: another session took the volume
 *	   ^-----------------------'                  ^------------'
 *	          refused: the changes fail               --reclaim: once that one has left
 *
 * An export reads through a read-only session, which takes nothing from anybody, until a client changes
 * something. Changes that come wait in export->unattached until the volume is open for writing, too; from then on
 * everything goes there, and the reading session is closed when what it has has ended. So who asks for
 * a size, or reads, disturbs nobody, and a disk may be open on two hosts, as in a live migration: the one that
 * changes it has it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "nbd.h"

#define ATTACH_RECLAIM_NS NUM_S(1)

bool
nbd_attach_is_due(const struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	return !export->is_writer && !export->is_read_only && !export->is_lost &&
	    export->sm.state == NBD_EXPORT_OPEN;
}

void
nbd_attach_start(struct nbd_export *export)
{
	assert(!export->is_read_only);
	if (!export->is_attaching)
		loop_defer(export->server->options.loop, &export->attach_task);
	export->is_attaching = true;
}

/* Requests that waited for the attach end with @rc, in the order in which they came. */
static void
attach_fail(struct nbd_export *export, int rc)
{
	struct loop_link waiting, *link;

	assert(rc < 0);
	list_init(&waiting);
	while ((link = list_pop_front(&export->unattached)) != NULL)
		list_push_back(&waiting, link);
	while ((link = list_pop_front(&waiting)) != NULL)
		nbd_request_end(LIST_ENTRY(link, struct nbd_request, wait_link), rc);
	nbd_resize_fail(export, rc);
}

static void
attach_on_refused(struct nbd_export *export, int rc, const char *error)
{
	assert(rc < 0 && error != NULL);
	if (export->is_lost) {
		log_debug("export: not got back yet name=%s text=\"%s\"", export->name, error);
		if (rc == -EBUSY || rc == -ETIMEDOUT || rc == -ECONNREFUSED)
			loop_timer_start(export->server->options.loop, &export->reclaim_timer,
			    ATTACH_RECLAIM_NS);
	} else {
		if (!export->is_another) /* that says more */
			(void)nbd_export_set_problem(export, error);
		log_limited(LOG_WARN, "export: cannot be written name=%s rc=%s: %s%s", export->name,
		    log_errno(rc), error, rc == -EBUSY ? "; --when-held take takes it" : "");
	}
	/* The name is another volume's: what is open for reading goes on, and is not lost. */
	if (rc == -ENOENT && !export->is_lost)
		rc = -EIO;
	/* Nor is it where the key may not write it, or somebody else does. */
	attach_fail(export, rc == -EBUSY || rc == -ENOKEY ? -EPERM : rc);
}

static void
attach_on_lost(struct cleave_volume *volume, int rc, const char *text, void *arg)
{
	struct nbd_export *export = arg;

	CHECK_OBJ(export, EXPORT_MAGIC);
	if (volume != export->volume)
		return;
	nbd_export_on_error(export, rc);
	(void)snprintf(export->lost_text, sizeof(export->lost_text), "%s", text);
	log_warn("export: lost, its clients get errors%s name=%s: %s",
	    nbd_attach_is_reclaiming(export) ? " until it is got back" : "", export->name, text);
}

void
nbd_attach_on_lost(struct nbd_export *export, int rc)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(rc < 0 && export->is_lost);
	if (export->server->options.reclaims && export->is_writer && rc == -ESHUTDOWN)
		loop_timer_start(export->server->options.loop, &export->reclaim_timer,
		    ATTACH_RECLAIM_NS);
}

bool
nbd_attach_is_reclaiming(const struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	return export->is_lost && (export->reclaim_timer.is_active || export->is_attaching);
}

void
nbd_attach_on_writer(struct nbd_export *export)
{
	assert(export->volume != NULL && !export->is_read_only);
	export->is_writer = true;
	export->must_take = false;
	export->lost_text[0] = '\0';
	cleave_volume_on_lost(export->volume, attach_on_lost, export);
}

/* @volume instead of the one that reads, or that was lost. */
static void
attach_switch(struct nbd_export *export, struct cleave_volume *volume)
{
	struct cleave_volume *old = export->volume;
	struct loop_link *link;

	assert(old != NULL && old != volume);
	log_info("export: %s name=%s", export->is_lost ? "got back" : "writing", export->name);
	export->volume = volume;
	export->is_lost = export->is_stalled = false;
	metric_add(&export->stats.opens, 1);
	(void)nbd_export_set_problem(export, "");
	export->size_bytes = cleave_volume_info(volume)->size_bytes;
	nbd_attach_on_writer(export);
	cleave_volume_close(old, NULL, NULL); /* what it has is answered first */
	while ((link = list_pop_front(&export->unattached)) != NULL)
		list_push_back(&export->ready, link);
	loop_defer(export->server->options.loop, &export->resize_task);
	nbd_request_retry(export);
}

static void
attach_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct nbd_export *export = arg;
	struct loop *loop;

	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(export->is_attaching && (rc == 0) == (volume != NULL));
	loop = export->server->options.loop;
	export->is_attaching = false;
	export->must_take = false; /* also when it failed: later another one has the volume */
	if (rc == 0 &&
	    (export->sm.state != NBD_EXPORT_OPEN ||
		cleave_volume_info(volume)->id != cleave_volume_info(export->volume)->id)) {
		/* The export's clients have gone meanwhile, or this is another volume of the same name. */
		rc = export->sm.state == NBD_EXPORT_OPEN ? -ENOENT : -ESHUTDOWN;
		error = cleave_error_text(rc);
		cleave_volume_close(volume, NULL, NULL);
	}
	loop_defer(loop, &export->open_task);
	nbd_server_export_closed(export->server); /* it may be stopping, and have waited for this */
	if (rc != 0)
		attach_on_refused(export, rc, error == NULL ? cleave_error_text(rc) : error);
	else
		attach_switch(export, volume);
}

static void
attach_on_task(struct loop_task *task, void *arg)
{
	struct nbd_export *export = arg;
	bool takes = (export->server->options.takes || export->must_take) && !export->is_lost;
	/* The name may be another volume's by now, which has nothing of what our clients have read. */
	const struct cleave_open_options how = { .name = nbd_export_is_renamed(export)
		    ? NULL
		    : export->name,
		.flags = takes ? CLEAVE_OPEN_TAKE : 0,
		.id = export->volume == NULL ? export->wanted_id
					     : cleave_volume_info(export->volume)->id };
	int rc;

	(void)task;
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(task == &export->attach_task && export->is_attaching);
	rc = cleave_volume_open_as(export->server->options.client, &how, attach_on_open, export);
	if (rc != 0)
		attach_on_open(NULL, rc, cleave_error_text(rc), export);
}

static void
attach_on_reclaim_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_export *export = arg;

	(void)timer;
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(timer == &export->reclaim_timer);
	if (export->sm.state == NBD_EXPORT_OPEN && export->is_lost && export->user_count > 0)
		nbd_attach_start(export);
}

void
nbd_attach_init(struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	list_init(&export->unattached);
	loop_task_init(&export->attach_task, attach_on_task, export);
	loop_timer_init(&export->reclaim_timer, attach_on_reclaim_timer, export);
}

void
nbd_attach_fini(struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	assert(list_is_empty(&export->unattached));
	loop_task_cancel(export->server->options.loop, &export->attach_task);
	loop_timer_stop(export->server->options.loop, &export->reclaim_timer);
}
