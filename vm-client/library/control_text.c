/* SPDX-License-Identifier: Apache-2.0 */
/* control_text.c -- texts of control requests and of their answers: who asks, and what went wrong */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cleave/status.h"
#include "internal.h"

void
control_text_by(const char *name, char ret_by[CLIENT_BY_BYTES])
{
	json_t *value = json_string(name);
	char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

	assert(strlen(name) < CLIENT_NAME_BYTES); /* so it fits */
	ret_by[0] = '\0';
	if (text != NULL)
		(void)snprintf(ret_by, CLIENT_BY_BYTES, ",\"by\":%s}", text);
	free(text);
	json_decref(value);
}

uint32_t
control_text_say(char *text, uint32_t bytes, const char *by, bool *was_said)
{
	size_t by_bytes = strlen(by);
	char *end = text + bytes - 1;

	if (*was_said)
		*end = '}'; /* again */
	*was_said = by_bytes > 0 && bytes > 2 && *end == '}' &&
	    bytes + by_bytes <= CLEAVE_CALL_BYTES_MAX;
	if (!*was_said)
		return bytes;
	memcpy(end, by, by_bytes);
	return bytes + (uint32_t)by_bytes - 1;
}

void
control_text_error(const char *reply, uint16_t status, char ret_error[CLEAVE_ERROR_BYTES_MAX])
{
	json_t *root = json_loads(reply, 0, NULL);
	const char *text = json_string_value(json_object_get(root, "error"));

	assert(status_to_errno(status) != 0);
	(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, "%.370s",
	    text != NULL ? text : status_text(status));
	json_decref(root);
}
