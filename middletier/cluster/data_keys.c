/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_keys.c -- the data keys of encrypted volumes: read, watched, unwrapped, told to the ports
 *
 *	watch "keys/", a session that needs one --> list "keys/" --> table --> unwrap those that are new, eight at a time
 *	      ^                                       |                              |
 *	      '--- 200 to 400 ms --------------------'  no answer                    +--> ring --> every port (data_keys_tell.c)
 *	                                                                             '--> not open: why; health says so
 *
 * A key whose KEK is not here stays shut: this gateway takes its shards over, merges and serves all others. A program
 * that fails is asked again every DATA_KEYS_RETRY_NS. A key that is gone from the store is wiped, here and at the ports.
 *
 * Main posts a key to the ports before it answers whoever waits for a reading, so a port has the key before it hears of
 * the volume.
 */
#include "cluster/data_keys.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/keyring.h"
#include "cleave/meta.h"
#include "cluster/data_keys_tell.h"
#include "cluster/gateway_state.h"
#include "cluster/mirror.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"

#define DATA_KEYS_RETRY_NS NUM_S(5)
#define DATA_KEYS_NEW 1 /* in open_rcs: not tried yet */

static void data_keys_open(struct mt_gateway *gateway);

static struct mt_data_keys *
keys_of(struct mt_gateway *gateway)
{
	return &gateway->data_keys;
}

/* The table's index of @id; UINT32_MAX: it is not there. */
static uint32_t
keys_find(const struct mt_data_keys *keys, uint64_t id)
{
	const struct mt_data_key *data_key = mt_data_key_table_find(&keys->table, id);

	return data_key == NULL ? UINT32_MAX : (uint32_t)(data_key - keys->table.entries);
}

/* A key goes into the ring and to every port. */
static int
keys_put(struct mt_gateway *gateway, uint64_t id, const uint8_t dek[MT_DEK_BYTES])
{
	int rc = mt_data_keys_tell(gateway, (uint32_t)id, dek);

	return rc != 0 ? rc : keyring_put(gateway->data_keys.ring, (uint32_t)id, dek);
}

/* ---- unwrapped ---- */

static bool
keys_are_opening(const struct mt_data_keys *keys)
{
	for (uint32_t i = 0; i < MT_DATA_KEY_CALLS; i++) {
		if (keys->calls[i].is_out && keys->calls[i].is_first)
			return true;
	}
	return false;
}

static void
data_keys_fault(struct mt_gateway *gateway, const struct mt_kms_call *call, int rc)
{
	struct mt_data_keys *keys = keys_of(gateway);

	if (rc != -ENOKEY)
		(void)snprintf(keys->why, sizeof(keys->why), "%s",
		    call->why[0] != '\0' ? call->why : log_errno(rc));
	log_limited(LOG_WARN,
	    "keys: a data key stays shut, its volume is not served here id=%" PRIu64
	    " volume=%" PRIu64 " kek=%s why=\"%s\"",
	    call->data_key.id, call->data_key.volume, call->data_key.kek,
	    call->why[0] != '\0' ? call->why : log_errno(rc));
	if (rc != -ENOKEY && rc != -EBADMSG && gateway->sm.state < MT_GATEWAY_STOPPING)
		loop_timer_start(gateway->options.loop, &keys->retry_timer, DATA_KEYS_RETRY_NS);
}

static void
data_keys_on_open(struct mt_kms_call *call, void *arg)
{
	struct mt_data_key_call *slot = arg;
	struct mt_gateway *gateway = slot->gateway;
	struct mt_data_keys *keys = keys_of(gateway);
	uint32_t at = keys_find(keys, call->data_key.id);
	int rc = call->rc;

	assert(slot->is_out);
	slot->is_out = false;
	/* The key may have gone, or have been wrapped anew, meanwhile. */
	if (at != UINT32_MAX && keys->table.entries[at].version == call->data_key.version) {
		if (rc == 0)
			rc = keys_put(gateway, call->data_key.id, call->dek);
		keys->open_rcs[at] = rc;
		if (rc != 0)
			data_keys_fault(gateway, call, rc);
		else
			log_info("keys: a data key is open id=%" PRIu64 " volume=%" PRIu64,
			    call->data_key.id, call->data_key.volume);
	}
	mt_kms_call_wipe(call);
	data_keys_open(gateway);
}

static bool
keys_is_out(const struct mt_data_keys *keys, uint64_t id)
{
	for (uint32_t i = 0; i < MT_DATA_KEY_CALLS; i++) {
		if (keys->calls[i].is_out && keys->calls[i].call.data_key.id == id)
			return true;
	}
	return false;
}

/* The next key that nobody has tried; UINT32_MAX: none. */
static uint32_t
keys_next_new(const struct mt_data_keys *keys)
{
	for (uint32_t i = 0; i < keys->table.count; i++) {
		if (keys->open_rcs[i] == DATA_KEYS_NEW &&
		    !keys_is_out(keys, keys->table.entries[i].id))
			return i;
	}
	return UINT32_MAX;
}

static void
data_keys_unwrap(struct mt_gateway *gateway, uint32_t at, bool is_first)
{
	struct mt_data_keys *keys = keys_of(gateway);
	struct mt_data_key_call *slot = keys->calls;

	while (slot->is_out)
		slot++;
	assert(slot < keys->calls + MT_DATA_KEY_CALLS);
	slot->gateway = gateway;
	slot->is_out = true;
	slot->is_first = is_first;
	slot->call = (struct mt_kms_call){ .data_key = keys->table.entries[at],
		.fn = data_keys_on_open,
		.arg = slot };
	mt_kms_unwrap(gateway->options.kms, &slot->call);
}

static bool
keys_have_slot(const struct mt_data_keys *keys)
{
	for (uint32_t i = 0; i < MT_DATA_KEY_CALLS; i++) {
		if (!keys->calls[i].is_out)
			return true;
	}
	return false;
}

/* Sends what is left to the KMS, as much as may be out; where nothing is left the reading ends. */
static void
data_keys_open(struct mt_gateway *gateway)
{
	struct mt_data_keys *keys = keys_of(gateway);
	uint32_t at;

	while ((at = keys_next_new(keys)) != UINT32_MAX && gateway->options.kms == NULL) {
		struct mt_kms_call call = { .data_key = keys->table.entries[at] };

		keys->open_rcs[at] = -ENOKEY;
		data_keys_fault(gateway, &call, -ENOKEY);
	}
	while (keys_have_slot(keys) && (at = keys_next_new(keys)) != UINT32_MAX)
		data_keys_unwrap(gateway, at, true);
	if (!keys->watched.is_reading || keys_are_opening(keys) ||
	    keys_next_new(keys) != UINT32_MAX)
		return;
	mt_mirror_kick(gateway); /* it has the wrapped keys, and names that it can encrypt now */
	mt_volumes_refresh_soon(gateway);
	mt_watched_finish(&keys->watched, 0);
}

static void
data_keys_on_retry(struct loop_timer *timer, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_data_keys *keys = keys_of(gateway);

	(void)timer;
	for (uint32_t i = 0; i < keys->table.count && keys_have_slot(keys); i++) {
		int rc = keys->open_rcs[i];

		if (rc < 0 && rc != -ENOKEY && rc != -EBADMSG &&
		    !keys_is_out(keys, keys->table.entries[i].id))
			data_keys_unwrap(gateway, i, false);
	}
}

/* ---- read ---- */

/* Keys that were there and are not any more: their data is gone for good. */
static void
data_keys_wipe(struct mt_gateway *gateway, const struct mt_data_key_table *table)
{
	struct mt_data_keys *keys = keys_of(gateway);

	for (uint32_t i = 0; i < keys->table.count; i++) {
		const struct mt_data_key *old = &keys->table.entries[i];

		if (mt_data_key_table_find(table, old->id) != NULL ||
		    !keyring_has(keys->ring, (uint32_t)old->id))
			continue;
		if (mt_data_keys_tell(gateway, (uint32_t)old->id, NULL) != 0)
			log_warn(
			    "keys: a data key that was erased stays in memory until this gateway "
			    "ends id=%" PRIu64,
			    old->id);
		keyring_remove(keys->ring, (uint32_t)old->id);
		log_info("audit: data key wiped id=%" PRIu64 " volume=%" PRIu64 " kek=%s", old->id,
		    old->volume, old->kek);
	}
}

static int
data_keys_take(struct mt_gateway *gateway, struct mt_data_key_table *table)
{
	struct mt_data_keys *keys = keys_of(gateway);
	int *open_rcs = mt_calloc(num_max(table->count, 1), sizeof(*open_rcs));

	if (open_rcs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->count; i++) {
		const struct mt_data_key *data_key = &table->entries[i];
		uint32_t old = keys_find(keys, data_key->id);

		open_rcs[i] = DATA_KEYS_NEW;
		if (keyring_has(keys->ring, (uint32_t)data_key->id))
			open_rcs[i] = 0;
		else if (old != UINT32_MAX && keys->table.entries[old].version == data_key->version)
			open_rcs[i] = keys->open_rcs[old];
	}
	data_keys_wipe(gateway, table);
	mt_data_key_table_fini(&keys->table);
	mt_free(keys->open_rcs);
	keys->table = *table;
	keys->open_rcs = open_rcs;
	keys->is_loaded = true;
	return 0;
}

static void
data_keys_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_data_keys *keys = keys_of(gateway);
	struct mt_data_key_table table = { 0 };

	assert(keys->watched.is_reading);
	if (rc == 0)
		rc = mt_data_key_table_read(items, count, &table, &keys->bad_count);
	if (rc == 0)
		rc = data_keys_take(gateway, &table);
	if (rc != 0) {
		mt_data_key_table_fini(&table);
		mt_watched_finish(&keys->watched, rc);
		return;
	}
	data_keys_open(gateway);
}

static const struct mt_watched_kind data_keys_kind = {
	.prefix = MT_DATA_KEY_PREFIX,
	.failed = "keys: data keys cannot be read, those of before count",
	.on_list = data_keys_on_list,
};

void
mt_data_keys_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter)
{
	mt_watched_read(&gateway->data_keys.watched, waiter);
}

/* ---- asked ---- */

void
mt_data_keys_refused(struct mt_gateway *gateway, const char *volume)
{
	struct mt_data_keys *keys = keys_of(gateway);

	keys->refused_ns = loop_now_ns(gateway->options.loop);
	(void)snprintf(keys->refused, sizeof(keys->refused), "%s", volume);
}

uint32_t
mt_data_keys_missing(const struct mt_gateway *gateway, const struct mt_data_key **ret_first)
{
	const struct mt_data_keys *keys = &gateway->data_keys;
	uint32_t count = 0;

	*ret_first = NULL;
	for (uint32_t i = 0; i < keys->table.count; i++) {
		if (keys->open_rcs[i] >= 0)
			continue;
		if (count++ == 0)
			*ret_first = &keys->table.entries[i];
	}
	return count;
}

uint32_t
mt_data_keys_of(const struct mt_gateway *gateway, uint64_t volume, uint64_t *ret_ids, uint32_t max)
{
	const struct mt_data_keys *keys = &gateway->data_keys;
	uint32_t count = 0;

	for (uint32_t i = 0; i < keys->table.count; i++) {
		if (keys->table.entries[i].volume != volume)
			continue;
		if (count < max)
			ret_ids[count] = keys->table.entries[i].id;
		count++;
	}
	return count;
}

/* ---- made ---- */

static void
make_on_wrapped(struct mt_kms_call *call, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_data_keys *keys = keys_of(gateway);

	assert(keys->is_making && call == &keys->make);
	keys->is_making = false;
	keys->is_made = call->rc == 0;
	if (call->rc != 0)
		mt_kms_call_wipe(call);
	keys->make_fn(call->rc, keys->make_arg);
}

int
mt_data_keys_make(struct mt_gateway *gateway, uint64_t volume, const char *kek,
    void (*fn)(int rc, void *arg), void *arg)
{
	struct mt_data_keys *keys = keys_of(gateway);
	uint64_t id = num_max(gateway->cluster.next_key, 1);
	int rc;

	assert(fn != NULL && volume != 0 && gateway->options.kms != NULL);
	mt_data_keys_done(gateway, false);
	if (keys->is_making)
		return -EBUSY;
	if (id > UINT32_MAX)
		return -ENOSPC;
	keys->make = (struct mt_kms_call){ .data_key = { .id = id, .volume = volume },
		.fn = make_on_wrapped,
		.arg = gateway };
	(void)snprintf(keys->make.data_key.kek, sizeof(keys->make.data_key.kek), "%s", kek);
	rc = mt_kms_draw(keys->make.dek);
	if (rc != 0)
		return rc;
	keys->is_making = true;
	keys->make_fn = fn;
	keys->make_arg = arg;
	mt_kms_wrap(gateway->options.kms, &keys->make);
	return 0;
}

const struct mt_data_key *
mt_data_keys_made(const struct mt_gateway *gateway)
{
	return gateway->data_keys.is_made ? &gateway->data_keys.make.data_key : NULL;
}

void
mt_data_keys_done(struct mt_gateway *gateway, bool is_stored)
{
	struct mt_data_keys *keys = keys_of(gateway);

	if (!keys->is_made)
		return;
	keys->is_made = false;
	/* Else it is unwrapped when it is read, as any gateway does. */
	if (is_stored && keys_put(gateway, keys->make.data_key.id, keys->make.dek) != 0)
		log_limited(LOG_WARN, "keys: no memory for a new data key id=%" PRIu64,
		    keys->make.data_key.id);
	mt_kms_call_wipe(&keys->make);
}

/* ---- life ---- */

int
mt_data_keys_init(struct mt_gateway *gateway)
{
	struct mt_data_keys *keys = keys_of(gateway);

	mt_watched_init(&keys->watched, gateway, &data_keys_kind);
	list_init(&keys->tells);
	loop_timer_init(&keys->retry_timer, data_keys_on_retry, gateway);
	keys->ring = keyring_create();
	return keys->ring == NULL ? -ENOMEM : 0;
}

void
mt_data_keys_drop_waiters(struct mt_gateway *gateway)
{
	struct mt_data_keys *keys = keys_of(gateway);

	loop_timer_stop(gateway->options.loop, &keys->retry_timer);
	mt_watched_fini(&keys->watched);
}

void
mt_data_keys_fini(struct mt_gateway *gateway)
{
	struct mt_data_keys *keys = keys_of(gateway);

	mt_data_keys_tells_drop(gateway);
	mt_data_key_table_fini(&keys->table);
	mt_free(keys->open_rcs);
	keyring_destroy(keys->ring);
	gnutls_memset(keys->make.dek, 0, sizeof(keys->make.dek));
	for (uint32_t i = 0; i < MT_DATA_KEY_CALLS; i++)
		mt_kms_call_wipe(&keys->calls[i].call);
	keys->ring = NULL;
	keys->open_rcs = NULL;
}

int
mt_data_keys_watch(struct mt_gateway *gateway)
{
	return mt_watched_watch(&gateway->data_keys.watched);
}

void
mt_data_keys_unwatch(struct mt_gateway *gateway)
{
	loop_timer_stop(gateway->options.loop, &gateway->data_keys.retry_timer);
	mt_watched_unwatch(&gateway->data_keys.watched);
}
