/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_revoked.c -- see rebuild_revoked.h
 *
 *	{"op":"revoked"} --> each node that was listed --> {"lists":PEM} --> signed by an authority of our key: added to it
 *	                                                                       all that it has then --> the store's "revoked"
 */
#include "rebuild/rebuild_revoked.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/level.h"
#include "cleave/secure.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/revoked.h"
#include "common/alloc.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "rebuild/rebuild_copy.h"
#include "rebuild/rebuild_nodes.h"
#include "rebuild/rebuild_store.h"

static const char revoked_text[] = "{\"op\":\"revoked\"}";
#define REVOKED_TEXT_BYTES ((uint32_t)sizeof(revoked_text) - 1)
#define REVOKED_ANSWER_BYTES_MAX 65536u

/* 0: all of them are known now; -ENOMEM; -EKEYREJECTED: not all are believed, and @why names one. */
static int
revoked_add(struct mt_rebuild_nodes *nodes, const char *lists, size_t bytes, char *why)
{
	struct split_key *next = split_key_revoke(nodes->key, lists, bytes, why);

	assert(bytes > 0);
	if (next == NULL)
		return errno == EALREADY || errno == ESTALE ? 0
		    : errno == ENOMEM                       ? -ENOMEM
							    : -EKEYREJECTED;
	split_key_free(nodes->key);
	nodes->key = next;
	return why[0] == '\0' ? 0 : -EKEYREJECTED;
}

/* A negative errno: it is not known what the node has. */
static int
revoked_read(struct mt_rebuild_node *node, struct split_msg *msg)
{
	struct mt_rebuild_nodes *nodes = node->nodes;
	char why[SPLIT_KEY_WHY_BYTES_MAX] = "";
	const char *lists;
	json_t *answer;
	char *text;
	int rc = 0;

	if (msg == NULL || msg->payload_bytes == 0 || msg->payload_bytes > REVOKED_ANSWER_BYTES_MAX)
		return -EPROTO;
	text = mt_calloc(1, msg->payload_bytes);
	if (text == NULL)
		return -ENOMEM;
	dev_copy_to_host(nodes->port->split, text, msg->payload, msg->payload_bytes);
	answer = json_loadb(text, msg->payload_bytes, JSON_REJECT_DUPLICATES, NULL);
	lists = json_string_value(json_object_get(answer, "lists"));
	if (lists == NULL)
		rc = -EPROTO;
	else if (lists[0] != '\0')
		rc = revoked_add(nodes, lists, strlen(lists), why);
	nodes->revoked_count += rc == 0 && lists[0] != '\0' ? 1 : 0;
	json_decref(answer);
	mt_free(text);
	if (rc == -EKEYREJECTED)
		log_warn("recover: node %" PRIu32
			 ": its lists of revoked keys are not all taken: %s",
		    node->node_id, why);
	return rc == -EKEYREJECTED ? 0 : rc;
}

static void
revoked_untold(const struct mt_rebuild_node *node, int rc)
{
	log_warn("recover: node %" PRIu32 ": does not say which keys were revoked rc=%s",
	    node->node_id, log_errno(rc));
}

static void
revoked_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_rebuild_node *node = arg;

	(void)reply;
	assert(call == &node->call);
	dev_free(node->nodes->port->split, call->pieces[0].ptr);
	if (rc == 0)
		rc = revoked_read(node, msg);
	if (msg != NULL)
		split_msg_release(msg);
	if (rc != 0)
		revoked_untold(node, rc);
	node->on_revoked(node);
}

int
mt_rebuild_revoked_ask(struct mt_rebuild_node *node, void (*fn)(struct mt_rebuild_node *node))
{
	struct split_port *split = node->nodes->port->split;
	dev_ptr payload;
	int rc;

	assert(node->nodes->key != NULL && fn != NULL);
	payload = node->link->agreed_level < CLEAVE_LEVEL_REVOKED
	    ? DEV_PTR_NULL
	    : dev_alloc(split, REVOKED_TEXT_BYTES);
	rc = node->link->agreed_level < CLEAVE_LEVEL_REVOKED ? -ENOTSUP
	    : dev_ptr_is_null(payload)                       ? -ENOMEM
							     : 0;
	if (rc == 0) {
		dev_copy_from_host(split, payload, revoked_text, REVOKED_TEXT_BYTES);
		node->on_revoked = fn;
		node->call = (struct mt_call){ .request = { .opcode = WIRE_CONTROL },
			.pieces = { { .ptr = payload, .bytes = REVOKED_TEXT_BYTES } },
			.piece_count = 1,
			.fn = revoked_on_answer,
			.arg = node };
		rc = mt_link_call(node->link, &node->call);
		if (rc != 0)
			dev_free(split, payload);
	}
	if (rc != 0)
		revoked_untold(node, rc);
	return rc;
}

static const struct mt_rebuild_key *
store_revoked(const struct mt_rebuild_store *store)
{
	for (uint32_t i = 0; i < store->old_count; i++) {
		if (strcmp(store->old[i].key, MT_REVOKED_KEY) == 0)
			return &store->old[i];
	}
	return NULL;
}

/* *@ret_lists: what all of them have together, nodes->key's; NULL: @old stays. 0; -ENOMEM. */
static int
revoked_join(struct mt_rebuild_nodes *nodes, const char *old, size_t old_bytes,
    const char **ret_lists)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	const char *lists;
	size_t bytes;

	int rc = 0;

	*ret_lists = NULL;
	if (nodes->key == NULL)
		return 0;
	if (old_bytes > 0)
		rc = revoked_add(nodes, old, old_bytes, why);
	if (rc == -EKEYREJECTED) {
		/* Lists that the key does not believe would be lost. */
		log_warn(
		    "recover: the lists of revoked keys are not all of an authority that this key "
		    "knows, and stay as they are, without those of the nodes: %s: give the "
		    "cluster the newest list again (cleave key publish), or who is on it may be "
		    "let in",
		    why);
		return 0;
	}
	if (rc != 0)
		return rc;
	lists = split_key_revoked(nodes->key, &bytes);
	if (bytes == 0)
		log_warn("recover: no node has a list of revoked keys: where keys were revoked, "
			 "give the cluster the list again (cleave key publish)");
	else if (bytes != old_bytes || memcmp(lists, old, bytes) != 0)
		*ret_lists = lists;
	return 0;
}

static void
revoked_tell(const struct mt_rebuild_nodes *nodes)
{
	log_info("recover: lists of revoked keys are those of the nodes nodes=%" PRIu32,
	    nodes->revoked_count);
}

int
mt_rebuild_revoked_plan(struct mt_rebuild_nodes *nodes, struct mt_rebuild_store *store)
{
	const struct mt_rebuild_key *old = store_revoked(store);
	const char *lists, *old_text = old == NULL ? "" : old->text;
	char *text;
	int rc = revoked_join(nodes, old_text, strlen(old_text), &lists);

	if (rc != 0 || lists == NULL)
		return rc;
	revoked_tell(nodes);
	text = strdup(lists); /* for free(), as jansson's are */
	return text == NULL ? -ENOMEM : mt_rebuild_store_plan_key(store, MT_REVOKED_KEY, text);
}

int
mt_rebuild_revoked_copy(struct mt_rebuild_nodes *nodes, const struct mt_rebuild_copy *copy,
    const char **ret_lists)
{
	const struct mt_key *old = mt_keys_find(copy->source, MT_REVOKED_KEY);
	int rc = revoked_join(nodes, old == NULL ? "" : old->value,
	    old == NULL ? 0 : old->value_bytes, ret_lists);

	if (rc != 0 || *ret_lists == NULL)
		return rc;
	if (copy->is_left)
		log_warn("recover: nodes have lists of revoked keys that the copy lacks: give the "
			 "cluster the list again (cleave key publish), or who is on it is let in");
	else
		revoked_tell(nodes);
	return 0;
}
