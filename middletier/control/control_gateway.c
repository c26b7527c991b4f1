/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_gateway.c -- gateways that shall have no shards: drain, undrain; what a gateway has to do
 *
 *	read the marks --> list who lives --> judge --> the key is put, by compare-and-swap --> answered
 *
 * Invariant: a mark is put, unless with force, while its gateway lives and another one does that is not marked. Both
 * are read from the store after the request has come; of two drains at one moment the second meets the first one's key.
 *
 * All gateways learn of it by their watch of the roots. The one that is drained then gives its shards away, one after
 * the other (cluster/view_drain.c).
 */
#include "control/control_gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/drained_key.h"
#include "catalog/json.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cleave/status.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/relief.h"
#include "cluster/severed.h"
#include "common/event.h"
#include "control/control_request.h"

static void
gateway_end(struct mt_control_request *request)
{
	char id[17];

	assert(request->gateway_change.id != 0);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, request->gateway_change.id);
	mt_control_finish(request,
	    json_pack("{s:{s:s, s:b}}", "gateway", "gateway", id, "drained",
		(int)request->gateway_change.is_drain));
}

/* ---- the key ---- */

static void
gateway_on_put(int rc, void *arg)
{
	char object[MT_EVENT_OBJECT_BYTES];
	struct mt_control_request *request = arg;
	const char *what = request->gateway_change.is_drain ? "drained" : "undrained";
	uint64_t id = request->gateway_change.id;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == -EAGAIN) {
		mt_control_refuse(request, -EBUSY,
		    "gateway %016" PRIx64
		    " is not %s: somebody else drains a gateway at this moment: look at cleave gateway "
		    "list, and ask again",
		    id, what);
		return;
	}
	if (rc != 0) {
		mt_control_refuse(request, rc,
		    "gateway %016" PRIx64 ": %s: look at cleave gateway list", id,
		    status_text(status_from_errno(rc)));
		return;
	}
	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, id);
	mt_control_event(request, CLEAVE_EVENT_GATEWAY_CHANGED, object,
	    "gateway: %s by an operator id=%016" PRIx64, what, id);
	gateway_end(request);
}

static void
gateway_put(struct mt_control_request *request)
{
	struct meta *meta = request->gateway->options.meta;
	const struct mt_drained *drained = &request->gateway_change.drained;
	char *text = mt_drained_encode(drained);
	int rc = -ENOMEM;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(mt_drained_has(drained, request->gateway_change.id) ==
	    request->gateway_change.is_drain);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = MT_DRAINED_KEY,
			    .version = drained->version },
			{ .kind = META_PUT,
			    .key = MT_DRAINED_KEY,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = meta->ops->txn(meta, ops, NUM_COUNT(ops), gateway_on_put, request);
	}
	free(text);
	if (rc != 0)
		mt_control_fail(request, rc, "the gateway is out of memory");
}

/* ---- judging ---- */

/* Gateways that live, as their keys say. */
struct gateway_census {
	bool is_there;        /* the gateway that is asked about */
	uint32_t taker_count; /* the others, without those that are drained */
};

static struct gateway_census
gateway_count(const struct mt_control_request *request, const struct meta_item *items,
    uint32_t count)
{
	struct gateway_census census = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = strtoull(items[i].key + strlen(META_LEASED_PREFIX), NULL, 10);
		struct mt_member_peer peer = { .gateway_id = id };
		char key[MT_MEMBER_KEY_BYTES];
		const char *field;

		mt_member_key(key, id);
		if (strcmp(items[i].key, key) != 0 ||
		    mt_member_decode(items[i].value, items[i].value_bytes, &peer, &field) != 0)
			continue; /* whoever it is, nothing falls to it */
		if (id == request->gateway_change.id)
			census.is_there = true;
		else if (!mt_drained_has(&request->gateway_change.drained, id))
			census.taker_count++;
	}
	return census;
}

static void
gateway_judge_drain(struct mt_control_request *request, const struct gateway_census *census)
{
	uint64_t id = request->gateway_change.id;

	assert(request->gateway_change.is_drain);
	if (mt_drained_has(&request->gateway_change.drained, id))
		gateway_end(request);
	else if (!census->is_there && !request->is_forced)
		mt_control_refuse(request, -ENOENT,
		    "gateway %016" PRIx64
		    " is not drained: it does not live (cleave gateway list); say --force to have it take "
		    "no shards when it comes",
		    id);
	else if (census->taker_count == 0 && !request->is_forced && !MUTANT(drain_unasked))
		mt_control_refuse(request, -ENOTEMPTY,
		    "gateway %016" PRIx64
		    " is not drained: no other gateway lives that could take its shards: start one, or "
		    "undrain one (cleave gateway undrain), or say --force: they stay where they are, "
		    "or with another that is drained, until one comes that is not",
		    id);
	else if (mt_drained_add(&request->gateway_change.drained, id) != 0)
		mt_control_refuse(request, -ENOSPC,
		    "gateway %016" PRIx64
		    " is not drained: %u are, and no more can be: undrain those that never come back "
		    "(cleave gateway list)",
		    id, MT_GATEWAYS_MAX);
	else
		gateway_put(request);
}

static void
gateway_judge_undrain(struct mt_control_request *request, const struct gateway_census *census)
{
	uint64_t id = request->gateway_change.id;

	assert(!request->gateway_change.is_drain);
	if (mt_drained_has(&request->gateway_change.drained, id)) {
		mt_drained_remove(&request->gateway_change.drained, id);
		gateway_put(request);
	} else if (census->is_there) {
		gateway_end(request);
	} else {
		mt_control_refuse(request, -ENOENT,
		    "gateway %016" PRIx64 " neither lives nor is drained: see cleave gateway list",
		    id);
	}
}

static void
gateway_on_living(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_control_request *request = arg;
	struct gateway_census census;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
		return;
	}
	census = gateway_count(request, items, count);
	if (request->gateway_change.is_drain)
		gateway_judge_drain(request, &census);
	else
		gateway_judge_undrain(request, &census);
}

static void
gateway_on_drained(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_control_request *request = arg;
	struct meta *meta = request->gateway->options.meta;
	struct mt_drained *drained = &request->gateway_change.drained;
	const char *field = "";

	assert(request->sm.state == MT_CONTROL_RUNNING);
	*drained = (struct mt_drained){ .count = 0 };
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (strcmp(items[i].key, MT_DRAINED_KEY) != 0)
			continue;
		drained->version = items[i].version;
		rc = mt_drained_decode(items[i].value, items[i].value_bytes, drained, &field);
	}
	if (rc == -EINVAL) {
		mt_control_refuse(request, -EBADMSG,
		    "the key %s of the metadata store cannot be understood: %.200s", MT_DRAINED_KEY,
		    field);
		return;
	}
	if (rc == 0)
		rc = meta->ops->list(meta, META_LEASED_PREFIX, gateway_on_living, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
}

/* ---- requests ---- */

static void
gateway_change(struct mt_control_request *request, bool is_drain)
{
	struct mt_gateway *gateway = request->gateway;
	struct meta *meta = gateway->options.meta;
	const char *id = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "gateway", READER_TEXT, true, 0, 0, { .text = &id } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members) - !is_drain, error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	request->gateway_change.is_drain = is_drain;
	if (rc == 0 &&
	    (mt_hex_parse(id, &request->gateway_change.id) != 0 ||
		request->gateway_change.id == 0)) {
		(void)snprintf(error, sizeof(error), "gateway: must be an id of 16 hex digits");
		rc = -EINVAL;
	}
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_control_has_level(request, CLEAVE_LEVEL_DRAINED,
		"whose gateways do not know what drained means"))
		return;
	rc = meta->ops->list(meta, MT_DRAINED_KEY, gateway_on_drained, request);
	if (rc != 0)
		mt_control_fail(request, rc, "the gateway is out of memory");
}

void
mt_control_gateway_drain(struct mt_control_request *request)
{
	gateway_change(request, true);
}

void
mt_control_gateway_undrain(struct mt_control_request *request)
{
	gateway_change(request, false);
}

void
mt_control_gateway_load(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(request, mt_relief_json(request->gateway));
}

static void
gateway_on_reach(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(request, mt_severed_json(ask));
}

void
mt_control_gateway_reach(struct mt_control_request *request)
{
	int rc =
	    mt_ask_ports(request->gateway, MT_ASK_REACH_HEARD, NULL, gateway_on_reach, request);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, "the ports cannot be asked now");
}
