/* SPDX-License-Identifier: Apache-2.0 */
/* copy_window.c -- see copy_window.h */
#include "extent/copy_window.h"

#include <assert.h>
#include <errno.h>

#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "cleave/wire.h"

void
mt_copy_window_begin(struct copy_window *window, uint64_t at_bytes, uint64_t bytes, uint32_t crc)
{
	assert(bytes > 0);
	assert(bytes <= COPY_WINDOW_BYTES);
	for (uint32_t i = 0; i < COPY_READS_MAX; i++)
		assert(window->msgs[i] == NULL); /* the one before was released */
	window->at_bytes = window->next_bytes = at_bytes;
	window->end_bytes = at_bytes + bytes;
	window->next_crc = crc;
}

void
mt_copy_window_release(struct copy_window *window)
{
	for (uint32_t i = 0; i < COPY_READS_MAX; i++) {
		if (window->msgs[i] != NULL)
			split_msg_release(window->msgs[i]);
		window->msgs[i] = NULL;
	}
}

/* A piece of the window at @from, up to @bytes, in one message; returns how many. */
static uint32_t
window_piece(const struct copy_window *window, uint64_t from, uint64_t bytes, dev_ptr *ret_at)
{
	uint64_t in_window = from - window->at_bytes;
	uint32_t offset = (uint32_t)(in_window % MT_RECEIVE_BYTES);
	const struct split_msg *msg = window->msgs[in_window / MT_RECEIVE_BYTES];

	assert(from >= window->at_bytes);
	assert(from + bytes <= window->end_bytes);
	*ret_at = dev_ptr_add(msg->payload, offset);
	return (uint32_t)num_min(bytes, (uint64_t)MT_RECEIVE_BYTES - offset);
}

/* @bytes of the window at next_bytes, which may span messages, to its head. */
static void
window_peek(struct copy_window *window, struct split_port *port, uint32_t bytes)
{
	uint32_t done = 0;

	assert(bytes <= sizeof(window->head));
	while (done < bytes) {
		dev_ptr from;
		uint32_t count =
		    window_piece(window, window->next_bytes + done, bytes - done, &from);

		dev_copy_to_host(port, window->head + done, from, count);
		done += count;
	}
}

int
mt_copy_window_batch(struct copy_window *window, struct split_port *port,
    const struct extent_id *id, enum extent_kind kind, uint64_t length_bytes,
    struct batch_info *ret_info)
{
	uint64_t left_bytes = window->end_bytes - window->next_bytes;
	uint32_t bytes = (uint32_t)num_min(left_bytes, BATCH_HEAD_BYTES_MAX);
	struct batch_check check = { .id = *id,
		.kind = kind,
		.offset_bytes = window->next_bytes,
		.prev_crc = window->next_crc };
	int rc;

	assert(window->next_bytes < window->end_bytes);
	assert(window->end_bytes <= length_bytes);
	window_peek(window, port, bytes);
	rc = batch_head_check(window->head, bytes, &check);
	*ret_info = check.info;
	/* At the window's beginning a whole head is there. */
	if (rc == -EMSGSIZE && window->next_bytes > window->at_bytes)
		return -EMSGSIZE;
	if (rc != 0 || check.info.batch_bytes > length_bytes - window->next_bytes)
		return -EBADMSG;
	return check.info.batch_bytes > left_bytes ? -EMSGSIZE : 0;
}

void
mt_copy_window_fill(const struct copy_window *window, const struct batch_info *info,
    struct mt_call *call)
{
	uint64_t from = window->next_bytes;
	uint32_t left = info->batch_bytes;

	assert(from + left <= window->end_bytes);
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.offset_bytes = from,
		.length_bytes = left };
	call->piece_count = 0;
	while (left > 0) {
		struct dev_piece piece;

		piece.bytes = window_piece(window, from, left, &piece.ptr);
		assert(call->piece_count < NUM_COUNT(call->pieces));
		call->pieces[call->piece_count++] = piece;
		from += piece.bytes;
		left -= piece.bytes;
	}
}

void
mt_copy_window_next(struct copy_window *window, const struct batch_info *info)
{
	window->next_bytes += info->batch_bytes;
	window->next_crc = info->batch_crc;
	assert(window->next_bytes <= window->end_bytes);
}
