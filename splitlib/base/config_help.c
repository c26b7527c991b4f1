/* SPDX-License-Identifier: Apache-2.0 */
/* config_help.c -- --help, made from the same table that parses, wrapped at 80 columns */
#include "base/config_help.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"

#define HELP_COLUMNS 80u
#define HELP_INDENT 26u /* where explanations begin */
#define HELP_TEXT_BYTES 1024

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "T", NUM_GIB(1024) },
	{ "G", NUM_GIB(1) },
	{ "M", NUM_MIB(1) },
	{ "K", NUM_KIB(1) },
	{ "", 1 },
};

static const struct unit duration_units[] = {
	{ "h", NUM_S(3600) },
	{ "m", NUM_S(60) },
	{ "s", NUM_S(1) },
	{ "ms", NUM_MS(1) },
	{ "us", NUM_US(1) },
	{ "ns", 1 },
};

void
config_format_number(const struct config_option *option, uint64_t value, char *ret_text,
    size_t bytes)
{
	static const struct unit plain = { "", 1 };
	const struct unit *unit = &plain;

	if (option->type == CONFIG_SIZE)
		unit = size_units;
	else if (option->type == CONFIG_DURATION)
		unit = duration_units;
	assert(bytes > 0);
	while (unit->factor > 1 && (value == 0 || value % unit->factor != 0))
		unit++;
	(void)snprintf(ret_text, bytes, "%llu%s", (unsigned long long)(value / unit->factor),
	    unit->suffix);
}

void
config_format_range(const struct config_option *option, char *ret_text, size_t bytes)
{
	char min[32], max[32];

	assert(bytes > 0);
	assert(option->type != CONFIG_CHOICE);
	assert(option->type != CONFIG_LIST);
	config_format_number(option, option->min, min, sizeof(min));
	config_format_number(option, option->max, max, sizeof(max));
	if (option->max != 0)
		(void)snprintf(ret_text, bytes, "%s to %s", min, max);
	else if (option->min != 0)
		(void)snprintf(ret_text, bytes, "at least %s", min);
	else
		(void)snprintf(ret_text, bytes, "less than 2^64");
}

void
config_format_choices(const struct config_option *option, char *ret_text, size_t bytes)
{
	size_t used = 0;

	assert(bytes > 0);
	assert(option->type == CONFIG_CHOICE || option->type == CONFIG_STRING);
	assert(option->choices != NULL);
	ret_text[0] = '\0';
	for (unsigned i = 0; option->choices[i] != NULL && used < bytes; i++)
		used += (size_t)snprintf(ret_text + used, bytes - used, "%s%s", i > 0 ? ", " : "",
		    option->choices[i]);
}

void
config_print_wrapped(FILE *out, const char *text, size_t column, size_t indent)
{
	bool is_line_start = true;

	assert(indent < HELP_COLUMNS);
	while (*text != '\0') {
		size_t bytes = strcspn(text, " ");

		if (!is_line_start && column + 1 + bytes > HELP_COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
			is_line_start = true;
		}
		fprintf(out, "%s%.*s", is_line_start ? "" : " ", (int)bytes, text);
		column += bytes + (is_line_start ? 0 : 1);
		is_line_start = false;
		text += bytes;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void
print_entry(FILE *out, const char *left, const char *text)
{
	int width = fprintf(out, "%s", left);

	assert(left[0] != '\0');
	if (width < 0)
		return;
	if ((size_t)width + 2 > HELP_INDENT) {
		fputc('\n', out);
		width = 0;
	}
	fprintf(out, "%*s", (int)HELP_INDENT - width, "");
	config_print_wrapped(out, text, HELP_INDENT, HELP_INDENT);
}

static void
print_option(FILE *out, const struct config_option *option)
{
	char left[HELP_TEXT_BYTES], text[HELP_TEXT_BYTES], bounds[CONFIG_RANGE_BYTES];
	bool is_number = option->type == CONFIG_U64 || option->type == CONFIG_SIZE ||
	    option->type == CONFIG_DURATION;
	char letter[5] = "    ";
	size_t used;

	assert(option->name != NULL);
	assert(option->help != NULL);
	if (option->short_name != 0)
		(void)snprintf(letter, sizeof(letter), "-%c, ", option->short_name);
	(void)snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->name,
	    option->value_name != NULL ? " " : "",
	    option->value_name != NULL ? option->value_name : "");

	/* Text that does not fit is cut: tables are ours, and it shows in --help. */
	used = (size_t)snprintf(text, sizeof(text) / 2, "%s", option->help);
	used = num_min(used, sizeof(text) / 2 - 1);
	if (option->choices != NULL) {
		config_format_choices(option, bounds, sizeof(bounds));
		used += (size_t)snprintf(text + used, sizeof(text) - used, " One of: %s.", bounds);
	} else if (is_number && (option->min != 0 || option->max != 0)) {
		config_format_range(option, bounds, sizeof(bounds));
		used += (size_t)snprintf(text + used, sizeof(text) - used, " Range: %s.", bounds);
	}
	if (option->type == CONFIG_LIST)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " May be repeated.");
	if (option->is_required)
		(void)snprintf(text + used, sizeof(text) - used, " Required.");
	else if (option->default_text != NULL)
		(void)snprintf(text + used, sizeof(text) - used, " Default: %.64s.",
		    option->default_text);
	print_entry(out, left, text);
}

/* Each line of the synopsis is a way to call the program. */
static void
print_usage(FILE *out, const struct config_program *program)
{
	const char *line = program->synopsis, *lead = "Usage: ";
	char text[HELP_TEXT_BYTES];

	while (*line != '\0') {
		int bytes = (int)strcspn(line, "\n");
		size_t column = strlen(lead) + strlen(program->name) + 1;

		fprintf(out, "%s%s ", lead, program->name);
		(void)snprintf(text, sizeof(text), "%.*s", bytes, line);
		config_print_wrapped(out, text, column, column);
		line += bytes;
		line += *line == '\n';
		lead = "       ";
	}
}

void
config_print_help(const struct config_program *program, FILE *out)
{
	assert(program->synopsis != NULL);
	assert(program->purpose != NULL);
	print_usage(out, program);
	fputc('\n', out);
	config_print_wrapped(out, program->purpose, 0, 0);
	fprintf(out, "\nOptions:\n");
	for (const struct config_option *option = program->options; option->name != NULL; option++)
		print_option(out, option);
	print_entry(out, "      --config FILE",
	    "Read options from FILE first: lines of `name = value`, no sections; lines that begin with # are comments.");
	if (program->has_check)
		print_entry(out, "      --check-config",
		    "Read options and files that they name, say what is wrong with each, and end: nothing is "
		    "served, opened or changed. Exit status 0 or 1.");
	print_entry(out, "  -h, --help", "Print this text.");
	print_entry(out, "  -V, --version", "Print the version and the commit.");
}
