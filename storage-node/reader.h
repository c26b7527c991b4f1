/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h -- connections of clients that read by tickets: what each may ask, and its tickets */
#ifndef CLEAVE_STORAGE_READER_H
#define CLEAVE_STORAGE_READER_H

#include <jansson.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/wire.h"
#include "peer.h"
#include "permit.h"

struct node;
struct split_msg;
struct split_qp;

#define SN_READER_BLOCK 64u /* tickets that are allocated together */
#define SN_READER_BLOCKS_MAX (WIRE_TICKET_SLOTS_MAX / SN_READER_BLOCK)

struct sn_reader {
	struct sn_peer peer;   /* the argument of its queue pair */
	struct loop_link link; /* in node->readers */
	const struct split_qp *qp;
	uint64_t session_id;
	struct sn_ticket *blocks[SN_READER_BLOCKS_MAX]; /* NULL: none was presented there */
};

/* sn_readers_init -- there are none. sn_readers_fini -- those whose port is gone without a word. */
void sn_readers_init(struct node *node);
void sn_readers_fini(struct node *node);
/*
 * sn_reader_judge -- may who comes with @qp read here, as a client?
 *
 * Returns 0; -ENOTSUP the node takes no clients; -EKEYREJECTED its key is for somebody else, or it has none; -EBUSY
 * SN_READER_PART of the node's places are taken, or the part of those that one key may have. *@why: a text of SPLIT_KEY_WHY_BYTES_MAX bytes.
 */
int sn_reader_judge(const struct node *node, const struct split_qp *qp, char *why);
/* sn_reader_open -- a reader for the session @session_id on @qp, the node's until sn_reader_close; NULL: no memory. */
struct sn_reader *sn_reader_open(struct node *node, const struct split_qp *qp, uint64_t session_id);
/* sn_reader_of -- @peer's, which is a reader's. */
struct sn_reader *sn_reader_of(struct sn_peer *peer);
/* sn_reader_close -- the connection is gone, and its tickets with it. */
void sn_reader_close(struct sn_reader *reader);
/*
 * sn_reader_run -- TICKETS or DIRECT_READ of @reader
 *
 * Returns 0: @msg is the node's until it is answered; -EPROTO and the field that is wrong: @msg is the caller's.
 */
int sn_reader_run(struct sn_reader *reader, struct split_msg *msg, const char **ret_field);
/* sn_reader_note_refused -- @reader has asked for what no client may: counted, and a line in the log. */
void sn_reader_note_refused(const struct sn_reader *reader, const struct split_msg *msg);
/* sn_reader_status -- what a client is told of its own connection; NULL: no memory. */
json_t *sn_reader_status(const struct sn_reader *reader);

#endif /* CLEAVE_STORAGE_READER_H */
