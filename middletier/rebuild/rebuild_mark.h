/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_mark.h -- the key "recovering": a recovery writes this metadata store, and was not finished
 *
 *	{"format":1,"cluster":"{...}","keeps_users":true}
 *
 * It takes the place of the key "cluster", in one transaction, and has that one's text. The transaction that writes the
 * new "cluster" deletes it. A recovery that is run again behind one that was cut off judges by it as that one did.
 */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_MARK_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_MARK_H

#include <stdbool.h>

struct mt_rebuild_store;

#define MT_REBUILD_MARK_KEY "recovering"

/*
 * mt_rebuild_mark_read -- @store has no "cluster", and a mark with the value @text: it is unfinished
 *
 * Returns 0, also where the mark cannot be read, which is logged; -EPROTONOSUPPORT of a level above ours; -ENOMEM.
 */
int mt_rebuild_mark_read(struct mt_rebuild_store *store, const char *text);
/* mt_rebuild_mark_plan -- the mark is planned, with store->cluster as it was and whether users stay. 0; -ENOMEM. */
int mt_rebuild_mark_plan(struct mt_rebuild_store *store, bool keeps_users);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_MARK_H */
