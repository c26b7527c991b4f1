/* SPDX-License-Identifier: Apache-2.0 */
/* test_issued.c -- the list of what an authority issued: every member, every length, every allocation */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/durable.h"
#include "base/num.h"
#include "vm-client/keys/issued.h"
#include "vm-client/keys/subject_of.h"

#define SERIAL "4f7543d081e338ddc1c997d49d9a15d1"
#define OTHER "5587b07192b5e11d740a78d5c0cd533a"
#define ENTRY(subject, serial, from, until, revoked)                                               \
	"{\"subject\":\"" subject "\",\"serial\":\"" serial "\",\"from\":" from                    \
	",\"until\":" until ",\"revoked\":" revoked "}"
#define LIST(entries) HEAD("1", "c1ea7e0000000001", "3") entries "]}"
#define HEAD(format, cluster, number)                                                              \
	"{\"format\":" format ",\"cluster\":\"" cluster "\",\"crl_number\":" number ",\"issued\":["

static int
decode(const char *text, struct issued *ret)
{
	const char *why = NULL;
	int rc = issued_decode(text, strlen(text), ret, &why);

	cr_assert(rc == 0 || why != NULL);
	return rc;
}

Test(issued, what_is_written_is_read)
{
	const struct issued_entry entry = { .subject = "node/3",
		.serial = SERIAL,
		.from_s = 1,
		.until_s = 2,
		.revoked_s = 3 };
	struct issued issued = { .cluster_id = 7, .crl_number = 9 }, again;
	struct issued_entry more = entry;
	size_t bytes;
	char *text;

	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(more.serial, sizeof(more.serial), "%032x", i + 1);
		cr_assert_eq(issued_add(&issued, &more), 0);
	}
	cr_assert_eq(issued_add(&issued, &entry), 0);
	text = issued_encode(&issued, &bytes);
	cr_assert_not_null(text);
	cr_assert_eq(decode(text, &again), 0);
	cr_assert_eq(again.count, 101u);
	cr_assert_eq(again.cluster_id, 7u);
	cr_assert_eq(again.crl_number, 9u);
	for (uint32_t i = 0; i < again.count; i++)
		cr_assert(strcmp(again.entries[i].subject, issued.entries[i].subject) == 0 &&
		    strcmp(again.entries[i].serial, issued.entries[i].serial) == 0 &&
		    again.entries[i].from_s == 1 && again.entries[i].until_s == 2 &&
		    again.entries[i].revoked_s == 3);
	cr_assert_str_eq(issued_find(&again, SERIAL)->subject, "node/3");
	cr_assert_null(issued_find(&again, OTHER));
	issued_fini(&again);
	/* No part of it is one. */
	for (size_t cut = 0; cut + 2 < bytes; cut += 37) {
		text[bytes - 2 - cut] = '\0';
		cr_assert_eq(decode(text, &again), -EINVAL, "%zu bytes fewer", cut + 2);
	}
	free(text);
	issued_fini(&issued);
}

Test(issued, what_is_none_is_refused)
{
	static const char *const wrong[] = { "", "[]", "{}", HEAD("2", "1", "0") "]}",
		HEAD("1", "0", "0") "]}", HEAD("1", "x", "0") "]}", HEAD("1", "1", "-1") "]}",
		"{\"format\":1,\"cluster\":\"1\",\"crl_number\":0,\"issued\":{}}", LIST("{}"),
		LIST(ENTRY("node/0", SERIAL, "1", "2", "0")),
		LIST(ENTRY("nobody", SERIAL, "1", "2", "0")),
		LIST(ENTRY("node/3", "4F", "1", "2", "0")),
		LIST(ENTRY("node/3", SERIAL "0", "1", "2", "0")),
		LIST(ENTRY("node/3", "4F7543d081e338ddc1c997d49d9a15d1", "1", "2", "0")),
		LIST(ENTRY("node/3", SERIAL, "-1", "2", "0")),
		LIST(ENTRY("node/3", SERIAL, "3", "2", "0")),
		LIST(ENTRY("node/3", SERIAL, "1", "2", "-1")),
		LIST(ENTRY("node/3", SERIAL, "1", "2", "0") "," ENTRY("node/4", SERIAL, "1", "2",
		    "0")),
		LIST("7") };
	struct issued issued;

	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_eq(decode(wrong[i], &issued), -EINVAL, "%s", wrong[i]);
	cr_assert_eq(decode(LIST(ENTRY("node/3", SERIAL, "1", "2", "0") "," ENTRY("node/3", OTHER,
				"1", "2", "5")),
			 &issued),
	    0);
	cr_assert_str_eq(issued_state(&issued.entries[0], 2), "valid");
	cr_assert_str_eq(issued_state(&issued.entries[0], 3), "expired");
	cr_assert_str_eq(issued_state(&issued.entries[1], 3), "revoked");
	issued_fini(&issued);
}

Test(issued, as_many_as_it_holds_fit_into_its_file)
{
	struct issued_entry entry = {
		.subject =
		    "monitor/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		.from_s = INT64_MAX,
		.until_s = INT64_MAX,
		.revoked_s = INT64_MAX
	};
	struct issued issued = { .cluster_id = 7 }, again;
	size_t bytes;
	char *text;

	for (uint32_t i = 0; i < ISSUED_MAX; i++) {
		(void)snprintf(entry.serial, sizeof(entry.serial), "%032x", i);
		cr_assert_eq(issued_add(&issued, &entry), 0);
	}
	cr_assert_eq(issued_add(&issued, &entry), -ENOSPC);
	text = issued_encode(&issued, &bytes);
	cr_assert(text != NULL && bytes <= DURABLE_BYTES_MAX);
	cr_assert_eq(decode(text, &again), 0);
	cr_assert_eq(again.count, ISSUED_MAX);
	free(text);
	issued_fini(&again);
	issued_fini(&issued);
}

Test(issued, nth_allocation_that_fails_leaves_nothing)
{
	uint32_t live = alloc_live_count(ALLOC_CLIENT);
	struct issued issued;
	int rc = -ENOMEM;

	for (uint32_t nth = 1; rc != 0; nth++) {
		cr_assert_lt(nth, 10u);
		alloc_fail_at(ALLOC_CLIENT, nth);
		rc = decode(LIST(ENTRY("node/3", SERIAL, "1", "2", "0")), &issued);
		cr_assert(rc == 0 || rc == -ENOMEM);
		cr_assert(rc == 0 || alloc_live_count(ALLOC_CLIENT) == live);
	}
	alloc_fail_at(ALLOC_CLIENT, 0);
	issued_fini(&issued);
}

Test(subject_of, what_people_type)
{
	static const char *const wrong[] = { "", "gateway", "gateway/", "gateway/0", "gateway/01",
		"gateway/a", "node/-1", "node/12345678901", "Gateway/1", "client/", "client/a/b",
		"client/a b", "client/\n", "client/.a", "root/a", "/gateway/1", "gateway/1/",
		"ca" };
	struct split_subject subject;
	char uri[SUBJECT_OF_URI_BYTES], name[200] = "client/";
	uint64_t id;

	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_not(subject_of_is_valid(wrong[i]), "%s", wrong[i]);
	cr_assert_eq(subject_of("gateway/1", 0xc1ea7e0000000001, &subject, uri), 0);
	cr_assert_str_eq(uri, "cleave://c1ea7e0000000001/gateway/1");
	cr_assert_eq(subject.role, SPLIT_ROLE_GATEWAY);
	memset(name + 7, 'a', 63);
	cr_assert(subject_of_is_valid(name));
	name[7 + 63] = 'a';
	cr_assert_not(subject_of_is_valid(name));
	memset(name + 7, 'a', 190);
	cr_assert_not(subject_of_is_valid(name));
	cr_assert_eq(subject_of_cluster("C1ea", &id), 0);
	cr_assert_eq(id, 0xc1eau);
	cr_assert_eq(subject_of_cluster("", &id), -EINVAL);
	cr_assert_eq(subject_of_cluster("0x1", &id), -EINVAL);
	cr_assert_eq(subject_of_cluster("00000000000000000", &id), -EINVAL);
	cr_assert_eq(subject_of_cluster("0", &id), -EINVAL);
}
