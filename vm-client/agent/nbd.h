/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd.h -- the NBD agent's nouns, in blocks headed by the file that owns them
 *
 *	socket -> connection: options (nbd_option.c), then requests (nbd_request.c)
 *	               \-> export (nbd_export.c): an open volume, shared by connections -> libcleave
 *
 * Everything runs on one loop. A write that libcleave has completed is durable, so FUA is what every
 * write has, FLUSH has nothing left to do, and several connections to an export see one disk.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_H
#define CLEAVE_VM_CLIENT_NBD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/sm.h"
#include "cleave/client.h"
#include "library/alloc.h"
#include "nbd_metrics.h"
#include "nbd_wire.h"

#define SERVER_MAGIC 0x5653424eu     /* "NBSV" */
#define CONNECTION_MAGIC 0x4e43424eu /* "NBCN" */
#define REQUEST_MAGIC 0x5152424eu    /* "NBRQ" */
#define EXPORT_MAGIC 0x5058424eu     /* "NBXP" */

#define NBD_CONNECTIONS_MAX 1024u
#define NBD_LISTENERS_MAX 8u
#define NBD_EXPORTS_MAX 4096u
#define NBD_REQUESTS_MAX 256u               /* of a connection, at a time */
#define NBD_IN_FLIGHT_BYTES_MAX (64u << 20) /* of a connection's requests; one more always goes */
#define NBD_MEMORY_BYTES_MAX (UINT64_C(1) << 30)   /* of requests and answers, over all */
#define NBD_MEMORY_OWN_BYTES (UINT64_C(256) << 10) /* of it, what each connection has for itself */
#define NBD_STALL_BYTES (UINT64_C(1) << 20)        /* who moves less in stall_ns may be cut off */
#define NBD_INPUT_BYTES (128u * 1024u)             /* options' data and its head always fit */
#define NBD_PREFERRED_BYTES 4096u
#define NBD_CONTEXT_ID 1u        /* of base:allocation */
#define NBD_CONTEXT_ID_BITMAP 2u /* of the first bitmap; the next one's is next */

struct nbd_server;
struct nbd_bitmap;
struct nbd_command_shape;
struct nbd_connection;
struct nbd_handover;
struct nbd_listing;
struct nbd_request;
struct nbd_tls;

/* ---- nbd_buffer.c: 4096-aligned memory in powers of two, kept for the next ---- */
#define NBD_BUFFER_CLASSES 15u     /* 4 KiB .. 64 MiB */
#define NBD_REQUESTS_KEPT_MAX 256u /* of all connections */
struct nbd_buffers {
	void *free[NBD_BUFFER_CLASSES];
	uint64_t free_bytes;  /* kept */
	uint64_t spare_bytes; /* of them, not wanted since nbd_buffers_trim */
	void *free_request;   /* names the next one in its first bytes */
	uint32_t free_request_count;
};
/* nbd_buffer_get -- at least @bytes; NULL: out of memory. */
void *nbd_buffer_get(struct nbd_buffers *buffers, uint64_t bytes);
/* nbd_buffer_put -- @bytes: as it was asked for. NULL is a no-op. */
void nbd_buffer_put(struct nbd_buffers *buffers, void *buffer, uint64_t bytes);
/* nbd_buffers_trim -- give back what was not wanted since the last time; how many bytes. */
uint64_t nbd_buffers_trim(struct nbd_buffers *buffers);
void nbd_buffers_fini(struct nbd_buffers *buffers);
/*
 * nbd_buffer_get_request, nbd_buffer_put_request -- a request, zeroed but for its ios, each of which is set before it is
 * used; NULL: out of memory. NBD_REQUESTS_KEPT_MAX are kept for the next.
 */
struct nbd_request *nbd_buffer_get_request(struct nbd_buffers *buffers);
void nbd_buffer_put_request(struct nbd_buffers *buffers, struct nbd_request *request);

/* ---- nbd_memory.c: what connections hold, and who waits for it ---- */
struct nbd_memory {
	uint64_t held_bytes;      /* by all connections */
	uint64_t shared_bytes;    /* of them, beyond what each has for itself */
	uint64_t peak_bytes;      /* held at most, since the last look of trim_timer */
	uint64_t wanted_bytes;    /* by those that wait */
	struct loop_link waiting; /* connections, oldest first */
	struct loop_task task;    /* somebody gave: whose turn is it? */
	struct loop_timer stall_timer, trim_timer;
};
void nbd_memory_init(struct nbd_server *server);
void nbd_memory_fini(struct nbd_server *server);
/*
 * nbd_memory_take -- @connection is about to hold @bytes more
 *
 * False: it waits now, reads nothing, and is resumed when it is its turn; then this is asked again.
 */
bool nbd_memory_take(struct nbd_connection *connection, uint64_t bytes);
/* nbd_memory_force -- @connection holds @bytes more already, whatever room there is. */
void nbd_memory_force(struct nbd_connection *connection, uint64_t bytes);
void nbd_memory_give(struct nbd_connection *connection, uint64_t bytes);
/* nbd_memory_leave -- @connection waits for memory no more. */
void nbd_memory_leave(struct nbd_connection *connection);
bool nbd_memory_is_waiting(const struct nbd_connection *connection);
/* nbd_memory_moved -- the connection's socket took or gave @bytes; 0: something is due from now on. */
void nbd_memory_moved(struct nbd_connection *connection, uint64_t bytes);

/* ---- nbd_export.c: a volume, open while somebody uses it ---- */
enum nbd_export_state {
	NBD_EXPORT_CLOSED,
	NBD_EXPORT_OPENING,
	NBD_EXPORT_OPEN,
	NBD_EXPORT_CLOSING, /* the last user has gone */
	NBD_EXPORT_STATE_NR
};

struct nbd_export {
	uint32_t magic;
	struct loop_link link; /* server->exports */
	struct nbd_server *server;
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	bool is_read_only;
	bool is_on_demand; /* made because a client named it: goes when nobody uses it */
	bool is_attached;  /* by `cleave attach`, and not in the file: a successor gets it */
	struct sm sm;
	uint64_t wanted_id;           /* no other volume is opened; 0: whatever has the name */
	struct cleave_volume *volume; /* OPEN, CLOSING */
	uint64_t size_bytes;
	uint32_t user_count;      /* connections that use it or wait for it */
	struct loop_link waiters; /* connections, while it opens */
	struct loop_link active;  /* requests that change it, under way */
	struct loop_link waiting; /* requests that must wait for one of these, oldest first */
	struct loop_link ready;   /* of those: whom nobody blocks, as far as is known */
	uint32_t edged_count;     /* requests that change a part of a block, until they are gone */
	bool is_retrying;
	struct loop_link asking;  /* waiters, while the size of now is asked for */
	struct loop_link resizes; /* requests; the first is under way */
	struct loop_task resize_task;
	bool is_asking;
	bool is_resize_ready; /* the first of resizes waits for is_asking to end */
	bool is_shrinking;    /* size_bytes is what it will be */
	bool is_lost;         /* another session has the volume, or it is gone: all requests fail */
	/* nbd_attach.c's */
	bool is_writer; /* volume is a writing session; else, if it may be written, a reading one */
	bool is_attaching;                      /* being opened for writing, beside volume */
	bool must_take;                         /* from our predecessor, with the first open */
	uint64_t given_id;                      /* of the volume its clients have; 0: not known */
	bool is_by_id;                          /* nobody has its name: being opened by given_id */
	bool is_opening_writer;                 /* OPENING, for writing: a gateway may let us in */
	char lost_text[CLEAVE_ERROR_BYTES_MAX]; /* who took it; "" */
	struct loop_link unattached;            /* changes that wait for is_writer, oldest first */
	struct loop_task attach_task;
	struct loop_timer reclaim_timer;
	struct loop_task open_task; /* opens it, tells who came when it was open, frees it */
	struct nbd_stats stats;
	bool is_stalled; /* no gateway answers */
	char problem
	    [CLEAVE_ERROR_BYTES_MAX]; /* why it could not be opened, or written, the last time; "" */
	bool is_another;              /* problem says that the name is not that of what is open */
	/* nbd_persistent.c's */
	bool is_persistent;              /* the file lists it */
	bool outlives_file;              /* it was there before the file had it */
	uint64_t generation;             /* of the file that listed it last */
	uint64_t look_ns, look_delay_ns; /* when it is looked at next; UINT64_MAX: it is there */
};

/* nbd_export_find -- by name ("" is the default), or made where the server allows any; else NULL. */
struct nbd_export *nbd_export_find(struct nbd_server *server, const char *name,
    uint32_t name_bytes);
/* nbd_export_add -- a snapshot is read-only, whatever @is_read_only says. NULL with errno EINVAL (name), EEXIST, ENOMEM, ENOSPC (too many). */
struct nbd_export *nbd_export_add(struct nbd_server *server, const char *name, bool is_read_only);
/* nbd_export_by_name -- one that there is; NULL: there is none. */
struct nbd_export *nbd_export_by_name(struct nbd_server *server, const char *name);
/* nbd_export_is_renamed -- what is open had another name than the export's already when it was opened: by its id. */
bool nbd_export_is_renamed(const struct nbd_export *export);
/* nbd_export_set_problem -- for who lists exports; "" there is none. False: it is the same as before. */
bool nbd_export_set_problem(struct nbd_export *export, const char *text);
/*
 * nbd_export_use -- @connection->export is it; nbd_connection_on_export once it is open, or not
 *
 * @connection uses no other. One that is lost is opened again; who used it before is cut off. Where the name is not that of
 * what is open any more, @connection is refused (-ENOENT).
 */
void nbd_export_use(struct nbd_export *export, struct nbd_connection *connection);
/* nbd_export_leave -- the last one closes the volume. Its requests have ended. */
void nbd_export_leave(struct nbd_export *export, struct nbd_connection *connection);
/* nbd_export_on_error -- a request at it has ended with @rc: is it lost? */
void nbd_export_on_error(struct nbd_export *export, int rc);
void nbd_export_free(struct nbd_export *export);

/* ---- nbd_attach.c: its writing session ---- */
/* nbd_attach_is_due -- a change must wait for the writing session, in export->unattached. */
bool nbd_attach_is_due(const struct nbd_export *export);
/* nbd_attach_start -- get the writing session: requests that wait for it go on, or fail. */
void nbd_attach_start(struct nbd_export *export);
/* nbd_attach_on_lost -- a request was told that the session is lost: get it back, if that is wanted. */
void nbd_attach_on_lost(struct nbd_export *export, int rc);
/* nbd_attach_is_reclaiming -- the volume is lost, and will be got back when the taker leaves. */
bool nbd_attach_is_reclaiming(const struct nbd_export *export);
/* nbd_attach_on_writer -- export->volume is a writing session now. */
void nbd_attach_on_writer(struct nbd_export *export);
void nbd_attach_init(struct nbd_export *export);
void nbd_attach_fini(struct nbd_export *export);

/* ---- nbd_request.c: one command ---- */
enum nbd_request_state {
	NBD_REQUEST_RECEIVING, /* its payload comes in */
	NBD_REQUEST_WAITING,   /* for a change of the same blocks, or for room in libcleave */
	NBD_REQUEST_FETCHING,  /* the blocks that it changes in part */
	NBD_REQUEST_RUNNING,
	NBD_REQUEST_REPLYING, /* queued, or partly sent */
	NBD_REQUEST_DONE,
	NBD_REQUEST_STATE_NR
};

/* Bytes to be sent: a reply, or a part of a read's data. */
struct nbd_output {
	struct loop_link link; /* connection->replies */
	struct nbd_request *request;
	bool is_last;     /* nothing of the request's reply follows */
	bool is_gathered; /* the stream has seen it: it must stay as it is */
	uint8_t head[NBD_REPLY_HEAD_BYTES_MAX];
	uint32_t head_bytes;
	const uint8_t *data;
	uint64_t data_bytes, sent_bytes;
};

/* Zeroes: first block, middle, last block. A block status: one for each context. */
#define NBD_REQUEST_IOS_MAX (1u + NBD_BITMAPS_MAX)
struct nbd_request {
	uint32_t magic;
	struct loop_link link;      /* connection->requests */
	struct loop_link lock_link; /* export->active or ->waiting */
	struct loop_link wait_link; /* another's blocked, or export->ready */
	struct loop_link blocked;   /* requests that wait for this one */
	struct nbd_connection *connection;
	struct nbd_export *export;
	struct sm sm;
	struct nbd_request_head head;
	uint8_t *data; /* of whole blocks: from first_bytes on; NULL: none */
	uint64_t data_bytes;
	uint64_t begun_ns;               /* its head was there */
	uint64_t held_bytes;             /* taken of the memory, for all of it */
	uint64_t first_bytes, end_bytes; /* the blocks it touches */
	uint8_t *edges;                  /* first and last block, when it changes them in part */
	bool has_edge[2];
	struct cleave_io ios[NBD_REQUEST_IOS_MAX];
	uint32_t io_next, io_count, io_out; /* to be submitted, of; not yet completed */
	int rc;
	struct nbd_output reply; /* a WRITE that is received: its data is where to */
	/* A read that is answered as its data comes: parts, in that order. NULL: it is not. */
	struct nbd_output *parts;
	uint32_t part_count, part_max;
	uint64_t parts_bytes; /* in them */
};

/* nbd_request_bytes -- the memory that a request of @shape will hold, until its reply has left. */
uint64_t nbd_request_bytes(const struct nbd_command_shape *shape);
/*
 * nbd_request_start -- a head of @shape was decoded, and nbd_request_bytes of memory are taken for it
 *
 * Returns the request whose payload is to be received next (WRITE: reply.data points to where, for
 * length_bytes), or NULL: nothing more is needed. *@ret_skip_bytes: payload of a refused WRITE.
 */
struct nbd_request *nbd_request_start(struct nbd_connection *connection,
    const struct nbd_request_head *head, const struct nbd_command_shape *shape,
    uint64_t *ret_skip_bytes);
/* nbd_request_received -- the payload is there. */
void nbd_request_received(struct nbd_request *request);
/* nbd_request_sent -- the whole reply is. */
void nbd_request_sent(struct nbd_request *request);
/* nbd_request_retry -- requests that wait at @export may go on now. */
void nbd_request_retry(struct nbd_export *export);
/* nbd_request_end -- reply to a request that has been done (0), or not (@rc). The caller's last act. */
void nbd_request_end(struct nbd_request *request, int rc);
/* nbd_request_drop -- its connection is gone, and libcleave has nothing of it: free it. */
void nbd_request_drop(struct nbd_request *request);

/* ---- nbd_resize.c: the volume's size ---- */
enum nbd_resize { NBD_RESIZE_NONE, NBD_RESIZE_GROW, NBD_RESIZE_ANY };
/* nbd_resize_is_offered -- to the export's clients. */
bool nbd_resize_is_offered(const struct nbd_export *export);
/* nbd_resize_check -- 0, or what the reply says. */
int nbd_resize_check(const struct nbd_export *export, const struct nbd_request_head *head);
/* nbd_resize_start -- begin a request that nbd_resize_check let pass; it is answered later. */
void nbd_resize_start(struct nbd_request *request);
/* nbd_resize_fail -- the volume cannot be written: those that have not begun end with @rc. */
void nbd_resize_fail(struct nbd_export *export, int rc);
/* nbd_resize_run -- a request has ended, or the size is not asked for any more: go on. */
void nbd_resize_run(struct nbd_export *export);

/* ---- nbd_option.c: the handshake ---- */
/* nbd_greet -- queue the server's first bytes. Returns 0; -ENOMEM: nothing is queued. */
int nbd_greet(struct nbd_connection *connection);
/* nbd_client_flags -- 0, or -EPROTO. */
int nbd_client_flags(struct nbd_connection *connection, const uint8_t in[4]);
/*
 * nbd_option_run -- a whole option is there
 *
 * 0: go on; -EINPROGRESS: stop reading until nbd_connection_on_export; -EALREADY: begin TLS;
 * -ESHUTDOWN: answered, close; -EPROTO: close.
 */
int nbd_option_run(struct nbd_connection *connection, const struct nbd_option_head *head,
    const uint8_t *data);
/* nbd_option_list_bytes -- the memory that an answer to LIST takes. */
uint64_t nbd_option_list_bytes(const struct nbd_connection *connection);
/* nbd_option_on_export -- the answer to the option that waited. The same returns. */
int nbd_option_on_export(struct nbd_connection *connection, int rc, const char *error);
/* nbd_option_on_list -- the answer to LIST_META_CONTEXT: the snapshots whose bitmaps it asks for. The same returns. */
int nbd_option_on_list(struct nbd_connection *connection, int rc, const char *error,
    const char *const *names, uint32_t name_count);

/* ---- nbd_connection.c: a socket and what it has to say ---- */
enum nbd_connection_state {
	NBD_CONNECTION_FLAGS,    /* greeted; the client's flags come */
	NBD_CONNECTION_OPTIONS,  /* haggling */
	NBD_CONNECTION_STARTTLS, /* the answer to STARTTLS leaves in plain, then the handshake */
	NBD_CONNECTION_OPENING,  /* an option waits for its export */
	NBD_CONNECTION_SERVING,
	NBD_CONNECTION_ENDING, /* no more is read; what is queued is sent */
	NBD_CONNECTION_CLOSED, /* requests in flight end */
	NBD_CONNECTION_STATE_NR
};

/* How bytes come and go: plain, or through TLS. Both return as readv and writev do, with -errno. */
struct nbd_stream_ops {
	ssize_t (*read)(struct nbd_connection *connection, void *data, size_t bytes);
	ssize_t (*writev)(struct nbd_connection *connection, const struct iovec *iovecs, int count);
	/* Bytes that were taken from the socket and not yet read: it will not say so again. */
	bool (*has_pending)(const struct nbd_connection *connection);
};
extern const struct nbd_stream_ops nbd_plain_stream; /* nbd_plain.c */

struct nbd_connection {
	uint32_t magic;
	struct loop_link link; /* server->connections */
	struct loop_link wait_link;
	struct nbd_server *server;
	struct sm sm;
	char peer[64];
	int in_fd, out_fd; /* the same, but for standard input and output */
	struct loop_fd in_watcher, out_watcher;
	bool is_reading, is_writing; /* the watchers' interests */
	const struct nbd_stream_ops *stream;
	void *tls_session; /* gnutls_session_t; NULL: plain */
	bool is_secure;    /* its handshake is over */
	struct loop_task read_task;
	struct loop_timer handshake_timer;
	/* The handshake's outcome. */
	bool is_fixed, has_no_zeroes, has_context;
	enum nbd_reply_style style;
	struct nbd_export *export;                      /* used, or waited for */
	char context_export[CLEAVE_NAME_BYTES_MAX + 1]; /* what the contexts are about */
	struct nbd_bitmap_use {
		struct loop_link link; /* bitmap->waiting, ->users */
		struct nbd_connection *connection;
		struct nbd_bitmap *bitmap;
	} bitmaps[NBD_BITMAPS_MAX]; /* contexts beside base:allocation; nbd_bitmap.c */
	uint32_t bitmap_count;
	struct nbd_listing *listing; /* of bitmaps, which a gateway is asked for */
	/* The option that waits for it. */
	uint32_t option;
	bool wants_block_size, wants_name, lists_allocation;
	/* Input. */
	uint8_t *input; /* NBD_INPUT_BYTES */
	uint32_t input_at, input_end;
	struct nbd_request *receiving;
	uint64_t received_bytes, skip_bytes;
	/* Output: text of the handshake first, then replies in the order they became ready. */
	uint8_t *text;
	uint32_t text_bytes, text_sent_bytes, text_max_bytes;
	struct loop_link replies;
	struct loop_task send_task;
	/* Requests. */
	struct loop_link requests;
	uint32_t request_count;
	uint64_t in_flight_bytes; /* of requests, to the end of their replies */
	/* Memory; nbd_memory.c. */
	uint64_t held_bytes; /* in_flight_bytes, text_max_bytes, granted_bytes */
	uint64_t wanted_bytes, granted_bytes;
	struct loop_link memory_link;   /* server->memory.waiting */
	uint64_t moved_ns, moved_bytes; /* when NBD_STALL_BYTES had moved, and since */
	uint8_t *carried;               /* input before the socket's; nbd_carry.c */
	uint32_t carried_at, carried_bytes;
	bool is_parking; /* nothing more is read; see nbd_handover.h */
	bool is_frozen;  /* nor sent: it was given */
	bool is_adopted; /* until it serves */
	bool is_busy;    /* one of its handlers runs: it is not freed under it */
};

/*
 * nbd_connection_create -- takes the descriptors, also on failure. NULL: out of memory.
 *
 * @is_new: greet the client. Else it was another process's: it serves once its export is open.
 */
struct nbd_connection *nbd_connection_create(struct nbd_server *server, int in_fd, int out_fd,
    const char *peer, bool is_new);
/* nbd_connection_is_open -- the client may be heard, and answered: the connection is neither ending nor closed. */
bool nbd_connection_is_open(const struct nbd_connection *connection);
/* nbd_connection_resume -- parse what is there and watch for more, as whether it may read has changed. */
void nbd_connection_resume(struct nbd_connection *connection);
/* nbd_connection_freeze -- nothing is sent, until it is again. */
void nbd_connection_freeze(struct nbd_connection *connection, bool is_frozen);
/* nbd_connection_end -- an orderly end: finish requests, send what is queued, close. */
void nbd_connection_end(struct nbd_connection *connection);
/* nbd_connection_break -- close now; requests in flight end unheard. */
void nbd_connection_break(struct nbd_connection *connection, const char *why);
/* nbd_connection_destroy -- with all its requests, which nobody else will end: the client is gone. */
void nbd_connection_destroy(struct nbd_connection *connection);
/* nbd_connection_on_export -- its export, or one of its bitmaps, is open; or the export cannot be (@rc). */
void nbd_connection_on_export(struct nbd_connection *connection, int rc, const char *error);
/* nbd_connection_on_option -- the option that waited was answered; @rc as nbd_option_run's. */
void nbd_connection_on_option(struct nbd_connection *connection, int rc);
/* nbd_connection_request_gone -- a request has ended: read on, or go. The caller's last act. */
void nbd_connection_request_gone(struct nbd_connection *connection);

/*
 * nbd_connection_make_plain -- let a connection under TLS, with nothing to send, go on over @fd
 *
 * The session and the client's sockets are the caller's, whatever is returned. -errno: break it.
 */
int nbd_connection_make_plain(struct nbd_connection *connection, int fd, void **ret_session,
    int *ret_in_fd, int *ret_out_fd);

/* ---- nbd_carry.c: what goes along with a connection that is handed over ---- */
#define NBD_CARRY_BYTES_MAX (UINT64_C(256) << 20) /* each way; of what is in flight there is less */
struct nbd_carry {
	int fd; /* the receiver's of both; -1: nothing goes along */
	uint64_t output_bytes, input_bytes;
};
/* nbd_carry_save -- the bytes that are half here of a connection in which nothing runs. 0 or -errno. */
int nbd_carry_save(const struct nbd_connection *connection, struct nbd_carry *ret_carry);
/* nbd_carry_load -- into a connection that has said and heard nothing yet. 0, -EBADMSG, -ENOMEM. */
int nbd_carry_load(struct nbd_connection *connection, const struct nbd_carry *carry);
/* nbd_carry_take -- input that comes before the socket's; how many bytes, 0: there is none left. */
uint32_t nbd_carry_take(struct nbd_connection *connection, void *data, uint64_t bytes);

/* ---- nbd_relay.c: TLS in front of a plain connection ---- */
/* nbd_relay_create -- split @connection, which is parked, in two. -errno: it cannot be, or is broken. */
int nbd_relay_create(struct nbd_connection *connection);
/* nbd_relays_destroy -- their clients are cut off. */
void nbd_relays_destroy(struct nbd_server *server);

/* ---- nbd_send.c: output, until the socket takes it ---- */
#define NBD_SEND_IOVECS_MAX 64
/* nbd_connection_text -- queue bytes of the handshake. -ENOMEM. */
int nbd_connection_text(struct nbd_connection *connection, const void *bytes, uint32_t count);
/* nbd_connection_reply -- @request has its reply, which ends it. */
void nbd_connection_reply(struct nbd_connection *connection, struct nbd_request *request);
/*
 * nbd_connection_part -- @bytes of what @request reads are there, from @offset_bytes of the disk on
 *
 * What goes on where a part ends that has not begun to leave becomes one with it.
 */
void nbd_connection_part(struct nbd_connection *connection, struct nbd_request *request,
    uint64_t offset_bytes, uint64_t bytes);
/* nbd_connection_end_parts -- all data is there: the last part becomes the reply's end. False: it is out. */
bool nbd_connection_end_parts(struct nbd_request *request);
bool nbd_send_has_output(const struct nbd_connection *connection);
/* nbd_send_gather -- the bytes to be sent next, in @iovecs (NBD_SEND_IOVECS_MAX); returns how many are used. */
int nbd_send_gather(struct nbd_connection *connection, struct iovec *iovecs);
/* nbd_send_done -- @bytes of it have left. Requests whose replies have left are gone. */
void nbd_send_done(struct nbd_connection *connection, uint64_t bytes);

/* ---- nbd_server.c: listeners, connections, exports ---- */
struct nbd_server_options {
	struct loop *loop;
	struct cleave_client *client;
	bool is_read_only;
	bool allows_any;     /* every volume of the cluster, by its name */
	struct nbd_tls *tls; /* borrowed; NULL: plain only */
	bool requires_tls;
	bool knows_clients;     /* each of them shows a certificate, or that it has a key */
	bool is_open;           /* it may listen where other hosts reach it, whoever they are */
	enum nbd_resize resize; /* what clients may do */
	bool attaches_at_once;  /* with the first client, not with the first change */
	bool takes;             /* a volume from whoever writes it */
	bool reclaims;          /* one that was taken, when the taker has left */
	uint64_t handshake_ns;  /* for a client to be through with it */
	uint64_t stall_ns;      /* to move NBD_STALL_BYTES, while others wait for memory */
	/* Standard input's client has gone, or the last connection after nbd_server_stop. */
	void (*on_empty)(void *arg);
	void *arg;
};

struct nbd_server {
	uint32_t magic;
	struct nbd_server_options options;
	struct nbd_listener {
		struct nbd_server *server;
		struct loop_fd watcher;
		int fd;
		bool is_listening;
		char path[108]; /* of a unix socket, to be unlinked; "" */
	} listeners[NBD_LISTENERS_MAX];
	uint32_t listener_count;
	struct loop_link exports;
	uint32_t export_count;
	struct loop_link connections;
	uint32_t connection_count;
	struct loop_link bitmaps, listings; /* nbd_bitmap.c's, nbd_bitmap_list.c's */
	struct loop_link relays;            /* of clients under TLS that were handed over */
	uint32_t relay_count;
	struct nbd_buffers buffers;
	struct nbd_memory memory;
	struct loop_task empty_task;
	struct nbd_handover *handover; /* under way, or NULL */
	struct nbd_stats gone;         /* what exports have counted that are no more */
	struct loop_timer accept_timer;
	bool is_parking;        /* nobody is accepted: all is handed over */
	bool is_carrying;       /* with what is half here, too */
	bool is_giving_bitmaps; /* the successor knows what they are */
	bool is_giving_exports; /* the successor takes those that it does not have of its own */
	bool is_paused;         /* nobody is accepted: there are no descriptors left */
	bool is_stopping;
	bool is_given;  /* to another process, but for the relays */
	bool is_single; /* on_empty when the last connection goes, and its volume is closed */
};

struct nbd_server *nbd_server_create(const struct nbd_server_options *options);
/* Whoever reaches such an address reads and writes the exports, as does who sees what goes by. */
#define NBD_OPEN_TEXT                                                                                           \
	"other hosts reach it, and whoever does reads and writes the volumes: have clients show who they are, " \
	"by --tls-certificates with --tls-verify-peer, or --tls-psk, and without --tls-optional; or say "       \
	"--listen-open (listen-open = yes) where that is meant"

/* nbd_server_is_exposed -- does socket @fd listen where other hosts reach it, and the options do not say that it may? */
bool nbd_server_is_exposed(const struct nbd_server *server, int fd);
/* nbd_server_listen -- "unix:PATH", "tcp://HOST:PORT". 0, or negative errno and a text; -EPERM: it would be exposed. */
int nbd_server_listen(struct nbd_server *server, const char *address, char *ret_bound,
    size_t bound_bytes, char *ret_error, size_t error_bytes);
/* nbd_server_adopt -- a socket that listens already; @path: of a unix socket that is ours, or "". */
int nbd_server_adopt(struct nbd_server *server, int fd, const char *path);
/* nbd_server_forget_listeners -- their paths are another agent's, and not ours to remove. */
void nbd_server_forget_listeners(struct nbd_server *server);
/* nbd_server_stop -- no new connections; the others end; on_empty. */
void nbd_server_stop(struct nbd_server *server);
/* nbd_server_give_up -- all of it is another process's: on_empty when the last relay has gone. */
void nbd_server_give_up(struct nbd_server *server);
/* nbd_server_destroy -- connections are closed at once; the client is destroyed before. */
void nbd_server_destroy(struct nbd_server *server);
/* nbd_server_watch -- accept, or not, as is_parking and is_paused say. */
void nbd_server_watch(struct nbd_server *server);
/* nbd_server_connection_gone, _relay_gone -- by nbd_connection.c and nbd_relay.c alone. */
void nbd_server_connection_gone(struct nbd_server *server);
void nbd_server_relay_gone(struct nbd_server *server);
/* nbd_server_export_closed -- by nbd_export.c alone: a server that stops is empty when its volumes are closed, too. */
void nbd_server_export_closed(struct nbd_server *server);

/* ---- nbd_handover.c ---- */
/* nbd_handover_soon -- look again, as a connection came nearer to being parked. */
void nbd_handover_soon(struct nbd_handover *handover);

#endif /* CLEAVE_VM_CLIENT_NBD_H */
