/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_option.c -- the handshake: fixed newstyle, one option after the other
 *
 * An option is answered before the next one is looked at. INFO, GO and EXPORT_NAME need the export's
 * size, so they open it; meanwhile nothing is read. Whoever asked by INFO keeps it until its next
 * option names another, or GO goes on with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "nbd.h"
#include "nbd_bitmap.h"

#define OPTION_TEXT_BYTES_MAX 200u

int
nbd_greet(struct nbd_connection *connection)
{
	uint8_t out[NBD_GREETING_BYTES];

	assert(connection->sm.state == NBD_CONNECTION_FLAGS);
	nbd_put64(out, NBD_MAGIC);
	nbd_put64(out + 8, NBD_IHAVEOPT);
	nbd_put16(out + 16, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	return nbd_connection_text(connection, out, sizeof(out));
}

int
nbd_client_flags(struct nbd_connection *connection, const uint8_t in[4])
{
	uint32_t flags = (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 |
	    in[3];

	assert(connection->sm.state == NBD_CONNECTION_FLAGS);
	if ((flags & ~(uint32_t)(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES)) != 0)
		return -EPROTO;
	connection->is_fixed = (flags & NBD_FLAG_FIXED_NEWSTYLE) != 0;
	connection->has_no_zeroes = (flags & NBD_FLAG_NO_ZEROES) != 0;
	return 0;
}

/* ---- replies ---- */

static int
reply(struct nbd_connection *connection, uint32_t option, uint32_t type, const void *data,
    uint32_t bytes)
{
	uint8_t head[NBD_OPTION_REPLY_BYTES];
	int rc;

	assert(bytes == 0 || data != NULL);
	nbd_put_option_reply(head, option, type, bytes);
	rc = nbd_connection_text(connection, head, sizeof(head));
	return rc == 0 && bytes > 0 ? nbd_connection_text(connection, data, bytes) : rc;
}

/* An error and a sentence for people. */
static int
reply_error(struct nbd_connection *connection, uint32_t option, uint32_t type, const char *text)
{
	assert((type & NBD_REP_ERROR) != 0);
	log_debug("nbd: option refused peer=%s option=%u text=\"%s\"", connection->peer, option,
	    text);
	return reply(connection, option, type, text,
	    (uint32_t)strnlen(text, OPTION_TEXT_BYTES_MAX));
}

static uint16_t
transmission_flags(const struct nbd_connection *connection)
{
	uint16_t flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
	    NBD_FLAG_SEND_CACHE | NBD_FLAG_CAN_MULTI_CONN;

	assert(connection->export != NULL);
	if (connection->export->is_read_only)
		flags |= NBD_FLAG_READ_ONLY;
	else
		flags |= NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_FAST_ZERO;
	if (nbd_resize_is_offered(connection->export))
		flags |= NBD_FLAG_SEND_RESIZE;
	if (connection->style != NBD_SIMPLE)
		flags |= NBD_FLAG_SEND_DF;
	return flags;
}

static int
reply_info_export(struct nbd_connection *connection, uint32_t option)
{
	uint8_t data[12];

	assert(connection->export != NULL);
	nbd_put16(data, NBD_INFO_EXPORT);
	nbd_put64(data + 2, connection->export->size_bytes);
	nbd_put16(data + 10, transmission_flags(connection));
	return reply(connection, option, NBD_REP_INFO, data, sizeof(data));
}

static int
reply_info_block_size(struct nbd_connection *connection, uint32_t option)
{
	uint8_t data[14];

	nbd_put16(data, NBD_INFO_BLOCK_SIZE);
	nbd_put32(data + 2, 1);
	nbd_put32(data + 6, NBD_PREFERRED_BYTES);
	nbd_put32(data + 10, NBD_PAYLOAD_BYTES_MAX);
	return reply(connection, option, NBD_REP_INFO, data, sizeof(data));
}

static int
reply_info_name(struct nbd_connection *connection, uint32_t option)
{
	uint8_t data[2 + CLEAVE_NAME_BYTES_MAX];
	size_t bytes = strlen(connection->export->name);

	assert(bytes <= CLEAVE_NAME_BYTES_MAX);
	nbd_put16(data, NBD_INFO_NAME);
	memcpy(data + 2, connection->export->name, bytes);
	return reply(connection, option, NBD_REP_INFO, data, 2 + (uint32_t)bytes);
}

/* ---- exports ---- */

static void
leave(struct nbd_connection *connection)
{
	if (connection->export != NULL)
		nbd_export_leave(connection->export, connection);
}

/* Ask for the export that an option names. */
static int
use(struct nbd_connection *connection, uint32_t option, const char *name, uint32_t name_bytes)
{
	struct nbd_export *export = nbd_export_find(connection->server, name, name_bytes);

	connection->option = option;
	if (export == NULL) {
		if (option == NBD_OPT_EXPORT_NAME)
			return -EPROTO; /* it has no way to say no */
		return reply_error(connection, option, NBD_REP_ERR_UNKNOWN,
		    name_bytes == 0 ? "there is no default export" : "no such export");
	}
	/* The one that INFO opened stays open; being told comes all the same. */
	if (connection->export != export)
		leave(connection);
	nbd_export_use(export, connection);
	return -EINPROGRESS;
}

static int
begin_serving(struct nbd_connection *connection)
{
	assert(connection->export != NULL);
	if (strcmp(connection->context_export, connection->export->name) != 0) {
		connection->has_context = false;
		nbd_bitmap_drop_all(connection);
	}
	log_info("nbd: serving peer=%s export=%s", connection->peer, connection->export->name);
	sm_move(&connection->sm, NBD_CONNECTION_SERVING);
	return 0;
}

static int
answer_export_name(struct nbd_connection *connection)
{
	uint8_t data[NBD_EXPORT_NAME_BYTES + NBD_EXPORT_NAME_ZEROES] = { 0 };
	uint32_t bytes = connection->has_no_zeroes ? NBD_EXPORT_NAME_BYTES : sizeof(data);
	int rc;

	assert(connection->export != NULL);
	nbd_put64(data, connection->export->size_bytes);
	nbd_put16(data + 8, transmission_flags(connection));
	rc = nbd_connection_text(connection, data, bytes);
	return rc != 0 ? rc : begin_serving(connection);
}

/* ---- metadata contexts ---- */

/* @name: the whole of it, or what is behind qemu:dirty-bitmap:. */
static int
reply_context(struct nbd_connection *connection, uint32_t id, const char *prefix, const char *name,
    uint32_t name_bytes)
{
	uint8_t data[4 + sizeof(NBD_CONTEXT_BITMAP) + CLEAVE_VOLUME_NAME_BYTES_MAX];
	size_t prefix_bytes = strlen(prefix);

	assert(4 + prefix_bytes + name_bytes <= sizeof(data));
	nbd_put32(data, id);
	memcpy(data + 4, prefix, prefix_bytes);
	memcpy(data + 4 + prefix_bytes, name, name_bytes);
	return reply(connection, connection->option, NBD_REP_META_CONTEXT, data,
	    (uint32_t)(4 + prefix_bytes) + name_bytes);
}

static int
reply_allocation(struct nbd_connection *connection, uint32_t id)
{
	return reply_context(connection, id, "", NBD_CONTEXT_ALLOCATION,
	    sizeof(NBD_CONTEXT_ALLOCATION) - 1);
}

/* A gateway could not be asked, or there is no such volume: no context is given. */
static int
reply_meta_error(struct nbd_connection *connection, int rc, const char *error)
{
	assert(rc < 0);
	if (connection->option == NBD_OPT_SET_META_CONTEXT)
		connection->has_context = false;
	return reply_error(connection, connection->option,
	    rc == -ENOENT ? NBD_REP_ERR_UNKNOWN : NBD_REP_ERR_PLATFORM,
	    error != NULL && error[0] != '\0' ? error : cleave_error_text(rc));
}

/* The answer to SET_META_CONTEXT, whose bitmaps are open, or cannot be. */
static int
option_on_bitmaps(struct nbd_connection *connection)
{
	int rc = nbd_bitmap_keep_open(connection);

	assert(connection->option == NBD_OPT_SET_META_CONTEXT);
	if (rc != 0)
		return reply_meta_error(connection, rc, NULL);
	if (connection->has_context)
		rc = reply_allocation(connection, NBD_CONTEXT_ID);
	for (uint32_t i = 0; i < connection->bitmap_count && rc == 0; i++) {
		uint32_t bytes;
		const char *name = nbd_bitmap_since(connection->bitmaps[i].bitmap, &bytes);

		rc = reply_context(connection, NBD_CONTEXT_ID_BITMAP + i, NBD_CONTEXT_BITMAP, name,
		    bytes);
	}
	return rc != 0 ? rc : reply(connection, connection->option, NBD_REP_ACK, NULL, 0);
}

int
nbd_option_on_list(struct nbd_connection *connection, int rc, const char *error,
    const char *const *names, uint32_t name_count)
{
	assert(connection->option == NBD_OPT_LIST_META_CONTEXT);
	if (rc != 0)
		return reply_meta_error(connection, rc, error);
	if (connection->lists_allocation)
		rc = reply_allocation(connection, 0);
	for (uint32_t i = 0; i < name_count && rc == 0; i++)
		rc = reply_context(connection, 0, NBD_CONTEXT_BITMAP, names[i],
		    (uint32_t)strlen(names[i]));
	return rc != 0 ? rc : reply(connection, connection->option, NBD_REP_ACK, NULL, 0);
}

static int
option_list_meta(struct nbd_connection *connection, const char *export,
    const struct nbd_meta_request *request)
{
	int rc;

	assert(connection->option == NBD_OPT_LIST_META_CONTEXT);
	connection->lists_allocation = request->has_allocation;
	/* A difference is no volume, and has no bitmaps. */
	if ((!request->has_all_bitmaps && request->bitmap_count == 0) ||
	    strchr(export, '@') != strrchr(export, '@'))
		return nbd_option_on_list(connection, 0, NULL, NULL, 0);
	rc = nbd_bitmap_list(connection, export, request);
	return rc != 0 ? reply_meta_error(connection, rc, NULL) : -EINPROGRESS;
}

static int
option_set_meta(struct nbd_connection *connection, const char *export,
    const struct nbd_meta_request *request)
{
	assert(connection->option == NBD_OPT_SET_META_CONTEXT);
	connection->has_context = request->has_allocation;
	(void)snprintf(connection->context_export, sizeof(connection->context_export), "%s",
	    export);
	for (uint32_t i = 0; i < request->bitmap_count; i++) {
		const struct nbd_meta_bitmap *bitmap = &request->bitmaps[i];
		int rc = nbd_bitmap_add(connection, export, bitmap->name, bitmap->name_bytes);

		if (rc == 0 || rc == -ENOENT)
			continue;
		nbd_bitmap_drop_all(connection);
		return reply_meta_error(connection, rc, NULL);
	}
	return nbd_bitmap_is_waiting(connection) ? -EINPROGRESS : option_on_bitmaps(connection);
}

static int
option_meta(struct nbd_connection *connection, const struct nbd_option_head *head,
    const uint8_t *data)
{
	bool is_list = head->option == NBD_OPT_LIST_META_CONTEXT;
	struct nbd_meta_request request;
	const struct nbd_export *export;
	const char *text;
	int rc;

	assert(is_list || head->option == NBD_OPT_SET_META_CONTEXT);
	connection->option = head->option;
	if (!is_list) {
		connection->has_context = false;
		nbd_bitmap_drop_all(connection);
	}
	if (connection->style == NBD_SIMPLE)
		return reply_error(connection, head->option, NBD_REP_ERR_INVALID,
		    "structured replies must be agreed upon first");
	rc = nbd_meta_decode(data, head->length_bytes, is_list, &request, &text);
	if (rc != 0)
		return reply_error(connection, head->option,
		    rc == -E2BIG ? NBD_REP_ERR_TOO_BIG : NBD_REP_ERR_INVALID, text);
	export = nbd_export_find(connection->server, request.name, request.name_bytes);
	if (export == NULL)
		return reply_error(connection, head->option, NBD_REP_ERR_UNKNOWN, "no such export");
	return is_list ? option_list_meta(connection, export->name, &request)
		       : option_set_meta(connection, export->name, &request);
}

/* ---- what waited ---- */

int
nbd_option_on_export(struct nbd_connection *connection, int rc, const char *error)
{
	uint32_t option = connection->option;

	assert(connection->sm.state == NBD_CONNECTION_OPENING);
	if (option == NBD_OPT_SET_META_CONTEXT)
		return option_on_bitmaps(connection);
	if (rc != 0) {
		leave(connection);
		if (option == NBD_OPT_EXPORT_NAME)
			return -EPROTO;
		return reply_error(connection, option,
		    rc == -ENOENT ? NBD_REP_ERR_UNKNOWN : NBD_REP_ERR_PLATFORM,
		    error != NULL ? error : cleave_error_text(rc));
	}
	if (option == NBD_OPT_EXPORT_NAME)
		return answer_export_name(connection);
	rc = reply_info_export(connection, option);
	if (rc == 0 && connection->wants_block_size)
		rc = reply_info_block_size(connection, option);
	if (rc == 0 && connection->wants_name)
		rc = reply_info_name(connection, option);
	if (rc == 0)
		rc = reply(connection, option, NBD_REP_ACK, NULL, 0);
	if (rc != 0)
		return rc;
	return option == NBD_OPT_GO ? begin_serving(connection) : 0;
}

/* ---- options ---- */

uint64_t
nbd_option_list_bytes(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	/* The text's memory doubles as it grows. */
	return UINT64_C(2) * connection->server->export_count *
	    (NBD_OPTION_REPLY_BYTES + 4 + CLEAVE_NAME_BYTES_MAX);
}

static int
option_list(struct nbd_connection *connection)
{
	struct loop_link *link, *next;
	int rc = 0;

	LIST_FOREACH_SAFE(&connection->server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);
		uint8_t data[4 + CLEAVE_NAME_BYTES_MAX];
		uint32_t bytes = (uint32_t)strlen(export->name);

		if (export->is_on_demand)
			continue;
		nbd_put32(data, bytes);
		memcpy(data + 4, export->name, bytes);
		rc = reply(connection, NBD_OPT_LIST, NBD_REP_SERVER, data, 4 + bytes);
		if (rc != 0)
			return rc;
	}
	return reply(connection, NBD_OPT_LIST, NBD_REP_ACK, NULL, 0);
}

static int
option_info(struct nbd_connection *connection, const struct nbd_option_head *head,
    const uint8_t *data)
{
	struct nbd_info_request request;
	const char *text;

	assert(head->option == NBD_OPT_INFO || head->option == NBD_OPT_GO);
	if (nbd_info_decode(data, head->length_bytes, &request, &text) != 0)
		return reply_error(connection, head->option, NBD_REP_ERR_INVALID, text);
	connection->wants_block_size = request.wants_block_size;
	connection->wants_name = request.wants_name;
	return use(connection, head->option, request.name, request.name_bytes);
}

static int
option_style(struct nbd_connection *connection, const struct nbd_option_head *head)
{
	enum nbd_reply_style style = head->option == NBD_OPT_EXTENDED_HEADERS ? NBD_EXTENDED
									      : NBD_STRUCTURED;

	assert(style == NBD_EXTENDED || head->option == NBD_OPT_STRUCTURED_REPLY);
	if (head->length_bytes != 0)
		return reply_error(connection, head->option, NBD_REP_ERR_INVALID,
		    "this option has no data");
	if (connection->style == NBD_EXTENDED && style == NBD_STRUCTURED)
		return reply_error(connection, head->option, NBD_REP_ERR_EXT_HEADER_REQD,
		    "extended headers are agreed upon already");
	connection->style = style;
	return reply(connection, head->option, NBD_REP_ACK, NULL, 0);
}

static int
option_starttls(struct nbd_connection *connection, const struct nbd_option_head *head)
{
	int rc;

	assert(head->option == NBD_OPT_STARTTLS);
	if (head->length_bytes != 0)
		return reply_error(connection, head->option, NBD_REP_ERR_INVALID,
		    "this option has no data");
	if (connection->server->options.tls == NULL)
		return reply_error(connection, head->option, NBD_REP_ERR_UNSUP,
		    "TLS is not configured here");
	if (connection->is_secure)
		return reply_error(connection, head->option, NBD_REP_ERR_INVALID,
		    "this is TLS already");
	rc = reply(connection, head->option, NBD_REP_ACK, NULL, 0);
	return rc != 0 ? rc : -EALREADY;
}

/* Before TLS, where it is required, nothing is told but that. */
static bool
must_be_secure(const struct nbd_connection *connection, uint32_t option)
{
	return connection->server->options.requires_tls && !connection->is_secure &&
	    option != NBD_OPT_STARTTLS && option != NBD_OPT_ABORT;
}

int
nbd_option_run(struct nbd_connection *connection, const struct nbd_option_head *head,
    const uint8_t *data)
{
	assert(connection->sm.state == NBD_CONNECTION_OPTIONS);
	if (!connection->is_fixed && head->option != NBD_OPT_EXPORT_NAME)
		return -EPROTO;
	if (must_be_secure(connection, head->option)) {
		log_limited(LOG_WARN, "nbd: plain client refused, TLS is required peer=%s",
		    connection->peer);
		if (head->option == NBD_OPT_EXPORT_NAME)
			return -EPROTO;
		return reply_error(connection, head->option, NBD_REP_ERR_TLS_REQD,
		    "TLS is required here");
	}
	switch (head->option) {
	case NBD_OPT_STARTTLS:
		return option_starttls(connection, head);
	case NBD_OPT_EXPORT_NAME:
		return use(connection, head->option, (const char *)data, head->length_bytes);
	case NBD_OPT_ABORT:
		(void)reply(connection, head->option, NBD_REP_ACK, NULL, 0); /* it goes anyway */
		return -ESHUTDOWN;
	case NBD_OPT_LIST:
		if (head->length_bytes != 0)
			return reply_error(connection, head->option, NBD_REP_ERR_INVALID,
			    "this option has no data");
		return option_list(connection);
	case NBD_OPT_INFO:
	case NBD_OPT_GO:
		return option_info(connection, head, data);
	case NBD_OPT_STRUCTURED_REPLY:
	case NBD_OPT_EXTENDED_HEADERS:
		return option_style(connection, head);
	case NBD_OPT_LIST_META_CONTEXT:
	case NBD_OPT_SET_META_CONTEXT:
		return option_meta(connection, head, data);
	default:
		return reply_error(connection, head->option, NBD_REP_ERR_UNSUP,
		    "this option is not known here");
	}
}
