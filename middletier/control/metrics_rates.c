/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_rates.c -- metrics of the busiest volumes
 *
 * A cluster may have a hundred thousand volumes, and a monitor keeps a series for each that it was ever told of: so these
 * are the busiest of the last minute alone. A volume that is no longer among them is not told, and is when it is again,
 * its counters having gone on.
 */
#include "control/metrics_rates.h"

#include <errno.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "common/alloc.h"
#include "control/rate_list.h"
#include "session/rates.h"

#define RATE(member, name, unit, help)                                                             \
	METRIC_MEMBER(struct mt_rate_count, member, name, unit, help, METRIC_COUNTER)
static const struct metric_member rate_members[] = {
	RATE(requests, "requests", "count", "reads, writes and discards answered, by volume"),
	RATE(errors, "errors", "count", "of those, with an error"),
	RATE(bytes, "bytes", "bytes", "plain bytes of those answered well"),
	RATE(took_ns, "request_ns", "ns", "time from arrival to answer, of all of them together"),
};
#undef RATE

static const struct metric_member direct_members[] = {
	METRIC_MEMBER(struct mt_rate, direct_reads, "direct_reads", "count",
	    "reads that clients have made at storage nodes, as they say, by volume",
	    METRIC_COUNTER),
	METRIC_MEMBER(struct mt_rate, direct_bytes, "direct_read_bytes", "bytes",
	    "plain bytes of those", METRIC_COUNTER),
};

/* Volumes that nobody reads so are not told of. */
static void
write_direct(FILE *out, const struct mt_rate *rates, uint32_t count, struct metric_object *objects)
{
	uint32_t object_count = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct metric_object *object = &objects[object_count];

		if (rates[i].direct_reads == 0)
			continue;
		*object = (struct metric_object){ .values = &rates[i] };
		metric_label(object, "volume",
		    rates[i].name[0] == '\0' ? "(others)" : rates[i].name);
		object_count++;
	}
	metrics_write(out, "cleave_gateway_volume", direct_members, NUM_COUNT(direct_members),
	    objects, object_count);
}

int
mt_metrics_write_rates(FILE *out, const struct mt_ask *ask)
{
	static const char *const ops[MT_RATE_OP_NR] = { "read", "write" };
	uint32_t count, object_count = 0;
	struct mt_rate *rates = mt_rate_list(ask, MT_RATES_BUSIEST_MAX, &count);
	struct metric_object *objects =
	    mt_calloc(num_max(count * MT_RATE_OP_NR, 1), sizeof(*objects));

	for (uint32_t i = 0; objects != NULL && i < count; i++) {
		for (uint32_t op = 0; op < MT_RATE_OP_NR; op++) {
			struct metric_object *object = &objects[object_count++];

			object->values = &rates[i].counts[op];
			metric_label(object, "volume",
			    rates[i].name[0] == '\0' ? "(others)" : rates[i].name);
			metric_label(object, "op", ops[op]);
		}
	}
	if (objects != NULL) {
		metrics_write(out, "cleave_gateway_volume", rate_members, NUM_COUNT(rate_members),
		    objects, object_count);
		write_direct(out, rates, count, objects);
	}
	mt_free(objects);
	mt_free(rates);
	return objects == NULL ? -ENOMEM : 0;
}
