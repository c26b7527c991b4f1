/* SPDX-License-Identifier: Apache-2.0 */
/* direct_told.h -- what a client that reads at storage nodes says of it, with each LEASE (wire.h) */
#ifndef CLEAVE_MIDDLETIER_SESSION_DIRECT_TOLD_H
#define CLEAVE_MIDDLETIER_SESSION_DIRECT_TOLD_H

struct mt_session;
struct wire_lease;

/*
 * mt_direct_told -- @lease, a request of @session's, says how much was read, and which copy was not what a map says
 *
 * Reads are counted, for the port and the volume, by the client's word: nothing but what people see hangs on that. The
 * copy is verified soon, as one that a read of this gateway has found bad; one a session each MT_DIRECT_SUSPECT_NS, what
 * comes sooner is not heard. No-op for a session that does not read so, and for an extent that is not of a shard that is
 * served here.
 */
void mt_direct_told(struct mt_session *session, const struct wire_lease *lease);

#define MT_DIRECT_SUSPECT_NS NUM_MS(100) /* each is a search of a shard's extents */

#endif /* CLEAVE_MIDDLETIER_SESSION_DIRECT_TOLD_H */
