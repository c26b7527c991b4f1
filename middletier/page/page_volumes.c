/* SPDX-License-Identifier: Apache-2.0 */
/* page_volumes.c -- see page_volumes.h */
#include "page/page_volumes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/trash.h"
#include "common/alloc.h"
#include "control/control_trash.h"
#include "control/metrics_limits.h"
#include "port/port_status.h"
#include "port/throttle.h"

json_t *
mt_page_volumes(const struct mt_gateway *gateway)
{
	json_t *volumes = json_array();

	for (uint32_t i = 0;
	     i < gateway->volumes.count && json_array_size(volumes) < MT_PAGE_VOLUMES_MAX; i++) {
		const struct mt_volume *volume = &gateway->volumes.entries[i].volume;

		if (!mt_volume_is_trashed(volume))
			json_array_append_new(volumes, mt_json_volume_held(volume));
	}
	return volumes;
}

/* ---- the trash ---- */

struct page_trashed {
	uint64_t left_ms;
	const struct mt_volume_entry *entry;
};

/* @count of @soonest, at most MT_PAGE_TRASH_MAX, stay sorted; what is not among the first falls off. */
static void
trash_insert(struct page_trashed *soonest, uint32_t *count, struct page_trashed one)
{
	uint32_t at = *count;

	while (at > 0 && soonest[at - 1].left_ms > one.left_ms)
		at--;
	if (at == MT_PAGE_TRASH_MAX)
		return;
	if (*count < MT_PAGE_TRASH_MAX)
		++*count;
	memmove(&soonest[at + 1], &soonest[at], (*count - at - 1) * sizeof(*soonest));
	soonest[at] = one;
}

json_t *
mt_page_trash(const struct mt_gateway *gateway)
{
	struct page_trashed soonest[MT_PAGE_TRASH_MAX];
	uint32_t first, in_trash = mt_volumes_trash(&gateway->volumes, &first), count = 0;
	json_t *list = json_array();

	assert(first + in_trash <= gateway->volumes.count);
	for (uint32_t i = first; i < first + in_trash; i++) {
		const struct mt_volume_entry *entry = &gateway->volumes.entries[i];

		trash_insert(soonest, &count,
		    (struct page_trashed){ mt_trash_left_ms(gateway, entry), entry });
	}
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, mt_json_trash(gateway, soonest[i].entry));
	return list;
}

/* ---- what waited for limits ---- */

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct mt_throttle_told *)a)->name,
	    ((const struct mt_throttle_told *)b)->name);
}

/* The longest wait is first. */
static int
by_wait(const void *a, const void *b)
{
	uint64_t one = ((const struct mt_throttle_told *)a)->waited_ns,
		 other = ((const struct mt_throttle_told *)b)->waited_ns;

	return one > other ? -1 : one < other ? 1 : by_name(a, b);
}

/* A row for each name. Returns how many are left. */
static uint32_t
add_up(struct mt_throttle_told *rows, uint32_t count)
{
	uint32_t kept = 0;

	qsort(rows, count, sizeof(*rows), by_name);
	for (uint32_t i = 0; i < count; i++) {
		struct mt_throttle_told *sum = &rows[kept == 0 ? 0 : kept - 1];

		if (kept == 0 || by_name(sum, &rows[i]) != 0) {
			rows[kept++] = rows[i];
			continue;
		}
		sum->held_count += rows[i].held_count;
		sum->waited_count += rows[i].waited_count;
		sum->waited_ns += rows[i].waited_ns;
		sum->refused_count += rows[i].refused_count;
	}
	return kept;
}

json_t *
mt_page_waits(const struct mt_ask *ask)
{
	uint32_t ports = ask->gateway->port_count, count = 0;
	struct mt_throttle_told *rows = mt_calloc(ports * MT_THROTTLE_TOLD_MAX, sizeof(*rows));
	json_t *list;

	assert(ports > 0);
	if (rows == NULL)
		return NULL;
	for (uint32_t i = 0; i < ports; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; k < status->told_count; k++)
			rows[count++] = status->told[k];
	}
	count = add_up(rows, count);
	qsort(rows, count, sizeof(*rows), by_wait);
	list = mt_json_limits(rows, (uint32_t)num_min(count, MT_PAGE_WAITS_MAX));
	mt_free(rows);
	return list;
}
