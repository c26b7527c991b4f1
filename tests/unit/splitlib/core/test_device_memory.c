/* SPDX-License-Identifier: Apache-2.0 */
/* test_device_memory.c -- arenas, the pool of receives, counted copies, and the guard round them */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"
#include "splitlib/core/dev_ptr_raw.h"
#include "splitlib/core/device_memory.h"
#include "unit/split_fixture.h"

static struct loop *loop;

static void
setup(void)
{
	loop = loop_ev_create(1);
}

static void
teardown(void)
{
	loop_destroy(loop);
}

TestSuite(device_memory_guarded, .timeout = 60);
TestSuite(device_memory, .init = setup, .fini = teardown, .timeout = 60);

static struct split_port *
open_port(uint64_t host_bytes, uint64_t device_bytes, uint32_t receive_count,
    uint32_t payload_bytes)
{
	struct split_port_options options = { .loop = loop,
		.host_bytes = host_bytes,
		.device_bytes = device_bytes,
		.receive_count = receive_count,
		.receive_payload_bytes = payload_bytes };

	return open_roce_instance(&options);
}

Test(device_memory, alignment)
{
	struct split_port *port = open_port(0, 0, 0, 0);
	static const size_t sizes[] = { 1, 63, 64, 65, 4095, 4096, 4097, 100000 };

	cr_assert_not_null(port);
	for (size_t i = 0; i < NUM_COUNT(sizes); i++) {
		void *host = host_alloc(port, sizes[i]);
		dev_ptr device = dev_alloc(port, sizes[i]);

		cr_assert_not_null(host);
		cr_assert(!dev_ptr_is_null(device));
		cr_assert(num_is_aligned((uintptr_t)host, 64));
		cr_assert(
		    num_is_aligned((uintptr_t)dev_ptr_raw(device), sizes[i] >= 4096 ? 4096 : 64));
	}
	split_port_close(port);
}

Test(device_memory, exhaustion_is_enomem_and_freeing_heals)
{
	struct split_port *port = open_port(65536, 65536, 0, 0);
	void *parts[16];

	cr_assert_not_null(port);
	cr_assert_null(host_alloc(port, 65537));
	cr_assert_eq(errno, ENOMEM);
	for (uint32_t i = 0; i < 16; i++) {
		parts[i] = host_alloc(port, 4096);
		cr_assert_not_null(parts[i]);
	}
	errno = 0;
	cr_assert_null(host_alloc(port, 1));
	cr_assert_eq(errno, ENOMEM);
	/* Freed in an odd order, the pieces join again. */
	for (uint32_t i = 1; i < 16; i += 2)
		host_free(port, parts[i]);
	cr_assert_null(host_alloc(port, 8192));
	for (uint32_t i = 0; i < 16; i += 2)
		host_free(port, parts[i]);
	cr_assert_not_null(host_alloc(port, 65536));
	host_free(port, NULL);
	cr_assert(dev_ptr_is_null(dev_alloc(port, 65537)));
	cr_assert_eq(errno, ENOMEM);
	dev_free(port, DEV_PTR_NULL);
	split_port_close(port);
}

Test(device_memory, allocations_do_not_overlap)
{
	struct split_port *port = open_port(NUM_MIB(1), NUM_MIB(1), 4, 4096);
	dev_ptr pieces[40];
	uint64_t state = 1;

	cr_assert_not_null(port);
	for (uint32_t i = 0; i < NUM_COUNT(pieces); i++)
		pieces[i] = DEV_PTR_NULL;
	for (uint32_t round = 0; round < 2000; round++) {
		uint32_t i = (uint32_t)((state = num_mix_u64(state + round)) % NUM_COUNT(pieces));
		uint32_t bytes = 1 + i * 517;

		if (dev_ptr_is_null(pieces[i])) {
			pieces[i] = dev_alloc(port, bytes);
			cr_assert(!dev_ptr_is_null(pieces[i]));
			guard_enter();
			memset(dev_ptr_raw(pieces[i]), (int)i, bytes);
			guard_leave();
		} else {
			uint8_t found[40 * 517];

			dev_copy_to_host(port, found, pieces[i], bytes);
			for (uint32_t k = 0; k < bytes; k++)
				cr_assert_eq(found[k], (uint8_t)i);
			dev_free(port, pieces[i]);
			pieces[i] = DEV_PTR_NULL;
		}
	}
	split_port_close(port);
}

Test(device_memory, copies_are_counted)
{
	struct split_port *port = open_port(0, 0, 0, 0);
	dev_ptr device = dev_alloc(port, 5000);
	uint8_t in[5000], out[5000] = { 0 };

	memset(in, 0x5a, sizeof(in));
	dev_copy_from_host(port, device, in, sizeof(in));
	dev_copy_to_host(port, out, dev_ptr_add(device, 1000), 4000);
	cr_assert_arr_eq(out, in, 4000);
	cr_assert_eq(split_port_counters(port)->copied_from_host_bytes, 5000);
	cr_assert_eq(split_port_counters(port)->copied_to_host_bytes, 4000);
	split_port_close(port);
}

Test(device_memory, pool_that_does_not_fit_is_einval)
{
	cr_assert_null(open_port(0, NUM_MIB(1), 64, 65536));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(open_port(4096, NUM_MIB(64), 65, 4096));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(open_port(0, 0, 4, WIRE_PAYLOAD_BYTES_MAX + 1));
	cr_assert_eq(errno, EINVAL);
	cr_assert_null(open_port(0, NUM_GIB(2000), 0, 0));
	cr_assert_eq(errno, EINVAL);
	errno = 0;
	cr_assert_null(open_roce_instance(&(struct split_port_options){ .receive_count = 4 }));
	cr_assert_eq(errno, EINVAL); /* no loop */
}

Test(device_memory, pool_buffers_are_staggered_and_the_hottest_is_first)
{
	struct split_port *port = open_port(0, 0, 16, 4096);
	struct split_receive *a, *b;

	cr_assert_not_null(port);
	cr_assert_eq(split_port_receives_free(port), 16);
	a = receive_pool_pop(&port->pool);
	b = receive_pool_pop(&port->pool);
	cr_assert_eq((uintptr_t)dev_ptr_raw(b->payload) - (uintptr_t)dev_ptr_raw(a->payload), 8192);
	cr_assert(num_is_aligned((uintptr_t)dev_ptr_raw(a->payload), 4096));
	cr_assert_eq((uint8_t *)b->header - (uint8_t *)a->header, WIRE_HEADER_BYTES);
	cr_assert_eq(split_port_receives_free(port), 14);
	receive_pool_push(&port->pool, b);
	receive_pool_push(&port->pool, a);
	cr_assert_eq(receive_pool_pop(&port->pool), a);
	receive_pool_push(&port->pool, a);
	split_port_close(port);
}

static bool
client_answered(struct fixture *f, uint64_t wanted)
{
	return f->client.message_count >= wanted;
}

/* Every access of the library's own is a guarded one, or this dies. */
BOTH(device_memory_guarded, messages_pass_while_the_guard_is_shut)
{
	static struct fixture f;
	static struct test_send sends[64];
	dev_ptr payload;

	cr_assert_eq(setenv("CLEAVE_GUARD", "mprotect", 1), 0);
	if (guard_init() == GUARD_OFF)
		cr_skip_test("the guard is off: %s", guard_mode_text());
	memset(&f, 0, sizeof(f));
	fixture_open(&f, kind, NULL, NULL);
	f.server.mode = SIDE_ANSWER;
	fixture_connect_both(&f);
	payload = pattern_alloc(f.client_port, 65536, 1);
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, (i * 977u) % 20000u);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_run(&f, client_answered, NUM_COUNT(sends));
	for (uint32_t i = 0; i < NUM_COUNT(sends); i++) {
		pattern_check(f.client_port, f.client.held[i]->payload,
		    f.client.held[i]->payload_bytes, 1, 0);
		split_msg_release(f.client.held[i]);
	}
	fixture_close(&f);
}

/* A child reads or writes device memory without the guard. Returns whether that killed it. */
static bool
touching_kills(enum guard_mode *ret_mode)
{
	int status = 0, fds[2];
	pid_t child;
	uint8_t mode = 0;

	cr_assert_eq(pipe(fds), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		struct split_port *port;

		(void)signal(SIGSEGV, SIG_DFL);
		mode = (uint8_t)guard_init();
		(void)!write(fds[1], &mode, 1);
		port = open_port(0, NUM_MIB(1), 0, 0);
		*(volatile uint8_t *)dev_ptr_raw(dev_alloc(port, 4096)) = 1;
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(read(fds[0], &mode, 1), 1);
	(void)close(fds[0]);
	(void)close(fds[1]);
	*ret_mode = (enum guard_mode)mode;
	/* AddressSanitizer turns the signal into an exit. */
	return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ||
	    (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

Test(device_memory, host_code_that_touches_device_memory_dies)
{
	enum guard_mode mode;
	bool is_killed;

	cr_assert_eq(setenv("CLEAVE_GUARD", "mprotect", 1), 0);
	is_killed = touching_kills(&mode);
	if (mode == GUARD_OFF)
		cr_skip_test("the guard is off: %s", guard_mode_text());
	cr_assert(is_killed);
}

static uint64_t
huge_pages_free(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	unsigned long long count = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%llu", &count) != 1)
		count = 0;
	(void)fclose(file);
	return count;
}

static struct split_port *
open_with_pages(uint64_t device_bytes, bool wants_huge_pages)
{
	struct split_port_options options = { .loop = loop_ev_create(1),
		.device_bytes = device_bytes,
		.receive_count = 4,
		.wants_huge_pages = wants_huge_pages };
	struct split_port *port = open_roce_instance(&options);

	cr_assert_not_null(port, "errno %d", errno);
	return port;
}

static void
check_pages(struct split_port *port, const char *text)
{
	struct loop *own = port->loop;
	uint8_t out[100] = { 7 }, in[100] = { 0 };
	dev_ptr memory = dev_alloc(port, sizeof(out));

	cr_assert_not_null(strstr(split_port_pages_text(port), text), "%s",
	    split_port_pages_text(port));
	dev_copy_from_host(port, memory, out, sizeof(out));
	dev_copy_to_host(port, in, memory, sizeof(in));
	cr_assert_eq(in[0], 7);
	split_port_close(port);
	loop_destroy(own);
}

/* CI has this twice: on a system without reserved pages, and in a guest with some. */
Test(device_memory_guarded, huge_pages_are_used_where_there_are_enough)
{
	bool has_some = huge_pages_free() >= 4;

	check_pages(open_with_pages(NUM_MIB(5), false), "where the kernel has them");
	check_pages(open_with_pages(NUM_MIB(5), true),
	    has_some ? "reserved 2 MiB pages" : "vm.nr_hugepages");
	/* More than anybody has: small ones serve. */
	check_pages(open_with_pages(NUM_GIB(512), true), "vm.nr_hugepages");
	if (has_some)
		cr_assert_geq(huge_pages_free(), 4); /* given back */
}
