/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.c -- a shard begins: every start is a take-over, also the same gateway's
 *
 *	CLAIMING   load the root; look what nodes hold (stale.h); store it with epoch + 1 and us as owner
 *	AGREEING   freeze the manifest extent under the new epoch, agree on its length, record that in
 *	           the root; read it; then the same, without the root, for each extent it left open
 *	           wait a moment for nodes that are about to come, where there are fewer than three
 *	OPENING    a new manifest extent: a checkpoint with all these lengths; the root moves to it
 *	REPLAYING  every log extent in order: descriptors into the index
 *	SERVING    mt_write_path_start, once main has read the volumes anew since the claim
 *
 * A length counts only once it is durable, in the root or the manifest, and nothing is replayed before
 * that: a second take-over in the middle of ours comes to the same lengths.
 *
 * Each step waits for what it needs as long as it takes, and says for what. A step never goes on with
 * less: a shard does not start without an extent that its manifest names. It stops only when it is
 * another's or not wanted here any more, when the metadata store is older than what nodes have seen, or
 * when a manifest passes its checksums and still makes no sense.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/root.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/replica.h"
#include "common/root_ops.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "extent/replay.h"
#include "gateway.h"
#include "index/index.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"
#include "port/port.h"
#include "read/read_path.h"
#include "shard/agree.h"
#include "shard/stale.h"
#include "shard/takeover.h"
#include "shard/takeover_open.h"
#include "write/write_path.h"

#define TAKEOVER_RETRY_NS NUM_MS(200)
#define TAKEOVER_CLAIMS_MAX 5u
#define TAKEOVER_STALE_MIN_NS NUM_S(1) /* between two looks at a stale root; doubled each time */
#define TAKEOVER_STALE_MAX_NS NUM_S(300)
#define TAKEOVER_REFRESH_RETRY_NS NUM_MS(50)

static void takeover_load(struct mt_takeover *takeover);
static void takeover_agree_next(struct mt_takeover *takeover);
static void takeover_check_mirror(struct mt_takeover *takeover);

bool
mt_takeover_is_stopped(const struct mt_takeover *takeover)
{
	return takeover->shard->sm.state == MT_SHARD_STOPPED;
}

void
mt_takeover_give_up(struct mt_takeover *takeover, int rc, const char *why)
{
	log_error("shard %" PRIu32 ": stopped: %s epoch=%" PRIu32 " rc=%s", takeover->shard->index,
	    why, takeover->shard->epoch, log_errno(rc));
	mt_shard_stop(takeover->shard, rc);
}

/* ---- trying again ---- */

static void
takeover_on_retry(struct loop_timer *timer, void *arg)
{
	struct mt_takeover *takeover = arg;

	(void)timer;
	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	takeover->retry_fn(takeover);
}

void
mt_takeover_retry(struct mt_takeover *takeover, void (*fn)(struct mt_takeover *), int rc)
{
	struct loop *loop = takeover->shard->port->loop;

	if (!takeover->is_retry_logged)
		log_warn("shard %" PRIu32 ": waits for %s state=%s rc=%s", takeover->shard->index,
		    rc == -ENOMEM ? "memory" : "the metadata store",
		    sm_state_name(&takeover->shard->sm), log_errno(rc));
	takeover->is_retry_logged = true;
	takeover->retry_fn = fn;
	loop_timer_start(loop, &takeover->retry_timer,
	    TAKEOVER_RETRY_NS / 2 + loop_random_below(loop, TAKEOVER_RETRY_NS));
}

/* ---- the volumes, as the old owner knew them ---- */

static void takeover_refresh(struct mt_takeover *takeover);

static void
takeover_on_refreshed(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc != 0) {
		loop_timer_start(takeover->shard->port->loop, &takeover->refresh_timer,
		    TAKEOVER_REFRESH_RETRY_NS);
		return;
	}
	takeover->is_refreshed = true;
	mt_takeover_try_serve(takeover);
}

static void
takeover_on_refresh_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	takeover_refresh(arg);
}

/*
 * Beside everything else, after the claim: an attach that the old owner knew of is in the store since
 * before it, and what is older must not be let in by us (I11).
 */
static void
takeover_refresh(struct mt_takeover *takeover)
{
	int rc = mt_shard_volumes_refresh(takeover->shard, takeover_on_refreshed, takeover);

	if (rc != 0)
		takeover_on_refreshed(rc, takeover);
}

/* ---- claiming ---- */

static void takeover_begin_agreeing(struct mt_takeover *takeover);
static void takeover_look(struct mt_takeover *takeover);
static void takeover_store_claim(struct mt_takeover *takeover);

static void
takeover_on_claimed(int rc, const struct mt_root *root, void *arg)
{
	struct mt_takeover *takeover = arg;
	struct mt_shard *shard = takeover->shard;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc == -ESTALE && ++takeover->claim_count < TAKEOVER_CLAIMS_MAX) {
		mt_takeover_retry(takeover, takeover_load, rc);
		return;
	}
	if (rc == -ESTALE || rc == -EBUSY) {
		/* It is another's, who lives: main says when it is worth another try. */
		shard->is_claimed = takeover->was_ours;
		log_debug("shard %" PRIu32 ": not claimed rc=%s", shard->index, log_errno(rc));
		mt_shard_stop(shard, -EREMCHG);
		return;
	}
	if (rc != 0) {
		mt_takeover_retry(takeover, takeover_store_claim, rc);
		return;
	}
	takeover->is_retry_logged = false;
	shard->root = *root;
	shard->epoch = root->epoch;
	shard->next_counter = 1;
	takeover->claimed_ns = loop_now_ns(shard->port->loop);
	log_info("shard %" PRIu32 ": claimed epoch=%" PRIu32, shard->index, shard->epoch);
	takeover_refresh(takeover);
	takeover_begin_agreeing(takeover);
	mt_write_path_claimed(shard);
	mt_read_path_claimed(shard);
	mt_port_on_shard(shard);
}

static void
takeover_store_claim(struct mt_takeover *takeover)
{
	int rc = mt_root_claim(takeover->shard, &takeover->wanted, takeover_on_claimed, takeover);

	takeover->shard->is_claimed = true;
	if (rc != 0)
		mt_takeover_retry(takeover, takeover_store_claim, rc);
}

/* ---- claiming: does any node know more? ---- */

/* What was found stale is looked at again when it has changed, or when it has been left alone for long. */
static bool
takeover_is_known_stale(const struct mt_shard *shard, const struct mt_root *root)
{
	return shard->stale_count > 0 && mt_root_is_equal(root, &shard->stale_root) &&
	    loop_now_ns(shard->port->loop) < shard->stale_until_ns;
}

static void
takeover_on_looked(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (rc != 0) {
		mt_takeover_on_stale(takeover->shard);
		return;
	}
	takeover->shard->stale_count = 0;
	takeover_store_claim(takeover);
}

/* Before the claim: an epoch that cannot be used is not raised. */
static void
takeover_look(struct mt_takeover *takeover)
{
	struct mt_stale_check *check = &takeover->stale;
	int rc;

	mt_stale_fini(check); /* of a claim that somebody else was before */
	check->shard = takeover->shard;
	check->root = takeover->looked;
	check->epoch = takeover->wanted.epoch;
	check->fn = takeover_on_looked;
	check->arg = takeover;
	rc = mt_stale_start(check);
	if (rc != 0)
		mt_takeover_retry(takeover, takeover_look, rc);
}

static void
takeover_claim(struct mt_takeover *takeover, const struct mt_root *root)
{
	struct mt_port *port = takeover->shard->port;
	struct mt_root *wanted = &takeover->wanted;

	takeover->looked = *wanted = *root;
	if (takeover_is_known_stale(takeover->shard, root)) {
		mt_shard_stop(takeover->shard, -ESTALE);
		return;
	}
	if (root->epoch >= EXTENT_EPOCH_MAX) {
		mt_takeover_give_up(takeover, -EOVERFLOW, "there are no epochs left");
		return;
	}
	takeover->was_ours = root->gateway_id == port->settings->gateway_id &&
	    root->boot_id == port->settings->boot_id;
	wanted->epoch = root->epoch + 1;
	wanted->is_released = false;
	wanted->gateway_id = port->settings->gateway_id;
	wanted->boot_id = port->settings->boot_id;
	memcpy(wanted->port_address, port->address, sizeof(wanted->port_address));
	takeover_look(takeover);
}

static void
takeover_on_loaded(int rc, const struct mt_root *root, void *arg)
{
	static const struct mt_root none = { 0 };
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc == 0)
		takeover_claim(takeover, root);
	else if (rc == -ENOENT)
		takeover_claim(takeover, &none);
	else if (rc == -EBADMSG)
		mt_takeover_give_up(takeover, rc, "its root cannot be understood");
	else
		mt_takeover_retry(takeover, takeover_load, rc);
}

static void
takeover_load(struct mt_takeover *takeover)
{
	struct mt_shard *shard = takeover->shard;
	int rc = -ENOMEM;

	if (shard->block_index == NULL)
		shard->block_index = mt_index_create(shard);
	if (shard->block_index != NULL)
		rc = mt_root_load(shard, takeover_on_loaded, takeover);

	if (rc != 0)
		mt_takeover_retry(takeover, takeover_load, rc);
}

/* ---- agreeing: the manifest extent ---- */

static void takeover_read_manifest(struct mt_takeover *takeover);
static void takeover_agree_manifest(struct mt_takeover *takeover);
static void takeover_store_length(struct mt_takeover *takeover);

static void
takeover_on_length_stored(int rc, const struct mt_root *root, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc == -ESTALE) {
		mt_takeover_give_up(takeover, rc, "another gateway has taken it over");
		return;
	}
	if (rc != 0) {
		mt_takeover_retry(takeover, takeover_store_length, rc);
		return;
	}
	takeover->is_retry_logged = false;
	takeover->shard->root = *root;
	takeover_read_manifest(takeover);
}

static void
takeover_store_length(struct mt_takeover *takeover)
{
	int rc =
	    mt_root_store(takeover->shard, &takeover->wanted, takeover_on_length_stored, takeover);

	if (rc != 0)
		mt_takeover_retry(takeover, takeover_store_length, rc);
}

static void
takeover_on_manifest_agreed(struct mt_agree *agree, int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	takeover->is_agreeing = false;
	if (rc != 0) {
		mt_takeover_on_stale(takeover->shard);
		return;
	}
	takeover->wanted = takeover->shard->root;
	takeover->wanted.manifest_sealed_bytes = agree->agreed_bytes;
	takeover->wanted.manifest_replica_count = agree->replica_count;
	memcpy(takeover->wanted.manifest_replicas, agree->replicas, sizeof(agree->replicas));
	mt_agree_fini(agree);
	takeover_store_length(takeover);
}

static int
takeover_start_agree(struct mt_takeover *takeover, const struct mt_state_extent *extent,
    mt_agree_fn fn)
{
	struct mt_agree *agree = &takeover->agree;
	int rc;

	agree->shard = takeover->shard;
	agree->id = extent->id;
	agree->kind = extent->kind;
	memcpy(agree->replicas, extent->replicas, sizeof(agree->replicas));
	agree->replica_count = extent->replica_count;
	/* One wait for all that are away, not one an extent. */
	agree->deadline_ns = takeover->claimed_ns +
	    takeover->shard->port->settings->node_timeout_ns;
	agree->fn = fn;
	agree->arg = takeover;
	rc = mt_agree_start(agree);
	takeover->is_agreeing = rc == 0;
	return rc;
}

static void
takeover_agree_manifest(struct mt_takeover *takeover)
{
	const struct mt_root *root = &takeover->shard->root;
	struct mt_state_extent extent = { .id = root->manifest,
		.kind = EXTENT_MANIFEST,
		.replica_count = root->manifest_replica_count };
	int rc;

	memcpy(extent.replicas, root->manifest_replicas, sizeof(extent.replicas));
	rc = takeover_start_agree(takeover, &extent, takeover_on_manifest_agreed);
	if (rc != 0)
		mt_takeover_retry(takeover, takeover_agree_manifest, rc);
}

static void
takeover_begin_agreeing(struct mt_takeover *takeover)
{
	const struct mt_root *root = &takeover->shard->root;

	sm_move(&takeover->shard->sm, MT_SHARD_AGREEING);
	if (!root->has_manifest)
		takeover_agree_next(takeover); /* a new shard: there is nothing to agree upon */
	else if (root->manifest_sealed_bytes == MT_ROOT_OPEN)
		takeover_agree_manifest(takeover);
	else
		takeover_read_manifest(takeover);
}

/* ---- agreeing: reading the manifest ---- */

/* One that failed may have reads out: its memory stays until the take-over goes. */
void
mt_takeover_end_replay(struct mt_takeover *takeover, int rc)
{
	takeover->is_replaying = false;
	if (rc == 0)
		mt_replay_fini(&takeover->replay);
	else
		mt_replay_stop(&takeover->replay);
}

static void
takeover_on_mirror_checked(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc == -ESTALE)
		mt_takeover_give_up(takeover, rc, "the metadata store is stale");
	else if (rc != 0)
		mt_takeover_retry(takeover, takeover_check_mirror, rc);
	else
		takeover_agree_next(takeover);
}

/* An older copy of the store may have epochs that pass: those of its last owner. Its ids do not. */
static void
takeover_check_mirror(struct mt_takeover *takeover)
{
	int rc = mt_shard_mirror_check(takeover->shard, &takeover->state,
	    takeover_on_mirror_checked, takeover);

	if (rc != 0)
		mt_takeover_retry(takeover, takeover_check_mirror, rc);
}

static void
takeover_on_manifest_read(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	takeover->is_replaying = false;
	if (rc == -ESTALE)
		mt_takeover_on_stale(takeover->shard);
	else if (rc == -ENOMEM)
		mt_takeover_retry(takeover, takeover_read_manifest, rc);
	else if (rc != 0)
		mt_takeover_give_up(takeover, rc, "its manifest cannot be understood");
	else if (!takeover->state.is_complete)
		mt_takeover_give_up(takeover, -EBADMSG, "its manifest has no whole checkpoint");
	else if (takeover->state.epoch > takeover->shard->epoch)
		mt_takeover_give_up(takeover, -ESTALE,
		    "the metadata store is stale: its manifest is of a later epoch");
	else if (takeover->state.shard_count != 0)
		takeover_check_mirror(takeover);
	else
		takeover_agree_next(takeover);
}

static void
takeover_read_manifest(struct mt_takeover *takeover)
{
	const struct mt_root *root = &takeover->shard->root;
	struct mt_manifest_read *read = &takeover->read;
	int rc;

	mt_manifest_state_fini(&takeover->state);
	read->head = (struct mt_replay_source){ .id = root->manifest,
		.kind = EXTENT_MANIFEST,
		.replica_count = root->manifest_replica_count,
		.length_bytes = root->manifest_sealed_bytes };
	memcpy(read->head.replicas, root->manifest_replicas, sizeof(root->manifest_replicas));
	takeover->replay.shard = takeover->shard;
	read->replay = &takeover->replay;
	read->state = &takeover->state;
	read->fn = takeover_on_manifest_read;
	read->arg = takeover;
	rc = mt_manifest_read_start(read);
	takeover->is_replaying = rc == 0;
	if (rc != 0)
		mt_takeover_retry(takeover, takeover_read_manifest, rc);
}

/* ---- agreeing: extents that were open ---- */

static void
takeover_on_extent_agreed(struct mt_agree *agree, int rc, void *arg)
{
	struct mt_takeover *takeover = arg;
	struct mt_state_extent *extent;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	takeover->is_agreeing = false;
	if (rc != 0) {
		mt_takeover_on_stale(takeover->shard);
		return;
	}
	extent = &takeover->state.extents[takeover->state_at++];
	extent->is_sealed = true;
	extent->sealed_bytes = agree->agreed_bytes;
	extent->replica_count = agree->replica_count;
	memcpy(extent->replicas, agree->replicas, sizeof(extent->replicas));
	mt_agree_fini(agree);
	takeover_agree_next(takeover);
}

/*
 * A shard's first extents are on as many nodes as there are: later, two copies must answer a take-over,
 * and one of two that is away holds it up. So nodes that may be about to come are waited for, as
 * long as replicas are in agree.c. Until when; 0: nobody is.
 */
static uint64_t
takeover_nodes_until_ns(const struct mt_takeover *takeover)
{
	struct mt_port *port = takeover->shard->port;
	uint64_t timeout_ns = port->settings->node_timeout_ns, until_ns = 0;

	if (mt_placement_domain_count(port) >= MT_REPLICAS_MAX)
		return 0;
	for (uint32_t i = 0; i < port->link_count; i++) {
		const struct mt_link *link = &port->links[i];

		if (!mt_link_is_up(link))
			until_ns = num_max(until_ns,
			    num_min(takeover->claimed_ns, link->changed_ns) + timeout_ns);
	}
	return until_ns;
}

static void
takeover_try_open(struct mt_takeover *takeover)
{
	struct loop *loop = takeover->shard->port->loop;
	uint64_t until_ns = takeover_nodes_until_ns(takeover), now_ns = loop_now_ns(loop);

	takeover->is_awaiting_nodes = now_ns < until_ns;
	if (takeover->is_awaiting_nodes) {
		takeover->retry_fn = takeover_try_open;
		loop_timer_start(loop, &takeover->retry_timer, until_ns - now_ns);
		return;
	}
	loop_timer_stop(loop, &takeover->retry_timer);
	sm_move(&takeover->shard->sm, MT_SHARD_OPENING);
	takeover->state_at = 0;
	mt_takeover_open(takeover);
}

static void
takeover_agree_next(struct mt_takeover *takeover)
{
	struct mt_manifest_state *state = &takeover->state;
	int rc;

	while (takeover->state_at < state->extent_count &&
	    state->extents[takeover->state_at].is_sealed)
		takeover->state_at++;
	if (takeover->state_at == state->extent_count) {
		takeover_try_open(takeover);
		return;
	}
	rc = takeover_start_agree(takeover, &state->extents[takeover->state_at],
	    takeover_on_extent_agreed);
	if (rc != 0)
		mt_takeover_retry(takeover, takeover_agree_next, rc);
}

/* ---- a newer owner ---- */

static void takeover_check_stale(struct mt_takeover *takeover);

/* Said once; then it is left alone for longer and longer, unless the root changes. */
static void
takeover_stop_stale(struct mt_takeover *takeover, const struct mt_root *root)
{
	struct mt_shard *shard = takeover->shard;
	uint64_t wait_ns = TAKEOVER_STALE_MIN_NS << num_min(shard->stale_count, 16);

	if (shard->stale_count == 0)
		log_error(
		    "shard %" PRIu32
		    ": stopped: the metadata store is stale: %s. Is --meta the right "
		    "directory? If the newer store is lost, run cleave recover. epoch=%" PRIu32,
		    shard->index,
		    takeover->stale.text[0] != '\0' ? takeover->stale.text
						    : "a node knows a newer owner",
		    root->epoch);
	shard->stale_count++;
	shard->stale_root = *root;
	shard->stale_until_ns = loop_now_ns(shard->port->loop) +
	    num_min(wait_ns, TAKEOVER_STALE_MAX_NS);
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
	if (mt_takeover_is_stopped(takeover))
		return;
	if (rc != 0 && rc != -ENOENT && rc != -EBADMSG)
		mt_takeover_retry(takeover, takeover_check_stale, rc);
	else if (shard->sm.state == MT_SHARD_CLAIMING)
		takeover_on_looked_again(takeover, rc == 0 ? root : NULL);
	else if (rc == 0 && (root->epoch != shard->epoch || root->boot_id != shard->root.boot_id))
		mt_takeover_give_up(takeover, -ESTALE, "another gateway has taken it over");
	else
		takeover_store_back(takeover, rc == 0 ? root : NULL);
}

static void
takeover_check_stale(struct mt_takeover *takeover)
{
	int rc = mt_root_load(takeover->shard, takeover_on_stale_checked, takeover);

	if (rc != 0)
		mt_takeover_retry(takeover, takeover_check_stale, rc);
}

void
mt_takeover_on_stale(struct mt_shard *shard)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (mt_takeover_is_stopped(takeover) || takeover->is_checking_stale)
		return;
	takeover->is_checking_stale = true;
	takeover_check_stale(takeover);
}

/* ---- its life ---- */

static void
takeover_init(struct mt_takeover *takeover, struct mt_shard *shard)
{
	*takeover = (struct mt_takeover){ .magic = TAKEOVER_MAGIC, .shard = shard };
	mt_manifest_state_init(&takeover->state);
	loop_timer_init(&takeover->retry_timer, takeover_on_retry, takeover);
	loop_timer_init(&takeover->refresh_timer, takeover_on_refresh_timer, takeover);
	loop_timer_init(&takeover->progress_timer, mt_takeover_on_progress, takeover);
}

int
mt_takeover_init(struct mt_shard *shard)
{
	struct mt_takeover *takeover = mt_calloc(1, sizeof(*takeover));

	if (takeover == NULL)
		return -ENOMEM;
	takeover_init(takeover, shard);
	shard->takeover = takeover;
	return 0;
}

void
mt_takeover_start(struct mt_shard *shard)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(shard->sm.state == MT_SHARD_IDLE);
	takeover->started_ns = loop_now_ns(shard->port->loop);
	sm_move(&shard->sm, MT_SHARD_CLAIMING);
	takeover_load(takeover);
}

void
mt_takeover_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	struct mt_takeover *takeover = shard->takeover;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	mt_stale_on_link(&takeover->stale, link, is_up);
	if (takeover->is_agreeing)
		mt_agree_on_link(&takeover->agree, link, is_up);
	if (takeover->is_replaying)
		mt_replay_on_link(&takeover->replay, link, is_up);
	if (takeover->is_awaiting_nodes && !mt_takeover_is_stopped(takeover))
		takeover_try_open(takeover);
}

void
mt_takeover_stop(struct mt_shard *shard)
{
	struct mt_takeover *takeover = shard->takeover;
	struct loop *loop = shard->port->loop;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	loop_timer_stop(loop, &takeover->retry_timer);
	loop_timer_stop(loop, &takeover->refresh_timer);
	loop_timer_stop(loop, &takeover->progress_timer);
	mt_stale_stop(&takeover->stale);
	if (takeover->is_agreeing)
		mt_agree_stop(&takeover->agree);
	if (takeover->is_replaying)
		mt_replay_stop(&takeover->replay);
}

uint64_t
mt_takeover_steps(const struct mt_shard *shard)
{
	const struct mt_takeover *takeover = shard->takeover;

	return takeover == NULL
	    ? 0
	    : ((uint64_t)takeover->state_at << 20) + takeover->replay.done_bytes / NUM_MIB(1);
}

bool
mt_takeover_is_quiet(const struct mt_shard *shard)
{
	const struct mt_takeover *takeover = shard->takeover;

	return mt_stale_is_quiet(&takeover->stale) && mt_agree_is_quiet(&takeover->agree) &&
	    mt_replay_is_quiet(&takeover->replay);
}

static void
takeover_fini(struct mt_takeover *takeover)
{
	struct loop *loop = takeover->shard->port->loop;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	loop_timer_stop(loop, &takeover->retry_timer);
	loop_timer_stop(loop, &takeover->refresh_timer);
	loop_timer_stop(loop, &takeover->progress_timer);
	mt_stale_fini(&takeover->stale);
	mt_agree_fini(&takeover->agree);
	mt_replay_fini(&takeover->replay);
	mt_manifest_read_fini(&takeover->read);
	mt_manifest_state_fini(&takeover->state);
	mt_takeover_open_fini(takeover);
	takeover->magic = 0;
}

void
mt_takeover_reset(struct mt_shard *shard)
{
	assert(mt_takeover_is_quiet(shard));
	takeover_fini(shard->takeover);
	takeover_init(shard->takeover, shard);
}

void
mt_takeover_fini(struct mt_shard *shard)
{
	if (shard->takeover == NULL)
		return;
	takeover_fini(shard->takeover);
	mt_free(shard->takeover);
	shard->takeover = NULL;
}
