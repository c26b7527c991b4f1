/* SPDX-License-Identifier: Apache-2.0 */
/* redirect.h -- see criterion.h beside it */
#ifndef PLAIN_REDIRECT_H
#define PLAIN_REDIRECT_H

#include <stdio.h>

void cr_redirect_stdout(void);
void cr_redirect_stderr(void);
FILE *cr_get_redirected_stdout(void);
FILE *cr_get_redirected_stderr(void);

#endif /* PLAIN_REDIRECT_H */
