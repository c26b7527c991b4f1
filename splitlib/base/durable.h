/* SPDX-License-Identifier: Apache-2.0 */
/* durable.h -- small files that are there whole or not at all, whatever ends the process or the machine */
#ifndef CLEAVE_BASE_DURABLE_H
#define CLEAVE_BASE_DURABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DURABLE_BYTES_MAX (16u * 1024u * 1024u)

/*
 * durable_write -- @bytes of @text as the file @path, of @mode: written beside it, flushed, renamed, its folder flushed
 *
 * @replaces: a file that is there goes, and its owner stays; else it is left alone. What is beside it is called
 * ".NAME.part"; one that a killed process left is overwritten.
 * Returns: 0; -EEXIST there is one, and not @replaces; or another negative errno. Then @path is as it was, but after a
 * failure to flush the folder, where it may be either.
 */
int durable_write(const char *path, const void *text, size_t bytes, mode_t mode, bool replaces);
/*
 * durable_may_write -- may @path be written, as far as its folder shows? Nothing is written
 *
 * 0; -ENOENT, -EACCES, -EROFS and what else keeps its folder from taking a file; -EISDIR @path is a folder.
 */
int durable_may_write(const char *path);
/* durable_read -- the file @name in the folder @at, and a NUL behind it, to free(). 0; -EFBIG; -EINVAL it is no regular file; -errno. */
int durable_read(int at, const char *name, size_t bytes_max, char **ret_text, size_t *ret_bytes);
/* durable_sync_folder -- of @path: which names are in the folder that holds it is on disk. 0 or -errno. */
int durable_sync_folder(const char *path);

#endif /* CLEAVE_BASE_DURABLE_H */
