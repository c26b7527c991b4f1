/* SPDX-License-Identifier: Apache-2.0 */
/* link_ticket.h -- tickets of clients for a node, made with its key; and fences, which end them */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LINK_TICKET_H
#define CLEAVE_MIDDLETIER_EXTENT_LINK_TICKET_H

#include <stdint.h>

#include "cleave/wire.h"

struct mt_link;
struct mt_port;
struct split_subject;

#define LINK_FENCES_MAX 16u /* of a link, unanswered at a time */

/* mt_link_ticket_ask -- ask the node for its key, where it takes clients: a no-op else, and while that is out. */
void mt_link_ticket_ask(struct mt_link *link);
/* mt_link_ticket_fini -- forget the key, and fences that end unseen. */
void mt_link_ticket_fini(struct mt_link *link);
/* mt_link_ticket_lost -- the connection is gone: the process that comes next has another key. */
void mt_link_ticket_lost(struct mt_link *link);
/*
 * mt_link_ticket -- fill in @ticket's key number and mac: the session @session_id may read what @ticket says at the node
 *
 * @subject: of the connection by which the session came here (split_qp_subject): who shows the ticket has a key for the
 * same; NULL, where it came without: nobody who has a key.
 * All else of @ticket, but slot, is the caller's, who has looked whether the session may: that range of the extent has
 * blocks of the session's volume alone. The node believes it for WIRE_TICKET_KEY_MS / 2, at least.
 * Returns 0; -ENOTSUP the node takes no clients, or is not up; -EAGAIN its key is not known, or old: it was asked for;
 * -EIO. The port's thread.
 */
int mt_link_ticket(struct mt_link *link, uint64_t session_id, const struct split_subject *subject,
    struct wire_ticket *ticket);
/*
 * mt_port_volume_fence -- end tickets of @volume_id's attaches below @attach, at all nodes that take clients
 *
 * Best effort: nodes that are not up, or have LINK_FENCES_MAX of them to answer, are left out. Tickets end by themselves,
 * too. The port's thread.
 */
void mt_port_volume_fence(struct mt_port *port, uint64_t volume_id, uint64_t attach);

#endif /* CLEAVE_MIDDLETIER_EXTENT_LINK_TICKET_H */
