/* SPDX-License-Identifier: Apache-2.0 */
/* test_transport_unix.c -- what is of unix sockets alone; test_qp.c and others run over them, too */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/split_fixture.h"

static struct fixture f;
static char path[64], address[SPLIT_ADDRESS_BYTES_MAX];

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	cr_assert_eq(setenv("CLEAVE_TEST_UNIX", "1", 1), 0);
	(void)snprintf(path, sizeof(path), "/tmp/cleave-test-unix-%d", (int)getpid());
	(void)snprintf(address, sizeof(address), "unix://%s", path);
}

static void
teardown(void)
{
	(void)unlink(path);
}

TestSuite(transport_unix, .init = setup, .fini = teardown, .timeout = 100);

static int
listen_at(const char *at)
{
	return split_listen(f.server_port, at, fixture_on_accept, &f, NULL);
}

/* A socket that nobody listens at, as a killed process leaves it. */
static void
leave_socket(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(close(fd), 0);
}

Test(transport_unix, the_file_is_for_owner_and_group_and_goes_with_its_port)
{
	struct stat status;

	fixture_open(&f, NET_TCP, NULL, NULL);
	cr_assert_eq(listen_at(address), 0);
	cr_assert_eq(lstat(path, &status), 0);
	cr_assert(S_ISSOCK(status.st_mode));
	cr_assert_eq(status.st_mode & 0777, 0660);
	fixture_close(&f);
	cr_assert_neq(lstat(path, &status), 0);
	cr_assert_eq(errno, ENOENT);
}

Test(transport_unix, what_a_dead_process_left_gives_way)
{
	fixture_open(&f, NET_TCP, NULL, NULL);
	leave_socket();
	cr_assert_eq(listen_at(address), 0);
	(void)snprintf(f.address, sizeof(f.address), "%s", address);
	fixture_connect_both(&f);
	cr_assert_eq(listen_at(address), -EADDRINUSE);
	fixture_close(&f);
}

Test(transport_unix, a_file_of_others_stays)
{
	int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(close(fd), 0);
	fixture_open(&f, NET_TCP, NULL, NULL);
	cr_assert_eq(listen_at(address), -EEXIST);
	cr_assert_eq(access(path, F_OK), 0);
	fixture_close(&f);
	cr_assert_eq(access(path, F_OK), 0);
}

Test(transport_unix, addresses_that_are_none)
{
	char wrong[SPLIT_ADDRESS_BYTES_MAX] = "unix:///";
	struct split_connect_options options = { .peer_roles = FIXTURE_ROLES,
		.ops = &side_ops,
		.arg = &f.client };

	fixture_open(&f, NET_TCP, NULL, NULL);
	memset(wrong + strlen(wrong), 'x', 108); /* with the /, one more than an address holds */
	for (uint32_t i = 0; i < 3; i++) {
		options.address = i == 0 ? wrong : i == 1 ? "unix://" : "unix://relative";
		cr_assert_eq(listen_at(options.address), -EINVAL, "%s", options.address);
		cr_assert_null(connect_qp(f.client_port, &options));
		cr_assert_eq(errno, EINVAL, "%s", options.address);
	}
	fixture_close(&f);
}

Test(transport_unix, nobody_there_is_refused)
{
	fixture_open(&f, NET_TCP, NULL, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		if (i == 1)
			leave_socket();
		f.client.closed_count = 0;
		(void)snprintf(f.address, sizeof(f.address), "%s", address);
		(void)fixture_connect(&f, &side_ops);
		fixture_run(&f, client_closed, 0);
		cr_assert_eq(f.client.closed_rc, -ECONNREFUSED);
	}
	fixture_close(&f);
}

Test(transport_unix, the_peer_is_told_by_user_and_process)
{
	char wanted[SPLIT_ADDRESS_BYTES_MAX];

	fixture_open(&f, NET_TCP, NULL, NULL);
	fixture_connect_both(&f);
	(void)snprintf(wanted, sizeof(wanted), "unix://uid=%u:pid=%d", geteuid(), (int)getpid());
	cr_assert_str_eq(split_qp_peer(f.server.qp), wanted);
	fixture_close(&f);
}
