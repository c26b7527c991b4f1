/* SPDX-License-Identifier: Apache-2.0 */
/* build_info.c -- see build_info.h; build_commit.cmake writes the commit */
#include "base/build_info.h"

#include <stdint.h>

#include "base/check.h"
#include "base/metrics.h"

#ifndef CLEAVE_VERSION
#define CLEAVE_VERSION "unknown"
#endif

const char *
build_info_version(void)
{
	return CLEAVE_VERSION;
}

const char *
build_info_commit(void)
{
	return build_info_commit_text;
}

void
build_info_write(FILE *out)
{
	static const uint64_t one = 1;
	static const struct metric_member member = {
		{ "build_info", "count", "1, of the release and the commit that run here",
		    METRIC_GAUGE },
		0, sizeof(one)
	};
	struct metric_object object = { .values = &one };

	assert(out != NULL);
	metric_label(&object, "version", build_info_version());
	metric_label(&object, "commit", build_info_commit());
	metrics_write(out, "cleave", &member, 1, &object, 1);
}
