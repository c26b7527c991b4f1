/* SPDX-License-Identifier: Apache-2.0 */
/* meta_txn.c -- transactions checked and copied, for every metadata store alike */
#include "meta/meta_txn.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "cleave/meta.h"
#include "common/alloc.h"

bool
meta_prefix_is_valid(const char *prefix)
{
	return prefix != NULL && strnlen(prefix, META_KEY_BYTES_MAX + 1) <= META_KEY_BYTES_MAX;
}

bool
meta_key_is_valid(const char *key)
{
	return meta_prefix_is_valid(key) && key[0] != '\0';
}

bool
meta_key_has_prefix(const char *key, const char *prefix)
{
	return strncmp(key, prefix, strlen(prefix)) == 0;
}

bool
meta_key_is_leased(const char *key)
{
	return meta_key_has_prefix(key, META_LEASED_PREFIX);
}

bool
meta_txn_is_leased(const struct meta_txn *txn)
{
	assert(txn->count > 0);
	for (uint32_t i = 0; i < txn->count; i++)
		if (!meta_key_is_leased(txn->ops[i].key))
			return false;
	return true;
}

static bool
meta_op_is_valid(const struct meta_op *op)
{
	if (!meta_key_is_valid(op->key))
		return false;
	switch (op->kind) {
	case META_COMPARE_VERSION:
	case META_DELETE:
		return op->lease == 0 && op->value_bytes == 0;
	case META_PUT:
		return op->value_bytes <= META_VALUE_BYTES_MAX &&
		    (op->value != NULL || op->value_bytes == 0) &&
		    (op->lease == 0 || meta_key_is_leased(op->key));
	}
	return false;
}

/* Is the key of @ops[index] changed by one before it, too? */
static bool
meta_op_is_second(const struct meta_op *ops, uint32_t index)
{
	if (ops[index].kind == META_COMPARE_VERSION)
		return false;
	for (uint32_t i = 0; i < index; i++)
		if (ops[i].kind != META_COMPARE_VERSION && strcmp(ops[i].key, ops[index].key) == 0)
			return true;
	return false;
}

/* A transaction that changes leased keys is about no others; each key changes once. */
static bool
meta_ops_are_valid(const struct meta_op *ops, uint32_t count)
{
	uint32_t leased_count = 0, value_bytes = 0;
	bool changes_leased = false;

	for (uint32_t i = 0; i < count; i++) {
		if (!meta_op_is_valid(&ops[i]) || meta_op_is_second(ops, i))
			return false;
		value_bytes += ops[i].value_bytes;
		if (value_bytes > META_TXN_BYTES_MAX)
			return false;
		if (!meta_key_is_leased(ops[i].key))
			continue;
		leased_count++;
		changes_leased |= ops[i].kind != META_COMPARE_VERSION;
	}
	return !changes_leased || leased_count == count;
}

int
meta_txn_copy(const struct meta_op *ops, uint32_t count, struct meta_txn **ret_txn)
{
	size_t head_bytes = sizeof(struct meta_txn) + count * sizeof(struct meta_op);
	size_t bytes = head_bytes;
	struct meta_txn *txn;
	char *at;

	if (count == 0 || count > META_TXN_OPS_MAX || !meta_ops_are_valid(ops, count))
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		bytes += strlen(ops[i].key) + 1 + ops[i].value_bytes;
	txn = mt_calloc(1, bytes);
	if (txn == NULL)
		return -ENOMEM;
	txn->count = count;
	at = (char *)txn + head_bytes;
	for (uint32_t i = 0; i < count; i++) {
		size_t key_bytes = strlen(ops[i].key) + 1;

		txn->ops[i] = ops[i];
		txn->ops[i].key = memcpy(at, ops[i].key, key_bytes);
		at += key_bytes;
		txn->ops[i].value = at;
		if (ops[i].value_bytes > 0)
			memcpy(at, ops[i].value, ops[i].value_bytes);
		at += ops[i].value_bytes;
	}
	assert((size_t)(at - (char *)txn) == bytes);
	*ret_txn = txn;
	return 0;
}
