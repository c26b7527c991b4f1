/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_device.c -- what only a device can do: errors, silence, removal, on a kernel's RDMA stack
 *
 * Needs CLEAVE_TEST_VERBS=verbs://HOST:0 in the environment, the address of a device; without it all is
 * skipped (test_transport_verbs.c has the same on a fake). Some need more, and take it away:
 *
 *	CLEAVE_TEST_VERBS_OTHER   an address of another device, that reaches the first over a network
 *	CLEAVE_TEST_VERBS_CUT     a command that cuts the two off from each other
 *	CLEAVE_TEST_VERBS_MOVE    a command that moves the address of CLEAVE_TEST_VERBS to another device
 *	CLEAVE_TEST_VERBS_NARROW  a command that makes the path between the two too narrow for long
 *	                          packets; CLEAVE_TEST_VERBS_WIDEN the reverse
 *	CLEAVE_TEST_VERBS_NOWHERE an address of this host, host:port, that no RDMA device has
 *	CLEAVE_TEST_VERBS_REMOVE  a command that removes the device of CLEAVE_TEST_VERBS, and waits for
 *	                          nothing
 *	CLEAVE_TEST_VERBS_RETURN  a command that brings it back once it is gone, and waits for nothing
 */
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "splitlib/core/alloc.h"
#include "splitlib/core/connect.h"
#include "splitlib/verbs/verbs.h"
#include "unit/split_fixture.h"

#define SENDS 32u

static struct fixture f;
static struct test_send sends[SENDS];

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
}

TestSuite(verbs_device, .init = setup, .timeout = 100);

/* The variable's value; skips the test where there is none. */
static const char *
needed(const char *name)
{
	const char *value = getenv(name);

	if (value == NULL)
		cr_skip_test("%s is not set", name);
	return value;
}

static void
shell_run(const char *command)
{
	char text[256];
	char *const arguments[] = { (char *)"sh", (char *)"-c", text, NULL };
	int status;
	pid_t pid;

	cr_assert_lt(snprintf(text, sizeof(text), "%s", command), (int)sizeof(text));
	cr_assert_eq(posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static bool
both_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client.closed_count > 0 && fixture->server.closed_count > 0;
}

static void
force_into_error(struct ibv_qp *ibv)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	cr_assert_eq(ibv_modify_qp(ibv, &attr, IBV_QP_STATE), 0);
}

static void
send_many(void)
{
	dev_ptr payload = pattern_alloc(f.client_port, 4096, 1);

	for (uint32_t i = 0; i < SENDS; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, payload, 4096);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
}

static void
check_all_is_back(void)
{
	for (uint32_t i = 0; i < f.server.held_count; i++)
		split_msg_release(f.server.held[i]);
	f.server.held_count = 0;
	fixture_idle(&f);
	cr_assert_eq(f.client.sent_count + f.client.failed_count, SENDS);
	cr_assert_eq(f.client.sent_after_close_count, 0);
	cr_assert_eq(split_port_receives_free(f.client_port), 256);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
}

Test(verbs_device, a_queue_pair_in_error_gives_everything_back_once)
{
	struct verbs_qp *vq;

	(void)needed("CLEAVE_TEST_VERBS");
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	vq = f.client.qp->transport;
	force_into_error(vq->data.ibv);
	send_many();
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.failed_count, SENDS);
	check_all_is_back();
	fixture_close(&f);
	cr_assert_eq(split_alloc_live_count(), 0);
}

Test(verbs_device, the_peers_queue_pair_in_error_gives_everything_back_once)
{
	struct verbs_qp *vq;

	(void)needed("CLEAVE_TEST_VERBS");
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	send_many();
	fixture_run(&f, server_got, 1);
	vq = f.server.qp->transport;
	force_into_error(vq->control.ibv);
	force_into_error(vq->data.ibv);
	fixture_run(&f, both_closed, 0);
	check_all_is_back();
	fixture_close(&f);
}

Test(verbs_device, what_the_device_lacks_is_told_by_name)
{
	struct dev_memory_options options = { .kind = DEV_MEMORY_NIC, .bytes = 4096 };
	struct dev_memory *memory;
	dev_ptr at;

	(void)needed("CLEAVE_TEST_VERBS");
	fixture_open(&f, NET_VERBS, NULL, NULL);
	for (uint32_t kind = 0; kind < DEV_MEMORY_KIND_NR; kind++) {
		options.kind = (enum dev_memory_kind)kind;
		options.dmabuf_fd = memfd_create("no dmabuf", MFD_CLOEXEC);
		cr_assert_eq(ftruncate(options.dmabuf_fd, 4096), 0);
		memory = dev_memory_open(f.server_port, &options, &at);
		if (memory == NULL) {
			(void)fprintf(stderr, "%s\n", split_port_reason(f.server_port));
			cr_assert_not_null(strstr(split_port_reason(f.server_port), "RDMA device"));
		}
		dev_memory_close(memory);
		close(options.dmabuf_fd);
	}
	fixture_close(&f);
}

/* No FIN comes: the machine is gone, or the cable. */
Test(verbs_device, a_peer_that_falls_silent_is_found)
{
	struct split_port_options options = { .receive_count = 256,
		.device_bytes = NUM_MIB(32),
		.keepalive_ns = NUM_S(2) };
	const char *cut = needed("CLEAVE_TEST_VERBS_CUT");

	fixture_open(&f, NET_VERBS, &options, &options);
	/* The client's device. */
	cr_assert_eq(split_listen(f.client_port, needed("CLEAVE_TEST_VERBS_OTHER"),
			 fixture_on_accept, &f, NULL),
	    0);
	fixture_connect_both(&f);
	send_many();
	fixture_run(&f, server_got, SENDS);
	fixture_idle(&f);
	cr_assert_eq(f.client.closed_count + f.server.closed_count, 0);
	shell_run(cut);
	fixture_run(&f, client_closed, 0);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT, "%s", f.client.reason);
	cr_assert_eq(f.server.closed_rc, -ETIMEDOUT, "%s", f.server.reason);
	fixture_close(&f);
}

Test(verbs_device, a_device_that_goes_away_ends_its_queue_pairs)
{
	const char *removal = needed("CLEAVE_TEST_VERBS_REMOVE");

	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	send_many();
	fixture_run(&f, server_got, 1);
	shell_run(removal);
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ECONNRESET, "%s", f.client.reason);
	check_all_is_back();
	fixture_close(&f);
}

/* The pair connects and messages go, whatever the test before has left. */
static void
check_it_serves(void)
{
	memset(&f.client, 0, sizeof(f.client));
	memset(&f.server, 0, sizeof(f.server));
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	fixture_connect_both(&f);
	send_many();
	fixture_run(&f, client_got, SENDS);
}

static bool
server_listens_again(struct fixture *fixture, uint64_t wanted)
{
	const struct split_listener *listener =
	    LIST_ENTRY(list_first(&fixture->server_port->listeners), struct split_listener, link);

	(void)wanted;
	return fixture->server_port->counters.devices_lost > 0 &&
	    ((const struct verbs_listener *)listener->transport)->id != NULL;
}

Test(verbs_device, a_device_that_comes_back_serves_again)
{
	const char *removal = needed("CLEAVE_TEST_VERBS_REMOVE");
	const char *comeback = needed("CLEAVE_TEST_VERBS_RETURN");

	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	send_many();
	fixture_run(&f, server_got, SENDS);
	shell_run(removal);
	fixture_run(&f, both_closed, 0);
	check_all_is_back();
	shell_run(comeback);
	cr_assert(fixture_run_for(&f, server_listens_again, 0, NUM_S(60)));
	check_it_serves();
	fixture_close(&f);
	cr_assert_eq(split_alloc_live_count(), 0);
}

static bool
client_has_left(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client_port->verbs->device.state == VERBS_DEVICE_NONE;
}

/* The listener is bound to a device that has its address no more: it goes where the address went. */
Test(verbs_device, an_address_that_moves_to_another_device_is_followed)
{
	const char *move = needed("CLEAVE_TEST_VERBS_MOVE");
	char device_name[64];

	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	send_many();
	fixture_run(&f, server_got, SENDS);
	(void)snprintf(device_name, sizeof(device_name), "%s", f.server_port->verbs->device_name);
	shell_run(move);
	fixture_run(&f, both_closed, 0);
	cr_assert_not_null(strstr(f.server.reason, "address has changed"), "%s", f.server.reason);
	check_all_is_back();
	cr_assert(fixture_run_for(&f, server_listens_again, 0, NUM_S(60)));
	cr_assert_neq(strcmp(device_name, f.server_port->verbs->device_name), 0);
	/* Events are one port's of the two here: the other may find out when it connects. */
	if (f.client_port->counters.devices_lost == 0) {
		f.client.closed_count = 0;
		(void)fixture_connect(&f, &side_ops);
		fixture_run(&f, client_closed, 0);
	}
	cr_assert_eq(f.client_port->counters.devices_lost, 1);
	fixture_run(&f, client_has_left, 0);
	check_it_serves();
	fixture_close(&f);
}

Test(verbs_device, a_path_too_narrow_for_the_mtu_is_told)
{
	struct split_port_options options = { .receive_count = 256,
		.device_bytes = NUM_MIB(32),
		.keepalive_ns = NUM_S(2) };
	const char *narrow = needed("CLEAVE_TEST_VERBS_NARROW");
	const char *widen = needed("CLEAVE_TEST_VERBS_WIDEN");

	fixture_open(&f, NET_VERBS, &options, &options);
	cr_assert_eq(split_listen(f.client_port, needed("CLEAVE_TEST_VERBS_OTHER"),
			 fixture_on_accept, &f, NULL),
	    0);
	fixture_connect_both(&f);
	shell_run(narrow);
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 0, DEV_PTR_NULL, 0);
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
	fixture_run(&f, server_got, 1); /* short ones go through */
	f.client.sent_count = 0;
	send_many();
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.closed_rc, -ETIMEDOUT, "%s", f.client.reason);
	cr_assert_not_null(strstr(f.client.reason, "MTU"), "%s", f.client.reason);
	check_all_is_back();
	shell_run(widen);
	check_it_serves();
	fixture_close(&f);
}

/* An address without a GID: it is named, and so is the device that was asked. */
Test(verbs_device, an_address_that_no_device_has_is_named)
{
	struct split_connect_options options = { .ops = &side_ops, .arg = &f.client };
	const char *nowhere = needed("CLEAVE_TEST_VERBS_NOWHERE");
	char address[SPLIT_ADDRESS_BYTES_MAX];

	(void)snprintf(address, sizeof(address), "verbs://%s", nowhere);
	fixture_open(&f, NET_VERBS, NULL, NULL);
	cr_assert_eq(split_listen(f.client_port, address, fixture_on_accept, &f, NULL), -ENODEV);
	cr_assert_not_null(strstr(split_port_reason(f.client_port), nowhere), "%s",
	    split_port_reason(f.client_port));
	options.address = address;
	f.client.qp = connect_qp(f.client_port, &options);
	fixture_run(&f, client_closed, 0);
	(void)fprintf(stderr, "%s\n", f.client.reason);
	cr_assert_eq(f.client.closed_rc, -ECONNREFUSED);
	cr_assert_not_null(strstr(f.client.reason, nowhere), "%s", f.client.reason);
	/* From an address of its own. */
	f.client.closed_count = 0;
	f.client.qp = connect_qp(f.server_port, &options);
	fixture_run(&f, client_closed, 0);
	(void)fprintf(stderr, "%s\n", f.client.reason);
	cr_assert_not_null(strstr(f.client.reason, nowhere), "%s", f.client.reason);
	cr_assert_not_null(strstr(f.client.reason, f.server_port->verbs->device_name), "%s",
	    f.client.reason);
	fixture_close(&f);
}
