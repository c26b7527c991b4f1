/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_wire.c -- see nbd_wire.h */
#include "nbd_wire.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

#define META_BASE "base:"
#define META_QEMU "qemu:"

static uint16_t
get16(const uint8_t *in)
{
	assert(in != NULL);
	return (uint16_t)(in[0] << 8 | in[1]);
}

static uint32_t
get32(const uint8_t *in)
{
	return (uint32_t)get16(in) << 16 | get16(in + 2);
}

static uint64_t
get64(const uint8_t *in)
{
	return (uint64_t)get32(in) << 32 | get32(in + 4);
}

void
nbd_put16(uint8_t *out, uint16_t value)
{
	assert(out != NULL);
	out[0] = (uint8_t)(value >> 8);
	out[1] = (uint8_t)value;
}

void
nbd_put32(uint8_t *out, uint32_t value)
{
	nbd_put16(out, (uint16_t)(value >> 16));
	nbd_put16(out + 2, (uint16_t)value);
}

void
nbd_put64(uint8_t *out, uint64_t value)
{
	nbd_put32(out, (uint32_t)(value >> 32));
	nbd_put32(out + 4, (uint32_t)value);
}

/* ---- options ---- */

int
nbd_option_head_decode(const uint8_t *in, struct nbd_option_head *ret_head)
{
	assert(ret_head != NULL);
	if (get64(in) != NBD_IHAVEOPT)
		return -EPROTO;
	*ret_head = (struct nbd_option_head){ get32(in + 8), get32(in + 12) };
	return 0;
}

static int
refuse(const char *text, const char **ret_text)
{
	assert(text != NULL && ret_text != NULL);
	*ret_text = text;
	return -EINVAL;
}

/* A string with its length before it. Moves *@in behind it; NULL: it does not fit. */
static const char *
take_string(const uint8_t **in, uint32_t *bytes, uint32_t *ret_bytes)
{
	const uint8_t *text = *in + 4;
	uint32_t text_bytes;

	if (*bytes < 4)
		return NULL;
	text_bytes = get32(*in);
	if (text_bytes > *bytes - 4 || text_bytes > NBD_STRING_BYTES_MAX)
		return NULL;
	*in += 4 + text_bytes;
	*bytes -= 4 + text_bytes;
	*ret_bytes = text_bytes;
	return (const char *)text;
}

int
nbd_info_decode(const uint8_t *in, uint32_t bytes, struct nbd_info_request *ret_request,
    const char **ret_text)
{
	struct nbd_info_request request = { 0 };
	uint32_t count;

	assert(ret_request != NULL && ret_text != NULL);
	request.name = take_string(&in, &bytes, &request.name_bytes);
	if (request.name == NULL)
		return refuse("the export's name does not fit the option", ret_text);
	if (bytes < 2)
		return refuse("the count of information requests is missing", ret_text);
	count = get16(in);
	if (bytes != 2 + 2 * count)
		return refuse("the information requests do not fit the option", ret_text);
	for (uint32_t i = 0; i < count; i++) {
		uint16_t wanted = get16(in + 2 + (size_t)2 * i);

		request.wants_block_size |= wanted == NBD_INFO_BLOCK_SIZE;
		request.wants_name |= wanted == NBD_INFO_NAME;
	}
	*ret_request = request;
	return 0;
}

static bool
is_text(const char *text, uint32_t bytes, const char *expected)
{
	assert(expected[0] != '\0');
	return bytes == strlen(expected) && memcmp(text, expected, bytes) == 0;
}

/* Is it among those that were asked for, or is it put there? -E2BIG: there is no room. */
static int
meta_add_bitmap(struct nbd_meta_request *request, const char *name, uint32_t bytes)
{
	assert(bytes > 0 && request->bitmap_count <= NBD_BITMAPS_MAX);
	for (uint32_t i = 0; i < request->bitmap_count; i++) {
		if (request->bitmaps[i].name_bytes == bytes &&
		    memcmp(request->bitmaps[i].name, name, bytes) == 0)
			return 0;
	}
	if (request->bitmap_count == NBD_BITMAPS_MAX)
		return -E2BIG;
	request->bitmaps[request->bitmap_count++] = (struct nbd_meta_bitmap){ name, bytes };
	return 0;
}

/* A query that names nothing that is known here asks for nothing: the protocol has room for others' contexts. */
static int
meta_take_query(struct nbd_meta_request *request, const char *query, uint32_t bytes, bool is_list)
{
	const uint32_t prefix_bytes = sizeof(NBD_CONTEXT_BITMAP) - 1;

	assert(query != NULL);
	if (is_text(query, bytes, NBD_CONTEXT_ALLOCATION) ||
	    (is_list && is_text(query, bytes, META_BASE)))
		request->has_allocation = true;
	else if (is_list &&
	    (is_text(query, bytes, META_QEMU) || is_text(query, bytes, NBD_CONTEXT_BITMAP)))
		request->has_all_bitmaps = true;
	else if (bytes > prefix_bytes && memcmp(query, NBD_CONTEXT_BITMAP, prefix_bytes) == 0)
		return meta_add_bitmap(request, query + prefix_bytes, bytes - prefix_bytes);
	return 0;
}

int
nbd_meta_decode(const uint8_t *in, uint32_t bytes, bool is_list,
    struct nbd_meta_request *ret_request, const char **ret_text)
{
	struct nbd_meta_request request = { 0 };
	int rc = 0;

	assert(ret_request != NULL && ret_text != NULL);
	request.name = take_string(&in, &bytes, &request.name_bytes);
	if (request.name == NULL)
		return refuse("the export's name does not fit the option", ret_text);
	if (bytes < 4)
		return refuse("the count of queries is missing", ret_text);
	request.query_count = get32(in);
	in += 4;
	bytes -= 4;
	for (uint32_t i = 0; i < request.query_count; i++) {
		uint32_t query_bytes;
		const char *query = take_string(&in, &bytes, &query_bytes);

		if (query == NULL)
			return refuse("a query does not fit the option", ret_text);
		if (rc == 0)
			rc = meta_take_query(&request, query, query_bytes, is_list);
	}
	if (bytes != 0)
		return refuse("there is more behind the last query", ret_text);
	if (rc != 0) {
		(void)refuse("at most 3 dirty bitmaps at a time", ret_text);
		return rc;
	}
	if (is_list && request.query_count == 0)
		request.has_allocation = request.has_all_bitmaps = true;
	*ret_request = request;
	return 0;
}

uint32_t
nbd_put_option_reply(uint8_t *out, uint32_t option, uint32_t type, uint32_t bytes)
{
	nbd_put64(out, NBD_OPTION_REPLY_MAGIC);
	nbd_put32(out + 8, option);
	nbd_put32(out + 12, type);
	nbd_put32(out + 16, bytes);
	return NBD_OPTION_REPLY_BYTES;
}

/* ---- requests ---- */

int
nbd_request_decode(const uint8_t *in, enum nbd_reply_style style, struct nbd_request_head *ret_head)
{
	bool is_extended = style == NBD_EXTENDED;

	assert(style <= NBD_EXTENDED && ret_head != NULL);
	if (get32(in) != (is_extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC))
		return -EPROTO;
	*ret_head = (struct nbd_request_head){ .flags = get16(in + 4),
		.type = get16(in + 6),
		.cookie = get64(in + 8),
		.offset_bytes = get64(in + 16),
		.length_bytes = is_extended ? get64(in + 24) : get32(in + 24) };
	return 0;
}

uint32_t
nbd_put_request(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head)
{
	bool is_extended = style == NBD_EXTENDED;

	assert(is_extended || head->length_bytes <= UINT32_MAX);
	nbd_put32(out, is_extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC);
	nbd_put16(out + 4, head->flags);
	nbd_put16(out + 6, head->type);
	nbd_put64(out + 8, head->cookie);
	nbd_put64(out + 16, head->offset_bytes);
	if (is_extended)
		nbd_put64(out + 24, head->length_bytes);
	else
		nbd_put32(out + 24, (uint32_t)head->length_bytes);
	return is_extended ? NBD_EXTENDED_REQUEST_BYTES : NBD_REQUEST_BYTES;
}

/* ---- replies ---- */

enum reply_type {
	REPLY_NONE = 0,
	REPLY_OFFSET_DATA = 1,
	REPLY_BLOCK_STATUS = 5,
	REPLY_BLOCK_STATUS_EXT = 6,
	REPLY_ERROR = 1 << 15 | 1,
};
#define REPLY_FLAG_DONE 1u

/* The head of a chunk, most often the only one of its reply; @bytes follow it. */
static uint32_t
put_chunk(uint8_t *out, enum nbd_reply_style style, enum reply_type type, uint16_t flags,
    const struct nbd_request_head *head, uint64_t bytes)
{
	bool is_extended = style == NBD_EXTENDED;

	assert((type == REPLY_BLOCK_STATUS_EXT) <= is_extended);
	assert(type != REPLY_NONE || bytes == 0);
	nbd_put32(out, is_extended ? NBD_EXTENDED_REPLY_MAGIC : NBD_STRUCTURED_REPLY_MAGIC);
	nbd_put16(out + 4, flags);
	nbd_put16(out + 6, (uint16_t)type);
	nbd_put64(out + 8, head->cookie);
	if (!is_extended) {
		nbd_put32(out + 16, (uint32_t)bytes);
		return 20;
	}
	nbd_put64(out + 16, head->offset_bytes);
	nbd_put64(out + 24, bytes);
	return 32;
}

static uint32_t
put_simple(uint8_t *out, const struct nbd_request_head *head, enum nbd_error error)
{
	nbd_put32(out, NBD_SIMPLE_REPLY_MAGIC);
	nbd_put32(out + 4, error);
	nbd_put64(out + 8, head->cookie);
	return 16;
}

uint32_t
nbd_put_done(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head)
{
	if (style == NBD_SIMPLE)
		return put_simple(out, head, NBD_SUCCESS);
	return put_chunk(out, style, REPLY_NONE, REPLY_FLAG_DONE, head, 0);
}

uint32_t
nbd_put_error(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head,
    enum nbd_error error, uint16_t text_bytes)
{
	uint32_t bytes;

	assert(error != NBD_SUCCESS);
	if (style == NBD_SIMPLE)
		return put_simple(out, head, error);
	bytes = put_chunk(out, style, REPLY_ERROR, REPLY_FLAG_DONE, head, UINT64_C(6) + text_bytes);
	nbd_put32(out + bytes, error);
	nbd_put16(out + bytes + 4, text_bytes);
	return bytes + 6;
}

uint32_t
nbd_put_part(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head,
    uint64_t offset_bytes, uint64_t bytes, bool is_last)
{
	uint32_t at = put_chunk(out, style, REPLY_OFFSET_DATA, is_last ? REPLY_FLAG_DONE : 0, head,
	    8 + bytes);

	assert(style != NBD_SIMPLE);
	nbd_put64(out + at, offset_bytes);
	return at + 8;
}

uint32_t
nbd_put_data(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head)
{
	if (style == NBD_SIMPLE)
		return put_simple(out, head, NBD_SUCCESS);
	return nbd_put_part(out, style, head, head->offset_bytes, head->length_bytes, true);
}

uint32_t
nbd_put_status(uint8_t *out, enum nbd_reply_style style, const struct nbd_request_head *head,
    const struct nbd_status_head *status)
{
	bool is_extended = style == NBD_EXTENDED;
	uint64_t extent_bytes = is_extended ? 16 : 8;
	uint32_t bytes = put_chunk(out, style,
	    is_extended ? REPLY_BLOCK_STATUS_EXT : REPLY_BLOCK_STATUS,
	    status->is_last ? REPLY_FLAG_DONE : 0, head,
	    (is_extended ? 8 : 4) + status->extent_count * extent_bytes);

	nbd_put32(out + bytes, status->context_id);
	if (is_extended)
		nbd_put32(out + bytes + 4, status->extent_count);
	return bytes + (is_extended ? 8 : 4);
}

uint32_t
nbd_put_extent(uint8_t *out, enum nbd_reply_style style, uint64_t length_bytes, uint32_t flags)
{
	assert(style == NBD_EXTENDED || length_bytes <= UINT32_MAX);
	if (style == NBD_EXTENDED) {
		nbd_put64(out, length_bytes);
		nbd_put64(out + 8, flags);
		return 16;
	}
	nbd_put32(out, (uint32_t)length_bytes);
	nbd_put32(out + 4, flags);
	return 8;
}

enum nbd_error
nbd_error_of(int rc)
{
	assert(rc <= 0);
	switch (rc) {
	case 0:
		return NBD_SUCCESS;
	case -EROFS:
	case -EPERM:
	case -EACCES:
	case -ENOKEY:
		return NBD_EPERM;
	case -ENOMEM:
	case -ENOBUFS:
		return NBD_ENOMEM;
	case -EINVAL:
		return NBD_EINVAL;
	case -ENOSPC:
	case -ERANGE: /* beyond the end: what the protocol asks for of writes */
		return NBD_ENOSPC;
	case -EOVERFLOW:
		return NBD_EOVERFLOW;
	case -ENOTSUP:
		return NBD_ENOTSUP;
	case -ESHUTDOWN:
	case -ECANCELED:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}
