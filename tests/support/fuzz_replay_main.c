/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_replay_main.c -- runs a fuzz target over a corpus without libFuzzer
 *
 * Each argument is a file or a folder of files. Without a corpus there is nothing to replay: exit 77
 * (skipped), so that a missing folder is seen.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REPLAY_FILE_BYTES_MAX (16u << 20)
#define REPLAY_SKIP 77

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static unsigned replayed_count;

static int
replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	uint8_t *data;
	size_t bytes;

	if (file == NULL || fstat(fileno(file), &st) != 0 ||
	    st.st_size > (off_t)REPLAY_FILE_BYTES_MAX) {
		fprintf(stderr, "%s: cannot be replayed: %s\n", path, strerror(errno));
		if (file != NULL)
			(void)fclose(file);
		return -EIO;
	}
	/* Exactly the input's size, so that a sanitizer sees a read past its end. */
	data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
	if (data == NULL) {
		(void)fclose(file);
		return -ENOMEM;
	}
	bytes = fread(data, 1, (size_t)st.st_size, file);
	(void)fclose(file);
	(void)LLVMFuzzerTestOneInput(data, bytes);
	free(data);
	replayed_count++;
	return 0;
}

static int
replay_folder(const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);
	int rc = 0;

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		char name[PATH_MAX];

		if (entries[i]->d_name[0] != '.' && rc == 0) {
			(void)snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
			rc = replay_file(name);
		}
		free(entries[i]);
	}
	free(entries);
	return rc;
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct stat st;
		int rc = 0;

		if (stat(argv[i], &st) != 0)
			continue;
		rc = S_ISDIR(st.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i]);
		if (rc != 0) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-rc));
			return 1;
		}
	}
	printf("replayed %u inputs\n", replayed_count);
	return replayed_count > 0 ? 0 : REPLAY_SKIP;
}
