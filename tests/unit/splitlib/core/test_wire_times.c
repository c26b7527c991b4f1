/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_times.c -- the times that a node tells in an append's reply: to a thirtieth, or not at all */
#include <criterion/criterion.h>

#include "cleave/wire.h"

static struct wire_node_times
there_and_back(uint32_t queue_us, uint32_t write_us, uint32_t flush_us)
{
	const struct wire_node_times times = { queue_us, write_us, flush_us };

	return wire_node_times_decode(wire_node_times_encode(&times));
}

Test(wire_times, what_an_older_node_sends_is_no_time)
{
	struct wire_node_times times = wire_node_times_decode(0);

	cr_assert_eq(times.queue_us + times.write_us + times.flush_us, 0);
	times = wire_node_times_decode(UINT32_C(0x7fffffff));
	cr_assert_eq(times.queue_us + times.write_us + times.flush_us, 0);
	cr_assert_neq(wire_node_times_encode(&times), 0, "three zeros are told");
}

Test(wire_times, small_ones_are_exact_and_each_has_its_place)
{
	for (uint32_t us = 0; us < 64; us++) {
		struct wire_node_times times = there_and_back(us, 63 - us, us / 2);

		cr_assert_eq(times.queue_us, us);
		cr_assert_eq(times.write_us, 63 - us);
		cr_assert_eq(times.flush_us, us / 2);
	}
}

Test(wire_times, large_ones_lose_a_thirtieth_at_most)
{
	for (uint32_t bits = 6; bits < 32; bits++) {
		const uint64_t values[] = { UINT64_C(1) << bits, (UINT64_C(1) << bits) - 1,
			(UINT64_C(1) << bits) + (UINT64_C(1) << (bits - 1)) };

		for (uint32_t i = 0; i < 3; i++) {
			uint32_t us = (uint32_t)values[i];
			struct wire_node_times times = there_and_back(us, 0, us);

			cr_assert(times.queue_us <= us && us - times.queue_us <= us / 30, "%u: %u",
			    us, times.queue_us);
			cr_assert_eq(times.flush_us, times.queue_us);
			cr_assert_eq(times.write_us, 0);
		}
	}
	cr_assert_geq(there_and_back(UINT32_MAX, 0, 0).queue_us, UINT32_MAX - UINT32_MAX / 30);
}

Test(wire_times, any_number_is_some_times)
{
	struct wire_node_times times = wire_node_times_decode(UINT32_MAX);

	cr_assert_eq(times.queue_us, UINT32_MAX, "the longest that can be told");
	for (uint32_t i = 0; i < 1024; i++)
		(void)wire_node_times_decode(UINT32_C(1) << 31 | i | i << 10 | i << 20);
}

Test(wire_times, of_an_append_pass_the_reply)
{
	const struct wire_node_times told = { 1, 2, 3 };
	const struct wire_node_reply reply = { .opcode = WIRE_EXTENT_APPEND,
		.id = { .shard = 1, .epoch = 2, .counter = 3 },
		.offset_bytes = 4096,
		.length_bytes = wire_node_times_encode(&told) };
	struct wire_node_reply out;
	struct wire_header header;
	const char *field = NULL;

	wire_node_reply_encode(&header, &reply);
	cr_assert_eq(wire_node_reply_decode(&header, &out, &field), 0, "%s", field);
	cr_assert_eq(wire_node_times_decode(out.length_bytes).flush_us, 3);
	cr_assert_eq(header.payload_bytes, 0, "nothing follows");
}
