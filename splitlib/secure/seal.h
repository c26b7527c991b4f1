/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.h -- the frame of a sealed message
 *
 *	 0 .. 63   AES-256-GCM(head key, nonce = iv xor counter): the wire header
 *	64 .. 79   its tag; bytes 80 .. 95 are authenticated with it
 *	80 .. 95   the payload's tag; zeros where there is no payload
 *	96 ..      the payload, as long as it was: AES-128-GCM(payload key, the same nonce)
 *	           SIGN: as it was, and the tag is the GMAC of it
 *
 * The counter is in no message: it counts the messages of one direction of one connection. So a message that is left
 * out, repeated, moved or taken from another connection does not open, nor does a payload behind another head. Every
 * SEAL_REKEY_MESSAGES messages the secret of the direction, and with it both keys and the iv, is replaced by one made
 * of it, at both ends, without a word. A payload is opened before the head behind it.
 *
 * One thread has an end. Nothing is allocated after seal_init, but at a rekey.
 */
#ifndef CLEAVE_SECURE_SEAL_H
#define CLEAVE_SECURE_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/aead.h"
#include "cleave/message.h"
#include "cleave/secure.h"

#define SEAL_FORMAT 2u
#define SEAL_SECRET_BYTES 32u
#define SEAL_TAG_BYTES AEAD_TAG_BYTES
#define SEAL_IV_BYTES AEAD_NONCE_BYTES
#define SEAL_HEAD_BYTES 96u
#define SEAL_AT_TAG 64u
#define SEAL_AT_PAYLOAD_TAG 80u
#define SEAL_EXTRA_BYTES (SEAL_HEAD_BYTES - WIRE_HEADER_BYTES)
#define SEAL_REKEY_MESSAGES (UINT64_C(1) << 32)
#define SEAL_PIECES_MAX 4u /* of a payload that is opened or sealed */

/* An end of a direction: what seals, or what opens. */
struct seal {
	bool is_inited;
	enum split_security security; /* SEAL or SIGN */
	struct aead *head;            /* AES-256-GCM */
	struct aead *payload;         /* AES-128-GCM */
	uint8_t secret[SEAL_SECRET_BYTES];
	uint8_t iv[SEAL_IV_BYTES];
	uint8_t nonce[SEAL_IV_BYTES]; /* of the message whose head was sealed, or opened, last */
	uint64_t counter;             /* of the next message */
	uint64_t rekey_after;         /* messages */
};

/* seal_init -- @rekey_after: 0 is SEAL_REKEY_MESSAGES; fewer are for tests. 0; -ENOMEM. The secret is copied. */
int seal_init(struct seal *seal, enum split_security security,
    const uint8_t secret[SEAL_SECRET_BYTES], uint64_t rekey_after);
/*
 * seal_secret_control -- the secret of a lane of the same direction that has a counter of its own, made of @secret
 *
 * Messages of two lanes have no order between them, so each lane has an end of its own, with keys of its own. 0 or -EIO.
 */
int seal_secret_control(const uint8_t secret[SEAL_SECRET_BYTES],
    uint8_t ret_secret[SEAL_SECRET_BYTES]);
/* seal_fini -- no-op where seal_init was never called, or failed. */
void seal_fini(struct seal *seal);

/*
 * seal_close -- the next message: @head holds its wire header in the first 64 bytes, and gets all 112
 *
 * The payload of @payload_bytes is sealed where it lies, in one piece. 0; -EIO: it could not; nothing may be sent.
 */
int seal_close(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES], void *payload,
    uint32_t payload_bytes);

/*
 * seal_open_head -- the next message's head: its first 64 bytes become the wire header, and @ret_tag is its payload's
 *
 * 0; -EBADMSG: it is not the next message of this direction, as it was sent. Then there is no further one.
 */
int seal_open_head(struct seal *seal, uint8_t head[SEAL_HEAD_BYTES],
    uint8_t ret_tag[SEAL_TAG_BYTES]);
/*
 * seal_open_payload -- the payload behind it, in @count pieces, opened where they lie
 *
 * 0; -EBADMSG: it is not what was sent, and what lies there now means nothing.
 */
int seal_open_payload(struct seal *seal, const uint8_t tag[SEAL_TAG_BYTES],
    const struct iovec *pieces, uint32_t count);

#endif /* CLEAVE_SECURE_SEAL_H */
