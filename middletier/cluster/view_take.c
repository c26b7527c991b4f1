/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_take.c -- when a shard that shall be ours is tried again
 *
 * A shard that is not yet as it shall be here makes the take timer run: it reads all keys anew and tells the ports
 * again. A third of a lease is enough where nothing has happened. A claim that was refused, since what was read was old
 * (its owner came back in the same moment), is tried again after TAKE_REFUSED_NS, which doubles with each failure of
 * that shard in a row, up to a third of a lease.
 */
#include "cluster/view_take.h"

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"

#define TAKE_PART 3u
#define TAKE_REFUSED_NS NUM_MS(20)
#define TAKE_REFUSED_COUNT_MAX 32u /* doublings: longer than any lease */

static uint32_t
take_shard_count(const struct mt_member *member)
{
	return member->gateway->cluster.shard_count;
}

bool
mt_view_is_wanted(const struct mt_member *member, uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	return (member->wanted[shard / 64] & UINT64_C(1) << shard % 64) != 0;
}

/* The shard's owner serves it, as far as we can see. */
static bool
take_is_served(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];

	assert(index < take_shard_count(member));
	if (mt_view_is_wanted(member, index))
		return shard->own_state == MT_SHARD_SERVING;
	return shard->has_root && !shard->is_released &&
	    shard->gateway_id != member->gateway->options.gateway_id &&
	    mt_view_is_live(member, shard->gateway_id, shard->boot_id);
}

bool
mt_view_is_idle(enum mt_shard_state state)
{
	assert(state < MT_SHARD_STATE_NR);
	return state == MT_SHARD_IDLE || state == MT_SHARD_STOPPED;
}

/* The shard is not yet as it shall be here, and may need another word to the ports. */
static bool
take_is_unsettled(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];
	const struct mt_gateway_options *options = &member->gateway->options;
	const struct mt_member_peer *peer = mt_view_pick(member, index);
	bool is_idle = mt_view_is_idle(shard->own_state);

	assert(index < take_shard_count(member));
	if (peer != NULL && peer->gateway_id == options->gateway_id)
		return is_idle;
	return is_idle && shard->has_root && !shard->is_released &&
	    shard->gateway_id == options->gateway_id && shard->boot_id == options->boot_id;
}

/* The take timer fires after @wait_ns, or sooner if it shall already. */
static void
take_within(struct mt_member *member, uint64_t wait_ns)
{
	struct loop *loop = member->gateway->options.loop;
	uint64_t at_ns = loop_now_ns(loop) + wait_ns;

	assert(member->sm.state == MT_MEMBER_UP);
	if (member->is_taking && member->take_ns <= at_ns)
		return;
	loop_timer_start(loop, &member->take_timer, wait_ns);
	member->take_ns = at_ns;
	member->is_taking = true;
}

/* A wanted shard's life has ended before it served: what was read of it may be old. */
void
mt_view_on_refused(struct mt_member *member, struct mt_member_shard *shard)
{
	uint64_t wait_ns = member->gateway->options.lease_ns / TAKE_PART;

	assert(mt_view_is_idle(shard->own_state));
	if (member->sm.state != MT_MEMBER_UP || !member->is_watching)
		return; /* about to stop: nothing is taken any more */
	wait_ns = num_min(wait_ns, TAKE_REFUSED_NS << shard->refused_count);
	if (shard->refused_count < TAKE_REFUSED_COUNT_MAX)
		shard->refused_count++;
	take_within(member, wait_ns);
}

void
mt_view_check(struct mt_member *member)
{
	uint32_t count = take_shard_count(member);
	bool is_settled = true, is_served = true;
	struct loop *loop = member->gateway->options.loop;
	uint64_t wait_ns = member->gateway->options.lease_ns / TAKE_PART;

	if (member->sm.state != MT_MEMBER_UP || !member->has_view || !member->is_watching)
		return;
	for (uint32_t i = 0; i < count; i++) {
		is_settled = is_settled && !take_is_unsettled(member, i);
		is_served = is_served && take_is_served(member, i);
	}
	if (is_settled) {
		loop_timer_stop(loop, &member->take_timer);
		member->is_taking = false;
	} else if (!member->is_taking)
		take_within(member, wait_ns / 2 + loop_random_below(loop, wait_ns + 1));
	if (!is_served || member->is_ready_told)
		return;
	member->is_ready_told = true;
	member->on_all_served(member->gateway);
}
