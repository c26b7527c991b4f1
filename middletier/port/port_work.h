/* SPDX-License-Identifier: Apache-2.0 */
/* port_work.h -- merges that gateways execute for each other: where a port's own may go, and jobs that come to it */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_WORK_H
#define CLEAVE_MIDDLETIER_PORT_PORT_WORK_H

#include <stdbool.h>

struct mt_away_names;
struct mt_port;
struct mt_session;
struct split_msg;

/* mt_port_work_init -- the port opens, and has its merges: --offload, --worker-jobs. 0; -ENOMEM: mt_port_work_fini. */
int mt_port_work_init(struct mt_port *port);
/* mt_port_work_fini -- nothing comes back any more. Also without init. */
void mt_port_work_fini(struct mt_port *port);
/* mt_port_work_stop -- the port stops: jobs end, which their owners hear, and none is taken. */
void mt_port_work_stop(struct mt_port *port);
/*
 * mt_port_work_names -- main tells a port which ports of other gateways may execute merges
 *
 * Copied; posts: the last ones count. A no-op where they are as the last time, and without --offload. Padding, and what is
 * behind an address, counts: it is zeros. Main's thread.
 */
void mt_port_work_names(struct mt_port *port, const struct mt_away_names *names);
/* mt_port_work_is_message -- is it about jobs? */
bool mt_port_work_is_message(const struct split_msg *msg);
/*
 * mt_port_work_take -- @msg, about jobs, has come on a connection of CLEAVE_LEVEL_WORKERS; it is taken, and answered
 *
 * 0; -EPROTO and *@ret_field: it is none that could come from a gateway, and still the caller's.
 */
int mt_port_work_take(struct mt_session *session, struct split_msg *msg, const char **ret_field);
/* mt_port_work_left -- a session's connection has ended: jobs of its peer end. */
void mt_port_work_left(struct mt_session *session);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_WORK_H */
