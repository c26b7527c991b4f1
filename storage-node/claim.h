/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h -- which gateway has a shard's epoch here: others are refused; claim.c has the rules */
#ifndef CLEAVE_STORAGE_CLAIM_H
#define CLEAVE_STORAGE_CLAIM_H

#include <stdint.h>

#include "cleave/wire.h"

struct node;
struct sn_request;
struct split_subject;

/* A gateway's number, and the epoch that it has come with. */
struct sn_claim {
	uint32_t epoch;
	uint64_t gateway; /* 0: nobody with a key is known to have come under it */
};

/* Another gateway may read what is the shard's, and append to one extent, as long as the epoch is the newest claim's. */
struct sn_loan {
	struct sn_claim claim; /* epoch of the owner, and who it is lent to; 0: nobody */
	struct extent_id extent;
	uint64_t told_gateway; /* the last one that the log has told of */
};

/* A shard's newest claim, and the one before, whose requests may still be on their way. All zero: none is known. */
struct sn_claims {
	struct sn_claim now, before;
	struct sn_loan loan; /* in memory alone */
};

/*
 * sn_claim_judge -- may the gateway @subject (NULL: of a connection without a key, which may) ask for @wire?
 *
 * Returns 0, and the epoch may be its own from here on; -ENOKEY: it is another gateway's. Whether an epoch is too old for
 * a change or an append is the fence's to say (fence.h), which is asked first where it is.
 */
int sn_claim_judge(struct node *node, const struct split_subject *subject,
    const struct wire_node *wire, const char *peer);

/*
 * sn_claim_lend -- @req, a LEND that sn_claim_judge has let in: from here on, or no more; answered
 *
 * A loan takes the place of the one before it. It ends with the owner's epoch, and with the node's process.
 * Errors, told to the gateway: -ESTALE the epoch is older than the fence, or than the newest claim; -EOVERFLOW it is far
 * above the fence, and nobody's.
 */
void sn_claim_lend(struct sn_request *req);

#endif /* CLEAVE_STORAGE_CLAIM_H */
