/* SPDX-License-Identifier: Apache-2.0 */
/* control_change.h -- control_change.c's part in control_snapshot.c and control_resize.c */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_CHANGE_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"
#include "cleave/meta.h"
#include "cluster/holding.h"

struct mt_control_request;
struct mt_snapshot_entry;

/* Where these return false or NULL, the request has ended. */
bool mt_change_take_name(struct mt_control_request *request, const char *name,
    char ret_name[MT_NAME_BYTES]);
/* mt_change_take_snapshot -- VOLUME@SNAPSHOT, into request->volume.name and ->snapshot_name. */
bool mt_change_take_snapshot(struct mt_control_request *request, const char *name);
/* mt_change_take_request -- the member "name", VOLUME@SNAPSHOT, and no other but "force". */
bool mt_change_take_request(struct mt_control_request *request);
/* Both find by the names that were taken; the snapshot is live. */
struct mt_volume_entry *mt_change_find_volume(struct mt_control_request *request);
struct mt_snapshot_entry *mt_change_find_snapshot(struct mt_control_request *request);

struct meta_op mt_change_compare(const char *key, uint64_t version);
/* mt_change_put -- @text NULL is out of memory, which mt_control_change sees. */
struct meta_op mt_change_put(const char *key, const char *text);
/* mt_change_on_volume -- of mt_control_change: answers with the volume as it is now. */
void mt_change_on_volume(struct mt_control_request *request);

/*
 * mt_change_when_unused -- nobody new comes in, and all gateways say who is there: then @fn
 *
 * A request that begins again is about the volume that it was about first: another one that has the name by now is refused.
 */
void mt_change_when_unused(struct mt_control_request *request, mt_holder_fn fn);
/* mt_change_fail_another -- the name is another volume's by now; the request ends. */
void mt_change_fail_another(struct mt_control_request *request);
/*
 * mt_change_name_opened -- of an attach or an open that says no *@name: that of the volume whose id it says, until the tables change
 *
 * False: the request has ended. A volume that who asks may not open, or attach, is not there.
 */
bool mt_change_name_opened(struct mt_control_request *request, const char **name);
/*
 * mt_change_is_other_opened -- of an attach, an open, a snapshot: is @volume, which has the name, not the one whose id was said?
 *
 * True: the request has ended so. Looked at each time the request has waited.
 */
bool mt_change_is_other_opened(struct mt_control_request *request, const struct mt_volume *volume);
/*
 * mt_change_is_still_unused -- after mt_change_when_unused, each time the request has waited: may it change @volume?
 *
 * False: it is another volume, which has that one's name by now, or somebody has attached it since, at whichever
 * gateway. Who insists puts out whoever came.
 */
bool mt_change_is_still_unused(const struct mt_control_request *request,
    const struct mt_volume *volume);
/* mt_change_when_unused_entry -- of @fn: nobody is there, or is to be put out. NULL: the request has ended, or begins again. */
struct mt_volume_entry *mt_change_when_unused_entry(struct mt_control_request *request,
    const struct mt_holder_answer *answer);

/*
 * mt_change_fence -- behind mt_change_when_unused_entry: @then, once no session can read the volume past its gateway
 *
 * A volume that may be read so gets a new attach number, of nobody, every gateway reads of it, and read leases of sessions
 * before it are waited for (mt_holder_fence). The transaction that @then makes must compare the key's version: so nobody
 * has attached since. A volume that is read at gateways alone is as it was, and @then is called at once.
 */
void mt_change_fence(struct mt_control_request *request, const struct mt_volume_entry *entry,
    void (*then)(struct mt_control_request *request, const struct mt_volume_entry *entry));

/*
 * mt_control_change -- a transaction; then everything is read anew, and @fn goes on
 *
 * A conflict with another gateway runs the op again; another error ends it.
 */
void mt_control_change(struct mt_control_request *request, const struct meta_op *ops,
    uint32_t count, void (*fn)(struct mt_control_request *request));

/* mt_change_put_snapshot -- @request's change.snapshot in the place of @entry, if that is still what the store has. */
void mt_change_put_snapshot(struct mt_control_request *request,
    const struct mt_snapshot_entry *entry, void (*fn)(struct mt_control_request *request));

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_CHANGE_H */
