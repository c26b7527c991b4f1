/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_members.h -- which members of an etcd do not answer, or have no leader
 *
 * A call goes to the next member where one fails, so nobody notices that a member is down until the last but one is.
 * Each endpoint is asked for its status every second, by itself, and nothing depends on what it says.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_MEMBERS_H
#define CLEAVE_MIDDLETIER_META_ETCD_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "meta/etcd_http.h"

struct etcd_client;
struct etcd_http_call;
struct etcd_members;

#define ETCD_MEMBER_WHY_BYTES 80u
#define ETCD_MEMBER_BAD_NS 1000000000u /* without a good answer for so long: it is told */

struct etcd_member {
	struct etcd_members *members;
	struct etcd_http_call *http_call; /* NULL: none is out */
	uint64_t asked_ns;
	uint64_t
	    bad_ns; /* when the first question in a row without a good answer was asked; 0: there is none */
	char why[ETCD_MEMBER_WHY_BYTES]; /* bad_ns != 0: what the last one ended with */
};

struct etcd_members {
	struct etcd_client *client;
	struct loop_timer timer;
	struct etcd_member each[ETCD_ENDPOINTS_MAX];
};

/* etcd_members_init -- @is_on false: nobody is asked. */
void etcd_members_init(struct etcd_members *members, struct etcd_client *client, bool is_on);
void etcd_members_fini(struct etcd_members *members);
/*
 * etcd_members_bad -- how many have given no good answer for ETCD_MEMBER_BAD_NS
 *
 * *@ret_ns: since the first of them. @ret_text: "http://b:2379 (Connection refused), http://c:2379 (no leader)", cut
 * where it is longer; "" for none.
 */
uint32_t etcd_members_bad(const struct etcd_members *members, uint64_t *ret_ns, char *ret_text,
    size_t bytes);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_MEMBERS_H */
