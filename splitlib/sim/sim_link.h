/* SPDX-License-Identifier: Apache-2.0 */
/* sim_link.h -- hosts by name, and directions between two: how long a packet takes */
#ifndef CLEAVE_SPLIT_SIM_LINK_H
#define CLEAVE_SPLIT_SIM_LINK_H

#include <stddef.h>
#include <stdint.h>

struct sim_host;
struct sim_link;
struct sim_net;

/* sim_link_find -- the one from @from to @to; NULL: nothing has gone that way yet. */
struct sim_link *sim_link_find(const struct sim_host *from, const struct sim_host *to);
/* sim_link_get -- the same, made when it is not there. NULL: out of memory. */
struct sim_link *sim_link_get(struct sim_host *from, struct sim_host *to);
/* sim_link_latency_ns -- of one packet, from the world's seed. */
uint64_t sim_link_latency_ns(const struct sim_link *path);
/* sim_link_carry -- when, in the world's time, a packet of @bytes that is sent now has crossed @path. */
uint64_t sim_link_carry(struct sim_link *path, uint32_t bytes);

/* sim_net_host_by_name -- the host whose name has the @bytes at @name; NULL: there is none. */
struct sim_host *sim_net_host_by_name(struct sim_net *net, const char *name, size_t bytes);

#endif /* CLEAVE_SPLIT_SIM_LINK_H */
