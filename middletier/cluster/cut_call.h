/* SPDX-License-Identifier: Apache-2.0 */
/* cut_call.h -- a step of a snapshot at the other gateways; cut_ask.h has our own ports */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_CUT_CALL_H
#define CLEAVE_MIDDLETIER_CLUSTER_CUT_CALL_H

#include <stdint.h>

#include "cluster/cut_ask.h"
#include "cluster/member.h"

struct mt_cut_order;
struct mt_gateway;
struct mt_peer_call;

struct mt_cut_calls;
/* A gateway has answered, or will not any more. */
typedef void (*mt_cut_call_fn)(struct mt_cut_calls *calls, void *arg);

/* Calls to all other gateways that own a shard, one step at a time. Private to cut_call.c. */
struct mt_cut_calls {
	struct mt_gateway *gateway;
	struct mt_peer_call *calls;      /* MT_GATEWAYS_MAX */
	uint64_t peers[MT_GATEWAYS_MAX]; /* whom they go to, by gateway id */
	uint32_t peer_count, left_count; /* called; not answered */
	struct mt_cut_answer *answers;
	mt_cut_call_fn fn;
	void *arg;
};

/* mt_cut_calls_init -- 0; -ENOMEM. */
int mt_cut_calls_init(struct mt_cut_calls *calls, struct mt_gateway *gateway);
/* mt_cut_calls_fini -- no call is out, or nobody runs the ports' loops any more; also of one that was never begun. */
void mt_cut_calls_fini(struct mt_cut_calls *calls);
/*
 * mt_cut_call -- a step, but the release, at each gateway that owns a shard as far as main has seen, but ours
 *
 * What a gateway says of its shards is in @answers, of the cluster's shards, before its @fn. A gateway that does
 * not answer, or cannot be called, leaves its shards without an answer.
 *
 * Ownership: @answers is borrowed until the last @fn.
 * Returns:   how many were called: so often @fn, on main, later.
 * Threads:   main.
 */
uint32_t mt_cut_call(struct mt_cut_calls *calls, enum mt_cut_step step,
    const struct mt_cut_order *order, struct mt_cut_answer *answers, mt_cut_call_fn fn, void *arg);
/* mt_cut_call_release -- the same gateways may let go; nobody waits for their answers. */
void mt_cut_call_release(struct mt_gateway *gateway, const struct mt_cut_order *order);
/* mt_cut_releases_drop -- nobody runs the ports' loops any more: releases that are under way are forgotten. */
void mt_cut_releases_drop(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_CUT_CALL_H */
