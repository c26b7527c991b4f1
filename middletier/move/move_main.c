/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move_main.c -- `cleave-gateway --dump`, `--load` and `--move-to` from their beginnings to their ends
 *
 *	--dump     open --> all keys --> a text --> standard output
 *	--load     standard input --> checked, whole --> rebuild.h, as a copy of those keys
 *	--move-to  open --> all keys --> rebuild.h, as a copy of those keys; when all is good, and before
 *	           the first key is written, the source ends
 */
#include "move/move_main.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/place.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "meta/etcd_json.h"
#include "meta/meta_open.h"
#include "move/dump.h"
#include "move/source.h"
#include "rebuild/rebuild.h"
#include "rebuild/rebuild_copy.h"
#include "start/store_path.h"

#define ERROR_BYTES 512
#define READ_BYTES ((size_t)1 << 20)

struct move_process {
	const char *name; /* "dump", "load", "move": of what the log has */
	struct loop *loop;
	const struct meta_where *to; /* --load, --move-to */
	struct meta *meta;           /* there; NULL: not open */
	struct mt_source source;     /* --dump, --move-to */
	struct mt_rebuild *rebuild;
	bool is_answered;
	int rc;
};

static bool
move_is_answered(void *arg)
{
	return ((struct move_process *)arg)->is_answered;
}

/* ---- the source ---- */

static void
move_on_source(int rc, const char *text, void *arg)
{
	struct move_process *process = arg;

	assert(rc <= 0);
	assert(!process->is_answered);
	process->rc = rc;
	process->is_answered = true;
	if (rc != 0)
		log_error("%s: %s", process->name, text);
}

static int
move_open_source(struct move_process *process, const struct meta_where *where, uint64_t cluster_id)
{
	char error[ERROR_BYTES];
	int rc;

	assert(process->loop != NULL && process->source.meta == NULL);
	rc = mt_meta_where_check(where); /* nothing is made where there is no store */
	if (rc != 0)
		return rc;
	process->source = (struct mt_source){ .name = where->place, .cluster_id = cluster_id };
	process->source.meta = meta_open(where, process->loop, error, sizeof(error));
	if (process->source.meta == NULL) {
		log_error("%s: metadata store: %s", process->name, error);
		return -EIO;
	}
	rc = mt_source_load(&process->source, move_on_source, process);
	if (rc != 0) {
		log_error("%s: out of memory", process->name);
		return rc;
	}
	process->is_answered = false;
	process->rc = -EINTR;
	(void)loop_run(process->loop, move_is_answered, process);
	return process->rc;
}

static int
move_begin(struct move_process *process)
{
	assert(process->loop == NULL);
	process->loop = loop_ev_create(0);
	if (process->loop == NULL)
		log_error("%s: an event loop cannot be made: no memory, or no descriptors are left",
		    process->name);
	return process->loop == NULL ? -ENOMEM : 0;
}

static void
move_fini(struct move_process *process)
{
	mt_source_fini(&process->source);
	if (process->source.meta != NULL)
		process->source.meta->ops->close(process->source.meta);
	if (process->meta != NULL)
		process->meta->ops->close(process->meta);
	if (process->loop != NULL)
		loop_destroy(process->loop);
}

/* ---- --dump ---- */

static int
dump_write(const char *bytes, size_t count)
{
	while (count > 0) {
		ssize_t written = write(STDOUT_FILENO, bytes, count);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		bytes += written;
		count -= (size_t)written;
	}
	return 0;
}

static int
dump_source(struct move_process *process)
{
	const struct mt_source *source = &process->source;
	struct etcd_text text = { 0 };
	int rc = mt_dump_encode(&source->keys, &source->cluster, log_wall_s(), &text);

	assert(source->keys.count > 0);
	if (mt_place_is_other(source->meta, &source->cluster))
		log_warn("dump: %s is a copy of a metadata store: the original may be newer",
		    source->name);
	if (source->is_moved)
		log_warn("dump: %s was moved to %s: that one may be newer", source->name,
		    source->moved_to);
	if (source->gateway != NULL)
		log_info("dump: %s is in use, so this is a backup of the moment", source->name);
	if (rc == 0)
		rc = dump_write(text.bytes, text.count);
	if (rc != 0)
		log_error("dump: standard output: %s", strerror(-rc));
	etcd_text_fini(&text);
	return rc;
}

int
mt_dump_main(const struct mt_gateway_options *gateway, const struct meta_where *where)
{
	struct move_process process = { .name = "dump" };
	int rc = move_begin(&process);

	if (rc == 0)
		rc = move_open_source(&process, where, gateway->cluster_id);
	if (rc == 0)
		rc = dump_source(&process);
	move_fini(&process);
	return rc;
}

/* ---- the copy ---- */

static struct meta *
copy_open(char *ret_error, size_t error_bytes, void *arg)
{
	struct move_process *process = arg;

	assert(process->meta == NULL);
	assert(process->to != NULL);
	process->meta = meta_open(process->to, process->loop, ret_error, error_bytes);
	return process->meta;
}

static void
copy_on_done(int rc, const char *text, void *arg)
{
	struct move_process *process = arg;

	assert(rc <= 0 && text[0] != '\0');
	/* Killed between its last two steps, and run again: the next gateway tells the nodes. */
	if (rc == -EALREADY && process->source.is_moved)
		rc = 0;
	process->rc = rc;
	if (rc == 0)
		log_info("%s: done: %s: start gateways with --meta %s", process->name, text,
		    process->to->place);
	else if (process->source.is_moved)
		log_error("%s: %s; %s is marked as moved: run this again when that is mended",
		    process->name, text, process->source.name);
	else
		log_error("%s: %s", process->name, text);
	loop_stop(process->loop);
}

/* The store as it is; where there is none, none is made for a copy that may yet be refused. */
static int
copy_begin(struct move_process *process, char *ret_error, size_t error_bytes)
{
	assert(process->to != NULL && error_bytes > 0);
	if (!mt_store_path_has_store(process->to))
		return mt_store_path_check_new(process->to, ret_error, error_bytes);
	return copy_open(ret_error, error_bytes, process) == NULL ? -EIO : 0;
}

static int
copy_run(struct move_process *process, const struct mt_gateway_options *gateway,
    struct mt_rebuild_copy *copy, bool must_take)
{
	struct mt_rebuild_options options = { .gateway = *gateway,
		.must_take = must_take,
		.copy = copy,
		.open = copy_open,
		.fn = copy_on_done,
		.arg = process };
	char error[ERROR_BYTES];

	assert(!store_id_is_zero(&gateway->store_id));
	assert(process->rebuild == NULL);
	if (copy_begin(process, error, sizeof(error)) != 0) {
		log_error("%s: metadata store: %s", process->name, error);
		return -EIO;
	}
	options.gateway.loop = process->loop;
	options.gateway.meta = process->meta;
	process->rebuild = mt_rebuild_start(&options, error, sizeof(error));
	if (process->rebuild == NULL) {
		log_error("%s: %s", process->name, error);
		return -EIO;
	}
	process->rc = -EINTR;
	(void)loop_run(process->loop, NULL, NULL);
	mt_rebuild_destroy(process->rebuild);
	mt_rebuild_copy_fini(copy);
	return process->rc;
}

/* ---- --load ---- */

/* All of it. NULL: it cannot be read, and the log says so. */
static char *
load_read(size_t *ret_bytes)
{
	size_t count = 0, capacity = 0;
	char *text = NULL;

	while (capacity <= MT_DUMP_BYTES_MAX) {
		char *longer = count < capacity ? text : mt_realloc(text, capacity + READ_BYTES);
		ssize_t bytes;

		if (longer == NULL)
			break;
		text = longer;
		capacity += count < capacity ? 0 : READ_BYTES;
		bytes = read(STDIN_FILENO, text + count, capacity - count);
		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0) {
			log_error("load: standard input: %s", strerror(errno));
			mt_free(text);
			return NULL;
		}
		*ret_bytes = count;
		if (bytes == 0)
			return text;
		count += (size_t)bytes;
	}
	log_error("load: standard input: too long for a dump");
	mt_free(text);
	return NULL;
}

/* The whole dump is good, or nothing is begun. */
static int
load_take(struct mt_keys *keys, struct mt_cluster *cluster, uint64_t cluster_id)
{
	char error[ERROR_BYTES] = "out of memory";
	size_t bytes = 0;
	char *text = load_read(&bytes);
	int rc;

	assert(keys->count == 0);
	if (text == NULL)
		return -EIO;
	rc = mt_dump_decode(text, bytes, keys, cluster, error, sizeof(error));
	mt_free(text);
	if (rc != 0) {
		log_error("load: standard input: %s", error);
		return rc;
	}
	if (cluster->cluster_id == cluster_id)
		return 0;
	log_error("load: cluster-id: the dump is of cluster %016" PRIx64 ", not of %016" PRIx64,
	    cluster->cluster_id, cluster_id);
	return -EXDEV;
}

int
mt_load_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool must_take)
{
	struct move_process process = { .name = "load", .to = where };
	struct mt_rebuild_copy copy = { 0 };
	struct mt_keys keys = { 0 };
	int rc = move_begin(&process);

	if (rc == 0)
		rc = load_take(&keys, &copy.cluster, gateway->cluster_id);
	copy.source = &keys;
	if (rc == 0)
		rc = copy_run(&process, gateway, &copy, must_take);
	mt_keys_fini(&keys);
	move_fini(&process);
	return rc;
}

/* ---- --move-to ---- */

static void
move_on_ended(int rc, const char *text, void *arg)
{
	struct move_process *process = arg;

	assert(rc <= 0);
	assert(process->rebuild != NULL);
	if (rc == 0)
		log_warn("move: %s serves nobody any more: it was moved to %s",
		    process->source.name, process->to->place);
	mt_rebuild_settled(process->rebuild, rc, text);
}

static void
move_settle(struct mt_rebuild *rebuild, void *arg)
{
	struct move_process *process = arg;

	assert(rebuild == process->rebuild);
	if (mt_source_end(&process->source, process->to->place, move_on_ended, process) != 0)
		mt_rebuild_settled(rebuild, -ENOMEM, "out of memory");
}

/* May this store be moved? False: the log says why not. */
static bool
move_may(const struct move_process *process)
{
	const struct mt_source *source = &process->source;
	char place[META_PLACE_BYTES];

	assert(source->keys.count > 0);
	if (source->gateway != NULL) {
		log_error("move: %s: a gateway is registered (%s): stop all of them first",
		    source->name, source->gateway);
		return false;
	}
	if (source->is_moved && strcmp(source->moved_to, process->to->place) != 0) {
		log_error("move: " MT_MOVED_TEXT, source->name, source->moved_to, source->moved_to);
		return false;
	}
	if (!mt_place_is_other(source->meta, &source->cluster))
		return true;
	mt_place_of(source->meta, place);
	log_error("move: " MT_PLACE_TEXT, source->name, source->meta->ops->place_how,
	    source->meta->ops->place_what, source->cluster.place, place);
	return false;
}

/* A directory is opened once by a process. */
static bool
move_is_same(const struct meta_where *from, const struct meta_where *to)
{
	const char *here = meta_where_directory(from), *there = meta_where_directory(to);
	struct stat one, other;

	if (here == NULL || there == NULL)
		return strcmp(from->place, to->place) == 0;
	return stat(here, &one) == 0 && stat(there, &other) == 0 && one.st_ino == other.st_ino &&
	    one.st_dev == other.st_dev;
}

int
mt_move_main(const struct mt_gateway_options *gateway, const struct meta_where *from,
    const struct meta_where *to, bool must_take)
{
	struct move_process process = { .name = "move", .to = to };
	struct mt_rebuild_copy copy = { .settle = move_settle, .arg = &process };
	int rc;

	if (move_is_same(from, to)) {
		log_error("move: %s and %s are one store", from->place, to->place);
		return -EINVAL;
	}
	rc = move_begin(&process);
	if (rc == 0)
		rc = move_open_source(&process, from, gateway->cluster_id);
	if (rc == 0 && !move_may(&process))
		rc = -EBUSY;
	copy.source = &process.source.keys;
	copy.cluster = process.source.cluster;
	if (rc == 0)
		rc = copy_run(&process, gateway, &copy, must_take);
	move_fini(&process);
	return rc;
}
