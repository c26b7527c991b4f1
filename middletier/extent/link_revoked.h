/* SPDX-License-Identifier: Apache-2.0 */
/* link_revoked.h -- lists of revoked keys, from a port to its nodes */
#ifndef CLEAVE_MIDDLETIER_EXTENT_LINK_REVOKED_H
#define CLEAVE_MIDDLETIER_EXTENT_LINK_REVOKED_H

#include <stdint.h>

#include "cleave/secure.h"

struct mt_link;
struct mt_port;

/* Nodes, and other gateways, whose connections to a port a key would end. */
struct mt_doubts {
	uint32_t count;
	char first[SPLIT_SUBJECT_TEXT_BYTES_MAX];
};

/*
 * mt_port_rekey -- the port shows @key from now on, and believes whom @key believes: split_port_rekey
 *
 * Connections that end for it are events. Its lists go to every node that is up, and to others when they are. The
 * port's thread.
 */
void mt_port_rekey(struct mt_port *port, const struct split_key *key);
/* mt_port_doubts_take -- whom of those who serve data mt_port_rekey would cut off; it changes nothing. The port's thread. */
void mt_port_doubts_take(const struct mt_port *port, const struct split_key *key,
    struct mt_doubts *ret_doubts);
/* mt_link_revoked_send -- where the node may lack the port's lists: a no-op else, and while they are on their way. */
void mt_link_revoked_send(struct mt_link *link);
/* mt_link_revoked_lost -- the connection is gone: the process that comes next may know nothing. */
void mt_link_revoked_lost(struct mt_link *link);
/* mt_port_revoked_fini -- of a port whose connections are about to be closed, which ends what is on its way. */
void mt_port_revoked_fini(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_EXTENT_LINK_REVOKED_H */
