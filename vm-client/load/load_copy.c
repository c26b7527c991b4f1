/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_copy.c -- files onto a volume, back to back from its start, and back
 *
 * Each file is padded with zeros to 4096 bytes. --file-copy writes all of them, then reads them and
 * compares; --file-verify reads and compares alone.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "load.h"
#include "report.h"

#define COPY_IN_FLIGHT 32u
#define COPY_REQUEST_BYTES 65536u
#define COMPLAINTS_MAX 10u

struct copy_slot {
	struct cleave_io io;
	struct copy *copy;
	uint64_t at_bytes; /* in the file */
	uint64_t started_ns;
	uint8_t data[COPY_REQUEST_BYTES];
};

struct copy {
	struct load *load;
	const char *path; /* the file of now */
	const uint8_t *bytes;
	uint64_t file_bytes;
	uint64_t start_bytes; /* where it begins on the volume */
	enum cleave_op op;
	uint64_t next_bytes; /* in the file: what comes next */
	uint32_t in_flight_count;
	uint64_t error_count; /* of this file */
	uint64_t failed_count;
	struct histogram latency_ns;
	struct report *report;
	struct copy_slot *slots;
};

static bool submit_next(struct copy *copy, struct copy_slot *slot);

/* The part of the file that a request covers, without the padding. */
static uint64_t
covered_bytes(const struct copy *copy, const struct copy_slot *slot)
{
	assert(slot->at_bytes < copy->file_bytes);
	return num_min(slot->io.length_bytes, copy->file_bytes - slot->at_bytes);
}

static void
on_error(struct copy *copy, const char *what, uint64_t at_bytes, const char *why)
{
	if (copy->error_count++ < COMPLAINTS_MAX)
		load_complain("%s, offset %" PRIu64 " (volume %s, offset %" PRIu64 "): %s%s",
		    copy->path, at_bytes, copy->load->options->volume, copy->start_bytes + at_bytes,
		    what, why);
}

static void
compare(struct copy *copy, const struct copy_slot *slot)
{
	const uint8_t *expected = copy->bytes + slot->at_bytes;
	uint64_t bytes = covered_bytes(copy, slot), at = 0;

	assert(copy->op == CLEAVE_READ && copy->report != NULL);
	if (memcmp(slot->data, expected, bytes) == 0) {
		for (at = bytes; at < slot->io.length_bytes && slot->data[at] == 0; at++)
			;
		if (at == slot->io.length_bytes)
			return;
	} else {
		while (slot->data[at] == expected[at])
			at++;
	}
	copy->report->mismatch_count++;
	on_error(copy, "mismatch", slot->at_bytes + at, "");
}

static void
on_io(struct cleave_io *io, int rc, void *arg)
{
	struct copy_slot *slot = arg;
	struct copy *copy = slot->copy;
	uint64_t latency_ns = loop_now_fresh_ns(copy->load->loop) - slot->started_ns;
	bool is_read = io->op == CLEAVE_READ;

	assert(io == &slot->io && copy->in_flight_count > 0);
	copy->in_flight_count--;
	if (rc != 0) {
		copy->report->error_count++;
		on_error(copy, is_read ? "read failed: " : "write failed: ", slot->at_bytes,
		    cleave_error_text(rc));
		/* A volume that cannot be written will not take the rest; other blocks may be read. */
		if (!is_read)
			copy->next_bytes = copy->file_bytes;
	} else {
		if (is_read)
			compare(copy, slot);
		histogram_record(&copy->latency_ns, latency_ns);
		report_add(copy->report, is_read ? REPORT_READ : REPORT_WRITE, io->length_bytes,
		    latency_ns);
	}
	submit_next(copy, slot);
}

static bool
submit_next(struct copy *copy, struct copy_slot *slot)
{
	uint64_t bytes;
	int rc;

	assert(slot->copy == copy && copy->in_flight_count < COPY_IN_FLIGHT);
	if (copy->next_bytes >= copy->file_bytes || copy->load->is_interrupted)
		return false;
	slot->at_bytes = copy->next_bytes;
	slot->io.op = copy->op;
	slot->io.offset_bytes = copy->start_bytes + slot->at_bytes;
	slot->io.length_bytes = num_min(COPY_REQUEST_BYTES,
	    num_round_up(copy->file_bytes - slot->at_bytes, LOAD_BLOCK_BYTES));
	if (copy->op == CLEAVE_WRITE) {
		bytes = covered_bytes(copy, slot);
		memcpy(slot->data, copy->bytes + slot->at_bytes, bytes);
		memset(slot->data + bytes, 0, slot->io.length_bytes - bytes);
	}
	slot->started_ns = loop_now_fresh_ns(copy->load->loop);
	rc = cleave_submit(copy->load->volumes[0].volume, &slot->io);
	if (rc != 0) {
		copy->report->error_count++;
		on_error(copy, "request refused: ", slot->at_bytes, cleave_error_text(rc));
		copy->next_bytes = copy->file_bytes;
		return false;
	}
	copy->next_bytes += slot->io.length_bytes;
	copy->in_flight_count++;
	return true;
}

static bool
is_file_done(void *arg)
{
	const struct copy *copy = arg;

	return copy->in_flight_count == 0;
}

/* Copies a file, in one direction. */
static void
transfer(struct copy *copy)
{
	uint64_t started_ns = loop_now_fresh_ns(copy->load->loop);
	const char *result;
	double s;

	assert(copy->in_flight_count == 0);
	copy->next_bytes = 0;
	copy->error_count = 0;
	histogram_init(&copy->latency_ns);
	for (uint32_t i = 0; i < COPY_IN_FLIGHT; i++)
		if (!submit_next(copy, &copy->slots[i]))
			break;
	loop_run(copy->load->loop, is_file_done, copy);
	s = (double)(loop_now_fresh_ns(copy->load->loop) - started_ns) / 1e9;
	if (copy->error_count > 0)
		copy->failed_count++;
	result = copy->error_count > 0   ? "FAILED"
	    : copy->load->is_interrupted ? "interrupted"
	    : copy->op == CLEAVE_READ    ? "identical"
					 : "written";
	printf("%s: %s, %" PRIu64 " bytes in %.2f s, %.1f MB/s, latency p50 %.0f us p99 %.0f us\n",
	    copy->path, result, copy->file_bytes, s, (double)copy->file_bytes / (s + 1e-9) / 1e6,
	    (double)histogram_percentile(&copy->latency_ns, 50) / 1e3,
	    (double)histogram_percentile(&copy->latency_ns, 99) / 1e3);
	fflush(stdout);
}

static int
map_file(struct copy *copy, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	struct stat st;

	assert(copy->in_flight_count == 0);
	copy->path = path;
	copy->bytes = NULL;
	copy->file_bytes = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (st.st_size > 0) {
		copy->bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (copy->bytes == MAP_FAILED)
			rc = -errno;
		else
			copy->file_bytes = (uint64_t)st.st_size;
	}
	close(fd);
	return rc;
}

/* All of @list in one direction. Returns 0, or a negative errno after a message. */
static int
transfer_list(struct copy *copy, const struct config_list *list, enum cleave_op op)
{
	assert(op == CLEAVE_READ || op == CLEAVE_WRITE);
	copy->op = op;
	copy->start_bytes = 0;
	for (uint32_t i = 0; i < list->count && !copy->load->is_interrupted; i++) {
		int rc = map_file(copy, list->items[i]);
		uint64_t padded_bytes = num_round_up(copy->file_bytes, LOAD_BLOCK_BYTES);

		if (rc == 0 &&
		    copy->start_bytes + padded_bytes > copy->load->volumes[0].info.size_bytes)
			rc = -EFBIG;
		if (rc == 0) {
			transfer(copy);
			copy->start_bytes += padded_bytes;
		} else {
			load_complain("%s: %s", list->items[i],
			    rc == -EFBIG        ? "does not fit the volume: make that larger"
				: rc == -EINVAL ? "not a regular file"
						: strerror(-rc));
		}
		if (copy->file_bytes > 0)
			munmap((void *)(uintptr_t)copy->bytes, copy->file_bytes);
		if (rc != 0)
			return rc;
		if (op == CLEAVE_WRITE && copy->failed_count > 0)
			return -EIO;
	}
	return 0;
}

static int
copy_go(struct copy *copy)
{
	const struct load_options *o = copy->load->options;
	int rc = 0, json_rc = 0;

	assert(copy->in_flight_count == 0);
	report_start(copy->report, loop_now_fresh_ns(copy->load->loop));
	if (o->file_copy.count > 0)
		rc = transfer_list(copy, &o->file_copy, CLEAVE_WRITE);
	if (rc == 0 && o->file_copy.count > 0)
		rc = transfer_list(copy, &o->file_copy, CLEAVE_READ);
	if (rc == 0 && o->file_verify.count > 0)
		rc = transfer_list(copy, &o->file_verify, CLEAVE_READ);
	copy->report->ended_ns = loop_now_fresh_ns(copy->load->loop);
	report_print(copy->report, stdout);
	if (o->json != NULL)
		json_rc = report_write_json(copy->report, cleave_client_stats(copy->load->client),
		    o->json);
	if (json_rc != 0)
		load_complain("%s: %s", o->json, strerror(-json_rc));
	return rc == 0 && json_rc == 0 && copy->failed_count == 0 && !copy->load->is_interrupted
	    ? 0
	    : 1;
}

int
load_copy(struct load *load)
{
	struct copy *copy = calloc(1, sizeof(*copy));
	int status = 1;

	assert(load->volume_count == 1);
	if (copy == NULL)
		goto out;
	copy->load = load;
	copy->report = malloc(sizeof(*copy->report));
	copy->slots = calloc(COPY_IN_FLIGHT, sizeof(*copy->slots));
	if (copy->report == NULL || copy->slots == NULL)
		goto out;
	for (uint32_t i = 0; i < COPY_IN_FLIGHT; i++) {
		struct copy_slot *slot = &copy->slots[i];

		slot->copy = copy;
		slot->io.data = slot->data;
		slot->io.fn = on_io;
		slot->io.arg = slot;
	}
	status = copy_go(copy);
out:
	if (copy == NULL || copy->slots == NULL || copy->report == NULL) {
		load_complain("out of memory");
	}
	if (copy != NULL) {
		free(copy->slots);
		free(copy->report);
	}
	free(copy);
	return status;
}
