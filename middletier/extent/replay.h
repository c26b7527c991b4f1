/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h -- reads extents from their beginning to their agreed lengths, and looks at each
 * batch's head
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_REPLAY_H
#define CLEAVE_MIDDLETIER_EXTENT_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/replica.h"
#include "extent/call.h"
#include "extent/choose.h"
#include "extent/replay_guess.h"

struct mt_replay;
struct mt_shard;
struct split_msg;

#define MT_REPLAY_READS_MAX 16u /* in flight, or waiting for those before them */

/* An extent to be read from its beginning to an agreed length. */
struct mt_replay_source {
	struct extent_id id;
	enum extent_kind kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t length_bytes;
	uint32_t extent_index; /* the caller's */
};
/*
 * @head: a batch's checked head. 0; -ENOMEM, having changed nothing: called again with it later;
 * -EBADMSG, -EPROTONOSUPPORT: no copy would make sense, the replay ends with it.
 */
typedef int (*mt_replay_batch_fn)(struct mt_replay *replay, const struct mt_replay_source *source,
    const struct batch_info *info, const uint8_t *head, void *arg);
typedef void (*mt_replay_fn)(struct mt_replay *replay, int rc, void *arg);

struct mt_replay_read {
	struct mt_replay *replay;
	struct mt_call call;
	struct split_msg *msg;
	uint32_t source_index;
	uint32_t replica_index;
	uint64_t offset_bytes;
	uint32_t bytes;
	int rc;
	bool is_out;
};

enum mt_replay_state {
	MT_REPLAY_RUNNING,
	MT_REPLAY_DRAINING, /* a read or a batch was bad: what is out comes back first */
	MT_REPLAY_WAITING,  /* no copy can be read now */
	MT_REPLAY_DONE,
	MT_REPLAY_STATE_NR
};

/* The first group is the caller's; sources are read in their order, and borrowed until @fn. */
struct mt_replay {
	uint32_t magic;
	struct mt_shard *shard;
	const struct mt_replay_source *sources;
	uint32_t source_count;
	mt_replay_batch_fn on_batch;
	mt_replay_fn fn;
	void *arg;

	uint64_t total_bytes, done_bytes; /* for progress */

	struct sm sm;
	struct mt_replay_read reads[MT_REPLAY_READS_MAX]; /* a ring */
	uint32_t read_first, read_count;
	uint32_t ask_source; /* what is asked for next */
	uint64_t ask_offset_bytes;
	uint32_t source_index; /* what is expected next: the batch at at_bytes */
	uint64_t at_bytes;
	uint32_t prev_crc;
	uint8_t *head; /* of that batch, as far as it is here; BATCH_HEAD_BYTES_MAX */
	uint32_t head_bytes;
	uint32_t head_replica; /* the copy that its first byte is of */
	bool was_mirrored;     /* the last head was in memory, and so may those be behind a gap */
	struct replay_guess guess;
	struct mt_chooser chooser; /* among the copies of source_index */
	uint32_t rotor;
	int batch_rc;   /* what on_batch said of a batch that no copy can make better */
	bool must_wait; /* before the next try, whichever copy it is */
	struct loop_timer timer;
	uint64_t log_ns;
	bool is_stopped;
};

/*
 * mt_replay_start -- read all sources, batch by batch, each from any replica whose batch passes
 *
 * @fn: 0; -ESTALE a node knows a newer owner; -EAGAIN a head that was in memory was none of the extent's, which showed too
 * late: it is there no more, and another replay finds what nodes have; what on_batch returned, of a log's batch before
 * it has changed anything. Waits for nodes as long as it takes. Returns 0; -ENOMEM: no @fn.
 */
int mt_replay_start(struct mt_replay *replay);
/* mt_replay_on_link -- a link of the port came up or went down: one that waits for a node tries again. */
void mt_replay_on_link(struct mt_replay *replay, struct mt_link *link, bool is_up);
/* mt_replay_stop -- @fn and on_batch are not called any more; reads that are out end by themselves. */
void mt_replay_stop(struct mt_replay *replay);
/* mt_replay_is_quiet -- no read of it is out: it may be started again, or freed. */
bool mt_replay_is_quiet(const struct mt_replay *replay);
/* mt_replay_fini -- free what it holds; one that was never started is a no-op. */
void mt_replay_fini(struct mt_replay *replay);

#endif /* CLEAVE_MIDDLETIER_EXTENT_REPLAY_H */
