/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway_load.c -- the key "cluster" and the volumes are read, and it is judged whether this store may be served
 *
 *	read --> of our cluster, at its place, whole --> on_loaded
 *	 ^  |               |
 *	 |  '-- no answer   '-- made before stores had identities, or places: it gets them
 *	 +--------'-----------------------'
 *
 * The key "cluster" is made by creation.c or by a rebuild, never here: a store without it is the wrong
 * one, or was lost, and a gateway that began anew would take all that the nodes hold for garbage.
 */
#include "gateway/gateway_load.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/moved.h"
#include "catalog/place.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_change.h"

#define GATEWAY_LOAD_RETRY_NS NUM_MS(200) /* the store did not answer: until it is asked again */

static void
load_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	mt_gateway_load(arg);
}

static void
load_later(struct mt_gateway *gateway)
{
	assert(gateway->sm.state == MT_GATEWAY_STARTING);
	log_limited(LOG_WARN, "gateway: the metadata store does not answer, asking again");
	loop_timer_start(gateway->options.loop, &gateway->load_timer, GATEWAY_LOAD_RETRY_NS);
}

static const char *
load_meta_name(const struct mt_gateway *gateway)
{
	const char *name = gateway->options.meta_name;

	return name != NULL ? name : "the metadata store";
}

/* Written by us or by another gateway just now: look again, either way. */
static void
load_on_completed(int rc, void *arg)
{
	struct mt_gateway *gateway = arg;
	const struct mt_cluster *before = &gateway->cluster;
	char id[STORE_ID_TEXT_BYTES], place[META_PLACE_BYTES];

	assert(rc <= 0);
	store_id_text(&gateway->options.store_id, id);
	mt_place_of(gateway->options.meta, place);
	if (rc == 0 && store_id_is_zero(&before->store_id))
		log_info("gateway: the metadata store had no identity, and got one store_id=%s",
		    id);
	if (rc == 0 && before->place[0] == '\0' && place[0] != '\0')
		log_info(
		    "gateway: the metadata store did not name its place, and does now place=%s",
		    place);
	if (rc == 0 || rc == -EAGAIN)
		mt_gateway_load(gateway);
	else if (rc == -ETIMEDOUT)
		load_later(gateway);
	else
		mt_gateway_fail(gateway, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

/* A store that was made before stores had identities, or places. */
static bool
load_is_incomplete(const struct mt_gateway *gateway)
{
	const struct mt_cluster *cluster = &gateway->cluster;
	char place[META_PLACE_BYTES];

	assert(mt_place_is_valid(cluster->place));
	mt_place_of(gateway->options.meta, place);
	return (store_id_is_zero(&cluster->store_id) &&
		   !store_id_is_zero(&gateway->options.store_id)) ||
	    (cluster->place[0] == '\0' && place[0] != '\0');
}

static void
load_complete(struct mt_gateway *gateway)
{
	struct mt_cluster cluster = gateway->cluster;
	int rc;

	assert(load_is_incomplete(gateway));
	if (store_id_is_zero(&cluster.store_id))
		cluster.store_id = gateway->options.store_id;
	mt_place_of(gateway->options.meta, cluster.place);
	rc = mt_cluster_put(gateway->options.meta, &cluster, load_on_completed, gateway);
	if (rc != 0)
		mt_gateway_fail(gateway, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

static void
load_fail_elsewhere(struct mt_gateway *gateway)
{
	const struct meta_ops *ops = gateway->options.meta->ops;
	char place[META_PLACE_BYTES];

	assert(gateway->sm.state == MT_GATEWAY_STARTING);
	mt_place_of(gateway->options.meta, place);
	mt_gateway_fail(gateway, -EXDEV, MT_PLACE_TEXT, load_meta_name(gateway), ops->place_how,
	    ops->place_what, gateway->cluster.place, place);
}

/* Not tried again: a directory that is mounted later is another one. */
static void
load_on_moved(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	const char *name = load_meta_name(gateway), *field;
	struct mt_moved moved;
	bool is_there = rc == 0 && count > 0 && strcmp(items[0].key, MT_MOVED_KEY) == 0;

	assert(rc != 0 || count == 0 || items != NULL);
	if (gateway->sm.state != MT_GATEWAY_STARTING)
		return;
	if (is_there && mt_moved_decode(items[0].value, items[0].value_bytes, &moved, &field) == 0)
		mt_gateway_fail(gateway, -EREMCHG, MT_MOVED_TEXT, name, moved.to, moved.to);
	else if (rc == -ETIMEDOUT)
		load_later(gateway);
	else
		mt_gateway_fail(gateway, -ENOENT, MT_NO_CLUSTER_TEXT, name);
}

static void
load_fail_without_cluster(struct mt_gateway *gateway)
{
	struct meta *meta = gateway->options.meta;

	assert(gateway->sm.state == MT_GATEWAY_STARTING);
	if (meta->ops->list(meta, MT_MOVED_KEY, load_on_moved, gateway) != 0)
		mt_gateway_fail(gateway, -ENOENT, MT_NO_CLUSTER_TEXT, load_meta_name(gateway));
}

static void
load_on_read(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_gateway *gateway = arg;
	const struct mt_gateway_options *options = &gateway->options;
	const struct mt_cluster *cluster = &gateway->cluster;

	assert(rc <= 0);
	(void)volume;
	if (gateway->sm.state != MT_GATEWAY_STARTING)
		return;
	if (rc == -ENOENT)
		load_fail_without_cluster(gateway);
	else if (rc == -ETIMEDOUT)
		load_later(gateway);
	else if (rc != 0)
		mt_gateway_fail(gateway, rc, "the metadata store cannot be read: %s",
		    strerror(-rc));
	else if (cluster->cluster_id != options->cluster_id)
		mt_gateway_fail(gateway, -EXDEV,
		    "cluster-id: the metadata store belongs to cluster %016" PRIx64
		    ", not to %016" PRIx64 ": is --meta another cluster's?",
		    cluster->cluster_id, options->cluster_id);
	else if (options->shard_count != 0 && options->shard_count != cluster->shard_count)
		mt_gateway_fail(gateway, -EINVAL,
		    "shards: the cluster was made with %" PRIu32 ", not with %" PRIu32
		    ": leave --shards out",
		    cluster->shard_count, options->shard_count);
	else if (mt_place_is_other(options->meta, cluster))
		load_fail_elsewhere(gateway);
	else if (load_is_incomplete(gateway))
		load_complete(gateway);
	else
		gateway->on_loaded(gateway);
}

void
mt_gateway_load(struct mt_gateway *gateway)
{
	int rc;

	assert(gateway->on_loaded != NULL);
	if (gateway->sm.state != MT_GATEWAY_STARTING)
		return;
	rc = mt_volumes_load(gateway, load_on_read, gateway);
	if (rc != 0)
		mt_gateway_fail(gateway, rc, "the metadata store cannot be read: %s",
		    strerror(-rc));
}

void
mt_gateway_load_init(struct mt_gateway *gateway, void (*fn)(struct mt_gateway *gateway))
{
	assert(gateway->sm.state == MT_GATEWAY_CREATED && gateway->options.loop != NULL);
	gateway->on_loaded = fn;
	loop_timer_init(&gateway->load_timer, load_on_timer, gateway);
}

void
mt_gateway_load_stop(struct mt_gateway *gateway)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	loop_timer_stop(gateway->options.loop, &gateway->load_timer);
}
