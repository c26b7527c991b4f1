/* SPDX-License-Identifier: Apache-2.0 */
/* observer.c -- see observer.h */
#include "observer.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

static void
observer_ask(struct observer *observer, const char *op, cleave_call_fn fn)
{
	char request[128];

	(void)snprintf(request, sizeof(request), "{\"op\":\"%s\",\"name\":\"%s\"}", op,
	    observer->name);
	observer->call = (struct cleave_call){ .must_not_repeat = true, .fn = fn, .arg = observer };
	if (cleave_control(observer->client, &observer->call, request) != 0)
		observer->is_busy = false;
}

static void
on_deleted(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct observer *observer = arg;

	(void)call;
	(void)reply;
	(void)error;
	sim_world_trace(observer->cluster->world, "%s deleted rc=%d", observer->name, rc);
	observer->is_busy = false;
}

static void
on_closed(void *arg)
{
	observer_ask(arg, "snapshot.delete", on_deleted);
}

static void
on_read(struct cleave_io *io, int rc, void *arg)
{
	struct observer *observer = arg;

	(void)io;
	sim_world_trace(observer->cluster->world, "%s read number=%u rc=%d", observer->name,
	    observer->number, rc);
	if (rc == 0)
		history_read(observer->history, observer->number, observer->data, observer->floors);
	cleave_volume_close(observer->volume, on_closed, observer);
}

static void
on_opened(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct observer *observer = arg;
	const struct history_op *op = history_op(observer->history, observer->number);

	(void)error;
	if (rc != 0) {
		on_closed(observer);
		return;
	}
	observer->volume = volume;
	observer->io = (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = observer->offset_bytes,
		.length_bytes = (uint64_t)op->block_count * CLEAVE_BLOCK_BYTES,
		.data = observer->data,
		.fn = on_read,
		.arg = observer };
	if (cleave_submit(volume, &observer->io) != 0)
		cleave_volume_close(volume, on_closed, observer);
}

static void
on_taken(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct observer *observer = arg;

	(void)call;
	(void)reply;
	(void)error;
	sim_world_trace(observer->cluster->world, "%s taken rc=%d", observer->name, rc);
	if (rc != 0 ||
	    cleave_volume_open(observer->client, observer->name, 0, on_opened, observer) != 0)
		on_closed(observer); /* it may be there all the same */
}

void
observer_start(struct observer *observer, const struct history_op *lost, uint64_t offset_bytes)
{
	struct history_op op = *lost;

	assert(!observer->is_busy);
	op.op = CLEAVE_READ;
	op.session = observer->session;
	op.is_snapshot = true;
	observer->is_busy = true;
	observer->offset_bytes = offset_bytes;
	observer->number = history_submit(observer->history, &op, observer->floors);
	(void)snprintf(observer->name, sizeof(observer->name), "%s@s%u-%u", observer->volume_name,
	    observer->session, ++observer->count);
	observer_ask(observer, "snapshot.create", on_taken);
}
