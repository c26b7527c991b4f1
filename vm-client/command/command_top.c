/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_top.c -- cleave top: what is busy now, by volume and by gateway, and how full the nodes are
 *
 *	each gateway, each interval --"rates"--> counters --minus those of before--> rates
 *
 * Gateways tell counters and the time by their own clocks: a rate does not depend on how long an answer took. A gateway
 * that was started anew, and one that was silent, has none until it has answered twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/output.h"
#include "command.h"
#include "command_ask.h"
#include "command_ask_all.h"
#include "table.h"

#define TOP_GATEWAYS_MAX 64u
#define TOP_INTERVAL_NS NUM_S(1)
#define TOP_ASK_NS NUM_S(1)
#define TOP_LINES_ELSE 6u /* of a screen: without volumes, nodes and gateways */
#define TOP_VOLUMES_MIN 5u
#define TOP_CLEAR "\033[H\033[J"

struct top_gateway {
	uint64_t id;
	json_t *before; /* its answer before this one; NULL: none */
};

struct top {
	struct command_session *session;
	struct top_gateway gateways[TOP_GATEWAYS_MAX];
	uint32_t gateway_count;
	json_t *volumes; /* objects, see add_rate */
	json_t *list;    /* gateways, see add_gateway */
	bool is_lost;    /* what was printed */
};

/* ---- one interval ---- */

static double
real(const json_t *object, const char *member)
{
	return json_number_value(json_object_get(object, member));
}

/* A member that is absent is made. */
static void
add_to(json_t *object, const char *member, double value)
{
	json_object_set_new(object, member, json_real(real(object, member) + value));
}

static json_t *
find_by(const json_t *list, const char *member, const char *name)
{
	json_t *object;
	size_t i;

	json_array_foreach(list, i, object)
	{
		if (strcmp(command_text(object, member), name) == 0)
			return object;
	}
	return NULL;
}

/* How much a counter has grown; one that fell began anew. */
static double
grown(const json_t *now, const json_t *before, const char *counter)
{
	double value = real(now, counter), old = real(before, counter);

	return value < old ? value : value - old;
}

static double
growth(const json_t *now, const json_t *before, const char *op, const char *counter)
{
	return grown(json_object_get(now, op), json_object_get(before, op), counter);
}

/* Rates of @op: NAME_s requests, NAME_bytes_s, and NAME_us, the time of all of them, which becomes a mean at the end. */
static void
add_op(json_t *sum, const json_t *now, const json_t *before, const char *op, double seconds)
{
	char member[32];

	assert(seconds > 0);
	(void)snprintf(member, sizeof(member), "%s_s", op);
	add_to(sum, member, growth(now, before, op, "requests") / seconds);
	(void)snprintf(member, sizeof(member), "%s_bytes_s", op);
	add_to(sum, member, growth(now, before, op, "bytes") / seconds);
	(void)snprintf(member, sizeof(member), "%s_us", op);
	add_to(sum, member, growth(now, before, op, "took_us") / seconds);
	add_to(sum, "errors_s", growth(now, before, op, "errors") / seconds);
}

/* Requests held for limits and shares before they began; and what these are, as any gateway says. */
static void
add_held(json_t *volume, const json_t *now, const json_t *before, double seconds)
{
	json_t *qos = json_object_get(now, "qos");

	add_to(volume, "held_s", grown(now, before, "held") / seconds);
	add_to(volume, "qos_wait_us", grown(now, before, "held_us") / seconds);
	if (qos != NULL)
		json_object_set(volume, "qos", qos);
}

/* Reads that clients have made at storage nodes: no other count has them. */
static void
add_direct(json_t *sum, const json_t *now, const json_t *before, double seconds)
{
	add_to(sum, "direct_s", growth(now, before, "direct", "requests") / seconds);
	add_to(sum, "direct_bytes_s", growth(now, before, "direct", "bytes") / seconds);
}

/* A volume that was not in the list before was not busy: what it has now is no rate. */
static void
add_rate(struct top *top, json_t *gateway, const json_t *now, const json_t *before, double seconds)
{
	const char *name = command_text(now, "volume");
	const json_t *old = find_by(json_object_get(before, "rates"), "volume", name);
	json_t *volume;

	if (old == NULL)
		return;
	add_op(gateway, now, old, "read", seconds);
	add_op(gateway, now, old, "write", seconds);
	volume = find_by(top->volumes, "volume", name);
	if (volume == NULL) {
		volume = json_pack("{s:s}", "volume", name);
		if (volume == NULL || json_array_append_new(top->volumes, volume) != 0)
			return;
	}
	add_op(volume, now, old, "read", seconds);
	add_op(volume, now, old, "write", seconds);
	add_direct(gateway, now, old, seconds);
	add_direct(volume, now, old, seconds);
	add_held(volume, now, old, seconds);
}

static struct top_gateway *
gateway_of(struct top *top, uint64_t id)
{
	for (uint32_t i = 0; i < top->gateway_count; i++) {
		if (top->gateways[i].id == id)
			return &top->gateways[i];
	}
	if (top->gateway_count == TOP_GATEWAYS_MAX)
		return NULL;
	top->gateways[top->gateway_count] = (struct top_gateway){ .id = id };
	return &top->gateways[top->gateway_count++];
}

/*
 * The part of the blocks looked for among hot ones that was there, those that clients read by themselves among them;
 * nothing is said where none was looked for.
 */
static void
add_hot(json_t *line, const json_t *now, const json_t *before)
{
	double hits = growth(now, before, "hot", "hits") + growth(now, before, "hot", "peeks");
	double all = hits + growth(now, before, "hot", "misses");

	if (all > 0)
		json_object_set_new(line, "hot_percent", json_real(100 * hits / all));
}

/* The part of the records read from nodes whose places in runs were in memory; a gateway of a release before says nothing. */
static void
add_index(json_t *line, const json_t *now, const json_t *before)
{
	double reads = growth(now, before, "index", "reads");
	double waits = growth(now, before, "index", "waits");

	if (reads > 0)
		json_object_set_new(line, "index_percent",
		    json_real(waits < reads ? 100 * (1 - waits / reads) : 0));
}

/* Bytes that merges make: this gateway's, those of them that others execute, and those of others that it executes. */
static void
add_merges(json_t *line, const json_t *now, const json_t *before, double seconds)
{
	if (json_object_get(now, "merges") == NULL)
		return; /* a gateway of a release before */
	add_to(line, "merged_bytes_s", growth(now, before, "merges", "bytes") / seconds);
	add_to(line, "away_bytes_s", growth(now, before, "merges", "away") / seconds);
	add_to(line, "jobs_bytes_s", growth(now, before, "merges", "jobs") / seconds);
}

/* Rates of a gateway since @gateway->before, if both answers are of the same process. */
static void
take_rates(struct top *top, struct top_gateway *gateway, json_t *line, json_t *reply)
{
	json_t *before = gateway->before, *latency = json_object_get(reply, "latency_us"), *rate;
	double seconds = (real(reply, "at_ms") - real(before, "at_ms")) / 1000;
	size_t i;

	if (before != NULL && seconds > 0 &&
	    strcmp(command_text(reply, "boot"), command_text(before, "boot")) == 0) {
		json_array_foreach(json_object_get(reply, "rates"), i, rate)
		    add_rate(top, line, rate, before, seconds);
		add_hot(line, reply, before);
		add_index(line, reply, before);
		add_merges(line, reply, before, seconds);
	}
	if (latency != NULL)
		json_object_update(line, latency);
	json_decref(before);
	gateway->before = reply;
}

static void
add_gateway(struct top *top, struct command_asked *asked)
{
	const struct cleave_gateway_entry *entry = asked->gateway;
	struct top_gateway *gateway = gateway_of(top, entry->id);
	char id[TABLE_NUMBER_BYTES];
	json_t *line;

	line = json_pack("{s:s, s:s, s:I}", "gateway", table_format_id(entry->id, id), "address",
	    entry->address, "shards", (json_int_t)entry->shards_owned);
	if (line == NULL || json_array_append_new(top->list, line) != 0 || gateway == NULL)
		return;
	if (asked->rc == 0)
		take_rates(top, gateway, line, json_incref(asked->reply));
	else
		json_object_set_new(line, "silent", json_true());
}

/* All at once: one that is silent costs a second, once. */
static int
ask_gateways(struct top *top, const struct cleave_gateway_entry *gateways, uint32_t count)
{
	struct command_asked *asked = command_ask_all_init(top->session, gateways, count);

	if (asked == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		if (gateways[i].address[0] != '\0')
			asked[i].question = json_pack("{s:s}", "op", "rates");
	}
	command_ask_all(top->session, asked, count, TOP_ASK_NS);
	for (uint32_t i = 0; i < count; i++) {
		if (gateways[i].address[0] != '\0')
			add_gateway(top, &asked[i]);
	}
	command_ask_all_fini(asked, count);
	return 0;
}

static double
busy_of(const json_t *volume)
{
	return real(volume, "read_s") + real(volume, "write_s") + real(volume, "direct_s");
}

static int
by_requests(const void *a, const void *b)
{
	const json_t *first = *(json_t *const *)a, *second = *(json_t *const *)b;
	double diff = busy_of(second) - busy_of(first);

	if (diff != 0)
		return diff > 0 ? 1 : -1;
	return strcmp(command_text(first, "volume"), command_text(second, "volume"));
}

/* A mean instead of a sum of times. */
static void
end_means(json_t *list)
{
	static const char *const ops[][3] = { { "read_s", "read_us", "read_mean_us" },
		{ "write_s", "write_us", "write_mean_us" },
		{ "held_s", "qos_wait_us", "qos_wait_mean_us" } };
	json_t *object;
	size_t i;

	json_array_foreach(list, i, object)
	{
		for (size_t op = 0; op < NUM_COUNT(ops); op++) {
			double count = real(object, ops[op][0]);

			if (json_object_get(object, ops[op][0]) == NULL)
				continue; /* gateways tell it of volumes alone, and those of before not at all */
			json_object_set_new(object, ops[op][2],
			    json_real(count > 0 ? real(object, ops[op][1]) / count : 0));
			json_object_del(object, ops[op][1]);
		}
	}
}

/* Volumes, the busiest first; those without a row of their own, together, are the last. */
static int
sort_volumes(struct top *top)
{
	size_t count = json_array_size(top->volumes), kept = 0;
	json_t **sorted = calloc(num_max(count, 1), sizeof(json_t *));
	json_t *others = NULL;

	if (sorted == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		json_t *volume = json_incref(json_array_get(top->volumes, i));

		if (command_text(volume, "volume")[0] == '\0')
			others = volume;
		else
			sorted[kept++] = volume;
	}
	qsort(sorted, kept, sizeof(json_t *), by_requests);
	json_array_clear(top->volumes);
	for (size_t i = 0; i < kept; i++)
		json_array_append_new(top->volumes, sorted[i]);
	if (others != NULL)
		json_array_append_new(top->volumes, others);
	free(sorted);
	return 0;
}

static int
top_ask(struct top *top, struct command_question *gateways, struct command_question *nodes)
{
	struct cleave_client *client = top->session->client;
	int rc = command_wait(gateways,
	    cleave_gateway_list(client, &gateways->ask, command_on_gateways, gateways));

	json_array_clear(top->volumes);
	json_array_clear(top->list);
	if (rc == 0)
		rc = command_wait(nodes,
		    cleave_node_list(client, &nodes->ask, command_on_nodes, nodes));
	if (rc != 0)
		return rc;
	rc = ask_gateways(top, gateways->entries, gateways->count);
	if (rc != 0)
		return rc;
	end_means(top->volumes);
	end_means(top->list);
	return sort_volumes(top);
}

/* ---- printing ---- */

static void
add_cells(struct table *table, const json_t *object)
{
	static const char *const ops[][3] = { { "read_s", "read_bytes_s", "read_mean_us" },
		{ "write_s", "write_bytes_s", "write_mean_us" } };

	for (size_t op = 0; op < NUM_COUNT(ops); op++) {
		table_add(table, "%.0f", real(object, ops[op][0]));
		table_add(table, "%.1f", real(object, ops[op][1]) / 1048576);
		table_add(table, "%.2f", real(object, ops[op][2]) / 1000);
	}
}

static int
print_volumes(const struct top *top, size_t max, FILE *out)
{
	static const struct table_column columns[] = { { "VOLUME", false }, { "READS/S", true },
		{ "MiB/S", true }, { "MS", true }, { "WRITES/S", true }, { "MiB/S", true },
		{ "MS", true }, { "DIRECT/S", true }, { "MiB/S", true }, { "ERRORS/S", true },
		{ "HELD/S", true }, { "MS", true }, { "LIMITS", false } };
	char limits[COMMAND_LIMITS_TEXT_BYTES];
	struct table *table = table_create(columns, NUM_COUNT(columns));
	json_t *volume;
	size_t i;
	int rc;

	json_array_foreach(top->volumes, i, volume)
	{
		const char *name = command_text(volume, "volume");

		if (i >= max || (name[0] == '\0' && busy_of(volume) <= 0))
			continue;
		table_add(table, "%s", name[0] == '\0' ? "(others)" : name);
		add_cells(table, volume);
		table_add(table, "%.0f", real(volume, "direct_s"));
		table_add(table, "%.1f", real(volume, "direct_bytes_s") / 1048576);
		table_add(table, "%.0f", real(volume, "errors_s"));
		table_add(table, "%.0f", real(volume, "held_s"));
		table_add(table, "%.2f", real(volume, "qos_wait_mean_us") / 1000);
		command_limits_json(json_object_get(volume, "qos"), limits, sizeof(limits));
		table_add(table, "%s", limits);
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

static void
add_percent(struct table *table, const json_t *line, const char *member)
{
	if (json_object_get(line, member) != NULL)
		table_add(table, "%.0f %%", real(line, member));
	else
		table_add(table, "-");
}

static void
add_mib(struct table *table, const json_t *line, const char *member)
{
	if (json_object_get(line, member) != NULL)
		table_add(table, "%.1f", real(line, member) / 1048576);
	else
		table_add(table, "-");
}

static int
print_gateways(const struct top *top, FILE *out)
{
	static const struct table_column columns[] = { { "GATEWAY", false }, { "SHARDS", true },
		{ "READS/S", true }, { "MiB/S", true }, { "MS", true }, { "WRITES/S", true },
		{ "MiB/S", true }, { "MS", true }, { "READ P99", true }, { "WRITE P99", true },
		{ "HOT", true }, { "INDEX", true }, { "MERGED", true }, { "AWAY", true },
		{ "FOR OTHERS", true } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	json_t *gateway;
	size_t i;
	int rc;

	json_array_foreach(top->list, i, gateway)
	{
		bool is_silent = json_is_true(json_object_get(gateway, "silent"));

		table_add(table, "%s%s", command_text(gateway, "gateway"),
		    is_silent ? " does not answer" : "");
		table_add(table, "%.0f", real(gateway, "shards"));
		add_cells(table, gateway);
		table_add(table, "%.1f", real(gateway, "read_p99") / 1000);
		table_add(table, "%.1f", real(gateway, "write_p99") / 1000);
		add_percent(table, gateway, "hot_percent");
		add_percent(table, gateway, "index_percent");
		add_mib(table, gateway, "merged_bytes_s");
		add_mib(table, gateway, "away_bytes_s");
		add_mib(table, gateway, "jobs_bytes_s");
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

static double
node_full(const struct cleave_node_entry *node)
{
	uint64_t free_slots = node->slots_free - num_min(node->slots_reserved, node->slots_free);

	return node->slots_total == 0
	    ? 0
	    : 100.0 * (double)(node->slots_total - free_slots) / (double)node->slots_total;
}

static int
print_nodes(const struct cleave_node_entry *nodes, uint32_t count, FILE *out)
{
	static const struct table_column columns[] = { { "NODE", true }, { "ADDRESS", false },
		{ "DOMAIN", false }, { "STATE", false }, { "FULL", true } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		table_add(table, "%" PRIu64, nodes[i].id);
		table_add(table, "%s", nodes[i].address);
		table_add(table, "%s", nodes[i].domain);
		table_add(table, "%s", nodes[i].state);
		table_add(table, "%.0f %%", node_full(&nodes[i]));
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* As many volumes as a terminal has lines for; elsewhere all. */
static size_t
volumes_max(const struct top *top, uint32_t node_count, FILE *out)
{
	size_t other = TOP_LINES_ELSE + node_count + json_array_size(top->list);
	struct winsize size;

	if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
		return SIZE_MAX;
	return size.ws_row > other + TOP_VOLUMES_MIN ? size.ws_row - other : TOP_VOLUMES_MIN;
}

static int
print_text(struct top *top, const struct command_question *nodes, FILE *out)
{
	char date[TABLE_NUMBER_BYTES];
	int rc;

	if (isatty(fileno(out)) && !top->session->options->is_once)
		fputs(TOP_CLEAR, out);
	fprintf(out, "%s\n", table_format_date(log_wall_s(), date));
	rc = print_volumes(top, volumes_max(top, nodes->count, out), out);
	fputc('\n', out);
	if (rc == 0)
		rc = print_gateways(top, out);
	fputc('\n', out);
	if (rc == 0)
		rc = print_nodes(nodes->entries, nodes->count, out);
	return rc;
}

static int
print_json(struct top *top, const struct command_question *nodes, FILE *out)
{
	const struct cleave_node_entry *entries = nodes->entries;
	json_t *list = json_array(), *object;
	char *text;

	for (uint32_t i = 0; i < nodes->count; i++)
		json_array_append_new(list,
		    json_pack("{s:I, s:s, s:s, s:f}", "node", (json_int_t)entries[i].id, "address",
			entries[i].address, "state", entries[i].state, "full_percent",
			node_full(&entries[i])));
	object = json_pack("{s:I, s:O, s:O, s:o}", "time", (json_int_t)log_wall_s(), "volumes",
	    top->volumes, "gateways", top->list, "nodes", list);
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6));
	json_decref(object);
	if (text == NULL)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

/* Asks, and prints what it has grown by; the first time there is nothing to print. */
static int
top_turn(struct top *top, bool is_first)
{
	struct command_session *session = top->session;
	struct command_question gateways, nodes;
	int rc, lost;

	command_question_init(&gateways, session);
	command_question_init(&nodes, session);
	rc = top_ask(top, &gateways, &nodes);
	if (rc == 0 && !is_first)
		rc = session->options->is_json ? print_json(top, &nodes, session->out)
					       : print_text(top, &nodes, session->out);
	lost = output_check(session->out);
	top->is_lost = lost != 0;
	if (top->is_lost)
		rc = command_fail_output(session, lost);
	command_question_fini(&nodes);
	command_question_fini(&gateways);
	return rc;
}

int
command_top(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct top top = { .session = session, .volumes = json_array(), .list = json_array() };
	int rc = top.volumes == NULL || top.list == NULL ? -ENOMEM : top_turn(&top, true);

	assert(session->client != NULL);
	while (rc == 0) {
		command_pause(session,
		    options->interval_ns != 0 ? options->interval_ns : TOP_INTERVAL_NS);
		rc = top_turn(&top, false);
		if (options->is_once)
			break;
		if (rc != 0 && rc != -ENOMEM && !top.is_lost) {
			fprintf(stderr, "cleave: %s\n", session->error);
			rc = 0; /* no gateway answers now: one may again */
		}
	}
	for (uint32_t i = 0; i < top.gateway_count; i++)
		json_decref(top.gateways[i].before);
	json_decref(top.volumes);
	json_decref(top.list);
	return rc;
}
