/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_rig.h -- one gateway of a cluster of a level, a connection to it, and what asks it
 *
 * The gateway has no nodes: no shard of it is served.
 */
#ifndef CLEAVE_TESTS_CONTROL_RIG_H
#define CLEAVE_TESTS_CONTROL_RIG_H

#include "base/num.h"
#include "cleave/level.h"
#include "support/made_cluster.h"
#include "unit/control_ask.h"

#define ask(want_rc, ...) control_want(&qp, (want_rc), __VA_ARGS__)

static struct sg sg;
static struct sg_qp qp;

static inline void
rig_start(void)
{
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50)); /* cluster and volumes are read */
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
}

static inline void
rig_stop(void)
{
	sg_close(&qp);
	sg_stop(&sg);
}

/* rig_setup -- a suite's .init, or called by it with a level. */
static inline void
rig_setup(void)
{
	sg_init(&sg, 1);
	rig_start();
}

static inline void
rig_setup_at(uint32_t level)
{
	sg_init(&sg, 1);
	made_cluster_at(sg.store, &sg.options, level);
	rig_start();
}

static inline void
rig_teardown(void)
{
	sg_close(&qp);
	sg_fini(&sg);
}

/* rig_put -- the key is @text, and the gateway has read it. */
static inline void
rig_put(const char *key, const char *text)
{
	made_cluster_put(sg.store, key, text);
	sg_run_for(&sg, NUM_S(3));
}

static inline uint32_t
rig_key_count(const char *prefix)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	cr_assert_eq(meta_store_list(sg.store, prefix, &items, &count), 0);
	mt_free(items);
	return count;
}

#endif /* CLEAVE_TESTS_CONTROL_RIG_H */
