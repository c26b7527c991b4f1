/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_memory.c -- each allocation of the client fails once; nothing is half done
 *
 * Within a call all of malloc's fail in turn, other libraries', too; not so under sanitizers, which own
 * malloc. While the loop runs, and on the library's own thread, those of the library alone (base/alloc.h):
 * the gateway is in the same process.
 */
#include "base/alloc.h"
#include "unit/client_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL_ALLOCATIONS 0
static int allocations_left;
#else
#define CAN_FAIL_ALLOCATIONS 1
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);

static _Thread_local int allocations_left = -1; /* -1: all succeed */

static bool
allocation_fails(void)
{
	if (allocations_left < 0)
		return false;
	if (allocations_left == 0) {
		errno = ENOMEM;
		return true;
	}
	allocations_left--;
	return false;
}

void *
malloc(size_t bytes)
{
	return allocation_fails() ? NULL : __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
	return allocation_fails() ? NULL : __libc_calloc(count, bytes);
}
#endif

#define ALLOCATIONS_MAX 1000

Test(client_memory, create)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 1);
	int rc = -ENOMEM, nth = 0;

	if (!CAN_FAIL_ALLOCATIONS)
		cr_skip_test("a sanitizer owns malloc");
	for (; rc != 0; nth++) {
		cr_assert(nth < ALLOCATIONS_MAX);
		allocations_left = nth;
		rc = cleave_client_create(&f->options, &f->client, f->error);
		allocations_left = -1;
		cr_assert(rc == 0 || rc == -ENOMEM, "allocation %d: rc %d", nth, rc);
		cr_assert((f->client != NULL) == (rc == 0));
	}
	cr_assert(nth > 5);
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0);
	fixture_destroy(f);
}

Test(client_memory, open_and_control)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 1);
	int rc = -ENOMEM;

	if (!CAN_FAIL_ALLOCATIONS)
		cr_skip_test("a sanitizer owns malloc");
	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	fixture_client(f);
	for (int nth = 0; rc != 0; nth++) {
		cr_assert(nth < ALLOCATIONS_MAX);
		allocations_left = nth;
		rc = cleave_volume_open(f->client, "v", 0, fixture_on_open, f);
		allocations_left = -1;
		/* jansson cannot say why it has no text. */
		cr_assert(rc == 0 || rc == -ENOMEM || rc == -EINVAL, "allocation %d: %d", nth, rc);
		cr_assert(!f->is_answered);
	}
	fixture_run(f, fixture_is_answered);
	cr_assert(f->rc == 0, "%s", f->error);
	f->call.fn = fixture_on_reply;
	f->call.arg = f;
	allocations_left = 0;
	rc = cleave_control(f->client, &f->call, "{\"op\":\"status\"}");
	allocations_left = -1;
	cr_assert(rc == -ENOMEM);
	fixture_destroy(f);
}

/* ---- a whole life ---- */

#define LIFE_BYTES (2 * CLEAVE_CHUNK_BYTES) /* two chunks: of two shards, and so of two ports */

/* @rc and f->error, of a call that may have lacked memory. */
static bool
expect_told(const struct fixture *f, int rc, uint32_t nth)
{
	cr_assert(rc == 0 || rc == -ENOMEM, "allocation %u: %d %s", nth, rc, f->error);
	cr_assert(rc == 0 || f->error[0] != '\0', "allocation %u: nothing is said", nth);
	return rc == 0;
}

/* From a client to its end; what did not work once works when it is asked for again. */
static void
live(struct fixture *f, uint32_t nth)
{
	uint8_t *data = malloc(2 * CLEAVE_BLOCK_BYTES), *back = malloc(2 * CLEAVE_BLOCK_BYTES);
	const uint64_t at = CLEAVE_CHUNK_BYTES - CLEAVE_BLOCK_BYTES; /* over both chunks */

	memset(data, (int)nth, 2 * CLEAVE_BLOCK_BYTES);
	while (!expect_told(f, cleave_client_create(&f->options, &f->client, f->error), nth))
		cr_assert_null(f->client);
	do {
		f->error[0] = '\0';
		f->is_answered = false;
		f->rc = cleave_volume_open(f->client, "v", 0, fixture_on_open, f);
		if (f->rc == 0)
			fixture_run(f, fixture_is_answered);
		else
			(void)snprintf(f->error, sizeof(f->error), "refused at once");
	} while (!expect_told(f, f->rc, nth));
	cr_assert_eq(fixture_io(f, CLEAVE_WRITE, at, 2 * CLEAVE_BLOCK_BYTES, data), 0);
	cr_assert_eq(fixture_io(f, CLEAVE_READ, at, 2 * CLEAVE_BLOCK_BYTES, back), 0);
	cr_assert_arr_eq(data, back, 2 * CLEAVE_BLOCK_BYTES);
	fixture_close(f);
	cleave_client_destroy(f->client);
	f->client = NULL;
	free(data);
	free(back);
}

Test(client_memory, the_nth_allocation_of_a_life_fails)
{
	struct fixture *f = fixture_create(NET_SIM, 2, 4);
	bool has_failed = true;
	uint32_t nth = 1;

	fake_gateway_add(&f->fake, "v", LIFE_BYTES);
	for (; has_failed; nth++) {
		cr_assert_lt(nth, ALLOCATIONS_MAX);
		alloc_fail_at(ALLOC_CLIENT, nth);
		live(f, nth);
		has_failed = alloc_has_failed(ALLOC_CLIENT);
	}
	cr_assert_gt(nth, 10);
	alloc_fail_at(ALLOC_CLIENT, 0);
	fixture_destroy(f);
}
