/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_memory.c -- each allocation of the client's calls fails once; nothing is half done
 *
 * Not under sanitizers, which own malloc.
 */
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
