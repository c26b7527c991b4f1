/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_etcd_json.c -- answers of an etcd, lines of its stream, values that it keeps: any bytes, no crash */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "middletier/meta/etcd_json.h"
#include "middletier/meta/etcd_lease_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_kv(const struct etcd_kv *kv)
{
	uint64_t lease;
	uint32_t head_bytes;

	assert(kv->key[kv->key_bytes] == '\0');
	assert(kv->value[kv->value_bytes] == '\0');
	if (etcd_lease_of(kv->value, kv->value_bytes, &lease, &head_bytes) == 0)
		assert(head_bytes <= kv->value_bytes);
	(void)etcd_lease_read_ttl(kv->value, kv->value_bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct etcd_answer answer;

	if (etcd_answer_decode((const char *)data, bytes, &answer) != 0) {
		assert(answer.root == NULL);
		return 0;
	}
	assert(answer.is_error || answer.cluster_id != 0);
	assert(!answer.is_error || answer.message != NULL);
	for (uint32_t i = 0; i < answer.kv_count; i++)
		check_kv(&answer.kvs[i]);
	etcd_answer_fini(&answer);
	return 0;
}
