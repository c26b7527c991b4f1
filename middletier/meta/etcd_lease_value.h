/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_lease_value.h -- how a lease is written, and in front of what it holds
 *
 *	l/ID = {"format":1,"ttl_ms":10000,"by":"gateway 3 on host7"}
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_LEASE_VALUE_H
#define CLEAVE_MIDDLETIER_META_ETCD_LEASE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

struct etcd_client;

#define ETCD_LEASE_FORMAT 1u
/* In front of each value: '0', or '1' and the lease's id in hex. */
#define ETCD_VALUE_PLAIN '0'
#define ETCD_VALUE_LEASED '1'
#define ETCD_VALUE_HEAD_BYTES_MAX 17u

/* etcd_lease_key -- the whole key of a lease; @out has ETCD_KEY_BYTES_MAX bytes. */
void etcd_lease_key(const struct etcd_client *client, char *out, uint64_t lease);
/* etcd_lease_read_id -- 16 hex digits; 0: they are not. No lease has the id 0. */
uint64_t etcd_lease_read_id(const char *text);
/* etcd_lease_read_ttl -- how long a lease lives, in ns, from its value; 0: none of ours, so nobody here ends it */
uint64_t etcd_lease_read_ttl(const char *value, uint32_t bytes);
/* etcd_lease_is_by -- does its value say that it was granted to @by? */
bool etcd_lease_is_by(const char *value, uint32_t bytes, const char *by);
/* etcd_lease_head -- what stands in front of a value under @lease (0: none). Returns its bytes. */
uint32_t etcd_lease_head(char out[ETCD_VALUE_HEAD_BYTES_MAX + 1], uint64_t lease);
/* etcd_lease_of -- the head of a value read: 0 and its bytes, -EBADMSG. *@ret_lease 0: it belongs to none. */
int etcd_lease_of(const char *value, uint32_t bytes, uint64_t *ret_lease, uint32_t *ret_head_bytes);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_LEASE_VALUE_H */
