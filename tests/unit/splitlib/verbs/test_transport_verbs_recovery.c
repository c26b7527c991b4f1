/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_verbs_recovery.c -- a port loses its RDMA device, and serves again with the next
 *
 * On the fake of the libraries: the device is removed, breaks, or loses the port's address. Whatever
 * the loss, connections end once, every receive and send comes back, nothing of the old device is
 * left, and the same listener serves at the same address as soon as there is a device with it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "splitlib/core/connect.h"
#include "splitlib/verbs/verbs.h"
#include "unit/verbs_fixture.h"

#define SENDS_MAX 64u
#define MEMORY_BYTES 8192u

static struct fixture f;
static struct test_send sends[SENDS_MAX];
static struct told {
	uint32_t lost_count, found_count;
	char lost[SPLIT_REASON_BYTES_MAX], found[SPLIT_REASON_BYTES_MAX];
} told; /* of the server's port */

static void
on_device(bool is_there, const char *text, void *arg)
{
	struct told *self = arg;

	*(is_there ? &self->found_count : &self->lost_count) += 1;
	(void)snprintf(is_there ? self->found : self->lost, SPLIT_REASON_BYTES_MAX, "%s", text);
}

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	memset(&told, 0, sizeof(told));
	verbs_fixture_begin();
}

static void
teardown(void)
{
	verbs_fixture_end();
}

TestSuite(transport_verbs_recovery, .init = setup, .fini = teardown, .timeout = 100);

static void
open_ports(void)
{
	struct split_port_options options = { .receive_count = 256,
		.device_bytes = NUM_MIB(32),
		.on_device = on_device,
		.on_device_arg = &told };

	fixture_open(&f, NET_VERBS, &options, NULL);
}

static void
open_pair(void)
{
	open_ports();
	fixture_connect_both(&f);
}

static enum verbs_device_state
device_state(const struct split_port *port)
{
	return (enum verbs_device_state)port->verbs->device.state;
}

static bool
server_device_is(struct fixture *fixture, uint64_t wanted)
{
	return device_state(fixture->server_port) == (enum verbs_device_state)wanted;
}

/* The server's port listens no more, the client's port is as it began. */
static bool
nobody_has_a_device(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return server_device_is(fixture, VERBS_DEVICE_AWAITED) &&
	    device_state(fixture->client_port) == VERBS_DEVICE_NONE;
}

static bool
found(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return told.found_count >= wanted;
}

static bool
told_lost(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return told.lost_count >= wanted;
}

static bool
both_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client.closed_count > 0 && fixture->server.closed_count > 0;
}

static void
send_many(uint32_t count)
{
	dev_ptr payload = pattern_alloc(f.client_port, 4096, 1);

	for (uint32_t i = 0; i < count; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, 4096);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
}

/* A new connection to the same address; @count requests and their answers. */
static void
check_it_serves(uint32_t count)
{
	struct side empty = { .mode = SIDE_HOLD };

	f.client = f.server = empty;
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	fixture_connect_both(&f);
	send_many(count);
	fixture_run(&f, client_got, count);
	fixture_idle(&f);
	cr_assert_eq(f.client.sent_count, count);
	cr_assert_eq(split_port_receives_free(f.client_port), 256);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
}

Test(transport_verbs_recovery, a_device_that_comes_back_is_listened_at_again)
{
	uint32_t object_count;

	open_pair();
	send_many(16);
	fixture_run(&f, server_got, 16); /* the handler keeps them, across the loss */
	fixture_idle(&f);
	object_count = fake_verbs.object_count;
	fake_verbs_remove();
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET);
	cr_assert_not_null(strstr(f.client.reason, "device is gone"), "%s", f.client.reason);
	fixture_run(&f, nobody_has_a_device, 0);
	cr_assert_eq(told.lost_count, 1);
	cr_assert_not_null(strstr(told.lost, "RDMA device fake0"), "%s", told.lost);
	cr_assert_eq(fake_verbs.object_count, 2, "more than two event channels is left");
	cr_assert(fake_verbs_is_let_go(0), "the device cannot be removed");
	cr_assert_eq(f.server_port->counters.devices_lost, 1);
	pattern_check(f.server_port, f.server.held[7]->payload, 4096, 1, 0);
	for (uint32_t i = 0; i < f.server.held_count; i++)
		split_msg_release(f.server.held[i]);
	fake_verbs_return();
	fixture_run(&f, found, 1);
	cr_assert_not_null(strstr(told.found, f.address), "%s", told.found);
	check_it_serves(SENDS_MAX);
	cr_assert_eq(fake_verbs.object_count, object_count, "not all is as it was");
	cr_assert_eq(told.lost_count + told.found_count, 2);
	fixture_close(&f);
}

Test(transport_verbs_recovery, devices_may_come_and_go)
{
	open_ports();
	for (uint32_t i = 1; i < FAKE_CONTEXTS; i++) {
		check_it_serves(8);
		fake_verbs_remove();
		fixture_run(&f, nobody_has_a_device, 0);
		fake_verbs_return();
		fixture_run(&f, found, i);
	}
	check_it_serves(8);
	cr_assert_eq(told.lost_count, FAKE_CONTEXTS - 1);
	fixture_close(&f);
}

/* A device that is no more gives nothing back: its queue pairs are destroyed under it. */
Test(transport_verbs_recovery, sends_in_a_lost_devices_hands_come_back_once)
{
	open_pair();
	fake_verbs.is_deaf = true;
	send_many(20);
	fixture_idle(&f);
	cr_assert_eq(f.client.sent_count, 0);
	fake_verbs_remove();
	fixture_run(&f, both_closed, 0);
	fixture_run(&f, nobody_has_a_device, 0);
	cr_assert_eq(f.client.failed_count, 20);
	cr_assert_eq(f.client.sent_after_close_count, 0);
	fake_verbs.is_deaf = false;
	fake_verbs_return();
	fixture_run(&f, found, 1);
	check_it_serves(8);
	fixture_close(&f);
}

Test(transport_verbs_recovery, who_connects_meanwhile_is_told_that_the_device_is_gone)
{
	open_pair();
	fake_verbs.is_deaf = fake_verbs.is_stuck = true;
	send_many(4);
	fixture_idle(&f);
	fake_verbs_remove();
	fixture_run(&f, told_lost, 1);
	cr_assert_eq(device_state(f.client_port), VERBS_DEVICE_LEAVING);
	f.client.closed_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNREFUSED);
	cr_assert_not_null(strstr(f.client.reason, "fake0 is gone"), "%s", f.client.reason);
	fixture_run(&f, nobody_has_a_device, 0);
	f.client.closed_count = 0;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ENODEV);
	fake_verbs.is_deaf = fake_verbs.is_stuck = false;
	fake_verbs_return();
	fixture_run(&f, found, 1);
	check_it_serves(4);
	fixture_close(&f);
}

Test(transport_verbs_recovery, a_connection_that_finds_the_device_opens_it_for_listeners)
{
	struct split_connect_options options = { .address = "verbs://10.0.0.7:9",
		.ops = &side_ops };
	struct split_qp *qp;

	open_pair();
	fake_verbs_remove();
	fixture_run(&f, nobody_has_a_device, 0);
	loop_timer_stop(f.server_loop, &f.server_port->verbs->device_timer);
	fake_verbs_return();
	options.arg = &f.client;
	qp = connect_qp(f.server_port, &options);
	cr_assert_not_null(qp);
	fixture_run(&f, found, 1);
	fixture_run(&f, server_device_is, VERBS_DEVICE_OPEN);
	check_it_serves(8);
	fixture_close(&f);
}

Test(transport_verbs_recovery, what_fails_while_listening_again_is_tried_again)
{
	static const char *const names[] = { "rdma_create_id", "rdma_bind_addr", "rdma_listen",
		"ibv_query_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_comp_channel",
		"ibv_create_cq", "ibv_create_srq", "ibv_post_srq_recv", "ibv_req_notify_cq",
		"ibv_poll_cq" };

	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		setup();
		open_pair();
		fake_verbs_remove();
		fixture_run(&f, nobody_has_a_device, 0);
		fake_verbs_return();
		fake_verbs.fail_name = names[i];
		fake_verbs.fail_nth = 1;
		fixture_run(&f, found, 1);
		fixture_run(&f, server_device_is, VERBS_DEVICE_OPEN);
		fixture_idle(&f);
		cr_assert_eq(fake_verbs.fail_count, 1, "%s is not called", names[i]);
		fixture_run(&f, server_device_is, VERBS_DEVICE_OPEN);
		cr_assert_geq(told.lost_count, 2, "%s: nobody was told", names[i]);
		check_it_serves(8);
		fixture_close(&f);
		teardown();
	}
}

/* The device is there, and of no use. */
Test(transport_verbs_recovery, a_device_that_breaks_is_opened_anew)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR,
		IBV_EVENT_SRQ_ERR };

	for (size_t i = 0; i < NUM_COUNT(types); i++) {
		setup();
		open_pair();
		fake_verbs_async_event(types[i], 0);
		fixture_run(&f, both_closed, 0);
		fixture_idle(&f); /* the event is of one port's: the other sees its peer go */
		if (told.lost_count > 0)
			fixture_run(&f, found, 1);
		fixture_run(&f, server_device_is, VERBS_DEVICE_OPEN);
		check_it_serves(8);
		fixture_close(&f);
		teardown();
	}
}

Test(transport_verbs_recovery, an_address_that_leaves_the_device_is_followed)
{
	open_pair();
	/* Another address came or went. */
	fake_verbs_async_event(IBV_EVENT_GID_CHANGE, 0);
	fake_verbs_async_event(IBV_EVENT_GID_CHANGE, 0);
	fixture_idle(&f);
	cr_assert_eq(f.client.closed_count + f.server.closed_count + told.lost_count, 0);
	fake_verbs.is_address_elsewhere = true;
	verbs_address_check(f.server_port->verbs);
	cr_assert_not(fake_verbs_is_let_go(0));
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.server.closed_rc, -ECONNRESET);
	cr_assert_not_null(strstr(f.server.reason, "verbs://10.0.0.1:0 has left it"), "%s",
	    f.server.reason);
	fixture_run(&f, told_lost, 1);
	fake_verbs.is_address_elsewhere = false;
	fixture_run(&f, found, 1);
	check_it_serves(8);
	fixture_close(&f);
}

/* Two ports of a device share its events: the one that saw none finds out when it connects. */
Test(transport_verbs_recovery, a_connection_that_leads_elsewhere_shows_that_the_address_is_there)
{
	struct split_connect_options options = { .address = "verbs://10.0.0.7:9",
		.ops = &side_ops };

	open_ports();
	options.arg = &f.client;
	fake_verbs.is_address_elsewhere = true;
	fake_verbs.fail_name = "route to the port's device";
	fake_verbs.fail_nth = 1;
	f.client.qp = connect_qp(f.server_port, &options);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EXDEV);
	fixture_run(&f, told_lost, 1);
	fake_verbs.is_address_elsewhere = false;
	fixture_run(&f, found, 1);
	check_it_serves(8);
	fixture_close(&f);
}

/* Nothing of ours is on the device any more, but its removal would wait for us. */
Test(transport_verbs_recovery, a_device_that_the_address_has_left_may_be_removed)
{
	open_ports();
	fake_verbs.is_address_elsewhere = true;
	verbs_address_check(f.server_port->verbs);
	fixture_run(&f, server_device_is, VERBS_DEVICE_AWAITED);
	cr_assert_not(fake_verbs_is_let_go(0));
	fake_verbs_remove();
	fixture_idle(&f);
	cr_assert(fake_verbs_is_let_go(0));
	fake_verbs.is_address_elsewhere = false;
	fake_verbs_return();
	fixture_run(&f, found, 1);
	check_it_serves(8);
	fixture_close(&f);
}

Test(transport_verbs_recovery, a_change_of_the_listeners_address_is_followed)
{
	open_ports();
	fake_verbs_cm_event(0, RDMA_CM_EVENT_ADDR_CHANGE);
	fixture_run(&f, told_lost, 1);
	cr_assert_not_null(strstr(told.lost, "address has changed"), "%s", told.lost);
	fixture_run(&f, found, 1);
	check_it_serves(8);
	fixture_close(&f);
}

Test(transport_verbs_recovery, a_port_may_close_at_any_point_of_it)
{
	static const enum verbs_device_state states[] = { VERBS_DEVICE_LEAVING,
		VERBS_DEVICE_AWAITED };

	for (size_t i = 0; i < NUM_COUNT(states); i++) {
		setup();
		open_pair();
		fake_verbs.is_deaf = fake_verbs.is_stuck = true;
		send_many(4);
		fixture_idle(&f);
		fake_verbs_remove();
		fixture_run(&f, server_device_is, states[i]);
		fixture_close(&f);
		cr_assert_eq(f.client.failed_count, 4);
		teardown();
	}
}

Test(transport_verbs_recovery, who_listens_no_more_waits_for_no_device)
{
	open_pair();
	fake_verbs_remove();
	fixture_run(&f, nobody_has_a_device, 0);
	connect_unlisten(
	    LIST_ENTRY(list_first(&f.server_port->listeners), struct split_listener, link));
	fixture_run(&f, server_device_is, VERBS_DEVICE_NONE);
	cr_assert_not(f.server_port->verbs->device_timer.is_active);
	fixture_close(&f);
}

static struct dev_memory *
memory_open(enum dev_memory_kind kind, dev_ptr *ret_memory)
{
	struct dev_memory_options options = { .kind = kind, .bytes = MEMORY_BYTES };
	struct dev_memory *memory;

	options.dmabuf_fd = memfd_create("dmabuf", MFD_CLOEXEC);
	cr_assert_eq(ftruncate(options.dmabuf_fd, MEMORY_BYTES), 0);
	memory = dev_memory_open(f.client_port, &options, ret_memory);
	cr_assert_not_null(memory, "%s", split_port_reason(f.client_port));
	close(options.dmabuf_fd); /* it has its own */
	return memory;
}

static void
send_from(dev_ptr payload)
{
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 1, payload, 4096);
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
}

/* Regions and the device's own memory go with it; a dmabuf is there again. */
Test(transport_verbs_recovery, what_was_the_devices_is_gone_and_what_was_not_stays)
{
	struct dev_remote remote;
	struct dev_region *region;
	dev_ptr nic, dmabuf;
	uint64_t word = 1;

	fake_verbs.max_dm_size = MEMORY_BYTES;
	fake_verbs.has_dmabuf = true;
	open_pair();
	(void)memory_open(DEV_MEMORY_NIC, &nic);
	(void)memory_open(DEV_MEMORY_DMABUF, &dmabuf);
	region = dev_region_open(f.client_port, dmabuf, 4096, DEV_REGION_READ, &remote);
	cr_assert_not_null(region);
	fake_verbs_remove();
	fixture_run(&f, nobody_has_a_device, 0);
	dev_copy_from_host(f.client_port, nic, &word, sizeof(word));
	dev_copy_to_host(f.client_port, &word, nic, sizeof(word));
	cr_assert_eq(word, 0); /* there is nothing to copy from */
	fake_verbs_return();
	fixture_run(&f, found, 1);
	check_it_serves(8);
	send_from(dmabuf);
	fixture_run(&f, client_got, 9);
	dev_region_close(region);
	region = dev_region_open(f.client_port, dmabuf, 4096, DEV_REGION_READ, &remote);
	cr_assert_not_null(region);
	cr_assert_null(dev_region_open(f.client_port, nic, 4096, DEV_REGION_READ, &remote));
	cr_assert_eq(errno, ENODEV);
	send_from(nic);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EINVAL);
	fixture_close(&f);
}

Test(transport_verbs_recovery, a_read_into_memory_that_went_with_its_device_is_an_error)
{
	struct dev_remote remote;
	struct dev_region *region;
	dev_ptr nic;

	fake_verbs.max_dm_size = MEMORY_BYTES;
	open_pair();
	(void)memory_open(DEV_MEMORY_NIC, &nic);
	fake_verbs_remove();
	fixture_run(&f, nobody_has_a_device, 0);
	fake_verbs_return();
	fixture_run(&f, found, 1);
	check_it_serves(8);
	region = dev_region_open(f.server_port, dev_alloc(f.server_port, 4096), 4096,
	    DEV_REGION_READ, &remote);
	cr_assert_not_null(region, "%s", split_port_reason(f.server_port));
	cr_assert_not_null(dev_read(f.client.qp, nic, 4096, &remote, 0));
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EINVAL);
	cr_assert_not_null(strstr(f.client.reason, "gone"), "%s", f.client.reason);
	fixture_close(&f);
}
