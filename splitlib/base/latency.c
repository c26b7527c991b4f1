/* SPDX-License-Identifier: Apache-2.0 */
/* latency.c -- how long things took, counted in fixed buckets */
#include "base/latency.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/num.h"

#define BOUND(factor, unit) (UINT64_C(factor) * (unit))
#define DECADE(unit) BOUND(1, unit), BOUND(2, unit), BOUND(5, unit)
#define US UINT64_C(1000)

const uint64_t latency_bounds_ns[LATENCY_BUCKETS] = {
	DECADE(10 * US),
	DECADE(100 * US),
	DECADE(NUM_MS(1)),
	DECADE(NUM_MS(10)),
	DECADE(NUM_MS(100)),
	DECADE(NUM_S(1)),
	NUM_S(10),
	UINT64_MAX,
};

/* Bounds in seconds, as the text wants them: powers of ten as Go prints them. */
static const char *const latency_texts[LATENCY_BUCKETS] = { "1e-05", "2e-05", "5e-05", "0.0001",
	"0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5",
	"1.0", "2.0", "5.0", "10.0", "+Inf" };

const uint8_t latency_first[65] = {
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0, /* below 2^14: 16 us */
	1,
	2,
	3,
	4,
	5,
	6,
	7,
	8,
	8,
	9, /* below 2^24: 17 ms */
	10,
	11,
	12,
	13,
	14,
	15,
	16,
	17,
	17,
	18, /* below 2^34: 17 s */
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19, /* the last bucket */
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19, /* of all others */
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
	19,
};

void
latency_read(struct latency *to, const struct latency *from)
{
	assert(to != from);
	for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
		to->counts[i] += metric_read(&from->counts[i]);
	to->sum_ns += metric_read(&from->sum_ns);
}

struct latency
latency_since(const struct latency *now, const struct latency *before)
{
	struct latency since = { .sum_ns = now->sum_ns - before->sum_ns };

	assert(now->sum_ns >= before->sum_ns);
	for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
		assert(now->counts[i] >= before->counts[i]);
		since.counts[i] = now->counts[i] - before->counts[i];
	}
	return since;
}

uint64_t
latency_total(const struct latency *latency)
{
	uint64_t total = 0;

	assert(latency != NULL);
	for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
		total += latency->counts[i];
	return total;
}

uint64_t
latency_quantile_ns(const struct latency *latency, uint32_t percent)
{
	uint64_t total = latency_total(latency), seen = 0;
	double rank = (double)total * percent / 100.0;

	assert(percent >= 1 && percent <= 100);
	for (uint32_t i = 0; i < LATENCY_BOUNDS && total > 0; i++) {
		uint64_t count = latency->counts[i];
		double low = i == 0 ? 0 : (double)latency_bounds_ns[i - 1];
		double high = (double)latency_bounds_ns[i];

		if (count > 0 && (double)(seen + count) >= rank)
			return (
			    uint64_t)(low + (high - low) * (rank - (double)seen) / (double)count);
		seen += count;
	}
	return total == 0 ? 0 : latency_bounds_ns[LATENCY_BOUNDS - 1];
}

static void
write_object(FILE *out, const char *name, const struct metric_object *object)
{
	const char *labels = object->labels, *comma = labels[0] == '\0' ? "" : ",";
	const char *open = labels[0] == '\0' ? "" : "{", *close = labels[0] == '\0' ? "" : "}";
	struct latency latency = { .sum_ns = 0 };
	uint64_t seen = 0;

	assert(object->values != NULL);
	latency_read(&latency, object->values);
	for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
		seen += latency.counts[i];
		(void)fprintf(out, "%s_seconds_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels,
		    comma, latency_texts[i], seen);
	}
	(void)fprintf(out, "%s_seconds_count%s%s%s %" PRIu64 "\n", name, open, labels, close, seen);
	(void)fprintf(out, "%s_seconds_sum%s%s%s %" PRIu64 ".%09" PRIu64 "\n", name, open, labels,
	    close, latency.sum_ns / NUM_S(1), latency.sum_ns % NUM_S(1));
}

void
latency_print(FILE *out, const char *name, const char *help, const struct metric_object *objects,
    size_t object_count)
{
	assert(out != NULL && name[0] != '\0' && help[0] != '\0');
	if (object_count == 0)
		return;
	(void)fprintf(out,
	    "# TYPE %s_seconds histogram\n# UNIT %s_seconds seconds\n# HELP %s_seconds %s\n", name,
	    name, name, help);
	for (size_t i = 0; i < object_count; i++)
		write_object(out, name, &objects[i]);
}
