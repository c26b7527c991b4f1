/* SPDX-License-Identifier: Apache-2.0 */
/* params.h -- a model's parameters, from a file: a name and a number above 0 a line; lines that begin with # are for people */
#ifndef CLEAVE_BENCH_MODEL_PARAMS_H
#define CLEAVE_BENCH_MODEL_PARAMS_H

#include <stdbool.h>

/*
 * params_file_read -- each of @path goes to @set, which knows the names, with @params
 *
 * Returns 0; -1 after a line on standard error: the file cannot be read, @set has returned false, or a number is not above 0.
 */
int params_file_read(const char *path, bool (*set)(void *params, const char *name, double value),
    void *params);

#endif /* CLEAVE_BENCH_MODEL_PARAMS_H */
