/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_key_file.c -- any bytes as a key file, as a list of what was issued, and as a subject that somebody typed */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vm-client/keys/issued.h"
#include "vm-client/keys/key_look.h"
#include "vm-client/keys/subject_of.h"

#define NOW 1800000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A file in which nothing is wrong says all that there is to know. */
static void
check_file(const char *text, size_t bytes)
{
	char why[KEY_LOOK_WHY_BYTES] = "";
	struct key_look look;

	if (bytes > KEY_LOOK_FILE_BYTES_MAX)
		return;
	if (key_look_text(text, bytes, NULL, NOW, &look, why) != 0) {
		assert(why[0] != '\0');
		return;
	}
	assert(look.problems >> KEY_PROBLEM_NR == 0);
	if (look.problems == 0)
		assert(subject_of_is_valid(look.subject) && look.serial[0] != '\0' &&
		    look.cluster_id != 0 && look.until_s >= NOW);
}

/* A list that is read is written, and read again the same. */
static void
check_issued(const char *text, size_t bytes)
{
	struct issued issued, again;
	const char *why = NULL;
	size_t out_bytes;
	char *out;

	if (issued_decode(text, bytes, &issued, &why) != 0) {
		assert(why != NULL);
		return;
	}
	out = issued_encode(&issued, &out_bytes);
	assert(out != NULL);
	assert(issued_decode(out, out_bytes, &again, &why) == 0);
	assert(again.count == issued.count && again.cluster_id == issued.cluster_id);
	for (uint32_t i = 0; i < again.count; i++) {
		assert(strcmp(again.entries[i].subject, issued.entries[i].subject) == 0);
		assert(issued_find(&again, issued.entries[i].serial) == &again.entries[i]);
	}
	free(out);
	issued_fini(&again);
	issued_fini(&issued);
}

/* A subject has one URI, without anything that a terminal or a log would obey. */
static void
check_subject(const char *text)
{
	struct split_subject subject;
	char uri[SUBJECT_OF_URI_BYTES];

	if (subject_of(text, 7, &subject, uri) != 0)
		return;
	assert(strcmp(uri + strlen("cleave://0000000000000007/"), text) == 0);
	assert(strchr(text, '/') != NULL && subject.name[0] != '\0');
	for (const char *c = text; *c != '\0'; c++)
		assert(*c > ' ' && *c < 0x7f && *c != '"' && *c != '\'');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);

	assert(text != NULL);
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	check_file(text, bytes);
	check_issued(text, bytes);
	check_subject(text);
	free(text);
	return 0;
}
