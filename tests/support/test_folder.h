/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_folder.h -- where tests have their files
 *
 * No test here is of what a loss of power does to a file system, and where virtual machines share a disk a flush takes
 * many times as long as all that a test computes.
 */
#ifndef CLEAVE_TESTS_TEST_FOLDER_H
#define CLEAVE_TESTS_TEST_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* test_folder_make -- a new folder of this name and more, in memory where the system has a place there */
static inline void
test_folder_make(char *ret_path, size_t path_bytes, const char *name)
{
	const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	int length = snprintf(ret_path, path_bytes, "%s/cleave_%s_XXXXXX", where, name);
	char *made = length < (int)path_bytes ? mkdtemp(ret_path) : NULL;

	if (made == NULL)
		abort();
}

#endif /* CLEAVE_TESTS_TEST_FOLDER_H */
