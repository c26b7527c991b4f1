/* SPDX-License-Identifier: Apache-2.0 */
/* read_hops.c -- how long a read took: counted, and kept where it was long */
#include "read/read_hops.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/hops.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/slow_op.h"
#include "extent/call.h"
#include "extent/node_link.h"
#include "read/read_path.h"
#include "session/rates.h"
#include "session/session.h"
#include "session/slow_request.h"

void
mt_read_hops_answer(struct mt_read *read, const struct mt_call *call, int rc)
{
	uint64_t now_ns = loop_now_ns(call->node->port->loop);

	mt_read_hops_node(read, call->node, now_ns > call->sent_ns ? now_ns - call->sent_ns : 1,
	    rc);
}

void
mt_read_hops_node(struct mt_read *read, const struct mt_link *node, uint64_t took_ns, int rc)
{
	assert(rc <= 0 && node != NULL);
	if (took_ns <= read->node.took_ns)
		return;
	read->node = (struct mt_slow_part){ .node_id = node->node_id,
		.is_lost = rc != 0,
		.took_ns = took_ns };
}

static void
read_keep_slow(const struct mt_read *read, uint64_t total_ns, int rc)
{
	struct mt_slow_op op = { .hops_ns = { [MT_WRITE_HOP_TOTAL] = total_ns } };

	if (read->node.took_ns > 0)
		mt_slow_op_add_node(&op, &read->node);
	mt_slow_request(&op, read->session, &read->io, rc);
}

void
mt_read_hops_end(const struct mt_read *read, int rc)
{
	struct mt_port *port = read->shard->port;
	uint64_t now_ns = loop_now_ns(port->loop);
	uint64_t slow_ns = atomic_load_explicit(&port->shared->slow_op_ns, memory_order_relaxed);
	uint64_t total_ns = now_ns > read->taken_ns ? now_ns - read->taken_ns : 0;

	assert(read->session->port == port);
	if (rc == 0 && read->io.opcode == WIRE_READ)
		mt_hops_read(&port->hops, now_ns, read->session->volume.service_class,
		    read->node.took_ns, total_ns);
	if (read->io.opcode == WIRE_READ)
		mt_rate_add(read->session->rate, MT_RATE_READ, now_ns, total_ns,
		    read->io.length_bytes, rc);
	if (slow_ns != 0 && total_ns >= slow_ns)
		read_keep_slow(read, total_ns, rc);
}
