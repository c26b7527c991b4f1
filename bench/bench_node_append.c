/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_node_append.c -- what one storage node does: durable appends, and a start
 *
 * Question: how many appends a second does a node make durable, how long does one take, what does it
 * cost the node's thread, and how long does a start take that has to follow the log?
 *
 *	bench_node_append FOLDER [SECONDS [volatile|protected [RECORD_BYTES IN_FLIGHT [gather]]]]
 *
 * With the last two: one row of appends of one record each, and one of 4 KiB reads of what they wrote,
 * both so many in flight, on a file that was written all over before, as a benchmark of the file is. With gather also
 * a row each of 1, 2, 4, 8 and 16 records here and there in one request, and one of 64 KiB in one piece.
 *
 * A node on a thread of its own, on a fresh file in FOLDER, through TCP on loopback. One connection
 * keeps a number of appends in flight, spread over four log extents; a full extent is sealed and
 * deleted, and a new one made. Prints JSON.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../storage-node/disk/disk_uring.h"
#include "../storage-node/node.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/gather.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "format/format_pages.h"

#define DISK_BYTES NUM_GIB(2)
#define EXTENTS 4u
#define DEPTH_MAX 256u
#define SAMPLES_MAX 2000000u
#define CLUSTER_ID 1u
#define DESC_BYTES (BATCH_DESC_FIXED_BYTES + 4u)

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "bench_node_append: %s, line %d\n", #condition,      \
			    __LINE__);                                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- the node, on its thread ---- */

struct server {
	const char *path;
	bool is_protected, is_filled;
	pthread_t thread;
	pthread_barrier_t ready;
	struct loop *loop;
	struct node *node;
	uint64_t start_ns, ready_ns;
	struct loop_post stop_post;
	struct loop_post usage_post;
	pthread_barrier_t usage_done;
	struct rusage usage;
	struct disk *disk;
	uint64_t enters;
};

static uint64_t
now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail with this clock */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void
server_on_ready(struct node *node, int rc, const char *reason, void *arg)
{
	struct server *server = arg;

	(void)node;
	if (rc != 0)
		(void)fprintf(stderr, "%s\n", reason);
	MUST(rc == 0);
	server->ready_ns = now_ns();
	(void)pthread_barrier_wait(&server->ready);
}

static void
server_on_stopped(struct node *node, int rc, void *arg)
{
	struct server *server = arg;

	(void)node;
	MUST(rc == 0);
	loop_stop(server->loop);
}

static void
server_on_stop_post(struct loop_post *post, void *arg)
{
	struct server *server = arg;

	(void)post;
	node_stop(server->node, server_on_stopped, server);
}

static void
server_on_usage_post(struct loop_post *post, void *arg)
{
	struct server *server = arg;

	(void)post;
	MUST(getrusage(RUSAGE_THREAD, &server->usage) == 0);
	server->enters = disk_uring_counters(server->disk)->enters_count;
	(void)pthread_barrier_wait(&server->usage_done);
}

static void *
server_run(void *arg)
{
	struct server *server = arg;
	struct node_options options = { .listen = "tcp://127.0.0.1:0",
		.write_cache = server->is_protected ? NODE_CACHE_PROTECTED : NODE_CACHE_VOLATILE,
		.must_prewrite = !server->is_filled,
		.on_ready = server_on_ready,
		.arg = server };

	server->loop = options.loop = loop_ev_create(1);
	MUST(server->loop != NULL);
	MUST(disk_uring_open(server->loop, &(struct disk_uring_options){ .path = server->path },
		 &options.disk) == 0);
	server->disk = options.disk;
	server->node = node_create(&options);
	MUST(server->node != NULL);
	server->start_ns = now_ns();
	node_start(server->node);
	(void)loop_run(server->loop, NULL, NULL);
	node_destroy(server->node);
	loop_destroy(server->loop);
	return NULL;
}

static void
server_start(struct server *server)
{
	MUST(pthread_barrier_init(&server->ready, NULL, 2) == 0);
	MUST(pthread_barrier_init(&server->usage_done, NULL, 2) == 0);
	MUST(pthread_create(&server->thread, NULL, server_run, server) == 0);
	(void)pthread_barrier_wait(&server->ready);
}

static void
server_stop(struct server *server)
{
	server->stop_post = (struct loop_post){ .fn = server_on_stop_post, .arg = server };
	loop_post(server->loop, &server->stop_post);
	MUST(pthread_join(server->thread, NULL) == 0);
}

static uint64_t
server_cpu_ns(struct server *server)
{
	const struct rusage *usage = &server->usage;

	server->usage_post = (struct loop_post){ .fn = server_on_usage_post, .arg = server };
	loop_post(server->loop, &server->usage_post);
	(void)pthread_barrier_wait(&server->usage_done);
	return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NUM_S(1) +
	    (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000u;
}

static int
format_put(void *arg, uint64_t offset_bytes, const void *page)
{
	return pwrite(*(int *)arg, page, DISK_ALIGN, (off_t)offset_bytes) == (ssize_t)DISK_ALIGN
	    ? 0
	    : -EIO;
}

/* The blocks that a file system has reserved become written ones. */
static void
disk_fill(int fd)
{
	static uint8_t zeros[1 << 20];

	for (uint64_t at = 0; at < DISK_BYTES; at += sizeof(zeros))
		MUST(pwrite(fd, zeros, sizeof(zeros), (off_t)at) == (ssize_t)sizeof(zeros));
}

static void
disk_make(const char *path, bool is_filled)
{
	struct node_format format = { .capacity_bytes = DISK_BYTES,
		.cluster_id = CLUSTER_ID,
		.node_id = 1,
		.disk_uuid = { 1 } };
	char reason[FORMAT_REASON_BYTES_MAX];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	MUST(fd >= 0);
	MUST(posix_fallocate(fd, 0, (off_t)DISK_BYTES) == 0);
	if (is_filled)
		disk_fill(fd);
	MUST(node_format(&format, format_put, &fd, reason) == 0);
	MUST(fsync(fd) == 0 && close(fd) == 0);
}

/* ---- the client ---- */

struct client_extent {
	struct extent_id id;
	bool is_open;
	uint64_t end_bytes, acked_bytes;
	uint64_t incarnation;
	uint32_t end_crc;
	uint32_t in_flight_count;
};

struct call {
	struct split_send send;
	struct client_extent *extent;
	uint64_t sent_ns;
	bool is_append, is_read, is_sent, is_answered, is_used;
	struct dev_piece pieces[2];
	uint8_t head[16384] __attribute__((aligned(64)));
};

struct client {
	struct loop *loop;
	struct split_port *port;
	struct split_qp *qp;
	bool is_ready;
	struct client_extent extents[EXTENTS];
	uint64_t counter;
	uint64_t random_state[4];
	struct call calls[DEPTH_MAX + EXTENTS];
	dev_ptr payload, zeros;
	uint32_t payload_crc;
	uint32_t blocks, depth; /* records an append; requests in flight */
	uint32_t record_bytes;  /* stored */
	bool is_reading;
	uint32_t stretch_count; /* is_reading: of a GATHER; 0: it is a READ */
	uint32_t read_bytes;    /* that it asks for */
	uint32_t next_extent;
	uint64_t until_ns;
	uint64_t sample_count;
	uint32_t *samples; /* ns */
	uint64_t bytes;
	bool is_over;
	uint32_t in_flight_count;
};

static void client_pump(struct client *client);

static void
client_try_free(struct client *client, struct call *call)
{
	if (!call->is_sent || !call->is_answered)
		return;
	call->is_used = false;
	client->in_flight_count--;
}

static void
client_on_sent(struct split_send *send, int rc, void *arg)
{
	struct client *client = arg;
	struct call *call = NUM_CONTAINER_OF(send, struct call, send);

	MUST(rc == 0);
	call->is_sent = true;
	client_try_free(client, call);
}

static struct call *
client_call(struct client *client, const struct wire_node *wire)
{
	struct wire_node request = *wire;
	uint32_t i = 0;

	while (client->calls[i].is_used)
		i++;
	MUST(i < DEPTH_MAX + EXTENTS);
	client->in_flight_count++;
	client->calls[i].is_used = true;
	client->calls[i].is_sent = client->calls[i].is_answered = false;
	client->calls[i].is_append = wire->opcode == WIRE_EXTENT_APPEND;
	client->calls[i].is_read = wire->opcode == WIRE_EXTENT_READ ||
	    wire->opcode == WIRE_EXTENT_GATHER;
	client->calls[i].sent_ns = now_ns();
	request.request_id = i;
	wire_node_encode((struct wire_header *)client->calls[i].head, &request);
	client->calls[i].send =
	    (struct split_send){ .header = (struct wire_header *)client->calls[i].head,
		    .header_bytes = WIRE_HEADER_BYTES,
		    .pieces = client->calls[i].pieces,
		    .fn = client_on_sent,
		    .arg = client };
	return &client->calls[i];
}

static void
client_simple(struct client *client, struct client_extent *extent, enum wire_opcode opcode)
{
	struct wire_node request = { .opcode = opcode,
		.id = extent->id,
		.kind = EXTENT_LOG,
		.epoch = 1 };
	struct call *call;

	if (opcode == WIRE_EXTENT_TRUNCATE)
		request.offset_bytes = extent->end_bytes;
	else if (opcode == WIRE_EXTENT_DELETE)
		request.offset_bytes = extent->incarnation;
	call = client_call(client, &request);
	call->extent = extent;
	MUST(split_send(client->qp, &call->send) == 0);
}

static void
client_append(struct client *client, struct client_extent *extent)
{
	uint32_t desc_bytes = client->blocks * DESC_BYTES;
	struct batch_info info = { .id = extent->id,
		.kind = EXTENT_LOG,
		.record_count = client->blocks,
		.offset_bytes = extent->end_bytes,
		.mark_bytes = extent->acked_bytes,
		.prev_crc = extent->end_crc,
		.desc_bytes = desc_bytes,
		.used_bytes = BATCH_HEADER_BYTES + desc_bytes +
		    client->blocks * client->record_bytes };
	struct call *call;
	uint8_t *head;

	info.batch_bytes = (uint32_t)num_round_up(info.used_bytes, BATCH_ALIGN);
	call = client_call(client,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.id = extent->id,
		.kind = EXTENT_LOG,
		.epoch = 1,
		.offset_bytes = extent->end_bytes,
		.length_bytes = info.batch_bytes });
	call->extent = extent;
	head = call->head + WIRE_HEADER_BYTES;
	for (uint32_t i = 0; i < client->blocks; i++) {
		struct record_desc record = { .kind = RECORD_WRITE,
			.codec_id = client->record_bytes < 4096 ? ENGINE_LZ4 : ENGINE_NONE,
			.stored_bytes = client->record_bytes,
			.block = i,
			.block_count = 1,
			.stored_crc = client->payload_crc,
			.block_crcs = { client->payload_crc } };

		(void)record_encode(head + BATCH_HEADER_BYTES + i * DESC_BYTES, &record);
	}
	batch_head_encode(head, &info);
	call->send.header_bytes += BATCH_HEADER_BYTES + desc_bytes;
	call->pieces[0] =
	    (struct dev_piece){ client->payload, client->blocks * client->record_bytes };
	call->pieces[1] = (struct dev_piece){ client->zeros, info.batch_bytes - info.used_bytes };
	call->send.piece_count = call->pieces[1].bytes > 0 ? 2 : 1;
	extent->end_bytes += info.batch_bytes;
	extent->end_crc = info.batch_crc;
	extent->in_flight_count++;
	MUST(split_send(client->qp, &call->send) == 0);
}

/* read_bytes somewhere in what is durable, from a block on. */
static void
client_read(struct client *client, struct client_extent *extent)
{
	uint64_t block = random_below(client->random_state,
	    (extent->acked_bytes - client->read_bytes) / 4096 + 1);
	struct call *call = client_call(client,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.kind = EXTENT_LOG,
		.epoch = 1,
		.offset_bytes = block * 4096,
		.length_bytes = client->read_bytes });

	call->extent = extent;
	call->send.piece_count = 0;
	MUST(split_send(client->qp, &call->send) == 0);
}

/* As many bytes as a record has, here and there: one stretch in each part of what is durable, of as many parts. */
static void
client_gather(struct client *client, struct client_extent *extent)
{
	uint32_t count = client->stretch_count;
	uint64_t part_bytes = extent->acked_bytes / count;
	struct wire_stretch stretches[WIRE_GATHER_MAX];
	struct call *call = client_call(client,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_GATHER,
		.id = extent->id,
		.epoch = 1,
		.length_bytes = client->read_bytes,
		.stretch_count = (uint16_t)count });

	for (uint32_t i = 0; i < count; i++)
		stretches[i] = (struct wire_stretch){
			.offset_bytes = (uint32_t)(i * part_bytes +
			    random_below(client->random_state, part_bytes - client->record_bytes)),
			.length_bytes = client->record_bytes,
		};
	wire_gather_encode(call->head + WIRE_HEADER_BYTES, stretches, count);
	call->extent = extent;
	call->send.header_bytes += count * WIRE_STRETCH_BYTES;
	call->send.piece_count = 0;
	MUST(split_send(client->qp, &call->send) == 0);
}

/* Does the extent hold enough for a request? */
static bool
client_may_read(const struct client *client, const struct client_extent *extent)
{
	return extent->acked_bytes >= 2 * num_max(client->read_bytes, client->stretch_count * 4096);
}

static void
extent_renew(struct client *client, struct client_extent *extent)
{
	extent->is_open = false;
	extent->id = (struct extent_id){ 1, 1, ++client->counter };
	extent->end_bytes = extent->acked_bytes = 0;
	extent->end_crc = batch_chain_seed(&extent->id, EXTENT_LOG);
	client_simple(client, extent, WIRE_EXTENT_CREATE);
}

static uint32_t
append_bytes(const struct client *client)
{
	return (uint32_t)num_round_up(BATCH_HEADER_BYTES +
		client->blocks * (DESC_BYTES + client->record_bytes),
	    BATCH_ALIGN);
}

static void
client_pump(struct client *client)
{
	uint32_t tries = 0;

	client->is_over = now_ns() >= client->until_ns;
	while (!client->is_over && client->in_flight_count < client->depth && tries < EXTENTS) {
		struct client_extent *extent = &client->extents[client->next_extent++ % EXTENTS];

		tries++;
		if (!extent->is_open)
			continue;
		if (client->is_reading) {
			if (!client_may_read(client, extent))
				continue;
			if (client->stretch_count > 0)
				client_gather(client, extent);
			else
				client_read(client, extent);
			tries = 0;
			continue;
		}
		if (extent->end_bytes + append_bytes(client) > NUM_MIB(64) - 12288) {
			if (extent->in_flight_count == 0) {
				extent->is_open = false;
				client_simple(client, extent, WIRE_EXTENT_TRUNCATE);
			}
			continue;
		}
		client_append(client, extent);
		tries = 0;
	}
}

static void
client_on_reply(struct client *client, const struct wire_header *header)
{
	struct call *call = &client->calls[header->request_id];
	struct client_extent *extent = call->extent;

	MUST(header->status == 0);
	if (call->is_append || call->is_read) {
		uint64_t ns = now_ns() - call->sent_ns;

		if (call->is_append) {
			extent->in_flight_count--;
			extent->acked_bytes = header->offset_bytes;
		}
		client->bytes += call->is_append ? append_bytes(client) : client->read_bytes;
		if (client->sample_count < SAMPLES_MAX)
			client->samples[client->sample_count++] = (uint32_t)ns;
	} else if (header->opcode == (WIRE_EXTENT_CREATE | WIRE_REPLY)) {
		extent->incarnation = header->offset_bytes;
		extent->is_open = true;
	} else if (header->opcode == (WIRE_EXTENT_TRUNCATE | WIRE_REPLY)) {
		client_simple(client, extent, WIRE_EXTENT_DELETE);
	} else {
		extent_renew(client, extent);
	}
	call->is_answered = true;
	client_try_free(client, call);
}

static void
client_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		client_on_reply(arg, msgs[i]->header);
		split_msg_release(msgs[i]);
	}
	client_pump(arg);
}

static void
client_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)qp;
	(void)hello;
	(void)hello_bytes;
	((struct client *)arg)->is_ready = true;
}

static void
client_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)reason;
	(void)arg;
	MUST(rc == 0);
}

static const struct split_qp_ops client_ops = { .on_ready = client_on_ready,
	.on_messages = client_on_messages,
	.on_closed = client_on_closed };

static bool
client_is_ready(void *arg)
{
	const struct client *client = arg;
	bool is_ready = client->is_ready;

	for (uint32_t i = 0; i < EXTENTS && client->counter > 0; i++)
		is_ready = is_ready && client->extents[i].is_open;
	return is_ready;
}

static bool
client_is_done(void *arg)
{
	const struct client *client = arg;

	return client->is_over && client->in_flight_count == 0;
}

static void
client_open(struct client *client, const char *address)
{
	uint8_t hello[WIRE_HELLO_BYTES];
	struct split_port_options options = { .receive_count = 256,
		.receive_payload_bytes = 65536 };
	struct split_connect_options connect = { .address = address,
		.hello = hello,
		.hello_bytes = sizeof(hello),
		.ops = &client_ops,
		.arg = client };

	client->loop = options.loop = loop_ev_create(2);
	client->port = open_roce_instance(&options);
	MUST(client->port != NULL);
	client->payload = dev_alloc(client->port, 64 * 4096);
	client->zeros = dev_alloc(client->port, 4096);
	{
		static uint8_t block[64 * 4096];

		for (size_t i = 0; i < 4096; i++)
			block[i] = (uint8_t)(i * 7 + i / 256);
		for (size_t i = 1; i < 64; i++)
			memcpy(block + i * 4096, block, 4096);
		client->payload_crc = crc32c(0, block, client->record_bytes);
		dev_copy_from_host(client->port, client->payload, block, sizeof(block));
		memset(block, 0, 4096);
		dev_copy_from_host(client->port, client->zeros, block, 4096);
	}
	wire_hello_encode(hello,
	    &(struct wire_hello){ .role = WIRE_ROLE_GATEWAY, .cluster_id = CLUSTER_ID });
	client->qp = connect_qp(client->port, &connect);
	MUST(client->qp != NULL);
	MUST(loop_run(client->loop, client_is_ready, client) == 0);
	for (uint32_t i = 0; i < EXTENTS; i++)
		extent_renew(client, &client->extents[i]);
	MUST(loop_run(client->loop, client_is_ready, client) == 0);
}

static int
by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double
percentile_us(const struct client *client, double part)
{
	return client->samples[(uint64_t)(part * (double)(client->sample_count - 1))] / 1000.0;
}

static void
measure(struct client *client, struct server *server, uint32_t blocks, uint32_t depth,
    uint64_t seconds, bool is_first)
{
	struct node_counters before = *node_counters(server->node), after;
	uint64_t cpu_ns = server_cpu_ns(server), enters = server->enters, began_ns = now_ns();
	double elapsed_s;

	client->blocks = blocks;
	client->depth = depth;
	client->sample_count = client->bytes = 0;
	client->is_over = false;
	client->until_ns = began_ns + NUM_S(seconds);
	client_pump(client);
	MUST(loop_run(client->loop, client_is_done, client) == 0);
	elapsed_s = (double)(now_ns() - began_ns) / 1e9;
	cpu_ns = server_cpu_ns(server) - cpu_ns;
	enters = server->enters - enters;
	after = *node_counters(server->node);
	MUST(client->sample_count > 0);
	qsort(client->samples, client->sample_count, sizeof(uint32_t), by_value);
	(void)printf(
	    "%s\n    {\"request\": \"%s\", \"bytes\": %u, \"in_flight\": %u, \"per_s\": %.0f, "
	    "\"mib_per_s\": %.1f, \"latency_us_p50\": %.1f, \"latency_us_p99\": %.1f, "
	    "\"node_cpu_us\": %.2f, \"appends_per_write\": %.2f, "
	    "\"appends_per_flush\": %.2f, \"ring_enters\": %.2f}",
	    is_first ? "" : ",",
	    !client->is_reading              ? "append"
		: client->stretch_count == 0 ? "read"
					     : "gather",
	    client->is_reading ? client->read_bytes : append_bytes(client), depth,
	    (double)client->sample_count / elapsed_s, (double)client->bytes / elapsed_s / 1048576.0,
	    percentile_us(client, 0.5), percentile_us(client, 0.99),
	    (double)cpu_ns / 1e3 / (double)client->sample_count,
	    (double)client->sample_count / (double)num_max(1, after.writes - before.writes),
	    (double)client->sample_count / (double)num_max(1, after.flushes - before.flushes),
	    (double)enters / (double)client->sample_count);
	(void)fflush(stdout);
}

static void
measure_all(struct client *client, struct server *server, uint64_t seconds)
{
	static const uint32_t blocks[] = { 1, 14, 60 };
	static const uint32_t depths[] = { 1, 8, 32 };

	for (size_t b = 0; b < NUM_COUNT(blocks); b++)
		for (size_t d = 0; d < NUM_COUNT(depths); d++)
			measure(client, server, blocks[b], depths[d], seconds, b + d == 0);
}

static void
measure_one(struct client *client, struct server *server, uint32_t depth, uint64_t seconds)
{
	measure(client, server, 1, depth, seconds, true);
	client->is_reading = true;
	client->read_bytes = 4096;
	measure(client, server, 1, depth, seconds, false);
}

static void
measure_gathers(struct client *client, struct server *server, uint32_t depth, uint64_t seconds)
{
	for (uint32_t count = 1; count <= WIRE_GATHER_MAX; count *= 2) {
		client->stretch_count = count;
		client->read_bytes = count * client->record_bytes;
		measure(client, server, 1, depth, seconds, false);
	}
	client->stretch_count = 0;
	client->read_bytes = 65536;
	measure(client, server, 1, depth, seconds, false);
}

int
main(int argc, char *argv[])
{
	static struct client client = { .record_bytes = 4096 };
	struct server server = { .is_protected = argc > 3 && strcmp(argv[3], "protected") == 0,
		.is_filled = argc > 5 };
	uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 3;
	uint32_t depth = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0;
	char path[4096];

	if (argc > 5)
		client.record_bytes = (uint32_t)strtoul(argv[4], NULL, 10);
	if (argc < 2 || argc == 5 || depth > DEPTH_MAX || client.record_bytes - 1 >= 4096) {
		(void)fprintf(stderr,
		    "bench_node_append FOLDER [SECONDS [volatile|protected [RECORD_BYTES "
		    "IN_FLIGHT [gather]]]]\n");
		return 2;
	}
	log_set_level(LOG_WARN);
	random_seed(client.random_state, 1);
	(void)snprintf(path, sizeof(path), "%s/bench_node_append.disk", argv[1]);
	disk_make(path, server.is_filled);
	server.path = path;
	client.samples = malloc(SAMPLES_MAX * sizeof(uint32_t));
	MUST(client.samples != NULL);
	server_start(&server);
	client_open(&client, node_address(server.node));
	(void)printf("{\"benchmark\": \"node_append\", \"write_cache\": \"%s\", \"runs\": [",
	    server.is_protected ? "protected" : "volatile");
	if (depth != 0)
		measure_one(&client, &server, depth, seconds);
	else
		measure_all(&client, &server, seconds);
	if (argc > 6 && strcmp(argv[6], "gather") == 0)
		measure_gathers(&client, &server, depth, seconds);
	split_port_close(client.port);
	loop_destroy(client.loop);
	server_stop(&server);
	server_start(&server); /* the open extents are followed */
	(void)printf("\n  ], \"start_ms\": %.1f, \"start_log_bytes\": %llu}\n",
	    (double)(server.ready_ns - server.start_ns) / 1e6,
	    (unsigned long long)node_counters(server.node)->recovered_bytes);
	server_stop(&server);
	(void)unlink(path);
	free(client.samples);
	return 0;
}
