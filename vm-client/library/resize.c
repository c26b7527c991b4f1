/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c -- an open volume's size: asked anew, or changed
 *
 * A gateway is asked in either case, and what it says of the volume decides: its size by now, and whether
 * this is still its session. A volume that was renamed is not found by its name any more, or another
 * one is: that one's size is none of ours. A snapshot is asked for as it is opened, as only that names it by an id.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

static void
resize_say_another(const struct cleave_volume *volume, json_int_t id,
    char ret_text[CLEAVE_ERROR_BYTES_MAX])
{
	const char *name = volume->info.name;

	assert((uint64_t)id != volume->info.id);
	if (strchr(name, '@') != NULL) /* its id has marks that mean nothing to people */
		(void)snprintf(ret_text, CLEAVE_ERROR_BYTES_MAX,
		    "'%.193s' is another snapshot by now", name);
	else
		(void)snprintf(ret_text, CLEAVE_ERROR_BYTES_MAX,
		    "'%.64s' is volume %" JSON_INTEGER_FORMAT " by now", name, id);
}

/* -EBADMSG: that makes no sense. @ret_text: what was wrong, where that says more than the error. */
static int
resize_take(struct cleave_volume *volume, const char *reply, char ret_text[CLEAVE_ERROR_BYTES_MAX])
{
	json_t *root = reply == NULL ? NULL : json_loads(reply, 0, NULL);
	json_int_t id, size_bytes, attach, segment_count;
	int rc = 0;

	assert(volume->size_fn != NULL);
	if (json_unpack(root, "{s:{s:I, s:I, s:I, s:I}}", "volume", "id", &id, "size_bytes",
		&size_bytes, "attach", &attach, "segment_count", &segment_count) != 0 ||
	    size_bytes <= 0 || size_bytes > (json_int_t)CLEAVE_VOLUME_BYTES_MAX ||
	    size_bytes % CLEAVE_BLOCK_BYTES != 0 || segment_count <= 0 ||
	    segment_count > UINT32_MAX ||
	    (uint64_t)segment_count * CLEAVE_SEGMENT_BYTES < (uint64_t)size_bytes)
		rc = -EBADMSG;
	else if ((uint64_t)id != volume->info.id)
		rc = -ENOENT;
	else if ((uint64_t)attach > volume->info.attach &&
	    (volume->flags & CLEAVE_OPEN_READ_ONLY) == 0)
		rc = -ESHUTDOWN;
	json_decref(root);
	if (rc == -ENOENT)
		resize_say_another(volume, id, ret_text);
	if (rc != 0)
		return rc;
	if ((uint64_t)size_bytes != volume->info.size_bytes)
		maps_forget(volume);
	volume->info.size_bytes = (uint64_t)size_bytes;
	volume->info.segment_count = (uint32_t)segment_count;
	return 0;
}

static void
resize_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_volume *volume = arg;
	cleave_size_fn fn = volume->size_fn;
	void *fn_arg = volume->size_arg;
	char text[CLEAVE_ERROR_BYTES_MAX] = "";

	(void)call;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(fn != NULL);
	if (rc == 0)
		rc = resize_take(volume, reply, text);
	if (text[0] == '\0')
		(void)snprintf(text, sizeof(text), "%s",
		    error != NULL ? error : cleave_error_text(rc));
	volume->size_fn = NULL;
	volume_wake(volume); /* its end may have waited for that */
	fn(rc, rc == 0 ? NULL : text, fn_arg);
}

/* @request is taken over; NULL: out of memory. */
static int
resize_ask(struct cleave_volume *volume, json_t *request, cleave_size_fn fn, void *arg)
{
	char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	int rc = -ENOMEM;

	assert(volume->size_fn == NULL);
	json_decref(request);
	if (text != NULL) {
		volume->size_call = (struct cleave_call){ .fn = resize_on_answer, .arg = volume };
		rc = cleave_control(volume->client, &volume->size_call, text);
	}
	free(text);
	if (rc != 0)
		return rc;
	volume->size_fn = fn;
	volume->size_arg = arg;
	return 0;
}

static int
resize_check(const struct cleave_volume *volume)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	if (volume->fail_rc != 0)
		return volume->fail_rc;
	if (volume->sm.state != VOLUME_OPEN)
		return -ECANCELED;
	return volume->size_fn != NULL ? -EBUSY : 0;
}

int
cleave_volume_refresh(struct cleave_volume *volume, cleave_size_fn fn, void *arg)
{
	bool is_snapshot = strchr(volume->info.name, '@') != NULL;
	int rc = resize_check(volume);

	assert(fn != NULL);
	if (rc != 0)
		return rc;
	return resize_ask(volume,
	    json_pack("{s:s, s:s}", "op", is_snapshot ? "volume.open" : "volume.show", "name",
		volume->info.name),
	    fn, arg);
}

int
cleave_volume_resize(struct cleave_volume *volume, uint64_t size_bytes, bool may_shrink,
    cleave_size_fn fn, void *arg)
{
	int rc = resize_check(volume);

	assert(fn != NULL);
	if (rc != 0)
		return rc;
	if (size_bytes == 0 || size_bytes % CLEAVE_BLOCK_BYTES != 0)
		return -EINVAL;
	if (size_bytes > CLEAVE_VOLUME_BYTES_MAX)
		return -ERANGE;
	if ((volume->flags & CLEAVE_OPEN_READ_ONLY) != 0)
		return -EROFS;
	/* "force": our own session is no reason to refuse. */
	return resize_ask(volume,
	    json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "op", "volume.resize", "name",
		volume->info.name, "id", (json_int_t)volume->info.id, "size_bytes",
		(json_int_t)size_bytes, "shrink", (int)may_shrink, "force", (int)may_shrink),
	    fn, arg);
}
