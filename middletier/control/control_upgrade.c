/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_upgrade.c -- the cluster's level (cleave/level.h): whether it can be raised, and that it is
 *
 *	cluster.level:    ask our ports --> judge --> answer
 *	cluster.upgrade:  read "cluster" --> list "gateways/" --> ask our ports --> judge --> compare-and-swap
 *	                                                                    answer <-- read it anew <--'
 *
 * Invariant: the key is raised by one, and only when every gateway whose key was there and every node spoke the
 * next, after the request had come.
 *
 * A node is judged by the level that a port of ours has agreed on with it, on a connection that is up: its process
 * answers every gateway alike, so one gateway that reaches it is enough. What a node spoke before it went away says
 * nothing: another release may come back.
 *
 * A gateway that starts meanwhile is not asked. It reads the key again between a claim and the first answer of that
 * shard (volume_refresh.c), and fails where it does not speak what it finds.
 */
#include "control/control_upgrade.h"

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
#include "catalog/cluster_key.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/own_address.h"
#include "cluster/peer.h"
#include "control/control_allow.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "port/port_status.h"

/* So many of those who do not speak it are named in a sentence, the others are counted. */
#define UPGRADE_NAMED_MAX 3u
#define UPGRADE_WHO_BYTES 160u

/* A question: may the level become @next? */
struct upgrade {
	const struct mt_gateway *gateway;
	const struct mt_ask *ask;
	const json_t *without; /* nodes that may be left behind: addresses, numbers; or NULL */
	uint32_t level, next;  /* next 0: nobody speaks more */
	json_t *missing;       /* texts: who does not speak it; NULL: out of memory */
	uint32_t left_count;   /* nodes left behind */
};

/* ---- judging ---- */

static void __attribute__((format(printf, 2, 3)))
upgrade_miss(struct upgrade *upgrade, const char *format, ...)
{
	char who[UPGRADE_WHO_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(who, sizeof(who), format, args); /* cut where too long */
	va_end(args);
	if (upgrade->missing != NULL &&
	    json_array_append_new(upgrade->missing, json_string(who)) != 0) {
		json_decref(upgrade->missing);
		upgrade->missing = NULL;
	}
}

static void
upgrade_judge_gateway(struct upgrade *upgrade, uint64_t gateway_id, uint32_t min, uint32_t max)
{
	assert(min <= max);
	if (upgrade->next < min || upgrade->next > max)
		upgrade_miss(upgrade, "gateway %" PRIu64 " speaks %" PRIu32 " to %" PRIu32,
		    gateway_id, min, max);
}

static void
upgrade_judge_self(struct upgrade *upgrade)
{
	assert(upgrade->next != 0);
	upgrade_judge_gateway(upgrade, upgrade->gateway->options.gateway_id, CLEAVE_LEVEL_MIN,
	    mt_member_level_max(upgrade->gateway));
}

/* As they were seen last. */
static void
upgrade_judge_peers(struct upgrade *upgrade)
{
	const struct mt_gateway *gateway = upgrade->gateway;

	assert(upgrade->next != 0);
	for (uint32_t i = 0; i < gateway->member.peer_count; i++) {
		const struct mt_member_peer *peer = &gateway->member.peers[i];

		if (peer->gateway_id != gateway->options.gateway_id)
			upgrade_judge_gateway(upgrade, peer->gateway_id, peer->level_min,
			    peer->level_max);
	}
}

/* As they are: a key that cannot be read is of a release that we know nothing of. */
static void
upgrade_judge_key(struct upgrade *upgrade, const struct meta_item *item)
{
	struct mt_member_peer peer = { .gateway_id = 0 };
	char own[MT_MEMBER_KEY_BYTES];
	const char *field;

	assert(upgrade->next != 0);
	mt_member_key(own, upgrade->gateway->options.gateway_id);
	if (strcmp(item->key, own) == 0)
		return;
	if (mt_member_decode(item->value, item->value_bytes, &peer, &field) == 0)
		upgrade_judge_gateway(upgrade,
		    strtoull(item->key + strlen(META_LEASED_PREFIX), NULL, 10), peer.level_min,
		    peer.level_max);
	else
		upgrade_miss(upgrade, "%.64s cannot be read", item->key);
}

/* The best of our ports' links to the node, of those that are up; its level is 0 when none is. */
static struct mt_link_status
upgrade_link(const struct upgrade *upgrade, uint32_t index)
{
	struct mt_link_status best = { 0 };

	assert(upgrade->ask->left_count == 0);
	for (uint32_t i = 0; i < upgrade->gateway->port_count; i++) {
		const struct mt_port_status *port = &upgrade->ask->legs[i].status;
		struct mt_link_status link;

		if (port->links == NULL || index >= port->link_count)
			continue;
		link = port->links[index];
		if (!link.is_up)
			link.level = 0;
		if (link.level > best.level || best.node_id == 0)
			best = link;
	}
	return best;
}

/* Does an entry of "without" name the node? By its address, or by its number where that is known. */
static bool
upgrade_is_without(const struct upgrade *upgrade, const char *address, uint32_t node_id)
{
	const json_t *entry;
	char number[16];
	size_t i;

	assert(address[0] != '\0');
	(void)snprintf(number, sizeof(number), "%" PRIu32, node_id);
	json_array_foreach(upgrade->without, i, entry)
	{
		const char *text = json_string_value(entry);

		if (text != NULL &&
		    (strcmp(text, address) == 0 || (node_id != 0 && strcmp(text, number) == 0)))
			return true;
	}
	return false;
}

static void
upgrade_judge_node(struct upgrade *upgrade, uint32_t index)
{
	const char *address = upgrade->gateway->options.nodes[index].address;
	struct mt_link_status link = upgrade_link(upgrade, index);
	char name[24] = "node";

	assert(index < MT_NODES_MAX);
	if (link.level >= upgrade->next)
		return;
	if (link.node_id != 0)
		(void)snprintf(name, sizeof(name), "node %" PRIu32, link.node_id);
	if (link.level != 0)
		upgrade_miss(upgrade, "%s at %s speaks %" PRIu32, name, address, link.level);
	else if (upgrade_is_without(upgrade, address, link.node_id))
		upgrade->left_count++;
	else
		upgrade_miss(upgrade, "%s at %s is not up, and what it speaks not known", name,
		    address);
}

/* The level above ours, where somebody has heard of it. */
static uint32_t
upgrade_next(const struct mt_gateway *gateway)
{
	uint32_t next = (uint32_t)num_max(gateway->cluster.level, CLEAVE_LEVEL_MIN) + 1;
	bool is_spoken = next <= mt_member_level_max(gateway);

	for (uint32_t i = 0; i < gateway->member.peer_count; i++)
		is_spoken = is_spoken || next <= gateway->member.peers[i].level_max;
	return is_spoken ? next : 0;
}

static void
upgrade_judge_nodes(struct upgrade *upgrade, const struct mt_ask *ask, const json_t *without)
{
	const struct mt_gateway *gateway = ask->gateway;

	assert(ask->kind == MT_ASK_STATUS && ask->left_count == 0);
	upgrade->ask = ask;
	upgrade->without = without;
	for (uint32_t i = 0; i < gateway->options.node_count && upgrade->next != 0; i++)
		upgrade_judge_node(upgrade, i);
}

/* upgrade->missing is the caller's. */
static void
upgrade_init(struct upgrade *upgrade, const struct mt_gateway *gateway)
{
	assert(gateway->cluster.level <= mt_member_level_max(gateway));
	*upgrade = (struct upgrade){ .gateway = gateway,
		.level = (uint32_t)num_max(gateway->cluster.level, CLEAVE_LEVEL_MIN),
		.next = upgrade_next(gateway) };
}

/* "gateway 2 speaks 1 to 1, node 3 at ... speaks 1 and 4 others". */
static void
upgrade_say(const struct upgrade *upgrade, char ret_text[MT_ERROR_BYTES])
{
	size_t count = json_array_size(upgrade->missing), used = 0;

	assert(count > 0);
	for (size_t i = 0; i < num_min(count, UPGRADE_NAMED_MAX); i++)
		used += (size_t)snprintf(ret_text + used, MT_ERROR_BYTES - used, "%s%.100s",
		    i == 0 ? "" : ", ", json_string_value(json_array_get(upgrade->missing, i)));
	if (count > UPGRADE_NAMED_MAX)
		(void)snprintf(ret_text + used, MT_ERROR_BYTES - used, " and %zu others",
		    count - UPGRADE_NAMED_MAX);
}

/* ---- requests ---- */

static bool
upgrade_take(struct mt_control_request *request)
{
	json_t *without = NULL;
	const char *self = NULL, *at = NULL;
	const struct reader_member members[] = {
		{ "without", READER_ARRAY, false, 0, MT_NODES_MAX, { .array = &without } },
		{ "self", READER_TEXT, false, 0, 0, { .text = &self } },
		{ "at", READER_TEXT, false, 0, SPLIT_ADDRESS_BYTES_MAX - 1, { .text = &at } },
	};
	/* The others are of a question alone. */
	uint32_t count = request->op->is_change ? 1 : NUM_COUNT(members);
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, members, count, error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		return true;
	mt_control_fail(request, rc, error);
	return false;
}

/* A gateway that looks for itself has come to us: believed where it has shown with its key that it is that one. */
static void
level_note_self(struct mt_control_request *request)
{
	const struct split_subject *subject = mt_control_subject(request);
	struct reader reader = { 0 };
	uint64_t id = reader_id(&reader, request->in, "self");
	const char *at = json_string_value(json_object_get(request->in, "at"));

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (id == 0 || at == NULL ||
	    (subject != NULL &&
		(subject->role != SPLIT_ROLE_GATEWAY || strtoull(subject->name, NULL, 10) != id)))
		return;
	mt_own_address_on_led(request->gateway, id, at);
}

static void
level_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	struct upgrade upgrade;
	json_t *answer;

	assert(ask->kind == MT_ASK_STATUS && ask->left_count == 0);
	upgrade_init(&upgrade, ask->gateway);
	upgrade.missing = json_array();
	if (upgrade.next != 0) {
		upgrade_judge_self(&upgrade);
		upgrade_judge_peers(&upgrade);
	}
	upgrade_judge_nodes(&upgrade, ask, json_object_get(request->in, "without"));
	answer = json_pack("{s:i, s:i, s:i, s:o}", "from", (int)upgrade.level, "level",
	    (int)upgrade.level, "next", (int)upgrade.next, "missing", upgrade.missing);
	/* For the gateway that looks whether we are there (health/health_peer.c), or finds us where it looks for itself
	 * (cluster/own_address.c); the first compares clocks. */
	mt_peer_tell(ask->gateway, answer);
	if (answer != NULL && ask->gateway->options.wall_ms != NULL)
		json_object_set_new(answer, "wall_ms",
		    json_integer((json_int_t)ask->gateway->options.wall_ms()));
	mt_control_finish(request, answer);
}

static void
upgrade_ask(struct mt_control_request *request, mt_ask_fn fn)
{
	int rc = mt_ask_ports(request->gateway, MT_ASK_STATUS, NULL, fn, request);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

void
mt_control_cluster_level(struct mt_control_request *request)
{
	assert(!request->op->is_change);
	if (!upgrade_take(request))
		return;
	level_note_self(request);
	upgrade_ask(request, level_on_asked);
}

/* The key was read anew: by us, by the one who was faster, or by hand. */
static void
upgrade_on_raised(struct mt_control_request *request)
{
	uint32_t level = request->gateway->cluster.level;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->change.level > CLEAVE_LEVEL_MIN);
	mt_control_finish(request,
	    json_pack("{s:i, s:i, s:i, s:[]}", "from", (int)request->change.level - 1, "level",
		(int)level, "next", (int)upgrade_next(request->gateway), "missing"));
}

static void
upgrade_raise(struct mt_control_request *request, const struct upgrade *upgrade)
{
	struct mt_cluster next = request->gateway->cluster;
	char *text, level[16], who[MT_EVENT_WHO_TEXT_BYTES];

	assert(upgrade->next == upgrade->level + 1);
	assert(upgrade->next <= CLEAVE_LEVEL_MAX);
	next.level = upgrade->next;
	(void)snprintf(level, sizeof(level), "%" PRIu32, upgrade->next);
	text = mt_cluster_encode(&next);
	{
		const struct meta_op ops[] = { mt_change_compare("cluster", next.version),
			mt_change_put("cluster", text), mt_change_put(MT_LEVEL_KEY, level) };

		log_info("gateway: raises the cluster's level from_level=%" PRIu32 " level=%" PRIu32
			 " nodes_left_behind=%" PRIu32 " %s",
		    upgrade->level, upgrade->next, upgrade->left_count,
		    mt_control_who(request, who));
		mt_control_change(request, ops, NUM_COUNT(ops), upgrade_on_raised);
	}
	free(text);
}

static void
upgrade_refuse(struct mt_control_request *request, const struct upgrade *upgrade)
{
	char who[MT_ERROR_BYTES];

	assert(json_array_size(upgrade->missing) > 0);
	upgrade_say(upgrade, who);
	log_limited(LOG_INFO, "gateway: does not raise the cluster's level level=%" PRIu32 ": %s",
	    upgrade->next, who);
	mt_control_refuse(request, -ENOTSUP,
	    "not upgraded to level %" PRIu32
	    ": %s. Install and start the new release there; a node that is not up may be left "
	    "behind (--without)",
	    upgrade->next, who);
}

static void
upgrade_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	struct upgrade upgrade;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	upgrade_init(&upgrade, ask->gateway);
	upgrade.missing = request->change.missing;
	request->change.missing = NULL;
	if (!MUTANT(upgrade_unasked))
		upgrade_judge_nodes(&upgrade, ask, json_object_get(request->in, "without"));
	if (upgrade.missing == NULL)
		mt_control_fail(request, -ENOMEM, "the gateway is out of memory");
	else if (upgrade.next != request->change.level)
		mt_control_fail_volume(request, -EAGAIN); /* gateways were asked about another */
	else if (upgrade.next == 0)
		mt_control_finish(request,
		    json_pack("{s:i, s:i, s:i, s:[]}", "from", (int)upgrade.level, "level",
			(int)upgrade.level, "next", 0, "missing"));
	else if (json_array_size(upgrade.missing) > 0)
		upgrade_refuse(request, &upgrade);
	else
		upgrade_raise(request, &upgrade);
	json_decref(upgrade.missing);
}

static void
upgrade_on_listed(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_control_request *request = arg;
	struct upgrade upgrade;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->change.missing == NULL);
	if (rc != 0) {
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
		return;
	}
	upgrade_init(&upgrade, request->gateway);
	upgrade.missing = json_array();
	if (upgrade.next != 0)
		upgrade_judge_self(&upgrade);
	for (uint32_t i = 0; i < count && upgrade.next != 0 && !MUTANT(upgrade_unasked); i++)
		upgrade_judge_key(&upgrade, &items[i]);
	request->change.level = upgrade.next;
	request->change.missing = upgrade.missing;
	upgrade_ask(request, upgrade_on_asked);
}

void
mt_control_cluster_upgrade(struct mt_control_request *request)
{
	struct meta *meta = request->gateway->options.meta;
	int rc;

	assert(request->op->is_change);
	if (!upgrade_take(request))
		return;
	rc = meta->ops->list(meta, META_LEASED_PREFIX, upgrade_on_listed, request);
	if (rc != 0)
		mt_control_fail(request, rc, "the gateway is out of memory");
}
