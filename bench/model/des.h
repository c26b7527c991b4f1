/* SPDX-License-Identifier: Apache-2.0 */
/*
 * des.h -- a closed queueing network, event by event
 *
 * Requests go through a list of steps. A step is work at a station (first come, first served, by one of
 * its servers), or a delay. A request that has ended begins anew at once: as many are in flight as the
 * window says. Time is in picoseconds, so that nothing is rounded that matters; the random numbers have
 * a seed, and the same seed gives the same figures.
 */
#ifndef CLEAVE_BENCH_DES_H
#define CLEAVE_BENCH_DES_H

#include <stdint.h>

#define DES_STATIONS_MAX 512u
#define DES_SERVERS_MAX 128u
#define DES_STEPS_MAX 32u
#define DES_ROUTES_MAX 64u

struct des_station {
	const char *name;
	uint32_t server_count;
	double gbps; /* of a pipe; 0: a core */
	double speeds[DES_SERVERS_MAX];
	/* Results. */
	double bytes, busy_ps;
};

/* At a station: a share of the block and of what is stored of it, and fixed bytes or time. */
struct des_step {
	int32_t station; /* -1: a delay */
	double fixed_bytes, stored_times;
	double ns;
	double spread; /* of ns: uniform within +- this share */
};

struct des_route {
	struct des_step steps[DES_STEPS_MAX];
	uint32_t step_count;
};

struct des {
	struct des_station stations[DES_STATIONS_MAX];
	uint32_t station_count;
	struct des_route routes[DES_ROUTES_MAX];
	uint32_t route_count;
	uint32_t window_count; /* in flight, of all routes together */
	double block_bytes, stored_share;
	uint64_t seed;
};

struct des_result {
	double gbps; /* of blocks */
	double mean_us, p50_us, p99_us, p999_us;
	double seconds; /* simulated, without the beginning */
	uint64_t request_count;
};

/* des_run -- @request_count requests after a beginning that does not count; bytes and busy_ps too. */
void des_run(struct des *des, uint64_t request_count, struct des_result *ret_result);

#endif /* CLEAVE_BENCH_DES_H */
