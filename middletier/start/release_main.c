/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release_main.c -- `cleave-gateway --release` from its beginning to its end, on a loop of its own
 *
 * For a service manager, which knows that a process has ended before anybody else does. It names a gateway; that
 * its process is dead is looked up by the store.
 */
#include "start/release_main.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "start/gateway_id.h"
#include "start/store_path.h"

#define TEXT_BYTES 512
#define RELEASE_S_MAX 20u

/*
 * A process that is stopped while it changes a store in a directory holds its lock for so long, and whoever wants it
 * waits in the kernel. A service manager that waits for us has better things to do.
 */
static void
release_on_alarm(int number)
{
	static const char text[] =
	    "release: the metadata store's lock is not given back: a process that has it open is stopped. "
	    "Nothing was released: the lease ends with its time\n";

	(void)number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

static int
release_run(const struct mt_gateway_options *options, const struct meta_where *where,
    struct loop *loop)
{
	char text[TEXT_BYTES];
	struct meta *meta = meta_open(where, loop, text, sizeof(text));
	int rc;

	assert(options->gateway_id != 0);
	if (meta == NULL) {
		log_error("release: metadata store: %s", text);
		return -EIO;
	}
	rc = meta_open_release(where, meta, loop, options->gateway_id, text, sizeof(text));
	if (rc == 0)
		log_info("release: %s", text);
	else
		log_error("release: %s", text);
	meta->ops->close(meta);
	return rc;
}

int
mt_release_main(struct mt_gateway_options *options, const struct meta_where *where)
{
	const struct sigaction on_alarm = { .sa_handler = release_on_alarm };
	struct loop *loop;
	int rc = mt_meta_where_check(where); /* nothing is made where there is no store */

	assert(where->gateway_id == 0); /* this process is none */
	(void)sigaction(SIGALRM, &on_alarm, NULL);
	(void)alarm(RELEASE_S_MAX);
	if (rc == 0)
		rc = mt_gateway_ids_take(meta_where_directory(where), options);
	if (rc != 0)
		return rc;
	loop = loop_ev_create(0);
	if (loop == NULL) {
		log_error(
		    "release: an event loop cannot be made: no memory, or no descriptors are left");
		return -ENOMEM;
	}
	rc = release_run(options, where, loop);
	loop_destroy(loop);
	return rc;
}
