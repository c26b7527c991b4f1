/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal.c -- a refused connection is told of in the log once, not each time that it comes again
 *
 * A gateway of another cluster or store comes every few seconds, for ever. The last SN_REFUSALS_MAX refusals,
 * by host, errno and the cluster or store that was named, are remembered, and told again after
 * SN_REFUSAL_AGAIN_NS. The port does not count: each new connection has another.
 */
#include "refusal.h"

#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "node_state.h"

#define SN_REFUSAL_AGAIN_NS NUM_S(600)

bool
sn_refusal_is_news(struct node *node, const char *peer, int rc, uint64_t whose)
{
	const char *port = strrchr(peer, ':');
	uint32_t key =
	    crc32c((uint32_t)-rc, peer, port != NULL ? (size_t)(port - peer) : strlen(peer));
	uint64_t now_ns = loop_now_ns(node->loop);
	struct sn_refusal *oldest = &node->refusals[0];

	assert(rc < 0);
	key = crc32c(key, &whose, sizeof(whose));
	for (uint32_t i = 0; i < SN_REFUSALS_MAX; i++) {
		struct sn_refusal *refusal = &node->refusals[i];

		if (refusal->again_ns > now_ns && refusal->key == key)
			return false;
		if (refusal->again_ns < oldest->again_ns)
			oldest = refusal;
	}
	*oldest = (struct sn_refusal){ .key = key, .again_ns = now_ns + SN_REFUSAL_AGAIN_NS };
	return true;
}
