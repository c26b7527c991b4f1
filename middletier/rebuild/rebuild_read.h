/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_read.h -- each shard's newest manifest with a whole checkpoint, found among all that the nodes hold */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_READ_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "manifest/manifest_state.h"
#include "rebuild/survey.h"

struct mt_link;
struct mt_port;
struct mt_rebuild_nodes;
struct rebuild_read;

/* The finds about a shard. */
struct mt_rebuild_shard {
	bool has_manifest;
	struct mt_survey_extent manifest;
	uint32_t epoch_seen;
	uint32_t extent_count,
	    missing_count; /* that the manifest names; of which no copy was seen */
	bool is_uncertain; /* a newer manifest could not be read */
};

/* A node that manifests name, and of which nothing was listed. */
struct mt_rebuild_unseen {
	uint32_t node_id;
	uint32_t extent_count; /* that have a copy there, says the manifest */
};

struct mt_rebuild_reader {
	/* The finds. */
	struct mt_rebuild_shard shards[CLEAVE_SHARDS_MAX];
	uint32_t shard_count;
	struct mt_rebuild_unseen unseen[MT_NODES_MAX];
	uint32_t unseen_count;           /* at most MT_NODES_MAX: there may be more */
	uint32_t shard_at;               /* looked at now, or last */
	struct mt_manifest_state mirror; /* of shard 0's manifest: volumes and snapshots */
	/* Private to rebuild_read.c. */
	struct loop *loop;
	struct mt_port *port;
	struct mt_survey *survey;
	const struct mt_rebuild_nodes *nodes;
	uint64_t timeout_ns;     /* of a copy, after which the next one is tried */
	struct loop_timer timer; /* of the copy that is being read */
	struct loop_task task;   /* the next copy, or shard */
	uint32_t candidate_at;
	struct mt_survey_extent candidate;
	struct loop_link reads;    /* all that were begun: what they ask may still be out */
	struct rebuild_read *read; /* at work */
	void (*fn)(int rc, void *arg);
	void *arg;
};

/* mt_rebuild_reader_init -- nothing is read yet. @nodes are listed, and @survey is sorted, before the start. */
void mt_rebuild_reader_init(struct mt_rebuild_reader *reader, struct mt_port *port,
    struct mt_survey *survey, const struct mt_rebuild_nodes *nodes, uint64_t timeout_ns);
/* mt_rebuild_reader_count -- the survey's shards, and the greatest epoch of each. Before the start. */
void mt_rebuild_reader_count(struct mt_rebuild_reader *reader);
/*
 * mt_rebuild_reader_start -- read shard after shard, of each the newest manifest first, copy after copy
 *
 * @fn: once, later: 0 every shard was looked at; -ENOMEM; -EPROTONOSUPPORT a newer release has written the manifest of shard
 * @reader->shard_at. Threads: the port's.
 */
void mt_rebuild_reader_start(struct mt_rebuild_reader *reader, void (*fn)(int rc, void *arg),
    void *arg);
void mt_rebuild_reader_on_link(struct mt_rebuild_reader *reader, struct mt_link *link, bool is_up);
/* mt_rebuild_reader_stop -- @fn is not called any more; what nodes were asked may still be answered. */
void mt_rebuild_reader_stop(struct mt_rebuild_reader *reader);
/* mt_rebuild_reader_fini -- after the stop, when the port is closed; also of one that was never begun. */
void mt_rebuild_reader_fini(struct mt_rebuild_reader *reader);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_READ_H */
