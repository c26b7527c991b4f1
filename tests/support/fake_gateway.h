/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_gateway.h -- a gateway that keeps its volumes in memory and misbehaves on request
 *
 * For tests of the client: it speaks the whole client side of the protocol (control and I/O, several
 * ports, epochs, attaches, incarnations) over the split library, on the loop it is given. What it
 * shall do wrong, and when, is in members that a test sets at any time; what it saw is in its log.
 */
#ifndef CLEAVE_TESTS_FAKE_GATEWAY_H
#define CLEAVE_TESTS_FAKE_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cleave/split.h"
#include "cleave/units.h"
#include "cleave/wire.h"

#define FAKE_PORTS_MAX 4u
#define FAKE_SHARDS_MAX 16u
#define FAKE_VOLUMES_MAX 8u
#define FAKE_LOG_MAX 65536u
#define FAKE_SEGMENT_BASE 1000u

struct fake_volume {
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];
	uint64_t id, size_bytes, segment_base;
	uint64_t attach, session_id;
	uint8_t *data;                       /* sparse */
	bool is_hole;                        /* BLOCK_STATUS says so without looking */
	uint32_t held_count, held_count_max; /* of its requests, at a time */
};

/* An I/O request as it came. */
struct fake_record {
	struct wire_io io;
	uint64_t volume_offset_bytes;
	uint64_t incarnation, session_id;
	uint32_t port;
};

struct fake_gateway {
	struct loop *loop;
	struct split_port *split;
	char addresses[FAKE_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX]; /* as bound */
	uint32_t port_count;
	uint32_t shard_count;
	uint8_t port_of_shard[FAKE_SHARDS_MAX]; /* port_count and more: foreign */
	const char *foreign[FAKE_PORTS_MAX]; /* ports of other gateways, for the map; NULL: end */
	uint32_t epoch_of_shard[FAKE_SHARDS_MAX];
	uint32_t map_epoch_of_shard[FAKE_SHARDS_MAX]; /* what maps say: 0: the truth */
	struct fake_volume volumes[FAKE_VOLUMES_MAX];
	uint32_t volume_count;
	struct loop_link sessions, held;
	uint32_t held_count;
	struct loop_timer timer;

	/* Mistakes to be made. Counts go down as each is made. */
	uint32_t status_count;  /* I/O requests answered with ... */
	int status_rc;          /* ... this, without being done */
	uint32_t drop_after;    /* the nth I/O request from now closes its connection; 0: none */
	bool is_drop_done;      /* that request, and those held, take effect all the same */
	uint32_t corrupt_count; /* reads answered with a flipped byte */
	uint32_t deaf_ports;    /* by bit: they know of no hole */
	uint32_t status_blocks_max;    /* a BLOCK_STATUS stops after as many; 0: at its end */
	uint32_t status_empty;         /* BLOCK_STATUS answers without entries */
	uint32_t status_overshoot;     /* BLOCK_STATUS entries that go too far */
	uint32_t write_checksum_count; /* writes refused with -EBADMSG */
	bool is_holding;               /* I/O requests are kept until fake_gateway_release */
	uint64_t delay_ns;             /* each I/O request is answered that much later */
	enum { FAKE_SANE, FAKE_WRONG_ID, FAKE_WRONG_OPCODE, FAKE_WRONG_LENGTH } answers;
	uint32_t wrong_answer_count; /* how many answers are like that */
	uint32_t refuse_count;       /* I/O hellos refused with ... */
	int refuse_rc;
	bool is_old;         /* of level 1: refuses every other hello, and knows no HOLES */
	bool is_old_port[8]; /* of level 1: refuses every other, and knows no HOLES */
	uint64_t cluster_id; /* that its hellos say; 0: 1 */
	bool refuses_all;    /* every hello, until it is false ... */
	int refuses_all_rc;  /* 0: -EBUSY */
	uint32_t control_status_count; /* control requests answered with ... */
	int control_status_rc;
	uint32_t control_drop_count; /* control requests that close their connection instead */
	bool control_drop_done;      /* having been executed */
	bool control_is_holding;     /* not answered at all */
	const char *control_answer;  /* instead of what it should be; NULL: none */

	/* Requests and connections that it saw. */
	struct fake_record *log;
	uint32_t log_count;
	char control_last[512]; /* the control request that came last, as text, without who asked */
	char control_by[128];   /* its end, that says who did: NAME"}; "": it did not say */
	uint32_t overlap_violations; /* a write came while an overlapping one was held */
	uint32_t order_violations;   /* a request id of a session did not grow */
	uint32_t map_count, attach_count, detach_count, control_count, hello_count;
	uint32_t attach_refuse_count; /* attaches to be refused: another has the volume */
	uint32_t attach_retry_ms;
	int attach_refuse_rc;        /* 0: -EUSERS, another has it */
	bool is_taking;              /* the last attach said so */
	struct cleave_limits limits; /* of every volume; iops alone is told */
	uint32_t limits_count;       /* how often they were asked for */
};

struct fake_options {
	struct loop *loop;
	struct sim_host *sim_host;
	const char *address; /* "tcp://127.0.0.1:0", "sim://gateway:1": with each port one more */
	uint32_t port_count, shard_count;
};

void fake_gateway_init(struct fake_gateway *fake, const struct fake_options *options);
void fake_gateway_fini(struct fake_gateway *fake);
/* fake_gateway_listen -- a port of it is at @address, too; @ret_bound: as split_listen's, or NULL. */
void fake_gateway_listen(struct fake_gateway *fake, uint32_t port, const char *address,
    char *ret_bound);
struct fake_volume *fake_gateway_add(struct fake_gateway *fake, const char *name, uint64_t bytes);
/* fake_gateway_release -- do and answer the held requests, oldest or newest first. */
void fake_gateway_release(struct fake_gateway *fake, bool is_reversed);
/* fake_gateway_cut -- close every connection; is_drop_done says what becomes of held requests. */
void fake_gateway_cut(struct fake_gateway *fake);
/* fake_status.c: the answer to a BLOCK_STATUS or a HOLES. */
struct fake_asked {
	struct fake_gateway *fake;
	const struct fake_volume *volume;
	const struct wire_io *io;
	dev_ptr to; /* the answer's payload */
	uint32_t port;
};
/* fake_status, fake_holes -- fill the payload; its bytes, and its CRC. */
uint32_t fake_status(const struct fake_asked *asked, uint32_t *ret_crc);
uint32_t fake_holes(const struct fake_asked *asked, uint32_t *ret_crc);
/* fake_offset -- where in the volume a request is. */
static inline uint64_t
fake_offset(const struct fake_volume *volume, const struct wire_io *io)
{
	return (io->segment - volume->segment_base) * CLEAVE_SEGMENT_BYTES + io->offset_bytes;
}
/* fake_gateway_count -- logged requests of one opcode; fake_status.c. */
uint32_t fake_gateway_count(const struct fake_gateway *fake, enum wire_opcode opcode);

#endif /* CLEAVE_TESTS_FAKE_GATEWAY_H */
