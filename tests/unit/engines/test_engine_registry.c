/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_registry.c -- every codec is found by its name and its number, which never change */
#include <criterion/criterion.h>
#include <string.h>

#include "cleave/engine.h"

Test(engine_registry, numbers_and_names_are_for_ever)
{
	/* These are stored in every record: a change here breaks every volume there is. */
	cr_assert_str_eq(engine_by_id(0)->name, "none");
	cr_assert_str_eq(engine_by_id(1)->name, "lz4");
	cr_assert_str_eq(engine_by_id(2)->name, "zstd");
	cr_assert_str_eq(engine_by_id(3)->name, "snappy");
	cr_assert_str_eq(engine_by_id(4)->name, "deflate");
}

Test(engine_registry, an_unknown_name_is_null)
{
	cr_assert_null(engine_by_name("lzma"));
	cr_assert_null(engine_by_name(""));
	cr_assert_null(engine_by_name("LZ4"));
}

Test(engine_registry, an_unknown_number_is_null)
{
	for (unsigned id = ENGINE_ID_NR; id < 256; id++)
		cr_assert_null(engine_by_id((uint8_t)id));
	cr_assert_null(engine_at(engine_count()));
	cr_assert_null(engine_at(UINT32_MAX));
}

Test(engine_registry, each_codec_is_complete)
{
	for (uint32_t i = 0; i < engine_count(); i++) {
		const struct engine_ops *ops = engine_at(i);

		cr_assert_not_null(ops);
		cr_assert_eq(engine_by_id(ops->wire_id), ops);
		cr_assert_eq(engine_by_name(ops->name), ops);
		cr_assert_not_null(ops->create);
		cr_assert_not_null(ops->destroy);
		cr_assert_not_null(ops->compress);
		cr_assert_not_null(ops->decompress);
		cr_assert_leq(ops->level_min, ops->level_default);
		cr_assert_leq(ops->level_default, ops->level_max);
	}
}
