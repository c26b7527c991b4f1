/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_metrics.c -- see nbd_metrics.h */
#include "nbd_metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/num.h"
#include "nbd.h"

#define EXPORT_OBJECTS_MAX (NBD_METRICS_EXPORTS_MAX * NBD_OP_NR)

static const char *const op_names[NBD_OP_NR] = { "read", "write", "flush", "trim", "zero",
	"status" };

/* ---- counting ---- */

/* NBD_OP_NR: a command that is not measured. */
static enum nbd_op
op_of(uint16_t type)
{
	static const uint8_t ops[NBD_CMD_NR] = {
		[NBD_CMD_READ] = NBD_OP_READ,
		[NBD_CMD_WRITE] = NBD_OP_WRITE,
		[NBD_CMD_DISC] = NBD_OP_NR,
		[NBD_CMD_FLUSH] = NBD_OP_FLUSH,
		[NBD_CMD_TRIM] = NBD_OP_TRIM,
		[NBD_CMD_CACHE] = NBD_OP_NR,
		[NBD_CMD_WRITE_ZEROES] = NBD_OP_ZERO,
		[NBD_CMD_BLOCK_STATUS] = NBD_OP_STATUS,
		[NBD_CMD_RESIZE] = NBD_OP_NR,
	};

	return type < NBD_CMD_NR ? (enum nbd_op)ops[type] : NBD_OP_NR;
}

void
nbd_metrics_count_sent(struct nbd_request *request)
{
	enum nbd_op op = op_of(request->head.type);
	struct nbd_stats *stats = &request->export->stats;

	assert(request->rc <= 0);
	if (request->rc != 0) {
		metric_add(&stats->errors, 1);
		return;
	}
	if (op == NBD_OP_NR)
		return;
	latency_count(&stats->latency[op],
	    loop_now_ns(request->connection->server->options.loop) - request->begun_ns);
	if (op == NBD_OP_READ)
		metric_add(&stats->read_bytes, request->head.length_bytes);
	else if (op == NBD_OP_WRITE)
		metric_add(&stats->written_bytes, request->head.length_bytes);
}

static void
stats_add(struct nbd_stats *to, const struct nbd_stats *from)
{
	for (uint32_t op = 0; op < NBD_OP_NR; op++)
		latency_read(&to->latency[op], &from->latency[op]);
#define COUNTER_ADD(name, unit, help) metric_add(&to->name, from->name);
	NBD_COUNTER_LIST(COUNTER_ADD)
#undef COUNTER_ADD
}

void
nbd_metrics_retire(struct nbd_export *export)
{
	CHECK_OBJ(export, EXPORT_MAGIC);
	stats_add(&export->server->gone, &export->stats);
}

void
nbd_metrics_on_stall(struct nbd_server *server, const struct cleave_stall *stall)
{
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (strcmp(export->name, stall->volume) == 0)
			export->is_stalled = !stall->is_over;
	}
}

/* ---- tables ---- */

static const struct metric_member counter_members[] = {
#define COUNTER_MEMBER(name, unit, help)                                                           \
	METRIC_MEMBER(struct nbd_stats, name, #name, unit, help, METRIC_COUNTER),
	NBD_COUNTER_LIST(COUNTER_MEMBER)
#undef COUNTER_MEMBER
};

static const struct metric_member client_members[] = {
#define CLIENT_MEMBER(name, help)                                                                  \
	METRIC_MEMBER(struct cleave_stats, name, #name, "count", help, METRIC_COUNTER),
	CLEAVE_STAT_LIST(CLIENT_MEMBER)
#undef CLIENT_MEMBER
};

struct agent_sample {
	uint32_t export_count, connection_count, open_count, lost_count, stalled_count;
	uint64_t held_bytes;
};
#define AGENT(member, name, unit, help)                                                            \
	METRIC_MEMBER(struct agent_sample, member, name, unit, help, METRIC_GAUGE)
static const struct metric_member agent_members[] = {
	AGENT(export_count, "exports", "count", "exports that there are"),
	AGENT(open_count, "exports_open", "count", "exports whose volume is open"),
	AGENT(lost_count, "exports_lost", "count", "exports whose volume was taken or deleted"),
	AGENT(stalled_count, "exports_stalled", "count",
	    "exports that get no answers from gateways now"),
	AGENT(connection_count, "connections", "count", "connections of NBD clients"),
	AGENT(held_bytes, "memory_bytes", "bytes", "held by requests and replies"),
};
#undef AGENT

struct export_sample {
	const struct nbd_export *export;
	uint64_t request_count;
	uint32_t user_count;
	bool is_writing, is_lost, is_stalled;
};
#define EXPORT(member, name, unit, help)                                                           \
	METRIC_MEMBER(struct export_sample, member, name, unit, help, METRIC_GAUGE)
static const struct metric_member export_members[] = {
	EXPORT(user_count, "users", "count", "connections of NBD clients to the export"),
	EXPORT(is_writing, "writing", "bool", "1 while the agent has the volume open for writing"),
	EXPORT(is_lost, "lost", "bool",
	    "1 after its volume was taken by another client, or deleted"),
	EXPORT(is_stalled, "stalled", "bool", "1 while it gets no answers from gateways"),
};
#undef EXPORT

/* ---- telling ---- */

/* The exports with the most requests, most first; and all that exports have counted. */
struct metrics_report {
	struct agent_sample agent;
	struct nbd_stats total;
	struct export_sample busiest[NBD_METRICS_EXPORTS_MAX];
	uint32_t busiest_count;
	struct metric_object objects[EXPORT_OBJECTS_MAX];
};

static void
report_rank(struct metrics_report *report, const struct export_sample *sample)
{
	uint32_t at = report->busiest_count;

	assert(at <= NBD_METRICS_EXPORTS_MAX);
	while (at > 0 && report->busiest[at - 1].request_count < sample->request_count)
		at--;
	if (at == NBD_METRICS_EXPORTS_MAX)
		return;
	if (report->busiest_count < NBD_METRICS_EXPORTS_MAX)
		report->busiest_count++;
	memmove(&report->busiest[at + 1], &report->busiest[at],
	    (report->busiest_count - 1 - at) * sizeof(*sample));
	report->busiest[at] = *sample;
}

static void
report_look(struct metrics_report *report, struct nbd_server *server)
{
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	report->agent.export_count = server->export_count;
	report->agent.connection_count = server->connection_count;
	report->agent.held_bytes = server->memory.held_bytes;
	stats_add(&report->total, &server->gone);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);
		struct export_sample sample = { .export = export,
			.request_count = export->stats.errors,
			.user_count = export->user_count,
			.is_writing = export->is_writer && !export->is_lost,
			.is_lost = export->is_lost,
			.is_stalled = export->is_stalled };

		for (uint32_t op = 0; op < NBD_OP_NR; op++)
			sample.request_count += latency_total(&export->stats.latency[op]);
		report->agent.open_count += export->sm.state == NBD_EXPORT_OPEN;
		report->agent.lost_count += export->is_lost;
		report->agent.stalled_count += export->is_stalled;
		stats_add(&report->total, &export->stats);
		report_rank(report, &sample);
	}
}

/* Series of an op that nothing was counted of are left out. */
static uint32_t
report_latencies(struct metrics_report *report, const struct nbd_stats *stats, const char *name,
    uint32_t count)
{
	for (uint32_t op = 0; op < NBD_OP_NR; op++) {
		struct metric_object *object = &report->objects[count];

		if (latency_total(&stats->latency[op]) == 0)
			continue;
		*object = (struct metric_object){ .values = &stats->latency[op] };
		if (name != NULL)
			metric_label(object, "export", name);
		metric_label(object, "op", op_names[op]);
		count++;
	}
	return count;
}

static void
write_exports(struct metrics_report *report, FILE *out)
{
	uint32_t count = 0;

	assert(report->busiest_count <= NBD_METRICS_EXPORTS_MAX);
	for (uint32_t i = 0; i < report->busiest_count; i++)
		count = report_latencies(report, &report->busiest[i].export->stats,
		    report->busiest[i].export->name, count);
	latency_print(out, "cleave_agent_export_latency",
	    "how long requests of NBD clients took, from head to reply, by export", report->objects,
	    count);
	for (uint32_t i = 0; i < report->busiest_count; i++) {
		report->objects[i] = (struct metric_object){ .values = &report->busiest[i] };
		metric_label(&report->objects[i], "export", report->busiest[i].export->name);
	}
	metrics_write(out, "cleave_agent_export", export_members, NUM_COUNT(export_members),
	    report->objects, report->busiest_count);
	for (uint32_t i = 0; i < report->busiest_count; i++)
		report->objects[i].values = &report->busiest[i].export->stats;
	metrics_write(out, "cleave_agent_export", counter_members, NUM_COUNT(counter_members),
	    report->objects, report->busiest_count);
}

int
nbd_metrics_write(struct nbd_server *server, FILE *out)
{
	struct metrics_report *report = client_calloc(1, sizeof(*report));
	struct metric_object object = { 0 };

	if (report == NULL)
		return -ENOMEM;
	report_look(report, server);
	object.values = &report->agent;
	metrics_write(out, "cleave_agent", agent_members, NUM_COUNT(agent_members), &object, 1);
	object.values = &report->total;
	metrics_write(out, "cleave_agent", counter_members, NUM_COUNT(counter_members), &object, 1);
	latency_print(out, "cleave_agent_latency",
	    "how long requests of NBD clients took, from head to reply, all exports together",
	    report->objects, report_latencies(report, &report->total, NULL, 0));
	write_exports(report, out);
	object.values = cleave_client_stats(server->options.client);
	metrics_write(out, "cleave_agent_client", client_members, NUM_COUNT(client_members),
	    &object, 1);
	build_info_write(out);
	metrics_write_end(out);
	free(report);
	return 0;
}

bool
nbd_metrics_health(struct nbd_server *server, FILE *out)
{
	struct loop_link *link, *next;
	bool is_well = true;

	CHECK_OBJ(server, SERVER_MAGIC);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (export->is_lost)
			(void)fprintf(out, "export-lost: %s: %s\n", export->name,
			    export->lost_text[0] != '\0' ? export->lost_text
							 : "another client has it, or it is gone");
		if (export->is_stalled)
			(void)fprintf(out, "export-stalled: %s: no gateway answers, see the log\n",
			    export->name);
		is_well = is_well && !export->is_lost && !export->is_stalled;
	}
	if (is_well)
		(void)fputs("ok\n", out);
	return is_well;
}
