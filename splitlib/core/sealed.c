/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed.c -- the frames of a queue pair whose peer is believed (secure/seal.h has their bytes)
 *
 *	out   header from host memory, payload from device memory ──copied──> room, sealed there ──> the transport
 *	in    the transport ──> head in host memory: opened, judged as any header
 *	                        payload where that belongs, device memory or not: opened in place, when all of it is there
 *
 * Nobody above sees anything sealed. What is sent lies still until it is out, and is sent to others, too: that is why
 * it is sealed in a room of the queue pair's own, of one message of the longest kind, of which only what was ever used
 * is memory. A room holds as many messages as fit; what did not go out in one call stays there as it is, and is
 * never sealed twice.
 *
 * A transport whose device takes frames when it likes (transport_ops.has_lanes) makes them in memory of its own, one by
 * one, and has two lanes: sealed_make, and there is no room.
 *
 * A head or a payload that does not open ends the connection: nothing of the message was believed.
 */
#include "sealed.h"

#include <errno.h>
#include <string.h>

#include "alloc.h"
#include "auth.h"
#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "dev_memory.h"
#include "dev_ptr_raw.h"
#include "send_assemble.h"
#include "transport.h"

#define SEALED_ROOM_BYTES (SEAL_HEAD_BYTES + WIRE_PAYLOAD_BYTES_MAX)

static void
sealed_free(struct qp_sealed *sealed)
{
	for (uint32_t i = 0; i < SEALED_LANE_NR; i++) {
		seal_fini(&sealed->out[i]);
		seal_fini(&sealed->in[i]);
	}
	split_free(sealed->room);
	split_free(sealed);
}

static int
lane_init(struct qp_sealed *sealed, enum sealed_lane lane, const uint8_t *out, const uint8_t *in)
{
	if (seal_init(&sealed->out[lane], sealed->security, out, 0) != 0 ||
	    seal_init(&sealed->in[lane], sealed->security, in, 0) != 0)
		return -ENOMEM;
	return 0;
}

static int
control_init(struct qp_sealed *sealed, const uint8_t *out, const uint8_t *in)
{
	uint8_t control_out[SEAL_SECRET_BYTES], control_in[SEAL_SECRET_BYTES];
	int rc = seal_secret_control(out, control_out);

	if (rc == 0)
		rc = seal_secret_control(in, control_in);
	if (rc == 0)
		rc = lane_init(sealed, SEALED_CONTROL, control_out, control_in);
	gnutls_memset(control_out, 0, sizeof(control_out));
	gnutls_memset(control_in, 0, sizeof(control_in));
	return rc;
}

int
sealed_begin(struct split_qp *qp, enum split_security security,
    const uint8_t out_secret[HANDSHAKE_SECRET_BYTES],
    const uint8_t in_secret[HANDSHAKE_SECRET_BYTES])
{
	struct qp_sealed *sealed = split_calloc(1, sizeof(*sealed));
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(qp->sealed == NULL);
	if (sealed == NULL)
		return -ENOMEM;
	sealed->security = security;
	rc = lane_init(sealed, SEALED_DATA, out_secret, in_secret);
	if (rc == 0 && qp->ops->has_lanes)
		rc = control_init(sealed, out_secret, in_secret);
	if (rc == 0 && !qp->ops->has_lanes) {
		sealed->room = split_calloc(1, SEALED_ROOM_BYTES);
		rc = sealed->room == NULL ? -ENOMEM : 0;
	}
	if (rc != 0) {
		sealed_free(sealed);
		return -ENOMEM;
	}
	qp->sealed = sealed;
	return 0;
}

void
sealed_end(struct split_qp *qp)
{
	struct qp_sealed *sealed = qp->sealed;

	if (sealed == NULL)
		return;
	qp->sealed = NULL;
	sealed_free(sealed);
}

bool
sealed_wants(const struct split_qp *qp, const struct split_send *send)
{
	if (send_is_final(send))
		return send_is_sealed(send);
	return qp->sealed != NULL && !auth_is_flight(qp, send);
}

/* Copies @send's payload behind its head. Returns its bytes. */
static uint32_t
frame_put_payload(const struct split_port *port, const struct split_send *send, uint8_t *to)
{
	uint32_t bytes = send->header_bytes - WIRE_HEADER_BYTES;

	memcpy(to, (const uint8_t *)send->header + WIRE_HEADER_BYTES, bytes);
	for (uint32_t i = 0; i < send->piece_count; i++) {
		dev_memory_copy_out(port, to + bytes, dev_ptr_raw(send->pieces[i].ptr),
		    send->pieces[i].bytes);
		bytes += send->pieces[i].bytes;
	}
	return bytes;
}

uint32_t
sealed_frame_bytes(const struct split_send *send)
{
	assert(send_total_bytes(send) + SEAL_EXTRA_BYTES <= SEALED_ROOM_BYTES);
	return (uint32_t)send_total_bytes(send) + SEAL_EXTRA_BYTES;
}

static int
frame_close(struct split_qp *qp, enum sealed_lane lane, uint8_t *frame, uint32_t payload_bytes)
{
	assert(lane < SEALED_LANE_NR);
	if (seal_close(&qp->sealed->out[lane], frame, frame + SEAL_HEAD_BYTES, payload_bytes) == 0)
		return 0;
	qp_fail(qp, -EIO, "a message could not be sealed");
	return -EIO;
}

int
sealed_make_bare(struct split_qp *qp, enum sealed_lane lane, uint8_t frame[SEAL_HEAD_BYTES])
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return frame_close(qp, lane, frame, 0);
}

int
sealed_make(struct split_qp *qp, struct split_send *send, enum sealed_lane lane, uint8_t *frame)
{
	uint32_t bytes;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(send->sent_bytes == 0);
	send_prepare(qp, send);
	send_set_sealed(send);
	guard_enter();
	memcpy(frame, send->header, WIRE_HEADER_BYTES);
	bytes = frame_put_payload(qp->port, send, frame + SEAL_HEAD_BYTES);
	assert(sealed_frame_bytes(send) == SEAL_HEAD_BYTES + bytes);
	rc = frame_close(qp, lane, frame, bytes);
	guard_leave();
	return rc;
}

/* 0; -ENOBUFS: there is no room now. */
static int
room_add(struct split_qp *qp, struct split_send *send)
{
	struct qp_sealed *sealed = qp->sealed;
	uint32_t bytes = sealed_frame_bytes(send);
	int rc;

	if (bytes > SEALED_ROOM_BYTES - sealed->end)
		return -ENOBUFS;
	rc = sealed_make(qp, send, SEALED_DATA, sealed->room + sealed->end);
	if (rc == 0)
		sealed->end += bytes;
	return rc;
}

uint32_t
sealed_gather(struct split_qp *qp, struct iovec *iov, uint64_t bytes_max, uint64_t *ret_bytes)
{
	struct qp_sealed *sealed = qp->sealed;
	struct loop_link *link, *next;

	assert(sealed->at <= sealed->end);
	if (sealed->at == sealed->end)
		sealed->at = sealed->end = 0;
	LIST_FOREACH_SAFE(&qp->sendable, link, next) {
		struct split_send *send = LIST_ENTRY(link, struct split_send, link);

		if (sealed->end - sealed->at >= bytes_max)
			break;
		if (!send_is_sealed(send) && room_add(qp, send) != 0)
			break;
	}
	*ret_bytes = sealed->end - sealed->at;
	if (*ret_bytes == 0 || !qp_is_open(qp))
		return 0;
	iov[0] = (struct iovec){ .iov_base = sealed->room + sealed->at, .iov_len = *ret_bytes };
	return 1;
}

void
sealed_advance(struct split_qp *qp, uint64_t bytes)
{
	struct qp_sealed *sealed = qp->sealed;

	assert(bytes <= sealed->end - sealed->at);
	sealed->at += (uint32_t)bytes;
}

int
sealed_open_head(struct split_qp *qp, enum sealed_lane lane, void *head)
{
	struct qp_sealed *sealed = qp->sealed;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	memset(sealed->pieces, 0, sizeof(sealed->pieces));
	sealed->lane = lane;
	return seal_open_head(&sealed->in[lane], head, sealed->tag);
}

int
sealed_expect(struct split_qp *qp)
{
	const struct recv_fill *fill = &qp->fill;

	if (fill->discard_left > 0)
		return -EMSGSIZE; /* what is thrown away cannot be checked */
	qp->sealed->pieces[0] =
	    (struct iovec){ .iov_base = fill->host, .iov_len = fill->host_left };
	qp->sealed->pieces[1] =
	    (struct iovec){ .iov_base = fill->device, .iov_len = fill->device_left };
	return 0;
}

int
sealed_open_payload(struct split_qp *qp)
{
	struct qp_sealed *sealed = qp->sealed;
	struct seal *in = &sealed->in[sealed->lane];
	uint32_t first = sealed->pieces[0].iov_len > 0 ? 0 : 1;
	uint32_t count = first == 0 && sealed->pieces[1].iov_len > 0 ? 2 : 1;
	int rc;

	if (sealed->pieces[first].iov_len == 0)
		return seal_open_payload(in, sealed->tag, NULL, 0);
	guard_enter();
	rc = seal_open_payload(in, sealed->tag, sealed->pieces + first, count);
	guard_leave();
	return rc;
}

const struct split_subject *
split_qp_subject(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return qp->sealed != NULL && qp->sealed->is_believed ? &qp->sealed->peer : NULL;
}

enum split_security
split_qp_security(const struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	return qp->sealed != NULL ? qp->sealed->security : SPLIT_SECURITY_OPEN;
}
