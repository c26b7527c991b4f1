/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.c -- what is wrong, as one gateway sees it
 *
 *	health_nodes.c   each node, failure domains, slots, room
 *	health_shards.c  what the shards here wait for, and what they lack
 *	health_keys.c    data keys that are not open
 *	health_member.c  lease, metadata store, owners of shards, releases
 *	here             ports that do not answer, or are full
 */
#include "health/health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/plain.h"
#include "catalog/volume_table.h"
#include "cleave/secure_options.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "health/health_keys.h"
#include "health/health_member.h"
#include "health/health_nodes.h"
#include "health/health_shards.h"
#include "health/health_watch.h"

static struct mt_health_reason *
health_find(struct mt_health *health, enum cleave_health_code code, const char *object)
{
	for (uint32_t i = 0; i < health->count; i++) {
		struct mt_health_reason *reason = &health->reasons[i];

		if (reason->code == code && strcmp(reason->object, object) == 0)
			return reason;
	}
	return NULL;
}

/* For a reason that is new; NULL: there is no room. Where that is short an error goes before a warning. */
static struct mt_health_reason *
health_place(struct mt_health *health, enum cleave_health_level level)
{
	if (health->count < MT_HEALTH_REASONS_MAX)
		return &health->reasons[health->count++];
	health->left_out++;
	for (uint32_t i = health->count; i-- > 0 && level == CLEAVE_HEALTH_ERROR;) {
		if (health_info(health->reasons[i].code)->level < level)
			return &health->reasons[i];
	}
	return NULL;
}

/* A text that goes on where another one of the same object ended need not name it again. */
static const char *
without_object(const char *text, const char *object)
{
	size_t bytes = strlen(object);

	return strncmp(text, object, bytes) == 0 && strncmp(text + bytes, ": ", 2) == 0
	    ? text + bytes + 2
	    : text;
}

void
mt_health_add(struct mt_health *health, enum cleave_health_code code, const char *object,
    uint64_t age_ns, const char *format, ...)
{
	enum cleave_health_level level = health_info(code)->level;
	struct mt_health_reason *reason = health_find(health, code, object);
	char text[sizeof(reason->text)];
	const char *joint = "";
	size_t used;
	va_list args;

	assert(object[0] != '\0' && format != NULL);
	assert(health->count <= MT_HEALTH_REASONS_MAX);
	if (level > health->level)
		health->level = level;
	if (reason == NULL) {
		reason = health_place(health, level);
		if (reason == NULL)
			return;
		*reason = (struct mt_health_reason){ .code = code };
		(void)snprintf(reason->object, sizeof(reason->object), "%s", object);
	} else
		joint = "; ";
	reason->age_ns = num_max(reason->age_ns, age_ns);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	used = strlen(reason->text);
	(void)snprintf(reason->text + used, sizeof(reason->text) - used, "%s%s", joint,
	    joint[0] == '\0' ? text : without_object(text, object));
	(void)plain_text(
	    reason->text); /* it may be cut inside a character, or name a path of any bytes */
}

void
mt_health_clock(const struct mt_gateway *gateway, struct mt_health *health, const char *object,
    const char *address, int64_t gap_ms)
{
	uint64_t apart_ms = gap_ms < 0 ? (uint64_t)-gap_ms : (uint64_t)gap_ms;

	assert(gap_ms > INT64_MIN && object[0] != '\0');
	if (apart_ms < MT_HEALTH_CLOCK_MS)
		return;
	mt_health_add(health, CLEAVE_HEALTH_CLOCKS_APART, object, 0,
	    "%s at %s: its clock is %" PRIu64 ".%" PRIu64 " s %s that of gateway %016" PRIx64,
	    object, address, apart_ms / 1000, apart_ms % 1000 / 100,
	    gap_ms < 0 ? "behind" : "ahead of", gateway->options.gateway_id);
}

void
mt_health_key(struct mt_health *health, const char *object, uint64_t expires_s)
{
	uint64_t now_s = log_wall_s();

	assert(object[0] != '\0');
	if (expires_s <= now_s)
		mt_health_add(health, CLEAVE_HEALTH_KEY_ENDED, object, 0,
		    "the key of %s ended %" PRIu64 " days ago", object,
		    (now_s - expires_s) / 86400);
	else if (secure_ends_soon(expires_s))
		mt_health_add(health, CLEAVE_HEALTH_KEY_ENDS, object, 0,
		    "the key of %s ends in %" PRIu64 " days", object, secure_days_left(expires_s));
}

static void
judge_ports(const struct mt_gateway *gateway, const struct mt_ask *ask, struct mt_health *health)
{
	char object[MT_HEALTH_OBJECT_BYTES];
	uint32_t first = 0;

	if (ask->silent_count == 0)
		return;
	while (first < gateway->port_count - 1 && ask->legs[first].is_answered)
		first++;
	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gateway->options.gateway_id);
	mt_health_add(health, CLEAVE_HEALTH_PORT_SILENT, object, 0,
	    "%s: %" PRIu32 " of %" PRIu32
	    " ports have not answered for a second, the first of them is port %" PRIu32
	    "; nothing is known of their shards",
	    object, ask->silent_count, gateway->port_count, first);
}

static void
judge_places(const struct mt_gateway *gateway, const struct mt_ask *ask, struct mt_health *health)
{
	char object[MT_HEALTH_OBJECT_BYTES];

	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gateway->options.gateway_id);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		if (status->connections_max == 0 || status->full_age_ns > MT_HEALTH_FULL_NS)
			continue; /* the port has told nothing, or has had places */
		if (status->full_rc == -EMFILE || status->full_rc == -ENFILE)
			mt_health_add(health, CLEAVE_HEALTH_PORT_FULL, object, 0,
			    "%s: port %" PRIu32
			    " gets no more connections from its system, and others wait: %s",
			    object, i, log_errno(status->full_rc));
		else
			mt_health_add(health, CLEAVE_HEALTH_PORT_FULL, object, 0,
			    "%s: port %" PRIu32 " has no place for more than %" PRIu32
			    " connections, and refuses others",
			    object, i, status->connections_max);
	}
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
	ret_health->room = (struct mt_room){ 0 };
	mt_health_judge_member(gateway, ret_health);
	mt_health_judge_keys(gateway, ret_health);
	judge_ports(gateway, ask, ret_health);
	judge_places(gateway, ask, ret_health);
	mt_health_judge_shards(gateway, ask, ret_health);
	mt_health_judge_nodes(gateway, ask, ret_health);
	mt_health_watch_judge(gateway, ret_health);
}
