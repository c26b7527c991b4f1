/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_nbd_stream.c -- what a client may say to the agent, from its first byte to its last
 *
 * The agent's server runs on a loop of this file: turns are counted, nothing sleeps. libcleave is a
 * stub, a disk in memory that completes requests late and out of order, has little room (-ENOBUFS),
 * fails now and then, and loses the volume. The input is a script:
 *
 *	'H' connection            come in, say the client's flags
 *	'S' connection, count     send the next count bytes of the script
 *	'R' connection, style     send a request (17 bytes) with a right magic, and a payload if it has one
 *	'D' connection, count     read count KiB of what came
 *	'T' count                 turns of the loop, so many requests complete
 *	'C' connection            go
 *	'F' rc                    the next request fails; 0xff: the volume is lost
 *	'W'                       the handshake's time is over
 *
 * The end of it is as the agent's: the client goes, then the server with all it has. What must hold
 * is what assertions and sanitizers say, and that nothing is left.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop_internal.h"
#include "base/num.h"
#include "cleave/manage.h"
#include "vm-client/agent/nbd.h"

#define STREAM_CONNECTIONS 4
#define STREAM_VOLUME_BYTES (64u * 1024)
#define STREAM_QUEUE_COUNT_MAX 3u
#define STREAM_STEPS_MAX 2000
#define STREAM_WATCHERS_MAX 32
#define STREAM_VOLUMES_MAX 12 /* open or being closed */
#define STREAM_OPENS_MAX 4
#define STREAM_LISTS_MAX 4
#define STREAM_SNAPSHOTS 5u /* of every volume; two are told at a time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct cleave_volume {
	struct cleave_volume_info info;
	struct loop_link ios;
	uint32_t io_count;
	bool is_lost, is_closing;
	cleave_lost_fn lost_fn;
	void *lost_arg;
	void (*close_fn)(void *arg);
	void *close_arg;
	uint64_t size_wanted; /* 0: just ask */
	cleave_size_fn size_fn;
	void *size_arg;
};

struct script {
	const uint8_t *at, *end;
};

static struct {
	struct loop loop;
	uint64_t now_ns;
	struct loop_fd *watchers[STREAM_WATCHERS_MAX];
	struct loop_link timers;
	int sockets[STREAM_CONNECTIONS];
	/* The cluster. */
	struct cleave_volume *volumes[STREAM_VOLUMES_MAX];
	uint64_t size_bytes;
	struct {
		cleave_open_fn fn; /* NULL: the place is free */
		void *arg;
		unsigned flags;
		char name[CLEAVE_NAME_BYTES_MAX + 1]; /* "": by its id */
	} opens[STREAM_OPENS_MAX];
	struct {
		struct cleave_ask *ask; /* NULL: the place is free */
		cleave_snapshots_fn fn;
		void *arg;
		uint64_t after;
	} lists[STREAM_LISTS_MAX];
	int next_rc;
	uint8_t disk[STREAM_VOLUME_BYTES];
	uint32_t seed;
} world;

/* ---- a loop whose turns are asked for ---- */

static uint64_t
world_now_ns(struct loop *loop)
{
	(void)loop;
	return world.now_ns;
}

static void
world_timer_stop(struct loop *loop, struct loop_timer *timer)
{
	(void)loop;
	list_remove(&timer->link);
	timer->is_active = false;
}

static void
world_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns)
{
	world_timer_stop(loop, timer);
	timer->due_ns = world.now_ns + delay_ns;
	timer->is_active = true;
	list_push_back(&world.timers, &timer->link);
}

static int
world_fd_start(struct loop *loop, struct loop_fd *watcher)
{
	(void)loop;
	for (int i = 0; i < STREAM_WATCHERS_MAX; i++) {
		if (world.watchers[i] == NULL) {
			world.watchers[i] = watcher;
			watcher->impl = &world;
			return 0;
		}
	}
	return -ENOMEM;
}

static void
world_fd_modify(struct loop *loop, struct loop_fd *watcher, unsigned events)
{
	(void)loop;
	watcher->events = events;
}

static void
world_fd_stop(struct loop *loop, struct loop_fd *watcher)
{
	(void)loop;
	watcher->impl = NULL;
	for (int i = 0; i < STREAM_WATCHERS_MAX; i++) {
		if (world.watchers[i] == watcher)
			world.watchers[i] = NULL;
	}
}

static void
world_wake(struct loop *loop)
{
	(void)loop;
}

static const struct loop_ops world_loop_ops = { .name = "fuzz",
	.now_ns = world_now_ns,
	.now_fresh_ns = world_now_ns,
	.now_boot_ns = world_now_ns,
	.timer_start = world_timer_start,
	.timer_stop = world_timer_stop,
	.fd_start = world_fd_start,
	.fd_modify = world_fd_modify,
	.fd_stop = world_fd_stop,
	.wake = world_wake };

static void
run_tasks(void)
{
	(void)loop_tasks_run(&world.loop, NULL);
}

static void
run_watchers(void)
{
	for (int i = 0; i < STREAM_WATCHERS_MAX; i++) {
		struct loop_fd *watcher = world.watchers[i];
		struct pollfd ask;
		unsigned events;

		if (watcher == NULL || watcher->events == 0)
			continue;
		ask = (struct pollfd){ .fd = watcher->fd };
		ask.events = (short)(((watcher->events & LOOP_READABLE) != 0 ? POLLIN : 0) |
		    ((watcher->events & LOOP_WRITABLE) != 0 ? POLLOUT : 0));
		if (poll(&ask, 1, 0) <= 0)
			continue;
		assert((ask.revents & POLLNVAL) == 0);
		events = watcher->events;
		watcher->fn(watcher, events, watcher->arg);
		run_tasks();
	}
}

static void
run_timers(void)
{
	struct loop_link *link, *next;

	for (;;) {
		struct loop_timer *due = NULL;

		LIST_FOREACH_SAFE(&world.timers, link, next) {
			struct loop_timer *timer = LIST_ENTRY(link, struct loop_timer, link);

			if (timer->due_ns <= world.now_ns)
				due = timer;
		}
		if (due == NULL)
			return;
		world_timer_stop(&world.loop, due);
		due->fn(due, due->arg);
		run_tasks();
	}
}

/* ---- libcleave, a stub: the linker takes these, and none of the library's ---- */

/* Where @volume is; NULL: a place for one. */
static struct cleave_volume **
volume_slot(const struct cleave_volume *volume)
{
	for (int i = 0; i < STREAM_VOLUMES_MAX; i++) {
		if (world.volumes[i] == volume)
			return &world.volumes[i];
	}
	return NULL;
}

int
cleave_volume_open_as(struct cleave_client *client, const struct cleave_open_options *options,
    cleave_open_fn fn, void *arg)
{
	(void)client;
	assert(options->name != NULL || options->id != 0);
	assert(options->name == NULL || strlen(options->name) <= CLEAVE_NAME_BYTES_MAX);
	for (int i = 0; i < STREAM_OPENS_MAX && volume_slot(NULL) != NULL; i++) {
		if (world.opens[i].fn != NULL)
			continue;
		world.opens[i].fn = fn;
		world.opens[i].arg = arg;
		world.opens[i].flags = options->flags;
		(void)snprintf(world.opens[i].name, sizeof(world.opens[i].name), "%s",
		    options->name == NULL ? "" : options->name);
		return 0;
	}
	return -ENOBUFS;
}

int
cleave_volume_open(struct cleave_client *client, const char *name, unsigned flags,
    cleave_open_fn fn, void *arg)
{
	return cleave_volume_open_as(client,
	    &(struct cleave_open_options){ .name = name, .flags = flags }, fn, arg);
}

int
cleave_snapshot_list(struct cleave_client *client, struct cleave_ask *ask, const char *volume,
    uint64_t after, cleave_snapshots_fn fn, void *arg)
{
	(void)client;
	assert(strlen(volume) <= CLEAVE_VOLUME_NAME_BYTES_MAX);
	for (int i = 0; i < STREAM_LISTS_MAX; i++) {
		if (world.lists[i].ask != NULL)
			continue;
		world.lists[i].ask = ask;
		world.lists[i].fn = fn;
		world.lists[i].arg = arg;
		world.lists[i].after = after;
		return 0;
	}
	return -ENOBUFS;
}

const struct cleave_stats *
cleave_client_stats(const struct cleave_client *client)
{
	static const struct cleave_stats stats;

	(void)client;
	return &stats;
}

void
cleave_volume_close(struct cleave_volume *volume, void (*fn)(void *arg), void *arg)
{
	assert(volume_slot(volume) != NULL);
	assert(!volume->is_closing);
	volume->is_closing = true;
	volume->lost_fn = NULL;
	volume->close_fn = fn;
	volume->close_arg = arg;
}

void
cleave_volume_on_lost(struct cleave_volume *volume, cleave_lost_fn fn, void *arg)
{
	volume->lost_fn = fn;
	volume->lost_arg = arg;
}

const struct cleave_volume_info *
cleave_volume_info(const struct cleave_volume *volume)
{
	return &volume->info;
}

int
cleave_volume_refresh(struct cleave_volume *volume, cleave_size_fn fn, void *arg)
{
	assert(volume_slot(volume) != NULL);
	if (volume->is_lost)
		return -ESHUTDOWN;
	if (volume->is_closing)
		return -ECANCELED;
	if (volume->size_fn != NULL)
		return -EBUSY;
	volume->size_wanted = 0;
	volume->size_fn = fn;
	volume->size_arg = arg;
	return 0;
}

int
cleave_volume_resize(struct cleave_volume *volume, uint64_t size_bytes, bool may_shrink,
    cleave_size_fn fn, void *arg)
{
	int rc = cleave_volume_refresh(volume, fn, arg);

	assert(size_bytes > 0 && size_bytes % CLEAVE_BLOCK_BYTES == 0);
	assert(may_shrink || rc != 0 || size_bytes >= volume->info.size_bytes);
	if (rc == 0)
		volume->size_wanted = size_bytes;
	return rc;
}

const char *
cleave_error_text(int rc)
{
	return strerror(-rc);
}

int
cleave_submit(struct cleave_volume *volume, struct cleave_io *io)
{
	assert(volume_slot(volume) != NULL);
	assert(io->length_bytes > 0);
	assert(io->offset_bytes % CLEAVE_BLOCK_BYTES == 0);
	assert(io->length_bytes % CLEAVE_BLOCK_BYTES == 0);
	if (volume->is_lost)
		return -ESHUTDOWN;
	if (volume->is_closing)
		return -ECANCELED;
	if (volume->info.is_read_only && io->op != CLEAVE_READ && io->op != CLEAVE_BLOCK_STATUS)
		return -EROFS;
	if (io->offset_bytes > volume->info.size_bytes ||
	    io->length_bytes > volume->info.size_bytes - io->offset_bytes)
		return -ERANGE;
	if (volume->io_count == STREAM_QUEUE_COUNT_MAX)
		return -ENOBUFS;
	volume->io_count++;
	io->link = (struct loop_link){ NULL, NULL };
	list_push_back(&volume->ios, &io->link);
	return 0;
}

/* The status of every block by itself: a block is zeros when its first byte is. */
static void
tell_status(struct cleave_io *io)
{
	uint64_t count = num_min(io->length_bytes / CLEAVE_BLOCK_BYTES, io->extent_max);

	for (uint64_t i = 0; i < count; i++)
		io->extents[i] = (struct cleave_extent){ .length_bytes = CLEAVE_BLOCK_BYTES,
			.flags = world.disk[io->offset_bytes + i * CLEAVE_BLOCK_BYTES] == 0
			    ? CLEAVE_EXTENT_ZERO
			    : 0 };
	io->extent_count = (uint32_t)count;
}

static void
io_run(struct cleave_io *io)
{
	uint8_t *at = world.disk + io->offset_bytes;

	if (io->op == CLEAVE_READ)
		memcpy(io->data, at, io->length_bytes);
	else if (io->op == CLEAVE_WRITE)
		memcpy(at, io->data, io->length_bytes);
	else if (io->op == CLEAVE_BLOCK_STATUS)
		tell_status(io);
	else
		memset(at, 0, io->length_bytes);
}

/* Larger than the disk in memory is refused. */
static void
finish_size(struct cleave_volume *volume)
{
	cleave_size_fn fn = volume->size_fn;
	int rc = volume->is_lost ? -ESHUTDOWN : world.next_rc;

	volume->size_fn = NULL;
	world.next_rc = 0;
	if (rc == 0 && volume->size_wanted > STREAM_VOLUME_BYTES)
		rc = -ENOSPC;
	for (uint64_t at = volume->size_wanted; rc == 0 && at != 0 && at < volume->info.size_bytes;
	     at++)
		assert(world.disk[at] == 0); /* it was discarded, and nothing came behind that */
	if (rc == 0 && volume->size_wanted != 0)
		world.size_bytes = volume->size_wanted;
	if (rc == 0)
		volume->info.size_bytes = world.size_bytes;
	fn(rc, rc == 0 ? NULL : strerror(-rc), volume->size_arg);
	run_tasks();
}

static void
complete_one(struct cleave_volume *volume)
{
	struct loop_link *link = list_first(&volume->ios);
	struct cleave_io *io;
	int rc = volume->is_lost ? -ESHUTDOWN : world.next_rc;

	world.seed = world.seed * 1664525u + 1013904223u;
	if ((world.seed & 0x10000u) != 0)
		link = volume->ios.prev;
	io = LIST_ENTRY(link, struct cleave_io, link);
	world.next_rc = 0;
	list_remove(link);
	volume->io_count--;
	if (rc == 0)
		io_run(io);
	io->fn(io, rc, io->arg);
	run_tasks();
}

static void
finish_open(int index)
{
	cleave_open_fn fn = world.opens[index].fn;
	struct cleave_volume *volume = NULL;
	int rc = world.next_rc;

	world.opens[index].fn = NULL;
	world.next_rc = 0;
	if (rc == 0 && volume_slot(NULL) == NULL)
		rc = -ENOBUFS; /* others were opened meanwhile */
	if (rc == 0) {
		volume = calloc(1, sizeof(*volume));
		assert(volume != NULL);
		list_init(&volume->ios);
		memcpy(volume->info.name, world.opens[index].name, sizeof(volume->info.name));
		volume->info.size_bytes = world.size_bytes;
		volume->info.is_read_only = (world.opens[index].flags & CLEAVE_OPEN_READ_ONLY) != 0;
		*volume_slot(NULL) = volume;
	}
	fn(volume, rc, NULL, world.opens[index].arg);
	run_tasks();
}

/* Snapshots s1, s2 ...: the next two of them. */
static void
finish_list(int index)
{
	struct cleave_ask *ask = world.lists[index].ask;
	struct cleave_snapshot snapshots[2] = { 0 };
	struct cleave_snapshot_page page = { .snapshots = snapshots };
	uint64_t after = world.lists[index].after;
	int rc = world.next_rc;

	world.lists[index].ask = NULL;
	world.next_rc = 0;
	for (uint64_t number = after + 1; number <= num_min(after + 2, STREAM_SNAPSHOTS);
	     number++) {
		struct cleave_snapshot *snapshot = &snapshots[page.snapshot_count++];

		snapshot->number = number;
		memcpy(snapshot->name, "v@s", 3);
		snapshot->name[3] = (char)('0' + number);
	}
	page.is_more = after + 2 < STREAM_SNAPSHOTS;
	world.lists[index].fn(ask, rc, rc == 0 ? &page : NULL, rc == 0 ? NULL : strerror(-rc),
	    world.lists[index].arg);
	run_tasks();
}

/* Another session has taken what is open for writing. */
static void
take_volumes(void)
{
	for (int i = 0; i < STREAM_VOLUMES_MAX; i++) {
		struct cleave_volume *volume = world.volumes[i];

		if (volume != NULL && !volume->is_closing &&
		    (!volume->info.is_read_only || (world.seed & 0x40000u) != 0))
			volume->is_lost = true;
	}
}

static bool
run_volume(struct cleave_volume *volume)
{
	cleave_lost_fn lost_fn = volume->lost_fn;

	if (volume->is_lost && lost_fn != NULL) {
		volume->lost_fn = NULL;
		lost_fn(volume, -ESHUTDOWN, "taken", volume->lost_arg);
		run_tasks();
	} else if (volume->size_fn != NULL &&
	    (volume->io_count == 0 || (world.seed & 0x20000u) != 0)) {
		finish_size(volume);
	} else if (volume->io_count > 0) {
		complete_one(volume);
	} else if (volume->is_closing) {
		*volume_slot(volume) = NULL;
		if (volume->close_fn != NULL)
			volume->close_fn(volume->close_arg);
		free(volume);
		run_tasks();
	} else {
		return false;
	}
	return true;
}

static void
run_cluster(void)
{
	for (int i = 0; i < STREAM_OPENS_MAX; i++) {
		if (world.opens[i].fn != NULL) {
			finish_open(i);
			return;
		}
	}
	for (int i = 0; i < STREAM_LISTS_MAX; i++) {
		if (world.lists[i].ask != NULL) {
			finish_list(i);
			return;
		}
	}
	for (int i = 0; i < STREAM_VOLUMES_MAX; i++) {
		if (world.volumes[i] != NULL && run_volume(world.volumes[i]))
			return;
	}
}

/* ---- the client ---- */

static uint8_t
next_byte(struct script *script)
{
	return script->at < script->end ? *script->at++ : 0;
}

static void
client_send(int index, const void *bytes, size_t count)
{
	if (world.sockets[index] >= 0 && count > 0)
		(void)send(world.sockets[index], bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
client_go(int index)
{
	if (world.sockets[index] >= 0)
		(void)close(world.sockets[index]);
	world.sockets[index] = -1;
}

static void
client_come(struct nbd_server *server, int index)
{
	const uint8_t flags[4] = { 0, 0, 0, 3 };
	int fds[2], small = 4096;

	client_go(index);
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	/* So little that replies leave in pieces. */
	assert(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	if (nbd_connection_create(server, fds[1], fds[1], "fuzz", true) == NULL) {
		(void)close(fds[0]);
		return;
	}
	world.sockets[index] = fds[0];
	client_send(index, flags, sizeof(flags));
}

/* A request that decodes; its payload is what is there. */
static void
client_request(struct script *script, int index, bool is_extended)
{
	static const uint8_t payload[8192];
	uint8_t head[NBD_EXTENDED_REQUEST_BYTES] = { 0 };
	uint64_t length = (uint64_t)next_byte(script) << 8 | next_byte(script), offset;
	uint32_t bytes = is_extended ? NBD_EXTENDED_REQUEST_BYTES : NBD_REQUEST_BYTES;

	nbd_put32(head, is_extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC);
	nbd_put16(head + 4, next_byte(script));
	nbd_put16(head + 6, next_byte(script) % (NBD_CMD_NR + 1));
	offset = (uint64_t)next_byte(script) << 8 | next_byte(script);
	/* A size is of whole blocks, or refused. */
	if (head[7] == NBD_CMD_RESIZE && (offset & 1) == 0)
		offset = (offset & 0x1e) << 11;
	nbd_put64(head + 16, offset);
	if (is_extended)
		nbd_put64(head + 24, length);
	else
		nbd_put32(head + 24, (uint32_t)length);
	client_send(index, head, bytes);
	if (head[7] == NBD_CMD_WRITE) {
		for (uint64_t sent = 0; sent < length; sent += sizeof(payload))
			client_send(index, payload, num_min(length - sent, sizeof(payload)));
	}
}

static void
client_read(int index, uint32_t kibibytes)
{
	uint8_t bytes[1024];

	while (world.sockets[index] >= 0 && kibibytes-- > 0 &&
	    recv(world.sockets[index], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void
run_step(struct nbd_server *server, struct script *script)
{
	uint8_t step = next_byte(script), arg = next_byte(script);
	int index = arg % STREAM_CONNECTIONS;
	size_t count;

	switch (step) {
	case 'H':
		client_come(server, index);
		break;
	case 'S':
		count = num_min(next_byte(script), (uint64_t)(script->end - script->at));
		client_send(index, script->at, count);
		script->at += count;
		break;
	case 'R':
		client_request(script, index, (next_byte(script) & 1) != 0);
		break;
	case 'D':
		client_read(index, next_byte(script));
		break;
	case 'T':
		for (int i = 0; i < arg % 64; i++)
			run_cluster();
		break;
	case 'C':
		client_go(index);
		break;
	case 'F':
		world.next_rc = arg == 0xff ? 0 : -(int)(arg % 120);
		if (arg == 0xff)
			take_volumes();
		break;
	case 'W':
		world.now_ns += NUM_S(10);
		run_timers();
		break;
	default:
		break;
	}
	run_watchers();
	run_tasks();
}

/* ---- a run ---- */

static struct nbd_server *
world_begin(uint32_t seed, bool allows_any)
{
	struct nbd_server_options options = { .loop = &world.loop,
		.allows_any = allows_any,
		.resize = (enum nbd_resize)((seed >> 2) % 3),
		.attaches_at_once = (seed & 16) != 0,
		.reclaims = (seed & 32) != 0,
		.handshake_ns = NUM_S(10),
		.stall_ns = NUM_S(10) };
	struct nbd_server *server;

	log_set_level(LOG_OFF);
	(void)signal(SIGPIPE, SIG_IGN); /* as the agent does */
	memset(&world, 0, sizeof(world));
	loop_base_init(&world.loop, &world_loop_ops, seed);
	list_init(&world.timers);
	world.seed = seed;
	world.size_bytes = STREAM_VOLUME_BYTES;
	for (int i = 0; i < STREAM_CONNECTIONS; i++)
		world.sockets[i] = -1;
	server = nbd_server_create(&options);
	assert(server != NULL);
	assert(nbd_export_add(server, "v", false) != NULL);
	assert(nbd_export_add(server, "w", true) != NULL);
	return server;
}

static bool
world_is_empty(const struct nbd_server *server)
{
	for (int i = 0; i < STREAM_VOLUMES_MAX; i++) {
		if (world.volumes[i] != NULL)
			return false;
	}
	for (int i = 0; i < STREAM_OPENS_MAX; i++) {
		if (world.opens[i].fn != NULL)
			return false;
	}
	for (int i = 0; i < STREAM_LISTS_MAX; i++) {
		if (world.lists[i].ask != NULL)
			return false;
	}
	return server->connection_count == 0 && list_is_empty(&server->bitmaps) &&
	    list_is_empty(&server->listings);
}

/* In an orderly way everything ends by itself; else it is torn down as it is. */
static void
world_end(struct nbd_server *server, bool is_orderly)
{
	for (int i = 0; i < STREAM_CONNECTIONS; i++)
		client_go(i);
	for (int i = 0; i < STREAM_STEPS_MAX && is_orderly && !world_is_empty(server); i++) {
		run_watchers();
		run_tasks();
		run_cluster();
	}
	assert(!is_orderly || server->connection_count == 0);
	assert(!is_orderly || server->memory.held_bytes == 0);
	assert(!is_orderly || world_is_empty(server));
	for (int i = 0; i < STREAM_VOLUMES_MAX; i++)
		free(world.volumes[i]);
	nbd_server_destroy(server);
	for (int i = 0; i < STREAM_WATCHERS_MAX; i++)
		assert(world.watchers[i] == NULL);
	assert(list_is_empty(&world.timers));
	assert(list_is_empty(&world.loop.tasks));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct script script = { data, data + bytes };
	struct nbd_server *server;
	uint8_t mode = next_byte(&script);

	server = world_begin(mode, (mode & 1) != 0);
	for (int i = 0; i < STREAM_STEPS_MAX && script.at < script.end; i++)
		run_step(server, &script);
	world_end(server, (mode & 2) != 0);
	return 0;
}
