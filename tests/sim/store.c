/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- see store.h */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/etcd_json.h"
#include "middletier/meta/etcd_lease_value.h"
#include "middletier/meta/meta_etcd.h"

#define STORE_PREFIX "/cleave/0000000000000051/"
#define STORE_KEYS STORE_PREFIX "k/"
#define STORE_LEASES STORE_PREFIX "l/"
#define STORE_USER "cleave"
#define STORE_PASSWORD "a secret"
#define STORE_MEMBERS 3u

struct sim_store_copy {
	struct meta_snapshot *memory; /* one of the two */
	struct fake_etcd_copy *etcd;
};

bool
sim_store_is_etcd(const struct sim_store *store)
{
	return store->etcd != NULL;
}

struct sim_store *
sim_store_create(const struct sim_store_options *options)
{
	struct sim_store *store = calloc(1, sizeof(*store));
	struct meta_store_options memory = { .loop = options->loop,
		.knows_deaths = options->knows_deaths };

	assert(store != NULL);
	store->options = *options;
	if (store->options.member_count == 0)
		store->options.member_count = STORE_MEMBERS;
	if (!options->is_etcd) {
		store->memory = meta_store_create(&memory);
		assert(store->memory != NULL);
		return store;
	}
	store->etcd = fake_etcd_create(options->loop, store->options.member_count);
	assert(store->etcd != NULL);
	if (options->has_user)
		fake_etcd_set_user(store->etcd, STORE_USER, STORE_PASSWORD);
	return store;
}

void
sim_store_destroy(struct sim_store *store)
{
	if (store == NULL)
		return;
	for (uint32_t i = 0; i < SIM_STORE_OPEN_MAX; i++)
		assert(store->users[i].meta == NULL);
	meta_store_destroy(store->memory);
	fake_etcd_destroy(store->etcd);
	free(store);
}

/* ---- users ---- */

static struct sim_store_user *
user_find(struct sim_store *store, const struct meta *meta)
{
	for (uint32_t i = 0; i < SIM_STORE_OPEN_MAX; i++)
		if (store->users[i].meta == meta)
			return &store->users[i];
	return NULL;
}

static void
user_open_etcd(struct sim_store *store, struct sim_store_user *user, struct loop *loop,
    const struct sim_store_process *process)
{
	static const char *const names[FAKE_ETCD_MEMBERS_MAX] = { "a", "b", "c", "d", "e" };
	bool is_gateway = process->name != NULL;

	user->way = fake_etcd_open(store->etcd, loop);
	user->meta = meta_etcd_open(&(struct meta_etcd_options){ .loop = loop,
	    .http = user->way,
	    .endpoints = names,
	    .endpoint_count = store->options.member_count,
	    .prefix = STORE_PREFIX,
	    .user = store->options.has_user ? STORE_USER : NULL,
	    .password = store->options.has_user ? STORE_PASSWORD : NULL,
	    .by = is_gateway ? process->name : "a tool",
	    .process = process->name,
	    .is_dead = store->options.knows_deaths ? process->is_dead : NULL,
	    .try_ns = store->options.try_ns,
	    .compacts = is_gateway });
}

struct meta *
sim_store_open(struct sim_store *store, struct loop *loop, const struct sim_store_process *process)
{
	struct sim_store_user *user = user_find(store, NULL);

	assert(user != NULL);
	if (store->etcd != NULL)
		user_open_etcd(store, user, loop, process);
	else
		user->meta = meta_memory_open(store->memory, loop);
	assert(user->meta != NULL);
	return user->meta;
}

void
sim_store_close(struct sim_store *store, struct meta *meta)
{
	struct sim_store_user *user = user_find(store, meta);

	assert(meta != NULL);
	assert(user != NULL);
	meta->ops->close(meta);
	*user = (struct sim_store_user){ 0 };
}

uint64_t
sim_store_held_bytes(const struct sim_store *store)
{
	return store->etcd == NULL ? 0 : fake_etcd_held_bytes(store->etcd);
}

/* ---- what is in it ---- */

/* A value, decoded; as many bytes as *@ret_bytes says. To be freed. */
static uint8_t *
value_of(const struct fake_change *change, uint32_t *ret_bytes)
{
	size_t chars = strlen(change->value);
	uint8_t *value = malloc(chars + 1);
	int64_t bytes;

	assert(value != NULL);
	bytes = etcd_base64_decode(change->value, chars, value);
	assert(bytes >= 0);
	*ret_bytes = (uint32_t)bytes;
	return value;
}

struct listing {
	struct meta_item *items; /* NULL: only counted */
	char *at;
	uint32_t count;
	size_t bytes;
};

/* The entry's key, with a NUL, and its value behind that. */
static void
listing_add(const char *key, const struct fake_change *change, void *arg)
{
	struct listing *listing = arg;
	const char *name = key + strlen(STORE_KEYS);
	size_t name_bytes = strlen(name) + 1;
	uint32_t bytes, head_bytes;
	uint8_t *value = value_of(change, &bytes);
	uint64_t lease;
	int rc = etcd_lease_of((const char *)value, bytes, &lease, &head_bytes);

	assert(rc == 0);
	(void)rc;
	bytes -= head_bytes;
	if (listing->items != NULL) {
		memcpy(listing->at, name, name_bytes);
		memcpy(listing->at + name_bytes, value + head_bytes, bytes);
		listing->items[listing->count] = (struct meta_item){ .key = listing->at,
			.value = listing->at + name_bytes,
			.value_bytes = bytes,
			.version = change->revision };
		listing->at += name_bytes + bytes;
	}
	listing->count++;
	listing->bytes += name_bytes + bytes;
	free(value);
}

int
sim_store_list(struct sim_store *store, const char *prefix, struct meta_item **ret_items,
    uint32_t *ret_count)
{
	struct listing counted = { 0 }, listing = { 0 };
	char whole[sizeof(STORE_KEYS) + META_KEY_BYTES_MAX];

	if (store->memory != NULL)
		return meta_store_list(store->memory, prefix, ret_items, ret_count);
	(void)snprintf(whole, sizeof(whole), "%s%s", STORE_KEYS, prefix);
	fake_etcd_each(store->etcd, whole, listing_add, &counted);
	*ret_items = NULL;
	*ret_count = counted.count;
	if (counted.count == 0)
		return 0;
	listing.items = mt_calloc(1, counted.count * sizeof(*listing.items) + counted.bytes);
	if (listing.items == NULL)
		return -ENOMEM;
	listing.at = (char *)(listing.items + counted.count);
	fake_etcd_each(store->etcd, whole, listing_add, &listing);
	*ret_items = listing.items;
	return 0;
}

struct sim_store_copy *
sim_store_copy(struct sim_store *store)
{
	struct sim_store_copy *copy = calloc(1, sizeof(*copy));

	assert(copy != NULL);
	if (store->memory != NULL)
		copy->memory = meta_store_snapshot(store->memory);
	else
		copy->etcd = fake_etcd_copy(store->etcd);
	assert(copy->memory != NULL || copy->etcd != NULL);
	return copy;
}

void
sim_store_restore(struct sim_store *store, const struct sim_store_copy *copy)
{
	int rc = 0;

	store->set_back_ns = loop_now_ns(store->options.loop);
	if (store->memory != NULL)
		rc = meta_store_restore(store->memory, copy->memory);
	else
		fake_etcd_restore(store->etcd, copy->etcd);
	assert(rc == 0);
	(void)rc;
}

void
sim_store_copy_destroy(struct sim_store_copy *copy)
{
	if (copy == NULL)
		return;
	meta_snapshot_destroy(copy->memory);
	if (copy->etcd != NULL)
		fake_etcd_copy_destroy(copy->etcd);
	free(copy);
}

static bool
key_is_durable(const char *key)
{
	const char *name = key + strlen(STORE_KEYS);

	return strncmp(name, META_LEASED_PREFIX, strlen(META_LEASED_PREFIX)) != 0;
}

static void
durable_count(const char *key, const struct fake_change *change, void *arg)
{
	uint32_t *count = arg;

	(void)change;
	*count += key_is_durable(key);
}

/* Durable keys of a copy, and those of them that the store has as well. */
struct common {
	const struct sim_store *store;
	uint32_t count, same_count;
};

static void
common_look(const char *key, const struct fake_change *then, void *arg)
{
	struct common *common = arg;
	const struct fake_change *now = fake_etcd_find(common->store->etcd, key);

	if (!key_is_durable(key))
		return;
	common->count++;
	common->same_count += now != NULL && now->revision == then->revision &&
	    strcmp(now->value, then->value) == 0;
}

/*
 * Each key is compared. Revisions alone do not tell which put is younger: an etcd that is set back counts on from its
 * backup's revision, so a put behind that may have a lower revision than a backup from before.
 */
bool
sim_store_is_as(struct sim_store *store, const struct sim_store_copy *copy)
{
	struct common common = { .store = store };
	uint32_t count = 0;

	assert(store->etcd != NULL);
	fake_etcd_each(store->etcd, STORE_KEYS, durable_count, &count);
	fake_etcd_copy_each(copy->etcd, STORE_KEYS, common_look, &common);
	return common.same_count == common.count && common.count == count;
}

/* ---- leases of an etcd ---- */

static uint64_t
lease_over_ns(const struct fake_change *change)
{
	uint32_t bytes;
	uint8_t *value = value_of(change, &bytes);
	uint64_t ttl_ns = etcd_lease_read_ttl((const char *)value, bytes);

	free(value);
	assert(ttl_ns > 0);
	return change->at_ns + ttl_ns;
}

static const struct fake_change *
lease_find(const struct sim_store *store, uint64_t lease)
{
	char key[sizeof(STORE_LEASES) + 16];

	assert(store->etcd != NULL);
	(void)snprintf(key, sizeof(key), "%s%016" PRIx64, STORE_LEASES, lease);
	return fake_etcd_find(store->etcd, key);
}

bool
sim_store_has_lease(struct sim_store *store, uint64_t lease)
{
	return lease_find(store, lease) != NULL;
}

uint64_t
sim_store_lease_left_ns(struct sim_store *store, uint64_t lease)
{
	uint64_t now_ns = loop_now_ns(store->options.loop), over_ns;
	const struct fake_change *change;

	if (store->memory != NULL)
		return meta_store_lease_left_ns(store->memory, lease);
	change = lease_find(store, lease);
	if (change == NULL)
		return 0;
	over_ns = lease_over_ns(change);
	/* The lease may live on for a while, but it need not. */
	return over_ns > now_ns ? over_ns - now_ns : 0;
}

static void
oldest_look(const char *key, const struct fake_change *change, void *arg)
{
	uint64_t *oldest_ns = arg;

	(void)key;
	*oldest_ns = num_min(*oldest_ns, lease_over_ns(change));
}

uint64_t
sim_store_oldest_lease_ns(struct sim_store *store)
{
	uint64_t now_ns = loop_now_ns(store->options.loop), oldest_ns = now_ns;

	assert(store->etcd != NULL);
	fake_etcd_each(store->etcd, STORE_LEASES, oldest_look, &oldest_ns);
	return now_ns - oldest_ns;
}

/* ---- what fails ---- */

void
sim_store_set_timeouts(struct sim_store *store, uint32_t lost_per_mille, uint32_t late_per_mille)
{
	if (store->memory != NULL) {
		meta_store_set_timeouts(store->memory, lost_per_mille, late_per_mille);
		return;
	}
	store->etcd->faults.lost = lost_per_mille;
	store->etcd->faults.unanswered = late_per_mille;
}

void
sim_store_set_delay(struct sim_store *store, uint64_t min_ns, uint64_t max_ns)
{
	if (store->memory != NULL)
		meta_store_set_delay(store->memory, min_ns, max_ns);
	else
		fake_etcd_set_delay(store->etcd, min_ns, max_ns);
}

void
sim_store_set_down(struct sim_store *store, bool is_down)
{
	if (store->memory != NULL)
		meta_store_set_down(store->memory, is_down);
	for (uint32_t i = 0; i < store->options.member_count && store->etcd != NULL; i++)
		fake_etcd_set_down(store->etcd, i, is_down);
}

void
sim_store_set_stalled(struct sim_store *store, bool is_stalled)
{
	if (store->memory != NULL)
		meta_store_set_stalled(store->memory, is_stalled);
	for (uint32_t i = 0; i < store->options.member_count && store->etcd != NULL; i++)
		fake_etcd_set_hung(store->etcd, i, is_stalled);
}

void
sim_store_cut_off(struct sim_store *store, struct meta *meta, bool is_cut_off)
{
	if (meta == NULL)
		return;
	if (store->memory != NULL)
		meta_memory_cut_off(meta, is_cut_off);
	else
		fake_etcd_cut_off(user_find(store, meta)->way, is_cut_off);
}

void
sim_store_ring(struct sim_store *store, struct meta *meta, bool is_dead)
{
	if (store->memory != NULL)
		meta_memory_ring(meta, is_dead);
}
