/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watched.h -- a part of the store that main has in memory: listed when its watch fires, or somebody waits
 *
 *	watch, a waiter --> list --> the kind's on_list --> mt_watched_finish --> waiters
 *	   ^                                                      |
 *	   '--- 200 to 400 ms, what was read before counts -------'  an error
 *
 * Who asks while a reading is under way waits for the next one, which all of them share.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_WATCHED_H
#define CLEAVE_MIDDLETIER_CLUSTER_WATCHED_H

#include <stdbool.h>

#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/meta.h"

struct mt_gateway;
struct mt_volumes_waiter;

struct mt_watched_kind {
	const char *prefix; /* of its keys */
	const char *failed; /* begins the line of the log where the store does not answer */
	meta_list_fn
	    on_list; /* arg: the gateway. It ends with mt_watched_finish, at once or later */
};

/* Main's, in the state of who reads it. */
struct mt_watched {
	const struct mt_watched_kind *kind;
	struct mt_gateway *gateway;
	bool is_watching, is_reading;
	bool is_dirty;            /* the watch has fired since the reading began, or it failed */
	struct loop_timer timer;  /* until it is read again */
	struct loop_link waiters; /* mt_volumes_waiter: for the next reading */
	struct loop_link readers; /* and of the one under way */
	struct log_limit limit;   /* of the line that it failed */
};

/* mt_watched_init -- nothing is read yet. @kind is static. */
void mt_watched_init(struct mt_watched *watched, struct mt_gateway *gateway,
    const struct mt_watched_kind *kind);
/* mt_watched_fini -- no watch any more; who waits gets -ECANCELED. */
void mt_watched_fini(struct mt_watched *watched);
/* mt_watched_watch -- from now on it is read when it changes, and now. 0; -ENOMEM. mt_watched_unwatch: also without one. */
int mt_watched_watch(struct mt_watched *watched);
void mt_watched_unwatch(struct mt_watched *watched);
/* mt_watched_read -- as soon as can be, also without a watch; @waiter->fn, once, within the call only with -ENOMEM. */
void mt_watched_read(struct mt_watched *watched, struct mt_volumes_waiter *waiter);
/* mt_watched_again -- as if the watch had fired. */
void mt_watched_again(struct mt_watched *watched);
/* mt_watched_finish -- a reading has ended: those who waited for it get @rc. The last act of who calls it. */
void mt_watched_finish(struct mt_watched *watched, int rc);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_WATCHED_H */
