/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_wire.h -- the bytes of the NBD protocol, big-endian, and nothing else
 *
 * Names and numbers are those of the NBD project's doc/proto.md. Decoders take bytes that are all
 * there and say what is wrong; they touch no connection, so that fuzzers can drive them.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_WIRE_H
#define CLEAVE_VM_CLIENT_NBD_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* The handshake. */
#define NBD_MAGIC UINT64_C(0x4e42444d41474943) /* "NBDMAGIC" */
#define NBD_IHAVEOPT UINT64_C(0x49484156454f5054)
#define NBD_OPTION_REPLY_MAGIC UINT64_C(0x0003e889045565a9)
#define NBD_GREETING_BYTES 18u
#define NBD_OPTION_BYTES 16u       /* before its data */
#define NBD_OPTION_REPLY_BYTES 20u /* before its data */
#define NBD_OPTION_DATA_BYTES_MAX 65536u
#define NBD_STRING_BYTES_MAX 4096u
#define NBD_EXPORT_NAME_BYTES 10u   /* size and flags */
#define NBD_EXPORT_NAME_ZEROES 124u /* behind them, unless both sides agreed otherwise */

enum nbd_handshake_flags {
	NBD_FLAG_FIXED_NEWSTYLE = 1u << 0,
	NBD_FLAG_NO_ZEROES = 1u << 1,
};

enum nbd_option {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_STARTTLS = 5,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
	NBD_OPT_EXTENDED_HEADERS = 11,
};

#define NBD_REP_ERROR (UINT32_C(1) << 31)
enum nbd_option_reply {
	NBD_REP_ACK = 1,
	NBD_REP_SERVER = 2,
	NBD_REP_INFO = 3,
	NBD_REP_META_CONTEXT = 4,
};
#define NBD_REP_ERR_UNSUP (NBD_REP_ERROR | 1u)
#define NBD_REP_ERR_POLICY (NBD_REP_ERROR | 2u)
#define NBD_REP_ERR_INVALID (NBD_REP_ERROR | 3u)
#define NBD_REP_ERR_PLATFORM (NBD_REP_ERROR | 4u)
#define NBD_REP_ERR_TLS_REQD (NBD_REP_ERROR | 5u)
#define NBD_REP_ERR_UNKNOWN (NBD_REP_ERROR | 6u)
#define NBD_REP_ERR_SHUTDOWN (NBD_REP_ERROR | 7u)
#define NBD_REP_ERR_TOO_BIG (NBD_REP_ERROR | 9u)
#define NBD_REP_ERR_EXT_HEADER_REQD (NBD_REP_ERROR | 10u)

enum nbd_info {
	NBD_INFO_EXPORT = 0,
	NBD_INFO_NAME = 1,
	NBD_INFO_DESCRIPTION = 2,
	NBD_INFO_BLOCK_SIZE = 3,
};

enum nbd_transmission_flags {
	NBD_FLAG_HAS_FLAGS = 1u << 0,
	NBD_FLAG_READ_ONLY = 1u << 1,
	NBD_FLAG_SEND_FLUSH = 1u << 2,
	NBD_FLAG_SEND_FUA = 1u << 3,
	NBD_FLAG_SEND_TRIM = 1u << 5,
	NBD_FLAG_SEND_WRITE_ZEROES = 1u << 6,
	NBD_FLAG_SEND_DF = 1u << 7,
	NBD_FLAG_CAN_MULTI_CONN = 1u << 8,
	NBD_FLAG_SEND_RESIZE = 1u << 9, /* of the extension of that name */
	NBD_FLAG_SEND_CACHE = 1u << 10,
	NBD_FLAG_SEND_FAST_ZERO = 1u << 11,
};

/* Transmission. */
#define NBD_REQUEST_MAGIC 0x25609513u
#define NBD_EXTENDED_REQUEST_MAGIC 0x21e41c71u
#define NBD_SIMPLE_REPLY_MAGIC 0x67446698u
#define NBD_STRUCTURED_REPLY_MAGIC 0x668e33efu
#define NBD_EXTENDED_REPLY_MAGIC 0x6e8a278cu
#define NBD_REQUEST_BYTES 28u
#define NBD_EXTENDED_REQUEST_BYTES 32u
#define NBD_REPLY_HEAD_BYTES_MAX 64u /* of any reply, with what comes before the data */
#define NBD_PAYLOAD_BYTES_MAX (UINT32_C(32) << 20)

enum nbd_command {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_CACHE = 5,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
	NBD_CMD_RESIZE = 8,
	NBD_CMD_NR
};

enum nbd_command_flags {
	NBD_CMD_FLAG_FUA = 1u << 0,
	NBD_CMD_FLAG_NO_HOLE = 1u << 1,
	NBD_CMD_FLAG_DF = 1u << 2,
	NBD_CMD_FLAG_REQ_ONE = 1u << 3,
	NBD_CMD_FLAG_FAST_ZERO = 1u << 4,
	NBD_CMD_FLAG_PAYLOAD_LEN = 1u << 5,
};

enum nbd_error {
	NBD_SUCCESS = 0,
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_EOVERFLOW = 75,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

/* Flags of an extent in base:allocation, and in qemu:dirty-bitmap:NAME. */
#define NBD_STATE_HOLE (1u << 0)
#define NBD_STATE_ZERO (1u << 1)
#define NBD_STATE_DIRTY (1u << 0)
#define NBD_EXTENT_BYTES_MAX 16u

/* How replies look: agreed upon by options. */
enum nbd_reply_style { NBD_SIMPLE, NBD_STRUCTURED, NBD_EXTENDED };

struct nbd_request_head {
	uint16_t flags;
	uint16_t type; /* enum nbd_command, or anything */
	uint64_t cookie;
	uint64_t offset_bytes;
	uint64_t length_bytes;
};

/* An option's head. */
struct nbd_option_head {
	uint32_t option;
	uint32_t length_bytes;
};

/* NBD_OPT_INFO and NBD_OPT_GO, decoded; @name points into the data and is not terminated. */
struct nbd_info_request {
	const char *name;
	uint32_t name_bytes;
	bool wants_block_size, wants_name;
};

/* The metadata contexts that there are: base:allocation, and qemu:dirty-bitmap: with any name behind it. */
#define NBD_CONTEXT_ALLOCATION "base:allocation"
#define NBD_CONTEXT_BITMAP "qemu:dirty-bitmap:"
#define NBD_BITMAPS_MAX 3u /* of a client, at a time; a request asks about all of them */

/* NBD_OPT_LIST_META_CONTEXT and _SET_META_CONTEXT; names point into the data and are not terminated. */
struct nbd_meta_request {
	const char *name;
	uint32_t name_bytes;
	uint32_t query_count;
	bool
	    has_allocation; /* a query asks for base:allocation, or for all of base: when listing */
	bool has_all_bitmaps; /* when listing: for all of qemu: */
	struct nbd_meta_bitmap {
		const char *name; /* behind qemu:dirty-bitmap: */
		uint32_t name_bytes;
	} bitmaps[NBD_BITMAPS_MAX]; /* no two alike, none empty */
	uint32_t bitmap_count;
};

void nbd_put16(uint8_t *out, uint16_t value);
void nbd_put32(uint8_t *out, uint32_t value);
void nbd_put64(uint8_t *out, uint64_t value);

/* nbd_option_head_decode -- 0, or -EPROTO: no option begins here. @in: NBD_OPTION_BYTES. */
int nbd_option_head_decode(const uint8_t *in, struct nbd_option_head *ret_head);
/* nbd_info_decode, nbd_meta_decode -- 0, or -EINVAL, of meta also -E2BIG: too many bitmaps; and what is wrong. */
int nbd_info_decode(const uint8_t *in, uint32_t bytes, struct nbd_info_request *ret_request,
    const char **ret_text);
int nbd_meta_decode(const uint8_t *in, uint32_t bytes, bool is_list,
    struct nbd_meta_request *ret_request, const char **ret_text);
/* nbd_request_decode -- 0, or -EPROTO: wrong magic. @in: as long as the style's requests are. */
int nbd_request_decode(const uint8_t *in, enum nbd_reply_style style,
    struct nbd_request_head *ret_head);
/* nbd_put_request -- as nbd_request_decode takes it. @out: NBD_EXTENDED_REQUEST_BYTES. */
uint32_t nbd_put_request(uint8_t *out, enum nbd_reply_style style,
    const struct nbd_request_head *head);

/*
 * The heads of replies; each returns its bytes. @out: NBD_REPLY_HEAD_BYTES_MAX. What follows on the
 * wire: a read's data, a block status' descriptors (8 or 16 bytes), an error's text.
 */
uint32_t nbd_put_done(uint8_t *out, enum nbd_reply_style style,
    const struct nbd_request_head *head);
uint32_t nbd_put_error(uint8_t *out, enum nbd_reply_style style,
    const struct nbd_request_head *head, enum nbd_error error, uint16_t text_bytes);
uint32_t nbd_put_data(uint8_t *out, enum nbd_reply_style style,
    const struct nbd_request_head *head);
/*
 * nbd_put_part -- @bytes of a read's data, from @offset_bytes of the disk on; not in a simple reply
 *
 * @is_last: nothing follows. Parts come in any order; what follows the last one ends the reply.
 */
uint32_t nbd_put_part(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head,
    uint64_t offset_bytes, uint64_t bytes, bool is_last);
/* A context and how many descriptors are its part of the answer to a block status. */
struct nbd_status_head {
	uint32_t context_id;
	uint32_t extent_count;
	bool is_last;
};
/* nbd_put_status -- the descriptors of its extents follow. */
uint32_t nbd_put_status(uint8_t *out, enum nbd_reply_style style,
    const struct nbd_request_head *head, const struct nbd_status_head *status);
/* nbd_put_extent -- such a descriptor; @out: NBD_EXTENT_BYTES_MAX. */
uint32_t nbd_put_extent(uint8_t *out, enum nbd_reply_style style, uint64_t length_bytes,
    uint32_t flags);
/* nbd_put_option_reply -- its head; @bytes of data follow. */
uint32_t nbd_put_option_reply(uint8_t *out, uint32_t option, uint32_t type, uint32_t bytes);

/* nbd_error_of -- the protocol's error for @rc, 0 or a negative errno. */
enum nbd_error nbd_error_of(int rc);

#endif /* CLEAVE_VM_CLIENT_NBD_WIRE_H */
