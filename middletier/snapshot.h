/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h -- taking a snapshot: main's side; what a shard does is in internal.h, under cut.c */
#ifndef CLEAVE_MIDDLETIER_SNAPSHOT_H
#define CLEAVE_MIDDLETIER_SNAPSHOT_H

#include "control.h"
#include "peer.h"

enum mt_cut_step {
	MT_CUT_STEP_ASK,
	MT_CUT_STEP_BEGIN,
	MT_CUT_STEP_CONFIRM,
	MT_CUT_STEP_RELEASE,
	MT_CUT_STEP_NR
};

/* ---- cut_ask.c: one step at every port of this gateway ---- */
struct mt_cut_leg;
struct mt_cut_answer {
	bool is_there; /* the shard is served here */
	uint32_t epoch;
	int rc;
	struct mt_cut_leg *leg;
	struct mt_shard *shard;
};
struct mt_cut_ask;
typedef void (*mt_cut_ask_fn)(struct mt_cut_ask *ask, void *arg);
struct mt_cut_ask {
	struct loop_link link; /* gateway->cut_asks */
	struct mt_gateway *gateway;
	enum mt_cut_step step;
	struct mt_cut_order order;
	struct mt_cut_leg {
		struct loop_post post;
		struct mt_cut_ask *ask;
		struct mt_port *port;
		uint32_t
		    pending_count; /* shards that have not answered, and one while they are asked */
	} legs[MT_PORTS_MAX];
	uint32_t left_count;
	mt_cut_ask_fn fn;
	void *arg;
	struct mt_cut_answer answers[]; /* of the cluster's shards; each its port's until the end */
};
/* mt_cut_ask -- 0 and @fn later, on main, after which @ask is freed; -ENOMEM; -ESHUTDOWN. */
int mt_cut_ask(struct mt_gateway *gateway, enum mt_cut_step step, const struct mt_cut_order *order,
    mt_cut_ask_fn fn, void *arg);
void mt_cut_asks_drop(struct mt_gateway *gateway);
/* mt_control_cut -- the op "cut", by which another gateway's main asks for a step. */
void mt_control_cut(struct mt_control_request *request);
const char *mt_cut_step_name(enum mt_cut_step step);

/* ---- snapshot.c: the same step at every gateway, and what comes of it ---- */
/*
 * @rc 0: every shard of the cluster has cut, and holds; the caller makes what it wants by one transaction and
 * calls mt_taking_end at once. Else nothing is held, no number was taken or it is void, and
 * gateway->taking->error says what stood in the way.
 */
typedef void (*mt_taking_fn)(int rc, void *arg);
enum mt_taking_state {
	MT_TAKING_IDLE,
	MT_TAKING_ASKING,    /* would they all begin? */
	MT_TAKING_NUMBERING, /* a number, and its pending key */
	MT_TAKING_BEGINNING,
	MT_TAKING_CONFIRMING,
	MT_TAKING_CHECKING, /* whose shards they are now */
	MT_TAKING_READY,    /* the caller's transaction */
	MT_TAKING_VOIDING,
	MT_TAKING_STATE_NR
};
struct mt_taking {
	struct sm sm;
	struct mt_gateway *gateway;
	struct mt_snapshot snapshot; /* as it will be */
	struct mt_cluster
	    cluster;      /* as it will be, once the number is taken; its version is of before */
	uint64_t version; /* of its pending key */
	struct mt_cut_order order;
	uint32_t *epochs; /* that answered the begin */
	struct mt_cut_answer *answers;
	struct mt_peer_call *calls; /* MT_GATEWAYS_MAX */
	uint64_t peers[MT_GATEWAYS_MAX];
	uint32_t peer_count, left_count;
	struct mt_volumes_waiter waiter;
	int rc;
	char error[MT_CONTROL_ERROR_BYTES];
	mt_taking_fn fn;
	void *arg;
};
/* mt_taking_init -- 0; -ENOMEM. */
int mt_taking_init(struct mt_gateway *gateway);
void mt_taking_fini(struct mt_gateway *gateway);
/*
 * mt_taking_start -- a number for a snapshot of @volume, and cut it in every shard
 *
 * One at a time: of a change, which control.c runs one after the other, when it has read the tables anew.
 * Returns 0 and @fn later; -EBUSY, -ENOMEM, -ESHUTDOWN.
 */
int mt_taking_start(struct mt_gateway *gateway, const struct mt_volume *volume, const char *name,
    mt_taking_fn fn, void *arg);
/* mt_taking_end -- the transaction was made, or not (@rc): let go of the answers; a number not used is void. */
void mt_taking_end(struct mt_gateway *gateway, int rc);

#endif /* CLEAVE_MIDDLETIER_SNAPSHOT_H */
