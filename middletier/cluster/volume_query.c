/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_query.c -- a session's question to main: the volume, and whether its client may have it
 *
 *	port --query--> main: known, new enough, allowed? --> port
 *	                      |            ^
 *	                      '-- read anew (volume_refresh.c)
 */
#include "cluster/volume_query.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cluster/data_keys.h"
#include "cluster/data_keys_judge.h"
#include "cluster/gateway_state.h"
#include "cluster/rights.h"
#include "cluster/users.h"
#include "cluster/volume_refresh.h"
#include "common/port.h"
#include "session/session.h"

static void
query_answer(struct mt_volume_query *query, int rc, const struct mt_volume_entry *entry)
{
	assert(rc <= 0 && (rc != 0 || entry != NULL));
	query->rc = rc;
	if (rc == 0)
		query->volume = entry->volume;
	query->post.fn = query->fn;
	query->post.arg = query->arg;
	loop_post(query->port->loop, &query->post);
}

/* The name of the volume that a snapshot, or a difference, is of: rights are those to the volume. "": nobody's. */
static const char *
query_snapshot_of(struct mt_volumes *volumes, uint64_t id)
{
	uint64_t number = id & ~(MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME);
	const struct mt_snapshot_entry *snapshot;
	const struct mt_volume_entry *entry;

	assert((id & MT_SNAPSHOT_ID) != 0);
	if ((id & MT_SNAPSHOT_OF_VOLUME) == 0) {
		snapshot = mt_snapshots_by_number(&volumes->snapshots, number);
		number = snapshot == NULL ? 0 : snapshot->snapshot.volume_id;
	}
	entry = number == 0 ? NULL : mt_volumes_by_id(volumes, number);
	return entry == NULL ? "" : entry->volume.name;
}

/* 0; -ENOKEY, -ENOENT, -EHOSTDOWN. @name NULL: there is no such volume, which only those shall hear who may have one. */
static int
query_right(const struct mt_volume_query *query, const char *name)
{
	const struct mt_gateway *gateway = query->port->gateway;
	enum mt_right right = query->is_write ? MT_RIGHT_VOLUME_WRITE : MT_RIGHT_VOLUME_READ;

	if (query->subject == NULL || MUTANT(session_right_unasked))
		return 0;
	if (!mt_right_allows(query->subject->role, MT_MAY_ALL, right))
		return -ENOKEY; /* with no volume */
	return name == NULL ? 0 : mt_right_judge(gateway, query->subject, name, right);
}

static void query_judge(struct mt_volume_query *query, bool is_read);
static void query_on_read(int rc, void *arg);

static void
query_on_rights(int rc, void *arg)
{
	(void)rc; /* where the store does not answer those of before count */
	query_judge(arg, false);
}

/*
 * A right may have been given a moment ago, by way of another gateway: nobody is refused for what this one has not read
 * yet. True: users are being read, and it is judged again.
 */
static bool
query_reads_rights(struct mt_volume_query *query)
{
	if (query->are_rights_read || query->subject->role != SPLIT_ROLE_CLIENT)
		return false;
	query->are_rights_read = true;
	query->waiter = (struct mt_volumes_waiter){ .fn = query_on_rights, .arg = query };
	mt_users_read(query->port->gateway, &query->waiter);
	return true;
}

static void
query_on_keys(int rc, void *arg)
{
	(void)rc; /* where the store does not answer those of before count */
	query_judge(arg, true);
}

/*
 * The volume is there; are its data keys? Where they are not they are read once: another gateway may just have made it.
 * Keys were posted to the port before this answer is.
 */
static void
query_judge_keys(struct mt_volume_query *query, const struct mt_volume_entry *entry)
{
	struct mt_gateway *gateway = query->port->gateway;

	if (mt_data_keys_judge(gateway, &entry->volume, query->why)) {
		query_answer(query, 0, entry);
		return;
	}
	if (!query->are_keys_read) {
		query->are_keys_read = true;
		query->waiter = (struct mt_volumes_waiter){ .fn = query_on_keys, .arg = query };
		mt_data_keys_read(gateway, &query->waiter);
		return;
	}
	mt_data_keys_refused(gateway, entry->volume.name);
	query_answer(query, -ENOMEDIUM, NULL);
}

/* @is_read: the table is as the store was when the session asked, or the store does not answer. */
static void
query_judge(struct mt_volume_query *query, bool is_read)
{
	struct mt_gateway *gateway = query->port->gateway;
	struct mt_volumes *volumes = &gateway->volumes;
	struct mt_volume_entry *entry = mt_volumes_by_id(&gateway->volumes, query->volume_id);
	struct mt_volume_entry snapshot = { .volume.id = 0 };
	uint64_t attach = query->attach;
	const char *name = NULL;
	int rc;

	/* Whoever comes for it lives, also when it is not let in now. */
	if (entry != NULL && mt_volume_is_trashed(&entry->volume))
		entry = NULL; /* nobody opens it there */
	if (entry != NULL && query->attach == entry->volume.attach)
		entry->heard_ns = loop_now_ns(gateway->options.loop);
	if (mt_snapshot_session(volumes, query->volume_id, query->attach, &snapshot.volume) == 0) {
		entry = &snapshot;
		attach = 0; /* it was a number of another snapshot, or nothing */
		name = query_snapshot_of(volumes, query->volume_id);
	} else if (entry != NULL) {
		name = entry->volume.name;
	}
	rc = query_right(query, name);
	if (!volumes->is_loaded || !mt_revoked_is_ready(gateway))
		query_answer(query, -EHOSTDOWN, NULL);
	else if ((rc == -ENOENT || rc == -ENOKEY) && query_reads_rights(query))
		return;
	else if (rc != 0)
		query_answer(query, rc, NULL);
	else if (entry != NULL && entry->is_deleting)
		query_answer(query, -EBUSY, NULL); /* the deletion may yet be refused */
	else if ((entry == NULL || entry->volume.attach < attach ||
		     entry->volume.size_bytes < query->end_bytes) &&
	    !is_read) {
		query->waiter = (struct mt_volumes_waiter){ .fn = query_on_read, .arg = query };
		mt_volumes_refresh(gateway, &query->waiter);
	} else if (entry == NULL)
		query_answer(query, -ENOENT, NULL);
	else
		query_judge_keys(query, entry);
}

/* A client that knows more than the store could tell us now shall come again. */
static void
query_on_read(int rc, void *arg)
{
	struct mt_volume_query *query = arg;

	assert(rc <= 0);
	if (rc != 0)
		query_answer(query, -EHOSTDOWN, NULL);
	else
		query_judge(query, true);
}

static void
query_on_main(struct loop_post *post, void *arg)
{
	struct mt_volume_query *query = arg;

	(void)post;
	assert(post == &query->post);
	query_judge(query, false);
}

void
mt_volume_query_send(struct mt_volume_query *query, struct mt_port *port,
    void (*fn)(struct loop_post *post, void *arg), void *arg)
{
	assert(fn != NULL && query->volume_id != 0);
	query->port = port;
	query->fn = fn;
	query->arg = arg;
	query->are_rights_read = query->are_keys_read = false;
	query->post = (struct loop_post){ .fn = query_on_main, .arg = query };
	loop_post(port->main_loop, &query->post);
}
