/* SPDX-License-Identifier: Apache-2.0 */
/* designs.h -- the four middle-tier designs as queueing networks, and the hardware they stand on */
#ifndef CLEAVE_BENCH_DESIGNS_H
#define CLEAVE_BENCH_DESIGNS_H

#include "des.h"

#define PARAMS_LIST(X)                                                                             \
	X(block_bytes)                                                                             \
	X(header_bytes)                                                                            \
	X(replica_count)                                                                           \
	X(stored_share)                                                                            \
	X(physical_cores)                                                                          \
	X(core_gbps)                                                                               \
	X(core_pair_gbps)                                                                          \
	X(request_core_ns)                                                                         \
	X(port_gbps)                                                                               \
	X(packet_bytes)                                                                            \
	X(pcie_gbps)                                                                               \
	X(root_gbps)                                                                               \
	X(memory_gbps)                                                                             \
	X(descriptor_bytes)                                                                        \
	X(descriptor_count)                                                                        \
	X(engine_gbps)                                                                             \
	X(engine_ns)                                                                               \
	X(soc_engine_gbps)                                                                         \
	X(soc_core_count)                                                                          \
	X(soc_request_core_ns)                                                                     \
	X(device_memory_gbps)                                                                      \
	X(soc_memory_gbps)                                                                         \
	X(pcie_ns)                                                                                 \
	X(storage_ns)                                                                              \
	X(pressure_share)                                                                          \
	X(window_per_port)                                                                         \
	X(gateway_core_ns)

struct params {
#define PARAMS_MEMBER(name) double name;
	PARAMS_LIST(PARAMS_MEMBER)
#undef PARAMS_MEMBER
};

enum design { DESIGN_CPU_ONLY, DESIGN_ACCELERATOR, DESIGN_SOC, DESIGN_SPLIT, DESIGN_NR };

/* A server. */
struct server {
	enum design design;
	uint32_t core_count; /* logical; split: of each port */
	uint32_t port_count; /* split: of each card */
	uint32_t card_count; /* split */
	double pressure;     /* 0 none .. 1: all that other threads can make */
};

/* Results of a run beside those of the network. */
struct usage {
	double memory_gbps;  /* host memory, reads and writes together */
	double pcie_gbps;    /* the busier direction of the busiest device's link */
	double pcie_share;   /* of what the link can carry */
	double root_gbps;    /* the busier direction of a root port, when there are several cards */
	const char *busiest; /* station */
	double busiest_share;
};

const char *design_name(enum design design);
/* design_run -- build @server as a network and run it. */
void design_run(const struct params *params, const struct server *server, uint64_t request_count,
    struct des_result *ret_result, struct usage *ret_usage);

#endif /* CLEAVE_BENCH_DESIGNS_H */
