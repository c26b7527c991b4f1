/* SPDX-License-Identifier: Apache-2.0 */
/* port_report.h -- what a port tells main of its own life: failed, stopped, once each at most */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_REPORT_H
#define CLEAVE_MIDDLETIER_PORT_PORT_REPORT_H

struct mt_port;

/* All on the port's thread, or on main before that runs: host->on_failed, on_stopped follow on main. */

/* mt_port_fail -- the port can serve nothing: the first reason is told, cut where too long; later ones are not. */
void __attribute__((format(printf, 2, 3)))
mt_port_fail(struct mt_port *port, const char *format, ...);
/* mt_port_tell_stopped -- STOPPED: the port may be closed. */
void mt_port_tell_stopped(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_REPORT_H */
