/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.c -- which writes of a volume are on their way, so that overlapping ones keep their order
 *
 * A message of at most 64 KiB touches one or two aligned regions of 64 KiB: it is listed in the hash
 * buckets of these. Longer ones (discards, zero writes) are in a list of their own, that everybody
 * looks through; it is nearly always empty. What asks for the holes of a segment on behalf of a change is there with
 * all that the change covers of it. All lists are in order of submission, so a search from
 * the newest end stops at the first hit.
 */
#include "base/check.h"
#include "base/num.h"
#include "internal.h"

void
overlap_init(struct overlap *overlap)
{
	assert(overlap != NULL);
	for (uint32_t i = 0; i < OVERLAP_BUCKETS; i++)
		list_init(&overlap->buckets[i]);
	list_init(&overlap->wide);
}

static bool
is_wide(const struct message *message)
{
	assert(message->span_bytes > 0);
	return message->span_bytes > CLIENT_REGION_BYTES;
}

static uint64_t
first_region(const struct message *message)
{
	assert(message->offset_bytes % CLEAVE_BLOCK_BYTES == 0);
	return message->offset_bytes / CLIENT_REGION_BYTES;
}

static uint64_t
last_region(const struct message *message)
{
	assert(message->span_bytes > 0);
	return (message->offset_bytes + message->span_bytes - 1) / CLIENT_REGION_BYTES;
}

static struct loop_link *
bucket_of(struct overlap *overlap, uint64_t region)
{
	return &overlap->buckets[num_mix_u64(region) % OVERLAP_BUCKETS];
}

void
overlap_add(struct overlap *overlap, struct message *message)
{
	uint64_t first = first_region(message), last = last_region(message);

	assert(message->is_write);
	assert(!list_contains(&message->nodes[0].link) && !list_contains(&message->nodes[1].link));
	message->nodes[0].message = message->nodes[1].message = message;
	if (is_wide(message)) {
		list_push_back(&overlap->wide, &message->nodes[0].link);
		return;
	}
	assert(last - first <= 1);
	list_push_back(bucket_of(overlap, first), &message->nodes[0].link);
	if (last != first)
		list_push_back(bucket_of(overlap, last), &message->nodes[1].link);
}

void
overlap_remove(struct overlap *overlap, struct message *message)
{
	assert(!list_contains(&message->nodes[1].link) || list_contains(&message->nodes[0].link));
	(void)overlap;
	assert(message->nodes[0].message == message || !list_contains(&message->nodes[0].link));
	list_remove(&message->nodes[0].link);
	list_remove(&message->nodes[1].link);
}

static bool
messages_overlap(const struct message *a, const struct message *b)
{
	assert(a != b && a->span_bytes > 0 && b->span_bytes > 0);
	return a->offset_bytes < b->offset_bytes + b->span_bytes &&
	    b->offset_bytes < a->offset_bytes + a->span_bytes;
}

/* The newest one in @list that is older than @message and overlaps it, if newer than @best. */
static struct message *
newer_of(struct loop_link *list, const struct message *message, struct message *best)
{
	assert(best == NULL || best->order < message->order);
	for (struct loop_link *link = list->prev; link != list; link = link->prev) {
		struct message *other = LIST_ENTRY(link, struct overlap_node, link)->message;

		if (best != NULL && other->order <= best->order)
			break;
		if (other->order < message->order && messages_overlap(other, message))
			return other;
	}
	return best;
}

struct message *
overlap_find(struct overlap *overlap, const struct message *message)
{
	struct message *best = newer_of(&overlap->wide, message, NULL);

	assert(message->is_write);
	if (is_wide(message)) {
		for (uint32_t i = 0; i < OVERLAP_BUCKETS; i++)
			best = newer_of(&overlap->buckets[i], message, best);
		return best;
	}
	best = newer_of(bucket_of(overlap, first_region(message)), message, best);
	return newer_of(bucket_of(overlap, last_region(message)), message, best);
}

static bool
list_meets(const struct loop_link *list, const struct message *message)
{
	for (const struct loop_link *link = list->next; link != list; link = link->next) {
		if (messages_overlap(LIST_ENTRY(link, struct overlap_node, link)->message, message))
			return true;
	}
	return false;
}

bool
overlap_meets(struct overlap *overlap, const struct message *message)
{
	assert(!message->is_write && !is_wide(message));
	return list_meets(bucket_of(overlap, first_region(message)), message) ||
	    list_meets(bucket_of(overlap, last_region(message)), message) ||
	    list_meets(&overlap->wide, message);
}
