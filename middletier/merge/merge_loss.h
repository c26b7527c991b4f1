/* SPDX-License-Identifier: Apache-2.0 */
/* merge_loss.h -- blocks that a merge cannot read: which of them are lost, and which may come back */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_LOSS_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_LOSS_H

#include <stdint.h>

struct merge_exec;
struct merge_source;

/* mt_merge_loss_note_wrong -- copy @replica_index was read, and does not pass its checks: @rc. It is not asked again. */
void mt_merge_loss_note_wrong(struct merge_exec *exec, struct merge_source *source,
    uint8_t replica_index, int rc);
/* mt_merge_loss_note_refused -- the node of copy @replica_index answers @rc (mt_is_copy_bad) in place of bytes. */
void mt_merge_loss_note_refused(struct merge_exec *exec, struct merge_source *source,
    uint8_t replica_index, int rc);
/*
 * mt_merge_loss_judge -- nobody is left to ask about @source now
 *
 * STEP_DONE: its blocks are lost, which the log is told; STEP_AGAIN: all copies that are not bad may be asked again, a
 * little later; -EUCLEAN: no copy passes, and not every one is known to be damaged; -EHOSTDOWN: some could not be
 * asked until the window's deadline; -ESTALE: its extent has gone.
 */
int mt_merge_loss_judge(struct merge_exec *exec, struct merge_source *source);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_LOSS_H */
