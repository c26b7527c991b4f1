/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_change.c -- what requests that change volumes and snapshots share
 *
 * control_request.c has read the tables anew before each of these runs. A change is one transaction that compares
 * the versions of the keys it was made from; then the tables are read anew, so that what the ports must know
 * they know before the answer (mt_control_change). A conflict with another gateway begins it again.
 */
#include "control/control_change.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/holder.h"
#include "catalog/json.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "cleave/meta.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/snapshot.h"
#include "cluster/volume_refresh.h"
#include "control/control_allow.h"
#include "control/control_request.h"

/* ---- names ---- */

bool
mt_change_take_name(struct mt_control_request *request, const char *name,
    char ret_name[MT_NAME_BYTES])
{
	const char *problem = mt_volume_name_check(name);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (problem != NULL)
		mt_control_refuse(request, -EINVAL, "name: '%.80s' %s", name, problem);
	else
		memcpy(ret_name, name, strlen(name) + 1);
	return problem == NULL;
}

/* VOLUME@SNAPSHOT, into request->volume.name and ->snapshot_name. */
bool
mt_change_take_snapshot(struct mt_control_request *request, const char *name)
{
	const char *at = strchr(name, '@');
	char volume[2 * MT_NAME_BYTES];

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (at == NULL || (size_t)(at - name) >= sizeof(volume)) {
		mt_control_refuse(request, -EINVAL, "name: must be VOLUME@SNAPSHOT");
		return false;
	}
	(void)snprintf(volume, sizeof(volume), "%.*s", (int)(at - name), name);
	return mt_change_take_name(request, volume, request->volume.name) &&
	    mt_change_take_name(request, at + 1, request->change.snapshot_name);
}

/* The volume; NULL, and the request has ended: there is none. */
struct mt_volume_entry *
mt_change_find_volume(struct mt_control_request *request)
{
	struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);

	assert(request->volume.name[0] != '\0');
	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (entry == NULL)
		mt_control_fail_volume(request, -ENOENT);
	return entry;
}

/* The request's snapshot, which is live; NULL, and the request has ended: there is none. */
struct mt_snapshot_entry *
mt_change_find_snapshot(struct mt_control_request *request)
{
	struct mt_volume_entry *volume = mt_change_find_volume(request);
	struct mt_snapshot_entry *entry;

	if (volume == NULL)
		return NULL;
	assert(request->change.snapshot_name[0] != '\0');
	entry = mt_snapshots_by_name(&request->gateway->volumes.snapshots, volume->volume.id,
	    request->change.snapshot_name);
	if (entry != NULL && entry->snapshot.state == MT_SNAPSHOT_LIVE)
		return entry;
	mt_control_refuse(request, -ENOENT, "snapshot '%s@%s': no such snapshot",
	    request->volume.name, request->change.snapshot_name);
	return NULL;
}

/* The member "name" and no other, but "force". */
bool
mt_change_take_request(struct mt_control_request *request)
{
	const char *name = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		return mt_change_take_snapshot(request, name);
	mt_control_fail(request, rc, error);
	return false;
}

/* ---- changes ---- */

static void
change_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == -ECANCELED)
		return; /* the port goes, and takes its slots along */
	if (request->change.rc != 0)
		mt_control_fail_volume(request, request->change.rc);
	else if (rc != 0)
		mt_control_fail(request, rc,
		    "done, but the metadata store cannot be read: see the gateway's log");
	else
		request->change.fn(request);
}

static void
change_read(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	request->waiter = (struct mt_volumes_waiter){ .fn = change_on_read, .arg = request };
	mt_volumes_refresh(request->gateway, &request->waiter);
}

static void
change_on_txn(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	request->change.rc = rc;
	mt_data_keys_done(request->gateway, rc == 0); /* before any port hears of its volume */
	if (mt_taking_state(request->gateway) == MT_TAKING_READY)
		mt_taking_end(request->gateway, rc);
	change_read(request);
}

void
mt_control_change(struct mt_control_request *request, const struct meta_op *ops, uint32_t count,
    void (*fn)(struct mt_control_request *request))
{
	struct meta *meta = request->gateway->options.meta;
	int rc = -ENOMEM;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	assert(count > 0 && count <= META_TXN_OPS_MAX);
	assert(fn != NULL);
	request->change.fn = fn;
	/* A text that there was no memory for. */
	for (uint32_t i = 0; i < count; i++) {
		if (ops[i].kind == META_PUT && ops[i].value == NULL)
			goto fail;
	}
	rc = meta->ops->txn(meta, ops, count, change_on_txn, request);
	if (rc == 0)
		return;
fail:
	if (mt_taking_state(request->gateway) == MT_TAKING_READY)
		mt_taking_end(request->gateway, rc);
	mt_control_fail_volume(request, rc);
}

struct meta_op
mt_change_compare(const char *key, uint64_t version)
{
	assert(key[0] != '\0');
	return (struct meta_op){ .kind = META_COMPARE_VERSION, .key = key, .version = version };
}

/* A text that is NULL is seen by mt_control_change. */
struct meta_op
mt_change_put(const char *key, const char *text)
{
	assert(key[0] != '\0');
	return (struct meta_op){ .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = text == NULL ? 0 : (uint32_t)strlen(text) };
}

/* An event, by what was asked for. */
static void
change_tell(struct mt_control_request *request, const struct mt_volume *volume)
{
	static const struct {
		const char *op, *what;
		enum cleave_event_code code;
	} changes[] = {
		{ "volume.rename", "renamed", CLEAVE_EVENT_VOLUME_RENAMED },
		{ "volume.resize", "resized", CLEAVE_EVENT_VOLUME_RESIZED },
		{ "volume.set", "limited", CLEAVE_EVENT_VOLUME_LIMITED },
		{ "snapshot.rollback", "rolled back", CLEAVE_EVENT_VOLUME_ROLLED_BACK },
		{ "clone", "cloned", CLEAVE_EVENT_VOLUME_CREATED },
	};
	const char *snapshot = request->change.snapshot_name;

	assert(request->op->is_change);
	for (size_t i = 0; i < NUM_COUNT(changes); i++) {
		if (strcmp(changes[i].op, request->op->name) == 0)
			mt_control_event(request, changes[i].code, volume->name,
			    "volume: %s name=%s size_bytes=%" PRIu64 " of=%s%s%s", changes[i].what,
			    volume->name, volume->size_bytes, request->volume.name,
			    snapshot[0] != '\0' ? "@" : "", snapshot);
	}
	if (strcmp(request->op->name, "clone") == 0 && volume->key_id != 0)
		mt_control_event(request, CLEAVE_EVENT_KEY_MADE, volume->name,
		    "audit: data key made volume=%s key=%" PRIu32, volume->name, volume->key_id);
}

void
mt_change_on_volume(struct mt_control_request *request)
{
	const char *name = request->change.new_name[0] != '\0' ? request->change.new_name
							       : request->volume.name;
	struct mt_volume_entry *entry = mt_volumes_by_name(&request->gateway->volumes, name);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (entry == NULL) {
		mt_control_fail_volume(request, -ENOENT);
		return;
	}
	change_tell(request, &entry->volume);
	mt_control_finish(request, json_pack("{s:o}", "volume", mt_json_volume(&entry->volume)));
}

void
mt_change_fail_another(struct mt_control_request *request)
{
	mt_control_refuse(request, -ENOENT,
	    "volume '%s' is another one by now: it was deleted, or renamed, and made anew",
	    request->volume.name);
}

bool
mt_change_name_opened(struct mt_control_request *request, const char **name)
{
	const struct mt_volume_entry *entry;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (*name != NULL)
		return true;
	if (request->attach.id == 0) {
		mt_control_fail(request, -EINVAL, "name: is missing, and so is id");
		return false;
	}
	entry = mt_volumes_by_id(&request->gateway->volumes, request->attach.id);
	if (entry == NULL || mt_volume_is_trashed(&entry->volume) ||
	    !mt_control_may(request, entry->volume.name)) {
		mt_control_refuse(request, -ENOENT, "id: there is no volume %" PRIu64,
		    request->attach.id);
		return false;
	}
	*name = entry->volume.name;
	return true;
}

bool
mt_change_is_other_opened(struct mt_control_request *request, const struct mt_volume *volume)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(volume->id != 0);
	if (request->attach.id == 0 || request->attach.id == volume->id || MUTANT(opened_by_name))
		return false;
	mt_change_fail_another(request);
	return true;
}

/* Nobody new comes in; who is there at any gateway? Then @fn. */
void
mt_change_when_unused(struct mt_control_request *request, mt_holder_fn fn)
{
	struct mt_volume_entry *entry = mt_change_find_volume(request);
	int rc;

	assert(fn != NULL);
	if (entry == NULL)
		return;
	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (request->alone.meant == 0)
		request->alone.meant = entry->volume.id;
	if (request->alone.meant != entry->volume.id) {
		mt_change_fail_another(request);
		return;
	}
	mt_control_let_in(request); /* where it asks again, in the same run */
	mt_control_keep_out(request, entry);
	rc = mt_holder_ask_all(request->gateway, &entry->volume, fn, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

bool
mt_change_is_still_unused(const struct mt_control_request *request, const struct mt_volume *volume)
{
	assert(request->alone.id != 0);
	return volume->id == request->alone.id &&
	    ((request->is_forced && !request->alone.is_fenced) ||
		volume->attach == request->alone.attach || MUTANT(newcomer_ignored));
}

/* Somebody uses the volume: true, and the request has ended, with a text that says who. */
static bool
change_refuse_users(struct mt_control_request *request, const struct mt_volume *volume,
    const struct mt_holder_answer *answer)
{
	char holder[MT_HOLDER_TEXT_BYTES];

	assert(!request->is_forced);
	if (answer->is_held) {
		mt_holder_text(volume, holder, sizeof(holder));
		mt_control_refuse(request, -ENOTEMPTY,
		    "volume '%.63s' is in use by %s: stop that first, or insist (--force)",
		    volume->name, holder);
	} else if (answer->reader_count > 0) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "volume '%.63s' is being read by %" PRIu32
		    " connections: stop that first, or insist (--force)",
		    volume->name, answer->reader_count);
	} else if (answer->unknown_gateway != 0) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "volume '%.63s': gateway %" PRIu64
		    " does not say whether somebody uses it: try "
		    "again, or insist (--force)",
		    volume->name, answer->unknown_gateway);
	} else {
		return false;
	}
	return true;
}

/* The volume's entry: nobody is there, or is put out. NULL, and the request has ended: somebody is. */
struct mt_volume_entry *
mt_change_when_unused_entry(struct mt_control_request *request,
    const struct mt_holder_answer *answer)
{
	struct mt_volume_entry *entry;

	assert(answer != NULL && request->op->is_change);
	assert(answer->attach == request->alone.attach);
	entry = mt_change_find_volume(request);
	if (entry == NULL)
		return NULL;
	if (!mt_change_is_still_unused(request, &entry->volume)) {
		mt_control_fail_volume(request, -EAGAIN);
		return NULL;
	}
	return request->is_forced || !change_refuse_users(request, &entry->volume, answer) ? entry
											   : NULL;
}

/* ---- a fence ---- */

/* The volume that was fenced, if nobody has attached it since, nor given it another size. NULL: the request begins again. */
static struct mt_volume_entry *
fence_entry(struct mt_control_request *request)
{
	struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);

	if (entry != NULL && mt_change_is_still_unused(request, &entry->volume) &&
	    entry->volume.size_bytes == request->alone.size_bytes)
		return entry;
	mt_control_fail_volume(request, -EAGAIN);
	return NULL;
}

static void
fence_on_over(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_volume_entry *entry;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->alone.is_fenced);
	if (answer->unknown_gateway != 0) {
		mt_control_refuse(request, -ETIMEDOUT,
		    "volume '%.63s' is unchanged: gateway %" PRIu64
		    " does not say that it knows who was put out, whose reads past a gateway would "
		    "not see the change: try again",
		    request->volume.name, answer->unknown_gateway);
		return;
	}
	entry = fence_entry(request);
	if (entry != NULL)
		request->alone.then(request, entry);
}

static void
fence_on_made(struct mt_control_request *request)
{
	struct mt_volume_entry *entry = fence_entry(request);
	int rc;

	if (entry == NULL)
		return;
	rc = mt_holder_fence(request->gateway, &entry->volume, fence_on_over, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

void
mt_change_fence(struct mt_control_request *request, const struct mt_volume_entry *entry,
    void (*then)(struct mt_control_request *request, const struct mt_volume_entry *entry))
{
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	assert(request->alone.id == volume.id);
	if (volume.reads == MT_READS_GATEWAY) {
		then(request, entry);
		return;
	}
	volume.attach++;
	volume.session_id = 0;
	volume.holder = (struct mt_holder){ .since_s = 0 };
	request->alone.attach = volume.attach;
	request->alone.is_fenced = true;
	request->alone.size_bytes = volume.size_bytes;
	request->alone.then = then;
	mt_volume_key(volume.name, key);
	text = mt_volume_encode(&volume);
	{
		const struct meta_op ops[] = { mt_change_compare(key, entry->version),
			mt_change_put(key, text) };

		mt_control_change(request, ops, NUM_COUNT(ops), fence_on_made);
	}
	free(text);
}

/* ---- a snapshot's key ---- */

void
mt_change_put_snapshot(struct mt_control_request *request, const struct mt_snapshot_entry *entry,
    void (*fn)(struct mt_control_request *request))
{
	char key[MT_SNAPSHOT_KEY_BYTES];
	char *text = mt_snapshot_encode(&request->change.snapshot, NULL);

	assert(request->change.snapshot.number == entry->snapshot.number);
	mt_snapshot_key(entry->snapshot.number, key);
	{
		const struct meta_op ops[] = { mt_change_compare(key, entry->version),
			mt_change_put(key, text) };

		mt_control_change(request, ops, NUM_COUNT(ops), fn);
	}
	free(text);
}
