/* SPDX-License-Identifier: Apache-2.0 */
/* copy_list.c -- see copy_list.h */
#include "extent/copy_list.h"

#include "base/check.h"
#include "base/list.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/copy_state.h"

static const struct mt_copy *
copy_of(const struct loop_link *link)
{
	const struct mt_copy *copy = LIST_ENTRY(link, const struct mt_copy, link);

	CHECK_OBJ(copy, COPY_MAGIC);
	return copy;
}

/* The first of @shard's copies; its list is made with the first. */
static const struct loop_link *
copy_first(const struct mt_shard *shard)
{
	return shard->copies.next != NULL ? shard->copies.next : &shard->copies;
}

bool
mt_copy_is_going(const struct mt_shard *shard, const struct extent_id *id, uint32_t node_id)
{
	assert(node_id != 0);
	for (const struct loop_link *link = copy_first(shard); link != &shard->copies;
	     link = link->next) {
		const struct mt_copy *copy = copy_of(link);

		assert(copy->options.shard == shard);
		if (copy->options.target_node_id == node_id &&
		    extent_id_pack(&copy->options.id) == extent_id_pack(id))
			return true;
	}
	return false;
}

bool
mt_copy_is_quiet(const struct mt_shard *shard)
{
	return copy_first(shard) == &shard->copies;
}

uint32_t
mt_copy_window_count(const struct mt_port *port)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port->shard_count; i++) {
		const struct mt_shard *shard = &port->shards[i];

		for (const struct loop_link *link = copy_first(shard); link != &shard->copies;
		     link = link->next) {
			enum copy_state state = (enum copy_state)copy_of(link)->sm.state;

			count += state == COPY_READING || state == COPY_APPENDING;
		}
	}
	return count;
}
