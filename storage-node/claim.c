/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c -- which gateway has a shard's epoch here
 *
 *	an epoch above that of the newest claim    it becomes the sender's; a line of the log says so
 *	the newest claim's, or the one before it   its own: let in; another gateway's: RIGHT
 *	any other, below them                      to read: RIGHT; to change or append: the fence refuses it as too old
 *
 * An epoch is given to one gateway alone, by the metadata store. So a gateway whose key was stolen, or a process that has
 * one and no business here, cannot ask for anything under the owner's epoch: it would have to come with a higher one,
 * which the owner notices with its next request, and which is a line in each node's log.
 *
 * A start knows the newest claims from the disk (claim_page.c). Where one is not there, or is older than the fence, the
 * first gateway that comes under the fence's epoch has it; the fence itself is always there, so nobody comes back under
 * an older one.
 *
 * An owner may lend an extent of its shard to another gateway, which executes a merge of it (LEND): that one is let in
 * under the owner's epoch to append there, and to read. Who it is its own key says.
 *
 * What reads without a metadata store, `cleave recover`, has no epoch of its own (store.c lets it list and read).
 */
#include "claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "claim_page.h"
#include "cleave/secure.h"
#include "fence.h"
#include "node_state.h"
#include "request.h"

static int
claim_refuse(struct node *node, const struct wire_node *wire, uint64_t gateway,
    const struct sn_claims *claims, const char *peer)
{
	SN_COUNT(node, claims_refused, 1);
	log_limited(LOG_WARN,
	    "audit: refused, another gateway has the shard's epoch shard=%" PRIu32 " epoch=%" PRIu32
	    " opcode=0x%02x by=gateway/%" PRIu64 " peer=%s owner=gateway/%" PRIu64
	    " owner_epoch=%" PRIu32 ": is its key where it should be?",
	    wire->id.shard, wire->epoch, wire->opcode, gateway, peer, claims->now.gateway,
	    claims->now.epoch);
	return MUTANT(claim_unasked) ? 0 : -ENOKEY;
}

/* @gateway is the first that comes under @wire's epoch, which is above that of all claims. */
static void
claim_take(struct node *node, const struct wire_node *wire, uint64_t gateway,
    struct sn_claims *claims, const char *peer)
{
	assert(wire->epoch > claims->now.epoch || claims->now.gateway == 0);
	if (claims->now.gateway != gateway && claims->now.gateway != 0)
		log_limited(LOG_INFO,
		    "audit: a shard has another gateway shard=%" PRIu32 " epoch=%" PRIu32
		    " by=gateway/%" PRIu64 " peer=%s before=gateway/%" PRIu64,
		    wire->id.shard, wire->epoch, gateway, peer, claims->now.gateway);
	if (claims->now.gateway != 0)
		claims->before = claims->now;
	claims->now = (struct sn_claim){ wire->epoch, gateway };
	sn_claim_page_keep(node, wire->id.shard);
	SN_COUNT(node, claims, 1);
}

/* Has the owner lent it to @gateway? */
static bool
claim_is_lent(const struct sn_claims *claims, const struct wire_node *wire, uint64_t gateway,
    bool is_look)
{
	const struct sn_loan *loan = &claims->loan;

	if (loan->claim.gateway != gateway || loan->claim.epoch != wire->epoch ||
	    claims->now.epoch != wire->epoch)
		return false;
	return is_look || MUTANT(lent_all) ||
	    (wire->opcode == WIRE_EXTENT_APPEND &&
		extent_id_pack(&loan->extent) == extent_id_pack(&wire->id));
}

void
sn_claim_lend(struct sn_request *req)
{
	struct node *node = req->node;
	const struct wire_node *wire = &req->wire;
	struct sn_claims *claims = &node->claims[wire->id.shard];
	struct sn_loan *loan = &claims->loan;
	struct wire_node_reply reply = { .rc = 0 };

	assert(wire->opcode == WIRE_EXTENT_LEND);
	/* The owner before may say something late, which is not of the newest owner's loan. */
	if (wire->epoch < sn_fence_epoch(node, wire->id.shard) || wire->epoch < claims->now.epoch) {
		sn_request_fail(req, -ESTALE);
		return;
	}
	if (!sn_fence_is_near(node, wire->id.shard, wire->epoch)) {
		sn_request_fail(req, -EOVERFLOW); /* nobody's epoch, as in change.c */
		return;
	}
	loan->claim = (struct sn_claim){ wire->epoch, wire->offset_bytes };
	loan->extent = wire->id;
	if (wire->offset_bytes != 0 && loan->told_gateway != wire->offset_bytes) {
		loan->told_gateway = wire->offset_bytes;
		log_limited(LOG_INFO,
		    "audit: merges of a shard are lent, one at a time shard=%" PRIu32
		    " epoch=%" PRIu32 " to=gateway/%" PRIu64,
		    wire->id.shard, wire->epoch, wire->offset_bytes);
	}
	sn_request_finish(req, &reply, NULL);
}

int
sn_claim_judge(struct node *node, const struct split_subject *subject, const struct wire_node *wire,
    const char *peer)
{
	bool is_look = wire->opcode == WIRE_EXTENT_READ || wire->opcode == WIRE_EXTENT_FIND ||
	    wire->opcode == WIRE_EXTENT_GATHER || wire->opcode == WIRE_EXTENT_VERIFY;
	struct sn_claims *claims;
	uint64_t gateway;
	uint32_t fence;

	if (subject == NULL || wire->opcode == WIRE_EXTENT_LIST || wire->id.shard == UINT32_MAX)
		return 0;
	assert(wire->id.shard < CLEAVE_SHARDS_MAX);
	assert(subject->role == SPLIT_ROLE_GATEWAY);
	claims = &node->claims[wire->id.shard];
	gateway = strtoull(subject->name, NULL, 10);
	fence = sn_fence_epoch(node, wire->id.shard);
	/* After a start, of an owner that is known by the fence alone: nobody may read under the epochs below it. */
	if (claims->now.epoch < fence)
		claims->now = (struct sn_claim){ .epoch = fence };
	if (wire->epoch < fence && !is_look)
		return 0; /* is refused as too old */
	if (wire->epoch > claims->now.epoch ||
	    (wire->epoch == claims->now.epoch && claims->now.gateway == 0)) {
		if (!sn_fence_is_near(node, wire->id.shard, wire->epoch))
			return is_look ? claim_refuse(node, wire, gateway, claims, peer) : 0;
		claim_take(node, wire, gateway, claims, peer);
		return 0;
	}
	if ((wire->epoch == claims->now.epoch && claims->now.gateway == gateway) ||
	    (wire->epoch == claims->before.epoch && claims->before.gateway == gateway))
		return 0;
	if (claim_is_lent(claims, wire, gateway, is_look))
		return 0;
	return claim_refuse(node, wire, gateway, claims, peer);
}
