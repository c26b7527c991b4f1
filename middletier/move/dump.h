/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h -- a metadata store as a text: what `cleave meta dump` writes and `cleave meta load` reads
 *
 *	{"cleave_store":1,"cluster_id":"c1ea7e0000000001","store_id":"...","written_s":1790000000,"keys":3,"gateways":["1"]}
 *	{"key":"cluster","value":"{\"format\":1, ...}"}
 *	{"key":"shards/00000","value":"..."}          or "base64", of a value that is no text
 *	...
 *	{"end":3,"crc32c":"e3069283"}                 of all bytes before this line
 *
 * Keys are sorted. Leased keys are left out: who has them is alive, or is not. One that was cut off, or changed,
 * is refused as a whole.
 */
#ifndef CLEAVE_MIDDLETIER_MOVE_DUMP_H
#define CLEAVE_MIDDLETIER_MOVE_DUMP_H

#include <stddef.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "catalog/keys.h"

#define MT_DUMP_BYTES_MAX (UINT64_C(1) << 31) /* twice what a directory takes */

struct etcd_text;

/* mt_dump_encode -- @keys of one moment, leased ones among them, as a text. 0; -ENOMEM. */
int mt_dump_encode(const struct mt_keys *keys, const struct mt_cluster *cluster, uint64_t written_s,
    struct etcd_text *ret_text);
/*
 * mt_dump_decode -- the keys that @text tells, without leased ones
 *
 * @ret_keys is empty before, and the caller's to free, whatever comes. Returns 0; -ENOMEM; -EBADMSG, and
 * @ret_error says which line is wrong, and how.
 */
int mt_dump_decode(const char *text, size_t bytes, struct mt_keys *ret_keys,
    struct mt_cluster *ret_cluster, char *ret_error, size_t error_bytes);

#endif /* CLEAVE_MIDDLETIER_MOVE_DUMP_H */
