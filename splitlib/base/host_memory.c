/* SPDX-License-Identifier: Apache-2.0 */
/* host_memory.c -- see host_memory.h */
#include "base/host_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"

#define GROUP_LINE_BYTES 4096u

/* The first line of a file that begins with @prefix, without that and its end. False: there is none. */
static bool
line_of(const char *path, const char *prefix, char ret_line[GROUP_LINE_BYTES])
{
	FILE *file = fopen(path, "re");
	size_t bytes = strlen(prefix);
	bool is_found = false;

	if (file == NULL)
		return false;
	while (!is_found && fgets(ret_line, GROUP_LINE_BYTES, file) != NULL)
		is_found = strncmp(ret_line, prefix, bytes) == 0;
	(void)fclose(file); /* only read from */
	if (!is_found)
		return false;
	ret_line[strcspn(ret_line, "\n")] = '\0';
	memmove(ret_line, ret_line + bytes, strlen(ret_line + bytes) + 1);
	return true;
}

/* The limit of one group; UINT64_MAX: "max", or none that can be read. */
static uint64_t
limit_of(const char *root, const char *group)
{
	char path[PATH_MAX], line[GROUP_LINE_BYTES];
	uint64_t bytes;

	if (snprintf(path, sizeof(path), "%s%s/memory.max", root, group) >= (int)sizeof(path) ||
	    !line_of(path, "", line) || sscanf(line, "%" SCNu64, &bytes) != 1)
		return UINT64_MAX;
	return bytes;
}

uint64_t
host_memory_least_of(const char *root, const char *group)
{
	char name[GROUP_LINE_BYTES];
	uint64_t least = UINT64_MAX;
	char *slash;

	assert(root != NULL && group != NULL);
	if (snprintf(name, sizeof(name), "%s", group) >= (int)sizeof(name))
		return UINT64_MAX;
	while ((slash = strrchr(name, '/')) != NULL) {
		if (slash[1] != '\0')
			least = num_min(least, limit_of(root, name));
		*slash = '\0';
	}
	return num_min(least, limit_of(root, ""));
}

uint64_t
host_memory_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	uint64_t bytes = UINT64_MAX;
	char group[GROUP_LINE_BYTES];

	if (pages > 0 && page_bytes > 0)
		bytes = (uint64_t)pages * (uint64_t)page_bytes;
	if (line_of("/proc/self/cgroup", "0::", group))
		bytes = num_min(bytes, host_memory_least_of("/sys/fs/cgroup", group));
	return bytes;
}
