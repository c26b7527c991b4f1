/* SPDX-License-Identifier: Apache-2.0 */
/* merge_verify.c -- frames that somebody has made, beside those of the recipe: why a worker need not be believed */
#include "merge/merge_verify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "index/run_index.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"

struct verify {
	const struct mt_recipe *recipe;
	const struct mt_run_index *const *parts;
	uint32_t part_count;
	uint32_t part_at, frame_at;      /* what was made: the next */
	uint32_t source_at, taken_count; /* the recipe's, of the frame at hand */
	uint32_t crc_at;                 /* the same */
	uint32_t zeros_crc;              /* of a block of zeros */
};

/* The next frame that was made; NULL: there is none. */
static const struct mt_frame *
verify_made(struct verify *verify)
{
	while (verify->part_at < verify->part_count &&
	    verify->frame_at == verify->parts[verify->part_at]->frame_count) {
		verify->part_at++;
		verify->frame_at = 0;
	}
	if (verify->part_at == verify->part_count)
		return NULL;
	return &verify->parts[verify->part_at]->frames[verify->frame_at];
}

/* Is every block of the recipe's frame of @count blocks, which are not encrypted, zeros? */
static bool
is_zeros(const struct verify *verify, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (mt_recipe_crc(verify->recipe, verify->crc_at + i) != verify->zeros_crc)
			return false;
	}
	return true;
}

/* @made, of the blocks of @frame, both WRITE. */
static const char *
write_field(const struct verify *verify, const struct mt_recipe_frame *frame,
    const struct mt_frame *made)
{
	const struct mt_run_index *part = verify->parts[verify->part_at];

	if (frame->is_copy) {
		struct mt_recipe_source source =
		    mt_recipe_source(verify->recipe, verify->source_at);

		if (made->codec_id != source.codec_id)
			return "codec_id";
		if (made->stored_bytes != source.stored_bytes)
			return "stored_bytes";
		if (made->stored_crc != source.stored_crc)
			return "stored_crc";
	} else if ((made->codec_id & ENGINE_ENCRYPTED) != 0) {
		return "codec_id";
	}
	assert(made->crcs_at + made->block_count <= part->crc_count);
	for (uint32_t i = 0; i < made->block_count; i++) {
		if (part->crcs[made->crcs_at + i] !=
		    mt_recipe_crc(verify->recipe, verify->crc_at + i))
			return "block_crcs";
	}
	return NULL;
}

static const char *
frame_field(struct verify *verify, const struct mt_recipe_frame *frame)
{
	const struct mt_frame *made = verify_made(verify);
	bool may_be_zeros = frame->kind == RECORD_WRITE && is_zeros(verify, frame->count);
	const char *field = NULL;

	if (made == NULL || made->block != frame->block)
		return may_be_zeros && !verify->recipe->head.keeps_zeroes ? NULL : "block";
	if (made->block_count != frame->count)
		return "block_count";
	if (made->record_kind != frame->kind) {
		if (!may_be_zeros || made->record_kind != RECORD_ZEROES)
			return "kind";
	} else if (frame->kind == RECORD_WRITE) {
		field = write_field(verify, frame, made);
	}
	verify->frame_at++;
	return field;
}

/* The blocks of a WRITE frame have been looked at. */
static void
verify_advance(struct verify *verify, uint32_t count)
{
	verify->crc_at += count;
	verify->taken_count += count;
	while (verify->source_at < verify->recipe->head.source_count) {
		uint32_t of_source = mt_recipe_source(verify->recipe, verify->source_at).count;

		if (verify->taken_count < of_source)
			return;
		verify->taken_count -= of_source;
		verify->source_at++;
	}
}

int
mt_merge_verify(const struct mt_recipe *recipe, uint32_t frame_count,
    const struct mt_run_index *const *parts, uint32_t part_count, const char **ret_field)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	struct verify verify = { .recipe = recipe,
		.parts = parts,
		.part_count = part_count,
		.zeros_crc = crc32c(0, zeros, sizeof(zeros)) };

	*ret_field = NULL;
	assert(frame_count <= recipe->head.frame_count);
	for (uint32_t i = 0; i < frame_count; i++) {
		struct mt_recipe_frame frame = mt_recipe_frame(recipe, i);

		*ret_field = frame_field(&verify, &frame);
		if (*ret_field != NULL)
			return -EBADMSG;
		if (frame.kind == RECORD_WRITE)
			verify_advance(&verify, frame.count);
	}
	if (verify_made(&verify) != NULL)
		*ret_field = "block"; /* of what no frame of the recipe says */
	return *ret_field == NULL ? 0 : -EBADMSG;
}
