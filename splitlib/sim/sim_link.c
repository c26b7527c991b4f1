/* SPDX-License-Identifier: Apache-2.0 */
/* sim_link.c -- hosts by name, and directions between two: how long a packet takes */
#include "sim_link.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "sim_state.h"

struct sim_link *
sim_link_find(const struct sim_host *from, const struct sim_host *to)
{
	struct loop_link *link, *next;

	assert(from->net == to->net);
	LIST_FOREACH_SAFE(&from->net->links, link, next) {
		struct sim_link *path = LIST_ENTRY(link, struct sim_link, link);

		if (path->from == from && path->to == to)
			return path;
	}
	return NULL;
}

struct sim_link *
sim_link_get(struct sim_host *from, struct sim_host *to)
{
	struct sim_link *path = sim_link_find(from, to);

	assert(from->net == to->net);
	if (path != NULL)
		return path;
	path = split_calloc(1, sizeof(*path));
	if (path == NULL)
		return NULL;
	path->from = from;
	path->to = to;
	path->options = from->net->options;
	list_push_back(&from->net->links, &path->link);
	return path;
}

uint64_t
sim_link_latency_ns(const struct sim_link *path)
{
	const struct sim_link_options *options = &path->options;
	struct sim_world *world = path->from->net->world;
	uint64_t latency_ns = options->latency_min_ns;

	assert(options->tail_ppm <= 1000000);
	assert(options->latency_min_ns <= options->latency_max_ns);
	latency_ns +=
	    sim_world_random_below(world, options->latency_max_ns - options->latency_min_ns + 1);
	if (options->tail_ppm > 0 && sim_world_random_below(world, 1000000) < options->tail_ppm)
		latency_ns += options->tail_ns;
	return latency_ns;
}

uint64_t
sim_link_carry(struct sim_link *path, uint32_t bytes)
{
	uint64_t now_ns = sim_world_now_ns(path->from->net->world);
	uint64_t start_ns = num_max(now_ns, path->busy_until_ns);

	assert(path->from->net == path->to->net);
	if (path->options.bytes_per_s > 0)
		start_ns += (uint64_t)bytes * NUM_S(1) / path->options.bytes_per_s;
	path->busy_until_ns = start_ns;
	return start_ns + sim_link_latency_ns(path);
}

struct sim_host *
sim_net_host_by_name(struct sim_net *net, const char *name, size_t bytes)
{
	struct loop_link *link, *next;

	assert(name != NULL);
	LIST_FOREACH_SAFE(&net->hosts, link, next) {
		struct sim_host *host = LIST_ENTRY(link, struct sim_host, link);

		if (strlen(host->name) == bytes && memcmp(host->name, name, bytes) == 0)
			return host;
	}
	return NULL;
}
