/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_nbd.c -- what an NBD client may send: options' data and request heads */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "vm-client/agent/nbd_wire.h"

static void
check_name(const uint8_t *data, size_t size, const char *name, uint32_t bytes)
{
	const uint8_t *begin = (const uint8_t *)name;

	assert(begin >= data);
	assert(begin + bytes <= data + size);
}

/* A header that was decoded is encoded as it came. */
static void
check_request(const struct nbd_request_head *request, enum nbd_reply_style style)
{
	uint8_t bytes[NBD_EXTENDED_REQUEST_BYTES];
	struct nbd_request_head again;

	(void)nbd_put_request(bytes, style, request);
	assert(nbd_request_decode(bytes, style, &again) == 0);
	assert(again.flags == request->flags && again.type == request->type);
	assert(again.cookie == request->cookie);
	assert(again.offset_bytes == request->offset_bytes);
	assert(again.length_bytes == request->length_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nbd_info_request info;
	struct nbd_meta_request meta;
	struct nbd_request_head request;
	struct nbd_option_head option;
	struct nbd_status_head status = { .context_id = 1, .is_last = true };
	uint8_t out[NBD_REPLY_HEAD_BYTES_MAX];
	const char *text;

	if (size > NBD_OPTION_DATA_BYTES_MAX)
		return 0;
	if (nbd_info_decode(data, (uint32_t)size, &info, &text) == 0)
		check_name(data, size, info.name, info.name_bytes);
	for (int is_list = 0; is_list < 2; is_list++) {
		if (nbd_meta_decode(data, (uint32_t)size, is_list != 0, &meta, &text) == 0) {
			check_name(data, size, meta.name, meta.name_bytes);
			for (uint32_t i = 0; i < meta.bitmap_count; i++)
				check_name(data, size, meta.bitmaps[i].name,
				    meta.bitmaps[i].name_bytes);
		}
	}
	if (size >= NBD_OPTION_BYTES)
		(void)nbd_option_head_decode(data, &option);
	if (size < NBD_EXTENDED_REQUEST_BYTES)
		return 0;
	for (int style = NBD_SIMPLE; style <= NBD_EXTENDED; style++) {
		if (nbd_request_decode(data, (enum nbd_reply_style)style, &request) != 0)
			continue;
		check_request(&request, (enum nbd_reply_style)style);
		assert(nbd_put_data(out, (enum nbd_reply_style)style, &request) <= sizeof(out));
		status.extent_count = (uint32_t)request.length_bytes;
		assert(nbd_put_status(out, (enum nbd_reply_style)style, &request, &status) <=
		    sizeof(out));
	}
	return 0;
}
