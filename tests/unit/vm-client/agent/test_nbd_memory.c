/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nbd_memory.c -- each allocation of the agent fails once: its client is answered or cut off, no more
 *
 *	the test --socket pair--> the agent's server --libcleave--> a fake gateway, all on one loop
 *
 * A client says all it has to say at once, a handshake and one command of each kind, and reads until the
 * agent closes. Whatever has failed then, a second client finds the disk.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unit/client_fixture.h"
#include "vm-client/agent/nbd.h"

#define MEMORY_VOLUME_BYTES NUM_MIB(1)
#define MEMORY_SCRIPT_BYTES 32768u
#define MEMORY_ALLOCATIONS_MAX 200u

struct peer {
	struct loop_fd watcher;
	struct fixture *f;
	int fd;
	uint8_t sent[MEMORY_SCRIPT_BYTES], got[MEMORY_SCRIPT_BYTES];
	uint32_t sent_bytes, got_bytes;
	bool is_over;
};

/* ---- what a client says ---- */

static uint8_t *
say(struct peer *peer, uint32_t bytes)
{
	uint8_t *at = peer->sent + peer->sent_bytes;

	peer->sent_bytes += bytes;
	cr_assert_leq(peer->sent_bytes, sizeof(peer->sent));
	return at;
}

static void
say_option(struct peer *peer, uint32_t option, const void *data, uint32_t bytes)
{
	uint8_t *at = say(peer, NBD_OPTION_BYTES + bytes);

	nbd_put64(at, NBD_IHAVEOPT);
	nbd_put32(at + 8, option);
	nbd_put32(at + 12, bytes);
	if (bytes > 0)
		memcpy(at + NBD_OPTION_BYTES, data, bytes);
}

static void
say_command(struct peer *peer, enum nbd_command type, uint64_t offset_bytes, uint32_t length_bytes)
{
	uint8_t *at = say(peer, NBD_REQUEST_BYTES);

	nbd_put32(at, NBD_REQUEST_MAGIC);
	nbd_put16(at + 4, 0);
	nbd_put16(at + 6, (uint16_t)type);
	nbd_put64(at + 8, peer->sent_bytes);
	nbd_put64(at + 16, offset_bytes);
	nbd_put32(at + 24, length_bytes);
	if (type == NBD_CMD_WRITE)
		memset(say(peer, length_bytes), 'w', length_bytes);
}

static void
say_all(struct peer *peer)
{
	static const uint8_t flags[4] = { 0, 0, 0, 3 }, go[] = { 0, 0, 0, 1, 'v', 0, 0 };
	static const char list[] = "\0\0\0\1v\0\0\0\0";
	static const char context[] = "\0\0\0\1v\0\0\0\2\0\0\0\17base:allocation"
				      "\0\0\0\23qemu:dirty-bitmap:s";

	memcpy(say(peer, sizeof(flags)), flags, sizeof(flags));
	say_option(peer, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	say_option(peer, NBD_OPT_LIST, NULL, 0);
	say_option(peer, NBD_OPT_LIST_META_CONTEXT, list, sizeof(list) - 1);
	say_option(peer, NBD_OPT_SET_META_CONTEXT, context, sizeof(context) - 1);
	say_option(peer, NBD_OPT_GO, go, sizeof(go));
	say_command(peer, NBD_CMD_WRITE, 0, 8192);
	say_command(peer, NBD_CMD_WRITE, 4000, 200); /* parts of two blocks */
	say_command(peer, NBD_CMD_WRITE_ZEROES, 20000, 9000);
	say_command(peer, NBD_CMD_FLUSH, 0, 0);
	say_command(peer, NBD_CMD_BLOCK_STATUS, 0, 65536);
	say_command(peer, NBD_CMD_READ, 100, 300);
	say_command(peer, NBD_CMD_READ, 0, 8192);
	say_command(peer, NBD_CMD_DISC, 0, 0);
}

/* ---- what it hears ---- */

static void
peer_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct peer *peer = arg;
	ssize_t bytes = recv(peer->fd, peer->got + peer->got_bytes,
	    sizeof(peer->got) - peer->got_bytes, MSG_DONTWAIT);

	(void)watcher;
	(void)events;
	if (bytes > 0)
		peer->got_bytes += (uint32_t)bytes;
	else if (bytes == 0 || errno != EAGAIN)
		peer->f->is_answered = peer->is_over = true;
	cr_assert_lt(peer->got_bytes, sizeof(peer->got));
}

/* A client comes, says all, and has gone when this returns. */
static void
talk(struct nbd_server *server, struct fixture *f, struct peer *peer)
{
	int fds[2];

	*peer = (struct peer){ .f = f };
	say_all(peer);
	cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	peer->fd = fds[0];
	loop_fd_init(&peer->watcher, peer->fd, peer_on_readable, peer);
	cr_assert(loop_fd_start(f->client_loop, &peer->watcher, LOOP_READABLE) == 0);
	cr_assert(send(peer->fd, peer->sent, peer->sent_bytes, MSG_NOSIGNAL) == peer->sent_bytes);
	(void)nbd_connection_create(server, fds[1], fds[1], "test", true);
	f->is_answered = false;
	fixture_run(f, fixture_is_answered);
	cr_assert(peer->got_bytes == 0 || memcmp(peer->got, "NBDMAGIC", 8) == 0, "no greeting");
	loop_fd_stop(f->client_loop, &peer->watcher);
	(void)close(peer->fd);
}

/* Has @peer read what was written? Its replies' heads have hardly a byte like those. */
static bool
peer_has_read(const struct peer *peer)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < peer->got_bytes; i++)
		count += peer->got[i] == 'w';
	return count >= 8192;
}

static void
on_empty(void *arg)
{
	((struct fixture *)arg)->is_answered = true;
}

static struct nbd_server *
server_of(struct fixture *f)
{
	const struct nbd_server_options options = { .loop = f->client_loop,
		.client = f->client,
		.attaches_at_once = true, /* the fake gateway knows one session of a volume */
		.handshake_ns = 2 * FIXTURE_WAIT_NS,
		.stall_ns = 2 * FIXTURE_WAIT_NS,
		.on_empty = on_empty,
		.arg = f };

	return nbd_server_create(&options);
}

/* Everything goes, in the agent's order. */
static void
server_end(struct nbd_server *server, struct fixture *f)
{
	f->is_answered = false;
	nbd_server_stop(server);
	fixture_run(f, fixture_is_answered);
	cr_assert_eq(server->memory.held_bytes, 0);
	cleave_client_destroy(f->client);
	f->client = NULL;
	nbd_server_destroy(server);
}

Test(nbd_memory, a_client_is_served_without_failures)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 4);
	struct nbd_server *server;
	struct peer peer;

	fake_gateway_add(&f->fake, "v", MEMORY_VOLUME_BYTES);
	fake_gateway_add(&f->fake, "v@s@", MEMORY_VOLUME_BYTES);
	fixture_client(f);
	server = server_of(f);
	cr_assert_not_null(nbd_export_add(server, "v", false));
	talk(server, f, &peer);
	talk(server, f,
	    &peer); /* reads may overtake writes of the same client: not of the one before */
	cr_assert(peer_has_read(&peer));
	server_end(server, f);
	fixture_destroy(f);
}

Test(nbd_memory, a_server_that_cannot_be_made_leaves_nothing)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 4);
	struct nbd_server *server;

	fake_gateway_add(&f->fake, "v", MEMORY_VOLUME_BYTES);
	fake_gateway_add(&f->fake, "v@s@", MEMORY_VOLUME_BYTES);
	fixture_client(f);
	alloc_fail_at(ALLOC_CLIENT, 1);
	cr_assert_null(server_of(f));
	server = server_of(f);
	alloc_fail_at(ALLOC_CLIENT, 1);
	cr_assert_null(nbd_export_add(server, "v", false));
	cr_assert_eq(errno, ENOMEM);
	cr_assert_not_null(nbd_export_add(server, "v", false));
	server_end(server, f);
	fixture_destroy(f);
}

/* A disk's first client opens it, a later one finds it closed again: both must come through the other's end. */
Test(nbd_memory, the_nth_allocation_of_a_clients_life_fails)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 4);
	struct nbd_server *server;
	struct peer peer;
	bool has_failed = true;
	uint32_t nth = 1;

	fake_gateway_add(&f->fake, "v", MEMORY_VOLUME_BYTES);
	fake_gateway_add(&f->fake, "v@s@", MEMORY_VOLUME_BYTES);
	fixture_client(f);
	server = server_of(f);
	cr_assert_not_null(nbd_export_add(server, "v", false));
	for (; has_failed; nth++) {
		cr_assert_lt(nth, MEMORY_ALLOCATIONS_MAX);
		alloc_fail_at(ALLOC_CLIENT, nth);
		talk(server, f, &peer);
		has_failed = alloc_has_failed(ALLOC_CLIENT);
		alloc_fail_at(ALLOC_CLIENT, 0);
		talk(server, f, &peer);
		cr_assert(peer_has_read(&peer), "after allocation %u", nth);
	}
	cr_assert_gt(nth, 10);
	server_end(server, f);
	fixture_destroy(f);
}
