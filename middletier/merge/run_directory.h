/* SPDX-License-Identifier: Apache-2.0 */
/* run_directory.h -- the directory that a run ends with, written behind its last batch */
#ifndef CLEAVE_MIDDLETIER_MERGE_RUN_DIRECTORY_H
#define CLEAVE_MIDDLETIER_MERGE_RUN_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

struct mt_port;
struct run_batch;
struct run_writer;

#define RUN_DIRECTORY_BATCHES_MIN 4u /* of a run: the heads of fewer are read as fast */

#define RUN_DIRECTORY_GAPS_MORE 8u /* in a batch, than in those before it, are expected */

/* mt_run_directory_init -- host memory for one. 0; -ENOMEM: nothing is to be finished. */
int mt_run_directory_init(struct run_writer *writer, struct mt_port *port);
/*
 * mt_run_directory_bytes -- kept back in the open extent for the directory of the part at hand, with one batch more
 *
 * @next: that batch, which is closed; NULL: it is to be filled, and is taken to be like those before it. Where it is not
 * it may find no room when it is closed, and go to the next extent. 0: that part would have none.
 */
uint32_t mt_run_directory_bytes(const struct run_writer *writer, const struct run_batch *next);
/*
 * mt_run_directory_step -- no batch follows in the open extent: write the directory of the part that ends, if it gets one
 *
 * True: it is on its way, or batches before it are: not yet. False: it is written, or there will be none.
 */
bool mt_run_directory_step(struct run_writer *writer);

#endif /* CLEAVE_MIDDLETIER_MERGE_RUN_DIRECTORY_H */
