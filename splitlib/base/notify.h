/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h -- telling a service manager that a daemon serves: systemd's Type=notify */
#ifndef CLEAVE_BASE_NOTIFY_H
#define CLEAVE_BASE_NOTIFY_H

#include <stdint.h>

/*
 * notify_ready -- send READY=1 to $NOTIFY_SOCKET, if there is one
 *
 * A datagram to a unix socket, a path or "@NAME" in the abstract space. Logs a warning that begins with @noun
 * when it cannot be sent: the manager goes on waiting then.
 * Returns: 1 sent; 0 nobody wants to know; -EINVAL not an address; else what the socket said.
 * Threads: any; does not block.
 * Source:  sd_notify(3), "Standalone Implementations"
 */
int notify_ready(const char *noun);
/*
 * notify_status -- the same with STATUS=@text, one line, which systemctl status shows
 *
 * @extend_ns: not 0: from now on the manager waits at least so long for READY=1, however long it has waited.
 */
int notify_status(const char *noun, const char *text, uint64_t extend_ns);
/* notify_stopping -- the same with STOPPING=1: it ends, on purpose. */
int notify_stopping(const char *noun);
/* notify_alive -- the same with WATCHDOG=1: base/watchdog.h says when. */
int notify_alive(const char *noun);
/*
 * notify_watchdog_ns -- how long the manager waits for notify_alive before it ends this process; 0: it does not look
 *
 * From $WATCHDOG_USEC, where $WATCHDOG_PID names this process or nobody. What is no such number is logged, and is 0.
 * Source: sd_watchdog_enabled(3)
 */
uint64_t notify_watchdog_ns(const char *noun);

#endif /* CLEAVE_BASE_NOTIFY_H */
