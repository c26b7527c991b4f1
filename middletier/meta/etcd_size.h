/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_size.h -- how large the database of an etcd is, against its quota
 *
 * An etcd that has used its quota up refuses all that is put, so every lease ends, and every gateway stops. It is
 * looked at each minute, and warned of at half.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_SIZE_H
#define CLEAVE_MIDDLETIER_META_ETCD_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"

struct etcd_call;
struct etcd_client;
struct etcd_http_call;

struct etcd_size {
	struct etcd_client *client;
	struct sm sm;
	struct etcd_call *call;
	struct etcd_http_call *http_call;
	struct loop_timer timer;
	uint64_t database_bytes; /* of the member that was asked last; 0: none has answered */
	uint64_t quota_bytes;    /* what it said, or an etcd's default */
	bool is_told;            /* it is beyond half */
};

/* etcd_size_init -- @is_on false: nobody is asked. */
void etcd_size_init(struct etcd_size *size, struct etcd_client *client, bool is_on);
void etcd_size_fini(struct etcd_size *size);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_SIZE_H */
