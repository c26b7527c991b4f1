/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.c -- a message of a session: checked against its volume and its shard, and passed to who answers it
 *
 *	message --> session lives? --> decode --> ECHO                            answered here
 *	                                     |--> CONTROL                         host->on_control
 *	                                     |--> LEASE                           session/read_lease.c
 *	                                     |--> JOB_, MIRROR_HEADS              port_work.c, port_mirror.c: other gateways'
 *	                                     '--> I/O --> volume, shard, epoch --> limits --> shares --> mt_write, mt_read, mt_holes
 *	                                                        ^                    |          |
 *	                                                        |----- throttle.c <--'          |  over them: held
 *	                                                        '------- shares.c <-------------'  others are first: held
 *
 * Refusals are answered here. A request that is passed on is counted in its session until it is answered; one
 * whose shard does not serve yet waits in the shard. When a session's peer goes, its writes that wait so are
 * dropped.
 */
#include "port/dispatch.h"

#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "catalog/cluster_key.h"
#include "cleave/dev_ptr.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "port/port.h"
#include "port/port_life.h"
#include "port/port_mirror.h"
#include "port/port_work.h"
#include "port/shares.h"
#include "port/throttle.h"
#include "read/holes.h"
#include "read/hot_pages.h"
#include "read/read_path.h"
#include "session/direct_told.h"
#include "session/read_lease.h"
#include "session/reply.h"
#include "session/session.h"
#include "session/session_query.h"
#include "write/write_path.h"

static int
dispatch_check_range(const struct mt_session *session, const struct wire_io *io)
{
	const struct mt_volume *volume = &session->volume;
	uint64_t end_bytes;

	assert(session->hello.volume_id != 0);
	if (io->segment < volume->segment_base ||
	    io->segment - volume->segment_base >= volume->segment_count)
		return -ERANGE;
	end_bytes = (io->segment - volume->segment_base) * CLEAVE_SEGMENT_BYTES + io->offset_bytes +
	    io->length_bytes;
	return end_bytes <= volume->size_bytes ? 0 : -ERANGE;
}

static bool
io_is_change(const struct wire_io *io)
{
	return io->opcode != WIRE_READ && io->opcode != WIRE_BLOCK_STATUS &&
	    io->opcode != WIRE_HOLES && io->opcode != WIRE_CHUNK_MAP;
}

/* 0, or what is wrong with who asks, or with the place. */
static int
dispatch_check_place(const struct mt_session *session, const struct wire_io *io)
{
	if (session->hello.volume_id == 0)
		return -EINVAL;
	if (io_is_change(io) && mt_session_is_reader(session))
		return -EROFS;
	if (io->opcode == WIRE_CHUNK_MAP && !mt_read_lease_has_maps(session))
		return -ENOTSUP;
	return dispatch_check_range(session, io);
}

/* 0 and the shard that is to do it, but for HOLES; else what the client must know, with *@ret_epoch. */
static int
dispatch_check_io(const struct mt_session *session, const struct wire_io *io,
    struct mt_shard **ret_shard, uint32_t *ret_epoch)
{
	struct mt_port *port = session->port;
	struct mt_shard *shard;
	int rc = dispatch_check_place(session, io);

	if (rc != 0 || io->opcode == WIRE_HOLES)
		return rc; /* HOLES: of all shards; of none, if there is none */
	if (port->shard_by_number == NULL)
		return -EBUSY;
	shard = port->shard_by_number[wire_shard_of(io->segment, io->offset_bytes,
	    port->cluster->shard_count)];
	if (shard == NULL)
		return -EREMCHG;
	assert(shard->port == port);
	*ret_epoch = shard->epoch;
	if (shard->sm.state == MT_SHARD_IDLE || shard->sm.state == MT_SHARD_STOPPED)
		return -EREMCHG;
	/* Before the claim the epoch is not known; such requests are parked and run under the new one. */
	if (shard->sm.state > MT_SHARD_CLAIMING && io->epoch != shard->epoch)
		return -ESTALE;
	*ret_shard = shard;
	return 0;
}

/* How far a request has come: what held it lets it go from there. */
enum dispatch_from { FROM_CLIENT, FROM_LIMITS, FROM_SHARES };

/* The volume's limits, if it has any. False: it waits for them, or was refused. */
static bool
dispatch_is_within(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    enum dispatch_from from)
{
	enum mt_throttle_verdict verdict;

	if (session->limits_tag == 0 || from == FROM_SHARES)
		return true;
	verdict = mt_throttle_judge(session, msg, io, from == FROM_LIMITS);
	if (verdict == MT_THROTTLE_BUSY)
		mt_reply_error(session, msg, io, -EBUSY, 0);
	return verdict == MT_THROTTLE_GO;
}

/* A decoded read, write, discard, block status, map or holes: check it against volume and shard, pass it on. */
static void
dispatch_io(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    enum dispatch_from from)
{
	struct mt_shard *shard = NULL;
	uint32_t epoch = 0;
	bool is_write;
	int rc;

	assert(session->qp != NULL);
	rc = dispatch_check_io(session, io, &shard, &epoch);
	if (rc == -ERANGE && mt_session_asks_size(session, io))
		rc = -EBUSY;
	if (rc != 0) {
		mt_reply_error(session, msg, io, rc, epoch);
		return;
	}
	split_qp_keep(session->qp);
	if (!dispatch_is_within(session, msg, io, from))
		return;
	if (io->opcode == WIRE_HOLES) {
		mt_holes(session, msg, io);
		return;
	}
	if (from != FROM_SHARES && mt_shares_are_used(session->port) &&
	    !mt_shares_judge(session, msg, io, write_path_serves(shard)))
		return;
	is_write = io_is_change(io);
	mt_session_begin(session, is_write);
	if (!is_write)
		mt_read(shard, session, msg, io);
	else
		mt_write(shard, session, msg, io);
}

static void
dispatch_echo(struct mt_session *session, struct split_msg *msg)
{
	struct wire_header header = {
		.opcode = WIRE_ECHO | WIRE_REPLY,
		.request_id = msg->header->request_id,
	};

	(void)session;
	split_msg_reply(msg, &header, &(struct dev_piece){ msg->payload, msg->payload_bytes },
	    msg->payload_bytes > 0, NULL, NULL);
}

void
mt_dispatch_held(struct mt_session *session, struct split_msg *msg, const struct wire_io *io)
{
	dispatch_io(session, msg, io, FROM_LIMITS);
}

void
mt_dispatch_shared(struct mt_session *session, struct split_msg *msg, const struct wire_io *io)
{
	dispatch_io(session, msg, io, FROM_SHARES);
}

/* 0, or -EPROTO and what was wrong; @msg is still ours then. */
static int
dispatch_one(struct mt_session *session, struct split_msg *msg, const char **ret_field)
{
	struct wire_control control;
	struct wire_lease lease;
	struct wire_io io;
	int rc;

	assert(session->qp != NULL);
	if (msg->header->opcode == WIRE_ECHO) {
		dispatch_echo(session, msg);
		return 0;
	}
	if (msg->header->opcode == WIRE_CONTROL) {
		rc = wire_control_decode(msg->header, &control, ret_field);
		if (rc == 0)
			session->port->life->host->on_control(session, msg, &control);
		return rc;
	}
	if (msg->header->opcode == WIRE_LEASE && session->level >= CLEAVE_LEVEL_READS) {
		rc = wire_lease_decode(msg->header, &lease, ret_field);
		if (rc == 0 && lease.wants_hot && mt_read_lease_has_pages(session)) {
			mt_hot_pages_ask(session);
			metric_add(&session->port->metrics[MT_METRIC_hot_peeks],
			    lease.peeked_count);
		}
		if (rc == 0)
			rc = mt_direct_told(session, msg, &lease, ret_field);
		if (rc == 0)
			mt_read_lease_request(session, msg, &lease);
		return rc;
	}
	if (mt_port_work_is_message(msg) && session->level >= CLEAVE_LEVEL_WORKERS)
		return mt_port_work_take(session, msg, ret_field);
	if (msg->header->opcode == WIRE_MIRROR_HEADS && session->level >= CLEAVE_LEVEL_PEERS)
		return mt_port_mirror_take(session, msg, ret_field);
	rc = wire_io_decode(msg->header, &io, ret_field);
	if (rc == 0)
		dispatch_io(session, msg, &io, FROM_CLIENT);
	return rc;
}

static void
dispatch_on_messages(struct mt_session *session, struct split_msg *const *msgs, uint32_t count)
{
	struct mt_port *port = session->port;
	const char *field = "opcode";

	assert(count > 0);
	for (uint32_t i = 0; i < count; i++) {
		/* A message after a close, or while stopping, was never taken: its client sends it again. */
		if (!mt_session_is_live(session) || port->sm.state >= MT_PORT_STOPPING) {
			split_msg_release(msgs[i]);
			continue;
		}
		if (dispatch_one(session, msgs[i], &field) == 0)
			continue;
		log_limited(LOG_WARN, "port: bad message peer=%s field=%s opcode=%u",
		    split_qp_peer(session->qp), field, msgs[i]->header->opcode);
		split_msg_release(msgs[i]);
		mt_session_close(session, -EPROTO);
	}
}

/* ---- what a session tells and asks ---- */

static void
dispatch_on_left(struct mt_session *session)
{
	struct mt_port *port = session->port;

	port->life->host->on_left(session);
	mt_hot_pages_left(session);
	mt_port_work_left(session);
	mt_throttle_drop(session);
	mt_shares_drop(session);
	/* A shard may not serve for a while yet: what waits for it keeps nobody out. */
	for (uint32_t i = 0;
	     i < port->shard_count && session->write_count > 0 && !MUTANT(gone_admitted); i++)
		mt_write_path_drop(&port->shards[i], session);
}

static void
dispatch_ask_volume(struct mt_volume_query *query, struct mt_port *port,
    void (*fn)(struct loop_post *post, void *arg), void *arg)
{
	assert(query->volume_id != 0);
	port->life->host->ask_volume(query, port, fn, arg);
}

const struct mt_session_host mt_dispatch_host = {
	.on_messages = dispatch_on_messages,
	.on_left = dispatch_on_left,
	.ask_volume = dispatch_ask_volume,
};
