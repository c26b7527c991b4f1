/* SPDX-License-Identifier: Apache-2.0 */
/* direct_told.h -- what a client that reads at storage nodes says of it, with each LEASE (wire.h) */
#ifndef CLEAVE_MIDDLETIER_SESSION_DIRECT_TOLD_H
#define CLEAVE_MIDDLETIER_SESSION_DIRECT_TOLD_H

struct mt_session;
struct split_msg;
struct wire_lease;

/*
 * mt_direct_told -- @lease, a request of @session's in @msg, says how much was read, of which runs, and which copy was not
 *                   what a map says
 *
 * Reads are counted, for the port and the volume, by the client's word: nothing but what people see hangs on that. The
 * copy is verified soon, as one that a read of this gateway has found bad; one a session each MT_DIRECT_SUSPECT_NS, what
 * comes sooner is not heard. Runs that the session's scope has get hotter (index/heat.h), as by reads that are made here:
 * by the client's word, too, which can have no more of it than that frames of its own are stored for readers. As much a
 * session is heard each MT_DIRECT_HEAT_NS. No-op for a session that does not read so, for what is not of a shard that is
 * served here, and of bytes that have not their CRC.
 *
 * Returns 0, or -EPROTO and the field's name: the session breaks the protocol.
 */
int mt_direct_told(struct mt_session *session, const struct split_msg *msg,
    const struct wire_lease *lease, const char **ret_field);

#define MT_DIRECT_SUSPECT_NS NUM_MS(100) /* each is a search of a shard's extents */
#define MT_DIRECT_HEAT_NS NUM_MS(50)     /* clients tell twice in a lease, and when they leave */

#endif /* CLEAVE_MIDDLETIER_SESSION_DIRECT_TOLD_H */
