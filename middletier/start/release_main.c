/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release_main.c -- `cleave-gateway --release` from its beginning to its end, on a loop of its own
 *
 * For a service manager, which knows that a process has ended before anybody else does. It names a gateway; that
 * its process is dead is looked up by the store.
 */
#include "start/release_main.h"

#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "meta/meta_open.h"
#include "start/gateway_id.h"
#include "start/store_path.h"

#define TEXT_BYTES 512

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
	struct loop *loop;
	int rc = mt_meta_where_check(where); /* nothing is made where there is no store */

	assert(where->gateway_id == 0); /* this process is none */
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
