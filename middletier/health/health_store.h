/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health_store.h -- does the metadata store answer?
 *
 * A lease is renewed at a third of its time, and nothing else need be asked for minutes: so each look asks.
 */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_STORE_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "meta/etcd_latency.h"

struct mt_gateway;
struct mt_health;

struct mt_health_store {
	struct mt_gateway *gateway;
	bool is_out, is_stopped;
	uint64_t
	    since_ns; /* of the first question in a row that has no good answer; 0: the last one has */
	uint64_t asked_ns;           /* the newest question */
	struct etcd_latency latency; /* of questions that were answered, whatever the store is */
};

/* mt_health_store_ask -- read our own key, unless the last question is under way still. Main's, as all of these. */
void mt_health_store_ask(struct mt_health_store *store);
/*
 * mt_health_store_judge -- adds the reason: there has been no answer for MT_HEALTH_STORE_NS, or answers are slow
 *
 * They are where the 99th percentile of the last ETCD_LATENCY_SAMPLES is beyond MT_HEALTH_STORE_SLOW_NS, until it is
 * below half of that.
 */
void mt_health_store_judge(const struct mt_health_store *store, struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_STORE_H */
