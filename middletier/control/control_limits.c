/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_limits.c -- a volume's limits: set by an operator, asked for by its clients
 *
 *	volume.set     read the tables --> what is named is changed --> the key, if that differs --> ports are told
 *	volume.limits  read the tables --> "limits", by the volume's id: a client that saw another tag asks
 *
 * A set that changes nothing writes nothing. Ports of this gateway know before it is answered (volume_refresh.c),
 * those of others when their watch fires.
 */
#include "control/control_limits.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/qos.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/limit_round.h"
#include "control/control_allow.h"
#include "control/control_change.h"
#include "control/control_request.h"

static void
set_submit(struct mt_control_request *request, const struct mt_volume_entry *entry,
    const struct cleave_limits *limits)
{
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;

	volume.limits = *limits;
	mt_volume_key(volume.name, key);
	text = mt_volume_encode(&volume);
	{
		const struct meta_op ops[] = { mt_change_compare(key, entry->version),
			mt_change_put(key, text) };

		mt_control_change(request, ops, NUM_COUNT(ops), mt_change_on_volume);
	}
	free(text);
}

void
mt_control_volume_set(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "", *problem;
	struct cleave_limits limits = { 0 };
	char error[MT_ERROR_BYTES];
	struct reader_member members[MT_LIMIT_COUNT + 1];
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	/* Limits that are not named stay, so the name is looked at first. */
	name = json_string_value(json_object_get(request->in, "name"));
	if (name == NULL) {
		mt_control_fail(request, -EINVAL, "name: missing, or not a string");
		return;
	}
	if (!mt_control_has_level(request, CLEAVE_LEVEL_LIMITS,
		"in which volumes have no limits") ||
	    !mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return;
	limits = entry->volume.limits;
	mt_qos_members(&limits, members);
	members[MT_LIMIT_COUNT] = (struct reader_member){ .name = "name",
		.kind = READER_TEXT,
		.is_required = true,
		.ret.text = &name };
	rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	problem = rc == 0 ? mt_qos_check(&limits) : error;
	if (problem != NULL)
		mt_control_fail(request, -EINVAL, problem);
	else if (limits_are_equal(&limits, &entry->volume.limits))
		mt_control_finish(request,
		    json_pack("{s:o}", "volume", mt_json_volume(&entry->volume)));
	else
		set_submit(request, entry, &limits);
}

void
mt_control_volume_limits(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry = mt_control_volume_of_id(request, mt_control_sees);
	json_t *out;

	if (entry == NULL)
		return;
	out = json_pack("{s:I}", "id", (json_int_t)entry->volume.id);
	if (out != NULL && mt_json_put_qos(out, &entry->volume.limits) != 0) {
		json_decref(out);
		out = NULL;
	}
	mt_control_finish(request, out);
}

void
mt_control_limits_use(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(request, mt_limit_rounds_json(request->gateway));
}
