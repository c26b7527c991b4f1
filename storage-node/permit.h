/* SPDX-License-Identifier: Apache-2.0 */
/* permit.h -- which tickets of clients a node believes in: its keys, and fences of volumes */
#ifndef CLEAVE_STORAGE_PERMIT_H
#define CLEAVE_STORAGE_PERMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

struct node;
struct sn_permit;
struct sn_request;
struct ticket_bearer;

#define SN_FENCED_MAX 65536u /* volumes with a fence; one more, and every ticket ends */

/* A ticket that was believed when it came. */
struct sn_ticket {
	struct extent_id id;
	uint32_t from_bytes, to_bytes;
	uint64_t volume_id, attach;
	uint64_t expires_ns; /* by loop_now_ns; 0: no ticket */
	uint64_t serial;     /* of the fences that it was compared with last */
};

/* sn_permit_init -- of a node that takes clients; no key is drawn yet. Returns 0; -ENOMEM. No-op of others. */
int sn_permit_init(struct node *node);
/* sn_permit_fini -- keys are wiped. Also before sn_permit_init. */
void sn_permit_fini(struct node *node);
/*
 * sn_permit_tell_key -- @req, a TICKET_KEY of a gateway: answered with the key, drawn if the last one is old
 *
 * Errors, told to it: -ENOTSUP the node takes no clients; -EKEYREJECTED its connection is open, or signed alone, at a node
 * that believes in keys alone; -EIO no random bytes.
 */
void sn_permit_tell_key(struct sn_request *req);
/* sn_permit_fence -- @req, a VOLUME_FENCE of a gateway: answered once older tickets have ended. Errors as above; signed will do. */
void sn_permit_fence(struct sn_request *req);
/*
 * sn_permit_judge -- may @bearer read here what @ticket, decoded, says? @peer: for the log
 *
 * Returns 0 and *@ret_ticket; -EKEYREVOKED it has ended; -EKEYREJECTED it was forged, or is another session's, or
 * client's, which is a line in the log.
 */
int sn_permit_judge(struct node *node, const struct wire_ticket *ticket,
    const struct ticket_bearer *bearer, const char *peer, struct sn_ticket *ret_ticket);
/* sn_permit_fenced_below -- tickets of @volume_id of lesser attaches than that have ended; 0: no fence has come since the start. */
uint64_t sn_permit_fenced_below(const struct node *node, uint64_t volume_id);
/* sn_permit_is_valid -- has @ticket, that was believed once, not ended? */
bool sn_permit_is_valid(struct node *node, struct sn_ticket *ticket);

#endif /* CLEAVE_STORAGE_PERMIT_H */
