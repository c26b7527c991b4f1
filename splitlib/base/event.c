/* SPDX-License-Identifier: Apache-2.0 */
/* event.c -- the list of cleave/event.h as a table */
#include "cleave/event.h"

#include "base/check.h"

static const struct cleave_event_info infos[CLEAVE_EVENT_CODE_NR] = {
#define EVENT_INFO(name, text, level, means)                                                       \
	[CLEAVE_EVENT_##name] = { text, CLEAVE_EVENT_##level, means },
	CLEAVE_EVENT_LIST(EVENT_INFO)
#undef EVENT_INFO
};

const struct cleave_event_info *
event_info(enum cleave_event_code code)
{
	assert(code < CLEAVE_EVENT_CODE_NR);
	return &infos[code];
}

const char *
event_level_name(enum cleave_event_level level)
{
	static const char *const names[CLEAVE_EVENT_LEVEL_NR] = { "INFO", "WARN", "ERROR" };

	assert(level < CLEAVE_EVENT_LEVEL_NR);
	return names[level];
}
