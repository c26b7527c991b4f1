/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_manifest.c -- how much a shard's manifest holds, and what the longest one costs
 *
 * For slots of 64 KiB, 16 MiB and 64 MiB a state is filled to the limit at which gateways press back, by
 * runs alone, then by the mirror's half with volumes, then with snapshots. Each is encoded as a checkpoint and
 * read back, as a take-over does. HANDBOOK.md's table of limits is its output.
 *
 *	bench_manifest
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../middletier/catalog/scope.h"
#include "../middletier/catalog/volume_table.h"
#include "../middletier/common/replica.h"
#include "../middletier/manifest/edit.h"
#include "../middletier/manifest/manifest_room.h"
#include "../middletier/manifest/manifest_state.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "manifest/edit_decode.h"
#include "manifest/manifest_edits.h"

static double
seconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
apply(struct mt_manifest_state *state, const struct mt_edit *edit)
{
	const char *field = "";

	if (mt_manifest_state_apply(state, edit, &field) == 0)
		return;
	(void)fprintf(stderr, "bench_manifest: an edit was refused: %s\n", field);
	exit(1);
}

static const struct extent_id extent = { .shard = 0, .epoch = 1, .counter = 1 };

static void
begin(struct mt_manifest_state *state)
{
	struct mt_edit opened = { .kind = MT_EDIT_EXTENT_OPENED,
		.id = extent,
		.extent_kind = EXTENT_RUN,
		.replica_count = MT_REPLICAS_MAX };

	mt_manifest_state_init(state);
	apply(state, &(struct mt_edit){ .kind = MT_EDIT_EPOCH, .epoch = 1 });
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++)
		opened.replicas[i] = (struct mt_replica){ .node_id = i + 1, .incarnation = 1 };
	apply(state, &opened);
}

/* The next run, volume or snapshot. */
typedef void (*edit_fn)(uint64_t number, struct mt_edit *ret_edit);

static void
next_run(uint64_t number, struct mt_edit *ret_edit)
{
	*ret_edit = (struct mt_edit){ .kind = MT_EDIT_RUN_ADDED,
		.id = extent,
		.chunk = number,
		.length_bytes = 4096,
		.flushed_sequence = number };
}

static void
next_volume(uint64_t number, struct mt_edit *ret_edit)
{
	*ret_edit = (struct mt_edit){ .kind = MT_EDIT_VOLUME,
		.volume = { .id = number,
		    .size_bytes = 4096,
		    .segment_base = number,
		    .segment_count = 1,
		    .replica_count = 3 } };
	(void)snprintf(ret_edit->volume.name, sizeof(ret_edit->volume.name), "v%" PRIu64, number);
	mt_scope_init(&ret_edit->volume.scope, number);
}

static void
next_snapshot(uint64_t number, struct mt_edit *ret_edit)
{
	*ret_edit = (struct mt_edit){ .kind = MT_EDIT_SNAPSHOT,
		.snapshot = { .number = number,
		    .volume_id = 1,
		    .size_bytes = 4096,
		    .segment_base = 1,
		    .segment_count = 1,
		    .state = MT_SNAPSHOT_LIVE,
		    .scope = { .span_count = 1, .spans = { { 1, 0, number } } } } };
	(void)snprintf(ret_edit->snapshot.name, sizeof(ret_edit->snapshot.name), "s%" PRIu64,
	    number);
}

/* As a checkpoint, and back. Returns its bytes. */
static uint64_t
there_and_back(const struct mt_manifest_state *state, double *ret_encode_s, double *ret_decode_s)
{
	uint64_t bytes = 0, at = 0, bytes_max = mt_manifest_state_bytes(state) + MT_EDIT_BYTES_MAX;
	uint8_t *all = malloc(bytes_max);
	struct mt_manifest_state copy;
	struct mt_edit edit;
	double began_s = seconds();

	assert(all != NULL);
	for (uint64_t i = 0; mt_manifest_state_edit(state, i, 1, &edit); i++) {
		uint8_t one[MT_EDIT_BYTES_MAX];
		uint32_t one_bytes = mt_edit_encode(one, &edit);

		assert(bytes + one_bytes <= bytes_max);
		memcpy(all + bytes, one, one_bytes);
		bytes += one_bytes;
	}
	*ret_encode_s = seconds() - began_s;
	began_s = seconds();
	mt_manifest_state_init(&copy);
	while (at < bytes) {
		const char *field;
		int rc = mt_edit_decode(all + at, (uint32_t)num_min(bytes - at, MT_EDIT_BYTES_MAX),
		    &edit, &field);

		assert(rc > 0);
		apply(&copy, &edit);
		at += (uint64_t)rc;
	}
	*ret_decode_s = seconds() - began_s;
	assert(mt_manifest_state_bytes(&copy) == mt_manifest_state_bytes(state));
	mt_manifest_state_fini(&copy);
	free(all);
	return bytes;
}

static void
fill(uint64_t slot_bytes, uint64_t limit_bytes, uint64_t count_max, edit_fn next, const char *what)
{
	struct mt_manifest_state state;
	struct mt_edit edit;
	double encode_s, decode_s;
	uint64_t count = 0, bytes;

	begin(&state);
	while (count < count_max && mt_manifest_state_pressed_bytes(&state) < limit_bytes) {
		next(++count, &edit);
		apply(&state, &edit);
	}
	bytes = there_and_back(&state, &encode_s, &decode_s);
	printf("%8" PRIu64 " KiB  %-10s %9" PRIu64 "  %10" PRIu64 " bytes  %5" PRIu64
	       " extents  encoded in %.2f s, read in %.2f s\n",
	    slot_bytes / NUM_KIB(1), what, count, bytes, bytes / (slot_bytes / 8 * 7) + 1, encode_s,
	    decode_s);
	mt_manifest_state_fini(&state);
}

int
main(void)
{
	static const uint64_t slots[] = { NUM_KIB(64), NUM_MIB(16), NUM_MIB(64) };

	for (uint32_t i = 0; i < NUM_COUNT(slots); i++) {
		uint64_t soft_bytes = mt_manifest_soft_bytes(slots[i]);

		fill(slots[i], soft_bytes, UINT64_MAX, next_run, "runs");
		fill(slots[i], soft_bytes / 2 - MT_EDIT_BYTES_MAX, MT_VOLUMES_MAX, next_volume,
		    "volumes");
		fill(slots[i], soft_bytes / 2 - MT_EDIT_BYTES_MAX, UINT64_MAX, next_snapshot,
		    "snapshots");
	}
	return 0;
}
