/* SPDX-License-Identifier: Apache-2.0 */
/* config_text.c -- see config_text.h */
#include "base/config_text.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config_help.h"

static const void *
member_of(const struct config_option *option, const void *values)
{
	return (const char *)values + option->offset;
}

uint32_t
config_text_count(const struct config_option *option, const void *values)
{
	const void *member = member_of(option, values);

	assert(option->name != NULL);
	if (option->type == CONFIG_LIST)
		return ((const struct config_list *)member)->count;
	if (option->type == CONFIG_STRING)
		return *(const char *const *)member != NULL;
	return 1;
}

/* A value as it stands behind the "=". */
static void
value_text(const struct config_option *option, const void *member, uint32_t index, char *ret_text,
    size_t bytes)
{
	uint64_t number;

	switch (option->type) {
	case CONFIG_FLAG:
		(void)snprintf(ret_text, bytes, "%s", *(const bool *)member ? "yes" : "no");
		break;
	case CONFIG_STRING:
		(void)snprintf(ret_text, bytes, "%s", *(const char *const *)member);
		break;
	case CONFIG_LIST:
		(void)snprintf(ret_text, bytes, "%s",
		    ((const struct config_list *)member)->items[index]);
		break;
	case CONFIG_CHOICE:
		(void)snprintf(ret_text, bytes, "%s", option->choices[*(const unsigned *)member]);
		break;
	case CONFIG_U64:
	case CONFIG_SIZE:
	case CONFIG_DURATION:
		memcpy(&number, member, sizeof(number));
		config_format_number(option, number, ret_text, bytes);
		break;
	}
}

const char *
config_text(const struct config_option *option, const void *values, uint32_t index, char *ret_text,
    size_t bytes)
{
	const void *member = member_of(option, values);
	char value[CONFIG_TEXT_BYTES];

	assert(index < config_text_count(option, values));
	value_text(option, member, index, value, sizeof(value));
	if (option->type == CONFIG_FLAG && *(const bool *)member)
		(void)snprintf(ret_text, bytes, "--%s", option->name);
	else
		(void)snprintf(ret_text, bytes, "--%s=%s", option->name, value);
	return ret_text;
}

bool
config_differs(const struct config_option *option, const void *a, const void *b)
{
	uint32_t count = config_text_count(option, a);
	char text_a[CONFIG_TEXT_BYTES], text_b[CONFIG_TEXT_BYTES];

	if (count != config_text_count(option, b))
		return true;
	for (uint32_t i = 0; i < count; i++) {
		value_text(option, member_of(option, a), i, text_a, sizeof(text_a));
		value_text(option, member_of(option, b), i, text_b, sizeof(text_b));
		if (strcmp(text_a, text_b) != 0)
			return true;
	}
	return false;
}
