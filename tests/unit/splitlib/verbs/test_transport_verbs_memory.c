/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_verbs_memory.c -- memory of the RDMA device, and dmabufs
 *
 * On the fake of the libraries, whose device memory is out of the host's reach and copies whole words
 * alone, as real ones do. What a device lacks is told by name.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleave/engine.h"
#include "splitlib/core/alloc.h"
#include "splitlib/verbs/verbs.h"
#include "support/fake_verbs.h"
#include "unit/split_fixture.h"

#define BYTES 65536u

static struct fixture f;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	fake_verbs_reset();
	fake_verbs.max_dm_size = 256 * 1024;
	fake_verbs.has_dmabuf = true;
	(void)setenv("CLEAVE_TEST_VERBS", "verbs://10.0.0.1:0", 1);
}

static void
teardown(void)
{
	cr_assert_eq(fake_verbs.object_count, 0, "the device's objects leak");
}

TestSuite(transport_verbs_memory, .init = setup, .fini = teardown, .timeout = 60);

static void
open_pair(void)
{
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
}

static int
memfd_make(bool is_read_only)
{
	char path[64];
	int fd = memfd_create("dmabuf", MFD_CLOEXEC), other;

	cr_assert_eq(ftruncate(fd, 2 * BYTES), 0);
	if (!is_read_only)
		return fd;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(other, 0);
	close(fd);
	return other;
}

static struct dev_memory *
memory_open(struct split_port *port, enum dev_memory_kind kind, dev_ptr *ret_memory)
{
	struct dev_memory_options options = { .kind = kind, .bytes = BYTES, .dmabuf_fd = -1 };
	struct dev_memory *memory;

	if (kind == DEV_MEMORY_DMABUF) {
		options.dmabuf_fd = memfd_make(false);
		options.dmabuf_offset_bytes = 4096;
	}
	memory = dev_memory_open(port, &options, ret_memory);
	cr_assert_not_null(memory, "%s", split_port_reason(port));
	if (kind == DEV_MEMORY_DMABUF)
		close(options.dmabuf_fd); /* it has its own */
	return memory;
}

static void
check_fails(struct split_port *port, enum dev_memory_kind kind, uint64_t bytes, int err,
    const char *reason)
{
	struct dev_memory_options options = { .kind = kind,
		.bytes = bytes,
		.dmabuf_fd = memfd_make(false) };
	dev_ptr memory;

	cr_assert_null(dev_memory_open(port, &options, &memory));
	cr_assert_eq(errno, err, "%d: %s", errno, split_port_reason(port));
	cr_assert_not_null(strstr(split_port_reason(port), reason), "%s", split_port_reason(port));
	close(options.dmabuf_fd);
}

static void
check_call_fails(enum dev_memory_kind kind, const char *name, int fake_errno, int err,
    const char *reason)
{
	fake_verbs.fail_name = name;
	fake_verbs.fail_nth = 1;
	fake_verbs.fail_errno = fake_errno;
	check_fails(f.client_port, kind, BYTES, err, reason);
}

Test(transport_verbs_memory, what_a_device_lacks_is_told_by_name)
{
	open_pair();
	check_fails(f.client_port, DEV_MEMORY_NIC, 1 << 20, ENOMEM,
	    "fake0 has at most 256 KiB of memory");
	check_call_fails(DEV_MEMORY_NIC, "ibv_alloc_dm", ENOMEM, ENOMEM, "64 KiB of its memory");
	check_call_fails(DEV_MEMORY_NIC, "ibv_alloc_dm", EOPNOTSUPP, ENOTSUP, "fake0");
	check_call_fails(DEV_MEMORY_NIC, "ibv_reg_dm_mr", EOPNOTSUPP, ENOTSUP,
	    "fake0 cannot register its memory");
	check_call_fails(DEV_MEMORY_DMABUF, "ibv_reg_dmabuf_mr", EINVAL, EINVAL,
	    "registering a dmabuf");
	check_call_fails(DEV_MEMORY_NIC, "ibv_query_device", EIO, ENOTSUP, "fake0 has no memory");
	fake_verbs.max_dm_size = 0;
	fake_verbs.has_dmabuf = false;
	check_fails(f.client_port, DEV_MEMORY_NIC, BYTES, ENOTSUP,
	    "RDMA device fake0 has no memory of its own");
	check_fails(f.client_port, DEV_MEMORY_DMABUF, BYTES, ENOTSUP,
	    "RDMA device fake0 cannot register a dmabuf");
	fixture_close(&f);
}

Test(transport_verbs_memory, what_cannot_be_is_refused)
{
	struct dev_memory_options options = { .kind = DEV_MEMORY_DMABUF,
		.bytes = BYTES,
		.dmabuf_fd = -1 };
	struct split_port_options few = { .receive_count = 4 };
	struct split_connect_options connect = { .address = "verbs://10.0.0.1:5" };
	struct split_port *port;
	dev_ptr memory;

	open_pair();
	cr_assert_null(dev_memory_open(f.client_port, &options, &memory));
	cr_assert_eq(errno, EINVAL);
	check_fails(f.client_port, DEV_MEMORY_NIC, 0, EINVAL, "");
	check_fails(f.client_port, DEV_MEMORY_KIND_NR, BYTES, EINVAL, "");
	options.dmabuf_offset_bytes = 5;
	cr_assert_null(dev_memory_open(f.client_port, &options, &memory));
	cr_assert_eq(errno, EINVAL);
	for (uint32_t i = 0; i < SPLIT_MEMORIES_MAX; i++)
		(void)memory_open(f.client_port, DEV_MEMORY_DMABUF, &memory);
	check_fails(f.client_port, DEV_MEMORY_NIC, BYTES, ENOBUFS, "");
	port = fixture_open_port(&f, false, &few);
	check_fails(port, DEV_MEMORY_NIC, BYTES, ENOTCONN, "without an address");
	(void)connect_qp(port, &connect);
	check_fails(port, DEV_MEMORY_NIC, BYTES, ENOTCONN, "not known yet");
	split_port_close(port);
	port = fixture_open_port(&f, false, &few);
	cr_assert_eq(split_listen(port, "tcp://127.0.0.1:0", fixture_on_accept, &f, NULL), 0);
	check_fails(port, DEV_MEMORY_NIC, BYTES, ENOTSUP, "tcp:// has no device");
	split_port_close(port);
	fixture_close(&f);
	dev_memory_close(NULL);
}

Test(transport_verbs_memory, an_allocation_that_fails_is_an_error)
{
	open_pair();
	for (uint32_t nth = 1; nth <= 2; nth++) {
		split_alloc_fail_at(nth);
		check_fails(f.client_port, DEV_MEMORY_NIC, BYTES, ENOMEM, "");
		split_alloc_fail_at(0);
	}
	fixture_close(&f);
	cr_assert_eq(split_alloc_live_count(), 0);
}

/* Any offset and length, though the device copies words. */
Test(transport_verbs_memory, copies_reach_every_byte)
{
	static uint8_t model[BYTES], found[BYTES], part[16384];
	dev_ptr memory;

	open_pair();
	(void)memory_open(f.client_port, DEV_MEMORY_NIC, &memory);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t bytes = 1 + (uint32_t)loop_random_below(f.client_loop, sizeof(part));
		uint32_t at = (uint32_t)loop_random_below(f.client_loop, BYTES - bytes + 1);

		memset(part, (int)i + 1, bytes);
		memcpy(model + at, part, bytes);
		dev_copy_from_host(f.client_port, dev_ptr_add(memory, at), part, bytes);
		dev_copy_to_host(f.client_port, found, dev_ptr_add(memory, at), bytes);
		cr_assert_eq(memcmp(found, model + at, bytes), 0);
	}
	dev_copy_to_host(f.client_port, found, memory, BYTES);
	cr_assert_eq(memcmp(found, model, BYTES), 0);
	/* A device that is going away reads as zeros. */
	fake_verbs.fail_name = "ibv_memcpy_from_dm";
	fake_verbs.fail_nth = 1;
	dev_copy_to_host(f.client_port, found, memory, 64);
	cr_assert_eq(found[0] | found[63], 0);
	fixture_close(&f);
}

static void
pattern_put(struct split_port *port, dev_ptr memory, uint32_t bytes, uint32_t seed)
{
	static uint8_t bounce[WIRE_PAYLOAD_BYTES_MAX];
	dev_ptr from = pattern_alloc(port, bytes, seed);

	dev_copy_to_host(port, bounce, from, bytes);
	dev_copy_from_host(port, memory, bounce, bytes);
	dev_free(port, from);
}

static int
run_one(struct dev_event *event)
{
	struct dev_completion completion;

	cr_assert_not_null(event, "errno %d", errno);
	cr_assert_eq(dev_poll(event, &completion), 0);
	return completion.rc;
}

static void
check_messages(enum dev_memory_kind kind)
{
	struct wire_header *out, *in;
	struct dev_event *receive;
	dev_ptr from, to;

	setup();
	f.is_without_handlers = true;
	fixture_open(&f, NET_VERBS, NULL, NULL);
	(void)fixture_connect(&f, NULL);
	cr_assert_eq(dev_wait_ready(f.client.qp), 0);
	cr_assert_eq(dev_wait_ready(f.server.qp), 0);
	(void)memory_open(f.client_port, kind, &from);
	(void)memory_open(f.server_port, kind, &to);
	pattern_put(f.client_port, from, BYTES, 3);
	out = host_alloc(f.client_port, WIRE_HEADER_BYTES);
	in = host_alloc(f.server_port, WIRE_HEADER_BYTES);
	memset(out, 0, WIRE_HEADER_BYTES);
	out->opcode = WIRE_ECHO;
	receive = dev_mixed_recv(f.server.qp, in, WIRE_HEADER_BYTES, dev_ptr_add(to, 512), 8192);
	cr_assert_eq(run_one(dev_mixed_send(f.client.qp, out, WIRE_HEADER_BYTES,
			 dev_ptr_add(from, 1024), 8000)),
	    0);
	cr_assert_eq(run_one(receive), 0);
	pattern_check(f.server_port, dev_ptr_add(to, 512), 8000, 3, 1024);
	fixture_close(&f);
}

Test(transport_verbs_memory, messages_go_out_of_it_and_into_it)
{
	check_messages(DEV_MEMORY_NIC);
	check_messages(DEV_MEMORY_DMABUF);
}

static void
check_one_sided(enum dev_memory_kind kind)
{
	struct dev_region *region;
	struct dev_remote remote;
	uint8_t published[12];
	dev_ptr here, there;

	setup();
	open_pair();
	(void)memory_open(f.client_port, kind, &here);
	(void)memory_open(f.server_port, kind, &there);
	pattern_put(f.server_port, there, BYTES, 5);
	region = dev_region_open(f.server_port, dev_ptr_add(there, 4096), 8192,
	    DEV_REGION_READ | DEV_REGION_WRITE, &remote);
	cr_assert_not_null(region);
	cr_assert_eq(run_one(dev_read(f.client.qp, here, 4096, &remote, 100)), 0);
	pattern_check(f.client_port, here, 4096, 5, 4196);
	dev_publish(f.server_port, dev_ptr_add(there, 4096 + 104), UINT64_C(0x1122334455667788));
	cr_assert_eq(run_one(dev_read(f.client.qp, here, 4096, &remote, 100)), 0);
	dev_copy_to_host(f.client_port, published, here, sizeof(published));
	cr_assert_eq(num_get_le64(published + 4), UINT64_C(0x1122334455667788));
	pattern_check(f.client_port, dev_ptr_add(here, 12), 4096 - 12, 5, 4208);
	pattern_put(f.client_port, here, 4096, 6);
	cr_assert_eq(run_one(dev_write(f.client.qp, here, 4096, &remote, 4096)), 0);
	pattern_check(f.server_port, dev_ptr_add(there, 8192), 4096, 6, 0);
	pattern_check(f.server_port, dev_ptr_add(there, 12288), 4096, 5, 12288);
	dev_region_close(region);
	cr_assert_eq(run_one(dev_read(f.client.qp, here, 4096, &remote, 0)), -EKEYREVOKED);
	fixture_close(&f);
}

Test(transport_verbs_memory, regions_lie_there_too)
{
	check_one_sided(DEV_MEMORY_NIC);
	check_one_sided(DEV_MEMORY_DMABUF);
}

Test(transport_verbs_memory, pieces_of_it_are_spilled_like_others)
{
	struct dev_piece pieces[8];
	struct test_send send;
	dev_ptr memory;

	fake_verbs.max_sge = 3;
	open_pair();
	(void)memory_open(f.client_port, DEV_MEMORY_NIC, &memory);
	pattern_put(f.client_port, memory, BYTES, 5);
	for (uint32_t i = 0; i < NUM_COUNT(pieces); i++)
		pieces[i] = (struct dev_piece){ dev_ptr_add(memory, i * 1000), i < 1 ? 900 : 9 };
	test_send_init(&send, &f.client, WIRE_ECHO, 1, memory, 0);
	send.send.pieces = pieces;
	send.send.piece_count = NUM_COUNT(pieces);
	cr_assert_eq(split_send(f.client.qp, &send.send), 0);
	fixture_run(&f, server_got, 1);
	cr_assert_eq(f.client_port->counters.spill_bytes, 7 * 9);
	pattern_check(f.server_port, f.server.held[0]->payload, 900, 5, 0);
	pattern_check(f.server_port, dev_ptr_add(f.server.held[0]->payload, 900 + 6 * 9), 9, 5,
	    7000);
	fixture_close(&f);
}

/* A receive that somebody posted beside the pool: the device had no way to know. */
Test(transport_verbs_memory, a_receive_beside_the_pool_is_filled_by_copy)
{
	struct wire_header *in;
	struct dev_event *receive;
	struct test_send send;
	dev_ptr from, to;

	open_pair();
	from = pattern_alloc(f.client_port, 8001, 7);
	(void)memory_open(f.server_port, DEV_MEMORY_NIC, &to);
	in = host_alloc(f.server_port, WIRE_HEADER_BYTES);
	receive = dev_mixed_recv(f.server.qp, in, WIRE_HEADER_BYTES, dev_ptr_add(to, 3), 8192);
	test_send_init(&send, &f.client, WIRE_ECHO, 1, from, 8001);
	cr_assert_eq(split_send(f.client.qp, &send.send), 0);
	cr_assert_eq(run_one(receive), 0);
	pattern_check(f.server_port, dev_ptr_add(to, 3), 8001, 7, 0);
	fixture_close(&f);
}

/* Memory that the host cannot map it does not touch, and says so. */
Test(transport_verbs_memory, engines_do_not_reach_what_the_host_cannot_map)
{
	struct dev_memory_options options = { .kind = DEV_MEMORY_DMABUF, .bytes = BYTES };
	struct dev_memory *nic, *shy, *plain;
	dev_ptr nic_memory, shy_memory, plain_memory;
	static const struct engine_gate_ops unreached = { 0 };

	open_pair();
	f.client_port->options.engines = (struct engine_set *)&f; /* nobody looks */
	f.client_port->options.engine_ops = &unreached;
	nic = memory_open(f.client_port, DEV_MEMORY_NIC, &nic_memory);
	plain = memory_open(f.client_port, DEV_MEMORY_DMABUF, &plain_memory);
	options.dmabuf_fd = memfd_make(true);
	shy = dev_memory_open(f.client_port, &options, &shy_memory);
	cr_assert_not_null(shy, "%s", split_port_reason(f.client_port));
	close(options.dmabuf_fd);
	cr_assert_not(dev_memory_is_mapped(nic));
	cr_assert_not(dev_memory_is_mapped(shy));
	cr_assert(dev_memory_is_mapped(plain));
	cr_assert_null(dev_func(f.client_port, nic_memory, 64, plain_memory, 64, DEV_ENGINE_COPY));
	cr_assert_eq(errno, ENOTSUP);
	cr_assert_null(dev_func(f.client_port, plain_memory, 64, shy_memory, 64, DEV_ENGINE_COPY));
	cr_assert_eq(errno, ENOTSUP);
	dev_memory_close(nic);
	dev_memory_close(shy);
	dev_memory_close(plain);
	fixture_close(&f);
}
