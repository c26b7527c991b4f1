/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_events.c -- cleave events: what happened, as all gateways keep it, in order of time
 *
 * Gateways tell how long ago it was, and the time is that of this host's clock. With --follow they are asked again
 * every second, for what is behind the last that they told.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/manage.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define EVENTS_GATEWAYS_MAX 64u
#define EVENTS_PAUSE_NS NUM_S(1)
#define EVENTS_OLDEST_MS (UINT64_C(366) * 86400 * 1000) /* a date that is shown */

/* How far a gateway's events were read. */
struct events_place {
	uint64_t gateway_id, number;
	char boot[32];
};

struct events_reader {
	struct command_session *session;
	struct events_place places[EVENTS_GATEWAYS_MAX];
	uint32_t place_count;
	json_t *found; /* an array: not shown yet */
};

static struct events_place *
place_of(struct events_reader *reader, uint64_t gateway_id)
{
	for (uint32_t i = 0; i < reader->place_count; i++) {
		if (reader->places[i].gateway_id == gateway_id)
			return &reader->places[i];
	}
	if (reader->place_count == EVENTS_GATEWAYS_MAX)
		return NULL;
	reader->places[reader->place_count] = (struct events_place){ .gateway_id = gateway_id };
	return &reader->places[reader->place_count++];
}

/* A page. Returns whether there is more. */
static bool
take_page(struct events_reader *reader, struct events_place *place, const json_t *reply)
{
	const json_t *event;
	const char *boot = command_text(reply, "boot");
	char id[TABLE_NUMBER_BYTES];
	size_t i;

	if (strcmp(boot, place->boot) != 0 && place->number > 0) {
		*place = (struct events_place){ .gateway_id = place->gateway_id };
		return true; /* another process: from its first one on */
	}
	(void)snprintf(place->boot, sizeof(place->boot), "%s", boot);
	json_array_foreach(json_object_get(reply, "events"), i, event)
	{
		json_t *copy = json_deep_copy(event);

		place->number = command_u64(event, "number");
		if (copy == NULL)
			continue;
		json_object_set_new(copy, "gateway",
		    json_string(table_format_id(place->gateway_id, id)));
		json_array_append_new(reader->found, copy);
	}
	return json_is_true(json_object_get(reply, "more"));
}

/* Events of one gateway behind what was read. False: it does not answer, or keeps none. */
static bool
read_gateway(struct events_reader *reader, const struct cleave_gateway_entry *gateway)
{
	struct events_place *place = place_of(reader, gateway->id);
	bool is_more = place != NULL;

	while (is_more) {
		json_t *reply = NULL;
		int rc = command_ask_at(reader->session, gateway->address,
		    json_pack("{s:s, s:I}", "op", "events", "after", (json_int_t)place->number),
		    &reply);

		is_more = rc == 0 && take_page(reader, place, reply);
		json_decref(reply);
		if (rc != 0)
			return false;
	}
	return place != NULL;
}

static int
older_first(const void *a, const void *b)
{
	uint64_t age_a = command_u64(*(json_t *const *)a, "age_ms");
	uint64_t age_b = command_u64(*(json_t *const *)b, "age_ms");

	if (age_a != age_b)
		return age_a > age_b ? -1 : 1;
	return strcmp(command_text(*(json_t *const *)a, "gateway"),
	    command_text(*(json_t *const *)b, "gateway"));
}

static void
print_event(const json_t *event, FILE *out)
{
	uint64_t age_ms = num_min(command_u64(event, "age_ms"), EVENTS_OLDEST_MS);
	char date[TABLE_NUMBER_BYTES];

	fprintf(out, "%s %-5s %s: %s (gateway %s)\n",
	    table_format_date(log_wall_s() - age_ms / 1000, date), command_text(event, "level"),
	    command_text(event, "code"), command_text(event, "text"),
	    command_text(event, "gateway"));
}

static int
print_json_line(const json_t *event, FILE *out)
{
	char *text = json_dumps(event, JSON_COMPACT);

	if (text == NULL)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

/* Prints what was found, in order of time, and leaves nothing. */
static int
print_found(struct events_reader *reader)
{
	const struct command_options *options = reader->session->options;
	size_t count = json_array_size(reader->found);
	const json_t **sorted = calloc(num_max(count, 1), sizeof(const json_t *));
	int rc = 0;

	if (sorted == NULL)
		return command_fail(reader->session, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(reader->found, i);
	qsort(sorted, count, sizeof(const json_t *), older_first);
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (options->is_json)
			rc = print_json_line(sorted[i], reader->session->out);
		else
			print_event(sorted[i], reader->session->out);
	}
	free(sorted);
	json_array_clear(reader->found);
	(void)fflush(reader->session->out);
	return rc;
}

/* A round. Gateways that do not answer are named on standard error the first time. */
static int
read_all(struct events_reader *reader, bool is_first)
{
	struct command_session *session = reader->session;
	struct command_question question;
	const struct cleave_gateway_entry *gateways;
	char id[TABLE_NUMBER_BYTES];
	int rc;

	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	gateways = question.entries;
	for (uint32_t i = 0; i < question.count && rc == 0; i++) {
		if (gateways[i].address[0] != '\0' && !read_gateway(reader, &gateways[i]) &&
		    is_first)
			fprintf(stderr,
			    "cleave: gateway %s at %s does not answer, or is of a release before\n",
			    table_format_id(gateways[i].id, id), gateways[i].address);
	}
	command_question_fini(&question);
	return rc == 0 ? print_found(reader) : rc;
}

int
command_events(struct command_session *session)
{
	struct events_reader reader = { .session = session, .found = json_array() };
	int rc = reader.found == NULL ? command_fail(session, -ENOMEM, "out of memory")
				      : read_all(&reader, true);

	assert(session->client != NULL);
	while (rc == 0 && session->options->must_follow) {
		command_pause(session, EVENTS_PAUSE_NS);
		rc = read_all(&reader, false);
		if (rc != 0 && rc != -ENOMEM && !ferror(session->out))
			rc = 0; /* no gateway answers now: one may again */
		if (ferror(session->out))
			rc = command_fail(session, -EPIPE, "nobody reads this any more");
	}
	json_decref(reader.found);
	return rc;
}
