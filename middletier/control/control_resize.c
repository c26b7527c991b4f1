/* SPDX-License-Identifier: Apache-2.0 */
/* control_resize.c -- volumes renamed and resized */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cleave/engine.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "control/control_resize.h"

/* ---- rename ---- */

void
mt_control_volume_rename(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "", *new_name = "";
	char key[MT_VOLUME_KEY_BYTES], new_key[MT_VOLUME_KEY_BYTES];
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "new", READER_TEXT, true, 0, 0, { .text = &new_name } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	char *text;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name) ||
	    !mt_change_take_name(request, new_name, request->change.new_name))
		return;
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return;
	if (mt_volumes_by_name(&request->gateway->volumes, request->change.new_name) != NULL) {
		mt_control_refuse(request, -EEXIST,
		    "there is a volume '%s' already: choose another name",
		    request->change.new_name);
		return;
	}
	mt_volume_key(request->volume.name, key);
	mt_volume_key(request->change.new_name, new_key);
	text = mt_volume_encode(&entry->volume);
	{
		const struct meta_op ops[] = {
			mt_change_compare(key, entry->version),
			mt_change_compare(new_key, 0),
			{ .kind = META_DELETE, .key = key },
			mt_change_put(new_key, text),
		};

		mt_control_change(request, ops, NUM_COUNT(ops), mt_change_on_volume);
	}
	free(text);
}

/* ---- resize ---- */

static void
resize_submit(struct mt_control_request *request, const struct mt_volume_entry *entry)
{
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;

	assert(request->change.wanted_bytes > 0 &&
	    request->change.wanted_bytes % CLEAVE_BLOCK_BYTES == 0);
	volume.size_bytes = request->change.wanted_bytes;
	volume.segment_count = mt_volume_segment_count(volume.size_bytes);
	mt_volume_key(volume.name, key);
	text = mt_volume_encode(&volume);
	{
		const struct meta_op ops[] = { mt_change_compare(key, entry->version),
			mt_change_put(key, text) };

		mt_control_change(request, ops, NUM_COUNT(ops), mt_change_on_volume);
	}
	free(text);
}

/* The volume's last session has discarded the tail (the command's does), and is gone. */
static void
resize_on_alone(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_volume_entry *entry = mt_change_when_unused_entry(request, answer);

	if (entry == NULL)
		return;
	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (request->change.is_check) {
		mt_control_finish(request,
		    json_pack("{s:o}", "volume", mt_json_volume(&entry->volume)));
	} else {
		mt_change_fence(request, entry, resize_submit);
	}
}

void
mt_control_volume_resize(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "";
	uint64_t id = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "size_bytes", READER_U64, true, CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX,
		    { .u64 = &request->change.wanted_bytes } },
		{ "shrink", READER_BOOL, false, 0, 0, { .flag = &request->change.must_shrink } },
		{ "check", READER_BOOL, false, 0, 0, { .flag = &request->change.is_check } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
		{ "id", READER_U64, false, 0, INT64_MAX, { .u64 = &id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	if (request->change.wanted_bytes % CLEAVE_BLOCK_BYTES != 0) {
		mt_control_refuse(request, -EINVAL, "size_bytes: must be a multiple of 4096");
		return;
	}
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return;
	/* The client knows the id of the volume that it means; the name may be another volume's by now. */
	if (id != 0 && id != entry->volume.id)
		mt_change_fail_another(request);
	else if (request->change.wanted_bytes >= entry->volume.size_bytes &&
	    !request->change.is_check)
		resize_submit(request, entry);
	else if (!request->change.must_shrink &&
	    request->change.wanted_bytes < entry->volume.size_bytes)
		mt_control_refuse(request, -EINVAL,
		    "volume '%s' has %" PRIu64 " bytes: it would lose what is behind "
		    "the new end; --shrink says that it may",
		    request->volume.name, entry->volume.size_bytes);
	else
		mt_change_when_unused(request, resize_on_alone);
}
