/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_key.c -- arbitrary text as a key file, and as a subject: what is taken is written as it was read */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "splitlib/secure/key.h"
#include "splitlib/secure/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX], uri[SUBJECT_URI_BYTES_MAX];
	struct split_subject subject;
	struct split_key *key;
	char *text;

	if (bytes > KEY_FILE_BYTES_MAX)
		return 0;
	if (subject_parse((const char *)data, bytes, &subject) == 0) {
		subject_format(&subject, uri);
		assert(strlen(uri) == bytes && memcmp(uri, data, bytes) == 0);
	}
	text = malloc(bytes + 1);
	assert(text != NULL);
	memcpy(text, data, bytes);
	text[bytes] = '\0'; /* as split_key_load has it */
	key = key_parse(text, bytes, why);
	assert((key == NULL) == (why[0] != '\0'));
	split_key_free(key);
	free(text);
	return 0;
}
