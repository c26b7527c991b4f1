/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thief.h -- who shows tickets of others to storage nodes: a session of its own, or who was fenced since
 *
 * In some of the seeds in which sessions read at nodes a process takes tickets out of the maps of honest sessions, and
 * comes to the nodes that they are for: as a session of its own, which must be refused; or as the session that has the
 * ticket, which may be believed, until a fence of a newer attach has come to that node. It keeps such a ticket, and reads
 * by it again and again, so that a fence comes in between.
 *
 * It is a violation when any of that is believed that must not be. Nodes are asked which fences they know, not which
 * tickets they would refuse.
 */
#ifndef CLEAVE_TESTS_SIM_THIEF_H
#define CLEAVE_TESTS_SIM_THIEF_H

#include <stdbool.h>
#include <stdint.h>

struct cleave_volume;
struct sim_cluster;
struct sim_thief;
struct wire_map_source;

/* sim_thief_is_in -- do tickets of this seed, whose sessions read at nodes, get stolen? */
bool sim_thief_is_in(uint64_t seed);
/* sim_thief_create -- begins at once; NULL: not in this seed. */
struct sim_thief *sim_thief_create(struct sim_cluster *cluster, uint64_t seed);
/* sim_thief_note -- the session of @volume has a map that names @source: its tickets may be stolen. NULL is none. */
void sim_thief_note(struct sim_thief *thief, const struct cleave_volume *volume,
    const struct wire_map_source *source);
/* sim_thief_finish -- what it has asked for last is answered, within @limit_ns; it does no more. NULL is none. */
void sim_thief_finish(struct sim_thief *thief, uint64_t limit_ns);
/* sim_thief_destroy -- NULL is none. */
void sim_thief_destroy(struct sim_thief *thief);
/* sim_thief_count -- requests of its that were refused, as they had to be. NULL: 0. */
uint64_t sim_thief_count(const struct sim_thief *thief);

#endif /* CLEAVE_TESTS_SIM_THIEF_H */
