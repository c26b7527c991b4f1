/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_handshake -- what a handshake of two keys costs each end, without a network
 *
 *	bench_handshake CONNECTOR_KEY ACCEPTOR_KEY COUNT
 *	valgrind --tool=callgrind '--toggle-collect=acceptor_turn*' bench_handshake ...   instructions of the acceptor
 *
 * Output: a JSON object, CPU time a handshake of each end: made, stepped, judged, its secrets taken, freed.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/config_value.h"
#include "base/log.h"
#include "cleave/secure.h"
#include "secure/handshake.h"

#define FLIGHTS_MAX 4u
#define ROLES_ALL 31u

struct end {
	const struct split_key *key;
	struct handshake *handshake;
	bool is_acceptor;
	int rc; /* of its last step */
	uint8_t out[HANDSHAKE_BYTES_MAX];
	size_t out_bytes;
	double cpu_us;
};

static double
cpu_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail */
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* All that @end does with a flight; at the last one it judges, and is freed. */
static void
end_turn(struct end *end, const uint8_t *in, size_t in_bytes)
{
	const struct handshake_context context = { .format = 1, .offered = 3, .chosen = 3 };
	uint8_t secrets[2][HANDSHAKE_SECRET_BYTES];
	struct split_subject peer;
	const uint8_t *out;

	if (end->handshake == NULL)
		end->handshake = handshake_create(end->key, end->is_acceptor);
	assert(end->handshake != NULL);
	end->rc = handshake_step(end->handshake, in, in_bytes);
	assert(end->rc >= 0);
	out = handshake_out(end->handshake, &end->out_bytes);
	memcpy(end->out, out, end->out_bytes);
	if (end->rc == 0)
		return;
	if (handshake_judge(end->handshake, end->key, ROLES_ALL, log_wall_s(), &peer) != 0)
		(void)fprintf(stderr, "bench_handshake: %s\n", handshake_why(end->handshake));
	(void)handshake_secrets(end->handshake, &context, secrets[0], secrets[1]);
	handshake_free(end->handshake);
	end->handshake = NULL;
}

/* Two functions, so that a profiler can tell the ends apart; alike, the compiler would make one of them. */
static void __attribute__((noinline)) acceptor_turn(struct end *end, const struct end *peer)
{
	assert(end->is_acceptor);
	end_turn(end, peer->out, peer->out_bytes);
}

static void __attribute__((noinline)) connector_turn(struct end *end, const struct end *peer)
{
	assert(!end->is_acceptor);
	end_turn(end, peer->out, peer->out_bytes);
}

static void
run_one(struct end ends[2])
{
	ends[0].rc = ends[1].rc = 0;
	ends[0].out_bytes = ends[1].out_bytes = 0;
	for (uint32_t i = 0; i < FLIGHTS_MAX && ends[i % 2].rc == 0; i++) {
		double before_us = cpu_us();

		if (i % 2 == 0)
			connector_turn(&ends[0], &ends[1]);
		else
			acceptor_turn(&ends[1], &ends[0]);
		ends[i % 2].cpu_us += cpu_us() - before_us;
	}
	assert(ends[0].rc == 1 && ends[1].rc == 1);
}

int
main(int argc, char **argv)
{
	static struct end ends[2];
	char why[SPLIT_KEY_WHY_BYTES_MAX] = "";
	struct split_key *keys[2] = { NULL, NULL };
	uint64_t count = 0;

	for (int i = 0; i < 2 && argc == 4 && why[0] == '\0'; i++)
		keys[i] = split_key_load(argv[1 + i], why);
	if (keys[0] == NULL || keys[1] == NULL || config_parse_u64(argv[3], &count) != 0 ||
	    count == 0) {
		(void)fprintf(stderr,
		    "usage: bench_handshake CONNECTOR_KEY ACCEPTOR_KEY COUNT\n%s\n", why);
		return 2;
	}
	for (int i = 0; i < 2; i++)
		ends[i] = (struct end){ .key = keys[i], .is_acceptor = i == 1 };
	for (uint64_t i = 0; i < count; i++)
		run_one(ends);
	(void)printf("{\"handshakes\": %" PRIu64
		     ", \"connector_us\": %.1f, \"acceptor_us\": %.1f}\n",
	    count, ends[0].cpu_us / (double)count, ends[1].cpu_us / (double)count);
	split_key_free(keys[0]);
	split_key_free(keys[1]);
	return 0;
}
