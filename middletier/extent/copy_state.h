/* SPDX-License-Identifier: Apache-2.0 */
/* copy_state.h -- what a copy is made of: for copy.c, which moves it, and copy_list.c, which looks at it */
#ifndef CLEAVE_MIDDLETIER_EXTENT_COPY_STATE_H
#define CLEAVE_MIDDLETIER_EXTENT_COPY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "extent/call.h"
#include "extent/choose.h"
#include "extent/copy.h"
#include "extent/copy_window.h"

#define COPY_MAGIC 0x59504f43u /* "COPY" */
#define COPY_APPENDS_MAX 16u   /* of a copy, out at its target */

enum copy_state {
	COPY_CREATING,
	COPY_PACING,
	COPY_READING,
	COPY_APPENDING,
	COPY_TRUNCATING,
	COPY_DONE,
	COPY_FAILED,
	COPY_STATE_NR
};

struct copy_append {
	struct mt_call call;
	uint64_t end_bytes;
	uint32_t batch_crc;
	bool is_out;
};

struct mt_copy {
	uint32_t magic;
	struct loop_link link; /* shard->copies */
	struct mt_copy_options options;
	struct sm sm;
	uint64_t incarnation; /* 0: nothing known to be there */
	uint64_t done_bytes;  /* what the target holds, and its chain */
	uint32_t chain_crc;
	struct mt_chooser chooser; /* among options.sources, for the batch at done_bytes */
	uint32_t rotor;
	uint32_t source;           /* of the window: in options.sources */
	uint32_t retries;          /* in a row */
	uint64_t turn_ns;          /* when the next window may be asked for */
	bool has_turn;             /* turn_ns: the budget was charged with that window */
	struct copy_window window; /* from done_bytes on */
	struct mt_call reads[COPY_READS_MAX];
	struct copy_append appends[COPY_APPENDS_MAX];
	struct mt_call call; /* CREATE, TRUNCATE, DELETE */
	uint32_t outstanding_count;
	int rc; /* the first failure in this state */
	bool is_source_bad, is_stopped, is_told;
	struct loop_timer timer;
};

#endif /* CLEAVE_MIDDLETIER_EXTENT_COPY_STATE_H */
