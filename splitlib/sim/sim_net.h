/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_net.h -- a network in virtual time: hosts, links, and what can go wrong with them
 *
 * Queue pairs between ports whose options name a sim_host run over it, at addresses
 * sim://HOSTNAME:PORT. As TCP does, it delivers each connection's messages whole, once and in order,
 * or breaks the connection. Latency, bandwidth and faults belong to the directed link between two
 * hosts; whatever is random comes from the world's seed.
 *
 * A host stands for one machine with one process on it, which may die and be started again.
 *
 * Threads: the world's.
 */
#ifndef CLEAVE_SPLIT_SIM_NET_H
#define CLEAVE_SPLIT_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "loop_sim.h"

#define SIM_HOST_NAME_BYTES 32u
#define SIM_PIPE_BYTES_MAX (1u << 20) /* under way on a connection before its sender has to wait */

struct sim_net;
struct sim_host;

/* How one direction between two hosts behaves. */
struct sim_link_options {
	uint64_t latency_min_ns; /* uniform between the two */
	uint64_t latency_max_ns;
	uint32_t tail_ppm; /* of the messages take tail_ns longer */
	uint64_t tail_ns;
	uint64_t bytes_per_s; /* shared by the link's connections; 0: no limit */
};

/* sim_net_create -- links take 20 to 60 us at 3 GB/s until told otherwise. NULL with errno. */
struct sim_net *sim_net_create(struct sim_world *world);
/* sim_net_destroy -- every port on it has been closed or its host killed. NULL is a no-op. */
void sim_net_destroy(struct sim_net *net);

/*
 * sim_net_offload -- hosts, of which there are none yet, have devices that answer dev_read by themselves
 *
 * As over RDMA: while a process stands its memory is read all the same. One read in four is read in two parts, at two
 * moments. dev_write is none of them: -ENOTSUP.
 */
void sim_net_offload(struct sim_net *net);

/* sim_host_create -- @name: without ':', unique, fewer than SIM_HOST_NAME_BYTES. NULL with errno. */
struct sim_host *sim_host_create(struct sim_net *net, const char *name);
/* sim_host_name -- as given; valid as long as the host. */
const char *sim_host_name(const struct sim_host *host);

enum sim_death {
	SIM_DEATH_RESET,  /* the process died: its kernel resets the connections */
	SIM_DEATH_SILENT, /* the machine died: peers find out by their keepalive_ns */
};

/*
 * sim_host_kill -- the process on @host is gone, with all its ports
 *
 * The host's queue pairs vanish; none of its handlers is called any more; the ports' memory is freed in the
 * world's next turn. A random part of the packets under way from it still arrives. Destroy its loop
 * right before or after, with no turn in between; both may be done from one of its own handlers.
 */
void sim_host_kill(struct sim_host *host, enum sim_death death);
/* sim_host_start -- after a kill: new ports may be opened on it. */
void sim_host_start(struct sim_host *host);
/* sim_host_is_up -- is a process there, or may one start? Not after a kill. */
bool sim_host_is_up(const struct sim_host *host);

/* sim_net_set_links -- of all links, those to come included; sim_net_set_link -- of one direction. */
void sim_net_set_links(struct sim_net *net, const struct sim_link_options *options);
void sim_net_set_link(struct sim_host *from, struct sim_host *to,
    const struct sim_link_options *options);

/*
 * sim_net_cut, sim_net_heal -- one direction is cut, or works again
 *
 * Packets under way on a cut link wait, as a kernel would send them again, until the link is healed or an end
 * gives up: either end does after its port's keepalive_ns, with -ETIMEDOUT. sim_net_partition and
 * sim_net_join do both directions, sim_net_heal_all all links. No-op where nothing changes.
 */
void sim_net_cut(struct sim_host *from, struct sim_host *to);
void sim_net_heal(struct sim_host *from, struct sim_host *to);
void sim_net_partition(struct sim_host *a, struct sim_host *b);
void sim_net_join(struct sim_host *a, struct sim_host *b);
void sim_net_heal_all(struct sim_net *net);
/* sim_net_is_cut -- is the direction from @from to @to cut? */
bool sim_net_is_cut(const struct sim_host *from, const struct sim_host *to);

/* sim_net_reset -- break every connection between @a and @b now. Returns how many. */
uint32_t sim_net_reset(struct sim_host *a, struct sim_host *b);

/*
 * sim_net_strand -- what is under way from @from to @to arrives @delay_ns late, and its connections break
 *
 * Only @from is told, at once, of a reset: it may connect anew, and be heard there first. @to hears what
 * was under way when it comes, then the connection's end. Returns how many messages.
 */
uint32_t sim_net_strand(struct sim_host *from, struct sim_host *to, uint64_t delay_ns);

#endif /* CLEAVE_SPLIT_SIM_NET_H */
