/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.h -- the split library: messages whose header is host memory and whose payload is device
 * memory
 *
 * After SmartDS (ISCA '23), section 4.1 and table 2, whose names the first group of calls keeps. A
 * *port* (the paper's RoCE instance) owns two arenas, host and device, a pool of receives, and queue
 * pairs; it belongs to one loop and one thread and shares nothing with another port. A *queue pair*
 * carries messages reliably and in order over a transport chosen by the address:
 *
 *	tcp://HOST:PORT   sockets (splitlib/tcp/)
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

/* What a port is made with. Zero means the default in brackets. */
struct split_port_options {
	struct loop *loop;
	struct sim_host *sim_host;      /* for sim:// addresses; else NULL */
	uint64_t host_bytes;            /* host arena [4 MiB] */
	uint64_t device_bytes;          /* device arena, the pool's buffers included [64 MiB] */
	uint32_t receive_count;         /* receives in the pool [0: none, only dev_mixed_recv] */
	uint32_t receive_payload_bytes; /* device bytes a pool receive holds [65536] */
	uint32_t qp_count_max;          /* [1024]; an RDMA device may have room for fewer */
	/*
	 * Of them, kept for connect_qp: connections that come in are refused so that as many of those that
	 * the port makes have room, whoever comes. At most half of what there is [0: none].
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
	 * Guests are the connections that came in and are not kept (split_qp_keep). They give way: where there is
	 * no place, or no descriptor, for one that comes, the guest that has been silent longest, of those with
	 * nothing under way, is closed for it; and where receives are short, a guest that does not return what it
	 * was lent within a second. Off: they stay, and who comes is refused.
	 */
	bool guests_give_way;
	/*
	 * Optional, for the log: a guest was closed, counted in qps_cut. @silent_ns: since it last asked for
	 * something, or said hello. @why: a static text. Calls nothing of the library.
	 */
	void (*on_cut)(const char *peer, uint64_t silent_ns, const char *why, void *arg);
	void *on_cut_arg;
};

/*
 * open_roce_instance -- open a port
 *
 * Allocates both arenas and the pool at once; nothing grows later.
 * Returns: the port, or NULL with errno: ENOMEM (or the limit on locked memory), EINVAL a size that
 * does not fit.
 */
struct split_port *open_roce_instance(const struct split_port_options *options);

/*
 * split_port_accepted_max -- how many connections that come in @port has room for
 *
 * qp_count_max less qp_reserved_count; less where its RDMA device, once it has one, has room for fewer.
 * SPLIT_SURPLUS_MAX more may be there for a moment, to be told that there is no room.
 */
#define SPLIT_SURPLUS_MAX 16u
uint32_t split_port_accepted_max(const struct split_port *port);

/* split_port_close -- close every queue pair (their on_closed runs), free all. NULL is a no-op. */
void split_port_close(struct split_port *port);

/* host_alloc, dev_alloc -- from the port's arenas, 64-byte aligned, device memory 4096-byte aligned
 * when @bytes >= 4096. Return NULL (DEV_PTR_NULL) with errno ENOMEM. For start-up, not the data path. */
void *host_alloc(struct split_port *port, size_t bytes);
void host_free(struct split_port *port, void *memory);
dev_ptr dev_alloc(struct split_port *port, size_t bytes);
void dev_free(struct split_port *port, dev_ptr memory);

/*
 * dev_copy_to_host, dev_copy_from_host -- a counted copy across the device link
 *
 * For what software must read or make: descriptors at take-over, manifests, control texts. Never for
 * a payload between its receive and its send (I1).
 */
void dev_copy_to_host(struct split_port *port, void *dst, dev_ptr src, size_t bytes);
void dev_copy_from_host(struct split_port *port, dev_ptr dst, const void *src, size_t bytes);

/* split_port_pages_text -- what pages device memory has, for a daemon's log: a static string. */
const char *split_port_pages_text(const struct split_port *port);

/*
 * Device memory of other kinds. A port's own (dev_alloc, the pool) is pages of this host. A device may
 * have memory too: the RDMA device its own, or another one, a GPU's, shared as a dmabuf. What lies
 * there goes into messages and comes out of them, is read and written one-sided and opened as a region
 * like any other; its bytes never pass this host.
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
 * Returns: the memory, or NULL with errno, and split_port_reason says more: ENOTSUP the port's
 *          transport or device has none of this kind; ENOTCONN the port's device is not known yet (it
 *          has no address); ENOMEM more than there is; EINVAL; ENOBUFS SPLIT_MEMORIES_MAX.
 * Limits:  soft engines and disks reach only what the host can map (dev_memory_is_mapped): a dmabuf
 *          of host pages, never the RDMA device's. dev_func refuses other memory; dev_copy_* reaches
 *          also the RDMA device's.
 */
struct dev_memory *dev_memory_open(struct split_port *port,
    const struct dev_memory_options *options, dev_ptr *ret_memory);
/* dev_memory_close -- no send, receive or region may be there. NULL: no-op. With the port at last. */
void dev_memory_close(struct dev_memory *memory);
bool dev_memory_is_mapped(const struct dev_memory *memory);

/* A message from the pool. Valid until split_msg_reply or split_msg_release. */
struct split_msg {
	struct split_qp *qp;              /* NULL once the queue pair is closed */
	const struct wire_header *header; /* host memory; framing fields checked, others raw */
	dev_ptr payload;                  /* device memory, 4096-byte aligned */
	uint32_t payload_bytes;
	void *placed; /* where on_place had it put instead of @payload; NULL: nowhere else */
	void *user;   /* the receiver's */
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
};

/* connect_qp -- start connecting; on_ready or on_closed follows. NULL with errno: nothing follows. */
struct split_qp *connect_qp(struct split_port *port, const struct split_connect_options *options);

/*
 * A listener asks @on_accept about each connection, with the peer's hello. It must call
 * split_qp_accept or split_qp_reject, now or later (bounded by keepalive_ns).
 */
typedef void (
    *split_accept_fn)(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg);
/*
 * split_listen -- @ret_address (SPLIT_ADDRESS_BYTES_MAX, may be NULL) gets the bound address, so
 * that port 0 can be asked for. Returns 0; -EADDRINUSE; -EADDRNOTAVAIL; -EINVAL unparsable; -EACCES;
 * -ENODEV no RDMA device there; -EXDEV a port has verbs:// addresses (of one device), or others.
 * What a verbs:// port connects to afterwards is reached from the first such address.
 */
int split_listen(struct split_port *port, const char *address, split_accept_fn on_accept, void *arg,
    char *ret_address);
void split_qp_accept(struct split_qp *qp, const struct split_qp_ops *ops, void *arg,
    const void *hello, uint32_t hello_bytes);
/* split_qp_reject -- the peer's on_closed gets @rc (a negative errno with a wire status). */
void split_qp_reject(struct split_qp *qp, int rc);
/*
 * split_qp_refuse -- split_qp_reject, and @why for the peer's log: its on_closed gets it in the reason
 *
 * @why: printable ASCII without a quotation mark, cut behind WIRE_HELLO_BYTES; NULL: the status says it all.
 */
void split_qp_refuse(struct split_qp *qp, int rc, const char *why);

/*
 * split_qp_close -- flush: queued sends complete with -ECANCELED, then on_closed(0). Idempotent.
 *
 * A queue pair without handlers (ops NULL) is not freed when it closes, but by this call.
 */
void split_qp_close(struct split_qp *qp);
/*
 * split_qp_keep -- @qp, which came in, has shown that it is there for something: it never has to give way
 *
 * From on_accept on, also before split_qp_accept. No-op the second time, and where guests do not give way.
 */
void split_qp_keep(struct split_qp *qp);
/* split_port_qp_of -- the oldest queue pair of @port that is READY and has the argument @arg; NULL: none. */
struct split_qp *split_port_qp_of(const struct split_port *port, const void *arg);
enum split_qp_state split_qp_state(const struct split_qp *qp);
const char *split_qp_peer(const struct split_qp *qp); /* address text, for logs */
void *split_qp_arg(const struct split_qp *qp);
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
 * Returns 0: @fn is called exactly once; -ENOTCONN; -ENOBUFS: send queue full; -EMSGSIZE; -EINVAL.
 */
int split_send(struct split_qp *qp, struct split_send *send);
/* split_send_cancel -- 1: taken back, @fn will not be called; 0: too late, it will. */
int split_send_cancel(struct split_qp *qp, struct split_send *send);

/*
 * split_msg_reply -- answer @msg with @header (copied) and device pieces (copied, at most 4)
 *
 * The message and its receive go back to the pool when the reply is on its way or the queue pair is
 * gone; @fn (may be NULL) is called then: pieces outside the message's own payload are free.
 */
void split_msg_reply(struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *pieces, uint32_t piece_count, void (*fn)(int rc, void *arg), void *arg);
/* split_msg_release -- give a message back unanswered (replies to us, or a dead peer's). */
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
 * Errors:    EINVAL header size; ENOTCONN qp not ready; ENOBUFS receive queue or events exhausted.
 *            In the event: -EMSGSIZE message longer than both (the message is consumed, the queue
 *            pair lives; over verbs:// the device ends it, at both ends with -EMSGSIZE);
 *            -ECONNRESET peer gone; -ECANCELED qp closed.
 * Threads:   the loop thread that owns @qp. Does not block, allocate or log.
 * Source:    SmartDS (ISCA '23), section 4.1, table 2
 */
struct dev_event *dev_mixed_recv(struct split_qp *qp, void *h_buf, size_t h_size, dev_ptr d_buf,
    size_t d_size);
/* dev_mixed_send -- assemble @h_size bytes of host and @d_size of device memory into one message. */
struct dev_event *dev_mixed_send(struct split_qp *qp, void *h_buf, size_t h_size, dev_ptr d_buf,
    size_t d_size);
/* dev_mixed_sendv -- the same with several device pieces (copied, at most SPLIT_PIECES_MAX). */
struct dev_event *dev_mixed_sendv(struct split_qp *qp, void *h_buf, size_t h_size,
    const struct dev_piece *pieces, uint32_t piece_count);
/* What dev_func's engine argument names. */
enum dev_engine {
	DEV_ENGINE_COMPRESS_LZ4,
	DEV_ENGINE_DECOMPRESS_LZ4,
	DEV_ENGINE_COMPRESS_ZSTD,
	DEV_ENGINE_DECOMPRESS_ZSTD,
	DEV_ENGINE_COPY,
	DEV_ENGINE_NR
};
/* dev_func -- run @engine from @src to @dst; completion.bytes is what it produced. */
struct dev_event *dev_func(struct split_port *port, dev_ptr src, size_t src_size, dev_ptr dst,
    size_t dst_size, enum dev_engine engine);

/*
 * One-sided reads and writes. What a peer needs to reach a region; opaque but for @bytes and @rights.
 */
enum dev_region_rights { DEV_REGION_READ = 1u << 0, DEV_REGION_WRITE = 1u << 1 };
struct dev_remote {
	uint64_t address;
	uint64_t bytes;
	uint32_t key;
	uint32_t rights; /* enum dev_region_rights */
};
#define DEV_REMOTE_BYTES 24u
/* dev_remote_encode, _decode -- as it travels, little-endian. 0, or -EPROTO: none of ours. */
void dev_remote_encode(uint8_t out[DEV_REMOTE_BYTES], const struct dev_remote *remote);
int dev_remote_decode(const uint8_t in[DEV_REMOTE_BYTES], struct dev_remote *ret_remote);

struct dev_region;              /* an open region */
#define SPLIT_REGIONS_MAX 1024u /* of one port */

/*
 * dev_region_open -- let peers read or write @bytes at @memory
 *
 * Every peer of the port that knows the key may, as often as it likes, until dev_region_close. Over
 * verbs:// this registers memory with the device: a matter of a system call, not for each message.
 * Shape:     @memory lies in one dev_alloc or dev_memory_open of this port; @rights: one or both.
 * Returns:   the region, and in *@ret_remote what to send to peers; NULL with errno.
 * Errors:    EINVAL shape; ENOTCONN the port has no address yet, so nobody can say which transport
 *            would serve it, or has no device now; ENOBUFS SPLIT_REGIONS_MAX; ENOMEM (or the limit on
 *            locked memory); ENODEV memory of a device that is gone.
 * Lifetime:  over verbs:// its key ends with the port's device (on_device): nobody reaches it any
 *            more. Close it, and open another.
 */
struct dev_region *dev_region_open(struct split_port *port, dev_ptr memory, size_t bytes,
    uint32_t rights, struct dev_remote *ret_remote);
/*
 * dev_region_close -- revoke the key: from the return on no peer reads or writes there
 *
 * What a peer has under way fails there with -EKEYREVOKED, or was complete. The memory is the
 * owner's again at once. NULL is a no-op. Regions that are open when their port closes go with it.
 */
void dev_region_close(struct dev_region *region);

/*
 * dev_read, dev_write -- move @d_size bytes between @d_buf and the peer's region, from @offset on
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
 */
struct dev_event *dev_read(struct split_qp *qp, dev_ptr d_buf, size_t d_size,
    const struct dev_remote *remote, uint64_t offset_bytes);
struct dev_event *dev_write(struct split_qp *qp, dev_ptr d_buf, size_t d_size,
    const struct dev_remote *remote, uint64_t offset_bytes);

/*
 * dev_poll -- wait for @event and release it
 *
 * Outside a loop it runs the loop until the event completes; inside a handler it returns -EAGAIN at
 * once unless the event has completed. Returns 0 with *@ret_completion (whose rc is the work's).
 */
int dev_poll(struct dev_event *event, struct dev_completion *ret_completion);
/* dev_poll_many -- harvest up to @max completed events of @port without handlers; never blocks. */
uint32_t dev_poll_many(struct split_port *port, struct dev_completion *ret_completions,
    uint32_t max);
/* dev_event_on -- complete into @fn instead of being polled; the event is released after it. */
void dev_event_on(struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg);
/* dev_event_cancel -- give up: 1: it completes with -ECANCELED soon, 0: too late. */
int dev_event_cancel(struct dev_event *event);
/* dev_wait_ready -- outside a loop: run the loop until @qp is READY (0) or closed (negative). */
int dev_wait_ready(struct split_qp *qp);

/* What crossed, since the port was opened. */
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
	X(accept_pauses, "count", "times that the system had no descriptor for a connection")      \
	X(devices_lost, "count", "RDMA devices that were removed, broke or lost the port's address")
struct split_counters {
#define SPLIT_COUNTER_MEMBER(name, unit, help) uint64_t name;
	SPLIT_COUNTER_LIST(SPLIT_COUNTER_MEMBER)
#undef SPLIT_COUNTER_MEMBER
};
/* split_port_counters -- live values; other threads read them with relaxed atomic loads. */
const struct split_counters *split_port_counters(const struct split_port *port);
/* split_port_reason -- why a call on an address failed, where its transport knows more than an errno. */
const char *split_port_reason(const struct split_port *port);
/* split_port_receives_free -- pool receives that nobody holds; for leak checks and admission. */
uint32_t split_port_receives_free(const struct split_port *port);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_SPLIT_H */
