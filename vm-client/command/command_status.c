/* SPDX-License-Identifier: Apache-2.0 */
/* command_status.c -- cleave status, cleave node list, cleave gateway list */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "command.h"
#include "table.h"

int
command_print_nodes(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = {
		{ "NODE", true },
		{ "ADDRESS", false },
		{ "DOMAIN", false },
		{ "STATE", false },
		{ "SIZE", true },
		{ "FREE", true },
		{ "SLOTS", true },
	};
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char text[TABLE_NUMBER_BYTES];
	const json_t *node;
	size_t i;
	int rc;

	json_array_foreach(json_object_get(reply, "nodes"), i, node)
	{
		uint64_t slot_bytes = command_u64(node, "slot_bytes");
		uint64_t total = command_u64(node, "slots_total");
		uint64_t unused = command_u64(node, "slots_free");

		table_add(table, "%" PRIu64, command_u64(node, "id"));
		table_add(table, "%s", command_text(node, "address"));
		table_add(table, "%s", command_text(node, "domain"));
		table_add(table, "%s", command_text(node, "state"));
		table_add(table, "%s", table_format_size(total * slot_bytes, text));
		table_add(table, "%s", table_format_size(unused * slot_bytes, text));
		table_add(table, "%" PRIu64 " of %" PRIu64 " free", unused, total);
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	json_array_foreach(json_object_get(reply, "nodes"), i, node)
	{
		const char *trouble = json_string_value(json_object_get(node, "trouble"));

		if (trouble != NULL && trouble[0] != '\0')
			fprintf(out, "node at %s: %s\n", command_text(node, "address"), trouble);
	}
	return rc;
}

int
command_print_gateways(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = {
		{ "GATEWAY", false },
		{ "PORTS", false },
		{ "SHARDS", true },
		{ "SHARE", true },
		{ "SEEN FOR", true },
		{ "LEASE LEFT", true },
	};
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char text[TABLE_NUMBER_BYTES];
	const json_t *gateway;
	size_t i;
	int rc;

	json_array_foreach(json_object_get(reply, "gateways"), i, gateway)
	{
		const json_t *ports = json_object_get(gateway, "ports");
		const char *port = json_string_value(json_array_get(ports, 0));
		size_t port_count = json_array_size(ports);

		table_add(table, "%s%s", command_text(gateway, "gateway"),
		    json_is_true(json_object_get(gateway, "self")) ? " (asked)" : "");
		if (port_count > 1)
			table_add(table, "%s +%zu", port == NULL ? "-" : port, port_count - 1);
		else
			table_add(table, "%s", port == NULL ? "-" : port);
		table_add(table, "%" PRIu64, command_u64(gateway, "shards_owned"));
		table_add(table, "%" PRIu64, command_u64(gateway, "shards_share"));
		table_add(table, "%s",
		    table_format_time(command_u64(gateway, "seen_for_ms") * NUM_MS(1), text));
		if (json_object_get(gateway, "lease_left_ms") != NULL)
			table_add(table, "%" PRIu64 " ms", command_u64(gateway, "lease_left_ms"));
		else
			table_add(table, "-");
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* The sum of a metric over all ports. */
static uint64_t
sum_metric(const json_t *status, const char *name)
{
	const json_t *port;
	uint64_t sum = 0;
	size_t i;

	json_array_foreach(json_object_get(status, "ports"), i, port)
	    sum += command_u64(json_object_get(port, "metrics"), name);
	return sum;
}

static int
print_gateway(const json_t *status, FILE *out)
{
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	static const char *const counts[] = { "shard_count", "volume_count" };
	static const char *const texts[] = { "gateway", "state", "cluster", "boot" };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char text[TABLE_NUMBER_BYTES], more[TABLE_NUMBER_BYTES];
	uint64_t written = sum_metric(status, "write_bytes");
	uint64_t stored = sum_metric(status, "stored_bytes");
	int rc;

	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		table_add(table, "%s", texts[i]);
		table_add(table, "%s", command_text(status, texts[i]));
	}
	table_add(table, "uptime");
	table_add(table, "%s", table_format_time(command_u64(status, "uptime_ns"), text));
	for (size_t i = 0; i < NUM_COUNT(counts); i++) {
		table_add(table, "%.*ss", (int)strcspn(counts[i], "_"), counts[i]);
		table_add(table, "%" PRIu64, command_u64(status, counts[i]));
	}
	table_add(table, "compression");
	if (stored == 0)
		table_add(table, "nothing written yet");
	else
		table_add(table, "%s (%s written, %s stored)",
		    table_format_ratio(written, stored, (char[TABLE_NUMBER_BYTES]){ 0 }),
		    table_format_size(written, text), table_format_size(stored, more));
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

static int
print_shards(const json_t *status, FILE *out)
{
	static const struct table_column columns[] = {
		{ "SHARD", true },
		{ "PORT", true },
		{ "STATE", false },
		{ "EPOCH", true },
		{ "EXTENTS", true },
		{ "LACKING", true },
		{ "LOG MiB", true },
		{ "INDEX BLOCKS", true },
	};
	const json_t *shards = json_object_get(status, "shards"), *shard;
	struct table *table;
	size_t i;
	int rc;

	if (!json_is_array(shards)) /* too many for one reply */
		return 0;
	table = table_create(columns, NUM_COUNT(columns));
	json_array_foreach(shards, i, shard)
	{
		table_add(table, "%" PRIu64, command_u64(shard, "shard"));
		table_add(table, "%" PRIu64, command_u64(shard, "port"));
		table_add(table, "%s", command_text(shard, "state"));
		table_add(table, "%" PRIu64, command_u64(shard, "epoch"));
		table_add(table, "%" PRIu64, command_u64(shard, "extents"));
		table_add(table, "%" PRIu64, command_u64(shard, "extents_lacking"));
		table_add(table, "%.2f",
		    (double)command_u64(shard, "log_bytes") / (double)NUM_MIB(1));
		table_add(table, "%" PRIu64, command_u64(shard, "index_blocks"));
	}
	fputc('\n', out);
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* The unit is in the name, where it is not a count: write_bytes, host_bytes_in, engine_ns. */
static const char *
unit_of(const char *name)
{
	const char *suffix = strrchr(name, '_');

	if (strstr(name, "_bytes") != NULL)
		return "bytes";
	return suffix != NULL && strcmp(suffix, "_ns") == 0 ? "ns" : "count";
}

static void
add_metrics(struct table *table, const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		if (json_integer_value(value) == 0)
			continue;
		table_add(table, "%s", name);
		table_add(table, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		table_add(table, "%s", unit_of(name));
	}
}

static int
print_port(const json_t *port, FILE *out)
{
	static const struct table_column columns[] = {
		{ NULL, false },
		{ NULL, true },
		{ NULL, false },
	};
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char size[TABLE_NUMBER_BYTES];
	int rc;

	fprintf(out,
	    "\nport %" PRIu64 "  %s  sessions %" PRIu64 "  receives free %" PRIu64
	    "  indexes of runs %s\n",
	    command_u64(port, "port"), command_text(port, "address"),
	    command_u64(port, "sessions_open"), command_u64(port, "receives_free"),
	    table_format_size(command_u64(port, "run_index_bytes"), size));
	add_metrics(table, json_object_get(port, "metrics"));
	add_metrics(table, json_object_get(port, "split"));
	rc = table_print(table, 2, out);
	table_destroy(table);
	return rc;
}

int
command_print_status(const json_t *status, const json_t *nodes, FILE *out)
{
	const json_t *port;
	size_t i;
	int rc = print_gateway(status, out);

	if (rc == 0)
		rc = print_shards(status, out);
	json_array_foreach(json_object_get(status, "ports"), i, port)
	{
		if (rc == 0)
			rc = print_port(port, out);
	}
	if (rc != 0)
		return rc;
	fputc('\n', out);
	return command_print_nodes(nodes, out);
}

int
command_status(struct command_session *session)
{
	json_t *status = NULL, *nodes = NULL, *gateways = NULL;
	int rc = command_ask(session, json_pack("{s:s}", "op", "status"), false, &status);

	if (rc != 0)
		return rc;
	if (session->options->is_json) {
		rc = command_print_json(status, session->out);
	} else {
		rc = command_ask(session, json_pack("{s:s}", "op", "node.list"), false, &nodes);
		if (rc == 0)
			rc = command_ask(session, json_pack("{s:s}", "op", "gateways"), false,
			    &gateways);
		if (rc == 0)
			rc = command_print_status(status, nodes, session->out);
		if (rc == 0 && fputc('\n', session->out) != EOF)
			rc = command_print_gateways(gateways, session->out);
		json_decref(nodes);
		json_decref(gateways);
	}
	json_decref(status);
	return rc;
}

int
command_node_list(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = command_ask(session, json_pack("{s:s}", "op", "node.list"), false, &reply);

	if (rc != 0)
		return rc;
	rc = session->options->is_json ? command_print_json(reply, session->out)
				       : command_print_nodes(reply, session->out);
	json_decref(reply);
	return rc;
}

int
command_scrub(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = command_ask(session, json_pack("{s:s}", "op", "scrub"), false, &reply);

	if (rc != 0)
		return rc;
	if (session->options->is_json)
		rc = command_print_json(reply, session->out);
	else
		fprintf(session->out, "scrubbing %" PRIu64 " shards\n",
		    command_u64(reply, "shards"));
	json_decref(reply);
	return rc;
}

static int
print_orphans(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = {
		{ "NODE", true },
		{ "EXTENT", false },
		{ "INCARNATION", true },
		{ "SEEN FOR s", true },
		{ "GOES IN s", true },
		{ "", false },
	};
	const json_t *orphans = json_object_get(reply, "orphans"), *orphan;
	uint64_t total = command_u64(reply, "total");
	struct table *table = table_create(columns, NUM_COUNT(columns));
	size_t i;
	int rc;

	json_array_foreach(orphans, i, orphan)
	{
		const char *what = json_is_true(json_object_get(orphan, "held")) ? "held back" : "";

		if (json_is_true(json_object_get(orphan, "confirmed")))
			what = "confirmed";
		table_add(table, "%" PRIu64, command_u64(orphan, "node"));
		table_add(table, "%s", command_text(orphan, "extent"));
		table_add(table, "%" PRIu64, command_u64(orphan, "incarnation"));
		table_add(table, "%" PRIu64, command_u64(orphan, "seen_s"));
		table_add(table, "%" PRIu64, command_u64(orphan, "left_s"));
		table_add(table, "%s", what);
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	if (total > json_array_size(orphans))
		fprintf(out, "and %" PRIu64 " more\n", total - json_array_size(orphans));
	return rc;
}

int
command_sweep(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = command_ask(session,
	    json_pack("{s:s, s:b}", "op", "sweep", "confirm", (int)session->options->is_confirmed),
	    session->options->is_confirmed, &reply);

	if (rc != 0)
		return rc;
	if (session->options->is_json)
		rc = command_print_json(reply, session->out);
	else
		rc = print_orphans(reply, session->out);
	if (rc == 0 && !session->options->is_json && session->options->is_confirmed)
		fprintf(session->out, "%" PRIu64 " go now\n", command_u64(reply, "confirmed"));
	json_decref(reply);
	return rc;
}

int
command_gateway_list(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = command_ask(session, json_pack("{s:s}", "op", "gateways"), false, &reply);

	if (rc != 0)
		return rc;
	rc = session->options->is_json ? command_print_json(reply, session->out)
				       : command_print_gateways(reply, session->out);
	json_decref(reply);
	return rc;
}
