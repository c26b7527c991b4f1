/* SPDX-License-Identifier: Apache-2.0 */
/* port.h -- a port of the gateway: its split port, engines, links, shards and sessions */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_H
#define CLEAVE_MIDDLETIER_PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/secure.h"
#include "cleave/wire.h"
#include "common/shard_state.h"

struct engine_workers_ops;
struct loop;
struct loop_post;
struct mt_cluster;
struct mt_gateway;
struct mt_link;
struct mt_node_config;
struct mt_port;
struct mt_port_events;
struct mt_session;
struct mt_settings;
struct mt_shared;
struct mt_volume_query;
struct sim_host;
struct split_msg;
struct wire_control;

/*
 * mt_port_host -- what lies above a port: the gateway's other ports, its membership and its control requests
 *
 * All are required. Those of the port's own life and those of sessions are called on its thread, the reports
 * on main.
 */
struct mt_port_host {
	/* The port opens or goes: what the host keeps in it. init: 0, or a negative errno and the port does not open. */
	int (*init)(struct mt_port *port);
	/* After init, also one that failed. The port's queue pairs are gone. */
	void (*fini)(struct mt_port *port);
	/* The port closes: what the host has under way there shall end. is_quiet is asked until all has. */
	void (*stop)(struct mt_port *port);
	bool (*is_quiet)(const struct mt_port *port);
	/* A decoded control request. Owns @msg; counts in @session until it is answered. */
	void (*on_control)(struct mt_session *session, struct split_msg *msg,
	    const struct wire_control *control);
	/* Both as struct mt_session_host says. */
	void (*on_left)(struct mt_session *session);
	void (*ask_volume)(struct mt_volume_query *query, struct mt_port *port,
	    void (*fn)(struct loop_post *post, void *arg), void *arg);
	/* Reports, on main. The first two come once at most. */
	void (*on_stopped)(struct mt_port *port); /* mt_port_stop has ended: it may be closed */
	void (*on_failed)(struct mt_port *port, const char *text); /* it can serve nothing */
	/* The newest state of a shard; states may be left out, the last never is. */
	void (*on_shard)(struct mt_port *port, uint32_t shard, enum mt_shard_state state,
	    uint32_t epoch);
};

/* mt_port_options -- how a port is made. All of it stays as it is while the port is open. */
struct mt_port_options {
	const struct mt_port_host *host;
	struct mt_gateway *gateway; /* whose port it is, for those above it */
	const struct mt_settings *settings;
	struct mt_shared *shared;
	const struct mt_cluster *cluster;
	const struct mt_port_events
	    *events;      /* instead of the port's own, for one without shards; NULL */
	void *events_arg; /* of those: port->events_arg */
	uint32_t index, port_count;
	struct loop *main_loop;
	struct loop *loop;         /* NULL: one of its own, which a thread of its own is to run */
	struct sim_host *sim_host; /* simulator */
	const char *address;       /* "": listens nowhere */
	const char *advertise;    /* what others are told; NULL, "": a name as it is, or as bound */
	const char *local;        /* a folder of sockets for this host; NULL: none */
	uint32_t connections_max; /* clients', nodes' and other gateways' together */
	uint32_t connections_own; /* of them, kept for those that the port makes */
	const struct mt_node_config *nodes;
	uint32_t node_count;
	uint64_t device_bytes;
	bool wants_huge_pages;
	uint32_t engine_threads, merge_threads;          /* 0: inline; 0: merges use the others */
	const struct engine_workers_ops *engine_workers; /* as of engine_set_options */
	uint32_t client_receives;    /* requests taken at a time; 0: no limit of its own */
	const struct split_key *key; /* NULL: none; borrowed */
	enum split_security security;
};

/* mt_port_open -- make it and listen. 0, or a negative errno with the reason in @ret_error, and nothing is left. */
int mt_port_open(struct mt_port *port, const struct mt_port_options *options, char *ret_error,
    size_t error_bytes);
/*
 * mt_port_begin -- connect to the nodes, take shards over. host->on_failed follows on main, if it cannot.
 * mt_port_stop -- finish requests, for 2 s at most, and close everything. host->on_stopped follows on main.
 *
 * Both on the port's thread; a second call is a no-op.
 */
void mt_port_begin(struct mt_port *port);
void mt_port_stop(struct mt_port *port);
#define MT_PORT_MAGIC 0x504f5254u /* "TROP" */
/* Device memory of a receive: its payload, and where that may have to begin. */
#define MT_PORT_RECEIVE_STRIDE_BYTES (MT_RECEIVE_BYTES + 4096u)

/* mt_port_close -- free everything; nobody runs its loop any more. With requests in flight as well. */
void mt_port_close(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_H */
