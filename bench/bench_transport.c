/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_transport -- what does a message cost on loopback, alone and in company?
 *
 *	bench_transport [--messages N] [--passes N]
 *
 * A client thread sends requests to a server thread, each with a loop and a port of its own, over
 * tcp://127.0.0.1; the server answers each with a header. Candidates differ in how many requests are
 * in flight and in what they carry. One message in flight is the case without batching: each costs
 * its system calls and wake-ups alone.
 *
 * Output: a JSON array, one object a candidate, medians of the passes. CPU times are of one thread,
 * for one request received and one answer sent (server), or the reverse (client).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/config.h"
#include "base/num.h"
#include "cleave/split.h"

#define DEPTH_MAX 256u
#define PASSES_MAX 25u
#define MESSAGES_DEFAULT 200000u
#define PASSES_DEFAULT 5u
#define PAYLOAD_ARENA_BYTES NUM_MIB(16)

struct candidate {
	const char *name;
	uint32_t depth;
	uint32_t payload_bytes;
	uint32_t other_payload_bytes; /* of every third message, at random */
	uint32_t message_divisor;     /* fewer, where each is dear */
};

static const struct candidate candidates[] = {
	{ "4k_depth_1", 1, 4096, 4096, 8 },
	{ "4k_depth_8", 8, 4096, 4096, 2 },
	{ "4k_depth_64", 64, 4096, 4096, 1 },
	{ "4k_depth_256", 256, 4096, 4096, 1 },
	{ "header_only_depth_64", 64, 0, 0, 1 },
	{ "4k_and_0_mixed_depth_64", 64, 4096, 0, 2 },
	{ "64k_depth_64", 64, 65536, 65536, 8 },
};

struct result {
	double seconds, client_cpu_us, server_cpu_us, messages_per_call, spill_share;
};

struct client_slot {
	struct split_send send;
	struct wire_header header;
	struct dev_piece piece;
};

struct server {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t is_open;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct loop *loop;
	double cpu_s;
	struct split_counters counters;
};

struct client {
	const struct candidate *candidate;
	struct loop *loop;
	struct split_qp *qp;
	struct client_slot slots[DEPTH_MAX];
	uint64_t sent_count, done_count, wanted_count;
};

static double
clock_s(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now); /* these clocks exist */
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
die(const char *what, int rc)
{
	fprintf(stderr, "bench_transport: %s: %s\n", what, strerror(-rc));
	exit(1);
}

/* The server. */

static void
server_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	(void)arg;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = { .opcode = WIRE_ECHO | WIRE_REPLY,
			.request_id = msgs[i]->header->request_id };

		split_msg_reply(msgs[i], &header, NULL, 0, NULL, NULL);
	}
}

static void
server_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct server *server = arg;

	(void)qp;
	(void)rc;
	(void)reason;
	loop_stop(server->loop);
}

static const struct split_qp_ops server_ops = {
	.on_messages = server_on_messages,
	.on_closed = server_on_closed,
};

static void
server_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	split_qp_accept(qp, &server_ops, arg, NULL, 0);
}

static struct split_port *
bench_port(struct loop *loop)
{
	struct split_port_options options = { .loop = loop,
		.receive_count = 1024,
		.receive_payload_bytes = 65536,
		.qp_credits_max = 2 * DEPTH_MAX,
		.device_bytes = NUM_MIB(128) };
	struct split_port *port = open_roce_instance(&options);

	if (port == NULL)
		die("open_roce_instance", -errno);
	return port;
}

static void *
server_main(void *arg)
{
	struct server *server = arg;
	struct split_port *port;
	double start_s;
	int rc;

	server->loop = loop_ev_create(1);
	port = bench_port(server->loop);
	(void)pthread_mutex_lock(&server->lock);
	rc = split_listen(port, "tcp://127.0.0.1:0", server_on_accept, server, server->address);
	(void)pthread_cond_signal(&server->is_open);
	(void)pthread_mutex_unlock(&server->lock);
	if (rc != 0)
		die("split_listen", rc);
	start_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
	(void)loop_run(server->loop, NULL, NULL);
	server->cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - start_s;
	server->counters = *split_port_counters(port);
	split_port_close(port);
	loop_destroy(server->loop);
	return NULL;
}

/* The client. */

static void
client_on_sent(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)arg;
	if (rc != 0)
		die("send", rc);
}

static void
client_send(struct client *client, uint64_t slot_index)
{
	struct client_slot *slot = &client->slots[slot_index];
	bool is_other = loop_random_below(client->loop, 3) == 0;
	int rc;

	slot->piece.bytes = is_other ? client->candidate->other_payload_bytes
				     : client->candidate->payload_bytes;
	slot->header = (struct wire_header){ .opcode = WIRE_ECHO, .request_id = slot_index };
	slot->send = (struct split_send){ .header = &slot->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &slot->piece,
		.piece_count = slot->piece.bytes > 0 ? 1 : 0,
		.fn = client_on_sent };
	rc = split_send(client->qp, &slot->send);
	if (rc != 0)
		die("split_send", rc);
	client->sent_count++;
}

static void
client_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct client *client = arg;

	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t slot_index = msgs[i]->header->request_id;

		split_msg_release(msgs[i]);
		client->done_count++;
		if (client->sent_count < client->wanted_count)
			client_send(client, slot_index);
	}
	if (client->done_count == client->wanted_count)
		loop_stop(client->loop);
}

static void
client_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)arg;
	if (rc != 0) {
		fprintf(stderr, "bench_transport: %s\n", reason);
		exit(1);
	}
}

static const struct split_qp_ops client_ops = {
	.on_messages = client_on_messages,
	.on_closed = client_on_closed,
};

static void
client_run(struct client *client, struct result *result)
{
	double start_s = clock_s(CLOCK_MONOTONIC), cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID);

	for (uint64_t i = 0; i < client->candidate->depth && i < client->wanted_count; i++)
		client_send(client, i);
	(void)loop_run(client->loop, NULL, NULL);
	result->seconds = clock_s(CLOCK_MONOTONIC) - start_s;
	result->client_cpu_us = (clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu_s) * 1e6 /
	    (double)client->wanted_count;
}

static void
server_start(struct server *server)
{
	(void)pthread_mutex_lock(&server->lock);
	if (pthread_create(&server->thread, NULL, server_main, server) != 0)
		die("pthread_create", -EAGAIN);
	while (server->address[0] == '\0')
		(void)pthread_cond_wait(&server->is_open, &server->lock);
	(void)pthread_mutex_unlock(&server->lock);
}

static void
pass_run(const struct candidate *candidate, uint64_t message_count, struct result *result)
{
	struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER,
		.is_open = PTHREAD_COND_INITIALIZER };
	static struct client client;
	struct split_connect_options options = { .address = server.address,
		.ops = &client_ops,
		.arg = &client };
	struct split_port *port;
	dev_ptr payload;

	server_start(&server);
	client = (struct client){ .candidate = candidate, .wanted_count = message_count };
	client.loop = loop_ev_create(1);
	port = bench_port(client.loop);
	payload = dev_alloc(port, PAYLOAD_ARENA_BYTES);
	for (uint32_t i = 0; i < DEPTH_MAX; i++)
		client.slots[i].piece.ptr =
		    dev_ptr_add(payload, (uint64_t)i * (PAYLOAD_ARENA_BYTES / DEPTH_MAX));
	client.qp = connect_qp(port, &options);
	if (client.qp == NULL || dev_wait_ready(client.qp) != 0)
		die("connect_qp", -errno);
	client_run(&client, result);
	split_port_close(port);
	loop_destroy(client.loop);
	(void)pthread_join(server.thread, NULL);
	result->server_cpu_us = server.cpu_s * 1e6 / (double)message_count;
	result->messages_per_call = (double)server.counters.messages_in /
	    (double)server.counters.receive_calls;
	result->spill_share = (double)server.counters.spill_bytes /
	    (double)(server.counters.host_bytes_in + server.counters.device_bytes_in);
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median_of(const struct result *results, uint32_t count, size_t offset)
{
	double values[PASSES_MAX];

	for (uint32_t i = 0; i < count; i++)
		memcpy(&values[i], (const uint8_t *)&results[i] + offset, sizeof(double));
	qsort(values, count, sizeof(values[0]), compare_doubles);
	return values[count / 2];
}

static void
candidate_run(const struct candidate *candidate, uint64_t messages, uint32_t passes, bool is_last)
{
	struct result results[PASSES_MAX];
	uint64_t count = num_max(messages / candidate->message_divisor, 1);

	for (uint32_t i = 0; i < passes; i++)
		pass_run(candidate, count, &results[i]);
#define MEDIAN(member) median_of(results, passes, offsetof(struct result, member))
	printf("  {\"candidate\": \"%s\", \"in_flight\": %u, \"payload_bytes\": %u, "
	       "\"messages_per_s\": %.0f, \"client_cpu_us_per_message\": %.3f, "
	       "\"server_cpu_us_per_message\": %.3f, \"messages_per_receive_call\": %.1f, "
	       "\"spilled_share\": %.4f}%s\n",
	    candidate->name, candidate->depth, candidate->payload_bytes,
	    (double)count / MEDIAN(seconds), MEDIAN(client_cpu_us), MEDIAN(server_cpu_us),
	    MEDIAN(messages_per_call), MEDIAN(spill_share), is_last ? "" : ",");
#undef MEDIAN
	(void)fflush(stdout);
}

int
main(int argc, char **argv)
{
	uint64_t messages = MESSAGES_DEFAULT, passes = PASSES_DEFAULT;

	for (int i = 1; i < argc; i += 2) {
		uint64_t *value = strcmp(argv[i], "--messages") == 0 ? &messages
		    : strcmp(argv[i], "--passes") == 0               ? &passes
								     : NULL;

		if (value == NULL || i + 1 == argc || config_parse_u64(argv[i + 1], value) != 0 ||
		    *value == 0 || passes > PASSES_MAX) {
			fprintf(stderr, "usage: bench_transport [--messages N] [--passes N<=%u]\n",
			    PASSES_MAX);
			return 2;
		}
	}
	printf("[\n");
	for (size_t i = 0; i < NUM_COUNT(candidates); i++)
		candidate_run(&candidates[i], messages, (uint32_t)passes,
		    i + 1 == NUM_COUNT(candidates));
	printf("]\n");
	return 0;
}
