/* SPDX-License-Identifier: Apache-2.0 */
/*
 * designs.c -- the four middle-tier designs as queueing networks
 *
 * A write, in each of them: in by a port, to where it is decided about and where it is compressed, out
 * to three storage servers, their answers in, the answer to the VM out. What differs is which links,
 * memories and cores a payload crosses:
 *
 *	cpu-only      port, link, host memory, core (compresses), host memory, link, port
 *	accelerator   port, link, host memory, link, engine, link, host memory, link, port
 *	soc           port, device memory, engine, device memory, port; the device's own cores
 *	split         port, device memory, engine, device memory, port; headers alone cross the link
 *
 * Host memory is a pipe of its own: a byte that a device writes and a core reads crosses it twice. What
 * waits in it for a compaction does not fit a cache (the paper's 3.2), so caches help nobody.
 */
#include "designs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SEED 20230617u
#define CARDS_PER_ROOT 4u
/* The part of a request's time on a core before its payload leaves. */
#define BEFORE_SHARE 0.6

const char *
design_name(enum design design)
{
	static const char *const names[DESIGN_NR] = {
		[DESIGN_CPU_ONLY] = "cpu-only",
		[DESIGN_ACCELERATOR] = "accelerator",
		[DESIGN_SOC] = "soc",
		[DESIGN_SPLIT] = "split",
	};

	return names[design];
}

struct build {
	const struct params *params;
	const struct server *server;
	struct des *des;
	struct des_route *route;
	int32_t memory, roots_in[8], roots_out[8];
};

/* ---- stations ---- */

static int32_t
pipe_add(struct build *b, const char *name, double gbps)
{
	struct des_station *station = &b->des->stations[b->des->station_count];

	assert(b->des->station_count < DES_STATIONS_MAX);
	*station = (struct des_station){ .name = name, .server_count = 1, .gbps = gbps };
	station->speeds[0] = 1;
	return (int32_t)b->des->station_count++;
}

/* Threads fill whole cores one by one: both threads of a shared core are slower. */
static int32_t
cores_add(struct build *b, uint32_t count)
{
	const struct params *p = b->params;
	struct des_station *station = &b->des->stations[b->des->station_count];
	uint32_t physical = (uint32_t)p->physical_cores;
	uint32_t pairs = count > physical ? count - physical : 0;

	assert(count >= 1);
	assert(count <= DES_SERVERS_MAX);
	*station = (struct des_station){ .name = "cores", .server_count = count };
	for (uint32_t i = 0; i < count; i++)
		station->speeds[i] = i < 2 * pairs ? p->core_pair_gbps / 2 / p->core_gbps : 1;
	return (int32_t)b->des->station_count++;
}

/* Each of @count ports, or lanes of an engine, side by side. */
static int32_t
lanes_add(struct build *b, const char *name, double gbps, uint32_t count)
{
	int32_t index = pipe_add(b, name, gbps);
	struct des_station *station = &b->des->stations[index];

	station->server_count = count;
	for (uint32_t i = 0; i < count; i++)
		station->speeds[i] = 1;
	return index;
}

/* ---- steps ---- */

static void
step(struct build *b, struct des_step step)
{
	assert(b->route->step_count < DES_STEPS_MAX);
	b->route->steps[b->route->step_count++] = step;
}

static void
cross(struct build *b, int32_t station, double fixed_bytes, double stored_times)
{
	step(b,
	    (struct des_step){ .station = station,
		.fixed_bytes = fixed_bytes,
		.stored_times = stored_times });
}

static void
work(struct build *b, int32_t cores, double ns, double spread)
{
	step(b, (struct des_step){ .station = cores, .ns = ns, .spread = spread });
}

static void
wait(struct build *b, double ns)
{
	step(b, (struct des_step){ .station = -1, .ns = ns, .spread = 0.3 });
}

static void
message_in(struct build *b, int32_t port, double payload_bytes)
{
	cross(b, port, payload_bytes + b->params->header_bytes + b->params->packet_bytes, 0);
}

/* To all replicas. */
static void
replicas_out(struct build *b, int32_t port)
{
	const struct params *p = b->params;

	cross(b, port, p->replica_count * (p->header_bytes + p->packet_bytes), p->replica_count);
}

/* The replicas store and answer. */
static void
storage(struct build *b, int32_t port_in)
{
	const struct params *p = b->params;

	wait(b, p->storage_ns);
	cross(b, port_in, p->replica_count * (p->header_bytes + p->packet_bytes), 0);
}

static double
descriptors(const struct params *p)
{
	return p->descriptor_count * p->descriptor_bytes;
}

/* Links to host memory are what other threads' memory traffic slows down (the paper's figure 4). */
static double
link_gbps(const struct build *b)
{
	return b->params->pcie_gbps * (1 - (1 - b->params->pressure_share) * b->server->pressure);
}

/* ---- designs ---- */

static void
host_payload_in(struct build *b, int32_t port_in, int32_t link_in)
{
	const struct params *p = b->params;

	message_in(b, port_in, p->block_bytes);
	cross(b, link_in, p->block_bytes + p->header_bytes + descriptors(p), 0);
	wait(b, p->pcie_ns);
	cross(b, b->memory, p->block_bytes + p->header_bytes, 0);
}

static void
host_payload_out(struct build *b, int32_t port_out, int32_t link_out)
{
	const struct params *p = b->params;

	cross(b, b->memory, p->replica_count * p->header_bytes, p->replica_count);
	cross(b, link_out, p->replica_count * p->header_bytes + descriptors(p), p->replica_count);
	wait(b, p->pcie_ns);
	replicas_out(b, port_out);
}

static void
build_cpu_only(struct build *b)
{
	const struct params *p = b->params;
	int32_t cores = cores_add(b, b->server->core_count);
	int32_t port_in = pipe_add(b, "port in", p->port_gbps);
	int32_t port_out = pipe_add(b, "port out", p->port_gbps);
	int32_t link_in = pipe_add(b, "link d2h", link_gbps(b));
	int32_t link_out = pipe_add(b, "link h2d", link_gbps(b));

	host_payload_in(b, port_in, link_in);
	work(b, cores, p->block_bytes * 8 / p->core_gbps + BEFORE_SHARE * p->request_core_ns, 0.2);
	cross(b, b->memory, p->block_bytes, 1); /* the core reads the block, writes the result */
	host_payload_out(b, port_out, link_out);
	storage(b, port_in);
	work(b, cores, (1 - BEFORE_SHARE) * p->request_core_ns, 0.2);
	message_in(b, port_out, 0);
}

static void
build_accelerator(struct build *b)
{
	const struct params *p = b->params;
	int32_t cores = cores_add(b, b->server->core_count);
	int32_t port_in = pipe_add(b, "port in", p->port_gbps);
	int32_t port_out = pipe_add(b, "port out", p->port_gbps);
	int32_t link_in = pipe_add(b, "link d2h", link_gbps(b));
	int32_t link_out = pipe_add(b, "link h2d", link_gbps(b));
	int32_t card_in = pipe_add(b, "card h2d", link_gbps(b));
	int32_t card_out = pipe_add(b, "card d2h", link_gbps(b));
	int32_t engine = pipe_add(b, "engine", p->engine_gbps);

	host_payload_in(b, port_in, link_in);
	work(b, cores, BEFORE_SHARE * p->request_core_ns, 0.2);
	cross(b, b->memory, p->block_bytes, 0);
	cross(b, card_in, p->block_bytes + p->descriptor_bytes, 0);
	wait(b, p->pcie_ns);
	cross(b, engine, p->block_bytes, 0);
	wait(b, p->engine_ns);
	cross(b, card_out, p->descriptor_bytes, 1);
	wait(b, p->pcie_ns);
	cross(b, b->memory, 0, 1);
	host_payload_out(b, port_out, link_out);
	storage(b, port_in);
	work(b, cores, (1 - BEFORE_SHARE) * p->request_core_ns, 0.2);
	message_in(b, port_out, 0);
}

static void
build_soc(struct build *b)
{
	const struct params *p = b->params;
	int32_t cores = cores_add(b, b->server->core_count);
	int32_t port_in = lanes_add(b, "port in", p->port_gbps, 2);
	int32_t port_out = lanes_add(b, "port out", p->port_gbps, 2);
	int32_t memory = pipe_add(b, "device memory", p->soc_memory_gbps);
	int32_t engine = pipe_add(b, "engine", p->soc_engine_gbps);

	message_in(b, port_in, p->block_bytes);
	cross(b, memory, p->block_bytes + p->header_bytes, 0);
	work(b, cores, BEFORE_SHARE * p->soc_request_core_ns, 0.2);
	cross(b, memory, p->block_bytes, 1); /* the engine reads and writes */
	cross(b, engine, p->block_bytes, 0);
	wait(b, p->engine_ns);
	cross(b, memory, 0,
	    1); /* one read serves the three sends, as the paper's 3.5 times has it */
	replicas_out(b, port_out);
	storage(b, port_in);
	work(b, cores, (1 - BEFORE_SHARE) * p->soc_request_core_ns, 0.2);
	message_in(b, port_out, 0);
}

struct card {
	int32_t link_in, link_out, memory, root_in, root_out;
};

/* A header and its descriptors between device and host: link, root port, memory (written and read). */
static void
header_crosses(struct build *b, int32_t link, int32_t root)
{
	const struct params *p = b->params;
	double bytes = p->header_bytes + descriptors(p);

	cross(b, link, bytes, 0);
	if (root >= 0)
		cross(b, root, bytes, 0);
	wait(b, p->pcie_ns);
	cross(b, b->memory, 2 * bytes, 0);
}

static void
build_port(struct build *b, const struct card *card)
{
	const struct params *p = b->params;
	int32_t cores = cores_add(b, b->server->core_count);
	int32_t port_in = pipe_add(b, "port in", p->port_gbps);
	int32_t port_out = pipe_add(b, "port out", p->port_gbps);
	int32_t engine = pipe_add(b, "engine", p->engine_gbps);

	message_in(b, port_in, p->block_bytes);
	cross(b, card->memory, p->block_bytes, 0);
	header_crosses(b, card->link_in, card->root_in);
	work(b, cores, BEFORE_SHARE * p->request_core_ns, 0.2);
	cross(b, card->memory, p->block_bytes, 1);
	cross(b, engine, p->block_bytes, 0);
	wait(b, p->engine_ns);
	header_crosses(b, card->link_out, card->root_out);
	cross(b, card->memory, 0, p->replica_count);
	replicas_out(b, port_out);
	storage(b, port_in);
	work(b, cores, (1 - BEFORE_SHARE) * p->request_core_ns, 0.2);
	message_in(b, port_out, 0);
}

static void
build_split(struct build *b)
{
	const struct params *p = b->params;

	for (uint32_t i = 0; i < b->server->card_count; i++) {
		struct card card = {
			.link_in = pipe_add(b, "link d2h", link_gbps(b)),
			.link_out = pipe_add(b, "link h2d", link_gbps(b)),
			.memory = pipe_add(b, "device memory", p->device_memory_gbps),
		};
		uint32_t root = i / CARDS_PER_ROOT;

		if (i % CARDS_PER_ROOT == 0) {
			b->roots_in[root] = pipe_add(b, "root d2h", p->root_gbps);
			b->roots_out[root] = pipe_add(b, "root h2d", p->root_gbps);
		}
		card.root_in = b->roots_in[root];
		card.root_out = b->roots_out[root];
		for (uint32_t k = 0; k < b->server->port_count; k++) {
			assert(b->des->route_count < DES_ROUTES_MAX);
			b->route = &b->des->routes[b->des->route_count++];
			build_port(b, &card);
		}
	}
}

/* ---- what it used ---- */

static double
station_gbps(const struct des_station *station, const struct des_result *result)
{
	return station->bytes * 8 / result->seconds / 1e9;
}

static void
usage_of(const struct build *b, const struct des_result *result, struct usage *ret_usage)
{
	struct usage usage = { .busiest = "" };

	for (uint32_t i = 0; i < b->des->station_count; i++) {
		const struct des_station *station = &b->des->stations[i];
		double gbps = station_gbps(station, result);
		double share = station->busy_ps / 1e12 / result->seconds / station->server_count;

		if (strcmp(station->name, "memory") == 0)
			usage.memory_gbps = gbps;
		if (strncmp(station->name, "link", 4) == 0 ||
		    strncmp(station->name, "card", 4) == 0)
			if (gbps > usage.pcie_gbps)
				usage.pcie_gbps = gbps;
		if (strncmp(station->name, "root", 4) == 0 && gbps > usage.root_gbps)
			usage.root_gbps = gbps;
		if (share > usage.busiest_share) {
			usage.busiest_share = share;
			usage.busiest = station->name;
		}
	}
	usage.pcie_share = usage.pcie_gbps / b->params->pcie_gbps;
	*ret_usage = usage;
}

void
design_run(const struct params *params, const struct server *server, uint64_t request_count,
    struct des_result *ret_result, struct usage *ret_usage)
{
	struct des *des = calloc(1, sizeof(*des));
	struct build b = { .params = params, .server = server, .des = des };

	if (des == NULL)
		abort();
	des->seed = SEED;
	des->block_bytes = params->block_bytes;
	des->stored_share = params->stored_share;
	b.memory = pipe_add(&b, "memory", params->memory_gbps);
	if (server->design == DESIGN_SPLIT) {
		build_split(&b);
	} else {
		b.route = &des->routes[des->route_count++];
		if (server->design == DESIGN_CPU_ONLY)
			build_cpu_only(&b);
		else if (server->design == DESIGN_ACCELERATOR)
			build_accelerator(&b);
		else
			build_soc(&b);
	}
	des->window_count = des->route_count * (uint32_t)params->window_per_port;
	des_run(des, request_count, ret_result);
	usage_of(&b, ret_result, ret_usage);
	free(des);
}
