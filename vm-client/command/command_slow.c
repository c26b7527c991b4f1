/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_slow.c -- cleave slow: requests that took long, as all gateways keep them, and where their time went
 *
 *	2026-01-31T23:59:59Z write of 'v' took 812.0 ms at 4096, 4096 bytes (gateway 0000000000000001)
 *	      park 0.1 ms, engine 0.1 ms, batch 3.0 ms, replicate 808.8 ms, reply 0.0 ms; trace 9f00000000000001
 *	      node 2 798.1 ms <- longest (its queue 12.0 ms, write 6.1 ms, flush 779.0 ms)
 *	      node 1 41.0 ms (its queue 0.1 ms, write 0.9 ms, flush 38.0 ms)
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_gather.h"
#include "table.h"

#define SLOW_OLDEST_MS (UINT64_C(366) * 86400 * 1000) /* a date that is shown */
#define SLOW_INDENT "      "

static const char *
format_us(uint64_t us, char ret_text[TABLE_NUMBER_BYTES])
{
	(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%" PRIu64 ".%" PRIu64 " ms", us / 1000,
	    us % 1000 / 100);
	return ret_text;
}

static void
print_hops(const json_t *entry, FILE *out)
{
	json_t *hops = json_object_get(entry, "hops_us");
	const char *name, *comma = SLOW_INDENT;
	char text[TABLE_NUMBER_BYTES];
	json_t *us;

	json_object_foreach(hops, name, us)
	{
		fprintf(out, "%s%s %s", comma, name,
		    format_us((uint64_t)json_integer_value(us), text));
		comma = ", ";
	}
	fprintf(out, "%strace %s\n", json_object_size(hops) > 0 ? "; " : SLOW_INDENT,
	    command_text(entry, "trace"));
}

static void
print_node(const json_t *entry, const json_t *node, FILE *out)
{
	uint64_t id = command_u64(node, "node"), queue = command_u64(node, "queue_us");
	uint64_t write = command_u64(node, "write_us"), flush = command_u64(node, "flush_us");
	char text[3][TABLE_NUMBER_BYTES];

	fprintf(out, SLOW_INDENT "node %" PRIu64 " %s%s%s", id,
	    format_us(command_u64(node, "took_us"), text[0]),
	    id == command_u64(entry, "longest_node") ? " <- longest" : "",
	    json_is_true(json_object_get(node, "lost")) ? ", given up" : "");
	if (queue + write + flush > 0)
		fprintf(out, " (its queue %s, write %s, flush %s)", format_us(queue, text[0]),
		    format_us(write, text[1]), format_us(flush, text[2]));
	fputc('\n', out);
}

void
command_print_slow(const json_t *entry, FILE *out)
{
	uint64_t age_ms = num_min(command_u64(entry, "age_ms"), SLOW_OLDEST_MS);
	json_int_t rc = json_integer_value(json_object_get(entry, "rc"));
	char text[TABLE_NUMBER_BYTES];
	const json_t *node;
	size_t i;

	fprintf(out, "%s %s of '%s' took ", table_format_date(log_wall_s() - age_ms / 1000, text),
	    command_text(entry, "op"), command_text(entry, "volume"));
	fprintf(out, "%s at %" PRIu64 ", %" PRIu64 " bytes",
	    format_us(command_u64(entry, "took_us"), text), command_u64(entry, "offset_bytes"),
	    command_u64(entry, "bytes"));
	if (rc < 0 && rc > -4096)
		fprintf(out, ", failed: %s", cleave_error_text((int)rc));
	fprintf(out, " (gateway %s)\n", command_text(entry, "gateway"));
	print_hops(entry, out);
	json_array_foreach(json_object_get(entry, "nodes"), i, node) print_node(entry, node, out);
}

/* In hex, of either case, with 0x or without. Returns false: @text is no trace. */
static bool
trace_of(const char *text, uint64_t *ret_trace)
{
	char *end;

	if (!isxdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*ret_trace = strtoull(text, &end, 16);
	return errno == 0 && *end == '\0';
}

static bool
is_wanted(const struct command_options *options, const json_t *entry)
{
	uint64_t wanted, trace;

	if (options->volume != NULL && strcmp(options->volume, command_text(entry, "volume")) != 0)
		return false;
	return options->trace == NULL ||
	    (trace_of(options->trace, &wanted) && trace_of(command_text(entry, "trace"), &trace) &&
		trace == wanted);
}

/* Entries that were not asked for go. */
static void
keep_wanted(const struct command_options *options, json_t *found)
{
	for (size_t i = json_array_size(found); i > 0; i--) {
		if (!is_wanted(options, json_array_get(found, i - 1)))
			json_array_remove(found, i - 1);
	}
}

int
command_slow(struct command_session *session)
{
	const char *trace = session->options->trace;
	struct command_gather gather;
	uint64_t number;
	int rc;

	assert(session->client != NULL);
	if (trace != NULL && !trace_of(trace, &number))
		return command_fail(session, -EINVAL,
		    "--trace: '%s' is no trace: up to 16 digits and letters a to f", trace);
	rc = command_gather_init(&gather, session, "slow", "slow");
	if (rc == 0)
		rc = command_gather_ask(&gather, true);
	if (rc == 0) {
		keep_wanted(session->options, gather.found);
		if (json_array_size(gather.found) == 0 && !session->options->is_json)
			fprintf(session->out, "no slow request is known\n");
		rc = command_gather_print(&gather, command_print_slow);
	}
	command_gather_fini(&gather);
	return rc;
}
