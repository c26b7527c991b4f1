/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h -- what computes on device memory: compression and checksums
 *
 * Three layers. A *codec* (struct engine_ops) turns bytes into fewer bytes and back; one file each,
 * found by name or wire id in the registry. A *job* (struct engine_job) is what a daemon asks for:
 * "check these blocks against the sender's CRC, compress them there, tell me both CRCs". An *engine
 * set* (struct engine_set) runs jobs, on the caller's thread or on worker threads, and is what a
 * port owns; it reuses codec state from job to job.
 *
 * An engine set is the only code besides transports and disks that sees payload bytes (I1): it opens
 * the memory guard round each job. Results that software needs to decide with (lengths, CRCs) come
 * back in the job, in host memory.
 */
#ifndef CLEAVE_ENGINE_H
#define CLEAVE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/units.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINE_RECORD_BLOCKS_MAX 16u
#define ENGINE_RECORD_BYTES_MAX (ENGINE_RECORD_BLOCKS_MAX * CLEAVE_BLOCK_BYTES)

/* Stored in every record descriptor: never reuse a value. */
enum engine_id {
	ENGINE_NONE = 0,
	ENGINE_LZ4 = 1,
	ENGINE_ZSTD = 2,
	ENGINE_SNAPPY = 3,
	ENGINE_DEFLATE = 4,
	ENGINE_ID_NR
};

/*
 * An encrypted record: this bit of its codec_id is set wherever that stands, its stored bytes are an envelope
 * (engines/envelope.h), and its block CRCs, which are in the envelope, are zeros everywhere else.
 */
#define ENGINE_ENCRYPTED 0x80u
#define ENGINE_CODEC(codec_id) ((uint8_t)((codec_id) & ~ENGINE_ENCRYPTED))
#define ENGINE_SALT_BYTES 12u
/* Bytes of an envelope beside what a codec made of the blocks. */
#define ENGINE_ENVELOPE_BYTES(block_count) (40u + 4u * (block_count))
#define ENGINE_STORED_BYTES_MAX                                                                    \
	(ENGINE_RECORD_BYTES_MAX + ENGINE_ENVELOPE_BYTES(ENGINE_RECORD_BLOCKS_MAX))

/* A codec. Instances are const, one a file. */
struct engine_ops {
	const char *name; /* what --engine accepts */
	uint8_t wire_id;
	int level_min, level_max, level_default; /* higher: more effort */
	/* Required. State for one thread, reused from call to call. NULL: out of memory. */
	void *(*create)(void);
	void (*destroy)(void *state);
	/*
	 * Required. Never writes past @dst_cap_bytes; 0 and *@ret_dst_bytes, or -ENOSPC = does not
	 * fit, store it raw. @dst is undefined then.
	 */
	int (*compress)(void *state, int level, const void *src, uint32_t src_bytes, void *dst,
	    uint32_t dst_cap_bytes, uint32_t *ret_dst_bytes);
	/*
	 * Required. Yields exactly @dst_bytes, else -EBADMSG; reads and writes within bounds
	 * whatever @src holds.
	 */
	int (*decompress)(void *state, const void *src, uint32_t src_bytes, void *dst,
	    uint32_t dst_bytes);
	/*
	 * Optional; NULL: the codec cannot stop early. The first @dst_bytes of what decompress would yield, for less
	 * work than all of it; what follows them in @src is not looked at. -EBADMSG where there are not so many; bounds
	 * as those of decompress.
	 */
	int (*decompress_front)(void *state, const void *src, uint32_t src_bytes, void *dst,
	    uint32_t dst_bytes);
};

/*
 * engine_by_name -- the codec that is called @name
 *
 * Ownership: codecs are static; @name is borrowed during the call.
 * Returns:   the codec, or NULL: there is none of that name.
 * Errors:    none.
 * Threads:   any.
 */
const struct engine_ops *engine_by_name(const char *name);

/*
 * engine_by_id -- the codec that is stored as @wire_id
 *
 * Ownership: codecs are static.
 * Returns:   the codec, or NULL: there is none of that number.
 * Errors:    none.
 * Threads:   any.
 */
const struct engine_ops *engine_by_id(uint8_t wire_id);

/*
 * engine_count -- how many codecs there are
 *
 * Ownership: takes nothing.
 * Returns:   the number; it never changes.
 * Errors:    none.
 * Threads:   any.
 */
uint32_t engine_count(void);

/*
 * engine_at -- the codec with this index
 *
 * Ownership: codecs are static.
 * Returns:   the codec; @index is 0 .. engine_count() - 1.
 * Errors:    none.
 * Threads:   any.
 */
const struct engine_ops *engine_at(uint32_t index);

enum engine_job_kind {
	/*
	 * STORE: a client's write becomes a record. @src: block_count blocks. Computes each block's
	 * plain CRC into block_crcs, combines them and compares with payload_crc (-EBADMSG), then
	 * compresses into @dst with @codec_id at @level. When that saves less than one eighth, or
	 * codec_id is ENGINE_NONE, copies raw. Blocks that hold nothing but zeros are stored nowhere:
	 * is_zero is set, dst_bytes is 0 and @dst untouched. Results: dst_bytes, ret_codec_id,
	 * stored_crc, block_crcs, is_zero. dst_cap_bytes must be at least src_bytes.
	 * With envelope.key_id the record is encrypted: dst_cap_bytes must be ENGINE_ENVELOPE_BYTES more,
	 * ret_codec_id has ENGINE_ENCRYPTED, and block_crcs come back as zeros. -ENOKEY: that key is not
	 * in the set's keyring; dst is undefined.
	 */
	ENGINE_JOB_STORE,
	/*
	 * LOAD: a stored record becomes blocks. Checks stored_crc over src, decompresses to
	 * record_blocks blocks, copies blocks [first_block, first_block + block_count) to @dst and
	 * checks each one against block_crcs[0..block_count). -EBADMSG where any does not match.
	 * Where the codec can stop early, what lies behind the last block that is wanted is not
	 * decompressed: only stored_crc says anything about it.
	 * Of an encrypted record block_crcs are a result, and so is ret_key_id; envelope says where it is.
	 * src is never altered. -ENOKEY: its key is not in the set's keyring; that says nothing about src.
	 */
	ENGINE_JOB_LOAD,
	/* BATCH: a storage node checks a batch in @src; see batch.h. */
	ENGINE_JOB_BATCH,
	/* CRC: payload_crc = CRC-32C of src. */
	ENGINE_JOB_CRC,
	/* COPY: src to dst. ZERO: zeroes src_bytes of dst. Device to device, nothing else. */
	ENGINE_JOB_COPY,
	ENGINE_JOB_ZERO,
	/* CODEC: plain compression or decompression for dev_func: src to dst by codec_id. */
	ENGINE_JOB_COMPRESS,
	ENGINE_JOB_DECOMPRESS,
	ENGINE_JOB_KIND_NR
};

struct batch_check; /* batch.h */

/*
 * Whether a STORE looks at a few bytes of the payload first, which tells nearly always whether it is
 * dense: encrypted, or compressed already. That takes a tenth of what LZ4 takes to find it out.
 */
enum engine_probe {
	ENGINE_PROBE_NONE,   /* do not look */
	ENGINE_PROBE_REPORT, /* say in is_dense, and compress all the same */
	ENGINE_PROBE_SKIP,   /* say in is_dense, and store raw what is */
};

/* An envelope's key, salt and counter, and its record's place. Drawn anew (envelope_draw, cleave/envelope.h) for each submit. */
struct engine_envelope {
	uint32_t key_id;                 /* STORE: of the data key; 0: the record stays plain */
	uint32_t counter;                /* STORE */
	uint8_t salt[ENGINE_SALT_BYTES]; /* STORE */
	uint32_t block;                  /* of the record's first block in its segment */
	uint64_t segment;
};

/*
 * A job. The caller owns it, fills the inputs, and leaves it and the memory behind src and dst alone
 * until it is done. Not copied, not allocated.
 */
struct engine_job {
	enum engine_job_kind kind;
	uint8_t codec_id;
	int level;
	enum engine_probe probe; /* STORE */
	bool must_time;          /* measure run_ns; inline sets leave that to the caller */
	dev_ptr src;
	uint32_t src_bytes;
	dev_ptr dst;
	uint32_t dst_cap_bytes;
	uint32_t payload_crc; /* STORE: expected. CRC: result */
	uint32_t stored_crc;  /* STORE: result. LOAD: expected */
	uint8_t record_blocks, first_block, block_count;
	uint32_t
	    block_crcs[ENGINE_RECORD_BLOCKS_MAX]; /* STORE: results. LOAD: expected, or results */
	struct engine_envelope envelope;          /* STORE, and LOAD of an encrypted record */
	struct batch_check *batch;                /* BATCH: in and out */
	/* Results. */
	int rc;
	uint32_t dst_bytes;
	uint8_t ret_codec_id;
	uint32_t ret_key_id; /* LOAD: that the record was encrypted with; 0: it was not */
	uint64_t run_ns;
	bool is_dense; /* STORE: by the probe */
	bool is_zero;  /* STORE: the payload is all zeros, and nothing was stored of it */
	/* Called on the loop's thread when engine_submit returned 0. */
	void (*fn)(struct engine_job *job, void *arg);
	void *arg;
	struct engine_job *next;    /* owned by the set while it runs */
	struct loop_post done_post; /* owned by the set while it runs */
};

struct engine_workers_ops;
struct keyring;

struct engine_set_options {
	uint32_t thread_count;    /* 0: inline, on the submitting thread */
	uint32_t queue_depth_max; /* jobs waiting for a thread; ignored when inline */
	bool is_background;       /* threads of the lowest priority: what else runs goes first */
	/* The keys of encrypted records, borrowed (cleave/keyring.h); NULL: there are none. */
	const struct keyring *keys;
	/* Instead of threads; NULL: threads. For a simulator alone (engines/sim/offload_sim.h). */
	const struct engine_workers_ops *workers;
};

struct engine_set;

/*
 * engine_set_create -- a set of engines whose completions come to @loop
 *
 * Ownership: the caller's until engine_set_destroy; @loop is borrowed until then, @options is copied.
 * Returns:   the set, or NULL with errno.
 * Errors:    ENOMEM; EAGAIN no thread could be made.
 * Threads:   the loop's.
 */
struct engine_set *engine_set_create(struct loop *loop, const struct engine_set_options *options);

/*
 * engine_set_destroy -- wait for running jobs, and end the set; NULL is a no-op
 *
 * Ownership: @set is gone. No job may be submitted and not done; a simulated set drops what it has.
 * Threads:   the loop's.
 */
void engine_set_destroy(struct engine_set *set);

/*
 * engine_submit, engine_submit_urgent -- run @job; an urgent one goes ahead of those queued
 *
 * Ownership: @job and the memory behind its src and dst are the set's until it is done.
 * Returns:   1: done already, results are in @job, @job->fn is not called (inline sets always); 0: @fn
 *            will be called exactly once from the loop; else nothing was touched.
 * Errors:    -ENOBUFS the queue is full, try when a job completes; -EINVAL the shape is wrong, or the
 *            codec unknown.
 * Threads:   the loop's.
 */
int engine_submit(struct engine_set *set, struct engine_job *job);
int engine_submit_urgent(struct engine_set *set, struct engine_job *job);

/*
 * engine_set_queued_count -- how many jobs wait for a thread
 *
 * Ownership: borrows @set during the call.
 * Returns:   the number; 0 for inline sets.
 * Errors:    none.
 * Threads:   the loop's.
 */
uint32_t engine_set_queued_count(const struct engine_set *set);

/*
 * The vtable through which splitlib's dev_func reaches a set without linking to engines. A port gets
 * a pointer to engine_set_gate_ops and the set.
 */
struct engine_gate_ops {
	int (*submit)(struct engine_set *set, struct engine_job *job);
};
extern const struct engine_gate_ops engine_set_gate_ops;

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_ENGINE_H */
