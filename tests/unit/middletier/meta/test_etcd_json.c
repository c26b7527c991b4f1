/* SPDX-License-Identifier: Apache-2.0 */
/* test_etcd_json.c -- requests to etcd's JSON gateway written, and its answers read */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/etcd_json.h"

#define HEADER "\"header\":{\"cluster_id\":\"14841639068965178418\",\"revision\":\"7\"}"

static int
decode(const char *text, struct etcd_answer *answer)
{
	return etcd_answer_decode(text, strlen(text), answer);
}

/* ---- writing ---- */

Test(etcd_json, base64_is_that_of_the_rfc)
{
	const char *const cases[][2] = { { "", "\"\"" }, { "f", "\"Zg==\"" }, { "fo", "\"Zm8=\"" },
		{ "foo", "\"Zm9v\"" }, { "foob", "\"Zm9vYg==\"" }, { "fooba", "\"Zm9vYmE=\"" },
		{ "foobar", "\"Zm9vYmFy\"" } };

	for (uint32_t i = 0; i < NUM_COUNT(cases); i++) {
		size_t count = strlen(cases[i][0]);

		/* In two pieces, cut everywhere. */
		for (size_t head = 0; head <= count; head++) {
			struct etcd_text text = { 0 };
			uint8_t back[16];

			etcd_text_base64(&text, cases[i][0], head, cases[i][0] + head,
			    count - head);
			cr_assert_str_eq(text.bytes, cases[i][1]);
			cr_assert_eq(etcd_base64_decode(text.bytes + 1, text.count - 2, back),
			    (int64_t)count);
			cr_assert_eq(memcmp(back, cases[i][0], count), 0);
			etcd_text_fini(&text);
		}
	}
}

Test(etcd_json, base64_that_is_none_is_refused)
{
	const char *const cases[] = { "A", "AA", "AAA", "A===", "AA=A",
		"====", "A-==", "AA==AA==", "AAAA\n" };
	uint8_t out[16];

	for (uint32_t i = 0; i < NUM_COUNT(cases); i++)
		cr_assert_eq(etcd_base64_decode(cases[i], strlen(cases[i]), out), -1, "%s",
		    cases[i]);
}

Test(etcd_json, transaction_is_written_as_etcd_reads_it)
{
	struct etcd_text text = { 0 };

	etcd_json_txn_begin(&text);
	etcd_json_compare_revision(&text, "a", 5);
	etcd_json_compare_exists(&text, "b");
	etcd_json_txn_then(&text);
	etcd_json_put(&text, "a", "0", 1, "v", 1);
	etcd_json_touch(&text, "b");
	etcd_json_delete(&text, "c");
	etcd_json_txn_else(&text);
	etcd_json_get(&text, "d/", true, false);
	etcd_json_txn_end(&text);
	cr_assert_str_eq(text.bytes,
	    "{\"compare\":[{\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"5\",\"key\":\"YQ==\"},"
	    "{\"target\":\"VERSION\",\"result\":\"GREATER\",\"version\":\"0\",\"key\":\"Yg==\"}],"
	    "\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"value\":\"MHY=\"}},"
	    "{\"request_put\":{\"key\":\"Yg==\",\"ignore_value\":true}},"
	    "{\"request_delete_range\":{\"key\":\"Yw==\"}}],"
	    "\"failure\":[{\"request_range\":{\"key\":\"ZC8=\",\"range_end\":\"ZDA=\",\"keys_only\":true}}]}");
	etcd_text_fini(&text);
}

Test(etcd_json, strings_are_escaped)
{
	struct etcd_text text = { 0 };

	etcd_text_string(&text, "a\"b\\c\nd\x01");
	cr_assert_str_eq(text.bytes, "\"a\\u0022b\\u005cc\\u000ad\\u0001\"");
	etcd_text_fini(&text);
}

Test(etcd_json, text_without_memory_has_failed_and_stays_so)
{
	struct etcd_text text = { 0 };

	mt_alloc_fail_at(1);
	etcd_text_add(&text, "x");
	mt_alloc_fail_at(0);
	cr_assert(text.has_failed);
	etcd_text_add(&text, "y");
	cr_assert_eq(text.count, 0);
	etcd_text_fini(&text);
}

/* ---- reading ---- */

Test(etcd_json, range_is_read)
{
	struct etcd_answer answer;

	cr_assert_eq(
	    decode("{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"value\":\"MHY=\","
		   "\"mod_revision\":\"5\",\"version\":\"2\",\"new\":[1]},{\"key\":\"Yg==\"}],"
		   "\"more\":true,\"count\":\"9\"}",
		&answer),
	    0);
	cr_assert_eq(answer.cluster_id, UINT64_C(14841639068965178418));
	cr_assert_eq(answer.revision, 7);
	cr_assert(answer.has_more);
	cr_assert_eq(answer.kv_count, 2);
	cr_assert_str_eq(answer.kvs[0].key, "a");
	cr_assert_eq(answer.kvs[0].value_bytes, 2);
	cr_assert_eq(memcmp(answer.kvs[0].value, "0v", 2), 0);
	cr_assert_eq(answer.kvs[0].mod_revision, 5);
	cr_assert_eq(answer.kvs[0].version, 2);
	cr_assert_eq(etcd_answer_find(&answer, "b")->mod_revision, 0);
	cr_assert_null(etcd_answer_find(&answer, "c"));
	etcd_answer_fini(&answer);
}

Test(etcd_json, transaction_and_events_are_read)
{
	struct etcd_answer answer;

	cr_assert_eq(decode("{" HEADER ",\"responses\":[{\"response_put\":{}},{\"response_range\":"
			    "{\"kvs\":[{\"key\":\"YQ==\"}]}},{\"response_range\":{}}]}",
			 &answer),
	    0);
	cr_assert_not(answer.has_succeeded);
	cr_assert_eq(answer.kv_count, 1);
	etcd_answer_fini(&answer);
	cr_assert_eq(decode("{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"YQ==\"}},"
			    "{\"type\":\"DELETE\",\"kv\":{\"key\":\"Yg==\",\"mod_revision\":7}}]}}",
			 &answer),
	    0);
	cr_assert_not(answer.kvs[0].is_deleted);
	cr_assert(answer.kvs[1].is_deleted);
	cr_assert_eq(answer.kvs[1].mod_revision, 7);
	etcd_answer_fini(&answer);
	cr_assert_eq(decode("{\"result\":{" HEADER
			    ",\"canceled\":true,\"compact_revision\":\"6\"}}",
			 &answer),
	    0);
	cr_assert(answer.is_canceled);
	cr_assert_eq(answer.compact_revision, 6);
	cr_assert_not_null(answer.message);
	etcd_answer_fini(&answer);
}

Test(etcd_json, errors_of_requests_and_streams_are_read)
{
	struct etcd_answer answer;

	cr_assert_eq(decode("{\"error\":\"x\",\"message\":\"no leader\",\"code\":14}", &answer), 0);
	cr_assert(answer.is_error);
	cr_assert_eq(answer.code, ETCD_CODE_UNAVAILABLE);
	cr_assert_str_eq(answer.message, "no leader");
	etcd_answer_fini(&answer);
	cr_assert_eq(decode("{\"error\":{\"grpc_code\":16,\"http_code\":401}}", &answer), 0);
	cr_assert_eq(answer.code, ETCD_CODE_UNAUTHENTICATED);
	cr_assert_not_null(answer.message);
	etcd_answer_fini(&answer);
}

Test(etcd_json, answers_that_are_none_are_refused)
{
	const char *const cases[] = { "", "{}", "[]", "1", "<html>", "{" HEADER, "{\"header\":7}",
		"{\"result\":{}}", "{\"header\":{\"cluster_id\":\"-1\"}}",
		"{\"header\":{\"cluster_id\":\"18446744073709551616\"}}",
		"{\"header\":{\"cluster_id\":\"1\",\"revision\":\"281474976710656\"}}",
		"{\"header\":{\"cluster_id\":\"1\",\"revision\":\"\"}}",
		"{\"header\":{\"cluster_id\":\"1\",\"revision\":-5}}", "{" HEADER ",\"kvs\":[7]}",
		"{" HEADER ",\"kvs\":[{\"key\":7}]}", "{" HEADER ",\"kvs\":[{\"key\":\"Y\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"version\":\"x\"}]}",
		"{" HEADER ",\"events\":[{}]}", "{\"error\":\"x\",\"code\":\"y\"}" };
	struct etcd_answer answer;

	for (uint32_t i = 0; i < NUM_COUNT(cases); i++) {
		cr_assert_eq(decode(cases[i], &answer), -EBADMSG, "%s", cases[i]);
		cr_assert_null(answer.root);
		etcd_answer_fini(&answer);
	}
}

Test(etcd_json, nth_allocation_of_an_answer_fails)
{
	const char *text = "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"value\":\"MHY=\"}]}";
	struct etcd_answer answer;

	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_eq(decode(text, &answer), -ENOMEM);
		mt_alloc_fail_at(0);
	}
	cr_assert_eq(decode(text, &answer), 0);
	etcd_answer_fini(&answer);
}
