/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_lend.c -- nodes are told that another gateway executes a merge
 *
 *	       begin              all that were told have answered        end
 *	IDLE ---------> TELLING -----------------------------------> LENT -----> IDLE
 *	 ^                 | end, before that                                     ^
 *	 +-----------------+------------------------------------------------------+
 *
 * What is told at the end is sent behind what was told at the beginning, over the same connection, which keeps the order;
 * where it does not come through, the loan ends with the owner's epoch, and with the next one. A node of a source that
 * cannot be told is left out: then the one who executes hears from it that he may not, and fails.
 */
#include "merge/merge_lend.h"

#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "base/sm.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/limits.h"
#include "common/port.h"
#include "extent/call.h"
#include "extent/node_link.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"

#define MERGE_LEND_MAGIC 0x444e454cu /* "LEND" */

enum lend_state { LEND_IDLE, LEND_TELLING, LEND_LENT, LEND_STATE_NR };

static const struct sm_state lend_table[LEND_STATE_NR] = {
	[LEND_IDLE] = { "idle", SM_TO(LEND_TELLING), SM_INITIAL },
	[LEND_TELLING] = { "telling", SM_TO(LEND_LENT) | SM_TO(LEND_IDLE), 0 },
	[LEND_LENT] = { "lent", SM_TO(LEND_IDLE), 0 },
};

/* A node, which is told at the beginning, and at the end. */
struct lend_node {
	struct merge_lend *lend;
	struct mt_call begin, end;
	uint32_t node_id;
	bool is_target; /* without it there is no loan */
	bool is_told;
};

struct merge_lend {
	uint32_t magic;
	struct sm sm;
	struct mt_port *port;
	void (*fn)(int rc, void *arg);
	void *arg;
	struct extent_id extent;
	uint32_t epoch;
	uint64_t gateway;
	struct lend_node nodes[MT_NODES_MAX];
	uint32_t count;
	uint32_t waiting_count, out_count; /* answers: at the beginning; of both */
	int rc;
};

/* ---- messages ---- */

static void
lend_on_begun(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct lend_node *node = arg;
	struct merge_lend *lend = node->lend;

	(void)call;
	(void)reply;
	CHECK_OBJ(lend, MERGE_LEND_MAGIC);
	assert(msg == NULL && lend->out_count > 0 && lend->waiting_count > 0);
	lend->out_count--;
	lend->waiting_count--;
	if (rc != 0 && node->is_target)
		lend->rc = rc;
	if (lend->sm.state != LEND_TELLING || lend->waiting_count > 0)
		return;
	sm_move(&lend->sm, LEND_LENT);
	lend->fn(lend->rc, lend->arg);
}

static void
lend_on_ended(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct lend_node *node = arg;

	(void)call;
	(void)rc; /* it was told, no more */
	(void)reply;
	assert(msg == NULL && node->lend->out_count > 0);
	node->lend->out_count--;
}

/* Tell @node by @call that gateway @gateway may. */
static int
lend_tell(struct lend_node *node, struct mt_call *call, uint64_t gateway, mt_call_fn fn)
{
	struct merge_lend *lend = node->lend;
	struct mt_link *link = mt_port_link(lend->port, node->node_id);
	int rc;

	if (link == NULL || !mt_link_is_up(link) || link->agreed_level < CLEAVE_LEVEL_LEND)
		return -ENOTCONN;
	*call = (struct mt_call){ .fn = fn, .arg = node };
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_LEND,
		.id = lend->extent,
		.offset_bytes = gateway,
		.epoch = lend->epoch };
	rc = mt_link_call(link, call);
	lend->out_count += rc == 0;
	return rc;
}

/* ---- who is told ---- */

static void
lend_add(struct merge_lend *lend, uint32_t node_id, bool is_target)
{
	uint32_t at = 0;

	while (at < lend->count && lend->nodes[at].node_id != node_id)
		at++;
	if (at == MT_NODES_MAX)
		return; /* more than there are: it is told by none, and refuses */
	if (at == lend->count)
		lend->nodes[lend->count++] = (struct lend_node){ .lend = lend, .node_id = node_id };
	lend->nodes[at].is_target |= is_target;
}

static void
lend_take(struct merge_lend *lend, const struct mt_recipe *recipe)
{
	lend->count = 0;
	lend->extent = mt_recipe_extent(recipe, recipe->head.target).id;
	lend->epoch = recipe->head.epoch;
	for (uint32_t i = 0; i < recipe->head.extent_count; i++) {
		struct mt_recipe_extent extent = mt_recipe_extent(recipe, i);

		for (uint32_t k = 0; k < extent.replica_count; k++)
			lend_add(lend, extent.nodes[k], i == recipe->head.target);
	}
}

int
mt_merge_lend_begin(struct merge_lend *lend, const struct mt_recipe *recipe, uint64_t gateway)
{
	CHECK_OBJ(lend, MERGE_LEND_MAGIC);
	assert(mt_merge_lend_is_quiet(lend) && gateway != 0);
	lend_take(lend, recipe);
	lend->gateway = gateway;
	lend->rc = 0;
	sm_move(&lend->sm, LEND_TELLING);
	for (uint32_t i = 0; i < lend->count; i++) {
		struct lend_node *node = &lend->nodes[i];
		int rc = lend_tell(node, &node->begin, gateway, lend_on_begun);

		node->is_told = rc == 0;
		lend->waiting_count += rc == 0;
		if (rc != 0 && node->is_target) {
			mt_merge_lend_end(lend);
			return -ENOTCONN;
		}
	}
	return 0;
}

void
mt_merge_lend_end(struct merge_lend *lend)
{
	CHECK_OBJ(lend, MERGE_LEND_MAGIC);
	if (lend->sm.state == LEND_IDLE)
		return;
	sm_move(&lend->sm, LEND_IDLE);
	for (uint32_t i = 0; i < lend->count; i++) {
		struct lend_node *node = &lend->nodes[i];

		if (node->is_told)
			(void)lend_tell(node, &node->end, 0, lend_on_ended); /* or it has gone */
		node->is_told = false;
	}
}

bool
mt_merge_lend_is_quiet(const struct merge_lend *lend)
{
	return lend->sm.state == LEND_IDLE && lend->out_count == 0;
}

/* ---- its life ---- */

struct merge_lend *
mt_merge_lend_create(struct mt_port *port, void (*fn)(int rc, void *arg), void *arg)
{
	struct merge_lend *lend = mt_calloc(1, sizeof(*lend));

	assert(fn != NULL);
	if (lend == NULL)
		return NULL;
	lend->magic = MERGE_LEND_MAGIC;
	lend->port = port;
	lend->fn = fn;
	lend->arg = arg;
	sm_init(&lend->sm, "merge_lend", lend_table, LEND_IDLE, port->index);
	return lend;
}

void
mt_merge_lend_destroy(struct merge_lend *lend)
{
	if (lend == NULL)
		return;
	CHECK_OBJ(lend, MERGE_LEND_MAGIC);
	lend->magic = 0;
	mt_free(lend);
}
