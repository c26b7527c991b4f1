/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_rebalance.c -- cleave cluster rebalance: every gateway is told, and asked how far it is
 *
 * A gateway moves the copies of its own shards, so each is asked, as for a volume's usage. --dry-run asks none to do
 * anything: the nodes' shares say how much is to go where.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define REBALANCE_FRESH_NS                                                                         \
	NUM_MS(200)                 /* for the nodes to tell the gateway how much room they have */
#define REBALANCE_PAUSE_NS NUM_S(1) /* between two looks at how far it is */

/* The answers of all gateways in one. */
struct rebalance_sum {
	uint32_t on_count, silent_count, stopped_count;
	uint64_t copies, bytes, rate;
	char waits[16]; /* of the first that waits; "" none does */
	uint64_t node;
};

static void
sum_add(struct rebalance_sum *sum, const json_t *rebalance)
{
	const char *waits = command_text(rebalance, "waits");

	sum->on_count += json_is_true(json_object_get(rebalance, "on"));
	sum->stopped_count += json_is_true(json_object_get(rebalance, "stopped"));
	sum->copies += command_u64(rebalance, "copies");
	sum->bytes += command_u64(rebalance, "bytes");
	sum->rate += command_u64(rebalance, "rate");
	if (sum->waits[0] != '\0' || strcmp(waits, "nothing") == 0)
		return;
	(void)snprintf(sum->waits, sizeof(sum->waits), "%s", waits);
	sum->node = command_u64(rebalance, "node");
}

/* Asks every gateway that lives. Those that do not answer are counted, and named on the first error. */
static int
rebalance_ask(struct command_session *session, const char *action, struct rebalance_sum *ret_sum)
{
	struct command_question question;
	const struct cleave_gateway_entry *gateways;
	int rc;

	assert(session->client != NULL && action != NULL);
	*ret_sum = (struct rebalance_sum){ .on_count = 0 };
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	gateways = question.entries;
	assert(gateways != NULL || question.count == 0);
	for (uint32_t i = 0; i < question.count && rc == 0; i++) {
		json_t *reply = NULL;
		char id[TABLE_NUMBER_BYTES];

		if (gateways[i].address[0] != '\0' &&
		    command_ask_at(session, gateways[i].address,
			json_pack("{s:s, s:s}", "op", "cluster.rebalance", "action", action),
			&reply) == 0) {
			sum_add(ret_sum, json_object_get(reply, "rebalance"));
		} else {
			ret_sum->silent_count++;
			(void)command_fail(session, -EHOSTDOWN,
			    "gateway %s at %s does not answer, or is of a release before: its shards' copies "
			    "stay where they are; ask again when it does",
			    table_format_id(gateways[i].id, id), gateways[i].address);
		}
		json_decref(reply);
	}
	command_question_fini(&question);
	return rc;
}

/* ---- how much would be moved ---- */

/* A line for each node. Returns the slots' bytes that are beyond shares. */
static uint64_t
dry_run_rows(struct table *table, const json_t *nodes)
{
	uint64_t over_bytes = 0;
	json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		uint64_t slot = command_u64(node, "slot_bytes");
		uint64_t used = command_u64(node, "slots_total") - command_u64(node, "slots_free");
		uint64_t share = command_u64(node, "slots_share");
		const char *member = command_text(node, "member");
		char text[3][TABLE_NUMBER_BYTES];

		if (strcmp(member, "draining") == 0)
			continue;
		if (used > share)
			over_bytes += (used - share) * slot;
		table_add(table, "%" PRIu64, command_u64(node, "id"));
		table_add(table, "%s", command_text(node, "domain"));
		table_add(table, "%" PRIu64, command_u64(node, "weight"));
		table_add(table, "%s",
		    table_format_size(command_u64(node, "slots_total") * slot, text[0]));
		table_add(table, "%s", table_format_size(used * slot, text[1]));
		table_add(table, "%s", table_format_size(share * slot, text[2]));
		table_add(table, "%s%s",
		    used == share      ? ""
			: used > share ? "-"
				       : "+",
		    table_format_size((used > share ? used - share : share - used) * slot,
			text[0]));
	}
	return over_bytes;
}

static int
rebalance_dry_run(struct command_session *session)
{
	static const struct table_column columns[] = { { "NODE", true }, { "DOMAIN", false },
		{ "WEIGHT", true }, { "SIZE", true }, { "USED", true }, { "SHARE", true },
		{ "TO MOVE", true } };
	struct table *table;
	json_t *reply = NULL;
	char text[TABLE_NUMBER_BYTES];
	uint64_t bytes;
	int rc = command_ask(session,
	    json_pack("{s:s, s:s}", "op", "cluster.rebalance", "action", "show"), false, &reply);

	assert(!session->options->must_stop && !session->options->must_wait);
	json_decref(reply);
	reply = NULL;
	if (rc == 0) {
		command_pause(session, REBALANCE_FRESH_NS);
		rc = command_ask(session, json_pack("{s:s}", "op", "node.list"), false, &reply);
	}
	if (rc == 0 && session->options->is_json)
		rc = command_print_json(reply, session->out);
	if (rc != 0 || session->options->is_json) {
		json_decref(reply);
		return rc;
	}
	table = table_create(columns, NUM_COUNT(columns));
	bytes = dry_run_rows(table, json_object_get(reply, "nodes"));
	rc = table == NULL ? -ENOMEM : table_print(table, 0, session->out);
	table_destroy(table);
	json_decref(reply);
	if (rc == 0)
		fprintf(session->out,
		    "%s would be moved at most; it ends when no two nodes together are more than 5 %% of their "
		    "size off their shares\n",
		    table_format_size(bytes, text));
	return rc;
}

/* ---- how far it is ---- */

static void
rebalance_print(struct command_session *session, const struct rebalance_sum *sum, uint64_t ns)
{
	char text[TABLE_NUMBER_BYTES];

	assert(!session->options->is_json);
	fprintf(session->out, "moved %" PRIu64 " copies, %s", sum->copies,
	    table_format_size(sum->bytes, text));
	if (sum->bytes > 0 && ns > 0)
		fprintf(session->out, ", %.1f MB/s of %.1f MB/s allowed",
		    (double)sum->bytes * 1e3 / (double)ns, (double)sum->rate / 1e6);
	if (strcmp(sum->waits, "lacking") == 0)
		fprintf(session->out, "; waits until every extent has its copies");
	else if (strcmp(sum->waits, "draining") == 0)
		fprintf(session->out, "; waits until nodes that drain are empty");
	else if (sum->waits[0] != '\0')
		fprintf(session->out, "; waits for node %" PRIu64 ", which is down", sum->node);
	fprintf(session->out, "\n");
	(void)fflush(session->out);
}

/* Until no gateway goes on; *@sum is what they said last. */
static int
rebalance_wait_done(struct command_session *session, struct rebalance_sum *sum)
{
	uint64_t begun_ns = loop_now_ns(session->loop);
	struct rebalance_sum shown = { .copies = UINT64_MAX };

	assert(session->options->must_wait && sum->silent_count == 0);
	for (;;) {
		int rc = rebalance_ask(session, "show", sum);

		if (rc != 0)
			return rc;
		if (!session->options->is_json &&
		    (sum->copies != shown.copies || strcmp(sum->waits, shown.waits) != 0))
			rebalance_print(session, sum, loop_now_ns(session->loop) - begun_ns);
		shown = *sum;
		if (sum->on_count == 0)
			break;
		command_pause(session, REBALANCE_PAUSE_NS);
	}
	if (sum->stopped_count > 0 && sum->silent_count == 0)
		return command_fail(session, -ECANCELED,
		    "not done: somebody has ended it (--stop); what was moved stays, and the next one goes on from there");
	/* A gateway that is silent may go on: session->error names it. */
	if (!session->options->is_json && sum->silent_count == 0)
		fprintf(session->out, "done: no move would help any more\n");
	return 0;
}

static int
rebalance_print_json(struct command_session *session, const struct rebalance_sum *sum)
{
	json_t *out = json_pack("{s:I, s:I, s:I, s:I, s:s}", "gateways_on",
	    (json_int_t)sum->on_count, "gateways_silent", (json_int_t)sum->silent_count, "copies",
	    (json_int_t)sum->copies, "bytes", (json_int_t)sum->bytes, "waits", sum->waits);
	int rc = out == NULL ? -ENOMEM : command_print_json(out, session->out);

	assert(session->options->is_json && !session->options->is_dry_run);
	json_decref(out);
	return rc;
}

int
command_cluster_rebalance(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct rebalance_sum sum;
	int rc;

	assert(session->client != NULL && session->out != NULL);
	if (options->is_dry_run && (options->must_stop || options->must_wait))
		return command_fail(session, -EINVAL, "--dry-run changes nothing: it goes alone");
	if (options->is_dry_run)
		return rebalance_dry_run(session);
	rc = rebalance_ask(session, options->must_stop ? "stop" : "start", &sum);
	if (rc != 0)
		return rc;
	if (!options->is_json)
		fprintf(session->out,
		    options->must_stop ? "rebalancing ends\n"
				       : "rebalancing: see cleave cluster rebalance --dry-run, and "
					 "end it with --stop\n");
	if (options->must_wait && !options->must_stop && sum.silent_count == 0)
		rc = rebalance_wait_done(session, &sum);
	if (rc == 0 && options->is_json)
		rc = rebalance_print_json(session, &sum);
	if (rc != 0)
		return rc;
	return sum.silent_count > 0 ? -EHOSTDOWN : 0;
}
