/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_state.h -- what the simulated network and the transport over it share
 *
 * The network is the outside: hosts, links, packets under way; it runs on the world's nature. sim_transport.c is
 * what happens inside a process. They meet at struct sim_end: the network puts packets into its inbox and posts to
 * the process's loop; the process pushes packets into its pipe.
 */
#ifndef CLEAVE_SPLIT_SIM_STATE_H
#define CLEAVE_SPLIT_SIM_STATE_H

#include "cleave/loop.h"
#include "core/transport.h"
#include "sim_net.h"

enum sim_packet_kind {
	SIM_PACKET_OPEN,    /* connect */
	SIM_PACKET_OPENED,  /* a listener has it */
	SIM_PACKET_DATA,    /* one message */
	SIM_PACKET_FIN,     /* the peer closed */
	SIM_PACKET_RESET,   /* the peer is gone; in answer to OPEN: nobody listens */
	SIM_PACKET_TIMEOUT, /* from our own kernel: the peer is silent */
	SIM_PACKET_READ,    /* of a region of the peer's: its device answers (sim_one_sided.h) */
	SIM_PACKET_READ_DONE,
};

struct sim_packet {
	struct loop_link link;
	enum sim_packet_kind kind;
	uint64_t due_ns;
	uint32_t bytes; /* of data */
	bool is_opened; /* a sealed one that waits for a receive */
	uint8_t data[] __attribute__((aligned(16)));
};

/* A direction between two hosts. */
struct sim_link {
	struct loop_link link; /* in net->links */
	struct sim_host *from, *to;
	struct sim_link_options options;
	bool is_cut;
	uint64_t busy_until_ns;
};

/* A process listening at a port number of its host. */
struct sim_listener {
	struct loop_link link; /* in net->listeners */
	struct sim_host *host;
	struct split_listener *listener;
	uint32_t port_number;
};

/* An end of a connection, and the pipe that leads from it to the other. */
struct sim_end {
	struct sim_conn *conn;
	struct sim_host *host;
	struct split_qp *qp;           /* NULL: not yet, or no more */
	struct sim_listener *listener; /* an OPEN waits in the inbox for it */
	struct loop *loop;             /* of the process */
	uint64_t keepalive_ns;
	/* Packets that came in. */
	struct loop_link inbox; /* struct sim_packet */
	struct loop_post post;
	bool is_post_queued;
	bool is_paused; /* the first packet waits for a receive */
	bool is_dead;   /* its process was killed */
	/* Packets under way from here. */
	struct sim_link *path;
	struct loop_link pipe; /* struct sim_packet, by due time */
	struct loop_timer pipe_timer;
	bool is_held; /* the path was cut when the first packet was due */
	uint64_t last_due_ns;
	uint64_t pipe_bytes;   /* in the pipe and in the other end's inbox */
	bool is_blocked;       /* too many: the sender waits */
	bool must_kick;        /* and may go on */
	struct loop_link torn; /* reads of our memory of which a part was read: sim_one_sided.c's */
	struct loop_timer silence_timer;
};

struct sim_conn {
	struct loop_link link; /* in net->conns */
	struct sim_net *net;
	struct sim_end ends[2]; /* who connected, who accepted */
};

struct sim_host {
	struct transport_host base; /* first */
	struct loop_link link;      /* in net->hosts */
	struct sim_net *net;
	struct loop_link ports; /* struct split_port */
	char name[SIM_HOST_NAME_BYTES];
	bool is_up;
	uint32_t port_number_next;
};

struct sim_net {
	struct sim_world *world;
	/* A process looks at its end's inbox; of sim_transport.c. */
	void (*on_post)(struct loop_post *post, void *arg);
	bool is_offloading; /* of hosts to come, devices answer reads of regions */
	struct loop *nature;
	struct sim_link_options options; /* of links to come */
	struct loop_link hosts, links, conns, listeners;
	struct loop_link dead_ports, dead_listeners; /* freed by the burial task */
	struct loop_task burial_task;
};

static inline struct sim_end *
sim_end_peer(struct sim_end *end)
{
	return end == &end->conn->ends[0] ? &end->conn->ends[1] : &end->conn->ends[0];
}

#endif /* CLEAVE_SPLIT_SIM_STATE_H */
