/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_gather.c -- what every gateway keeps of a kind, in order of time
 *
 * Gateways number what they keep, each from 1 on and anew when it is started, and tell it page by page. Their clocks
 * differ, so they tell how long ago it was.
 */
#include "command_gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/manage.h"
#include "command_ask.h"
#include "table.h"

int
command_gather_init(struct command_gather *gather, struct command_session *session, const char *op,
    const char *member)
{
	assert(op[0] != '\0' && member[0] != '\0');
	*gather = (struct command_gather){ .session = session,
		.op = op,
		.member = member,
		.found = json_array() };
	return gather->found == NULL ? command_fail(session, -ENOMEM, "out of memory") : 0;
}

void
command_gather_fini(struct command_gather *gather)
{
	json_decref(gather->found);
	gather->found = NULL;
}

static struct gather_place *
place_of(struct command_gather *gather, uint64_t gateway_id)
{
	for (uint32_t i = 0; i < gather->place_count; i++) {
		if (gather->places[i].gateway_id == gateway_id)
			return &gather->places[i];
	}
	if (gather->place_count == GATHER_GATEWAYS_MAX)
		return NULL;
	gather->places[gather->place_count] = (struct gather_place){ .gateway_id = gateway_id };
	return &gather->places[gather->place_count++];
}

/* A page. Returns whether there is more. */
static bool
take_page(struct command_gather *gather, struct gather_place *place, const json_t *reply)
{
	const json_t *entry;
	const char *boot = command_text(reply, "boot");
	char id[TABLE_NUMBER_BYTES];
	size_t i;

	if (strcmp(boot, place->boot) != 0 && place->number > 0) {
		*place = (struct gather_place){ .gateway_id = place->gateway_id };
		return true; /* another process: from its first one on */
	}
	(void)snprintf(place->boot, sizeof(place->boot), "%s", boot);
	json_array_foreach(json_object_get(reply, gather->member), i, entry)
	{
		json_t *copy = json_deep_copy(entry);

		place->number = command_u64(entry, "number");
		if (copy == NULL)
			continue;
		json_object_set_new(copy, "gateway",
		    json_string(table_format_id(place->gateway_id, id)));
		json_array_append_new(gather->found, copy);
	}
	return json_is_true(json_object_get(reply, "more"));
}

/* Entries of one gateway behind what was read. False: it does not answer, or keeps none. */
static bool
read_gateway(struct command_gather *gather, const struct cleave_gateway_entry *gateway)
{
	struct gather_place *place = place_of(gather, gateway->id);
	bool is_more = place != NULL;

	while (is_more) {
		json_t *reply = NULL;
		int rc = command_ask_at(gather->session, gateway->address,
		    json_pack("{s:s, s:I}", "op", gather->op, "after", (json_int_t)place->number),
		    &reply);

		is_more = rc == 0 && take_page(gather, place, reply);
		json_decref(reply);
		if (rc != 0)
			return false;
	}
	return place != NULL;
}

int
command_gather_ask(struct command_gather *gather, bool is_first)
{
	struct command_session *session = gather->session;
	struct command_question question;
	const struct cleave_gateway_entry *gateways;
	char id[TABLE_NUMBER_BYTES];
	int rc;

	assert(session->client != NULL && gather->found != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	gateways = question.entries;
	for (uint32_t i = 0; i < question.count && rc == 0; i++) {
		if (gateways[i].address[0] != '\0' && !read_gateway(gather, &gateways[i]) &&
		    is_first)
			fprintf(stderr,
			    "cleave: gateway %s at %s does not answer, or is of a release before\n",
			    table_format_id(gateways[i].id, id), gateways[i].address);
	}
	command_question_fini(&question);
	return rc;
}

static int
older_first(const void *a, const void *b)
{
	uint64_t age_a = command_u64(*(json_t *const *)a, "age_ms");
	uint64_t age_b = command_u64(*(json_t *const *)b, "age_ms");
	int order;

	if (age_a != age_b)
		return age_a > age_b ? -1 : 1;
	order = strcmp(command_text(*(json_t *const *)a, "gateway"),
	    command_text(*(json_t *const *)b, "gateway"));
	if (order != 0)
		return order;
	return command_u64(*(json_t *const *)a, "number") <
		command_u64(*(json_t *const *)b, "number")
	    ? -1
	    : 1;
}

static int
print_json_line(const json_t *entry, FILE *out)
{
	char *text = json_dumps(entry, JSON_COMPACT);

	if (text == NULL)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

int
command_gather_print(struct command_gather *gather, void (*print)(const json_t *entry, FILE *out))
{
	struct command_session *session = gather->session;
	size_t count = json_array_size(gather->found);
	const json_t **sorted = calloc(num_max(count, 1), sizeof(const json_t *));
	int rc = 0;

	assert(print != NULL);
	if (sorted == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(gather->found, i);
	qsort(sorted, count, sizeof(const json_t *), older_first);
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (session->options->is_json)
			rc = print_json_line(sorted[i], session->out);
		else
			print(sorted[i], session->out);
	}
	free(sorted);
	json_array_clear(gather->found);
	(void)fflush(session->out);
	return rc;
}
