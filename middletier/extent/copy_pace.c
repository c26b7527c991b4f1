/* SPDX-License-Identifier: Apache-2.0 */
/* copy_pace.c -- see copy_pace.h */
#include "extent/copy_pace.h"

#include "base/check.h"
#include "base/num.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/copy_list.h"
#include "extent/copy_state.h"

#define PACE_BUSY_WRITES 16u /* of the port's clients, in flight: copying gives way */
#define PACE_BUSY_PRICE 4u   /* of a byte then */

/* The price of the next window, in time. */
static uint64_t
pace_price_ns(const struct mt_copy *copy)
{
	uint64_t bytes = num_min(copy->options.length_bytes - copy->done_bytes, COPY_WINDOW_BYTES);

	assert(copy->done_bytes < copy->options.length_bytes);
	if (copy->options.shard->port->write_count >= PACE_BUSY_WRITES)
		bytes *= PACE_BUSY_PRICE;
	return bytes * NUM_S(1) / copy->options.bytes_per_s;
}

void
mt_copy_take_turn(struct mt_copy *copy, uint64_t now_ns)
{
	uint64_t *spent_ns = copy->options.spent_ns;

	if (copy->has_turn || copy->options.bytes_per_s == 0)
		return;
	copy->has_turn = true;
	copy->turn_ns = num_max(*spent_ns, now_ns);
	*spent_ns = copy->turn_ns + pace_price_ns(copy);
}

bool
mt_copy_may_read(const struct mt_copy *copy)
{
	const struct mt_port *port = copy->options.shard->port;
	uint32_t max = (uint32_t)num_max(1, port->receive_count / 8 / COPY_READS_MAX);

	return mt_copy_window_count(port) < max;
}
