/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_flatten.c -- the op volume.flatten: a clone shall let go of its origin
 *
 *	{"op":"volume.flatten","name":CLONE}                  {"shard_count":N,"left":N}: begun, or under way
 *	{"op":"volume.flatten","name":CLONE,"cancel":true}    {}: what was copied stays, and is passed over the next time
 *
 * The mark "flattening/ID" is all that is written; cluster/flatten.c does the rest. The volume's key is put as it is: so
 * the tables are read anew everywhere, and of two changes one comes first.
 */
#include "control/control_flatten.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/flatten_key.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/flatten.h"
#include "cluster/gateway_state.h"
#include "control/control_change.h"
#include "control/control_request.h"

static void
flatten_answer(struct mt_control_request *request, uint32_t left)
{
	mt_control_finish(request,
	    json_pack("{s:I, s:I}", "shard_count",
		(json_int_t)request->gateway->cluster.shard_count, "left", (json_int_t)left));
}

static void
flatten_on_begun(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_event(request, CLEAVE_EVENT_VOLUME_FLATTENING, request->volume.name,
	    "volume: is to be flattened name=%s", request->volume.name);
	flatten_answer(request, request->gateway->cluster.shard_count);
}

static void
flatten_on_cancelled(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_event(request, CLEAVE_EVENT_VOLUME_FLATTENING, request->volume.name,
	    "volume: is not flattened any more name=%s", request->volume.name);
	mt_control_finish(request, json_object());
}

static void
flatten_submit(struct mt_control_request *request, const struct mt_volume_entry *entry,
    bool is_cancel)
{
	const struct mt_gateway *gateway = request->gateway;
	char key[MT_FLATTEN_KEY_BYTES], volume_key[MT_VOLUME_KEY_BYTES];
	char *volume_text = mt_volume_encode(&entry->volume), *text = NULL;
	struct mt_flatten_mark mark;
	struct meta_op ops[4];
	uint32_t count = 0;

	mt_flatten_key(entry->volume.id, key);
	mt_volume_key(entry->volume.name, volume_key);
	mt_flatten_mark_all(entry->volume.id, gateway->cluster.shard_count, &mark);
	ops[count++] = mt_change_compare(volume_key, entry->version);
	ops[count++] = mt_change_put(volume_key, volume_text);
	if (is_cancel) {
		ops[count++] = (struct meta_op){ .kind = META_DELETE, .key = key };
	} else {
		text = mt_flatten_encode(&mark, gateway->cluster.shard_count);
		ops[count++] = mt_change_compare(key, 0);
		ops[count++] = mt_change_put(key, text);
	}
	assert(count <= NUM_COUNT(ops));
	mt_control_change(request, ops, count, is_cancel ? flatten_on_cancelled : flatten_on_begun);
	free(text);
	free(volume_text);
}

/* True: it was answered: there is nothing to be done, or nothing that can be. */
static bool
flatten_is_answered(struct mt_control_request *request, const struct mt_volume_entry *entry,
    bool is_cancel)
{
	const struct mt_volume *volume = &entry->volume;
	uint32_t left;
	bool is_begun = mt_flattening_left(request->gateway, volume->id, &left);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (!mt_control_has_level(request, CLEAVE_LEVEL_FLATTEN, "which cannot flatten"))
		return true;
	if (!mt_volume_is_clone(volume)) {
		mt_control_refuse(request, -EINVAL,
		    "volume '%s' is no clone, or was flattened: it has no origin to let go of",
		    volume->name);
		return true;
	}
	if (is_cancel && !is_begun) {
		mt_control_refuse(request, -ENOENT, "volume '%s' is not being flattened",
		    volume->name);
		return true;
	}
	if (is_cancel || !is_begun)
		return false;
	flatten_answer(request, left);
	return true;
}

void
mt_control_volume_flatten(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "";
	bool is_cancel = false;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "cancel", READER_BOOL, false, 0, 0, { .flag = &is_cancel } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_change_find_volume(request);
	if (entry != NULL && !flatten_is_answered(request, entry, is_cancel))
		flatten_submit(request, entry, is_cancel);
}
