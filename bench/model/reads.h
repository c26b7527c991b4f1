/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reads.h -- reads as work for four stations, and which of them is the bound
 *
 *	clients --> gateway --(misses)--> nodes' processors --> their SSDs
 *
 * An operation asks each station for some time. Where clients ask for all that they can get, the station that is busy first
 * bounds the operations a second, whatever the order of requests (the law of utilization). Nothing is said of latency.
 */
#ifndef CLEAVE_BENCH_READS_H
#define CLEAVE_BENCH_READS_H

#include <stdint.h>

enum read_station { READ_CLIENTS, READ_GATEWAY, READ_NODES, READ_SSDS, READ_STATION_NR };

/* An operation asks for microseconds of the processors of each, and records read from SSDs. */
struct read_cost {
	double client_us, gateway_us, node_us, node_reads;
};

/* Processors, and SSDs, of all machines of a kind together. */
struct read_cluster {
	double client_cores, gateway_cores, node_cores;
	double ssd_count, ssd_iops;
};

struct read_bound {
	double ops_s;
	enum read_station station;     /* that is busy all the time */
	double share[READ_STATION_NR]; /* of each one's time */
};

const char *read_station_name(enum read_station station);
/* read_bound -- @cost asks at least one station for something. */
struct read_bound read_bound(const struct read_cost *cost, const struct read_cluster *cluster);
/* read_cost_at -- where @found of the operations, 0 to 1, cost what @hit says, and the others what @miss says */
struct read_cost read_cost_at(const struct read_cost *miss, const struct read_cost *hit,
    double found);
/*
 * read_cost_of_hit -- what one that is found costs: @miss was measured without a table, @table with one that had @found, above 0
 *
 * Not below 0: misses beside hits may cost less than those of a run without.
 */
struct read_cost read_cost_of_hit(const struct read_cost *miss, const struct read_cost *table,
    double found);
/* read_zipf_found -- by Zipf's law of @theta over @count blocks, the share of reads that is for the @held hottest */
double read_zipf_found(uint32_t count, uint32_t held, double theta);

#endif /* CLEAVE_BENCH_READS_H */
