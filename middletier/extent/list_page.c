/* SPDX-License-Identifier: Apache-2.0 */
/* list_page.c -- see list_page.h: the only reader of LIST entries on this side of the wire */
#include "extent/list_page.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "extent/node_link.h"

#define LIST_ENTRIES 64u /* copied to host memory at a time */

struct list_walk {
	struct mt_port *port;
	dev_ptr payload;
	uint32_t count;
	uint32_t shard;
	mt_listed_fn fn; /* NULL: check alone */
	void *arg;
};

static int
list_walk(const struct list_walk *walk, const char **ret_field)
{
	struct wire_extent_entry entries[LIST_ENTRIES];
	struct wire_listed listed;
	int rc = 0;

	for (uint32_t at = 0; at < walk->count && rc == 0; at += LIST_ENTRIES) {
		uint32_t here = (uint32_t)num_min(walk->count - at, LIST_ENTRIES);

		dev_copy_to_host(walk->port->split, entries,
		    dev_ptr_add(walk->payload, (uint64_t)at * sizeof(entries[0])),
		    here * sizeof(entries[0]));
		for (uint32_t i = 0; i < here && rc == 0; i++) {
			rc = wire_listed_decode(&entries[i], walk->shard, &listed, ret_field);
			if (rc == 0 && walk->fn != NULL)
				rc = walk->fn(&listed, walk->arg);
		}
	}
	return rc;
}

int
mt_list_page(struct mt_port *port, const struct mt_call *call, const struct wire_node_reply *reply,
    const struct split_msg *msg, mt_listed_fn fn, void *arg)
{
	struct list_walk walk = { .port = port, .shard = call->request.id.shard };
	const char *field = "";
	int rc;

	assert(call->request.opcode == WIRE_EXTENT_LIST);
	assert(fn != NULL);
	if (msg != NULL) {
		walk.payload = msg->payload;
		walk.count = msg->payload_bytes / (uint32_t)sizeof(struct wire_extent_entry);
	}
	rc = wire_list_check_cursor(call->request.offset_bytes, walk.count, reply->offset_bytes,
	    &field);
	if (rc == 0)
		rc = list_walk(&walk, &field);
	if (rc != 0) {
		log_limited(LOG_ERROR,
		    "node %" PRIu32 ": its list of extents is not believed, field=%s is wrong: "
		    "are its disk and its program whole? address=%s",
		    call->node->node_id, field, call->node->config.address);
		return rc;
	}
	walk.fn = fn;
	walk.arg = arg;
	return list_walk(&walk, &field);
}
