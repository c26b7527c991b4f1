/* SPDX-License-Identifier: Apache-2.0 */
/* health_member.c -- lease, metadata store, owners of shards, releases */
#include "health/health_member.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/drained_key.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/secure_options.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/own_address.h"
#include "common/lease.h"
#include "health/health.h"
#include "health/shard_list.h"

/* A part of the lease's time: a renewal is due when two thirds are left, and an eighth of it never counts. */
#define HEALTH_LEASE_LOW_PART 3u

static void
health_gateway_text(const struct mt_gateway *gateway, char out[MT_HEALTH_OBJECT_BYTES])
{
	(void)snprintf(out, MT_HEALTH_OBJECT_BYTES, "gateway %016" PRIx64,
	    gateway->options.gateway_id);
}

/* Our own; nodes' are health_nodes.c's. */
static void
judge_key(const struct mt_gateway *gateway, struct mt_health *health)
{
	const struct split_key *key = gateway->revoked.key;
	char object[MT_HEALTH_OBJECT_BYTES];

	if (key == NULL)
		return;
	health_gateway_text(gateway, object);
	if (split_key_is_revoked(key))
		mt_health_add(health, CLEAVE_HEALTH_KEY_REVOKED, object, 0,
		    "the key of %s was revoked", object);
	if (gateway->revoked.refused[0] != '\0')
		mt_health_add(health, CLEAVE_HEALTH_REVOKED_REFUSED, object,
		    loop_now_ns(gateway->options.loop) - gateway->revoked.refused_ns,
		    "%s does not take the metadata store's lists of revoked keys: %s", object,
		    gateway->revoked.refused);
	mt_health_key(health, object, split_key_expires_s(key));
}

static void
judge_addresses(const struct mt_gateway *gateway, uint64_t now_ns, struct mt_health *health)
{
	const struct mt_own_address *own = gateway->own_address;
	char object[MT_HEALTH_OBJECT_BYTES];

	health_gateway_text(gateway, object);
	for (uint32_t i = 0; own != NULL && i < gateway->port_count; i++) {
		const struct mt_own_port *port = &own->ports[i];
		uint64_t age_ns = now_ns - num_min(port->since_ns, now_ns);

		if (port->other_id != 0)
			mt_health_add(health, CLEAVE_HEALTH_ADDRESS_WRONG, object, age_ns,
			    MT_HEALTH_ADDRESS_TEXT, object, gateway->ports[i].address,
			    port->other_id);
		else if (mt_own_address_is_silent(gateway, i))
			mt_health_add(health, CLEAVE_HEALTH_ADDRESS_SILENT, object, age_ns,
			    "%s tells clients that it is at %s, where nobody answers it: %s",
			    object, gateway->ports[i].address, log_errno(port->rc));
	}
}

/* Where such a gateway takes no shards it is in no list of gateways: nobody would ask it. */
static void
judge_led(const struct mt_gateway *gateway, uint64_t now_ns, struct mt_health *health)
{
	const struct mt_own_led *led;
	char object[MT_HEALTH_OBJECT_BYTES];

	for (uint32_t i = 0; (led = mt_own_address_led(gateway, i)) != NULL; i++) {
		(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, led->gateway_id);
		mt_health_add(health, CLEAVE_HEALTH_ADDRESS_WRONG, object,
		    now_ns - num_min(led->since_ns, now_ns), MT_HEALTH_ADDRESS_TEXT, object,
		    led->address, gateway->options.gateway_id);
	}
}

static bool
is_renewal_late(const struct mt_gateway *gateway)
{
	const struct mt_member *member = &gateway->member;
	uint64_t now_ns = mt_lease_now_ns(gateway->options.loop);

	return member->gateway != NULL && member->sm.state == MT_MEMBER_UP && member->is_renewing &&
	    now_ns - member->renew_sent_ns >= MT_HEALTH_STORE_NS;
}

static void
judge_lease(const struct mt_gateway *gateway, struct mt_health *health)
{
	const struct mt_member *member = &gateway->member;
	uint64_t now_ns = mt_lease_now_ns(gateway->options.loop);
	uint64_t left_ns = member->until_ns > now_ns ? member->until_ns - now_ns : 0;
	char object[MT_HEALTH_OBJECT_BYTES];

	if (mt_own_address_keeps_out(gateway))
		return; /* it has not asked for one */
	health_gateway_text(gateway, object);
	if (member->gateway == NULL || member->sm.state != MT_MEMBER_UP) {
		mt_health_add(health, CLEAVE_HEALTH_LEASE_OUT, object, 0,
		    "%s has no lease from %s (%s)", object,
		    gateway->options.meta_name != NULL ? gateway->options.meta_name
						       : "the metadata store",
		    member->gateway == NULL ? "out" : sm_state_name(&member->sm));
		return;
	}
	if (left_ns < gateway->options.lease_ns / HEALTH_LEASE_LOW_PART)
		mt_health_add(health, CLEAVE_HEALTH_LEASE_LOW, object, 0,
		    "%s has %" PRIu64 " ms of its lease of %" PRIu64 " ms left", object,
		    left_ns / NUM_MS(1), gateway->options.lease_ns / NUM_MS(1));
	if (is_renewal_late(gateway))
		mt_health_add(health, CLEAVE_HEALTH_STORE_SLOW, object,
		    now_ns - member->renew_sent_ns,
		    "%s waits for %s, which has not answered the renewal of its lease", object,
		    gateway->options.meta_name != NULL ? gateway->options.meta_name
						       : "the metadata store");
}

static void
judge_place(const struct mt_gateway *gateway, struct mt_health *health)
{
	struct meta *meta = gateway->options.meta;
	const char *text =
	    meta == NULL || meta->ops->displaced == NULL ? NULL : meta->ops->displaced(meta);

	assert(health->count <= MT_HEALTH_REASONS_MAX);
	if (text != NULL)
		mt_health_add(health, CLEAVE_HEALTH_STORE_DISPLACED, "metadata store", 0, "%s",
		    text);
	text = meta == NULL || meta->ops->failing == NULL ? NULL : meta->ops->failing(meta);
	if (text != NULL)
		mt_health_add(health, CLEAVE_HEALTH_STORE_FAILS, "metadata store", 0,
		    "%s: a change was not taken: %s",
		    gateway->options.meta_name != NULL ? gateway->options.meta_name
						       : "the metadata store",
		    text);
}

/* A store in a directory has nothing to tell. */
static void
judge_store(const struct mt_gateway *gateway, struct mt_health *health)
{
	struct meta *meta = gateway->options.meta;
	struct meta_report report;
	char object[MT_HEALTH_OBJECT_BYTES];

	if (meta == NULL || meta->ops->report == NULL)
		return;
	meta->ops->report(meta, &report);
	health_gateway_text(gateway, object);
	if (report.unreachable_s > 0 && !is_renewal_late(gateway))
		mt_health_add(health, CLEAVE_HEALTH_STORE_SLOW, object, NUM_S(report.unreachable_s),
		    "%s: no request to the metadata store has been answered", object);
	/* store-slow tells of all of them, and of the only one. */
	if (report.bad_count > 0 && report.bad_count < report.member_count)
		mt_health_add(health, CLEAVE_HEALTH_STORE_MEMBER, "metadata store", report.bad_ns,
		    "%" PRIu32 " of the %" PRIu32 " members of --meta: %s", report.bad_count,
		    report.member_count, report.bad_names);
	if (report.quota_bytes > 0 &&
	    report.database_bytes >= report.quota_bytes / 100 * MT_HEALTH_ROOM_LOW)
		mt_health_add(health, CLEAVE_HEALTH_STORE_FULL, "metadata store", 0,
		    "its database has %" PRIu64 " of the %" PRIu64 " MiB with which it takes no "
		    "more writes",
		    report.database_bytes / NUM_MIB(1), report.quota_bytes / NUM_MIB(1));
}

/* @heir is to take @list's first shard over: that one's log says why it does not. */
static void
unowned_add(const struct mt_shard_list *list, const struct mt_member_peer *heir,
    struct mt_health *health)
{
	char text[MT_SHARD_LIST_BYTES];

	mt_shard_list_text(list, text);
	if (heir == NULL)
		mt_health_add(health, CLEAVE_HEALTH_SHARD_UNOWNED, "cluster", 0,
		    "%s: no gateway that lives has taken %s over, and none is known", text,
		    list->count > 1 ? "them" : "it");
	else
		mt_health_add(health, CLEAVE_HEALTH_SHARD_UNOWNED, "cluster", 0,
		    "%s: no gateway that lives has taken %s over; gateway %016" PRIx64
		    " at %.64s is to%s",
		    text, list->count > 1 ? "them" : "it", heir->gateway_id, heir->ports[0],
		    list->count > 1 ? ", or others" : "");
}

/* Shards that we are to have are told of by our own ports: they start, or have no room. */
static void
judge_owners(const struct mt_gateway *gateway, struct mt_health *health)
{
	const struct mt_member *member = &gateway->member;
	const struct mt_member_peer *heir = NULL;
	struct mt_shard_list list = { .count = 0 };

	if (!member->has_view || member->sm.state != MT_MEMBER_UP)
		return;
	assert(member->shards != NULL);
	for (uint32_t i = 0; i < gateway->cluster.shard_count; i++) {
		const struct mt_member_shard *shard = &member->shards[i];
		const struct mt_member_peer *pick;

		if (shard->own_state != MT_SHARD_IDLE && shard->own_state != MT_SHARD_STOPPED)
			continue;
		if (shard->has_root && !shard->is_released &&
		    mt_view_is_live(member, shard->gateway_id, shard->boot_id))
			continue;
		pick = mt_view_pick(member, i);
		if (pick != NULL && pick->gateway_id == gateway->options.gateway_id)
			continue;
		if (list.count == 0)
			heir = pick;
		mt_shard_list_add(&list, i);
	}
	if (list.count > 0)
		unowned_add(&list, heir, health);
}

static void
judge_levels(const struct mt_gateway *gateway, struct mt_health *health)
{
	const struct mt_member *member = &gateway->member;
	const struct mt_member_peer *low = NULL, *high = NULL;

	assert(member->peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *peer = &member->peers[i];

		if (low == NULL || peer->level_max < low->level_max)
			low = peer;
		if (high == NULL || peer->level_max > high->level_max)
			high = peer;
	}
	if (low != high)
		mt_health_add(health, CLEAVE_HEALTH_LEVELS_MIXED, "cluster", 0,
		    "gateway %016" PRIx64 " speaks up to level %" PRIu32 ", gateway %016" PRIx64
		    " up to level %" PRIu32,
		    low->gateway_id, (uint32_t)low->level_max, high->gateway_id,
		    (uint32_t)high->level_max);
}

static void
judge_lost(const struct mt_gateway *gateway, uint64_t now_ns, struct mt_health *health)
{
	const struct mt_lost *lost = &gateway->member.lost;
	char object[MT_HEALTH_OBJECT_BYTES];

	assert(lost->count <= MT_LOST_MAX);
	for (uint32_t i = 0; i < lost->count; i++) {
		const struct mt_lost_gateway *gone = &lost->gateways[i];

		if (!gone->is_dead)
			continue;
		(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gone->gateway_id);
		mt_health_add(health, CLEAVE_HEALTH_GATEWAY_LOST, object,
		    now_ns - num_min(gone->since_ns, now_ns),
		    "%s at %s had shards and is gone (it has ended, stands still or is cut off): others "
		    "have them",
		    object, gone->address);
	}
}

void
mt_health_judge_member(const struct mt_gateway *gateway, struct mt_health *health)
{
	uint64_t now_ns = loop_now_ns(gateway->options.loop);

	assert(health->count == 0);
	judge_key(gateway, health);
	judge_addresses(gateway, now_ns, health);
	judge_led(gateway, now_ns, health);
	judge_lease(gateway, health);
	judge_store(gateway, health);
	judge_place(gateway, health);
	judge_lost(gateway, now_ns, health);
	judge_owners(gateway, health);
	judge_levels(gateway, health);
}
