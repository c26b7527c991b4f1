/* SPDX-License-Identifier: Apache-2.0 */
/* drop_erase.c -- see drop_erase.h */
#include "cluster/drop_erase.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/check.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/data_keys.h"
#include "cluster/drop_mark.h"
#include "cluster/gateway_state.h"
#include "common/event.h"

uint64_t
mt_drop_erase_id(const struct drop_mark *mark)
{
	if (mark->number != 0 || json_object_get(mark->object, "key") == NULL)
		return 0;
	return (uint64_t)json_integer_value(json_object_get(mark->object, "id"));
}

uint32_t
mt_drop_erase_ops(const struct mt_gateway *gateway, const struct drop_mark *mark,
    char keys[][MT_DATA_KEY_KEY_BYTES], struct meta_op *ret_ops)
{
	uint64_t ids[MT_DATA_KEYS_OF_VOLUME_MAX], id = mt_drop_erase_id(mark);
	uint32_t count = id == 0 ? 0
				 : mt_data_keys_of(gateway, id, ids, MT_DATA_KEYS_OF_VOLUME_MAX);

	/* More than a volume can have: somebody has written into the store. What is left stays. */
	if (count > MT_DATA_KEYS_OF_VOLUME_MAX)
		count = MT_DATA_KEYS_OF_VOLUME_MAX;
	for (uint32_t i = 0; i < count; i++) {
		mt_data_key_key(ids[i], keys[i]);
		ret_ops[i] = (struct meta_op){ .kind = META_DELETE, .key = keys[i] };
	}
	return count;
}

void
mt_drop_erase_tell(struct mt_gateway *gateway, const struct drop_mark *mark, uint32_t count)
{
	const char *name = json_string_value(json_object_get(mark->object, "name"));

	assert(count > 0);
	mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
	    CLEAVE_EVENT_KEY_ERASED, name == NULL ? "" : name,
	    "audit: data keys erased volume_id=%" PRIu64 " count=%" PRIu32
	    ": nothing of it can be opened any more",
	    mt_drop_erase_id(mark), count);
}
