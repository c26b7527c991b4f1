/* SPDX-License-Identifier: Apache-2.0 */
/* join_options.h -- what `cleave-storage join` is told */
#ifndef CLEAVE_STORAGE_JOIN_OPTIONS_H
#define CLEAVE_STORAGE_JOIN_OPTIONS_H

#include <stdint.h>

#include "base/config.h"
#include "cleave/secure_options.h"
#include "format/format.h"

struct join_options {
	struct format_options format;
	struct secure_options secure;
	const char *gateway, *listen, *advertise, *domain, *note, *cluster_id;
	uint64_t weight, wait_ns;
#ifdef CLEAVE_TEST_BUILD
	uint64_t kill_at;
#endif
};

/* Fills a struct join_options (config_parse). */
extern const struct config_program join_program;

#endif /* CLEAVE_STORAGE_JOIN_OPTIONS_H */
