/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_mark.c -- see rebuild_mark.h */
#include "rebuild/rebuild_mark.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/reader.h"
#include "catalog/moved.h"
#include "rebuild/rebuild_store.h"

#define MARK_FORMAT 1

int
mt_rebuild_mark_read(struct mt_rebuild_store *store, const char *text)
{
	struct reader reader = { 0 };
	char cluster[MT_MOVED_CLUSTER_BYTES];
	json_t *object = reader_load(&reader, text, strlen(text));
	const char *field = "memory";
	int rc;

	assert(!store->has_cluster);
	if (object != NULL) {
		(void)reader_range(&reader, object, "format", MARK_FORMAT, MARK_FORMAT);
		reader_text(&reader, object, "cluster", cluster, sizeof(cluster));
		store->keeps_users = reader_bool(&reader, object, "keeps_users");
	}
	json_decref(object);
	if (reader.field != NULL)
		field = reader.field;
	rc = reader_rc(&reader);
	if (rc == 0)
		rc = mt_cluster_decode(cluster, (uint32_t)strlen(cluster), &store->cluster, &field);
	store->has_cluster = store->is_unfinished = rc == 0;
	if (rc != 0)
		log_error("recover: unreadable in the metadata store key=%s field=\"%s\"",
		    MT_REBUILD_MARK_KEY, field);
	return rc == -EBADMSG ? 0 : rc;
}

int
mt_rebuild_mark_plan(struct mt_rebuild_store *store, bool keeps_users)
{
	char *cluster = mt_cluster_encode(&store->cluster);
	json_t *object = cluster == NULL ? NULL
					 : json_pack("{s:i, s:s, s:b}", "format", MARK_FORMAT,
					       "cluster", cluster, "keeps_users", keeps_users);
	char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

	assert(store->has_cluster);
	json_decref(object);
	free(cluster);
	return text == NULL ? -ENOMEM : mt_rebuild_store_plan_key(store, MT_REBUILD_MARK_KEY, text);
}
