/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_main.c -- `cleave-gateway --recover` from its beginning to its end, on a loop of its own */
#include <string.h>

#include "base/log.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "rebuild/rebuild.h"
#include "rebuild/rebuild_main.h"

#define ERROR_BYTES 512

struct rebuild_process {
	struct loop *loop;
	int rc;
};

static void
main_on_done(int rc, const char *text, void *arg)
{
	struct rebuild_process *process = arg;

	process->rc = rc;
	if (rc == 0)
		log_info("recover: done: %s", text);
	else
		log_error("recover: %s", text);
	loop_stop(process->loop);
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
	struct rebuild_process process = { .loop = loop_ev_create(0) };
	struct mt_rebuild_options options = { .gateway = *gateway,
		.is_forced = is_forced,
		.must_take = must_take,
		.fn = main_on_done,
		.arg = &process };
	char error[ERROR_BYTES];
	int rc = -1;

	if (process.loop == NULL) {
		log_error("recover: no event loop");
		return rc;
	}
	options.gateway.loop = process.loop;
	options.gateway.meta = meta_open(where, process.loop, error, sizeof(error));
	if (options.gateway.meta == NULL) {
		log_error("recover: metadata store: %s", error);
	} else {
		rc = main_run(&process, &options);
		options.gateway.meta->ops->close(options.gateway.meta);
	}
	loop_destroy(process.loop);
	return rc;
}
