/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_data_key.c -- what is asked about data keys: an encrypted volume is made, its key is rotated
 *
 *	an op runs --> no key is made yet: draw one, wrap it (a program may take seconds) --> the op runs again, with it
 *
 *	{"op":"volume.rotate_key","name":V}   {"key":ID,"old":ID}: the old one is retiring, and stays while the volume does
 *
 * A key's id and its volume's are the cluster's next ones, and what is wrapped names both: where another gateway's change
 * came first they are not any more, and one is made anew. Key and volume are written in one transaction.
 */
#include "control/control_data_key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/data_key.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/data_keys.h"
#include "cluster/data_keys_judge.h"
#include "cluster/gateway_state.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "kms/kms.h"

static void
key_on_made(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_data_keys *keys = &request->gateway->data_keys;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		request->op->run(request);
	else
		mt_control_refuse(request, rc, "no data key can be wrapped: %s", keys->make.why);
}

/* True: the request has ended. */
static bool
key_is_refused(struct mt_control_request *request, const char *kek)
{
	const struct mt_gateway *gateway = request->gateway;
	int rc = mt_data_keys_kek_opens(gateway, kek);

	if (gateway->cluster.level < CLEAVE_LEVEL_ENCRYPTED)
		mt_control_refuse(request, -ENOTSUP,
		    "the cluster is of level %" PRIu32
		    ", which has no encrypted volumes: cleave cluster upgrade",
		    gateway->cluster.level);
	else if (mt_kek_name_check(kek) != NULL)
		mt_control_refuse(request, -EINVAL, "kek: '%.80s' %s", kek, mt_kek_name_check(kek));
	else if (!mt_kms_has(gateway->options.kms, kek))
		mt_control_refuse(request, -EINVAL,
		    "gateway %" PRIu64
		    " has no KEK '%s': start it, and all others, with --kek (cleave key kek makes one)",
		    gateway->options.gateway_id, kek);
	else if (rc == -EBADMSG)
		mt_control_refuse(request, -EINVAL,
		    "the KEK '%s' of gateway %" PRIu64
		    " is another than the one that the cluster's keys of that name are wrapped with: what is made "
		    "with it would open nowhere where they do; give the new one a name of its own, --kek "
		    "NAME=SOURCE beside the old one, and rotate-key --kek NAME",
		    kek, gateway->options.gateway_id);
	else if (rc != 0)
		mt_control_refuse(request, -EBUSY,
		    "gateway %" PRIu64
		    " has not opened all of the cluster's keys that the KEK '%s' has wrapped (its log says why), so it "
		    "may be another one, and wraps nothing: ask again when it has, or say --kek NAME of another",
		    gateway->options.gateway_id, kek);
	else
		return false;
	return true;
}

static void
key_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == -ECANCELED)
		return;            /* the port goes, and takes its slots along */
	request->op->run(request); /* where the store did not answer, with what is known */
}

/* Reads the cluster's data keys, once a request. True: the request is run again behind that. */
static bool
key_reads(struct mt_control_request *request)
{
	if (request->are_keys_read)
		return false;
	request->are_keys_read = true;
	request->waiter = (struct mt_volumes_waiter){ .fn = key_on_read, .arg = request };
	mt_data_keys_read(request->gateway, &request->waiter);
	return true;
}

bool
mt_control_data_key_is_made(struct mt_control_request *request, uint64_t volume, const char *kek)
{
	struct mt_gateway *gateway = request->gateway;
	const struct mt_data_key *made = mt_data_keys_made(gateway);
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	kek = kek != NULL ? kek : MT_KEK_DEFAULT;
	/* New ones may have come since this gateway looked: whether it opens them is asked of all. */
	if (key_reads(request))
		return false;
	if (key_is_refused(request, kek))
		return false;
	if (made != NULL && made->volume == volume && strcmp(made->kek, kek) == 0 &&
	    made->id == num_max(gateway->cluster.next_key, 1))
		return true;
	rc = mt_data_keys_make(gateway, volume, kek, key_on_made, request);
	if (rc == -ENOSPC)
		mt_control_refuse(request, rc, "the cluster has had as many data keys as it can");
	else if (rc != 0)
		mt_control_refuse(request, rc,
		    "no data key can be made now: see the gateway's log, and ask again");
	return false;
}

bool
mt_control_data_key_lacks(struct mt_control_request *request, const struct mt_volume *volume,
    const char *name)
{
	char why[MT_DATA_KEY_WHY_BYTES];

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (mt_data_keys_judge(request->gateway, volume, why))
		return false;
	/* The volume may be new, and another gateway's. */
	if (key_reads(request))
		return true;
	mt_control_refuse(request, -ENOMEDIUM, "volume '%.130s': %s", name, why);
	return true;
}

void
mt_control_data_key_tell(const struct mt_control_request *request, const struct mt_volume *volume,
    json_t *object)
{
	const struct mt_gateway *gateway = request->gateway;
	const struct mt_data_key *data_key =
	    mt_data_key_table_find(&gateway->data_keys.table, volume->key_id);

	json_object_set_new(object, "encrypted", json_boolean(volume->key_id != 0));
	if (volume->key_id == 0)
		return;
	if (data_key != NULL)
		json_object_set_new(object, "kek", json_string(data_key->kek));
	json_object_set_new(object, "key_count",
	    json_integer(mt_data_keys_of(gateway, volume->id, NULL, 0)));
}

/* ---- rotate ---- */

static void
rotate_on_done(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry = mt_change_find_volume(request);

	if (entry == NULL)
		return;
	mt_control_event(request, CLEAVE_EVENT_KEY_ROTATED, entry->volume.name,
	    "audit: data key rotated volume=%s key=%" PRIu32 " old=%" PRIu32, entry->volume.name,
	    entry->volume.key_id, request->volume.key_id);
	mt_control_finish(request,
	    json_pack("{s:I, s:I}", "key", (json_int_t)entry->volume.key_id, "old",
		(json_int_t)request->volume.key_id));
}

static void
rotate_submit(struct mt_control_request *request, const struct mt_volume_entry *entry,
    const struct mt_data_key *old)
{
	const struct mt_gateway *gateway = request->gateway;
	const struct mt_data_key *made = mt_data_keys_made(gateway);
	char volume_key[MT_VOLUME_KEY_BYTES];
	char key[MT_DATA_KEY_KEY_BYTES], old_key[MT_DATA_KEY_KEY_BYTES];
	struct mt_cluster cluster = gateway->cluster;
	struct mt_volume volume = entry->volume;
	struct mt_data_key retiring = *old;
	char *cluster_text, *volume_text, *text, *old_text;

	assert(made != NULL && made->volume == volume.id);
	cluster.next_key = made->id + 1;
	request->volume.key_id = volume.key_id;
	volume.key_id = (uint32_t)made->id;
	retiring.state = MT_DATA_KEY_RETIRING;
	mt_volume_key(volume.name, volume_key);
	mt_data_key_key(made->id, key);
	mt_data_key_key(old->id, old_key);
	cluster_text = mt_cluster_encode(&cluster);
	volume_text = mt_volume_encode(&volume);
	text = mt_data_key_encode(made);
	old_text = mt_data_key_encode(&retiring);
	{
		const struct meta_op ops[] = {
			mt_change_compare("cluster", cluster.version),
			mt_change_compare(volume_key, entry->version),
			mt_change_compare(key, 0),
			mt_change_compare(old_key, old->version),
			mt_change_put("cluster", cluster_text),
			mt_change_put(volume_key, volume_text),
			mt_change_put(key, text),
			mt_change_put(old_key, old_text),
		};

		mt_control_change(request, ops, NUM_COUNT(ops), rotate_on_done);
	}
	free(cluster_text);
	free(volume_text);
	free(text);
	free(old_text);
}

/* The volume's newest key, as this gateway knows it; NULL, and the request has ended. */
static const struct mt_data_key *
rotate_find(struct mt_control_request *request, const struct mt_volume *volume)
{
	const struct mt_gateway *gateway = request->gateway;
	const struct mt_data_key *old =
	    mt_data_key_table_find(&gateway->data_keys.table, volume->key_id);

	if (volume->key_id == 0)
		mt_control_refuse(request, -EINVAL,
		    "volume '%s' is not encrypted: a volume is made so, or is not; copy it into one that "
		    "is (cleave export, cleave import)",
		    volume->name);
	else if (old == NULL)
		mt_control_refuse(request, -EBUSY,
		    "the key of volume '%s' is not known here yet: ask again", volume->name);
	else if (mt_data_keys_of(gateway, volume->id, NULL, 0) >= MT_DATA_KEYS_OF_VOLUME_MAX)
		mt_control_refuse(request, -ENOSPC,
		    "volume '%s' has %u keys, as many as it can: copy it into a new one (cleave export, "
		    "cleave import)",
		    volume->name, MT_DATA_KEYS_OF_VOLUME_MAX);
	else
		return old;
	return NULL;
}

void
mt_control_volume_rotate_key(struct mt_control_request *request)
{
	const char *name = "", *kek = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "kek", READER_TEXT, false, 0, 0, { .text = &kek } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	const struct mt_volume_entry *entry;
	const struct mt_data_key *old;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_change_find_volume(request);
	old = entry == NULL ? NULL : rotate_find(request, &entry->volume);
	/* A gateway that does not open the keys that there are has another KEK: with a new key of that the volume opens nowhere. */
	if (old == NULL || mt_control_data_key_lacks(request, &entry->volume, entry->volume.name) ||
	    !mt_control_may_count(request))
		return;
	if (mt_control_data_key_is_made(request, entry->volume.id, kek != NULL ? kek : old->kek))
		rotate_submit(request, entry, old);
}
