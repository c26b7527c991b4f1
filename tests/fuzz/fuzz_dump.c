/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dump.c -- a dump of a metadata store: any bytes, no crash; one that is taken is sorted and has a cluster */
#include <assert.h>
#include <string.h>

#include "middletier/catalog/keys.h"
#include "middletier/move/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct mt_keys keys = { 0 };
	struct mt_cluster cluster;
	char error[256] = "";
	int rc = mt_dump_decode((const char *)data, bytes, &keys, &cluster, error, sizeof(error));

	assert(rc == 0 || error[0] != '\0');
	if (rc == 0)
		assert(mt_keys_find(&keys, "cluster") != NULL);
	for (uint32_t i = 1; i < keys.count; i++)
		assert(strcmp(keys.items[i - 1].key, keys.items[i].key) < 0);
	mt_keys_fini(&keys);
	return 0;
}
