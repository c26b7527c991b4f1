/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_reconnect -- so many connections at once to a gateway: how long until all of them stand?
 *
 *	bench_reconnect ADDRESS COUNT [KEY]
 *
 * Each says hello as one that asks, waits for half a minute, and comes again when it is refused. Without KEY the
 * connections are open. Output: a JSON object; cpu_ms is this program's own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/config_value.h"
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"

#define COUNT_MAX 4000u
#define RETRY_NS NUM_MS(50)
#define TIMEOUT_NS NUM_S(30)
#define LIMIT_NS NUM_S(120)

struct bench;

struct link {
	struct bench *bench;
	struct loop_timer timer;
	bool is_ready;
};

struct bench {
	struct loop *loop;
	struct split_port *port;
	const char *address;
	uint32_t count, ready_count, failed_count;
	bool is_over;
	struct link links[COUNT_MAX];
};

static void link_connect(struct link *link);

static void
on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct link *link = arg;

	(void)qp;
	(void)hello;
	(void)hello_bytes;
	link->is_ready = true;
	link->bench->ready_count++;
}

static void
on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	(void)arg;
	for (uint32_t i = 0; i < count; i++)
		split_msg_release(msgs[i]);
}

static void
on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct link *link = arg;

	(void)qp;
	if (link->bench->is_over)
		return;
	if (link->bench->failed_count++ == 0)
		(void)fprintf(stderr, "bench_reconnect: %d %s\n", rc, reason);
	link->bench->ready_count -= link->is_ready;
	link->is_ready = false;
	loop_timer_start(link->bench->loop, &link->timer, RETRY_NS);
}

static const struct split_qp_ops link_ops = { .on_ready = on_ready,
	.on_messages = on_messages,
	.on_closed = on_closed };

static void
on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	link_connect(arg);
}

static void
link_connect(struct link *link)
{
	const struct wire_hello hello = { .level = CLEAVE_LEVEL_MAX, .role = WIRE_ROLE_CLIENT };
	uint8_t bytes[WIRE_HELLO_BYTES];

	wire_hello_encode(bytes, &hello);
	if (connect_qp(link->bench->port,
		&(struct split_connect_options){ .address = link->bench->address,
		    .hello = bytes,
		    .hello_bytes = sizeof(bytes),
		    .timeout_ns = TIMEOUT_NS,
		    .ops = &link_ops,
		    .arg = link,
		    .peer_roles = SPLIT_ROLE_GATEWAY }) == NULL)
		loop_timer_start(link->bench->loop, &link->timer, RETRY_NS);
}

static bool
is_done(void *arg)
{
	const struct bench *bench = arg;

	return bench->ready_count == bench->count || bench->is_over;
}

static void
on_limit(struct loop_timer *timer, void *arg)
{
	(void)timer;
	((struct bench *)arg)->is_over = true;
}

static double
clock_ms(clockid_t which)
{
	struct timespec now;

	(void)clock_gettime(which, &now); /* cannot fail */
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int
main(int argc, char **argv)
{
	static struct bench bench;
	char why[SPLIT_KEY_WHY_BYTES_MAX] = "";
	struct split_key *key = argc == 4 ? split_key_load(argv[3], why) : NULL;
	struct loop_timer limit;
	uint64_t count;
	double start_ms, ms;

	if (argc < 3 || argc > 4 || config_parse_u64(argv[2], &count) != 0 || count == 0 ||
	    count > COUNT_MAX || (argc == 4 && key == NULL)) {
		(void)fprintf(stderr, "usage: bench_reconnect ADDRESS COUNT [KEY]\n%s\n", why);
		return 2;
	}
	bench.address = argv[1];
	bench.count = (uint32_t)count;
	bench.loop = loop_ev_create(1);
	bench.port = open_roce_instance(&(struct split_port_options){ .loop = bench.loop,
	    .receive_count = 64,
	    .receive_payload_bytes = 4096,
	    .qp_count_max = COUNT_MAX,
	    .key = key });
	if (bench.port == NULL) {
		perror("bench_reconnect: a port");
		return 1;
	}
	loop_timer_init(&limit, on_limit, &bench);
	loop_timer_start(bench.loop, &limit, LIMIT_NS);
	start_ms = clock_ms(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < bench.count; i++) {
		bench.links[i].bench = &bench;
		loop_timer_init(&bench.links[i].timer, on_timer, &bench.links[i]);
		link_connect(&bench.links[i]);
	}
	(void)loop_run(bench.loop, is_done, &bench);
	ms = clock_ms(CLOCK_MONOTONIC) - start_ms;
	(void)printf("{\"connections\": %" PRIu32 ", \"failed\": %" PRIu32
		     ", \"wall_ms\": %.1f, \"cpu_ms\": %.1f}\n",
	    bench.ready_count, bench.failed_count, ms, clock_ms(CLOCK_PROCESS_CPUTIME_ID));
	return bench.ready_count == bench.count ? 0 : 1;
}
