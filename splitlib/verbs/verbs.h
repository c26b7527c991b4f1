/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h -- what the files of the RDMA transport share; verbs.c tells the model
 */
#ifndef CLEAVE_SPLIT_VERBS_H
#define CLEAVE_SPLIT_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/sm.h"
#include "cleave/split.h"
#include "core/device_memory.h"
#include "core/transport.h"

#define VERBS_QP_MAGIC 0x50514256u       /* "VBQP" */
#define VERBS_PORT_MAGIC 0x54504256u     /* "VBPT" */
#define VERBS_LISTENER_MAGIC 0x534c4256u /* "VBLS" */

#define VERBS_SGE_MAX 32u        /* entries of one send, whatever the device can do */
#define VERBS_SEND_DEPTH 256u    /* sends of one queue pair that the device has */
#define VERBS_SEND_BUDGET 8192u  /* of all of a port: the completion queue holds so many */
#define VERBS_POST_MAX 32u       /* work requests for one doorbell */
#define VERBS_SIGNAL_EVERY 16u   /* and the last of each post */
#define VERBS_POLL_MAX 32u       /* completions of one ibv_poll_cq */
#define VERBS_POLL_ROUNDS_MAX 8u /* of one turn */
#define VERBS_CONTROL_WINDOW 4u  /* control messages that the peer has not said it took */
#define VERBS_CONTROL_SENDS 8u   /* on the control lane: messages, answers, keep-alive */
#define VERBS_CONTROL_COMPLETIONS (VERBS_CONTROL_WINDOW + VERBS_CONTROL_SENDS)
#define VERBS_FRAME_BYTES 8192u /* sealed messages that are longer take a place for the longest */
#define VERBS_RECEIVES_POSTED 128u /* dev_mixed_recv of one queue pair that the device has */
#define VERBS_ONE_SIDED_MAX 128u   /* reads and writes of a port that the device has */
#define VERBS_HASH 1024u

/* The kind of work that has completed: the top byte of its wr_id. */
enum verbs_work {
	VERBS_WORK_SEND =
	    1, /* low 32 bits: place in the queue pair's ring, counted from the first */
	VERBS_WORK_RECEIVE, /* index in the pool */
	VERBS_WORK_POSTED,  /* the oldest of qp->posted */
	VERBS_WORK_CONTROL_SEND,
	VERBS_WORK_CONTROL_RECEIVE, /* index of its slot */
	VERBS_WORK_PROBE,
	VERBS_WORK_ONE_SIDED, /* the oldest of those flying */
	VERBS_WORK_GREETING_SEND,
	VERBS_WORK_GREETING_RECEIVE, /* index of its buffer */
};
#define VERBS_WORK_SHIFT 56u

/* Registered memory that messages pass through when they cannot be sent from where they are. */
enum verbs_stage { STAGE_HEADER, STAGE_HOST, STAGE_DEVICE, STAGE_FRAME, STAGE_NR };
struct verbs_pool {
	struct arena arena;
	struct ibv_mr *mr;
	uint32_t *free; /* indices, a stack */
	uint32_t free_count, count;
	uint32_t slot_bytes;
};
struct verbs_slot {
	uint32_t stage; /* enum verbs_stage; STAGE_NR: none */
	uint32_t index;
};

/* An ibv_qp. Messages go over one, credits over another, one-sided work over one each way. */
struct verbs_lane {
	struct loop_link hash_link;
	struct ibv_qp *ibv;
	struct verbs_qp *owner;
	uint32_t peer_number;
	bool is_one_sided; /* its errors end nothing else */
};

/* Our lane for one-sided work. */
enum verbs_lane_state {
	VERBS_LANE_NONE,
	VERBS_LANE_ASKED, /* the peer makes its end */
	VERBS_LANE_OPEN,
	VERBS_LANE_BROKEN, /* what the device has comes back; then there is none */
	VERBS_LANE_STATE_NR
};

/* A send in the device's hands. */
struct verbs_send {
	struct split_send *send;
	struct verbs_slot header_slot, pieces_slot;
};

enum verbs_state {
	VERBS_ADDRESS, /* looking for the device that reaches the peer */
	VERBS_ROUTE,
	VERBS_ASKED,   /* the request is out */
	VERBS_OFFERED, /* a request came in; the owner thinks */
	VERBS_ANSWERED,
	VERBS_OPEN,
	VERBS_DRAINING, /* in error; what the device has comes back */
	VERBS_DEAD,
	VERBS_STATE_NR
};

struct verbs_qp {
	uint32_t magic;
	struct sm sm; /* enum verbs_state */
	struct loop_link link;
	struct verbs_port *verbs;
	struct split_qp *qp; /* NULL once it is closed: only receives are awaited */
	struct rdma_cm_id *id;
	struct sockaddr_storage address; /* of the peer, where we connect */
	bool is_from_source;             /* the connection was asked to come from verbs->source */
	bool is_keyed;                   /* a handshake goes first: verbs_greet.c */
	bool is_greeted; /* and it is over, hellos too: messages go over the data lane */
	struct verbs_greeting *greeting; /* NULL: it is not keyed, or long over */
	struct loop_task admit_task;     /* its turn has come to shake hands */
	struct verbs_lane data, control;
	bool is_counted;     /* in verbs->qp_count */
	bool is_data_up;     /* the data lane takes receives */
	bool is_shared;      /* receives come from the port's queue */
	bool is_overdue;     /* draining took too long: destroy what there is */
	uint32_t depth;      /* of the send ring */
	uint32_t inline_max; /* bytes */
	uint8_t reads_max;   /* one-sided reads at one time */
	struct verbs_send *ring;
	uint32_t posted_seq, done_seq; /* sends: ring positions, counted from the first */
	struct loop_link blocked_link; /* in verbs->blocked */
	/* The lanes of one-sided work: ours, and the peer's, which only answers. */
	struct verbs_lane mine, theirs;
	enum verbs_lane_state lane_state;
	uint32_t one_sided_count; /* reads and writes in the device's hands */
	bool is_ask_due, is_answer_due;
	uint16_t answer_status;
	/* Control lane. */
	uint8_t *slots; /* VERBS_CONTROL_WINDOW to receive, VERBS_CONTROL_SENDS to send */
	uint32_t slot_bytes;
	uint32_t control_credits;     /* messages that the peer has a receive for */
	uint32_t control_owed;        /* receives given back, not yet told */
	uint32_t control_outstanding; /* sends that did not complete */
	uint32_t control_next;        /* slot to send from */
	/* Receives posted by dev_mixed_recv. */
	uint32_t receives_posted;
	struct verbs_slot receive_slots[VERBS_RECEIVES_POSTED]; /* ring */
	uint32_t receive_first;
	uint64_t heard_ns;
	bool is_probing;
	struct loop_link deliver_link;
	struct loop_timer timer; /* draining */
};

struct verbs_listener {
	uint32_t magic;
	struct split_listener *listener;
	struct rdma_cm_id *id;           /* NULL: its device is gone, the next is awaited */
	struct sockaddr_storage address; /* with the port that was bound first */
	int rc;                          /* of the last attempt to listen again */
};

/* The state of the port's device: verbs_recovery.c has the picture. */
enum verbs_device_state {
	VERBS_DEVICE_NONE,
	VERBS_DEVICE_OPEN,
	VERBS_DEVICE_LEAVING, /* lost; what it has comes back */
	VERBS_DEVICE_AWAITED, /* there is none; listeners look for one */
	VERBS_DEVICE_STATE_NR
};

struct verbs_port {
	uint32_t magic;
	struct split_port *port;
	struct rdma_event_channel *channel;
	struct loop_fd channel_watcher;
	struct loop_link qps;
	struct loop_link blocked; /* with something to send, and no room for it */
	struct loop_link deliver; /* with messages in their batch */
	struct loop_timer keepalive_timer;
	/* Where connections come from: what it listens at, or its first one's. */
	struct sockaddr_storage source;
	bool has_source;
	/* The device; set up with the first address that leads to one. */
	struct sm device; /* enum verbs_device_state */
	struct loop_timer device_timer;
	uint64_t await_ns;         /* until the next look for one */
	struct rdma_cm_id *holder; /* of the device, to be told when it goes; NULL: none */
	bool is_holder_removed;    /* and it was */
	char device_name[64];      /* of the one there is, or was */
	char lost_text[SPLIT_REASON_BYTES_MAX]; /* to be told */
	struct ibv_context *context;
	struct ibv_device_attr attr;
	uint32_t sge_max;
	uint32_t head_bytes; /* of what comes to the pool: longer where there is a key */
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct loop_fd completion_watcher, async_watcher;
	bool is_completion_watched, is_async_watched;
	struct ibv_cq *cq, *control_cq;
	struct ibv_srq *srq;
	struct ibv_mr *host_mr, *device_mr;
	struct verbs_pool stages[STAGE_NR];
	uint32_t qp_count, qp_count_max;
	uint32_t send_count; /* in the device's hands */
	uint32_t one_sided_count;
	struct loop_link hash[VERBS_HASH];
	/* Adaptive polling. */
	struct loop_task poll_task;
	bool is_armed;
	uint64_t busy_until_ns;
};

static inline uint64_t
verbs_wr_id(enum verbs_work work, uint64_t value)
{
	return (uint64_t)work << VERBS_WORK_SHIFT | value;
}

static inline bool
verbs_is(const struct verbs_qp *vq, enum verbs_state state)
{
	return vq->sm.state == (uint32_t)state;
}

/* verbs_device.c */

/* verbs_device_open -- everything that the port needs of @id's device. No-op when it is open. */
int verbs_device_open(struct verbs_port *verbs, struct rdma_cm_id *id);
void verbs_device_close(struct verbs_port *verbs);
/* verbs_memory_reason -- why @bytes were not registered: @err, or the limit on locked memory. */
void verbs_memory_reason(struct verbs_port *verbs, uint64_t bytes, int err);
/* verbs_entry -- registered memory as an entry. False: it is not registered. */
bool verbs_entry(const struct verbs_port *verbs, const void *memory, uint64_t bytes,
    struct ibv_sge *ret_entry);
struct verbs_slot verbs_slot_take(struct verbs_port *verbs, enum verbs_stage stage);
void verbs_slot_give(struct verbs_port *verbs, struct verbs_slot *slot);
uint8_t *verbs_slot_memory(const struct verbs_port *verbs, struct verbs_slot slot);
static inline bool
verbs_slot_is(struct verbs_slot slot)
{
	return slot.stage != STAGE_NR;
}
#define VERBS_NO_SLOT ((struct verbs_slot){ .stage = STAGE_NR })

/* verbs_arena_register -- 0 and *@ret_mr; a negative errno with the port's reason. */
int verbs_arena_register(struct verbs_port *verbs, const struct arena *arena,
    struct ibv_mr **ret_mr);
/* verbs_mr_destroy -- of *@mr, which is NULL then; no-op where it is. */
void verbs_mr_destroy(struct ibv_mr **mr);
/* verbs_device_errno -- errno as a negative one, and the port's reason: the device, @what, why. */
int verbs_device_errno(struct verbs_port *verbs, const char *what);

/* verbs_pair.c */

/*
 * verbs_lanes_create -- both ibv_qps, not yet connected; of a keyed one only the control lane
 *
 * Returns 0; -ENOBUFS the device has no room for one more; another negative errno, with the port's reason. destroy: what
 * there is, and what it had of the port.
 */
int verbs_lanes_create(struct verbs_qp *vq);
void verbs_lanes_destroy(struct verbs_qp *vq);
/* verbs_lanes_connect -- what verbs_lanes_create has made: through INIT and RTR to RTS, receives posted. */
int verbs_lanes_connect(struct verbs_qp *vq);
/* verbs_data_create, verbs_data_connect -- the same of the data lane alone, to data.peer_number. */
int verbs_data_create(struct verbs_qp *vq);
int verbs_data_connect(struct verbs_qp *vq);
/* verbs_lanes_fail -- into the error state: the device gives everything back. */
void verbs_lanes_fail(struct verbs_qp *vq);
struct verbs_lane *verbs_lane_find(struct verbs_port *verbs, uint32_t number);
/* verbs_lane_create -- one ibv_qp in RESET; @attr as ibv_create_qp's, filled. destroy: if it is. */
int verbs_lane_create(struct verbs_qp *vq, struct verbs_lane *lane, struct ibv_qp_init_attr *attr);
void verbs_lane_destroy(struct verbs_lane *lane);
/*
 * verbs_lane_move -- to INIT, RTR or RTS, with what the connection manager knows of the peer
 *
 * Returns 0; -ECONNRESET the connection is ending; another negative errno.
 */
int verbs_lane_move(struct verbs_qp *vq, struct verbs_lane *lane, enum ibv_qp_state state);

/* verbs_memory.c */

int verbs_memory_open(struct dev_memory *memory);
void verbs_memory_close(struct dev_memory *memory);
/* verbs_memories_lose -- the device goes: nothing is registered any more. */
void verbs_memories_lose(struct verbs_port *verbs);
/* verbs_memories_regain -- what outlived it is registered with the next one. */
void verbs_memories_regain(struct verbs_port *verbs);
int verbs_memory_copy(struct dev_memory *memory, uint64_t offset_bytes, void *host, uint64_t bytes,
    bool is_out);
/*
 * verbs_memory_entry -- @entry's address is one of @memory: make it what the device knows
 *
 * False: the device that knew it is gone.
 */
bool verbs_memory_entry(const struct dev_memory *memory, struct ibv_sge *entry);
/*
 * verbs_memory_register -- @bytes of device memory of any kind, for @access. NULL with errno.
 *
 * *@ret_address is where a peer finds them.
 */
struct ibv_mr *verbs_memory_register(struct verbs_port *verbs, const void *from, uint64_t bytes,
    unsigned access, uint64_t *ret_address);
/* verbs_entry_copy_out -- what an entry says, to host memory. */
void verbs_entry_copy_out(const struct verbs_port *verbs, const struct ibv_sge *entry, void *to);

/* verbs_lane.c */

void verbs_kick_one_sided(struct split_qp *qp);
int verbs_region_open(struct dev_region *region);
void verbs_region_close(struct dev_region *region);
/* verbs_regions_lose -- the device goes, and their keys. */
void verbs_regions_lose(struct verbs_port *verbs);
/* verbs_one_sided_post -- what is wanted and has room; asks for the lane where there is none. */
void verbs_one_sided_post(struct verbs_qp *vq);
void verbs_on_one_sided(struct verbs_qp *vq, const struct ibv_wc *wc);
/* verbs_on_lane_message -- the peer asks for a lane, or answers. 0 or -EPROTO. */
int verbs_on_lane_message(struct verbs_qp *vq, const struct wire_header *header);
/* verbs_lane_header -- what is due to be told. False: nothing. */
bool verbs_lane_header(struct verbs_qp *vq, struct wire_header *ret_header);

/* verbs_post.c */

/* verbs_srq_fill -- every free receive of the pool to the device. */
void verbs_srq_fill(struct verbs_port *verbs);
/* verbs_post_sends -- what is sendable and has room. */
void verbs_post_sends(struct verbs_qp *vq);
/* verbs_post_receives -- what dev_mixed_recv has posted. */
void verbs_post_receives(struct verbs_qp *vq);
int verbs_post_control_receive(struct verbs_qp *vq, uint32_t index);
static inline uint8_t *
verbs_control_slot(const struct verbs_qp *vq, uint32_t index)
{
	return vq->slots + (size_t)index * vq->slot_bytes;
}
/* verbs_post_lane -- tell the peer of lanes, where there is something to tell and a receive for it. */
void verbs_post_lane(struct verbs_qp *vq);
/* verbs_post_block -- @vq waits for completions of the port. */
void verbs_post_block(struct verbs_qp *vq);
/* verbs_post_probe -- something that the peer's device acknowledges, and nothing else. */
void verbs_post_probe(struct verbs_qp *vq);
/* verbs_sends_done -- all up to ring position @seq are: @rc is the last one's, the others went. */
void verbs_sends_done(struct verbs_qp *vq, uint32_t seq, int rc);
/* verbs_sends_take_back -- the device is gone from them: to the queue of what is to be sent. */
void verbs_sends_take_back(struct verbs_qp *vq);

/* verbs_poll.c */

/* verbs_fail_status -- @vq ends with what a completion says. */
void verbs_fail_status(struct verbs_qp *vq, enum ibv_wc_status status);
/* verbs_poll -- handle what has completed. Returns how many completions there were. */
uint32_t verbs_poll(struct verbs_port *verbs);
void verbs_on_completion_fd(struct loop_fd *watcher, unsigned events, void *arg);
void verbs_on_async_fd(struct loop_fd *watcher, unsigned events, void *arg);
void verbs_on_poll_task(struct loop_task *task, void *arg);

/* verbs_connect.c */

int verbs_listen(struct split_listener *listener, const char *host_port, char *ret_address);
void verbs_unlisten(struct split_listener *listener);
/* verbs_listener_open -- listen at @listener->address. 0 or a negative errno. close: if it does. */
int verbs_listener_open(struct verbs_listener *listener);
void verbs_listener_close(struct verbs_listener *listener);
int verbs_connect(struct split_qp *qp, const char *host_port);
size_t verbs_address_bytes(const struct sockaddr *address);
void verbs_address_clear_port(struct sockaddr_storage *address);
void verbs_on_channel_fd(struct loop_fd *watcher, unsigned events, void *arg);
/* verbs_fail_here -- @vq ends with @rc and the port's reason, if there is one. */
void verbs_fail_here(struct verbs_qp *vq, int rc);

/* verbs_answer.c */

/* verbs_param -- what the connection manager is told of @vq, with @bytes of private data; borrowed. */
struct rdma_conn_param verbs_param(struct verbs_qp *vq, const void *data, uint8_t bytes);
/* verbs_answer -- the owner has decided about an OFFERED one: its hello is in the queue. */
void verbs_answer(struct verbs_qp *vq);
/* verbs_admit -- of an OFFERED one that is keyed: let it shake hands, refuse it, or let it wait. */
void verbs_admit(struct verbs_qp *vq);
void verbs_on_admit_task(struct loop_task *task, void *arg);

/* verbs_greet.c */

/* verbs_greeting_create -- memory of a keyed one's greetings. 0 or a negative errno. destroy: if there is. */
int verbs_greeting_create(struct verbs_qp *vq);
void verbs_greeting_destroy(struct verbs_qp *vq);
/* verbs_greeting_count -- how many of the peer's messages are greetings. */
uint32_t verbs_greeting_count(const struct verbs_qp *vq);
/* verbs_greeting_post -- the receive for one of them, in order. 0 or a negative errno. */
int verbs_greeting_post(struct verbs_qp *vq, uint32_t index);
/* verbs_greet -- send what is due of them. */
void verbs_greet(struct verbs_qp *vq);
void verbs_on_greeting(struct verbs_qp *vq, const struct ibv_wc *wc);
void verbs_on_greeting_sent(struct verbs_qp *vq, const struct ibv_wc *wc);

/* verbs_recovery.c */

void verbs_device_init(struct verbs_port *verbs);
/* verbs_device_found -- that of @id has been opened. */
void verbs_device_found(struct verbs_port *verbs, struct rdma_cm_id *id);
/* verbs_device_forget -- close what there is of it. */
void verbs_device_forget(struct verbs_port *verbs);
/* verbs_on_holder_event -- what verbs->holder was told. */
void verbs_on_holder_event(struct verbs_port *verbs, enum rdma_cm_event_type type);
/* verbs_device_lost -- end all connections, then let go of it. No-op where there is none. */
void verbs_device_lost(struct verbs_port *verbs, const char *reason);
/* verbs_device_left -- a connection that may have been its last is gone. */
void verbs_device_left(struct verbs_port *verbs);
/* verbs_address_check -- whether the port's address is still the device's; else that is lost. */
void verbs_address_check(struct verbs_port *verbs);
void verbs_on_device_timer(struct loop_timer *timer, void *arg);

/* verbs.c */

extern const struct transport_ops transport_verbs_ops;

/* verbs_port_get -- the port's part, made with its first address. */
int verbs_port_get(struct split_port *port, struct verbs_port **ret_verbs);
struct verbs_qp *verbs_qp_create(struct verbs_port *verbs, struct split_qp *qp,
    enum verbs_state state);

/* verbs_drain_check -- of a draining queue pair: go on where nothing is missing any more. */
void verbs_drain_check(struct verbs_qp *vq);
void verbs_fail_all(struct verbs_port *verbs, int rc, const char *reason);

#endif /* CLEAVE_SPLIT_VERBS_H */
