/* SPDX-License-Identifier: Apache-2.0 */
/* drained_key.h -- the gateways that shall have no shards: the keys MT_DRAINED_KEY and MT_SEVERED_KEY, read and written */
#ifndef CLEAVE_MIDDLETIER_CATALOG_DRAINED_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_DRAINED_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/limits.h"

/*
 * A single key, so that of two drains at one moment the second sees the first: each could leave the other one's
 * gateway alone. It lies among the roots, which all gateways watch. Level CLEAVE_LEVEL_DRAINED.
 */
#define MT_DRAINED_KEY "shards/drained"
/*
 * A second key, of the same form and for the same reasons: gateways that have marked themselves, as they reach too few
 * storage nodes for any write (cluster/severed.c). Level CLEAVE_LEVEL_SEVERED.
 */
#define MT_SEVERED_KEY "shards/severed"

struct mt_drained {
	uint64_t ids[MT_GATEWAYS_MAX]; /* rising */
	uint32_t count;
	uint64_t version; /* of the key, 0: there is none; not encoded */
};

/* mt_drained_has -- is gateway @id among them? */
bool mt_drained_has(const struct mt_drained *drained, uint64_t id);
/* mt_drained_add -- 0, also where it was there; -ENOSPC: there are as many as can be. mt_drained_remove -- or it was not. */
int mt_drained_add(struct mt_drained *drained, uint64_t id);
void mt_drained_remove(struct mt_drained *drained, uint64_t id);
/* mt_drained_encode -- the key's value. The text is the caller's to free; NULL: no memory. */
char *mt_drained_encode(const struct mt_drained *drained);
/*
 * mt_drained_decode -- @value of @bytes into all of *@ret_drained but version
 *
 * Returns 0; -ENOMEM; -EINVAL: *@ret_field is a sentence that says what is wrong, valid until the thread's next
 * call, and *@ret_drained is as it was.
 */
int mt_drained_decode(const void *value, uint32_t bytes, struct mt_drained *ret_drained,
    const char **ret_field);

#endif /* CLEAVE_MIDDLETIER_CATALOG_DRAINED_KEY_H */
