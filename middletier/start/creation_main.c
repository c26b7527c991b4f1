/* SPDX-License-Identifier: Apache-2.0 */
/* creation_main.c -- `cleave-gateway --create` from its beginning to its end, on a loop of its own */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "start/creation.h"
#include "start/creation_main.h"
#include "start/starting.h"

#define ERROR_BYTES 512
#define PATH_BYTES 4096

struct creation_process {
	struct loop *loop;
	const struct meta_where *where;
	struct meta *meta;
	int rc;
};

/* Anything but "it is not there" is for who opens it to say. An etcd is there before any cluster. */
static bool
main_has_store(const struct meta_where *where)
{
	const char *directory = meta_where_directory(where);
	char file[PATH_BYTES];

	if (directory == NULL)
		return true;
	if (snprintf(file, sizeof(file), "%s/data.mdb", directory) >= (int)sizeof(file))
		return true;
	return access(file, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int
mt_meta_where_check(const struct meta_where *where)
{
	if (main_has_store(where))
		return 0;
	log_error("gateway: " MT_NO_CLUSTER_TEXT, where->place);
	return -ENOENT;
}

static void
main_on_done(int rc, const char *text, void *arg)
{
	struct creation_process *process = arg;

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

	process->meta = meta_open(process->where, process->loop, ret_error, error_bytes);
	return process->meta;
}

static int
main_run(struct creation_process *process, const struct mt_creation_options *options)
{
	char error[ERROR_BYTES];
	struct mt_creation *creation = mt_creation_start(options, error, sizeof(error));

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

	if (process.loop == NULL) {
		log_error("create: no event loop");
		return rc;
	}
	options.gateway.loop = process.loop;
	/* A directory is made when the cluster is, and not for one that is refused. */
	if (main_has_store(where))
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
