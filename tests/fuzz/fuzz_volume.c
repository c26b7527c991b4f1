/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_volume.c -- arbitrary bytes as a volume or as the cluster key, as the metadata store might
 * return them
 *
 * The first byte chooses. What is let through must survive encoding and decoding; what is refused
 * must name a field.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "middletier/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_volume(const uint8_t *data, uint32_t bytes)
{
	struct mt_volume volume, again;
	const char *field = NULL;
	char *text;

	if (mt_volume_decode("v", data, bytes, &volume, &field) != 0) {
		assert(field != NULL && field[0] != '\0');
		return;
	}
	text = mt_volume_encode(&volume);
	assert(text != NULL);
	assert(mt_volume_decode("v", text, (uint32_t)strlen(text), &again, &field) == 0);
	assert(again.id == volume.id && again.size_bytes == volume.size_bytes);
	assert(again.session_id == volume.session_id && again.level == volume.level);
	free(text);
}

static void
check_cluster(const uint8_t *data, uint32_t bytes)
{
	struct mt_cluster cluster, again;
	const char *field = NULL;
	char *text;

	if (mt_cluster_decode(data, bytes, &cluster, &field) != 0) {
		assert(field != NULL && field[0] != '\0');
		return;
	}
	text = mt_cluster_encode(&cluster);
	assert(text != NULL);
	assert(mt_cluster_decode(text, (uint32_t)strlen(text), &again, &field) == 0);
	assert(again.cluster_id == cluster.cluster_id);
	assert(again.next_segment == cluster.next_segment);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes == 0 || bytes > META_VALUE_BYTES_MAX)
		return 0;
	if (data[0] % 2 == 0)
		check_volume(data + 1, (uint32_t)bytes - 1);
	else
		check_cluster(data + 1, (uint32_t)bytes - 1);
	return 0;
}
