/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover_stale.c -- a node knows a newer owner of the shard: whose is it?
 *
 * The root is read again, beside whatever step of the take-over is at work, and the shard stops either way:
 * it is another's, or the metadata store is older than what the nodes have seen.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/root.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/root_ops.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "common/shard_state.h"
#include "shard/takeover.h"
#include "shard/takeover_stale.h"

#define TAKEOVER_STALE_MIN_NS NUM_S(1) /* between two looks at a stale root; doubled each time */
#define TAKEOVER_STALE_MAX_NS NUM_S(300)

/* Said once; then it is left alone for longer and longer, unless the root changes. */
static void
takeover_stop_stale(struct mt_takeover *takeover, const struct mt_root *root)
{
	struct mt_shard *shard = takeover->shard;
	struct mt_stale_root *stale = shard->stale_root;
	uint64_t wait_ns = TAKEOVER_STALE_MIN_NS << num_min(stale->count, 16);

	assert(!mt_takeover_is_stopped(takeover));
	if (stale->count == 0)
		log_error(
		    "shard %" PRIu32
		    ": stopped: the metadata store is stale: %s. Is --meta the right "
		    "directory? If the newer store is lost, run cleave recover. epoch=%" PRIu32,
		    shard->index,
		    takeover->stale.text[0] != '\0' ? takeover->stale.text
						    : "a node knows a newer owner",
		    root->epoch);
	stale->count++;
	stale->root = *root;
	stale->until_ns = loop_now_ns(shard->port->loop) + num_min(wait_ns, TAKEOVER_STALE_MAX_NS);
	mt_shard_stop(shard, -ESTALE);
}

static void
takeover_on_stored_back(int rc, const struct mt_root *root, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (!mt_takeover_is_stopped(takeover))
		takeover_stop_stale(takeover, rc == 0 ? root : &takeover->wanted);
}

/*
 * The claim is taken back, best effort: claim by claim an old store's epochs would else come to stand
 * above all that the nodes know, and nobody could tell any more that it is old. Nothing was made under
 * that epoch yet.
 */
static void
takeover_store_back(struct mt_takeover *takeover, const struct mt_root *root)
{
	const struct mt_shard *shard = takeover->shard;
	int rc = -ENOENT;

	assert(takeover->shard->sm.state > MT_SHARD_CLAIMING);
	if (root != NULL && shard->sm.state == MT_SHARD_AGREEING) {
		takeover->wanted = *root;
		takeover->wanted.epoch = (uint32_t)num_max(shard->epoch - 1, 1);
		takeover->wanted.is_released = true;
		rc = mt_root_store(takeover->shard, &takeover->wanted, takeover_on_stored_back,
		    takeover);
	}
	if (rc != 0)
		takeover_on_stored_back(rc, NULL, takeover);
}

/* Nothing was claimed. A root that is another one by now had an owner meanwhile, of whom the nodes know. */
static void
takeover_on_looked_again(struct mt_takeover *takeover, const struct mt_root *root)
{
	static const struct mt_root none = { 0 };

	assert(takeover->shard->sm.state == MT_SHARD_CLAIMING);
	if (root == NULL)
		root = &none;
	if (mt_root_is_equal(root, &takeover->looked))
		takeover_stop_stale(takeover, root);
	else
		mt_shard_stop(takeover->shard, -EREMCHG);
}

static void
takeover_on_stale_checked(int rc, const struct mt_root *root, void *arg)
{
	struct mt_takeover *takeover = arg;
	const struct mt_shard *shard = takeover->shard;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(takeover->is_checking_stale);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc != 0 && rc != -ENOENT && rc != -EBADMSG)
		mt_takeover_pause(takeover, &takeover->stale_timer, rc);
	else if (shard->sm.state == MT_SHARD_CLAIMING)
		takeover_on_looked_again(takeover, rc == 0 ? root : NULL);
	else if (rc == 0 && (root->epoch != shard->epoch || root->boot_id != shard->root->boot_id))
		mt_takeover_give_up(takeover, -ESTALE, "another gateway has taken it over");
	else
		takeover_store_back(takeover, rc == 0 ? root : NULL);
}

void
mt_takeover_check_stale(struct mt_takeover *takeover)
{
	int rc = mt_root_load(takeover->shard, takeover_on_stale_checked, takeover);

	assert(takeover->is_checking_stale);
	if (rc != 0)
		mt_takeover_pause(takeover, &takeover->stale_timer, rc);
}

void
mt_takeover_on_stale_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	mt_takeover_check_stale(arg);
}
