/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trash.c -- a volume in the trash, as its key has it
 *
 * The key is "volumes/trash/ID": with one list of "volumes/" a gateway reads who is there and who is in the trash, so
 * a volume that is moved between the two is never seen in neither. Whatever looks through all volumes before it lets
 * something go (cluster/drop.c, hidden.c, cluster/mirror.c) so finds those of the trash, too.
 */
#include "catalog/trash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/numbers.h"
#include "catalog/volume_table.h"
#include "common/limits.h"

#define TRASH_DIGITS 20u
#define TRASH_FAST_PARTS 64u /* a clock may be fast by one in so many */

void
mt_trash_name(uint64_t id, char ret_name[MT_NAME_BYTES])
{
	assert(id != 0);
	assert(id <= MT_NUMBER_MAX);
	(void)snprintf(ret_name, MT_NAME_BYTES, MT_TRASH_PREFIX "%020" PRIu64, id);
}

bool
mt_trash_is_name(const char *name)
{
	size_t prefix = strlen(MT_TRASH_PREFIX);

	return strncmp(name, MT_TRASH_PREFIX, prefix) == 0 &&
	    strlen(name + prefix) == TRASH_DIGITS &&
	    strspn(name + prefix, "0123456789") == TRASH_DIGITS;
}

uint64_t
mt_trash_passed_ms(uint64_t seen_ns)
{
	return (seen_ns - seen_ns / TRASH_FAST_PARTS) / NUM_MS(1);
}

int
mt_json_put_trash(json_t *object, const struct mt_trash *trash)
{
	assert(json_is_object(object));
	assert(trash->name[0] != '\0');
	return json_object_set_new(object, "trash",
	    json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", trash->name, "by", trash->by,
		"deleted_s", (json_int_t)trash->deleted_s, "keep_ms", (json_int_t)trash->keep_ms,
		"left_ms", (json_int_t)trash->left_ms));
}

int
mt_json_take_trash(const json_t *object, struct mt_trash *ret_trash, const char **ret_field)
{
	static _Thread_local char error[MT_ERROR_BYTES];
	struct mt_trash trash = { .keep_ms = 0 };
	const char *name = NULL, *by = NULL;
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "by", READER_TEXT, true, 0, 0, { .text = &by } },
		{ "deleted_s", READER_U64, true, 0, INT64_MAX, { .u64 = &trash.deleted_s } },
		{ "keep_ms", READER_U64, true, 0, MT_TRASH_KEEP_S_MAX * 1000,
		    { .u64 = &trash.keep_ms } },
		{ "left_ms", READER_U64, true, 0, MT_TRASH_KEEP_S_MAX * 1000,
		    { .u64 = &trash.left_ms } },
	};
	int rc;

	*ret_field = error;
	rc = reader_strict(object, members, NUM_COUNT(members), error);
	if (rc != 0)
		return rc;
	*ret_field = "trash: name";
	if (mt_volume_name_check(name) != NULL)
		return -EINVAL;
	(void)snprintf(trash.name, sizeof(trash.name), "%s", name);
	(void)snprintf(trash.by, sizeof(trash.by), "%.*s", (int)sizeof(trash.by) - 1, by);
	*ret_trash = trash;
	return 0;
}
