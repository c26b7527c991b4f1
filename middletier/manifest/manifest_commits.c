/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_commits.c -- see manifest_commits.h */
#include "manifest/manifest_commits.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "common/alloc.h"
#include "manifest/edit.h"

#define COMMIT_RUN_EDIT_BYTES 60u

_Static_assert(MT_COMMIT_EDITS_MAX *COMMIT_RUN_EDIT_BYTES <= MANIFEST_EDITS_BYTES_MAX,
    "a merge's commit fits a batch");
_Static_assert(16u * MT_EDIT_BYTES_MAX <= MANIFEST_EDITS_BYTES_MAX, "any other commit, too");

struct manifest_commit {
	struct loop_link link; /* waiting, then flying */
	mt_manifest_fn fn;
	void *arg;
	uint32_t edit_count;
	uint32_t bytes;
	uint8_t edits[];
};

static struct manifest_commit *
commit_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct manifest_commit, link);
}

void
mt_manifest_commits_init(struct mt_manifest_commits *commits)
{
	commits->count = 0;
	list_init(&commits->waiting);
	list_init(&commits->flying);
}

void
mt_manifest_commits_fini(struct mt_manifest_commits *commits)
{
	struct loop_link *link;

	assert(commits->count > 0 || list_is_empty(&commits->flying));
	while ((link = list_pop_front(&commits->flying)) != NULL)
		mt_free(commit_of(link));
	while ((link = list_pop_front(&commits->waiting)) != NULL)
		mt_free(commit_of(link));
	commits->count = 0;
}

int
mt_manifest_commits_add(struct mt_manifest_commits *commits, const struct mt_edit *edits,
    uint32_t count, mt_manifest_fn fn, void *arg)
{
	struct manifest_commit *commit =
	    mt_calloc(1, sizeof(*commit) + (size_t)count * MT_EDIT_BYTES_MAX);

	assert(fn != NULL);
	assert(count <= MT_COMMIT_EDITS_MAX);
	if (commit == NULL)
		return -ENOMEM;
	commit->fn = fn;
	commit->arg = arg;
	commit->edit_count = count;
	for (uint32_t i = 0; i < count; i++)
		commit->bytes += mt_edit_encode(commit->edits + commit->bytes, &edits[i]);
	assert(commit->bytes <= MANIFEST_EDITS_BYTES_MAX);
	list_push_back(&commits->waiting, &commit->link);
	commits->count++;
	return 0;
}

uint32_t
mt_manifest_commits_take(struct mt_manifest_commits *commits, uint8_t *out, uint32_t room_bytes,
    uint32_t *ret_bytes)
{
	uint32_t edit_count = 0, edit_bytes = 0;
	struct loop_link *link, *next;

	assert(list_is_empty(&commits->flying));
	assert(room_bytes <= MANIFEST_EDITS_BYTES_MAX);
	LIST_FOREACH_SAFE(&commits->waiting, link, next) {
		struct manifest_commit *commit = commit_of(link);

		if (edit_bytes + commit->bytes > room_bytes)
			break;
		memcpy(out + edit_bytes, commit->edits, commit->bytes);
		edit_bytes += commit->bytes;
		edit_count += commit->edit_count;
		list_remove(link);
		list_push_back(&commits->flying, link);
	}
	*ret_bytes = edit_bytes;
	return edit_count;
}

void
mt_manifest_commits_take_all(struct mt_manifest_commits *commits)
{
	struct loop_link *link;

	assert(commits->count > 0 || list_is_empty(&commits->waiting));
	while ((link = list_pop_front(&commits->waiting)) != NULL)
		list_push_back(&commits->flying, link);
}

static void
commits_finish(struct mt_manifest_commits *commits, struct loop_link *list, int rc)
{
	struct loop_link *link;

	while ((link = list_pop_front(list)) != NULL) {
		struct manifest_commit *commit = commit_of(link);

		assert(commits->count > 0);
		commits->count--;
		commit->fn(rc, commit->arg);
		mt_free(commit);
	}
}

void
mt_manifest_commits_end(struct mt_manifest_commits *commits, int rc)
{
	assert(rc <= 0);
	commits_finish(commits, &commits->flying, rc);
}

void
mt_manifest_commits_refuse(struct mt_manifest_commits *commits, int rc)
{
	assert(rc < 0);
	commits_finish(commits, &commits->waiting, rc);
}
