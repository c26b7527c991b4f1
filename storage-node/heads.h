/* SPDX-License-Identifier: Apache-2.0 */
/* heads.h -- heads of batches that gateways have asked for, kept in host memory */
#ifndef CLEAVE_STORAGE_HEADS_H
#define CLEAVE_STORAGE_HEADS_H

#include <stdint.h>

#include "cleave/batch.h"

struct node;
struct sn_extent;

/* A head that has passed batch_head_check: info.desc_bytes of descriptors stand behind the header. */
struct sn_head {
	struct batch_info info;
	uint8_t bytes[]; /* BATCH_HEADER_BYTES + info.desc_bytes */
};

/* sn_heads_init -- once, of options.head_cache_bytes. Returns 0; -ENOMEM: then sn_heads_fini, too. */
int sn_heads_init(struct node *node);
/* sn_heads_fini -- free them. No-op before sn_heads_init. */
void sn_heads_fini(struct node *node);
/*
 * sn_heads_get -- the head of the batch at @offset_bytes of @extent; NULL: it is not kept
 *
 * It is what was durable there once, and what is there as long as the extent is that long. Valid until sn_heads_put.
 */
const struct sn_head *sn_heads_get(const struct node *node, const struct sn_extent *extent,
    uint64_t offset_bytes);
/* sn_heads_put -- keep @head, which passed as @info says; the oldest go. Returns the copy. */
const struct sn_head *sn_heads_put(struct node *node, const struct sn_extent *extent,
    const struct batch_info *info, const void *head);
/* sn_heads_scratch -- BATCH_HEAD_BYTES_MAX of host memory, for a head that is to be checked. */
void *sn_heads_scratch(const struct node *node);

#endif /* CLEAVE_STORAGE_HEADS_H */
