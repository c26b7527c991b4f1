/* SPDX-License-Identifier: Apache-2.0 */
/* lock_holder.c -- which process has a file locked, by /proc/locks */
#include "base/lock_holder.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int
lock_holder(const char *path)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[128];
	struct stat st;
	int holder = 0;

	if (locks == NULL)
		return 0;
	if (stat(path, &st) != 0)
		st.st_ino = 0;
	/* 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF */
	while (st.st_ino != 0 && holder == 0 && fgets(line, sizeof(line), locks) != NULL) {
		unsigned long long inode;
		unsigned major_number, minor_number;
		int pid;

		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major_number,
			&minor_number, &inode) == 4 &&
		    inode == st.st_ino && major_number == major(st.st_dev) &&
		    minor_number == minor(st.st_dev))
			holder = pid;
	}
	(void)fclose(locks);
	return holder;
}
