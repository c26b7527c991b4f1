/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_volume.c -- arbitrary bytes as a volume, the cluster key, a snapshot or a gateway, as the metadata
 * store might return them
 *
 * The first byte chooses. What is let through must survive encoding and decoding; what is refused
 * must name a field; and what counts on from numbers that were let through cannot wrap.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/level.h"
#include "cleave/meta.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/member.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"

#define SNAPSHOT_KEY "snapshots/00000000000000000009"

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
	assert(volume.id <= MT_NUMBER_MAX && volume.attach <= MT_NUMBER_MAX);
	assert(mt_segments_exist(volume.segment_base, volume.segment_count));
	assert(mt_scope_check(&volume.scope, volume.segment_base) == NULL);
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
	assert(strcmp(again.place, cluster.place) == 0);
	assert(again.level == cluster.level && cluster.level >= CLEAVE_LEVEL_MIN);
	free(text);
}

static void
check_snapshot(const uint8_t *data, uint32_t bytes)
{
	struct mt_snapshot snapshot, again;
	char *waiting = NULL, *waiting_again = NULL, *text;
	const char *field = NULL;

	if (mt_snapshot_decode(SNAPSHOT_KEY, data, bytes, &snapshot, &waiting, &field) != 0) {
		assert(field != NULL && field[0] != '\0');
		return;
	}
	assert(snapshot.number == 9 && snapshot.volume_id <= MT_NUMBER_MAX);
	assert(mt_segments_exist(snapshot.segment_base, snapshot.segment_count));
	text = mt_snapshot_encode(&snapshot, waiting);
	assert(text != NULL);
	assert(mt_snapshot_decode(SNAPSHOT_KEY, text, (uint32_t)strlen(text), &again,
		   &waiting_again, &field) == 0);
	assert(again.scope.span_count == snapshot.scope.span_count);
	assert((waiting == NULL) == (waiting_again == NULL));
	mt_free(waiting);
	mt_free(waiting_again);
	free(text);
}

static void
check_member(const uint8_t *data, uint32_t bytes)
{
	struct mt_member_peer peer = { 0 };
	const char *field = NULL;

	if (mt_member_decode(data, bytes, &peer, &field) != 0) {
		assert(field != NULL && field[0] != '\0');
		return;
	}
	/* A shard's port is its number modulo theirs. */
	assert(peer.port_count >= 1 && peer.port_count <= MT_PORTS_MAX);
	for (uint32_t i = 0; i < peer.port_count; i++)
		assert(memchr(peer.ports[i], '\0', sizeof(peer.ports[i])) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes == 0 || bytes > META_VALUE_BYTES_MAX)
		return 0;
	switch (data[0] % 4) {
	case 0:
		check_volume(data + 1, (uint32_t)bytes - 1);
		break;
	case 1:
		check_cluster(data + 1, (uint32_t)bytes - 1);
		break;
	case 2:
		check_snapshot(data + 1, (uint32_t)bytes - 1);
		break;
	default:
		check_member(data + 1, (uint32_t)bytes - 1);
		break;
	}
	return 0;
}
