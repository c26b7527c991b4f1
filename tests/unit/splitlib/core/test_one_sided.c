/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_one_sided.c -- reads and writes of a peer's region, over TCP, the simulated network and verbs
 *
 * The server owns regions, the client reads and writes them; keys go by a variable, as if they had
 * travelled. What cannot happen over an RDMA device (messages that carry a read) is told by kind.
 */
#include <sys/socket.h>

#include "cleave/status.h"
#include "splitlib/core/alloc.h"
#include "splitlib/core/dev_ptr_raw.h"
#include "splitlib/core/one_sided.h"
#include "splitlib/core/region.h"
#include "splitlib/core/send_assemble.h"
#include "splitlib/core/send_post.h"
#include "splitlib/tcp/tcp.h"
#include "unit/split_fixture.h"

#define EVENTS_MAX 64u

static struct fixture f;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(one_sided, .init = setup, .timeout = 100);

static void
open_pair(enum net_kind kind)
{
	struct split_port_options options = { .receive_count = 256, .device_bytes = NUM_MIB(48) };

	fixture_open(&f, kind, &options, &options);
	fixture_connect_both(&f);
}

/* A region of the server with a pattern in it. */
static struct dev_region *
region_open(uint32_t bytes, uint32_t seed, uint32_t rights, dev_ptr *ret_memory,
    struct dev_remote *ret_remote)
{
	struct dev_region *region;

	*ret_memory = pattern_alloc(f.server_port, bytes, seed);
	region = dev_region_open(f.server_port, *ret_memory, bytes, rights, ret_remote);
	cr_assert_not_null(region, "errno %d", errno);
	cr_assert_eq(ret_remote->bytes, bytes);
	cr_assert_eq(ret_remote->rights, rights);
	return region;
}

/* Events that complete into a table. */
struct results {
	uint32_t done_count;
	int rc[EVENTS_MAX];
	uint32_t bytes[EVENTS_MAX];
};
static struct results results;
struct slot {
	uint32_t index;
};
static struct slot slots[EVENTS_MAX];

static void
on_done(const struct dev_completion *completion, void *arg)
{
	const struct slot *slot = arg;

	results.done_count++;
	results.rc[slot->index] = completion->rc;
	results.bytes[slot->index] = completion->bytes;
}

static bool
all_done(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return results.done_count >= wanted;
}

static void
watch(struct dev_event *event, uint32_t index)
{
	cr_assert_not_null(event, "errno %d", errno);
	slots[index].index = index;
	dev_event_on(event, on_done, &slots[index]);
}

/* Runs one to its end and tells how it ended. */
static int
run_one(struct dev_event *event)
{
	memset(&results, 0, sizeof(results));
	watch(event, 0);
	fixture_run(&f, all_done, 1);
	return results.rc[0];
}

static void
check_messages_flow(void)
{
	static struct test_send sends[8];
	uint32_t before = f.client.message_count;

	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, client_got, before + NUM_COUNT(sends));
	cr_assert_eq(f.client.closed_count, 0);
}

BOTH(one_sided, bytes_arrive_where_they_should)
{
	static const uint32_t sizes[] = { 1, 63, 4096, 65537, WIRE_PAYLOAD_BYTES_MAX - 8 };
	dev_ptr memory, local;
	struct dev_remote remote;

	open_pair(kind);
	(void)region_open(WIRE_PAYLOAD_BYTES_MAX, 3, DEV_REGION_READ | DEV_REGION_WRITE, &memory,
	    &remote);
	local = pattern_alloc(f.client_port, WIRE_PAYLOAD_BYTES_MAX, 4);
	for (size_t i = 0; i < NUM_COUNT(sizes); i++) {
		cr_assert_eq(run_one(dev_read(f.client.qp, local, sizes[i], &remote, 8)), 0);
		cr_assert_eq(results.bytes[0], sizes[i]);
		pattern_check(f.client_port, local, sizes[i], 3, 8);
	}
	dev_free(f.client_port, local);
	local = pattern_alloc(f.client_port, WIRE_PAYLOAD_BYTES_MAX, 5);
	for (size_t i = 0; i < NUM_COUNT(sizes); i++) {
		cr_assert_eq(run_one(dev_write(f.client.qp, local, sizes[i], &remote, 8)), 0);
		cr_assert_eq(results.bytes[0], sizes[i]);
		pattern_check(f.server_port, dev_ptr_add(memory, 8), sizes[i], 5, 0);
		pattern_check(f.server_port, memory, 8, 3, 0);
	}
	cr_assert_eq(f.server.message_count, 0);
	cr_assert_eq(f.client_port->counters.one_sided_done, 2 * NUM_COUNT(sizes));
	cr_assert_eq(f.client_port->counters.one_sided_refused, 0);
	fixture_close(&f);
}

/* A message that is sent after it finds it there. */
BOTH(one_sided, what_is_published_is_seen_before_what_is_sent_later)
{
	static struct test_send sends[8];
	dev_ptr memory, local;
	struct dev_remote remote;
	uint8_t found[24];

	open_pair(kind);
	f.client.mode = SIDE_RELEASE;
	(void)region_open(4096, 3, DEV_REGION_READ, &memory, &remote);
	local = dev_alloc(f.client_port, sizeof(found));
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		uint64_t value = UINT64_C(0x1122334455667788) * (i + 1);

		dev_publish(f.server_port, dev_ptr_add(memory, 64 + 8), value);
		test_send_init(&sends[i], &f.server, WIRE_ECHO, i, DEV_PTR_NULL, 0);
		cr_assert_eq(split_send(f.server.qp, &sends[i].send), 0);
		fixture_run(&f, client_got, i + 1);
		cr_assert_eq(run_one(dev_read(f.client.qp, local, 24, &remote, 64)), 0);
		dev_copy_to_host(f.client_port, found, local, sizeof(found));
		cr_assert_eq(num_get_le64(found + 8), value);
		pattern_check(f.client_port, local, 8, 3, 64);
		pattern_check(f.client_port, dev_ptr_add(local, 16), 8, 3, 80);
	}
	cr_assert_eq(split_port_counters(f.server_port)->copied_from_host_bytes,
	    4096 + 8 * NUM_COUNT(sends), "the pattern, and these");
	fixture_close(&f);
}

BOTH(one_sided, long_ones_travel_in_pieces)
{
	uint32_t bytes = 9 * WIRE_PAYLOAD_BYTES_MAX + 77;
	dev_ptr memory, local;
	struct dev_remote remote;
	struct dev_region *region;

	open_pair(kind);
	memory = dev_alloc(f.server_port, bytes);
	local = dev_alloc(f.client_port, bytes);
	region = dev_region_open(f.server_port, memory, bytes, DEV_REGION_READ | DEV_REGION_WRITE,
	    &remote);
	cr_assert_not_null(region);
	for (uint32_t at = 0; at < bytes; at += WIRE_PAYLOAD_BYTES_MAX) {
		uint32_t part = (uint32_t)num_min(bytes - at, WIRE_PAYLOAD_BYTES_MAX);
		dev_ptr pattern = pattern_alloc(f.client_port, part, at);

		cr_assert_eq(run_one(dev_write(f.client.qp, pattern, part, &remote, at)), 0);
		dev_free(f.client_port, pattern);
	}
	cr_assert_eq(run_one(dev_read(f.client.qp, local, bytes, &remote, 0)), 0);
	cr_assert_eq(results.bytes[0], bytes);
	for (uint32_t at = 0; at < bytes; at += WIRE_PAYLOAD_BYTES_MAX)
		pattern_check(f.client_port, dev_ptr_add(local, at),
		    (uint32_t)num_min(bytes - at, WIRE_PAYLOAD_BYTES_MAX), at, 0);
	cr_assert_eq(run_one(dev_write(f.client.qp, local, bytes, &remote, 0)), 0);
	cr_assert_eq(results.bytes[0], bytes);
	fixture_close(&f);
}

BOTH(one_sided, many_at_one_time_all_end)
{
	dev_ptr memory, local;
	struct dev_remote remote;

	open_pair(kind);
	(void)region_open(EVENTS_MAX * 4096, 3, DEV_REGION_READ | DEV_REGION_WRITE, &memory,
	    &remote);
	local = dev_alloc(f.client_port, EVENTS_MAX * 4096);
	memset(&results, 0, sizeof(results));
	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		watch(dev_read(f.client.qp, dev_ptr_add(local, i * 4096), 4096, &remote, i * 4096),
		    i);
	fixture_run(&f, all_done, EVENTS_MAX);
	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		cr_assert_eq(results.rc[i], 0);
	pattern_check(f.client_port, local, EVENTS_MAX * 4096, 3, 0);
	fixture_close(&f);
}

BOTH(one_sided, a_revoked_key_fails_and_disturbs_nothing)
{
	struct dev_region *first, *second;
	dev_ptr memory, other, local;
	struct dev_remote remote, remote_other;

	open_pair(kind);
	first = region_open(4096, 3, DEV_REGION_READ | DEV_REGION_WRITE, &memory, &remote);
	second = region_open(4096, 4, DEV_REGION_READ, &other, &remote_other);
	local = pattern_alloc(f.client_port, 4096, 9);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &remote, 0)), 0);
	dev_region_close(first);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &remote, 0)), -EKEYREVOKED);
	cr_assert_eq(results.bytes[0], 0);
	cr_assert_eq(run_one(dev_write(f.client.qp, local, 4096, &remote, 0)), -EKEYREVOKED);
	pattern_check(f.server_port, memory, 4096, 3, 0);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &remote_other, 0)), 0);
	pattern_check(f.client_port, local, 4096, 4, 0);
	check_messages_flow();
	cr_assert_eq(f.client_port->counters.one_sided_refused, 2);
	/* The place is taken again: the old key still opens nothing. */
	first = region_open(4096, 7, DEV_REGION_READ, &memory, &remote_other);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &remote, 0)), -EKEYREVOKED);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &remote_other, 0)), 0);
	dev_region_close(first);
	dev_region_close(second);
	dev_region_close(NULL);
	fixture_close(&f);
}

BOTH(one_sided, good_and_bad_ones_at_one_time)
{
	dev_ptr memory, gone, local;
	struct dev_remote remote, revoked;

	open_pair(kind);
	(void)region_open(32 * 4096, 3, DEV_REGION_READ | DEV_REGION_WRITE, &memory, &remote);
	dev_region_close(region_open(32 * 4096, 4, DEV_REGION_READ, &gone, &revoked));
	local = dev_alloc(f.client_port, 32 * 4096);
	memset(&results, 0, sizeof(results));
	for (uint32_t i = 0; i < 32; i++)
		watch(dev_read(f.client.qp, dev_ptr_add(local, i * 4096), 4096,
			  i % 8 == 5 ? &revoked : &remote, i * 4096),
		    i);
	fixture_run(&f, all_done, 32);
	for (uint32_t i = 0; i < 32; i++) {
		cr_assert_eq(results.rc[i], i % 8 == 5 ? -EKEYREVOKED : 0, "%u: %d", i,
		    results.rc[i]);
		if (i % 8 != 5)
			pattern_check(f.client_port, dev_ptr_add(local, i * 4096), 4096, 3,
			    i * 4096);
	}
	check_messages_flow();
	fixture_close(&f);
}

BOTH(one_sided, what_a_key_does_not_allow_is_refused_by_the_owner)
{
	dev_ptr memory, local;
	struct dev_remote remote, forged;

	open_pair(kind);
	(void)region_open(8192, 3, DEV_REGION_READ, &memory, &remote);
	local = pattern_alloc(f.client_port, 8192, 9);
	forged = remote;
	forged.bytes = 65536;
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &forged, 4097)), -EKEYREVOKED);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &forged, 60000)), -EKEYREVOKED);
	forged.rights = DEV_REGION_READ | DEV_REGION_WRITE;
	cr_assert_eq(run_one(dev_write(f.client.qp, local, 4096, &forged, 0)), -EKEYREVOKED);
	pattern_check(f.server_port, memory, 8192, 3, 0);
	forged = remote;
	forged.key ^= 0x5a5a00;
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &forged, 0)), -EKEYREVOKED);
	pattern_check(f.client_port, local, 8192, 9, 0);
	cr_assert_eq(run_one(dev_read(f.client.qp, local, 4096, &remote, 4096)), 0);
	check_messages_flow();
	fixture_close(&f);
}

static void
check_refused(struct dev_event *event, int err)
{
	cr_assert_null(event);
	cr_assert_eq(errno, err, "%d", errno);
}

BOTH(one_sided, what_cannot_be_is_refused_here)
{
	struct split_port_options few = { .receive_count = 16, .event_count_max = 1 };
	static uint8_t foreign[64];
	dev_ptr memory, local;
	struct dev_remote remote, both;

	fixture_open(&f, kind, NULL, &few);
	local = dev_alloc(f.client_port, 8192);
	cr_assert_null(dev_region_open(f.client_port, local, 8192, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, ENOTCONN);
	(void)fixture_connect(&f, &side_ops);
	both = (struct dev_remote){ .bytes = 64, .rights = DEV_REGION_READ };
	check_refused(dev_read(f.client.qp, local, 64, &both, 0), ENOTCONN);
	fixture_run(&f, both_ready, 0);
	(void)region_open(8192, 3, DEV_REGION_READ, &memory, &remote);
	check_refused(dev_read(f.client.qp, local, 0, &remote, 0), EINVAL);
	check_refused(dev_read(f.client.qp, dev_ptr_of(foreign), 64, &remote, 0), EINVAL);
	check_refused(dev_write(f.client.qp, local, 64, &remote, 0), EACCES);
	check_refused(dev_read(f.client.qp, local, 64, &remote, 8192 - 63), ERANGE);
	check_refused(dev_read(f.client.qp, local, 64, &remote, UINT64_MAX), ERANGE);
	watch(dev_read(f.client.qp, local, 64, &remote, 8192 - 64), 0);
	check_refused(dev_read(f.client.qp, local, 64, &remote, 0), ENOBUFS);
	memset(&results, 0, sizeof(results));
	fixture_run(&f, all_done, 1);
	cr_assert_null(dev_region_open(f.server_port, memory, 8192, 0, &remote));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_region_open(f.server_port, memory, 0, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_region_open(f.server_port, memory, 8192, 8, &remote));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(dev_region_open(f.server_port, dev_ptr_of(foreign), 64, 1, &remote));
	cr_assert_eq(errno, EINVAL);
	fixture_close(&f);
}

BOTH(one_sided, regions_are_bounded)
{
	struct dev_remote remote;
	struct dev_region *last = NULL;
	dev_ptr memory;

	open_pair(kind);
	memory = dev_alloc(f.server_port, 4096);
	for (uint32_t i = 0; i < SPLIT_REGIONS_MAX; i++) {
		last = dev_region_open(f.server_port, memory, 64, DEV_REGION_READ, &remote);
		cr_assert_not_null(last, "%u: errno %d", i, errno);
	}
	cr_assert_null(dev_region_open(f.server_port, memory, 64, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, ENOBUFS);
	dev_region_close(last);
	cr_assert_not_null(dev_region_open(f.server_port, memory, 64, DEV_REGION_READ, &remote));
	fixture_close(&f); /* the others end here */
}

BOTH(one_sided, a_queue_pair_that_ends_ends_them)
{
	for (uint32_t is_here = 0; is_here < 2; is_here++) {
		dev_ptr memory, local;
		struct dev_remote remote;

		setup();
		open_pair(kind);
		(void)region_open(65536, 3, DEV_REGION_READ, &memory, &remote);
		local = dev_alloc(f.client_port, 65536);
		memset(&results, 0, sizeof(results));
		for (uint32_t i = 0; i < 40; i++)
			watch(dev_read(f.client.qp, local, 65536, &remote, 0), i);
		split_qp_close(is_here ? f.client.qp : f.server.qp);
		fixture_run(&f, client_closed, 1);
		cr_assert_eq(results.done_count, 40);
		for (uint32_t i = 0; i < 40; i++)
			cr_assert(results.rc[i] == 0 ||
				results.rc[i] == (is_here ? -ECANCELED : -ECONNRESET),
			    "%u: %d (%s)", i, results.rc[i], f.client.reason);
		cr_assert_neq(results.rc[39], 0);
		fixture_close(&f);
	}
}

BOTH(one_sided, events_can_be_polled_but_not_taken_back)
{
	struct dev_completion completion;
	struct dev_event *event;
	dev_ptr memory, local;
	struct dev_remote remote;

	open_pair(kind);
	(void)region_open(64, 3, DEV_REGION_READ, &memory, &remote);
	local = dev_alloc(f.client_port, 64);
	event = dev_read(f.client.qp, local, 64, &remote, 0);
	cr_assert_not_null(event);
	cr_assert_eq(dev_event_cancel(event), 0);
	cr_assert_eq(dev_poll(event, &completion), 0);
	cr_assert_eq(completion.rc, 0);
	fixture_close(&f);
}

Test(one_sided, keys_survive_their_journey)
{
	struct dev_remote remote = { .address = 0x0123456789abcdef,
		.bytes = 4096,
		.key = 77,
		.rights = DEV_REGION_WRITE };
	struct dev_remote found = { 0 };
	uint8_t bytes[DEV_REMOTE_BYTES];

	dev_remote_encode(bytes, &remote);
	cr_assert_eq(dev_remote_decode(bytes, &found), 0);
	cr_assert_eq(memcmp(&found, &remote, sizeof(remote)), 0);
	remote.rights = 4;
	dev_remote_encode(bytes, &remote);
	cr_assert_eq(dev_remote_decode(bytes, &found), -EPROTO);
	remote.rights = 0;
	dev_remote_encode(bytes, &remote);
	cr_assert_eq(dev_remote_decode(bytes, &found), -EPROTO);
	remote = (struct dev_remote){ .address = UINT64_MAX - 10, .bytes = 11, .rights = 1 };
	dev_remote_encode(bytes, &remote);
	cr_assert_eq(dev_remote_decode(bytes, &found), -EPROTO);
	remote.bytes = 0;
	dev_remote_encode(bytes, &remote);
	cr_assert_eq(dev_remote_decode(bytes, &found), -EPROTO);
	cr_assert_eq(found.key, 77);
}

/* Where the library serves them: what it must not do when a region closes in the middle. */

static dev_ptr region_memory;

static bool
some_has_arrived(struct fixture *fixture, uint64_t wanted)
{
	uint8_t first;

	(void)wanted;
	dev_copy_to_host(fixture->server_port, &first, region_memory, 1);
	return first != 0;
}

static dev_ptr
filled_alloc(struct split_port *port, uint32_t bytes, uint8_t with)
{
	static uint8_t fill[NUM_MIB(1)];
	dev_ptr memory = dev_alloc(port, bytes);

	memset(fill, with, sizeof(fill));
	for (uint32_t at = 0; at < bytes; at += (uint32_t)sizeof(fill))
		dev_copy_from_host(port, dev_ptr_add(memory, at), fill, sizeof(fill));
	return memory;
}

static void
check_filled(struct split_port *port, dev_ptr memory, uint32_t bytes, uint8_t with)
{
	static uint8_t found[NUM_MIB(1)];

	for (uint32_t at = 0; at < bytes; at += (uint32_t)sizeof(found)) {
		dev_copy_to_host(port, found, dev_ptr_add(memory, at), sizeof(found));
		cr_assert_eq(found[0], with, "byte %u is %u", at, found[0]);
		cr_assert_eq(memcmp(found, found + 1, sizeof(found) - 1), 0, "behind byte %u", at);
	}
}

BOTH(one_sided, a_write_under_way_stops_when_the_region_closes)
{
	uint32_t bytes = 16 * (uint32_t)NUM_MIB(1);
	struct dev_region *region;
	struct dev_remote remote;
	dev_ptr local;

	open_pair(kind);
	region_memory = filled_alloc(f.server_port, bytes, 0);
	local = filled_alloc(f.client_port, bytes, 7);
	region = dev_region_open(f.server_port, region_memory, bytes, DEV_REGION_WRITE, &remote);
	memset(&results, 0, sizeof(results));
	watch(dev_write(f.client.qp, local, bytes, &remote, 0), 0);
	fixture_run(&f, some_has_arrived, 0);
	dev_region_close(region);
	dev_free(f.server_port, region_memory);
	region_memory = filled_alloc(f.server_port, bytes, 9);
	fixture_run(&f, all_done, 1);
	fixture_idle(&f);
	check_filled(f.server_port, region_memory, bytes, 9);
	cr_assert(results.rc[0] == -EKEYREVOKED || results.bytes[0] == bytes, "%d", results.rc[0]);
	check_messages_flow();
	fixture_close(&f);
}

static bool
a_read_is_half_out(struct fixture *fixture, uint64_t wanted)
{
	const struct region_answers *self = fixture->server.qp->answers;

	(void)wanted;
	for (uint32_t i = 0; self != NULL && i < ONE_SIDED_PIECES; i++)
		if (self->all[i].is_used && self->all[i].send.sent_bytes > 0 &&
		    list_contains(&self->all[i].send.link))
			return true;
	return false;
}

/* So that its answers do not all fit. */
static void
server_buffer_shrink(void)
{
	const struct tcp_qp *tcp = f.server.qp->transport;
	int bytes = 65536;

	cr_assert_eq(setsockopt(tcp->watcher.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

Test(one_sided, a_read_under_way_never_sees_what_comes_after_the_region)
{
	uint32_t bytes = 16 * (uint32_t)NUM_MIB(1);
	struct dev_region *region;
	struct dev_remote remote;
	dev_ptr local;

	open_pair(NET_TCP);
	server_buffer_shrink();
	region_memory = filled_alloc(f.server_port, bytes, 3);
	local = filled_alloc(f.client_port, bytes, 3);
	region = dev_region_open(f.server_port, region_memory, bytes, DEV_REGION_READ, &remote);
	memset(&results, 0, sizeof(results));
	watch(dev_read(f.client.qp, local, bytes, &remote, 0), 0);
	fixture_run(&f, a_read_is_half_out, 0);
	dev_region_close(region);
	dev_free(f.server_port, region_memory);
	(void)filled_alloc(f.server_port, bytes, 9);
	fixture_run(&f, all_done, 1);
	cr_assert_eq(results.rc[0], -EKEYREVOKED);
	check_filled(f.client_port, local, bytes, 3);
	check_messages_flow();
	fixture_close(&f);
	cr_assert_eq(split_alloc_live_count(), 0);
}

/* Mistakes of a peer, each in a message of its own. */
static void
check_broken(const struct wire_header *header, uint32_t piece_bytes, const char *field)
{
	struct test_send bad;
	dev_ptr payload;

	setup();
	open_pair(NET_TCP);
	payload = dev_alloc(f.client_port, 8192);
	test_send_init(&bad, &f.client, header->opcode, 0, payload, piece_bytes);
	bad.header = *header;
	send_post_library(f.client.qp, &bad.send);
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -EPROTO);
	cr_assert_not_null(strstr(f.server.reason, field), "%s", f.server.reason);
	fixture_close(&f);
}

Test(one_sided, broken_messages_close_their_queue_pair)
{
	struct wire_header good = { .opcode = WIRE_DEV_READ, .length_bytes = 64 }, bad;

	bad = good;
	bad.flags = 1;
	check_broken(&bad, 0, "flags");
	bad = good;
	bad.length_bytes = 0;
	check_broken(&bad, 0, "length_bytes");
	bad.length_bytes = ONE_SIDED_PIECE_BYTES + 1;
	check_broken(&bad, 0, "length_bytes");
	bad = good;
	bad.status = 1;
	check_broken(&bad, 0, "status");
	check_broken(&good, 64, "payload_bytes");
	bad = good;
	bad.opcode = WIRE_DEV_WRITE;
	check_broken(&bad, 63, "payload_bytes");
	bad = good;
	bad.opcode = WIRE_DEV_WRITE | WIRE_REPLY;
	check_broken(&bad, 0, "request_id");
	bad.request_id = ONE_SIDED_PIECES;
	check_broken(&bad, 0, "request_id");
}

/* The peer answers a read with what is no answer to it. */
static void
check_broken_answer(uint8_t opcode, uint32_t length_bytes, uint64_t request_id, const char *field)
{
	struct wire_header header = { .opcode = opcode,
		.length_bytes = length_bytes,
		.request_id = request_id,
		.status = CLEAVE_STATUS_KEY };
	struct dev_remote remote;
	struct test_send bad;
	dev_ptr memory, local;

	setup();
	open_pair(NET_TCP);
	(void)region_open(4096, 3, DEV_REGION_READ, &memory, &remote);
	local = dev_alloc(f.client_port, 4096);
	memset(&results, 0, sizeof(results));
	watch(dev_read(f.client.qp, local, 4096, &remote, 0), 0);
	/* Ahead of the true answer: posted before the question arrives. */
	test_send_init(&bad, &f.server, opcode, 0, DEV_PTR_NULL, 0);
	bad.header = header;
	send_post_library(f.server.qp, &bad.send);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EPROTO);
	cr_assert_not_null(strstr(f.client.reason, field), "%s", f.client.reason);
	cr_assert_eq(results.rc[0], -ECONNRESET);
	fixture_close(&f);
}

Test(one_sided, broken_answers_close_their_queue_pair)
{
	check_broken_answer(WIRE_DEV_READ | WIRE_REPLY, 4096, 1, "request_id");
	check_broken_answer(WIRE_DEV_WRITE | WIRE_REPLY, 4096, 0, "opcode");
	check_broken_answer(WIRE_DEV_READ | WIRE_REPLY, 4095, 0, "length_bytes");
}

Test(one_sided, more_than_the_peer_may_have_in_flight_breaks_the_protocol)
{
	static struct test_send echo, asks[ONE_SIDED_PIECES + 1];
	struct dev_remote remote;
	dev_ptr memory;

	f.server.mode = SIDE_ANSWER;
	fixture_open(&f, NET_TCP, NULL, NULL);
	(void)fixture_connect(&f, NULL);
	cr_assert_eq(dev_wait_ready(f.client.qp), 0);
	server_buffer_shrink();
	/* An answer that nobody has a receive for: the client reads no further, and we answer it. */
	test_send_init(&echo, &f.client, WIRE_ECHO, 1, DEV_PTR_NULL, 0);
	cr_assert_eq(split_send(f.client.qp, &echo.send), 0);
	fixture_run(&f, server_got, 1);
	(void)region_open(ONE_SIDED_PIECE_BYTES, 3, DEV_REGION_READ, &memory, &remote);
	for (uint32_t i = 0; i < NUM_COUNT(asks); i++) {
		test_send_init(&asks[i], &f.client, WIRE_DEV_READ, i, DEV_PTR_NULL, 0);
		asks[i].header.object_id = remote.address;
		asks[i].header.epoch = remote.key;
		asks[i].header.length_bytes = ONE_SIDED_PIECE_BYTES;
		send_post_library(f.client.qp, &asks[i].send);
	}
	fixture_run(&f, server_closed, 0);
	cr_assert_eq(f.server.closed_rc, -EPROTO);
	cr_assert_not_null(strstr(f.server.reason, "too many"));
	fixture_close(&f);
}

/* Each allocation of a read, of either side, fails once. */
Test(one_sided, an_allocation_that_fails_is_an_error)
{
	for (uint32_t nth = 1; nth <= 5; nth++) {
		struct dev_remote remote;
		struct dev_region *region;
		struct dev_event *event = NULL;
		dev_ptr memory, local;

		setup();
		open_pair(NET_TCP);
		memory = dev_alloc(f.server_port, 64);
		local = dev_alloc(f.client_port, 64);
		split_alloc_fail_at(nth);
		region = dev_region_open(f.server_port, memory, 64, DEV_REGION_READ, &remote);
		if (region == NULL)
			cr_assert_eq(errno, ENOMEM);
		else
			event = dev_read(f.client.qp, local, 64, &remote, 0);
		if (event != NULL)
			cr_assert_eq(run_one(event), nth == 4 ? -ECONNRESET : 0);
		else
			cr_assert_eq(errno, ENOMEM);
		cr_assert_eq(event != NULL, nth > 3);
		split_alloc_fail_at(0);
		fixture_close(&f);
		cr_assert_eq(split_alloc_live_count(), 0);
	}
}
