/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c -- what may be asked of a gateway: the table of ops, and those that only ask the ports
 *
 * control_request.c has a request's life, and the files of the ops what each of them does.
 */
#include "control/control.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/look.h"
#include "cluster/peer.h"
#include "cluster/revoked.h"
#include "common/port.h"
#include "control/control_answer.h"
#include "control/control_attach.h"
#include "control/control_cut.h"
#include "control/control_data_key.h"
#include "control/control_events.h"
#include "control/control_flatten.h"
#include "control/control_gateway.h"
#include "control/control_health.h"
#include "control/control_holder.h"
#include "control/control_key.h"
#include "control/control_limits.h"
#include "control/control_node.h"
#include "control/control_node_join.h"
#include "control/control_node_leave.h"
#include "control/control_node_set.h"
#include "control/control_rates.h"
#include "control/control_reads.h"
#include "control/control_rebalance.h"
#include "control/control_request.h"
#include "control/control_resize.h"
#include "control/control_settings.h"
#include "control/control_show.h"
#include "control/control_slow.h"
#include "control/control_snapshot.h"
#include "control/control_snapshot_change.h"
#include "control/control_snapshot_delete.h"
#include "control/control_take.h"
#include "control/control_trash.h"
#include "control/control_upgrade.h"
#include "control/control_usage.h"
#include "control/control_use.h"
#include "control/control_user.h"
#include "control/control_volume.h"
#include "control/control_waits.h"
#include "port/port_status.h"

/* map, scrub: every port has to answer. */

static void
control_ask(struct mt_control_request *request, enum mt_ask_kind kind, mt_ask_fn fn)
{
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, NULL, 0, error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(fn != NULL);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_ask_ports(request->gateway, kind, NULL, fn, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}

static void
control_on_map(struct mt_ask *ask, void *arg)
{
	assert(ask->kind == MT_ASK_STATUS && ask->left_count == 0);
	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(arg, json_pack("{s:o}", "map", mt_json_map(ask->gateway, ask)));
}

static void
control_map(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_STATUS, control_on_map);
}

/* node.list, status, waits: a port that hangs keeps nobody, and no slot, for longer than a second; the health names it. */

static void
control_look(struct mt_control_request *request, mt_look_fn fn)
{
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, NULL, 0, error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_look(&request->gateway->status_look, fn, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}

static void
control_on_nodes(const struct mt_ask *ask, void *arg)
{
	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(arg,
	    ask == NULL ? NULL : json_pack("{s:o}", "nodes", mt_json_nodes(ask->gateway, ask)));
}

static void
control_nodes(struct mt_control_request *request)
{
	control_look(request, control_on_nodes);
}

static void
control_on_status(const struct mt_ask *ask, void *arg)
{
	bool has_shards = ask != NULL && ask->gateway->cluster.shard_count <= MT_STATUS_SHARDS_MAX;
	json_t *status = ask == NULL ? NULL : mt_json_status(ask->gateway, ask, has_shards);

	if (has_shards && json_dumpb(status, NULL, 0, JSON_COMPACT) > MT_CONTROL_TEXT_BYTES_MAX) {
		json_decref(status);
		status = mt_json_status(ask->gateway, ask, false); /* their number has to do */
	}
	mt_control_finish(arg, status);
}

static void
control_status(struct mt_control_request *request)
{
	control_look(request, control_on_status);
}

static void
control_on_waits(const struct mt_ask *ask, void *arg)
{
	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(arg, ask == NULL ? NULL : mt_json_waits(ask));
}

/* Asked by clients whose requests get no answer: what do our shards wait for? */
static void
control_waits(struct mt_control_request *request)
{
	control_look(request, control_on_waits);
}

static void
control_on_scrub(struct mt_ask *ask, void *arg)
{
	json_int_t count = 0;

	assert(ask->kind == MT_ASK_SCRUB && ask->left_count == 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++)
			count += status->shards[k].state == MT_SHARD_SERVING;
	}
	mt_control_finish(arg, json_pack("{s:I}", "shards", count));
}

static void
control_scrub(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_SCRUB, control_on_scrub);
}

static void
control_on_sweep(struct mt_ask *ask, void *arg)
{
	assert(ask->kind == MT_ASK_SWEEP || ask->kind == MT_ASK_SWEEP_CONFIRM);
	mt_control_finish(arg, mt_json_orphans(ask));
}

static void
control_sweep(struct mt_control_request *request)
{
	bool must_confirm = false;
	const struct reader_member members[] = {
		{ .name = "confirm", .kind = READER_BOOL, .ret.flag = &must_confirm },
	};
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_ask_ports(request->gateway,
		    must_confirm ? MT_ASK_SWEEP_CONFIRM : MT_ASK_SWEEP, NULL, control_on_sweep,
		    request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}

static void
control_gateways(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, NULL, 0, error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		mt_control_finish(request, mt_json_gateways(request->gateway));
}

static const struct mt_control_op control_ops[] = {
	{ "volume.create", true, true, MT_RIGHT_ALTER, MT_NAMES_NEW, mt_control_volume_create },
	{ "volume.list", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_MANY, mt_control_volume_list },
	{ "volume.show", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_NAME, mt_control_volume_show },
	{ "volume.usage", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_NAME,
	    mt_control_volume_usage },
	{ "volume.use", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_MANY, mt_control_volume_use },
	{ "volume.delete", true, true, MT_RIGHT_ALTER, MT_NAMES_NAME, mt_control_volume_delete },
	{ "volume.attach", true, true, MT_RIGHT_VOLUME_WRITE, MT_NAMES_NAME,
	    mt_control_volume_attach },
	{ "volume.detach", true, true, MT_RIGHT_VOLUME_READ, MT_NAMES_ID,
	    mt_control_volume_detach },
	{ "volume.open", false, true, MT_RIGHT_VOLUME_READ, MT_NAMES_NAME, mt_control_volume_open },
	{ "volume.holder", false, false, MT_RIGHT_PEER, MT_NAMES_NONE, mt_control_volume_holder },
	{ "volume.flatten", true, true, MT_RIGHT_ALTER, MT_NAMES_NAME, mt_control_volume_flatten },
	{ "volume.rename", true, true, MT_RIGHT_ALTER, MT_NAMES_BOTH, mt_control_volume_rename },
	{ "volume.reads", true, true, MT_RIGHT_ALTER, MT_NAMES_NAME, mt_control_volume_reads },
	{ "volume.resize", true, true, MT_RIGHT_ALTER, MT_NAMES_NAME, mt_control_volume_resize },
	{ "volume.rotate_key", true, true, MT_RIGHT_ALTER, MT_NAMES_NAME,
	    mt_control_volume_rotate_key },
	{ "volume.set", true, true, MT_RIGHT_ALTER, MT_NAMES_NAME, mt_control_volume_set },
	{ "volume.limits", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_ID,
	    mt_control_volume_limits },
	{ "volume.nodes", false, true, MT_RIGHT_VOLUME_READ, MT_NAMES_ID, mt_control_volume_nodes },
	{ "snapshot.create", true, true, MT_RIGHT_SNAPSHOT, MT_NAMES_NAME,
	    mt_control_snapshot_create },
	{ "snapshot.group", true, true, MT_RIGHT_SNAPSHOT, MT_NAMES_LIST,
	    mt_control_snapshot_group },
	{ "snapshot.list", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_MANY,
	    mt_control_snapshot_list },
	{ "snapshot.show", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_NAME,
	    mt_control_snapshot_show },
	{ "snapshot.delete", true, true, MT_RIGHT_SNAPSHOT, MT_NAMES_NAME,
	    mt_control_snapshot_delete },
	{ "snapshot.protect", true, true, MT_RIGHT_SNAPSHOT, MT_NAMES_NAME,
	    mt_control_snapshot_protect },
	{ "snapshot.unprotect", true, true, MT_RIGHT_SNAPSHOT, MT_NAMES_NAME,
	    mt_control_snapshot_unprotect },
	{ "snapshot.rename", true, true, MT_RIGHT_SNAPSHOT, MT_NAMES_NAME,
	    mt_control_snapshot_rename },
	{ "snapshot.rollback", true, true, MT_RIGHT_ROLLBACK, MT_NAMES_NAME,
	    mt_control_snapshot_rollback },
	{ "trash.list", false, true, MT_RIGHT_VOLUME_LOOK, MT_NAMES_MANY, mt_control_trash_list },
	{ "trash.restore", true, true, MT_RIGHT_ALTER, MT_NAMES_TRASH, mt_control_trash_restore },
	{ "trash.purge", true, true, MT_RIGHT_ALTER, MT_NAMES_TRASH, mt_control_trash_purge },
	{ "clone", true, true, MT_RIGHT_CLONE, MT_NAMES_BOTH, mt_control_clone },
	{ "cluster.level", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, mt_control_cluster_level },
	{ "cluster.upgrade", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE,
	    mt_control_cluster_upgrade },
	{ "cluster.rebalance", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE,
	    mt_control_rebalance },
	{ "cut", false, false, MT_RIGHT_PEER, MT_NAMES_NONE, mt_control_cut },
	{ "map", false, false, MT_RIGHT_FIND, MT_NAMES_NONE, control_map },
	{ "gateways", false, false, MT_RIGHT_FIND, MT_NAMES_NONE, control_gateways },
	{ "gateway.drain", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_gateway_drain },
	{ "gateway.undrain", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE,
	    mt_control_gateway_undrain },
	{ "gateway.set", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_gateway_set },
	{ "gateway.load", false, false, MT_RIGHT_PEER, MT_NAMES_NONE, mt_control_gateway_load },
	{ "gateway.reach", false, false, MT_RIGHT_PEER, MT_NAMES_NONE, mt_control_gateway_reach },
	{ "limits.use", false, false, MT_RIGHT_PEER, MT_NAMES_NONE, mt_control_limits_use },
	{ "node.list", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, control_nodes },
	{ "node.add", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_add },
	{ "node.set", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_set },
	{ "node.drain", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_drain },
	{ "node.undrain", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_undrain },
	{ "node.remove", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_remove },
	{ "node.show", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, mt_control_node_show },
	{ "node.usage", false, false, MT_RIGHT_PEER, MT_NAMES_NONE, mt_control_node_usage },
	{ "node.find", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_find },
	{ "node.reserve", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_node_reserve },
	{ "key.publish", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_key_publish },
	{ "user.list", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_user_list },
	{ "user.show", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_user_show },
	{ "user.add", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_user_add },
	{ "user.set", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_user_set },
	{ "user.remove", true, true, MT_RIGHT_CLUSTER, MT_NAMES_NONE, mt_control_user_remove },
	{ "status", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, control_status },
	{ "waits", false, false, MT_RIGHT_FIND, MT_NAMES_NONE, control_waits },
	{ "health", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, mt_control_health },
	{ "events", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, mt_control_events },
	{ "slow", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, mt_control_slow },
	{ "rates", false, false, MT_RIGHT_LOOK, MT_NAMES_NONE, mt_control_rates },
	{ "scrub", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE, control_scrub },
	{ "sweep", false, false, MT_RIGHT_CLUSTER, MT_NAMES_NONE, control_sweep },
};

const struct mt_control_op *
mt_control_op_at(uint32_t index)
{
	return index < NUM_COUNT(control_ops) ? &control_ops[index] : NULL;
}

static const struct mt_control_op *
control_op_of(struct mt_control_request *request, char error[MT_ERROR_BYTES])
{
	json_error_t where;
	const char *name;

	assert(request->in == NULL && request->sm.state == MT_CONTROL_TAKEN);
	request->in =
	    json_loadb(request->text, request->text_bytes, JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(request->in)) {
		(void)snprintf(error, MT_ERROR_BYTES, "not a JSON object: %.150s",
		    request->in == NULL ? where.text : "another value");
		return NULL;
	}
	mt_control_take_by(request);
	name = json_string_value(json_object_get(request->in, "op"));
	if (name == NULL) {
		(void)snprintf(error, MT_ERROR_BYTES, "op: missing, or not a string");
		return NULL;
	}
	for (size_t i = 0; i < NUM_COUNT(control_ops); i++) {
		if (strcmp(control_ops[i].name, name) == 0)
			return &control_ops[i];
	}
	(void)snprintf(error, MT_ERROR_BYTES, "op: '%.64s' is unknown", name);
	return NULL;
}

/* Another gateway that looks for itself learns whom it has found (own_address.c). */
static void
control_fail_starting(struct mt_control_request *request)
{
	json_t *answer = json_pack("{s:s}", "error", "the gateway is starting or stopping");

	assert(request->sm.state == MT_CONTROL_TAKEN);
	mt_peer_tell(request->gateway, answer);
	mt_control_fail_json(request, -EHOSTDOWN, answer);
}

/* On main: a request has come, and is a text so far. */
static void
control_begin(struct mt_control_request *request)
{
	const struct mt_gateway *gateway = request->gateway;
	char error[MT_ERROR_BYTES];
	const struct mt_control_op *op = control_op_of(request, error);

	assert(request->sm.state == MT_CONTROL_TAKEN);
	if (op == NULL)
		mt_control_fail(request, -EINVAL, error);
	else if (!gateway->volumes.is_loaded || !mt_revoked_is_ready(gateway) ||
	    gateway->sm.state >= MT_GATEWAY_FAILED)
		control_fail_starting(request);
	else
		mt_control_run(request, op);
}

void
mt_control_on_message(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control)
{
	assert(session != NULL && msg != NULL);
	mt_control_take(session, msg, control, control_begin);
}
