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

#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/units.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLEAVE_IO_BYTES_MAX (UINT64_C(32) << 20) /* of a read or write */
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
	bool is_over;           /* requests are answered again */
	const char
	    *reason; /* for people: what is seen here, and what a gateway says; "" when over */
};
/* The views are valid during the call alone; nothing of the library may be called from it. */
typedef void (*cleave_stall_fn)(const struct cleave_stall *stall, void *arg);

/* What a client is made with. Zero means the default in brackets. */
struct cleave_client_options {
	struct loop *loop;             /* layer 1: required; layer 2 makes its own */
	const char *const *gateways;   /* required; copied; tried in turn */
	uint32_t gateway_count;        /* 1 .. CLEAVE_GATEWAYS_MAX */
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
	cleave_stall_fn on_stall; /* on the client's thread; NULL: nobody is told */
	void *stall_arg;
};

/*
 * cleave_client_create -- a client on @options->loop
 *
 * Allocates all that it will ever use for messages; connects when there is something to say.
 * Returns: 0 and *@ret_client; -EINVAL an option is out of range, an address unparsable; -ENOMEM.
 * @ret_error (CLEAVE_ERROR_BYTES_MAX bytes, may be NULL) gets a text on failure.
 */
int cleave_client_create(const struct cleave_client_options *options,
    struct cleave_client **ret_client, char *ret_error);

/*
 * cleave_client_destroy -- at once: connections are closed, no handler is called any more
 *
 * Volumes are gone with it; requests outstanding are the caller's again and may or may not have
 * happened. For an orderly end close the volumes first. NULL is a no-op. Not from a handler.
 */
void cleave_client_destroy(struct cleave_client *client);

/* cleave_error_text -- what @rc means in this library; a static string (or strerror's). */
const char *cleave_error_text(int rc);

/* What happened, since the client was created. */
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
	X(writes_owed, "given up writes that may take effect yet: others wait until that is over")
struct cleave_stats {
#define CLEAVE_STAT_MEMBER(name, help) uint64_t name;
	CLEAVE_STAT_LIST(CLEAVE_STAT_MEMBER)
#undef CLEAVE_STAT_MEMBER
};
/* cleave_client_stats -- live values; other threads read them with relaxed atomic loads. */
const struct cleave_stats *cleave_client_stats(const struct cleave_client *client);

/*
 * Control: a JSON object goes to a gateway, a JSON object comes back.
 *
 *	{"op":"volume.create","name":N,"size_bytes":S,"service_class":C,"engine":E,"level":L,
 *	    "replicas":R}                           "volume":{...}
 *	    (E: auto, lz4, snappy, deflate, zstd, none)
 *	{"op":"volume.list","after":N}              "volumes":[...]; "more":true: ask after the last
 *	{"op":"volume.show","name":N}               "volume":{...}
 *	{"op":"volume.usage","name":N}              "gateway":G, "usage":{...}: of the shards it serves
 *	{"op":"volume.delete","name":N,"force":false,"snapshots":false}
 *	{"op":"volume.attach","name":N,"session":"16 hex digits","take":false,"client":TEXT}
 *	{"op":"volume.open","name":N}  {"op":"volume.detach","id":I,"session":"16 hex digits"}
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

/* One call, owned by the caller from cleave_control until @fn. */
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
 * @request: JSON text, copied. Returns 0: @call->fn is called once; -EMSGSIZE longer than
 * CLEAVE_CALL_BYTES_MAX; -ENOBUFS too many calls; -ENOMEM.
 */
int cleave_control(struct cleave_client *client, struct cleave_call *call, const char *request);

/* What is opened: VOLUME, VOLUME@SNAPSHOT, VOLUME@SNAPSHOT@SNAPSHOT. */
#define CLEAVE_NAME_BYTES_MAX (3 * CLEAVE_VOLUME_NAME_BYTES_MAX + 2)

/* What a volume is. */
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
};

enum cleave_open_flags {
	CLEAVE_OPEN_READ_ONLY = 1u << 0, /* writes, discards and zero writes get -EROFS here */
	CLEAVE_OPEN_TAKE = 1u << 1,      /* from whoever has it open for writing */
};

/* @volume is NULL unless @rc is 0. @error: a text for people, valid during the handler. */
typedef void (*cleave_open_fn)(struct cleave_volume *volume, int rc, const char *error, void *arg);

/*
 * cleave_volume_open -- open a volume: to write it, as the only one, or to read it
 *
 * A volume has one writing session. While it lives another one is refused: -EBUSY, with a text that says who it
 * is, from where, and since when. It lives while any gateway has a connection of it, and for the *session time*
 * (cleave-gateway --session-timeout, 10 s) after the last one; cleave_volume_close ends it at once. While its holder
 * is silent an open waits, until it is back (-EBUSY) or its time is over (0), as long as control_timeout_ns.
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
 * volume as it is now, opens what has changed since: to CLEAVE_BLOCK_STATUS a hole is what has not.
 * Returns 0: @fn is called once: rc 0, -ENOENT no such volume, -EBUSY another client writes it, -ETIMEDOUT, or
 * what the gateway or the connection said; -EINVAL: the name is empty or too long, an unknown flag, or
 * TAKE with READ_ONLY; -ENOBUFS; -ENOMEM.
 */
int cleave_volume_open(struct cleave_client *client, const char *name, unsigned flags,
    cleave_open_fn fn, void *arg);

/*
 * cleave_volume_close -- take no more requests, wait for those submitted, disconnect, and let others in
 *
 * @fn (may be NULL) is called when @volume is no more. Once a volume. A writing session is ended at a gateway
 * before that, so whoever opens the volume next is not kept waiting; a gateway that does not answer within 3 s
 * is not waited for, and then the session time has to pass.
 */
void cleave_volume_close(struct cleave_volume *volume, void (*fn)(void *arg), void *arg);

const struct cleave_volume_info *cleave_volume_info(const struct cleave_volume *volume);

/* @rc: -ESHUTDOWN another session has taken it; -ENOENT it was deleted. @text: for people, and who it was. */
typedef void (*cleave_lost_fn)(struct cleave_volume *volume, int rc, const char *text, void *arg);
/*
 * cleave_volume_on_lost -- be told when @volume is lost to this session
 *
 * @fn is called once, after its requests began to fail with @rc and a gateway was asked who took it; or after
 * 3 s without an answer. Not after cleave_volume_close. To come back: open it anew, which is refused (-EBUSY) while
 * the taker has it. Another @fn replaces the first; NULL: nobody.
 */
void cleave_volume_on_lost(struct cleave_volume *volume, cleave_lost_fn fn, void *arg);

/* @rc: 0, and the volume's info has the size of now; else what was wrong, and a text for people. */
typedef void (*cleave_size_fn)(int rc, const char *error, void *arg);
/*
 * cleave_volume_refresh -- ask a gateway for the size: somebody may have changed it
 *
 * Returns 0: @fn is called once: rc 0; -ESHUTDOWN: another session has the volume; -ENOENT: there is
 * none of that name by now, or another one; what the gateway or the connection said. -EBUSY: the size
 * is being asked for or changed already; -ECANCELED, or what ended the volume; -ENOBUFS; -ENOMEM.
 */
int cleave_volume_refresh(struct cleave_volume *volume, cleave_size_fn fn, void *arg);
/*
 * cleave_volume_resize -- make it @size_bytes large; this session goes on
 *
 * Growing is done in place. To make it smaller needs @may_shrink, and that what is behind the new end
 * was discarded: else it is there again when the volume grows.
 * Returns as cleave_volume_refresh does, or -EINVAL: not a multiple of 4096, or 0; -ERANGE: larger
 * than a volume may be; -EROFS. In @fn -EINVAL also means that it is larger than this session knew.
 */
int cleave_volume_resize(struct cleave_volume *volume, uint64_t size_bytes, bool may_shrink,
    cleave_size_fn fn, void *arg);

/* Zero-copy buffers: device memory, 4096-byte aligned, which messages are sent from directly. */
/* cleave_buffer_alloc -- DEV_PTR_NULL with errno ENOMEM. For start-up, not the data path. */
dev_ptr cleave_buffer_alloc(struct cleave_client *client, size_t bytes);
void cleave_buffer_free(struct cleave_client *client, dev_ptr buffer);
/* cleave_buffer_fill, cleave_buffer_copy -- host memory to the buffer, and back. */
void cleave_buffer_fill(struct cleave_client *client, dev_ptr buffer, const void *src,
    size_t bytes);
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

/* One request, owned by the caller; the library's from submission until @fn. */
struct cleave_io {
	enum cleave_op op;
	uint64_t offset_bytes; /* multiple of 4096 */
	uint64_t length_bytes; /* multiple of 4096, not 0; FLUSH: 0 */
	void *data;            /* READ, WRITE: any memory, left alone until @fn; or NULL and ... */
	dev_ptr buffer;        /* ... cleave_buffer_alloc's memory */
	/*
	 * BLOCK_STATUS: room for extent_max; extent_count of them are filled, from offset_bytes on, no two
	 * neighbours alike. They may cover less than length_bytes when there is no room for more.
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
 * Returns 0: @io->fn is called exactly once, later; else nothing was started: -EINVAL unaligned,
 * empty, longer than CLEAVE_IO_BYTES_MAX (reads and writes), without a buffer or room for extents; -ERANGE beyond the
 * volume's end; -EROFS; -ENOBUFS queue full: try when a request completes; -ESHUTDOWN, or what else
 * ended the volume; -ECANCELED it is being closed.
 */
int cleave_submit(struct cleave_volume *volume, struct cleave_io *io);
/* cleave_io_check -- what cleave_submit would refuse about @io's shape; 0, -EINVAL or -ERANGE. */
int cleave_io_check(const struct cleave_io *io, uint64_t volume_size_bytes);

/*
 * Layer 2: the library's own thread.
 */
struct cleave;      /* a client and its thread */
struct cleave_disk; /* a volume opened through it */

/*
 * cleave_start -- start the thread and the client on it; @options->loop must be NULL
 *
 * Returns as cleave_client_create, or -EAGAIN: no thread could be made.
 */
int cleave_start(const struct cleave_client_options *options, struct cleave **ret_cleave,
    char *ret_error);
/*
 * cleave_stop -- as cleave_client_destroy, and the thread ends
 *
 * Its disks are gone with it. Nobody may be in another call on it. Not from a handler. NULL is a
 * no-op.
 */
void cleave_stop(struct cleave *cleave);

/* cleave_control_wait -- cleave_control, blocking. *@ret_reply: free() it; NULL when none came. */
int cleave_control_wait(struct cleave *cleave, const char *request, bool must_not_repeat,
    char **ret_reply, char *ret_error);

/* cleave_disk_open -- cleave_volume_open, blocking. @ret_error as above. Any thread. */
int cleave_disk_open(struct cleave *cleave, const char *name, unsigned flags,
    struct cleave_disk **ret_disk, char *ret_error);
/* cleave_disk_close -- waits for what was submitted. Any thread, once. NULL is a no-op. */
void cleave_disk_close(struct cleave_disk *disk);
const struct cleave_volume_info *cleave_disk_info(const struct cleave_disk *disk);

/*
 * cleave_disk_submit -- start @io from any thread
 *
 * @io->fn NULL: @io comes out of cleave_reap; else @fn is called on the library's thread and must
 * not block. Returns 0, -EINVAL or -ERANGE; everything else is found in @io->rc.
 */
int cleave_disk_submit(struct cleave_disk *disk, struct cleave_io *io);
/* cleave_event_fd -- readable while cleave_reap has something to give. Owned by @cleave. */
int cleave_event_fd(struct cleave *cleave);
/* cleave_reap -- up to @max completed requests, oldest first; never blocks. Any thread. */
uint32_t cleave_reap(struct cleave *cleave, struct cleave_io **ret_ios, uint32_t max);

/* Blocking helpers, from any thread but the library's. Return 0 (all of it) or a negative errno. */
int cleave_pread(struct cleave_disk *disk, void *data, uint64_t bytes, uint64_t offset_bytes);
int cleave_pwrite(struct cleave_disk *disk, const void *data, uint64_t bytes,
    uint64_t offset_bytes);
int cleave_discard(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes);
int cleave_write_zeroes(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes);
int cleave_flush(struct cleave_disk *disk);
/*
 * cleave_block_status -- what the blocks of a range hold: allocated, a hole, zeros
 *
 * *@ret_count of @extents are filled, up to @max: from @offset_bytes on, all of the range unless there
 * is no room for more. What is being written meanwhile may be told either way.
 */
int cleave_block_status(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes,
    struct cleave_extent *extents, uint32_t max, uint32_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_CLIENT_H */
