/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h -- Cleave's messages: the groups of opcodes that headers (message.h) decode to
 *
 * wire_*_decode checks every field of a group of opcodes, once; behind it only the decoded struct
 * exists. The caller fills what its group names. Not installed: clients have client.h.
 */
#ifndef CLEAVE_WIRE_H
#define CLEAVE_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/message.h"
#include "cleave/units.h"

#define CLEAVE_CHUNK_BLOCKS (CLEAVE_CHUNK_BYTES / CLEAVE_BLOCK_BYTES)
#define CLEAVE_SEGMENT_CHUNKS (CLEAVE_SEGMENT_BYTES / CLEAVE_CHUNK_BYTES)
#define CLEAVE_SEGMENT_BLOCKS (CLEAVE_SEGMENT_BYTES / CLEAVE_BLOCK_BYTES)
#define CLEAVE_SHARDS_MAX 4096u
#define CLEAVE_SHARDS_DEFAULT 8u
#define CLEAVE_COPIES 3u              /* of what is stored, where there are as many domains */
#define CLEAVE_SLOTS_PER_SHARD_MIN 6u /* and copy: with fewer a cluster is refused */

_Static_assert(sizeof(struct wire_header) == WIRE_HEADER_BYTES, "wire header");
_Static_assert(offsetof(struct wire_header, object_id) == 16, "wire header");
_Static_assert(offsetof(struct wire_header, epoch) == 40, "wire header");
_Static_assert(offsetof(struct wire_header, credits) == 52, "wire header");
_Static_assert(offsetof(struct wire_header, header_crc) == 60, "wire header");

/* X(symbol, name): cleave_service_class, and what each is called in JSON, by commands and in logs. */
#define SERVICE_CLASS_LIST(X)                                                                      \
	X(STANDARD, "standard")                                                                    \
	X(LATENCY, "latency")                                                                      \
	X(CAPACITY, "capacity")

enum service_class {
#define SERVICE_CLASS_ENUM(symbol, name) SERVICE_##symbol = CLEAVE_SERVICE_##symbol,
	SERVICE_CLASS_LIST(SERVICE_CLASS_ENUM)
#undef SERVICE_CLASS_ENUM
	    SERVICE_CLASS_NR
};
/* service_class_name -- a static text; NULL: there is no class of that number. */
const char *service_class_name(unsigned service_class);
/* service_class_parse -- 0; -EINVAL: there is no class of that name, and *@ret_class is untouched. */
int service_class_parse(const char *name, enum service_class *ret_class);

enum wire_flags {
	/* APPEND: re-sent bytes of a frozen extent under the epoch that froze it (take-over). */
	WIRE_FLAG_RECOVERY = 1u << 0,
	/* FREEZE reply: the extent was sealed before; offset_bytes is its sealed length. */
	WIRE_FLAG_SEALED = 1u << 1,
	/* FREEZE reply, LIST: the copy ends below a mark it carries, or unreadably. */
	WIRE_FLAG_DAMAGED = 1u << 2,
	/* CREATE of a log extent: also of what is kept back, even from runs. It is for tombstones. */
	WIRE_FLAG_RESERVE = 1u << 3,
	/* Reply to a client: with it the session has a read lease on the shard (wire_lease). */
	WIRE_FLAG_LEASED = 1u << 4,
	/* Reply to a READ that is LEASED, where the session has maps: some of it lies in a run, and a map would name it. */
	WIRE_FLAG_MAPPED = 1u << 5,
};

/* WIRE_CREDIT's flags; its `credits` are granted as in any message. */
enum wire_credit_flags {
	WIRE_CREDIT_WANT = 1u << 0,   /* the sender has requests waiting and no credit */
	WIRE_CREDIT_RECALL = 1u << 1, /* the peer shall return the credits that it does not use */
	WIRE_CREDIT_RETURN = 1u << 2, /* length_bytes credits are returned */
};

/* The hello: both ends send one before the first message, in WIRE_HELLO_BYTES. */
enum wire_role { WIRE_ROLE_CLIENT = 1, WIRE_ROLE_GATEWAY = 2, WIRE_ROLE_NODE = 3 };
/*
 * The identity of a metadata store, random; zero: none. A gateway says in its hello to a node which store it
 * has, in session_id and attach, and which one of before that replaces, in volume_id and incarnation. A
 * node answers in session_id and attach which one it obeys.
 */
struct store_id {
	uint64_t high, low;
};
#define STORE_ID_TEXT_BYTES 33u
static inline bool
store_id_is_zero(const struct store_id *id)
{
	return id->high == 0 && id->low == 0;
}
static inline bool
store_id_is_equal(const struct store_id *a, const struct store_id *b)
{
	return a->high == b->high && a->low == b->low;
}
/* store_id_text -- 32 hex digits. */
void store_id_text(const struct store_id *id, char out[STORE_ID_TEXT_BYTES]);

/* volume_id of a snapshot: its number, with this bit. attach is 1; of a difference the older one's number, and 1. */
#define WIRE_SNAPSHOT_ID (UINT64_C(1) << 62)

struct wire_hello {
	uint8_t level; /* level.h: the highest that is offered, or the answer; 0 is encoded as 1 */
	uint8_t role;  /* enum wire_role of the sender */
	uint32_t node_id;     /* of a node; else 0 */
	uint64_t cluster_id;  /* 0 from a client: any */
	uint64_t volume_id;   /* of a client's I/O connection; 0: control only */
	uint64_t session_id;  /* of a client; random, once per open volume */
	uint64_t attach;      /* the number its attach was given */
	uint64_t incarnation; /* grows with each reconnect of the session to this port */
};
void wire_hello_encode(uint8_t out[WIRE_HELLO_BYTES], const struct wire_hello *hello);
/* wire_hello_decode -- 0; -EPROTO; -EPROTONOSUPPORT for a level below all that we speak. */
int wire_hello_decode(const uint8_t *in, uint32_t bytes, struct wire_hello *ret_hello,
    const char **ret_field);

/* Bounds of a node's disk: an answer that tells of more is not believed. */
#define WIRE_NODE_SLOTS_MAX (1u << 20)
#define WIRE_NODE_SLOT_BYTES_MIN 65536u
#define WIRE_NODE_SLOT_BYTES_MAX (64u * 1024u * 1024u)

/* An extent id as one number: 14 bits of shard, 24 of epoch, 26 of counter. */
#define EXTENT_EPOCH_MAX ((1u << 24) - 1)
#define EXTENT_COUNTER_MAX ((1u << 26) - 1)
uint64_t extent_id_pack(const struct extent_id *id);
struct extent_id extent_id_unpack(uint64_t packed);

/*
 * A segment's id: its *root* in the low 32 bits, and above it 0, or the number of the clone that it
 * belongs to. A clone's segments have their origin's roots, and so its chunks lie in the same shards.
 */
#define CLEAVE_CLONE_MAX                                                                           \
	((1u << 23) - 1) /* a chunk's number (segment * 512 + index) fits 64 bits */
static inline uint64_t
wire_segment(uint32_t clone, uint32_t root)
{
	return (uint64_t)clone << 32 | root;
}
static inline uint32_t
wire_segment_root(uint64_t segment)
{
	return (uint32_t)segment;
}
static inline bool
wire_segment_is_clone(uint64_t segment)
{
	return segment >> 32 != 0;
}
/* wire_shard_of -- which shard owns a chunk: neighbours go to different shards. */
uint32_t wire_shard_of(uint64_t segment, uint64_t offset_bytes, uint32_t shard_count);

/* A request of a VM client, decoded. */
struct wire_io {
	enum wire_opcode opcode;
	enum service_class service_class;
	uint64_t request_id;
	uint64_t segment;
	uint64_t offset_bytes; /* in the segment; block aligned; the request stays in one chunk */
	uint32_t length_bytes; /* 4 KiB .. 64 KiB; READ and WRITE; the others: up to a chunk */
	/* HOLES: of the whole segment: offset_bytes 0, length_bytes WIRE_HOLES_BYTES */
	uint32_t epoch; /* of the shard, as the client knew it; HOLES: 0 */
	uint32_t vm_id;
	uint32_t payload_crc; /* WRITE */
};
/* wire_io_decode -- 0, or -EPROTO and the field's name. @header has passed the split library. */
int wire_io_decode(const struct wire_header *header, struct wire_io *ret_io,
    const char **ret_field);
void wire_io_encode(struct wire_header *header, const struct wire_io *io);
/*
 * wire_io_reply -- a reply to @request
 *
 * A READ's and a HOLES' carry length_bytes of payload, a BLOCK_STATUS's and a CHUNK_MAP's as many bytes as are
 * sent. vm_id is the request's; on a connection of CLEAVE_LEVEL_LIMITS a gateway puts the tag of the volume's limits
 * there.
 */
void wire_io_reply(struct wire_header *header, const struct wire_io *request, int rc,
    uint32_t payload_crc, uint32_t epoch);
/* A reply to a VM client, decoded. */
struct wire_io_reply {
	enum wire_opcode opcode; /* without WIRE_REPLY */
	uint64_t request_id;
	int rc;                /* 0 or a negative errno */
	uint32_t length_bytes; /* of the request */
	uint32_t
	    payload_bytes; /* READ, HOLES: length_bytes; BLOCK_STATUS, CHUNK_MAP: as it says; else 0 */
	uint32_t payload_crc; /* READ, BLOCK_STATUS, HOLES, CHUNK_MAP */
	uint32_t epoch;       /* of the shard, as the gateway knows it */
	uint32_t
	    limits_tag; /* of the volume (base/bucket.h), on a connection of CLEAVE_LEVEL_LIMITS */
	bool is_leased; /* WIRE_FLAG_LEASED; of none but a success, and not of HOLES */
	bool is_mapped; /* WIRE_FLAG_MAPPED; of a READ that is_leased */
};
int wire_io_reply_decode(const struct wire_header *header, struct wire_io_reply *ret_reply,
    const char **ret_field);

/* BLOCK_STATUS entries, in the payload: what the range holds, from its beginning on. */
enum wire_status_flags {
	WIRE_STATUS_HOLE = 1u << 0, /* nothing is stored: discarded, or never written */
	WIRE_STATUS_ZERO = 1u << 1, /* reads as zeros */
};
#define WIRE_STATUS_ENTRY_BYTES 8u
struct wire_status {
	uint32_t block_count;
	uint32_t flags; /* 0: allocated */
};
void wire_status_encode(uint8_t out[WIRE_STATUS_ENTRY_BYTES], const struct wire_status *status);
/*
 * wire_status_decode -- one entry, of which @left_count blocks of the range are left
 *
 * The entries may end before the range does, not behind it. 0, or -EPROTO and the field's name.
 */
int wire_status_decode(const uint8_t in[WIRE_STATUS_ENTRY_BYTES], uint32_t left_count,
    struct wire_status *ret_status, const char **ret_field);

/*
 * HOLES, in the payload: bit i (of byte i / 8, from the least significant on) of chunk i of the segment
 *
 * 1: nothing is stored there that the session could see, and no write is under way: the chunk reads as zeros, is a
 * hole, and a discard changes nothing. 0: there may be something, or another port knows. So a client asks each
 * port that serves shards, and takes the bits together.
 */
#define WIRE_HOLES_BYTES (CLEAVE_SEGMENT_CHUNKS / 8)

/*
 * LEASE: read leases of a session, on a connection of CLEAVE_LEVEL_READS; middletier/session/LEASES.md
 *
 * A read lease is of a session, a shard and its epoch, for so long: nobody else's change of the session's volume is
 * acknowledged while it lasts. A client counts it from when it had sent the request that was answered so.
 *
 * A request asks, on this connection, for all shards that the port serves, and for the flag LEASED
 * in later answers; or it returns all leases that the session has from this port, and asks for none any more. The
 * answer's payload is a head, then what is leased: an entry each, shards in ascending order, none where nothing is.
 *
 * With WIRE_LEASE_HOT it asks for pages with hot blocks, too (cleave/hot.h), and names the generation that it knows: 0 is
 * none. Where that is another one by now the keys of all pages follow the entries. Generation 0: there is no page. And it
 * says how many blocks were read there since it said so last: the gateway sees nothing of that.
 *
 * Who reads at storage nodes says with it, or with what it returns, how much since its last LEASE, on whichever connection,
 * for people to see; and where a copy did not hold what a map says, so that this copy is verified. The request's payload,
 * where it has one, is of which runs: of one read in WIRE_LEASE_SAMPLE, an entry each run
 * (cleave/lease_read.h), behind a CRC of them.
 */
#define WIRE_READ_LEASE_MS                                                                         \
	400u /* of all gateways of a cluster: who waits for leases has not granted them */
#define WIRE_READ_LEASE_MS_MAX 4000u /* a client believes in no longer one */
enum wire_lease_flags {
	WIRE_LEASE_RETURN = 1u << 0,
	WIRE_LEASE_HOT = 1u << 1,
};
struct wire_lease {
	uint64_t request_id;
	bool is_return;
	bool wants_hot;
	bool is_reply;
	uint32_t generation;   /* a request's, which wants_hot: in the header's epoch */
	uint32_t peeked_count; /* likewise: in its payload_crc, for it has no payload */
	uint32_t read_count;   /* a request's: messages read at nodes; in length_bytes */
	uint64_t read_bytes;   /* of them; 0 where there is none; in offset_bytes */
	uint64_t suspect;      /* a request's: an extent, packed, in object_id; 0: none */
	uint32_t suspect_node; /* that has the copy, in vm_id; 0: none */
	int rc;                /* a reply's */
	uint32_t
	    payload_bytes; /* a reply's: head, entries and pages; 0 with an error. A request's: of what was read */
	uint32_t payload_crc;
};
/* wire_lease_decode -- either way. 0, or -EPROTO and the field's name. */
int wire_lease_decode(const struct wire_header *header, struct wire_lease *ret_lease,
    const char **ret_field);
void wire_lease_encode(struct wire_header *header, const struct wire_lease *lease);

#define WIRE_LEASE_HEAD_BYTES 16u
#define WIRE_LEASE_ENTRY_BYTES 8u
#define WIRE_LEASE_PAGE_BYTES 24u /* a dev_remote */
#define WIRE_LEASE_PAGES_MAX 512u
#define WIRE_LEASE_BYTES_MAX                                                                       \
	(WIRE_LEASE_HEAD_BYTES + CLEAVE_SHARDS_MAX * WIRE_LEASE_ENTRY_BYTES +                      \
	    WIRE_LEASE_PAGES_MAX * WIRE_LEASE_PAGE_BYTES)
_Static_assert(WIRE_LEASE_BYTES_MAX <= WIRE_CLIENT_PAYLOAD_BYTES_MAX, "a lease's answer fits");
/* 0 u32 format, 1   4 u32 lease_ms   8 u16 shard_count   10 u16 page_count   12 u32 generation */
struct wire_lease_head {
	uint32_t lease_ms;
	uint32_t shard_count; /* entries that follow */
	uint32_t page_count;  /* ... and pages behind them */
	uint32_t generation;  /* of the pages that there are; 0: none */
};
/* 0 u32 shard   4 u32 epoch */
struct wire_lease_entry {
	uint32_t shard, epoch;
};
void wire_lease_head_encode(uint8_t out[WIRE_LEASE_HEAD_BYTES], const struct wire_lease_head *head);
/* wire_lease_head_decode -- of a payload of @bytes. 0, or -EPROTO and the field's name. */
int wire_lease_head_decode(const uint8_t *in, uint32_t bytes, struct wire_lease_head *ret_head,
    const char **ret_field);
void wire_lease_entry_encode(uint8_t out[WIRE_LEASE_ENTRY_BYTES],
    const struct wire_lease_entry *entry);
/*
 * wire_lease_entry_decode -- one entry of a cluster of @shard_count shards
 *
 * @from_shard: behind the entry before, or 0. 0, or -EPROTO and the field's name.
 */
int wire_lease_entry_decode(const uint8_t in[WIRE_LEASE_ENTRY_BYTES], uint32_t from_shard,
    uint32_t shard_count, struct wire_lease_entry *ret_entry, const char **ret_field);

/*
 * CHUNK_MAP: where the newest blocks of a range lie, on a connection of CLEAVE_LEVEL_READS
 *
 * For a session that has read leases of a volume that may be read at nodes (LEASES.md). The range is as BLOCK_STATUS's.
 * The answer's payload is a head, sources, entries. It may end before its range does, not behind it; the blocks that
 * it tells of and that no entry names must be read at the gateway. All of it was true at one moment under the epoch of
 * the answer's header.
 *
 * A source is a part of a run's extent: stored bytes of one chunk, so of nobody else. An entry is blocks that lie in
 * one record of a source, or blocks that read as zeros. Entries are in the order of their blocks, and disjoint.
 */
#define WIRE_MAP_BLOCKS_MAX 4096u /* that one answer tells of */
#define WIRE_MAP_SOURCES_MAX 64u
#define WIRE_TICKET_MAC_BYTES 16u
#define WIRE_MAP_HEAD_BYTES 16u
#define WIRE_MAP_SOURCE_BYTES 88u
#define WIRE_MAP_ZEROS_BYTES 8u
#define WIRE_MAP_RECORD_BYTES(block_count) (20u + 4u * (block_count))
#define WIRE_MAP_ENTRY_BYTES_MAX WIRE_MAP_RECORD_BYTES(ENGINE_RECORD_BLOCKS_MAX)
#define WIRE_MAP_ZEROS 0xffu
/* 0 u32 format, 1   4 u32 block_count   8 u16 source_count   10 u16 0   12 u32 entry_bytes */
struct wire_map_head {
	uint32_t block_count; /* of the range, from its beginning on, that the answer tells of */
	uint32_t source_count;
	uint32_t entry_bytes; /* of all entries, which follow the sources */
};
/* 0 u64 extent   8 u32 from_bytes   12 u32 to_bytes   16 CLEAVE_COPIES x {u32 node_id, u32 key_number, u8 mac[16]} */
struct wire_map_source {
	uint64_t extent; /* packed; of kind RUN */
	uint32_t from_bytes, to_bytes;
	struct wire_map_copy {
		uint32_t node_id;    /* 0: none, nor the rest; behind those that are */
		uint32_t key_number; /* of the ticket; 0: there is none, nor a mac */
		uint8_t mac[WIRE_TICKET_MAC_BYTES];
	} copies[CLEAVE_COPIES];
};
/*
 * 0 u16 block   2 u8 block_count   3 u8 source   4 u32 offset_bytes   8 u24 stored_bytes   11 u8 codec_id
 * 12 u8 first_block   13 u8 record_blocks   14 u16 0   16 u32 stored_crc   20 block_count x u32 block_crc
 *
 * Zeros: 0 u16 block   2 u8 0   3 u8 WIRE_MAP_ZEROS   4 u32 block_count
 */
struct wire_map_entry {
	uint32_t block, block_count; /* of the range; a record's: up to ENGINE_RECORD_BLOCKS_MAX */
	uint8_t source;              /* WIRE_MAP_ZEROS: zeros, and nothing below */
	uint8_t codec_id;            /* of no encrypted record */
	uint8_t first_block;         /* of the record, that block is */
	uint8_t record_blocks;
	uint32_t offset_bytes; /* of the stored bytes in the extent */
	uint32_t stored_bytes, stored_crc;
	uint32_t block_crcs[ENGINE_RECORD_BLOCKS_MAX];
};
void wire_map_head_encode(uint8_t out[WIRE_MAP_HEAD_BYTES], const struct wire_map_head *head);
/*
 * wire_map_head_decode -- of a payload of @bytes, for a range of which @left_count blocks are left
 *
 * 0, or -EPROTO and the field's name.
 */
int wire_map_head_decode(const uint8_t *in, uint32_t bytes, uint32_t left_count,
    struct wire_map_head *ret_head, const char **ret_field);
void wire_map_source_encode(uint8_t out[WIRE_MAP_SOURCE_BYTES],
    const struct wire_map_source *source);
int wire_map_source_decode(const uint8_t in[WIRE_MAP_SOURCE_BYTES],
    struct wire_map_source *ret_source, const char **ret_field);
/* wire_map_entry_encode -- returns its bytes: WIRE_MAP_ENTRY_BYTES_MAX at most. */
uint32_t wire_map_entry_encode(uint8_t out[WIRE_MAP_ENTRY_BYTES_MAX],
    const struct wire_map_entry *entry);
/* An answer's entries, walked: head and sources were decoded. */
struct wire_map_walk {
	const struct wire_map_head *head;
	const struct wire_map_source *sources; /* head->source_count */
	const uint8_t *at, *end;
	uint32_t from_block; /* behind the entry before */
};
/* wire_map_walk_next -- 1 and *@ret_entry; 0 at the end; -EPROTO and the field's name. */
int wire_map_walk_next(struct wire_map_walk *walk, struct wire_map_entry *ret_entry,
    const char **ret_field);

/* A request of a gateway to a storage node, decoded. */
struct wire_node {
	enum wire_opcode opcode;
	uint64_t request_id;
	/* FENCE, LIST: id.shard alone; LIST UINT32_MAX: every shard; TICKET_KEY, VOLUME_FENCE UINT32_MAX: none */
	struct extent_id id;
	uint64_t volume_id;    /* VOLUME_FENCE; else 0 */
	enum extent_kind kind; /* CREATE, APPEND */
	/* APPEND, READ: where; FIND: of a batch; TRUNCATE: length; DELETE: incarnation; LIST: cursor;
	 * VOLUME_FENCE: attach; LEND: number of the gateway, 0: none any more */
	uint64_t offset_bytes;
	/* APPEND: payload; READ: how much; FIND: of the batch's head; GATHER: of all stretches */
	uint32_t length_bytes;
	uint16_t stretch_count;      /* GATHER: that the payload has; else 0 */
	uint16_t block, block_count; /* FIND: of the chunk; else 0 */
	uint32_t epoch;              /* of the owner that asks */
	uint16_t flags;
};
/* An answer to FIND fits into any gateway's receive: a longer frame is left out, and READ. */
#define WIRE_FIND_BYTES_MAX ENGINE_STORED_BYTES_MAX
int wire_node_decode(const struct wire_header *header, struct wire_node *ret_node,
    const char **ret_field);
void wire_node_encode(struct wire_header *header, const struct wire_node *node);

/*
 * A node's reply, decoded. offset_bytes is
 *
 *	CREATE                    incarnation of the copy, also with -EEXIST
 *	APPEND, FREEZE, TRUNCATE  durable length
 *	LIST                      next cursor, 0 at the end
 *	FIND                      where in the extent what follows the head in the payload lies
 *	VERIFY                    the length that passed; with -EBADMSG or -EIO where it ends
 *	TICKETS                   bit i: the node has taken the i-th ticket
 */
struct wire_node_reply {
	enum wire_opcode opcode; /* without WIRE_REPLY */
	uint64_t request_id;
	struct extent_id
	    id; /* TICKET_KEY, VOLUME_FENCE, TICKETS: id.shard is UINT32_MAX, of none */
	int rc; /* 0 or a negative errno */
	uint64_t offset_bytes;
	/* READ, DIRECT_READ, FIND, GATHER, TICKET_KEY: bytes that follow; FREEZE: mark; LIST: entries' bytes;
	 * APPEND: wire_node_times, or 0 */
	uint32_t length_bytes;
	uint32_t chain_crc; /* FREEZE: batch_crc of the last good batch (or the seed) */
	uint32_t epoch;     /* the shard's fence */
	uint16_t flags;
};
int wire_node_reply_decode(const struct wire_header *header, struct wire_node_reply *ret_reply,
    const char **ret_field);
void wire_node_reply_encode(struct wire_header *header, const struct wire_node_reply *reply);

/*
 * Where a node spent the time of an append, in its reply's length_bytes: for people, nothing is decided by it
 *
 * Releases before send 0 there, and look at nothing. Each time is told to a thirtieth; all 0: it was not told.
 */
struct wire_node_times {
	uint32_t queue_us; /* from the message to the disk: the check, and those before it */
	uint32_t write_us; /* at the disk; a lone append's flush is part of it */
	uint32_t flush_us; /* until a flush had made it, and all before it, durable */
};
uint32_t wire_node_times_encode(const struct wire_node_times *times);
/* wire_node_times_decode -- of any number: what a node says is believed as far as it is shown. */
struct wire_node_times wire_node_times_decode(uint32_t told);

/*
 * A request of a VM client to a storage node, decoded: on a connection of CLEAVE_LEVEL_READS whose hello named the
 * client's session. wire_node_reply_decode has the answers.
 *
 * A ticket says that a session may read a range of an extent at one node. A gateway makes it, with the node's key
 * (cleave/ticket.h); the client presents it once on a connection, under a slot that the client chooses, and names the
 * slot with each read. A slot that is presented again holds the newer ticket.
 */
#define WIRE_TICKETS_MAX 64u        /* in a message */
#define WIRE_TICKET_SLOTS_MAX 1024u /* of a connection */
#define WIRE_TICKET_MAC_BYTES 16u
#define WIRE_TICKET_BYTES 56u
struct wire_direct {
	enum wire_opcode opcode;
	uint64_t request_id;
	uint32_t ticket_count; /* TICKETS: in the payload, 1 .. WIRE_TICKETS_MAX; else 0 */
	struct extent_id id;   /* DIRECT_READ, as the rest */
	uint64_t offset_bytes;
	uint32_t length_bytes; /* 1 .. WIRE_CLIENT_PAYLOAD_BYTES_MAX */
	uint32_t slot;
};
/* wire_direct_decode -- 0, or -EPROTO and the field's name. */
int wire_direct_decode(const struct wire_header *header, struct wire_direct *ret_direct,
    const char **ret_field);
void wire_direct_encode(struct wire_header *header, const struct wire_direct *direct);

/* 0 u64 extent  8 u32 from  12 u32 to  16 u64 volume  24 u64 attach  32 u32 slot  36 u32 key number  40 mac */
struct wire_ticket {
	struct extent_id id;
	uint32_t from_bytes, to_bytes; /* of the extent: from below to */
	uint64_t volume_id, attach;    /* of the session's hello to its gateway */
	uint32_t slot;
	uint32_t key_number; /* of the node's key that it was made with */
	uint8_t mac[WIRE_TICKET_MAC_BYTES];
};
void wire_ticket_encode(uint8_t out[WIRE_TICKET_BYTES], const struct wire_ticket *ticket);
/* wire_ticket_decode -- fields alone, the mac is anything. 0, or -EPROTO and the field's name. */
int wire_ticket_decode(const uint8_t in[WIRE_TICKET_BYTES], struct wire_ticket *ret_ticket,
    const char **ret_field);

/*
 * The answer to TICKET_KEY, in its payload: 0 u32 format, 1   4 u32 number   8 key
 *
 * A node draws another key while it runs, and with each start. It believes in tickets of a key for WIRE_TICKET_KEY_MS
 * after it has told it, at least, and for no more than twice as long.
 */
#define WIRE_TICKET_KEY_BYTES 32u
#define WIRE_TICKET_KEY_ANSWER_BYTES (8u + WIRE_TICKET_KEY_BYTES)
#define WIRE_TICKET_KEY_MS 300000u
struct wire_ticket_key {
	uint32_t number;
	uint8_t key[WIRE_TICKET_KEY_BYTES];
};
void wire_ticket_key_encode(uint8_t out[WIRE_TICKET_KEY_ANSWER_BYTES],
    const struct wire_ticket_key *key);
/* wire_ticket_key_decode -- of a payload of @bytes. 0, or -EPROTO and the field's name. */
int wire_ticket_key_decode(const uint8_t *in, uint32_t bytes, struct wire_ticket_key *ret_key,
    const char **ret_field);

/* LIST entries, in the payload. */
struct wire_extent_entry {
	uint64_t extent;       /*  0 packed */
	uint64_t incarnation;  /*  8 of this copy */
	uint64_t length_bytes; /* 16 durable */
	uint64_t mark_bytes;   /* 24 */
	uint8_t kind;          /* 32 */
	uint8_t state;         /* 33 enum wire_extent_state */
	uint16_t flags;        /* 34 WIRE_FLAG_DAMAGED */
	uint32_t fence_epoch;  /* 36 */
} __attribute__((packed));
_Static_assert(sizeof(struct wire_extent_entry) == 40, "wire extent entry");
enum wire_extent_state { WIRE_EXTENT_OPEN = 1, WIRE_EXTENT_FROZEN = 2, WIRE_EXTENT_SEALED = 3 };
/* A copy that a node lists, decoded. */
struct wire_listed {
	struct extent_id id; /* packs */
	enum extent_kind kind;
	enum wire_extent_state state;
	uint64_t incarnation;
	uint64_t length_bytes; /* aligned, within a chunk */
	uint32_t fence_epoch;
	bool is_damaged;
};
/*
 * wire_listed_decode -- one entry of a page
 *
 * @shard: the one whose list was asked for; UINT32_MAX: every shard's. 0, or -EPROTO and the field's
 * name.
 */
int wire_listed_decode(const struct wire_extent_entry *entry, uint32_t shard,
    struct wire_listed *ret_listed, const char **ret_field);
/*
 * wire_list_check_cursor -- does @next, of a page of @count entries asked for at @cursor, lead on?
 *
 * It is 0 at the list's end, else a slot behind at least as many as are in the page, and a page that
 * is not the last has entries: so a list ends, whatever a node says. 0, or -EPROTO and "cursor".
 */
#define WIRE_LIST_CURSOR_MAX (1u << 20) /* slots of a disk */
int wire_list_check_cursor(uint64_t cursor, uint32_t count, uint64_t next, const char **ret_field);

/*
 * MIRROR_HEADS: heads of batches, from a shard's owner to its heir, the gateway that the shard falls to without the owner
 *
 * On a connection of CLEAVE_LEVEL_PEERS whose hello has role GATEWAY. The payload is entries: each names a batch that all replicas have, and has its
 * head behind it, padded with zeros to 8 bytes. The answer has no payload. Nothing depends on any of them: what is
 * missing is read from the nodes.
 */
#define WIRE_MIRROR_ENTRY_BYTES 24u
#define WIRE_MIRROR_BYTES_MAX (16384u - WIRE_HEADER_BYTES) /* sent from one piece of host memory */
struct wire_mirror {
	uint64_t request_id;
	uint32_t payload_bytes; /* a request's; of a reply 0 */
	bool is_reply;
	int rc; /* a reply's; -ENOTSUP: no heads are kept there */
};
/* wire_mirror_decode -- either way. 0, or -EPROTO and the field's name. */
int wire_mirror_decode(const struct wire_header *header, struct wire_mirror *ret_mirror,
    const char **ret_field);
void wire_mirror_encode(struct wire_header *header, const struct wire_mirror *mirror);
/* 0 u64 extent   8 u64 offset_bytes   16 u32 head_bytes   20 u32 0   24 the head, then zeros */
struct wire_mirror_entry {
	struct extent_id id;
	uint64_t offset_bytes; /* of the batch in it */
	uint32_t head_bytes;
};
/* wire_mirror_entry_bytes -- what the entry of a head of @head_bytes takes. */
static inline uint32_t
wire_mirror_entry_bytes(uint32_t head_bytes)
{
	return WIRE_MIRROR_ENTRY_BYTES + (head_bytes + 7) / 8 * 8;
}
/* wire_mirror_entry_encode -- the entry of @head, whole, to @out. Returns its bytes. */
uint32_t wire_mirror_entry_encode(uint8_t *out, const struct wire_mirror_entry *entry,
    const void *head);
/*
 * wire_mirror_entry_decode -- the entry at @in, of which @bytes are left; its head is behind WIRE_MIRROR_ENTRY_BYTES
 *
 * The head itself is not looked at. 0, or -EPROTO and the field's name.
 */
int wire_mirror_entry_decode(const uint8_t *in, uint32_t bytes, struct wire_mirror_entry *ret_entry,
    const char **ret_field);

/* Control messages: a JSON object in the payload, at most 64 KiB each way. */
struct wire_control {
	uint64_t request_id;
	uint32_t payload_bytes;
};
int wire_control_decode(const struct wire_header *header, struct wire_control *ret_control,
    const char **ret_field);

#endif /* CLEAVE_WIRE_H */
