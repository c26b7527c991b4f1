/* SPDX-License-Identifier: Apache-2.0 */
/*
 * design.c -- the VM and the storage servers of bench/designs, and what is measured
 *
 *	<design> [--writes N] [--threads N] [--pressure N] FILE...
 *
 * The VM's blocks are cut from the files. A storage server unpacks every sixteenth block and compares
 * its CRC with the VM's. --pressure: threads that copy 64 MiB to and fro meanwhile.
 *
 * Output: one JSON object. "link" is what crossed between host memory and devices, "host_memory" that
 * and what cores read and wrote of payloads; both per byte of the blocks that were written.
 */
#include "design.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"

#define THREADS_MAX 16u
#define DATA_BLOCKS_MAX 4096u
#define PRESSURE_BYTES NUM_MIB(64)
#define VERIFY_EVERY 16u

struct data {
	uint8_t *blocks;
	uint32_t crcs[DATA_BLOCKS_MAX];
	uint32_t count;
};

struct vm_slot {
	struct split_send send;
	struct wire_header header;
	struct dev_piece piece;
	uint64_t begin_ns;
	struct peer *peer;
};

/* The VM and the storage servers of one middle-tier server. */
struct peer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t is_open_cond;
	bool is_open; /* lock */
	struct loop *loop;
	struct split_port *port;
	struct split_qp *vm;
	char vm_address[SPLIT_ADDRESS_BYTES_MAX], storage_address[SPLIT_ADDRESS_BYTES_MAX];
	const struct data *data;
	dev_ptr blocks;
	struct vm_slot slots[DESIGN_SLOTS];
	void *lz4;
	uint64_t wanted_count, sent_count, done_count, verified_count;
	uint64_t *latencies_ns;
};

struct server {
	struct design_server server; /* first: design_over */
	pthread_t thread;
	struct peer peer;
	const struct design_ops *ops;
	bool is_over;
	double cpu_s, wall_s;
	struct split_counters counters;
};

struct options {
	uint64_t write_count;
	uint32_t thread_count, pressure_count;
};

static void
die(const char *what, int rc)
{
	(void)fprintf(stderr, "bench/designs: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static double
clock_s(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now); /* these clocks exist */
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *
must(void *memory)
{
	if (memory == NULL)
		die("memory", -ENOMEM);
	return memory;
}

/* ---- the VM ---- */

static void
vm_on_sent(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)rc; /* the answer tells, or the end of the queue pair */
	(void)arg;
}

static void
vm_send(struct peer *peer, struct vm_slot *slot)
{
	uint32_t block = (uint32_t)(peer->sent_count % peer->data->count);
	struct wire_io io = { .opcode = WIRE_WRITE,
		.service_class = SERVICE_STANDARD,
		.request_id = (uint64_t)(slot - peer->slots),
		.offset_bytes = (peer->sent_count % 1024) * CLEAVE_BLOCK_BYTES,
		.length_bytes = CLEAVE_BLOCK_BYTES,
		.payload_crc = peer->data->crcs[block] };
	int rc;

	wire_io_encode(&slot->header, &io);
	slot->piece = (struct dev_piece){
		.ptr = dev_ptr_add(peer->blocks, (size_t)block * CLEAVE_BLOCK_BYTES),
		.bytes = CLEAVE_BLOCK_BYTES,
	};
	slot->send = (struct split_send){ .header = &slot->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.piece_count = 1,
		.pieces = &slot->piece,
		.fn = vm_on_sent };
	slot->begin_ns = loop_now_fresh_ns(peer->loop);
	peer->sent_count++;
	rc = split_send(peer->vm, &slot->send);
	if (rc != 0)
		die("sending a write", rc);
}

static void
vm_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct peer *peer = arg;

	for (uint32_t i = 0; i < count; i++) {
		struct wire_io_reply reply;
		const char *field;

		if (wire_io_reply_decode(msgs[i]->header, &reply, &field) != 0 || reply.rc != 0)
			die("a write", reply.rc);
		peer->latencies_ns[peer->done_count++] = loop_now_fresh_ns(peer->loop) -
		    peer->slots[reply.request_id].begin_ns;
		if (peer->sent_count < peer->wanted_count)
			vm_send(peer, &peer->slots[reply.request_id]);
		split_msg_release(msgs[i]);
	}
	if (peer->done_count == peer->wanted_count)
		split_qp_close(qp);
}

static void
vm_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct peer *peer = arg;

	(void)qp;
	(void)hello;
	(void)hello_bytes;
	for (uint32_t i = 0; i < DESIGN_SLOTS && peer->sent_count < peer->wanted_count; i++)
		vm_send(peer, &peer->slots[i]);
}

static void
peer_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct peer *peer = arg;

	(void)reason;
	if (qp == peer->vm && peer->done_count < peer->wanted_count)
		die("the VM's queue pair", rc);
	if (qp == peer->vm)
		loop_stop(peer->loop);
}

/* ---- storage servers ---- */

static void
storage_verify(struct peer *peer, const struct split_msg *msg)
{
	static _Thread_local uint8_t stored[CLEAVE_BLOCK_BYTES], plain[CLEAVE_BLOCK_BYTES];
	const struct wire_header *header = msg->header;
	const struct engine_ops *ops = engine_by_id(header->engine);
	int rc;

	if (ops == NULL || msg->payload_bytes > sizeof(stored))
		die("a stored block", -EPROTO);
	dev_copy_to_host(peer->port, stored, msg->payload, msg->payload_bytes);
	rc = ops->decompress(peer->lz4, stored, msg->payload_bytes, plain, sizeof(plain));
	if (rc != 0 || crc32c(0, plain, sizeof(plain)) != header->payload_crc)
		die("a stored block", -EBADMSG);
	peer->verified_count++;
}

static void
storage_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct peer *peer = arg;

	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = { .opcode = WIRE_WRITE | WIRE_REPLY,
			.request_id = msgs[i]->header->request_id };

		if (msgs[i]->header->offset_bytes / CLEAVE_BLOCK_BYTES % VERIFY_EVERY == 0)
			storage_verify(peer, msgs[i]);
		split_msg_reply(msgs[i], &header, NULL, 0, NULL, NULL);
	}
}

static const struct split_qp_ops vm_ops = {
	.on_ready = vm_on_ready,
	.on_messages = vm_on_messages,
	.on_closed = peer_on_closed,
};
static const struct split_qp_ops storage_ops = {
	.on_messages = storage_on_messages,
	.on_closed = peer_on_closed,
};

static void
on_vm_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	((struct peer *)arg)->vm = qp;
	split_qp_accept(qp, &vm_ops, arg, NULL, 0);
}

static void
on_storage_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	split_qp_accept(qp, &storage_ops, arg, NULL, 0);
}

static void
peer_open(struct peer *peer)
{
	struct split_port_options options = { .loop = loop_ev_create(0),
		.receive_count = 512,
		.receive_payload_bytes = CLEAVE_BLOCK_BYTES,
		.qp_credits_max = 2 * DESIGN_SLOTS };
	int rc;

	peer->loop = must(options.loop);
	peer->port = must(open_roce_instance(&options));
	peer->lz4 = must(engine_by_id(ENGINE_LZ4)->create());
	peer->blocks = dev_alloc(peer->port, (size_t)peer->data->count * CLEAVE_BLOCK_BYTES);
	if (dev_ptr_is_null(peer->blocks))
		die("memory of the VM", -ENOMEM);
	dev_copy_from_host(peer->port, peer->blocks, peer->data->blocks,
	    (size_t)peer->data->count * CLEAVE_BLOCK_BYTES);
	rc = split_listen(peer->port, "tcp://127.0.0.1:0", on_vm_accept, peer, peer->vm_address);
	if (rc == 0)
		rc = split_listen(peer->port, "tcp://127.0.0.1:0", on_storage_accept, peer,
		    peer->storage_address);
	if (rc != 0)
		die("listening", rc);
}

static void *
peer_main(void *arg)
{
	struct peer *peer = arg;

	peer_open(peer);
	(void)pthread_mutex_lock(&peer->lock);
	peer->is_open = true;
	(void)pthread_cond_signal(&peer->is_open_cond);
	(void)pthread_mutex_unlock(&peer->lock);
	(void)loop_run(peer->loop, NULL, NULL);
	split_port_close(peer->port);
	engine_by_id(ENGINE_LZ4)->destroy(peer->lz4);
	loop_destroy(peer->loop);
	return NULL;
}

/* ---- the server ---- */

void
design_over(struct design_server *design_server, int rc)
{
	struct server *server = (struct server *)design_server;

	if (rc != -ECONNRESET && rc != -ECANCELED && rc != -ENOTCONN)
		die("serving", rc);
	server->is_over = true;
	loop_stop(design_server->loop);
}

void
design_then(struct design_server *server, struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg)
{
	if (event != NULL)
		dev_event_on(event, fn, arg);
	else
		design_over(server, -errno);
}

static struct split_qp *
server_connect(struct server *server, const char *address)
{
	struct split_connect_options options = { .address = address };
	struct split_qp *qp = connect_qp(server->server.ctx, &options);

	if (qp == NULL || dev_wait_ready(qp) != 0)
		die("connecting", -ENOTCONN);
	return qp;
}

static void
server_serve(struct server *server)
{
	struct design_server *s = &server->server;
	double cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID), wall_s = clock_s(CLOCK_MONOTONIC);

	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++)
		s->qp_storage[i] = server_connect(server, server->peer.storage_address);
	s->qp_vm = server_connect(server, server->peer.vm_address);
	for (uint32_t i = 0; i < DESIGN_SLOTS; i++)
		if (server->ops->open(s) != 0)
			die("memory of a write", -ENOMEM);
	while (!server->is_over)
		(void)loop_run(s->loop, NULL, NULL);
	server->cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu_s;
	server->wall_s = clock_s(CLOCK_MONOTONIC) - wall_s;
}

static void *
server_main(void *arg)
{
	struct server *server = arg;
	struct peer *peer = &server->peer;
	struct engine_set_options engines = { .thread_count = server->ops->engine_threads,
		.queue_depth_max = 2 * DESIGN_SLOTS };
	struct split_port_options options = { .loop = loop_ev_create(0),
		.event_count_max = 32 * DESIGN_SLOTS,
		.qp_credits_max = 2 * DESIGN_SLOTS,
		.engine_ops = &engine_set_gate_ops };

	server->server.loop = must(options.loop);
	options.engines = must(engine_set_create(options.loop, &engines));
	server->server.ctx = must(open_roce_instance(&options));
	server->server.lz4 = must(engine_by_id(ENGINE_LZ4)->create());
	if (pthread_create(&peer->thread, NULL, peer_main, peer) != 0)
		die("a thread", -EAGAIN);
	(void)pthread_mutex_lock(&peer->lock);
	while (!peer->is_open)
		(void)pthread_cond_wait(&peer->is_open_cond, &peer->lock);
	(void)pthread_mutex_unlock(&peer->lock);
	server_serve(server);
	server->counters = *split_port_counters(server->server.ctx);
	(void)pthread_join(peer->thread, NULL);
	split_port_close(server->server.ctx);
	engine_set_destroy(options.engines);
	engine_by_id(ENGINE_LZ4)->destroy(server->server.lz4);
	loop_destroy(server->server.loop);
	return NULL;
}

/* ---- pressure on host memory ---- */

static volatile bool is_pressure_over;

static void *
pressure_main(void *arg)
{
	uint64_t *copied_bytes = arg;
	uint8_t *a = must(malloc(PRESSURE_BYTES)), *b = must(malloc(PRESSURE_BYTES));

	memset(a, 1, PRESSURE_BYTES);
	while (!is_pressure_over) {
		memcpy(b, a, PRESSURE_BYTES);
		a[*copied_bytes % PRESSURE_BYTES] ^= b[1]; /* so that it is not left out */
		*copied_bytes += PRESSURE_BYTES;
	}
	free(a);
	free(b);
	return NULL;
}

/* ---- main ---- */

static int
compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
report(const struct design_ops *ops, const struct options *options, struct server *servers,
    uint64_t copied_bytes)
{
	uint64_t count = options->write_count * options->thread_count, link = 0, core = 0,
		 verified = 0;
	uint64_t *latencies = must(calloc(count, sizeof(uint64_t))), sum = 0;
	double cpu_s = 0, wall_s = 0, plain_bytes = (double)count * CLEAVE_BLOCK_BYTES;

	for (uint32_t i = 0; i < options->thread_count; i++) {
		const struct split_counters *c = &servers[i].counters;

		memcpy(latencies + i * options->write_count, servers[i].peer.latencies_ns,
		    options->write_count * sizeof(uint64_t));
		cpu_s += servers[i].cpu_s;
		wall_s = servers[i].wall_s > wall_s ? servers[i].wall_s : wall_s;
		link += c->host_bytes_in + c->host_bytes_out + c->copied_to_host_bytes +
		    c->copied_from_host_bytes;
		core += servers[i].server.core_bytes;
		verified += servers[i].peer.verified_count;
	}
	if (ops->is_on_device)
		link = core = 0;
	qsort(latencies, count, sizeof(uint64_t), compare_u64);
	for (uint64_t i = 0; i < count; i++)
		sum += latencies[i];
	(void)printf("{\"figure\": \"designs\", \"design\": \"%s\", \"threads\": %u, "
		     "\"pressure_threads\": %u, \"writes_count\": %llu, \"verified_count\": %llu, "
		     "\"gbps\": %.3f, \"server_cpu_us_per_write\": %.2f, \"mean_us\": %.1f, "
		     "\"p99_us\": %.1f, \"p999_us\": %.1f, \"link_per_byte\": %.4f, "
		     "\"host_memory_per_byte\": %.4f, \"pressure_gbps\": %.2f, "
		     "\"mark\": \"measured\"}\n",
	    ops->name, options->thread_count, options->pressure_count, (unsigned long long)count,
	    (unsigned long long)verified, plain_bytes * 8 / wall_s / 1e9,
	    cpu_s / (double)count * 1e6, (double)sum / (double)count / 1e3,
	    (double)latencies[count - 1 - count / 100] / 1e3,
	    (double)latencies[count - 1 - count / 1000] / 1e3, (double)link / plain_bytes,
	    (double)(link + core) / plain_bytes, (double)copied_bytes * 16 / wall_s / 1e9);
	free(latencies);
}

static void
data_read(struct data *data, char **paths, int path_count)
{
	data->blocks = must(malloc((size_t)DATA_BLOCKS_MAX * CLEAVE_BLOCK_BYTES));
	for (int i = 0; i < path_count; i++) {
		FILE *file = fopen(paths[i], "rb");
		uint32_t room = (uint32_t)(DATA_BLOCKS_MAX / (uint32_t)path_count);

		if (file == NULL)
			die(paths[i], -errno);
		data->count +=
		    (uint32_t)fread(data->blocks + (size_t)data->count * CLEAVE_BLOCK_BYTES,
			CLEAVE_BLOCK_BYTES, room, file);
		(void)fclose(file);
	}
	if (data->count == 0)
		die("data files", -ENODATA);
	for (uint32_t i = 0; i < data->count; i++)
		data->crcs[i] =
		    crc32c(0, data->blocks + (size_t)i * CLEAVE_BLOCK_BYTES, CLEAVE_BLOCK_BYTES);
}

static int
options_read(int argc, char **argv, struct options *options)
{
	int i = 1;

	for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--writes") == 0 && value >= DESIGN_SLOTS)
			options->write_count = value;
		else if (strcmp(argv[i], "--threads") == 0 && value >= 1 && value <= THREADS_MAX)
			options->thread_count = (uint32_t)value;
		else if (strcmp(argv[i], "--pressure") == 0 && value <= THREADS_MAX)
			options->pressure_count = (uint32_t)value;
		else
			return argc;
	}
	return i;
}

static void
run(const struct design_ops *ops, const struct options *options, const struct data *data)
{
	struct server *servers = must(calloc(options->thread_count, sizeof(*servers)));
	uint64_t copied_bytes[THREADS_MAX] = { 0 }, copied_sum = 0;
	pthread_t pressure[THREADS_MAX];

	for (uint32_t i = 0; i < options->pressure_count; i++)
		if (pthread_create(&pressure[i], NULL, pressure_main, &copied_bytes[i]) != 0)
			die("a thread", -EAGAIN);
	for (uint32_t i = 0; i < options->thread_count; i++) {
		struct peer *peer = &servers[i].peer;

		servers[i].ops = ops;
		peer->data = data;
		peer->wanted_count = options->write_count;
		peer->latencies_ns = must(calloc(options->write_count, sizeof(uint64_t)));
		(void)pthread_mutex_init(&peer->lock, NULL);
		(void)pthread_cond_init(&peer->is_open_cond, NULL);
		if (pthread_create(&servers[i].thread, NULL, server_main, &servers[i]) != 0)
			die("a thread", -EAGAIN);
	}
	for (uint32_t i = 0; i < options->thread_count; i++)
		(void)pthread_join(servers[i].thread, NULL);
	is_pressure_over = true;
	for (uint32_t i = 0; i < options->pressure_count; i++) {
		(void)pthread_join(pressure[i], NULL);
		copied_sum += copied_bytes[i];
	}
	report(ops, options, servers, copied_sum);
	for (uint32_t i = 0; i < options->thread_count; i++)
		free(servers[i].peer.latencies_ns);
	free(servers);
}

int
design_main(int argc, char **argv, const struct design_ops *ops)
{
	struct options options = { .write_count = 20000, .thread_count = 1 };
	static struct data data;
	int first = options_read(argc, argv, &options);

	if (first >= argc) {
		(void)fprintf(stderr,
		    "usage: %s [--writes N] [--threads 1..%u] [--pressure 0..%u] FILE...\n",
		    argv[0], THREADS_MAX, THREADS_MAX);
		return 2;
	}
	data_read(&data, argv + first, argc - first);
	run(ops, &options, &data);
	free(data.blocks);
	return 0;
}
