/* SPDX-License-Identifier: Apache-2.0 */
/* source.c -- prepared content */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "stamp.h"
#include "workload.h"

/* Neighbouring blocks of a file stay neighbours; each rewrite brings other content. */
#define SEQUENCE_STRIDE 7919u

/* Fills @bytes, or less at the end of the file. Returns how many, or a negative errno. */
static ssize_t
read_all(int fd, uint8_t *data, uint64_t bytes)
{
	uint64_t done = 0;

	assert(fd >= 0);
	while (done < bytes) {
		ssize_t n = read(fd, data + done, bytes - done);

		if (n == 0)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (uint64_t)n;
	}
	return (ssize_t)done;
}

/* Appends the blocks of @path. */
static int
add_file(struct source *source, const char *path)
{
	uint64_t at_bytes = source->block_count * SOURCE_BLOCK_BYTES, bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	uint8_t *grown;
	struct stat st;
	ssize_t n;

	assert(source->content_crcs == NULL && source->block_crcs == NULL);
	assert(at_bytes <= SOURCE_BYTES_MAX);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0) {
		rc = -errno;
		goto out;
	}
	bytes = num_min(num_round_up((uint64_t)st.st_size, SOURCE_BLOCK_BYTES),
	    SOURCE_BYTES_MAX - at_bytes);
	if (bytes == 0)
		goto out;
	grown = realloc(source->blocks, at_bytes + bytes);
	if (grown == NULL) {
		rc = -ENOMEM;
		goto out;
	}
	source->blocks = grown;
	memset(grown + at_bytes, 0, bytes);
	n = read_all(fd, grown + at_bytes, bytes);
	if (n < 0)
		rc = (int)n;
	else
		source->block_count += num_round_up((uint64_t)n, SOURCE_BLOCK_BYTES) /
		    SOURCE_BLOCK_BYTES;
out:
	close(fd);
	return rc;
}

static int
generate(struct source *source, uint32_t compressibility_percent, uint64_t seed)
{
	uint64_t random_bytes = SOURCE_BLOCK_BYTES * (100 - (uint64_t)compressibility_percent) /
	    100;

	assert(source->blocks == NULL && source->block_count == 0);
	assert(compressibility_percent <= 100);
	source->blocks = calloc(SOURCE_GENERATED_COUNT, SOURCE_BLOCK_BYTES);
	if (source->blocks == NULL)
		return -ENOMEM;
	source->block_count = SOURCE_GENERATED_COUNT;
	for (uint64_t i = 0; i < SOURCE_GENERATED_COUNT; i++) {
		uint8_t *p = source->blocks + i * SOURCE_BLOCK_BYTES;

		memset(p, 'A' + (int)(i % 26), SOURCE_BLOCK_BYTES);
		for (uint64_t at = 0; at + 8 <= random_bytes; at += 8)
			num_put_le64(p + at, workload_random_u64(&seed));
	}
	return 0;
}

static int
add_crcs(struct source *source)
{
	assert(source->block_count > 0);
	source->content_crcs = calloc(source->block_count, sizeof(*source->content_crcs));
	source->block_crcs = calloc(source->block_count, sizeof(*source->block_crcs));
	if (source->content_crcs == NULL || source->block_crcs == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < source->block_count; i++) {
		const uint8_t *p = source_block(source, i);

		source->content_crcs[i] = stamp_content_crc(p);
		source->block_crcs[i] = crc32c(0, p, SOURCE_BLOCK_BYTES);
	}
	return 0;
}

int
source_init(struct source *source, const char *const *paths, uint32_t path_count,
    uint32_t compressibility_percent, uint64_t seed, const char **ret_path)
{
	int rc = 0;

	assert(ret_path != NULL && compressibility_percent <= 100);
	assert(paths != NULL || path_count == 0);
	memset(source, 0, sizeof(*source));
	for (uint32_t i = 0; i < path_count && rc == 0; i++) {
		rc = add_file(source, paths[i]);
		if (rc != 0)
			*ret_path = paths[i];
	}
	if (rc == 0 && path_count == 0)
		rc = generate(source, compressibility_percent, seed);
	if (rc == 0 && source->block_count == 0)
		rc = -EINVAL;
	if (rc == 0)
		rc = add_crcs(source);
	if (rc != 0)
		source_fini(source);
	return rc;
}

void
source_fini(struct source *source)
{
	assert(source->block_count == 0 || source->blocks != NULL);
	free(source->blocks);
	free(source->content_crcs);
	free(source->block_crcs);
	memset(source, 0, sizeof(*source));
}

uint64_t
source_pick(const struct source *source, uint64_t block, uint64_t sequence)
{
	assert(source->block_count > 0 && sequence > 0);
	return (block + (sequence - 1) * SEQUENCE_STRIDE) % source->block_count;
}
