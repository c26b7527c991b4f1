/* SPDX-License-Identifier: Apache-2.0 */
/* fake_looks.h -- the part of fake_node.h that answers requests for more than one range: included there, and nowhere else */
#ifndef CLEAVE_TESTS_FAKE_LOOKS_H
#define CLEAVE_TESTS_FAKE_LOOKS_H

#include "cleave/gather.h"

/* As storage-node/gather.c does it. */
static inline int
fake_do_gather(struct fake_node *node, const struct mt_call *call, struct split_msg **ret_msg)
{
	struct fake_copy *copy = fake_copy_find(node, &call->request.id);
	struct wire_stretch stretches[WIRE_GATHER_MAX];
	static uint8_t answer[WIRE_GATHER_BYTES_MAX];
	const char *field = NULL;
	uint32_t bytes = 0;

	cr_assert_eq(call->head_bytes, call->request.stretch_count * WIRE_STRETCH_BYTES);
	cr_assert_eq(wire_gather_decode(call->host + WIRE_HEADER_BYTES, call->request.stretch_count,
			 call->request.length_bytes, stretches, &field),
	    0, "%s", field);
	if (copy == NULL)
		return -ENOENT;
	for (uint32_t i = 0; i < call->request.stretch_count; i++) {
		if (stretches[i].offset_bytes + stretches[i].length_bytes > copy->length)
			return -ERANGE;
		memcpy(answer + bytes, copy->bytes + stretches[i].offset_bytes,
		    stretches[i].length_bytes);
		bytes += stretches[i].length_bytes;
	}
	if (node->is_rotten)
		answer[bytes / 2] ^= 1;
	*ret_msg = fake_reply_msg(answer, bytes);
	return 0;
}

/* As storage-node/find.c does it. */
static inline int
fake_do_find(struct fake_node *node, const struct wire_node *request, struct wire_node_reply *reply,
    struct split_msg **ret_msg)
{
	struct fake_copy *copy = fake_copy_find(node, &request->id);
	struct batch_check check = { .id = request->id,
		.kind = EXTENT_RUN,
		.offset_bytes = request->offset_bytes,
		.is_probe = true };
	static uint8_t answer[WIRE_FIND_BYTES_MAX];
	uint32_t bytes = request->length_bytes, end = request->block + request->block_count;
	struct record_iter it;
	struct record_desc frame;
	const uint8_t *head;
	const char *field;

	if (copy == NULL)
		return -ENOENT;
	cr_assert_leq(request->offset_bytes + bytes, copy->length);
	head = copy->bytes + request->offset_bytes;
	if (batch_head_check(head, bytes, &check) != 0)
		return -EBADMSG;
	cr_assert_eq(BATCH_HEADER_BYTES + check.info.desc_bytes, bytes);
	memcpy(answer, head, bytes);
	reply->offset_bytes = request->offset_bytes;
	record_iter_init(&it, head, &check.info);
	while (record_iter_next(&it, &frame, &field) == 1) {
		uint32_t block = frame.block % CLEAVE_CHUNK_BLOCKS;

		if (block + frame.block_count <= request->block)
			continue;
		if (block >= end || bytes + frame.stored_bytes > WIRE_FIND_BYTES_MAX)
			break;
		if (bytes == request->length_bytes)
			reply->offset_bytes = request->offset_bytes + frame.payload_offset_bytes;
		memcpy(answer + bytes, head + frame.payload_offset_bytes, frame.stored_bytes);
		bytes += frame.stored_bytes;
	}
	if (node->is_astray && bytes > request->length_bytes)
		answer[request->length_bytes + 100] ^= 1;
	if (node->is_rotten)
		answer[BATCH_HEADER_BYTES + 8] ^= 1;
	*ret_msg = fake_reply_msg(answer, bytes);
	return 0;
}

#endif /* CLEAVE_TESTS_FAKE_LOOKS_H */
