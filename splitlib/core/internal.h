/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h -- what the files of the split library share; blocks are headed by the owning file
 *
 * Who calls whom: transports move bytes and know nothing of credits, events or handlers. A transport
 * tells recv_split.c about headers and finished messages, and takes from send_assemble.c what is to
 * go next; those two ask credit.c, and end in handlers or dev_event.c. Every object belongs to its
 * port's loop thread.
 */
#ifndef CLEAVE_SPLIT_INTERNAL_H
#define CLEAVE_SPLIT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/split.h"
#include "dev_ptr_raw.h"

#define SPLIT_PORT_MAGIC 0x54524f50u     /* "PORT" */
#define SPLIT_QP_MAGIC 0x52494150u       /* "PAIR" */
#define SPLIT_LISTENER_MAGIC 0x4e54534cu /* "LSTN" */
#define SPLIT_RECEIVE_MAGIC 0x56434552u  /* "RECV" */
#define SPLIT_EVENT_MAGIC 0x544e5645u    /* "EVNT" */
#define SPLIT_REGION_MAGIC 0x4e474552u   /* "REGN" */
#define SPLIT_MEMORY_MAGIC 0x594d454du   /* "MEMY" */

#define SPLIT_BATCH_MAX 256u      /* messages in one on_messages call */
#define SPLIT_REPLY_PIECES_MAX 4u /* of split_msg_reply */
#define SPLIT_FLUSH_ROUNDS_MAX 8u /* send, complete, send again in one turn */
#define SPLIT_TRANSPORTS_MAX 4u   /* of one port */

struct transport_ops;
struct one_sided;        /* one_sided.h */
struct one_sided_piece;  /* one_sided.h */
struct one_sided_answer; /* one_sided.h */

/* alloc.c */

/* split_calloc, split_free -- zeroed memory; every allocation of the library goes through here. */
void *split_calloc(size_t count, size_t bytes);
void split_free(void *memory);
#ifdef CLEAVE_TEST_BUILD
/* split_alloc_fail_at -- let the @nth allocation from now on fail (1: the next), once; 0: none. */
void split_alloc_fail_at(uint32_t nth);
/* split_alloc_live_count -- allocations not yet freed. */
uint32_t split_alloc_live_count(void);
#endif

/* wire.c */

/*
 * wire_frame_check -- what frames any message: magic, version, CRC, payload_bytes, reserved
 *
 * Returns 0; -EPROTO, -EPROTONOSUPPORT for another version; *@ret_field names the field.
 */
int wire_frame_check(const struct wire_header *header, const char **ret_field);
/* wire_frame_stamp -- fill these fields of a message about to leave. */
void wire_frame_stamp(struct wire_header *header, uint32_t payload_bytes, uint16_t credits);

/* device_memory.c */

/* One mapping, cut by first fit. What is where is kept outside of it: the host may not look in. */
struct arena {
	uint8_t *memory;
	uint64_t bytes;
	struct loop_link blocks; /* struct arena_block, by offset, no gaps */
	bool is_device;          /* behind the guard */
	bool is_huge;            /* of reserved huge pages */
	uint64_t mapped_bytes;
};

/* A receive of the pool: one header slot, one payload buffer, and the reply made from it. */
struct split_receive {
	uint32_t magic;
	bool is_reply;              /* what it holds */
	bool is_held;               /* a handler owns it */
	bool is_in_device;          /* an RDMA device's shared receive queue has it */
	struct split_msg msg;       /* what handlers see */
	struct wire_header *header; /* its slot in host memory */
	dev_ptr payload;
	struct split_port *port;
	struct loop_link link; /* in qp->messages while a handler holds it, or port->orphans */
	/* The answer: split_msg_reply. */
	struct split_send reply;
	struct dev_piece pieces[SPLIT_REPLY_PIECES_MAX];
	void (*reply_fn)(int rc, void *arg);
	void *reply_arg;
};

struct receive_pool {
	struct split_receive *receives; /* options.receive_count of them */
	struct split_receive **free;    /* a stack: the hottest buffer is used first */
	uint32_t free_count;
	uint32_t srq_count; /* in the hands of an RDMA device's shared receive queue */
	uint32_t count;
	uint32_t payload_bytes_max; /* of one receive */
	dev_ptr payloads;
	struct wire_header *headers;
};

enum arena_flags {
	ARENA_DEVICE = 1u << 0, /* behind the guard */
	ARENA_HUGE = 1u << 1,   /* of reserved huge pages, if there are enough */
};
/* arena_init -- map and guard @bytes. Returns 0 or a negative errno. fini: nothing may be in use. */
int arena_init(struct arena *arena, uint64_t bytes, uint32_t flags);
void arena_fini(struct arena *arena);
/* arena_populate -- make its pages now. Where the kernel cannot, they come with the first use. */
void arena_populate(struct arena *arena);
/* arena_alloc -- NULL when nothing fits. @align is a power of two. */
void *arena_alloc(struct arena *arena, size_t bytes, size_t align);
void arena_free(struct arena *arena, const void *memory);
/* arena_has -- whether all of it lies in there. */
bool arena_has(const struct arena *arena, const void *memory, uint64_t bytes);
int receive_pool_init(struct split_port *port);
void receive_pool_fini(struct split_port *port);

static inline struct split_receive *
receive_pool_pop(struct receive_pool *pool)
{
	return pool->free_count == 0 ? NULL : pool->free[--pool->free_count];
}

static inline void
receive_pool_push(struct receive_pool *pool, struct split_receive *receive)
{
	assert(pool->free_count < pool->count);
	pool->free[pool->free_count++] = receive;
}

/* dev_memory.c */

/* Device memory that is not the arena's. Its addresses are its own, whether the host can map it or not. */
struct dev_memory {
	uint32_t magic;
	struct loop_link link; /* in port->memories */
	struct split_port *port;
	enum dev_memory_kind kind;
	uint8_t *base; /* pages that nobody may touch, or the dmabuf's */
	uint64_t bytes;
	bool is_mapped;
	int dmabuf_fd; /* -1: none */
	uint64_t dmabuf_offset_bytes;
	const struct transport_ops *ops;
	void *transport;
};
/* dev_memory_find -- where @memory lies, all of it. NULL: in none. */
struct dev_memory *dev_memory_find(const struct split_port *port, const void *memory,
    uint64_t bytes);
/* dev_memory_has -- whether all of it is device memory of @port, of any kind. */
bool dev_memory_has(const struct split_port *port, const void *memory, uint64_t bytes);
/* dev_memory_is_reached -- whether this host's engines can work there. */
bool dev_memory_is_reached(const struct split_port *port, dev_ptr memory, uint64_t bytes);
/* dev_memory_copy -- between there and host memory; guarded, not counted. */
void dev_memory_copy_out(const struct split_port *port, void *dst, const void *src, uint64_t bytes);
void dev_memory_copy_in(const struct split_port *port, void *dst, const void *src, uint64_t bytes);
/* dev_memories_fini -- close all of @port. */
void dev_memories_fini(struct split_port *port);

/* port.c */

/* Where a pool's receives are promised to. See credit.c. */
struct port_credits {
	uint32_t granted_count;       /* to peers, announced or not, not yet used */
	uint32_t reserved_count;      /* for replies to requests of ours */
	uint32_t held_requests_count; /* in handlers' hands */
	uint32_t held_replies_count;
	uint32_t granting_qp_count;    /* queue pairs whose peers send requests */
	struct loop_link reserve_wait; /* QPs with requests that lack a receive for the reply */
	struct loop_link grant_wanted; /* QPs whose peers have none and said WANT: first */
	struct loop_link grant_wait;   /* QPs whose peers could use more than they have */
	struct loop_link announce_due; /* QPs with grants to tell now, alone if need be */
	struct loop_link awake;        /* of those granting: least recently heard first */
	uint32_t awake_count;
	uint32_t batch_count; /* of requests, since idle_timer runs, or last fired */
	uint32_t short_count; /* of them, those that left their peer with too few */
	struct loop_timer idle_timer;
	uint32_t grant_wait_count; /* in both */
	struct loop_timer recall_timer;
	bool is_recall_out;        /* recall_timer waits for what was recalled */
	struct loop_link starving; /* QPs with requests and no credit, that have not said so */
	struct loop_timer want_timer;
	bool is_dirty; /* something was given back: look at the queues at the turn's end */
};

struct split_port {
	uint32_t magic;
	struct split_port_options options; /* defaults filled in */
	struct loop *loop;
	struct arena host, device;
	struct receive_pool pool;
	struct port_credits credits;
	struct loop_link qps;              /* oldest first */
	uint32_t qp_count, accepted_count; /* the surplus ones are in neither */
	uint32_t qp_room;        /* qp_count_max, or less: what the port's device has room for */
	uint32_t surplus_count;  /* beyond the room: to be told that there is none */
	struct loop_link guests; /* QPs that came in and are not kept: longest silent first */
	struct loop_timer guest_timer; /* some owe receives */
	uint32_t qp_id_next;
	struct loop_link listeners;
	struct loop_link send_due; /* QPs with something to put on the wire */
	struct loop_turn_end turn_end;
	struct loop_task wake_task; /* makes sure that a turn, and so its end, comes */
	struct loop_link orphans;   /* replies whose queue pair is gone: handlers to call */
	struct loop_task orphan_task;
	struct dev_event *events;
	struct loop_link events_free;
	struct loop_link events_done;   /* completed, to be polled or harvested */
	struct loop_link events_called; /* completed, their handlers are to be called */
	struct loop_task event_task;
	uint32_t events_running_count; /* in an engine's hands */
	struct loop_link memories;     /* struct dev_memory */
	uint32_t memory_count;
	struct dev_region **regions; /* SPLIT_REGIONS_MAX, by index; NULL: none so far */
	struct split_qp *awaited_qp; /* dev_wait_ready's */
	int awaited_rc;
	uint32_t handler_depth; /* handlers of this port on the stack */
	bool is_closing;        /* split_port_close waits for nothing */
	/* Those that its addresses may name, and that of its addresses so far. */
	const struct transport_ops *transports[SPLIT_TRANSPORTS_MAX];
	uint32_t transport_count;
	const struct transport_ops *transport;
	struct verbs_port *verbs; /* verbs/verbs.h; NULL until the first verbs:// address */
	char reason[SPLIT_REASON_BYTES_MAX]; /* split_port_reason */
	struct loop_link sim_link;           /* sim/: in its host's ports */
	struct split_counters counters;
};

/* Round every call of a user's handler. */
static inline void
port_call_begin(struct split_port *port)
{
	port->handler_depth++;
}

static inline void
port_call_end(struct split_port *port)
{
	port->handler_depth--;
}

/* The handler just called killed or paused the simulated process: go no further. */
static inline bool
port_is_halted(const struct split_port *port)
{
	return port->loop->is_halted;
}

/* port_wake -- make sure that the turn's end comes soon. */
static inline void
port_wake(struct split_port *port)
{
	loop_defer(port->loop, &port->wake_task);
}

/*
 * port_create -- open_roce_instance, with addresses that may name one of @transports
 *
 * Of the ports of a simulated machine, that machine's as well.
 */
struct split_port *port_create(const struct split_port_options *options,
    const struct transport_ops *const *transports, uint32_t transport_count);
/* port_abandon -- free everything of a simulated process that was killed; calls nothing back. */
void port_abandon(struct split_port *port);

/* qp.c */

enum recv_kind { RECV_NONE, RECV_HELLO, RECV_POOL, RECV_POSTED, RECV_ONE_SIDED };

/* The message that is coming in: its header was accepted, its payload goes where this says. */
struct recv_fill {
	enum recv_kind kind;
	uint8_t *host; /* first, host_left bytes */
	uint32_t host_left;
	uint8_t *device; /* then device_left bytes */
	uint32_t device_left;
	uint32_t discard_left; /* the rest goes nowhere */
	uint32_t payload_bytes;
	struct split_receive *receive; /* RECV_POOL */
	struct dev_event *event;       /* RECV_POSTED */
	int rc;                        /* of the event, or of the piece */
	/* RECV_ONE_SIDED: one of the two. */
	struct one_sided_piece *piece;   /* ours, answered */
	struct one_sided_answer *answer; /* the peer's, to be answered */
};

/* What the library itself sends on a queue pair: hello and credits. */
struct qp_control {
	struct split_send send;
	/* One after the other, as they travel. */
	struct wire_header header __attribute__((aligned(8)));
	uint8_t hello[WIRE_HELLO_BYTES];
	uint32_t hello_bytes;
};
_Static_assert(sizeof(struct wire_header) == WIRE_HEADER_BYTES, "hello goes behind its header");

struct split_qp {
	uint32_t magic;
	struct sm sm; /* enum split_qp_state */
	struct split_port *port;
	struct loop_link link;      /* in port->qps */
	struct loop_link send_link; /* in port->send_due */
	const struct transport_ops *ops;
	void *transport;                     /* the transport's own part */
	const struct split_qp_ops *handlers; /* NULL: receives are posted */
	void *arg;
	bool is_pooled;    /* handlers take messages from the pool */
	bool is_acceptor;  /* the peer connected */
	bool is_surplus;   /* counted in port->surplus_count, and refused when its hello has come */
	bool is_uncounted; /* cut, and another one has its place: in no count */
	struct loop_link guest_link; /* in port->guests */
	uint64_t
	    heard_of_ns; /* of a guest: when it connected, said hello, or asked for something */
	bool is_offered; /* on_accept was called, the answer is still to come */
	bool is_rejecting;
	bool is_abandoned; /* nobody will call us: free at the end of closing */
	int close_rc;
	char reason[SPLIT_REASON_BYTES_MAX];
	char peer[SPLIT_ADDRESS_BYTES_MAX];
	struct loop_timer timer;     /* connecting or accepting takes too long */
	struct loop_task close_task; /* flush, then on_closed */
	struct loop_task ready_task;
	struct split_listener *listener; /* ACCEPTING */
	/* Connecting. */
	struct qp_control hello;         /* ours */
	struct wire_header hello_header; /* the peer's */
	uint8_t hello_in[WIRE_HELLO_BYTES];
	uint32_t hello_in_bytes;
	/* Sending. A work request is in exactly one of the two. */
	struct loop_link credit_wait; /* requests without a credit, or a receive for the reply */
	struct loop_link sendable;    /* in wire order; the first may be partly out */
	uint32_t send_count;          /* of split_send, in both */
	struct qp_control control;
	uint32_t control_flags; /* enum wire_credit_flags to send */
	uint32_t return_count;  /* credits to return */
	/* Credits as the sender of requests. */
	uint32_t credits;              /* requests the peer will still take */
	uint32_t replies_expected;     /* requests of ours without an answer so far */
	bool is_dormant;               /* the peer believes we need no credit: ask before we wait */
	bool is_asked;                 /* and we have */
	struct loop_link starve_link;  /* in credits.starving */
	struct loop_link reserve_link; /* in credits.reserve_wait */
	/* Credits as the receiver of requests. */
	uint32_t granted;               /* to the peer, not yet used */
	uint32_t unannounced;           /* of them, not yet on the wire */
	uint32_t replies_owed;          /* requests of the peer without an answer so far */
	bool is_granting;               /* counted in credits.granting_qp_count */
	bool is_recalled;               /* asked to return what it has */
	uint64_t recalled_ns;           /* when */
	bool is_hungry;                 /* the peer asked for credits */
	uint32_t grant_limit;           /* besides the fair share; of one that slept */
	bool is_heard;                  /* a request came, to be told by credit_on_batch */
	uint64_t heard_ns;              /* when its last request, or WANT, came */
	struct loop_link awake_link;    /* in credits.awake */
	struct loop_link grant_link;    /* in credits.grant_wait */
	struct loop_link announce_link; /* in credits.announce_due */
	/* Receiving. */
	struct recv_fill fill;
	struct loop_link posted; /* dev_events, oldest first */
	uint32_t posted_count;
	struct loop_link messages;                /* receives in handlers' hands */
	struct split_msg *batch[SPLIT_BATCH_MAX]; /* arrived, not yet handed over */
	uint32_t batch_count;
	struct one_sided *one_sided; /* NULL until there was a one-sided read or write */
};

/*
 * qp_create -- in CONNECTING or ACCEPTING, in the port's list
 *
 * Returns: NULL with errno: ENOMEM; ENOBUFS the port has no room for it, and of an acceptor's few
 * surplus ones (is_surplus), which are there to be refused, there are enough as well.
 */
struct split_qp *qp_create(struct split_port *port, const struct transport_ops *ops,
    enum split_qp_state state);
/* qp_free -- of one that never got further than its creation, or is CLOSED. */
void qp_free(struct split_qp *qp);
/* qp_uncount -- its transport is closed before its time: its place is free for another one. */
void qp_uncount(struct split_qp *qp);
/* qp_become_ready -- CONNECTING or ACCEPTING to READY. on_ready is called by the caller. */
void qp_become_ready(struct split_qp *qp);
/*
 * qp_fail -- close for @rc (0: asked for) with a reason, from anywhere; handlers run later
 *
 * The first reason stays. No-op when it is closing already.
 */
void qp_fail(struct split_qp *qp, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* qp_finish_now -- do at once what the close task would: for split_port_close. */
void qp_finish_now(struct split_qp *qp);

static inline bool
qp_is(const struct split_qp *qp, enum split_qp_state state)
{
	return qp->sm.state == (uint32_t)state;
}

static inline bool
qp_is_open(const struct split_qp *qp)
{
	return qp->sm.state < (uint32_t)QP_CLOSING;
}

/* guest.c */

void guest_port_init(struct split_port *port);
void guest_port_fini(struct split_port *port);
/* guest_begin -- @qp is new: a guest from here on, where guests give way, and it is one that came in. */
void guest_begin(struct split_qp *qp);
bool guest_is(const struct split_qp *qp);
/* guest_on_heard -- it said hello, or asked for something. No-op of one that is no guest. */
void guest_on_heard(struct split_qp *qp);
/*
 * guest_make_room -- close a guest, so that there is a place and a descriptor for who comes
 *
 * Not from inside of what a queue pair's transport has called. False: there is nobody to close, or the
 * place is free only later.
 */
bool guest_make_room(struct split_port *port);
/* guest_watch -- receives are short: close guests that owe some for too long. */
void guest_watch(struct split_port *port);

/* connect.c */

struct split_listener {
	uint32_t magic;
	struct split_port *port;
	struct loop_link link; /* in port->listeners */
	const struct transport_ops *ops;
	void *transport;
	split_accept_fn on_accept;
	void *arg;
	char address[SPLIT_ADDRESS_BYTES_MAX];
};

/* connect_on_open -- the transport is through: say hello. */
void connect_on_open(struct split_qp *qp);
/* connect_on_hello -- qp->hello_header and hello_in have arrived. */
void connect_on_hello(struct split_qp *qp);
/* connect_reject -- answer a hello with @rc and why (NULL: the status says it all), then close. */
void connect_reject(struct split_qp *qp, int rc, const char *why);
/* connect_refused -- the peer's answer to our hello was @status, and in hello_in, why: close. */
void connect_refused(struct split_qp *qp, uint16_t status);
/*
 * connect_accept -- a transport's new connection from @peer: an ACCEPTING queue pair, or NULL with
 * errno. The port's owner was told where there is no room.
 */
struct split_qp *connect_accept(struct split_listener *listener, const char *peer);
/* connect_on_full -- no room for a connection from @peer (NULL: it was not accepted): tell the owner. */
void connect_on_full(struct split_port *port, const char *peer, int rc);
/* connect_hello_check -- the header of a first message. 0, or -EPROTO and the field. */
int connect_hello_check(const struct split_qp *qp, const struct wire_header *header,
    const char **ret_field);
void connect_unlisten(struct split_listener *listener);

/* recv_split.c */

enum recv_verdict {
	RECV_FILL,   /* accepted: deliver what qp->fill asks for, then recv_finish */
	RECV_DONE,   /* a control message: consumed */
	RECV_WAIT,   /* no receive is posted: keep the header, try again after kick_receive */
	RECV_BROKEN, /* the queue pair is closing */
};

/*
 * recv_begin -- a header has arrived
 *
 * @in_place: a receive popped from the pool whose header slot may hold the header already and whose
 * payload buffer may hold the beginning of the payload; it is taken if the message goes to the pool
 * (then qp->fill.receive is it), else left to the caller. NULL: none.
 */
enum recv_verdict recv_begin(struct split_qp *qp, const struct wire_header *header,
    struct split_receive *in_place);
/* recv_finish -- the message of qp->fill is complete. */
void recv_finish(struct split_qp *qp);
/* recv_deliver -- hand the batch to the handler. */
void recv_deliver(struct split_qp *qp);
/* recv_flush -- the queue pair is gone: release what is half filled, posted and undelivered. */
void recv_flush(struct split_qp *qp);
/* recv_receives_wanted -- how many pool receives the peer may fill by the rules. */
uint32_t recv_receives_wanted(const struct split_qp *qp);

static inline bool
recv_is_filling(const struct split_qp *qp)
{
	const struct recv_fill *fill = &qp->fill;

	return (fill->host_left | fill->device_left | fill->discard_left) != 0;
}

/* send_assemble.c */

/* send_post_control -- queue hello or credits; no-op when it is queued. */
void send_post_control(struct split_qp *qp, struct qp_control *control);
/* send_make_sendable -- the oldest of credit_wait goes to the wire's queue. */
void send_make_sendable(struct split_qp *qp);
/*
 * send_gather -- what is to go next, stamped, as an I/O vector
 *
 * Returns the entries written, at most @iov_max, for about @bytes_max bytes; *@ret_bytes their sum.
 */
uint32_t send_gather(struct split_qp *qp, struct iovec *iov, uint32_t iov_max, uint64_t bytes_max,
    uint64_t *ret_bytes);
/* send_advance -- @bytes of what send_gather gave are out: finish the sends that are through. */
void send_advance(struct split_qp *qp, uint64_t bytes);
/*
 * For transports that post whole messages: send_prepare stamps the header of one of qp->sendable,
 * which cannot be taken back from then on; send_complete ends it, in the queue or out of it.
 */
void send_prepare(struct split_qp *qp, struct split_send *send);
void send_complete(struct split_qp *qp, struct split_send *send, int rc);
/* send_is_control -- hello or credits. */
bool send_is_control(const struct split_send *send);
/* send_post_library -- queue a message of one_sided.c: it needs no credit and counts for nobody. */
void send_post_library(struct split_qp *qp, struct split_send *send);
/* send_is_final -- stamped: its header and length may not change any more. */
bool send_is_final(const struct split_send *send);
/* send_total_bytes -- header and payload. */
uint64_t send_total_bytes(const struct split_send *send);
/* send_flush -- finish every send with @rc. */
void send_flush(struct split_qp *qp, int rc);
/* send_kick_later -- something is sendable that was not sent: look again in the next round. */
void send_kick_later(struct split_qp *qp);

/* credit.c */

void credit_port_init(struct split_port *port);
void credit_port_fini(struct split_port *port);
/* credit_on_ready -- the first grant. */
void credit_on_ready(struct split_qp *qp);
/* credit_take -- one request may go now: its credit and its reply's receive are taken. */
bool credit_take(struct split_qp *qp);
/* credit_untake -- it did not go after all. */
void credit_untake(struct split_qp *qp);
/* credit_wait_begin -- a request has to wait: see that what it waits for comes. */
void credit_wait_begin(struct split_qp *qp);
/* credit_on_header -- the credits of any message. 0 or -EPROTO. */
int credit_on_header(struct split_qp *qp, const struct wire_header *header);
/* credit_on_control -- a WIRE_CREDIT message. 0, or -EPROTO and the field. */
int credit_on_control(struct split_qp *qp, const struct wire_header *header,
    const char **ret_field);
/* credit_on_arrival -- a request or reply takes what was promised it. 0, or -EPROTO. */
int credit_on_arrival(struct split_qp *qp, bool is_reply, bool is_to_pool);
/* credit_on_batch -- requests were taken: grant anew. */
void credit_on_batch(struct split_qp *qp);
/* credit_on_posted -- a receive was posted on @qp. */
void credit_on_posted(struct split_qp *qp);
/* credit_on_released -- a pool receive came back. */
void credit_on_released(struct split_port *port, bool is_reply);
/* credit_on_closed -- the queue pair's promises end. */
void credit_on_closed(struct split_qp *qp);
/* credit_stamp -- grants to put into a message about to leave. */
uint16_t credit_stamp(struct split_qp *qp);
/* credit_stamp_control -- fill a WIRE_CREDIT header. */
void credit_stamp_control(struct split_qp *qp, struct wire_header *header);
/* credit_on_kept -- @qp is no guest any more: it may have as much as others. */
void credit_on_kept(struct split_qp *qp);
/* credit_is_short -- somebody waits for a receive, and there is none. */
bool credit_is_short(struct split_port *port);
/* credit_turn -- serve the queues; called between flushes. */
void credit_turn(struct split_port *port);

/* dev_event.c */

enum event_kind { EVENT_FREE, EVENT_SEND, EVENT_RECV, EVENT_FUNC, EVENT_ONE_SIDED };

struct dev_event {
	uint32_t magic;
	enum event_kind kind;
	bool is_done;
	struct split_port *port;
	struct split_qp *qp;   /* SEND, RECV, until done */
	struct loop_link link; /* events_free, qp->posted, events_done or events_called */
	struct dev_completion completion;
	void (*fn)(const struct dev_completion *completion, void *arg);
	void *arg;
	/* RECV. */
	uint8_t *host;
	uint32_t host_bytes;
	dev_ptr device;
	uint64_t device_bytes;
	/* SEND. */
	struct split_send send;
	struct dev_piece pieces[SPLIT_PIECES_MAX];
	/* FUNC. */
	struct engine_job job;
	/* ONE_SIDED; its memory is @device, @device_bytes. */
	struct dev_remote remote;
	uint64_t remote_offset_bytes;
	bool is_write;
	uint64_t issued_bytes; /* in pieces so far */
	uint64_t moved_bytes;  /* by pieces that ended well */
	uint32_t pieces_out;   /* that did not end yet */
	int one_sided_rc;      /* the first that went wrong */
};

/* event_take -- a free one, or NULL with errno ENOBUFS; event_release -- it was taken in vain. */
struct dev_event *event_take(struct split_port *port, enum event_kind kind);
void event_release(struct dev_event *event);
int event_port_init(struct split_port *port);
void event_port_fini(struct split_port *port);
/* event_complete -- exactly once; the handler runs from a task. */
void event_complete(struct dev_event *event, int rc, uint32_t bytes);
/* event_run_handlers -- what the task does. */
void event_run_handlers(struct split_port *port);

#endif /* CLEAVE_SPLIT_INTERNAL_H */
