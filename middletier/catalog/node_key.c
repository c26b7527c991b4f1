/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_key.c -- a storage node as the cluster knows it: the keys "nodes/NNNNNNNNNN", read and written
 *
 *	{"format":1,"state":"in","address":"tcp://10.0.0.5:7201","domain":"dc1/rack2/host5","weight":100,
 *	 "disk":"0a1b...","added_s":1790000000,"maintenance_until_s":0,"note":""}
 *
 * What is not listed here is refused: a node that is not understood may be one that must not be used.
 */
#include "catalog/node_key.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/domain.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"

#define NODE_FORMAT 1u
#define NODE_DIGITS 10u

static const char *const node_states[MT_NODE_STATE_NR] = {
	[MT_NODE_IN] = "in",
	[MT_NODE_DRAINING] = "draining",
	[MT_NODE_OUT] = "out",
	[MT_NODE_LOST] = "lost",
};

const char *
mt_node_state_name(enum mt_node_state state)
{
	assert(state < MT_NODE_STATE_NR);
	return node_states[state];
}

void
mt_node_key(char out[MT_NODE_KEY_BYTES], uint32_t id)
{
	assert(id != 0);
	(void)snprintf(out, MT_NODE_KEY_BYTES, MT_NODE_PREFIX "%010" PRIu32, id);
}

/* ---- encode ---- */

char *
mt_node_encode(const struct mt_node *node)
{
	json_t *object;
	char *text;

	assert(node->id != 0 && node->address[0] != '\0' && domain_is_valid(node->domain));
	assert(node->weight > 0 && node->weight <= MT_NODE_WEIGHT_MAX);
	assert(node->state < MT_NODE_STATE_NR);
	object = json_pack("{s:i, s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:s}", "format",
	    (int)NODE_FORMAT, "state", mt_node_state_name(node->state), "address", node->address,
	    "domain", node->domain, "weight", (int)node->weight, "disk", node->disk, "added_s",
	    (json_int_t)node->added_s, "maintenance_until_s", (json_int_t)node->maintenance_until_s,
	    "note", node->note);
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* ---- decode ---- */

static int
node_decode_key(const char *key, uint32_t *ret_id)
{
	const char *digits = key + strlen(MT_NODE_PREFIX);
	uint64_t id = 0;

	assert(strncmp(key, MT_NODE_PREFIX, strlen(MT_NODE_PREFIX)) == 0);
	if (strlen(digits) != NODE_DIGITS)
		return -EINVAL;
	for (uint32_t i = 0; i < NODE_DIGITS; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return -EINVAL;
		id = id * 10 + (uint64_t)(digits[i] - '0');
	}
	if (id == 0 || id > UINT32_MAX)
		return -EINVAL;
	*ret_id = (uint32_t)id;
	return 0;
}

static int
node_decode_state(const char *text, enum mt_node_state *ret_state)
{
	for (uint32_t i = 0; i < MT_NODE_STATE_NR; i++) {
		if (strcmp(text, node_states[i]) == 0) {
			*ret_state = (enum mt_node_state)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* The members' texts, checked for length by their reader, into @node. NULL, or the member that is wrong. */
static const char *
node_take_texts(struct mt_node *node, const char *state, const char *address, const char *domain,
    const char *disk, const char *note)
{
	assert(strlen(address) < sizeof(node->address) && strlen(disk) < sizeof(node->disk));
	if (node_decode_state(state, &node->state) != 0)
		return "state: must be one of in, draining, out, lost";
	if (address[0] == '\0')
		return "address: must not be empty";
	if (!domain_is_valid(domain))
		return "domain: must be up to four names with / between them";
	(void)snprintf(node->address, sizeof(node->address), "%s", address);
	(void)snprintf(node->domain, sizeof(node->domain), "%s", domain);
	(void)snprintf(node->disk, sizeof(node->disk), "%s", disk);
	(void)snprintf(node->note, sizeof(node->note), "%s", note);
	return NULL;
}

int
mt_node_decode(const char *key, const void *value, uint32_t bytes, struct mt_node *ret_node,
    const char **ret_field)
{
	struct mt_node node = { .version = ret_node->version };
	uint64_t format = 0, weight = 0;
	const char *state = NULL, *address = NULL, *domain = NULL, *disk = NULL, *note = NULL;
	const struct reader_member members[] = {
		{ "format", READER_U64, true, NODE_FORMAT, NODE_FORMAT, { .u64 = &format } },
		{ "state", READER_TEXT, true, 0, 0, { .text = &state } },
		{ "address", READER_TEXT, true, 0, sizeof(node.address) - 1, { .text = &address } },
		{ "domain", READER_TEXT, true, 0, sizeof(node.domain) - 1, { .text = &domain } },
		{ "weight", READER_U64, true, 1, MT_NODE_WEIGHT_MAX, { .u64 = &weight } },
		{ "disk", READER_TEXT, true, 0, sizeof(node.disk) - 1, { .text = &disk } },
		{ "added_s", READER_U64, true, 0, INT64_MAX, { .u64 = &node.added_s } },
		{ "maintenance_until_s", READER_U64, true, 0, INT64_MAX,
		    { .u64 = &node.maintenance_until_s } },
		{ "note", READER_TEXT, true, 0, sizeof(node.note) - 1, { .text = &note } },
	};
	json_t *object;
	int rc = mt_json_load(value, bytes, members, NUM_COUNT(members), &object, ret_field);

	if (rc == 0) {
		*ret_field = node_take_texts(&node, state, address, domain, disk, note);
		rc = *ret_field == NULL ? 0 : -EINVAL;
	}
	json_decref(object);
	if (rc == 0 && node_decode_key(key, &node.id) != 0) {
		*ret_field = "the key: must be the prefix and ten digits";
		rc = -EINVAL;
	}
	if (rc != 0)
		return rc;
	node.weight = (uint32_t)weight;
	*ret_node = node;
	return 0;
}
