/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_envelope.c -- an encrypted record, edited: it opens if it is as it was, where it was, and only then
 *
 * Input: the codec, the number of blocks, how their bytes come about, which of the record's members are told wrong (a
 * bit each); then edits: where in the stored bytes (24 bits), and what is xored there. What is left over is an envelope of the
 * enemy's own.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/envelope.h"
#include "cleave/keyring.h"
#include "unit/engine_data.h"

#define HEAD_BYTES 4u
#define EDIT_BYTES 4u
#define EDITS_MAX 8u
#define KEY_ID 3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct engine_set *
set_of(void)
{
	static const uint8_t key[KEYRING_KEY_BYTES] = { 1 };
	static struct engine_set *set;

	if (set == NULL) {
		struct keyring *keys = keyring_create();
		struct engine_set_options options = { .keys = keys };

		assert(keys != NULL);
		assert(keyring_put(keys, KEY_ID, key) == 0);
		set = engine_set_create(NULL, &options);
		assert(set != NULL);
	}
	return set;
}

/* Tells members of @load wrong, as the bits of @wrong say. Returns whether any differs. */
static bool
tell_wrong(struct engine_job *load, uint8_t wrong)
{
	load->envelope.segment ^= wrong & 1u;
	load->envelope.block ^= wrong & 2u;
	if ((wrong & 4u) != 0 && load->record_blocks < ENGINE_RECORD_BLOCKS_MAX)
		load->record_blocks++;
	else
		wrong &= (uint8_t)~4u;
	if ((wrong & 8u) != 0)
		load->codec_id = ENGINE_ENCRYPTED |
		    (uint8_t)((ENGINE_CODEC(load->codec_id) + 1u) % ENGINE_ID_NR);
	return (wrong & 15u) != 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t plain[ENGINE_RECORD_BYTES_MAX], loaded[ENGINE_RECORD_BYTES_MAX];
	static uint8_t stored[ENGINE_STORED_BYTES_MAX], sent[ENGINE_STORED_BYTES_MAX];
	struct engine_job store = { .kind = ENGINE_JOB_STORE }, load = { .kind = ENGINE_JOB_LOAD };
	bool is_same;

	if (bytes < HEAD_BYTES)
		return 0;
	store.codec_id = data[0] % ENGINE_ID_NR;
	store.level = engine_by_id(store.codec_id)->level_default;
	store.block_count = 1 + data[1] % ENGINE_RECORD_BLOCKS_MAX;
	store.src = data_dev_ptr(plain);
	store.src_bytes = store.block_count * CLEAVE_BLOCK_BYTES;
	store.dst = data_dev_ptr(stored);
	store.dst_cap_bytes = sizeof(stored);
	store.envelope = (struct engine_envelope){ .key_id = KEY_ID, .segment = 9, .block = 77 };
	data_fill(plain, store.src_bytes, data[2] % DATA_KIND_NR, data[2]);
	store.payload_crc = crc32c(0, plain, store.src_bytes);
	assert(engine_submit(set_of(), &store) == 1 && store.rc == 0);
	if (store.is_zero)
		return 0;
	memcpy(sent, stored, store.dst_bytes);
	load.codec_id = store.ret_codec_id;
	load.src = store.dst;
	load.src_bytes = store.dst_bytes;
	load.dst = data_dev_ptr(loaded);
	load.dst_cap_bytes = sizeof(loaded);
	load.record_blocks = load.block_count = store.block_count;
	load.envelope = store.envelope;
	is_same = !tell_wrong(&load, data[3]);
	data += HEAD_BYTES;
	bytes -= HEAD_BYTES;
	for (uint32_t i = 0; i < EDITS_MAX && bytes >= EDIT_BYTES; i++) {
		stored[(num_get_le32(data) & 0xffffff) % store.dst_bytes] ^= data[3];
		data += EDIT_BYTES;
		bytes -= EDIT_BYTES;
	}
	if (bytes > 0 && bytes <= sizeof(stored)) {
		memcpy(stored, data, bytes);
		load.src_bytes = (uint32_t)bytes;
	}
	load.stored_crc = crc32c(0, stored, load.src_bytes);
	is_same = is_same && load.src_bytes == store.dst_bytes &&
	    memcmp(stored, sent, store.dst_bytes) == 0;
	memcpy(sent, stored, load.src_bytes);
	assert(engine_submit(set_of(), &load) == 1);
	assert(load.rc == 0 || load.rc == -EBADMSG || load.rc == -ENOKEY);
	assert((load.rc == 0) == is_same);
	assert(memcmp(stored, sent, load.src_bytes) == 0); /* the source is left alone */
	if (is_same)
		assert(memcmp(loaded, plain, store.src_bytes) == 0);
	return 0;
}
