/* SPDX-License-Identifier: Apache-2.0 */
/* subject_of.c -- see subject_of.h; what a subject may be is splitlib/secure/subject.c's to say */
#include "subject_of.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "secure/subject.h"

_Static_assert(SUBJECT_OF_URI_BYTES >= SUBJECT_URI_BYTES_MAX, "every URI fits");

int
subject_of(const char *text, uint64_t cluster_id, struct split_subject *ret_subject,
    char ret_uri[SUBJECT_OF_URI_BYTES])
{
	char uri[SUBJECT_OF_URI_BYTES];
	int n = snprintf(uri, sizeof(uri), "cleave://%016" PRIx64 "/%s", cluster_id, text);

	assert(cluster_id != 0);
	if (n >= (int)sizeof(uri) || subject_parse(uri, (size_t)n, ret_subject) != 0)
		return -EINVAL;
	if (ret_uri != NULL)
		memcpy(ret_uri, uri, sizeof(uri));
	return 0;
}

bool
subject_of_is_valid(const char *text)
{
	struct split_subject subject;

	return subject_of(text, 1, &subject, NULL) == 0;
}

int
subject_of_cluster(const char *text, uint64_t *ret_id)
{
	size_t digits = strspn(text, "0123456789abcdefABCDEF");

	if (digits == 0 || digits >= SUBJECT_OF_CLUSTER_BYTES || text[digits] != '\0')
		return -EINVAL;
	*ret_id = strtoull(text, NULL, 16);
	return *ret_id == 0 ? -EINVAL : 0;
}
