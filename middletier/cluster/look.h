/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look.h -- one question to the ports for all who ask within the same moment, which is waited for a second at most
 *
 * Main's. A port that does not answer (its thread computes, or hangs) is left out: others tell what they know.
 * While it has not answered nobody asks the ports again, so that questions do not pile up.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_LOOK_H
#define CLEAVE_MIDDLETIER_CLUSTER_LOOK_H

#include <stdbool.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cluster/ask.h"

struct mt_gateway;

#define MT_LOOK_NS NUM_S(1)

/* @ask: as answered; its silent_count says how many ports have not. NULL: out of memory, or nobody asks any more. */
typedef void (*mt_look_fn)(const struct mt_ask *ask, void *arg);

struct mt_look {
	struct loop *loop;
	struct mt_gateway *gateway; /* NULL: not begun */
	enum mt_ask_kind kind;      /* of the next question */
	bool is_out;                /* the ports were asked, and have not all answered */
	uint64_t asked_ns;          /* when */
	struct loop_timer timer;    /* who waits has waited long enough */
	bool is_timing;
	struct loop_link waiters; /* in the order in which they came */
};

/* mt_look_init -- @loop: main's. @kind: one that has the ports tell their status. */
void mt_look_init(struct mt_look *look, struct loop *loop, enum mt_ask_kind kind);
/* mt_look_begin -- there is a gateway to ask. */
void mt_look_begin(struct mt_look *look, struct mt_gateway *gateway);
/* mt_look_fini -- whoever waits is told NULL. The gateway may be gone, and its loop does not run. After mt_look_init. */
void mt_look_fini(struct mt_look *look);
/* mt_look_drop -- the same, and nobody is told: who waits goes as well. */
void mt_look_drop(struct mt_look *look);
/* mt_look -- @fn is called once, later. 0; -EHOSTDOWN: not begun; -ENOMEM; -ESHUTDOWN: the gateway stops. */
int mt_look(struct mt_look *look, mt_look_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_LOOK_H */
