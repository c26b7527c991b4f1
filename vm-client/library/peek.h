/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peek.h -- hot blocks of a volume read out of its gateway's memory, past the gateway's work
 *
 * For a volume whose `reads` is `hot` or `direct`, while it is open for writing. All of it is the loop's thread's.
 */
#ifndef CLEAVE_VM_CLIENT_PEEK_H
#define CLEAVE_VM_CLIENT_PEEK_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/dev_ptr.h"
#include "cleave/hot.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"

struct cleave_volume;
struct connection;
struct message;
struct peek_page;
struct peeks;

/* A connection's pages, as its gateway told of them last. */
struct connection_peek {
	uint32_t generation; /* 0: there is none, or it is asked for anew */
	uint32_t page_count;
	uint32_t serial; /* of these pages, whatever generation a gateway says that they are of */
	struct peek_page *pages;
	struct loop_link out;  /* messages that are PEEKING there, the oldest first */
	uint32_t until_told;   /* reads that could be made so before one goes to the gateway */
	uint32_t untold_count; /* that were made so, and of which the gateway does not know yet */
};

/* Zero means the default in brackets. */
struct peeks_options {
	uint64_t again_ns; /* the least between two reads of a page's tags [250 ms] */
	uint32_t miss_max; /* reads of blocks that are not in them before the next one [32] */
};
/*
 * peeks_want -- from here on @volume, which is OPEN for writing, reads hot blocks by itself as far as it may; again: other
 * options
 *
 * Returns 0; -ENOMEM: it reads as any other.
 */
int peeks_want(struct cleave_volume *volume, const struct peeks_options *options);
/* peeks_fini -- its connections are gone. */
void peeks_fini(struct cleave_volume *volume);
/*
 * peek_start -- @message, a new READ, is read out of its gateway's memory
 *
 * True: it is PEEKING, and ends by message_on_direct, at nodes, or at the gateway after all. What is given up meanwhile
 * ends when its connection has. False: it has to be read otherwise.
 */
bool peek_start(struct message *message);
/* peek_oldest_ns -- since when a message has been PEEKING at @connection; UINT64_MAX: none is. */
uint64_t peek_oldest_ns(struct connection *connection);
/*
 * peeks_take -- an answer to LEASE: @head, and the keys of its pages, from @bytes on
 *
 * False: they are none. Without memory for them there is no page.
 */
bool peeks_take(struct connection *connection, const struct wire_lease_head *head,
    const uint8_t *bytes);
/* peeks_forget -- of @connection there are no pages; until LEASE has told of some again. */
void peeks_forget(struct connection *connection);

#endif /* CLEAVE_VM_CLIENT_PEEK_H */
