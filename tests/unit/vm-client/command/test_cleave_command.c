/* SPDX-License-Identifier: Apache-2.0 */
/* test_cleave_command.c -- the operator's command: words, tables, and replies that are odd */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "vm-client/command/command.h"
#include "vm-client/command/command_health.h"
#include "vm-client/command/table.h"

#define WORDS_MAX 16

static struct command_options options;
static struct config_result result;

/* command_parse on the words of @line, which are one blank apart. */
static int
parse(const char *line)
{
	static char text[512];
	char *argv[WORDS_MAX + 1] = { (char *)(uintptr_t) "cleave" };
	int argc = 1;

	(void)snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
		cr_assert_lt(argc, WORDS_MAX);
		argv[argc++] = word;
	}
	return command_parse(argc, argv, &options, &result);
}

/* The same with stderr kept; what it says is in @ret_text. */
static int
parse_bad(const char *line, char *ret_text, size_t bytes)
{
	int fds[2], kept = dup(STDERR_FILENO), rc;
	ssize_t got;

	cr_assert_eq(pipe(fds), 0);
	(void)fflush(stderr);
	cr_assert_geq(dup2(fds[1], STDERR_FILENO), 0);
	rc = parse(line);
	(void)fflush(stderr);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	close(kept);
	close(fds[1]);
	got = read(fds[0], ret_text, bytes - 1);
	ret_text[got > 0 ? got : 0] = '\0';
	close(fds[0]);
	return rc;
}

static void
expect_refused(const char *line, const char *part)
{
	char text[1024];

	cr_assert_eq(parse_bad(line, text, sizeof(text)), -EINVAL, "'%s' was taken", line);
	cr_assert_eq(strncmp(text, "cleave: ", 8), 0, "'%s' says: %s", line, text);
	cr_assert_not_null(strstr(text, part), "'%s' says: %s", line, text);
}

/* A file in memory: printed_end has what was written to it. */
static char *printed;
static size_t printed_bytes;

static FILE *
print_begin(void)
{
	FILE *out = open_memstream(&printed, &printed_bytes);

	cr_assert_not_null(out);
	return out;
}

/* free() it. */
static char *
print_end(FILE *out, int rc)
{
	cr_assert_eq(fclose(out), 0);
	cr_assert_eq(rc, 0);
	return printed;
}

static void
expect_parts(char *text, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cr_assert_not_null(strstr(text, parts[i]), "%s: not in:\n%s", parts[i], text);
	free(text);
}

static void
expect_lines(char *text, const char *want)
{
	cr_assert_str_eq(text, want);
	free(text);
}

Test(command, options_stand_before_or_after_the_words)
{
	const char *const lines[] = {
		"--gateway tcp://10.0.0.1:1 --json volume create v --size 10G --engine zstd --level -3",
		"volume create v --size 10G --engine zstd --level=-3 --gateway tcp://10.0.0.1:1 --json",
		"volume --json create --size 10G v --engine=zstd --level -3 --gateway=tcp://10.0.0.1:1",
	};

	for (size_t i = 0; i < NUM_COUNT(lines); i++) {
		cr_assert_eq(parse(lines[i]), 0, "%s", lines[i]);
		cr_assert_str_eq(options.command->verb, "create");
		cr_assert_str_eq(options.name, "v");
		cr_assert_eq(options.size_bytes, NUM_GIB(10));
		cr_assert_eq(options.level, -3);
		cr_assert(options.is_json);
		cr_assert_eq(options.gateways.count, 1);
		cr_assert_str_eq(options.gateways.items[0], "tcp://10.0.0.1:1");
		config_result_fini(&result);
	}
}

Test(command, help_about_what_is_not_there_is_refused)
{
	expect_refused("nothing --help", "there is no command 'nothing'");
	expect_refused("--help -g 127.0.0.1:1 nothing", "there is no command 'nothing'");
	expect_refused("status --quiet --json", "one of them");
	expect_refused("status --quiet --counters", "one of them");
}

Test(command, images_have_a_file_and_a_volume)
{
	cr_assert_eq(parse("import --format raw a.img v --progress --engine zstd"), 0);
	cr_assert_str_eq(options.file, "a.img");
	cr_assert_str_eq(options.name, "v");
	cr_assert_str_eq(options.format, "raw");
	cr_assert(options.has_progress);
	cr_assert_eq(options.size_bytes, 0, "as large as the image");
	config_result_fini(&result);
	cr_assert_eq(parse("export v@monday b.qcow2 --force"), 0);
	cr_assert_str_eq(options.name, "v@monday");
	cr_assert_str_eq(options.file, "b.qcow2");
	cr_assert_null(options.format);
	config_result_fini(&result);
	cr_assert_eq(parse("import a.img v --force --take"), 0);
	cr_assert(options.must_take);
	config_result_fini(&result);
	expect_refused("volume delete v --take", "takes no --take");
	expect_refused("snapshot delete v@s --purge", "takes no --purge");
	expect_refused("volume delete v --purg", "there is no option --purg: was --purge meant?");
	expect_refused("volume delete v --forc", "there is no option --forc: was --force meant?");
	expect_refused("trash restore", "'trash restore' needs the NAME or ID");
	expect_refused("user add", "'user add' needs a NAME, that of a key");
	expect_refused("user show", "'user show' needs a user");
	expect_refused("user remove db1 v:r", "did not expect 'v:r'");
	expect_refused("user show db1 --disable", "takes no --disable");
	expect_refused("import", "needs a FILE");
	expect_refused("import a.img", "needs the NAME");
	expect_refused("import a.img v w", "did not expect 'w'");
	expect_refused("import a.img v --size 5000", "multiple of 4096");
	expect_refused("export v", "needs a FILE");
	expect_refused("export v b.img --size 1M", "takes no --size");
	expect_refused("volume show v --progress", "takes no --progress");
	expect_refused("volume create v --size 4k --format raw", "takes no --format");
	expect_refused("gateway drain", "needs a gateway");
	expect_refused("gateway drain 1 2", "did not expect '2'");
	expect_refused("gateway undrain 1 --force", "takes no --force");
}

Test(command, every_command_is_found)
{
	const char *const lines[] = { "volume create v --size 4096", "volume list", "volume show v",
		"volume delete v --force", "node list", "gateway list",
		"gateway drain 2 --wait --force", "gateway undrain 00000000000000aa", "status",
		"help", "help volume create", "help volume", "help status" };

	for (size_t i = 0; i < NUM_COUNT(lines); i++) {
		cr_assert_eq(parse(lines[i]), 0, "%s", lines[i]);
		cr_assert_eq(options.is_help, strncmp(lines[i], "help", 4) == 0);
		config_result_fini(&result);
	}
}

Test(command, the_gateway_comes_from_the_environment)
{
	cr_assert_eq(unsetenv("CLEAVE_GATEWAY"), 0);
	cr_assert_eq(parse("status"), 0);
	cr_assert_str_eq(options.gateways.items[0], CLEAVE_DEFAULT_GATEWAY);
	cr_assert_eq(setenv("CLEAVE_GATEWAY", "tcp://10.0.0.2:2", 1), 0);
	cr_assert_eq(parse("status"), 0);
	cr_assert_eq(options.gateways.count, 1);
	cr_assert_str_eq(options.gateways.items[0], "tcp://10.0.0.2:2");
	cr_assert_eq(setenv("CLEAVE_GATEWAY_PORT", "7300", 1), 0);
	cr_assert_eq(parse("status"), 0);
	cr_assert_str_eq(options.gateways.items[0], "tcp://10.0.0.2:2");
	cr_assert_eq(setenv("CLEAVE_GATEWAY", "", 1), 0);
	cr_assert_eq(parse("status"), 0);
	cr_assert_str_eq(options.gateways.items[0], "tcp://127.0.0.1:7300");
	cr_assert_eq(setenv("CLEAVE_GATEWAY_PORT", "65536", 1), 0);
	cr_assert_neq(parse("status"), 0);
	cr_assert_eq(setenv("CLEAVE_GATEWAY", "gw1:2,tcp://10.0.0.2:2,verbs://[fd00::1]:2", 1), 0);
	cr_assert_eq(parse("status"), 0);
	cr_assert_eq(setenv("CLEAVE_GATEWAY", "gw1:2,,gw2:2", 1), 0);
	cr_assert_neq(parse("status"), 0);
	cr_assert_eq(setenv("CLEAVE_GATEWAY", "tcp://b", 1), 0);
	cr_assert_neq(parse("status"), 0);
	cr_assert_neq(parse("--gateway tcp://10.0.0.3:0 status"), 0);
	cr_assert_eq(parse("--gateway tcp://10.0.0.3:3 --gateway tcp://[fd00::4]:4 status"), 0);
	cr_assert_eq(options.gateways.count, 2);
	cr_assert_str_eq(options.gateways.items[0], "tcp://10.0.0.3:3");
}

Test(command, a_wrong_command_line_is_named)
{
	expect_refused("", "no command");
	expect_refused("frob", "frob");
	expect_refused("volume", "another word");
	expect_refused("volume frob", "volume frob");
	expect_refused("help frob", "frob");
	expect_refused("help volume frob", "volume frob");
	expect_refused("help status now", "now");
	expect_refused("--no-such-option", "no-such-option");
	expect_refused("status --no-such-option", "no-such-option");
	expect_refused("status now", "now");
	expect_refused("volume show", "NAME");
	expect_refused("volume show a b", "'b'");
	expect_refused("volume create v", "size");
	expect_refused("volume create v --size", "size");
	expect_refused("volume create v --size 8M --replicas 4", "replicas");
	expect_refused("volume create v --size 8M --engine gzip", "engine");
	expect_refused("volume create v --size 8M --service-class fast", "service-class");
	expect_refused("volume create v --size 8M --level high", "level");
	expect_refused("volume create v --size 8M --level 99999999999999999999", "level");
	expect_refused("volume create v --size 8M --force", "force");
	expect_refused("volume list --check", "check");
	expect_refused("status --without 3", "without");
	expect_refused("cluster", "another word");
	expect_refused("cluster upgrade now", "now");
	expect_refused("cluster upgrade --without", "without");
	expect_refused("volume list --size 8M", "size");
	expect_refused("status --timeout 0", "timeout");
	expect_refused("status --volume v", "volume");
	expect_refused("events --trace 1", "trace");
	expect_refused("slow v", "'v'");
	expect_refused("slow --volume", "volume");
}

Test(command, a_bad_size_is_refused_as_a_size)
{
	const char *const sizes[] = { "12Q", "0", "65T", "4097", "4095", "-1", "1e9", "G" };

	for (size_t i = 0; i < NUM_COUNT(sizes); i++) {
		char line[64];

		(void)snprintf(line, sizeof(line), "volume create v --size %s", sizes[i]);
		expect_refused(line, "size");
	}
}

Test(command, help_names_every_command)
{
	const char *const names[] = { "sage", "volume create", "volume list", "volume show",
		"volume delete", "node list", "gateway list", "status", "help", "--gateway",
		"--timeout" };
	size_t bytes;
	char *text;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_eq(parse("--help"), 0);
	cr_assert(options.is_help);
	command_print_help(&options, out);
	cr_assert_eq(fclose(out), 0);
	for (size_t i = 0; i < NUM_COUNT(names); i++)
		cr_assert_not_null(strstr(text, names[i]), "%s: not in: %s", names[i], text);
	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
		cr_assert_leq(strcspn(line, "\n"), 80, "%.*s", (int)strcspn(line, "\n"), line);
	free(text);
}

Test(command, help_is_about_what_stands_before_it)
{
	static const struct {
		const char *line, *has[3], *lacks[3];
	} cases[] = {
		{ "volume create --help",
		    { "Usage: cleave volume create NAME", "--size", "--timeout" },
		    { "--force", "--quiet", "volume delete" } },
		{ "help volume create", { "--replicas", "--gateway" },
		    { "--take", "volume list" } },
		{ "cluster upgrade disk1 -h", { "--check", "--without" },
		    { "--size", "--counters" } },
		{ "--json status --help", { "--counters", "--quiet", "0, 1 or 2" }, { "--size" } },
		{ "volume --help", { "volume create", "volume map" }, { "node list", "--quiet" } },
		{ "help snapshot", { "snapshot diff" }, { "volume create" } },
		{ "-g 127.0.0.1:1 --json status --help", { "--counters" }, { "--size" } },
		{ "help --help", { "volume create", "node list" }, { NULL } },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		FILE *out = print_begin();
		char *text;

		cr_assert_eq(parse(cases[i].line), 0, "%s", cases[i].line);
		cr_assert(options.is_help);
		command_print_help(&options, out);
		text = print_end(out, 0);
		for (size_t k = 0; k < 3; k++) {
			cr_assert(cases[i].has[k] == NULL || strstr(text, cases[i].has[k]) != NULL,
			    "%s: no %s in\n%s", cases[i].line, cases[i].has[k], text);
			cr_assert(cases[i].lacks[k] == NULL ||
				strstr(text, cases[i].lacks[k]) == NULL,
			    "%s: %s in\n%s", cases[i].line, cases[i].lacks[k], text);
		}
		free(text);
	}
}

Test(command, every_option_is_of_some_command)
{
	for (const struct config_option *option = command_option_table; option->name != NULL;
	     option++) {
		char word[64], *text;
		FILE *out = print_begin();

		(void)snprintf(word, sizeof(word), "--%s ", option->name);
		cr_assert_eq(parse("volume map --help"), 0);
		command_print_help(&options, out);
		text = print_end(out, 0);
		word[strlen(word) - 1] = '\0';
		cr_assert_eq(strstr(text, word) != NULL,
		    strcmp(option->name, "gateway") == 0 || strcmp(option->name, "json") == 0 ||
			strcmp(option->name, "timeout") == 0 || strcmp(option->name, "key") == 0 ||
			strcmp(option->name, "security") == 0 ||
			strcmp(option->name, "revoked") == 0,
		    "%s: who takes it is not told (command_help.c)", word);
		free(text);
	}
}

Test(command, create_asks_for_what_was_given_alone)
{
	struct cleave_volume_options asked;

	cr_assert_eq(parse("volume create v --size 1T"), 0);
	command_create_options(&options, &asked);
	cr_assert_str_eq(asked.name, "v");
	cr_assert_eq(asked.size_bytes, NUM_GIB(1024));
	cr_assert_eq(asked.service_class, CLEAVE_SERVICE_STANDARD);
	cr_assert_null(asked.engine);
	cr_assert(!asked.has_level && asked.replicas == 0);
	cr_assert_eq(parse("volume create v --size 8K --service-class capacity --engine none "
			   "--level 0 --replicas 2"),
	    0);
	command_create_options(&options, &asked);
	cr_assert_eq(asked.size_bytes, 8192);
	cr_assert_eq(asked.service_class, CLEAVE_SERVICE_CAPACITY);
	cr_assert_str_eq(asked.engine, "none");
	cr_assert(asked.has_level && asked.level == 0 && asked.replicas == 2);
}

Test(command, an_unreachable_gateway_fails_at_once, .timeout = 20)
{
	int fds[2], kept = dup(STDERR_FILENO);
	char text[512] = "";

	cr_assert_eq(parse("--gateway tcp://127.0.0.1:1 status"), 0);
	cr_assert_eq(pipe(fds), 0);
	cr_assert_geq(dup2(fds[1], STDERR_FILENO), 0);
	cr_assert_eq(command_execute(&options, stdout), CLEAVE_HEALTH_ERROR);
	cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
	cr_assert_gt(read(fds[0], text, sizeof(text) - 1), 0);
	cr_assert_not_null(strstr(text, "cleave: tcp://127.0.0.1:1: "), "%s", text);
}

Test(command, volumes_are_a_table)
{
	static const struct cleave_volume_entry volumes[] = {
		{ .info = { .name = "disk1",
		      .id = 1,
		      .size_bytes = NUM_GIB(10),
		      .engine = "lz4",
		      .level = 1,
		      .replicas = 3 } },
		{ .info = { .name = "b",
		      .id = 22,
		      .size_bytes = 4096,
		      .service_class = CLEAVE_SERVICE_LATENCY,
		      .engine = "none",
		      .level = -2,
		      .replicas = 3 },
		    .has_writer = true,
		    .writer = { "vm[7]@host", "tcp://10.0.0.9:4711", 1 } },
		{ .info = { .name = "c",
		      .id = 23,
		      .size_bytes = 4096,
		      .engine = "none",
		      .replicas = 3 },
		    .has_writer = true,
		    .writer = { "vm[8]@host", "tcp://10.0.0.9:4712", 1 } },
	};
	json_t *told =
	    json_loads("[{\"stored_bytes\":2097152,\"snapshot_count\":3,\"session_count\":0,"
		       "\"origin_name\":\"v@s\"},{},{\"session_count\":0}]",
		0, NULL);
	FILE *out = print_begin();

	cr_assert_not_null(told);
	expect_lines(print_end(out,
			 command_print_volumes(volumes, NUM_COUNT(volumes), told, true, out)),
	    "NAME     SIZE  STORED  SNAPSHOTS  SESSIONS  CLASS     ENGINE  REPLICAS  ID  WRITER              ORIGIN  LIMITS\n"
	    "disk1  10 GiB   2 MiB          3         0  standard  lz4            3   1  -                   v@s     -\n"
	    "b       4 KiB       ?          ?         ?  latency   none           3  22  vm[7]@host          -       -\n"
	    "c       4 KiB       ?          ?         0  standard  none           3  23  vm[8]@host, silent  -       -\n");
	/* Where a gateway does not answer, it may be there that the writer is. */
	out = print_begin();
	{
		char *text = print_end(out,
		    command_print_volumes(volumes, NUM_COUNT(volumes), told, false, out));

		cr_assert_null(strstr(text, "silent"), "%s", text);
		free(text);
	}
	out = print_begin();
	expect_lines(print_end(out, command_print_volumes(NULL, 0, NULL, true, out)),
	    "NAME  SIZE  STORED  SNAPSHOTS  SESSIONS  CLASS  ENGINE  REPLICAS  ID  WRITER  ORIGIN  LIMITS\n");
	json_decref(told);
}

Test(command, snapshots_are_a_table)
{
	static const struct cleave_snapshot snapshots[] = {
		{ .name = "v@monday", .number = 7, .size_bytes = 4096, .created_s = 86400 },
		/* The snapshot's volume is being deleted. */
		{ .name = "@tuesday",
		    .number = 8,
		    .size_bytes = NUM_GIB(1),
		    .clone_count = 2,
		    .is_protected = true,
		    .group = 6 },
	};
	FILE *out = print_begin();

	expect_lines(print_end(out, command_print_snapshots(snapshots, NUM_COUNT(snapshots), out)),
	    "NAME        SIZE  TAKEN                 CLONES  PROTECTED  NUMBER  GROUP\n"
	    "v@monday   4 KiB  1970-01-02T00:00:00Z       0  -               7  -\n"
	    "?@tuesday  1 GiB  1970-01-01T00:00:00Z       2  yes             8  6\n");
}

Test(command, the_trash_is_a_table)
{
	static const struct cleave_trash_entry volumes[] = {
		{ .name = "v",
		    .id = 7,
		    .size_bytes = 4096,
		    .deleted_s = 86400,
		    .left_s = 62,
		    .snapshot_count = 3,
		    .by = "10.0.0.1:4711" },
		{ .name = "v", .id = 18, .size_bytes = NUM_GIB(1) },
	};
	FILE *out = print_begin();

	expect_lines(print_end(out, command_print_trash(volumes, NUM_COUNT(volumes), out)),
	    "NAME  ID   SIZE  SNAPSHOTS  DELETED               BY             PURGED\n"
	    "v      7  4 KiB          3  1970-01-02T00:00:00Z  10.0.0.1:4711  in 1m 02s\n"
	    "v     18  1 GiB          0  1970-01-01T00:00:00Z  -              now\n");
}

Test(command, a_volume_is_shown_with_what_it_holds)
{
	static const char *const parts[] = { "3 MiB (2 MiB flushed, 1 MiB in the log)",
		"4.00 (size / stored)", "512 KiB", "2.50 (at most 4, 2 chunks)",
		"3 of 4 answer: what the others hold is missing" };
	static const char *const empty_parts[] = { "nothing is stored",
		"vm[7]@host at tcp://10.0.0.9:4711, since 1970-01-02T00:00:00Z" };
	struct cleave_volume_entry volume = {
		.info = { .name = "v", .size_bytes = NUM_MIB(12), .engine = "lz4", .level = 1 }
	};
	json_t *usage = json_loads("{\"shard_count\":3,\"shard_total\":4,\"chunk_count\":2,"
				   "\"layer_bytes\":1048576,\"run_bytes\":2097152,"
				   "\"garbage_bytes\":524288,\"run_count\":5,\"run_count_max\":4}",
	    0, NULL);
	json_t *empty = json_object();
	FILE *out = print_begin();

	expect_parts(print_end(out, command_print_volume(&volume, "gateway", usage, out)), parts,
	    NUM_COUNT(parts));
	volume.has_writer = true;
	volume.writer = (struct cleave_writer){ "vm[7]@host", "tcp://10.0.0.9:4711", 86400 };
	out = print_begin();
	expect_parts(print_end(out, command_print_volume(&volume, "gateway", empty, out)),
	    empty_parts, NUM_COUNT(empty_parts));
	volume.has_writer = false;
	volume.info.segment_base = 5;
	volume.info.segment_count = 6;
	volume.info.attach = 7;
	volume.info.id = 8;
	volume.info.replicas = 3;
	out = print_begin();
	expect_lines(print_end(out,
			 command_print_volume(&volume, "direct, at nodes 1, 2", NULL, out)),
	    "name           v\n"
	    "size           12 MiB (12582912 bytes)\n"
	    "service class  standard\n"
	    "engine         lz4, level 1\n"
	    "replicas       3\n"
	    "id             8\n"
	    "segment_base   5\n"
	    "segment_count  6\n"
	    "attach         7\n"
	    "encrypted      no\n"
	    "limits         -\n"
	    "reads          direct, at nodes 1, 2\n"
	    "writer         -\n");
	json_decref(usage);
	json_decref(empty);
}

/* Usage and metrics have no struct: what is odd in them is shown as far as it goes. */
Test(command, odd_replies_are_shown_as_far_as_they_go)
{
	const char *const replies[] = { "{}", "[]", "{\"ports\":3,\"shard_count\":\"x\"}",
		"{\"ports\":[null,7,{\"port\":-1,\"metrics\":[],\"split\":{\"a\":\"b\"}}]}" };
	struct cleave_volume_entry volume = { .info = { .name = "v" } };

	for (size_t i = 0; i < NUM_COUNT(replies); i++) {
		json_t *reply = json_loads(replies[i], 0, NULL);
		FILE *out = print_begin();

		cr_assert_not_null(reply);
		free(print_end(out, command_print_ports(reply, out)));
		out = print_begin();
		free(print_end(out, command_print_volume(&volume, "gateway", reply, out)));
		json_decref(reply);
	}
}

Test(command, gateways_are_listed)
{
	static const struct cleave_gateway_entry gateways[] = {
		{ .id = 1,
		    .is_asked = true,
		    .address = "tcp://a:1",
		    .port_count = 2,
		    .shards_owned = 5,
		    .shards_share = 4,
		    .seen_for_ms = 65000,
		    .lease_left_ms = 2100,
		    .level_min = 1,
		    .level_max = 2,
		    .state = "serving" },
		{ .id = 2,
		    .address = "tcp://b:1",
		    .port_count = 1,
		    .shards_owned = 3,
		    .shards_share = 4,
		    .seen_for_ms = 1000,
		    .level_min = 1,
		    .level_max = 1,
		    .state = "draining" },
		{ .id = 3, .level_min = 2, .level_max = 12 },
	};
	FILE *out = print_begin();

	expect_lines(print_end(out, command_print_gateways(gateways, NUM_COUNT(gateways), out)),
	    "GATEWAY                   PORTS         STATE     SHARDS  SHARE  SEEN FOR  LEASE LEFT   LEVELS\n"
	    "0000000000000001 (asked)  tcp://a:1 +1  serving        5      4    1m 05s     2100 ms   1 to 2\n"
	    "0000000000000002          tcp://b:1     draining       3      4        1s           -   1 to 1\n"
	    "0000000000000003          -             -              0      0        0s           -  2 to 12\n");
}

Test(command, nodes_are_listed_with_their_trouble)
{
	static const struct cleave_node_entry nodes[] = {
		{ .id = 1,
		    .address = "tcp://n:1",
		    .domain = "a",
		    .state = "up",
		    .is_read_only = true,
		    .slots_total = 4,
		    .slots_free = 3,
		    .slots_reserved = 1,
		    .slot_bytes = NUM_MIB(1),
		    .level = 2 },
		{ .address = "tcp://n:2", .state = "down", .trouble = "refused" },
	};
	FILE *out = print_begin();

	expect_lines(print_end(out, command_print_nodes(nodes, NUM_COUNT(nodes), out)),
	    "NODE  ADDRESS    DOMAIN  STATE           SIZE   FREE        SLOTS  LEVEL\n"
	    "   1  tcp://n:1  a       up, read-only  4 MiB  2 MiB  3 of 4 free      2\n"
	    "   0  tcp://n:2          down             0 B    0 B  0 of 0 free      -\n"
	    "node at tcp://n:2: refused\n");
}

Test(command, status_shows_shards_metrics_and_ratio)
{
	static const struct cleave_gateway_status status = { .id = 0xaa,
		.boot_id = 0xbb,
		.cluster_id = 0xcc,
		.state = "serving",
		.uptime_ns = NUM_S(65),
		.shard_count = 1,
		.volume_count = 2,
		.level = 2 };
	static const struct cleave_shard_entry shard = { .state = "serving",
		.epoch = 3,
		.extents = 1,
		.log_bytes = 1572864,
		.index_blocks = 77 };
	static const char *const parts[] = { "port 0  tcp://a:1  sessions 0", "engine_ns", "ns\n",
		"9  bytes\n", "\nport 1  ?" };
	json_t *reply = json_loads(
	    "{\"ports\":[{\"port\":0,\"address\":\"tcp://a:1\","
	    "\"metrics\":{\"writes\":5,\"write_bytes\":8192,\"stored_bytes\":4096,\"reads\":0,"
	    "\"engine_ns\":12},\"split\":{\"host_bytes_in\":9}},{\"port\":1,\"metrics\":{\"write_bytes\":1024}}]}",
	    0, NULL);
	FILE *out = print_begin();
	char *text;

	cr_assert_not_null(reply);
	expect_lines(print_end(out, command_print_status(&status, reply, out)),
	    "gateway      00000000000000aa\n"
	    "state        serving\n"
	    "cluster      00000000000000cc\n"
	    "boot         00000000000000bb\n"
	    "uptime       1m 05s\n"
	    "level        2\n"
	    "shards       1\n"
	    "volumes      2\n"
	    "compression  2.25 (9 KiB written, 4 KiB stored)\n");
	out = print_begin();
	expect_lines(print_end(out, command_print_shards(&shard, 1, out)),
	    "SHARD  PORT  STATE    EPOCH  EXTENTS  LACKING  LOG MiB  INDEX BLOCKS\n"
	    "    0     0  serving      3        1        0     1.50            77\n");
	out = print_begin();
	text = print_end(out, command_print_ports(reply, out));
	cr_assert_null(strstr(text, "reads"), "a zero is shown:\n%s", text);
	expect_parts(text, parts, NUM_COUNT(parts));
	json_decref(reply);
}

Test(command, status_begins_with_what_is_wrong_and_what_helps_once_a_code)
{
	static const struct cleave_gateway_status status = { .cluster_id = 0xcc,
		.shard_count = 8,
		.volume_count = 2,
		.level = 2 };
	static const struct cleave_node_entry nodes[] = { { .state = "up" }, { .state = "down" } };
	struct command_health health = { .level = CLEAVE_HEALTH_ERROR,
		.gateway_count = 3,
		.silent_count = 1,
		.left_out = 2,
		.sessions = 5,
		.shards_serving = 6,
		.extents = 20,
		.extents_lacking = 4,
		.extents_leaving = 1,
		.write_bytes = 8192,
		.stored_bytes = 4096,
		.write = { .counts = { [5] = 100 } } };
	const struct command_summary summary = { &status, &health, nodes, NUM_COUNT(nodes) };
	FILE *out = print_begin();
	json_t *json;

	health.reasons = json_loads(
	    "[{\"code\":\"room-out\",\"level\":\"ERROR\",\"object\":\"gateway 1\",\"text\":\"no room\","
	    "\"helps\":\"delete\",\"seen_by\":1},"
	    "{\"code\":\"node-down\",\"level\":\"WARN\",\"object\":\"node 2\",\"text\":\"node 2 is away\","
	    "\"helps\":\"start it\",\"for_ms\":65000,\"seen_by\":1},"
	    "{\"code\":\"node-down\",\"level\":\"WARN\",\"object\":\"node 3\",\"text\":\"node 3 is away\","
	    "\"helps\":\"start it\",\"seen_by\":2}]",
	    0, NULL);
	health.room = json_loads(
	    "{\"raw_total\":30720,\"raw_free\":20480,\"data_total\":8192,\"data_free\":2048,\"data_used\":4096,"
	    "\"volume_bytes\":16384}",
	    0, NULL);
	health.no_room =
	    json_loads("{\"v\":{\"waited\":3,\"refused\":16,\"last_ms\":5000}}", 0, NULL);
	cr_assert_not_null(health.reasons);
	command_health_print(&health, out);
	expect_lines(print_end(out, 0),
	    "HEALTH ERROR\n"
	    "ERROR room-out: no room\n"
	    "      -> delete\n"
	    "WARN  node-down: node 2 is away (for 1m 05s) (say 1 of 2 gateways)\n"
	    "WARN  node-down: node 3 is away\n"
	    "      -> start it\n"
	    "      and 2 reasons more\n");
	out = print_begin();
	expect_lines(print_end(out, command_print_summary(&summary, out)),
	    "cluster      00000000000000cc, level 2\n"
	    "gateways     3, 2 answer\n"
	    "nodes        2, 1 up\n"
	    "shards       8, 6 serving\n"
	    "volumes      2, 5 connections of clients\n"
	    "extents      20, 4 lack copies, 1 to be moved\n"
	    "room         2 KiB left for data of 8 KiB, 50 % in use; 30 KiB of disks, 10 KiB of them stored\n"
	    "promised     2.00 (16 KiB of volumes, before compression): overcommitted\n"
	    "full in      ? (an hour has to be seen first)\n"
	    "compression  2.00 since the gateways started (8 KiB written, 4 KiB stored)\n"
	    "no room      volume 'v': 16 writes refused, 3 waited, the last 5s ago\n"
	    "writes       p50 0.35 ms, p99 0.49 ms, 100 in the last minute\n"
	    "reads        none in the last minute\n");
	json = command_health_json(&health);
	cr_assert_eq(json_integer_value(
			 json_object_get(json_object_get(json_object_get(json, "latency"), "write"),
			     "p99_us")),
	    497);
	json_decref(json);
	command_health_fini(&health);
}

/* A reason that was left out, or that we cannot read, is no reason to call it well. */
Test(command, the_level_that_a_gateway_tells_counts_besides_its_reasons)
{
	static const struct {
		const char *told;
		enum cleave_health_level level;
	} cases[] = {
		{ "{\"level\":\"OK\",\"reasons\":[]}", CLEAVE_HEALTH_OK },
		{ "{\"level\":\"ERROR\",\"reasons\":[]}", CLEAVE_HEALTH_ERROR },
		{ "{\"level\":\"WORSE\",\"reasons\":[]}", CLEAVE_HEALTH_ERROR },
		{ "{\"reasons\":[{\"level\":\"WARN\"}]}", CLEAVE_HEALTH_WARN },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		struct command_health health = { .reasons = json_array() };
		json_t *told = json_loads(cases[i].told, 0, NULL);

		command_health_take(&health, told);
		cr_assert_eq(health.level, cases[i].level, "%s", cases[i].told);
		command_health_fini(&health);
		json_decref(told);
	}
}

Test(command, a_slow_request_is_shown_with_its_hops_and_nodes)
{
	json_t *entry = json_loads(
	    "{\"number\":1,\"age_ms\":5,\"op\":\"write\",\"volume\":\"v\",\"offset_bytes\":8192,"
	    "\"bytes\":4096,\"trace\":\"00000000000000ab\",\"rc\":0,\"took_us\":812345,"
	    "\"gateway\":\"0000000000000001\",\"hops_us\":{\"park\":100,\"replicate\":810000},"
	    "\"longest_node\":2,\"nodes\":[{\"node\":1,\"took_us\":500},{\"node\":2,"
	    "\"took_us\":810000,\"lost\":true,\"queue_us\":12000,\"write_us\":6100,\"flush_us\":0}]}",
	    0, NULL);
	FILE *out = print_begin();
	char *text;

	cr_assert_not_null(entry);
	command_print_slow(entry, out);
	text = print_end(out, 0);
	cr_assert_str_eq(strchr(text, ' '),
	    " write of 'v' took 812.3 ms at 8192, 4096 bytes (gateway 0000000000000001)\n"
	    "      park 0.1 ms, replicate 810.0 ms; trace 00000000000000ab\n"
	    "      node 1 0.5 ms\n"
	    "      node 2 810.0 ms <- longest, given up (its queue 12.0 ms, write 6.1 ms, flush 0.0 "
	    "ms)\n");
	free(text);
	json_object_set_new(entry, "rc", json_integer(-EIO));
	json_object_del(entry, "hops_us");
	json_object_set_new(entry, "nodes", json_string("odd"));
	out = print_begin();
	command_print_slow(entry, out);
	text = print_end(out, 0);
	cr_assert_not_null(strstr(text, " 4096 bytes, failed: "));
	cr_assert_not_null(strstr(text, ")\n      trace 00000000000000ab\n"));
	free(text);
	json_decref(entry);
}

Test(command, level_tells_the_next_step)
{
	static const struct {
		struct cleave_cluster_level level;
		const char *text;
	} cases[] = {
		{ { .level = 2 }, "level 2: nobody speaks more\n" },
		{ { .level = 1, .next = 2 },
		    "level 1: everybody speaks 2, next: cleave cluster upgrade\n" },
		{ { .level = 1,
		      .next = 2,
		      .missing_count = 2,
		      .missing = "gateway 2 speaks 1 to 1\nnode 3 at tcp://n:3 speaks 1" },
		    "level 1: 2 do not speak 2, next: install and start the new release there\n"
		    "  gateway 2 speaks 1 to 1\n"
		    "  node 3 at tcp://n:3 speaks 1\n" },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		FILE *out = print_begin();

		command_print_level(&cases[i].level, out);
		expect_lines(print_end(out, 0), cases[i].text);
	}
}
