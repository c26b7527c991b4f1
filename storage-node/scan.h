/* SPDX-License-Identifier: Apache-2.0 */
/* scan.h -- an extent's chain of batches is followed as far as it is good; scan.c has the picture */
#ifndef CLEAVE_STORAGE_SCAN_H
#define CLEAVE_STORAGE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "cleave/loop.h"

struct node;
struct sn_extent;

#define SN_SCANS_MAX 64u                  /* scanners of a node, each with a buffer */
#define SN_SCAN_BUFFER_MIN (512u * 1024u) /* bytes: twice the longest batch */

enum scan_state { SCAN_IDLE, SCAN_WAITING, SCAN_READING, SCAN_CHECKING, SCAN_STATE_NR };
extern const struct sm_state scan_table[SCAN_STATE_NR];

/* A question about an extent's chain. */
struct sn_scan_job {
	struct loop_link link; /* waits for a scanner */
	struct sn_extent *extent;
	uint64_t limit_bytes; /* in: look no further */
	bool must_look_ahead; /* in: look for marks behind the end, too */
	uint64_t until_ns; /* in: no read begins later, it ends with -ETIME; 0: it takes its time */
	uint64_t length_bytes; /* out: the chain is good up to here */
	uint64_t mark_bytes;   /* out: highest mark in it */
	uint64_t ahead_bytes;  /* out: highest mark that was found behind it, above it; else 0 */
	uint32_t chain_crc;    /* out: batch_crc of its last batch, or the seed */
	/*
	 * out: why it ends. 0 at the limit; -ENODATA no batch is there; -EBADMSG a bad one; -EMSGSIZE one that crosses
	 * the limit; -EIO unreadable; another negative errno: the scan was not possible, or before_read ended it.
	 */
	int end_rc;
	const char *end_field; /* out: of the batch that does not pass, static; may be NULL */
	void (*fn)(struct sn_scan_job *job);
	void *arg;
	/*
	 * May be NULL. Asked before each read, may lower limit_bytes: 0: read; 1: not now, the owner
	 * will call sn_scan_resume; negative: end so. After each read that was allowed: after_read.
	 */
	int (*before_read)(struct sn_scan_job *job, uint32_t bytes);
	void (*after_read)(struct sn_scan_job *job);
};

/* A scanner: what answers such a question, with a buffer and the requests in flight. */
struct sn_scan {
	uint32_t magic;
	struct sm sm;
	struct node *node;
	bool is_shared;        /* one of those that sn_scan_start takes */
	struct loop_link link; /* free, where it is shared */
	struct sn_scan_job *job;
	dev_ptr buffer;
	uint32_t buffer_bytes; /* more than a batch can have */
	uint32_t filled_bytes; /* of it */
	uint32_t at_bytes;     /* next batch in it */
	uint32_t read_bytes;   /* what to read at once; small after an error */
	bool is_looking;       /* behind the chain's end */
	uint32_t look_bytes;   /* from there to the buffer's first byte, while it looks */
	struct disk_io io;
	struct dev_piece piece;
	struct engine_job check_job;
	struct batch_check check;
};

/*
 * sn_scan_start -- follow a chain from its beginning, when one of the node's scanners is free
 *
 * @job: extent, limit_bytes (whole pages, within the extent) and fn are set, the other inputs as wanted. It is the
 * scan's until @job->fn, which is called once, never from inside, with the outputs filled in.
 */
void sn_scan_start(struct node *node, struct sn_scan_job *job);
/* sn_scan_run -- the same at once, with an idle scanner of the caller's own; job->fn may be called from inside. */
void sn_scan_run(struct sn_scan *scan, struct sn_scan_job *job);
/* sn_scan_resume -- ask before_read again, which has said 1: @scan is WAITING. */
void sn_scan_resume(struct sn_scan *scan);
/*
 * sn_scan_make -- make @scan, all zeros, an idle scanner
 *
 * @index: for traces. @buffer_bytes: whole pages, more than BATCH_BYTES_MAX, of the port's device memory, which has
 * them until it is closed. Returns 0 or -ENOMEM.
 */
int sn_scan_make(struct node *node, struct sn_scan *scan, uint32_t index, uint32_t buffer_bytes);
/* sn_scan_init -- options.scan_count scanners of the node, once. Returns 0; -ENOMEM: then sn_scan_fini, too. */
int sn_scan_init(struct node *node);
/* sn_scan_fini -- free them; disk and engines are closed, no job begins any more. No-op before sn_scan_init. */
void sn_scan_fini(struct node *node);

#endif /* CLEAVE_STORAGE_SCAN_H */
