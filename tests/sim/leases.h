/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leases.h -- sessions that have read leases, and what nobody may have meanwhile
 *
 * Volumes of these seeds may be read past gateways, and each session has leases, as a client that reads by itself
 * would (middletier/session/LEASES.md). In half of them sessions read at nodes, as far as they may, and histories judge
 * what they read as they judge all reads. What such reads need is checked besides: when a change is
 * acknowledged, no older session of the volume has a lease, by its own clock at that moment, on a shard that holds
 * any of it. A newer one may: it came when the change was done, and knows of it. A roll-back, a smaller size and other
 * reads are changes by no session: snapper_clone.c looks when one is answered.
 *
 * Sessions ask for maps, too, and each read that could have gone past its gateway by them, under the rules of
 * map_cache.c, is compared with what the gateway returned: the CRC of each block that its map has. A block is compared
 * if it could be read so at the beginning and at the end, by the same map: so no change of the session met the read. And
 * no map may be of an owner before one that takes changes by now.
 */
#ifndef CLEAVE_TESTS_SIM_LEASES_H
#define CLEAVE_TESTS_SIM_LEASES_H

#include "cluster.h"
#include "history.h"

struct sim_leases;

/* A read under way: what maps say of its blocks. */
struct sim_map_read {
	struct sim_map_look {
		bool is_there;  /* it could be read by a map */
		bool is_stored; /* ... which names a run */
		uint32_t crc, epoch;
		uint64_t serial;
	} looks[HISTORY_BLOCKS_MAX];
};

/* sim_leases_is_in -- have sessions of this seed leases, where all processes are of one release? */
bool sim_leases_is_in(uint64_t seed);
/* sim_leases_are_direct -- do they read at nodes in this seed by itself, where all processes are of one release? */
bool sim_leases_are_direct(uint64_t seed);
/* sim_leases_choose -- what a cluster of @seed has of both; @has_levels: its processes are of two releases. */
void sim_leases_choose(uint64_t seed, bool has_levels, struct sim_cluster_options *options);
/* sim_leases_word -- what such volumes have for `reads`. */
const char *sim_leases_word(const struct sim_cluster *cluster);
/* sim_leases_create -- of the volume @name, whose blocks are where @history has them. */
struct sim_leases *sim_leases_create(struct sim_cluster *cluster, const char *name,
    const struct history *history);
void sim_leases_destroy(struct sim_leases *leases);
/* sim_leases_add -- @process has opened @volume, and has leases from here on; it may have others of before. */
void sim_leases_add(struct sim_leases *leases, const void *process, struct cleave_volume *volume);
/* sim_leases_excuse -- @process's clock stands still (NULL: nobody's): its leases do not count. NULL @leases is none. */
void sim_leases_excuse(struct sim_leases *leases, const void *process);
/* sim_leases_forget -- @process is dead. */
void sim_leases_forget(struct sim_leases *leases, const void *process);
/* sim_leases_on_change -- a change of @count blocks from @first on, sent by @volume's session, was acknowledged. */
void sim_leases_on_change(struct sim_leases *leases, const struct cleave_volume *volume,
    uint32_t first, uint32_t count);
/* sim_leases_on_read -- a read of @count blocks from @first on is submitted to @volume. */
void sim_leases_on_read(struct sim_leases *leases, struct cleave_volume *volume, uint32_t first,
    uint32_t count, struct sim_map_read *ret_read);
/* sim_leases_on_answer -- it has returned @data. */
void sim_leases_on_answer(struct sim_leases *leases, struct cleave_volume *volume, uint32_t first,
    uint32_t count, const struct sim_map_read *read, const uint8_t *data);

#endif /* CLEAVE_TESTS_SIM_LEASES_H */
