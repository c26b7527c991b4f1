/* SPDX-License-Identifier: Apache-2.0 */
/* command_health.h -- is the cluster well? What all of its gateways say of it, as one list of reasons */
#ifndef CLEAVE_COMMAND_HEALTH_H
#define CLEAVE_COMMAND_HEALTH_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/latency.h"
#include "cleave/health.h"
#include "cleave/manage.h"
#include "command.h"

struct command_health {
	enum cleave_health_level level;
	/*
	 * Objects as a gateway tells them, the worst first; "seen_by": how many gateways say so, "told_by": their ids. NULL: no
	 * memory.
	 */
	json_t *reasons;
	const char *
	    teller; /* id of the gateway whose answer is being taken; NULL: none, or it is not known */
	uint32_t gateway_count, silent_count; /* that were asked; that have not answered */
	uint32_t left_out;                    /* reasons that were too many to be told */
	json_t *room;                         /* of the first gateway that told it, or NULL */
	/* Sums over all that answered. */
	uint64_t sessions, shards_serving, extents, extents_lacking, extents_leaving;
	uint64_t write_bytes, stored_bytes;
	struct latency write, read; /* requests of the last minute */
	/* {VOLUME:{"waited":N,"refused":N,"last_ms":N}}, writes for which there was no room; NULL: none. */
	json_t *no_room;
	/* Rates of clients lately, a second, at all gateways that tell them. */
	struct command_client_rates {
		bool is_known;
		double reads_s, read_bytes_s, writes_s, write_bytes_s;
	} clients;
	/* Rates that gateways have seen lately (health/room_history.h): the longest span, and sums over all gateways ... */
	uint64_t hour_s, hour_write_bytes, hour_stored_bytes;
	/* ... and, of the one that has seen it longest, how much more of the room for data came into use. */
	uint64_t day_s;
	int64_t day_gain_bytes;
};

/*
 * command_health_ask -- ask each of @gateways, all at once, for two seconds at most
 *
 * One that does not answer is a reason itself. command_health_fini is due in any case. 0 or -ENOMEM, with
 * session->error set.
 */
int command_health_ask(struct command_session *session, const struct cleave_gateway_entry *gateways,
    uint32_t count, struct command_health *ret_health);
/*
 * command_health_unreached -- the same where no gateway could be asked: @rc and @error say why
 *
 * Of several addresses each is a reason, with why it did not answer.
 */
int command_health_unreached(struct command_session *session, int rc, const char *error,
    struct command_health *ret_health);
/* command_health_take -- what a gateway answers as "health" is added to @health. No errors: what is odd is left out. */
void command_health_take(struct command_health *health, const json_t *told);
void command_health_fini(struct command_health *health);
/*
 * command_health_days -- until no room is left, were it used on as it was in the last day
 *
 * INT64_MAX: what is in use does not grow. -1: gateways have seen less than an hour of it.
 */
int64_t command_health_days(const struct command_health *health);
/* command_health_print -- the line HEALTH, then each reason, and what helps. */
void command_health_print(const struct command_health *health, FILE *out);
/* command_health_json -- {"level":..., "reasons":[...], "gateways":N, "silent":N, "latency":{...}, "room":{...}}; NULL: no memory. */
json_t *command_health_json(const struct command_health *health);

#endif /* CLEAVE_COMMAND_HEALTH_H */
