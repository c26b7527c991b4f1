/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c -- what each kind of job does
 *
 * engine_job_check looks at a job's shape before anything is touched; behind it, assertions.
 * engine_job_run opens the memory guard, and is the one place where a dev_ptr becomes an address.
 *
 * Each byte is read as seldom as can be: a STORE computes one CRC a block and derives both the
 * payload's and, of a raw record, the stored CRC from them; so does the LOAD of a raw record.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/guard.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "envelope.h"
#include "internal.h"

/* A compressed record is kept when it saves one eighth (1 >> 3) at least: less is not worth the reader's time. */
#define STORE_SAVING_SHIFT 3
/* Bytes that is_dense looks at, and the different values among them from which on a payload is dense. */
#define PROBE_SAMPLES 128u
#define PROBE_DISTINCT_MIN 86u

static uint8_t *
address_of(dev_ptr ptr)
{
	return (uint8_t *)ptr.device_address_private;
}

/* ---- the runner ---- */

int
engine_runner_init(struct engine_runner *runner, const struct keyring *keys)
{
	*runner = (struct engine_runner){ .scratch = malloc(ENGINE_RECORD_BYTES_MAX) };
	if (keys != NULL)
		runner->box = envelope_box_create(keys);
	if (runner->scratch == NULL || (keys != NULL && runner->box == NULL)) {
		engine_runner_fini(runner);
		return -ENOMEM;
	}
	for (uint8_t id = 0; id < ENGINE_ID_NR; id++) {
		assert(engine_by_id(id)->wire_id == id);
		runner->states[id] = engine_by_id(id)->create();
		if (runner->states[id] == NULL) {
			engine_runner_fini(runner);
			return -ENOMEM;
		}
	}
	return 0;
}

void
engine_runner_fini(struct engine_runner *runner)
{
	for (uint8_t id = 0; id < ENGINE_ID_NR; id++)
		if (runner->states[id] != NULL)
			engine_by_id(id)->destroy(runner->states[id]);
	envelope_box_destroy(runner->box);
	free(runner->scratch);
	*runner = (struct engine_runner){ 0 };
}

/* ---- shapes ---- */

static bool
has_src(const struct engine_job *job)
{
	return !dev_ptr_is_null(job->src) && job->src_bytes > 0;
}

static bool
has_dst(const struct engine_job *job, uint32_t bytes)
{
	return !dev_ptr_is_null(job->dst) && job->dst_cap_bytes >= bytes;
}

static bool
has_level(const struct engine_job *job)
{
	const struct engine_ops *ops = engine_by_id(job->codec_id);

	if (ops == NULL)
		return false;
	/* Storing raw takes no effort: whatever level the policy left there is fine. */
	return job->codec_id == ENGINE_NONE ||
	    (job->level >= ops->level_min && job->level <= ops->level_max);
}

/* Bytes before the codec's output. */
static uint32_t
store_lead_bytes(const struct engine_job *job)
{
	return job->envelope.key_id == 0 ? 0 : ENGINE_ENVELOPE_BYTES(job->block_count);
}

static bool
store_is_valid(const struct engine_job *job)
{
	return job->block_count >= 1 && job->block_count <= ENGINE_RECORD_BLOCKS_MAX &&
	    has_src(job) && job->src_bytes == job->block_count * CLEAVE_BLOCK_BYTES &&
	    has_dst(job, job->src_bytes + store_lead_bytes(job)) && has_level(job);
}

static bool
load_is_valid(const struct engine_job *job)
{
	return job->record_blocks >= 1 && job->record_blocks <= ENGINE_RECORD_BLOCKS_MAX &&
	    job->block_count >= 1 && job->first_block + job->block_count <= job->record_blocks &&
	    has_src(job) && has_dst(job, job->block_count * CLEAVE_BLOCK_BYTES) &&
	    engine_by_id(ENGINE_CODEC(job->codec_id)) != NULL;
}

static bool
compress_is_valid(const struct engine_job *job)
{
	return has_src(job) && job->src_bytes <= ENGINE_CODEC_BYTES_MAX && has_dst(job, 1) &&
	    has_level(job);
}

static bool
decompress_is_valid(const struct engine_job *job)
{
	return has_src(job) && job->src_bytes <= ENGINE_CODEC_BYTES_MAX && has_dst(job, 1) &&
	    job->dst_cap_bytes <= ENGINE_CODEC_BYTES_MAX && engine_by_id(job->codec_id) != NULL;
}

static bool
job_is_valid(const struct engine_job *job)
{
	switch (job->kind) {
	case ENGINE_JOB_STORE:
		return store_is_valid(job);
	case ENGINE_JOB_LOAD:
		return load_is_valid(job);
	case ENGINE_JOB_BATCH:
		return has_src(job) && job->batch != NULL;
	case ENGINE_JOB_CRC:
		return has_src(job);
	case ENGINE_JOB_COPY:
		return has_src(job) && has_dst(job, job->src_bytes);
	case ENGINE_JOB_ZERO:
		return job->src_bytes > 0 && has_dst(job, job->src_bytes);
	case ENGINE_JOB_COMPRESS:
		return compress_is_valid(job);
	case ENGINE_JOB_DECOMPRESS:
		return decompress_is_valid(job);
	case ENGINE_JOB_KIND_NR:
		break;
	}
	return false;
}

int
engine_job_check(const struct engine_job *job)
{
	return job_is_valid(job) ? 0 : -EINVAL;
}

/* ---- STORE ---- */

/* Put the CRC of each block into @ret_crcs. Returns that of all @count blocks together. */
static uint32_t
blocks_crc(const uint8_t *blocks, uint32_t count, uint32_t *ret_crcs)
{
	uint32_t whole = 0;

	assert(count >= 1);
	assert(count <= ENGINE_RECORD_BLOCKS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		ret_crcs[i] = crc32c(0, blocks + i * CLEAVE_BLOCK_BYTES, CLEAVE_BLOCK_BYTES);
		whole = i == 0 ? ret_crcs[0]
			       : crc32c_combine(whole, ret_crcs[i], CLEAVE_BLOCK_BYTES);
	}
	return whole;
}

/* Are all bytes zero? The first word tells nearly always; the rest is compared with itself, one word further. */
static bool
is_zero(const uint8_t *bytes, uint32_t count)
{
	uint64_t word;

	assert(count > sizeof(word));
	memcpy(&word, bytes, sizeof(word));
	return word == 0 && memcmp(bytes, bytes + sizeof(word), count - sizeof(word)) == 0;
}

/*
 * Are the bytes dense: encrypted, or compressed already? Dense bytes are spread over all 256 values: 128 samples
 * of them have 101 different ones in the mean, with a deviation of 4; samples of text have 30 to 50, of programs
 * and tables up to 80.
 */
static bool
is_dense(const uint8_t *bytes, uint32_t count)
{
	uint8_t is_seen[256] = { 0 };
	uint32_t stride = count / PROBE_SAMPLES - 1; /* odd: columns of records do not line up */
	uint32_t distinct_count = 0;

	assert(count >= CLEAVE_BLOCK_BYTES);
	assert(stride % 2 == 1);
	assert(stride * PROBE_SAMPLES <= count);
	for (uint32_t i = 0; i < PROBE_SAMPLES; i++) {
		uint8_t value = bytes[i * stride];

		distinct_count += is_seen[value] ^ 1u;
		is_seen[value] = 1;
	}
	return distinct_count >= PROBE_DISTINCT_MIN;
}

/* Where the record is, as its envelope says. */
static struct envelope_place
job_place(const struct engine_job *job, uint8_t codec_id, uint8_t block_count)
{
	return (struct envelope_place){ .kind = RECORD_WRITE,
		.codec_id = codec_id,
		.block_count = block_count,
		.block = job->envelope.block,
		.segment = job->envelope.segment };
}

/* The codec's output, job->dst_bytes of it, is where an envelope wants it: encrypt it there. */
static int
store_encrypt(struct engine_runner *runner, struct engine_job *job)
{
	uint8_t *dst = address_of(job->dst);
	uint8_t codec_id = job->ret_codec_id | ENGINE_ENCRYPTED;
	struct envelope_place place = job_place(job, codec_id, job->block_count);
	int rc = envelope_close(runner->box, &place, &job->envelope, job->block_crcs, dst,
	    job->dst_bytes);

	if (rc != 0) {
		job->dst_bytes = 0;
		return rc;
	}
	job->dst_bytes += ENGINE_ENVELOPE_BYTES(job->block_count);
	assert(job->dst_bytes <= job->dst_cap_bytes);
	job->ret_codec_id = codec_id;
	job->stored_crc = crc32c(0, dst, job->dst_bytes);
	if (!MUTANT(crcs_kept))
		memset(job->block_crcs, 0,
		    sizeof(job->block_crcs)); /* they would tell what was written */
	return 0;
}

static int
job_store(struct engine_runner *runner, struct engine_job *job)
{
	const uint8_t *src = address_of(job->src);
	uint8_t *dst = address_of(job->dst) + store_lead_bytes(job);
	uint32_t dst_bytes_max = job->src_bytes - (job->src_bytes >> STORE_SAVING_SHIFT);
	const struct engine_ops *ops = engine_by_id(job->codec_id);
	void *state = runner->states[job->codec_id];
	uint32_t plain_crc = blocks_crc(src, job->block_count, job->block_crcs);
	bool is_encrypted = job->envelope.key_id != 0;

	assert(job->codec_id < ENGINE_ID_NR);
	assert(job->src_bytes == job->block_count * CLEAVE_BLOCK_BYTES);
	assert(job->dst_cap_bytes >= job->src_bytes + store_lead_bytes(job));
	if (plain_crc != job->payload_crc)
		return -EBADMSG;
	if (is_zero(src, job->src_bytes)) {
		job->is_zero = true;
		job->stored_crc = 0;
		return 0;
	}
	if (job->probe != ENGINE_PROBE_NONE)
		job->is_dense = is_dense(src, job->src_bytes);
	if (job->codec_id != ENGINE_NONE && !(job->is_dense && job->probe == ENGINE_PROBE_SKIP) &&
	    ops->compress(state, job->level, src, job->src_bytes, dst, dst_bytes_max,
		&job->dst_bytes) == 0) {
		assert(job->dst_bytes > 0);
		assert(job->dst_bytes <= dst_bytes_max);
		job->ret_codec_id = job->codec_id;
		if (is_encrypted)
			return store_encrypt(runner, job);
		job->stored_crc = crc32c(0, dst, job->dst_bytes);
		return 0;
	}
	memcpy(dst, src, job->src_bytes);
	job->dst_bytes = job->src_bytes;
	job->ret_codec_id = ENGINE_NONE;
	if (is_encrypted)
		return store_encrypt(runner, job);
	job->stored_crc = plain_crc;
	return 0;
}

/* ---- LOAD ---- */

static int
load_raw(struct engine_job *job)
{
	const uint8_t *src = address_of(job->src);
	uint8_t *dst = address_of(job->dst);
	uint32_t end = (uint32_t)job->first_block + job->block_count;
	uint32_t whole = 0;

	assert(end <= job->record_blocks);
	if (job->src_bytes != job->record_blocks * CLEAVE_BLOCK_BYTES)
		return -EBADMSG;
	/* Block by block: what was just summed is copied from the nearest cache. */
	for (uint32_t i = 0; i < job->record_blocks; i++) {
		const uint8_t *block = src + i * CLEAVE_BLOCK_BYTES;
		uint32_t crc = crc32c(0, block, CLEAVE_BLOCK_BYTES);

		whole = i == 0 ? crc : crc32c_combine(whole, crc, CLEAVE_BLOCK_BYTES);
		if (i < job->first_block || i >= end)
			continue;
		if (crc != job->block_crcs[i - job->first_block])
			return -EBADMSG;
		memcpy(dst + (i - job->first_block) * CLEAVE_BLOCK_BYTES, block,
		    CLEAVE_BLOCK_BYTES);
	}
	if (whole != job->stored_crc)
		return -EBADMSG;
	job->dst_bytes = job->block_count * CLEAVE_BLOCK_BYTES;
	return 0;
}

/* The wanted blocks, which begin at @blocks, are what the job says, and go to their place if they are not there. */
static int
load_blocks(struct engine_job *job, const uint8_t *blocks)
{
	uint8_t *dst = address_of(job->dst);

	assert(job->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	/* Block by block, as in load_raw. */
	for (uint32_t i = 0; i < job->block_count; i++) {
		const uint8_t *block = blocks + i * CLEAVE_BLOCK_BYTES;

		if (crc32c(0, block, CLEAVE_BLOCK_BYTES) != job->block_crcs[i])
			return -EBADMSG;
		if (blocks != dst)
			memcpy(dst + i * CLEAVE_BLOCK_BYTES, block, CLEAVE_BLOCK_BYTES);
	}
	job->dst_bytes = job->block_count * CLEAVE_BLOCK_BYTES;
	return 0;
}

/* @output, which @codec made of the record, becomes the wanted blocks; the job's block_crcs are right. */
static int
load_output(struct engine_runner *runner, struct engine_job *job, uint8_t codec,
    const uint8_t *output, uint32_t output_bytes)
{
	const struct engine_ops *ops = engine_by_id(codec);
	uint32_t skipped_bytes = job->first_block * CLEAVE_BLOCK_BYTES;
	uint32_t wanted_bytes = job->block_count * CLEAVE_BLOCK_BYTES;
	uint32_t front_bytes = skipped_bytes + wanted_bytes;
	uint32_t record_bytes = job->record_blocks * CLEAVE_BLOCK_BYTES;
	bool is_front = front_bytes < record_bytes && ops->decompress_front != NULL;
	uint32_t bytes = is_front ? front_bytes : record_bytes;
	uint8_t *record = bytes == wanted_bytes ? address_of(job->dst) : runner->scratch;
	void *state = runner->states[codec];
	int rc;

	assert(record_bytes <= ENGINE_RECORD_BYTES_MAX); /* scratch is for that */
	assert(codec < ENGINE_ID_NR);
	assert(job->dst_cap_bytes >= wanted_bytes);
	rc = is_front ? ops->decompress_front(state, output, output_bytes, record, bytes)
		      : ops->decompress(state, output, output_bytes, record, bytes);
	if (rc != 0)
		return rc;
	return load_blocks(job, record + skipped_bytes);
}

static int
load_compressed(struct engine_runner *runner, struct engine_job *job)
{
	const uint8_t *src = address_of(job->src);

	if (crc32c(0, src, job->src_bytes) != job->stored_crc)
		return -EBADMSG;
	return load_output(runner, job, job->codec_id, src, job->src_bytes);
}

/* The blocks' CRCs are in the envelope, and given out. */
static int
load_encrypted(struct engine_runner *runner, struct engine_job *job)
{
	const uint8_t *src = address_of(job->src);
	struct envelope_place place = job_place(job, job->codec_id, job->record_blocks);
	struct envelope_content content;
	int rc;

	if (crc32c(0, src, job->src_bytes) != job->stored_crc)
		return -EBADMSG;
	rc = envelope_open(runner->box, &place, src, job->src_bytes, &content);
	if (rc != 0)
		return rc;
	memcpy(job->block_crcs, content.crcs + job->first_block,
	    job->block_count * sizeof(content.crcs[0]));
	job->ret_key_id = content.key_id;
	return load_output(runner, job, ENGINE_CODEC(job->codec_id), content.output,
	    content.output_bytes);
}

static int
job_load(struct engine_runner *runner, struct engine_job *job)
{
	assert(job->block_count >= 1);
	assert(job->first_block + job->block_count <= job->record_blocks);
	if ((job->codec_id & ENGINE_ENCRYPTED) != 0)
		return load_encrypted(runner, job);
	if (job->src_bytes > ENGINE_RECORD_BYTES_MAX)
		return -EBADMSG;
	if (job->codec_id == ENGINE_NONE)
		return load_raw(job);
	return load_compressed(runner, job);
}

/* ---- the other kinds ---- */

static int
job_compress(struct engine_runner *runner, struct engine_job *job)
{
	const struct engine_ops *ops = engine_by_id(job->codec_id);
	void *state = runner->states[job->codec_id];

	assert(job->codec_id < ENGINE_ID_NR);
	assert(job->src_bytes <= ENGINE_CODEC_BYTES_MAX);
	job->ret_codec_id = job->codec_id;
	return ops->compress(state, job->level, address_of(job->src), job->src_bytes,
	    address_of(job->dst), job->dst_cap_bytes, &job->dst_bytes);
}

static int
job_decompress(struct engine_runner *runner, struct engine_job *job)
{
	const struct engine_ops *ops = engine_by_id(job->codec_id);
	void *state = runner->states[job->codec_id];
	int rc;

	assert(job->codec_id < ENGINE_ID_NR);
	assert(job->dst_cap_bytes <= ENGINE_CODEC_BYTES_MAX);
	rc = ops->decompress(state, address_of(job->src), job->src_bytes, address_of(job->dst),
	    job->dst_cap_bytes);
	if (rc == 0)
		job->dst_bytes = job->dst_cap_bytes;
	return rc;
}

static int
job_dispatch(struct engine_runner *runner, struct engine_job *job)
{
	switch (job->kind) {
	case ENGINE_JOB_STORE:
		return job_store(runner, job);
	case ENGINE_JOB_LOAD:
		return job_load(runner, job);
	case ENGINE_JOB_BATCH:
		return batch_check_run(address_of(job->src), job->src_bytes, job->batch);
	case ENGINE_JOB_CRC:
		job->payload_crc = crc32c(0, address_of(job->src), job->src_bytes);
		return 0;
	case ENGINE_JOB_COPY:
		/* Both may lie in one buffer. */
		memmove(address_of(job->dst), address_of(job->src), job->src_bytes);
		job->dst_bytes = job->src_bytes;
		return 0;
	case ENGINE_JOB_ZERO:
		memset(address_of(job->dst), 0, job->src_bytes);
		job->dst_bytes = job->src_bytes;
		return 0;
	case ENGINE_JOB_COMPRESS:
		return job_compress(runner, job);
	case ENGINE_JOB_DECOMPRESS:
		return job_decompress(runner, job);
	case ENGINE_JOB_KIND_NR:
		break;
	}
	return -EINVAL; /* engine_job_check lets nothing else through */
}

void
engine_job_run(struct engine_runner *runner, struct engine_job *job)
{
	assert(job->kind < ENGINE_JOB_KIND_NR);
	job->dst_bytes = 0;
	job->ret_codec_id = ENGINE_NONE;
	job->ret_key_id = 0;
	job->is_zero = job->is_dense = false;
	guard_enter();
	job->rc = job_dispatch(runner, job);
	guard_leave();
	assert(job->rc <= 0);
}
