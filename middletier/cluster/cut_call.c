/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut_call.c -- a step of a snapshot at the other gateways: the control request "cut" (control_cut.c)
 *
 *	{"op":"cut","step":S,"number":N,"segment_base":B,"segment_count":C} --> {"shards":[[index, epoch, rc], ...]}
 *
 * Of several volumes, from level 2 on, "others":[B, ...]: those behind the first.
 */
#include "cluster/cut_call.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/reader.h"
#include "cleave/loop.h"
#include "cluster/cut_ask.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "common/alloc.h"
#include "write/cut.h"

#define CUT_ERRNO_MAX 4096

/* A release on its way to another gateway, which nobody waits for. */
struct cut_release {
	struct mt_peer_call call;
	struct loop_link link; /* gateway->cut_releases */
};

static char *
cut_text(const struct mt_cut_order *order, enum mt_cut_step step)
{
	json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:i}", "op", "cut", "step",
	    mt_cut_step_name(step), "number", (json_int_t)order->number, "segment_base",
	    (json_int_t)order->segment_bases[0], "segment_count", (int)order->segment_count);
	json_t *others = order->volume_count > 1 ? json_array() : NULL;
	bool is_whole = object != NULL && (others != NULL || order->volume_count == 1);
	char *text;

	assert(order->number != 0 && order->segment_count > 0 && order->volume_count > 0);
	for (uint32_t i = 1; i < order->volume_count && is_whole; i++)
		is_whole = json_array_append_new(others,
			       json_integer((json_int_t)order->segment_bases[i])) == 0;
	/* Without one of the volumes it would be another question. */
	if (is_whole && others != NULL)
		is_whole = json_object_set(object, "others", others) == 0;
	text = is_whole ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(others);
	json_decref(object);
	return text;
}

/* @i: the first shard of its owner, which lives elsewhere, and none of the @count before. */
static bool
cut_is_next(const struct mt_gateway *gateway, uint32_t i, const uint64_t *ids, uint32_t count)
{
	const struct mt_member_shard *shard = &gateway->member.shards[i];

	assert(count <= MT_GATEWAYS_MAX);
	if (!shard->has_root || shard->is_released ||
	    shard->gateway_id == gateway->options.gateway_id || count == MT_GATEWAYS_MAX)
		return false;
	for (uint32_t k = 0; k < count; k++) {
		if (ids[k] == shard->gateway_id)
			return false;
	}
	return true;
}

/* ---- asked ---- */

/* Another gateway may say anything: what cannot be is left out. */
static void
cut_take_answer(struct mt_cut_calls *calls, const json_t *shard)
{
	struct reader reader = { 0 };
	uint64_t index = reader_number(&reader, json_array_get(shard, 0), "shard", 0,
	    calls->gateway->cluster.shard_count - 1);
	uint64_t epoch = reader_number(&reader, json_array_get(shard, 1), "epoch", 0, UINT32_MAX);
	int64_t rc = reader_signed(&reader, json_array_get(shard, 2), "rc", -CUT_ERRNO_MAX, 0);

	assert(calls->answers != NULL && calls->gateway->cluster.shard_count > 0);
	if (reader.field != NULL)
		return;
	calls->answers[index] =
	    (struct mt_cut_answer){ .is_there = true, .epoch = (uint32_t)epoch, .rc = (int)rc };
}

static void
cut_on_answer(struct mt_peer_call *call, void *arg)
{
	struct mt_cut_calls *calls = arg;
	json_t *object = call->rc == 0 ? json_loads(call->reply, 0, NULL) : NULL;
	const json_t *shard;
	size_t i;

	assert(calls->left_count > 0);
	assert(call >= calls->calls && call < calls->calls + calls->peer_count);
	json_array_foreach(json_object_get(object, "shards"), i, shard)
	{
		cut_take_answer(calls, shard);
	}
	json_decref(object);
	mt_free(call->reply);
	call->reply = NULL;
	calls->left_count--;
	calls->fn(calls, calls->arg);
}

uint32_t
mt_cut_call(struct mt_cut_calls *calls, enum mt_cut_step step, const struct mt_cut_order *order,
    struct mt_cut_answer *answers, mt_cut_call_fn fn, void *arg)
{
	struct mt_gateway *gateway = calls->gateway;
	const struct mt_member *member = &gateway->member;
	char *text = cut_text(order, step);

	assert(step < MT_CUT_STEP_RELEASE && calls->left_count == 0);
	assert(calls->calls != NULL);
	assert(answers != NULL && fn != NULL);
	calls->peer_count = 0;
	calls->answers = answers;
	calls->fn = fn;
	calls->arg = arg;
	for (uint32_t i = 0; i < gateway->cluster.shard_count && member->shards != NULL; i++) {
		const struct mt_member_shard *shard = &member->shards[i];

		if (text == NULL || !cut_is_next(gateway, i, calls->peers, calls->peer_count) ||
		    mt_peer_call(gateway, &calls->calls[calls->peer_count], shard->address, text,
			cut_on_answer, calls) != 0)
			continue;
		calls->peers[calls->peer_count++] = shard->gateway_id;
		calls->left_count++;
	}
	free(text);
	return calls->left_count;
}

int
mt_cut_calls_init(struct mt_cut_calls *calls, struct mt_gateway *gateway)
{
	assert(calls->calls == NULL);
	*calls = (struct mt_cut_calls){ .gateway = gateway,
		.calls = mt_calloc(MT_GATEWAYS_MAX, sizeof(*calls->calls)) };
	return calls->calls == NULL ? -ENOMEM : 0;
}

void
mt_cut_calls_fini(struct mt_cut_calls *calls)
{
	for (uint32_t i = 0; i < MT_GATEWAYS_MAX && calls->calls != NULL; i++)
		mt_free(calls->calls[i].reply);
	mt_free(calls->calls);
	calls->calls = NULL;
}

/* ---- released ---- */

static void
cut_on_released(struct mt_peer_call *call, void *arg)
{
	struct cut_release *release = arg;

	assert(call == &release->call);
	mt_free(call->reply);
	list_remove(&release->link);
	mt_free(release);
}

static int
cut_release_one(struct mt_gateway *gateway, const char *address, const char *text)
{
	struct cut_release *release = mt_calloc(1, sizeof(*release));
	int rc;

	if (release == NULL)
		return -ENOMEM;
	list_push_back(&gateway->cut_releases, &release->link);
	rc = mt_peer_call(gateway, &release->call, address, text, cut_on_released, release);
	if (rc != 0) {
		list_remove(&release->link);
		mt_free(release);
	}
	return rc;
}

void
mt_cut_call_release(struct mt_gateway *gateway, const struct mt_cut_order *order)
{
	const struct mt_member *member = &gateway->member;
	char *text = cut_text(order, MT_CUT_STEP_RELEASE);
	uint64_t ids[MT_GATEWAYS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < gateway->cluster.shard_count && member->shards != NULL; i++) {
		if (text != NULL && cut_is_next(gateway, i, ids, count) &&
		    cut_release_one(gateway, member->shards[i].address, text) == 0)
			ids[count++] = member->shards[i].gateway_id;
	}
	free(text);
}

void
mt_cut_releases_drop(struct mt_gateway *gateway)
{
	struct loop_link *link;

	while ((link = list_pop_front(&gateway->cut_releases)) != NULL) {
		struct cut_release *release = LIST_ENTRY(link, struct cut_release, link);

		mt_free(release->call.reply);
		mt_free(release);
	}
}
