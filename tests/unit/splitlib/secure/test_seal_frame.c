/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed frames: what opens is what was sent, in its order, and nothing else; nothing is allocated a message.
 *
 * tests/golden/seal_frame.bin is a frame as it travels. CLEAVE_GOLDEN_WRITE=1 writes it anew: that is a change of the
 * format, and bumps SEAL_FORMAT.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "splitlib/secure/seal.h"
#include "tests/unit/allocation_count.h"

#define PAYLOAD_BYTES 100u
#define FRAME_BYTES (SEAL_HEAD_BYTES + PAYLOAD_BYTES)

static const uint8_t secret[SEAL_SECRET_BYTES] = { 1, 2, 3 };
static struct seal out, in;
static uint8_t frame[FRAME_BYTES], plain[FRAME_BYTES];

static void
open_both(enum split_security security, uint64_t rekey_after)
{
	cr_assert_eq(seal_init(&out, security, secret, rekey_after), 0);
	cr_assert_eq(seal_init(&in, security, secret, rekey_after), 0);
}

static void
close_both(void)
{
	seal_fini(&out);
	seal_fini(&in);
}

/* @number: which message; it is in every byte. */
static void
make(uint8_t number)
{
	memset(frame, 0, sizeof(frame));
	memset(frame, number, WIRE_HEADER_BYTES);
	for (uint32_t i = 0; i < PAYLOAD_BYTES; i++)
		frame[SEAL_HEAD_BYTES + i] = (uint8_t)(number + i);
	memcpy(plain, frame, sizeof(plain));
	cr_assert_eq(seal_close(&out, frame, frame + SEAL_HEAD_BYTES, PAYLOAD_BYTES), 0);
}

static int
take(uint8_t bytes[FRAME_BYTES])
{
	const struct iovec piece = { bytes + SEAL_HEAD_BYTES, PAYLOAD_BYTES };
	uint8_t tag[SEAL_TAG_BYTES];
	int rc = seal_open_head(&in, bytes, tag);

	if (rc == 0)
		rc = seal_open_payload(&in, tag, &piece, 1);
	return rc;
}

static bool
is_plain(const uint8_t bytes[FRAME_BYTES])
{
	return memcmp(bytes, plain, WIRE_HEADER_BYTES) == 0 &&
	    memcmp(bytes + SEAL_HEAD_BYTES, plain + SEAL_HEAD_BYTES, PAYLOAD_BYTES) == 0;
}

static void
messages_in_order(enum split_security security)
{
	open_both(security, 0);
	for (uint32_t i = 0; i < 200; i++) {
		make((uint8_t)i);
		cr_assert_neq(memcmp(frame, plain, WIRE_HEADER_BYTES), 0);
		cr_assert_eq(memcmp(frame + SEAL_HEAD_BYTES, plain + SEAL_HEAD_BYTES,
				 PAYLOAD_BYTES) == 0,
		    security == SPLIT_SECURITY_SIGN);
		cr_assert_eq(take(frame), 0);
		cr_assert(is_plain(frame));
	}
	close_both();
}

Test(seal_frame, messages_open_in_order)
{
	messages_in_order(SPLIT_SECURITY_SEAL);
}

Test(seal_frame, signed_messages_open_in_order_and_can_be_read)
{
	messages_in_order(SPLIT_SECURITY_SIGN);
}

Test(seal_frame, the_same_message_never_looks_the_same)
{
	uint8_t first[FRAME_BYTES];

	open_both(SPLIT_SECURITY_SEAL, 0);
	make(7);
	memcpy(first, frame, sizeof(first));
	make(7);
	cr_assert_neq(memcmp(first, frame, WIRE_HEADER_BYTES), 0);
	cr_assert_neq(memcmp(first + SEAL_HEAD_BYTES, frame + SEAL_HEAD_BYTES, PAYLOAD_BYTES), 0);
	close_both();
}

static void
any_changed_bit_is_found(enum split_security security)
{
	for (uint32_t bit = 0; bit < 8 * FRAME_BYTES; bit++) {
		open_both(security, 0);
		make(9);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(take(frame), -EBADMSG, "bit %u of byte %u", bit % 8, bit / 8);
		close_both();
	}
}

Test(seal_frame, any_changed_bit_is_found)
{
	any_changed_bit_is_found(SPLIT_SECURITY_SEAL);
}

Test(seal_frame, any_changed_bit_of_a_signed_message_is_found)
{
	any_changed_bit_is_found(SPLIT_SECURITY_SIGN);
}

Test(seal_frame, a_message_that_is_repeated_moved_or_left_out_does_not_open)
{
	uint8_t first[FRAME_BYTES], again[FRAME_BYTES];

	open_both(SPLIT_SECURITY_SEAL, 0);
	make(1);
	memcpy(first, frame, sizeof(first));
	memcpy(again, frame, sizeof(again));
	cr_assert_eq(take(first), 0);
	cr_assert_eq(take(again), -EBADMSG, "repeated");
	close_both();

	open_both(SPLIT_SECURITY_SEAL, 0);
	make(1);
	make(2);
	cr_assert_eq(take(frame), -EBADMSG, "the first is left out");
	close_both();
}

Test(seal_frame, a_payload_of_another_message_does_not_open)
{
	uint8_t first[FRAME_BYTES];

	open_both(SPLIT_SECURITY_SEAL, 0);
	make(1);
	memcpy(first, frame, sizeof(first));
	make(1);
	memcpy(first + SEAL_HEAD_BYTES, frame + SEAL_HEAD_BYTES, PAYLOAD_BYTES);
	cr_assert_eq(take(first), -EBADMSG);
	close_both();
}

Test(seal_frame, a_shorter_payload_does_not_open)
{
	struct iovec piece = { frame + SEAL_HEAD_BYTES, PAYLOAD_BYTES - 1 };
	uint8_t tag[SEAL_TAG_BYTES];

	open_both(SPLIT_SECURITY_SEAL, 0);
	make(1);
	cr_assert_eq(seal_open_head(&in, frame, tag), 0);
	cr_assert_eq(seal_open_payload(&in, tag, &piece, 1), -EBADMSG);
	piece.iov_len = 0;
	cr_assert_eq(seal_open_payload(&in, tag, &piece, 1), -EBADMSG);
	close_both();
}

Test(seal_frame, of_another_direction_or_another_level_does_not_open)
{
	static const uint8_t other[SEAL_SECRET_BYTES] = { 1, 2, 4 };

	cr_assert_eq(seal_init(&out, SPLIT_SECURITY_SEAL, secret, 0), 0);
	cr_assert_eq(seal_init(&in, SPLIT_SECURITY_SEAL, other, 0), 0);
	make(1);
	cr_assert_eq(take(frame), -EBADMSG);
	close_both();
	cr_assert_eq(seal_init(&out, SPLIT_SECURITY_SEAL, secret, 0), 0);
	cr_assert_eq(seal_init(&in, SPLIT_SECURITY_SIGN, secret, 0), 0);
	make(1);
	cr_assert_eq(take(frame), -EBADMSG);
	close_both();
}

Test(seal_frame, a_payload_in_pieces_opens_wherever_it_is_cut)
{
	for (uint32_t cut = 0; cut <= PAYLOAD_BYTES; cut++) {
		uint8_t front[PAYLOAD_BYTES], back[PAYLOAD_BYTES];
		const struct iovec pieces[] = { { front, cut }, { back, PAYLOAD_BYTES - cut } };
		uint8_t tag[SEAL_TAG_BYTES];

		open_both(SPLIT_SECURITY_SEAL, 0);
		make(3);
		memcpy(front, frame + SEAL_HEAD_BYTES, cut);
		memcpy(back, frame + SEAL_HEAD_BYTES + cut, PAYLOAD_BYTES - cut);
		cr_assert_eq(seal_open_head(&in, frame, tag), 0);
		cr_assert_eq(seal_open_payload(&in, tag, pieces, 2), 0, "cut at %u", cut);
		cr_assert_eq(memcmp(front, plain + SEAL_HEAD_BYTES, cut), 0);
		cr_assert_eq(memcmp(back, plain + SEAL_HEAD_BYTES + cut, PAYLOAD_BYTES - cut), 0);
		close_both();
	}
}

Test(seal_frame, a_message_without_a_payload_opens)
{
	uint8_t tag[SEAL_TAG_BYTES];

	open_both(SPLIT_SECURITY_SEAL, 0);
	memset(frame, 5, WIRE_HEADER_BYTES);
	cr_assert_eq(seal_close(&out, frame, NULL, 0), 0);
	cr_assert_eq(seal_open_head(&in, frame, tag), 0);
	cr_assert_eq(frame[63], 5);
	cr_assert_eq(seal_open_payload(&in, tag, NULL, 0), 0);
	close_both();
}

Test(seal_frame, keys_are_replaced_at_both_ends_at_once)
{
	uint8_t before[SEAL_SECRET_BYTES];

	open_both(SPLIT_SECURITY_SEAL, 3);
	memcpy(before, out.secret, sizeof(before));
	for (uint32_t i = 0; i < 21; i++) {
		make((uint8_t)i);
		cr_assert_eq(memcmp(before, out.secret, sizeof(before)) != 0, i >= 3 && i % 3 == 0,
		    "message %u", i);
		memcpy(before, out.secret, sizeof(before));
		cr_assert_eq(take(frame), 0);
		cr_assert(is_plain(frame));
	}
	/* An end that missed one is lost. */
	in.rekey_after = 1000;
	make(1);
	cr_assert_eq(take(frame), -EBADMSG);
	close_both();
}

/* Computed with another implementation of RFC 5869, in Python. */
Test(seal_frame, keys_are_derived_as_written)
{
	static const uint8_t iv[] = { 0x55, 0x86, 0xb7, 0xff, 0x8f, 0xb9, 0x39, 0xd5, 0x43, 0x14,
		0xb2, 0x35 };
	static const uint8_t next[] = { 0x11, 0x68, 0x94, 0xb9, 0x09, 0x5c, 0xc7, 0xac, 0xa3, 0x1e,
		0x79, 0x31, 0x90, 0xef, 0x3a, 0xbb, 0xb8, 0x16, 0x38, 0x91, 0x91, 0x95, 0xb3, 0x4d,
		0x2c, 0x8f, 0x91, 0xad, 0xc9, 0x82, 0x89, 0xc0 };

	open_both(SPLIT_SECURITY_SEAL, 1);
	cr_assert_eq(memcmp(out.iv, iv, sizeof(iv)), 0);
	make(1);
	make(2);
	cr_assert_eq(memcmp(out.secret, next, sizeof(next)), 0);
	close_both();
}

/*
 * The file's bytes were compared with AES-GCM of another implementation (Python's cryptography): they are what every
 * processor and every library makes.
 */
Test(seal_frame, a_frame_is_as_before_byte_by_byte)
{
	uint8_t made[FRAME_BYTES];

	const char *folder = getenv("CLEAVE_SOURCE_DIR");
	char path[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/tests/golden/seal_frame.bin",
	    folder != NULL ? folder : ".");
	open_both(SPLIT_SECURITY_SEAL, 0);
	make(42);
	if (getenv("CLEAVE_GOLDEN_WRITE") != NULL) {
		file = fopen(path, "wb");
		cr_assert_not_null(file);
		cr_assert_eq(fwrite(frame, 1, sizeof(frame), file), sizeof(frame));
		cr_assert_eq(fclose(file), 0);
	}
	file = fopen(path, "rb");
	cr_assert_not_null(file, "%s", path);
	memcpy(made, frame, sizeof(made));
	cr_assert_eq(fread(frame, 1, sizeof(frame), file), sizeof(frame));
	(void)fclose(file);
	cr_assert_eq(memcmp(frame, made, sizeof(made)), 0);
	cr_assert_eq(take(frame), 0);
	cr_assert(is_plain(frame));
	close_both();
}

#ifdef HAS_ALLOCATION_COUNT
Test(seal_frame, nothing_is_allocated_a_message)
{
	uint8_t *big = malloc(SEAL_HEAD_BYTES + WIRE_PAYLOAD_BYTES_MAX);
	unsigned long before = allocation_count;
	uint8_t tag[SEAL_TAG_BYTES];

	cr_assert_not_null(big);
	memset(big, 0, SEAL_HEAD_BYTES + WIRE_PAYLOAD_BYTES_MAX);
	open_both(SPLIT_SECURITY_SEAL, 0);
	cr_assert_gt(allocation_count, before, "the hook does not count");
	before = allocation_count;
	for (uint32_t i = 0; i < 500; i++) {
		const struct iovec piece = { big + SEAL_HEAD_BYTES, i * 500 };
		int rc = seal_close(&out, big, piece.iov_base, (uint32_t)piece.iov_len);

		if (rc == 0)
			rc = seal_open_head(&in, big, tag);
		if (rc == 0)
			rc = seal_open_payload(&in, tag, &piece, 1);
		if (rc != 0 || allocation_count != before)
			cr_assert_fail("message %u: %d, %lu allocations", i, rc,
			    allocation_count - before);
	}
	free(big);
	close_both();
}
#endif

Test(seal_frame, a_control_lane_has_keys_of_its_own)
{
	uint8_t control[SEAL_SECRET_BYTES], again[SEAL_SECRET_BYTES];

	cr_assert_eq(seal_secret_control(secret, control), 0);
	cr_assert_eq(seal_secret_control(secret, again), 0);
	cr_assert_arr_eq(control, again, sizeof(control));
	/* The first message of one lane is no first message of the other. */
	cr_assert_eq(seal_init(&out, SPLIT_SECURITY_SEAL, secret, 0), 0);
	cr_assert_eq(seal_init(&in, SPLIT_SECURITY_SEAL, control, 0), 0);
	make(7);
	cr_assert_eq(take(frame), -EBADMSG);
	close_both();
}
