/* SPDX-License-Identifier: Apache-2.0 */
/* command_frames.c -- see command_frames.h */
#include "command_frames.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"

int
command_frames_init(struct command_frames *frames, struct command_session *session,
    struct cleave_volume *volume)
{
	*frames = (struct command_frames){ .session = session, .volume = volume };
	frames->slots = calloc(COMMAND_FRAMES_MAX, sizeof(*frames->slots));
	for (uint32_t i = 0; frames->slots != NULL && i < COMMAND_FRAMES_MAX; i++) {
		frames->slots[i].data = malloc(BACKUP_DATA_BYTES_MAX);
		if (frames->slots[i].data == NULL) {
			command_frames_fini(frames);
			break;
		}
	}
	return frames->slots != NULL ? 0 : command_fail(session, -ENOMEM, "out of memory");
}

void
command_frames_fini(struct command_frames *frames)
{
	while (command_frames_wait(frames) != NULL)
		command_frames_release(frames);
	for (uint32_t i = 0; frames->slots != NULL && i < COMMAND_FRAMES_MAX; i++)
		free(frames->slots[i].data);
	free(frames->slots);
	frames->slots = NULL;
}

struct command_frame *
command_frames_room(struct command_frames *frames)
{
	assert(frames->count <= COMMAND_FRAMES_MAX);
	if (frames->count == COMMAND_FRAMES_MAX)
		return NULL;
	return &frames->slots[(frames->first + frames->count) % COMMAND_FRAMES_MAX];
}

static void
frame_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct command_frame *slot = arg;

	(void)io;
	assert(slot->left_count > 0);
	if (slot->rc == 0)
		slot->rc = rc;
	slot->left_count--;
}

void
command_frames_submit(struct command_frames *frames, enum cleave_op op, bool has_zeros,
    enum cleave_op zero_op)
{
	struct command_frame *slot = command_frames_room(frames);

	assert(slot != NULL && slot->left_count == 0);
	frames->count++;
	slot->rc = 0;
	for (uint32_t i = 0; i < slot->frame.range_count && slot->rc == 0; i++) {
		const struct backup_range *range = &slot->frame.ranges[i];
		struct cleave_io *io = &slot->ios[i];
		int rc;

		if (range->data == NULL && !has_zeros)
			continue;
		*io = (struct cleave_io){ .op = range->data == NULL ? zero_op : op,
			.offset_bytes = range->offset_bytes,
			.length_bytes = range->length_bytes,
			.fn = frame_on_io,
			.arg = slot };
		if (range->data != NULL)
			io->data = slot->data + (range->data - slot->data);
		slot->left_count++;
		rc = cleave_submit(frames->volume, io);
		if (rc != 0)
			frame_on_io(io, rc, slot);
	}
}

static bool
frame_has_come(void *arg)
{
	return ((const struct command_frame *)arg)->left_count == 0;
}

struct command_frame *
command_frames_wait(struct command_frames *frames)
{
	struct command_frame *slot;

	if (frames->count == 0)
		return NULL;
	slot = &frames->slots[frames->first];
	(void)loop_run(frames->session->loop, frame_has_come, slot);
	assert(slot->left_count == 0); /* each request comes, at the latest when its time is over */
	return slot;
}

void
command_frames_release(struct command_frames *frames)
{
	assert(frames->count > 0 && frames->slots[frames->first].left_count == 0);
	frames->first = (frames->first + 1) % COMMAND_FRAMES_MAX;
	frames->count--;
}
