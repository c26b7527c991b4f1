/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_edit.c -- arbitrary bytes as a manifest's edits, and as a root
 *
 * The edits are applied to a state, as a take-over would. What passes must encode to itself, and the
 * state's checkpoint must make the same state. The same bytes are tried as a root's JSON.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/meta.h"
#include "middletier/catalog/root.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"
#include "middletier/manifest/manifest_edits.h"
#include "middletier/manifest/manifest_state.h"

#define EDITS_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_checkpoint(const struct mt_manifest_state *state)
{
	struct mt_manifest_state copy;
	struct mt_edit edit;
	const char *field;

	mt_manifest_state_init(&copy);
	for (uint64_t i = 0; mt_manifest_state_edit(state, i, state->next_sequence, &edit); i++)
		assert(mt_manifest_state_apply(&copy, &edit, &field) == 0);
	assert(copy.epoch == state->epoch);
	assert(copy.extent_count == state->extent_count);
	assert(copy.runs.count == state->runs.count);
	assert(copy.cut_count == state->cut_count);
	assert(copy.volume_count == state->volume_count);
	assert(copy.shard_count == state->shard_count);
	assert(copy.next_sequence == state->next_sequence);
	mt_manifest_state_fini(&copy);
}

static void
try_edits(const uint8_t *data, size_t bytes)
{
	struct mt_manifest_state state;
	size_t at = 0;

	mt_manifest_state_init(&state);
	for (uint32_t i = 0; i < EDITS_MAX && at < bytes; i++) {
		struct mt_edit edit;
		const char *field = NULL;
		uint8_t again[MT_EDIT_BYTES_MAX];
		size_t left_bytes = bytes - at;
		int rc = mt_edit_decode(data + at,
		    left_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)left_bytes, &edit, &field);

		if (rc < 0) {
			assert(field != NULL);
			break;
		}
		assert((size_t)rc <= left_bytes);
		assert(mt_edit_encode(again, &edit) == (uint32_t)rc);
		assert(memcmp(again, data + at, (size_t)rc) == 0);
		at += (size_t)rc;
		(void)mt_manifest_state_apply(&state, &edit, &field);
	}
	if (state.epoch != 0)
		check_checkpoint(&state);
	mt_manifest_state_fini(&state);
}

static void
try_root(const uint8_t *data, size_t bytes)
{
	struct mt_root root, again;
	const char *field = NULL;
	char *text;

	if (bytes > META_VALUE_BYTES_MAX ||
	    mt_root_decode(data, (uint32_t)bytes, 3, &root, &field) != 0)
		return;
	text = mt_root_encode(&root);
	if (text == NULL)
		return; /* a port that is no UTF-8 text */
	assert(mt_root_decode(text, (uint32_t)strlen(text), 3, &again, &field) == 0);
	assert(mt_root_is_equal(&root, &again));
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	try_edits(data, bytes);
	try_root(data, bytes);
	return 0;
}
