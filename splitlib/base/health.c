/* SPDX-License-Identifier: Apache-2.0 */
/* health.c -- the list of cleave/health.h as a table */
#include "cleave/health.h"

#include "base/check.h"

static const struct cleave_health_info infos[CLEAVE_HEALTH_CODE_NR] = {
#define HEALTH_INFO(name, text, level, means, helps)                                               \
	[CLEAVE_HEALTH_##name] = { text, CLEAVE_HEALTH_##level, means, helps },
	CLEAVE_HEALTH_LIST(HEALTH_INFO)
#undef HEALTH_INFO
};

const struct cleave_health_info *
health_info(enum cleave_health_code code)
{
	assert(code < CLEAVE_HEALTH_CODE_NR);
	return &infos[code];
}

const char *
health_level_name(enum cleave_health_level level)
{
	static const char *const names[CLEAVE_HEALTH_LEVEL_NR] = { "OK", "WARN", "ERROR" };

	assert(level < CLEAVE_HEALTH_LEVEL_NR);
	return names[level];
}
