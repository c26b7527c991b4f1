/* SPDX-License-Identifier: Apache-2.0 */
/* read_lease.h -- read leases at a port: who gets one, and who waits until it is over; LEASES.md has the argument */
#ifndef CLEAVE_MIDDLETIER_SESSION_READ_LEASE_H
#define CLEAVE_MIDDLETIER_SESSION_READ_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/message.h"
#include "cleave/wire.h"

struct mt_session;
struct mt_shard;
struct mt_volume;
struct split_msg;

#define MT_READ_LEASE_NS NUM_MS(WIRE_READ_LEASE_MS)

/*
 * mt_read_lease_stamp -- a success that is about to be sent tells its client of a lease on @shard, if it gets one
 *
 * The gateway's own lease was judged just now (I7). What is granted is noted: newer sessions wait for it.
 */
void mt_read_lease_stamp(struct mt_session *session, const struct mt_shard *shard,
    struct wire_header *header);
/*
 * mt_read_lease_request -- the request LEASE: answered here, @msg is taken
 *
 * A session that may have no leases, or a port without shards, is told of none. One that wants pages of hot blocks is
 * told of session->pages, if it knows others.
 */
void mt_read_lease_request(struct mt_session *session, struct split_msg *msg,
    const struct wire_lease *lease);
/* mt_read_lease_may_be_had -- is @session one that leases are granted to, if it asks? */
bool mt_read_lease_may_be_had(const struct mt_session *session);
/* mt_read_lease_has_maps -- may @session be told where blocks of its volume lie? It has asked for leases of it, and it has no limits. */
bool mt_read_lease_has_maps(const struct mt_session *session);
/* mt_read_lease_has_pages -- may @session's client read hot blocks of its volume by itself? */
bool mt_read_lease_has_pages(const struct mt_session *session);
/* mt_read_lease_left -- @session gets no answer any more: when its leases end is kept, though it may be freed. */
void mt_read_lease_left(struct mt_session *session);
/* mt_read_lease_wait_ns -- how long @session has to wait here for leases of older sessions (rule S); 0: not at all. */
uint64_t mt_read_lease_wait_ns(const struct mt_session *session);
/* mt_read_lease_claimed -- @shard was claimed just now: leases of the owner before may last for a while. */
void mt_read_lease_claimed(struct mt_shard *shard);
/* mt_read_lease_claim_wait_ns -- how long changes of @volume have to wait for those (rule C); 0: not at all. */
uint64_t mt_read_lease_claim_wait_ns(struct mt_shard *shard, const struct mt_volume *volume);

#endif /* CLEAVE_MIDDLETIER_SESSION_READ_LEASE_H */
