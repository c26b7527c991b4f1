/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h -- one table of options serves the command line, the config file and --help
 *
 * A program declares a table; config_parse fills the program's struct from, in rising precedence,
 * defaults, `--config FILE` (INI without sections; each key an option's name) and the command line.
 * Every error names the option or the file and line, and what would have been right. Names of options are whole: a
 * beginning of one ("--purg") is refused.
 */
#ifndef CLEAVE_BASE_CONFIG_H
#define CLEAVE_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_LIST_MAX 64
#define CONFIG_OPERANDS_MAX 256

enum config_type {
	CONFIG_FLAG, /* bool; "--x" or x = yes|no */
	CONFIG_STRING, /* const char *; points into argv or config-owned memory; one of `choices`, if there are any */
	CONFIG_U64,  /* uint64_t; decimal, within min..max */
	CONFIG_SIZE, /* uint64_t bytes; 4096, 4K, 64M, 2G, 1T (powers of two), within min..max */
	CONFIG_DURATION, /* uint64_t ns; 10ms, 2s, 500us, 1m */
	CONFIG_CHOICE,   /* unsigned; one of `choices`, a NULL-terminated array */
	CONFIG_LIST,     /* struct config_list; the option may be repeated */
};

struct config_list {
	const char *items[CONFIG_LIST_MAX];
	uint32_t count;
};

struct config_option {
	const char *name; /* without the dashes; NULL ends the table */
	char short_name;  /* 0: none */
	enum config_type type;
	size_t offset;            /* of the member in the program's struct */
	const char *value_name;   /* "PATH", "SIZE"; in --help */
	const char *help;         /* one sentence */
	const char *default_text; /* parsed like the command line; NULL: zero */
	bool is_required;
	uint64_t min, max; /* CONFIG_U64, _SIZE, _DURATION; max 0: no bound */
	const char *const *choices;
};

struct config_program {
	const char *name;     /* "cleave-storage" */
	const char *synopsis; /* "--disk PATH [options]"; a line for each way to call it */
	const char *purpose;  /* one or two sentences */
	const struct config_option *options;
	uint32_t operands_max; /* how many words without dashes it takes */
	bool has_check;        /* it takes --check-config, and looks at result->is_check */
};

struct config_result {
	const char *operands[CONFIG_OPERANDS_MAX];
	uint32_t operand_count;
	void *owned;            /* memory behind strings from the config file; config_result_fini */
	const char *file;       /* --config; NULL: none */
	bool is_check;          /* --check-config: each problem is printed, none ends anything */
	uint32_t problem_count; /* that were printed by it, and by config_problem */
};

/*
 * config_parse -- fill @ret_values from argv and the config file
 *
 * --help and --version are handled here: printed to stdout. With --check-config everything is read to its end, and what
 * is wrong is printed, each with the option or with file and line; the values of such options are their defaults.
 * Returns: 0; 1 when help or version was printed (exit 0); -EINVAL after a message on stderr
 * (exit 2); -ENOMEM likewise; -ENOENT and others when the config file cannot be read, after a message.
 */
int config_parse(const struct config_program *program, int argc, char *const argv[],
    void *ret_values, struct config_result *ret_result);
/* config_result_fini -- strings of the config file are gone then. Twice is as well as once. */
void config_result_fini(struct config_result *result);
/* config_defaults -- all options have their defaults, lists and what has none are empty. 0; -ENOMEM. */
int config_defaults(const struct config_program *program, void *ret_values);
/* config_problem -- print what a program's own look at its options has found, and count it. */
void config_problem(const struct config_program *program, struct config_result *result,
    const char *format, ...) __attribute__((format(printf, 3, 4)));
/* config_print_help -- what --help prints. */
void config_print_help(const struct config_program *program, FILE *out);

#endif /* CLEAVE_BASE_CONFIG_H */
