/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim_page.c -- claims are on the disk, too: a start knows whose the epochs are
 *
 *	a claim --> its page is written; one that comes while it is goes with the next write of the page
 *
 * A page has one copy, nobody waits for its write, and a page that cannot be read is a warning: what is lost with it is
 * what no node kept before, and a start without it lets the first gateway that comes under a shard's fence have it. A
 * claim names its epoch, so a page that is older than the fences, as one is after a power cut or after an older release
 * has run here, says nothing of epochs that came later (claim.c compares).
 */
#include "claim_page.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "disk/disk_host.h"
#include "node_state.h"

static void claim_page_write(struct sn_claim_page *page);

static uint32_t
page_shard_count(uint32_t page_index)
{
	uint32_t first = page_index * ONDISK_CLAIM_SHARDS;

	assert(first < CLEAVE_SHARDS_MAX);
	return (uint32_t)num_min(ONDISK_CLAIM_SHARDS, CLEAVE_SHARDS_MAX - first);
}

static void
claim_page_on_written(struct disk_io *io, int rc, void *arg)
{
	struct sn_claim_page *page = arg;
	struct node *node = page->node;

	(void)io;
	assert(page->is_writing);
	assert(node->claim_writes_count > 0);
	page->is_writing = false;
	node->claim_writes_count--;
	if (rc != 0) {
		SN_COUNT(node, disk_errors, 1);
		log_limited(LOG_WARN,
		    "claim: a page cannot be written, its claims are in memory alone page=%u rc=%s: look "
		    "for the disk's errors in the kernel's log",
		    page->index, log_errno(rc));
	}
	if (page->is_dirty && rc == 0)
		claim_page_write(page);
	sn_node_idle_check(node);
}

static void
claim_page_write(struct sn_claim_page *page)
{
	struct node *node = page->node;
	struct ondisk_claims claims = { .page_index = page->index };

	assert(!page->is_writing);
	assert(page->is_dirty);
	for (uint32_t i = 0; i < page_shard_count(page->index); i++) {
		const struct sn_claim *now =
		    &node->claims[page->index * ONDISK_CLAIM_SHARDS + i].now;

		if (now->gateway != 0)
			claims.shards[i] = (struct ondisk_claim){ now->epoch, now->gateway };
	}
	ondisk_claims_encode(page->bytes, &node->super, &claims);
	page->piece = disk_host_piece(page->bytes, ONDISK_PAGE_BYTES);
	page->io = (struct disk_io){
		.op = DISK_WRITE,
		.offset_bytes = ondisk_claims_offset(page->index),
		.pieces = &page->piece,
		.piece_count = 1,
		.fn = claim_page_on_written,
		.arg = page,
	};
	if (disk_submit(node->disk, &page->io) != 0)
		return; /* with the next claim */
	page->is_dirty = false;
	page->is_writing = true;
	node->claim_writes_count++;
}

void
sn_claim_page_keep(struct node *node, uint32_t shard)
{
	struct sn_claim_page *page;

	assert(shard < CLEAVE_SHARDS_MAX);
	assert(node->claims[shard].now.gateway != 0);
	if (node->claim_pages == NULL || node->is_read_only || MUTANT(claim_forgotten))
		return;
	page = &node->claim_pages[shard / ONDISK_CLAIM_SHARDS];
	page->is_dirty = true;
	if (!page->is_writing)
		claim_page_write(page);
}

void
sn_claim_page_load(struct node *node, const struct ondisk_claims *page)
{
	assert(node->sm.state == NODE_RECOVERING);
	for (uint32_t i = 0; i < page_shard_count(page->page_index); i++)
		node->claims[page->page_index * ONDISK_CLAIM_SHARDS + i].now =
		    (struct sn_claim){ page->shards[i].epoch, page->shards[i].gateway };
}

int
sn_claim_page_init(struct node *node)
{
	uint8_t *bytes;

	assert(node->claim_pages == NULL);
	if (node->key == NULL)
		return 0;
	node->claim_pages = sn_calloc(ONDISK_CLAIM_PAGES, sizeof(*node->claim_pages));
	bytes = sn_page_alloc((uint64_t)ONDISK_CLAIM_PAGES * ONDISK_PAGE_BYTES);
	if (node->claim_pages == NULL || bytes == NULL) {
		free(bytes);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < ONDISK_CLAIM_PAGES; i++) {
		struct sn_claim_page *page = &node->claim_pages[i];

		page->node = node;
		page->index = i;
		page->bytes = bytes + i * ONDISK_PAGE_BYTES;
	}
	return 0;
}

void
sn_claim_page_fini(struct node *node)
{
	if (node->claim_pages == NULL)
		return;
	free(node->claim_pages[0].bytes);
	free(node->claim_pages);
	node->claim_pages = NULL;
}
