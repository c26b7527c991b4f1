/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.c -- what is wrong, as one gateway sees it
 *
 *	health_nodes.c   each node, failure domains, room
 *	health_shards.c  what the shards here wait for, and what they lack
 *	health_member.c  lease, metadata store, owners of shards, releases
 */
#include "health/health.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "catalog/volume_table.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "health/health_member.h"
#include "health/health_nodes.h"
#include "health/health_shards.h"
#include "health/health_watch.h"

void
mt_health_add(struct mt_health *health, enum cleave_health_code code, const char *object,
    uint64_t age_ns, const char *format, ...)
{
	enum cleave_health_level level = health_info(code)->level;
	struct mt_health_reason *reason;
	va_list args;

	assert(object[0] != '\0' && format != NULL);
	assert(health->count <= MT_HEALTH_REASONS_MAX);
	if (level > health->level)
		health->level = level;
	if (health->count == MT_HEALTH_REASONS_MAX) {
		health->left_out++;
		return;
	}
	reason = &health->reasons[health->count++];
	*reason = (struct mt_health_reason){ .code = code, .age_ns = age_ns };
	(void)snprintf(reason->object, sizeof(reason->object), "%s", object);
	va_start(args, format);
	(void)vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
}

void
mt_health_trash_text(const struct mt_gateway *gateway, char ret_text[MT_HEALTH_TRASH_BYTES])
{
	uint32_t first, count = mt_volumes_trash(&gateway->volumes, &first);

	ret_text[0] = '\0';
	if (count > 0)
		(void)snprintf(ret_text, MT_HEALTH_TRASH_BYTES,
		    "; %" PRIu32 " deleted volume%s in the trash: cleave trash purge", count,
		    count == 1 ? " is" : "s are");
}

void
mt_health_judge(const struct mt_gateway *gateway, const struct mt_ask *ask,
    struct mt_health *ret_health)
{
	assert(ask->gateway == gateway && ask->left_count == 0);
	assert(gateway->port_count > 0 && gateway->port_count <= MT_PORTS_MAX);
	ret_health->level = CLEAVE_HEALTH_OK;
	ret_health->count = ret_health->left_out = 0;
	ret_health->room = (struct mt_health_room){ 0 };
	mt_health_judge_member(gateway, ret_health);
	mt_health_judge_shards(gateway, ask, ret_health);
	mt_health_judge_nodes(gateway, ask, ret_health);
	mt_health_watch_judge(gateway, ret_health);
}
