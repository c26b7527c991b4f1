/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h -- the 64 bytes that every message begins with
 *
 * A header arrives in host memory, its payload in device memory. The sender fills what its opcode
 * needs; the split library stamps magic, version, payload_bytes, credits and header_crc when it sends,
 * and has checked these when a message arrives. All other fields it passes on as they are. A reply has
 * its request's opcode with WIRE_REPLY set and its request_id. Little-endian, as it travels.
 */
#ifndef CLEAVE_MESSAGE_H
#define CLEAVE_MESSAGE_H

#include <stdint.h>

#define WIRE_MAGIC 0x45564c43u /* "CLVE" */
#define WIRE_VERSION 1u
#define WIRE_HEADER_BYTES 64u
#define WIRE_PAYLOAD_BYTES_MAX (256u * 1024u)       /* of a message */
#define WIRE_CLIENT_PAYLOAD_BYTES_MAX (64u * 1024u) /* of one to or from a VM client */
#define WIRE_HELLO_BYTES 56u                        /* of private data; librdmacm's limit */
#define WIRE_REPLY 0x80u

struct wire_header {
	uint32_t magic;         /*  0 */
	uint8_t version;        /*  4 */
	uint8_t opcode;         /*  5 enum wire_opcode, and WIRE_REPLY */
	uint8_t service_class;  /*  6 enum cleave_service_class */
	uint8_t engine;         /*  7 enum engine_id */
	uint64_t request_id;    /*  8 */
	uint64_t object_id;     /* 16 segment, packed extent id, or shard */
	uint64_t offset_bytes;  /* 24 */
	uint32_t length_bytes;  /* 32 */
	uint32_t payload_bytes; /* 36 */
	uint32_t epoch;         /* 40 */
	uint32_t vm_id;         /* 44 */
	uint16_t flags;         /* 48 */
	uint16_t status;        /* 50 enum cleave_status */
	uint16_t credits;       /* 52 */
	uint16_t reserved;      /* 54 */
	uint32_t payload_crc;   /* 56 */
	uint32_t header_crc;    /* 60 of bytes 0..59 */
} __attribute__((packed));

enum wire_opcode {
	WIRE_CREDIT = 0x00, /* split library: credits alone; no reply */
	WIRE_HELLO = 0x01,  /* split library: connection set-up where the transport has none */
	WIRE_ECHO = 0x02,   /* answered with the same payload; tests, bench, keep-alive */
	/* Split library: one-sided, where no device serves them (one_sided.c); no credits. */
	WIRE_DEV_READ = 0x03,
	WIRE_DEV_WRITE = 0x04,
	WIRE_LANE =
	    0x05, /* split library: a queue pair for them, on the control lane of verbs:// */
	WIRE_AUTH = 0x06, /* split library: the handshake before a sealed hello */
	/* VM client to gateway. */
	WIRE_WRITE = 0x10,
	WIRE_READ = 0x11,
	WIRE_DISCARD = 0x12,      /* reads as zeros afterwards */
	WIRE_WRITE_ZEROES = 0x13, /* the same, but stays allocated */
	WIRE_BLOCK_STATUS = 0x14, /* what a range holds: entries in the reply's payload */
	WIRE_HOLES = 0x15,        /* which chunks of a segment hold nothing: a bit each */
	WIRE_LEASE = 0x16,        /* asks for read leases, or returns them: struct wire_lease */
	WIRE_CHUNK_MAP = 0x17,    /* where blocks of a range lie: struct wire_map_head */
	/* Anyone to gateway or node: JSON in the payload, JSON in the reply. */
	WIRE_CONTROL = 0x20,
	/* VM client to a storage node that takes clients: struct wire_direct. */
	WIRE_TICKETS = 0x30,     /* what it may read there: tickets that its gateway has made */
	WIRE_DIRECT_READ = 0x31, /* as EXTENT_READ, within one of these tickets */
	/* Gateway to storage node. */
	WIRE_EXTENT_CREATE = 0x40,
	WIRE_EXTENT_APPEND = 0x41,
	WIRE_EXTENT_READ = 0x42,
	WIRE_EXTENT_FREEZE = 0x43,
	WIRE_EXTENT_TRUNCATE = 0x44,
	WIRE_EXTENT_DELETE = 0x45,
	WIRE_EXTENT_LIST = 0x46,
	WIRE_SHARD_FENCE = 0x47,
	/* The node reads its whole copy and checks chain, descriptors and payload CRCs; writes nothing.
	 * Any epoch may ask. Answers when done, which may take long; -EBUSY: enough at work already. */
	WIRE_EXTENT_VERIFY = 0x48,
	/* A block of a run: the node looks it up in its batch's head, and sends that and the block's frame. */
	WIRE_EXTENT_FIND = 0x49,
	WIRE_TICKET_KEY = 0x4a,    /* what tickets for this node are made with */
	WIRE_VOLUME_FENCE = 0x4b,  /* tickets of older attaches of a volume end */
	WIRE_EXTENT_GATHER = 0x4c, /* as READ, of several stretches: gather.h */
	/* Another gateway may append to this extent, and read what is the shard's, under this epoch. */
	WIRE_EXTENT_LEND = 0x4d,
	/* Gateway to gateway. */
	WIRE_JOB_ASSIGN = 0x60, /* a part of a merge's recipe: struct wire_job, as the two below */
	WIRE_JOB_CANCEL = 0x63,
	WIRE_JOB_LOAD = 0x64,     /* how much room is there for jobs? */
	WIRE_MIRROR_HEADS = 0x69, /* heads of batches, for a take-over: struct wire_mirror */
};

#endif /* CLEAVE_MESSAGE_H */
