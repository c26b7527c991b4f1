/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_json.h -- requests to etcd's JSON gateway written, and its answers read
 *
 * Keys and values travel as base64. Numbers of 64 bits travel as text; what is 0, false or empty is left out.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_JSON_H
#define CLEAVE_MIDDLETIER_META_ETCD_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole key: where our keys begin, the kind, and META_KEY_BYTES_MAX. */
#define ETCD_KEY_BYTES_MAX 512u
#define ETCD_LEASE_ID_CHARS 16u
/* Below a generation's bits in a version (etcd_client.h): at a million changes a second, nine years. */
#define ETCD_REVISION_MAX ((UINT64_C(1) << 48) - 1)

/* ---- writing ---- */

/* A text that grows. All zero is an empty one. After it has failed (no memory) it takes nothing more. */
struct etcd_text {
	char *bytes; /* NUL-terminated; NULL: empty */
	size_t count, capacity;
	bool has_failed;
	bool needs_comma; /* the next element of the list that is being written */
};

void etcd_text_add(struct etcd_text *text, const char *piece);
/* etcd_text_append -- bytes as they are. False: no memory, and the text is as it was. */
bool etcd_text_append(struct etcd_text *text, const char *bytes, size_t count);
/* etcd_text_base64 -- of @head and @bytes behind each other; NULL with a count of 0 is nothing. */
void etcd_text_base64(struct etcd_text *text, const void *head, size_t head_bytes,
    const void *bytes, size_t count);
/* etcd_text_string -- a JSON string that says @text, control characters and all. */
void etcd_text_string(struct etcd_text *text, const char *string);
void etcd_text_fini(struct etcd_text *text);

/* etcd_json_range -- `"key":...`, and for a prefix `,"range_end":...` */
void etcd_json_range(struct etcd_text *text, const char *key, bool is_prefix);
/* etcd_json_range_end -- `"range_end":...`: the first key that does not begin with @prefix */
void etcd_json_range_end(struct etcd_text *text, const char *prefix);

/*
 * A transaction: begin, compares, then, what is done if all hold, else, what is done if one does not, end.
 * Keys are whole keys.
 */
void etcd_json_txn_begin(struct etcd_text *text);
void etcd_json_txn_then(struct etcd_text *text);
void etcd_json_txn_else(struct etcd_text *text);
void etcd_json_txn_end(struct etcd_text *text);
/* etcd_json_compare_revision -- @key was last changed at @mod_revision; 0: is absent */
void etcd_json_compare_revision(struct etcd_text *text, const char *key, uint64_t mod_revision);
/* etcd_json_compare_version -- @key was put exactly @version times since it is there; 0: is absent */
void etcd_json_compare_version(struct etcd_text *text, const char *key, uint64_t version);
/* etcd_json_compare_exists -- at whatever revision */
void etcd_json_compare_exists(struct etcd_text *text, const char *key);
/* etcd_json_put -- the value is @head and @value behind each other */
void etcd_json_put(struct etcd_text *text, const char *key, const void *head, size_t head_bytes,
    const void *value, size_t value_bytes);
/* etcd_json_touch -- put with the value that it has: a new revision. It must be there. */
void etcd_json_touch(struct etcd_text *text, const char *key);
void etcd_json_delete(struct etcd_text *text, const char *key);
void etcd_json_get(struct etcd_text *text, const char *key, bool is_prefix, bool wants_values);

/* ---- reading ---- */

/* Numbers of google.rpc.Code; etcd's JSON gateway tells these numbers. */
enum etcd_code {
	ETCD_CODE_OK = 0,
	ETCD_CODE_INVALID_ARGUMENT = 3,
	ETCD_CODE_PERMISSION_DENIED = 7,
	ETCD_CODE_RESOURCE_EXHAUSTED = 8,
	ETCD_CODE_FAILED_PRECONDITION = 9,
	ETCD_CODE_OUT_OF_RANGE = 11,
	ETCD_CODE_UNAVAILABLE = 14,
	ETCD_CODE_UNAUTHENTICATED = 16,
};

struct etcd_kv {
	const char *key; /* a NUL behind it */
	const char *value;
	uint32_t key_bytes, value_bytes;
	uint64_t mod_revision, version;
	bool is_deleted; /* an event: it went */
};

/* Any answer, of a request or a line of a stream: what is not in it is zero. */
struct etcd_answer {
	uint64_t cluster_id, revision;
	bool has_succeeded; /* a transaction's compares held */
	bool has_more;      /* a range that was cut */
	bool is_created, is_canceled;
	uint64_t compact_revision;
	uint64_t database_bytes, quota_bytes; /* a member's status; the quota from version 3.6 on */
	bool has_leader;                      /* likewise: it knows one */
	struct etcd_kv *kvs; /* of a range, of all ranges of a transaction, of all events */
	uint32_t kv_count;
	const char *token;
	bool is_error;
	int32_t code;        /* enum etcd_code */
	const char *message; /* is_error, or why it was canceled; never NULL then */
	void *root;          /* what it was read from, and the memory of keys and values */
	char *memory;
};

/*
 * etcd_answer_decode -- read one JSON object
 *
 * @ret_answer owns what it points at until etcd_answer_fini; of an error it is empty.
 * Returns: 0; -EBADMSG not JSON, or nothing that etcd says; -ENOMEM.
 */
int etcd_answer_decode(const char *bytes, size_t count, struct etcd_answer *ret_answer);
/* etcd_answer_fini -- an empty one is a no-op. */
void etcd_answer_fini(struct etcd_answer *answer);
/* etcd_answer_find -- NULL: not in it. */
const struct etcd_kv *etcd_answer_find(const struct etcd_answer *answer, const char *key);

/* etcd_base64_decode -- @out has room for 3/4 of @chars. Returns the bytes, or -1: that is no base64. */
int64_t etcd_base64_decode(const char *text, size_t chars, uint8_t *out);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_JSON_H */
