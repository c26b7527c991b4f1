/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_shards.c -- what the shards here wait for, and what they lack
 *
 * Shards of one trouble are one reason. Which it is: by what the shard waits for, where that stands in the way of
 * every write (the table); else by how long its oldest write has had no answer.
 */
#include "health/health_shards.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "health/health.h"
#include "health/health_nodes.h"
#include "health/shard_list.h"
#include "port/port_status.h"
#include "port/waits.h"

/* Waits that keep all writes away, whether one has come or not. */
static const struct {
	bool is_told;
	enum cleave_health_code code;
} blocked[MT_WAIT_NR] = {
	[MT_WAIT_TAKEOVER] = { true, CLEAVE_HEALTH_SHARD_STARTING },
	[MT_WAIT_AWAY] = { true, CLEAVE_HEALTH_SHARD_WAITS },
	[MT_WAIT_STALE] = { true, CLEAVE_HEALTH_STORE_STALE },
	[MT_WAIT_DEVICE] = { true, CLEAVE_HEALTH_SHARD_SHORT },
	[MT_WAIT_FAILED] = { true, CLEAVE_HEALTH_SHARD_FAILED },
	[MT_WAIT_STORE] = { true, CLEAVE_HEALTH_STORE_OTHER },
	[MT_WAIT_NODES] = { true, CLEAVE_HEALTH_NODES_FEW },
	[MT_WAIT_ROOM] = { true, CLEAVE_HEALTH_ROOM_OUT },
};

/* Shards of one code that wait for one thing. */
struct health_group {
	struct mt_shard_list list;
	uint64_t age_ns; /* of the oldest write; 0: there is none */
	const char *volume;
	const char *failed_why; /* of one of them; NULL: none is MT_WAIT_FAILED */
	uint32_t awaited_node;  /* likewise; 0: none is MT_WAIT_AWAY */
};

/* Returns false: nothing is wrong with its writes. */
static bool
shard_code(const struct mt_shard_status *shard, enum cleave_health_code *ret_code)
{
	assert(shard->wait < MT_WAIT_NR);
	*ret_code = CLEAVE_HEALTH_SHARD_STARTING;
	if (blocked[shard->wait].is_told)
		*ret_code = blocked[shard->wait].code;
	if (blocked[shard->wait].is_told && health_info(*ret_code)->level == CLEAVE_HEALTH_ERROR)
		return true;
	if (shard->write_age_ns >= MT_HEALTH_WAIT_NS)
		*ret_code = CLEAVE_HEALTH_WRITES_WAIT;
	else if (shard->write_age_ns >= MT_HEALTH_SLOW_NS)
		*ret_code = CLEAVE_HEALTH_WRITES_SLOW;
	else
		return blocked[shard->wait].is_told;
	return true;
}

static void
group_add(struct health_group *group, const struct mt_shard_status *shard)
{
	mt_shard_list_add(&group->list, shard->index);
	if (shard->wait == MT_WAIT_FAILED)
		group->failed_why = shard->failed_why;
	if (shard->wait == MT_WAIT_AWAY)
		group->awaited_node = shard->awaited_node;
	if (shard->write_age_ns <= group->age_ns)
		return;
	group->age_ns = shard->write_age_ns;
	group->volume = shard->write_volume;
}

static void
group_tell(const struct health_group *group, enum cleave_health_code code, enum mt_wait wait,
    const char *object, const struct mt_ask *ask, struct mt_health *health)
{
	const char *why = wait == MT_WAIT_NONE ? "has had no answer" : mt_wait_text(wait);
	char text[MT_SHARD_LIST_BYTES], volume[MT_NAME_BYTES + 32] = "";
	char trash[MT_HEALTH_TRASH_BYTES] = "", node[MT_HEALTH_FULL_BYTES] = "";

	assert(group->list.count > 0 && why != NULL);
	mt_shard_list_text(&group->list, text);
	if (group->volume != NULL && group->volume[0] != '\0')
		(void)snprintf(volume, sizeof(volume), "; the oldest write is of volume '%s'",
		    group->volume);
	if (code == CLEAVE_HEALTH_ROOM_OUT) {
		mt_health_trash_text(ask->gateway, trash);
		mt_health_full_text(ask, node);
	}
	if (group->awaited_node != 0)
		(void)snprintf(node, sizeof(node), ": node %" PRIu32, group->awaited_node);
	mt_health_add(health, code, object, group->age_ns, "%s: %s%s %s%s%s%s%s%s", object,
	    group->list.count > 1 ? "each of " : "", text, why, node,
	    group->failed_why != NULL ? ": " : "",
	    group->failed_why != NULL ? group->failed_why : "", trash, volume);
}

/* All shards of @code that wait for @wait are a reason. */
static void
judge_group(const struct mt_ask *ask, enum cleave_health_code code, enum mt_wait wait,
    const char *object, struct mt_health *health)
{
	struct health_group group = { .age_ns = 0 };
	enum cleave_health_code is;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			const struct mt_shard_status *shard = &status->shards[k];

			if (shard->wait == wait && shard_code(shard, &is) && is == code)
				group_add(&group, shard);
		}
	}
	if (group.list.count > 0)
		group_tell(&group, code, wait, object, ask, health);
}

/* Bit sets of the waits that any shard has, of those in trouble, by code. */
static void
judge_waits(const struct mt_ask *ask, const char *object, struct mt_health *health)
{
	uint32_t waits[CLEAVE_HEALTH_CODE_NR] = { 0 };

	_Static_assert(MT_WAIT_NR <= 32, "a bit for each");
	assert(object[0] != '\0');
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			enum cleave_health_code code;

			if (shard_code(&status->shards[k], &code))
				waits[code] |= 1u << status->shards[k].wait;
		}
	}
	for (uint32_t code = 0; code < CLEAVE_HEALTH_CODE_NR; code++) {
		for (uint32_t wait = 0; wait < MT_WAIT_NR; wait++) {
			if ((waits[code] >> wait & 1) != 0)
				judge_group(ask, (enum cleave_health_code)code, (enum mt_wait)wait,
				    object, health);
		}
	}
}

static void
judge_copies(const struct mt_ask *ask, const char *object, struct mt_health *health)
{
	uint64_t lacking = 0, held = 0, extents = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			lacking += status->shards[k].lacking_count;
			extents += mt_shard_status_extents(&status->shards[k]);
			held += status->shards[k].held_count;
		}
	}
	if (lacking > 0)
		mt_health_add(health, CLEAVE_HEALTH_COPIES_LACK, object, 0,
		    "%s: %" PRIu64 " of the %" PRIu64
		    " extents of its shards have fewer good copies than they should",
		    object, lacking, extents);
	if (held > 0)
		mt_health_add(health, CLEAVE_HEALTH_ORPHANS_HELD, object, 0,
		    "%s: %" PRIu64 " copies that no manifest names wait for a word", object, held);
}

/* The volume that @segment is of; NULL: none is known. */
static const struct mt_volume *
volume_of_segment(const struct mt_gateway *gateway, uint64_t segment)
{
	const struct mt_volumes *volumes = &gateway->volumes;

	for (uint32_t i = 0; i < volumes->count; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;

		if (segment >= volume->segment_base &&
		    segment - volume->segment_base < volume->segment_count)
			return volume;
	}
	return NULL;
}

/* A moment's errors are over when a merge is tried again; what lasts keeps the log as long as it is. */
static void
judge_merges(const struct mt_ask *ask, const char *object, struct mt_health *health)
{
	struct mt_shard_list list = { .count = 0 };
	const struct mt_volume *clone = NULL;
	uint64_t longest_ns = 0;
	char text[MT_SHARD_LIST_BYTES];

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			if (status->shards[k].unread_ns < MT_HEALTH_UNREAD_NS)
				continue;
			mt_shard_list_add(&list, status->shards[k].index);
			longest_ns = num_max(longest_ns, status->shards[k].unread_ns);
			if (status->shards[k].unread_clone != 0)
				clone =
				    volume_of_segment(ask->gateway, status->shards[k].unread_clone);
		}
	}
	if (list.count == 0)
		return;
	mt_shard_list_text(&list, text);
	mt_health_add(health, CLEAVE_HEALTH_BLOCKS_UNREAD, object, longest_ns,
	    "%s: %s: no copy of some blocks passes its checks, merge after merge%s%s%s", object,
	    text, clone == NULL ? "" : ": clone '", clone == NULL ? "" : clone->name,
	    clone == NULL ? "" : "' is not flattened for it");
}

/* A pass takes an interval where nothing stands in its way. */
static void
judge_scrub(const struct mt_gateway *gateway, const struct mt_ask *ask, const char *object,
    struct mt_health *health)
{
	struct mt_shard_list list = { .count = 0 };
	uint64_t limit_ns = 2 * gateway->options.scrub_interval_ns, oldest_ns = 0;
	char text[MT_SHARD_LIST_BYTES];

	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			if (status->shards[k].scrub_age_ns <= limit_ns)
				continue;
			mt_shard_list_add(&list, status->shards[k].index);
			oldest_ns = num_max(oldest_ns, status->shards[k].scrub_age_ns);
		}
	}
	if (list.count == 0)
		return;
	mt_shard_list_text(&list, text);
	mt_health_add(health, CLEAVE_HEALTH_SCRUB_LATE, object, oldest_ns,
	    "%s: %s: no pass over all copies has ended, --scrub-interval is %" PRIu64 " s", object,
	    text, gateway->options.scrub_interval_ns / NUM_S(1));
}

void
mt_health_judge_shards(const struct mt_gateway *gateway, const struct mt_ask *ask,
    struct mt_health *health)
{
	char object[MT_HEALTH_OBJECT_BYTES];

	assert(ask->gateway == gateway && ask->left_count == 0);
	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gateway->options.gateway_id);
	judge_waits(ask, object, health);
	judge_copies(ask, object, health);
	judge_merges(ask, object, health);
	judge_scrub(gateway, ask, object, health);
}
