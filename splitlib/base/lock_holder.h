/* SPDX-License-Identifier: Apache-2.0 */
/* lock_holder.h -- which process has a file locked */
#ifndef CLEAVE_BASE_LOCK_HOLDER_H
#define CLEAVE_BASE_LOCK_HOLDER_H

/*
 * lock_holder -- the process that has @path locked by flock
 *
 * Returns its number; 0: nobody has, or the system does not say. For messages: it may have ended since.
 */
int lock_holder(const char *path);

#endif /* CLEAVE_BASE_LOCK_HOLDER_H */
