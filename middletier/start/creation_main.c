/* SPDX-License-Identifier: Apache-2.0 */
/* creation_main.c -- `cleave-gateway --create` from its beginning to its end, on a loop of its own */

#include "start/creation_main.h"
#include "base/check.h"
#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "start/creation.h"
#include "start/store_path.h"

#define ERROR_BYTES 512

struct creation_process {
	struct loop *loop;
	const struct meta_where *where;
	struct meta *meta;
	int rc;
};

static void
main_on_done(int rc, const char *text, void *arg)
{
	struct creation_process *process = arg;

	assert(rc <= 0 && text[0] != '\0');
	process->rc = rc;
	if (rc == 0)
		log_info("create: %s meta=%s", text, process->where->place);
	else
		log_error("create: %s: %s", process->where->place, text);
	loop_stop(process->loop);
}

static struct meta *
main_open(char *ret_error, size_t error_bytes, void *arg)
{
	struct creation_process *process = arg;

	assert(process->meta == NULL);
	process->meta = meta_open(process->where, process->loop, ret_error, error_bytes);
	return process->meta;
}

static int
main_run(struct creation_process *process, const struct mt_creation_options *options)
{
	char error[ERROR_BYTES];
	struct mt_creation *creation = mt_creation_start(options, error, sizeof(error));

	assert(options->gateway.loop == process->loop);
	if (creation == NULL) {
		log_error("create: %s", error);
		return -1;
	}
	(void)loop_run(process->loop, NULL, NULL);
	mt_creation_destroy(creation);
	return process->rc;
}

int
mt_creation_main(const struct mt_gateway_options *gateway, const struct meta_where *where)
{
	struct creation_process process = { .loop = loop_ev_create(0), .where = where };
	struct mt_creation_options options = { .gateway = *gateway,
		.open = main_open,
		.fn = main_on_done,
		.arg = &process };
	char error[ERROR_BYTES] = "";
	int rc = -1;

	assert(gateway->cluster_id != 0);
	assert(gateway->meta == NULL);
	if (process.loop == NULL) {
		log_error(
		    "create: an event loop cannot be made: no memory, or no descriptors are left");
		return rc;
	}
	options.gateway.loop = process.loop;
	/* A directory is made when the cluster is, and not for one that is refused. */
	if (mt_store_path_has_store(where))
		options.gateway.meta = main_open(error, sizeof(error), &process);
	if (error[0] != '\0')
		log_error("create: metadata store: %s", error);
	else
		rc = main_run(&process, &options);
	if (process.meta != NULL)
		process.meta->ops->close(process.meta);
	loop_destroy(process.loop);
	return rc;
}
