/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_main.c -- `cleave-gateway --recover` from its beginning to its end, on a loop of its own */
#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "rebuild/rebuild.h"
#include "rebuild/rebuild_main.h"
#include "start/store_path.h"

#define ERROR_BYTES 512

struct rebuild_process {
	struct loop *loop;
	const struct meta_where *where;
	struct meta *meta;
	int rc;
};

static void
main_on_done(int rc, const char *text, void *arg)
{
	struct rebuild_process *process = arg;

	assert(rc <= 0 && text[0] != '\0');
	process->rc = rc;
	if (rc == 0)
		log_info("recover: done: %s", text);
	else
		log_error("recover: %s", text);
	loop_stop(process->loop);
}

static struct meta *
main_open(char *ret_error, size_t error_bytes, void *arg)
{
	struct rebuild_process *process = arg;

	assert(process->meta == NULL);
	process->meta = meta_open(process->where, process->loop, ret_error, error_bytes);
	return process->meta;
}

/*
 * The store as it is; where there is none, none is made for a recovery that may yet be refused. An etcd is always
 * opened here: it cannot be from a handler.
 */
static int
main_begin(struct rebuild_process *process, char *ret_error, size_t error_bytes)
{
	assert(process->meta == NULL);
	if (!mt_store_path_has_store(process->where))
		return mt_store_path_check_new(process->where, ret_error, error_bytes);
	return main_open(ret_error, error_bytes, process) == NULL ? -EIO : 0;
}

static int
main_run(struct rebuild_process *process, const struct mt_rebuild_options *options)
{
	char error[ERROR_BYTES];
	struct mt_rebuild *rebuild = mt_rebuild_start(options, error, sizeof(error));

	if (rebuild == NULL) {
		log_error("recover: %s", error);
		return -1;
	}
	(void)loop_run(process->loop, NULL, NULL);
	mt_rebuild_destroy(rebuild);
	return process->rc;
}

int
mt_rebuild_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool is_forced, bool must_take)
{
	struct rebuild_process process = { .loop = loop_ev_create(0), .where = where };
	struct mt_rebuild_options options = { .gateway = *gateway,
		.is_forced = is_forced,
		.must_take = must_take,
		.open = main_open,
		.fn = main_on_done,
		.arg = &process };
	char error[ERROR_BYTES];
	int rc = -1;

	assert(gateway->cluster_id != 0 && !store_id_is_zero(&gateway->store_id));
	if (process.loop == NULL) {
		log_error(
		    "recover: an event loop cannot be made: no memory, or no descriptors are left");
		return rc;
	}
	options.gateway.loop = process.loop;
	if (main_begin(&process, error, sizeof(error)) != 0) {
		log_error("recover: metadata store: %s", error);
	} else {
		options.gateway.meta = process.meta;
		rc = main_run(&process, &options);
	}
	if (process.meta != NULL)
		process.meta->ops->close(process.meta);
	loop_destroy(process.loop);
	return rc;
}
