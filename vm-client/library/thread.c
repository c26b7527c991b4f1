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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "thread.h"

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

/* The calls of layer 1 are made on the thread alone; those that wait for it, anywhere else. */
static bool
is_on_thread(const struct cleave *cleave)
{
	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	return pthread_equal(pthread_self(), cleave->thread) != 0;
}

void
cleave_wait_begin(struct wait *wait, struct cleave *cleave)
{
	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	*wait = (struct wait){ .cleave = cleave };
	(void)sem_init(&wait->done, 0, 0); /* cannot fail with these arguments */
}

void
cleave_wait_drop(struct wait *wait)
{
	CHECK_OBJ(wait->cleave, CLEAVE_THREAD_MAGIC);
	(void)sem_destroy(&wait->done);
}

void
cleave_wait_finish(struct wait *wait, int rc)
{
	assert(rc <= 0);
	wait->rc = rc;
	(void)sem_post(&wait->done); /* cannot overflow */
}

int
cleave_wait_for(struct wait *wait, void (*fn)(struct loop_post *post, void *arg), char *ret_error)
{
	assert(fn != NULL || ret_error == NULL);
	assert(!is_on_thread(wait->cleave)); /* it would wait for itself */
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
	assert(rc <= 0);
	if (rc != 0 && wait->error[0] == '\0')
		(void)snprintf(wait->error, sizeof(wait->error), "%s", strerror(-rc));
}

/* The thread. */

static void *
thread_main(void *arg)
{
	struct cleave *cleave = arg;

	assert(cleave->loop != NULL && cleave->client != NULL);
	(void)loop_run(cleave->loop, NULL, NULL); /* 0: loop_stop was called */
	return NULL;
}

static void
thread_on_stop(struct loop_post *post, void *arg)
{
	struct cleave *cleave = arg;

	(void)post;
	assert(post == &cleave->stop_post);
	loop_stop(cleave->loop);
}

static void
cleave_free(struct cleave *cleave)
{
	struct loop_link *link;

	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
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
	assert(call == &wait->call && (rc != 0 || reply != NULL));
	if (reply != NULL)
		wait->reply = client_strdup(reply);
	if (error != NULL)
		(void)snprintf(wait->error, sizeof(wait->error), "%s", error);
	if (rc == 0 && wait->reply == NULL)
		rc = -ENOMEM;
	error_default(wait, rc);
	cleave_wait_finish(wait, rc);
}

static void
thread_on_control(struct loop_post *post, void *arg)
{
	struct wait *wait = arg;
	int rc;

	(void)post;
	assert(post == &wait->post);
	assert(is_on_thread(wait->cleave) && wait->text != NULL);
	wait->call.fn = wait_on_call;
	wait->call.arg = wait;
	rc = cleave_control(wait->cleave->client, &wait->call, wait->text);
	if (rc == 0)
		return;
	error_default(wait, rc);
	cleave_wait_finish(wait, rc);
}

int
cleave_control_wait(struct cleave *cleave, const char *request, bool must_not_repeat,
    char **ret_reply, char *ret_error)
{
	struct wait wait;
	int rc;

	CHECK_OBJ(cleave, CLEAVE_THREAD_MAGIC);
	cleave_wait_begin(&wait, cleave);
	wait.text = request;
	wait.call.must_not_repeat = must_not_repeat;
	rc = cleave_wait_for(&wait, thread_on_control, ret_error);
	*ret_reply = wait.reply;
	return rc;
}

/* Disks. */

static void
wait_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct wait *wait = arg;

	assert((rc == 0) == (volume != NULL));
	wait->disk->volume = volume;
	if (rc == 0)
		wait->disk->info = *cleave_volume_info(volume);
	if (error != NULL)
		(void)snprintf(wait->error, sizeof(wait->error), "%s", error);
	error_default(wait, rc);
	cleave_wait_finish(wait, rc);
}

static void
thread_on_open(struct loop_post *post, void *arg)
{
	struct wait *wait = arg;
	const struct cleave_open_options options = { .name = wait->text,
		.flags = wait->flags,
		.id = wait->id };
	int rc;

	(void)post;
	assert(post == &wait->post && wait->disk != NULL);
	assert(is_on_thread(wait->cleave));
	rc = cleave_volume_open_as(wait->cleave->client, &options, wait_on_open, wait);
	if (rc == 0)
		return;
	(void)snprintf(wait->error, sizeof(wait->error), "volume '%.64s': %s",
	    wait->text == NULL ? "" : wait->text,
	    rc == -EINVAL ? "not a valid name, flag or id" : strerror(-rc));
	cleave_wait_finish(wait, rc);
}

int
cleave_disk_open_as(struct cleave *cleave, const struct cleave_open_options *options,
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
	cleave_wait_begin(&wait, cleave);
	wait.disk = disk;
	wait.text = options->name;
	wait.flags = options->flags;
	wait.id = options->id;
	rc = cleave_wait_for(&wait, thread_on_open, ret_error);
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

int
cleave_disk_open(struct cleave *cleave, const char *name, unsigned flags,
    struct cleave_disk **ret_disk, char *ret_error)
{
	return cleave_disk_open_as(cleave,
	    &(struct cleave_open_options){ .name = name, .flags = flags }, ret_disk, ret_error);
}

static void
wait_on_close(void *arg)
{
	cleave_wait_finish(arg, 0);
}

static void
thread_on_close(struct loop_post *post, void *arg)
{
	struct wait *wait = arg;

	(void)post;
	assert(post == &wait->post);
	assert(is_on_thread(wait->cleave) && wait->disk->volume != NULL);
	cleave_volume_close(wait->disk->volume, wait_on_close, wait);
}

void
cleave_disk_close(struct cleave_disk *disk)
{
	struct wait wait;

	if (disk == NULL)
		return;
	CHECK_OBJ(disk, CLEAVE_DISK_MAGIC);
	cleave_wait_begin(&wait, disk->cleave);
	wait.disk = disk;
	(void)cleave_wait_for(&wait, thread_on_close, NULL); /* always 0 */
	(void)pthread_mutex_lock(&disk->cleave->lock);       /* ours: cannot fail */
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
	assert(io->fn == io_to_reap && rc <= 0);
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
	assert(post == &io->post && io->fn != NULL);
	assert(is_on_thread(disk->cleave));
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
