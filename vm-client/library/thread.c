/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c -- layer 2: a client on a thread of the library's own
 *
 * The thread runs a loop and the client on it; everybody else talks to it by loop_post. A submission
 * is a post that lives in the cleave_io; a completion without a handler goes to a list behind one
 * lock, and to the event fd when the list was empty. Blocking calls post a request that lives on
 * their stack and wait for its semaphore.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "internal.h"

#define CLEAVE_THREAD_MAGIC 0x44524854u     /* "THRD" */
#define CLEAVE_DISK_MAGIC 0x4b534944u       /* "DISK" */
#define THREAD_STATUS_BYTES_MAX NUM_GIB(64) /* of a volume that is asked about at a time */

struct cleave {
	uint32_t magic;
	struct loop *loop;
	struct cleave_client *client; /* the thread's */
	pthread_t thread;
	struct loop_post stop_post;
	int event_fd;
	pthread_mutex_t lock; /* of what follows */
	struct cleave_io *done_first, *done_last;
	struct loop_link disks;
};

struct cleave_disk {
	uint32_t magic;
	struct loop_link link; /* cleave->disks */
	struct cleave *cleave;
	struct cleave_volume *volume; /* the thread's */
	struct cleave_volume_info info;
};

/* A blocking call, on its caller's stack. */
struct wait {
	sem_t done;
	struct loop_post post;
	struct cleave *cleave;
	struct cleave_disk *disk;
	const char *text; /* a volume's name, or a control request */
	unsigned flags;
	struct cleave_call call;
	struct cleave_io io;
	int rc;
	char *reply;
	char error[CLEAVE_ERROR_BYTES_MAX];
};

static void
wait_begin(struct wait *wait, struct cleave *cleave)
{
	*wait = (struct wait){ .cleave = cleave };
	(void)sem_init(&wait->done, 0, 0); /* cannot fail with these arguments */
}

/* The waiter may return, and its stack be gone, as soon as this is called. */
static void
wait_finish(struct wait *wait, int rc)
{
	wait->rc = rc;
	(void)sem_post(&wait->done); /* cannot overflow */
}

static int
wait_for(struct wait *wait, void (*fn)(struct loop_post *post, void *arg), char *ret_error)
{
	if (fn != NULL) {
		wait->post = (struct loop_post){ .fn = fn, .arg = wait };
		loop_post(wait->cleave->loop, &wait->post);
	}
	while (sem_wait(&wait->done) != 0)
		continue; /* a signal */
	(void)sem_destroy(&wait->done);
	if (ret_error != NULL && wait->rc != 0)
		memcpy(ret_error, wait->error, sizeof(wait->error));
	return wait->rc;
}

static void
error_default(struct wait *wait, int rc)
{
	if (rc != 0 && wait->error[0] == '\0')
		(void)snprintf(wait->error, sizeof(wait->error), "%s", strerror(-rc));
}

/* The thread. */

static void *
thread_main(void *arg)
{
	struct cleave *cleave = arg;

	(void)loop_run(cleave->loop, NULL, NULL); /* 0: loop_stop was called */
	return NULL;
}

static void
thread_on_stop(struct loop_post *post, void *arg)
{
	struct cleave *cleave = arg;

	(void)post;
	loop_stop(cleave->loop);
}

static void
cleave_free(struct cleave *cleave)
{
	struct loop_link *link;

	cleave_client_destroy(cleave->client);
	while ((link = list_pop_front(&cleave->disks)) != NULL)
		free(LIST_ENTRY(link, struct cleave_disk, link));
	loop_destroy(cleave->loop);
	if (cleave->event_fd >= 0)
		(void)close(cleave->event_fd); /* nothing was written that could be lost */
	(void)pthread_mutex_destroy(&cleave->lock);
	cleave->magic = 0;
	free(cleave);
}

/* -ENOMEM, and what a caller can print. */
static int
out_of_memory(char *ret_error)
{
	if (ret_error != NULL)
		(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, "%s", cleave_error_text(-ENOMEM));
	return -ENOMEM;
}

int
cleave_start(const struct cleave_client_options *options, struct cleave **ret_cleave,
    char *ret_error)
{
	struct cleave_client_options client_options = *options;
	struct cleave *cleave = client_calloc(1, sizeof(*cleave));
	const char *what = "memory";
	int rc;

	assert(options->loop == NULL);
	if (cleave == NULL)
		return out_of_memory(ret_error);
	cleave->magic = CLEAVE_THREAD_MAGIC;
	list_init(&cleave->disks);
	(void)pthread_mutex_init(&cleave->lock, NULL); /* cannot fail with these arguments */
	cleave->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cleave->loop = cleave->event_fd < 0 ? NULL : loop_ev_create(0);
	if (cleave->loop == NULL) {
		rc = -errno;
		what = "loop";
		goto err;
	}
	client_options.loop = cleave->loop;
	rc = cleave_client_create(&client_options, &cleave->client, ret_error);
	if (rc != 0)
		goto err_told;
	rc = -pthread_create(&cleave->thread, NULL, thread_main, cleave);
	if (rc != 0) {
		what = "thread";
		goto err;
	}
	*ret_cleave = cleave;
	return 0;

err:
	if (ret_error != NULL)
		(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, "%s: %s", what, strerror(-rc));
err_told:
	cleave_free(cleave);
	return rc;
}

void
cleave_stop(struct cleave *cleave)
{
	if (cleave == NULL)
		return;
	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	cleave->stop_post = (struct loop_post){ .fn = thread_on_stop, .arg = cleave };
	loop_post(cleave->loop, &cleave->stop_post);
	(void)pthread_join(cleave->thread, NULL); /* it is ours and ends */
	cleave_free(cleave);
}

/* Control. */

static void
wait_on_call(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct wait *wait = arg;

	(void)call;
	if (reply != NULL)
		wait->reply = client_strdup(reply);
	if (error != NULL)
		(void)snprintf(wait->error, sizeof(wait->error), "%s", error);
	if (rc == 0 && wait->reply == NULL)
		rc = -ENOMEM;
	error_default(wait, rc);
	wait_finish(wait, rc);
}

static void
thread_on_control(struct loop_post *post, void *arg)
{
	struct wait *wait = arg;
	int rc;

	(void)post;
	wait->call.fn = wait_on_call;
	wait->call.arg = wait;
	rc = cleave_control(wait->cleave->client, &wait->call, wait->text);
	if (rc == 0)
		return;
	error_default(wait, rc);
	wait_finish(wait, rc);
}

int
cleave_control_wait(struct cleave *cleave, const char *request, bool must_not_repeat,
    char **ret_reply, char *ret_error)
{
	struct wait wait;
	int rc;

	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	wait_begin(&wait, cleave);
	wait.text = request;
	wait.call.must_not_repeat = must_not_repeat;
	rc = wait_for(&wait, thread_on_control, ret_error);
	*ret_reply = wait.reply;
	return rc;
}

/* Disks. */

static void
wait_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct wait *wait = arg;

	wait->disk->volume = volume;
	if (rc == 0)
		wait->disk->info = *cleave_volume_info(volume);
	if (error != NULL)
		(void)snprintf(wait->error, sizeof(wait->error), "%s", error);
	error_default(wait, rc);
	wait_finish(wait, rc);
}

static void
thread_on_open(struct loop_post *post, void *arg)
{
	struct wait *wait = arg;
	int rc;

	(void)post;
	rc = cleave_volume_open(wait->cleave->client, wait->text, wait->flags, wait_on_open, wait);
	if (rc == 0)
		return;
	(void)snprintf(wait->error, sizeof(wait->error), "volume '%.64s': %s", wait->text,
	    rc == -EINVAL ? "not a valid name or flag" : strerror(-rc));
	wait_finish(wait, rc);
}

int
cleave_disk_open(struct cleave *cleave, const char *name, unsigned flags,
    struct cleave_disk **ret_disk, char *ret_error)
{
	struct cleave_disk *disk = client_calloc(1, sizeof(*disk));
	struct wait wait;
	int rc;

	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	if (disk == NULL)
		return out_of_memory(ret_error);
	disk->magic = CLEAVE_DISK_MAGIC;
	disk->cleave = cleave;
	wait_begin(&wait, cleave);
	wait.disk = disk;
	wait.text = name;
	wait.flags = flags;
	rc = wait_for(&wait, thread_on_open, ret_error);
	if (rc != 0) {
		free(disk);
		return rc;
	}
	(void)pthread_mutex_lock(&cleave->lock); /* ours: cannot fail */
	list_push_back(&cleave->disks, &disk->link);
	(void)pthread_mutex_unlock(&cleave->lock);
	*ret_disk = disk;
	return 0;
}

static void
wait_on_close(void *arg)
{
	wait_finish(arg, 0);
}

static void
thread_on_close(struct loop_post *post, void *arg)
{
	struct wait *wait = arg;

	(void)post;
	cleave_volume_close(wait->disk->volume, wait_on_close, wait);
}

void
cleave_disk_close(struct cleave_disk *disk)
{
	struct wait wait;

	if (disk == NULL)
		return;
	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	wait_begin(&wait, disk->cleave);
	wait.disk = disk;
	(void)wait_for(&wait, thread_on_close, NULL);  /* always 0 */
	(void)pthread_mutex_lock(&disk->cleave->lock); /* ours: cannot fail */
	list_remove(&disk->link);
	(void)pthread_mutex_unlock(&disk->cleave->lock);
	disk->magic = 0;
	free(disk);
}

const struct cleave_volume_info *
cleave_disk_info(const struct cleave_disk *disk)
{
	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	return &disk->info;
}

/* Requests. */

/* Into the list that cleave_reap takes from. */
static void
io_to_reap(struct cleave_io *io, int rc, void *arg)
{
	struct cleave *cleave = ((struct cleave_disk *)io->owner)->cleave;
	uint64_t one = 1;
	bool was_empty;

	(void)arg;
	io->rc = rc;
	io->next = NULL;
	(void)pthread_mutex_lock(&cleave->lock); /* ours: cannot fail */
	was_empty = cleave->done_first == NULL;
	if (was_empty)
		cleave->done_first = io;
	else
		cleave->done_last->next = io;
	cleave->done_last = io;
	/* Inside the lock, so that a reaper that empties the list clears what was written for it. */
	if (was_empty)
		(void)!write(cleave->event_fd, &one, sizeof(one)); /* readable if it is full */
	(void)pthread_mutex_unlock(&cleave->lock);
}

static void
thread_on_submit(struct loop_post *post, void *arg)
{
	struct cleave_io *io = arg;
	struct cleave_disk *disk = io->owner;
	int rc;

	(void)post;
	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	rc = cleave_submit(disk->volume, io);
	if (rc == 0)
		return;
	io->rc = rc;
	io->fn(io, rc, io->arg);
}

int
cleave_disk_submit(struct cleave_disk *disk, struct cleave_io *io)
{
	int rc;

	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	rc = cleave_io_check(io, disk->info.size_bytes);
	if (rc != 0)
		return rc;
	io->owner = disk;
	if (io->fn == NULL)
		io->fn = io_to_reap;
	io->post = (struct loop_post){ .fn = thread_on_submit, .arg = io };
	loop_post(disk->cleave->loop, &io->post);
	return 0;
}

int
cleave_event_fd(struct cleave *cleave)
{
	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	return cleave->event_fd;
}

uint32_t
cleave_reap(struct cleave *cleave, struct cleave_io **ret_ios, uint32_t max)
{
	uint32_t count = 0;
	uint64_t wakes;

	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	(void)pthread_mutex_lock(&cleave->lock); /* ours: cannot fail */
	while (count < max && cleave->done_first != NULL) {
		struct cleave_io *io = cleave->done_first;

		cleave->done_first = io->next;
		if (io->fn == io_to_reap)
			io->fn = NULL; /* as its owner had it */
		ret_ios[count++] = io;
	}
	if (count > 0 && cleave->done_first == NULL)
		(void)!read(cleave->event_fd, &wakes, sizeof(wakes)); /* nothing to learn */
	(void)pthread_mutex_unlock(&cleave->lock);
	return count;
}

/* Blocking helpers. */

static void
wait_on_io(struct cleave_io *io, int rc, void *arg)
{
	(void)io;
	wait_finish(arg, rc);
}

/* @request comes back with what it was told. */
static int
run_one(struct cleave_disk *disk, struct cleave_io *request)
{
	struct wait wait;
	int rc;

	wait_begin(&wait, disk->cleave);
	wait.io = *request;
	wait.io.fn = wait_on_io;
	wait.io.arg = &wait;
	rc = cleave_disk_submit(disk, &wait.io);
	if (rc == 0) {
		rc = wait_for(&wait, NULL, NULL);
		request->extent_count = wait.io.extent_count;
		return rc;
	}
	(void)sem_destroy(&wait.done);
	return rc;
}

/* @request in as many pieces as it takes. */
static int
run_all(struct cleave_disk *disk, struct cleave_io request)
{
	uint64_t left = request.length_bytes;
	bool has_data = io_has_host(&request);
	int rc;

	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	do {
		request.length_bytes = has_data ? num_min(left, CLEAVE_IO_BYTES_MAX) : left;
		rc = run_one(disk, &request);
		left -= request.length_bytes;
		request.offset_bytes += request.length_bytes;
		if (request.data != NULL)
			request.data = (uint8_t *)request.data + request.length_bytes;
		request.vector_from_bytes += request.length_bytes;
	} while (rc == 0 && left > 0);
	return rc;
}

int
cleave_pread(struct cleave_disk *disk, void *data, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.data = data });
}

int
cleave_pwrite(struct cleave_disk *disk, const void *data, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.data = (void *)(uintptr_t)data });
}

/* Nothing of it is begun unless all of it has a good shape. */
static int
run_vector(struct cleave_disk *disk, struct cleave_io request)
{
	uint64_t size_bytes;

	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	if (request.vector_count == 0 || request.vector_count > CLEAVE_VECTOR_MAX)
		return -EINVAL;
	request.length_bytes = vector_bytes(request.vector, request.vector_count);
	if (request.length_bytes % CLEAVE_BLOCK_BYTES != 0)
		return -EINVAL;
	size_bytes = disk->info.size_bytes;
	if (request.offset_bytes > size_bytes ||
	    request.length_bytes > size_bytes - request.offset_bytes)
		return -ERANGE;
	return run_all(disk, request);
}

int
cleave_preadv(struct cleave_disk *disk, const struct iovec *vector, uint32_t vector_count,
    uint64_t offset_bytes)
{
	return run_vector(disk,
	    (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = offset_bytes,
		.vector = vector,
		.vector_count = vector_count });
}

int
cleave_pwritev(struct cleave_disk *disk, const struct iovec *vector, uint32_t vector_count,
    uint64_t offset_bytes)
{
	return run_vector(disk,
	    (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = offset_bytes,
		.vector = vector,
		.vector_count = vector_count });
}

int
cleave_discard(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_DISCARD,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes });
}

int
cleave_write_zeroes(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes)
{
	return run_all(disk,
	    (struct cleave_io){ .op = CLEAVE_WRITE_ZEROES,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes });
}

int
cleave_flush(struct cleave_disk *disk)
{
	return run_all(disk, (struct cleave_io){ .op = CLEAVE_FLUSH });
}

/* @more extents lie where @count others end: the first of them may only go on with the last of those. */
static uint32_t
extents_join(struct cleave_extent *extents, uint32_t count, uint32_t max,
    const struct cleave_extent *more, uint32_t more_count)
{
	for (uint32_t i = 0; i < more_count; i++) {
		if (count > 0 && extents[count - 1].flags == more[i].flags)
			extents[count - 1].length_bytes += more[i].length_bytes;
		else if (count < max)
			extents[count++] = more[i]; /* at or before its place */
	}
	return count;
}

int
cleave_block_status(struct cleave_disk *disk, uint64_t bytes, uint64_t offset_bytes,
    struct cleave_extent *extents, uint32_t max, uint32_t *ret_count)
{
	uint64_t end = offset_bytes + bytes, piece_end, told;
	struct cleave_extent spare;
	uint32_t count = 0;
	int rc;

	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	/* In pieces that end within a request's time; one that was not told whole found no more room. */
	do {
		bool is_full = count > 0 && count == max;
		struct cleave_io request = { .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = offset_bytes,
			.length_bytes = num_min(end - offset_bytes, THREAD_STATUS_BYTES_MAX),
			.extents = is_full ? &spare : extents + count,
			.extent_max = is_full ? 1 : max - count };

		rc = run_one(disk, &request);
		if (rc != 0)
			return rc;
		piece_end = offset_bytes + request.length_bytes;
		told = 0;
		for (uint32_t i = 0; i < request.extent_count; i++)
			told += request.extents[i].length_bytes;
		if (is_full && spare.flags != extents[count - 1].flags)
			break;
		offset_bytes += told;
		count = extents_join(extents, count, max, request.extents, request.extent_count);
	} while (offset_bytes == piece_end && offset_bytes < end);
	*ret_count = count;
	return 0;
}
