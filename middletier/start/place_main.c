/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_main.c -- `cleave-gateway --accept-copy` from its beginning to its end, on a loop of its own
 *
 *	open --> list "cluster" --> compare-and-swap of it, with this place --> end
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/cluster_key.h"
#include "catalog/place.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "start/place_main.h"
#include "start/store_path.h"

#define ERROR_BYTES 512

struct place_process {
	struct loop *loop;
	uint64_t cluster_id;
	const struct meta_where *where;
	const char *meta_path; /* of it */
	struct meta *meta;
	struct mt_cluster cluster; /* as it is to be */
	char old_place[META_PLACE_BYTES];
	int rc;
};

static void
place_end(struct place_process *process, int rc)
{
	assert(rc <= 0);
	process->rc = rc;
	loop_stop(process->loop);
}

static void
place_on_written(int rc, void *arg)
{
	struct place_process *process = arg;

	assert(process->cluster.version != 0);
	if (rc == -EAGAIN)
		log_error("accept-copy: %s: somebody else changes the metadata store: run it again",
		    process->meta_path);
	else if (rc != 0)
		log_error("accept-copy: %s: the metadata store cannot be written: %s",
		    process->meta_path, strerror(-rc));
	else if (process->old_place[0] == '\0')
		log_info("accept-copy: %s: it did not name its place, and does now place=%s",
		    process->meta_path, process->cluster.place);
	else
		log_warn("accept-copy: %s is the metadata store from now on: never start a gateway "
			 "with the original again old_place=%s place=%s",
		    process->meta_path, process->old_place, process->cluster.place);
	place_end(process, rc);
}

/* Reads the key: 0, or it has been said why nothing can be accepted. */
static int
place_read(struct place_process *process, const struct meta_item *item)
{
	struct mt_cluster *cluster = &process->cluster;
	const char *field;
	int rc;

	assert(process->cluster_id != 0);
	rc = mt_cluster_decode(item->value, item->value_bytes, cluster, &field);
	if (rc == -EPROTONOSUPPORT) {
		log_error("accept-copy: %s: %s", process->meta_path, field);
		return rc;
	}
	if (rc != 0) {
		log_error("accept-copy: %s: the key cluster cannot be understood: %s: run cleave "
			  "recover",
		    process->meta_path, field);
		return -EINVAL;
	}
	if (cluster->cluster_id != process->cluster_id) {
		log_error("accept-copy: cluster-id: %s belongs to cluster %016" PRIx64
			  ", not to %016" PRIx64,
		    process->meta_path, cluster->cluster_id, process->cluster_id);
		return -EXDEV;
	}
	cluster->version = item->version;
	memcpy(process->old_place, cluster->place, sizeof(process->old_place));
	return 0;
}

static void
place_on_listed(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct place_process *process = arg;
	struct mt_cluster *cluster = &process->cluster;

	assert(process->cluster.version == 0);
	if (rc != 0) {
		log_error("accept-copy: %s: the metadata store cannot be read: %s",
		    process->meta_path, strerror(-rc));
	} else if (count == 0 || strcmp(items[0].key, "cluster") != 0) {
		rc = -ENOENT;
		log_error("accept-copy: " MT_NO_CLUSTER_TEXT, process->meta_path);
	} else {
		rc = place_read(process, &items[0]);
	}
	if (rc == 0 && cluster->place[0] != '\0' && !mt_place_is_other(process->meta, cluster)) {
		log_info("accept-copy: %s lies where it belongs: nothing to accept place=%s",
		    process->meta_path, cluster->place);
		place_end(process, 0);
		return;
	}
	if (rc == 0) {
		mt_place_of(process->meta, cluster->place);
		rc = mt_cluster_put(process->meta, cluster, place_on_written, process);
		if (rc != 0)
			log_error("accept-copy: %s: the metadata store cannot be written: %s",
			    process->meta_path, strerror(-rc));
	}
	if (rc != 0)
		place_end(process, rc);
}

static int
place_run(struct place_process *process)
{
	char error[ERROR_BYTES];
	int rc;

	assert(process->meta == NULL);
	process->meta = meta_open(process->where, process->loop, error, sizeof(error));
	if (process->meta == NULL) {
		log_error("accept-copy: metadata store: %s", error);
		return -EIO;
	}
	rc = process->meta->ops->list(process->meta, "cluster", place_on_listed, process);
	if (rc != 0)
		log_error("accept-copy: out of memory");
	else
		(void)loop_run(process->loop, NULL, NULL);
	process->meta->ops->close(process->meta);
	return rc != 0 ? rc : process->rc;
}

int
mt_place_main(const struct mt_gateway_options *gateway, const struct meta_where *where)
{
	struct place_process process = { .cluster_id = gateway->cluster_id,
		.where = where,
		.meta_path = where->place };
	int rc = mt_meta_where_check(where); /* nothing is made where there is no store */

	assert(gateway->cluster_id != 0 && meta_where_directory(where) != NULL);
	if (rc != 0)
		return rc;
	process.loop = loop_ev_create(0);
	if (process.loop == NULL) {
		log_error(
		    "accept-copy: an event loop cannot be made: no memory, or no descriptors are "
		    "left");
		return -ENOMEM;
	}
	rc = place_run(&process);
	loop_destroy(process.loop);
	return rc;
}
