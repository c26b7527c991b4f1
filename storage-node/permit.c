/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permit.c -- which tickets of clients a node believes in: its keys, and fences of volumes
 *
 *	gateway --TICKET_KEY--> the newest key, or another where that was told for PERMIT_KEY_NS
 *	        --VOLUME_FENCE--> fences: volume -> attach; tickets of lesser attaches have ended
 *
 *	 key  |<- told to gateways ->|<- believed, not told ->| forgotten
 *	      drawn             PERMIT_KEY_NS          2 x PERMIT_KEY_NS
 *
 * Nothing of this is on a disk: a start draws another key, and so every ticket of before it has ended. A ticket ends
 * with its key, so nobody reads by one for longer than twice PERMIT_KEY_NS, whatever it does, and whatever becomes of
 * gateways. Fences end it sooner, as a second layer: a session reads under its lease alone, and drops it by itself.
 *
 * Fences are in a hash table without deletions. When that is full all keys are forgotten, and with them every ticket,
 * so the fences may be, too; gateways ask for the key anew within seconds. `serial` counts fences: a ticket that was
 * compared with this many need not be looked up. Tickets of a serial below `floor` were believed before the table was
 * emptied.
 */
#include "permit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/secure.h"
#include "cleave/ticket.h"
#include "node_state.h"
#include "request.h"

#define PERMIT_KEY_NS NUM_MS(WIRE_TICKET_KEY_MS)
#define PERMIT_KEYS 2u /* the one that is told, and the one before it */
#define PERMIT_BUCKETS (2 * SN_FENCED_MAX)
_Static_assert((PERMIT_BUCKETS & (PERMIT_BUCKETS - 1)) == 0, "a power of two");

struct sn_permit {
	struct permit_key {
		struct wire_ticket_key key;
		uint64_t drawn_ns;
		bool is_there;
	} keys[PERMIT_KEYS];
	struct permit_fence {
		uint64_t volume_id; /* 0: free */
		uint64_t attach;    /* the least whose tickets count */
	} * fences;                 /* PERMIT_BUCKETS of them */
	uint32_t fence_count;
	uint64_t serial, floor;
};

int
sn_permit_init(struct node *node)
{
	struct sn_permit *permit;

	assert(node->permit == NULL);
	if (node->options.direct == NODE_DIRECT_OFF)
		return 0;
	permit = sn_calloc(1, sizeof(*permit));
	node->permit = permit;
	if (permit == NULL)
		return -ENOMEM;
	permit->fences = sn_calloc(PERMIT_BUCKETS, sizeof(*permit->fences));
	return permit->fences == NULL ? -ENOMEM : 0;
}

static void
permit_forget_keys(struct sn_permit *permit)
{
	for (uint32_t i = 0; i < PERMIT_KEYS; i++) {
		ticket_key_wipe(&permit->keys[i].key);
		permit->keys[i].is_there = false;
	}
}

void
sn_permit_fini(struct node *node)
{
	struct sn_permit *permit = node->permit;

	if (permit == NULL)
		return;
	permit_forget_keys(permit);
	free(permit->fences);
	free(permit);
	node->permit = NULL;
}

/* ---- who asks ---- */

/* May the gateway that has sent @req know of tickets? The key is a payload: it is told where nobody reads it on its way. */
static int
permit_judge_asker(struct sn_request *req)
{
	const struct split_qp *qp = req->msg->qp;
	struct node *node = req->node;
	bool is_key = req->wire.opcode == WIRE_TICKET_KEY;

	if (node->permit == NULL)
		return -ENOTSUP;
	if (node->options.direct == NODE_DIRECT_TRUSTED ||
	    (split_qp_subject(qp) != NULL &&
		(!is_key || split_qp_security(qp) == SPLIT_SECURITY_SEAL)))
		return 0;
	SN_COUNT(node, direct_refused, 1);
	log_limited(LOG_WARN,
	    "audit: refused, a gateway without a key, or whose connection is signed only, asks about tickets of "
	    "clients peer=%s opcode=0x%02x: start it with --key, and it or this node with --security seal; or this "
	    "node with --direct trusted",
	    split_qp_peer(qp), req->wire.opcode);
	return -EKEYREJECTED;
}

/* ---- keys ---- */

static bool
permit_is_told(const struct permit_key *key, uint64_t now_ns)
{
	return key->is_there && now_ns - key->drawn_ns < PERMIT_KEY_NS;
}

static int
permit_draw(struct node *node, uint64_t now_ns)
{
	struct sn_permit *permit = node->permit;
	struct permit_key next = { .key.number = permit->keys[0].key.number,
		.drawn_ns = now_ns,
		.is_there = true };

	if (ticket_key_draw(&next.key) != 0) {
		log_limited(LOG_ERROR,
		    "permit: no random bytes for a key of tickets, clients read "
		    "at gateways alone");
		return -EIO;
	}
	permit->keys[1] = permit->keys[0];
	permit->keys[0] = next;
	ticket_key_wipe(&next.key);
	return 0;
}

void
sn_permit_tell_key(struct sn_request *req)
{
	struct node *node = req->node;
	uint64_t now_ns = loop_now_ns(node->loop);
	struct dev_piece piece = { .ptr = req->msg->payload,
		.bytes = WIRE_TICKET_KEY_ANSWER_BYTES };
	struct wire_node_reply reply = { .length_bytes = WIRE_TICKET_KEY_ANSWER_BYTES };
	uint8_t text[WIRE_TICKET_KEY_ANSWER_BYTES];
	int rc = permit_judge_asker(req);

	assert(req->wire.opcode == WIRE_TICKET_KEY);
	if (rc == 0 && !permit_is_told(&node->permit->keys[0], now_ns))
		rc = permit_draw(node, now_ns);
	if (rc != 0) {
		sn_request_fail(req, rc);
		return;
	}
	req->msg->is_secret = true; /* the answer leaves from its memory */
	wire_ticket_key_encode(text, &node->permit->keys[0].key);
	dev_copy_from_host(node->port, piece.ptr, text, sizeof(text));
	explicit_bzero(text, sizeof(text));
	sn_request_finish(req, &reply, &piece);
}

static const struct permit_key *
permit_key_of(const struct sn_permit *permit, uint32_t number, uint64_t now_ns)
{
	for (uint32_t i = 0; i < PERMIT_KEYS; i++) {
		const struct permit_key *key = &permit->keys[i];

		if (key->is_there && key->key.number == number)
			return now_ns - key->drawn_ns < 2 * PERMIT_KEY_NS ? key : NULL;
	}
	return NULL;
}

/* ---- fences ---- */

static struct permit_fence *
permit_find(const struct sn_permit *permit, uint64_t volume_id)
{
	uint64_t at = num_mix_u64(volume_id);

	assert(volume_id != 0 && permit->fence_count < PERMIT_BUCKETS);
	while (permit->fences[at & (PERMIT_BUCKETS - 1)].volume_id != volume_id &&
	    permit->fences[at & (PERMIT_BUCKETS - 1)].volume_id != 0)
		at++;
	return &permit->fences[at & (PERMIT_BUCKETS - 1)];
}

static bool
permit_is_fenced(const struct sn_permit *permit, uint64_t volume_id, uint64_t attach)
{
	const struct permit_fence *fence = permit_find(permit, volume_id);

	return fence->volume_id != 0 && attach < fence->attach && !MUTANT(fence_volume_ignored);
}

uint64_t
sn_permit_fenced_below(const struct node *node, uint64_t volume_id)
{
	return node->permit == NULL ? 0 : permit_find(node->permit, volume_id)->attach;
}

static void
permit_empty(struct node *node)
{
	struct sn_permit *permit = node->permit;

	log_limited(LOG_INFO, "permit: fences of %u volumes are known, all tickets end",
	    SN_FENCED_MAX);
	permit_forget_keys(permit);
	memset(permit->fences, 0, PERMIT_BUCKETS * sizeof(*permit->fences));
	permit->fence_count = 0;
	permit->floor = ++permit->serial;
}

void
sn_permit_fence(struct sn_request *req)
{
	struct node *node = req->node;
	struct wire_node_reply reply = { .rc = 0 };
	struct permit_fence *fence;
	int rc = permit_judge_asker(req);

	assert(req->wire.opcode == WIRE_VOLUME_FENCE);
	if (rc != 0) {
		sn_request_fail(req, rc);
		return;
	}
	fence = permit_find(node->permit, req->wire.volume_id);
	if (fence->volume_id == 0 && node->permit->fence_count == SN_FENCED_MAX) {
		permit_empty(node);
		fence = permit_find(node->permit, req->wire.volume_id);
	}
	if (fence->volume_id == 0) {
		fence->volume_id = req->wire.volume_id;
		node->permit->fence_count++;
	}
	fence->attach = num_max(fence->attach, req->wire.offset_bytes);
	node->permit->serial++;
	SN_COUNT(node, volume_fences, 1);
	sn_request_finish(req, &reply, NULL);
}

/* ---- tickets ---- */

static int
permit_refuse(const struct wire_ticket *ticket, const char *peer)
{
	log_limited(LOG_WARN,
	    "audit: refused, a ticket was forged, or is another session's, or client's peer=%s volume=%" PRIu64
	    " attach=%" PRIu64 " extent=%u.%u.%llu",
	    peer, ticket->volume_id, ticket->attach, ticket->id.shard, ticket->id.epoch,
	    (unsigned long long)ticket->id.counter);
	return -EKEYREJECTED;
}

int
sn_permit_judge(struct node *node, const struct wire_ticket *ticket,
    const struct ticket_bearer *bearer, const char *peer, struct sn_ticket *ret_ticket)
{
	const struct permit_key *key;

	assert(node->permit != NULL && bearer->node_id == node->super.node_id);
	key = permit_key_of(node->permit, ticket->key_number, loop_now_ns(node->loop));
	if (key == NULL)
		return -EKEYREVOKED;
	if (!ticket_is_good(&key->key, bearer, ticket) && !MUTANT(ticket_unchecked))
		return permit_refuse(ticket, peer);
	if (permit_is_fenced(node->permit, ticket->volume_id, ticket->attach))
		return -EKEYREVOKED;
	*ret_ticket = (struct sn_ticket){ .id = ticket->id,
		.from_bytes = ticket->from_bytes,
		.to_bytes = ticket->to_bytes,
		.volume_id = ticket->volume_id,
		.attach = ticket->attach,
		.expires_ns = key->drawn_ns + 2 * PERMIT_KEY_NS,
		.serial = node->permit->serial };
	return 0;
}

bool
sn_permit_is_valid(struct node *node, struct sn_ticket *ticket)
{
	const struct sn_permit *permit = node->permit;

	if (ticket->expires_ns <= loop_now_ns(node->loop) || ticket->serial < permit->floor)
		return false;
	if (ticket->serial == permit->serial)
		return true;
	if (permit_is_fenced(permit, ticket->volume_id, ticket->attach))
		return false;
	ticket->serial = permit->serial;
	return true;
}
