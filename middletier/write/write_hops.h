/* SPDX-License-Identifier: Apache-2.0 */
/* write_hops.h -- how long a write took, hop by hop: counted, and kept where it was long */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_HOPS_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_HOPS_H

struct mt_shard;
struct mt_write;
struct write_batch;

/* mt_write_hops_end -- @write is about to be answered with @rc; of the stamps what it got to is set. */
void mt_write_hops_end(const struct mt_shard *shard, struct mt_write *write, int rc);
/* mt_write_hops_leave -- @write's batch ends, and @write is not answered yet. */
void mt_write_hops_leave(struct mt_write *write);
/* mt_write_hops_resend -- @batch has failed at some node, and goes to another extent: which node was the slowest? */
void mt_write_hops_resend(struct write_batch *batch);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_HOPS_H */
