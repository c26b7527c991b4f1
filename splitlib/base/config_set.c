/* SPDX-License-Identifier: Apache-2.0 */
/* config_set.c -- an option's value from its text, by its type and bounds */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/config_help.h"
#include "base/config_internal.h"
#include "base/config_value.h"
#include "base/num.h"

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
set_number(struct config_parser *p, const struct config_option *option, const char *text,
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
		return config_refuse(p, "%s: '%s' is out of range, give %s", where, text, range);
	}
	if (rc != 0)
		return config_refuse(p, "%s: '%s' is not %s", where, text,
		    type_expectation(option->type));
	memcpy(p->values + option->offset, &value, sizeof(value));
	return 0;
}

/* 0 and *@ret_index, the place of @text among the option's choices. */
static int
find_choice(struct config_parser *p, const struct config_option *option, const char *text,
    const char *where, unsigned *ret_index)
{
	char choices[CONFIG_RANGE_BYTES];

	assert(option->choices != NULL);
	for (unsigned i = 0; option->choices[i] != NULL; i++) {
		if (strcmp(text, option->choices[i]) == 0) {
			*ret_index = i;
			return 0;
		}
	}
	config_format_choices(option, choices, sizeof(choices));
	return config_refuse(p, "%s: '%s' is not one of %s", where, text, choices);
}

static int
set_choice(struct config_parser *p, const struct config_option *option, const char *text,
    const char *where)
{
	unsigned index = 0;
	int rc = find_choice(p, option, text, where, &index);

	assert(option->type == CONFIG_CHOICE);
	if (rc == 0)
		memcpy(p->values + option->offset, &index, sizeof(index));
	return rc;
}

static int
set_string(struct config_parser *p, const struct config_option *option, const char *text,
    const char *where)
{
	unsigned index = 0;
	int rc = option->choices == NULL ? 0 : find_choice(p, option, text, where, &index);

	assert(option->type == CONFIG_STRING);
	if (rc == 0)
		memcpy(p->values + option->offset, &text, sizeof(text));
	return rc;
}

static int
set_flag(struct config_parser *p, const struct config_option *option, const char *text,
    const char *where)
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
			return config_refuse(p, "%s: '%s' is not yes or no", where, text);
	}
	memcpy(p->values + option->offset, &value, sizeof(value));
	return 0;
}

static int
set_list_item(struct config_parser *p, uint32_t index, const char *text, enum config_rank rank,
    const char *where)
{
	struct config_list *list = (void *)(p->values + p->options[index].offset);

	assert(p->options[index].type == CONFIG_LIST);
	assert(rank != RANK_NONE);
	if (p->rank[index] != rank)
		*list = (struct config_list){ 0 };
	assert(list->count <= CONFIG_LIST_MAX);
	if (list->count == CONFIG_LIST_MAX)
		return config_refuse(p, "%s: more than %d times", where, CONFIG_LIST_MAX);
	list->items[list->count++] = text;
	return 0;
}

int
config_set_option(struct config_parser *p, uint32_t index, const char *text, enum config_rank rank,
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
		rc = set_string(p, option, text, where);
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

void
config_apply_defaults(struct config_parser *p)
{
	for (uint32_t i = 0; i < p->option_count; i++) {
		const struct config_option *option = &p->options[i];
		int rc;

		assert(type_bytes(option->type) > 0);
		memset(p->values + option->offset, 0, type_bytes(option->type));
		if (option->default_text == NULL)
			continue;
		rc = config_set_option(p, i, option->default_text, RANK_DEFAULT, option->name);
		assert(rc == 0); /* a default that does not parse is a mistake in the table */
	}
}
