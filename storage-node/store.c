/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c -- the metadata store whose gateways a node obeys
 *
 * A cluster's metadata store has an identity, random, made with the cluster and anew by a recovery. What a
 * node holds belongs to that store: to any other its extents are garbage. A gateway says in its hello
 * which store it has, and which one of before that replaces.
 *
 *	the node has    the gateway has      then
 *	none            any                  the node takes the gateway's, durably, and then lets it in
 *	the same        -                    it is let in
 *	another         replaces that one    as with none
 *	another         -                    it is refused
 *	any             none                 it may list and read: a cluster that is made, or a recovery
 *
 * The identity lies in fence page 0. It is enforced from memory at once; the gateway that brought it waits
 * until both copies of the page have it, so that a release that knows none of it starts from neither.
 * Connections from before a change stay, and each of their requests is refused.
 *
 * Failure: when a page cannot be written, the gateways that wait are turned away, and come again. A disk that
 * takes no more writes has nothing to lose but reads: there memory suffices.
 */
#include "store.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "node_state.h"
#include "refusal.h"

static void
store_refuse(struct node *node, const char *peer, const struct store_id *theirs)
{
	char text[STORE_ID_TEXT_BYTES], ours_text[STORE_ID_TEXT_BYTES];
	struct store_id ours = sn_fence_store_id(node);

	assert(!store_id_is_equal(theirs, &ours));
	SN_COUNT(node, stores_refused, 1);
	if (!sn_refusal_is_news(node, peer, -ENOTUNIQ, theirs->high ^ theirs->low))
		return;
	store_id_text(theirs, text);
	store_id_text(&ours, ours_text);
	log_limited(LOG_WARN,
	    "server: refused, its gateway is of another metadata store peer=%s store_id=%s ours=%s: start "
	    "gateways with this cluster's store alone; cleave recover makes a lost one anew",
	    peer, text, ours_text);
}

/* ---- taking one ---- */

static void
store_finish(struct node *node, int rc)
{
	struct loop_link *link;
	struct store_id ours = sn_fence_store_id(node);
	char text[STORE_ID_TEXT_BYTES];

	assert(node->store.is_adopting);
	assert(rc <= 0);
	node->store.is_adopting = false;
	store_id_text(&ours, text);
	if (rc == 0)
		log_info("store: obeys store_id=%s", text);
	else
		log_error(
		    "store: the store_id cannot be written, its gateways are sent away store_id=%s "
		    "rc=%s: they come again; look for the disk's errors in the kernel's log",
		    text, log_errno(rc));
	if (node->sm.state != NODE_READY)
		rc = -EHOSTDOWN;
	while ((link = list_pop_front(&node->store.joins)) != NULL) {
		struct sn_join *join = LIST_ENTRY(link, struct sn_join, link);

		list_push_back(&node->store.free_joins, &join->link);
		if (rc == 0)
			node->store.accept(node, join->qp, &join->store, join->level);
		else
			split_qp_reject(join->qp, rc);
	}
}

static void
store_on_written(struct sn_fence_waiter *waiter, int rc)
{
	struct node *node = NUM_CONTAINER_OF(waiter, struct node, store.waiter);

	assert(rc <= 0);
	assert(node->store.is_adopting);
	if (rc == 0 && !sn_fence_store_is_durable(node))
		sn_fence_store(node, waiter, store_on_written); /* the other copy */
	else
		store_finish(node, rc);
}

static void
store_adopt(struct node *node, const struct store_id *theirs)
{
	struct store_id ours = sn_fence_store_id(node);
	char text[STORE_ID_TEXT_BYTES], ours_text[STORE_ID_TEXT_BYTES];

	assert(!store_id_is_zero(theirs));
	if (!store_id_is_equal(&ours, theirs)) {
		store_id_text(theirs, text);
		store_id_text(&ours, ours_text);
		if (store_id_is_zero(&ours))
			log_info("store: the first gateway brings store_id=%s", text);
		else
			log_warn("store: a recovered metadata store replaces the one of before "
				 "store_id=%s before=%s",
			    text, ours_text);
		sn_fence_set_store_id(node, theirs);
	}
	if (node->is_read_only || node->store.is_adopting)
		return;
	node->store.is_adopting = true;
	sn_fence_store(node, &node->store.waiter, store_on_written);
}

int
sn_store_meet(struct node *node, const struct wire_hello *hello, const char *peer)
{
	struct store_id theirs = { hello->session_id, hello->attach };
	struct store_id replaced = { hello->volume_id, hello->incarnation };
	struct store_id ours = sn_fence_store_id(node);
	bool is_ours = store_id_is_equal(&ours, &theirs);

	assert(hello->role == WIRE_ROLE_GATEWAY);
	assert(node->sm.state == NODE_READY);
	if (store_id_is_zero(&theirs) || MUTANT(identity_ignored))
		return 0;
	if (!is_ours && !store_id_is_zero(&ours) && !store_id_is_equal(&ours, &replaced)) {
		store_refuse(node, peer, &theirs);
		return -ENOTUNIQ;
	}
	if (!is_ours || !sn_fence_store_is_durable(node))
		store_adopt(node, &theirs);
	return node->is_read_only || sn_fence_store_is_durable(node) ? 0 : 1;
}

void
sn_store_join(struct node *node, struct split_qp *qp, uint8_t level)
{
	struct loop_link *link = list_pop_front(&node->store.free_joins);
	struct sn_join *join;

	assert(node->store.is_adopting); /* its end tells who waits */
	if (link == NULL) {
		split_qp_reject(qp, -EBUSY);
		return;
	}
	join = LIST_ENTRY(link, struct sn_join, link);
	join->qp = qp;
	join->store = sn_fence_store_id(node);
	join->level = level;
	list_push_back(&node->store.joins, &join->link);
}

/* ---- asking ---- */

bool
sn_store_allows(struct node *node, const struct store_id *theirs, enum wire_opcode opcode,
    const char *peer)
{
	struct store_id ours = sn_fence_store_id(node);

	CHECK_OBJ(node, SN_NODE_MAGIC);
	if (store_id_is_equal(theirs, &ours) || store_id_is_zero(&ours) || MUTANT(identity_ignored))
		return true;
	if (store_id_is_zero(theirs) && (opcode == WIRE_EXTENT_LIST || opcode == WIRE_EXTENT_READ))
		return true;
	store_refuse(node, peer, theirs);
	return false;
}

void
sn_store_text(const struct node *node, char out[STORE_ID_TEXT_BYTES])
{
	struct store_id ours = sn_fence_store_id(node);

	store_id_text(&ours, out);
}

/* ---- its life ---- */

void
sn_store_init(struct node *node, sn_store_accept_fn accept)
{
	assert(accept != NULL);
	assert(node->store.accept == NULL);
	node->store.accept = accept;
	list_init(&node->store.joins);
	list_init(&node->store.free_joins);
	for (uint32_t i = 0; i < SN_JOINS_MAX; i++)
		list_push_back(&node->store.free_joins, &node->store.all_joins[i].link);
}

void
sn_store_stop(struct node *node)
{
	struct loop_link *link;

	assert(node->sm.state == NODE_STOPPING);
	while ((link = list_pop_front(&node->store.joins)) != NULL) {
		struct sn_join *join = LIST_ENTRY(link, struct sn_join, link);

		list_push_back(&node->store.free_joins, &join->link);
		split_qp_reject(join->qp, -EHOSTDOWN);
	}
}
