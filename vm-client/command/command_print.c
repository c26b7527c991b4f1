/* SPDX-License-Identifier: Apache-2.0 */
/* command_print.c -- tables of a cluster's parts: nodes, gateways, shards, ports; and the head of cleave status */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/plain.h"
#include "command.h"
#include "command_health.h"
#include "table.h"

static void
cell_node_size(struct table *table, const void *entry)
{
	const struct cleave_node_entry *node = entry;
	char text[TABLE_NUMBER_BYTES];

	table_add(table, "%s", table_format_size(node->slots_total * node->slot_bytes, text));
}

static void
cell_node_free(struct table *table, const void *entry)
{
	const struct cleave_node_entry *node = entry;
	char text[TABLE_NUMBER_BYTES];

	table_add(table, "%s",
	    table_format_size((node->slots_free - num_min(node->slots_free, node->slots_reserved)) *
		    node->slot_bytes,
		text));
}

static void
cell_node_slots(struct table *table, const void *entry)
{
	const struct cleave_node_entry *node = entry;

	table_add(table, "%" PRIu64 " of %" PRIu64 " free", node->slots_free, node->slots_total);
}

static void
cell_node_state(struct table *table, const void *entry)
{
	const struct cleave_node_entry *node = entry;

	table_add(table, "%s%s%s%s%s", node->state, node->is_read_only ? ", read-only" : "",
	    node->member[0] != '\0' && strcmp(node->member, "in") != 0 ? ", " : "",
	    strcmp(node->member, "in") != 0 ? node->member : "",
	    node->maintenance_s > 0 ? ", maintenance" : "");
}

static void
cell_node_level(struct table *table, const void *entry)
{
	const struct cleave_node_entry *node = entry;

	if (node->level == 0)
		table_add(table, "-");
	else
		table_add(table, "%" PRIu32, node->level);
}

int
command_print_nodes(const struct cleave_node_entry *nodes, uint32_t count, FILE *out)
{
	assert(nodes != NULL || count == 0);
	static const struct table_field fields[] = {
		TABLE_FIELD("NODE", TABLE_U64, struct cleave_node_entry, id),
		TABLE_FIELD("ADDRESS", TABLE_TEXT, struct cleave_node_entry, address),
		TABLE_FIELD("DOMAIN", TABLE_TEXT, struct cleave_node_entry, domain),
		TABLE_FIELD_OF("STATE", false, cell_node_state),
		TABLE_FIELD_OF("SIZE", true, cell_node_size),
		TABLE_FIELD_OF("FREE", true, cell_node_free),
		TABLE_FIELD_OF("SLOTS", true, cell_node_slots),
		TABLE_FIELD_OF("LEVEL", true, cell_node_level),
	};
	int rc = table_print_list(fields, NUM_COUNT(fields), nodes, count, sizeof(*nodes), out);

	assert(out != NULL);
	for (uint32_t i = 0; i < count; i++) {
		struct cleave_node_entry node = nodes[i]; /* people wrote its note */

		if (node.trouble[0] != '\0')
			fprintf(out, "node at %s: %s\n", plain_text(node.address),
			    plain_text(node.trouble));
		if (node.advertise[0] != '\0') {
			fprintf(out, "clients find %s", plain_text(node.address));
			fprintf(out, " at %s\n", plain_text(node.advertise));
		}
		if (node.note[0] != '\0')
			fprintf(out, "note on %s: %s\n", plain_text(node.address),
			    plain_text(node.note));
	}
	return rc;
}

static void
cell_gateway(struct table *table, const void *entry)
{
	const struct cleave_gateway_entry *gateway = entry;
	char id[TABLE_NUMBER_BYTES];

	table_add(table, "%s%s", table_format_id(gateway->id, id),
	    gateway->is_asked ? " (asked)" : "");
}

static void
cell_gateway_ports(struct table *table, const void *entry)
{
	const struct cleave_gateway_entry *gateway = entry;

	if (gateway->port_count > 1)
		table_add(table, "%s +%" PRIu32, gateway->address, gateway->port_count - 1);
	else
		table_add(table, "%s", gateway->port_count == 0 ? "-" : gateway->address);
}

static void
cell_gateway_state(struct table *table, const void *entry)
{
	const struct cleave_gateway_entry *gateway = entry;

	table_add(table, "%s", gateway->state[0] != '\0' ? gateway->state : "-");
}

static void
cell_gateway_seen(struct table *table, const void *entry)
{
	const struct cleave_gateway_entry *gateway = entry;
	char text[TABLE_NUMBER_BYTES];

	table_add(table, "%s", table_format_time(gateway->seen_for_ms * NUM_MS(1), text));
}

static void
cell_gateway_lease(struct table *table, const void *entry)
{
	const struct cleave_gateway_entry *gateway = entry;

	if (gateway->lease_left_ms > 0)
		table_add(table, "%" PRIu64 " ms", gateway->lease_left_ms);
	else
		table_add(table, "-");
}

static void
cell_gateway_levels(struct table *table, const void *entry)
{
	const struct cleave_gateway_entry *gateway = entry;

	table_add(table, "%" PRIu32 " to %" PRIu32, gateway->level_min, gateway->level_max);
}

int
command_print_gateways(const struct cleave_gateway_entry *gateways, uint32_t count, FILE *out)
{
	static const struct table_field fields[] = {
		TABLE_FIELD_OF("GATEWAY", false, cell_gateway),
		TABLE_FIELD_OF("PORTS", false, cell_gateway_ports),
		TABLE_FIELD_OF("STATE", false, cell_gateway_state),
		TABLE_FIELD("SHARDS", TABLE_U32, struct cleave_gateway_entry, shards_owned),
		TABLE_FIELD("SHARE", TABLE_U32, struct cleave_gateway_entry, shards_share),
		TABLE_FIELD_OF("SEEN FOR", true, cell_gateway_seen),
		TABLE_FIELD_OF("LEASE LEFT", true, cell_gateway_lease),
		TABLE_FIELD_OF("LEVELS", true, cell_gateway_levels),
	};

	assert(out != NULL);
	assert(gateways != NULL || count == 0);
	return table_print_list(fields, NUM_COUNT(fields), gateways, count, sizeof(*gateways), out);
}

static void
cell_shard_log(struct table *table, const void *entry)
{
	const struct cleave_shard_entry *shard = entry;

	table_add(table, "%.2f", (double)shard->log_bytes / (double)NUM_MIB(1));
}

int
command_print_shards(const struct cleave_shard_entry *shards, uint32_t count, FILE *out)
{
	static const struct table_field fields[] = {
		TABLE_FIELD("SHARD", TABLE_U32, struct cleave_shard_entry, shard),
		TABLE_FIELD("PORT", TABLE_U32, struct cleave_shard_entry, port),
		TABLE_FIELD("STATE", TABLE_TEXT, struct cleave_shard_entry, state),
		TABLE_FIELD("EPOCH", TABLE_U64, struct cleave_shard_entry, epoch),
		TABLE_FIELD("EXTENTS", TABLE_U64, struct cleave_shard_entry, extents),
		TABLE_FIELD("LACKING", TABLE_U64, struct cleave_shard_entry, extents_lacking),
		TABLE_FIELD_OF("LOG MiB", true, cell_shard_log),
		TABLE_FIELD("INDEX BLOCKS", TABLE_U64, struct cleave_shard_entry, index_blocks),
	};

	assert(out != NULL);
	assert(shards != NULL || count == 0);
	return table_print_list(fields, NUM_COUNT(fields), shards, count, sizeof(*shards), out);
}

/* The sum of a metric over all ports. */
static uint64_t
sum_metric(const json_t *status, const char *name)
{
	const json_t *port;
	uint64_t sum = 0;
	size_t i;

	assert(name != NULL && name[0] != '\0');
	json_array_foreach(json_object_get(status, "ports"), i, port)
	    sum += command_u64(json_object_get(port, "metrics"), name);
	return sum;
}

static void
add_compression(struct table *table, uint64_t written, uint64_t stored)
{
	char ratio[TABLE_NUMBER_BYTES], text[TABLE_NUMBER_BYTES], more[TABLE_NUMBER_BYTES];

	table_add(table, "compression");
	if (stored == 0)
		table_add(table, "nothing written yet");
	else
		table_add(table, "%s (%s written, %s stored)",
		    table_format_ratio(written, stored, ratio), table_format_size(written, text),
		    table_format_size(stored, more));
}

int
command_print_status(const struct cleave_gateway_status *status, const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	char id[TABLE_NUMBER_BYTES], cluster[TABLE_NUMBER_BYTES], boot[TABLE_NUMBER_BYTES];
	const struct {
		const char *title, *text;
	} texts[] = { { "gateway", table_format_id(status->id, id) }, { "state", status->state },
		{ "cluster", table_format_id(status->cluster_id, cluster) },
		{ "boot", table_format_id(status->boot_id, boot) } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char text[TABLE_NUMBER_BYTES];
	int rc;

	assert(out != NULL);
	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		table_add(table, "%s", texts[i].title);
		table_add(table, "%s", texts[i].text);
	}
	table_add(table, "uptime");
	table_add(table, "%s", table_format_time(status->uptime_ns, text));
	table_add(table, "level");
	table_add(table, "%" PRIu32, status->level);
	table_add(table, "shards");
	table_add(table, "%" PRIu64, status->shard_count);
	table_add(table, "volumes");
	table_add(table, "%" PRIu64, status->volume_count);
	add_compression(table, sum_metric(reply, "write_bytes"), sum_metric(reply, "stored_bytes"));
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

static void
add_room(struct table *table, const json_t *room)
{
	char left[TABLE_NUMBER_BYTES], total[TABLE_NUMBER_BYTES], raw[TABLE_NUMBER_BYTES],
	    stored[TABLE_NUMBER_BYTES];
	uint64_t raw_total = command_u64(room, "raw_total");
	uint64_t data_total = command_u64(room, "data_total");
	uint64_t data_free = command_u64(room, "data_free");
	/* As health judges it: of nodes that are away, too. Gateways of before do not say. */
	uint64_t data_used = json_object_get(room, "data_used") != NULL
	    ? command_u64(room, "data_used")
	    : data_total - num_min(data_free, data_total);

	table_add(table, "room");
	if (data_total == 0) {
		table_add(table, "not known yet");
		return;
	}
	table_add(table,
	    "%s left for data of %s, %" PRIu64 " %% in use; %s of disks, %s of them stored",
	    table_format_size(data_free, left), table_format_size(data_total, total),
	    data_used * 100 / data_total, table_format_size(raw_total, raw),
	    table_format_size(raw_total - num_min(command_u64(room, "raw_free"), raw_total),
		stored));
}

/* Volumes may be larger than what there is room for: they take room as they are written. */
static void
add_promised(struct table *table, const json_t *room)
{
	uint64_t data_total = command_u64(room, "data_total");
	uint64_t volume_bytes = command_u64(room, "volume_bytes");
	char ratio[TABLE_NUMBER_BYTES], size[TABLE_NUMBER_BYTES];

	if (data_total == 0 || json_object_get(room, "volume_bytes") == NULL)
		return;
	table_add(table, "promised");
	table_add(table, "%s (%s of volumes, before compression)%s",
	    table_format_ratio(volume_bytes, data_total, ratio),
	    table_format_size(volume_bytes, size),
	    volume_bytes > data_total ? ": overcommitted" : "");
}

static void
add_full(struct table *table, const struct command_health *health)
{
	int64_t days = command_health_days(health);
	char text[TABLE_NUMBER_BYTES];

	table_add(table, "full in");
	if (days < 0)
		table_add(table, "? (an hour has to be seen first)");
	else if (days == INT64_MAX)
		table_add(table, "never, as the last %s went",
		    table_format_time(NUM_S(health->day_s), text));
	else if (days == 0)
		table_add(table, "less than a day, as the last %s went",
		    table_format_time(NUM_S(health->day_s), text));
	else
		table_add(table, "%" PRId64 " days, as the last %s went", days,
		    table_format_time(NUM_S(health->day_s), text));
}

/* The last hour, or as much of it as gateways have run; none of it, of gateways that do not tell: since they began. */
static void
add_compression_lately(struct table *table, const struct command_health *health)
{
	char ratio[TABLE_NUMBER_BYTES], text[TABLE_NUMBER_BYTES], more[TABLE_NUMBER_BYTES];
	char since[TABLE_NUMBER_BYTES];

	table_add(table, "compression");
	if (health->hour_stored_bytes > 0)
		table_add(table, "%s in the last %s (%s written, %s stored)",
		    table_format_ratio(health->hour_write_bytes, health->hour_stored_bytes, ratio),
		    table_format_time(NUM_S(health->hour_s), since),
		    table_format_size(health->hour_write_bytes, text),
		    table_format_size(health->hour_stored_bytes, more));
	else if (health->stored_bytes > 0)
		table_add(table, "%s since the gateways started (%s written, %s stored)",
		    table_format_ratio(health->write_bytes, health->stored_bytes, ratio),
		    table_format_size(health->write_bytes, text),
		    table_format_size(health->stored_bytes, more));
	else
		table_add(table, "nothing written since the gateways started");
}

static void
add_no_room(struct table *table, const json_t *no_room)
{
	const char *volume;
	json_t *entry;
	char text[TABLE_NUMBER_BYTES];

	json_object_foreach((json_t *)(uintptr_t)no_room, volume, entry)
	{
		table_add(table, "no room");
		table_add(table,
		    "volume '%s': %" PRIu64 " writes refused, %" PRIu64 " waited, the last %s ago",
		    volume, command_u64(entry, "refused"), command_u64(entry, "waited"),
		    table_format_time(NUM_MS(command_u64(entry, "last_ms")), text));
	}
}

static const char *
format_latency(uint64_t ns, char ret_text[TABLE_NUMBER_BYTES])
{
	(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%" PRIu64 ".%02" PRIu64 " ms", ns / NUM_MS(1),
	    ns % NUM_MS(1) / NUM_US(10));
	return ret_text;
}

/* As gateways see it: from a request's arrival to its answer. */
static void
add_latency(struct table *table, const char *title, const struct latency *latency)
{
	char p50[TABLE_NUMBER_BYTES], p99[TABLE_NUMBER_BYTES];

	table_add(table, "%s", title);
	if (latency_total(latency) == 0)
		table_add(table, "none in the last minute");
	else
		table_add(table, "p50 %s, p99 %s, %" PRIu64 " in the last minute",
		    format_latency(latency_quantile_ns(latency, 50), p50),
		    format_latency(latency_quantile_ns(latency, 99), p99), latency_total(latency));
}

static uint32_t
nodes_up(const struct command_summary *summary)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < summary->node_count; i++)
		count += strcmp(summary->nodes[i].state, "up") == 0;
	return count;
}

static void
add_clients(struct table *table, const struct command_client_rates *clients)
{
	char read[TABLE_NUMBER_BYTES], write[TABLE_NUMBER_BYTES];

	if (!clients->is_known)
		return;
	table_add(table, "clients");
	table_add(table, "%.0f reads/s, %s/s; %.0f writes/s, %s/s", clients->reads_s,
	    table_format_size((uint64_t)clients->read_bytes_s, read), clients->writes_s,
	    table_format_size((uint64_t)clients->write_bytes_s, write));
}

int
command_print_summary(const struct command_summary *summary, FILE *out)
{
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	const struct cleave_gateway_status *status = summary->status;
	const struct command_health *health = summary->health;
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char id[TABLE_NUMBER_BYTES];
	int rc;

	assert(status != NULL && health != NULL);
	table_add(table, "cluster");
	table_add(table, "%s, level %" PRIu32, table_format_id(status->cluster_id, id),
	    status->level);
	table_add(table, "gateways");
	table_add(table, "%" PRIu32 ", %" PRIu32 " answer", health->gateway_count,
	    health->gateway_count - health->silent_count);
	table_add(table, "nodes");
	table_add(table, "%" PRIu32 ", %" PRIu32 " up", summary->node_count, nodes_up(summary));
	table_add(table, "shards");
	table_add(table, "%" PRIu64 ", %" PRIu64 " serving", status->shard_count,
	    health->shards_serving);
	table_add(table, "volumes");
	table_add(table, "%" PRIu64 ", %" PRIu64 " connections of clients", status->volume_count,
	    health->sessions);
	table_add(table, "extents");
	table_add(table, "%" PRIu64 ", %" PRIu64 " lack copies, %" PRIu64 " to be moved",
	    health->extents, health->extents_lacking, health->extents_leaving);
	add_room(table, health->room);
	add_promised(table, health->room);
	add_full(table, health);
	add_compression_lately(table, health);
	add_no_room(table, health->no_room);
	add_clients(table, &health->clients);
	add_latency(table, "writes", &health->write);
	add_latency(table, "reads", &health->read);
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
	char size[TABLE_NUMBER_BYTES], most[TABLE_NUMBER_BYTES];
	int rc;

	assert(port != NULL && out != NULL);
	fprintf(out,
	    "\nport %" PRIu64 "  %s  sessions %" PRIu64 "  receives free %" PRIu64
	    "  indexes of runs %s  shards %" PRIu64 " of %" PRIu64,
	    command_u64(port, "port"), command_text(port, "address"),
	    command_u64(port, "sessions_open"), command_u64(port, "receives_free"),
	    table_format_size(command_u64(port, "run_index_bytes"), size),
	    command_u64(port, "rings"), command_u64(port, "rings_max"));
	if (command_u64(port, "hot_bytes_max") > 0)
		fprintf(out, "  hot blocks %s of %s",
		    table_format_size(command_u64(port, "hot_bytes"), size),
		    table_format_size(command_u64(port, "hot_bytes_max"), most));
	if (command_u64(port, "shards_short") > 0)
		fprintf(out, ", %" PRIu64 " wait for room (--device-memory)",
		    command_u64(port, "shards_short"));
	fputc('\n', out);
	add_metrics(table, json_object_get(port, "metrics"));
	add_metrics(table, json_object_get(port, "split"));
	rc = table_print(table, 2, out);
	table_destroy(table);
	return rc;
}

int
command_print_ports(const json_t *reply, FILE *out)
{
	const json_t *port;
	size_t i;
	int rc = 0;

	assert(reply != NULL && out != NULL);
	json_array_foreach(json_object_get(reply, "ports"), i, port)
	{
		if (rc == 0)
			rc = print_port(port, out);
	}
	return rc;
}
