/* SPDX-License-Identifier: Apache-2.0 */
/* moved.c -- see moved.h */
#include "catalog/moved.h"

#include <jansson.h>

#include "base/check.h"
#include "base/reader.h"

#define MOVED_FORMAT 1

char *
mt_moved_encode(const struct mt_moved *moved)
{
	json_t *object = json_pack("{s:i, s:s, s:s}", "format", MOVED_FORMAT, "to", moved->to,
	    "cluster", moved->cluster);
	char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

	assert(moved->to[0] != '\0' && moved->cluster[0] != '\0');
	json_decref(object);
	return text;
}

/* A newer release may say more: what is here stays true. */
int
mt_moved_decode(const void *value, uint32_t bytes, struct mt_moved *ret_moved,
    const char **ret_field)
{
	struct reader reader = { 0 };
	json_t *object = reader_load(&reader, value, bytes);

	assert(value != NULL || bytes == 0);
	if (object != NULL) {
		(void)reader_range(&reader, object, "format", MOVED_FORMAT, MOVED_FORMAT);
		reader_text(&reader, object, "to", ret_moved->to, sizeof(ret_moved->to));
		reader_text(&reader, object, "cluster", ret_moved->cluster,
		    sizeof(ret_moved->cluster));
	}
	json_decref(object);
	if (reader.field != NULL)
		*ret_field = reader.field;
	return reader_rc(&reader);
}
