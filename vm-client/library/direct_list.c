/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_list.c -- at which storage nodes a volume may be read, as a gateway says ("volume.nodes")
 *
 * Asked for when the volume is opened, and when something is other than it was known, no more than once in
 * DIRECT_ASK_NS. A node that is not named any more, or elsewhere now, loses its connection. The call is the client's, for
 * one volume at a time: a volume that is closed does not wait for it.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/reader.h"
#include "direct.h"
#include "internal.h"

#define DIRECT_ASK_NS NUM_S(5)
#define NODES_TEXT_BYTES (80u + DIRECT_NODES_MAX * 11u) /* an id and a comma each */

/* NULL: there is no room for it, or no memory. */
static struct direct_node *
node_of_id(struct direct *direct, uint32_t id)
{
	uint32_t at = 0;

	while (at < DIRECT_NODES_MAX && direct->nodes[at] != NULL && direct->nodes[at]->id != id)
		at++;
	if (at == DIRECT_NODES_MAX || direct->nodes[at] != NULL)
		return at == DIRECT_NODES_MAX ? NULL : direct->nodes[at];
	direct->nodes[at] = direct_node_create(direct, id);
	return direct->nodes[at];
}

/* The node is said to be elsewhere: what failed where it was says nothing of that, also where a gateway has just been told so. */
static void
node_move(struct direct_node *node)
{
	struct direct *direct = node->direct;

	direct_node_close(node);
	direct->is_word_void |= node->dials_failed >= DIRECT_UNREACHED_DIALS;
	node->dials_failed = node->failures_in_row = 0;
	node->left_out_until_ns = 0;
}

static void
nodes_take_one(struct direct *direct, struct reader *reader, const json_t *object)
{
	char address[SPLIT_ADDRESS_BYTES_MAX] = "";
	uint32_t id = (uint32_t)reader_range(reader, object, "id", 1, UINT32_MAX);
	struct direct_node *node;

	reader_text(reader, object, "address", address, sizeof(address));
	node = reader->field == NULL ? node_of_id(direct, id) : NULL;
	if (node == NULL)
		return;
	if (strcmp(node->address, address) != 0)
		node_move(node);
	memcpy(node->address, address, sizeof(address));
	node->is_listed = true;
}

static void
nodes_take(struct direct *direct, const char *reply)
{
	struct reader reader = { 0 };
	json_t *root = reader_load(&reader, reply, strlen(reply));
	const json_t *list = root == NULL ? NULL
					  : reader_array(&reader, root, "nodes", 0, UINT32_MAX);

	for (uint32_t i = 0; list != NULL && i < DIRECT_NODES_MAX && direct->nodes[i] != NULL; i++)
		direct->nodes[i]->is_listed = false;
	for (size_t i = 0; list != NULL && i < json_array_size(list); i++)
		nodes_take_one(direct, &reader, json_array_get(list, i));
	for (uint32_t i = 0; i < DIRECT_NODES_MAX && direct->nodes[i] != NULL; i++) {
		if (!direct->nodes[i]->is_listed)
			direct_node_close(direct->nodes[i]);
	}
	json_decref(root);
}

static void
nodes_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_client *client = arg;
	struct cleave_volume *volume = client->nodes_of;

	(void)error; /* what is not known is read at the gateway, and asked for again */
	assert(call == &client->nodes_call && client->is_nodes_call_out);
	(void)call;
	client->is_nodes_call_out = false;
	client->nodes_of = NULL;
	if (rc != 0 || volume == NULL || volume->direct == NULL || volume->direct->is_closing)
		return;
	volume->direct->is_word_void = false;
	nodes_take(volume->direct, reply);
	if (volume->direct->is_word_void) {
		volume->direct->asked_ns = 0; /* at once: people read what was said */
		direct_nodes_ask(volume->direct);
	}
}

/* Nodes that could not be connected to are named: gateways see nothing of that. */
static void
nodes_ask_write(const struct direct *direct, char text[NODES_TEXT_BYTES])
{
	const char *before = ",\"unreached\":[";
	int used = snprintf(text, NODES_TEXT_BYTES, "{\"op\":\"volume.nodes\",\"id\":%" PRIu64,
	    direct->volume->info.id);

	for (uint32_t i = 0; i < DIRECT_NODES_MAX && direct->nodes[i] != NULL; i++) {
		const struct direct_node *node = direct->nodes[i];

		if (!node->is_listed || node->dials_failed < DIRECT_UNREACHED_DIALS)
			continue;
		used += snprintf(text + used, NODES_TEXT_BYTES - (size_t)used, "%s%" PRIu32, before,
		    node->id);
		before = ",";
	}
	(void)snprintf(text + used, NODES_TEXT_BYTES - (size_t)used, "%s}",
	    before[1] == '\0' ? "]" : "");
}

void
direct_nodes_ask(struct direct *direct)
{
	struct cleave_client *client = direct->volume->client;
	uint64_t now_ns = loop_now_ns(client->loop);
	char text[NODES_TEXT_BYTES];

	if (client->is_nodes_call_out || direct->is_closing ||
	    (direct->asked_ns != 0 && now_ns - direct->asked_ns < DIRECT_ASK_NS))
		return;
	direct->asked_ns = now_ns;
	nodes_ask_write(direct, text);
	client->nodes_call = (struct cleave_call){ .fn = nodes_on_answer, .arg = client };
	client->is_nodes_call_out = cleave_control(client, &client->nodes_call, text) == 0;
	client->nodes_of = client->is_nodes_call_out ? direct->volume : NULL;
}

bool
direct_nodes_close(struct direct *direct)
{
	bool is_open = false;

	direct->is_closing = true;
	for (uint32_t i = 0; i < DIRECT_NODES_MAX && direct->nodes[i] != NULL; i++) {
		direct_node_close(direct->nodes[i]);
		is_open |= direct->nodes[i]->sm.state != DIRECT_NODE_DOWN;
	}
	return is_open;
}

void
direct_nodes_fini(struct direct *direct)
{
	struct cleave_client *client = direct->volume->client;

	if (client->nodes_of == direct->volume)
		client->nodes_of = NULL;
	for (uint32_t i = 0; i < DIRECT_NODES_MAX && direct->nodes[i] != NULL; i++)
		direct_node_destroy(direct->nodes[i]);
}
