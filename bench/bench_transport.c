/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_transport -- what does a message cost, alone and in company?
 *
 *	bench_transport [--address ADDR] [--sizes LIST] [--in-flight LIST] [--messages N] [--passes N]
 *		[--warm N] [--key FILE [--security seal|sign|open]]
 *
 * A client thread sends requests to a server thread, each with a loop and a port of its own, over
 * tcp://127.0.0.1 or where --address says (verbs://10.77.0.1:0); the server answers each with a header.
 * Candidates differ in how many requests are in flight and in what they carry. One message in flight is
 * the case without batching: each costs its system calls and wake-ups alone.
 *
 * With --sizes and --in-flight, one candidate for each pair of the two. A size counts all of a message,
 * its 64 bytes of header too, as perftest's do; more than 256 KiB travels as several messages, and
 * counts as one.
 *
 * Before a pass is timed, --warm messages go the same way (none).
 *
 * With --key both ports have that key, and all of it is sealed, or as --security says.
 *
 * Output: a JSON array, one object a candidate, medians of the passes. CPU times are of one thread,
 * for one request received and one answer sent (server), or the reverse (client). Latencies are from
 * the call of split_send to the answer's handler.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/config_value.h"
#include "base/num.h"
#include "cleave/split.h"

#define DEPTH_MAX 512u
#define LIST_MAX 16u
#define SIZE_MAX_BYTES (4u << 20)
#define LATENCIES_MAX 65536u
#define PASSES_MAX 25u
#define MESSAGES_DEFAULT 200000u
#define PASSES_DEFAULT 5u
#define PAYLOAD_ARENA_BYTES NUM_MIB(16)
#define PAYLOAD_PLACES (PAYLOAD_ARENA_BYTES / WIRE_PAYLOAD_BYTES_MAX)
#define RECEIVES_SPARE 64u

struct candidate {
	const char *name;
	uint32_t depth;
	uint32_t payload_bytes;
	uint32_t other_payload_bytes; /* of every third message, at random */
	uint32_t message_divisor;     /* fewer, where each is dear */
	uint32_t parts;               /* messages that are one; 0: one */
};

static const struct candidate candidates[] = {
	{ "4k_depth_1", 1, 4096, 4096, 8, 1 },
	{ "4k_depth_8", 8, 4096, 4096, 2, 1 },
	{ "4k_depth_64", 64, 4096, 4096, 1, 1 },
	{ "4k_depth_256", 256, 4096, 4096, 1, 1 },
	{ "header_only_depth_64", 64, 0, 0, 1, 1 },
	{ "4k_and_0_mixed_depth_64", 64, 4096, 0, 2, 1 },
	{ "64k_depth_64", 64, 65536, 65536, 8, 1 },
};

struct result {
	double seconds, client_cpu_us, server_cpu_us, messages_per_call, spill_share;
	double latency_us_p50, latency_us_p99;
};

struct bench_options {
	const char *address;
	uint64_t sizes[LIST_MAX], depths[LIST_MAX];
	uint32_t size_count, depth_count;
	uint64_t messages, passes, warm;
	struct split_key *key;
	enum split_security security;
};
static struct bench_options bench = { .address = "tcp://127.0.0.1:0",
	.messages = MESSAGES_DEFAULT,
	.passes = PASSES_DEFAULT };

struct client_slot {
	struct split_send send;
	struct wire_header header;
	struct dev_piece piece;
	double sent_s;
};

struct server {
	const struct candidate *candidate;
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
	double latencies_s[LATENCIES_MAX]; /* of the first ones */
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

/* Room for what is in flight, and to guess (tcp_receive.c); no more, since it may have to be locked. */
static struct split_port *
bench_port(struct loop *loop, const struct candidate *candidate, bool is_server)
{
	uint32_t count = 4 * candidate->depth + RECEIVES_SPARE;
	uint32_t payload_bytes = is_server ? candidate->payload_bytes : 4096;
	struct split_port_options options = { .loop = loop,
		.receive_count = count,
		.key = bench.key,
		.security = bench.security,
		.receive_payload_bytes = payload_bytes > 4096 ? payload_bytes : 4096,
		.qp_credits_max = 2 * candidate->depth };

	options.device_bytes = (uint64_t)count *
		(num_round_up(options.receive_payload_bytes, 4096) + 4096) +
	    (is_server ? 0 : PAYLOAD_ARENA_BYTES) + NUM_MIB(1);
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
	port = bench_port(server->loop, server->candidate, true);
	(void)pthread_mutex_lock(&server->lock);
	rc = split_listen(port, bench.address, server_on_accept, server, server->address);
	(void)pthread_cond_signal(&server->is_open);
	(void)pthread_mutex_unlock(&server->lock);
	if (rc != 0)
		die(split_port_reason(port)[0] != '\0' ? split_port_reason(port) : "split_listen",
		    rc);
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
	slot->sent_s = clock_s(CLOCK_MONOTONIC);
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
		if (client->done_count < LATENCIES_MAX)
			client->latencies_s[client->done_count] = clock_s(CLOCK_MONOTONIC) -
			    client->slots[slot_index].sent_s;
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

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* @count messages, from the first that is sent to the last that is answered. */
static void
client_go(struct client *client, uint64_t count)
{
	client->sent_count = client->done_count = 0;
	client->wanted_count = count;
	for (uint64_t i = 0; i < client->candidate->depth && i < count; i++)
		client_send(client, i);
	(void)loop_run(client->loop, NULL, NULL);
}

static void
client_run(struct client *client, uint64_t message_count, struct result *result)
{
	double start_s, cpu_s;
	size_t latency_count;

	if (bench.warm > 0)
		client_go(client, bench.warm);
	start_s = clock_s(CLOCK_MONOTONIC);
	cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
	client_go(client, message_count);
	result->seconds = clock_s(CLOCK_MONOTONIC) - start_s;
	result->client_cpu_us = (clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu_s) * 1e6 /
	    (double)client->wanted_count;
	latency_count = (size_t)num_min(client->wanted_count, LATENCIES_MAX);
	qsort(client->latencies_s, latency_count, sizeof(client->latencies_s[0]), compare_doubles);
	result->latency_us_p50 = client->latencies_s[latency_count / 2] * 1e6;
	result->latency_us_p99 = client->latencies_s[latency_count * 99 / 100] * 1e6;
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
	struct server server = { .candidate = candidate,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.is_open = PTHREAD_COND_INITIALIZER };
	static struct client client;
	struct split_connect_options options = { .address = server.address,
		.ops = &client_ops,
		.arg = &client,
		.peer_roles = UINT32_MAX };
	struct split_port *port;
	dev_ptr payload;

	server_start(&server);
	memset(&client, 0, sizeof(client));
	client.candidate = candidate;
	client.loop = loop_ev_create(1);
	port = bench_port(client.loop, candidate, false);
	payload = dev_alloc(port, PAYLOAD_ARENA_BYTES);
	for (uint32_t i = 0; i < DEPTH_MAX; i++)
		client.slots[i].piece.ptr =
		    dev_ptr_add(payload, (uint64_t)i % PAYLOAD_PLACES * WIRE_PAYLOAD_BYTES_MAX);
	client.qp = connect_qp(port, &options);
	if (client.qp == NULL || dev_wait_ready(client.qp) != 0)
		die("connect_qp", -errno);
	client_run(&client, message_count, result);
	split_port_close(port);
	loop_destroy(client.loop);
	(void)pthread_join(server.thread, NULL);
	result->server_cpu_us = server.cpu_s * 1e6 / (double)(message_count + bench.warm);
	result->messages_per_call = (double)server.counters.messages_in /
	    (double)server.counters.receive_calls;
	result->spill_share = (double)server.counters.spill_bytes /
	    (double)(server.counters.host_bytes_in + server.counters.device_bytes_in);
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
	uint32_t parts = candidate->parts > 0 ? candidate->parts : 1;
	uint64_t count = num_max(messages / candidate->message_divisor, 1) * parts;
	uint64_t bytes = (uint64_t)parts * (WIRE_HEADER_BYTES + candidate->payload_bytes);
	double rate;

	for (uint32_t i = 0; i < passes; i++)
		pass_run(candidate, count, &results[i]);
#define MEDIAN(member) median_of(results, passes, offsetof(struct result, member))
	rate = (double)count / parts / MEDIAN(seconds);
	printf("  {\"candidate\": \"%s\", \"in_flight\": %u, \"payload_bytes\": %u, "
	       "\"message_bytes\": %" PRIu64 ", \"messages_per_s\": %.0f, "
	       "\"mib_per_s\": %.2f, \"latency_us_p50\": %.1f, \"latency_us_p99\": %.1f, "
	       "\"client_cpu_us_per_message\": %.3f, \"server_cpu_us_per_message\": %.3f, "
	       "\"messages_per_receive_call\": %.1f, \"spilled_share\": %.4f}%s\n",
	    candidate->name, candidate->depth / parts, candidate->payload_bytes, bytes, rate,
	    rate * (double)bytes / (double)NUM_MIB(1), MEDIAN(latency_us_p50),
	    MEDIAN(latency_us_p99), MEDIAN(client_cpu_us) * parts, MEDIAN(server_cpu_us) * parts,
	    MEDIAN(messages_per_call), MEDIAN(spill_share), is_last ? "" : ",");
#undef MEDIAN
	(void)fflush(stdout);
}

/* A message of @bytes, @depth of them in flight, as the library sends it. */
static struct candidate
candidate_make(uint64_t bytes, uint64_t depth, char name[64])
{
	uint64_t part_max = WIRE_HEADER_BYTES + WIRE_PAYLOAD_BYTES_MAX;
	uint32_t parts = (uint32_t)((bytes + part_max - 1) / part_max);
	uint32_t payload_bytes = (uint32_t)(bytes / parts) - WIRE_HEADER_BYTES;

	(void)snprintf(name, 64, "%" PRIu64 "_bytes_depth_%" PRIu64, bytes, depth);
	return (struct candidate){ .name = name,
		.depth = (uint32_t)depth * parts,
		.payload_bytes = payload_bytes,
		.other_payload_bytes = payload_bytes,
		.message_divisor = 1,
		.parts = parts };
}

/* "64,4096": numbers of @min to @max. */
static bool
list_parse(char *text, uint64_t min, uint64_t max, uint64_t list[LIST_MAX], uint32_t *ret_count)
{
	char *rest = NULL;

	*ret_count = 0;
	for (char *item = strtok_r(text, ",", &rest); item != NULL;
	     item = strtok_r(NULL, ",", &rest)) {
		uint64_t value;

		if (*ret_count == LIST_MAX || config_parse_u64(item, &value) != 0 || value < min ||
		    value > max)
			return false;
		list[(*ret_count)++] = value;
	}
	return *ret_count > 0;
}

static bool
key_load(const char *path)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];

	bench.key = split_key_load(path, why);
	if (bench.key == NULL)
		fprintf(stderr, "%s\n", why);
	return bench.key != NULL;
}

static bool
option_parse(const char *name, char *value)
{
	if (strcmp(name, "--address") == 0)
		bench.address = value;
	else if (strcmp(name, "--sizes") == 0)
		return list_parse(value, WIRE_HEADER_BYTES, SIZE_MAX_BYTES, bench.sizes,
		    &bench.size_count);
	else if (strcmp(name, "--in-flight") == 0)
		return list_parse(value, 1, 128, bench.depths, &bench.depth_count);
	else if (strcmp(name, "--key") == 0)
		return key_load(value);
	else if (strcmp(name, "--security") == 0)
		return split_security_parse(value, &bench.security) == 0;
	else if (strcmp(name, "--messages") == 0)
		return config_parse_u64(value, &bench.messages) == 0 && bench.messages > 0;
	else if (strcmp(name, "--warm") == 0)
		return config_parse_u64(value, &bench.warm) == 0;
	else if (strcmp(name, "--passes") == 0)
		return config_parse_u64(value, &bench.passes) == 0 && bench.passes > 0 &&
		    bench.passes <= PASSES_MAX;
	else
		return false;
	return true;
}

static void
pairs_run(void)
{
	for (uint32_t i = 0; i < bench.size_count; i++)
		for (uint32_t k = 0; k < bench.depth_count; k++) {
			char name[64];
			struct candidate candidate =
			    candidate_make(bench.sizes[i], bench.depths[k], name);

			if (candidate.depth > DEPTH_MAX)
				die(name, -E2BIG);
			candidate_run(&candidate, bench.messages, (uint32_t)bench.passes,
			    i + 1 == bench.size_count && k + 1 == bench.depth_count);
		}
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2)
		if (i + 1 == argc || !option_parse(argv[i], argv[i + 1])) {
			fprintf(stderr,
			    "usage: bench_transport [--address ADDR] [--messages N] "
			    "[--passes N<=%u] [--warm N]\n"
			    "           [--sizes 64,4096,1048576 --in-flight 1,8,128]\n"
			    "           [--key FILE [--security seal|sign|open]]\n",
			    PASSES_MAX);
			return 2;
		}
	if (bench.size_count > 0 && bench.depth_count == 0)
		bench.depths[bench.depth_count++] = 1;
	printf("[\n");
	pairs_run();
	for (size_t i = 0; bench.size_count == 0 && i < NUM_COUNT(candidates); i++)
		candidate_run(&candidates[i], bench.messages, (uint32_t)bench.passes,
		    i + 1 == NUM_COUNT(candidates));
	printf("]\n");
	return 0;
}
