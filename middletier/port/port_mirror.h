/* SPDX-License-Identifier: Apache-2.0 */
/* port_mirror.h -- heads of batches, for take-overs: a port's own go to its heirs, other gateways' come here */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_MIRROR_H
#define CLEAVE_MIDDLETIER_PORT_PORT_MIRROR_H

struct mt_heirs;
struct mt_port;
struct mt_session;
struct split_msg;

/* mt_port_mirror_init -- the port opens: memory as settings->mirror_bytes says, or none. Returns 0; -ENOMEM. */
int mt_port_mirror_init(struct mt_port *port);
/* mt_port_mirror_fini -- its queue pairs are gone. Also without init. */
void mt_port_mirror_fini(struct mt_port *port);
/*
 * mt_port_mirror_heirs -- main tells a port where its shards go without this gateway
 *
 * Copied; posts: the last one counts. A no-op where they are as the last time, and where settings->mirror_bytes is 0.
 * Padding counts: it is zeros. Main's thread.
 */
void mt_port_mirror_heirs(struct mt_port *port, const struct mt_heirs *heirs);
/*
 * mt_port_mirror_take -- a MIRROR_HEADS has come: keep what is in it, and answer
 *
 * Returns 0: @msg is gone; -EPROTO and what was wrong: @msg is the caller's, who closes @session. The port's thread.
 */
int mt_port_mirror_take(struct mt_session *session, struct split_msg *msg, const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_MIRROR_H */
