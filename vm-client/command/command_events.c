/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_events.c -- cleave events: what happened, as all gateways keep it, in order of time
 *
 * The time is that of the gateway's host. With --follow the gateways are asked again every second, for what is behind
 * the last that they told.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/output.h"
#include "command.h"
#include "command_ask.h"
#include "command_gather.h"
#include "table.h"

#define EVENTS_PAUSE_NS NUM_S(1)
#define EVENTS_OLDEST_MS (UINT64_C(366) * 86400 * 1000) /* a date that is shown */

static void
print_event(const json_t *event, FILE *out)
{
	uint64_t age_ms = num_min(command_u64(event, "age_ms"), EVENTS_OLDEST_MS);
	const char *time = command_text(event, "time");
	char date[TABLE_NUMBER_BYTES];

	/* A gateway of a release before tells its age alone. */
	if (!json_is_string(json_object_get(event, "time")))
		time = table_format_date(log_wall_s() - age_ms / 1000, date);
	fprintf(out, "%s %-5s %s: %s (gateway %s)\n", time, command_text(event, "level"),
	    command_text(event, "code"), command_text(event, "text"),
	    command_text(event, "gateway"));
}

static int
read_all(struct command_gather *gather, bool is_first)
{
	int rc = command_gather_ask(gather, is_first);

	return rc == 0 ? command_gather_print(gather, print_event) : rc;
}

int
command_events(struct command_session *session)
{
	struct command_gather gather;
	int rc = command_gather_init(&gather, session, "events", "events"), lost;

	assert(session->client != NULL);
	if (rc == 0)
		rc = read_all(&gather, true);
	while (rc == 0 && session->options->must_follow) {
		command_pause(session, EVENTS_PAUSE_NS);
		rc = read_all(&gather, false);
		if (rc != 0 && rc != -ENOMEM && rc != -ENOKEY && !ferror(session->out))
			rc = 0; /* no gateway answers now: one may again */
		lost = output_check(session->out);
		if (lost != 0)
			rc = command_fail_output(session, lost);
	}
	command_gather_fini(&gather);
	return rc;
}
