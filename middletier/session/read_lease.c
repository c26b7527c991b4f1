/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_lease.c -- read leases at a port: who gets one, and who waits until it is over; LEASES.md has the argument
 *
 *	answer with LEASED --> session->lease.end_ns --(the session leaves)--> port->session.lease_ends
 *	                              |                                            |
 *	                         RETURN: over                    a newer session waits (rule S)
 *
 * Only the writing session of a volume gets leases: a reader beside it (attach 0) would have to be waited for at each
 * change. Who waits at another owner counts from its claim (rule C), for it knows nothing of what was granted before.
 *
 * lease_ends is a fixed table, by a hash of the volume. Where two volumes meet in it both wait for the later end: at
 * most as long as one lease.
 */
#include "session/read_lease.h"

#include <errno.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/volume.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "common/lease.h"
#include "common/port.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "session/session.h"

#define LEASE_BYTES_AT_ONCE 1536u /* whole entries, and whole keys of pages */

_Static_assert(DEV_REMOTE_BYTES == WIRE_LEASE_PAGE_BYTES, "a page's key");

/* ---- who gets one ---- */

bool
mt_read_lease_may_be_had(const struct mt_session *session)
{
	return session->hello.volume_id != 0 && !mt_session_is_reader(session) &&
	    session->volume.reads != MT_READS_GATEWAY;
}

/*
 * Limits are kept by ports (port/throttle.c), and nobody keeps those of who reads past them: nodes know none, and a
 * client may be anybody's. So a volume that has limits is read at its gateway for as long as it has them.
 */
static bool
lease_is_limited(const struct mt_session *session)
{
	return session->limits_tag != 0;
}

static bool
lease_is_granted(const struct mt_session *session, const struct mt_shard *shard)
{
	assert(!session->lease.is_asked || mt_read_lease_may_be_had(session));
	return session->lease.is_asked && !lease_is_limited(session) &&
	    mt_session_is_live(session) && shard->sm.state == MT_SHARD_SERVING;
}

bool
mt_read_lease_has_maps(const struct mt_session *session)
{
	return session->lease.is_asked && !lease_is_limited(session) &&
	    session->volume.reads == MT_READS_DIRECT;
}

bool
mt_read_lease_has_pages(const struct mt_session *session)
{
	return mt_read_lease_may_be_had(session) && session->volume.reads == MT_READS_HOT;
}

static void
lease_note(struct mt_session *session)
{
	session->lease.end_ns = mt_lease_now_ns(session->port->loop) + MT_READ_LEASE_NS;
}

void
mt_read_lease_stamp(struct mt_session *session, const struct mt_shard *shard,
    struct wire_header *header)
{
	assert(header->status == 0 && shard->port == session->port);
	if (!lease_is_granted(session, shard))
		return;
	lease_note(session);
	header->flags |= WIRE_FLAG_LEASED;
}

/* ---- the answer to LEASE ---- */

/* The entries of an answer: a few at a time go to its payload, behind the head. */
struct lease_list {
	struct split_port *split;
	dev_ptr payload; /* where the next ones go */
	uint8_t bytes[LEASE_BYTES_AT_ONCE];
	uint32_t held_bytes;  /* in bytes */
	uint32_t count;       /* entries */
	uint32_t total_bytes; /* in the payload */
	uint32_t crc;         /* of those */
};

static void
lease_list_flush(struct lease_list *list)
{
	uint32_t bytes = list->held_bytes;

	if (bytes == 0)
		return;
	dev_copy_from_host(list->split, list->payload, list->bytes, bytes);
	list->payload = dev_ptr_add(list->payload, bytes);
	list->crc = crc32c(list->crc, list->bytes, bytes);
	list->total_bytes += bytes;
	list->held_bytes = 0;
}

/* Where the next @bytes go. */
static uint8_t *
lease_list_room(struct lease_list *list, uint32_t bytes)
{
	if (list->held_bytes + bytes > sizeof(list->bytes))
		lease_list_flush(list);
	list->held_bytes += bytes;
	return list->bytes + list->held_bytes - bytes;
}

static void
lease_list_add(struct lease_list *list, const struct mt_shard *shard)
{
	wire_lease_entry_encode(lease_list_room(list, WIRE_LEASE_ENTRY_BYTES),
	    &(struct wire_lease_entry){ shard->index, shard->epoch });
	list->count++;
}

/* All shards here that are leased to @session now. */
static void
lease_list_fill(struct lease_list *list, const struct mt_session *session)
{
	const struct mt_port *port = session->port;

	if (port->shard_by_number == NULL || !mt_port_has_lease(port))
		return;
	for (uint32_t i = 0; i < port->cluster->shard_count; i++) {
		const struct mt_shard *shard = port->shard_by_number[i];

		if (shard != NULL && lease_is_granted(session, shard))
			lease_list_add(list, shard);
	}
}

/* The pages that @session's client may read by itself, if it knows of others. */
static void
lease_list_pages(struct lease_list *list, const struct mt_session *session,
    const struct wire_lease *lease, struct wire_lease_head *head)
{
	const struct mt_session_pages *pages = session->pages;

	if (!lease->wants_hot || !session->lease.is_asked || pages == NULL)
		return;
	head->generation = pages->generation;
	if (pages->generation == lease->generation)
		return;
	head->page_count = pages->count;
	for (uint32_t i = 0; i < pages->count; i++)
		dev_remote_encode(lease_list_room(list, DEV_REMOTE_BYTES), &pages->remotes[i]);
}

static void
lease_answer(struct mt_session *session, struct split_msg *msg, const struct wire_lease *lease)
{
	struct wire_lease answer = { .request_id = lease->request_id,
		.is_return = lease->is_return,
		.wants_hot = lease->wants_hot,
		.is_reply = true };
	struct wire_lease_head head = { .lease_ms = WIRE_READ_LEASE_MS };
	uint8_t bytes[WIRE_LEASE_HEAD_BYTES];
	struct dev_piece piece = { msg->payload, 0 };
	struct lease_list list = { .split = session->port->split,
		.payload = dev_ptr_add(msg->payload, WIRE_LEASE_HEAD_BYTES) };
	struct wire_header header;

	lease_list_fill(&list, session);
	head.shard_count = list.count;
	lease_list_pages(&list, session, lease, &head);
	lease_list_flush(&list);
	if (list.count > 0)
		lease_note(session);
	wire_lease_head_encode(bytes, &head);
	dev_copy_from_host(session->port->split, msg->payload, bytes, sizeof(bytes));
	piece.bytes = WIRE_LEASE_HEAD_BYTES + list.total_bytes;
	answer.payload_crc =
	    crc32c_combine(crc32c(0, bytes, sizeof(bytes)), list.crc, list.total_bytes);
	wire_lease_encode(&header, &answer);
	split_msg_reply(msg, &header, &piece, 1, NULL, NULL);
}

/* ---- rule S: a newer session waits ---- */

static struct mt_lease_end *
lease_end_of(const struct mt_session *session)
{
	return &session->port->session
		    .lease_ends[num_mix_u64(session->hello.volume_id) % MT_LEASE_ENDS];
}

/* An end of several volumes is nobody's; and who has come without a volume, whatever attach it says, has none. */
static bool
lease_end_is_own(const struct mt_lease_end *end, const struct mt_session *session)
{
	return end->volume_id != 0 && end->volume_id == session->hello.volume_id &&
	    end->attach == session->hello.attach;
}

void
mt_read_lease_left(struct mt_session *session)
{
	struct mt_lease_end *end = lease_end_of(session);
	uint64_t now_ns;

	session->lease.is_asked = false;
	if (session->lease.end_ns == 0)
		return;
	now_ns = mt_lease_now_ns(session->port->loop);
	if (session->lease.end_ns <= now_ns)
		return;
	if (end->end_ns <= now_ns) {
		*end = (struct mt_lease_end){ session->lease.end_ns, session->hello.volume_id,
			session->hello.attach };
		return;
	}
	if (!lease_end_is_own(end, session))
		end->volume_id = 0; /* of several */
	end->end_ns = num_max(end->end_ns, session->lease.end_ns);
}

uint64_t
mt_read_lease_wait_ns(const struct mt_session *session)
{
	const struct mt_lease_end *end = lease_end_of(session);
	uint64_t now_ns;

	assert(session->hello.volume_id != 0);
	/* Leases of its own are no matter: the same client counts them. */
	if (end->end_ns == 0 || lease_end_is_own(end, session) || MUTANT(read_lease_unwaited))
		return 0;
	now_ns = mt_lease_now_ns(session->port->loop);
	return end->end_ns <= now_ns ? 0 : end->end_ns - now_ns;
}

/* ---- LEASE: asked for, or returned ---- */

/* The client reads by itself no more, and takes none that is still under way: nobody waits. */
static void
lease_return(struct mt_session *session)
{
	struct mt_lease_end *end = lease_end_of(session);

	session->lease.is_asked = false;
	session->lease.end_ns = 0;
	if (lease_end_is_own(end, session))
		end->end_ns = 0;
}

void
mt_read_lease_request(struct mt_session *session, struct split_msg *msg,
    const struct wire_lease *lease)
{
	assert(!lease->is_reply && mt_session_is_live(session));
	if (lease->is_return)
		lease_return(session);
	else
		session->lease.is_asked = mt_read_lease_may_be_had(session);
	lease_answer(session, msg, lease);
}

/* ---- rule C: a new owner waits ---- */

void
mt_read_lease_claimed(struct mt_shard *shard)
{
	shard->leases_over_ns = mt_lease_now_ns(shard->port->loop) + MT_READ_LEASE_NS;
}

uint64_t
mt_read_lease_claim_wait_ns(struct mt_shard *shard, const struct mt_volume *volume)
{
	uint64_t now_ns;

	if (shard->leases_over_ns == 0 || volume->reads == MT_READS_GATEWAY ||
	    MUTANT(read_lease_outlives_claim))
		return 0;
	now_ns = mt_lease_now_ns(shard->port->loop);
	if (now_ns < shard->leases_over_ns)
		return shard->leases_over_ns - now_ns;
	shard->leases_over_ns = 0;
	return 0;
}
