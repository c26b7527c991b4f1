/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h -- read leases of a volume's session: until when it may read by itself */
#ifndef CLEAVE_VM_CLIENT_LEASE_H
#define CLEAVE_VM_CLIENT_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/lease_read.h"
#include "cleave/message.h"
#include "cleave/split.h"
#include "cleave/wire.h"

struct cleave_volume;
struct connection;
struct leases;

/* A LEASE that tells of runs that were read. */
struct lease_message {
	struct wire_header header;
	uint8_t reads[WIRE_LEASE_READS_BYTES_MAX];
};
_Static_assert(offsetof(struct lease_message, reads) == WIRE_HEADER_BYTES,
    "it is sent in one piece");

/* LEASE on a connection. */
struct connection_lease {
	bool is_sending;               /* the split library holds send and header */
	bool is_out;                   /* not answered yet */
	bool must_return;              /* is_sending: a RETURN is next */
	uint64_t request_id;           /* is_out */
	uint64_t sent_boot_ns;         /* is_out */
	struct wire_header header;     /* of one without a payload */
	struct lease_message *message; /* of one with: direct_tell.c; NULL: there was none yet */
	struct split_send send;
};
/*
 * leases_want -- from here on @volume, which is OPEN, has leases, as far as it may
 *
 * They are renewed as long as it is open; @while_used, and never wanted otherwise: for LEASE_USED_NS after leases_use.
 * Returns 0; -ENOMEM.
 */
int leases_want(struct cleave_volume *volume, bool while_used);
/* leases_use -- something is to be read by them. */
void leases_use(struct cleave_volume *volume);
void leases_fini(struct cleave_volume *volume);
/* leases_hold -- at this moment no other session's change of what is in @shard, under @epoch, has been acknowledged. */
bool leases_hold(const struct cleave_volume *volume, uint32_t shard, uint32_t epoch);
/* leases_hold_any -- the same, under any epoch. */
bool leases_hold_any(const struct cleave_volume *volume, uint32_t shard);
/* leases_now_ns -- the clock that they are counted by; 0: @volume wants none. */
uint64_t leases_now_ns(const struct cleave_volume *volume);
/* leases_on_reply -- to a request that was sent at @sent_boot_ns: it may tell of a lease. */
void leases_on_reply(struct cleave_volume *volume, uint32_t shard,
    const struct wire_io_reply *reply, uint64_t sent_boot_ns);
/* leases_on_ready, leases_on_closed -- of a connection. */
void leases_on_ready(struct connection *connection);
void leases_on_closed(struct connection *connection);
/* leases_forget -- @connection is freed: nothing of it is being sent. */
void leases_forget(struct connection *connection);
/* leases_on_message -- an answer to LEASE; false: it breaks the protocol. */
bool leases_on_message(struct connection *connection, struct split_msg *msg);
/* leases_return -- @volume is being closed. True: answers are waited for, volume_wake follows. */
bool leases_return(struct cleave_volume *volume);

#endif /* CLEAVE_VM_CLIENT_LEASE_H */
