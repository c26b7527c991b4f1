/* SPDX-License-Identifier: Apache-2.0 */
/* snapper_clone.c -- see snapper_clone.h */
#include "snapper_clone.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "leases.h"
#include "snapper_inside.h"
#include "vm-client/library/internal.h"

#define SCRIBBLES 8u

/* ---- cloning: the clone, and a snapshot of it before anything is written there ---- */

static void clone_ask(struct snapper *snapper);
static void mark_ask(struct snapper *snapper);

static void
mark_done(struct snapper *snapper, int rc)
{
	if (rc == 0)
		snapper_read_clone(snapper);
	else
		snapper_again(snapper, mark_ask);
}

/* Another name each time: one that failed may be there for a while, and then be void. */
static void
mark_ask(struct snapper *snapper)
{
	(void)snprintf(snapper->mark, sizeof(snapper->mark), "%s@m%u", snapper->clone_name,
	    ++snapper->serial);
	snapper_ask(snapper, mark_done, "snapshot.create", snapper->mark, NULL);
}

static void
clone_done(struct snapper *snapper, int rc)
{
	if (rc == 0 || rc == -EEXIST)
		mark_ask(snapper);
	else
		snapper_again(snapper, clone_ask);
}

static void
clone_ask(struct snapper *snapper)
{
	snapper_ask(snapper, clone_done, "clone", snapper->origin->name, snapper->clone_name);
}

void
snapper_clone(struct snapper *snapper, struct shot *shot)
{
	(void)snprintf(snapper->clone_name, sizeof(snapper->clone_name), "%s-c%u",
	    snapper->options.volume, ++snapper->serial);
	snapper->origin = shot;
	snapper->is_clone_deleting = snapper->is_wiped = snapper->is_flattening = false;
	snapper->reads = sim_leases_word(snapper_cluster(snapper)); /* as its origin */
	clone_ask(snapper);
}

/* ---- writing to the clone, back, and perhaps zeroing again what was zeroed before ---- */

static void roll_ask(struct snapper *snapper);
static void scribble(struct snapper *snapper);

static void
scribble_closed(struct snapper *snapper, int rc)
{
	(void)rc;
	snapper->is_forced = false;
	roll_ask(snapper);
}

/* Requests that cannot be sent, since the session is over, end with @closed. */
static void
change(struct snapper *snapper, enum cleave_op op, uint32_t first, uint32_t count,
    void (*fn)(struct cleave_io *io, int rc, void *arg),
    void (*closed)(struct snapper *snapper, int rc))
{
	snapper->io = (struct cleave_io){ .op = op,
		.offset_bytes = history_offset(snapper->options.history, first),
		.length_bytes = (uint64_t)count * CLEAVE_BLOCK_BYTES,
		.data = op == CLEAVE_WRITE ? snapper->data : NULL,
		.fn = fn,
		.arg = snapper };
	if (cleave_submit(snapper->volume, &snapper->io) != 0)
		snapper_close(snapper, closed);
}

static void
zero_hot(struct snapper *snapper, void (*fn)(struct cleave_io *io, int rc, void *arg))
{
	change(snapper, snapper->zero_op, snapper->hot_first, snapper->hot_count, fn,
	    scribble_closed);
}

static void
wipe_closed(struct snapper *snapper, int rc)
{
	(void)rc;
	snapper_read_clone(snapper);
}

/* Not acknowledged, it may be there or not: that a roll-back ends. */
static void
wipe_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct snapper *snapper = arg;

	(void)io;
	snapper->is_wiped = rc == 0;
	snapper_close(snapper, rc == 0 ? wipe_closed : scribble_closed);
}

static void
wipe_opened(struct snapper *snapper, int rc)
{
	if (rc == -ENOENT)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", snapper->clone_name);
	if (rc == 0)
		zero_hot(snapper, wipe_on_io);
	else
		snapper_done(snapper);
}

static void
late_closed(struct snapper *snapper, int rc)
{
	(void)rc;
	snapper_read_clone(snapper);
}

static void
late_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct snapper *snapper = arg;

	(void)io;
	if (rc == 0)
		sim_cluster_fail(snapper_cluster(snapper),
		    "I11: a fenced session's write: %s was rolled back", snapper->clone_name);
	snapper_close(snapper, late_closed);
}

/* A write of the session that was put out, and has not heard of it. */
static void
late_write(struct snapper *snapper)
{
	memset(snapper->data, 0xa5, CLEAVE_BLOCK_BYTES);
	change(snapper, CLEAVE_WRITE, snapper_below(snapper, snapper->options.block_count), 1,
	    late_on_io, late_closed);
}

/* A change by no session: whoever was put out has no read lease when it is answered (leases.h). */
static void
check_leases(struct snapper *snapper)
{
	for (uint32_t i = 0; i < snapper_cluster(snapper)->options.shard_count; i++) {
		if (snapper->volume != NULL && leases_hold_any(snapper->volume, i))
			sim_cluster_fail(snapper_cluster(snapper),
			    "%s was changed while who was put out had a read lease on shard "
			    "%" PRIu32,
			    snapper->clone_name, i);
	}
}

static void
roll_done(struct snapper *snapper, int rc)
{
	if (rc == -ENOENT)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", snapper->mark);
	if (rc != 0) {
		snapper_again(snapper, roll_ask);
		return;
	}
	check_leases(snapper);
	snapper->is_wiped = false;
	if (snapper->is_forced) {
		snapper->is_forced = false;
		late_write(snapper);
	} else if (snapper_below(snapper, 3) == 0)
		snapper_read_clone(snapper);
	else
		snapper_open(snapper, snapper->clone_name, wipe_opened);
}

static void
roll_ask(struct snapper *snapper)
{
	snapper_ask(snapper, roll_done, "snapshot.rollback", snapper->mark, NULL);
}

/* ---- read elsewhere, or cut short, in seeds with leases ---- */

static void other_ask(struct snapper *snapper);

static void
other_done(struct snapper *snapper, int rc)
{
	if (rc == -ENOENT)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", snapper->clone_name);
	if (rc != 0) {
		snapper_again(snapper, other_ask);
		return;
	}
	check_leases(snapper);
	snapper_close(snapper, scribble_closed);
}

static void
other_ask(struct snapper *snapper)
{
	snapper_ask(snapper, other_done, snapper->is_cut ? "volume.resize" : "volume.reads",
	    snapper->clone_name, snapper->is_cut ? NULL : snapper->reads);
}

/* The roll-back that follows brings back what is cut off. */
static void
change_other(struct snapper *snapper)
{
	static const char *const names[] = { "gateway", "hot", "direct" };
	const char *old = snapper->reads;

	snapper->is_cut = snapper_below(snapper, 2) == 0;
	while (!snapper->is_cut && strcmp(snapper->reads, old) == 0)
		snapper->reads = names[snapper_below(snapper, NUM_COUNT(names))];
	other_ask(snapper);
}

/* Whether it was written or not: it is rolled back. */
static void
scribble_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct snapper *snapper = arg;

	(void)io;
	if (rc == 0 && snapper->at++ < SCRIBBLES) {
		scribble(snapper);
	} else if (snapper_below(snapper, 2) == 0) {
		snapper->is_forced = true;
		if (snapper_cluster(snapper)->options.has_leases && snapper_below(snapper, 2) == 0)
			change_other(snapper);
		else
			roll_ask(snapper);
	} else {
		snapper_close(snapper, scribble_closed);
	}
}

static void
scribble(struct snapper *snapper)
{
	uint32_t count = 1 + snapper_below(snapper, READ_BLOCKS);
	uint32_t first = snapper_below(snapper, snapper->options.block_count - count);

	if (snapper_below(snapper, 4) == 0) {
		zero_hot(snapper, scribble_on_io);
		return;
	}
	count = history_limit(snapper->options.history, first, count);
	memset(snapper->data, 0x5a, sizeof(snapper->data));
	change(snapper, snapper_below(snapper, 4) == 0 ? CLEAVE_DISCARD : CLEAVE_WRITE, first,
	    count, scribble_on_io, scribble_closed);
}

static void
scribble_opened(struct snapper *snapper, int rc)
{
	if (rc == -ENOENT)
		sim_cluster_fail(snapper_cluster(snapper), "%s is gone", snapper->clone_name);
	snapper->at = 0;
	if (rc == 0 && snapper_cluster(snapper)->options.has_leases &&
	    leases_want(snapper->volume, false) != 0)
		sim_cluster_fail(snapper_cluster(snapper), "snapper: no memory for leases");
	if (rc == 0)
		zero_hot(snapper, scribble_on_io);
	else
		snapper_done(snapper);
}

/* Blocks that were zeroed stay so until the roll-back: the same are zeroed on both sides of it. */
void
snapper_roll(struct snapper *snapper)
{
	if (!snapper->is_wiped) {
		snapper->zero_op = snapper_below(snapper, 2) == 0 ? CLEAVE_DISCARD
								  : CLEAVE_WRITE_ZEROES;
		snapper->hot_first = snapper_below(snapper, snapper->options.block_count);
		snapper->hot_count = history_limit(snapper->options.history, snapper->hot_first,
		    (uint32_t)num_min(READ_BLOCKS,
			snapper->options.block_count - snapper->hot_first));
	}
	snapper_open(snapper, snapper->clone_name, scribble_opened);
}

/* ---- flattening: the clone's origin is told apart from what the clone must hold ---- */

static void
flatten_done(struct snapper *snapper, int rc)
{
	/* -EINVAL: it is no clone any more: an answer was lost. */
	if (rc == 0 || rc == -EINVAL) {
		memcpy(snapper->kept.numbers, snapper->origin->numbers,
		    snapper->options.block_count * sizeof(*snapper->kept.numbers));
		memcpy(snapper->kept.name, snapper->origin->name, sizeof(snapper->kept.name));
		snapper->kept.state = SHOT_LIVE;
		snapper->kept.is_known = true;
		snapper->kept_of = snapper->origin;
		snapper->origin = &snapper->kept;
		snapper->is_flattening = true;
	}
	snapper_done(snapper);
}

void
snapper_flatten(struct snapper *snapper)
{
	snapper_ask(snapper, flatten_done, "volume.flatten", snapper->clone_name, NULL);
}

/* ---- flattened: the origin can be deleted ---- */

static void let_go(struct snapper *snapper);

static void
let_go_done(struct snapper *snapper, int rc)
{
	if (rc == 0 || rc == -ENOENT) {
		snapper->kept_of->state = SHOT_NONE;
		snapper_done(snapper);
	} else {
		snapper_again(snapper, let_go);
	}
}

static void
let_go(struct snapper *snapper)
{
	snapper_ask(snapper, let_go_done, "snapshot.delete", snapper->kept.name, NULL);
}

bool
snapper_let_go(struct snapper *snapper)
{
	struct shot *shot = snapper->kept_of;

	/* The origin's place may be another snapshot's by now. */
	if (!snapper->is_flattening || snapper->origin == NULL || snapper->is_clone_deleting ||
	    shot->state == SHOT_NONE || strcmp(shot->name, snapper->kept.name) != 0)
		return false;
	shot->is_deleting = true;
	let_go(snapper);
	return true;
}
