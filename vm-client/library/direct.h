/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.h -- reads of a volume past its gateway, at storage nodes
 *
 * For a volume whose `reads` is `direct`, while it is open for writing: direct.c has the reads, direct_node.c the
 * connections, direct_list.c which nodes there are. All of it is the loop's thread's.
 */
#ifndef CLEAVE_VM_CLIENT_DIRECT_H
#define CLEAVE_VM_CLIENT_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/engine.h"
#include "cleave/lease_read.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"

struct cleave_volume;
struct connection;
struct direct;
struct direct_read;
struct message;

#define DIRECT_NODES_MAX 64u   /* that are known; what lies at others is read at the gateway */
#define DIRECT_READS_MAX 64u   /* of a volume, at a time */
#define DIRECT_REQUESTS_MAX 8u /* of a read: what lies in more places is read at the gateway */
#define DIRECT_TICKET_STRIDE 64u
#define DIRECT_SUSPECTS_MAX                                                                        \
	4u /* that a gateway was not told of yet; others are read again, or scrubbed */
#define DIRECT_UNREACHED_DIALS                                                                     \
	3u /* that failed in a row: gateways are told, who see nothing of it; some 7 s, where it is refused */
#define DIRECT_SLOTS 256u /* of a connection: each is memory at the node, too */
_Static_assert(DIRECT_SLOTS <= WIRE_TICKET_SLOTS_MAX, "slots that a node has");

/* ---- direct_node.c: a connection to a node ---- */

enum direct_node_state {
	DIRECT_NODE_DOWN,
	DIRECT_NODE_CONNECTING,
	DIRECT_NODE_UP,
	DIRECT_NODE_CLOSING,
	DIRECT_NODE_STATE_NR
};

/* A ticket that was presented on the connection, in its slot. */
struct direct_ticket {
	uint64_t extent; /* packed; 0: the slot is free */
	uint32_t from_bytes, key_number;
	uint64_t used; /* when last, by direct_node.use_count */
	bool is_refused;
};

struct direct_node {
	struct direct *direct;
	uint32_t id;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	bool is_listed; /* by the gateway that was asked last */
	struct sm sm;
	struct split_qp *qp;
	struct loop_link requests; /* out, the oldest first */
	uint32_t out_count;
	uint32_t failures_in_row;
	uint32_t dials_failed; /* of these: connections that could not be made, in a row */
	uint64_t left_out_until_ns;
	struct loop_timer timer; /* the oldest request may be late */
	uint64_t use_count;
	struct direct_ticket tickets[DIRECT_SLOTS];
};

enum direct_request_state {
	DIRECT_REQUEST_IDLE,
	DIRECT_REQUEST_OUT,      /* in node->requests */
	DIRECT_REQUEST_ANSWERED, /* there too: its sends, or its ticket's answer, have not come yet */
	DIRECT_REQUEST_STATE_NR
};

/* Bytes of a source, wanted from one of its copies. */
struct direct_request {
	struct loop_link link;
	struct sm sm;
	struct direct_read *read;
	struct direct_node *node; /* not IDLE */
	struct wire_map_source source;
	uint32_t offset_bytes, length_bytes;
	uint64_t map_at, map_serial; /* of the volume, and of the map that says so */
	uint32_t tried;              /* copies that were asked, by bit */
	uint32_t copy;               /* not IDLE: which one is */
	uint32_t slot;               /* of its ticket */
	bool is_sending;             /* the split library holds send, header */
	bool is_presenting;          /* likewise ticket_send, ticket_header, ticket_piece */
	bool is_ticket_out;          /* TICKETS is not answered yet */
	int rc;                      /* ANSWERED */
	uint64_t request_id, sent_ns;
	struct wire_header header, ticket_header;
	struct split_send send, ticket_send;
	struct dev_piece ticket_piece;
};

/* direct_node_create -- DOWN; NULL: no memory. direct_node_destroy -- its connection is gone. */
struct direct_node *direct_node_create(struct direct *direct, uint32_t id);
void direct_node_destroy(struct direct_node *node);
/* direct_node_close -- end its connection, if there is one: what is out there ends as on_closed says. */
void direct_node_close(struct direct_node *node);
/*
 * direct_request_send -- ask a copy that was not asked yet, of a node that is up: the one with the least to do
 *
 * Nodes that are down, and may be tried again, are connected to meanwhile. 0: direct_request_over follows, never within
 * this call; -EHOSTUNREACH: there is no such copy; else the connection takes nothing.
 */
int direct_request_send(struct direct_request *request);
/* direct_request_can_be_sent -- is there a copy that could be asked at once? Connects, as above. */
bool direct_request_can_be_sent(struct direct_request *request);

/* ---- direct_list.c: which nodes there are ---- */

/* direct_nodes_ask -- who is where: soon, unless that was asked for a moment ago. */
void direct_nodes_ask(struct direct *direct);
/* direct_nodes_close -- the volume is being closed. True: a connection has not ended yet, volume_wake follows. */
bool direct_nodes_close(struct direct *direct);
void direct_nodes_fini(struct direct *direct);

/* ---- direct_tell.c: what gateways are told of it ---- */

/* A copy that did not hold what a map says. */
struct direct_suspect {
	uint64_t extent; /* packed; 0: none */
	uint32_t node_id;
};

/* direct_note_read -- @read, of @message, has been made at nodes. */
void direct_note_read(const struct direct_read *read, const struct message *message);
/* direct_note_suspect -- what @request was given is not what its map says: its copy, not IDLE. */
void direct_note_suspect(struct direct_request *request);
/*
 * direct_tell -- what @connection's next LEASE says of reads of its volume at nodes, if there are any
 *
 * Its payload, where @lease says that it has one, is in connection->lease.message, behind the header.
 */
void direct_tell(struct connection *connection, struct wire_lease *lease);
/* direct_told -- ... which has been sent, on that connection. */
void direct_told(const struct connection *connection, const struct wire_lease *lease);

/* ---- direct.c: reads ---- */

/* Blocks of the message that lie in one record, or are zeros. */
struct direct_frame {
	uint8_t first, count; /* of the message */
	uint8_t in_record, record_blocks, codec_id;
	uint8_t request; /* whose answer has it; DIRECT_ZEROS: none */
	uint32_t offset_bytes, stored_bytes, stored_crc;
};
#define DIRECT_ZEROS UINT8_MAX

struct direct_read {
	struct loop_link link; /* direct->free, direct->done; neither: under way */
	struct direct *direct;
	uint32_t index;
	struct message *message; /* NULL: nobody waits for it any more */
	uint32_t shard, epoch;   /* the lease that it goes by */
	uint32_t frame_count, request_count;
	uint32_t left_count; /* requests whose bytes are not there yet */
	struct direct_frame frames[ENGINE_RECORD_BLOCKS_MAX];
	uint32_t crcs[ENGINE_RECORD_BLOCKS_MAX]; /* of the message's blocks */
	struct direct_request requests[DIRECT_REQUESTS_MAX];
};

struct direct {
	struct cleave_volume *volume;
	struct direct_read *reads; /* DIRECT_READS_MAX of them */
	struct loop_link free, done;
	struct loop_task task; /* those that are done */
	dev_ptr tickets;       /* what is presented: DIRECT_TICKET_STRIDE a request */
	uint64_t request_serial;
	struct direct_node *nodes[DIRECT_NODES_MAX]; /* NULL: no more */
	bool is_closing;
	uint64_t asked_ns; /* for nodes, last; 0: never */
	bool is_word_void; /* that question named a node that is elsewhere by the answer */
	uint64_t untold_bytes;
	uint32_t untold_count;  /* reads that no LEASE has told of yet */
	uint64_t sampled_count; /* reads that might have been noted by their runs */
	uint32_t run_count;
	struct wire_lease_read runs[WIRE_LEASE_READS_MAX]; /* what was read of them: untold */
	struct direct_suspect suspects[DIRECT_SUSPECTS_MAX];
};

/*
 * direct_want -- from here on @volume, which is OPEN for writing, reads past its gateway as far as it may
 *
 * Returns 0; -ENOMEM: it reads as any other.
 */
int direct_want(struct cleave_volume *volume);
/* direct_close -- the volume is CLOSING. True: a connection has not ended yet, volume_wake follows. */
bool direct_close(struct cleave_volume *volume);
/* direct_fini -- its connections are gone. */
void direct_fini(struct cleave_volume *volume);
/*
 * direct_start -- @message, a new READ, is read at nodes
 *
 * True: it is DIRECT; it ends by message_on_direct, or direct_cancel. False: its gateway has to be asked.
 */
bool direct_start(struct message *message);
/* direct_cancel -- @message, which is DIRECT, is given up. */
void direct_cancel(struct message *message);
/* direct_request_load -- its bytes are here: 0, or -EBADMSG, they are not what the map says. */
int direct_request_load(struct direct_request *request, const struct split_msg *msg);
/* direct_request_over -- IDLE again; @rc: 0, loaded, or why not. May complete a request of the caller's: a last act. */
void direct_request_over(struct direct_request *request, int rc);

#endif /* CLEAVE_VM_CLIENT_DIRECT_H */
