/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed connections over TCP, all of the way: once a connection is warm nothing is allocated for a message, at neither
 * end, by us or by GnuTLS. (Of the frames alone: test_seal_frame.c.)
 */
#include "tests/unit/allocation_count.h"
#include "tests/unit/split_fixture.h"

#define ROUNDS 1000u
#define PAYLOAD_BYTES 4096u

#ifdef HAS_ALLOCATION_COUNT
static struct fixture f;

/* A request with a payload, and its answer with the same. */
static void
round_trip(dev_ptr memory, uint64_t number)
{
	struct test_send send;

	test_send_init(&send, &f.client, WIRE_ECHO, number, memory, PAYLOAD_BYTES);
	if (split_send(f.client.qp, &send.send) != 0)
		cr_assert_fail("message %lu is not sent", (unsigned long)number);
	fixture_run(&f, client_got, number);
	fixture_run(&f, client_sent, number);
}

static void
exchange(enum split_security security)
{
	unsigned long before;
	dev_ptr memory;

	memset(&f, 0, sizeof(f));
	fixture_make_keys(&f);
	f.client_security = f.server_security = security;
	fixture_open(&f, NET_TCP, NULL, NULL);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	before = allocation_count;
	fixture_connect_both(&f);
	cr_assert_gt(allocation_count, before, "the hook does not count");
	cr_assert_eq(split_qp_security(f.client.qp), security);
	memory = pattern_alloc(f.client_port, PAYLOAD_BYTES, 5);
	for (uint64_t i = 1; i <= ROUNDS; i++)
		round_trip(memory, i);
	before = allocation_count;
	for (uint64_t i = ROUNDS + 1; i <= 2 * ROUNDS; i++)
		round_trip(memory, i);
	if (allocation_count != before)
		cr_assert_fail("%lu allocations for %u messages each way",
		    allocation_count - before, ROUNDS);
	fixture_close(&f);
	split_key_free(f.client_key);
	split_key_free(f.server_key);
	key_authority_fini(&f.authority);
}

TestSuite(sealed_memory, .timeout = 120);

Test(sealed_memory, a_sealed_message_allocates_nothing)
{
	exchange(SPLIT_SECURITY_SEAL);
}

Test(sealed_memory, a_signed_message_allocates_nothing)
{
	exchange(SPLIT_SECURITY_SIGN);
}
#endif
