/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked_file.c -- see revoked_file.h
 *
 *	keep --> an errand writes beside, flushes, renames --> done: newer lists meanwhile? again
 *	              '-- failed: an ERROR, and again after REVOKED_AGAIN_NS
 */
#include "revoked_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/durable.h"
#include "base/log.h"
#include "base/num.h"
#include "options.h"

#define REVOKED_AGAIN_NS NUM_S(10)

struct revoked_write {
	struct errand errand;
	struct revoked_file *file; /* untouched but in done */
	struct split_key *key;     /* a share */
	char path[PATH_MAX];
	int rc;
};

bool
revoked_file_path(const struct storage_options *options, char ret_path[PATH_MAX])
{
	const char *folder = secure_getenv("STATE_DIRECTORY");
	int bytes;

	if (options->revoked != NULL)
		bytes = snprintf(ret_path, PATH_MAX, "%s", options->revoked);
	else if (folder != NULL && folder[0] == '/')
		bytes = snprintf(ret_path, PATH_MAX, "%s/revoked-%llu.pem", folder,
		    (unsigned long long)options->node_id);
	else
		return false;
	return bytes > 0 && bytes < PATH_MAX;
}

/* ---- an errand ---- */

static void
write_work(struct errand *errand)
{
	struct revoked_write *job = NUM_CONTAINER_OF(errand, struct revoked_write, errand);
	size_t bytes;
	const char *text = split_key_revoked(job->key, &bytes);

	job->rc = durable_write(job->path, text, bytes, 0600, true);
}

static void
write_drop(struct errand *errand)
{
	struct revoked_write *job = NUM_CONTAINER_OF(errand, struct revoked_write, errand);

	split_key_free(job->key);
	free(job);
}

static void file_write(struct revoked_file *file);

static void
write_done(struct errand *errand)
{
	struct revoked_write *job = NUM_CONTAINER_OF(errand, struct revoked_write, errand);
	struct revoked_file *file = job->file;
	bool is_newest = job->key == file->key;
	int rc = job->rc;

	assert(file->is_writing);
	file->is_writing = false;
	if (rc == 0)
		log_info("storage: lists of revoked keys are kept file=%s", file->path);
	else
		log_error(
		    "storage: lists of revoked keys cannot be kept, and are forgotten with this process "
		    "file=%s rc=%s: tried again",
		    file->path, log_errno(rc));
	write_drop(errand);
	if (!is_newest) {
		file_write(file);
	} else if (rc != 0) {
		loop_timer_start(file->desk.loop, &file->timer, REVOKED_AGAIN_NS);
	} else {
		split_key_free(file->key);
		file->key = NULL;
	}
}

static void
file_write(struct revoked_file *file)
{
	struct revoked_write *job = sn_calloc(1, sizeof(*job));

	assert(!file->is_writing && file->key != NULL);
	if (job != NULL) {
		job->errand.work = write_work;
		job->errand.done = write_done;
		job->errand.drop = write_drop;
		job->file = file;
		job->key = split_key_share(file->key);
		memcpy(job->path, file->path, sizeof(job->path));
		file->is_writing = errand_start(&file->desk, &job->errand) == 0;
		if (file->is_writing)
			return;
		write_drop(&job->errand);
	}
	loop_timer_start(file->desk.loop, &file->timer, REVOKED_AGAIN_NS);
}

static void
file_on_timer(struct loop_timer *timer, void *arg)
{
	struct revoked_file *file = arg;

	(void)timer;
	if (file->key != NULL && !file->is_writing)
		file_write(file);
}

/* ---- its owner's ---- */

int
revoked_file_begin(struct revoked_file *file, const struct storage_options *options,
    struct loop *loop)
{
	int rc;

	assert(!file->is_open);
	if (!revoked_file_path(options, file->path)) {
		file->path[0] = '\0';
		log_warn(
		    "storage: lists of revoked keys are forgotten when it ends: give it --revoked FILE");
		return 0;
	}
	rc = errand_desk_init(&file->desk, loop);
	if (rc != 0)
		return rc;
	loop_timer_init(&file->timer, file_on_timer, file);
	file->is_open = true;
	return 0;
}

void
revoked_file_keep(struct revoked_file *file, const struct split_key *key)
{
	if (!file->is_open)
		return;
	split_key_free(file->key);
	file->key = split_key_share(key);
	loop_timer_stop(file->desk.loop, &file->timer);
	if (!file->is_writing)
		file_write(file);
}

void
revoked_file_end(struct revoked_file *file)
{
	split_key_free(file->key);
	file->key = NULL;
	if (!file->is_open)
		return;
	loop_timer_stop(file->desk.loop, &file->timer);
	errand_desk_fini(&file->desk);
	file->is_open = false;
}
