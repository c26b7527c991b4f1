/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_engines -- what does a 4 KiB block cost in each codec, and which entry point is cheapest?
 *
 *	bench_engines [--blocks N] FILE...
 *
 * Takes N blocks (default 2048), spread evenly over each file, and runs each candidate over all of
 * them: compression with a destination of 7/8 of a block, as a STORE does (a block that does not
 * fit counts as raw), and decompression of what fitted. Each figure is the median of five passes; a
 * pass is one timing of all blocks, so the caches are as warm as a stream of blocks leaves them.
 *
 * Output: a JSON array, one object a candidate. Units are in the names; ratio is plain bytes over
 * stored bytes, raw blocks included.
 */
#define LZ4_STATIC_LINKING_ONLY
#define ZSTD_STATIC_LINKING_ONLY

#include <errno.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/envelope.h"
#include "cleave/keyring.h"

#define BLOCK_BYTES CLEAVE_BLOCK_BYTES
#define FIT_BYTES (BLOCK_BYTES - BLOCK_BYTES / 8)
#define PASSES 5u
#define FILES_MAX 64
#define BLOCKS_PER_FILE_DEFAULT 2048u
#define BLOCKS_PER_FILE_MAX 65536u

struct data {
	uint8_t *plain;         /* block_count blocks */
	uint8_t *stored;        /* block_count places of BLOCK_BYTES */
	uint32_t *stored_bytes; /* 0: did not fit */
	uint32_t block_count;
};

/* A way to call a codec. Its functions return the bytes written, 0 where it failed. */
struct candidate {
	const char *name;
	int level;
	void *(*create)(int level);
	void (*destroy)(void *state);
	uint32_t (*compress)(void *state, int level, const void *src, void *dst);
	uint32_t (*decompress)(void *state, const void *src, uint32_t src_bytes, void *dst);
};

static _Noreturn void
die(const char *what, const char *which)
{
	(void)fprintf(stderr, "bench_engines: %s: %s: %s\n", what, which, strerror(errno));
	exit(1);
}

static void *
must(void *memory)
{
	if (memory == NULL)
		die("allocation", "memory");
	return memory;
}

/* ---- LZ4 ---- */

struct lz4 {
	LZ4_stream_t stream;
};

static void *
lz4_create(int level)
{
	struct lz4 *lz4 = must(malloc(sizeof(*lz4)));

	(void)level;
	(void)LZ4_initStream(&lz4->stream, sizeof(lz4->stream));
	return lz4;
}

static uint32_t
lz4_default(void *state, int level, const void *src, void *dst)
{
	(void)state;
	(void)level;
	return (uint32_t)LZ4_compress_default(src, dst, (int)BLOCK_BYTES, (int)FIT_BYTES);
}

static uint32_t
lz4_ext_state(void *state, int level, const void *src, void *dst)
{
	return (uint32_t)LZ4_compress_fast_extState(&((struct lz4 *)state)->stream, src, dst,
	    (int)BLOCK_BYTES, (int)FIT_BYTES, level);
}

static uint32_t
lz4_fast_reset(void *state, int level, const void *src, void *dst)
{
	return (uint32_t)LZ4_compress_fast_extState_fastReset(&((struct lz4 *)state)->stream, src,
	    dst, (int)BLOCK_BYTES, (int)FIT_BYTES, level);
}

/* The streaming call: its tables survive LZ4_resetStream_fast, so nothing is cleared. */
static uint32_t
lz4_continue(void *state, int level, const void *src, void *dst)
{
	LZ4_stream_t *stream = &((struct lz4 *)state)->stream;
	int bytes;

	LZ4_resetStream_fast(stream);
	bytes =
	    LZ4_compress_fast_continue(stream, src, dst, (int)BLOCK_BYTES, (int)FIT_BYTES, level);
	if (bytes == 0)
		(void)LZ4_initStream(stream, sizeof(*stream)); /* its state is undefined now */
	return (uint32_t)bytes;
}

static uint32_t
lz4_decompress(void *state, const void *src, uint32_t src_bytes, void *dst)
{
	int bytes = LZ4_decompress_safe(src, dst, (int)src_bytes, (int)BLOCK_BYTES);

	(void)state;
	return bytes > 0 ? (uint32_t)bytes : 0;
}

/* ---- zstd ---- */

struct zstd {
	ZSTD_CCtx *cctx;
	ZSTD_DCtx *dctx;
};

static void *
zstd_create(int level)
{
	struct zstd *zstd = must(calloc(1, sizeof(*zstd)));

	zstd->cctx = must(ZSTD_createCCtx());
	zstd->dctx = must(ZSTD_createDCtx());
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_compressionLevel, level);
	return zstd;
}

static void *
zstd_create_lean(int level)
{
	struct zstd *zstd = zstd_create(level);

	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_contentSizeFlag, 0);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_checksumFlag, 0);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_dictIDFlag, 0);
	return zstd;
}

static void *
zstd_create_magicless(int level)
{
	struct zstd *zstd = zstd_create_lean(level);

	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_format, ZSTD_f_zstd1_magicless);
	(void)ZSTD_DCtx_setParameter(zstd->dctx, ZSTD_d_format, ZSTD_f_zstd1_magicless);
	return zstd;
}

/* The parameters of the level for a block, fixed, instead of derived from the level each time. */
static void *
zstd_create_fixed(int level)
{
	struct zstd *zstd = zstd_create_lean(level);
	ZSTD_compressionParameters p = ZSTD_getCParams(level, BLOCK_BYTES, 0);

	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_windowLog, (int)p.windowLog);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_chainLog, (int)p.chainLog);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_hashLog, (int)p.hashLog);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_searchLog, (int)p.searchLog);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_minMatch, (int)p.minMatch);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_targetLength, (int)p.targetLength);
	(void)ZSTD_CCtx_setParameter(zstd->cctx, ZSTD_c_strategy, (int)p.strategy);
	return zstd;
}

static void
zstd_destroy(void *state)
{
	struct zstd *zstd = state;

	(void)ZSTD_freeCCtx(zstd->cctx);
	(void)ZSTD_freeDCtx(zstd->dctx);
	free(zstd);
}

static uint32_t
zstd_compress_cctx(void *state, int level, const void *src, void *dst)
{
	size_t bytes = ZSTD_compressCCtx(((struct zstd *)state)->cctx, dst, FIT_BYTES, src,
	    BLOCK_BYTES, level);

	return ZSTD_isError(bytes) ? 0 : (uint32_t)bytes;
}

static uint32_t
zstd_compress2(void *state, int level, const void *src, void *dst)
{
	size_t bytes;

	(void)level;
	bytes = ZSTD_compress2(((struct zstd *)state)->cctx, dst, FIT_BYTES, src, BLOCK_BYTES);
	return ZSTD_isError(bytes) ? 0 : (uint32_t)bytes;
}

static uint32_t
zstd_decompress(void *state, const void *src, uint32_t src_bytes, void *dst)
{
	size_t bytes =
	    ZSTD_decompressDCtx(((struct zstd *)state)->dctx, dst, BLOCK_BYTES, src, src_bytes);

	return ZSTD_isError(bytes) ? 0 : (uint32_t)bytes;
}

/* ---- the engines as they are ---- */

struct shipped {
	const struct engine_ops *ops;
	void *state;
};

static void *
shipped_create(const char *name)
{
	struct shipped *shipped = must(calloc(1, sizeof(*shipped)));

	shipped->ops = must((void *)(uintptr_t)engine_by_name(name));
	shipped->state = must(shipped->ops->create());
	return shipped;
}

static void *
shipped_create_none(int level)
{
	(void)level;
	return shipped_create("none");
}

static void *
shipped_create_lz4(int level)
{
	(void)level;
	return shipped_create("lz4");
}

static void *
shipped_create_zstd(int level)
{
	(void)level;
	return shipped_create("zstd");
}

static void *
shipped_create_snappy(int level)
{
	(void)level;
	return shipped_create("snappy");
}

static void *
shipped_create_deflate(int level)
{
	(void)level;
	return shipped_create("deflate");
}

static void
shipped_destroy(void *state)
{
	struct shipped *shipped = state;

	shipped->ops->destroy(shipped->state);
	free(shipped);
}

static uint32_t
shipped_compress(void *state, int level, const void *src, void *dst)
{
	struct shipped *shipped = state;
	uint32_t bytes;

	if (shipped->ops->compress(shipped->state, level, src, BLOCK_BYTES, dst, FIT_BYTES,
		&bytes) != 0)
		return 0;
	return bytes;
}

static uint32_t
shipped_decompress(void *state, const void *src, uint32_t src_bytes, void *dst)
{
	struct shipped *shipped = state;

	if (shipped->ops->decompress(shipped->state, src, src_bytes, dst, BLOCK_BYTES) != 0)
		return 0;
	return BLOCK_BYTES;
}

#define ZSTD(entry, create, level)                                                                 \
	{                                                                                          \
		entry, level, create, zstd_destroy, zstd_compress2, zstd_decompress                \
	}
#define ZSTD_CCTX(level)                                                                           \
	{                                                                                          \
		"ZSTD_compressCCtx", level, zstd_create, zstd_destroy, zstd_compress_cctx,         \
		    zstd_decompress                                                                \
	}
#define ZSTD_ALL(level)                                                                            \
	ZSTD_CCTX(level), ZSTD("ZSTD_compress2", zstd_create, level),                              \
	    ZSTD("ZSTD_compress2 lean", zstd_create_lean, level),                                  \
	    ZSTD("ZSTD_compress2 lean fixed", zstd_create_fixed, level),                           \
	    ZSTD("ZSTD_compress2 lean magicless", zstd_create_magicless, level)
#define SHIPPED(engine, level)                                                                     \
	{                                                                                          \
		"engine " #engine, level, shipped_create_##engine, shipped_destroy,                \
		    shipped_compress, shipped_decompress                                           \
	}

static const struct candidate candidates[] = {
	{ "LZ4_compress_default", 1, lz4_create, free, lz4_default, lz4_decompress },
	{ "LZ4_compress_fast_extState", 1, lz4_create, free, lz4_ext_state, lz4_decompress },
	{ "LZ4_compress_fast_extState_fastReset", 1, lz4_create, free, lz4_fast_reset,
	    lz4_decompress },
	{ "LZ4_compress_fast_continue", 1, lz4_create, free, lz4_continue, lz4_decompress },
	ZSTD_ALL(-5),
	ZSTD_ALL(-1),
	ZSTD_ALL(1),
	ZSTD_ALL(3),
	SHIPPED(none, 0),
	SHIPPED(lz4, -8),
	SHIPPED(lz4, 1),
	SHIPPED(lz4, 9),
	SHIPPED(snappy, 0),
	SHIPPED(deflate, 0),
	SHIPPED(deflate, 1),
	SHIPPED(deflate, 3),
	SHIPPED(zstd, -7),
	SHIPPED(zstd, -1),
	SHIPPED(zstd, 1),
	SHIPPED(zstd, 3),
	SHIPPED(zstd, 6),
	SHIPPED(zstd, 9),
	SHIPPED(zstd, 12),
	SHIPPED(zstd, 19),
};

/* ---- measuring ---- */

static uint64_t
now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return NUM_S(ts.tv_sec) + (uint64_t)ts.tv_nsec;
}

static int
compare_double(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double
median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_double);
	return values[count / 2];
}

static double
pass_compress(const struct candidate *c, void *state, struct data *data)
{
	uint64_t start_ns = now_ns();

	for (uint32_t i = 0; i < data->block_count; i++)
		data->stored_bytes[i] = c->compress(state, c->level,
		    data->plain + (size_t)i * BLOCK_BYTES, data->stored + (size_t)i * BLOCK_BYTES);
	return (double)(now_ns() - start_ns) / data->block_count;
}

static double
pass_decompress(const struct candidate *c, void *state, const struct data *data)
{
	uint8_t block[BLOCK_BYTES];
	uint32_t count = 0;
	uint64_t start_ns = now_ns();

	for (uint32_t i = 0; i < data->block_count; i++) {
		if (data->stored_bytes[i] == 0)
			continue;
		count++;
		if (c->decompress(state, data->stored + (size_t)i * BLOCK_BYTES,
			data->stored_bytes[i], block) != BLOCK_BYTES)
			die("decompression", c->name);
	}
	return count == 0 ? 0 : (double)(now_ns() - start_ns) / count;
}

/* Each block must come back as it went in, outside the timing. */
static void
verify(const struct candidate *c, void *state, const struct data *data)
{
	uint8_t block[BLOCK_BYTES];

	for (uint32_t i = 0; i < data->block_count; i++) {
		size_t at = (size_t)i * BLOCK_BYTES;

		if (data->stored_bytes[i] == 0)
			continue;
		(void)c->decompress(state, data->stored + at, data->stored_bytes[i], block);
		if (memcmp(block, data->plain + at, BLOCK_BYTES) != 0)
			die("round trip", c->name);
	}
}

static void
measure_candidate(const struct candidate *c, struct data *data, bool is_first)
{
	double compress_ns[PASSES], decompress_ns[PASSES];
	uint64_t stored_bytes = 0;
	uint32_t raw_count = 0;
	void *state = c->create(c->level);

	(void)pass_compress(c, state, data); /* warms up */
	for (uint32_t i = 0; i < PASSES; i++)
		compress_ns[i] = pass_compress(c, state, data);
	for (uint32_t i = 0; i < PASSES; i++)
		decompress_ns[i] = pass_decompress(c, state, data);
	verify(c, state, data);
	for (uint32_t i = 0; i < data->block_count; i++) {
		raw_count += data->stored_bytes[i] == 0;
		stored_bytes += data->stored_bytes[i] == 0 ? BLOCK_BYTES : data->stored_bytes[i];
	}
	(void)printf("%s  {\"entry\": \"%s\", \"level\": %d, \"compress_ns_per_block_p50\": %.0f, "
		     "\"decompress_ns_per_block_p50\": %.0f, \"ratio\": %.3f, "
		     "\"raw_share\": %.3f}",
	    is_first ? "" : ",\n", c->name, c->level, median(compress_ns, PASSES),
	    median(decompress_ns, PASSES),
	    (double)data->block_count * BLOCK_BYTES / (double)stored_bytes,
	    (double)raw_count / data->block_count);
	(void)fflush(stdout);
	c->destroy(state);
}

static void
print_ns(const char *entry, double *ns)
{
	(void)printf(",\n  {\"entry\": \"%s\", \"ns_p50\": %.1f}", entry, median(ns, PASSES));
}

static void
measure_crc(const struct data *data)
{
	double block_ns[PASSES], combine_ns[PASSES], combine_odd_ns[PASSES];
	const uint32_t combine_count = 1000000;

	for (uint32_t pass = 0; pass < PASSES; pass++) {
		uint32_t crc = 0;
		uint64_t start_ns = now_ns();

		for (uint32_t i = 0; i < data->block_count; i++)
			crc ^= crc32c(0, data->plain + (size_t)i * BLOCK_BYTES, BLOCK_BYTES);
		block_ns[pass] = (double)(now_ns() - start_ns) / data->block_count;
		start_ns = now_ns();
		for (uint32_t i = 0; i < combine_count; i++)
			crc = crc32c_combine(crc, i, BLOCK_BYTES);
		combine_ns[pass] = (double)(now_ns() - start_ns) / combine_count;
		start_ns = now_ns();
		for (uint32_t i = 0; i < combine_count; i++)
			crc = crc32c_combine(crc, i, 1024 + (i & 2047));
		combine_odd_ns[pass] = (double)(now_ns() - start_ns) / combine_count;
		__asm__ volatile("" : : "r"(crc)); /* the sums are used */
	}
	print_ns("crc32c of a block", block_ns);
	print_ns("crc32c_combine of a block", combine_ns);
	print_ns("crc32c_combine of 1024..3071 bytes", combine_odd_ns);
}

/* Makes a STORE into the LOAD of what it stored. */
static void
load_of(struct engine_job *job, uint8_t *block)
{
	job->kind = ENGINE_JOB_LOAD;
	job->codec_id = job->ret_codec_id;
	job->src = job->dst;
	job->src_bytes = job->dst_bytes;
	job->dst = (dev_ptr){ (uintptr_t)block };
	job->record_blocks = 1;
}

static void
print_job_ns(const char *kind, uint8_t codec_id, int level, uint32_t key_id, double *ns)
{
	char entry[64];

	(void)snprintf(entry, sizeof(entry), "%s %s %d%s", kind, engine_by_id(codec_id)->name,
	    level, key_id == 0 ? "" : ", encrypted");
	print_ns(entry, ns);
}

/* A whole job through an inline set: STORE with its CRCs, then LOAD of what it stored. @key_id 0: nothing is encrypted. */
static void
measure_jobs(struct data *data, uint8_t codec_id, int level, uint32_t key_id)
{
	static const uint8_t key[KEYRING_KEY_BYTES] = { 1 };
	const uint32_t stride_bytes = BLOCK_BYTES + ENGINE_ENVELOPE_BYTES(1);
	struct keyring *keys = must(keyring_create());
	struct engine_set_options options = { .keys = keys };
	struct engine_set *set = must(engine_set_create(NULL, &options));
	struct envelope_writer writer;
	uint8_t *all_stored = must(malloc((size_t)data->block_count * stride_bytes));
	struct engine_job *jobs = must(calloc(data->block_count, sizeof(*jobs)));
	uint8_t block[BLOCK_BYTES];
	double store_ns[PASSES], load_ns[PASSES];

	envelope_writer_init(&writer, NULL, NULL);
	if (key_id != 0 && keyring_put(keys, key_id, key) != 0)
		die("STORE", "key");
	for (uint32_t pass = 0; pass < PASSES; pass++) {
		for (uint32_t i = 0; i < data->block_count; i++) {
			uint8_t *plain = data->plain + (size_t)i * BLOCK_BYTES;
			uint8_t *stored = all_stored + (size_t)i * stride_bytes;

			jobs[i] = (struct engine_job){ .kind = ENGINE_JOB_STORE,
				.codec_id = codec_id,
				.level = level,
				.src = { (uintptr_t)plain },
				.src_bytes = BLOCK_BYTES,
				.dst = { (uintptr_t)stored },
				.dst_cap_bytes = stride_bytes,
				.payload_crc = crc32c(0, plain, BLOCK_BYTES),
				.block_count = 1,
				.envelope = { .key_id = key_id, .block = i } };
			if (envelope_draw(&writer, &jobs[i].envelope) != 0)
				die("STORE", "salt");
		}
		uint64_t start_ns = now_ns();

		for (uint32_t i = 0; i < data->block_count; i++)
			if (engine_submit(set, &jobs[i]) != 1 || jobs[i].rc != 0)
				die("STORE", "job");
		store_ns[pass] = (double)(now_ns() - start_ns) / data->block_count;
		for (uint32_t i = 0; i < data->block_count; i++)
			load_of(&jobs[i], block);
		uint32_t load_count = 0;

		start_ns = now_ns();
		for (uint32_t i = 0; i < data->block_count; i++) {
			if (jobs[i].is_zero)
				continue; /* nothing was stored that could be loaded */
			if (engine_submit(set, &jobs[i]) != 1 || jobs[i].rc != 0)
				die("LOAD", "job");
			load_count++;
		}
		load_ns[pass] = (double)(now_ns() - start_ns) / (double)num_max(load_count, 1);
	}
	print_job_ns("STORE", codec_id, level, key_id, store_ns);
	print_job_ns("LOAD", codec_id, level, key_id, load_ns);
	free(all_stored);
	free(jobs);
	engine_set_destroy(set);
	keyring_destroy(keys);
}

/* ---- the data ---- */

static void
read_blocks(const char *path, uint32_t wanted_count, struct data *data)
{
	FILE *file = fopen(path, "rb");
	long bytes;
	uint32_t have_count;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0)
		die("reading", path);
	have_count = (uint32_t)((uint64_t)bytes / BLOCK_BYTES);
	wanted_count = (uint32_t)num_min(wanted_count, have_count);
	for (uint32_t i = 0; i < wanted_count; i++) {
		uint64_t index = (uint64_t)i * have_count / wanted_count;

		if (fseek(file, (long)(index * BLOCK_BYTES), SEEK_SET) != 0 ||
		    fread(data->plain + (size_t)data->block_count * BLOCK_BYTES, BLOCK_BYTES, 1,
			file) != 1)
			die("reading", path);
		data->block_count++;
	}
	(void)fclose(file);
}

int
main(int argc, char *argv[])
{
	struct data data = { 0 };
	uint32_t per_file_count = BLOCKS_PER_FILE_DEFAULT;
	int first = 1;

	if (argc > 2 && strcmp(argv[1], "--blocks") == 0) {
		per_file_count = (uint32_t)strtoul(argv[2], NULL, 10);
		first = 3;
	}
	if (argc <= first || argc - first > FILES_MAX || per_file_count < 1 ||
	    per_file_count > BLOCKS_PER_FILE_MAX) {
		(void)fprintf(stderr, "usage: bench_engines [--blocks 1..%u] FILE... (1 to %d)\n",
		    BLOCKS_PER_FILE_MAX, FILES_MAX);
		return 2;
	}
	size_t capacity = (size_t)per_file_count * (size_t)(argc - first);

	data.plain = must(malloc(capacity * BLOCK_BYTES));
	data.stored = must(malloc(capacity * BLOCK_BYTES));
	data.stored_bytes = must(calloc(capacity, sizeof(*data.stored_bytes)));
	for (int i = first; i < argc; i++)
		read_blocks(argv[i], per_file_count, &data);
	if (data.block_count == 0)
		die("reading", "no file holds a whole block");
	(void)printf("[\n");
	for (size_t i = 0; i < NUM_COUNT(candidates); i++)
		measure_candidate(&candidates[i], &data, i == 0);
	measure_crc(&data);
	for (uint32_t key_id = 0; key_id < 2; key_id++) {
		measure_jobs(&data, ENGINE_NONE, 0, key_id);
		measure_jobs(&data, ENGINE_LZ4, 1, key_id);
		measure_jobs(&data, ENGINE_ZSTD, 1, key_id);
	}
	(void)printf("\n]\n");
	free(data.plain);
	free(data.stored);
	free(data.stored_bytes);
	return 0;
}
