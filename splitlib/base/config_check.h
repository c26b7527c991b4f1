/* SPDX-License-Identifier: Apache-2.0 */
/* config_check.h -- what --check-config looks at beyond the text of an option: files, and addresses that are never used */
#ifndef CLEAVE_BASE_CONFIG_CHECK_H
#define CLEAVE_BASE_CONFIG_CHECK_H

#include "base/config.h"

/*
 * config_check_access -- may this user do @mode (access(2)) with the file that --@option names? NULL: none was named
 *
 * Opens nothing. What is wrong goes to config_problem.
 */
void config_check_access(const struct config_program *program, struct config_result *result,
    const char *option, const char *path, int mode);
/*
 * config_check_place -- could a file be made at @path: is its folder there, and may this user write in it?
 *
 * A file that is there may be replaced. @path NULL: none was named.
 */
void config_check_place(const struct config_program *program, struct config_result *result,
    const char *option, const char *path);
/* config_check_metrics -- is --metrics' @text "HOST:PORT"? Names are not looked up. NULL: none was given. */
void config_check_metrics(const struct config_program *program, struct config_result *result,
    const char *text);
/*
 * config_refuse_open -- an address for --metrics that other hosts reach, and no --metrics-open, goes to config_problem
 *
 * For every start, so that it ends before it has begun, and systemd does not try again. What a name stands for is judged
 * when it is looked up (metrics_http_start). @text NULL: none was given.
 */
void config_refuse_open(const struct config_program *program, struct config_result *result,
    const char *text, bool is_open);

#endif /* CLEAVE_BASE_CONFIG_CHECK_H */
