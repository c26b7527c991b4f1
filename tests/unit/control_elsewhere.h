/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_elsewhere.h -- a request that waits, while others change the volume that it is about
 *
 * A cluster of two gateways with a volume "v" that has a snapshot "s". The first gateway is asked; what others do before
 * it goes on is put into the store, and into its tables as by a reading that ends there.
 */
#ifndef CLEAVE_TESTS_CONTROL_ELSEWHERE_H
#define CLEAVE_TESTS_CONTROL_ELSEWHERE_H

#include "cleave/status.h"
#include "middletier/catalog/volume_table.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

#define SIZE_BYTES 1073741824u
#define OTHERS_SESSION 77u

static struct sg sg; /* the client's half of it */
static struct sg_qp qp;

#define ask(want_rc, ...) control_want(&qp, (want_rc), __VA_ARGS__)

static inline void
create(const char *name)
{
	json_decref(ask(0, "{'op':'volume.create','name':'%s','size_bytes':%u}", name, SIZE_BYTES));
}

static inline void
setup_cluster(void)
{
	setup();
	two_gateways_up(&sg, &qp);
	create("v");
	json_decref(ask(0, "{'op':'snapshot.create','name':'v@s'}"));
}

static inline void
teardown_cluster(void)
{
	sg_close(&qp);
	sg_client_close(&sg);
	teardown();
}

/* ---- what others do ---- */

static inline struct mt_volumes *
tables(void)
{
	return &peers[0].gateway->volumes;
}

static inline struct mt_volume_entry *
entry_of(const char *name)
{
	struct mt_volume_entry *entry = mt_volumes_by_name(tables(), name);

	cr_assert_not_null(entry, "%s", name);
	return entry;
}

/* The volume is as @volume says, in the store and in the tables. */
static inline void
put_elsewhere(const struct mt_volume *volume)
{
	char *text = mt_volume_encode(volume);
	struct meta_item *items = NULL;
	char key[MT_VOLUME_KEY_BYTES];
	uint32_t count = 0;

	cr_assert_not_null(text);
	mt_volume_key(volume->name, key);
	made_cluster_put(rig->store, key, text);
	cr_assert_eq(meta_store_list(rig->store, key, &items, &count), 0);
	cr_assert_eq(count, 1);
	cr_assert_eq(mt_volumes_put_item(tables(), &items[0]), 0);
	mt_free(items);
	free(text);
}

static inline void
rename_elsewhere(const char *name, const char *new_name)
{
	struct mt_volume_entry *entry = entry_of(name);
	struct mt_volume volume = entry->volume;
	bool is_deleting = entry->is_deleting;
	char key[MT_VOLUME_KEY_BYTES];

	mt_volume_key(name, key);
	made_cluster_put(rig->store, key, NULL);
	mt_volumes_remove(tables(), name);
	(void)snprintf(volume.name, sizeof(volume.name), "%s", new_name);
	put_elsewhere(&volume);
	entry_of(new_name)->is_deleting = is_deleting; /* as a reading keeps it, by the id */
}

/* ---- asking ---- */

/* Sends @text, in which single quotes stand for double ones, and returns how many replies there are with its own. */
static inline uint32_t
begin(const char *text, bool (*until)(void *arg))
{
	struct wire_header header = { .opcode = WIRE_CONTROL, .request_id = qp.next_request_id++ };
	uint32_t count = qp.reply_count + 1;
	char request[CONTROL_REQUEST_BYTES];
	size_t bytes = strlen(text);

	cr_assert_lt(bytes, sizeof(request));
	for (size_t i = 0; i < bytes; i++)
		request[i] = text[i] == '\'' ? '"' : text[i];
	sg_send(&qp, &header, request, (uint32_t)bytes);
	cr_assert(mt_rig_run_until(rig, until, NULL), "%s", text);
	cr_assert_lt(qp.reply_count, count, "%s", text);
	return count;
}

static inline void
expect_end(uint32_t count, int rc, const char *word)
{
	const struct sg_reply *reply;

	cr_assert(sg_wait_replies(&qp, count));
	reply = &qp.replies[count - 1];
	cr_assert_eq(reply->header.status, status_from_errno(rc), "%u: %s", reply->header.status,
	    reply->text);
	cr_assert_not_null(strstr(reply->text, word), "%s", reply->text);
	for (uint32_t i = 0; i < tables()->count; i++)
		cr_assert(!tables()->entries[i].is_deleting, "%s lets nobody in",
		    tables()->entries[i].volume.name);
}

#endif /* CLEAVE_TESTS_CONTROL_ELSEWHERE_H */
