/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.h -- the frames of a queue pair whose peer is believed */
#ifndef CLEAVE_SPLIT_SEALED_H
#define CLEAVE_SPLIT_SEALED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cleave/message.h"
#include "qp.h"
#include "secure/handshake.h"
#include "secure/key.h"
#include "secure/seal.h"

/* Lanes of one connection whose messages have no order between them: each has counters and keys of its own. */
enum sealed_lane { SEALED_DATA, SEALED_CONTROL, SEALED_LANE_NR };

struct qp_sealed {
	enum split_security security;
	struct split_subject peer;
	struct key_certificate certificate; /* the peer's, where it is believed */
	bool
	    is_believed; /* the peer: an end that does not believe the other has keys all the same, to tell it so */
	struct seal out[SEALED_LANE_NR], in[SEALED_LANE_NR];
	/* The message that comes in: over which lane, what its head said, where its payload lies once it is there. */
	enum sealed_lane lane;
	uint8_t tag[SEAL_TAG_BYTES];
	struct iovec pieces[2];
	/* Frames that are to go out: bytes at .. end of the room for SEALED_ROOM_BYTES. NULL: the transport has its own. */
	uint8_t *room;
	uint32_t at, end;
};

/*
 * sealed_begin -- @qp is sealed from here on, both ways, but for messages of the handshake that are still to go
 *
 * 0; -ENOMEM: it is as it was.
 */
int sealed_begin(struct split_qp *qp, enum split_security security,
    const uint8_t out_secret[HANDSHAKE_SECRET_BYTES],
    const uint8_t in_secret[HANDSHAKE_SECRET_BYTES]);
/* sealed_end -- its keys are forgotten; no-op where it is not sealed. */
void sealed_end(struct split_qp *qp);
/*
 * sealed_gather -- what is to go next, as one entry of frames, for about @bytes_max bytes of them
 *
 * The oldest of qp->sendable is one to be sealed. Returns 1 and *@ret_bytes; 0: nothing, or @qp is closing.
 */
uint32_t sealed_gather(struct split_qp *qp, struct iovec *iov, uint64_t bytes_max,
    uint64_t *ret_bytes);
/* sealed_advance -- @bytes of what sealed_gather gave are out. */
void sealed_advance(struct split_qp *qp, uint64_t bytes);
/* sealed_wants -- shall @send, of @qp's, be sealed? */
bool sealed_wants(const struct split_qp *qp, const struct split_send *send);
/* sealed_frame_bytes -- how long @send's frame is. */
uint32_t sealed_frame_bytes(const struct split_send *send);
/*
 * sealed_make -- @send's frame, of sealed_frame_bytes, to @frame: the next message of @lane. @send is final then.
 *
 * 0; a negative errno: @qp is closing.
 */
int sealed_make(struct split_qp *qp, struct split_send *send, enum sealed_lane lane,
    uint8_t *frame);
/* sealed_make_bare -- the same of the header at @frame, stamped, that has no payload. */
int sealed_make_bare(struct split_qp *qp, enum sealed_lane lane, uint8_t frame[SEAL_HEAD_BYTES]);
/* sealed_open_head -- SEAL_HEAD_BYTES have come over @lane: a wire header is in the first 64. 0 or -EBADMSG. */
int sealed_open_head(struct split_qp *qp, enum sealed_lane lane, void *head);
/* sealed_expect -- qp->fill says where the payload is going to be. 0; -EMSGSIZE: not all of it is kept. */
int sealed_expect(struct split_qp *qp);
/* sealed_open_payload -- all of it is there: opened in place. 0 or -EBADMSG. */
int sealed_open_payload(struct split_qp *qp);

#endif /* CLEAVE_SPLIT_SEALED_H */
