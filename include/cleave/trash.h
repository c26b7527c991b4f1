/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trash.h -- libcleave: deleted volumes, with all that is on them, until their time is over; manage.h includes it
 *
 * A cluster has a trash from level 2 on. What all calls have in common is at the head of manage.h.
 */
#ifndef CLEAVE_TRASH_H
#define CLEAVE_TRASH_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/manage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A deleted volume that is in the trash. Longer texts are cut. */
struct cleave_trash_entry {
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1]; /* that it had */
	uint64_t id; /* no other volume ever has it, and it keeps it when it is restored */
	uint64_t size_bytes;
	uint64_t deleted_s; /* when, in seconds since 1970 */
	uint64_t keep_s;    /* how long it is kept */
	uint64_t left_s; /* of that, at least: then it is purged; 0: it may be purged any moment */
	uint32_t snapshot_count;
	char by[64]; /* who deleted it, as its key says; without keys, from where */
};

/* Some of them, by rising id. */
struct cleave_trash_page {
	const struct cleave_trash_entry *volumes;
	uint32_t volume_count;
	bool is_more; /* ask again, after the last of these */
};

/*
 * cleave_trash_list, cleave_trash_list_wait -- the volumes in the trash, by rising id
 *
 * The first form has one page of them: those whose id is above @after, which is 0 for the first page. The
 * second has all.
 * Ownership: @ask is the library's until @fn. *@ret_volumes, an array, is the caller's: free() it; NULL when
 *            there is none, and untouched on failure. @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0, *@ret_volumes and
 *            *@ret_count; else a negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL @after is no id; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -EINVAL the gateway's
 *            release has no trash; those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_trash_list(struct cleave_client *client, struct cleave_ask *ask, uint64_t after,
    cleave_trash_fn fn, void *arg);
int cleave_trash_list_wait(struct cleave *cleave, struct cleave_trash_entry **ret_volumes,
    uint32_t *ret_count, char *ret_error);

/*
 * cleave_trash_restore, cleave_trash_restore_wait -- bring a volume back, with its snapshots, as it was
 *
 * @which: its id in decimal digits, or the name that it had, if one alone in the trash had that. A number that is
 * the id of one and the name of another is refused; by cleave_control "by_id":true insists on the id. @new_name:
 * what it shall be called; NULL: as it was.
 * Ownership: @which and @new_name are copied; else as with cleave_volume_create.
 * Returns:   as cleave_volume_create; the volume has its id, and that name.
 * Errors:    -EINVAL a name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT there is none, or it is being
 *            purged; -EINVAL several are meant: the text has their ids; -EEXIST there is a volume of that
 *            name by now; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_trash_restore(struct cleave_client *client, struct cleave_ask *ask, const char *which,
    const char *new_name, cleave_volume_fn fn, void *arg);
int cleave_trash_restore_wait(struct cleave *cleave, const char *which, const char *new_name,
    struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_trash_purge, cleave_trash_purge_wait -- delete a volume of the trash for good, before its time is over
 *
 * @which: as of cleave_trash_restore. Its snapshots go with it, and its room comes back.
 * Ownership: @which is copied; else as with cleave_volume_delete.
 * Returns:   as cleave_volume_delete.
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT there is none; -EINVAL
 *            several are meant: the text has their ids; -ENOTEMPTY a snapshot of it is protected, or has
 *            clones; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_trash_purge(struct cleave_client *client, struct cleave_ask *ask, const char *which,
    cleave_done_fn fn, void *arg);
int cleave_trash_purge_wait(struct cleave *cleave, const char *which, char *ret_error);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_TRASH_H */
