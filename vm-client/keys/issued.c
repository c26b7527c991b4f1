/* SPDX-License-Identifier: Apache-2.0 */
/* issued.c -- see issued.h */
#include "issued.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "subject_of.h"

#define ISSUED_FORMAT 1

void
issued_fini(struct issued *issued)
{
	alloc_free(ALLOC_CLIENT, issued->entries);
	*issued = (struct issued){ 0 };
}

static bool
is_serial(const char *text)
{
	return strlen(text) == ISSUED_SERIAL_TEXT_BYTES - 1 &&
	    text[strspn(text, "0123456789abcdef")] == '\0';
}

struct issued_entry *
issued_find(const struct issued *issued, const char *serial)
{
	for (uint32_t i = 0; i < issued->count; i++) {
		if (strcmp(issued->entries[i].serial, serial) == 0)
			return &issued->entries[i];
	}
	return NULL;
}

uint32_t
issued_revoke(struct issued *issued, const char *what, uint64_t now_s, uint32_t *ret_count)
{
	uint32_t found = 0;

	*ret_count = 0;
	for (uint32_t i = 0; i < issued->count; i++) {
		struct issued_entry *entry = &issued->entries[i];
		bool is_serial = strcmp(entry->serial, what) == 0;

		if (!is_serial && (strcmp(entry->subject, what) != 0 || entry->until_s < now_s))
			continue;
		found++;
		if (entry->revoked_s != 0)
			continue;
		entry->revoked_s = now_s;
		(*ret_count)++;
	}
	return found;
}

const char *
issued_state(const struct issued_entry *entry, uint64_t now_s)
{
	if (entry->revoked_s != 0)
		return "revoked";
	return entry->until_s < now_s ? "expired" : "valid";
}

/* Room for a power of two of them. */
static int
issued_grow(struct issued *issued)
{
	uint32_t room = issued->count == 0 ? 16 : 2 * issued->count;
	struct issued_entry *more;

	if (issued->count >= ISSUED_MAX)
		return -ENOSPC;
	if (issued->count != 0 &&
	    (issued->count < 16 || (issued->count & (issued->count - 1)) != 0))
		return 0;
	more = alloc_zeroed(ALLOC_CLIENT, room, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	if (issued->count > 0)
		memcpy(more, issued->entries, issued->count * sizeof(*more));
	alloc_free(ALLOC_CLIENT, issued->entries);
	issued->entries = more;
	return 0;
}

int
issued_add(struct issued *issued, const struct issued_entry *entry)
{
	int rc = issued_grow(issued);

	assert(is_serial(entry->serial));
	if (rc == 0)
		issued->entries[issued->count++] = *entry;
	return rc;
}

int
issued_adopt(struct issued *issued, const char *serial, uint64_t until_s, uint64_t now_s)
{
	struct issued_entry entry = { .subject = ISSUED_SUBJECT_UNKNOWN,
		.from_s = now_s,
		.until_s = until_s,
		.revoked_s = now_s };
	uint32_t count;
	int rc;

	assert(is_serial(serial));
	if (issued_revoke(issued, serial, now_s, &count) > 0)
		return count > 0;
	memcpy(entry.serial, serial, sizeof(entry.serial));
	rc = issued_add(issued, &entry);
	return rc == 0 ? 1 : rc;
}

/* ---- its text ---- */

static const char *
entry_decode(const json_t *in, struct issued_entry *entry)
{
	json_int_t from, until, revoked;
	const char *subject, *serial;

	if (json_unpack((json_t *)(uintptr_t)in, "{s:s, s:s, s:I, s:I, s:I}", "subject", &subject,
		"serial", &serial, "from", &from, "until", &until, "revoked", &revoked) != 0)
		return "an entry lacks subject, serial, from, until or revoked";
	if (!subject_of_is_valid(subject) &&
	    (strcmp(subject, ISSUED_SUBJECT_UNKNOWN) != 0 || revoked <= 0))
		return "a subject is none";
	if (!is_serial(serial))
		return "a serial is not 32 hex digits";
	if (from < 0 || until < from || revoked < 0)
		return "a time is none";
	*entry = (struct issued_entry){ .from_s = (uint64_t)from,
		.until_s = (uint64_t)until,
		.revoked_s = (uint64_t)revoked };
	(void)snprintf(entry->subject, sizeof(entry->subject), "%s", subject); /* fits: valid */
	memcpy(entry->serial, serial, ISSUED_SERIAL_TEXT_BYTES);
	return NULL;
}

static int
compare_serials(const void *a, const void *b)
{
	const struct issued_entry *const *left = a, *const *right = b;

	return strcmp((*left)->serial, (*right)->serial);
}

/* 0, -EINVAL: two are the same; -ENOMEM. */
static int
check_serials(const struct issued *issued)
{
	const struct issued_entry **order =
	    alloc_zeroed(ALLOC_CLIENT, issued->count + 1, sizeof(const struct issued_entry *));
	int rc = 0;

	if (order == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < issued->count; i++)
		order[i] = &issued->entries[i];
	qsort(order, issued->count, sizeof(*order), compare_serials);
	for (uint32_t i = 1; i < issued->count; i++) {
		if (strcmp(order[i - 1]->serial, order[i]->serial) == 0)
			rc = -EINVAL;
	}
	alloc_free(ALLOC_CLIENT, order);
	return rc;
}

static int
entries_decode(const json_t *list, struct issued *ret, const char **ret_why)
{
	struct issued_entry entry;
	const json_t *in;
	size_t i;
	int rc;

	json_array_foreach(list, i, in)
	{
		*ret_why = entry_decode(in, &entry);
		if (*ret_why != NULL)
			return -EINVAL;
		rc = issued_add(ret, &entry);
		if (rc != 0) {
			*ret_why = rc == -ENOSPC ? "it has too many entries" : "out of memory";
			return rc == -ENOSPC ? -EINVAL : rc;
		}
	}
	rc = check_serials(ret);
	*ret_why = rc == -EINVAL ? "two entries have one serial" : "out of memory";
	return rc;
}

int
issued_decode(const char *text, size_t bytes, struct issued *ret, const char **ret_why)
{
	json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL), *list;
	json_int_t format, number;
	const char *cluster;
	int rc = -EINVAL;

	*ret = (struct issued){ 0 };
	*ret_why = "it is no JSON object with format, cluster, crl_number and issued";
	if (json_unpack(object, "{s:I, s:s, s:I, s:o}", "format", &format, "cluster", &cluster,
		"crl_number", &number, "issued", &list) != 0 ||
	    !json_is_array(list) || number < 0) {
		/* as it says */
	} else if (format != ISSUED_FORMAT) {
		*ret_why = "its format is that of another release";
	} else if (subject_of_cluster(cluster, &ret->cluster_id) != 0) {
		*ret_why = "its cluster is no cluster's id";
	} else {
		ret->crl_number = (uint64_t)number;
		rc = entries_decode(list, ret, ret_why);
	}
	json_decref(object);
	if (rc != 0)
		issued_fini(ret);
	return rc;
}

static int
entry_encode(json_t *list, const struct issued_entry *entry)
{
	return json_array_append_new(list,
	    json_pack("{s:s, s:s, s:I, s:I, s:I}", "subject", entry->subject, "serial",
		entry->serial, "from", (json_int_t)entry->from_s, "until",
		(json_int_t)entry->until_s, "revoked", (json_int_t)entry->revoked_s));
}

char *
issued_encode(const struct issued *issued, size_t *ret_bytes)
{
	char cluster[SUBJECT_OF_CLUSTER_BYTES], *text = NULL;
	json_t *list = json_array(), *object;
	int rc = list == NULL ? -1 : 0;

	(void)snprintf(cluster, sizeof(cluster), "%016" PRIx64, issued->cluster_id);
	for (uint32_t i = 0; rc == 0 && i < issued->count; i++)
		rc = entry_encode(list, &issued->entries[i]);
	object = rc != 0
	    ? NULL
	    : json_pack("{s:i, s:s, s:I, s:O}", "format", ISSUED_FORMAT, "cluster", cluster,
		  "crl_number", (json_int_t)issued->crl_number, "issued", list);
	if (object != NULL)
		text = json_dumps(object, JSON_INDENT(1));
	json_decref(object);
	json_decref(list);
	*ret_bytes = text == NULL ? 0 : strlen(text);
	return text;
}
