/* SPDX-License-Identifier: Apache-2.0 */
/* command_check.h -- `cleave-gateway --check-config`, beyond the texts of the options */
#ifndef CLEAVE_MIDDLETIER_START_COMMAND_CHECK_H
#define CLEAVE_MIDDLETIER_START_COMMAND_CHECK_H

struct config_result;
struct meta_where;
struct mt_command_line;

/*
 * mt_command_line_check_files -- are the files there that the options name, and can this user read them?
 *
 * Looks at names and rights alone, for a gateway that is to serve: opens nothing, makes nothing, waits for nobody.
 * Each problem goes to config_problem of @result. @values were read, by mt_command_line_take, into @where.
 */
void mt_command_line_check_files(const struct mt_command_line *values,
    const struct meta_where *where, struct config_result *result);

#endif /* CLEAVE_MIDDLETIER_START_COMMAND_CHECK_H */
