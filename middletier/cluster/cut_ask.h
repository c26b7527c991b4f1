/* SPDX-License-Identifier: Apache-2.0 */
/* cut_ask.h -- one step of a snapshot at every port of this gateway */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_CUT_ASK_H
#define CLEAVE_MIDDLETIER_CLUSTER_CUT_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cluster/snapshot.h"
#include "common/limits.h"
#include "common/port.h"
#include "write/cut.h"

struct mt_cut_ask;
struct mt_gateway;
struct mt_shard;

/* The steps of a snapshot that shards take part in; snapshot.c says what each means. */
enum mt_cut_step {
	MT_CUT_STEP_ASK,
	MT_CUT_STEP_BEGIN,
	MT_CUT_STEP_CONFIRM,
	MT_CUT_STEP_RELEASE,
	MT_CUT_STEP_NR
};

/* A shard's answer to the step: @rc 0, or why not. */
struct mt_cut_answer {
	bool is_there; /* the shard is served here */
	uint32_t epoch;
	int rc;
	struct mt_cut_leg *leg;
	struct mt_shard *shard;
};
typedef void (*mt_cut_ask_fn)(struct mt_cut_ask *ask, void *arg);

struct mt_cut_ask {
	struct loop_link link; /* gateway->cut_asks */
	struct mt_gateway *gateway;
	enum mt_cut_step step;
	struct mt_cut_order order;
	struct mt_cut_leg {
		struct loop_post post;
		struct mt_cut_ask *ask;
		struct mt_port *port;
		uint32_t
		    pending_count; /* shards that have not answered, and one while they are asked */
	} legs[MT_PORTS_MAX];
	uint32_t left_count;
	mt_cut_ask_fn fn;
	void *arg;
	struct mt_cut_answer answers[]; /* of the cluster's shards; each its port's until the end */
};
/* mt_cut_ask -- 0 and @fn later, on main, after which @ask is freed; -ENOMEM; -ESHUTDOWN. */
int mt_cut_ask(struct mt_gateway *gateway, enum mt_cut_step step, const struct mt_cut_order *order,
    mt_cut_ask_fn fn, void *arg);
/* mt_cut_asks_drop -- main: nobody runs the ports' loops any more; no @fn is called. */
void mt_cut_asks_drop(struct mt_gateway *gateway);
/* mt_cut_step_name -- as control requests have it. */
const char *mt_cut_step_name(enum mt_cut_step step);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_CUT_ASK_H */
