/* SPDX-License-Identifier: Apache-2.0 */
/* direct_told.c -- see direct_told.h */
#include "session/direct_told.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "session/rates.h"
#include "session/read_lease.h"
#include "session/session.h"

/* NULL: nobody serves it here, or it has gone. */
static struct mt_extent *
told_extent(const struct mt_port *port, uint64_t packed)
{
	const struct extent_id id = extent_id_unpack(packed);
	const struct mt_shard *shard = port->shard_by_number == NULL ||
		id.shard >= port->cluster->shard_count
	    ? NULL
	    : port->shard_by_number[id.shard];

	return shard == NULL || shard->sm.state != MT_SHARD_SERVING
	    ? NULL
	    : mt_shard_extent_named(shard, &id);
}

static void
told_suspect(struct mt_session *session, const struct wire_lease *lease)
{
	struct mt_port *port = session->port;
	uint64_t now_ns = loop_now_ns(port->loop);
	struct mt_extent *extent;
	char text[MT_EXTENT_TEXT_BYTES];

	if (session->suspect_ns != 0 && now_ns - session->suspect_ns < MT_DIRECT_SUSPECT_NS)
		return;
	session->suspect_ns = now_ns;
	extent = told_extent(port, lease->suspect);
	if (extent == NULL || mt_extent_replica(extent, lease->suspect_node) < 0)
		return;
	metric_add(&port->metrics[MT_METRIC_replica_read_errors], 1);
	log_limited(LOG_WARN,
	    "read: a client says that a copy is bad, which will be verified node=%" PRIu32
	    " extent=%s volume=%" PRIu64 " peer=%s",
	    lease->suspect_node, mt_extent_text(extent, text), session->hello.volume_id,
	    split_qp_peer(session->qp));
	mt_extent_suspect(extent, lease->suspect_node);
}

void
mt_direct_told(struct mt_session *session, const struct wire_lease *lease)
{
	struct mt_port *port = session->port;

	assert(!lease->is_reply);
	if (!mt_read_lease_may_be_had(session) || session->volume.reads != MT_READS_DIRECT)
		return;
	metric_add(&port->metrics[MT_METRIC_direct_reads], lease->read_count);
	metric_add(&port->metrics[MT_METRIC_direct_read_bytes], lease->read_bytes);
	mt_rate_add_direct(session->rate, loop_now_ns(port->loop), lease->read_count,
	    lease->read_bytes);
	if (lease->suspect != 0)
		told_suspect(session, lease);
}
