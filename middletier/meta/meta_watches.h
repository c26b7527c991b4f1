/* SPDX-License-Identifier: Apache-2.0 */
/* meta_watches.h -- a handle's watches: who is called when keys of a prefix may have changed */
#ifndef CLEAVE_MIDDLETIER_META_META_WATCHES_H
#define CLEAVE_MIDDLETIER_META_META_WATCHES_H

#include <stdbool.h>

#include "base/list.h"
#include "cleave/meta.h"

struct meta_watch {
	struct loop_link link; /* a list of watches, in the order of their making */
	meta_watch_fn fn;
	void *arg;
	bool is_due; /* set by a store that saw a change; meta_watches_call calls fn */
	char prefix[];
};

/* meta_watches_add -- a watch of @prefix, the last of @watches. Returns 0; -EINVAL no prefix; -ENOMEM. */
int meta_watches_add(struct loop_link *watches, const char *prefix, meta_watch_fn fn, void *arg);
/* meta_watches_remove -- @fn is not called with @arg any more; also while watches are called. */
void meta_watches_remove(struct loop_link *watches, meta_watch_fn fn, void *arg);
/*
 * meta_watches_call -- call each watch that is due, once
 *
 * @is_closed: set by a handler that closes the store, and @watches with it: nothing more is called then.
 */
void meta_watches_call(struct loop_link *watches, const bool *is_closed);
/* meta_watches_fini -- forget them all. */
void meta_watches_fini(struct loop_link *watches);

#endif /* CLEAVE_MIDDLETIER_META_META_WATCHES_H */
