/* SPDX-License-Identifier: Apache-2.0 */
/* unreached.c -- see unreached.h */
#include "cluster/unreached.h"

#include <stddef.h>
#include <stdio.h>

#include "base/check.h"

const struct mt_unreached_node *
mt_unreached_find(const struct mt_unreached *unreached, uint32_t node_id, uint64_t now_ns)
{
	assert(node_id != 0);
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		const struct mt_unreached_node *node = &unreached->nodes[i];

		if (node->node_id == node_id)
			return now_ns - node->told_ns < MT_UNREACHED_NS ? node : NULL;
	}
	return NULL;
}

int
mt_unreached_note(struct mt_unreached *unreached, uint32_t node_id, const char *who,
    uint64_t now_ns)
{
	const struct mt_unreached_node *known = mt_unreached_find(unreached, node_id, now_ns);
	struct mt_unreached_node *place = &unreached->nodes[0];

	assert(who != NULL);
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		struct mt_unreached_node *node = &unreached->nodes[i];

		if (node->node_id == node_id) {
			place = node;
			break;
		}
		if (node->told_ns < place->told_ns)
			place = node;
	}
	if (known == NULL)
		*place = (struct mt_unreached_node){ .node_id = node_id, .first_ns = now_ns };
	place->told_ns = now_ns;
	(void)snprintf(place->who, sizeof(place->who), "%s", who);
	return known == NULL;
}
