/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_fixture.h -- several processes that share a fake etcd; needs meta_fixture.h */
#ifndef CLEAVE_TESTS_ETCD_FIXTURE_H
#define CLEAVE_TESTS_ETCD_FIXTURE_H

#include "splitlib/sim/loop_sim.h"
#include "support/fake_etcd.h"
#include "unit/meta_fixture.h"

#define SEEDS 30u

/* Another process. */
struct other {
	struct fixture f; /* shares world and etcd with the first one */
	struct etcd_http *way;
};

static inline void
other_init(struct other *other, struct fixture *f)
{
	other->f = (struct fixture){ .world = f->world, .etcd = f->etcd };
	other->f.loop = sim_loop_create(f->world, "other");
	meta_reopen(&other->f);
	other->way = other->f.way;
}

static inline void
other_fini(struct other *other)
{
	if (other->f.meta != NULL)
		other->f.meta->ops->close(other->f.meta);
	loop_destroy(other->f.loop);
}

static inline void
run_for(struct fixture *f, uint64_t ns)
{
	cr_assert_eq(sim_world_run(f->world, NULL, NULL, sim_world_now_ns(f->world) + ns), -ETIME);
}

#endif /* CLEAVE_TESTS_ETCD_FIXTURE_H */
