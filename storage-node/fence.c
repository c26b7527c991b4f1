/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.c -- shard -> epoch: requests of older epochs are refused, also after a restart
 *
 *	CLEAN --raise--> WRITING --written--> SYNCING --durable--> CLEAN, or WRITING where more waits
 *	                    \___________________/ \--- failed ---> the same
 *
 * A raised fence holds in memory at once, and is answered when it is durable. A page holds the fences
 * of 512 shards and has two copies, written in turn: the one that is being written is never the one
 * that counts. A fence that is raised while its page is being written goes with the next write.
 *
 * Page 0 holds the identity of the node's metadata store, too; store.c decides upon it.
 *
 * Failure: a page that cannot be written leaves its durable copy alone; those who waited get the
 * error, and the fence goes on to hold in memory.
 */
#include "fence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "disk/disk_host.h"
#include "node_state.h"

const struct sm_state fence_table[FENCE_STATE_NR] = {
	[FENCE_CLEAN] = { "clean", SM_TO(FENCE_WRITING), SM_INITIAL },
	[FENCE_WRITING] = { "writing", SM_TO(FENCE_SYNCING) | SM_TO(FENCE_CLEAN), 0 },
	[FENCE_SYNCING] = { "syncing", SM_TO(FENCE_CLEAN), 0 },
};

static void fence_page_write(struct sn_fence_page *page);

static struct sn_fence_page *
fence_page_of(struct node *node, uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	return &node->fences[shard / ONDISK_FENCE_SHARDS];
}

uint32_t
sn_fence_epoch(const struct node *node, uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	if (MUTANT(epoch_ignored))
		return 0;
	return node->fences[shard / ONDISK_FENCE_SHARDS].now.epochs[shard % ONDISK_FENCE_SHARDS];
}

bool
sn_fence_is_near(const struct node *node, uint32_t shard, uint32_t epoch)
{
	uint32_t fence = sn_fence_epoch(node, shard);

	assert(fence <= EXTENT_EPOCH_MAX);
	/* A disk that is new to an old cluster has no fence to compare with. */
	return epoch <= (fence == 0 ? EXTENT_EPOCH_MAX / 2 : fence + SN_FENCE_JUMP_MAX);
}

static void
fence_page_finish(struct sn_fence_page *page, int rc)
{
	struct loop_link done, *link;

	assert(page->sm.state != FENCE_CLEAN);
	assert(rc <= 0);
	list_init(&done);
	while ((link = list_pop_front(&page->covered)) != NULL)
		list_push_back(&done, link);
	sm_move(&page->sm, FENCE_CLEAN);
	if (rc == 0) {
		page->now.generation++;
		memcpy(page->durable_epochs, page->writing_epochs, sizeof(page->durable_epochs));
		page->store_copies = store_id_is_equal(&page->durable_store, &page->writing_store)
		    ? (uint32_t)num_min(page->store_copies + 1, 2)
		    : 1;
		page->durable_store = page->writing_store;
		SN_COUNT(page->node, fences, 1);
	} else {
		log_limited(LOG_WARN,
		    "fence: a page cannot be written, its epochs hold in memory alone page=%u rc=%s: look for "
		    "the disk's errors in the kernel's log",
		    page->now.page_index, log_errno(rc));
	}
	if (!list_is_empty(&page->waiting))
		fence_page_write(page);
	while ((link = list_pop_front(&done)) != NULL) {
		struct sn_fence_waiter *waiter = LIST_ENTRY(link, struct sn_fence_waiter, link);

		waiter->fn(waiter, rc);
	}
}

static void
fence_on_synced(struct sn_sync_waiter *waiter, int rc)
{
	struct sn_fence_page *page = NUM_CONTAINER_OF(waiter, struct sn_fence_page, sync_waiter);

	assert(page->sm.state == FENCE_SYNCING);
	fence_page_finish(page, rc);
}

/* The disk did not take the request: its error comes as a flush's would, never from inside. */
static void
fence_on_not_written(struct sn_sync_waiter *waiter, int rc)
{
	struct sn_fence_page *page = NUM_CONTAINER_OF(waiter, struct sn_fence_page, sync_waiter);

	(void)rc;
	assert(page->sm.state == FENCE_WRITING);
	fence_page_finish(page, -EIO);
}

static void
fence_on_written(struct disk_io *io, int rc, void *arg)
{
	struct sn_fence_page *page = arg;

	(void)io;
	assert(page->sm.state == FENCE_WRITING);
	if (rc != 0) {
		SN_COUNT(page->node, disk_errors, 1);
		fence_page_finish(page, rc);
		return;
	}
	sm_move(&page->sm, FENCE_SYNCING);
	sn_sync_wait(page->node, &page->sync_waiter, fence_on_synced, true);
}

static void
fence_page_write(struct sn_fence_page *page)
{
	struct node *node = page->node;
	struct ondisk_fence next = page->now;
	struct loop_link *link;
	int rc;

	assert(page->sm.state == FENCE_CLEAN);
	assert(list_is_empty(&page->covered));
	while ((link = list_pop_front(&page->waiting)) != NULL)
		list_push_back(&page->covered, link);
	assert(!list_is_empty(&page->covered)); /* somebody waits for it */
	memcpy(page->writing_epochs, page->now.epochs, sizeof(page->writing_epochs));
	page->writing_store = page->now.store;
	next.generation++;
	ondisk_fence_encode(page->page, &node->super, &next);
	page->piece = disk_host_piece(page->page, ONDISK_PAGE_BYTES);
	page->io = (struct disk_io){
		.op = DISK_WRITE,
		.offset_bytes =
		    ondisk_fence_offset(next.page_index, (uint32_t)(next.generation & 1)),
		.pieces = &page->piece,
		.piece_count = 1,
		.fn = fence_on_written,
		.arg = page,
	};
	sm_move(&page->sm, FENCE_WRITING);
	rc = next.generation > ONDISK_COUNT_MAX ? -EIO : disk_submit(node->disk, &page->io);
	if (rc != 0)
		sn_sync_wait(node, &page->sync_waiter, fence_on_not_written, false);
}

int
sn_fence_raise(struct node *node, uint32_t shard, uint32_t epoch, struct sn_fence_waiter *waiter,
    void (*fn)(struct sn_fence_waiter *waiter, int rc))
{
	struct sn_fence_page *page = fence_page_of(node, shard);
	uint32_t i = shard % ONDISK_FENCE_SHARDS;

	assert(epoch <= EXTENT_EPOCH_MAX);
	assert(fn != NULL);
	if (MUTANT(epoch_ignored))
		epoch = (uint32_t)num_max(epoch, page->now.epochs[i]);
	assert(epoch >= page->now.epochs[i]);
	page->now.epochs[i] = epoch;
	if (page->durable_epochs[i] >= epoch)
		return 1;
	waiter->fn = fn;
	waiter->link = (struct loop_link){ NULL, NULL };
	/* The write in flight carries the epoch already, if another request raised it before. */
	if (page->sm.state != FENCE_CLEAN && page->writing_epochs[i] >= epoch) {
		list_push_back(&page->covered, &waiter->link);
		return 0;
	}
	list_push_back(&page->waiting, &waiter->link);
	if (page->sm.state == FENCE_CLEAN)
		fence_page_write(page);
	return 0;
}

struct store_id
sn_fence_store_id(const struct node *node)
{
	return node->fences[0].now.store;
}

void
sn_fence_set_store_id(struct node *node, const struct store_id *store)
{
	assert(!store_id_is_zero(store)); /* a node that obeyed one never again obeys all */
	node->fences[0].now.store = *store;
}

bool
sn_fence_store_is_durable(const struct node *node)
{
	const struct sn_fence_page *page = &node->fences[0];

	assert(page->store_copies <= 2);
	return page->store_copies == 2 && store_id_is_equal(&page->durable_store, &page->now.store);
}

void
sn_fence_store(struct node *node, struct sn_fence_waiter *waiter,
    void (*fn)(struct sn_fence_waiter *waiter, int rc))
{
	struct sn_fence_page *page = &node->fences[0];

	assert(page->node == node);
	assert(fn != NULL);
	waiter->fn = fn;
	waiter->link = (struct loop_link){ NULL, NULL };
	list_push_back(&page->waiting, &waiter->link);
	if (page->sm.state == FENCE_CLEAN)
		fence_page_write(page);
}

void
sn_fence_load(struct node *node, const struct ondisk_fence *fence)
{
	struct sn_fence_page *page = &node->fences[fence->page_index];
	bool is_same;

	assert(fence->page_index < ONDISK_FENCE_PAGES);
	assert(page->sm.state == FENCE_CLEAN);
	is_same = page->store_copies > 0 && store_id_is_equal(&page->durable_store, &fence->store);
	if (page->store_copies == 0 || fence->generation >= page->now.generation) {
		page->now = *fence;
		if (MUTANT(fence_forgotten))
			memset(page->now.epochs, 0, sizeof(page->now.epochs));
		memcpy(page->durable_epochs, page->now.epochs, sizeof(page->durable_epochs));
		page->durable_store = fence->store;
		page->store_copies = 1;
	}
	page->store_copies += is_same;
}

void
sn_fence_note(struct node *node, uint32_t shard, uint32_t epoch)
{
	struct sn_fence_page *page = fence_page_of(node, shard);
	uint32_t i = shard % ONDISK_FENCE_SHARDS;

	assert(epoch <= EXTENT_EPOCH_MAX);
	if (MUTANT(fence_forgotten))
		return;
	/* Not durable as a fence, yet just as good: the same page of the disk will say so again. */
	page->now.epochs[i] = (uint32_t)num_max(page->now.epochs[i], epoch);
}

int
sn_fence_init(struct node *node)
{
	assert(node->fence_pages == NULL);
	node->fence_pages = sn_page_alloc((uint64_t)ONDISK_FENCE_PAGES * ONDISK_PAGE_BYTES);
	if (node->fence_pages == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < ONDISK_FENCE_PAGES; i++) {
		struct sn_fence_page *page = &node->fences[i];

		sm_init(&page->sm, "fence", fence_table, FENCE_CLEAN, i);
		page->node = node;
		page->now.page_index = i;
		page->page = (uint8_t *)node->fence_pages + i * ONDISK_PAGE_BYTES;
		list_init(&page->waiting);
		list_init(&page->covered);
	}
	return 0;
}

void
sn_fence_fini(struct node *node)
{
	free(node->fence_pages);
	node->fence_pages = NULL;
}
