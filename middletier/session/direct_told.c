/* SPDX-License-Identifier: Apache-2.0 */
/* direct_told.c -- see direct_told.h */
#include "session/direct_told.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/scope.h"
#include "cleave/lease_read.h"
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
#include "index/chunk.h"
#include "index/heat.h"
#include "index/index.h"
#include "session/rates.h"
#include "session/read_lease.h"
#include "session/session.h"

/* NULL: nobody serves it here. */
static const struct mt_shard *
told_shard(const struct mt_port *port, uint64_t packed)
{
	const struct extent_id id = extent_id_unpack(packed);
	const struct mt_shard *shard = port->shard_by_number == NULL ||
		id.shard >= port->cluster->shard_count
	    ? NULL
	    : port->shard_by_number[id.shard];

	return shard == NULL || shard->sm.state != MT_SHARD_SERVING ? NULL : shard;
}

/* NULL: nobody serves it here, or it has gone. */
static struct mt_extent *
told_extent(const struct mt_port *port, uint64_t packed)
{
	const struct extent_id id = extent_id_unpack(packed);
	const struct mt_shard *shard = told_shard(port, packed);

	return shard == NULL ? NULL : mt_shard_extent_named(shard, &id);
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

/* ---- runs ---- */

/* The run of @chunk that @read names; NULL: it has gone, or @span does not show it. */
static struct mt_run *
told_run(const struct mt_chunk *chunk, const struct mt_span *span,
    const struct wire_lease_read *read)
{
	const struct mt_shard *shard = chunk->index->shard;

	for (struct loop_link *link = chunk->runs.next; link != &chunk->runs; link = link->next) {
		struct mt_run *run = mt_run_of(link);
		const struct mt_extent *extent = run->offset_bytes == read->from_bytes
		    ? mt_shard_extent(shard, run->extent_index)
		    : NULL;

		if (extent != NULL && extent_id_pack(&extent->id) == read->extent &&
		    mt_span_shows(span, run->cut))
			return run;
	}
	return NULL;
}

static void
told_read(const struct mt_session *session, const struct wire_lease_read *read)
{
	const struct mt_scope *scope = &session->volume.scope;
	const struct mt_shard *shard = told_shard(session->port, read->extent);
	uint64_t in_volume = read->segment - scope->spans[0].segment_base;
	struct mt_run *run = NULL;

	if (shard == NULL || read->segment < scope->spans[0].segment_base ||
	    in_volume > (session->volume.size_bytes - 1) / CLEAVE_SEGMENT_BYTES)
		return;
	for (uint32_t i = 0; i < scope->span_count && run == NULL; i++) {
		const struct mt_span *span = &scope->spans[i];
		const struct mt_chunk *chunk = mt_index_chunk(shard->block_index,
		    (span->segment_base + in_volume) * CLEAVE_SEGMENT_CHUNKS + read->chunk);

		run = chunk == NULL ? NULL : told_run(chunk, span, read);
	}
	if (run == NULL)
		return;
	metric_add(&session->port->metrics[MT_METRIC_direct_heated], 1);
	mt_heat_on_reads(run,
	    &(struct mt_heat_reads){ .bytes = (uint64_t)read->stored_bytes * WIRE_LEASE_SAMPLE,
		.read_count = read->read_count,
		.small_count = read->small_count,
		.codec_id = read->codec_id });
}

/* 0, or -EPROTO and what was wrong. A capacity volume wants its space: its reads warm nothing (read/read_ahead.c). */
static int
told_runs(struct mt_session *session, const struct split_msg *msg, const struct wire_lease *lease,
    const char **ret_field)
{
	uint64_t now_ns = loop_now_ns(session->port->loop);
	uint8_t bytes[WIRE_LEASE_READS_BYTES_MAX];
	struct wire_lease_read read;

	assert(lease->payload_bytes <= sizeof(bytes));
	if (session->volume.service_class == SERVICE_CAPACITY ||
	    (session->heated_ns != 0 && now_ns - session->heated_ns < MT_DIRECT_HEAT_NS))
		return 0;
	session->heated_ns = now_ns;
	dev_copy_to_host(session->port->split, bytes, msg->payload, lease->payload_bytes);
	if (!wire_lease_reads_are_whole(bytes, lease->payload_bytes))
		return 0;
	for (uint32_t at = WIRE_LEASE_READS_HEAD_BYTES; at < lease->payload_bytes;
	     at += WIRE_LEASE_READ_BYTES) {
		if (wire_lease_read_decode(bytes + at, &read, ret_field) != 0)
			return -EPROTO;
		told_read(session, &read);
	}
	return 0;
}

int
mt_direct_told(struct mt_session *session, const struct split_msg *msg,
    const struct wire_lease *lease, const char **ret_field)
{
	struct mt_port *port = session->port;

	assert(!lease->is_reply);
	if (!mt_read_lease_may_be_had(session) || session->volume.reads != MT_READS_DIRECT)
		return 0;
	metric_add(&port->metrics[MT_METRIC_direct_reads], lease->read_count);
	metric_add(&port->metrics[MT_METRIC_direct_read_bytes], lease->read_bytes);
	mt_rate_add_direct(session->rate, loop_now_ns(port->loop), lease->read_count,
	    lease->read_bytes);
	if (lease->suspect != 0)
		told_suspect(session, lease);
	return lease->payload_bytes == 0 ? 0 : told_runs(session, msg, lease, ret_field);
}
