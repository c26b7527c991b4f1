/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_health.c -- is the cluster well? What all of its gateways say of it, as one list of reasons
 *
 *	each gateway --"health"--> its reasons --+
 *	one that is silent ----------------------+--> one of each code and object, the worst first
 */
#include "command_health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command_ask.h"
#include "command_ask_all.h"
#include "library/gateways.h"
#include "table.h"

#define HEALTH_ASK_NS_MAX NUM_S(2)
#define HEALTH_RATE_S_MIN 3600u /* a rate of less says nothing about days */

/* ---- a list of reasons ---- */

/* Gateways of a later release may have a level that we do not know: it is the worst. */
static enum cleave_health_level
level_of(const json_t *reason)
{
	const char *name = command_text(reason, "level");

	for (uint32_t i = 0; i < CLEAVE_HEALTH_LEVEL_NR; i++) {
		if (strcmp(name, health_level_name((enum cleave_health_level)i)) == 0)
			return (enum cleave_health_level)i;
	}
	return CLEAVE_HEALTH_ERROR;
}

/* The place of @reason in the list of codes, by which reasons of one level are in order. */
static uint32_t
place_of(const json_t *reason)
{
	const char *name = command_text(reason, "code");
	uint32_t place = 0;

	while (place < CLEAVE_HEALTH_CODE_NR &&
	    strcmp(name, health_info((enum cleave_health_code)place)->name) != 0)
		place++;
	return place;
}

static bool
is_before(const json_t *a, const json_t *b)
{
	if (level_of(a) != level_of(b))
		return level_of(a) > level_of(b);
	return place_of(a) < place_of(b);
}

static bool
is_same(const json_t *a, const json_t *b)
{
	return strcmp(command_text(a, "code"), command_text(b, "code")) == 0 &&
	    strcmp(command_text(a, "object"), command_text(b, "object")) == 0;
}

static void
add_teller(const struct command_health *health, json_t *reason)
{
	json_t *tellers = json_object_get(reason, "told_by");

	if (health->teller == NULL)
		return;
	if (tellers == NULL) {
		tellers = json_array();
		json_object_set_new(reason, "told_by", tellers);
	}
	json_array_append_new(tellers, json_string(health->teller));
}

/* @reason is taken over. What another gateway has said already is counted. */
static void
reasons_add(struct command_health *health, json_t *reason)
{
	size_t at = 0;
	json_t *other;

	assert(health->reasons != NULL);
	if (reason == NULL)
		return;
	json_array_foreach(health->reasons, at, other)
	{
		if (!is_same(other, reason))
			continue;
		json_object_set_new(other, "seen_by",
		    json_integer((json_int_t)command_u64(other, "seen_by") + 1));
		add_teller(health, other);
		if (command_u64(reason, "for_ms") > command_u64(other, "for_ms"))
			json_object_set(other, "for_ms", json_object_get(reason, "for_ms"));
		json_decref(reason);
		return;
	}
	if (level_of(reason) > health->level)
		health->level = level_of(reason);
	json_object_set_new(reason, "seen_by", json_integer(1));
	add_teller(health, reason);
	at = 0;
	while (at < json_array_size(health->reasons) &&
	    !is_before(reason, json_array_get(health->reasons, at)))
		at++;
	json_array_insert_new(health->reasons, at, reason);
}

static void
reasons_add_own(struct command_health *health, enum cleave_health_code code, const char *object,
    const char *text)
{
	const struct cleave_health_info *info = health_info(code);

	assert(object[0] != '\0' && text[0] != '\0');
	reasons_add(health,
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "code", info->name, "level",
		health_level_name(info->level), "object", object, "text", text, "means",
		info->means, "helps", info->helps));
}

/* A gateway may be a moment behind another: the worse of two words about the same room counts. */
static void
drop_lesser_room(struct command_health *health)
{
	bool is_end = false;
	json_t *reason;
	size_t i;

	json_array_foreach(health->reasons, i, reason)
	    is_end = is_end || place_of(reason) == CLEAVE_HEALTH_ROOM_END;
	for (i = json_array_size(health->reasons); is_end && i-- > 0;) {
		if (place_of(json_array_get(health->reasons, i)) == CLEAVE_HEALTH_ROOM_LOW)
			(void)json_array_remove(health->reasons, i);
	}
}

/* ---- answers ---- */

/* A gateway of another release may tell other buckets, or none: what it tells is not added up then. */
static void
take_latency(struct latency *latency, const json_t *buckets)
{
	const json_t *count;
	size_t i;

	if (json_array_size(buckets) != LATENCY_BUCKETS)
		return;
	json_array_foreach(buckets, i, count)
	{
		json_int_t value = json_integer_value(count);

		latency->counts[i] += value > 0 ? (uint64_t)value : 0;
	}
}

/* Each gateway has seen its own clients, and the whole cluster's room: the one that has seen it longest is believed. */
static void
take_lately(struct command_health *health, const json_t *lately)
{
	uint64_t day_s = command_u64(lately, "day_s");

	health->hour_s = num_max(health->hour_s, command_u64(lately, "hour_s"));
	health->hour_write_bytes += command_u64(lately, "hour_write_bytes");
	health->hour_stored_bytes += command_u64(lately, "hour_stored_bytes");
	if (day_s <= health->day_s)
		return;
	health->day_s = day_s;
	health->day_gain_bytes = json_integer_value(json_object_get(lately, "day_gain_bytes"));
}

/* A gateway of a release before tells none; one that was started just now knows none yet. */
static void
take_clients(struct command_client_rates *clients, const json_t *told)
{
	double seconds = (double)command_u64(told, "span_ms") / 1000;

	if (seconds <= 0)
		return;
	clients->is_known = true;
	clients->reads_s += (double)command_u64(told, "reads") / seconds;
	clients->read_bytes_s += (double)command_u64(told, "read_bytes") / seconds;
	clients->writes_s += (double)command_u64(told, "writes") / seconds;
	clients->write_bytes_s += (double)command_u64(told, "write_bytes") / seconds;
}

int64_t
command_health_days(const struct command_health *health)
{
	uint64_t free_bytes = command_u64(health->room, "data_free");

	if (health->day_s < HEALTH_RATE_S_MIN || health->room == NULL)
		return -1;
	if (health->day_gain_bytes <= 0)
		return INT64_MAX;
	return (int64_t)((double)free_bytes * (double)health->day_s /
	    (double)health->day_gain_bytes / 86400.0);
}

/* A volume's writes come to all ports: its counts are added up, and the last one was the latest. */
static void
take_no_room(struct command_health *health, const json_t *list)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		const char *volume = command_text(entry, "volume");
		const json_t *known = json_object_get(health->no_room, volume);
		uint64_t last_ms = command_u64(entry, "last_ms");

		if (health->no_room == NULL)
			health->no_room = json_object();
		if (known != NULL)
			last_ms = num_min(last_ms, command_u64(known, "last_ms"));
		json_object_set_new(health->no_room, volume,
		    json_pack("{s:I, s:I, s:I}", "waited",
			(json_int_t)(command_u64(known, "waited") + command_u64(entry, "waited")),
			"refused",
			(json_int_t)(command_u64(known, "refused") + command_u64(entry, "refused")),
			"last_ms", (json_int_t)last_ms));
	}
}

static void
take_totals(struct command_health *health, const json_t *told)
{
	const json_t *totals = json_object_get(told, "totals");
	const json_t *latency = json_object_get(told, "latency");

	take_latency(&health->write, json_object_get(latency, "write"));
	take_latency(&health->read, json_object_get(latency, "read"));
	health->left_out += (uint32_t)command_u64(told, "left_out");
	health->sessions += command_u64(totals, "sessions");
	health->shards_serving += command_u64(totals, "shards_serving");
	health->extents += command_u64(totals, "extents");
	health->extents_lacking += command_u64(totals, "extents_lacking");
	health->extents_leaving += command_u64(totals, "extents_leaving");
	health->write_bytes += command_u64(totals, "write_bytes");
	health->stored_bytes += command_u64(totals, "stored_bytes");
	take_lately(health, json_object_get(told, "lately"));
	take_clients(&health->clients, json_object_get(told, "clients"));
	take_no_room(health, json_object_get(told, "no_room"));
	if (health->room == NULL)
		health->room = json_incref(json_object_get(told, "room"));
}

void
command_health_take(struct command_health *health, const json_t *told)
{
	const json_t *reason;
	size_t i;

	assert(told != NULL);
	take_totals(health, told);
	/* The level also counts what there was no room for among the reasons. */
	if (json_object_get(told, "level") != NULL && level_of(told) > health->level)
		health->level = level_of(told);
	json_array_foreach(json_object_get(told, "reasons"), i, reason)
	{
		json_t *copy = json_deep_copy(reason);

		command_plain(copy);
		(void)json_object_del(copy, "told_by"); /* ours to say */
		reasons_add(health, copy);
	}
}

static void
take_answer(struct command_health *health, const struct command_asked *ask)
{
	const json_t *told = json_object_get(ask->reply, "health");
	char id[TABLE_NUMBER_BYTES], object[64], text[CLEAVE_ERROR_BYTES_MAX + 256];

	assert(ask->gateway != NULL);
	(void)table_format_id(ask->gateway->id, id);
	if (told != NULL) {
		health->teller = id;
		command_health_take(health, told);
		health->teller = NULL;
		return;
	}
	(void)snprintf(object, sizeof(object), "gateway %s", id);
	/* Answered, but it does not know the question. */
	if (ask->rc == -EINVAL || ask->rc == 0) {
		(void)snprintf(text, sizeof(text), "%s at %s is of a release that tells no health",
		    object, ask->gateway->address);
		reasons_add_own(health, CLEAVE_HEALTH_LEVELS_MIXED, object, text);
		return;
	}
	health->silent_count++;
	(void)snprintf(text, sizeof(text), "%s at %s does not answer: %s", object,
	    ask->gateway->address, ask->error);
	reasons_add_own(health, CLEAVE_HEALTH_GATEWAY_SILENT, object, text);
}

/*
 * The list of gateways has none: the one that told it has no lease yet, or no more, and serves nobody. What it says of
 * itself is the cluster's health then; nothing would be wrong where nobody was asked.
 */
static int
ask_the_unlisted(struct command_session *session, struct command_health *health)
{
	json_t *reply = NULL, *told;
	int rc = command_ask(session, json_pack("{s:s}", "op", "health"), false, &reply);

	assert(health->gateway_count == 0);
	if (rc != 0 && rc != -EINVAL)
		return rc;
	health->gateway_count = 1;
	told = json_object_get(reply, "health");
	if (told != NULL)
		command_health_take(health, told);
	else
		reasons_add_own(health, CLEAVE_HEALTH_LEVELS_MIXED, "cluster",
		    "the gateway that was asked is of a release that tells no health");
	json_decref(reply);
	return 0;
}

int
command_health_ask(struct command_session *session, const struct cleave_gateway_entry *gateways,
    uint32_t count, struct command_health *ret_health)
{
	struct command_asked *asked = command_ask_all_init(session, gateways, count);
	int rc;

	*ret_health = (struct command_health){ .reasons = json_array() };
	if (asked == NULL || ret_health->reasons == NULL) {
		if (asked != NULL)
			command_ask_all_fini(asked, count);
		return command_fail(session, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < count; i++) {
		if (gateways[i].address[0] != '\0')
			asked[i].question = json_pack("{s:s}", "op", "health");
	}
	command_ask_all(session, asked, count, HEALTH_ASK_NS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (gateways[i].address[0] == '\0')
			continue;
		ret_health->gateway_count++;
		take_answer(ret_health, &asked[i]);
	}
	drop_lesser_room(ret_health);
	rc = command_ask_all_refused(session, asked, count);
	command_ask_all_fini(asked, count);
	return rc == 0 && ret_health->gateway_count == 0 ? ask_the_unlisted(session, ret_health)
							 : rc;
}

/* A gateway that is there, and a key that is not believed or has no right, is no gateway that has to be started. */
static enum cleave_health_code
unreached_code(int rc)
{
	return rc == -EKEYREJECTED || rc == -ENOKEY ? CLEAVE_HEALTH_KEY_REFUSED
						    : CLEAVE_HEALTH_NO_GATEWAY;
}

/* Each address is asked by itself: the session's client has told of the last one alone. */
static void
add_unreached(struct command_session *session, const struct cleave_gateway_entry *entries,
    uint32_t count, struct command_health *health)
{
	struct command_asked *asked = command_ask_all_init(session, entries, count);

	if (asked == NULL)
		return;
	for (uint32_t i = 0; i < count; i++)
		asked[i].question = json_pack("{s:s}", "op", "gateways");
	command_ask_all(session, asked, count, HEALTH_ASK_NS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (asked[i].rc != 0)
			reasons_add_own(health, unreached_code(asked[i].rc), entries[i].address,
			    asked[i].error);
	}
	command_ask_all_fini(asked, count);
}

/* The addresses that the user named, as entries; none where memory is out. */
static struct cleave_gateway_entry *
named_gateways(const struct command_options *options, uint32_t *ret_count)
{
	char addresses[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	char error[CLEAVE_ERROR_BYTES_MAX];
	struct cleave_gateway_entry *entries = calloc(CLEAVE_GATEWAYS_MAX, sizeof(*entries));

	*ret_count = 0;
	for (uint32_t i = 0; i < options->gateways.count; i++)
		(void)gateways_cut(options->gateways.items[i], addresses, ret_count, error);
	for (uint32_t i = 0; entries != NULL && i < *ret_count; i++)
		(void)snprintf(entries[i].address, sizeof(entries[i].address), "%s", addresses[i]);
	return entries;
}

int
command_health_unreached(struct command_session *session, int rc, const char *error,
    struct command_health *ret_health)
{
	struct cleave_gateway_entry *entries;
	uint32_t count;

	assert(error[0] != '\0');
	*ret_health = (struct command_health){ .reasons = json_array() };
	if (ret_health->reasons == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	entries = named_gateways(session->options, &count);
	if (entries != NULL && count > 1)
		add_unreached(session, entries, count, ret_health);
	free(entries);
	/* The only one; or what went wrong is over. */
	if (json_array_size(ret_health->reasons) == 0)
		reasons_add_own(ret_health, unreached_code(rc), "cluster", error);
	return 0;
}

void
command_health_fini(struct command_health *health)
{
	json_decref(health->reasons);
	json_decref(health->room);
	json_decref(health->no_room);
	*health = (struct command_health){ .reasons = NULL };
}

/* ---- showing ---- */

/* A gateway judges it by its own connections: where others say nothing of it, it is that gateway's way to a node that is cut. */
static bool
is_of_links(const json_t *reason)
{
	const char *code = command_text(reason, "code");

	return strncmp(command_text(reason, "object"), "node ", 5) == 0 ||
	    strcmp(code, health_info(CLEAVE_HEALTH_NODES_FEW)->name) == 0 ||
	    strcmp(code, health_info(CLEAVE_HEALTH_DOMAINS_FEW)->name) == 0;
}

static void
print_reason(const struct command_health *health, const json_t *reason, FILE *out)
{
	uint64_t for_ms = command_u64(reason, "for_ms"), seen = command_u64(reason, "seen_by");
	uint32_t answered = health->gateway_count - health->silent_count;
	char time[TABLE_NUMBER_BYTES];
	json_t *teller;
	size_t i;

	assert(health->silent_count <= health->gateway_count);
	fprintf(out, "%-5s %s: %s", command_text(reason, "level"), command_text(reason, "code"),
	    command_text(reason, "text"));
	if (for_ms > 0)
		fprintf(out, " (for %s)", table_format_time(for_ms * NUM_MS(1), time));
	if (is_of_links(reason) && seen < answered) {
		fprintf(out, " (say %" PRIu64 " of %" PRIu32 " gateways", seen, answered);
		json_array_foreach(json_object_get(reason, "told_by"), i, teller)
		    fprintf(out, "%s %s", i == 0 ? ":" : ",", json_string_value(teller));
		fputc(')', out);
	}
	fputc('\n', out);
}

void
command_health_print(const struct command_health *health, FILE *out)
{
	const json_t *reason;
	size_t i;

	assert(health->reasons != NULL);
	fprintf(out, "HEALTH %s\n", health_level_name(health->level));
	json_array_foreach(health->reasons, i, reason)
	{
		const json_t *next = json_array_get(health->reasons, i + 1);

		print_reason(health, reason, out);
		/* Once, behind all of its code. */
		if (next == NULL || place_of(next) != place_of(reason))
			fprintf(out, "      -> %s\n", command_text(reason, "helps"));
	}
	if (health->left_out > 0)
		fprintf(out, "      and %" PRIu32 " reasons more\n", health->left_out);
}

static json_t *
json_latency(const struct latency *latency)
{
	return json_pack("{s:I, s:I, s:I}", "count", (json_int_t)latency_total(latency), "p50_us",
	    (json_int_t)(latency_quantile_ns(latency, 50) / NUM_US(1)), "p99_us",
	    (json_int_t)(latency_quantile_ns(latency, 99) / NUM_US(1)));
}

json_t *
command_health_json(const struct command_health *health)
{
	int64_t days = command_health_days(health);
	json_t *object = json_pack("{s:s, s:O, s:i, s:i, s:i, s:{s:o, s:o}}", "level",
	    health_level_name(health->level), "reasons", health->reasons, "gateways",
	    (int)health->gateway_count, "silent", (int)health->silent_count, "left_out",
	    (int)health->left_out, "latency", "write", json_latency(&health->write), "read",
	    json_latency(&health->read));

	assert(health->reasons != NULL);
	if (object != NULL && health->room != NULL)
		json_object_set(object, "room", health->room);
	if (object != NULL)
		json_object_set_new(object, "lately",
		    json_pack("{s:I, s:I, s:I, s:I, s:I}", "hour_s", (json_int_t)health->hour_s,
			"hour_write_bytes", (json_int_t)health->hour_write_bytes,
			"hour_stored_bytes", (json_int_t)health->hour_stored_bytes, "day_s",
			(json_int_t)health->day_s, "day_gain_bytes",
			(json_int_t)health->day_gain_bytes));
	/* Absent: no gateway knows it yet. */
	if (object != NULL && health->clients.is_known)
		json_object_set_new(object, "clients",
		    json_pack("{s:I, s:I, s:I, s:I}", "reads_s",
			(json_int_t)health->clients.reads_s, "read_bytes_s",
			(json_int_t)health->clients.read_bytes_s, "writes_s",
			(json_int_t)health->clients.writes_s, "write_bytes_s",
			(json_int_t)health->clients.write_bytes_s));
	if (object != NULL && health->no_room != NULL)
		json_object_set(object, "no_room", health->no_room);
	/* Absent: not enough was seen yet, or what is in use does not grow. */
	if (object != NULL && days >= 0 && days != INT64_MAX)
		json_object_set_new(object, "days_until_full", json_integer((json_int_t)days));
	return object;
}
