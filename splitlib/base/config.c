/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c -- see config.h
 *
 * Two passes over argv: the first looks for --help, --version and --config and refuses what is
 * malformed; then defaults, the file and the command line are applied, each over the one before.
 * `rank` remembers per option which of them set it: a list that a higher one sets starts anew.
 */
#include "base/config.h"

#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/config_help.h"
#include "base/config_value.h"
#include "base/log.h"
#include "base/num.h"

#define CONFIG_OPTIONS_MAX 128
#define CONFIG_MESSAGE_BYTES 512
#define CONFIG_SHORT_BYTES (2 * CONFIG_OPTIONS_MAX + 16)

/* getopt_long's values: an option's index above the characters. */
enum { VALUE_HELP = 1000, VALUE_VERSION, VALUE_CONFIG, VALUE_OPTION };

enum config_rank { RANK_NONE, RANK_DEFAULT, RANK_FILE, RANK_COMMAND_LINE };

/* Strings from the file: they live as long as the result. */
struct owned_string {
	struct owned_string *next;
	char text[];
};

struct parser {
	const struct config_program *program;
	const struct config_option *options;
	uint32_t option_count;
	char *values; /* the program's struct */
	struct config_result *result;
	enum config_rank rank[CONFIG_OPTIONS_MAX];
	struct option long_options[CONFIG_OPTIONS_MAX + 4];
	char short_options[CONFIG_SHORT_BYTES];
	const char *file; /* --config */
	bool is_done;     /* help or version was printed */
	char message[CONFIG_MESSAGE_BYTES];
};

static int refuse(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keeps the first message; config_parse prints it. */
static int
refuse(struct parser *p, const char *format, ...)
{
	va_list args;

	if (p->message[0] != '\0')
		return -EINVAL;
	va_start(args, format);
	(void)vsnprintf(p->message, sizeof(p->message), format, args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

static const char *
type_expectation(enum config_type type)
{
	switch (type) {
	case CONFIG_U64:
		return "a decimal number";
	case CONFIG_SIZE:
		return "a size such as 4096, 64K, 16M, 2G or 1T";
	case CONFIG_DURATION:
		return "a duration such as 500us, 10ms, 2s or 1m";
	case CONFIG_FLAG:
		return "yes or no";
	case CONFIG_STRING:
	case CONFIG_CHOICE:
	case CONFIG_LIST:
		break;
	}
	return "a word";
}

static int
set_number(struct parser *p, const struct config_option *option, const char *text,
    const char *where)
{
	uint64_t value = 0;
	int rc;

	assert(option->max == 0 || option->min <= option->max);
	if (option->type == CONFIG_SIZE)
		rc = config_parse_size(text, &value);
	else if (option->type == CONFIG_DURATION)
		rc = config_parse_duration(text, &value);
	else
		rc = config_parse_u64(text, &value);
	if (rc == 0 && (value < option->min || (option->max != 0 && value > option->max)))
		rc = -ERANGE;
	if (rc == -ERANGE) {
		char range[CONFIG_RANGE_BYTES];

		config_format_range(option, range, sizeof(range));
		return refuse(p, "%s: '%s' is out of range, give %s", where, text, range);
	}
	if (rc != 0)
		return refuse(p, "%s: '%s' is not %s", where, text, type_expectation(option->type));
	memcpy(p->values + option->offset, &value, sizeof(value));
	return 0;
}

static int
set_choice(struct parser *p, const struct config_option *option, const char *text,
    const char *where)
{
	char choices[CONFIG_RANGE_BYTES];

	assert(option->type == CONFIG_CHOICE);
	assert(option->choices != NULL);
	for (unsigned i = 0; option->choices[i] != NULL; i++) {
		if (strcmp(text, option->choices[i]) == 0) {
			memcpy(p->values + option->offset, &i, sizeof(i));
			return 0;
		}
	}
	config_format_choices(option, choices, sizeof(choices));
	return refuse(p, "%s: '%s' is not one of %s", where, text, choices);
}

static int
set_flag(struct parser *p, const struct config_option *option, const char *text, const char *where)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };
	bool value = true;

	assert(option->type == CONFIG_FLAG);
	if (text != NULL) {
		bool is_known = false;

		for (size_t i = 0; i < NUM_COUNT(yes) && !is_known; i++) {
			is_known = strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0;
			value = strcasecmp(text, yes[i]) == 0;
		}
		if (!is_known)
			return refuse(p, "%s: '%s' is not yes or no", where, text);
	}
	memcpy(p->values + option->offset, &value, sizeof(value));
	return 0;
}

static int
set_list_item(struct parser *p, uint32_t index, const char *text, enum config_rank rank,
    const char *where)
{
	struct config_list *list = (void *)(p->values + p->options[index].offset);

	assert(p->options[index].type == CONFIG_LIST);
	assert(rank != RANK_NONE);
	if (p->rank[index] != rank)
		*list = (struct config_list){ 0 };
	assert(list->count <= CONFIG_LIST_MAX);
	if (list->count == CONFIG_LIST_MAX)
		return refuse(p, "%s: more than %d times", where, CONFIG_LIST_MAX);
	list->items[list->count++] = text;
	return 0;
}

/* @text: NULL for a flag that was named alone. @where: for messages, "--size" or "file:3: size". */
static int
set_option(struct parser *p, uint32_t index, const char *text, enum config_rank rank,
    const char *where)
{
	const struct config_option *option = &p->options[index];
	int rc = 0;

	assert(index < p->option_count);
	assert(rank >= p->rank[index]); /* what comes later counts for more */
	assert(text != NULL || option->type == CONFIG_FLAG);
	switch (option->type) {
	case CONFIG_FLAG:
		rc = set_flag(p, option, text, where);
		break;
	case CONFIG_STRING:
		memcpy(p->values + option->offset, &text, sizeof(text));
		break;
	case CONFIG_U64:
	case CONFIG_SIZE:
	case CONFIG_DURATION:
		rc = set_number(p, option, text, where);
		break;
	case CONFIG_CHOICE:
		rc = set_choice(p, option, text, where);
		break;
	case CONFIG_LIST:
		rc = set_list_item(p, index, text, rank, where);
		break;
	}
	if (rc == 0)
		p->rank[index] = rank;
	return rc;
}

static size_t
type_bytes(enum config_type type)
{
	switch (type) {
	case CONFIG_FLAG:
		return sizeof(bool);
	case CONFIG_STRING:
		return sizeof(const char *);
	case CONFIG_U64:
	case CONFIG_SIZE:
	case CONFIG_DURATION:
		return sizeof(uint64_t);
	case CONFIG_CHOICE:
		return sizeof(unsigned);
	case CONFIG_LIST:
		return sizeof(struct config_list);
	}
	return 0;
}

static void
apply_defaults(struct parser *p)
{
	for (uint32_t i = 0; i < p->option_count; i++) {
		const struct config_option *option = &p->options[i];
		int rc;

		assert(type_bytes(option->type) > 0);
		memset(p->values + option->offset, 0, type_bytes(option->type));
		if (option->default_text == NULL)
			continue;
		rc = set_option(p, i, option->default_text, RANK_DEFAULT, option->name);
		assert(rc == 0); /* a default that does not parse is a mistake in the table */
	}
}

/* The config file. */

static const char *
own_string(struct parser *p, const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct owned_string *owned = malloc(sizeof(*owned) + bytes);

	assert(p->result != NULL);
	if (owned == NULL)
		return NULL;
	memcpy(owned->text, text, bytes);
	owned->next = p->result->owned;
	p->result->owned = owned;
	return owned->text;
}

/* inih's callback: 0 makes it report this line's number as the first error. */
static int
on_file_line(void *arg, const char *section, const char *name, const char *value)
{
	struct parser *p = arg;
	const char *text;

	assert(name != NULL);
	assert(value != NULL);
	if (p->message[0] != '\0')
		return 0;
	if (section[0] != '\0') {
		(void)refuse(p, "sections such as [%s] are not used, put all keys at the top",
		    section);
		return 0;
	}
	for (uint32_t i = 0; i < p->option_count; i++) {
		if (strcmp(p->options[i].name, name) != 0)
			continue;
		if (p->rank[i] == RANK_FILE && p->options[i].type != CONFIG_LIST) {
			(void)refuse(p, "%s is set twice", name);
			return 0;
		}
		text = own_string(p, value);
		if (text == NULL) {
			(void)refuse(p, "out of memory");
			return 0;
		}
		return set_option(p, i, text, RANK_FILE, name) == 0;
	}
	(void)refuse(p, "no option is called '%s', see --help", name);
	return 0;
}

static int
apply_file(struct parser *p)
{
	char reason[CONFIG_MESSAGE_BYTES];
	FILE *file;
	int line, rc;

	if (p->file == NULL)
		return 0;
	file = fopen(p->file, "r");
	if (file == NULL) {
		rc = -errno;
		(void)refuse(p, "--config: %s: %s", p->file, strerror(-rc));
		return rc;
	}
	line = ini_parse_file(file, on_file_line, p);
	(void)fclose(file); /* opened for reading */
	if (line == 0)
		return 0;
	if (line < 0) {
		(void)refuse(p, "--config: %s: out of memory", p->file);
		return -ENOMEM;
	}
	(void)refuse(p, "not of the form `key = value`"); /* unless the callback said more */
	memcpy(reason, p->message, sizeof(reason));
	p->message[0] = '\0';
	return refuse(p, "%s:%d: %.400s", p->file, line, reason);
}

/* The command line. */

/* A second option of the same name would never be heard. */
static void
assert_is_new(const struct parser *p, const struct config_option *option)
{
	for (const struct config_option *before = p->options; before < option; before++) {
		assert(strcmp(before->name, option->name) != 0);
		assert(option->short_name == 0 || before->short_name != option->short_name);
	}
}

static void
build_tables(struct parser *p)
{
	static const struct option standard[] = {
		{ "help", no_argument, NULL, VALUE_HELP },
		{ "version", no_argument, NULL, VALUE_VERSION },
		{ "config", required_argument, NULL, VALUE_CONFIG },
	};
	size_t short_count = 0;

	for (p->option_count = 0; p->options[p->option_count].name != NULL; p->option_count++) {
		const struct config_option *option = &p->options[p->option_count];
		bool is_flag = option->type == CONFIG_FLAG;

		assert(p->option_count < CONFIG_OPTIONS_MAX);
		assert(option->help != NULL);
		assert_is_new(p, option);
		assert(option->type != CONFIG_CHOICE || option->choices != NULL);
		p->long_options[p->option_count] = (struct option){ option->name,
			is_flag ? optional_argument : required_argument, NULL,
			VALUE_OPTION + (int)p->option_count };
		if (option->short_name == 0)
			continue;
		p->short_options[short_count++] = option->short_name;
		if (!is_flag)
			p->short_options[short_count++] = ':';
	}
	memcpy(&p->long_options[p->option_count], standard, sizeof(standard));
	if (strchr(p->short_options, 'h') == NULL)
		p->short_options[short_count++] = 'h';
	if (strchr(p->short_options, 'V') == NULL)
		p->short_options[short_count++] = 'V';
	/* A leading ':' lets us tell a missing value from an unknown option. */
	memmove(p->short_options + 1, p->short_options, short_count);
	p->short_options[0] = ':';
}

/* Which option getopt_long returned; -1: none of the program's. */
static int
option_index(const struct parser *p, int value)
{
	assert(value < VALUE_OPTION || (uint32_t)(value - VALUE_OPTION) < p->option_count);
	if (value >= VALUE_OPTION)
		return value - VALUE_OPTION;
	for (uint32_t i = 0; i < p->option_count; i++) {
		if (value != 0 && p->options[i].short_name == value)
			return (int)i;
	}
	return -1;
}

/* getopt_long gave up on a word of @argv. */
static int
refuse_word(struct parser *p, int value, char *const argv[])
{
	const char *word;
	char letter[3] = { '-', (char)optopt, '\0' };

	assert(optind > 0);
	assert(value == ':' || value == '?');
	word = argv[optind - 1];
	/* A letter inside "-xyz" leaves optind where it was. */
	if (optopt > 0 && optopt < VALUE_HELP)
		word = letter;
	if (value == ':')
		return refuse(p, "%s needs a value, see --help", word);
	if (optopt >= VALUE_HELP)
		return refuse(p, "%s takes no value, see --help", word);
	return refuse(p, "there is no option %s, see --help", word);
}

static int
scan_command_line(struct parser *p, int argc, char *const argv[])
{
	int value;

	optind = 0; /* start anew, as glibc wants it */
	opterr = 0;
	while ((value = getopt_long(argc, argv, p->short_options, p->long_options, NULL)) != -1) {
		if (option_index(p, value) >= 0)
			continue;
		if (value == VALUE_HELP || value == 'h') {
			config_print_help(p->program, stdout);
			p->is_done = true;
			return 0;
		}
		if (value == VALUE_VERSION || value == 'V') {
			printf("%s %s (%s)\n", p->program->name, build_info_version(),
			    build_info_commit());
			p->is_done = true;
			return 0;
		}
		if (value != VALUE_CONFIG)
			return refuse_word(p, value, argv);
		p->file = optarg;
	}
	return 0;
}

static int
take_operands(struct parser *p, int argc, char *const argv[])
{
	assert(p->result->operand_count == 0);
	for (; optind < argc; optind++) {
		if (p->result->operand_count == p->program->operands_max)
			return refuse(p, "did not expect '%s', see --help", argv[optind]);
		p->result->operands[p->result->operand_count++] = argv[optind];
	}
	return 0;
}

static int
apply_command_line(struct parser *p, int argc, char *const argv[])
{
	int value;

	optind = 0;
	while ((value = getopt_long(argc, argv, p->short_options, p->long_options, NULL)) != -1) {
		int index = option_index(p, value);
		char where[CONFIG_MESSAGE_BYTES / 4];
		int rc;

		if (index < 0)
			continue;
		(void)snprintf(where, sizeof(where), "--%s", p->options[index].name);
		rc = set_option(p, (uint32_t)index, optarg, RANK_COMMAND_LINE, where);
		if (rc != 0)
			return rc;
	}
	return take_operands(p, argc, argv);
}

static int
check_required(struct parser *p)
{
	for (uint32_t i = 0; i < p->option_count; i++) {
		const struct config_option *option = &p->options[i];

		if (option->is_required && p->rank[i] == RANK_NONE)
			return refuse(p, "--%s %s is required: %s", option->name,
			    option->value_name != NULL ? option->value_name : "", option->help);
	}
	return 0;
}

static int
parse_all(struct parser *p, int argc, char *const argv[])
{
	int rc = scan_command_line(p, argc, argv);

	assert(rc <= 0);
	if (rc != 0 || p->is_done)
		return rc;
	apply_defaults(p);
	rc = apply_file(p);
	if (rc != 0)
		return rc;
	rc = apply_command_line(p, argc, argv);
	if (rc != 0)
		return rc;
	return check_required(p);
}

int
config_parse(const struct config_program *program, int argc, char *const argv[], void *ret_values,
    struct config_result *ret_result)
{
	struct parser *p = calloc(1, sizeof(*p));
	int rc;

	if (p == NULL) {
		log_complain(program->name, "out of memory");
		return -ENOMEM;
	}
	assert(program->options != NULL);
	assert(ret_values != NULL);
	assert(program->operands_max <= NUM_COUNT(ret_result->operands));
	*ret_result = (struct config_result){ 0 };
	p->program = program;
	p->options = program->options;
	p->values = ret_values;
	p->result = ret_result;
	build_tables(p);
	rc = parse_all(p, argc, argv);
	if (rc != 0) {
		log_complain(program->name, "%s", p->message);
		config_result_fini(ret_result);
	} else if (p->is_done) {
		rc = 1;
	}
	free(p);
	return rc;
}

void
config_result_fini(struct config_result *result)
{
	struct owned_string *owned = result->owned;

	while (owned != NULL) {
		struct owned_string *next = owned->next;

		free(owned);
		owned = next;
	}
	*result = (struct config_result){ 0 };
}
