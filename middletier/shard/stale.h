/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stale.h -- does any node know more of a shard than its root does?
 *
 * A metadata store that was lost, or set back to an old copy, must not be served from: shards would
 * begin empty, or without their newest writes, and what they do not know of would be swept. Fences tell
 * of later epochs; the nodes' lists tell the rest, before the claim: a look that ends badly has changed
 * neither the root nor a fence.
 */
#ifndef CLEAVE_MIDDLETIER_SHARD_STALE_H
#define CLEAVE_MIDDLETIER_SHARD_STALE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "common/root.h"

struct mt_link;
struct mt_shard;
struct mt_stale_node;

/* @rc: 0: no node that was heard knows more; -ESTALE: one knows a newer owner or manifest, check->text says which. */
typedef void (*mt_stale_fn)(int rc, void *arg);

struct mt_stale_check {
	uint32_t magic;
	struct mt_shard *shard;
	mt_stale_fn fn;
	void *arg;
	struct mt_root root;         /* as it was loaded */
	uint32_t epoch;              /* of the claim that would follow */
	struct mt_stale_node *nodes; /* one a link */
	struct loop_timer timer;
	bool is_running, is_stopped;
	bool has_waited;         /* long enough for links that are being connected */
	bool has_newer_manifest; /* than the root names: perhaps one that was never finished */
	bool is_stale, is_wait_logged;
	char text[160]; /* is_stale: what was found, for the log */
};

/*
 * mt_stale_start -- ask every node that is up, or nearly, for its list of the shard
 *
 * check->root and ->epoch are set. Waits, as long as it takes, for one answer of a node that the root's manifest should
 * be at, for others need never have held anything of the shard; @fn follows from the loop.
 * Where the root has no manifest it waits for as many nodes as cannot all lack an extent of the shard: of n
 * nodes, with min_replicas copies at least, n - min_replicas + 1; and for as many as a manifest will need.
 * Stale is: an extent of the claim's epoch or a later one; a later fence; a newer manifest extent than the
 * root's while every copy of that one is gone; a log or a run where the root has no manifest, for writes begin
 * with it (a manifest alone may be one that its maker did not live to name). Not so where the root may be empty.
 * Returns 0; -ENOMEM: no @fn.
 */
int mt_stale_start(struct mt_stale_check *check);
/* mt_stale_on_link -- a node that came up is asked. Also while none is running. */
void mt_stale_on_link(struct mt_stale_check *check, struct mt_link *link, bool is_up);
/* mt_stale_stop -- @fn is not called any more; calls that are out end by themselves. */
void mt_stale_stop(struct mt_stale_check *check);
/* mt_stale_is_quiet -- no call is out. mt_stale_fini -- free it; both also before the first start. */
bool mt_stale_is_quiet(const struct mt_stale_check *check);
void mt_stale_fini(struct mt_stale_check *check);

#endif /* CLEAVE_MIDDLETIER_SHARD_STALE_H */
