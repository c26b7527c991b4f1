/* SPDX-License-Identifier: Apache-2.0 */
/* backup_chain.c -- see backup_chain.h */
#include "backup_chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backup_reader.h"
#include "base/check.h"
#include "base/num.h"

/* A file, and how far it has been read. */
struct link {
	const char *name;
	struct backup_reader *reader;
	uint32_t
	    index; /* the first range of reader->frame that does not end at or before the place */
	bool has_frame;
};

struct backup_chain {
	struct link links[BACKUP_CHAIN_MAX]; /* oldest first */
	uint32_t count;
	uint64_t at_bytes; /* all before it has been given */
	char error[2 * BACKUP_ERROR_BYTES];
};

static int
chain_fail(struct backup_chain *chain, const struct link *link, int rc, const char *text)
{
	assert(rc < 0);
	(void)snprintf(chain->error, sizeof(chain->error), "%.200s: %s", link->name, text);
	return rc;
}

#define POINT_TEXT_BYTES (BACKUP_NAME_BYTES + 32u)

/* A name may be another snapshot's by now; with the time it is one. */
static const char *
point_text(const struct backup_point *point, const char *snapshot, char ret_text[POINT_TEXT_BYTES])
{
	time_t taken = (time_t)point->taken_s;
	char when[32];
	struct tm tm;

	if (gmtime_r(&taken, &tm) == NULL ||
	    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		when[0] = '\0';
	(void)snprintf(ret_text, POINT_TEXT_BYTES, "%.63s of %s", snapshot, when);
	return ret_text;
}

int
backup_chain_follows(const struct backup_header *previous, const struct backup_header *next,
    char *ret_error)
{
	char wanted[POINT_TEXT_BYTES], found[POINT_TEXT_BYTES];

	if (backup_is_full(next)) {
		(void)snprintf(ret_error, BACKUP_ERROR_BYTES,
		    "it is a full backup, of %.63s@%.63s: nothing stands before it", next->volume,
		    next->snapshot);
		return -EINVAL;
	}
	if (next->point.cluster_id != previous->point.cluster_id ||
	    next->point.volume_id != previous->point.volume_id) {
		(void)snprintf(ret_error, BACKUP_ERROR_BYTES,
		    "it is of another volume, %.63s, than the one before it, of %.63s",
		    next->volume, previous->volume);
		return -EINVAL;
	}
	if (!backup_point_is_same(&next->parent, &previous->point)) {
		(void)snprintf(ret_error, BACKUP_ERROR_BYTES,
		    "it goes on from snapshot %s, and the one before it ends at %s: the backup of "
		    "%s is missing",
		    point_text(&next->parent, next->parent_snapshot, wanted),
		    point_text(&previous->point, previous->snapshot, found), wanted);
		return -EINVAL;
	}
	return 0;
}

static int
chain_check_links(struct backup_chain *chain)
{
	const struct backup_header *first = &chain->links[0].reader->header;
	char text[BACKUP_ERROR_BYTES];

	if (!backup_is_full(first)) {
		(void)snprintf(text, sizeof(text),
		    "it has only what changed since snapshot %.63s: a full backup comes first, and the "
		    "backup of %.63s before this one",
		    first->parent_snapshot, first->parent_snapshot);
		return chain_fail(chain, &chain->links[0], -EINVAL, text);
	}
	for (uint32_t i = 1; i < chain->count; i++) {
		int rc = backup_chain_follows(&chain->links[i - 1].reader->header,
		    &chain->links[i].reader->header, text);

		if (rc != 0)
			return chain_fail(chain, &chain->links[i], rc, text);
	}
	return 0;
}

int
backup_chain_create(const struct backup_source *sources, uint32_t count,
    struct backup_chain **ret_chain, char ret_error[2 * BACKUP_ERROR_BYTES])
{
	struct backup_chain *chain = calloc(1, sizeof(*chain));
	char text[BACKUP_ERROR_BYTES];
	int rc = chain == NULL ? -ENOMEM : count > BACKUP_CHAIN_MAX ? -E2BIG : 0;

	assert(sources != NULL && count > 0);
	(void)snprintf(ret_error, 2 * BACKUP_ERROR_BYTES, "%s",
	    rc == -E2BIG ? "more than 240 files: merge some of them first" : "out of memory");
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		struct link *link = &chain->links[i];

		link->name = sources[i].name;
		rc = backup_reader_create(sources[i].fd, &link->reader, text);
		if (rc != 0)
			(void)chain_fail(chain, link, rc, text);
		else
			chain->count++;
	}
	if (rc == 0)
		rc = chain_check_links(chain);
	if (rc == 0) {
		*ret_chain = chain;
		return 0;
	}
	if (chain != NULL && chain->error[0] != '\0')
		(void)snprintf(ret_error, 2 * BACKUP_ERROR_BYTES, "%s", chain->error);
	backup_chain_destroy(chain);
	return rc;
}

void
backup_chain_destroy(struct backup_chain *chain)
{
	if (chain == NULL)
		return;
	for (uint32_t i = 0; i < chain->count; i++)
		backup_reader_destroy(chain->links[i].reader);
	free(chain);
}

const struct backup_header *
backup_chain_header(const struct backup_chain *chain)
{
	assert(chain->count > 0);
	return &chain->links[chain->count - 1].reader->header;
}

uint64_t
backup_chain_id(const struct backup_chain *chain)
{
	uint64_t id = chain->count;

	for (uint32_t i = 0; i < chain->count; i++) {
		const uint8_t *bytes = chain->links[i].reader->header.id;

		id = num_mix_u64(id ^ num_get_le64(bytes));
		id = num_mix_u64(id ^ num_get_le64(bytes + 8));
	}
	return id;
}

const char *
backup_chain_error(const struct backup_chain *chain)
{
	return chain->error;
}

/*
 * The range that @link names first of the place or behind it: 0, and *@ret_range. Behind its last frame nothing has
 * changed up to its volume's end, and what lies behind that is zeros.
 */
static int
link_look(struct backup_chain *chain, struct link *link, struct backup_range *ret_range)
{
	struct backup_reader *reader = link->reader;
	uint64_t size_bytes = reader->header.size_bytes;
	int rc;

	for (;;) {
		for (; link->has_frame && link->index < reader->frame.range_count; link->index++) {
			*ret_range = reader->frame.ranges[link->index];
			if (ret_range->offset_bytes + ret_range->length_bytes > chain->at_bytes)
				return 0;
		}
		rc = backup_reader_next(reader);
		if (rc < 0)
			return chain_fail(chain, link, rc, reader->error);
		link->has_frame = rc == 1;
		link->index = 0;
		if (rc == 0)
			break;
	}
	*ret_range = (struct backup_range){ .offset_bytes = size_bytes,
		.length_bytes = CLEAVE_VOLUME_BYTES_MAX };
	return 0;
}

/* The range that the chain has at the place: 0, and one that begins there. */
static int
chain_look(struct backup_chain *chain, uint64_t end_bytes, struct backup_range *ret_range)
{
	struct backup_range range;

	assert(chain->at_bytes < end_bytes);
	for (uint32_t i = chain->count; i-- > 0;) {
		int rc = link_look(chain, &chain->links[i], &range);
		uint64_t skipped_bytes;

		if (rc != 0)
			return rc;
		if (range.offset_bytes > chain->at_bytes) {
			end_bytes = num_min(end_bytes, range.offset_bytes);
			continue;
		}
		skipped_bytes = chain->at_bytes - range.offset_bytes;
		ret_range->offset_bytes = chain->at_bytes;
		ret_range->length_bytes =
		    num_min(range.length_bytes - skipped_bytes, end_bytes - chain->at_bytes);
		ret_range->data = range.data == NULL ? NULL : range.data + skipped_bytes;
		return 0;
	}
	/* A full backup says something of every block: its reader has seen to that. */
	return chain_fail(chain, &chain->links[0], -EBADMSG, "it leaves out a part of the volume");
}

/* Nothing is left to be given: the files' ends have to be right as well. */
static int
chain_end(struct backup_chain *chain)
{
	for (uint32_t i = 0; i < chain->count; i++) {
		struct link *link = &chain->links[i];
		int rc;

		do {
			rc = backup_reader_next(link->reader);
		} while (rc == 1);
		if (rc != 0)
			return chain_fail(chain, link, rc, link->reader->error);
	}
	return 0;
}

int
backup_chain_next(struct backup_chain *chain, struct backup_frame *ret_frame, uint8_t *data)
{
	uint64_t size_bytes = backup_chain_header(chain)->size_bytes, used_bytes = 0;
	struct backup_range *last = NULL, range;

	ret_frame->from_bytes = chain->at_bytes;
	ret_frame->range_count = 0;
	while (chain->at_bytes < size_bytes && used_bytes < BACKUP_DATA_BYTES_MAX) {
		int rc = chain_look(chain, size_bytes, &range);

		if (rc != 0)
			return rc;
		if (range.data != NULL) {
			range.length_bytes =
			    num_min(range.length_bytes, BACKUP_DATA_BYTES_MAX - used_bytes);
			memcpy(data + used_bytes, range.data, range.length_bytes);
			range.data = data + used_bytes;
			used_bytes += range.length_bytes;
		}
		range.length_bytes = num_min(range.length_bytes, BACKUP_CHAIN_RANGE_BYTES_MAX);
		if (last != NULL && (last->data == NULL) == (range.data == NULL) &&
		    last->length_bytes + range.length_bytes <= BACKUP_CHAIN_RANGE_BYTES_MAX) {
			last->length_bytes += range.length_bytes;
		} else {
			if (ret_frame->range_count == BACKUP_RANGES_MAX) {
				used_bytes -= range.data == NULL ? 0 : range.length_bytes;
				break; /* the next frame's */
			}
			last = &ret_frame->ranges[ret_frame->range_count++];
			*last = range;
		}
		chain->at_bytes += range.length_bytes;
	}
	ret_frame->to_bytes = chain->at_bytes;
	return ret_frame->range_count > 0 ? 1 : chain_end(chain);
}
