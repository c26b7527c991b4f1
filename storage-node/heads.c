/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heads.c -- heads of batches that gateways have asked for, kept in host memory
 *
 * Heads lie one behind the other in an arena that is written round and round, so the oldest are overwritten. A
 * table of pairs of slots, by a hash of the copy's incarnation and the batch's offset, says where each one is. A slot
 * is good while the arena was not written so far that its head is gone.
 *
 * A copy's durable bytes never change: an incarnation is given once by a disk, and what a take-over cuts off is not
 * written again. So nothing has to be forgotten; that the extent still reaches so far is asked by whoever comes.
 */
#include "heads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/num.h"
#include "extent.h"
#include "node_state.h"

#define HEADS_A_SLOT_BYTES                                                                         \
	512u /* of the arena, for each slot of the table: most heads are longer */

struct head_slot {
	uint64_t incarnation; /* 0: none */
	uint64_t offset_bytes;
	uint64_t position; /* of all that was ever written to the arena */
};

struct sn_heads {
	uint8_t *arena;
	uint64_t arena_bytes;
	uint64_t end; /* position of the next head */
	struct head_slot *slots;
	uint64_t slot_mask;
	void *scratch;
};

/* The first of the pair of slots in which that head is, if it is in any. */
static uint64_t
pair_of(const struct sn_heads *heads, uint64_t incarnation, uint64_t offset_bytes)
{
	uint64_t hash = (incarnation << 14 ^ offset_bytes / BATCH_ALIGN) *
	    UINT64_C(0x9e3779b97f4a7c15);

	return hash >> 32 & heads->slot_mask & ~UINT64_C(1);
}

static bool
slot_has(const struct sn_heads *heads, const struct head_slot *slot, uint64_t incarnation,
    uint64_t offset_bytes)
{
	return slot->incarnation == incarnation && slot->offset_bytes == offset_bytes &&
	    heads->end <= slot->position + heads->arena_bytes;
}

const struct sn_head *
sn_heads_get(const struct node *node, const struct sn_extent *extent, uint64_t offset_bytes)
{
	const struct sn_heads *heads = node->heads;
	uint64_t incarnation = extent->slot.incarnation;
	uint64_t at = pair_of(heads, incarnation, offset_bytes);

	assert(incarnation != 0);
	for (uint64_t i = at; i < at + 2; i++) {
		if (slot_has(heads, &heads->slots[i], incarnation, offset_bytes))
			return (const void *)(heads->arena +
			    heads->slots[i].position % heads->arena_bytes);
	}
	return NULL;
}

/* Where @bytes lie in one piece; what was there is gone. */
static uint64_t
arena_take(struct sn_heads *heads, uint64_t bytes)
{
	uint64_t position;
	uint64_t rest_bytes = heads->arena_bytes - heads->end % heads->arena_bytes;

	assert(bytes <= heads->arena_bytes);
	if (bytes > rest_bytes)
		heads->end += rest_bytes; /* the arena has any length, not a power of two */
	position = heads->end;
	heads->end += num_round_up(bytes, _Alignof(struct sn_head));
	return position;
}

const struct sn_head *
sn_heads_put(struct node *node, const struct sn_extent *extent, const struct batch_info *info,
    const void *head)
{
	struct sn_heads *heads = node->heads;
	uint32_t bytes = BATCH_HEADER_BYTES + info->desc_bytes;
	uint64_t at = pair_of(heads, extent->slot.incarnation, info->offset_bytes);
	struct head_slot *slot = &heads->slots[at];
	struct sn_head *kept;

	assert(bytes <= BATCH_HEAD_BYTES_MAX);
	if (slot[1].position < slot[0].position)
		slot++; /* the one that goes first anyway */
	*slot = (struct head_slot){ .incarnation = extent->slot.incarnation,
		.offset_bytes = info->offset_bytes,
		.position = arena_take(heads, sizeof(*kept) + bytes) };
	kept = (void *)(heads->arena + slot->position % heads->arena_bytes);
	kept->info = *info;
	memcpy(kept->bytes, head, bytes);
	return kept;
}

void *
sn_heads_scratch(const struct node *node)
{
	return node->heads->scratch;
}

int
sn_heads_init(struct node *node)
{
	uint64_t bytes = num_round_down(node->options.head_cache_bytes, HEADS_A_SLOT_BYTES);
	struct sn_heads *heads = sn_calloc(1, sizeof(*heads));
	uint64_t slot_count = 2;

	assert(node->heads == NULL);
	assert(bytes >= NODE_HEAD_CACHE_BYTES_MIN);
	node->heads = heads;
	if (heads == NULL)
		return -ENOMEM;
	while (slot_count < bytes / HEADS_A_SLOT_BYTES)
		slot_count *= 2;
	heads->arena_bytes = bytes;
	heads->slot_mask = slot_count - 1;
	heads->arena = sn_calloc(1, bytes);
	heads->slots = sn_calloc(slot_count, sizeof(*heads->slots));
	heads->scratch = sn_calloc(1, BATCH_HEAD_BYTES_MAX);
	return heads->arena == NULL || heads->slots == NULL || heads->scratch == NULL ? -ENOMEM : 0;
}

void
sn_heads_fini(struct node *node)
{
	struct sn_heads *heads = node->heads;

	if (heads == NULL)
		return;
	free(heads->arena);
	free(heads->slots);
	free(heads->scratch);
	free(heads);
	node->heads = NULL;
}
