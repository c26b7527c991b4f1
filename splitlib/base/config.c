/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c -- see config.h
 *
 * Two passes over argv: the first looks for --help, --version and --config and refuses what is
 * malformed; then defaults, the file and the command line are applied, each over the one before.
 * `rank` remembers per option which of them set it: a list that a higher one sets starts anew. What a text is to each
 * type of option: config_set.c.
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
#include "base/config_internal.h"
#include "base/log.h"
#include "base/num.h"

/* getopt_long's values: an option's index above the characters. */
enum { VALUE_HELP = 1000, VALUE_VERSION, VALUE_CONFIG, VALUE_CHECK, VALUE_OPTION };

/* Strings from the file: they live as long as the result. */
struct owned_string {
	struct owned_string *next;
	char text[];
};

/* Keeps the first message, which config_parse prints; with --check-config each is printed, and counted. */
int
config_refuse(struct config_parser *p, const char *format, ...)
{
	char text[CONFIG_MESSAGE_BYTES], where[CONFIG_MESSAGE_BYTES] = "";
	size_t used;
	va_list args;

	if (p->message[0] != '\0')
		return -EINVAL;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	if (p->file.line > 0)
		(void)snprintf(where, sizeof(where), "%s:%u: ", p->result->file, p->file.line);
	if (p->result->is_check)
		config_problem(p->program, p->result, "%s%s", where, text);
	else {
		memcpy(p->message, where, sizeof(p->message));
		used = strlen(p->message);
		(void)snprintf(p->message + used, sizeof(p->message) - used, "%s", text);
	}
	return -EINVAL;
}

/* A check goes on behind what is wrong. */
static int
rc_to_end_with(const struct config_parser *p, int rc)
{
	return p->result->is_check ? 0 : rc;
}

/* The config file. */

static const char *
own_string(struct config_parser *p, const char *text)
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

/* A section is told once, at its first key, and not for each one in it. 0, for inih. */
static int
refuse_section(struct config_parser *p, const char *section)
{
	if (p->file.section != NULL && strcmp(p->file.section, section) == 0)
		return 0;
	p->file.section = own_string(p, section);
	(void)config_refuse(p, "sections such as [%s] are not used, put all keys at the top",
	    section);
	return 0;
}

/* inih's callback: 0 makes it report this line's number as the first error. */
static int
on_file_line(void *arg, const char *section, const char *name, const char *value)
{
	struct config_parser *p = arg;
	const char *text;

	assert(name != NULL);
	assert(value != NULL);
	p->file.is_needed = false;
	if (p->message[0] != '\0')
		return 0;
	if (section[0] != '\0')
		return refuse_section(p, section);
	for (uint32_t i = 0; i < p->option_count; i++) {
		if (strcmp(p->options[i].name, name) != 0)
			continue;
		if (p->rank[i] == RANK_FILE && p->options[i].type != CONFIG_LIST) {
			(void)config_refuse(p, "%s is set twice", name);
			return 0;
		}
		text = own_string(p, value);
		if (text == NULL) {
			(void)config_refuse(p, "out of memory");
			return 0;
		}
		return config_set_option(p, i, text, RANK_FILE, name) == 0;
	}
	(void)config_refuse(p, "no option is called '%s', see --help", name);
	return 0;
}

/* The line before is over: was it anything? */
static void
end_line(struct config_parser *p)
{
	if (p->file.is_needed)
		(void)config_refuse(p, "not of the form `key = value`");
	p->file.is_needed = false;
}

/* inih would take what does not fit for a line of its own. */
static void
refuse_long_line(struct config_parser *p, char *line, int bytes)
{
	int byte;

	do {
		byte = fgetc(p->file.stream);
	} while (byte != EOF && byte != '\n');
	(void)config_refuse(p, "longer than %d bytes", bytes - 2);
	p->file.rc = -EINVAL;
	line[0] = '\0';
}

/* inih's fgets. It would join a line that begins with a blank to the one before, so these go. */
static char *
read_line(char *text, int bytes, void *arg)
{
	struct config_parser *p = arg;
	size_t lead;

	end_line(p);
	if (fgets(text, bytes, p->file.stream) == NULL) {
		if (ferror(p->file.stream))
			p->file.rc = -errno;
		return NULL;
	}
	p->file.line++;
	if (strchr(text, '\n') == NULL && !feof(p->file.stream)) {
		if (strlen(text) + 1 < (size_t)bytes) {
			/* A device may have no end of them. */
			(void)config_refuse(p, "a byte is 0, so that is no text");
			p->file.rc = -EINVAL;
			return NULL;
		}
		refuse_long_line(p, text, bytes);
	}
	lead = strspn(text, " \t\r\n");
	memmove(text, text + lead, strlen(text + lead) + 1);
	p->file.is_needed = text[0] != '\0' && strchr(";#[", text[0]) == NULL;
	return text;
}

static int
apply_file(struct config_parser *p)
{
	const char *path = p->result->file;
	int line, rc;

	if (path == NULL)
		return 0;
	p->file.stream = fopen(path, "r");
	if (p->file.stream == NULL) {
		rc = -errno;
		(void)config_refuse(p, "--config: %s: %s", path, strerror(-rc));
		return rc_to_end_with(p, rc);
	}
	line = ini_parse_stream(read_line, p, on_file_line, p);
	(void)fclose(p->file.stream); /* opened for reading */
	/* A section that is not closed is all that inih alone has seen. */
	if (line > 0 && p->message[0] == '\0' && p->result->problem_count == 0) {
		p->file.line = (unsigned)line;
		(void)config_refuse(p, "not of the form `key = value`");
	}
	p->file.line = 0;
	if (line < 0)
		p->file.rc = -ENOMEM;
	if (p->file.rc != 0 && p->file.rc != -EINVAL)
		(void)config_refuse(p, "--config: %s: %s", path, strerror(-p->file.rc));
	rc = p->file.rc != 0 ? p->file.rc : line == 0 ? 0 : -EINVAL;
	return rc_to_end_with(p, rc);
}

/* The command line. */

/* A second option of the same name would never be heard. */
static void
assert_is_new(const struct config_parser *p, const struct config_option *option)
{
	for (const struct config_option *before = p->options; before < option; before++) {
		assert(strcmp(before->name, option->name) != 0);
		assert(option->short_name == 0 || before->short_name != option->short_name);
	}
}

static void
build_tables(struct config_parser *p)
{
	static const struct option standard[] = {
		{ "help", no_argument, NULL, VALUE_HELP },
		{ "version", no_argument, NULL, VALUE_VERSION },
		{ "config", required_argument, NULL, VALUE_CONFIG },
		{ "check-config", no_argument, NULL, VALUE_CHECK },
	};
	size_t standard_count = NUM_COUNT(standard) - !p->program->has_check;
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
	memcpy(&p->long_options[p->option_count], standard, standard_count * sizeof(standard[0]));
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
option_index(const struct config_parser *p, int value)
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
refuse_word(struct config_parser *p, int value, char *const argv[])
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
		return config_refuse(p, "%s needs a value, see --help", word);
	if (optopt >= VALUE_HELP)
		return config_refuse(p, "%s takes no value, see --help", word);
	return config_refuse(p, "there is no option %s, see --help", word);
}

/*
 * getopt_long takes the beginning of an option's name for the option. One that deletes would be obeyed before its name
 * was typed to the end, and a script's short form would mean something else once a later release has another option.
 */
static int
check_whole(struct config_parser *p, int at, char *const argv[])
{
	/* A value that is a word of its own stands behind the option. */
	const char *word = argv[optind - 1] == optarg ? argv[optind - 2] : argv[optind - 1];
	const char *name = p->long_options[at].name;
	size_t bytes = strcspn(word, "=");

	assert(strncmp(word, "--", 2) == 0 && bytes >= 2);
	if (bytes - 2 == strlen(name))
		return 0;
	return config_refuse(p, "there is no option %.*s: was --%s meant? See --help", (int)bytes,
	    word, name);
}

static int
scan_command_line(struct config_parser *p, int argc, char *const argv[])
{
	int value, at = -1, rc; /* at: of long_options; a letter leaves it as it is */

	optind = 0; /* start anew, as glibc wants it */
	opterr = 0;
	for (; (value = getopt_long(argc, argv, p->short_options, p->long_options, &at)) != -1;
	     at = -1) {
		rc = at < 0 || value == '?' || value == ':'
		    ? 0
		    : rc_to_end_with(p, check_whole(p, at, argv));
		if (rc != 0)
			return rc;
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
		if (value == VALUE_CONFIG) {
			p->result->file = optarg;
		} else if (value == VALUE_CHECK) {
			assert(p->result->is_check); /* wants_check has seen it */
		} else {
			rc = rc_to_end_with(p, refuse_word(p, value, argv));
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

static int
take_operands(struct config_parser *p, int argc, char *const argv[])
{
	assert(p->result->operand_count == 0);
	for (; optind < argc; optind++) {
		if (p->result->operand_count == p->program->operands_max)
			return rc_to_end_with(p,
			    config_refuse(p, "did not expect '%s', see --help", argv[optind]));
		p->result->operands[p->result->operand_count++] = argv[optind];
	}
	return 0;
}

static int
apply_command_line(struct config_parser *p, int argc, char *const argv[])
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
		rc = rc_to_end_with(p,
		    config_set_option(p, (uint32_t)index, optarg, RANK_COMMAND_LINE, where));
		if (rc != 0)
			return rc;
	}
	return take_operands(p, argc, argv);
}

static int
check_required(struct config_parser *p)
{
	for (uint32_t i = 0; i < p->option_count; i++) {
		const struct config_option *option = &p->options[i];

		if (!option->is_required || p->rank[i] != RANK_NONE)
			continue;
		(void)config_refuse(p, "--%s %s is required: %s", option->name,
		    option->value_name != NULL ? option->value_name : "", option->help);
		if (!p->result->is_check)
			return -EINVAL;
	}
	return 0;
}

static int
parse_all(struct config_parser *p, int argc, char *const argv[])
{
	int rc = scan_command_line(p, argc, argv);

	assert(rc <= 0);
	if (rc != 0 || p->is_done)
		return rc;
	config_apply_defaults(p);
	rc = apply_file(p);
	if (rc != 0)
		return rc;
	rc = apply_command_line(p, argc, argv);
	if (rc != 0)
		return rc;
	return check_required(p);
}

/* Before anything is refused: a check goes on then. */
static bool
wants_check(const struct config_program *program, int argc, char *const argv[])
{
	for (int i = 1; program->has_check && i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--check-config") == 0)
			return true;
	}
	return false;
}

int
config_parse(const struct config_program *program, int argc, char *const argv[], void *ret_values,
    struct config_result *ret_result)
{
	struct config_parser *p = calloc(1, sizeof(*p));
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
	ret_result->is_check = wants_check(program, argc, argv);
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

int
config_defaults(const struct config_program *program, void *ret_values)
{
	struct config_result result = { 0 };
	struct config_parser *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return -ENOMEM;
	p->program = program;
	p->options = program->options;
	p->values = ret_values;
	p->result = &result;
	build_tables(p);
	config_apply_defaults(p);
	free(p);
	return 0;
}

void
config_problem(const struct config_program *program, struct config_result *result,
    const char *format, ...)
{
	char text[2 * CONFIG_MESSAGE_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	log_complain(program->name, "%s", text);
	result->problem_count++;
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
