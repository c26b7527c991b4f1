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
#include "meta/meta_lmdb.h"
#include "start/creation.h"
#include "start/creation_main.h"
#include "start/starting.h"

#define ERROR_BYTES 512
#define PATH_BYTES 4096

struct creation_process {
	struct loop *loop;
	const char *meta_path;
	struct meta *meta;
	int rc;
};

/* Anything but "it is not there" is for who opens it to say. */
static bool
main_has_store(const char *meta_path)
{
	char file[PATH_BYTES];

	if (snprintf(file, sizeof(file), "%s/data.mdb", meta_path) >= (int)sizeof(file))
		return true;
	return access(file, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int
mt_meta_path_check(const char *meta_path)
{
	if (main_has_store(meta_path))
		return 0;
	log_error("gateway: " MT_NO_CLUSTER_TEXT, meta_path);
	return -ENOENT;
}

static void
main_on_done(int rc, const char *text, void *arg)
{
	struct creation_process *process = arg;

	process->rc = rc;
	if (rc == 0)
		log_info("create: %s meta=%s", text, process->meta_path);
	else
		log_error("create: %s: %s", process->meta_path, text);
	loop_stop(process->loop);
}

static struct meta *
main_open(char *ret_error, size_t error_bytes, void *arg)
{
	struct creation_process *process = arg;

	process->meta = meta_lmdb_open(process->loop, process->meta_path, ret_error, error_bytes);
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
mt_creation_main(const struct mt_gateway_options *gateway, const char *meta_path)
{
	struct creation_process process = { .loop = loop_ev_create(0), .meta_path = meta_path };
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
	if (main_has_store(meta_path))
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
