/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.c -- the table of commands, the command line, and the client that a command runs with
 *
 * Each command says which options it takes (command_options.c), and any other that was given is refused.
 */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/config_help.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "library/gateways.h"

#define COMMAND_CONNECT_NS_MAX NUM_S(5)
#define COMMAND_LINE_BYTES 256
#define COMMAND_LEVEL_MAX 1000 /* the gateway knows each engine's range */

static const struct config_program program = {
	.name = "cleave",
	.synopsis = "[options] COMMAND",
	.purpose = "Asks a gateway of a Cleave cluster about its volumes, nodes and state, and "
		   "changes its volumes.",
	.options = command_option_table,
	.operands_max = 4,
};

#define CREATE_OPTIONS                                                                             \
	(COMMAND_SIZE | COMMAND_SERVICE_CLASS | COMMAND_ENGINE | COMMAND_LEVEL | COMMAND_REPLICAS)

static const struct command command_table[] = {
	{ "volume", "create",
	    "NAME --size SIZE [--service-class CLASS] [--engine ENGINE] [--level N] "
	    "[--replicas N]",
	    "Make a volume.", true, CREATE_OPTIONS, command_volume_create },
	{ "volume", "list", "", "List all volumes.", false, 0, command_volume_list },
	{ "volume", "show", "NAME", "Show one volume.", true, 0, command_volume_show },
	{ "volume", "map", "NAME",
	    "Show what its blocks hold: data, zeros, holes. Whoever writes it meanwhile is not "
	    "disturbed.",
	    true, 0, command_volume_map },
	{ "volume", "delete", "NAME [--snapshots] [--force]",
	    "Delete a volume and what is on it. Not while it has snapshots, but with --snapshots; nor "
	    "while somebody uses it, but with --force.",
	    true, COMMAND_FORCE | COMMAND_SNAPSHOTS, command_volume_delete },
	{ "volume", "rename", "NAME NEW", "Give a volume another name.", true, COMMAND_NEW_NAME,
	    command_volume_rename },
	{ "volume", "resize", "NAME --size SIZE [--shrink] [--force]",
	    "Make a volume larger, which clients see when they open it again; or smaller, with "
	    "--shrink.",
	    true, COMMAND_SIZE | COMMAND_SHRINK | COMMAND_FORCE, command_volume_resize },
	{ "snapshot", "create", "VOLUME@SNAPSHOT",
	    "Keep what is on a volume now. It takes no space of its own until the volume changes.",
	    true, 0, command_snapshot_create },
	{ "snapshot", "list", "[VOLUME]", "List a volume's snapshots, or all.", false,
	    COMMAND_MAY_NAME, command_snapshot_list },
	{ "snapshot", "diff", "VOLUME@OLD [VOLUME@NEW]",
	    "List the ranges that may differ between a snapshot and a later one, or the volume as it is "
	    "now; all others are the same.",
	    true, COMMAND_MAY_NEW, command_snapshot_diff },
	{ "snapshot", "delete", "VOLUME@SNAPSHOT",
	    "Delete a snapshot that nothing was cloned from; its space comes back.", true, 0,
	    command_snapshot_delete },
	{ "snapshot", "rollback", "VOLUME@SNAPSHOT [--shrink] [--force]",
	    "Make a volume what it was when the snapshot was taken, its size too; smaller with "
	    "--shrink alone.",
	    true, COMMAND_FORCE | COMMAND_SHRINK, command_snapshot_rollback },
	{ "clone", NULL, "VOLUME@SNAPSHOT NEW",
	    "Make a volume that begins as the snapshot, and shares its space.", true,
	    COMMAND_NEW_NAME, command_clone },
	{ "attach", NULL, "NAME [--read-only] [--agent PATH]",
	    "Export a volume over NBD on this machine, and print its URI; starts an agent where none "
	    "runs.",
	    true, COMMAND_READ_ONLY | COMMAND_AGENT, command_attach },
	{ "detach", NULL, "NAME [--force] [--agent PATH]", "End that export.", true,
	    COMMAND_FORCE | COMMAND_AGENT, command_detach },
	{ "exports", NULL, "[--agent PATH]", "List this machine's exports.", false, COMMAND_AGENT,
	    command_exports },
	{ "import", NULL,
	    "FILE NAME [--format FORMAT] [--progress] [--force [--take]] [options of volume create]",
	    "Copy a disk image into a volume, which is made as large as the image, or --size; one that "
	    "exists is written over with --force alone, and one that somebody writes with --take as "
	    "well. Zeroes take no space. Needs qemu-img.",
	    true,
	    CREATE_OPTIONS | COMMAND_FORCE | COMMAND_TAKE | COMMAND_FORMAT | COMMAND_PROGRESS |
		COMMAND_FILE_FIRST,
	    command_import },
	{ "export", NULL, "NAME FILE [--format FORMAT] [--progress] [--force]",
	    "Copy a volume, or a snapshot, VOLUME@SNAPSHOT, into an image file; zeroes become holes. Of a "
	    "volume that somebody writes only with --force: the copy is of no one moment then. Needs "
	    "qemu-img.",
	    true, COMMAND_FORCE | COMMAND_FORMAT | COMMAND_PROGRESS | COMMAND_FILE_LAST,
	    command_export },
	{ "node", "list", "", "List the storage nodes.", false, 0, command_node_list },
	{ "node", "add", "ADDR [--domain PATH] [--weight PERCENT] [--note TEXT]",
	    "Take a storage node into the cluster. It runs, on a disk that was formatted with the cluster's "
	    "id and a --node-id of its own.",
	    false, COMMAND_NODE | COMMAND_PLACE, command_node_add },
	{ "node", "set",
	    "ID [--domain PATH] [--weight PERCENT] [--note TEXT] [--address ADDR] [--maintenance "
	    "DURATION|off]",
	    "Change what the cluster knows of a node.", false,
	    COMMAND_NODE | COMMAND_PLACE | COMMAND_ADDRESS | COMMAND_MAINTENANCE,
	    command_node_set },
	{ "node", "drain", "ID [--wait] [--force]",
	    "Move what a node holds to the others. Not where they are too few, or too full, but with --force.",
	    false, COMMAND_NODE | COMMAND_WAIT | COMMAND_FORCE, command_node_drain },
	{ "node", "undrain", "ID", "Use a node again that was being drained.", false, COMMAND_NODE,
	    command_node_undrain },
	{ "node", "remove", "ID [--lost [--force]]",
	    "Take a drained, empty node out of the cluster; or, with --lost, one that never comes back. Its "
	    "number is never used again, nor its disk before it is formatted anew.",
	    false, COMMAND_NODE | COMMAND_LOST | COMMAND_FORCE, command_node_remove },
	{ "node", "replace",
	    "ID --with ADDR [--lost] [--wait] [--domain PATH] [--weight PERCENT] [--note TEXT]",
	    "Add a node, then drain the old one; or, with --lost, take that out at once.", false,
	    COMMAND_NODE | COMMAND_WITH | COMMAND_LOST | COMMAND_WAIT | COMMAND_PLACE |
		COMMAND_FORCE,
	    command_node_replace },
	{ "gateway", "list", "", "List the gateways that live, and their shards.", false, 0,
	    command_gateway_list },
	{ "gateway", "drain", "ID [--wait] [--force]",
	    "Have a gateway give its shards to the others, one after the other, and take none, also after a "
	    "restart. Its id is as --gateway-id has it, or as gateway list shows it. Not where no other one "
	    "lives that takes shards, or it does not live itself, but with --force.",
	    false, COMMAND_GATEWAY | COMMAND_WAIT | COMMAND_FORCE, command_gateway_drain },
	{ "gateway", "undrain", "ID", "Let a drained gateway have its share of the shards again.",
	    false, COMMAND_GATEWAY, command_gateway_undrain },
	{ "cluster", "upgrade", "[--check] [--without NODE ...]",
	    "Let all gateways and nodes use what their new release brought, once every one of them runs "
	    "it: raises the cluster's level by one. There is no way back to the release before.",
	    false, COMMAND_UPGRADE, command_cluster_upgrade },
	{ "cluster", "rebalance", "[--dry-run | --stop] [--wait]",
	    "Move copies from nodes that have more than their share, by weight and room, to those that have "
	    "less, behind all repairs and drains and within --repair-rate. It ends by itself.",
	    false, COMMAND_REBALANCE | COMMAND_WAIT, command_cluster_rebalance },
	{ "status", NULL, "[--counters | --quiet]",
	    "Show whether the cluster is well: HEALTH OK, WARN or ERROR, with each reason and what helps, as "
	    "all gateways say; then room, nodes and gateways. The exit status is 0, 1 or 2 by it.",
	    false, COMMAND_STATUS, command_status },
	{ "events", NULL, "[--follow]",
	    "Show what happened, as all gateways that live keep it, a thousand each: nodes that came and went, "
	    "shards, leases, and who changed what from where. With --json an object a line.",
	    false, COMMAND_FOLLOW, command_events },
	{ "slow", NULL, "[--volume NAME] [--trace ID]",
	    "Show the reads and writes that took longer than the gateways' --slow-op, as all gateways that live "
	    "keep them, a thousand each: where their time went, and which node took longest. With --json an "
	    "object a line.",
	    false, COMMAND_SLOW, command_slow },
	{ "scrub", NULL, "",
	    "Have every copy of the gateway's shards verified now; status counts what was found.",
	    false, 0, command_scrub },
	{ "sweep", NULL, "[--confirm]",
	    "Show what nodes hold of the gateway's shards and no manifest names: it is deleted when it "
	    "was seen for --orphan-grace, a sixteenth of a node's extents at a time; with --confirm at "
	    "once.",
	    false, COMMAND_CONFIRM, command_sweep },
	{ "recover", NULL, "--meta DIR --node ADDR ... --cluster-id HEX [--force] [--take]",
	    "Make a lost or stale metadata store anew from all storage nodes: runs cleave-gateway "
	    "--recover on this host, with these options. Stop all gateways before: it refuses while a node "
	    "has one connected, but with --take. It must be the first word.",
	    false, 0, command_recover },
	{ "meta", "dump", "--meta STORE [--cluster-id HEX] >FILE",
	    "Write all keys of the metadata store to standard output, as they are at one moment: a backup, "
	    "also while gateways run. Runs cleave-gateway --dump on this host, with these options; a "
	    "gateway's --config FILE has them all. They must be the first words, as of the next two.",
	    false, 0, command_recover },
	{ "meta", "load", "--meta STORE --node ADDR ... --cluster-id HEX [--take] <FILE",
	    "Make an empty metadata store of a dump. Stop all gateways before. It is refused where the "
	    "nodes know anything newer, or obey another store: then cleave recover makes one from them.",
	    false, 0, command_recover },
	{ "meta", "move", "--from STORE --to STORE --node ADDR ... --cluster-id HEX [--take]",
	    "Move the metadata store to an empty one, between a directory and an etcd either way. Stop all "
	    "gateways before. No gateway starts with the old one afterwards. Run it again where it did "
	    "not end; go back with the same, the other way round.",
	    false, 0, command_recover },
	{ "complete", NULL, "[WORD ...]",
	    "Print what may stand for the last WORD of a command line, one a line: what the completion "
	    "of bash and zsh asks. It must be the first word.",
	    false, 0, command_complete_late },
	{ "version", NULL, "",
	    "Print the version of this command, and the commit that it was built of.", false, 0,
	    command_version },
	{ "help", NULL, "[COMMAND]", "Explain a command, or list them all.", false, 0, NULL },
};

/* The command line. */

static int __attribute__((format(printf, 1, 2))) usage_error(const char *format, ...)
{
	va_list args;

	assert(format != NULL && format[0] != '\0');
	fprintf(stderr, "cleave: ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ", see --help\n");
	return -EINVAL;
}

const struct command *
command_at(uint32_t index)
{
	return index < NUM_COUNT(command_table) ? &command_table[index] : NULL;
}

const struct command *
command_find(const char *const words[], uint32_t count, uint32_t *ret_used)
{
	assert(count == 0 || words != NULL);
	for (size_t i = 0; i < NUM_COUNT(command_table); i++) {
		const struct command *command = &command_table[i];

		if (count == 0 || strcmp(words[0], command->noun) != 0)
			continue;
		if (command->verb != NULL && (count < 2 || strcmp(words[1], command->verb) != 0))
			continue;
		*ret_used = command->verb == NULL ? 1 : 2;
		return command;
	}
	return NULL;
}

/* A noun of the table as @word says it; NULL: there is none. */
static const char *
noun_of(const char *word)
{
	for (size_t i = 0; i < NUM_COUNT(command_table); i++) {
		if (strcmp(word, command_table[i].noun) == 0)
			return command_table[i].noun;
	}
	return NULL;
}

static int
refuse_command(const char *const words[], uint32_t count)
{
	assert(count == 0 || words[0] != NULL);
	if (count == 0)
		return usage_error("no command was given");
	for (size_t i = 0; i < NUM_COUNT(command_table); i++) {
		if (strcmp(words[0], command_table[i].noun) != 0)
			continue;
		if (count == 1)
			return usage_error("'%s' needs another word", words[0]);
		return usage_error("there is no command '%s %s'", words[0], words[1]);
	}
	return usage_error("there is no command '%s'", words[0]);
}

static unsigned
given_options(const struct command_options *options)
{
	_Static_assert(SERVICE_STANDARD == 0, "the choice that was not given");
	return (options->size_bytes != 0 ? COMMAND_SIZE : 0u) |
	    (options->service_class != 0 ? COMMAND_SERVICE_CLASS : 0u) |
	    (options->engine != 0 ? COMMAND_ENGINE : 0u) |
	    (options->level_text != NULL ? COMMAND_LEVEL : 0u) |
	    (options->replicas != 0 ? COMMAND_REPLICAS : 0u) |
	    (options->is_forced ? COMMAND_FORCE : 0u) |
	    (options->is_read_only ? COMMAND_READ_ONLY : 0u) |
	    (options->agent != NULL ? COMMAND_AGENT : 0u) |
	    (options->format != NULL ? COMMAND_FORMAT : 0u) |
	    (options->has_progress ? COMMAND_PROGRESS : 0u) |
	    (options->must_shrink ? COMMAND_SHRINK : 0u) |
	    (options->is_confirmed ? COMMAND_CONFIRM : 0u) |
	    (options->has_snapshots ? COMMAND_SNAPSHOTS : 0u) |
	    (options->must_take ? COMMAND_TAKE : 0u) |
	    (options->is_check || options->without.count > 0 ? COMMAND_UPGRADE : 0u) |
	    (options->has_counters || options->is_quiet ? COMMAND_STATUS : 0u) |
	    (options->domain != NULL || options->weight != 0 || options->note != NULL
		    ? COMMAND_PLACE
		    : 0u) |
	    (options->must_follow ? COMMAND_FOLLOW : 0u) |
	    (options->address != NULL ? COMMAND_ADDRESS : 0u) |
	    (options->maintenance != NULL ? COMMAND_MAINTENANCE : 0u) |
	    (options->must_wait ? COMMAND_WAIT : 0u) | (options->is_lost ? COMMAND_LOST : 0u) |
	    (options->with != NULL ? COMMAND_WITH : 0u) |
	    (options->is_dry_run || options->must_stop ? COMMAND_REBALANCE : 0u) |
	    (options->volume != NULL || options->trace != NULL ? COMMAND_SLOW : 0u);
}

static int
check_options(struct command_options *options)
{
	static const char *const names[] = { "size", "service-class", "engine", "level", "replicas",
		"force", "read-only", "agent", "format", "progress", "shrink", "confirm",
		"snapshots", "take", "check, and no --without", "counters, and no --quiet",
		"domain, --weight and --note", "follow", "address", "maintenance", "wait", "lost",
		"with", "dry-run, and no --stop", "volume, and no --trace" };
	const struct command *command = options->command;
	unsigned foreign = given_options(options) & ~command->options;
	char *end;
	long level;

	_Static_assert(COMMAND_SLOW == 1u << (NUM_COUNT(names) - 1), "a name for each option");
	assert((given_options(options) & (COMMAND_GATEWAY | COMMAND_NODE)) == 0);
	assert(command != NULL && command->run != NULL);
	if (foreign != 0)
		return usage_error("'%s%s%s' takes no --%s", command->noun,
		    command->verb == NULL ? "" : " ", command->verb == NULL ? "" : command->verb,
		    names[__builtin_ctz(foreign)]);
	if ((command->options & COMMAND_SIZE) != 0 && options->size_bytes == 0 &&
	    (command->options & COMMAND_FILE_FIRST) == 0)
		return usage_error("--size is required: how large volume '%s' is to be",
		    options->name);
	if (options->size_bytes % CLEAVE_BLOCK_BYTES != 0)
		return usage_error("--size: must be a multiple of 4096 bytes");
	if (options->level_text == NULL)
		return 0;
	errno = 0;
	level = strtol(options->level_text, &end, 10);
	if (errno != 0 || end == options->level_text || *end != '\0' ||
	    level < -COMMAND_LEVEL_MAX || level > COMMAND_LEVEL_MAX)
		return usage_error("--level: '%s' is not a level", options->level_text);
	options->level = (int)level;
	return 0;
}

/* `help` and what follows it. */
static int
take_help(struct command_options *options, const char *const words[], uint32_t count)
{
	uint32_t used = 0;

	assert(options->command == NULL || options->command->run == NULL);
	options->is_help = true;
	options->command = NULL;
	if (count == 0)
		return 0;
	options->command = command_find(words, count, &used);
	if (options->command == NULL && count > 1)
		return refuse_command(words, count);
	if (options->command != NULL)
		return used == count ? 0 : usage_error("did not expect '%s'", words[used]);
	options->noun = noun_of(words[0]);
	return options->noun != NULL ? 0 : refuse_command(words, count);
}

static int
take_words(struct command_options *options, const char *const words[], uint32_t count)
{
	uint32_t used = 0;

	options->command = command_find(words, count, &used);
	if (options->command == NULL)
		return refuse_command(words, count);
	assert(used > 0 && used <= count);
	if (options->command->run == NULL)
		return take_help(options, words + 1, count - 1);
	if ((options->command->options & COMMAND_FILE_FIRST) != 0 && used < count)
		options->file = words[used++];
	if (options->command->has_name) {
		if (used == count)
			return usage_error("'%s%s%s' needs the NAME of a volume",
			    options->command->noun, options->command->verb == NULL ? "" : " ",
			    options->command->verb == NULL ? "" : options->command->verb);
		options->name = words[used++];
	}
	if ((options->command->options & COMMAND_NODE) != 0) {
		if (used == count)
			return usage_error("'%s %s' needs a node: see cleave node list",
			    options->command->noun, options->command->verb);
		options->name = words[used++];
	}
	if ((options->command->options & COMMAND_GATEWAY) != 0) {
		if (used == count)
			return usage_error("'%s %s' needs a gateway: see cleave gateway list",
			    options->command->noun, options->command->verb);
		options->name = words[used++];
	}
	if ((options->command->options & COMMAND_MAY_NAME) != 0 && used < count)
		options->name = words[used++];
	if ((options->command->options & COMMAND_MAY_NEW) != 0 && used < count)
		options->new_name = words[used++];
	if ((options->command->options & COMMAND_NEW_NAME) != 0) {
		if (used == count)
			return usage_error("it needs the NEW volume's name, too");
		options->new_name = words[used++];
	}
	if ((options->command->options & COMMAND_FILE_LAST) != 0) {
		if (used == count)
			return usage_error("'%s' needs a FILE", options->command->noun);
		options->file = words[used++];
	}
	if (used < count)
		return usage_error("did not expect '%s'", words[used]);
	return check_options(options);
}

/* config_parse would print its own text, which knows nothing of commands. */
static bool
wants_help(int argc, char *const argv[])
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	}
	return false;
}

/* The first words that are a command, or a noun: what else stands there is not looked at. */
static void
take_help_words(struct command_options *options, int argc, char *const argv[])
{
	uint32_t used = 0;

	options->is_help = true;
	for (int i = 1; i < argc && options->command == NULL && options->noun == NULL; i++) {
		const char *words[2] = { argv[i], i + 1 < argc ? argv[i + 1] : NULL };

		options->command = command_find(words, words[1] == NULL ? 1 : 2, &used);
		if (options->command == NULL)
			options->noun = noun_of(argv[i]);
	}
	if (options->command != NULL && options->command->run == NULL)
		options->command = NULL; /* help itself */
}

int
command_parse(int argc, char *const argv[], struct command_options *ret_options,
    struct config_result *ret_result)
{
	int rc;

	assert(argc > 0 && argv[argc] == NULL);
	assert(ret_options != NULL && ret_result != NULL);
	*ret_options = (struct command_options){ 0 };
	*ret_result = (struct config_result){ 0 };
	if (wants_help(argc, argv)) {
		take_help_words(ret_options, argc, argv);
		return 0;
	}
	rc = config_parse(&program, argc, argv, ret_options, ret_result);
	if (rc != 0)
		return rc;
	rc = take_words(ret_options, ret_result->operands, ret_result->operand_count);
	if (rc == 0)
		rc = gateways_default("cleave", &ret_options->gateways);
	if (rc != 0)
		config_result_fini(ret_result);
	return rc;
}

static void
print_line(const struct command *command, FILE *out)
{
	char synopsis[COMMAND_LINE_BYTES];

	command_synopsis(command, synopsis, sizeof(synopsis));
	fprintf(out, "  ");
	config_print_wrapped(out, synopsis, 2, 8);
	fprintf(out, "      ");
	config_print_wrapped(out, command->help, 6, 6);
}

void
command_print_help(const struct command_options *options, FILE *out)
{
	assert(options->command == NULL || options->is_help);
	assert(out != NULL);
	if (options->command != NULL) {
		command_print_one(options->command, out);
		return;
	}
	if (options->noun == NULL)
		config_print_help(&program, out);
	fprintf(out, "%sCommands; options may stand anywhere:\n",
	    options->noun == NULL ? "\n" : "");
	for (size_t i = 0; i < NUM_COUNT(command_table); i++) {
		if (options->noun == NULL || strcmp(options->noun, command_table[i].noun) == 0)
			print_line(&command_table[i], out);
	}
	fprintf(out,
	    "\n`cleave COMMAND --help` explains one, with its options.\n"
	    "Exit status: 0 done, 1 failed, 2 the command line is wrong.\n"
	    "Of status: 0 HEALTH OK, 1 WARN, 2 ERROR, or no gateway answers.\n");
}

/* Running. */

int
command_fail(struct command_session *session, int rc, const char *format, ...)
{
	va_list args;

	assert(format != NULL);
	assert(rc < 0);
	va_start(args, format);
	(void)vsnprintf(session->error, sizeof(session->error), format, args); /* cut if too long */
	va_end(args);
	return rc;
}

static int
session_init(struct command_session *session)
{
	const struct command_options *options = session->options;
	const struct cleave_client_options client_options = {
		.loop = session->loop,
		.gateways = options->gateways.items,
		.gateway_count = options->gateways.count,
		.control_timeout_ns = options->timeout_ns,
		.connect_timeout_ns = num_min(options->timeout_ns, COMMAND_CONNECT_NS_MAX),
		.is_impatient = true,
	};
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc;

	assert(options->timeout_ns > 0);
	assert(session->client == NULL && options->gateways.count > 0);
	rc = cleave_client_create(&client_options, &session->client, error);
	if (rc == 0)
		return 0;
	return command_fail(session, rc, "%s", error[0] != '\0' ? error : strerror(-rc));
}

/* Programs read one thing, also where it failed. cleave status has told it by itself. */
static void
print_json_error(const struct command_session *session, int rc)
{
	json_t *object = json_pack("{s:s, s:i}", "error",
	    session->error[0] != '\0' ? session->error : strerror(-rc), "errno", -rc);

	assert(rc < 0);
	if (object != NULL)
		(void)command_print_json(object, session->out);
	json_decref(object);
}

int
command_execute(const struct command_options *options, FILE *out)
{
	struct command_session session = { .options = options, .out = out };
	int rc;

	assert(out != NULL && !options->is_help);
	assert(options->command != NULL && options->command->run != NULL);
	session.loop = loop_ev_create(0);
	if (session.loop == NULL) {
		rc = command_fail(&session, -errno, "the event loop: %s", strerror(errno));
	} else {
		rc = session_init(&session);
		if (rc == 0)
			rc = options->command->run(&session);
		cleave_client_destroy(session.client);
		loop_destroy(session.loop);
	}
	if (rc == 0)
		return session.exit_status;
	if (options->is_json && session.exit_status == 0)
		print_json_error(&session, rc);
	if (!options->is_quiet)
		fprintf(stderr, "cleave: %s\n",
		    session.error[0] != '\0' ? session.error : strerror(-rc));
	return session.exit_status != 0 ? session.exit_status : COMMAND_EXIT_FAILURE;
}

/* Replies. */

int
command_print_json(const json_t *value, FILE *out)
{
	char *text = json_dumps(value, JSON_INDENT(2));

	assert(value != NULL);
	if (text == NULL)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

uint64_t
command_u64(const json_t *object, const char *member)
{
	json_int_t value = json_integer_value(json_object_get(object, member));

	assert(member != NULL);
	return value < 0 ? 0 : (uint64_t)value;
}

const char *
command_text(const json_t *object, const char *member)
{
	const char *text = json_string_value(json_object_get(object, member));

	assert(member != NULL);
	return text == NULL ? "?" : text;
}
