/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c -- one table, three sources, and errors that help */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build_info.h"
#include "base/config.h"
#include "base/config_text.h"
#include "base/config_value.h"
#include "base/num.h"

struct values {
	const char *disk;
	uint64_t size;
	uint64_t count;
	uint64_t delay_ns;
	unsigned engine;
	const char *place;
	struct config_list nodes;
	bool is_verbose;
	bool is_safe;
};

static const char *const engines[] = { "none", "lz4", "zstd", NULL };
static const char *const places[] = { "here", "there", NULL };

static const struct config_option options[] = {
	{ .name = "disk",
	    .short_name = 'd',
	    .type = CONFIG_STRING,
	    .offset = offsetof(struct values, disk),
	    .value_name = "PATH",
	    .help = "The disk.",
	    .is_required = true },
	{ .name = "size",
	    .type = CONFIG_SIZE,
	    .offset = offsetof(struct values, size),
	    .value_name = "SIZE",
	    .help = "How large it is.",
	    .default_text = "64M",
	    .min = NUM_MIB(1),
	    .max = NUM_GIB(1024) },
	{ .name = "count",
	    .short_name = 'c',
	    .type = CONFIG_U64,
	    .offset = offsetof(struct values, count),
	    .value_name = "N",
	    .help = "How many there are of those things that this program is about, more or less.",
	    .default_text = "3",
	    .min = 1 },
	{ .name = "delay",
	    .type = CONFIG_DURATION,
	    .offset = offsetof(struct values, delay_ns),
	    .value_name = "TIME",
	    .help = "How long to wait.",
	    .default_text = "10ms" },
	{ .name = "engine",
	    .type = CONFIG_CHOICE,
	    .offset = offsetof(struct values, engine),
	    .value_name = "NAME",
	    .help = "What compresses.",
	    .default_text = "lz4",
	    .choices = engines },
	{ .name = "place",
	    .type = CONFIG_STRING,
	    .offset = offsetof(struct values, place),
	    .value_name = "PLACE",
	    .help = "Where it is done.",
	    .choices = places },
	{ .name = "node",
	    .short_name = 'n',
	    .type = CONFIG_LIST,
	    .offset = offsetof(struct values, nodes),
	    .value_name = "ADDR",
	    .help = "A storage node." },
	{ .name = "verbose",
	    .short_name = 'v',
	    .type = CONFIG_FLAG,
	    .offset = offsetof(struct values, is_verbose),
	    .help = "Say more." },
	{ .name = "safe",
	    .type = CONFIG_FLAG,
	    .offset = offsetof(struct values, is_safe),
	    .help = "Take care.",
	    .default_text = "yes" },
	{ .name = NULL },
};

static const struct config_program program = {
	.name = "cleave-test",
	.synopsis = "--disk PATH [options]\nformat --disk PATH",
	.purpose = "Does nothing, with options.",
	.options = options,
	.operands_max = 2,
};

static struct values values;
static struct config_result result;

#define PARSE(...)                                                                                 \
	parse((char *[]){ "cleave-test", __VA_ARGS__, NULL },                                      \
	    (int)(sizeof((char *[]){ "cleave-test", __VA_ARGS__ }) / sizeof(char *)))

static int
parse(char **argv, int argc)
{
	return config_parse(&program, argc, argv, &values, &result);
}

/* The whole of a redirected stream. */
static const char *
text_of(FILE *stream)
{
	static char text[8192];
	size_t bytes = fread(text, 1, sizeof(text) - 1, stream);

	text[bytes] = '\0';
	return text;
}

static const char *
stderr_text(void)
{
	fflush(stderr);
	return text_of(cr_get_redirected_stderr());
}

#define FILE_PATH_TEMPLATE "/tmp/cleave-test-config-XXXXXX"
static char file_path[] = FILE_PATH_TEMPLATE;

static char *
file_with(const char *text)
{
	int fd;

	memcpy(file_path, FILE_PATH_TEMPLATE, sizeof(file_path));
	fd = mkstemp(file_path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return file_path;
}

static void
file_remove(void)
{
	(void)unlink(file_path);
}

Test(config, defaults_fill_what_is_not_given)
{
	cr_assert_eq(PARSE("--disk", "/dev/null"), 0);
	cr_assert_str_eq(values.disk, "/dev/null");
	cr_assert_eq(values.size, NUM_MIB(64));
	cr_assert_eq(values.count, 3);
	cr_assert_eq(values.delay_ns, NUM_MS(10));
	cr_assert_eq(values.engine, 1);
	cr_assert_eq(values.nodes.count, 0);
	cr_assert(!values.is_verbose);
	cr_assert(values.is_safe);
	config_result_fini(&result);
}

Test(config, the_command_line_sets_every_type)
{
	cr_assert_eq(PARSE("-d", "x", "--size=2G", "-c", "7", "--delay", "500us", "--engine",
			 "zstd", "-n", "a", "--node", "b", "-v", "--safe=no"),
	    0);
	cr_assert_eq(values.size, NUM_GIB(2));
	cr_assert_eq(values.count, 7);
	cr_assert_eq(values.delay_ns, NUM_US(500));
	cr_assert_eq(values.engine, 2);
	cr_assert_eq(values.nodes.count, 2);
	cr_assert_str_eq(values.nodes.items[0], "a");
	cr_assert_str_eq(values.nodes.items[1], "b");
	cr_assert(values.is_verbose);
	cr_assert(!values.is_safe);
}

Test(config, operands_may_stand_anywhere)
{
	cr_assert_eq(PARSE("volume", "--disk", "x", "create"), 0);
	cr_assert_eq(result.operand_count, 2);
	cr_assert_str_eq(result.operands[0], "volume");
	cr_assert_str_eq(result.operands[1], "create");
}

Test(config, the_file_stands_between_defaults_and_the_command_line, .fini = file_remove)
{
	char *file = file_with("# a comment\ndisk = /from/file\nsize = 1G\ncount=9\n"
			       "node = a\nnode = b\nverbose = yes\nsafe = no\n");

	cr_assert_eq(PARSE("--config", file, "--count", "10"), 0);
	cr_assert_str_eq(values.disk, "/from/file");
	cr_assert_eq(values.size, NUM_GIB(1));
	cr_assert_eq(values.count, 10);
	cr_assert_eq(values.nodes.count, 2);
	cr_assert_str_eq(values.nodes.items[1], "b");
	cr_assert(values.is_verbose);
	cr_assert(!values.is_safe);
	config_result_fini(&result);
	cr_assert_null(result.owned);
}

Test(config, a_list_on_the_command_line_replaces_the_files, .fini = file_remove)
{
	char *file = file_with("disk = d\nnode = a\nnode = b\n");

	cr_assert_eq(PARSE("--node", "c", "--config", file), 0);
	cr_assert_eq(values.nodes.count, 1);
	cr_assert_str_eq(values.nodes.items[0], "c");
	config_result_fini(&result);
}

Test(config, parsing_twice_starts_anew)
{
	cr_assert_eq(PARSE("-d", "x", "-v", "-n", "a"), 0);
	cr_assert_eq(PARSE("-d", "y", "-n", "b"), 0);
	cr_assert_str_eq(values.disk, "y");
	cr_assert_eq(values.nodes.count, 1);
	cr_assert(!values.is_verbose);
}

#define REFUSES(name, expected_text, ...)                                                          \
	Test(config, name, .init = cr_redirect_stderr)                                             \
	{                                                                                          \
		const char *text;                                                                  \
                                                                                                   \
		cr_assert_eq(PARSE(__VA_ARGS__), -EINVAL);                                         \
		text = stderr_text();                                                              \
		cr_assert_str_eq(text, "cleave-test: " expected_text "\n");                        \
	}

REFUSES(refuses_a_missing_required_option, "--disk PATH is required: The disk.", "-v")
REFUSES(refuses_an_unknown_option, "there is no option --colour, see --help", "--colour")
REFUSES(refuses_the_beginning_of_a_flag,
    "there is no option --verb: was --verbose meant? See --help", "-d", "x", "--verb")
REFUSES(refuses_the_beginning_of_a_flag_with_its_value,
    "there is no option --saf: was --safe meant? See --help", "-d", "x", "--saf=no")
REFUSES(refuses_the_beginning_of_an_option_with_a_value,
    "there is no option --dis: was --disk meant? See --help", "a", "--dis", "x", "b")
REFUSES(refuses_the_beginning_of_an_option_joined_to_its_value,
    "there is no option --dis: was --disk meant? See --help", "--dis=--disk", "a")
REFUSES(refuses_the_beginning_of_help, "there is no option --hel: was --help meant? See --help",
    "--hel")
REFUSES(refuses_the_beginning_of_several_options, "there is no option --s, see --help", "-d", "x",
    "--s", "1M")
REFUSES(refuses_an_unknown_letter, "there is no option -x, see --help", "-vx")
REFUSES(refuses_an_option_without_its_value, "--disk needs a value, see --help", "--disk")
REFUSES(refuses_a_letter_without_its_value, "-d needs a value, see --help", "-d")
REFUSES(refuses_a_value_for_help, "--help=me takes no value, see --help", "--help=me")
REFUSES(refuses_what_is_no_size, "--size: '16Q' is not a size such as 4096, 64K, 16M, 2G or 1T",
    "-d", "x", "--size", "16Q")
REFUSES(refuses_a_size_out_of_range, "--size: '4K' is out of range, give 1M to 1T", "-d", "x",
    "--size", "4K")
REFUSES(refuses_a_number_below_its_minimum, "--count: '0' is out of range, give at least 1", "-d",
    "x", "--count", "0")
REFUSES(refuses_a_number_beyond_64_bits,
    "--delay: '99999999999999999999s' is out of range, give less than 2^64", "-d", "x", "--delay",
    "99999999999999999999s")
REFUSES(refuses_a_duration_without_unit,
    "--delay: '10' is not a duration such as 500us, 10ms, 2s or 1m", "-d", "x", "--delay", "10")
REFUSES(refuses_what_is_no_number, "--count: '-1' is not a decimal number", "-d", "x", "--count=-1")
REFUSES(refuses_an_unknown_choice, "--engine: 'gzip' is not one of none, lz4, zstd", "-d", "x",
    "--engine", "gzip")
REFUSES(refuses_a_word_that_is_no_choice, "--place: 'nowhere' is not one of here, there", "-d", "x",
    "--place", "nowhere")
REFUSES(refuses_what_is_not_yes_or_no, "--safe: 'maybe' is not yes or no", "-d", "x",
    "--safe=maybe")
REFUSES(refuses_more_operands_than_it_takes, "did not expect 'c', see --help", "-d", "x", "a", "b",
    "c")

Test(config, refuses_a_list_that_is_too_long, .init = cr_redirect_stderr)
{
	char *argv[2 * (CONFIG_LIST_MAX + 1) + 2] = { "cleave-test" };
	int argc = 1;

	for (int i = 0; i <= CONFIG_LIST_MAX; i++) {
		argv[argc++] = "--node";
		argv[argc++] = "a";
	}
	cr_assert_eq(parse(argv, argc), -EINVAL);
	cr_assert_str_eq(stderr_text(), "cleave-test: --node: more than 64 times\n");
}

static void
check_file_refused(const char *file_text, const char *expected)
{
	char *file = file_with(file_text);
	char message[512];

	cr_redirect_stderr();
	cr_assert_eq(PARSE("-d", "x", "--config", file), -EINVAL);
	(void)snprintf(message, sizeof(message), "cleave-test: %s:%s\n", file, expected);
	cr_assert_str_eq(stderr_text(), message);
	cr_assert_null(result.owned);
}

Test(config, a_files_error_names_the_line, .fini = file_remove)
{
	check_file_refused("count = 1\nsize = big\n",
	    "2: size: 'big' is not a size such as 4096, 64K, 16M, 2G or 1T");
}

Test(config, an_unknown_key_in_a_file_is_refused, .fini = file_remove)
{
	check_file_refused("\n\ncolour = red\n", "3: no option is called 'colour', see --help");
}

Test(config, a_section_in_a_file_is_refused, .fini = file_remove)
{
	check_file_refused("[main]\ncount = 1\n",
	    "2: sections such as [main] are not used, put all keys at the top");
}

Test(config, a_key_set_twice_in_a_file_is_refused, .fini = file_remove)
{
	check_file_refused("count = 1\ncount = 2\n", "2: count is set twice");
}

Test(config, a_line_without_a_value_is_refused, .fini = file_remove)
{
	check_file_refused("count = 1\nrubbish\n", "2: not of the form `key = value`");
}

/* Not what belongs to the line before: an option would be the next item of a list, and not heard. */
Test(config, an_indented_line_is_one_of_its_own, .fini = file_remove)
{
	char *file = file_with("node = a\n  verbose = yes\n\tnode = b\n");

	cr_assert_eq(PARSE("-d", "x", "--config", file), 0);
	cr_assert(values.is_verbose);
	cr_assert_eq(values.nodes.count, 2);
	cr_assert_str_eq(values.nodes.items[1], "b");
	config_result_fini(&result);
}

Test(config, a_line_that_is_too_long_is_refused, .fini = file_remove)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "count = 1\ndisk = /%0300d\nsize = 2M\n", 0);
	check_file_refused(text, "2: longer than 198 bytes");
}

Test(config, what_is_no_text_is_refused_at_once, .init = cr_redirect_stderr)
{
	cr_assert_eq(PARSE("-d", "x", "--config", "/dev/zero"), -EINVAL);
	cr_assert_str_eq(stderr_text(),
	    "cleave-test: /dev/zero:1: a byte is 0, so that is no text\n");
}

Test(config, a_folder_is_no_file, .init = cr_redirect_stderr)
{
	cr_assert_eq(PARSE("-d", "x", "--config", "/"), -EISDIR);
	cr_assert_str_eq(stderr_text(), "cleave-test: --config: /: Is a directory\n");
}

Test(config, a_file_that_is_not_there_is_an_error, .init = cr_redirect_stderr)
{
	cr_assert_eq(PARSE("-d", "x", "--config", "/nonexistent/file"), -ENOENT);
	cr_assert_str_eq(stderr_text(),
	    "cleave-test: --config: /nonexistent/file: No such file or directory\n");
}

/* The same program, which takes --check-config. */
static int
check(char **argv, int argc)
{
	struct config_program checking = program;

	checking.has_check = true;
	return config_parse(&checking, argc, argv, &values, &result);
}

#define CHECK(...)                                                                                 \
	check((char *[]){ "cleave-test", __VA_ARGS__, NULL },                                      \
	    (int)(sizeof((char *[]){ "cleave-test", __VA_ARGS__ }) / sizeof(char *)))

Test(config, a_check_says_all_that_is_wrong, .fini = file_remove)
{
	char *file = file_with("count = 0\n\nrubbish\n# fine\ncolour = red\n[main]\nsize = big\n"
			       "verbose = yes\nmore rubbish\n");
	char wanted[2048];

	cr_redirect_stderr();
	cr_assert_eq(CHECK("--check-config", "--colour", "--engine", "gzip", "--config", file, "a",
			 "b", "c"),
	    0);
	cr_assert(result.is_check);
	(void)snprintf(wanted, sizeof(wanted),
	    "cleave-test: there is no option --colour, see --help\n"
	    "cleave-test: %1$s:1: count: '0' is out of range, give at least 1\n"
	    "cleave-test: %1$s:3: not of the form `key = value`\n"
	    "cleave-test: %1$s:5: no option is called 'colour', see --help\n"
	    "cleave-test: %1$s:7: sections such as [main] are not used, put all keys at the top\n"
	    "cleave-test: %1$s:9: not of the form `key = value`\n"
	    "cleave-test: --engine: 'gzip' is not one of none, lz4, zstd\n"
	    "cleave-test: did not expect 'c', see --help\n"
	    "cleave-test: --disk PATH is required: The disk.\n",
	    file);
	cr_assert_str_eq(stderr_text(), wanted);
	cr_assert_eq(result.problem_count, 9);
	cr_assert_eq(values.count, 3, "its default");
	cr_assert_eq(values.engine, 1, "its default");
	config_result_fini(&result);
}

Test(config, a_check_of_what_is_right_says_nothing, .fini = file_remove)
{
	char *file = file_with("count = 7\n");

	cr_redirect_stderr();
	cr_assert_eq(CHECK("-d", "x", "--check-config", "--config", file), 0);
	cr_assert(result.is_check);
	cr_assert_eq(result.problem_count, 0);
	cr_assert_eq(values.count, 7);
	cr_assert_str_eq(stderr_text(), "");
	config_result_fini(&result);
	cr_assert_eq(CHECK("-d", "x", "--", "--check-config"), 0);
	cr_assert(!result.is_check, "a word behind the options");
	config_result_fini(&result);
}

Test(config, a_check_names_a_file_that_is_not_there, .init = cr_redirect_stderr)
{
	cr_assert_eq(CHECK("-d", "x", "--check-config", "--config", "/nonexistent/file"), 0);
	cr_assert_eq(result.problem_count, 1);
	cr_assert_str_eq(stderr_text(),
	    "cleave-test: --config: /nonexistent/file: No such file or directory\n");
}

REFUSES(refuses_a_check_where_there_is_none, "there is no option --check-config, see --help", "-d",
    "x", "--check-config")

Test(config, a_check_refuses_the_beginning_of_its_own_name, .init = cr_redirect_stderr)
{
	cr_assert_eq(CHECK("-d", "x", "--check"), -EINVAL);
	cr_assert_str_eq(stderr_text(),
	    "cleave-test: there is no option --check: was --check-config meant? See --help\n");
}

Test(config, a_check_goes_on_behind_an_option_that_is_not_whole, .init = cr_redirect_stderr)
{
	cr_assert_eq(CHECK("-d", "x", "--check-config", "--verb", "--count", "0"), 0);
	cr_assert_eq(result.problem_count, 2);
	cr_assert_str_eq(stderr_text(),
	    "cleave-test: there is no option --verb: was --verbose meant? See --help\n"
	    "cleave-test: --count: '0' is out of range, give at least 1\n");
}

Test(config, what_differs_is_told_as_it_is_typed, .fini = file_remove)
{
	struct values defaults;
	char text[CONFIG_TEXT_BYTES], all[1024] = "";

	cr_assert_eq(config_defaults(&program, &defaults), 0);
	cr_assert_eq(PARSE("-d", "x", "--size", "131072K", "--delay=1500us", "--node", "a",
			 "--node", "b", "-v", "--safe=no", "--count", "3", "--engine", "zstd"),
	    0);
	for (const struct config_option *option = options; option->name != NULL; option++) {
		if (!config_differs(option, &values, &defaults))
			continue;
		for (uint32_t i = 0; i < config_text_count(option, &values); i++)
			(void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s ",
			    config_text(option, &values, i, text, sizeof(text)));
	}
	cr_assert_not_null(
	    strstr(all, "--disk=x --size=128M --delay=1500us --engine=zstd --node=a --node=b "),
	    "%s", all);
	cr_assert_not_null(strstr(all, "--verbose "), "%s", all);
	cr_assert_not_null(strstr(all, "--safe=no "), "%s", all);
	cr_assert_null(strstr(all, "--count"), "%s", all);
	for (const struct config_option *option = options; option->name != NULL; option++)
		cr_assert(!config_differs(option, &values, &values), "%s", option->name);
	config_result_fini(&result);
}

Test(config, help_shows_each_option_within_80_columns, .init = cr_redirect_stdout)
{
	char text[8192];

	cr_assert_eq(PARSE("--help"), 1);
	fflush(stdout);
	(void)snprintf(text, sizeof(text), "%s", text_of(cr_get_redirected_stdout()));
	for (const struct config_option *option = options; option->name != NULL; option++)
		cr_assert_not_null(strstr(text, option->name), "%s", option->name);
	cr_assert_not_null(strstr(text,
	    "Usage: cleave-test --disk PATH [options]\n       cleave-test format --disk PATH\n\n"));
	cr_assert_not_null(strstr(text, "  -d, --disk PATH"));
	cr_assert_not_null(strstr(text, "Required."));
	cr_assert_not_null(strstr(text, "Default: 64M."));
	cr_assert_not_null(strstr(text, "One of: none, lz4, zstd."));
	cr_assert_not_null(strstr(text, "Range: 1M to 1T."));
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		cr_assert_leq(strlen(line), 80, "%s", line);
}

Test(config, version_names_the_program_and_its_commit, .init = cr_redirect_stdout)
{
	char wanted[128];

	cr_assert_eq(PARSE("-V"), 1);
	fflush(stdout);
	(void)snprintf(wanted, sizeof(wanted), "cleave-test %s (%s)\n", build_info_version(),
	    build_info_commit());
	cr_assert_str_eq(text_of(cr_get_redirected_stdout()), wanted);
	cr_assert(build_info_version()[0] >= '0' && build_info_version()[0] <= '9');
	cr_assert_str_not_empty(build_info_commit());
}

Test(config, help_wins_over_other_errors, .init = cr_redirect_stdout)
{
	cr_assert_eq(PARSE("--size", "bad", "-h"), 1);
}

Test(config, sizes_parse)
{
	uint64_t bytes = 77;

	cr_assert_eq(config_parse_size("4096", &bytes), 0);
	cr_assert_eq(bytes, 4096);
	cr_assert_eq(config_parse_size("1T", &bytes), 0);
	cr_assert_eq(bytes, UINT64_C(1) << 40);
	cr_assert_eq(config_parse_size("16k", &bytes), 0);
	cr_assert_eq(bytes, 16384);
	cr_assert_eq(config_parse_size("3MiB", &bytes), 0);
	cr_assert_eq(bytes, NUM_MIB(3));
	bytes = 77;
	cr_assert_eq(config_parse_size("", &bytes), -EINVAL);
	cr_assert_eq(config_parse_size("M", &bytes), -EINVAL);
	cr_assert_eq(config_parse_size("-1", &bytes), -EINVAL);
	cr_assert_eq(config_parse_size(" 1", &bytes), -EINVAL);
	cr_assert_eq(config_parse_size("18446744073709551616", &bytes), -ERANGE);
	cr_assert_eq(config_parse_size("18446744073709551615T", &bytes), -ERANGE);
	cr_assert_eq(bytes, 77);
}

Test(config, sizes_parse_as_people_type_them)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "1GB", NUM_GIB(1) },
		{ "2tb", NUM_GIB(2048) },
		{ "64kb", NUM_KIB(64) },
		{ "1.5G", NUM_MIB(1536) },
		{ "0.5MiB", NUM_KIB(512) },
		{ "1.3G", NUM_GIB(1) + 322125824 }, /* whole blocks, not less than was asked for */
		{ "2.125K", 2048 + 4096 },
		{ "1.000T", NUM_GIB(1024) },
	};
	static const char *const wrong[] = { "1.", ".5G", "1.5", "1.2345G", "1.5.5G", "1,5G", "1.G",
		"1.-5G", "1GiBs", "1BG", "1. 5G" };
	uint64_t bytes;

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		cr_assert_eq(config_parse_size(cases[i].text, &bytes), 0, "%s", cases[i].text);
		cr_assert_eq(bytes, cases[i].bytes, "%s: %llu", cases[i].text,
		    (unsigned long long)bytes);
	}
	bytes = 77;
	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_eq(config_parse_size(wrong[i], &bytes), -EINVAL, "%s", wrong[i]);
	cr_assert_eq(config_parse_size("16777216.5T", &bytes), -ERANGE);
	cr_assert_eq(config_parse_size("18446744073709551615.5K", &bytes), -ERANGE);
	cr_assert_eq(bytes, 77);
}

Test(config, durations_parse)
{
	uint64_t ns = 77;

	cr_assert_eq(config_parse_duration("0", &ns), 0);
	cr_assert_eq(ns, 0);
	cr_assert_eq(config_parse_duration("5ns", &ns), 0);
	cr_assert_eq(ns, 5);
	cr_assert_eq(config_parse_duration("2m", &ns), 0);
	cr_assert_eq(ns, NUM_S(120));
	cr_assert_eq(config_parse_duration("1h", &ns), 0);
	cr_assert_eq(ns, NUM_S(3600));
	ns = 77;
	cr_assert_eq(config_parse_duration("1.5s", &ns), 0);
	cr_assert_eq(ns, NUM_MS(1500));
	cr_assert_eq(config_parse_duration("0.25h", &ns), 0);
	cr_assert_eq(ns, NUM_S(900));
	cr_assert_eq(config_parse_duration("7d", &ns), 0);
	cr_assert_eq(ns, NUM_S(7 * 86400));
	cr_assert_eq(config_parse_duration("1.5d", &ns), 0);
	cr_assert_eq(ns, NUM_S(36 * 3600));
	ns = 77;
	cr_assert_eq(config_parse_duration("1.5ns", &ns), -EINVAL);
	cr_assert_eq(config_parse_duration("1w", &ns), -EINVAL);
	cr_assert_eq(config_parse_duration("300000d", &ns), -ERANGE);
	cr_assert_eq(config_parse_duration("18446744073709551615h", &ns), -ERANGE);
	cr_assert_eq(ns, 77);
}

Test(config, plain_numbers_parse)
{
	uint64_t value = 77;

	cr_assert_eq(config_parse_u64("18446744073709551615", &value), 0);
	cr_assert_eq(value, UINT64_MAX);
	value = 77;
	cr_assert_eq(config_parse_u64("0x10", &value), -EINVAL);
	cr_assert_eq(config_parse_u64("18446744073709551616", &value), -ERANGE);
	cr_assert_eq(value, 77);
}
