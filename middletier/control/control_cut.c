/* SPDX-License-Identifier: Apache-2.0 */
/* control_cut.c -- the op "cut": another gateway's main asks for a step of a snapshot */
#include "control/control_cut.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
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

void
mt_control_cut(struct mt_control_request *request)
{
	struct mt_cut_order order = { 0 };
	uint64_t segment_count = 0;
	const char *name = "";
	enum mt_cut_step step = MT_CUT_STEP_ASK;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "step", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "number", READER_U64, true, 1, MT_NUMBER_MAX, { .u64 = &order.number } },
		{ "segment_base", READER_U64, true, 0, 0, { .u64 = &order.segment_base } },
		{ "segment_count", READER_U64, true, 1, MT_VOLUME_SEGMENTS,
		    { .u64 = &segment_count } },
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
	if (rc == 0 && !mt_segments_exist(order.segment_base, segment_count)) {
		(void)snprintf(error, sizeof(error), "segment_base: there are no such segments");
		rc = -EINVAL;
	}
	order.segment_count = (uint32_t)segment_count;
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_cut_ask(request->gateway, step, &order, control_on_cut, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}
