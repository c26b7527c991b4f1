/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sim_faults.h -- what goes wrong at a simulated disk: by rule, by the dice, or the next time */
#ifndef CLEAVE_STORAGE_DISK_SIM_FAULTS_H
#define CLEAVE_STORAGE_DISK_SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"

struct disk_sim;

void sim_faults_init(struct disk_sim *sim);
/* sim_faults_judge -- what @io, or the flush behind it, begun now will fail with; 0: nothing. */
int sim_faults_judge(struct disk_sim *sim, const struct disk_io *io, enum disk_op op);
/* sim_faults_delay -- a request's latency, and perhaps everybody's from @now_ns on. */
uint64_t sim_faults_delay(struct disk_sim *sim, uint64_t now_ns, uint64_t latency_ns);
bool sim_faults_lose_write(struct disk_sim *sim, uint64_t offset);
/* sim_faults_write_to, sim_faults_read_from -- where it really goes. */
uint64_t sim_faults_write_to(struct disk_sim *sim, uint64_t offset, uint64_t bytes);
uint64_t sim_faults_read_from(struct disk_sim *sim, uint64_t offset, uint64_t bytes);
bool sim_faults_flush_lies(struct disk_sim *sim);
/* sim_faults_rot -- time goes by: something may rot. */
void sim_faults_rot(struct disk_sim *sim);
bool sim_is_bad(const struct disk_sim *sim, uint64_t offset, uint64_t bytes);
/* sim_heal -- a write heals a bad range that it covers. */
void sim_heal(struct disk_sim *sim, uint64_t offset, uint64_t bytes);

#endif /* CLEAVE_STORAGE_DISK_SIM_FAULTS_H */
