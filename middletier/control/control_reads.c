/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_reads.c -- the op "volume.reads": where a volume may be read past its gateway; "volume.nodes": at which nodes
 *
 *	nobody uses it, or is put out --> a fence, where it may be read so by now --> the key, with another attach number
 *
 * What a session may read, and who waits for it, hangs on "reads" of the copy of the volume that its port has. All
 * sessions of an attach number have the same: each change raises it. And a key that says "gateway" tells a new owner that
 * there are no leases to wait for (rule C of session/LEASES.md): so it says that when there are none.
 *
 * "hot": out of its gateway's memory, as far as the blocks are hot there (read/PEEKS.md). "direct": at nodes.
 */
#include "control/control_reads.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/reads.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/look.h"
#include "cluster/unreached.h"
#include "control/control_allow.h"
#include "control/control_answer.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "read/hot_pages.h"

bool
mt_control_take_reads(struct mt_control_request *request, const char *name)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (!mt_reads_parse(name, &request->volume.reads)) {
		mt_control_fail(request, -EINVAL, "reads: must be gateway, hot or direct");
		return false;
	}
	return request->volume.reads == MT_READS_GATEWAY ||
	    mt_control_has_level(request, CLEAVE_LEVEL_READS, "which has no read leases");
}

static void
reads_on_done(struct mt_control_request *request)
{
	mt_control_event(request, CLEAVE_EVENT_VOLUME_READS, request->volume.name,
	    "volume: read elsewhere name=%s reads=%s", request->volume.name,
	    mt_reads_name(request->volume.reads));
	mt_change_on_volume(request);
}

static void
reads_submit(struct mt_control_request *request, const struct mt_volume_entry *entry)
{
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;

	assert(volume.reads != request->volume.reads);
	volume.reads = request->volume.reads;
	volume.attach++;
	volume.session_id = 0;
	volume.holder = (struct mt_holder){ .since_s = 0 };
	mt_volume_key(volume.name, key);
	text = mt_volume_encode(&volume);
	{
		const struct meta_op ops[] = { mt_change_compare(key, entry->version),
			mt_change_put(key, text) };

		mt_control_change(request, ops, NUM_COUNT(ops), reads_on_done);
	}
	free(text);
}

static void
reads_on_alone(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_volume_entry *entry = mt_change_when_unused_entry(request, answer);

	if (entry == NULL)
		return;
	if (MUTANT(reads_unfenced))
		reads_submit(request, entry);
	else
		mt_change_fence(request, entry, reads_submit);
}

void
mt_control_volume_reads(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "", *reads = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "reads", READER_TEXT, true, 0, 0, { .text = &reads } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_control_take_reads(request, reads) ||
	    !mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return;
	if (entry->volume.reads == request->volume.reads)
		mt_control_finish(request,
		    json_pack("{s:o}", "volume", mt_json_volume(&entry->volume)));
	else
		mt_change_when_unused(request, reads_on_alone);
}

/*
 * ---- volume.nodes: where those that take clients are; asked by who reads there ----
 *
 * "unreached":[ID, ...] are those that it could not connect to, time after time: gateways reach them, perhaps at other addresses.
 * "hot_pages": of each port of the gateway that answers, pages of hot blocks that sessions may have; 0: none can be read so.
 */

static json_int_t
hot_pages(const struct mt_gateway_options *options)
{
	bool is_keyed = options->key != NULL && options->security != SPLIT_SECURITY_OPEN;

	assert(options->port_count > 0);
	return is_keyed ? 0 : mt_hot_pages_max(options->hot_bytes / options->port_count);
}

/* Node @id takes clients, and a port of this gateway has it up, as it says here; NULL: it has not. */
static const struct mt_link_status *
nodes_find(const struct mt_ask *ask, uint64_t id)
{
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->links != NULL && k < status->link_count; k++) {
			const struct mt_link_status *link = &status->links[k];

			if (link->node_id == id && link->is_direct && link->is_up)
				return link;
		}
	}
	return NULL;
}

static void
nodes_note_unreached(struct mt_control_request *request, const struct mt_ask *ask)
{
	struct mt_gateway *gateway = request->gateway;
	const struct mt_volume_entry *entry =
	    mt_volumes_by_id(&gateway->volumes, request->volume.id);
	struct mt_unreached_word word = { .volume_id = request->volume.id,
		.attach = entry != NULL ? entry->volume.attach : 0 };
	const struct mt_link_status *link;
	const json_t *item;
	size_t i;

	(void)snprintf(word.by, sizeof(word.by), "%s",
	    request->by[0] != '\0' ? request->by : "a client");
	(void)snprintf(word.peer, sizeof(word.peer), "%s", request->peer);
	mt_unreached_begin(&gateway->unreached, word.volume_id, word.by);
	json_array_foreach(json_object_get(request->in, "unreached"), i, item)
	{
		uint64_t id = (uint64_t)json_integer_value(item);

		link = i >= MT_NODES_MAX || id == 0 ? NULL : nodes_find(ask, id);
		if (link == NULL)
			continue;
		word.node_id = link->node_id;
		(void)snprintf(word.address, sizeof(word.address), "%s", mt_link_told(link));
		if (mt_unreached_note(&gateway->unreached, &word,
			loop_now_ns(gateway->options.loop)) != 0)
			log_warn(
			    "volume: a client cannot reach a node, and reads at gateways node=%" PRIu64
			    " address=%s by=\"%s at %s\"",
			    id, word.address, word.by, word.peer);
	}
	mt_unreached_end(&gateway->unreached, word.volume_id, word.by);
}

static void
nodes_on_looked(const struct mt_ask *ask, void *arg)
{
	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	if (ask != NULL)
		nodes_note_unreached(arg, ask);
	mt_control_finish(arg,
	    ask == NULL ? NULL
			: json_pack("{s:o, s:I}", "nodes", mt_json_direct_nodes(ask->gateway, ask),
			      "hot_pages", hot_pages(&ask->gateway->options)));
}

void
mt_control_volume_nodes(struct mt_control_request *request)
{
	uint64_t id = 0;
	json_t *unreached = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "id", READER_U64, true, 1, INT64_MAX, { .u64 = &id } },
		{ "unreached", READER_ARRAY, false, 0, 0, { .array = &unreached } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (mt_control_volume_with_id(request, id, mt_control_may) == NULL)
		return;
	request->volume.id = id;
	rc = mt_look(&request->gateway->status_look, nodes_on_looked, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}
