/* SPDX-License-Identifier: Apache-2.0 */
/* test_manage_gateway.c -- a real gateway understands typed calls, and they its answers */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cleave/manage.h"
#include "support/sim_gateway.h"

#define VOLUMES 70 /* more than one answer has */

struct world {
	struct sg sg;
	struct cleave_client *client;
	struct cleave_ask ask;
	bool is_answered;
	int rc;
	char error[CLEAVE_ERROR_BYTES_MAX];
	struct cleave_volume_entry volume;
	struct cleave_gateway_entry gateway;
	struct cleave_node_entry node;
	struct cleave_shard_entry shard;
	struct cleave_gateway_status status;
	struct cleave_cluster_level level;
	char last[CLEAVE_NAME_BYTES_MAX + 1]; /* of a page */
	uint32_t count;
	bool is_more;
};

static void
world_init(struct world *w)
{
	const char *gateways[] = { "sim://gateway:7100" };
	struct cleave_client_options options = { .gateways = gateways, .gateway_count = 1 };

	memset(w, 0, sizeof(*w));
	sg_init(&w->sg, 1);
	cr_assert(sg_start(&w->sg) == 0, "%s", w->sg.error);
	options.loop = w->sg.client_loop;
	options.sim_host = w->sg.client_host;
	cr_assert(cleave_client_create(&options, &w->client, w->error) == 0, "%s", w->error);
}

static void
world_fini(struct world *w)
{
	cleave_client_destroy(w->client);
	sg_fini(&w->sg);
}

static bool
is_answered(void *arg)
{
	return ((struct world *)arg)->is_answered;
}

static void
answered(struct world *w, int rc, const char *error)
{
	w->rc = rc;
	w->is_answered = true;
	(void)snprintf(w->error, sizeof(w->error), "%s", error == NULL ? "" : error);
}

static void
on_done(struct cleave_ask *ask, int rc, const char *error, void *arg)
{
	(void)ask;
	answered(arg, rc, error);
}

static void
on_volume(struct cleave_ask *ask, int rc, const struct cleave_volume_entry *volume,
    const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	if (volume != NULL)
		w->volume = *volume;
	answered(w, rc, error);
}

static void
on_volumes(struct cleave_ask *ask, int rc, const struct cleave_volume_page *page, const char *error,
    void *arg)
{
	struct world *w = arg;

	(void)ask;
	if (page != NULL) {
		w->count += page->volume_count;
		w->is_more = page->is_more;
		memcpy(w->last, page->volumes[page->volume_count - 1].info.name, sizeof(w->last));
	}
	answered(w, rc, error);
}

static void
on_snapshot(struct cleave_ask *ask, int rc, const struct cleave_snapshot *snapshot,
    const char *error, void *arg)
{
	(void)ask;
	(void)snapshot;
	answered(arg, rc, error);
}

static void
on_snapshots(struct cleave_ask *ask, int rc, const struct cleave_snapshot_page *page,
    const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	if (page != NULL)
		w->count = page->snapshot_count;
	answered(w, rc, error);
}

static void
on_gateways(struct cleave_ask *ask, int rc, const struct cleave_gateway_entry *gateways,
    uint32_t count, const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	w->count = count;
	if (count > 0)
		w->gateway = gateways[0];
	answered(w, rc, error);
}

static void
on_nodes(struct cleave_ask *ask, int rc, const struct cleave_node_entry *nodes, uint32_t count,
    const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	w->count = count;
	if (count > 0)
		w->node = nodes[0];
	answered(w, rc, error);
}

static void
on_shards(struct cleave_ask *ask, int rc, const struct cleave_shard_entry *shards, uint32_t count,
    const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	w->count = count;
	if (count > 0)
		w->shard = shards[0];
	answered(w, rc, error);
}

static void
on_status(struct cleave_ask *ask, int rc, const struct cleave_gateway_status *status,
    const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	if (status != NULL)
		w->status = *status;
	answered(w, rc, error);
}

static void
on_level(struct cleave_ask *ask, int rc, const struct cleave_cluster_level *level,
    const char *error, void *arg)
{
	struct world *w = arg;

	(void)ask;
	if (level != NULL)
		w->level = *level;
	answered(w, rc, error);
}

/* Waits for the outcome of @started, a call's result. */
static int
finish(struct world *w, int started)
{
	cr_assert(started == 0, "start: %d", started);
	cr_assert(sg_run(&w->sg, is_answered, w), "no answer");
	w->is_answered = false;
	return w->rc;
}
#define RUN(w, call, ...) finish((w), call((w)->client, &(w)->ask, __VA_ARGS__, (w)))

static void
create(struct world *w, const char *name)
{
	const struct cleave_volume_options options = {
		.name = name,
		.size_bytes = NUM_MIB(1),
		.service_class = CLEAVE_SERVICE_LATENCY,
		.engine = "deflate",
		.has_level = true,
		.level = 1,
		.replicas = 2,
	};

	cr_assert(RUN(w, cleave_volume_create, &options, on_volume) == 0, "%s", w->error);
}

Test(manage_gateway, a_volume_lives)
{
	struct world w;

	world_init(&w);
	create(&w, "v");
	cr_assert_str_eq(w.volume.info.name, "v");
	cr_assert(w.volume.info.size_bytes == NUM_MIB(1));
	cr_assert(w.volume.info.service_class == CLEAVE_SERVICE_LATENCY);
	cr_assert_str_eq(w.volume.info.engine, "deflate");
	cr_assert(w.volume.info.level == 1 && w.volume.info.replicas == 2);
	cr_assert(RUN(&w, cleave_volume_rename, "v", "w", on_volume) == 0, "%s", w.error);
	cr_assert_str_eq(w.volume.info.name, "w");
	cr_assert(RUN(&w, cleave_volume_show, "v", on_volume) == -ENOENT);
	cr_assert(w.error[0] != '\0');
	cr_assert(RUN(&w, cleave_volume_set_size, "w", NUM_MIB(2), 0, on_volume) == 0, "%s",
	    w.error);
	cr_assert(w.volume.info.size_bytes == NUM_MIB(2));
	cr_assert(RUN(&w, cleave_volume_set_size, "w", 4096, 0, on_volume) == -EINVAL, "%d", w.rc);
	cr_assert(RUN(&w, cleave_volume_set_size, "w", 4096,
		      CLEAVE_MANAGE_SHRINK | CLEAVE_MANAGE_CHECK, on_volume) == 0,
	    "%s", w.error);
	cr_assert(w.volume.info.size_bytes == NUM_MIB(2), "it was only asked");
	cr_assert(RUN(&w, cleave_volume_show, "w", on_volume) == 0, "%s", w.error);
	cr_assert(w.volume.info.size_bytes == NUM_MIB(2));
	cr_assert(!w.volume.has_writer && w.volume.origin == 0);
	cr_assert(RUN(&w, cleave_volume_delete, "w", CLEAVE_MANAGE_SNAPSHOTS, on_done) == 0, "%s",
	    w.error);
	cr_assert(RUN(&w, cleave_volume_delete, "w", CLEAVE_MANAGE_FORCE, on_done) == -ENOENT);
	world_fini(&w);
}

Test(manage_gateway, volumes_are_listed_page_by_page)
{
	struct world w;
	char name[16];

	world_init(&w);
	for (int i = 0; i < VOLUMES; i++) {
		(void)snprintf(name, sizeof(name), "v%03d", i);
		create(&w, name);
	}
	cr_assert(RUN(&w, cleave_volume_list, NULL, on_volumes) == 0, "%s", w.error);
	cr_assert(w.is_more && w.count < VOLUMES);
	cr_assert(RUN(&w, cleave_volume_list, w.last, on_volumes) == 0, "%s", w.error);
	cr_assert(!w.is_more && w.count == VOLUMES);
	cr_assert_str_eq(w.last, name);
	world_fini(&w);
}

/* Taking one needs nodes, which this gateway has not; its requests are understood all the same. */
Test(manage_gateway, snapshots_are_asked_for)
{
	struct world w;

	world_init(&w);
	create(&w, "v");
	w.count = 1;
	cr_assert(RUN(&w, cleave_snapshot_list, "v", 3, on_snapshots) == 0, "%s", w.error);
	cr_assert(w.count == 0);
	cr_assert(RUN(&w, cleave_snapshot_list, "w", 0, on_snapshots) == -ENOENT);
	cr_assert(RUN(&w, cleave_snapshot_create, "w@s", on_snapshot) == -ENOENT, "%d", w.rc);
	cr_assert(RUN(&w, cleave_snapshot_create, "w", on_snapshot) == -EINVAL, "%d", w.rc);
	cr_assert(RUN(&w, cleave_snapshot_delete, "v@s", on_done) == -ENOENT, "%d", w.rc);
	cr_assert(RUN(&w, cleave_snapshot_rollback, "v@s",
		      CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SHRINK, on_volume) == -ENOENT,
	    "%d", w.rc);
	cr_assert(strstr(w.error, "snapshot") != NULL, "%s", w.error);
	cr_assert(RUN(&w, cleave_snapshot_clone, "v@s", "c", on_volume) == -ENOENT, "%d", w.rc);
	world_fini(&w);
}

Test(manage_gateway, the_cluster_is_told)
{
	struct world w;

	world_init(&w);
	create(&w, "v");
	cr_assert(RUN(&w, cleave_gateway_list, on_gateways) == 0, "%s", w.error);
	cr_assert(w.count == 1 && w.gateway.is_asked && w.gateway.port_count > 0);
	cr_assert_str_eq(w.gateway.address, "sim://gateway:7100");
	cr_assert(RUN(&w, cleave_node_list, on_nodes) == 0, "%s", w.error);
	cr_assert(w.count == w.sg.options.node_count);
	cr_assert_str_eq(w.node.address, "sim://node1:7200");
	cr_assert(RUN(&w, cleave_shard_list, on_shards) == 0, "%s", w.error);
	cr_assert(w.count > 0 && w.shard.state[0] != '\0');
	cr_assert(RUN(&w, cleave_gateway_status, on_status) == 0, "%s", w.error);
	cr_assert(w.status.cluster_id == SG_CLUSTER_ID && w.status.id == w.gateway.id);
	cr_assert(w.status.volume_count == 1 && w.status.gateway_count == 1);
	cr_assert(w.status.shard_count == w.count);
	cr_assert(w.status.level == 1 && w.gateway.level_min == 1 && w.gateway.level_max > 1);
	world_fini(&w);
}

/* There are no nodes, so nobody knows what they speak. */
Test(manage_gateway, level_is_told_and_kept)
{
	static const char *const without[] = { "sim://node1:7200" };
	struct world w;

	world_init(&w);
	create(&w, "v");
	cr_assert(RUN(&w, cleave_cluster_level, NULL, 0, on_level) == 0, "%s", w.error);
	cr_assert(w.level.level == 1 && w.level.from == 1 && w.level.next == 2);
	cr_assert(w.level.missing_count == w.sg.options.node_count);
	cr_assert_not_null(strstr(w.level.missing, "node at sim://node1:7200 is not up"));
	cr_assert(RUN(&w, cleave_cluster_level, without, 1, on_level) == 0, "%s", w.error);
	cr_assert(w.level.missing_count == w.sg.options.node_count - 1);
	cr_assert(RUN(&w, cleave_cluster_upgrade, NULL, 0, on_level) == -ENOTSUP, "%d", w.rc);
	cr_assert_not_null(strstr(w.error, "not upgraded to level 2"), "%s", w.error);
	cr_assert(RUN(&w, cleave_gateway_status, on_status) == 0 && w.status.level == 1);
	world_fini(&w);
}
