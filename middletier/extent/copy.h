/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h -- one sealed extent to one more node, batch by batch
 *
 *	CREATING --> PACING <--> READING --> APPENDING --> ... --> TRUNCATING --> DONE
 *	     \_________\____________\____________\___________________\______> FAILED (it is deleted there)
 *
 * The target's node checks every batch as it checks appends, so a copy that was truncated at the sealed
 * length is whole. Until a manifest names it, it is nobody's: a crash leaves an orphan.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_COPY_H
#define CLEAVE_MIDDLETIER_EXTENT_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "common/replica.h"

struct mt_copy;
struct mt_link;
struct mt_shard;

/*
 * rc 0: @incarnation is the new copy's. Else: -ENOTCONN the target was lost; -ENOSPC it is full, or its
 * slots are too small; -EEXIST it holds some copy already (an orphan); -EREMOTEIO its disk fails; -EBUSY,
 * -ENOMEM, -ENOBUFS for too long; -ESTALE fenced; -EIO no source has it all. @copy is gone after it.
 */
typedef void (*mt_copy_fn)(struct mt_copy *copy, int rc, uint64_t incarnation, void *arg);

struct mt_copy_options {
	struct mt_shard *shard;
	struct extent_id id;
	enum extent_kind kind;
	uint64_t length_bytes;                      /* agreed; batches end there */
	struct mt_replica sources[MT_REPLICAS_MAX]; /* damaged ones are asked last */
	uint32_t source_count;
	uint32_t target_node_id;
	uint64_t bytes_per_s; /* budget; 0: none */
	/*
	 * Until when that budget is spent, by the port's loop: of all copies that share it, one behind the other, those that have
	 * ended included. Borrowed; NULL without a budget.
	 */
	uint64_t *spent_ns;
	mt_copy_fn fn;
	void *arg;
};

/*
 * mt_copy_start -- NULL with errno ENOMEM, ENOTCONN: no @fn. A source that fails is replaced by another.
 */
struct mt_copy *mt_copy_start(const struct mt_copy_options *options);
/* mt_copy_stop -- @fn is not called any more; calls that are out end by themselves, then it is freed. */
void mt_copy_stop(struct mt_copy *copy);
/* mt_copy_on_link -- a link of the port went down or came up. */
void mt_copy_on_link(struct mt_copy *copy, struct mt_link *link, bool is_up);
/* mt_copy_fini -- forget what is left, for the end of a shard whose links will not answer any more. */
void mt_copy_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_EXTENT_COPY_H */
