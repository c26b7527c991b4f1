/* SPDX-License-Identifier: Apache-2.0 */
/* output.h -- what a program has printed has been written, or it says so: a full disk, a reader that has gone */
#ifndef CLEAVE_BASE_OUTPUT_H
#define CLEAVE_BASE_OUTPUT_H

#include <stdio.h>

/*
 * output_check -- hand all that @out holds to the system
 *
 * Returns 0: all that was ever printed there has been written; else a negative errno, from then on. What an earlier write
 * failed for stdio does not say: a further one, of a line's end, is asked. -EIO where that goes well.
 */
int output_check(FILE *out);
/*
 * output_finish -- at the end of a program: its standard output
 *
 * Returns @status; where output is lost, and @status is 0, @failure, after a line on standard error that begins with @noun.
 */
int output_finish(const char *noun, int status, int failure);

#endif /* CLEAVE_BASE_OUTPUT_H */
