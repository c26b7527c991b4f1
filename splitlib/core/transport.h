/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h -- what a transport is: the one thing that the core knows of the folders above it
 *
 * tcp/, verbs/ and sim/ have an instance each. registry.c, above them, names those that every port
 * has; a simulated machine brings its own along.
 */
#ifndef CLEAVE_SPLIT_TRANSPORT_H
#define CLEAVE_SPLIT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

struct dev_event;
struct dev_memory;
struct dev_region;
struct split_listener;
struct split_port;
struct split_qp;

/*
 * A transport. It calls connect_on_open or connect_accept, recv_*, send_*, and qp_fail when the peer
 * is gone; it never calls a user's handler and never frees a queue pair. Addresses come without
 * their scheme.
 */
struct transport_ops {
	const char *scheme; /* "tcp" */
	bool is_exclusive;  /* its ports have no other transport */
	bool
	    has_lanes; /* two of a connection, and it makes sealed frames itself: sealed_make, recv_open_control */
	bool has_names; /* of hosts: the core looks them up, it sees numbers alone */
	/* Sets @listener->transport; @ret_address gets the bound address, scheme included. */
	int (*listen)(struct split_listener *listener, const char *host_port, char *ret_address);
	void (*unlisten)(struct split_listener *listener);
	/* Sets @qp->transport and @qp->peer; connect_on_open or qp_fail follows, not from inside. */
	int (*connect)(struct split_qp *qp, const char *host_port);
	/* No more bytes either way. The peer finds out. qp->transport is gone afterwards. */
	void (*close)(struct split_qp *qp);
	/* Put on the wire what goes without blocking; called at the end of a turn. */
	void (*kick_send)(struct split_qp *qp);
	/* A receive was posted: a header that waits may go on. Handlers run later. */
	void (*kick_receive)(struct split_qp *qp);
	/*
	 * Optional. Before close: false while a device may still read or write our buffers; then it
	 * queues qp->close_task again, in bounded time.
	 */
	bool (*quiesce)(struct split_qp *qp);
	/* Optional. Whether a posted receive can be taken back; NULL: always. */
	bool (*may_cancel)(struct split_qp *qp, const struct dev_event *event);
	/*
	 * Optional, all or none: one-sided without the peer's library. NULL: one_sided.c does it by
	 * messages. There is something for one_sided_take; called at any time while READY.
	 */
	void (*kick_one_sided)(struct split_qp *qp);
	/* Sets @region->transport and @region->remote. 0 or a negative errno. */
	int (*region_open)(struct dev_region *region);
	void (*region_close)(struct dev_region *region);
	/*
	 * Optional, all or none: memory of the device. memory_open sets @memory->transport and, when it
	 * fails, the port's reason; memory_copy is asked only for what the host cannot map, and copies
	 * between @host and @offset_bytes of it.
	 */
	int (*memory_open)(struct dev_memory *memory);
	void (*memory_close)(struct dev_memory *memory);
	int (*memory_copy)(struct dev_memory *memory, uint64_t offset_bytes, void *host,
	    uint64_t bytes, bool is_out);
	/*
	 * Optional, of every port that may speak it, whether one of its addresses names it or not. The
	 * port opens; a turn ends, before anything is sent; it closes, and has no queue pairs any more.
	 */
	void (*port_open)(struct split_port *port);
	void (*port_turn)(struct split_port *port);
	void (*port_fini)(struct split_port *port);
};

/* The head of struct sim_host (split_port_options): its ports speak @ops as well. */
struct transport_host {
	const struct transport_ops *ops;
};

/* transport_find -- "tcp://127.0.0.1:1" is tcp and "127.0.0.1:1". NULL: @port has no such transport. */
const struct transport_ops *transport_find(const struct split_port *port, const char *address,
    const char **ret_host_port);
/* transport_reason -- what split_port_reason says. */
void transport_reason(struct split_port *port, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* CLEAVE_SPLIT_TRANSPORT_H */
