/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_hops.c -- how long a write took, hop by hop: counted, and kept where it was long
 *
 * A write is stamped on its way (hops.h). What it shares with others, when it was sent and durable and what the nodes
 * had of that, is its batch's, and is looked up when the write is answered, while the batch is still there. A write whose
 * answer was held back has taken the stamps along, but not the nodes.
 */
#include "write/write_hops.h"

#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/hops.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/slow_op.h"
#include "extent/replicate.h"
#include "session/rates.h"
#include "session/session.h"
#include "session/slow_request.h"
#include "write/write_batch.h"
#include "write/write_path.h"

void
mt_write_hops_leave(struct mt_write *write)
{
	const struct write_batch *batch = write->batch;

	if (batch == NULL)
		return;
	write->stamps.sent_ns = batch->sent_ns;
	write->stamps.durable_ns = batch->durable_ns;
	write->batch = NULL;
}

void
mt_write_hops_resend(struct write_batch *batch)
{
	struct mt_slow_part parts[MT_REPLICAS_MAX];
	uint32_t count = mt_append_parts(&batch->batch, parts);

	for (uint32_t i = 0; i < count; i++) {
		if (parts[i].took_ns >= batch->before.took_ns)
			batch->before = parts[i];
	}
}

/* The write has waited for --slow-op. */
static void
write_keep_slow(const struct mt_write *write, const struct write_batch *batch, int rc,
    const uint64_t hops_ns[MT_WRITE_HOP_NR])
{
	struct mt_slow_op op = { .hops_ns = { 0 } };
	struct mt_slow_part parts[MT_REPLICAS_MAX];
	uint32_t count =
	    batch == NULL || batch->sent_ns == 0 ? 0 : mt_append_parts(&batch->batch, parts);

	for (uint32_t i = 0; i < MT_WRITE_HOP_NR; i++)
		op.hops_ns[i] = hops_ns[i];
	for (uint32_t i = 0; i < count; i++)
		mt_slow_op_add_node(&op, &parts[i]);
	if (batch != NULL && batch->before.node_id != 0)
		mt_slow_op_add_node(&op, &batch->before);
	mt_slow_request(&op, write->session, &write->io, rc);
}

void
mt_write_hops_end(const struct mt_shard *shard, struct mt_write *write, int rc)
{
	struct mt_port *port = shard->port;
	const struct write_batch *batch = write->batch;
	uint64_t now_ns = loop_now_ns(port->loop);
	uint64_t slow_ns = atomic_load_explicit(&port->shared->slow_op_ns, memory_order_relaxed);
	uint64_t hops_ns[MT_WRITE_HOP_NR];

	assert(write->session->port == port);
	mt_write_hops_leave(write);
	mt_hops_of(&write->stamps, now_ns, hops_ns);
	if (rc == 0 && write_has_payload(write))
		mt_hops_write(&port->hops, now_ns, write->session->volume.service_class, hops_ns);
	mt_rate_add(write->session->rate, MT_RATE_WRITE, now_ns, hops_ns[MT_WRITE_HOP_TOTAL],
	    write->io.length_bytes, rc);
	if (slow_ns != 0 && hops_ns[MT_WRITE_HOP_TOTAL] >= slow_ns)
		write_keep_slow(write, batch, rc, hops_ns);
}
