/* SPDX-License-Identifier: Apache-2.0 */
/* snapper_inside.h -- a snapper as its own files know it */
#ifndef CLEAVE_TESTS_SIM_SNAPPER_INSIDE_H
#define CLEAVE_TESTS_SIM_SNAPPER_INSIDE_H

#include "base/num.h"
#include "cleave/client.h"
#include "cleave/loop.h"
#include "snapper.h"

#define SHOTS_MAX 16u
#define READ_BLOCKS 16u

enum shot_state { SHOT_NONE, SHOT_DOUBTFUL, SHOT_LIVE };

struct shot {
	char name[64]; /* volume@snapshot */
	enum shot_state state;
	bool is_known;    /* numbers are what it holds */
	bool is_deleting; /* a request to delete it may have been carried out */
	uint64_t asked_ns;
	uint32_t *floors, *ceilings, *numbers;
};

struct snapper {
	struct snapper_options options;
	uint64_t dice[4];
	struct loop *loop;
	struct cleave_client *client;
	struct loop_timer timer;
	bool is_busy, is_finishing, is_killed;
	bool is_forced; /* the roll-back, or other reads: the writer still has the volume open */
	void (*then)(struct snapper *snapper, int rc); /* what waits for an answer */
	void (*retry)(struct snapper *snapper); /* what the timer is for; NULL: the next thing */
	struct cleave_call call;
	struct cleave_volume *volume;
	struct cleave_io io;
	uint8_t data[READ_BLOCKS * CLEAVE_BLOCK_BYTES];
	uint32_t at, count;
	uint32_t *seen; /* by block, as read */
	uint64_t retry_ns;
	struct shot shots[SHOTS_MAX];
	struct shot *shot;                 /* this is about */
	struct shot *origin;               /* of the clone; NULL: there is none */
	char clone_name[64], mark[64 + 8]; /* clone@mark: before anything was written to it */
	bool is_clone_deleting;
	const char *reads; /* has_leases: where the clone is read past its gateway, or shall be */
	bool is_cut;       /* likewise: it is being made smaller */
	struct shot kept;  /* is_flattening: the clone's origin as it was, */
	struct shot *kept_of; /* and that itself, which is deleted when it can be */
	bool is_flattening;
	enum cleave_op
	    zero_op; /* hot blocks of the clone are zeroed by it, on both sides of a roll-back */
	uint32_t hot_first, hot_count;
	bool is_clone_read; /* all of the clone is being read, not a snapshot */
	bool is_wiped;      /* they are zeros, and that was acknowledged */
	uint32_t serial, taken_count, verify_at;
	bool is_verifying;
};

/* snapper_below -- of its own dice: less than @limit. */
uint32_t snapper_below(struct snapper *snapper, uint32_t limit);
struct sim_cluster *snapper_cluster(const struct snapper *snapper);

/* Steps, one at a time: each ends with snapper_done, or tries once more after a pause. */
void snapper_again(struct snapper *snapper, void (*retry)(struct snapper *snapper));
void snapper_done(struct snapper *snapper);
/* snapper_ask -- a control request; @other: the clone's name, where it is read, or NULL. Then @then, with the answer's status. */
void snapper_ask(struct snapper *snapper, void (*then)(struct snapper *, int), const char *op,
    const char *name, const char *other);
void snapper_open(struct snapper *snapper, const char *name, void (*then)(struct snapper *, int));
void snapper_close(struct snapper *snapper, void (*then)(struct snapper *, int));
/* snapper_read_clone -- all of it is compared with its origin. */
void snapper_read_clone(struct snapper *snapper);

#endif /* CLEAVE_TESTS_SIM_SNAPPER_INSIDE_H */
