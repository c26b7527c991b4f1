/* SPDX-License-Identifier: Apache-2.0 */
/* secret_file.h -- small files that hold a secret: read by whom they belong to, refused where others may read them */
#ifndef CLEAVE_BASE_SECRET_FILE_H
#define CLEAVE_BASE_SECRET_FILE_H

#include <stddef.h>
#include <sys/types.h>

#define SECRET_FILE_WHY_BYTES 256u /* of a sentence that says what is wrong; a longer one is cut */

/*
 * secret_file_load -- all of the file @path, and a NUL behind it, into @ret_text
 *
 * Its group may read it, as systemd's credentials are; nobody but its owner may change it, and others may do nothing.
 * Shape:     @ret_text has room for @bytes_max + 2 bytes.
 * Returns:   how many bytes there are, at most @bytes_max; or a negative errno and @why, of SECRET_FILE_WHY_BYTES.
 * Errors:    -EACCES others may read or change it, or we may not; -EFBIG; as open and read.
 * Ownership: the caller wipes @ret_text, also after an error.
 * Threads:   any; blocks.
 */
ssize_t secret_file_load(const char *path, size_t bytes_max, char *ret_text, char *why);

#endif /* CLEAVE_BASE_SECRET_FILE_H */
