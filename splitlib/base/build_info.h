/* SPDX-License-Identifier: Apache-2.0 */
/* build_info.h -- which release and which commit this program was built of */
#ifndef CLEAVE_BASE_BUILD_INFO_H
#define CLEAVE_BASE_BUILD_INFO_H

#include <stdio.h>

/* build_info_version -- "0.1.0". build_info_commit -- "220f36d"; "unknown": built without git. Both are static. */
const char *build_info_version(void);
const char *build_info_commit(void);
/* build_info_write -- as a metric, cleave_build_info{version,commit}: 1. Errors are @out's. */
void build_info_write(FILE *out);

/* build_commit.cmake makes it with each build. */
extern const char build_info_commit_text[];

#endif /* CLEAVE_BASE_BUILD_INFO_H */
