/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h -- whom a certificate is for: cleave://<cluster id>/<role>/<name> */
#ifndef CLEAVE_SECURE_SUBJECT_H
#define CLEAVE_SECURE_SUBJECT_H

#include <stddef.h>

#include "cleave/secure.h"

#define SUBJECT_URI_BYTES_MAX                                                                      \
	128u /* with its end: scheme 9, cluster id 16, role 7, name 63, two slashes */
#define SUBJECT_TEXT_BYTES_MAX SPLIT_SUBJECT_TEXT_BYTES_MAX

/*
 * subject_parse -- @bytes of a URI, which need not end with a zero
 *
 * There is one way to write each subject. Returns 0; -EINVAL, and *@ret_subject is untouched.
 */
int subject_parse(const char *uri, size_t bytes, struct split_subject *ret_subject);
/* subject_format -- the URI of @subject. */
void subject_format(const struct split_subject *subject, char out[SUBJECT_URI_BYTES_MAX]);
/* subject_text -- "node/3", for people. */
void subject_text(const struct split_subject *subject, char out[SUBJECT_TEXT_BYTES_MAX]);
/* subject_role_name -- "node"; NULL: @role is not one role. */
const char *subject_role_name(unsigned role);
/* subject_roles_text -- "gateway or admin", of the bits @roles, for people. */
void subject_roles_text(unsigned roles, char *out, size_t bytes);

#endif /* CLEAVE_SECURE_SUBJECT_H */
