/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- libcleave: a volume as a disk
 *
 * Layer 1 runs on the caller's loop: a *client* owns a split port, a control connection to one of
 * its gateways, and volumes; a *volume* owns a connection to each port of the gateway that serves it.
 * Everything completes into handlers that the loop calls, never inside the call that caused them.
 * Layer 2 (the second half) runs layer 1 on a thread of the library's own: submissions from any
 * thread, completions through an event fd, and blocking helpers.
 *
 *	cleave_io -> volume queue -> messages (<= 64 KiB, within a chunk) -> connection -> gateway
 *
 * What the library promises:
 *   - A write that has completed with 0 is durable. A flush completes when everything submitted
 *     before it has.
 *   - Overlapping writes (discards and zero writes too) take effect in the order of submission: one
 *     waits for the other. A block is 4096 bytes and the unit of atomicity.
 *   - Busy and unavailable gateways, lost connections and moved shards are the library's business:
 *     it backs off, fetches the map, resends; until the request's time is over, and then it closes
 *     the connection before it gives the request back with -ETIMEDOUT. Whether the write takes effect
 *     is open then, but it never does after a later one was acknowledged (I11): later writes to the
 *     volume wait until the gateway has admitted a new connection, or has lost the shard.
 *   - Every payload carries its CRC-32C; what a read returns has been checked against its own.
 *   - Memory and queues are bounded by the options: what exceeds them gets -ENOBUFS.
 *
 * Threads: layer 1 belongs to its loop's thread; each call of layer 2 says what it allows.
 */
#ifndef CLEAVE_CLIENT_H
#define CLEAVE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/units.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLEAVE_IO_BYTES_MAX (UINT64_C(32) << 20) /* of a read or write */
#define CLEAVE_VECTOR_MAX 1024u                  /* entries of a request's vector */
#define CLEAVE_ERROR_BYTES_MAX 384u
#define CLEAVE_GATEWAYS_MAX 16u
#define CLEAVE_CALLS_MAX 64u         /* control calls waiting for an answer */
#define CLEAVE_CALL_BYTES_MAX 16320u /* of a control request's text */
#define CLEAVE_MESSAGES_MAX 4096u    /* options.message_count_max */
#define CLEAVE_DEFAULT_GATEWAY "tcp://127.0.0.1:7100"

#define CLEAVE_FOREVER UINT64_MAX /* of a time: without end */

struct cleave_client;
struct cleave_volume;
struct sim_host;

/* A volume whose oldest request has got no answer for a second, or for which that is over. */
struct cleave_stall {
	const char *volume;
	uint64_t waited_ns;     /* since its oldest request was sent, or wanted to be */
	uint32_t request_count; /* submitted, not completed */
	bool is_over;           /* requests are answered again; or were given up */
	/* For people: what is seen here, and what a gateway says. When over "", or that nobody has answered. */
	const char *reason;
};
/* The views are valid during the call alone; nothing of the library may be called from it. */
typedef void (*cleave_stall_fn)(const struct cleave_stall *stall, void *arg);

/* The options of a client. Zero means the default in brackets. */
struct cleave_client_options {
	struct loop *loop; /* layer 1: required; layer 2 makes its own */
	/*
	 * Required; copied; tried in turn. Each is ADDRESS[,ADDRESS...], together CLEAVE_GATEWAYS_MAX at most:
	 * tcp://HOST:PORT, HOST:PORT, which means the same, or verbs://HOST:PORT. HOST is a name, an IPv4
	 * address, or an IPv6 address in brackets; a name is looked up anew for each connection.
	 */
	const char *const *gateways;
	uint32_t gateway_count;
	struct sim_host *sim_host;     /* for sim:// addresses; else NULL */
	uint32_t message_count_max;    /* messages in flight, all volumes together [256] */
	uint32_t connection_depth_max; /* of them on one connection [128] */
	uint32_t queue_count_max; /* requests submitted to a volume, not yet completed [4096] */
	uint64_t buffer_bytes;    /* device memory for cleave_buffer_alloc [0] */
	uint64_t io_timeout_ns; /* without progress, to -ETIMEDOUT; CLEAVE_FOREVER: never [60 s] */
	uint64_t control_timeout_ns; /* the same for control calls [30 s] */
	uint64_t connect_timeout_ns; /* [5 s] */
	uint64_t backoff_min_ns;     /* first pause before a retry [5 ms] */
	uint64_t backoff_max_ns;     /* longest [1 s] */
	uint64_t keepalive_ns;       /* a silent gateway is found within this [10 s] */
	/* so long, in chunks of 64 MiB, is a discard, zero write or status that asks first what holds nothing [16] */
	uint32_t holes_chunks_min;
	uint32_t vm_id;    /* goes into each message, for the gateway's traces */
	const char *name;  /* who this is, for whom it keeps out; copied [PROGRAM[PID]@HOST] */
	bool is_impatient; /* control calls fail once every gateway has refused */
	/*
	 * The ports of the last map are kept in $XDG_STATE_HOME/cleave [$HOME/.local/state], and tried when all
	 * that are configured have failed: a client starts although those are gone. Not with this.
	 */
	bool forgets_gateways;
	cleave_stall_fn on_stall; /* on the client's thread; NULL: nobody is told */
	void *stall_arg;
	/*
	 * A key file, as cleave key issue makes them, and how connections are protected: "seal", "sign" or "open"
	 * [$CLEAVE_KEY, else $CREDENTIALS_DIRECTORY/key, else none; $CLEAVE_SECURITY, else "seal" with a key]. A cluster whose
	 * gateways have keys takes nobody without. The file is read once, at creation.
	 */
	const char *key;
	const char *security;
	/*
	 * A file with lists of revoked keys (cleave key revoke): gateways that are on them are refused. NULL: as
	 * $CLEAVE_REVOKED says, else there are none. Read once; cleave_client_rekey has it read again.
	 */
	const char *revoked;
	/*
	 * A folder, from / on, in which gateways of this host have sockets (cleave-gateway --local): their ports are
	 * spoken to over these, where they answer, and else over TCP. A folder that everybody may write to is refused.
	 * Copied. NULL: as $CLEAVE_LOCAL says, else none.
	 */
	const char *local;
};

/*
 * cleave_client_create -- a client on @options->loop
 *
 * Allocates all that it will ever use for messages; connects when there is something to say.
 * Ownership: @options and what it points to are copied, but for the loop, which must outlive the client.
 *            @ret_error has room for CLEAVE_ERROR_BYTES_MAX bytes, or is NULL.
 * Returns:   0 and *@ret_client; else a negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL an option is out of range, an address cannot be parsed, or the key's file holds none; -EACCES others
 *            may read that file; what opening it said; -ENOMEM.
 * Threads:   the loop's.
 */
int cleave_client_create(const struct cleave_client_options *options,
    struct cleave_client **ret_client, char *ret_error);

/*
 * cleave_client_rekey -- read the key's file again, and that of revoked ones, which may have been renewed
 *
 * The new key has to be of the same subject, and must neither have expired nor been revoked. Connections that stand go
 * on with the old one, but for those to a gateway that was revoked, which are closed.
 * Ownership: @ret_error has room for CLEAVE_ERROR_BYTES_MAX bytes, or is NULL.
 * Returns:   1: new connections show the new key; 0: the client has none; else a negative errno, a text for people in
 *            @ret_error, and nothing has changed.
 * Errors:    as cleave_client_create's of the key; -EKEYREJECTED it is another's, has expired, or was revoked.
 * Threads:   the client's. Blocks while it reads the files.
 */
int cleave_client_rekey(struct cleave_client *client, char *ret_error);

/*
 * cleave_client_destroy -- end a client at once: connections are closed, no handler is called any more
 *
 * For an orderly end close the volumes first. NULL is a no-op.
 * Ownership: @client and its volumes are gone. Requests and calls outstanding are the caller's again, and
 *            may or may not have happened.
 * Threads:   the loop's; not from a handler.
 */
void cleave_client_destroy(struct cleave_client *client);

/*
 * cleave_error_text -- what @rc means in this library
 *
 * Ownership: the text is the library's: static, or as long as strerror's.
 * Returns:   a text for people.
 * Errors:    none: a number that is no errno has a text, too.
 * Threads:   any.
 */
const char *cleave_error_text(int rc);

/* Counters of a client, since it was created. */
#define CLEAVE_STAT_LIST(X)                                                                        \
	X(ios_completed, "requests completed with 0")                                              \
	X(ios_failed, "requests completed with an error")                                          \
	X(messages_sent, "messages sent, repetitions included")                                    \
	X(messages_resent, "messages sent again after a lost connection")                          \
	X(messages_delayed, "messages sent again after BUSY, UNAVAILABLE and the like")            \
	X(messages_remapped, "messages sent again after another owner or epoch was named")         \
	X(overlaps, "writes that waited for an earlier overlapping one")                           \
	X(holes_skipped, "chunks of discards and zero writes that hold nothing: no message")       \
	X(checksum_errors, "payloads that did not match their CRC, either way")                    \
	X(connects, "connections that became ready")                                               \
	X(connection_losses, "connections that ended or could not be made")                        \
	X(protocol_errors, "answers that broke the protocol")                                      \
	X(map_fetches, "maps fetched")                                                             \
	X(timeouts, "requests given up")                                                           \
	X(limit_waits, "times that requests began to wait for their volume's limits")              \
	X(limit_wait_ns, "how long requests of a volume waited so, in ns, all volumes together")   \
	X(writes_owed, "given up writes that may take effect yet: others wait until that is over") \
	X(direct_reads, "messages read at storage nodes, past the gateway")                        \
	X(direct_retries, "requests of them to another copy, for the first had trouble")           \
	/* Why messages were read at the gateway, though the volume's reads are direct. */         \
	X(direct_unmapped,                                                                         \
	    "read at the gateway: no map tells of a block of it, or it was written since")         \
	X(direct_unleased, "read at the gateway: no lease lasted from its begin to its end")       \
	X(direct_unreached,                                                                        \
	    "read at the gateway: no node with a copy could be asked, or gave an answer")          \
	X(direct_damaged, "read at the gateway: no copy of a block was what the map says")         \
	X(direct_crowded, "read at the gateway: so many reads at nodes were under way")            \
	X(direct_tickets_refused, "tickets that a storage node did not believe, or no more")       \
	X(hot_reads, "messages read out of their gateway's memory, past its work")                 \
	X(hot_misses, "messages of one block that were not there, as far as is known")             \
	X(hot_torn, "reads there that met a change of the block")                                  \
	X(hot_fallbacks,                                                                           \
	    "reads there that found no such block, a torn one, or no lease any more: read elsewhere")
struct cleave_stats {
#define CLEAVE_STAT_MEMBER(name, help) uint64_t name;
	CLEAVE_STAT_LIST(CLEAVE_STAT_MEMBER)
#undef CLEAVE_STAT_MEMBER
};

/*
 * cleave_client_stats -- what happened, counted
 *
 * Ownership: the numbers are the client's, as long as it lives.
 * Returns:   live values, which only grow.
 * Errors:    none.
 * Threads:   any; another one than the loop's reads each value with a relaxed atomic load.
 */
const struct cleave_stats *cleave_client_stats(const struct cleave_client *client);

/*
 * Control: a JSON object goes to a gateway, a JSON object comes back. cleave/manage.h has calls for what is
 * done to volumes and snapshots, with structs.
 *
 *	{"op":"volume.create","name":N,"size_bytes":S,"service_class":C,"engine":E,"level":L,
 *	    "replicas":R}                           "volume":{...}
 *	    (E: auto, lz4, snappy, deflate, zstd, none)
 *	{"op":"volume.list","after":N}              "volumes":[...]; "more":true: ask after the last
 *	{"op":"volume.show","name":N}               "volume":{...}
 *	{"op":"volume.set","name":N,"iops":L,...}   "volume":{..., "qos":{...}}; CLEAVE_LIMIT_LIST has all
 *	{"op":"volume.limits","id":I}               "qos":{...}, if any is set
 *	{"op":"volume.usage","name":N}              "gateway":G, "usage":{...}: of the shards it serves
 *	{"op":"volume.delete","name":N,"id":I,"force":false,"snapshots":false}
 *	{"op":"trash.restore","name":N,"new":M,"by_id":false}  {"op":"trash.purge","name":N,"by_id":false}
 *	{"op":"volume.attach","name":N,"id":I,"session":"16 hex digits","take":false,"client":TEXT}
 *	{"op":"volume.open","name":N,"id":I}  {"op":"volume.detach","id":I,"session":"16 hex digits"}
 *	                                            what cleave_volume_open and cleave_volume_close send
 *	{"op":"map"}  {"op":"node.list"}  {"op":"status"}
 *	{"op":"waits"}                              "waits":[{"shard":N,"text":T}, ...]
 *
 * All but op, name and size_bytes may be left out. An answer that is an error has text in "error".
 */
struct cleave_call;
/*
 * @rc: 0, or the gateway's status, -ETIMEDOUT, -ECONNREFUSED and the like (the gateway could not be
 * asked), -ECONNRESET (a call that must not be repeated was sent and the answer is lost).
 * @reply: the JSON text of the answer, NUL-terminated; NULL when none came. @error: a text for
 * people unless @rc is 0. Both are valid during the handler alone.
 */
typedef void (*cleave_call_fn)(struct cleave_call *call, int rc, const char *reply,
    const char *error, void *arg);

/* A call, owned by the caller from cleave_control until @fn. */
struct cleave_call {
	bool must_not_repeat; /* it changes something: not sent twice when the connection is lost */
	cleave_call_fn fn;
	void *arg;
	/* The library's. */
	struct loop_link link;
	uint64_t deadline_ns, request_id;
	void *message; /* header and text, as sent */
	uint32_t message_bytes, attempts;
	uint64_t not_before_ns;
	bool is_expired; /* its connection is being closed */
};

/*
 * cleave_control -- ask a gateway
 *
 * Ownership: @request, a JSON object as text, is copied. @call is the library's until its @fn is called,
 *            which is told rc and answer (cleave_call_fn).
 * Returns:   0: @call->fn is called exactly once, later; else it never is.
 * Errors:    -EMSGSIZE longer than CLEAVE_CALL_BYTES_MAX; -ENOBUFS CLEAVE_CALLS_MAX calls wait; -ENOMEM.
 * Threads:   the loop's.
 */
int cleave_control(struct cleave_client *client, struct cleave_call *call, const char *request);

/* The length of a name that is opened: VOLUME, VOLUME@SNAPSHOT, VOLUME@SNAPSHOT@SNAPSHOT. */
#define CLEAVE_NAME_BYTES_MAX (3 * CLEAVE_VOLUME_NAME_BYTES_MAX + 2)

/* A volume's size, class and mode, as it was opened. */
struct cleave_volume_info {
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	uint64_t id;
	uint64_t size_bytes;
	enum cleave_service_class service_class;
	char engine[16];
	int level;
	uint32_t replicas;
	uint64_t segment_base;
	uint32_t segment_count;
	uint64_t attach;   /* the number this open was given */
	bool is_read_only; /* a snapshot, or opened so */
	/*
	 * Limits of the volume, by the second; all 0: none. The library keeps these: requests that are over them
	 * wait, and their time (options.io_timeout_ns) begins when they are sent. Other limits are learnt within about a
	 * second.
	 */
	struct cleave_limits limits;
};

enum cleave_open_flags {
	CLEAVE_OPEN_READ_ONLY = 1u << 0, /* writes, discards and zero writes get -EROFS here */
	CLEAVE_OPEN_TAKE = 1u << 1,      /* from whoever has it open for writing */
};

/* How a volume is opened. Zero means the default in brackets. */
struct cleave_open_options {
	const char *name; /* required, but where there is an id */
	unsigned flags;   /* of enum cleave_open_flags */
	uint64_t
	    id; /* that it has: another one of this name by now is -ENOENT [the one that has the name] */
};

/* @volume is NULL unless @rc is 0. @error: a text for people, valid during the handler. */
typedef void (*cleave_open_fn)(struct cleave_volume *volume, int rc, const char *error, void *arg);

/*
 * cleave_volume_open -- open a volume: to write it, as the only one, or to read it
 *
 * A volume has one writing session. While it lives another one is refused: -EBUSY, with a text that says who it
 * is, from where, and since when. It lives while any gateway has a connection of it, and for the *session time*
 * (cleave-gateway --session-timeout, 10 s) after the last one; cleave_volume_close ends it at once. While its holder
 * is silent an open waits, until it is back (-EBUSY) or its time is over (0), as long as control_timeout_ns; and
 * as long while the metadata store does not answer.
 * With CLEAVE_OPEN_TAKE nobody is waited for: whoever has the volume gets -ESHUTDOWN for everything from
 * then on, and no write of it changes a block any more that this session has read or written.
 *
 * CLEAVE_OPEN_READ_ONLY takes nothing from anybody, and nobody is kept out by it: any number of read-only
 * sessions may be open beside a writer, and stay when the volume is taken. A read there sees every write that
 * had been acknowledged, to whichever session, when it was submitted, and once it has seen a write, later reads
 * of any session do too (reads are linearizable, block by block); of a write under way it sees the old block
 * or the new one. What a roll-back changes it sees soon after, not at once. They end with -ENOENT when the
 * volume is deleted. Another size is told by cleave_volume_refresh.
 *
 * VOLUME@SNAPSHOT as @name opens a snapshot: read-only, by as many as want to, and without disturbing the
 * volume; it is -ENOENT for everything once the snapshot is deleted. VOLUME@OLD@NEW, or VOLUME@OLD@ for the
 * volume as it is now, opens what has changed since: to CLEAVE_BLOCK_STATUS a hole is what has not. What else it says
 * there tells nothing: whether a block that has changed is zeros now, a status of VOLUME@NEW says.
 * Ownership: @name is copied. The volume that @fn gets is its own until cleave_volume_close.
 * Returns:   0: @fn is called exactly once, later; else it never is.
 * Errors:    -EINVAL the name is empty or too long, an unknown flag, or TAKE with READ_ONLY; -ENOBUFS too
 *            many calls; -ENOMEM. To @fn: -ENOENT no such volume; -EBUSY another client writes it;
 *            -ETIMEDOUT; or what the gateway or the connection said.
 * Threads:   the loop's.
 */
int cleave_volume_open(struct cleave_client *client, const char *name, unsigned flags,
    cleave_open_fn fn, void *arg);

/*
 * cleave_volume_open_as -- cleave_volume_open, and which volume it is
 *
 * With an id (struct cleave_volume_info, of the same name before) another volume that has the name by now is refused, and
 * taken from nobody. A gateway of a release that knows no ids here opens whatever has the name; another one is closed
 * again then, and refused alike, but with CLEAVE_OPEN_TAKE whoever had it has lost it. With an id and no name (NULL) the
 * volume is opened whatever it is called by now, and whoever has the name that it had; a gateway of a release before that
 * says -EINVAL.
 * Ownership: @options and its name are copied; else as with cleave_volume_open.
 * Returns:   as cleave_volume_open.
 * Errors:    as cleave_volume_open; -EINVAL also for an id above INT64_MAX, or neither name nor id. To @fn: -ENOENT also
 *            for another volume.
 * Threads:   the loop's.
 */
int cleave_volume_open_as(struct cleave_client *client, const struct cleave_open_options *options,
    cleave_open_fn fn, void *arg);

/*
 * cleave_volume_close -- take no more requests, wait for those submitted, disconnect, and let others in
 *
 * A writing session is ended at a gateway before that, so whoever opens the volume next is not kept waiting; a
 * gateway that does not answer within 3 s is not waited for, and then the session time has to pass.
 * Ownership: @volume is the library's from here on, and no more when @fn (may be NULL) is called.
 * Threads:   the loop's; once a volume.
 */
void cleave_volume_close(struct cleave_volume *volume, void (*fn)(void *arg), void *arg);

/*
 * cleave_volume_info -- name, size and properties of an open volume
 *
 * Ownership: it is the volume's, until that is closed.
 * Returns:   what the volume is; its size changes with cleave_volume_refresh and _resize.
 * Errors:    none.
 * Threads:   the loop's.
 */
const struct cleave_volume_info *cleave_volume_info(const struct cleave_volume *volume);

/* @rc: -ESHUTDOWN another session has taken it; -ENOENT it was deleted, or this key may not see it; -ENOKEY no right. @text: for people, and who it was. */
typedef void (*cleave_lost_fn)(struct cleave_volume *volume, int rc, const char *text, void *arg);

/*
 * cleave_volume_on_lost -- be told when @volume is lost to this session
 *
 * @fn is called once, after its requests began to fail with @rc and a gateway was asked who took it; or after
 * 3 s without an answer. Not after cleave_volume_close. To come back: open it anew, which is refused (-EBUSY) while
 * the taker has it. Another @fn replaces the first; NULL: nobody.
 * Ownership: @volume stays the caller's, also when it is lost: close it. @arg is only handed on.
 * Threads:   the loop's.
 */
void cleave_volume_on_lost(struct cleave_volume *volume, cleave_lost_fn fn, void *arg);

/* @rc: 0, and the volume's info has the size of now; else what was wrong, and a text for people. */
typedef void (*cleave_size_fn)(int rc, const char *error, void *arg);

/*
 * cleave_volume_refresh -- ask a gateway for the size: somebody may have changed it
 *
 * It tells, too, whether the name is still that of what is open; a snapshot's as well, whose size stays.
 *
 * Ownership: @volume may be closed meanwhile: it is gone only after @fn.
 * Returns:   0: @fn is called exactly once, later; else it never is.
 * Errors:    -EBUSY the size is being asked for or changed already; -ECANCELED it is being closed, or what
 *            ended the volume; -ENOBUFS too many calls; -ENOMEM. To @fn: -ESHUTDOWN another session has the
 *            volume; -ENOENT none of that name is there by now, or another one; what the gateway or the
 *            connection said.
 * Threads:   the loop's.
 */
int cleave_volume_refresh(struct cleave_volume *volume, cleave_size_fn fn, void *arg);

/*
 * cleave_volume_resize -- make it @size_bytes large; this session goes on
 *
 * Growing is done in place. To make it smaller needs @may_shrink, and that what is behind the new end
 * was discarded: else it is there again when the volume grows.
 * Ownership: as with cleave_volume_refresh.
 * Returns:   0: @fn is called exactly once, later; else it never is.
 * Errors:    -EINVAL not a multiple of 4096, or 0; -ERANGE larger than CLEAVE_VOLUME_BYTES_MAX; -EROFS; and
 *            those of cleave_volume_refresh. To @fn -EINVAL also means larger than this session knew.
 * Threads:   the loop's.
 */
int cleave_volume_resize(struct cleave_volume *volume, uint64_t size_bytes, bool may_shrink,
    cleave_size_fn fn, void *arg);

/* Zero-copy buffers. */

/*
 * cleave_buffer_alloc -- a zero-copy buffer: device memory, 4096-byte aligned, from which messages are sent
 *
 * For start-up, not the data path.
 * Ownership: the caller's until cleave_buffer_free; all are gone with the client.
 * Returns:   the buffer, or DEV_PTR_NULL with errno.
 * Errors:    ENOMEM there is no such stretch left of options.buffer_bytes.
 * Threads:   the loop's.
 */
dev_ptr cleave_buffer_alloc(struct cleave_client *client, size_t bytes);

/*
 * cleave_buffer_free -- give a buffer back; DEV_PTR_NULL is a no-op
 *
 * Ownership: no request may use @buffer.
 * Threads:   the loop's.
 */
void cleave_buffer_free(struct cleave_client *client, dev_ptr buffer);

/*
 * cleave_buffer_fill -- copy @bytes of host memory into a buffer
 *
 * Ownership: @src is borrowed during the call; no request may use this part of @buffer.
 * Threads:   the loop's.
 */
void cleave_buffer_fill(struct cleave_client *client, dev_ptr buffer, const void *src,
    size_t bytes);

/*
 * cleave_buffer_copy -- copy @bytes of a buffer to host memory
 *
 * Ownership: @dst is borrowed during the call; no read into this part of @buffer may be under way.
 * Threads:   the loop's.
 */
void cleave_buffer_copy(struct cleave_client *client, void *dst, dev_ptr buffer, size_t bytes);

enum cleave_op {
	CLEAVE_READ,
	CLEAVE_WRITE,
	CLEAVE_DISCARD,      /* reads as zeros afterwards, space is given back */
	CLEAVE_WRITE_ZEROES, /* reads as zeros afterwards */
	CLEAVE_FLUSH,        /* everything submitted before has completed */
	CLEAVE_BLOCK_STATUS, /* what a range holds */
};

enum cleave_extent_flags {
	CLEAVE_EXTENT_HOLE = 1u << 0, /* nothing is stored: discarded, or never written */
	CLEAVE_EXTENT_ZERO = 1u << 1, /* reads as zeros */
};
/* Neighbouring blocks of which the same is true. */
struct cleave_extent {
	uint64_t length_bytes;
	uint32_t flags; /* 0: allocated */
};

struct cleave_io;
/*
 * @rc: 0, or a negative errno: -ETIMEDOUT (a write may or may not have happened), -ENOSPC, -EIO,
 * -EBADMSG (a checksum that stays wrong), -ESHUTDOWN (another session has the volume), -ECANCELED.
 * After an error a write's blocks, and a read's buffer, hold old or new content, block by block.
 */
typedef void (*cleave_io_fn)(struct cleave_io *io, int rc, void *arg);
typedef void (
    *cleave_part_fn)(struct cleave_io *io, uint64_t from_bytes, uint64_t bytes, void *arg);

/* A request, owned by the caller; the library's from submission until @fn. */
struct cleave_io {
	enum cleave_op op;
	uint64_t offset_bytes; /* multiple of 4096 */
	uint64_t length_bytes; /* multiple of 4096, not 0; FLUSH: 0 */
	void *data;            /* READ, WRITE: any memory, left alone until @fn; or NULL and ... */
	dev_ptr buffer;        /* ... cleave_buffer_alloc's memory, or ... */
	/*
	 * ... a vector: 1 .. CLEAVE_VECTOR_MAX stretches of any length and alignment, one behind the other.
	 * The request's first byte is vector_from_bytes behind their beginning; what they hold behind its
	 * last one is left alone. The entries, too, stay as they are until @fn.
	 */
	const struct iovec *vector;
	uint32_t vector_count;
	uint64_t vector_from_bytes;
	/*
	 * BLOCK_STATUS: room for extent_max; extent_count of them are filled, from offset_bytes on, at least one, no
	 * two neighbours alike. They may cover less than length_bytes when there is no room for more.
	 */
	struct cleave_extent *extents;
	uint32_t extent_max, extent_count;
	cleave_io_fn fn;
	void *arg;
	/*
	 * READ, or NULL: told of each part of @data that has come, is checked and will not change any more,
	 * in any order, before @fn. What it was told of stands, also when the rest fails.
	 */
	cleave_part_fn part_fn;
	int rc; /* what @fn was told */
	/* The library's. */
	struct loop_link link;
	struct loop_link split_link, due_link;
	struct cleave_volume *volume;
	uint64_t deadline_ns;
	uint64_t split_bytes, asked_bytes;
	uint32_t message_count;
	void *owner;
	struct loop_post post;
	struct cleave_io *next;
};

/*
 * cleave_submit -- start @io
 *
 * Ownership: @io, its data or buffer and its extents are the library's until @io->fn is called.
 * Returns:   0: @io->fn is called exactly once, later, with what became of it; else nothing was started.
 * Errors:    -EINVAL unaligned, empty, longer than CLEAVE_IO_BYTES_MAX (reads and writes), without memory,
 *            with more than one kind of it, or without room for extents; -ERANGE beyond the volume's end; -EROFS; -ENOBUFS the queue is full: try
 *            when a request completes; -ECANCELED it is being closed; -ESHUTDOWN, or what else ended the
 *            volume. To @fn: see cleave_io_fn.
 * Threads:   the loop's.
 */
int cleave_submit(struct cleave_volume *volume, struct cleave_io *io);

/*
 * cleave_io_check -- would cleave_submit take a request of @io's shape?
 *
 * Ownership: @io is only looked at.
 * Returns:   0: it would, in a volume of @volume_size_bytes.
 * Errors:    -EINVAL, -ERANGE: as cleave_submit.
 * Threads:   any.
 */
int cleave_io_check(const struct cleave_io *io, uint64_t volume_size_bytes);

/*
 * Layer 2: the library's own thread.
 */
struct cleave;      /* a client and its thread */
struct cleave_disk; /* a volume opened through it */

/*
 * cleave_start -- start a thread, and a client on it; @options->loop must be NULL
 *
 * Ownership: as with cleave_client_create; the loop is the library's own.
 * Returns:   0 and *@ret_cleave; else a negative errno, and a text for people in @ret_error.
 * Errors:    those of cleave_client_create; -EAGAIN no thread could be made; -EMFILE, -ENFILE.
 * Threads:   any.
 */
int cleave_start(const struct cleave_client_options *options, struct cleave **ret_cleave,
    char *ret_error);

/*
 * cleave_stop -- end client and thread as cleave_client_destroy does; NULL is a no-op
 *
 * Ownership: its disks are gone with it. Requests outstanding are the caller's again.
 * Threads:   any but the library's, while no other one is in a call on @cleave or its disks.
 */
void cleave_stop(struct cleave *cleave);

/*
 * cleave_control_wait -- cleave_control, blocking
 *
 * Ownership: @request is borrowed. *@ret_reply is the caller's: free() it; NULL when none came. @ret_error:
 *            as with cleave_client_create.
 * Returns:   0 and the answer; else a negative errno, a text for people, and the answer if one came.
 * Errors:    those of cleave_control, and what its handler is told.
 * Threads:   any but the library's.
 */
int cleave_control_wait(struct cleave *cleave, const char *request, bool must_not_repeat,
    char **ret_reply, char *ret_error);

/*
 * cleave_disk_open -- cleave_volume_open, blocking
 *
 * Ownership: @name is borrowed; *@ret_disk is the caller's until cleave_disk_close or cleave_stop.
 * Returns:   0 and *@ret_disk; else a negative errno, and a text for people in @ret_error.
 * Errors:    those of cleave_volume_open, and of its handler.
 * Threads:   any but the library's.
 */
int cleave_disk_open(struct cleave *cleave, const char *name, unsigned flags,
    struct cleave_disk **ret_disk, char *ret_error);

/*
 * cleave_disk_open_as -- cleave_volume_open_as, blocking
 *
 * Ownership: @options is borrowed; *@ret_disk is the caller's until cleave_disk_close or cleave_stop.
 * Returns:   0 and *@ret_disk; else a negative errno, and a text for people in @ret_error.
 * Errors:    those of cleave_volume_open_as, and of its handler.
 * Threads:   any but the library's.
 */
int cleave_disk_open_as(struct cleave *cleave, const struct cleave_open_options *options,
    struct cleave_disk **ret_disk, char *ret_error);

/*
 * cleave_disk_close -- cleave_volume_close, blocking: waits for what was submitted; NULL is a no-op
 *
 * Ownership: @disk is gone.
 * Threads:   any but the library's, once, while no other one is in a call on @disk.
 */
void cleave_disk_close(struct cleave_disk *disk);

/*
 * cleave_disk_info -- name, size and properties of the volume, as they were when it was opened
 *
 * Ownership: it is the disk's, until that is closed.
 * Returns:   what the volume is.
 * Errors:    none.
 * Threads:   any.
 */
const struct cleave_volume_info *cleave_disk_info(const struct cleave_disk *disk);

/*
 * cleave_disk_submit -- start @io
 *
 * Ownership: as with cleave_submit, until @io->fn is called or cleave_reap has given it.
 * Returns:   0: with @io->fn NULL cleave_reap gives @io, once; else @fn is called, once, on the library's
 *            thread, and must not block. What became of it is in @io->rc.
 * Errors:    -EINVAL, -ERANGE: as cleave_submit; nothing was started. All others of cleave_submit's are
 *            found in @io->rc.
 * Threads:   any.
 */
int cleave_disk_submit(struct cleave_disk *disk, struct cleave_io *io);

/*
 * cleave_event_fd -- a descriptor that is readable while cleave_reap has something to give
 *
 * Ownership: the library's: poll it, do not read or close it.
 * Returns:   the descriptor, always the same.
 * Errors:    none.
 * Threads:   any.
 */
int cleave_event_fd(struct cleave *cleave);

/*
 * cleave_reap -- up to @max completed requests, oldest first; never blocks
 *
 * Ownership: the requests are the caller's again.
 * Returns:   how many are in @ret_ios.
 * Errors:    none: what became of each is in its rc.
 * Threads:   any.
 */
uint32_t cleave_reap(struct cleave *cleave, struct cleave_io **ret_ios, uint32_t max);

/* Blocking helpers. */

/*
 * cleave_pread -- read @bytes from @offset_bytes on, and wait for them
 *
 * Any length: what is more than CLEAVE_IO_BYTES_MAX is read in pieces. After -EINVAL and -ERANGE, here and in the
 * calls below, nothing was begun.
 * Ownership: @data is borrowed during the call.
 * Returns:   0: all of it was read; never a part. After an error @data holds old or new content.
 * Errors:    -EINVAL unaligned or empty; -ERANGE beyond the end; and those of cleave_io_fn.
 * Threads:   any but the library's.
 */
int cleave_pread(struct cleave_disk *disk, void *data, uint64_t bytes, uint64_t offset_bytes);

/*
 * cleave_pwrite -- write @bytes from @offset_bytes on, and wait until they are durable
 *
 * Any length: what is more than CLEAVE_IO_BYTES_MAX is written in pieces, one after the other.
 * Ownership: @data is borrowed during the call.
 * Returns:   0: all of it is durable.
 * Errors:    as cleave_pread, and -EROFS. Blocks of a write that failed hold old or new content, one by one.
 * Threads:   any but the library's.
 */
int cleave_pwrite(struct cleave_disk *disk, const void *data, uint64_t bytes,
    uint64_t offset_bytes);

/*
 * cleave_preadv -- cleave_pread into a vector: stretches of any length and alignment, one behind the other
 *
 * Together they are what is read: a multiple of 4096 bytes.
 * Ownership: @vector and its memory are borrowed during the call.
 * Returns:   0: all of it was read; never a part.
 * Errors:    as cleave_pread; -EINVAL more than CLEAVE_VECTOR_MAX of them, or none, too.
 * Threads:   any but the library's.
 */
int cleave_preadv(struct cleave_disk *disk, const struct iovec *vector, uint32_t vector_count,
    uint64_t offset_bytes);

/*
 * cleave_pwritev -- cleave_pwrite from a vector: stretches of any length and alignment, one behind the other
 *
 * Together they are what is written: a multiple of 4096 bytes.
 * Ownership: @vector and its memory are borrowed during the call.
 * Returns:   0: all of it is durable.
 * Errors:    as cleave_pwrite; -EINVAL more than CLEAVE_VECTOR_MAX of them, or none, too.
 * Threads:   any but the library's.
 */
int cleave_pwritev(struct cleave_disk *disk, const struct iovec *vector, uint32_t vector_count,
    uint64_t offset_bytes);

/*
 * cleave_discard -- discard @bytes from @offset_bytes on: they read as zeros, and take no space
 *
 * Ownership: @disk stays the caller's.
 * Returns:   0: all of it is done, and durable.
 * Errors:    as cleave_pwrite.
 * Threads:   any but the library's.
 */
int cleave_discard(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes);

/*
 * cleave_write_zeroes -- zero @bytes from @offset_bytes on; they stay allocated
 *
 * Ownership: @disk stays the caller's.
 * Returns:   0: all of it is done, and durable.
 * Errors:    as cleave_pwrite.
 * Threads:   any but the library's.
 */
int cleave_write_zeroes(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes);

/*
 * cleave_flush -- wait for everything that was submitted to @disk before
 *
 * Writes are durable when they complete: what this adds is the waiting.
 * Ownership: @disk stays the caller's.
 * Returns:   0: all of it has completed.
 * Errors:    those of cleave_io_fn.
 * Threads:   any but the library's.
 */
int cleave_flush(struct cleave_disk *disk);

/*
 * cleave_block_status -- what the blocks of a range hold: allocated, a hole, zeros
 *
 * *@ret_count of @extents are filled, up to @max: from @offset_bytes on, all of the range unless there
 * is no room for more. What is being written meanwhile may be told either way.
 * Ownership: @extents is borrowed during the call.
 * Returns:   0 and *@ret_count.
 * Errors:    as cleave_pread; -EINVAL @max is 0, too.
 * Threads:   any but the library's.
 */
int cleave_block_status(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes,
    struct cleave_extent *extents, uint32_t max, uint32_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_CLIENT_H */
