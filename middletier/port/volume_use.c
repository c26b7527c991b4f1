/* SPDX-License-Identifier: Apache-2.0 */
/* volume_use.c -- what a port's shards hold of every volume, by the counters of their indexes; and its sessions */
#include "port/volume_use.h"

#include <stdio.h>

#include "base/check.h"
#include "base/list.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "index/index.h"
#include "index/segment.h"
#include "session/session.h"

static void
use_count_segment(const struct mt_segment *segment, void *arg)
{
	uint32_t *count = arg;

	assert(segment->chunk_count > 0);
	++*count;
}

static void
use_add_segment(const struct mt_segment *segment, void *arg)
{
	struct mt_volume_use *use = arg;

	assert(use->segments != NULL);
	use->segments[use->segment_count++] = (struct mt_segment_use){ .segment = segment->number,
		.stored_bytes = segment->layer_bytes + segment->run_bytes };
}

static const struct mt_index *
use_index(const struct mt_shard *shard)
{
	return shard->sm.state == MT_SHARD_SERVING ? shard->block_index : NULL;
}

static void
use_take_segments(const struct mt_port *port, struct mt_volume_use *use)
{
	uint32_t count = 0;

	assert(use->segments == NULL);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		const struct mt_index *index = use_index(&port->shards[i]);

		use->shard_count += index != NULL;
		if (index != NULL)
			mt_segments_each(index, use_count_segment, &count);
	}
	if (count == 0)
		return;
	use->segments = mt_calloc(count, sizeof(*use->segments));
	use->is_incomplete = use->is_incomplete || use->segments == NULL;
	for (uint32_t i = 0; i < port->shard_count && use->segments != NULL; i++) {
		const struct mt_index *index = use_index(&port->shards[i]);

		if (index != NULL)
			mt_segments_each(index, use_add_segment, use);
	}
	assert(use->segments == NULL || use->segment_count == count);
}

static bool
use_has(const struct mt_session *session)
{
	return session->hello.volume_id != 0 && mt_session_is_live(session);
}

static void
use_take_sessions(const struct mt_port *port, struct mt_volume_use *use)
{
	const struct loop_link *link;
	uint32_t count = 0;

	assert(use->sessions == NULL);
	for (link = port->sessions.next; link != &port->sessions; link = link->next)
		count += use_has(LIST_ENTRY(link, struct mt_session, link));
	if (count == 0)
		return;
	use->sessions = mt_calloc(count, sizeof(*use->sessions));
	use->is_incomplete = use->is_incomplete || use->sessions == NULL;
	for (link = port->sessions.next; link != &port->sessions && use->sessions != NULL;
	     link = link->next) {
		const struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);
		struct mt_session_use *to = &use->sessions[use->session_count];

		if (!use_has(session))
			continue;
		*to = (struct mt_session_use){ .volume_id = session->hello.volume_id,
			.attach = session->hello.attach,
			.session_id = session->hello.session_id,
			.is_reader = mt_session_is_reader(session) };
		(void)snprintf(to->peer, sizeof(to->peer), "%s", split_qp_peer(session->qp));
		use->session_count++;
	}
	assert(use->sessions == NULL || use->session_count == count);
}

void
mt_volume_use_take(const struct mt_port *port, struct mt_volume_use *ret_use)
{
	*ret_use = (struct mt_volume_use){ .segments = NULL };
	use_take_segments(port, ret_use);
	use_take_sessions(port, ret_use);
}

void
mt_volume_use_fini(struct mt_volume_use *use)
{
	assert(use->segments != NULL || use->segment_count == 0);
	mt_free(use->segments);
	mt_free(use->sessions);
	*use = (struct mt_volume_use){ .segments = NULL };
}
