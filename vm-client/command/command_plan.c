/* SPDX-License-Identifier: Apache-2.0 */
/* command_plan.c -- see command_plan.h */
#include "command_plan.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"

#define PLAN_STRETCH_BYTES NUM_GIB(64) /* asked about by one request */
/* Small changes that lie so close share a question for what is zeros; further apart each has its own. */
#define PLAN_NEAR_BYTES NUM_MIB(16)

enum plan_kind {
	PLAN_DATA,
	PLAN_ZEROS,
	PLAN_SAME, /* as in the older snapshot: not told */
};

/* Extents that end at @at_bytes, or before, are forgotten: it goes forward alone. */
static void
answer_forget(struct plan_answer *answer, uint64_t at_bytes)
{
	assert(answer->at_bytes <= at_bytes);
	while (answer->next < answer->count &&
	    answer->at_bytes + answer->extents[answer->next].length_bytes <= at_bytes)
		answer->at_bytes += answer->extents[answer->next++].length_bytes;
}

/* ---- questions ahead of the frames ---- */

static bool
ahead_is_done(void *arg)
{
	return ((const struct plan_ahead *)arg)->is_done;
}

static void
ahead_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct plan_ahead *ahead = arg;

	assert(&ahead->io == io && io->rc == rc);
	ahead->is_done = true;
}

/* The oldest question, answered; NULL: none was asked. */
static struct plan_ahead *
ahead_first(struct command_plan *plan)
{
	struct plan_ahead *ahead = &plan->ahead[plan->first];

	if (plan->count == 0)
		return NULL;
	(void)loop_run(plan->data_disk->session->loop, ahead_is_done, ahead);
	assert(ahead->is_done); /* each request comes, at the latest when its time is over */
	return ahead;
}

static void
ahead_drop(struct command_plan *plan)
{
	assert(plan->count > 0 && plan->ahead[plan->first].is_done);
	plan->first = (plan->first + 1) % PLAN_AHEAD_MAX;
	plan->count--;
}

/* How far a question goes that is asked because of @changed_bytes of changes at @at_bytes. */
static uint64_t
question_end(const struct command_plan *plan, uint64_t at_bytes, uint64_t changed_bytes)
{
	uint64_t bytes = num_min(num_max(changed_bytes, PLAN_NEAR_BYTES), PLAN_STRETCH_BYTES);

	assert(at_bytes < plan->size_bytes);
	return at_bytes + num_min(bytes, plan->size_bytes - at_bytes);
}

/* False: it cannot be asked now. Then it is asked when a frame comes there. */
static bool
ahead_ask(struct command_plan *plan, uint64_t from_bytes, uint64_t to_bytes)
{
	struct plan_ahead *ahead = &plan->ahead[(plan->first + plan->count) % PLAN_AHEAD_MAX];

	assert(plan->count < PLAN_AHEAD_MAX && from_bytes < to_bytes);
	ahead->is_done = false;
	ahead->io = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
		.offset_bytes = from_bytes,
		.length_bytes = to_bytes - from_bytes,
		.extents = ahead->extents,
		.extent_max = PLAN_EXTENTS_MAX,
		.fn = ahead_on_io,
		.arg = ahead };
	if (cleave_submit(plan->data_disk->volume, &ahead->io) != 0)
		return false;
	plan->count++;
	plan->ahead_bytes = to_bytes;
	return true;
}

/* Questions about the changes that are known and were not asked about, as many as there is room for. */
static void
ahead_fill(struct command_plan *plan)
{
	const struct plan_answer *changes = &plan->changes;
	uint64_t at = changes->at_bytes;

	plan->ahead_bytes = num_max(plan->ahead_bytes, plan->at_bytes);
	for (uint32_t i = changes->next; i < changes->count && plan->count < PLAN_AHEAD_MAX; i++) {
		uint64_t end = at + changes->extents[i].length_bytes;
		uint64_t from = num_max(at, plan->ahead_bytes);

		if ((changes->extents[i].flags & CLEAVE_EXTENT_HOLE) == 0 && from < end &&
		    !ahead_ask(plan, from, question_end(plan, from, end - from)))
			return;
		at = end;
	}
}

/* The answer of a question that was asked ahead about the blocks at plan->at_bytes, if there is any, into plan->data. */
static void
ahead_take(struct command_plan *plan)
{
	struct plan_answer *data = &plan->data;
	const struct plan_ahead *ahead;

	assert(data->next == data->count);
	if (plan->count == 0)
		ahead_fill(plan); /* the first ones of an answer about changes */
	while ((ahead = ahead_first(plan)) != NULL && ahead->io.offset_bytes <= plan->at_bytes) {
		uint64_t at = ahead->io.offset_bytes;

		/* A question that failed is asked again, and then tells. */
		data->next = 0;
		data->count = ahead->io.rc == 0 ? ahead->io.extent_count : 0;
		memcpy(data->extents, ahead->extents, data->count * sizeof(data->extents[0]));
		ahead_drop(plan);
		data->at_bytes = at;
		answer_forget(data, plan->at_bytes);
		if (data->next < data->count)
			break;
	}
	ahead_fill(plan);
}

/* ---- what is known ---- */

/* The extent in which @at_bytes lies, of an answer that has it: its flags, and how much is left of it. */
static uint64_t
answer_look(const struct plan_answer *answer, uint64_t at_bytes, uint32_t *ret_flags)
{
	const struct cleave_extent *extent = &answer->extents[answer->next];

	assert(answer->next < answer->count && answer->at_bytes <= at_bytes);
	*ret_flags = extent->flags;
	return answer->at_bytes + extent->length_bytes - at_bytes;
}

/* Ask about the blocks from @at_bytes to @to_bytes, and wait: 0, and the answer has at least the first. */
static int
answer_ask(struct plan_answer *answer, struct command_disk *disk, uint64_t at_bytes,
    uint64_t to_bytes)
{
	struct cleave_io io = { .op = CLEAVE_BLOCK_STATUS,
		.offset_bytes = at_bytes,
		.length_bytes = num_min(to_bytes - at_bytes, PLAN_STRETCH_BYTES),
		.extents = answer->extents,
		.extent_max = PLAN_EXTENTS_MAX };
	int rc;

	assert(at_bytes < to_bytes);
	rc = command_disk_run(disk, &io);
	answer->next = 0;
	answer->count = rc == 0 ? io.extent_count : 0;
	answer->at_bytes = at_bytes;
	return rc;
}

/* The changed blocks from plan->at_bytes on: 0, and how many bytes; or those that are as they were, and *@ret_is_same. */
static int
plan_changes(struct command_plan *plan, bool *ret_is_same, uint64_t *ret_bytes)
{
	struct plan_answer *changes = &plan->changes;
	uint32_t flags;
	int rc = 0;

	answer_forget(changes, plan->at_bytes);
	if (changes->next == changes->count)
		rc = answer_ask(changes, plan->changes_disk, plan->at_bytes, plan->size_bytes);
	if (rc != 0)
		return rc;
	*ret_bytes = answer_look(changes, plan->at_bytes, &flags);
	*ret_is_same = (flags & CLEAVE_EXTENT_HOLE) != 0;
	return 0;
}

/* The next blocks that have something in common: 0, *@ret_kind and *@ret_bytes of it. */
static int
plan_look(struct command_plan *plan, enum plan_kind *ret_kind, uint64_t *ret_bytes)
{
	uint64_t changed_bytes = plan->size_bytes - plan->at_bytes;
	struct plan_answer *data = &plan->data;
	bool is_same = false;
	uint32_t flags;
	int rc = 0;

	if (plan->changes_disk != NULL)
		rc = plan_changes(plan, &is_same, &changed_bytes);
	if (rc != 0)
		return rc;
	if (is_same) {
		*ret_kind = PLAN_SAME;
		*ret_bytes = changed_bytes;
		return 0;
	}
	answer_forget(data, plan->at_bytes);
	if (data->next == data->count && plan->changes_disk != NULL)
		ahead_take(plan);
	if (data->next == data->count)
		rc = answer_ask(data, plan->data_disk, plan->at_bytes,
		    question_end(plan, plan->at_bytes, changed_bytes));
	if (rc != 0)
		return rc;
	*ret_bytes = num_min(answer_look(data, plan->at_bytes, &flags), changed_bytes);
	*ret_kind = (flags & (CLEAVE_EXTENT_HOLE | CLEAVE_EXTENT_ZERO)) != 0 ? PLAN_ZEROS
									     : PLAN_DATA;
	return 0;
}

/* Adds the next blocks to the frame, which has *@used_bytes of data so far, unless they are as they were. */
static int
plan_add(struct command_plan *plan, struct command_frame *slot, uint64_t *used_bytes)
{
	struct backup_frame *frame = &slot->frame;
	enum plan_kind kind;
	uint64_t bytes;
	int rc = plan_look(plan, &kind, &bytes);

	if (rc != 0)
		return rc;
	if (kind == PLAN_DATA)
		bytes = num_min(bytes, BACKUP_DATA_BYTES_MAX - *used_bytes);
	if (kind != PLAN_SAME)
		frame->ranges[frame->range_count++] = (struct backup_range){
			.offset_bytes = plan->at_bytes,
			.length_bytes = bytes,
			.data = kind == PLAN_ZEROS ? NULL : slot->data + *used_bytes,
		};
	*used_bytes += kind == PLAN_DATA ? bytes : 0;
	plan->at_bytes += bytes;
	return 0;
}

int
command_plan_frame(struct command_plan *plan, struct command_frame *slot)
{
	struct backup_frame *frame = &slot->frame;
	uint64_t used_bytes = 0;

	frame->from_bytes = plan->at_bytes;
	frame->range_count = 0;
	while (plan->at_bytes < plan->size_bytes && used_bytes < BACKUP_DATA_BYTES_MAX &&
	    frame->range_count < BACKUP_RANGES_MAX) {
		int rc = plan_add(plan, slot, &used_bytes);

		if (rc != 0)
			return rc;
	}
	frame->to_bytes = plan->at_bytes;
	return frame->range_count > 0 ? 1 : 0;
}

void
command_plan_init(struct command_plan *plan, struct command_disk *data,
    struct command_disk *changes, uint64_t size_bytes, uint64_t at_bytes)
{
	assert(at_bytes <= size_bytes);
	plan->data_disk = data;
	plan->changes_disk = changes;
	plan->size_bytes = size_bytes;
	plan->at_bytes = at_bytes;
	plan->ahead_bytes = 0;
	plan->first = plan->count = 0;
	plan->data.at_bytes = plan->changes.at_bytes = 0;
	plan->data.next = plan->data.count = 0;
	plan->changes.next = plan->changes.count = 0;
}

void
command_plan_fini(struct command_plan *plan)
{
	while (ahead_first(plan) != NULL)
		ahead_drop(plan);
}
