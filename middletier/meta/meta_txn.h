/* SPDX-License-Identifier: Apache-2.0 */
/* meta_txn.h -- what the metadata stores share: copies of transactions, watches */
#ifndef CLEAVE_MIDDLETIER_META_META_TXN_H
#define CLEAVE_MIDDLETIER_META_META_TXN_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/meta.h"

/* A copy of a caller's operations, keys and values in one piece of memory: mt_free it. */
struct meta_txn {
	uint32_t count;
	struct meta_op ops[];
};

/* meta_txn_copy -- 0; -EINVAL: too many, a key or a value out of bounds, leased keys where none may be; -ENOMEM. */
int meta_txn_copy(const struct meta_op *ops, uint32_t count, struct meta_txn **ret_txn);
/* meta_key_is_valid -- a text of 1 to META_KEY_BYTES_MAX bytes; a prefix may be empty. */
bool meta_key_is_valid(const char *key);
bool meta_prefix_is_valid(const char *prefix);
bool meta_key_has_prefix(const char *key, const char *prefix);
/* meta_key_is_leased -- a key, or the prefix of such keys alone, that may be put with a lease. */
bool meta_key_is_leased(const char *key);
/* meta_txn_is_leased -- it is about leased keys alone, so nothing of it is durable. */
bool meta_txn_is_leased(const struct meta_txn *txn);

#endif /* CLEAVE_MIDDLETIER_META_META_TXN_H */
