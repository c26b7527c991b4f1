/* SPDX-License-Identifier: Apache-2.0 */
/* test_nbd_buffer.c -- memory of requests that is kept for the next: clean, and bounded */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "vm-client/agent/nbd.h"

static struct nbd_buffers buffers;

static bool
is_zero(const struct nbd_request *request, size_t from, size_t end)
{
	const unsigned char *bytes = (const void *)request;

	while (from < end && bytes[from] == 0)
		from++;
	return from == end;
}

/* All but its ios, which nobody reads before they are set. */
Test(nbd_buffer, a_request_that_comes_again_is_clean)
{
	struct nbd_request *first = nbd_buffer_get_request(&buffers), *again;

	cr_assert_not_null(first);
	cr_assert(is_zero(first, 0, sizeof(*first)));
	memset(first, 0xff, sizeof(*first));
	first->magic = 0;
	nbd_buffer_put_request(&buffers, first);
	again = nbd_buffer_get_request(&buffers);
	cr_assert_eq(again, first, "it was not kept");
	cr_assert(is_zero(again, 0, offsetof(struct nbd_request, ios)));
	cr_assert(is_zero(again, offsetof(struct nbd_request, io_next), sizeof(*again)));
	nbd_buffer_put_request(&buffers, again);
	nbd_buffers_fini(&buffers);
	cr_assert_null(buffers.free_request);
}

Test(nbd_buffer, no_more_requests_are_kept_than_there_is_a_bound)
{
	static struct nbd_request *requests[NBD_REQUESTS_KEPT_MAX + 3];

	for (uint32_t i = 0; i < NBD_REQUESTS_KEPT_MAX + 3; i++) {
		requests[i] = nbd_buffer_get_request(&buffers);
		cr_assert_not_null(requests[i]);
	}
	for (uint32_t i = 0; i < NBD_REQUESTS_KEPT_MAX + 3; i++)
		nbd_buffer_put_request(&buffers, requests[i]);
	cr_assert_eq(buffers.free_request_count, NBD_REQUESTS_KEPT_MAX);
	nbd_buffers_fini(&buffers);
	cr_assert_eq(buffers.free_request_count, 0);
}
