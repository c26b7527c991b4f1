/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.h -- the split library: messages whose header is host memory and whose payload is device memory
 *
 * After SmartDS (ISCA '23), section 4.1 and table 2, whose names the first group of calls keeps. A
 * *port* (the paper's RoCE instance) owns two arenas, host and device, a pool of receives, and queue
 * pairs; it belongs to one loop and one thread and shares nothing with another port. A *queue pair*
 * carries messages reliably and in order over a transport chosen by the address:
 *
 *	tcp://HOST:PORT   sockets (splitlib/tcp/)
 *	unix://PATH       the same between processes of one host; who may write to the file may connect
 *	verbs://HOST:PORT RDMA (splitlib/verbs/), where it was built with librdmacm
 *	sim://HOST:PORT   the simulated network (splitlib/sim/)
 *
 * Two ways to use it, which mix:
 *   events    dev_mixed_recv / dev_mixed_send / dev_func return a dev_event that is polled, or
 *             completes into a handler. What the paper shows; for programs and tests.
 *   handlers  daemons: messages arrive in batches from the port's pool (split_qp_ops.on_messages), are
 *             answered by split_msg_reply, and split_send queues caller-owned work requests. Nothing
 *             is allocated a message.
 *
 * Credits: a request (opcode without WIRE_REPLY) needs a receive at the peer, which the peer has
 * granted in header.credits; without one it waits in the queue pair. A reply never waits: its receive
 * was set aside when its request was sent. Credit messages cost none.
 *
 * The library stamps and checks magic, version, payload_bytes, credits and header_crc of every
 * message; a message that fails closes its queue pair with -EPROTO and a reason naming the field.
 *
 * One-sided: a port opens a region of its device memory to its peers (dev_region_open), and sends the
 * key to whom it likes, in a message; they read and write there (dev_read, dev_write) until the
 * region is closed. No handler of the owner takes part: over verbs:// its device serves them, over
 * the others its transport.
 *
 * Threads: every call on a port or its queue pairs comes from its loop's thread.
 */
#ifndef CLEAVE_SPLIT_H
#define CLEAVE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/message.h"
#include "cleave/secure.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPLIT_HEADER_BYTES_MAX 16384u
#define SPLIT_PIECES_MAX 64u
#define SPLIT_ADDRESS_BYTES_MAX 128u
#define SPLIT_REASON_BYTES_MAX 128u

struct split_port;
struct split_qp;
struct dev_event;
struct sim_host; /* of the simulator; no program outside of it has one */

/* The options of a port. Zero means the default in brackets. */
struct split_port_options {
	struct loop *loop;
	struct sim_host *sim_host;      /* for sim:// addresses; else NULL */
	uint64_t host_bytes;            /* host arena [4 MiB] */
	uint64_t device_bytes;          /* device arena, the pool's buffers included [64 MiB] */
	uint32_t receive_count;         /* receives in the pool [0: none, only dev_mixed_recv] */
	uint32_t receive_payload_bytes; /* device bytes a pool receive holds [65536] */
	uint32_t qp_count_max;          /* [1024]; an RDMA device may have room for fewer */
	/*
	 * Queue pairs of these that are kept for connect_qp: connections that come in are refused so that as many
	 * of those that the port makes have room, whoever comes. At most half of what there is [0: none].
	 */
	uint32_t qp_reserved_count;
	uint32_t qp_credits_max;    /* granted to one queue pair at a time [64] */
	uint32_t qp_send_depth_max; /* sends queued on one queue pair [1024] */
	uint32_t event_count_max;   /* dev_events in existence [256] */
	bool
	    must_populate; /* have device memory's pages at open, so that none is made on the data path */
	bool
	    wants_huge_pages; /* device memory of the system's reserved huge pages, if there are any */
	uint64_t keepalive_ns;      /* a silent peer is found within this [10 s] */
	struct engine_set *engines; /* for dev_func; borrowed; may be NULL */
	const struct engine_gate_ops *engine_ops;
	/*
	 * Optional, for the log. RDMA: the port's device was lost (not @is_there), or one was found again
	 * and is listened at. The port goes on by itself: its connections have ended, its listeners
	 * serve as soon as their address has a device. @text may not be kept.
	 */
	void (*on_device)(bool is_there, const char *text, void *arg);
	void *on_device_arg;
	/*
	 * Optional, for the log: there was no room for a connection. @rc: -ENOBUFS, there are
	 * qp_count_max already, less qp_reserved_count: its peer is told so where it can be, counted in qps_refused; -ENOMEM: its
	 * peer sees a reset, counted there too; -EMFILE or another limit of the system, @peer NULL:
	 * the connection waits in the backlog. Calls nothing of the library.
	 */
	void (*on_full)(const char *peer, int rc, void *arg);
	void *on_full_arg;
	/*
	 * Guests are the connections that came in and are not kept (split_qp_keep). They give way: where there is no place,
	 * or no descriptor, for one that comes, the guest that has been silent longest, of those with nothing under way, is
	 * closed for it, or else one that lodges (split_qp_lodge); and where receives are short, a guest that does not
	 * return what it was lent within a second. Off: they stay, and who comes is refused.
	 */
	bool guests_give_way;
	/*
	 * Optional, for the log: a guest or a lodger was closed, counted in qps_cut. @silent_ns: since it last asked for
	 * something, or said hello. @why: a static text. Calls nothing of the library.
	 */
	void (*on_cut)(const char *peer, uint64_t silent_ns, const char *why, void *arg);
	void *on_cut_arg;
	/*
	 * @key: who this process is (cleave/secure.h); the port takes a share. NULL: its connections are open, and none
	 * that asks for more is taken. split_port_rekey gives it another. @security: the least that is taken. With a key, and not OPEN: there
	 * are no regions, dev_read and dev_write (-ENOTSUP).
	 */
	const struct split_key *key;
	enum split_security security;
	/*
	 * Optional, for the log: a connection that came in was not believed, or its peer did not believe us; counted
	 * in auths_refused. Our own connections end with -EKEYREJECTED and the reason. Calls nothing of the library.
	 */
	void (*on_refused)(const char *peer, const char *why, void *arg);
	void *on_refused_arg;
};

/*
 * open_roce_instance -- open a port
 *
 * Allocates both arenas and the pool at once; nothing grows later.
 * Ownership: the caller's until split_port_close. @options is copied; loop, sim_host and engines in it are
 *            borrowed until then.
 * Returns:   the port, or NULL with errno.
 * Errors:    ENOMEM (or the limit on locked memory); EINVAL a size that does not fit.
 * Threads:   the loop's.
 */
struct split_port *open_roce_instance(const struct split_port_options *options);

#define SPLIT_SURPLUS_MAX 16u /* connections beyond the room of a port, there to be told so */

/*
 * split_port_accepted_max -- how many connections that come in @port has room for
 *
 * qp_count_max less qp_reserved_count; less where its RDMA device, once it has one, has room for fewer.
 * SPLIT_SURPLUS_MAX more may be there for a moment, to be told that there is no room.
 * Ownership: borrows @port during the call.
 * Returns:   the number.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
uint32_t split_port_accepted_max(const struct split_port *port);

/*
 * split_port_close -- close every queue pair (their on_closed runs), and free all; NULL is a no-op
 *
 * Ownership: @port and all of its memory, regions and events are gone. Messages that are held, too.
 * Threads:   the port's loop's; not from a handler of its own.
 */
void split_port_close(struct split_port *port);

/*
 * host_alloc -- host memory of the port's arena, 64-byte aligned. For start-up, not the data path.
 *
 * Ownership: the caller's until host_free, or until the port closes.
 * Returns:   the memory, or NULL with errno.
 * Errors:    ENOMEM there is no such stretch left of host_bytes.
 * Threads:   the port's loop's.
 */
void *host_alloc(struct split_port *port, size_t bytes);

/*
 * host_free -- give memory of host_alloc's back; NULL is a no-op
 *
 * Ownership: nothing may use @memory.
 * Threads:   the port's loop's.
 */
void host_free(struct split_port *port, void *memory);

/*
 * dev_alloc -- for start-up: device memory of the port's arena, 64-byte aligned, or 4096-byte from 4096 bytes on
 *
 * Ownership: the caller's until dev_free, or until the port closes.
 * Returns:   the memory, or DEV_PTR_NULL with errno.
 * Errors:    ENOMEM there is no such stretch left of device_bytes.
 * Threads:   the port's loop's.
 */
dev_ptr dev_alloc(struct split_port *port, size_t bytes);

/*
 * dev_free -- give memory of dev_alloc's back; DEV_PTR_NULL is a no-op
 *
 * Ownership: no message, engine, disk or region may use @memory.
 * Threads:   the port's loop's.
 */
void dev_free(struct split_port *port, dev_ptr memory);

/*
 * dev_copy_to_host, dev_copy_from_host -- a counted copy across the device link
 *
 * For what software must read or make: descriptors at take-over, manifests, control texts. Never for a payload between
 * its receive and its send (I1).
 * Ownership: both sides are borrowed during the call.
 * Threads:   the port's loop's.
 */
void dev_copy_to_host(struct split_port *port, void *dst, dev_ptr src, size_t bytes);
void dev_copy_from_host(struct split_port *port, dev_ptr dst, const void *src, size_t bytes);

/*
 * dev_publish -- store @value at @dst, a multiple of 8, little-endian: peers that read there see all of it, or nothing
 *
 * They see it no earlier than what was copied there before, and no later than what the port sends from here on.
 * Ownership: @dst is borrowed during the call.
 * Threads:   the port's loop's.
 */
void dev_publish(struct split_port *port, dev_ptr dst, uint64_t value);

/*
 * split_port_pages_text -- what pages device memory has, for a daemon's log
 *
 * Ownership: the text is static.
 * Returns:   a text for people.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
const char *split_port_pages_text(const struct split_port *port);

/*
 * Device memory of other kinds. A port's own (dev_alloc, the pool) is pages of this host. A device may have memory too:
 * the RDMA device its own, or another one, a GPU's, shared as a dmabuf. What lies there goes into messages and comes out
 * of them, is read and written one-sided and opened as a region like any other; its bytes never pass this host.
 */
enum dev_memory_kind { DEV_MEMORY_NIC, DEV_MEMORY_DMABUF, DEV_MEMORY_KIND_NR };
struct dev_memory_options {
	enum dev_memory_kind kind;
	uint64_t bytes;
	int dmabuf_fd; /* DMABUF: duplicated */
	uint64_t dmabuf_offset_bytes;
};
struct dev_memory;
#define SPLIT_MEMORIES_MAX 64u /* of one port */

/*
 * dev_memory_open -- @options->bytes of such memory, at *@ret_memory, page aligned
 *
 * Ownership: the caller's until dev_memory_close, or until the port closes; the dmabuf's descriptor is duplicated.
 * Returns:   the memory, or NULL with errno, and split_port_reason says more.
 * Errors:    ENOTSUP the port's transport or device has none of this kind; ENOTCONN the port's device is
 *            not known yet (it has no address); ENOMEM more than there is; EINVAL; ENOBUFS
 *            SPLIT_MEMORIES_MAX.
 * Limits:    soft engines and disks reach only what the host can map (dev_memory_is_mapped): a dmabuf
 *            of host pages, never the RDMA device's. dev_func refuses other memory; dev_copy_* reaches
 *            also the RDMA device's.
 * Threads:   the port's loop's.
 */
struct dev_memory *dev_memory_open(struct split_port *port,
    const struct dev_memory_options *options, dev_ptr *ret_memory);

/*
 * dev_memory_close -- give such memory back; NULL is a no-op
 *
 * Ownership: no send, receive or region may be there. @memory is gone.
 * Threads:   the port's loop's.
 */
void dev_memory_close(struct dev_memory *memory);

/*
 * dev_memory_is_mapped -- can soft engines and disks reach it?
 *
 * Ownership: borrows @memory during the call.
 * Returns:   true if this host can map it.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
bool dev_memory_is_mapped(const struct dev_memory *memory);

/* A message from the pool. Valid until split_msg_reply or split_msg_release. */
struct split_msg {
	struct split_qp *qp;              /* NULL once the queue pair is closed */
	const struct wire_header *header; /* host memory; framing fields checked, others raw */
	dev_ptr payload;                  /* device memory, 4096-byte aligned */
	uint32_t payload_bytes;
	void *placed;   /* where on_place had it put instead of @payload; NULL: nowhere else */
	void *user;     /* the receiver's */
	bool is_secret; /* the receiver's: wipe the payload's memory before anybody else gets it */
};

enum split_qp_state {
	SPLIT_QP_CONNECTING,
	SPLIT_QP_ACCEPTING,
	SPLIT_QP_READY,
	SPLIT_QP_CLOSING,
	SPLIT_QP_CLOSED,
	SPLIT_QP_STATE_NR
};

/* A queue pair's handlers. All run from the loop, never inside a call that caused them. */
struct split_qp_ops {
	/* Connected: @hello is the peer's private data. Also after split_qp_accept. May be NULL. */
	void (*on_ready)(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg);
	/* Messages, oldest first, from the pool; the handler owns each until reply or release. */
	void (*on_messages)(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count,
	    void *arg);
	/*
	 * Host memory for the payload_bytes of a reply whose header has come and whose payload has not:
	 * it goes there and not into the pool's, so that who keeps it anyway does not copy it. NULL: no.
	 * A transport that has the payload already does not ask. The memory is written until on_messages
	 * or on_closed. @header: checked as in split_msg. Calls nothing of the library. May be NULL.
	 */
	void *(*on_place)(struct split_qp *qp, const struct wire_header *header, void *arg);
	/*
	 * Gone, for good; called once, after every send's completion. @rc: 0 closed here,
	 * -ECONNRESET peer gone, -ECONNREFUSED, -ETIMEDOUT, -EPROTO, or the status with which the
	 * peer rejected us. @qp is freed when this returns. Messages of the pool survive.
	 */
	void (*on_closed)(struct split_qp *qp, int rc, const char *reason, void *arg);
};

struct split_connect_options {
	const char *address;
	const void *hello; /* at most WIRE_HELLO_BYTES; copied */
	uint32_t hello_bytes;
	uint64_t timeout_ns;            /* [5 s] */
	const struct split_qp_ops *ops; /* NULL: receives are posted by dev_mixed_recv */
	void *arg;
	unsigned
	    peer_roles; /* where the port has a key: what the peer may be, bits of enum split_role */
};

/*
 * connect_qp -- start connecting
 *
 * A host of tcp:// or verbs:// may be a name. It is looked up anew, on a thread of the library's, and its addresses
 * are tried in turn until one answers, all of it within timeout_ns; split_qp_peer says which one that was.
 * Ownership: @options, address and hello are copied; ops and arg are borrowed until on_closed. The queue
 *            pair is the library's: it is freed when on_closed returns; without ops, by split_qp_close.
 * Returns:   the queue pair, and on_ready or on_closed follows; NULL with errno: nothing follows.
 * Errors:    EINVAL the address cannot be parsed, a hello that is too long, handlers that need a pool
 *            where receive_count is 0, or no peer_roles where the port has a key; ENOBUFS qp_count_max; ENOMEM; EXDEV the port has addresses of
 *            another transport; ENODEV. To on_closed: see split_qp_ops.
 * Threads:   the port's loop's.
 */
struct split_qp *connect_qp(struct split_port *port, const struct split_connect_options *options);

/*
 * A listener asks @on_accept about each connection, with the peer's hello. It must call
 * split_qp_accept or split_qp_reject, now or later (bounded by keepalive_ns).
 */
typedef void (
    *split_accept_fn)(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg);

/*
 * split_listen -- let peers connect to @address; @on_accept is asked about each connection
 *
 * What a verbs:// port connects to afterwards is reached from the first such address. A name of this machine is
 * looked up before this returns, which may take 10 s: for a start.
 * Ownership: @address is copied; @on_accept and @arg are borrowed until the port closes. @ret_address
 *            (SPLIT_ADDRESS_BYTES_MAX, may be NULL) gets the bound address, so that port 0 can be
 *            asked for.
 * Returns:   0, until the port closes; else it is not listened there.
 * Errors:    -EADDRINUSE; -EADDRNOTAVAIL (split_port_reason says why, of a name); -EINVAL unparsable; -EACCES; -ENODEV no RDMA device there;
 *            -EXDEV a port has verbs:// addresses (of one device), or others; -ENOMEM.
 * Threads:   the port's loop's.
 */
int split_listen(struct split_port *port, const char *address, split_accept_fn on_accept, void *arg,
    char *ret_address);

/*
 * split_qp_accept -- take a connection that on_accept was asked about; on_ready or on_closed follows
 *
 * Ownership: @hello, at most WIRE_HELLO_BYTES, is copied; @ops and @arg are borrowed until on_closed, and
 *            the queue pair is freed when that returns; without @ops, by split_qp_close.
 * Threads:   the port's loop's; once, in on_accept or later.
 */
void split_qp_accept(struct split_qp *qp, const struct split_qp_ops *ops, void *arg,
    const void *hello, uint32_t hello_bytes);

/*
 * split_qp_reject -- refuse it instead: the peer's on_closed gets @rc, a negative errno with a wire status
 *
 * Ownership: @qp is gone.
 * Threads:   the port's loop's; once, in on_accept or later.
 */
void split_qp_reject(struct split_qp *qp, int rc);

/*
 * split_qp_refuse -- split_qp_reject, and @why for the peer's log: its on_closed gets it in the reason
 *
 * Ownership: @qp is gone. @why is copied: printable ASCII without a quotation mark, cut behind
 *            WIRE_HELLO_BYTES; NULL: the status says it all.
 * Threads:   the port's loop's; once, in on_accept or later.
 */
void split_qp_refuse(struct split_qp *qp, int rc, const char *why);

/*
 * split_qp_close -- flush: queued sends complete with -ECANCELED, then on_closed(0). Idempotent.
 *
 * Ownership: @qp is freed when on_closed returns. One without handlers (ops NULL) is not freed when its
 *            connection ends, but by this call.
 * Threads:   the port's loop's.
 */
void split_qp_close(struct split_qp *qp);

/*
 * split_qp_keep, split_qp_lodge -- @qp, which came in, has shown that it is there for something: it does not give way
 *
 * From on_accept on, also before split_qp_accept. Who lodges gives its place alone, where no guest has one to give: who
 * has been silent longest, unanswered requests or not. It may be kept later. No-op where guests do not give way.
 * Ownership: @qp stays whose it was.
 * Threads:   the port's loop's.
 */
void split_qp_keep(struct split_qp *qp);
void split_qp_lodge(struct split_qp *qp);

/*
 * split_port_qp_of -- the oldest queue pair of @port that is READY and has the argument @arg
 *
 * Ownership: it stays the library's, as long as on_closed was not called.
 * Returns:   the queue pair; NULL: none.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
struct split_qp *split_port_qp_of(const struct split_port *port, const void *arg);

/*
 * split_qp_state -- connecting, ready, or on its way out
 *
 * Ownership: borrows @qp during the call.
 * Returns:   the state now.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
enum split_qp_state split_qp_state(const struct split_qp *qp);

/*
 * split_qp_peer -- the peer's address, for logs
 *
 * Ownership: the text is the queue pair's, until on_closed returns.
 * Returns:   the text.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
const char *split_qp_peer(const struct split_qp *qp);

/*
 * split_qp_arg -- the argument of its handlers
 *
 * Ownership: the caller's own.
 * Returns:   what connect_qp or split_qp_accept was given.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
void *split_qp_arg(const struct split_qp *qp);

/*
 * split_qp_port -- the port that it belongs to
 *
 * Ownership: borrows @qp during the call.
 * Returns:   the port.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
struct split_port *split_qp_port(const struct split_qp *qp);

/*
 * A send work request, owned by the caller from split_send until @fn. The wire sees @header_bytes of
 * host memory (64 .. 16 KiB; what exceeds 64 is the payload's beginning), then the pieces.
 */
struct split_send {
	struct loop_link link; /* owned by the queue pair */
	struct wire_header *header;
	uint32_t header_bytes;
	uint32_t piece_count; /* at most SPLIT_PIECES_MAX */
	const struct dev_piece *pieces;
	/* rc: 0 the buffers are free again and the message is on its way; -ECANCELED, -ECONNRESET. */
	void (*fn)(struct split_send *send, int rc, void *arg);
	void *arg;
	uint64_t total_bytes; /* owned by the queue pair */
	uint64_t sent_bytes;  /* owned by the queue pair */
};

/*
 * split_send -- queue @send; sent at the end of the loop turn together with its neighbours
 *
 * Ownership: @send, header, pieces and what they point to are the library's until @send->fn is called.
 * Returns:   0: @send->fn is called exactly once, later; else it never is.
 * Errors:    -ENOTCONN; -ENOBUFS the send queue is full; -EMSGSIZE; -EINVAL the shape, or a reply that
 *            nobody has asked for.
 * Threads:   the port's loop's.
 */
int split_send(struct split_qp *qp, struct split_send *send);

/*
 * split_send_cancel -- take a queued send back
 *
 * Ownership: after 1 @send is the caller's again.
 * Returns:   1: taken back, its @fn will not be called; 0: too late, it will.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
int split_send_cancel(struct split_qp *qp, struct split_send *send);

/*
 * split_msg_reply -- answer @msg with @header and device pieces (at most 16)
 *
 * Ownership: @msg is the library's; @header and @pieces are copied, what the pieces point to is borrowed.
 *            The message and its receive go back to the pool when the reply is on its way or the queue pair
 *            is gone; @fn (may be NULL) is called then: pieces outside the message's own payload are free.
 * Threads:   the port's loop's.
 */
void split_msg_reply(struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *pieces, uint32_t piece_count, void (*fn)(int rc, void *arg), void *arg);

/*
 * split_msg_release -- give a message back unanswered (replies to us, or a dead peer's)
 *
 * Ownership: @msg and its payload go back to the pool.
 * Threads:   the port's loop's.
 */
void split_msg_release(struct split_msg *msg);

/*
 * The paper's events. An event is released by the dev_poll (or harvest) that returns it, or after
 * its handler.
 */
struct dev_completion {
	struct dev_event *event; /* for identity only: it is released */
	int rc;                  /* 0 or a negative errno */
	uint32_t bytes; /* received payload beyond the header; sent; or produced by an engine */
};

/*
 * dev_mixed_recv -- post one split receive
 *
 * Cuts the next message on @qp at @h_size bytes: the head lands in @h_buf, the rest in @d_buf.
 * Shape:     @h_buf: 64..SPLIT_HEADER_BYTES_MAX bytes of host memory. @d_buf: a capacity of @d_size
 *            bytes of device memory; a message no longer than the header leaves it untouched.
 * Ownership: both are borrowed from the call until the event completes.
 * Returns:   an event that completes exactly once; NULL with errno set: none will, buffers are free.
 * Errors:    EINVAL header size; ENOTCONN qp not ready; ENOBUFS receive queue or events exhausted; ENOTSUP the
 *            connection is sealed, and @d_buf is device memory that this host cannot map.
 *            In the event: -EMSGSIZE message longer than both (the message is consumed, the queue
 *            pair lives; over verbs:// the device ends it, at both ends with -EMSGSIZE);
 *            -ECONNRESET peer gone; -ECANCELED qp closed.
 * Threads:   the loop thread that owns @qp. Does not block, allocate or log.
 * Source:    SmartDS (ISCA '23), section 4.1, table 2
 */
struct dev_event *dev_mixed_recv(struct split_qp *qp, void *h_buf, size_t h_size, dev_ptr d_buf,
    size_t d_size);

/*
 * dev_mixed_send -- assemble @h_size bytes of host and @d_size of device memory into one message
 *
 * Shape:     @h_buf: a struct wire_header, and what of the payload follows it; 64 ..
 *            SPLIT_HEADER_BYTES_MAX bytes. @d_size: up to WIRE_PAYLOAD_BYTES_MAX.
 * Ownership: both are borrowed from the call until the event completes.
 * Returns:   an event that completes exactly once; NULL with errno: none will, buffers are free.
 * Errors:    EINVAL shape; EMSGSIZE; ENOTCONN qp not ready; ENOBUFS send queue full or events exhausted.
 *            In the event: -ECONNRESET peer gone; -ECANCELED qp closed.
 * Threads:   the port's loop's.
 */
struct dev_event *dev_mixed_send(struct split_qp *qp, void *h_buf, size_t h_size, dev_ptr d_buf,
    size_t d_size);

/*
 * dev_mixed_sendv -- the same with several device pieces
 *
 * Ownership: as with dev_mixed_send; @pieces (at most SPLIT_PIECES_MAX) is copied, its memory borrowed.
 * Returns:   as dev_mixed_send.
 * Errors:    as dev_mixed_send.
 * Threads:   the port's loop's.
 */
struct dev_event *dev_mixed_sendv(struct split_qp *qp, void *h_buf, size_t h_size,
    const struct dev_piece *pieces, uint32_t piece_count);
/* The engines of dev_func. */
enum dev_engine {
	DEV_ENGINE_COMPRESS_LZ4,
	DEV_ENGINE_DECOMPRESS_LZ4,
	DEV_ENGINE_COMPRESS_ZSTD,
	DEV_ENGINE_DECOMPRESS_ZSTD,
	DEV_ENGINE_COPY,
	DEV_ENGINE_NR
};

/*
 * dev_func -- run @engine from @src to @dst; completion.bytes is what it produced
 *
 * Ownership: both are borrowed from the call until the event completes.
 * Returns:   an event that completes exactly once; NULL with errno: none will.
 * Errors:    ENOTSUP the port has no engines, or they do not reach this memory; EINVAL no such engine, or
 *            a size that it does not take; ENOBUFS events or the engines' queue exhausted. In the event:
 *            -ENOSPC it does not fit into @dst; -EBADMSG @src is not what the engine made.
 * Threads:   the port's loop's.
 */
struct dev_event *dev_func(struct split_port *port, dev_ptr src, size_t src_size, dev_ptr dst,
    size_t dst_size, enum dev_engine engine);

/* A region, as a peer needs to know it to read or write there; opaque but for @bytes and @rights. */
enum dev_region_rights { DEV_REGION_READ = 1u << 0, DEV_REGION_WRITE = 1u << 1 };
struct dev_remote {
	uint64_t address;
	uint64_t bytes;
	uint32_t key;
	uint32_t rights; /* enum dev_region_rights */
};
#define DEV_REMOTE_BYTES 24u

/*
 * dev_remote_encode -- a region's key as it travels, little-endian
 *
 * Ownership: both are borrowed during the call.
 * Threads:   any.
 */
void dev_remote_encode(uint8_t out[DEV_REMOTE_BYTES], const struct dev_remote *remote);

/*
 * dev_remote_decode -- a region's key that has come
 *
 * Ownership: both are borrowed during the call.
 * Returns:   0 and *@ret_remote.
 * Errors:    -EPROTO it is none; *@ret_remote is untouched.
 * Threads:   any.
 */
int dev_remote_decode(const uint8_t in[DEV_REMOTE_BYTES], struct dev_remote *ret_remote);

struct dev_region;              /* an open region */
#define SPLIT_REGIONS_MAX 1024u /* of one port */

/*
 * dev_region_open -- let peers read or write @bytes at @memory
 *
 * Every peer of the port that knows the key may, as often as it likes, until dev_region_close. Over
 * verbs:// this registers memory with the device: a matter of a system call, not for each message.
 * Shape:     @memory lies in one dev_alloc or dev_memory_open of this port; @rights: one or both.
 * Ownership: the region is the caller's until dev_region_close or until the port closes; @memory is
 *            borrowed until then.
 * Returns:   the region, and in *@ret_remote what to send to peers; NULL with errno.
 * Errors:    EINVAL shape; ENOTCONN the port has no address yet, so nobody can say which transport
 *            would serve it, or has no device now; ENOBUFS SPLIT_REGIONS_MAX; ENOMEM (or the limit on
 *            locked memory); ENODEV memory of a device that is gone.
 * Lifetime:  over verbs:// its key ends with the port's device (on_device). Close it, and open another.
 * Threads:   the port's loop's.
 */
struct dev_region *dev_region_open(struct split_port *port, dev_ptr memory, size_t bytes,
    uint32_t rights, struct dev_remote *ret_remote);

/*
 * dev_region_close -- revoke the key: from the return on no peer reads or writes there
 *
 * What a peer has under way fails there with -EKEYREVOKED, or was complete. NULL is a no-op. Regions that
 * are open when their port closes go with it.
 * Ownership: @region is gone; the memory is the owner's again at once.
 * Threads:   the port's loop's.
 */
void dev_region_close(struct dev_region *region);

/*
 * dev_read, dev_write -- move @d_size bytes between @d_buf and the peer's region, from @offset_bytes on
 *
 * Ownership: @d_buf is borrowed until the event completes; *@remote is copied. A write that has
 *            completed is in the peer's memory: a message sent after that finds it there. Nothing
 *            else orders them, among each other or against messages.
 * Shape:     @d_size: 1 .. UINT32_MAX bytes of this port's device memory. More than
 *            WIRE_PAYLOAD_BYTES_MAX travels in pieces: it is not atomic.
 * Returns:   an event; completion.bytes is what was moved. NULL with errno: nothing happens.
 * Errors:    EINVAL shape; EACCES @remote lacks the right; ERANGE beyond its end; ENOTCONN; ENOBUFS
 *            events exhausted. In the event: -EKEYREVOKED the peer refused: the key was revoked, or
 *            never allowed this; -ENOBUFS the peer has no resources for it; -ECONNRESET, -ECANCELED.
 *            A refused one costs no other read, write or message: over verbs:// the protocol ends the
 *            connection that carried it, so they have one of their own, made with the first of them
 *            and made again after such an end; what had not been carried out is tried again on it.
 * Cancel:    dev_event_cancel answers 0: it completes.
 * Threads:   the port's loop's.
 */
struct dev_event *dev_read(struct split_qp *qp, dev_ptr d_buf, size_t d_size,
    const struct dev_remote *remote, uint64_t offset_bytes);
struct dev_event *dev_write(struct split_qp *qp, dev_ptr d_buf, size_t d_size,
    const struct dev_remote *remote, uint64_t offset_bytes);

/*
 * dev_poll -- wait for @event and release it
 *
 * Outside a loop it runs the loop until the event completes; inside a handler it never waits.
 * Ownership: after 0 @event is the library's again: it may name another one soon.
 * Returns:   0 with *@ret_completion, whose rc is the work's.
 * Errors:    -EAGAIN it has not completed, and this is a handler; -EINTR the loop was stopped; what
 *            loop_run returns. The event goes on.
 * Threads:   the port's loop's.
 */
int dev_poll(struct dev_event *event, struct dev_completion *ret_completion);

/*
 * dev_poll_many -- harvest up to @max completed events of @port without handlers; never blocks
 *
 * Ownership: the events are the library's again.
 * Returns:   how many are in @ret_completions.
 * Errors:    none: what became of each is in its rc.
 * Threads:   the port's loop's.
 */
uint32_t dev_poll_many(struct split_port *port, struct dev_completion *ret_completions,
    uint32_t max);

/*
 * dev_event_on -- complete into @fn, from the loop, instead of being polled
 *
 * Ownership: @event is the library's, and released after @fn.
 * Threads:   the port's loop's; once an event.
 */
void dev_event_on(struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg);

/*
 * dev_event_cancel -- give up
 *
 * Ownership: @event and its buffers stay with the library until it completes.
 * Returns:   1: it completes with -ECANCELED soon; 0: too late, it completes as if nothing were.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
int dev_event_cancel(struct dev_event *event);

/*
 * dev_wait_ready -- run the loop until @qp is READY or closed
 *
 * Ownership: @qp, if it has handlers, may be gone after an error.
 * Returns:   0: it is READY.
 * Errors:    what on_closed would be told; -EINTR the loop was stopped; -EBUSY called from a handler.
 * Threads:   the port's loop's, outside of loop_run.
 */
int dev_wait_ready(struct split_qp *qp);

/* Counters of a port, since it was opened. */
#define SPLIT_COUNTER_LIST(X)                                                                      \
	X(host_bytes_in, "bytes", "received into host memory")                                     \
	X(host_bytes_out, "bytes", "sent from host memory")                                        \
	X(device_bytes_in, "bytes", "received into device memory")                                 \
	X(device_bytes_out, "bytes", "sent from device memory")                                    \
	X(copied_to_host_bytes, "bytes", "dev_copy_to_host")                                       \
	X(copied_from_host_bytes, "bytes", "dev_copy_from_host")                                   \
	X(spill_bytes, "bytes", "moved once more after a wrong guess")                             \
	X(messages_in, "count", "messages received")                                               \
	X(messages_out, "count", "messages sent")                                                  \
	X(receive_calls, "count", "system calls that received")                                    \
	X(send_calls, "count", "system calls that sent")                                           \
	X(credit_messages_out, "count", "messages that carried nothing but credits")               \
	X(credit_waits, "count", "requests that waited for a credit")                              \
	X(one_sided_done, "count", "reads and writes of peers' regions that ended here")           \
	X(one_sided_refused, "count", "of them those that the peer refused")                       \
	X(protocol_errors, "count", "queue pairs closed for a broken message")                     \
	X(qps_opened, "count", "queue pairs that became ready")                                    \
	X(qps_closed, "count", "queue pairs that ended")                                           \
	X(qps_refused, "count", "connections for which the port had no room")                      \
	X(qps_cut, "count", "connections closed because their place or receives were needed")      \
	X(auths_refused, "count",                                                                  \
	    "connections that came in and whose key was missing or not believed")                  \
	X(accept_pauses, "count", "times that the system had no descriptor for a connection")      \
	X(devices_lost, "count", "RDMA devices that were removed, broke or lost the port's address")
struct split_counters {
#define SPLIT_COUNTER_MEMBER(name, unit, help) uint64_t name;
	SPLIT_COUNTER_LIST(SPLIT_COUNTER_MEMBER)
#undef SPLIT_COUNTER_MEMBER
};

/*
 * split_port_counters -- what crossed, counted
 *
 * Ownership: the numbers are the port's, as long as it lives.
 * Returns:   live values, which only grow.
 * Errors:    none.
 * Threads:   any; another one than the loop's reads each value with a relaxed atomic load.
 */
const struct split_counters *split_port_counters(const struct split_port *port);

/*
 * split_port_reason -- why a call on an address failed, where its transport knows more than an errno
 *
 * Ownership: the text is the port's, until the next such call.
 * Returns:   a text for people.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
const char *split_port_reason(const struct split_port *port);

/*
 * split_port_receives_free -- pool receives that nobody holds; for leak checks and admission
 *
 * Ownership: borrows @port during the call.
 * Returns:   the number.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
uint32_t split_port_receives_free(const struct split_port *port);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_SPLIT_H */
