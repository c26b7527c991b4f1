/* SPDX-License-Identifier: Apache-2.0 */
/* control_cut.c -- the op "cut": another gateway's main asks for a step of a snapshot */
#include "control/control_cut.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "cluster/cut_ask.h"
#include "cluster/gateway_state.h"
#include "control/control_request.h"
#include "write/cut.h"

static void
control_on_cut(struct mt_cut_ask *ask, void *arg)
{
	json_t *shards = json_array();

	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	for (uint32_t i = 0; i < ask->gateway->cluster.shard_count; i++) {
		const struct mt_cut_answer *answer = &ask->answers[i];

		if (answer->is_there)
			json_array_append_new(shards,
			    json_pack("[i, I, i]", (int)i, (json_int_t)answer->epoch, answer->rc));
	}
	mt_control_finish(arg, json_pack("{s:o}", "shards", shards));
}

static int
cut_refuse(const char *text, char error[MT_ERROR_BYTES])
{
	(void)snprintf(error, MT_ERROR_BYTES, "%s", text);
	return -EINVAL;
}

/* The volume at @segment_base, and the @others, NULL for none, behind it. */
static int
cut_take_volumes(struct mt_cut_order *order, uint64_t segment_base, const json_t *others,
    char error[MT_ERROR_BYTES])
{
	size_t count = 1 + json_array_size(others);

	if (count > CLEAVE_GROUP_VOLUMES_MAX)
		return cut_refuse("others: too many volumes", error);
	if (order->number > MT_NUMBER_MAX - count + 1)
		return cut_refuse("number: there are none for so many volumes", error);
	for (size_t i = 0; i < count; i++) {
		struct reader reader = { 0 };
		uint64_t base = i == 0
		    ? segment_base
		    : reader_number(&reader, json_array_get(others, i - 1), "others", 0, INT64_MAX);

		if (reader.field != NULL)
			return cut_refuse("others: must be numbers of segments", error);
		if (!mt_segments_exist(base, order->segment_count))
			return cut_refuse(i == 0 ? "segment_base: there are no such segments"
						 : "others: there are no such segments",
			    error);
		for (uint32_t k = 0; k < order->volume_count; k++) {
			if (order->segment_bases[k] == base)
				return cut_refuse("others: a volume is there twice", error);
		}
		order->segment_bases[order->volume_count++] = base;
	}
	return 0;
}

void
mt_control_cut(struct mt_control_request *request)
{
	struct mt_cut_order order = { 0 };
	uint64_t segment_base = 0, segment_count = 0;
	json_t *others = NULL;
	const char *name = "";
	enum mt_cut_step step = MT_CUT_STEP_ASK;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "step", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "number", READER_U64, true, 1, MT_NUMBER_MAX, { .u64 = &order.number } },
		{ "segment_base", READER_U64, true, 0, 0, { .u64 = &segment_base } },
		{ "segment_count", READER_U64, true, 1, MT_VOLUME_SEGMENTS,
		    { .u64 = &segment_count } },
		{ "others", READER_ARRAY, false, 0, 0, { .array = &others } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	while (step < MT_CUT_STEP_NR && strcmp(name, mt_cut_step_name(step)) != 0)
		step++;
	if (rc == 0 && step == MT_CUT_STEP_NR) {
		(void)snprintf(error, sizeof(error),
		    "step: must be ask, begin, confirm or release");
		rc = -EINVAL;
	}
	order.segment_count = (uint32_t)segment_count;
	if (rc == 0)
		rc = cut_take_volumes(&order, segment_base, others, error);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_cut_ask(request->gateway, step, &order, control_on_cut, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}
