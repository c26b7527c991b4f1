/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h -- the client library's nouns, in blocks headed by the file that owns them
 *
 *	cleave_submit -> volume->ios ---(split, volume.c)---> message -> connection -> split library
 *	                                   |  ^                  |
 *	             (overlap.c) BLOCKED <-'  '--- DELAYED, REMAPPING (retry.c decides)
 *
 * A *message* is one request on the wire: a slot of the client's fixed array, with 64 KiB of device
 * memory for the payload of a write. A *connection* is a volume's queue pair to one address of the
 * map. Everything belongs to the loop's thread.
 */
#ifndef CLEAVE_VM_CLIENT_INTERNAL_H
#define CLEAVE_VM_CLIENT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc.h"
#include "base/bucket.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/client.h"
#include "cleave/engine.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/secure_options.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "direct.h"
#include "lease.h"
#include "local.h"
#include "map_cache.h"
#include "peek.h"
#include "remember.h"
#include "retry.h"

#define CLIENT_MAGIC 0x544e4c43u     /* "CLNT" */
#define VOLUME_MAGIC 0x554c4f56u     /* "VOLU" */
#define CONNECTION_MAGIC 0x4e4e4f43u /* "CONN" */
#define MESSAGE_MAGIC 0x4753534du    /* "MSSG" */

#define CLIENT_PORTS_MAX 64u /* addresses in a map */
#define CLIENT_NAME_BYTES 64u
#define CLIENT_BY_BYTES (6u * CLIENT_NAME_BYTES + 16u) /* the name in JSON, each byte escaped */
#define CLIENT_PARTING_NS NUM_S(3) /* nothing else waits longer for a word on a session's end */
#define CLIENT_MESSAGE_BYTES_MAX WIRE_CLIENT_PAYLOAD_BYTES_MAX
#define CLIENT_REGION_BYTES WIRE_CLIENT_PAYLOAD_BYTES_MAX
#define CLIENT_CHECKSUM_TRIES_MAX 5u
#define CLIENT_CONTROL_RECEIVES CLEAVE_CALLS_MAX

/* A request id grows with each send and names the message: its index is in the low bits. */
#define REQUEST_INDEX_BITS 16
#define REQUEST_INDEX_MASK ((1u << REQUEST_INDEX_BITS) - 1)
_Static_assert(CLEAVE_MESSAGES_MAX <= 1u << REQUEST_INDEX_BITS, "index fits a request id");

struct message;
struct connection;

/* ---- retry.c: what an error means, and how long to wait ---- */
enum retry_verdict {
	RETRY_NONE,     /* tell the caller */
	RETRY_LATER,    /* back off, send again */
	RETRY_CHECKSUM, /* the same, a few times */
	RETRY_REMAP,    /* fetch the map, send again */
	RETRY_FATAL,    /* the volume is lost to this session */
};
/* retry_verdict_io -- @rc: a negative errno in a reply to a read (or a write). */
enum retry_verdict retry_verdict_io(int rc, bool is_read);
/* retry_delay_ns -- pause before attempt @attempt (0: the first repetition): exponential, jittered. */
uint64_t retry_delay_ns(struct loop *loop, uint32_t attempt, uint64_t min_ns, uint64_t max_ns);

/* ---- map.c: JSON texts of gateways, checked ---- */
struct client_map {
	uint32_t shard_count;
	uint32_t port_count;
	char ports[CLIENT_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	uint8_t port_of_shard[CLEAVE_SHARDS_MAX];
	uint32_t epoch_of_shard[CLEAVE_SHARDS_MAX];
	uint8_t
	    older_count[CLEAVE_SHARDS_MAX]; /* map_merge: times that an older owner was offered */
};
/*
 * map_merge -- take over what @newer knows better; true when any shard has another address or epoch
 *
 * Epochs grow with each change of owner, so one that is less comes from a gateway that was away for a
 * while: the entry stays. Offered again and again it is taken all the same: the cluster may have been
 * made anew.
 */
bool map_merge(struct client_map *map, const struct client_map *newer);
/* Return 0; -EBADMSG and the member that is wrong; -ENOMEM. Outputs are untouched on failure. */
int map_parse(const char *text, struct client_map *ret_map, const char **ret_field);
/* How gateways say that a volume may be read. */
enum volume_reads {
	VOLUME_READS_GATEWAY,
	VOLUME_READS_HOT,    /* what is hot, out of their memory (peek.h) */
	VOLUME_READS_DIRECT, /* at nodes (direct.h) */
};
int map_parse_attach(const char *text, struct cleave_volume_info *ret_info,
    enum volume_reads *ret_reads, struct client_map *ret_map, const char **ret_field);

/* ---- control.c: the connection to a gateway that is asked things ---- */
enum control_state { CONTROL_DOWN, CONTROL_CONNECTING, CONTROL_UP, CONTROL_CLOSING, CONTROL_NR };

struct control {
	struct sm sm;
	struct split_qp *qp;
	struct loop_link waiting; /* calls to be sent */
	struct loop_link sent;    /* calls to be answered */
	struct loop_link orphans; /* requests still being sent whose call has ended */
	uint32_t call_count;
	uint32_t gateway_index;   /* of client_gateway_count; beyond it: modulo */
	bool is_moving;           /* CLOSING: to ask another gateway, nothing has failed */
	const char *foreign;      /* why it may not be asked; NULL: it may */
	uint32_t failures_in_row; /* connections; of calls each counts its own attempts */
	uint32_t refusals_in_row; /* of them, that ended because a key was not believed */
	uint64_t next_request_id;
	struct loop_timer timer; /* the next thing due: a retry, a deadline */
	struct loop_task task;   /* look at everything */
	uint64_t connect_not_before_ns;
	struct wire_level level; /* that hellos offer to the gateway of level_index */
	uint32_t level_index;
	uint8_t agreed_level; /* UP: with it; 0: it is not known */
	char by
	    [CLIENT_BY_BYTES]; /* ,"by":"NAME"} -- the end of a request that says who asks; "": it cannot */
	char *reply;           /* CLIENT_MESSAGE_BYTES_MAX + 1 bytes */
	char error[CLEAVE_ERROR_BYTES_MAX]; /* what went wrong last; "": nothing since */
};
int control_init(struct cleave_client *client);
void control_fini(struct cleave_client *client);
/* control_text.c. control_text_by -- ,"by":"NAME"} -- for control_text_say; "" where @name is no UTF-8 */
void control_text_by(const char *name, char ret_by[CLIENT_BY_BYTES]);
/*
 * control_text_say -- a request as it is sent: with @by as its last member, "" without
 *
 * @text: its @bytes, as the caller wrote them or as this left them, and room for @by behind. What is no object with a
 * member stays as it is; so does one that would be longer than CLEAVE_CALL_BYTES_MAX. *@was_said: false at first; then
 * whether @by is in. Returns how many bytes to send.
 */
uint32_t control_text_say(char *text, uint32_t bytes, const char *by, bool *was_said);
/* control_text_error -- the member "error" of the answer @reply, or the text of @status */
void control_text_error(const char *reply, uint16_t status, char ret_error[CLEAVE_ERROR_BYTES_MAX]);
/* control_move_on -- this gateway knows nothing new: the next call goes to another one, if there is any. */
void control_move_on(struct cleave_client *client);
/* call_hasten -- end the time of @call, just made, in @ns, if not before. */
void call_hasten(struct cleave_call *call, struct cleave_client *client, uint64_t ns);

/* ---- overlap.c: which writes of a volume are on their way, by 64 KiB region ---- */
#define OVERLAP_BUCKETS 512u

struct overlap_node {
	struct loop_link link;
	struct message *message;
};
struct overlap {
	struct loop_link buckets[OVERLAP_BUCKETS];
	struct loop_link wide; /* messages longer than a region */
};
void overlap_init(struct overlap *overlap);
/* overlap_add -- @message (a write, discard, zero write), the newest of all. */
void overlap_add(struct overlap *overlap, struct message *message);
void overlap_remove(struct overlap *overlap, struct message *message);
/* overlap_find -- the newest message that overlaps @message and is older; NULL: none. */
struct message *overlap_find(struct overlap *overlap, const struct message *message);
/* overlap_meets -- does a change that has not ended overlap @message, a read of CLIENT_REGION_BYTES at most? */
bool overlap_meets(struct overlap *overlap, const struct message *message);

/* ---- debt.c: writes given up that may still take effect ---- */
struct debt {
	char address[SPLIT_ADDRESS_BYTES_MAX]; /* the port that it was sent to */
	uint64_t incarnation;                  /* of the connection that was lost; 0: no debt */
	uint32_t shard, epoch;                 /* as it named them */
};
/* debts_init -- 0 or -ENOMEM. */
int debts_init(struct cleave_volume *volume);
void debts_fini(struct cleave_volume *volume);
/* debt_is_paid -- the write that was lost has taken effect by now, or never will. */
bool debt_is_paid(const struct cleave_volume *volume, const struct debt *debt);
/* debts_add -- a write has ended without success; @debt is what a lost send of it left. */
void debts_add(struct cleave_volume *volume, const struct debt *debt);
/* message_is_held -- QUEUED: a write that waits for a debt of its volume, or its own, to be paid. */
bool message_is_held(const struct message *message);
/* debts_settle -- a map has come, or a connection is up: what is paid goes, and writes may go on. */
void debts_settle(struct cleave_volume *volume);

/* ---- message.c ---- */
enum message_state {
	MESSAGE_FREE,
	MESSAGE_BLOCKED,   /* in blocker->waiters: an earlier write overlaps */
	MESSAGE_QUEUED,    /* in connection->queue, or volume->homeless: nobody to send it to */
	MESSAGE_SENT,      /* in connection->sent */
	MESSAGE_ANSWERED,  /* there too: the answer came before the send completed */
	MESSAGE_DELAYED,   /* in volume->delayed; its timer runs */
	MESSAGE_REMAPPING, /* in volume->remapping: waits for a map */
	MESSAGE_DIRECT,    /* in no queue: storage nodes are asked (direct.c) */
	MESSAGE_PEEKING,   /* in connection->peek.out: its gateway's memory is read (peek.c) */
	MESSAGE_STATE_NR
};

struct message {
	uint32_t magic;
	uint32_t index; /* in client->messages */
	struct sm sm;
	struct cleave_client *client;
	struct cleave_volume *volume;
	struct connection *connection; /* QUEUED (NULL: homeless), SENT, ANSWERED, PEEKING */
	struct direct_read *direct;    /* DIRECT: what is made of it */
	struct cleave_io *io;
	struct loop_link queue_link; /* in the queue that its state names; FREE: client->free */
	struct loop_link all_link;   /* in volume->messages, by order */
	struct loop_link waiters;    /* messages that this one blocks */
	struct overlap_node nodes[2];
	uint64_t order;        /* of creation in the volume */
	uint64_t offset_bytes; /* in the volume */
	uint64_t io_offset_bytes;
	uint64_t
	    span_bytes; /* of the volume, from offset_bytes on: what a change waits for, and keeps waiting */
	uint32_t length_bytes; /* as the request says */
	uint32_t shard;
	uint64_t request_id;
	uint64_t sent_ns;
	uint64_t sent_boot_ns; /* SENT, where the volume wants leases: lease.c's clock */
	uint64_t begun_ns;     /* when it was made of its request: what it has waited since */
	uint32_t epoch;        /* SENT: the request names it */
	uint32_t attempts;
	uint32_t checksum_errors;
	uint32_t payload_crc;
	uint32_t told_bytes;  /* BLOCK_STATUS: of length_bytes, whose status has come */
	bool is_full;         /* BLOCK_STATUS: there was no room for the next extent */
	bool is_write;        /* it changes something, or asks on behalf of what does */
	bool is_holes;        /* it asks which chunks of its segment hold nothing (holes.c) */
	uint32_t holes_port;  /* of the map: who is asked for that now */
	uint64_t known_bytes; /* BLOCK_STATUS: of its request, up to where holes is true */
	uint8_t holes[WIRE_HOLES_BYTES];
	bool is_paced;       /* DELAYED: for the volume's limits */
	bool is_staged;      /* payload_crc and the payload's device memory are ready */
	bool is_sending;     /* the split library holds send, header and piece */
	bool is_damaged;     /* ANSWERED: what a read returned does not match its CRC */
	bool is_given_up;    /* SENT, PEEKING: ends when its connection has */
	bool is_peeking;     /* PEEKING: the split library writes to its staging */
	bool is_placed;      /* SENT: what is read goes, or went, to its caller's memory */
	int rc;              /* ANSWERED, given up */
	uint64_t map_serial; /* REMAPPING: wants a newer one */
	struct loop_timer timer;
	struct debt debt; /* of a write: what its last send may do yet, which was lost */
	dev_ptr staging;
	struct dev_piece piece;
	struct wire_header header;
	struct split_send send;
};
/* message_is_write -- an operation that changes something: it waits for those that overlap it. */
static inline bool
message_is_write(enum cleave_op op)
{
	return op != CLEAVE_READ && op != CLEAVE_BLOCK_STATUS;
}
/* message_is_zeroing -- an operation whose blocks read as zeros afterwards; it has no payload. */
static inline bool
message_is_zeroing(enum cleave_op op)
{
	return op == CLEAVE_DISCARD || op == CLEAVE_WRITE_ZEROES;
}
/* message_start -- the next piece of @io, whose cursor moves on. A message must be free. */
void message_start(struct cleave_volume *volume, struct cleave_io *io);
/* message_route -- QUEUED at the connection that serves its shard now. */
void message_route(struct message *message);
/*
 * message_skip_holes -- QUEUED for a gateway of a level that does not know HOLES
 *
 * It counts as answered, and its chunks as if they held something.
 */
void message_skip_holes(struct message *message);
/* message_send -- from QUEUED to SENT; 0, or the split library's error: still QUEUED. */
int message_send(struct message *message);
/* message_on_direct -- DIRECT: its blocks are loaded, and good; PEEKING: its caller has them. A last act. */
void message_on_direct(struct message *message);
void message_on_reply(struct message *message, const struct wire_io_reply *reply,
    struct split_msg *msg);
/* message_on_lost -- its connection, now gone, had it in sent. */
void message_on_lost(struct message *message);
/* message_give_up -- end it with @rc; a sent one when its connection has been closed. */
void message_give_up(struct message *message, int rc);
/* message_on_map -- REMAPPING: a new map has come. */
void message_on_map(struct message *message);
int messages_init(struct cleave_client *client);
void messages_fini(struct cleave_client *client);

/* ---- holes.c: which chunks hold nothing, asked a segment at a time ---- */
#define HOLES_CHUNKS_MIN 16u /* fewer are as well asked for one by one */

/* holes_end -- where the segment ends in which @io is at @from_bytes, or @io does; in bytes of @io. */
uint64_t holes_end(const struct cleave_io *io, uint64_t from_bytes);
/* holes_are_wanted -- from there to its end are enough chunks for it to be worth a message to each port. */
bool holes_are_wanted(const struct cleave_io *io, uint64_t from_bytes);
/* holes_run -- the bytes of @io, from @from_bytes on and before @until_bytes, that are in holes. */
uint64_t holes_run(const uint8_t *holes, const struct cleave_io *io, uint64_t from_bytes,
    uint64_t until_bytes);
/* holes_begin -- @message is to ask every port, from the first on. */
void holes_begin(struct message *message);
/* holes_route -- the connection that it asks now; NULL: none is known. */
struct connection *holes_route(struct message *message);
/* holes_take -- add the holes that a port has answered with. Returns 0; -EBADMSG the bits are damaged. */
int holes_take(struct message *message, const struct wire_io_reply *reply, dev_ptr payload);
/* holes_next -- go on to the next port; false: all were asked. */
bool holes_next(struct message *message);
/* holes_skip -- @io's next message is to be of a chunk that holds something, as far as volume->holes knows. */
void holes_skip(struct cleave_volume *volume, struct cleave_io *io);
/* holes_finish -- if @message has asked on behalf of a change: this goes on, after success with what is known. */
void holes_finish(struct message *message, int rc);

/* ---- connection.c ---- */
enum connection_state {
	CONNECTION_DOWN, /* its timer runs */
	CONNECTION_CONNECTING,
	CONNECTION_UP,
	CONNECTION_CLOSING, /* closed here; on_closed follows */
	CONNECTION_GONE,
	CONNECTION_STATE_NR
};

struct connection {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* volume->connections */
	struct cleave_volume *volume;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	bool is_local, was_refused; /* it goes by @socket; that one failed: not by it next time */
	bool is_foreign;            /* a gateway of another cluster has answered: it is closed */
	struct local_socket socket; /* the last that was tried */
	uint64_t looked_ns;         /* UP by its address: when a socket was looked for last */
	bool is_wanted;             /* the map names it */
	struct wire_level level;    /* that hellos offer */
	uint8_t agreed_level;       /* with the gateway, as it was heard last */
	uint64_t incarnation;       /* of its last attempt */
	struct split_qp *qp;
	struct loop_link queue, sent;
	uint32_t sent_count;
	struct connection_lease lease;
	struct connection_map map;
	struct connection_peek peek;
	uint32_t failures_in_row;
	char refused
	    [128]; /* why who answered was not believed when it ended last; "": that was not why */
	struct loop_timer timer;
	struct loop_timer slow_timer; /* no answer, or no connection, for CONNECTION_SLOW_NS? */
};
/* connection_watch -- something waits for it now. */
void connection_watch(struct connection *connection);
struct connection *connection_create(struct cleave_volume *volume, const char *address);
/* connection_free -- free a connection that is DOWN or GONE; its messages have left. */
void connection_free(struct connection *connection);
/* connection_pump -- send what is queued as far as its depth allows. */
void connection_pump(struct connection *connection);
/* connection_reset -- close the queue pair; it reconnects after on_closed if it is still wanted. */
void connection_reset(struct connection *connection);
/* connection_retire -- not wanted any more: close, hand its messages back, free. */
void connection_retire(struct connection *connection);

/* ---- stall.c: requests that nobody answers, told once ---- */
enum stall_state {
	STALL_QUIET,    /* no messages; the timer does not run */
	STALL_WATCHING, /* there are messages, none of them old */
	STALL_ASKING,   /* one is: a gateway is asked what its shards wait for */
	STALL_TOLD,     /* options.on_stall was called; it is when this is over */
	STALL_STATE_NR
};

struct stall {
	struct sm sm;
	struct loop_timer timer;
	uint64_t since_ns; /* ASKING, TOLD: when the oldest message was made */
	bool was_answered; /* likewise: a message was, since then */
};
void stall_init(struct cleave_volume *volume);
void stall_fini(struct cleave_volume *volume);
/* stall_watch -- there is a message. */
void stall_watch(struct cleave_volume *volume);

/* ---- pace.c: a volume's limits, kept ---- */
struct pace {
	struct limiter limiter;
	uint32_t tag;    /* of info.limits; 0: there are none */
	bool is_off;     /* tests: they are not kept */
	bool is_waiting; /* requests of the volume wait for them, and are no messages yet */
	bool
	    is_stale; /* a gateway has others, and will be asked when another volume's answer has come */
	bool is_long;            /* they wait for longer than the timer runs */
	uint64_t since_ns;       /* is_waiting */
	uint64_t asked_ns;       /* when they were asked for last; 0: never */
	struct loop_timer timer; /* what waits may go on */
};
void pace_init(struct cleave_volume *volume);
void pace_fini(struct cleave_volume *volume);
/* pace_set -- the volume has these limits: from its attach, or by now. */
void pace_set(struct cleave_volume *volume, const struct cleave_limits *limits);
/* pace_wait_ns -- how long the next message of a kind has to wait; 0: it may be made. */
uint64_t pace_wait_ns(const struct cleave_volume *volume, bool is_write);
/* pace_take -- @message is charged: it was made, or asks for the next part of its request. */
void pace_take(struct cleave_volume *volume, const struct message *message);
/*
 * pace_route -- @message asks for the next part of its request: charged as another one, it is routed, or waits for
 * limits, DELAYED, and is routed then
 */
void pace_route(struct message *message);
/* pace_resume -- a DELAYED message's timer has fired: if it waited for limits, its time begins. */
void pace_resume(struct message *message);
/* pace_watch -- all that may go was made into messages: the timer runs for what has to wait. */
void pace_watch(struct cleave_volume *volume);
/* pace_holds -- it is for limits that nothing is sent of @io: its time does not run. */
bool pace_holds(const struct cleave_io *io);
/* pace_on_tag -- an answer names the volume's limits by this tag. */
void pace_on_tag(struct cleave_volume *volume, uint32_t tag);

/* ---- vector.c ---- */
/* io_has_host -- is the request's memory the host's? Else it is cleave_buffer_alloc's. */
bool io_has_host(const struct cleave_io *io);
/* vector_bytes -- the length of all stretches together; UINT64_MAX where it is more. */
uint64_t vector_bytes(const struct iovec *vector, uint32_t count);
/*
 * io_stretch -- the memory of the request's bytes from @from_bytes on, as many as lie in one stretch
 *
 * Returns 1 .. @bytes, how many these are. The request has host memory and so many bytes.
 */
uint32_t io_stretch(const struct cleave_io *io, uint64_t from_bytes, uint32_t bytes,
    uint8_t **ret_stretch);

/* ---- volume.c, open.c ---- */
enum volume_state {
	VOLUME_ATTACHING,
	VOLUME_OPEN,
	VOLUME_DRAINING, /* cleave_volume_close: requests end */
	VOLUME_FAILED,   /* every request gets fail_rc; waits for cleave_volume_close */
	VOLUME_CLOSING,  /* no requests; connections end */
	VOLUME_CLOSED,
	VOLUME_STATE_NR
};

struct cleave_volume {
	uint32_t magic;
	struct sm sm;
	struct loop_link link; /* client->volumes */
	struct cleave_client *client;
	struct cleave_volume_info info;
	unsigned flags;
	uint64_t session_id;
	uint64_t cluster_id; /* of the gateway that it was opened at; 0: that one did not say */
	uint64_t incarnation;
	uint64_t send_count; /* makes request ids */
	uint64_t message_order;
	struct loop_link ios; /* submitted, not completed, in order */
	uint32_t io_count;
	struct loop_link due_ios;     /* of them, those that have an end, by deadline; no flushes */
	struct loop_link split_ios;   /* of them, changes that are not wholly made into messages */
	struct loop_link split_reads; /* the same of what changes nothing: the two take turns */
	bool is_split_read_next;
	struct message *asker; /* for the first of split_ios, which waits for it; NULL: none */
	uint8_t holes
	    [WIRE_HOLES_BYTES]; /* of the segment that this one is in: true up to asked_bytes */
	uint64_t progress_ns;   /* when something was done of any request */
	struct loop_link split_wait; /* in client->split_wait: wants free messages */
	struct loop_link messages;   /* in use, by order */
	struct loop_link homeless, delayed, remapping;
	struct loop_link connections;
	struct connection *by_port[CLIENT_PORTS_MAX]; /* as the map numbers them; NULL: none */
	struct overlap overlap;
	struct debt *debts; /* message_count_max of them */
	uint32_t debt_count;
	struct loop_task task;   /* split, complete flushes, notice the end */
	struct loop_timer timer; /* the deadline of the oldest request */
	struct stall stall;
	struct pace pace;
	struct leases *leases; /* NULL: it wants none */
	struct maps *maps;     /* likewise */
	struct direct *direct; /* NULL: it does not read at nodes */
	struct peeks *peeks;   /* NULL: it does not read out of gateways' memory */
	enum volume_reads reads;
	int fail_rc;
	/* Opening and closing. */
	struct cleave_call attach;
	uint64_t wanted_id; /* no other one is opened; 0: whatever has the name */
	bool is_id_unsaid;  /* the gateway knows no ids: what it opens is compared */
	cleave_open_fn open_fn;
	void *open_arg;
	uint64_t open_until_ns;       /* while who has it is silent: no later than this */
	struct loop_timer open_timer; /* it was refused for such a one: again */
	bool is_detaching;            /* attach is the call that ends the session */
	bool is_detached;             /* it has, or needs not, been ended at a gateway */
	/* lost.c's */
	struct cleave_call lost_call;
	bool is_lost_call_out;
	cleave_lost_fn lost_fn;
	void *lost_arg;
	void (*close_fn)(void *arg);
	void *close_arg;
	/* resize.c's */
	struct cleave_call size_call;
	cleave_size_fn size_fn; /* NULL: nobody has asked */
	void *size_arg;
};
/* volume_is_live -- the volume is OPEN or DRAINING: it sends messages. */
bool volume_is_live(const struct cleave_volume *volume);
void volume_wake(struct cleave_volume *volume);
/* volume_has_split -- a request has something left that is no message yet. */
bool volume_has_split(const struct cleave_volume *volume);
/* volume_on_progress -- something of @io was done: its time begins anew. */
void volume_on_progress(struct cleave_volume *volume, struct cleave_io *io);
/* volume_split_one -- make one message of the first request that has something left. */
void volume_split_one(struct cleave_volume *volume);
/* volume_message_done -- a message of @io is finished. */
void volume_message_done(struct cleave_volume *volume, struct cleave_io *io, int rc);
/* volume_fail -- for good: everything ends with @rc. */
void volume_fail(struct cleave_volume *volume, int rc);
/* volume_on_map -- client->map is new: connections and messages follow it. */
void volume_on_map(struct cleave_volume *volume);
/* volume_shard_of -- the shard of what is at @offset_bytes of the volume; there is a map. */
uint32_t volume_shard_of(const struct cleave_volume *volume, uint64_t offset_bytes);
/* volume_connection_of -- the connection to the port that serves @shard now; NULL: none is known. */
struct connection *volume_connection_of(struct cleave_volume *volume, uint32_t shard);
void volume_timer_on(struct loop_timer *timer, void *arg);
void volume_task_on(struct loop_task *task, void *arg);
void volume_free(struct cleave_volume *volume);
/* volume_detach -- its connections have ended: give it back. True: a call is out, volume_wake follows. */
bool volume_detach(struct cleave_volume *volume);

/* ---- lost.c: a volume that another session took ---- */
/* lost_begin -- the volume has failed: ask who has it now, if anybody wants to know. */
void lost_begin(struct cleave_volume *volume);

/* ---- client.c ---- */
struct cleave_client {
	uint32_t magic;
	struct cleave_client_options options; /* defaults filled in */
	char gateways[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	char name[CLIENT_NAME_BYTES];
	char local[SPLIT_ADDRESS_BYTES_MAX]; /* options.local; "": none */
	struct secure secure;                /* its key */
	struct {                             /* rekey.c's: where that is, copied */
		char *key, *security, *revoked;
	} rekey;
	struct loop *loop;
	struct engine_set *engines; /* inline: CRCs of device buffers */
	struct split_port *port;
	struct control control;
	struct loop_link volumes;
	uint32_t next_volume_index;                             /* for traces */
	struct client_map *map;                                 /* NULL until the first attach */
	char learnt[CLIENT_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX]; /* from the map, not configured */
	uint32_t learnt_count;
	struct remember remember; /* until there is a map: gateways to try last */
	uint64_t cluster_id;      /* of the gateway that answered last; 0: not known */
	uint64_t map_serial;      /* grows with each map */
	struct cleave_call map_call;
	bool is_map_call_out;
	struct loop_timer map_timer;
	uint64_t map_wanted_ns;    /* when somebody last asked for one; 0: never */
	uint32_t map_wants_in_row; /* shortly after each other */
	struct message *messages;
	struct loop_link free;       /* messages */
	struct loop_link split_wait; /* volumes that want free messages, in turn */
	struct loop_task split_task;
	dev_ptr staging;
	uint8_t *status;               /* CLIENT_MESSAGE_BYTES_MAX: entries of a BLOCK_STATUS */
	struct cleave_call stall_call; /* stall.c */
	bool is_stall_call_out;
	struct cleave_volume *stalled;  /* for whom; NULL: for nobody any more */
	struct cleave_call limits_call; /* pace.c */
	bool is_limits_call_out;
	struct cleave_volume *limits_of; /* likewise */
	struct cleave_call nodes_call;   /* direct_node.c */
	bool is_nodes_call_out;
	struct cleave_volume *nodes_of; /* likewise */
	bool is_destroying;             /* handlers are not called any more */
	struct cleave_stats stats;
};

/* rekey_take -- remember where the key is; false: no memory. rekey_fini -- forget that, and the key. */
bool rekey_take(struct cleave_client *client, const struct secure_options *options);
void rekey_fini(struct cleave_client *client);
/* client_want_map -- fetch it soon; often asked, once done. */
void client_want_map(struct cleave_client *client);
/*
 * client_set_map -- @map is a new one (copied): tell the volumes
 *
 * 1: it told something new; 0: nothing; -ENOMEM.
 */
int client_set_map(struct cleave_client *client, const struct client_map *map);
/* The gateways that can be asked: those configured, then those learnt, or else those remembered. */
uint32_t client_gateway_count(const struct cleave_client *client);
/* client_gateway_is_remembered -- it is of another session's map, and may be anybody's by now. */
bool client_gateway_is_remembered(const struct cleave_client *client, uint32_t index);
/* client_gateway_is_of -- may it be asked, that says it is of @cluster_id (0: says nothing)? client.c has the rule. */
bool client_gateway_is_of(const struct cleave_client *client, uint32_t index, uint64_t cluster_id);
const char *client_gateway(const struct cleave_client *client, uint32_t index);

#define CLIENT_STAT(client, name, delta) metric_add(&(client)->stats.name, (delta))

#endif /* CLEAVE_VM_CLIENT_INTERNAL_H */
