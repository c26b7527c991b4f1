/* SPDX-License-Identifier: Apache-2.0 */
/* manage_node.c -- storage nodes are added, changed, and leave */
#include <errno.h>

#include "base/check.h"
#include "manage.h"

static void
node_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	struct cleave_node_entry *entry = ret_entry;

	entry->id = reader_u64(reader, object, "id", INT64_MAX);
	reader_text(reader, object, "address", entry->address, sizeof(entry->address));
	reader_text(reader, object, "member", entry->member, sizeof(entry->member));
	reader_cut(object, "domain", entry->domain, sizeof(entry->domain));
	reader_cut(object, "note", entry->note, sizeof(entry->note));
	entry->weight = (uint32_t)reader_u64(reader, object, "weight", UINT32_MAX);
}

static void
node_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert(rc != 0 || answer->count == 1);
	ask->fn.nodes(ask, rc, rc == 0 ? answer->entries : NULL, rc == 0 ? 1 : 0, error, ask->arg);
}

static const struct cleave_ask_kind manage_node = {
	.one = "node",
	.entry_bytes = sizeof(struct cleave_node_entry),
	.read = node_read,
	.deliver = node_deliver,
};

static const struct ask_op node_ops[] = {
	[CLEAVE_NODE_ADD] = { "node.add", &manage_node, true },
	[CLEAVE_NODE_SET] = { "node.set", &manage_node, true },
	[CLEAVE_NODE_DRAIN] = { "node.drain", &manage_node, true },
	[CLEAVE_NODE_UNDRAIN] = { "node.undrain", &manage_node, true },
	[CLEAVE_NODE_REMOVE] = { "node.remove", &manage_node, true },
	[CLEAVE_NODE_LOSE] = { "node.remove", &manage_node, true },
};

static int
change_check(const struct cleave_node_change *change)
{
	if ((unsigned)change->action > CLEAVE_NODE_LOSE)
		return -EINVAL;
	if (change->action == CLEAVE_NODE_ADD)
		return change->address != NULL ? 0 : -EINVAL;
	return change->id != 0 && change->id <= UINT32_MAX ? 0 : -EINVAL;
}

static json_t *
change_request(const struct cleave_node_change *change)
{
	assert(change_check(change) == 0);
	json_t *request = ask_request(&node_ops[change->action]);
	bool is_described = change->action == CLEAVE_NODE_ADD || change->action == CLEAVE_NODE_SET;

	if (change->action != CLEAVE_NODE_ADD)
		ask_add(&request, "node", json_integer((json_int_t)change->id));
	if (is_described && change->address != NULL)
		ask_add_text(&request, "address", change->address);
	if (is_described && change->domain != NULL)
		ask_add_text(&request, "domain", change->domain);
	if (is_described && change->note != NULL)
		ask_add_text(&request, "note", change->note);
	if (is_described && change->weight != 0)
		ask_add(&request, "weight", json_integer(change->weight));
	if (change->action == CLEAVE_NODE_SET && change->has_maintenance)
		ask_add(&request, "maintenance_s", json_integer((json_int_t)change->maintenance_s));
	if (change->action == CLEAVE_NODE_LOSE)
		ask_add(&request, "lost", json_true());
	if (change->is_forced && change->action != CLEAVE_NODE_ADD)
		ask_add(&request, "force", json_true());
	return request;
}

int
cleave_node_change(struct cleave_client *client, struct cleave_ask *ask,
    const struct cleave_node_change *change, cleave_nodes_fn fn, void *arg)
{
	int rc = change_check(change);

	if (rc != 0)
		return rc;
	ask->fn.nodes = fn;
	ask->arg = arg;
	return ask_start(client, ask, &node_ops[change->action], change_request(change));
}

int
cleave_node_change_wait(struct cleave *cleave, const struct cleave_node_change *change,
    struct cleave_node_entry *ret_node, char *ret_error)
{
	int rc = change_check(change);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &node_ops[change->action], change_request(change), ret_node,
	    ret_error);
}
