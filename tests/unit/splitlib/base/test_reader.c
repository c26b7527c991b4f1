/* SPDX-License-Identifier: Apache-2.0 */
/* test_reader.c -- members of JSON objects: right ones are read, the first wrong one is named */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/reader.h"
#include "unit/json_memory.h"

/* The object is borrowed by what is read from it: each test ends with this one. */
static json_t *object;

static struct reader
begin(const char *text)
{
	struct reader reader = { 0 };

	json_decref(object);
	object = reader_load(&reader, text, strlen(text));
	return reader;
}

static void
end(void)
{
	json_decref(object);
	object = NULL;
}

TestSuite(reader, .fini = end);

static void
expect_wrong(const struct reader *reader, const char *field, const char *says)
{
	char text[READER_ERROR_BYTES];

	cr_assert_not_null(reader->field);
	cr_assert_str_eq(reader->field, field);
	cr_assert_eq(reader_rc(reader), -EBADMSG);
	reader_say(reader, text);
	cr_assert_str_eq(text, says);
}

Test(reader, what_is_right_is_read)
{
	struct reader reader = begin(
	    "{\"n\":7,\"id\":\"00000000000000ff\",\"b\":true,\"t\":\"text\","
	    "\"a\":[1,2],\"o\":{\"x\":1},\"s\":-3,\"else\":null}");
	char text[5] = "", cut[3] = "";

	cr_assert_eq(reader_u64(&reader, object, "n", 7), 7);
	cr_assert_eq(reader_range(&reader, object, "n", 7, UINT64_MAX), 7);
	cr_assert_eq(reader_id(&reader, object, "id"), 255);
	cr_assert(reader_bool(&reader, object, "b"));
	reader_text(&reader, object, "t", text, sizeof(text));
	cr_assert_str_eq(text, "text");
	reader_cut(object, "t", cut, sizeof(cut));
	cr_assert_str_eq(cut, "te");
	reader_cut(object, "n", cut, sizeof(cut));
	cr_assert_str_eq(cut, "");
	cr_assert_eq(json_array_size(reader_array(&reader, object, "a", 2, 2)), 2);
	cr_assert_eq(reader_u64(&reader, reader_object(&reader, object, "o"), "x", 1), 1);
	cr_assert_eq(reader_signed(&reader, json_object_get(object, "s"), "s", -3, 0), -3);
	cr_assert_null(reader.field);
	cr_assert_eq(reader_rc(&reader), 0);
}

Test(reader, the_first_wrong_member_stays_and_what_is_wrong_is_nothing)
{
	struct reader reader = begin("{\"a\":\"x\",\"b\":-1}");
	char text[4] = "old";

	cr_assert_eq(reader_u64(&reader, object, "a", 9), 0);
	cr_assert_eq(reader_u64(&reader, object, "b", 9), 0);
	cr_assert_eq(reader_id(&reader, object, "a"), 0);
	cr_assert_not(reader_bool(&reader, object, "a"));
	cr_assert_null(reader_array(&reader, object, "a", 0, 9));
	cr_assert_null(reader_object(&reader, object, "a"));
	cr_assert_eq(reader_signed(&reader, json_object_get(object, "b"), "b", 0, 1), 0);
	reader_text(&reader, object, "b", text, sizeof(text));
	cr_assert_str_eq(text, "old");
	reader_fail(&reader, "c");
	expect_wrong(&reader, "a", "a: must be an integer");
}

Test(reader, each_kind_of_wrong_has_its_sentence)
{
	static const char *const whole = "{\"n\":5,\"t\":\"text\",\"a\":[1,2,3]}";
	char text[4];
	struct reader reader = begin(whole);

	(void)reader_range(&reader, object, "n", 1, 4);
	expect_wrong(&reader, "n", "n: must be 1 to 4");
	reader = begin(whole);
	(void)reader_range(&reader, object, "n", 6, UINT64_MAX);
	expect_wrong(&reader, "n", "n: must be at least 6");
	reader = begin(whole);
	(void)reader_u64(&reader, object, "none", 1);
	expect_wrong(&reader, "none", "none: must be an integer");
	reader = begin(whole);
	reader_text(&reader, object, "t", text, sizeof(text));
	expect_wrong(&reader, "t", "t: at most 3 characters");
	reader = begin(whole);
	reader_text(&reader, object, "n", text, sizeof(text));
	expect_wrong(&reader, "n", "n: must be a string");
	reader = begin(whole);
	(void)reader_id(&reader, object, "t");
	expect_wrong(&reader, "t", "t: must be 16 hex digits");
	reader = begin(whole);
	(void)reader_bool(&reader, object, "n");
	expect_wrong(&reader, "n", "n: must be true or false");
	reader = begin(whole);
	(void)reader_array(&reader, object, "a", 1, 2);
	expect_wrong(&reader, "a", "a: must be a list");
	reader = begin(whole);
	(void)reader_object(&reader, object, "a");
	expect_wrong(&reader, "a", "a: must be an object");
	reader = begin(whole);
	reader_fail(&reader, "n");
	expect_wrong(&reader, "n", "n: makes no sense");
}

Test(reader, what_is_no_object_is_refused)
{
	static const char *const texts[] = { "", "[]", "7", "{\"a\":", "{\"a\":1,\"a\":1}",
		"{} x" };

	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		struct reader reader = begin(texts[i]);

		cr_assert_null(object);
		cr_assert_eq(reader_u64(&reader, object, "a", 1), 0);
		expect_wrong(&reader, "not a JSON object", "not a JSON object");
	}
}

Test(reader, a_lack_of_memory_is_no_object_or_is_told)
{
	struct reader reader;

	json_memory_begin();
	for (uint32_t nth = 1;; nth++) {
		alloc_fail_at(ALLOC_CLIENT, nth);
		reader = begin("{\"a\":[{\"b\":\"c\"}]}");
		if (!alloc_has_failed(ALLOC_CLIENT))
			break;
		cr_assert_null(object);
		cr_assert(reader_rc(&reader) == -ENOMEM || reader_rc(&reader) == -EBADMSG);
	}
	alloc_fail_at(ALLOC_CLIENT, 0);
	cr_assert_not_null(object);
	json_memory_end();
}

/* ---- all members at once ---- */

static struct {
	const char *text;
	uint64_t number;
	int64_t level;
	bool flag;
	json_t *array, *object;
} got;

static int
read_strictly(const char *text, char error[READER_ERROR_BYTES])
{
	const struct reader_member members[] = {
		{ "text", READER_TEXT, true, 0, 4, { .text = &got.text } },
		{ "number", READER_U64, false, 2, 9, { .u64 = &got.number } },
		{ "level", READER_I64, false, 0, 0, { .i64 = &got.level } },
		{ "flag", READER_BOOL, false, 0, 0, { .flag = &got.flag } },
		{ "array", READER_ARRAY, false, 0, 0, { .array = &got.array } },
		{ "object", READER_OBJECT, false, 0, 0, { .object = &got.object } },
		{ "least", READER_U64, false, 3, 0, { .u64 = &got.number } },
	};

	(void)begin(text);
	return reader_strict(object, members, NUM_COUNT(members), error);
}

Test(reader, strictly_all_members_are_taken_and_absent_ones_stay)
{
	char error[READER_ERROR_BYTES] = "";

	got.number = 8;
	cr_assert_eq(read_strictly("{\"text\":\"abcd\",\"op\":7}", error), 0);
	cr_assert_str_eq(got.text, "abcd");
	cr_assert_eq(got.number, 8);
	cr_assert_eq(
	    read_strictly("{\"text\":\"\",\"number\":2,\"level\":-5,\"flag\":true,\"array\":[],"
			  "\"object\":{}}",
		error),
	    0);
	cr_assert_eq(got.number, 2);
	cr_assert_eq(got.level, -5);
	cr_assert(got.flag);
	cr_assert(json_is_array(got.array) && json_is_object(got.object));
	cr_assert_str_eq(error, "");
}

Test(reader, strictly_what_is_wrong_is_said)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "{}", "text: missing" },
		{ "{\"text\":1}", "text: must be a string" },
		{ "{\"text\":\"abcde\"}", "text: at most 4 characters" },
		{ "{\"other\":1}", "other: unknown member" },
		{ "{\"text\":\"\",\"number\":\"2\"}", "number: must be an integer" },
		{ "{\"text\":\"\",\"number\":1}", "number: must be 2 to 9" },
		{ "{\"text\":\"\",\"number\":-1}", "number: must be 2 to 9" },
		{ "{\"text\":\"\",\"least\":2}", "least: must be at least 3" },
		{ "{\"text\":\"\",\"level\":1.5}", "level: must be an integer" },
		{ "{\"text\":\"\",\"flag\":0}", "flag: must be true or false" },
		{ "{\"text\":\"\",\"array\":{}}", "array: must be a list" },
		{ "{\"text\":\"\",\"object\":[]}", "object: must be an object" },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		char error[READER_ERROR_BYTES] = "";

		cr_assert_eq(read_strictly(cases[i].text, error), -EINVAL);
		cr_assert_str_eq(error, cases[i].says);
	}
}

Test(reader, a_long_unknown_name_is_cut)
{
	char text[300] = "{\"", error[READER_ERROR_BYTES];

	memset(text + 2, 'n', 200);
	memcpy(text + 202, "\":1}", 5);
	cr_assert_eq(read_strictly(text, error), -EINVAL);
	cr_assert_eq(strlen(error), 64 + strlen(": unknown member"));
}
