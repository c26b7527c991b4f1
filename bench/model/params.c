/* SPDX-License-Identifier: Apache-2.0 */
/* params.c -- see params.h */
#include "params.h"

#include <stdio.h>

int
params_file_read(const char *path, bool (*set)(void *params, const char *name, double value),
    void *params)
{
	FILE *file = fopen(path, "r");
	char line[512], name[64];
	double value;
	int rc = 0;

	if (file == NULL) {
		perror(path);
		return -1;
	}
	while (rc == 0 && fgets(line, sizeof(line), file) != NULL) {
		if (line[0] == '#' || sscanf(line, "%63s %lf", name, &value) != 2)
			continue;
		if (value <= 0 || !set(params, name, value)) {
			(void)fprintf(stderr, "%s: %s: no such parameter, or not above 0\n", path,
			    name);
			rc = -1;
		}
	}
	(void)fclose(file);
	return rc;
}
