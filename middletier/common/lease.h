/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h -- may this gateway answer for what it owns? (I7) */
#ifndef CLEAVE_MIDDLETIER_COMMON_LEASE_H
#define CLEAVE_MIDDLETIER_COMMON_LEASE_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct mt_port;
struct mt_shared;

/*
 * mt_lease_now_ns -- the clock that a lease is counted by, read anew. The loop's thread.
 *
 * It goes on while the host is suspended; the loop's other clocks, and its timers, stand still then. Whoever counts a
 * lease's time, or compares with it, asks here and nowhere else.
 */
uint64_t mt_lease_now_ns(struct loop *loop);
/*
 * mt_lease_until_ns -- the time of mt_lease_now_ns until which this gateway surely owns what it owns (I7)
 *
 * Counted from when the last renewal was sent, less what clocks may drift; 0: no lease. Any thread.
 */
uint64_t mt_lease_until_ns(const struct mt_shared *shared);
/* mt_lease_is_held -- now. Judged when an answer is sent, not when it is made. */
bool mt_lease_is_held(const struct mt_shared *shared, struct loop *loop);
/*
 * mt_port_has_lease -- mt_lease_is_held for what @port's shards own: the lease under which they took it
 *
 * Not one that main has got since then: until the port has heard of the loss and stopped its shards,
 * another gateway may own them. The port's thread.
 */
bool mt_port_has_lease(const struct mt_port *port);
/* mt_port_lease_lose -- main has lost the lease: said before it has another one. */
void mt_port_lease_lose(struct mt_port *port);
/* mt_port_lease_losses -- how often that was said. Any thread. */
uint32_t mt_port_lease_losses(const struct mt_port *port);
/* mt_port_lease_heard -- the port's shards hear of the first @count losses now. The port's thread. */
void mt_port_lease_heard(struct mt_port *port, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_COMMON_LEASE_H */
