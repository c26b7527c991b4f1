/* SPDX-License-Identifier: Apache-2.0 */
/* claim_page.h -- claims are on the disk, too: a start knows whose the epochs are; claim_page.c has the rules */
#ifndef CLEAVE_STORAGE_CLAIM_PAGE_H
#define CLEAVE_STORAGE_CLAIM_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"
#include "format/ondisk.h"

struct node;

struct sn_claim_page {
	struct node *node;
	uint32_t index;
	bool is_writing;
	bool is_dirty; /* a claim is not in what is on the disk, nor in what is being written */
	struct disk_io io;
	struct dev_piece piece;
	void *bytes; /* ONDISK_PAGE_BYTES, being written */
};

/* sn_claim_page_init -- once, when the superblock is known. A node without a key keeps none. Returns 0 or -ENOMEM. */
int sn_claim_page_init(struct node *node);
/* sn_claim_page_fini -- free it; the disk is closed. No-op before sn_claim_page_init. */
void sn_claim_page_fini(struct node *node);
/* sn_claim_page_load -- @page was on the disk. At start, before anybody comes. */
void sn_claim_page_load(struct node *node, const struct ondisk_claims *page);
/*
 * sn_claim_page_keep -- node->claims[@shard].now has changed: to the disk with it
 *
 * Nobody waits: it is durable with a flush after it, of which a take-over makes some. The node does not stop before the
 * write has ended.
 */
void sn_claim_page_keep(struct node *node, uint32_t shard);

#endif /* CLEAVE_STORAGE_CLAIM_PAGE_H */
