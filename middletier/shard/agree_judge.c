/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree_judge.c -- what the answers of an extent's replicas prove, together: agree.c says by which rules
 *
 * Nothing is asked here, and no state is moved but that of replicas which turn out to be damaged.
 */
#include "shard/agree_judge.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "shard/agree.h"
#include "shard/agree_replica.h"

#define AGREE_PROOF_COUNT 2u /* a lone answer proves nothing */

const char *
mt_agree_find_length(struct mt_agree *agree)
{
	const struct mt_agree_replica *longest = NULL, *sealed = NULL;
	uint64_t mark_bytes = 0;

	assert(agree->replica_count > 0 && agree->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		const struct mt_agree_replica *replica = &agree->states[i];

		mark_bytes = num_max(mark_bytes, replica->mark_bytes);
		if (!mt_agree_is_good(replica))
			continue;
		if (longest == NULL ||
		    (replica->length_bytes > longest->length_bytes) != MUTANT(cut_to_shortest))
			longest = replica;
		if (replica->is_sealed &&
		    (sealed == NULL || replica->length_bytes > sealed->length_bytes))
			sealed = replica;
	}
	if (longest == NULL)
		return "no copy is undamaged";
	if (sealed != NULL)
		longest = sealed;
	if (mark_bytes > longest->length_bytes)
		return "no undamaged copy reaches what was acknowledged";
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		const struct mt_agree_replica *replica = &agree->states[i];

		if (mt_agree_is_good(replica) && replica->length_bytes == longest->length_bytes &&
		    replica->chain_crc != longest->chain_crc)
			return "its copies are of one length and differ";
	}
	agree->agreed_bytes = longest->length_bytes;
	return NULL;
}

static uint64_t
agree_mark_bytes(const struct mt_agree *agree)
{
	uint64_t mark_bytes = 0;

	for (uint32_t i = 0; i < agree->replica_count; i++)
		mark_bytes = num_max(mark_bytes, agree->states[i].mark_bytes);
	return mark_bytes;
}

void
mt_agree_damage_short(struct mt_agree *agree)
{
	uint64_t mark_bytes = agree_mark_bytes(agree);

	assert(mark_bytes <= agree->agreed_bytes);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		struct mt_agree_replica *replica = &agree->states[i];

		if (mt_agree_is_good(replica) && replica->length_bytes < mark_bytes)
			mt_agree_damage(replica, "it ends below what was acknowledged", -EUCLEAN);
		else if (mt_agree_is_good(replica) && replica->is_sealed &&
		    replica->length_bytes < agree->agreed_bytes)
			mt_agree_damage(replica, "it was sealed shorter than another", -EUCLEAN);
	}
}

struct mt_agree_replica *
mt_agree_find(struct mt_agree *agree, bool has_it)
{
	assert(agree->replica_count <= MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		struct mt_agree_replica *replica = &agree->states[i];

		if (mt_agree_is_good(replica) &&
		    (replica->length_bytes >= agree->agreed_bytes) == has_it)
			return replica;
	}
	return NULL;
}

uint32_t
mt_agree_count(const struct mt_agree *agree, enum mt_agree_replica_state state)
{
	uint32_t count = 0;

	assert(state < MT_AGREE_REPLICA_STATE_NR);
	for (uint32_t i = 0; i < agree->replica_count; i++)
		count += agree->states[i].sm.state == state;
	return count;
}

uint32_t
mt_agree_count_wanted(const struct mt_agree *agree)
{
	uint32_t count = 0;

	assert(agree->shard->port->settings->min_replicas > 0);
	for (uint32_t i = 0; i < agree->replica_count; i++)
		count += !agree->replicas[i].is_damaged;
	if (agree->shard->port->settings->min_replicas == 1 || MUTANT(lone_answer))
		return 1;
	return (uint32_t)num_min(count, AGREE_PROOF_COUNT);
}

/* Copies that were made here count: the length was proven before. */
bool
mt_agree_is_proven(const struct mt_agree *agree)
{
	assert(agree->wanted_count <= AGREE_PROOF_COUNT);
	for (uint32_t i = 0; i < agree->replica_count; i++) {
		if (mt_agree_is_good(&agree->states[i]) && agree->states[i].is_sealed)
			return true;
	}
	return mt_agree_count(agree, MT_AGREE_FROZEN) >= agree->wanted_count;
}

bool
mt_agree_is_enough(const struct mt_agree *agree)
{
	uint32_t good_count = mt_agree_count(agree, MT_AGREE_FROZEN);

	assert(agree->replica_count > 0);
	return good_count == agree->replica_count ||
	    good_count >= agree->shard->port->settings->min_replicas ||
	    agree->agreed_bytes <= agree_mark_bytes(agree);
}
