/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sim_faults.h -- what goes wrong at a simulated disk: by rule, by the dice, or the next time */
#ifndef CLEAVE_STORAGE_DISK_SIM_FAULTS_H
#define CLEAVE_STORAGE_DISK_SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"

struct disk_sim;

/* sim_faults_init -- the dice's own random state, from the disk's seed. Once. */
void sim_faults_init(struct disk_sim *sim);
/* sim_faults_judge -- the error of @io, or of the flush behind it (@op), which begins now; 0: none. Counted. */
int sim_faults_judge(struct disk_sim *sim, const struct disk_io *io, enum disk_op op);
/* sim_faults_delay -- the latency of a request that would take @latency_ns; may stall the disk from @now_ns on. */
uint64_t sim_faults_delay(struct disk_sim *sim, uint64_t now_ns, uint64_t latency_ns);
/* sim_faults_lose_write -- does the write at @offset change nothing? Counted. */
bool sim_faults_lose_write(struct disk_sim *sim, uint64_t offset);
/* sim_faults_write_to, sim_faults_read_from -- where @bytes for @offset really go, or come from. Counted. */
uint64_t sim_faults_write_to(struct disk_sim *sim, uint64_t offset, uint64_t bytes);
uint64_t sim_faults_read_from(struct disk_sim *sim, uint64_t offset, uint64_t bytes);
/* sim_faults_flush_lies -- does the flush that ends now make nothing durable? Counted. */
bool sim_faults_flush_lies(struct disk_sim *sim);
/* sim_faults_rot -- a write was done: somewhere a bit may rot. */
void sim_faults_rot(struct disk_sim *sim);
/* sim_is_bad -- do these bytes touch a range of disk_sim_set_bad? */
bool sim_is_bad(const struct disk_sim *sim, uint64_t offset, uint64_t bytes);
/* sim_heal -- a write covers these bytes: bad ranges within them can be read again. */
void sim_heal(struct disk_sim *sim, uint64_t offset, uint64_t bytes);

#endif /* CLEAVE_STORAGE_DISK_SIM_FAULTS_H */
