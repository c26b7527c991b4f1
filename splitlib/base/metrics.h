/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h -- counters and gauges, declared with unit and meaning, kept by one thread each
 *
 * A daemon declares a table (X-macro) of metrics, and keeps their values in a struct or an array of its
 * own; adding is a plain increment by the owner. Another thread reads with metric_read (relaxed
 * atomics), so what is read may be torn between metrics, never within one. Tables of struct metric_member
 * say where in an object each value lies: for JSON, and for the text that monitors read.
 *
 * Threads: a FILE belongs to one; the values may be anybody's, if they are 8 bytes.
 */
#ifndef CLEAVE_BASE_METRICS_H
#define CLEAVE_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define METRIC_LABELS_BYTES 256u

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE };

struct metric_info {
	const char *name; /* "host_bytes_in" */
	const char *unit; /* "bytes", "count", "ns" */
	const char *help;
	enum metric_kind kind;
};

/* A metric that lies in an object. */
struct metric_member {
	struct metric_info info;
	size_t offset, bytes; /* unsigned, of 1, 4 or 8 bytes */
};
#define METRIC_MEMBER(type, member, name, unit, help, kind)                                        \
	{                                                                                          \
		{ name, unit, help, kind }, offsetof(type, member), sizeof(((type *)NULL)->member) \
	}

/* An object that has all members of a table, and what tells it from others: `port="0"`, or "". */
struct metric_object {
	const void *values;
	char labels[METRIC_LABELS_BYTES];
};

static inline void
metric_add(uint64_t *value, uint64_t delta)
{
	__atomic_store_n(value, *value + delta, __ATOMIC_RELAXED);
}

static inline void
metric_set(uint64_t *value, uint64_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

static inline uint64_t
metric_read(const uint64_t *value)
{
	return __atomic_load_n(value, __ATOMIC_RELAXED);
}

/* metric_member_read -- @member's value in the object at @values. */
uint64_t metric_member_read(const void *values, const struct metric_member *member);

/*
 * metric_label -- add NAME="VALUE" to an object's labels, quoted as the text wants it
 *
 * A label that does not fit into METRIC_LABELS_BYTES is left out, whole.
 */
void metric_label(struct metric_object *object, const char *name, const char *value);
/* metric_label_u64 -- the same with @value in decimal. */
void metric_label_u64(struct metric_object *object, const char *name, uint64_t value);

/*
 * metrics_write -- each metric of a table, with its value in each object, as OpenMetrics text
 *
 * Names are @prefix, "_", the metric's, and "_total" where it is a counter. All objects of a table go into
 * one call: the text wants all values of a name together. Nothing for no object. Errors are @out's.
 * Source:    https://prometheus.io/docs/specs/om/open_metrics_spec/, version 1.0.0.
 */
void metrics_write(FILE *out, const char *prefix, const struct metric_member *members,
    size_t member_count, const struct metric_object *objects, size_t object_count);
/* metrics_write_end -- the line that says that nothing was cut off. */
void metrics_write_end(FILE *out);

#endif /* CLEAVE_BASE_METRICS_H */
