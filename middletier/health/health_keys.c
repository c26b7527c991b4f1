/* SPDX-License-Identifier: Apache-2.0 */
/* health_keys.c -- see health_keys.h */
#include "health/health_keys.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"
#include "health/health.h"

#define KEYS_WANTED_NS NUM_S(15) /* a client that waits comes again long before */

void
mt_health_judge_keys(const struct mt_gateway *gateway, struct mt_health *health)
{
	const struct mt_data_keys *keys = &gateway->data_keys;
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	char object[MT_HEALTH_OBJECT_BYTES];
	const struct mt_data_key *first;
	uint32_t count = mt_data_keys_missing(gateway, &first) + keys->bad_count;

	if (count == 0)
		return;
	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gateway->options.gateway_id);
	if (first == NULL)
		mt_health_add(health, CLEAVE_HEALTH_KEY_MISSING, object, 0,
		    "%s: %" PRIu32 " data keys cannot be read in the metadata store: see its log",
		    object, count);
	else
		mt_health_add(health, CLEAVE_HEALTH_KEY_MISSING, object, 0,
		    "%s: %" PRIu32 " data keys are not open, the first of them is key %" PRIu64
		    " of volume %" PRIu64 ", of the KEK '%s'%s%.120s",
		    object, count, first->id, first->volume, first->kek,
		    keys->why[0] == '\0' ? "" : "; the last that failed: ", keys->why);
	if (keys->refused_ns != 0 && now_ns - keys->refused_ns < KEYS_WANTED_NS)
		mt_health_add(health, CLEAVE_HEALTH_KEY_WANTED, object, 0,
		    "%s: a client of volume %s waits for its data key", object, keys->refused);
}
