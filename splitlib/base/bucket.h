/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bucket.h -- a volume's limits, kept: what a request costs, and when it may go
 *
 * A *bucket* keeps one rate. It remembers the moment at which all that it let go is paid for; the time from now until
 * then is its debt. A request may go while the debt is no longer than the bucket's *depth*, and adds its own cost to
 * it. So in any t seconds what goes costs at most rate * (t + depth), and one request more.
 *
 * struct limiter has a bucket for each limit of a volume. Nothing in here reads a clock, allocates or waits.
 * Threads: the owner's.
 */
#ifndef CLEAVE_BASE_BUCKET_H
#define CLEAVE_BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/units.h"

#define LIMITER_UNIT_BYTES 16384u /* of a request that costs one operation */
#define LIMITER_BURST_MS_DEFAULT 250u

struct bucket {
	uint64_t rate;    /* a second; 0: no limit */
	uint64_t paid_ns; /* when all that it let go is paid for; may be past */
	uint64_t rest;    /* of a nanosecond, in 1/rate: nothing is lost by rounding */
};

/* bucket_set -- another rate: the debt does not grow, nor is it forgiven; less time of a higher rate pays for it. */
void bucket_set(struct bucket *bucket, uint64_t rate, uint64_t now_ns);
/* bucket_wait_ns -- how long until a request may go; 0: now. */
uint64_t bucket_wait_ns(const struct bucket *bucket, uint64_t depth_ns, uint64_t now_ns);
/* bucket_take -- a request of @cost goes, also where it had to wait. @cost: at most 2^32. */
void bucket_take(struct bucket *bucket, uint64_t cost, uint64_t now_ns);

enum limiter_bucket {
	LIMITER_OPS,
	LIMITER_BYTES,
	LIMITER_READ_OPS,
	LIMITER_READ_BYTES,
	LIMITER_WRITE_OPS,
	LIMITER_WRITE_BYTES,
	LIMITER_NR
};

/* All zeros: no limit. */
struct limiter {
	struct bucket buckets[LIMITER_NR];
	uint64_t depth_ns;
};

/* A request, as limits see it. */
struct limiter_cost {
	bool is_write;
	uint32_t data_bytes; /* that it carries, either way; 0: none */
};

/* limits_are_set -- any limit is: requests may have to wait. Shares (min_iops, weight) are none. */
bool limits_are_set(const struct cleave_limits *limits);
/* limits_have_shares -- min_iops or weight is set. */
bool limits_have_shares(const struct cleave_limits *limits);
/* limits_are_equal -- member by member. */
bool limits_are_equal(const struct cleave_limits *a, const struct cleave_limits *b);
/*
 * limits_tag -- a number that tells other limits, in a reply, to who knows some
 *
 * 0: no limit is set. Shares are the gateways' business alone, and change no tag.
 */
uint32_t limits_tag(const struct cleave_limits *limits);
/* limits_ops -- what a request that carries @data_bytes costs in operations: 1 for each 16 KiB begun, at least 1. */
uint32_t limits_ops(uint32_t data_bytes);

/* limiter_set -- other limits; @spare_ns is added to the depth that they ask for. Debts stay: see bucket_set. */
void limiter_set(struct limiter *limiter, const struct cleave_limits *limits, uint64_t spare_ns,
    uint64_t now_ns);
/* limiter_wait_ns -- how long until such a request may go; 0: now. */
uint64_t limiter_wait_ns(const struct limiter *limiter, bool is_write, uint64_t now_ns);
/* limiter_take -- the request goes. */
void limiter_take(struct limiter *limiter, const struct limiter_cost *cost, uint64_t now_ns);
#define LIMITER_SHARE_ALL 65536u
/*
 * limiter_take_share -- the same, where the limit is shared: each request costs as much as if the limit were that part of it
 *
 * @share: of LIMITER_SHARE_ALL, at least 1. Returns the time for which the whole limit was used: what it costs by the
 * limit that it uses most of.
 */
uint64_t limiter_take_share(struct limiter *limiter, const struct limiter_cost *cost,
    uint32_t share, uint64_t now_ns);
/* limiter_is_paid -- it owes nothing: a new one of the same limits would do as well. */
bool limiter_is_paid(const struct limiter *limiter, uint64_t now_ns);

#endif /* CLEAVE_BASE_BUCKET_H */
