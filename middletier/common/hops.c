/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hops.c -- how long requests of clients take, hop by hop
 *
 * The last minute is what the totals are now without what they were a minute ago. What they were is noted down when
 * the first request of the next 15 s is counted, so nothing runs while nothing is done (I12). Nothing was counted
 * between the end of the 15 s before and that request, and so the note is as true for that end, which it bears.
 */
#include "common/hops.h"

#include <stdbool.h>

#include "base/check.h"

const char *
mt_write_hop_name(enum mt_write_hop hop)
{
	static const char *const names[MT_WRITE_HOP_NR] = {
#define HOP_NAME(symbol, name) [MT_WRITE_HOP_##symbol] = name,
		MT_WRITE_HOP_LIST(HOP_NAME)
#undef HOP_NAME
	};

	assert(hop < MT_WRITE_HOP_NR);
	return names[hop];
}

const char *
mt_read_hop_name(enum mt_read_hop hop)
{
	assert(hop < MT_READ_HOP_NR);
	return hop == MT_READ_HOP_NODE ? "node" : "total";
}

/* The times of a turn's beginning and such that were read anew mix: none may seem to be before the last. */
static inline uint64_t
hop_ns(uint64_t *at_ns, uint64_t until_ns)
{
	uint64_t end_ns = until_ns > *at_ns ? until_ns : *at_ns, took_ns = end_ns - *at_ns;

	*at_ns = end_ns;
	return took_ns;
}

/* The hop that it did not get to the end of has all that is left. */
static void
hops_of_part(const struct mt_write_stamps *stamps, uint64_t now_ns,
    uint64_t ret_hops_ns[MT_WRITE_HOP_NR])
{
	const uint64_t ends[MT_WRITE_HOP_TOTAL] = {
		[MT_WRITE_HOP_PARK] = stamps->started_ns,
		[MT_WRITE_HOP_ENGINE] = stamps->stored_ns,
		[MT_WRITE_HOP_BATCH] = stamps->sent_ns,
	};
	uint64_t at_ns = stamps->taken_ns;
	bool has_ended = false;

	assert(stamps->durable_ns == 0);
	for (uint32_t i = 0; i < MT_WRITE_HOP_TOTAL; i++) {
		ret_hops_ns[i] = has_ended ? 0 : hop_ns(&at_ns, ends[i] != 0 ? ends[i] : now_ns);
		has_ended |= ends[i] == 0;
	}
}

void
mt_hops_of(const struct mt_write_stamps *stamps, uint64_t now_ns,
    uint64_t ret_hops_ns[MT_WRITE_HOP_NR])
{
	uint64_t at_ns = stamps->taken_ns;

	ret_hops_ns[MT_WRITE_HOP_TOTAL] = now_ns > at_ns ? now_ns - at_ns : 0;
	if (__builtin_expect(stamps->durable_ns == 0, 0)) {
		hops_of_part(stamps, now_ns, ret_hops_ns);
		return;
	}
	ret_hops_ns[MT_WRITE_HOP_PARK] = hop_ns(&at_ns, stamps->started_ns);
	ret_hops_ns[MT_WRITE_HOP_ENGINE] = hop_ns(&at_ns, stamps->stored_ns);
	ret_hops_ns[MT_WRITE_HOP_BATCH] = hop_ns(&at_ns, stamps->sent_ns);
	ret_hops_ns[MT_WRITE_HOP_REPLICATE] = hop_ns(&at_ns, stamps->durable_ns);
	ret_hops_ns[MT_WRITE_HOP_REPLY] = hop_ns(&at_ns, now_ns);
}

static void
hops_totals(const struct mt_hops *hops, struct latency *ret_write, struct latency *ret_read)
{
	*ret_write = *ret_read = (struct latency){ .sum_ns = 0 };
	for (uint32_t i = 0; i < SERVICE_CLASS_NR; i++) {
		latency_read(ret_write, &hops->writes[MT_WRITE_HOP_TOTAL][i]);
		latency_read(ret_read, &hops->reads[MT_READ_HOP_TOTAL][i]);
	}
}

/* A moment ends: note down what was counted by then. */
static void
hops_turn(struct mt_hops *hops, uint64_t now_ns)
{
	struct mt_hops_moment *moment = &hops->moments[++hops->moment_count % MT_HOPS_MOMENTS];

	assert(now_ns >= hops->next_ns);
	moment->at_ns = hops->next_ns;
	hops_totals(hops, &moment->write, &moment->read);
	hops->next_ns = now_ns + MT_HOPS_MOMENT_NS;
}

static inline void
hops_look(struct mt_hops *hops, uint64_t now_ns)
{
	if (__builtin_expect(now_ns >= hops->next_ns, 0))
		hops_turn(hops, now_ns);
}

void
mt_hops_write(struct mt_hops *hops, uint64_t now_ns, enum service_class service_class,
    const uint64_t hops_ns[MT_WRITE_HOP_NR])
{
	assert(service_class < SERVICE_CLASS_NR);
	hops_look(hops, now_ns);
	/* Not a loop: this is most of what counting a write costs. */
#define HOPS_COUNT(hop)                                                                            \
	latency_count(&hops->writes[MT_WRITE_HOP_##hop][service_class], hops_ns[MT_WRITE_HOP_##hop])
	HOPS_COUNT(PARK);
	HOPS_COUNT(ENGINE);
	HOPS_COUNT(BATCH);
	HOPS_COUNT(REPLICATE);
	HOPS_COUNT(TOTAL);
	if (hops_ns[MT_WRITE_HOP_REPLY] > 0)
		HOPS_COUNT(REPLY);
#undef HOPS_COUNT
}

void
mt_hops_read(struct mt_hops *hops, uint64_t now_ns, enum service_class service_class,
    uint64_t node_ns, uint64_t total_ns)
{
	assert(service_class < SERVICE_CLASS_NR);
	hops_look(hops, now_ns);
	if (node_ns > 0)
		latency_count(&hops->reads[MT_READ_HOP_NODE][service_class], node_ns);
	latency_count(&hops->reads[MT_READ_HOP_TOTAL][service_class], total_ns);
}

void
mt_hops_minute(struct mt_hops *hops, uint64_t now_ns, struct latency *ret_write,
    struct latency *ret_read)
{
	const struct mt_hops_moment *from = NULL;
	uint32_t kept;

	hops_look(hops, now_ns);
	kept = (uint32_t)num_min(hops->moment_count, MT_HOPS_MOMENTS);
	hops_totals(hops, ret_write, ret_read);
	/* The newest that is old enough, else none: then all was in the last minute. */
	for (uint32_t i = 0; i < kept && from == NULL; i++) {
		uint32_t at = (hops->moment_count - i) % MT_HOPS_MOMENTS;

		if (hops->moments[at].at_ns + MT_HOPS_MINUTE_NS <= now_ns)
			from = &hops->moments[at];
	}
	if (from == NULL)
		return;
	*ret_write = latency_since(ret_write, &from->write);
	*ret_read = latency_since(ret_read, &from->read);
}
