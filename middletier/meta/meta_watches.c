/* SPDX-License-Identifier: Apache-2.0 */
/* meta_watches.c -- see meta_watches.h */
#include "meta/meta_watches.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "common/alloc.h"
#include "meta/meta_txn.h"

int
meta_watches_add(struct loop_link *watches, const char *prefix, meta_watch_fn fn, void *arg)
{
	struct meta_watch *watch;

	assert(fn != NULL);
	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	watch = mt_calloc(1, sizeof(*watch) + strlen(prefix) + 1);
	if (watch == NULL)
		return -ENOMEM;
	watch->fn = fn;
	watch->arg = arg;
	memcpy(watch->prefix, prefix, strlen(prefix) + 1);
	list_push_back(watches, &watch->link);
	return 0;
}

void
meta_watches_remove(struct loop_link *watches, meta_watch_fn fn, void *arg)
{
	struct loop_link *link, *next;

	assert(fn != NULL);
	LIST_FOREACH_SAFE(watches, link, next) {
		struct meta_watch *watch = LIST_ENTRY(link, struct meta_watch, link);

		if (watch->fn == fn && watch->arg == arg) {
			list_remove(&watch->link);
			mt_free(watch);
		}
	}
}

static struct meta_watch *
watches_due(struct loop_link *watches)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(watches, link, next) {
		struct meta_watch *watch = LIST_ENTRY(link, struct meta_watch, link);

		if (watch->is_due)
			return watch;
	}
	return NULL;
}

/* The search begins at the first watch each time: the handler that was called may have ended any of them. */
void
meta_watches_call(struct loop_link *watches, const bool *is_closed)
{
	struct meta_watch *watch;

	assert(!*is_closed);
	while (!*is_closed && (watch = watches_due(watches)) != NULL) {
		watch->is_due = false;
		watch->fn(watch->arg);
	}
}

void
meta_watches_fini(struct loop_link *watches)
{
	struct loop_link *link;

	while ((link = list_pop_front(watches)) != NULL)
		mt_free(LIST_ENTRY(link, struct meta_watch, link));
}
