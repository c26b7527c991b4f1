/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_old.h -- what an old store alone tells, and no node: what of it goes, and what stays and is named */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_OLD_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_OLD_H

#include <stdbool.h>

struct mt_rebuild_plan;
struct mt_rebuild_store;

/*
 * mt_rebuild_old_is_trusted -- does @store count where no node can say otherwise?
 *
 * It does when it is not older than what the nodes hold, and lies where it was made: it is made anew by force. An
 * unfinished one does when the recovery that was cut off has trusted it.
 */
bool mt_rebuild_old_is_trusted(const struct mt_rebuild_store *store,
    const struct mt_rebuild_plan *plan);
/*
 * mt_rebuild_old_plan -- the users of @store, which is not trusted, go: one that was removed since would have its rights again
 *
 * They are counted in store->dropped_user_count, and the log names each; and what stays as the old store has it.
 * Returns 0; -ENOMEM.
 */
int mt_rebuild_old_plan(struct mt_rebuild_store *store);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_OLD_H */
