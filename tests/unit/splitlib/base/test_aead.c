/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-GCM by each that there is on this host: test vectors, and the same bytes from both for messages of any length in
 * any pieces. Where ipsec-mb is not there, its tests are skipped.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/aead.h"
#include "base/num.h"
#include "base/random.h"

#define TEXT_BYTES_MAX 9000u
#define PIECES_MAX 4u
#define ROUNDS 3000u

struct vector {
	const char *name;
	enum aead_kind kind;
	const char *key, *nonce, *bound, *plain, *sealed, *tag;
};

/* McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 1, 4, 13 and 16. */
static const struct vector vectors[] = {
	{ "1", AEAD_AES_128_GCM, "00000000000000000000000000000000", "000000000000000000000000", "",
	    "", "", "58e2fccefa7e3061367f1d57a4e7455a" },
	{ "4", AEAD_AES_128_GCM, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
	    "feedfacedeadbeeffeedfacedeadbeefabaddad2",
	    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
	    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
	    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
	    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
	    "5bc94fbc3221a5db94fae95ae7121a47" },
	{ "13", AEAD_AES_256_GCM,
	    "0000000000000000000000000000000000000000000000000000000000000000",
	    "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b" },
	{ "16", AEAD_AES_256_GCM,
	    "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
	    "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
	    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
	    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
	    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
	    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
	    "76fc6ece0f4e1768cddf8853bb2d551b" },
};

static uint32_t
bytes_of(const char *hex, uint8_t *ret_bytes)
{
	uint32_t count = (uint32_t)strlen(hex) / 2;

	for (uint32_t i = 0; i < count; i++) {
		unsigned value = 0;

		cr_assert_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
		ret_bytes[i] = (uint8_t)value;
	}
	return count;
}

static void
vector_holds(const struct aead_ops *ops, const struct vector *vector)
{
	uint8_t key[32], nonce[12], bound[64], plain[64], sealed[64], tag[16], text[64], got[16];
	struct iovec bound_piece = { bound, bytes_of(vector->bound, bound) };
	struct iovec text_piece = { text, bytes_of(vector->plain, plain) };
	struct aead_message message = { &bound_piece, 1, &text_piece, 1 };
	struct aead *aead;

	cr_assert_eq(bytes_of(vector->key, key), aead_key_bytes(vector->kind));
	bytes_of(vector->nonce, nonce);
	bytes_of(vector->sealed, sealed);
	bytes_of(vector->tag, tag);
	memcpy(text, plain, sizeof(text));
	cr_assert_eq(ops->create(vector->kind, key, &aead), 0);
	cr_assert_eq(aead_close(aead, nonce, &message, got), 0);
	cr_expect_eq(memcmp(got, tag, 16), 0, "%s, case %s: its tag", ops->name, vector->name);
	cr_expect_eq(memcmp(text, sealed, text_piece.iov_len), 0, "%s, case %s: its text",
	    ops->name, vector->name);
	cr_expect_eq(aead_open(aead, nonce, &message, tag), 0, "%s, case %s: opens", ops->name,
	    vector->name);
	cr_expect_eq(memcmp(text, plain, text_piece.iov_len), 0, "%s, case %s: as it was",
	    ops->name, vector->name);
	aead_destroy(aead);
}

static void
vectors_hold(const struct aead_ops *ops)
{
	for (uint32_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		vector_holds(ops, &vectors[i]);
}

Test(aead, gnutls_makes_what_the_test_vectors_say)
{
	vectors_hold(&aead_gnutls);
}

static void
need_ipsec_mb(void)
{
	if (!aead_ipsec_mb.is_there())
		cr_skip_test("libIPSec_MB.so.1 is not there, or not of the release of its header");
}

Test(aead, ipsec_mb_makes_what_the_test_vectors_say)
{
	need_ipsec_mb();
	vectors_hold(&aead_ipsec_mb);
}

/* Cuts @bytes at @memory into up to PIECES_MAX pieces, of which some may be empty. Returns how many. */
static uint32_t
cut(uint64_t random[4], uint8_t *memory, uint32_t bytes, struct iovec pieces[PIECES_MAX])
{
	uint32_t count = 1 + (uint32_t)random_below(random, PIECES_MAX);
	uint32_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t left = bytes - at;
		uint32_t part = i + 1 == count ? left : (uint32_t)random_below(random, left + 1);

		pieces[i] = (struct iovec){ memory + at, part };
		at += part;
	}
	return count;
}

/* A message of a random length, in random pieces: of text, or bound alone. */
struct trial {
	enum aead_kind kind;
	uint8_t key[AEAD_KEY_BYTES_MAX], nonce[AEAD_NONCE_BYTES], bound[64];
	uint8_t plain[TEXT_BYTES_MAX];
	uint32_t bytes;
	bool is_bound_alone;
	struct iovec bound_piece;
};

static void
trial_draw(uint64_t random[4], struct trial *trial)
{
	uint32_t bytes_max = random_below(random, 2) == 0 ? 600 : TEXT_BYTES_MAX;

	trial->kind = random_below(random, 2) == 0 ? AEAD_AES_128_GCM : AEAD_AES_256_GCM;
	trial->bytes = 1 + (uint32_t)random_below(random, bytes_max);
	trial->is_bound_alone = random_below(random, 4) == 0;
	for (uint32_t i = 0; i < sizeof(trial->key); i++)
		trial->key[i] = (uint8_t)random_u64(random);
	for (uint32_t i = 0; i < sizeof(trial->nonce); i++)
		trial->nonce[i] = (uint8_t)random_u64(random);
	for (uint32_t i = 0; i < sizeof(trial->bound); i++)
		trial->bound[i] = (uint8_t)random_u64(random);
	for (uint32_t i = 0; i < trial->bytes; i++)
		trial->plain[i] = (uint8_t)random_u64(random);
	trial->bound_piece =
	    (struct iovec){ trial->bound, random_below(random, sizeof(trial->bound) + 1) };
}

static struct aead_message
trial_message(const struct trial *trial, const struct iovec *pieces, uint32_t count)
{
	if (trial->is_bound_alone)
		return (struct aead_message){ .bound = pieces, .bound_count = count };
	return (struct aead_message){ .bound = &trial->bound_piece,
		.bound_count = trial->bound_piece.iov_len > 0 ? 1 : 0,
		.text = pieces,
		.text_count = count };
}

/* @one closes in one cut, @other opens in another; then not, with a bit of it changed. */
static void
other_opens(uint64_t random[4], const struct trial *trial, const struct aead_ops *one,
    const struct aead_ops *other)
{
	static uint8_t text[TEXT_BYTES_MAX];
	struct iovec pieces[PIECES_MAX];
	struct aead_message message;
	uint8_t tag[AEAD_TAG_BYTES];
	struct aead *closes, *opens;
	uint32_t bit;

	cr_assert_eq(one->create(trial->kind, trial->key, &closes), 0);
	cr_assert_eq(other->create(trial->kind, trial->key, &opens), 0);
	memcpy(text, trial->plain, trial->bytes);
	message = trial_message(trial, pieces, cut(random, text, trial->bytes, pieces));
	cr_assert_eq(aead_close(closes, trial->nonce, &message, tag), 0);
	cr_assert_eq(memcmp(text, trial->plain, trial->bytes) == 0 && trial->bytes > 16,
	    trial->is_bound_alone && trial->bytes > 16);
	message = trial_message(trial, pieces, cut(random, text, trial->bytes, pieces));
	cr_assert_eq(aead_open(opens, trial->nonce, &message, tag), 0, "%s, then %s: %u bytes",
	    one->name, other->name, trial->bytes);
	cr_assert_eq(memcmp(text, trial->plain, trial->bytes), 0, "%s, then %s: %u bytes",
	    one->name, other->name, trial->bytes);
	cr_assert_eq(aead_close(closes, trial->nonce, &message, tag), 0);
	bit = (uint32_t)random_below(random, 8 * (trial->bytes + AEAD_TAG_BYTES));
	if (bit < 8 * trial->bytes)
		text[bit / 8] ^= (uint8_t)(1u << bit % 8);
	else
		tag[bit / 8 - trial->bytes] ^= (uint8_t)(1u << bit % 8);
	cr_assert_eq(aead_open(opens, trial->nonce, &message, tag), -EBADMSG, "%s, then %s: bit %u",
	    one->name, other->name, bit);
	aead_destroy(opens);
	aead_destroy(closes);
}

static void
each_opens(const struct aead_ops *one, const struct aead_ops *other)
{
	static struct trial trial;
	uint64_t random[4];

	random_seed(random, 17);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		trial_draw(random, &trial);
		other_opens(random, &trial, one, other);
	}
}

Test(aead, gnutls_opens_what_it_closed_and_nothing_else)
{
	each_opens(&aead_gnutls, &aead_gnutls);
}

Test(aead, gnutls_opens_what_ipsec_mb_closed_and_nothing_else)
{
	need_ipsec_mb();
	each_opens(&aead_ipsec_mb, &aead_gnutls);
}

Test(aead, ipsec_mb_opens_what_gnutls_closed_and_nothing_else)
{
	need_ipsec_mb();
	each_opens(&aead_gnutls, &aead_ipsec_mb);
}

Test(aead, a_short_text_of_each_length_is_the_same_by_both)
{
	static struct trial trial;
	uint64_t random[4];

	need_ipsec_mb();
	random_seed(random, 18);
	for (uint32_t bytes = 1; bytes <= 1100; bytes++) {
		trial_draw(random, &trial);
		trial.bytes = bytes;
		memset(trial.plain, 7, bytes);
		other_opens(random, &trial, &aead_ipsec_mb, &aead_gnutls);
	}
}

/* ---- who is believed ---- */

static int
wrong_close(struct aead *aead, const uint8_t nonce[AEAD_NONCE_BYTES],
    const struct aead_message *message, uint8_t ret_tag[AEAD_TAG_BYTES])
{
	int rc = aead_gnutls.close(aead, nonce, message, ret_tag);

	ret_tag[15] ^= 1;
	return rc;
}

static int
no_create(enum aead_kind kind, const uint8_t *key, struct aead **ret_aead)
{
	return kind == AEAD_AES_256_GCM ? -ENOMEM : aead_gnutls.create(kind, key, ret_aead);
}

Test(aead, who_makes_another_tag_is_not_believed)
{
	struct aead_ops wrong = aead_gnutls;

	cr_assert(aead_agree(&aead_gnutls, &wrong));
	wrong.close = wrong_close;
	cr_assert_not(aead_agree(&aead_gnutls, &wrong));
}

Test(aead, who_cannot_be_asked_is_not_believed)
{
	struct aead_ops wrong = aead_gnutls;

	wrong.create = no_create;
	cr_assert_not(aead_agree(&aead_gnutls, &wrong));
}

Test(aead, ipsec_mb_is_taken_where_it_is_there)
{
	cr_assert_eq(aead_fastest(), aead_ipsec_mb.is_there() ? &aead_ipsec_mb : &aead_gnutls);
	cr_assert_eq(aead_fastest(), aead_fastest());
}
