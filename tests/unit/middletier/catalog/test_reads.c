/* SPDX-License-Identifier: Apache-2.0 */
/* test_reads.c -- where a volume may be read, by name, and in its key */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/engine.h"
#include "middletier/catalog/reads.h"
#include "middletier/catalog/volume_table.h"

static struct mt_volume
volume_of(enum mt_reads reads)
{
	struct mt_volume volume = { .id = 1,
		.name = "v",
		.size_bytes = CLEAVE_BLOCK_BYTES,
		.segment_base = 1,
		.segment_count = 1,
		.codec_id = ENGINE_LZ4,
		.level = 1,
		.reads = reads,
		.replica_count = 3 };

	mt_scope_init(&volume.scope, volume.segment_base);
	return volume;
}

Test(reads, each_has_a_name)
{
	for (unsigned i = 0; i < MT_READS_NR; i++) {
		enum mt_reads reads = MT_READS_NR;

		cr_assert(mt_reads_parse(mt_reads_name((enum mt_reads)i), &reads));
		cr_assert_eq((unsigned)reads, i);
	}
	cr_assert_not(mt_reads_parse("gateways", &(enum mt_reads){ MT_READS_NR }));
}

Test(reads, a_key_says_what_is_not_usual)
{
	for (unsigned i = 0; i < MT_READS_NR; i++) {
		struct mt_volume volume = volume_of((enum mt_reads)i), out;
		char *text = mt_volume_encode(&volume);
		const char *field = "";

		cr_assert_not_null(text);
		/* Releases of before refuse a member that they do not know, and must not meet it. */
		cr_assert_eq(strstr(text, "reads") != NULL, i != MT_READS_GATEWAY, "%s", text);
		cr_assert_eq(mt_volume_decode("v", text, (uint32_t)strlen(text), &out, &field), 0,
		    "%s: %s", text, field);
		cr_assert_eq(out.reads, volume.reads);
		free(text);
	}
}

Test(reads, a_key_with_another_word_is_refused)
{
	struct mt_volume volume = volume_of(MT_READS_HOT), out;
	char *text = mt_volume_encode(&volume);
	const char *field = NULL;

	cr_assert_not_null(text);
	memcpy(strstr(text, "\"hot\""), "\"hat\"", 5);
	cr_assert_eq(mt_volume_decode("v", text, (uint32_t)strlen(text), &out, &field), -EINVAL);
	cr_assert_str_eq(field, "reads");
	free(text);
}
