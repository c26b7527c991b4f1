/* SPDX-License-Identifier: Apache-2.0 */
/* reads.c -- see reads.h */
#include "reads.h"

#include <assert.h>
#include <math.h>

#define US_A_SECOND 1e6

const char *
read_station_name(enum read_station station)
{
	static const char *const names[READ_STATION_NR] = { "clients", "gateway", "nodes", "SSDs" };

	return names[station];
}

/* Operations a second that a station bears by itself, which has @amount of something a second. */
static double
bears(double amount, double of_each)
{
	return of_each > 0 ? amount / of_each : INFINITY;
}

struct read_bound
read_bound(const struct read_cost *cost, const struct read_cluster *cluster)
{
	const double most[READ_STATION_NR] = {
		[READ_CLIENTS] = bears(cluster->client_cores * US_A_SECOND, cost->client_us),
		[READ_GATEWAY] = bears(cluster->gateway_cores * US_A_SECOND, cost->gateway_us),
		[READ_NODES] = bears(cluster->node_cores * US_A_SECOND, cost->node_us),
		[READ_SSDS] = bears(cluster->ssd_count * cluster->ssd_iops, cost->node_reads),
	};
	struct read_bound bound = { .ops_s = INFINITY };

	for (int i = 0; i < READ_STATION_NR; i++) {
		if (most[i] < bound.ops_s) {
			bound.ops_s = most[i];
			bound.station = (enum read_station)i;
		}
	}
	assert(isfinite(bound.ops_s));
	for (int i = 0; i < READ_STATION_NR; i++)
		bound.share[i] = bound.ops_s / most[i];
	return bound;
}

static double
mix(double miss, double hit, double found)
{
	return (1 - found) * miss + found * hit;
}

struct read_cost
read_cost_at(const struct read_cost *miss, const struct read_cost *hit, double found)
{
	assert(found >= 0 && found <= 1);
	return (struct read_cost){
		.client_us = mix(miss->client_us, hit->client_us, found),
		.gateway_us = mix(miss->gateway_us, hit->gateway_us, found),
		.node_us = mix(miss->node_us, hit->node_us, found),
		.node_reads = mix(miss->node_reads, hit->node_reads, found),
	};
}

static double
unmix(double miss, double table, double found)
{
	return fmax(0, (table - (1 - found) * miss) / found);
}

struct read_cost
read_cost_of_hit(const struct read_cost *miss, const struct read_cost *table, double found)
{
	assert(found > 0 && found <= 1);
	return (struct read_cost){
		.client_us = unmix(miss->client_us, table->client_us, found),
		.gateway_us = unmix(miss->gateway_us, table->gateway_us, found),
		.node_us = unmix(miss->node_us, table->node_us, found),
		.node_reads = unmix(miss->node_reads, table->node_reads, found),
	};
}

double
read_zipf_found(uint32_t count, uint32_t held, double theta)
{
	double all = 0, hottest = 0;

	assert(held <= count && count > 0);
	for (uint32_t i = 1; i <= count; i++) {
		all += pow(i, -theta);
		if (i == held)
			hottest = all;
	}
	return hottest / all;
}
