/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticket.h -- tickets: made by gateways, checked by storage nodes, carried by clients that can make none
 *
 *	mac = the first 16 bytes of HMAC-SHA256(the node's key, "cleave-read-1" | u32 node | u32 key number | u64 extent
 *	      | u32 from | u32 to | u64 volume | u64 attach | u64 session | subject), little-endian
 *
 * The node's key is random, known to the node and to gateways (WIRE_TICKET_KEY), and never on a disk. The session's id and
 * the client's subject ("client/db1"; nothing, without a key) are in no ticket: a node takes them from the connection by
 * which the ticket comes, the id from its hello, the subject from its certificate. So another session's ticket does not
 * fit, nor another client's, though it knows the session. Not installed.
 */
#ifndef CLEAVE_TICKET_H
#define CLEAVE_TICKET_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/secure.h"
#include "cleave/wire.h"

/* The session that may use a ticket, its client, and the node: what a mac is about, beside the ticket's own fields. */
struct ticket_bearer {
	uint32_t node_id;
	uint64_t session_id;
	const struct split_subject
	    *subject; /* as its key says to gateway and node; NULL: it has none */
};

/* ticket_key_draw -- another key in *@key: its number is the next one, or random where *@key had none (0). 0; -EIO. */
int ticket_key_draw(struct wire_ticket_key *key);
/* ticket_key_wipe -- forget it: zeros. */
void ticket_key_wipe(struct wire_ticket_key *key);
/*
 * ticket_make -- fill in @ticket's key_number and mac, by @key for @bearer; its other fields, but slot, are covered
 *
 * Returns 0; -EIO. Any thread.
 */
int ticket_make(const struct wire_ticket_key *key, const struct ticket_bearer *bearer,
    struct wire_ticket *ticket);
/* ticket_is_good -- was @ticket made so? It names @key's number. Takes as long for every wrong mac. Any thread. */
bool ticket_is_good(const struct wire_ticket_key *key, const struct ticket_bearer *bearer,
    const struct wire_ticket *ticket);

#endif /* CLEAVE_TICKET_H */
