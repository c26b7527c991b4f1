/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked_file.h -- the file in which a node keeps the lists of revoked keys that gateways have brought
 *
 * A file of the host, not the node's disk: the disk has 56 KiB of zeros before its slots, too few for two copies of what
 * may come, and a format of its own would shut out the release before. Nor is it beside the key, in a folder that the
 * service may not write. Lost, it is brought again by the first gateway; until then a key that was revoked is believed.
 */
#ifndef CLEAVE_STORAGE_REVOKED_FILE_H
#define CLEAVE_STORAGE_REVOKED_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "base/errand.h"
#include "cleave/loop.h"
#include "cleave/secure.h"

struct storage_options;

struct revoked_file {
	char path[PATH_MAX]; /* "": there is none */
	struct errand_desk desk;
	struct loop_timer timer; /* until it is tried again */
	struct split_key *key;   /* a share: whose lists are to be written; NULL: none */
	bool is_open, is_writing;
};

/* revoked_file_path -- as --revoked says, or in systemd's state folder. False: nowhere. */
bool revoked_file_path(const struct storage_options *options, char ret_path[PATH_MAX]);
/* revoked_file_begin -- of a node with a key; a warning where there is no file. Returns 0; -errno, and it is not open. */
int revoked_file_begin(struct revoked_file *file, const struct storage_options *options,
    struct loop *loop);
/* revoked_file_keep -- the lists of @key are to be in the file; soon, on another thread, and until it worked. */
void revoked_file_keep(struct revoked_file *file, const struct split_key *key);
/* revoked_file_end -- waits for nothing. Also of one that was never begun. */
void revoked_file_end(struct revoked_file *file);

#endif /* CLEAVE_STORAGE_REVOKED_FILE_H */
