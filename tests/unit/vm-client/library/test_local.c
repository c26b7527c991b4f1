/* SPDX-License-Identifier: Apache-2.0 */
/* test_local.c -- which sockets a client takes for its gateway's, and what it does when nobody is there */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/client_fixture.h"
#include "vm-client/library/internal.h"
#include "vm-client/library/local.h"

#define ADDRESS "tcp://127.0.0.1:7100"
#define NAME "127.0.0.1:7100"

static char above[] = "/tmp/test_local.XXXXXX", folder[48], path[96],
	    taken[SPLIT_ADDRESS_BYTES_MAX];
static struct local_socket found;
static int fd = -1;

static void
setup(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	cr_assert_not_null(mkdtemp(above));
	(void)snprintf(folder, sizeof(folder), "%s/of", above);
	cr_assert_eq(mkdir(folder, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/%s", folder, NAME);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(unsetenv("CLEAVE_LOCAL"), 0);
}

static void
teardown(void)
{
	(void)close(fd);
	(void)unlink(path);
	cr_assert_eq(rmdir(folder), 0);
	cr_assert_eq(rmdir(above), 0);
}

TestSuite(local, .init = setup, .fini = teardown, .timeout = 60);

Test(local, a_port_has_its_socket_by_its_address)
{
	char wanted[SPLIT_ADDRESS_BYTES_MAX];

	(void)snprintf(wanted, sizeof(wanted), "unix://%s", path);
	cr_assert(local_find(folder, ADDRESS, &found));
	cr_assert_str_eq(found.address, wanted);
	cr_assert_not(local_find(folder, "tcp://127.0.0.1:7101", &found));
	cr_assert_not(local_find(folder, "verbs://" NAME, &found));
	cr_assert_not(local_find(folder, "tcp://../" NAME, &found),
	    "a map leads out of the folder");
	cr_assert_not(local_find("", ADDRESS, &found));
}

Test(local, a_folder_that_everybody_writes_to_has_none)
{
	struct cleave_client_options options = { .local = folder };

	cr_assert_null(local_take(&options, taken));
	cr_assert_str_eq(taken, folder);
	cr_assert_eq(chmod(folder, 0777), 0);
	cr_assert_not(local_find(folder, ADDRESS, &found));
	cr_assert_not_null(local_take(&options, taken));
	cr_assert_eq(chmod(folder, 0700), 0);
	cr_assert(local_find(folder, ADDRESS, &found));
}

Test(local, a_socket_of_a_stranger_is_none)
{
	if (geteuid() != 0)
		cr_skip_test("only root gives files away");
	cr_assert_eq(chown(folder, 1001, 1001), 0);
	cr_assert(local_find(folder, ADDRESS, &found), "root's is believed anywhere");
	cr_assert_eq(chown(path, 1002, 1001), 0);
	cr_assert_not(local_find(folder, ADDRESS, &found));
	cr_assert_eq(chown(path, 1001, 1002), 0);
	cr_assert(local_find(folder, ADDRESS, &found), "the folder's owner's is");
	cr_assert_eq(chown(folder, 0, 0), 0);
}

/* Whoever was first has it as his own: his sockets are of the folder's owner. */
Test(local, a_folder_that_anybody_could_make_has_none_unless_it_is_roots_or_our_own)
{
	struct cleave_client_options options = { .local = folder };

	if (geteuid() != 0)
		cr_skip_test("only root gives files away");
	cr_assert_eq(chmod(above, 01777), 0);
	cr_assert(local_find(folder, ADDRESS, &found));
	cr_assert_eq(chown(path, 1001, 1001), 0);
	cr_assert_eq(chown(folder, 1001, 1001), 0);
	cr_assert_not(local_find(folder, ADDRESS, &found));
	cr_assert_not_null(local_take(&options, taken));
	/* Nor one in a folder of theirs. */
	cr_assert_eq(chmod(above, 0755), 0);
	cr_assert_eq(chown(above, 1001, 1001), 0);
	cr_assert_not(local_find(folder, ADDRESS, &found));
	cr_assert_eq(chown(above, 0, 0), 0);
	cr_assert(local_find(folder, ADDRESS, &found), "root has made a place for it");
}

Test(local, what_is_no_socket_is_none)
{
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(close(open(path, O_CREAT | O_CLOEXEC, 0600)), 0);
	cr_assert_not(local_find(folder, ADDRESS, &found));
}

Test(local, the_folder_is_an_option_or_in_the_environment)
{
	struct cleave_client_options options = { .local = NULL };

	cr_assert_null(local_take(&options, taken));
	cr_assert_str_eq(taken, "");
	cr_assert_eq(setenv("CLEAVE_LOCAL", folder, 1), 0);
	cr_assert_null(local_take(&options, taken));
	cr_assert_str_eq(taken, folder);
	options.local = "/elsewhere"; /* who makes it may come later */
	cr_assert_null(local_take(&options, taken));
	cr_assert_str_eq(taken, "/elsewhere");
	options.local = "relative";
	cr_assert_not_null(local_take(&options, taken));
	options.local = path; /* no folder */
	cr_assert_not_null(local_take(&options, taken));
}

/* All that the volume has are up, and by the socket or by the address. */
static bool
is_up(struct fixture *f, bool is_local)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&f->volume->connections, link, next) {
		struct connection *connection = LIST_ENTRY(link, struct connection, link);

		if (connection->sm.state != CONNECTION_UP || connection->is_local != is_local)
			return false;
	}
	return !list_is_empty(&f->volume->connections);
}

static bool
is_up_by_address(void *arg)
{
	return is_up(arg, false);
}

static bool
is_up_by_socket(void *arg)
{
	return is_up(arg, true);
}

/* A client with something to do looks where its gateway is: once a second, in which there may be more reads than a log has. */
static void
read_until(struct fixture *f, bool (*is_so)(void *arg))
{
	uint8_t block[CLEAVE_BLOCK_BYTES];

	while (!is_so(f)) {
		cr_assert_eq(fixture_io(f, CLEAVE_READ, 0, sizeof(block), block), 0);
		f->done_count = 0;
		f->fake.log_count = 0;
	}
}

Test(local, one_that_came_by_the_address_comes_by_the_socket_once_there_is_one)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 1);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char address[SPLIT_ADDRESS_BYTES_MAX];
	int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", folder,
	    f->fake.addresses[0] + strlen("tcp://"));
	(void)snprintf(address, sizeof(address), "unix://%s", at.sun_path);
	cr_assert_eq(bind(left, (struct sockaddr *)&at, sizeof(at)), 0,
	    "of a gateway that was killed");
	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	f->options.local = folder;
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0);
	fixture_run(f, is_up_by_address);
	fake_gateway_listen(&f->fake, 0, address, NULL);
	read_until(f, is_up_by_socket);
	(void)close(left);
	fixture_destroy(f);
	(void)unlink(at.sun_path);
}

static bool
will_look(void *arg)
{
	const struct fixture *f = arg;

	return LIST_ENTRY(list_first(&f->volume->connections), struct connection, link)
	    ->timer.is_active;
}

static bool
will_not_look(void *arg)
{
	return !will_look(arg);
}

/* Once for what it has sent, and then it sleeps. */
Test(local, who_asks_for_nothing_looks_for_no_socket)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 1);
	uint8_t block[CLEAVE_BLOCK_BYTES];

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	f->options.local = folder;
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0);
	fixture_run(f, is_up_by_address);
	fixture_run(f, will_not_look);
	cr_assert_eq(fixture_io(f, CLEAVE_READ, 0, sizeof(block), block), 0);
	fixture_run(f, will_not_look);
	cr_assert(is_up_by_address(f));
	fixture_destroy(f);
}

/* A client with an open volume, and a gateway of others at the socket that its gateway's port would have. */
struct strangers {
	struct fixture *f;
	struct fake_gateway other;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void
strangers_begin(struct strangers *s, unsigned flags)
{
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct fake_options options;
	struct fixture *f = s->f = fixture_create(NET_TCP, 1, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1))->data[0] = 1;
	f->options.local = folder;
	fixture_client(f);
	f->is_answered = false;
	cr_assert_eq(cleave_volume_open(f->client, "v", flags, fixture_on_open, f), 0);
	fixture_run(f, fixture_is_answered);
	cr_assert_eq(f->rc, 0);
	fixture_run(f, is_up_by_address);
	options = (struct fake_options){ .loop = f->gateway_loop,
		.address = "tcp://127.0.0.1:0",
		.port_count = 1,
		.shard_count = 1 };
	fake_gateway_init(&s->other, &options);
	(void)snprintf(s->path, sizeof(s->path), "%s/%s", folder,
	    f->fake.addresses[0] + strlen("tcp://"));
	(void)snprintf(address, sizeof(address), "unix://%s", s->path);
	fake_gateway_listen(&s->other, 0, address, NULL);
}

static void
strangers_end(struct strangers *s)
{
	struct fixture *f = s->f;

	if (f->volume != NULL)
		fixture_close(f);
	fake_gateway_fini(&s->other);
	fixture_destroy(f);
	(void)unlink(s->path);
}

static bool
other_was_asked(void *arg)
{
	const struct fixture *f = arg;
	const struct connection *connection =
	    LIST_ENTRY(list_first(&f->volume->connections), struct connection, link);

	return connection->was_refused;
}

static void
reads_what_its_gateway_has(struct fixture *f)
{
	uint8_t block[CLEAVE_BLOCK_BYTES];

	cr_assert_eq(fixture_submit(f, 0, CLEAVE_READ, 0, sizeof(block), block), 0);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, 0, "rc=%d", f->ios[0].rc);
	cr_assert_eq(block[0], 1);
}

Test(local, who_is_at_the_socket_has_not_the_last_word_on_a_volume)
{
	struct strangers s;

	strangers_begin(&s, 0);
	read_until(s.f, other_was_asked); /* it knows of no such volume */
	reads_what_its_gateway_has(s.f);
	cr_assert(is_up_by_address(s.f));
	strangers_end(&s);
}

Test(local, a_gateway_of_another_cluster_is_sent_nothing)
{
	struct strangers s;

	strangers_begin(&s, CLEAVE_OPEN_READ_ONLY);
	s.other.cluster_id = 2;
	fake_gateway_add(&s.other, "w", NUM_MIB(1))->data[0] = 2; /* of one id with the client's */
	cr_assert_eq(s.other.volumes[0].id, s.f->fake.volumes[0].id);
	read_until(s.f, other_was_asked);
	reads_what_its_gateway_has(s.f);
	cr_assert_eq(fake_gateway_count(&s.other, WIRE_READ), 0);
	cr_assert(is_up_by_address(s.f));
	strangers_end(&s);
}
