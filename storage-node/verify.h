/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h -- a whole copy is read and checked while it is in use */
#ifndef CLEAVE_STORAGE_VERIFY_H
#define CLEAVE_STORAGE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

struct node;
struct sn_extent;
struct sn_request;
struct sn_scan_job;

#define SN_VERIFIES_MAX 4u                    /* at work or in line; more are refused with -EBUSY */
#define SN_VERIFY_BUFFER_BYTES (512u * 1024u) /* of device memory */

/* The part of a request that is a verification. */
struct sn_verify_request {
	struct loop_link link; /* in line */
	uint64_t incarnation;  /* of the copy that was asked about */
};

/*
 * sn_verify_start -- @req, a VERIFY: answered when the copy has been read, or at once
 *
 * @req: decoded; the node's until it is answered. The node is READY. Errors, told to the gateway: -ENOENT no such
 * copy, or it was deleted meanwhile; -EBUSY SN_VERIFIES_MAX are asked for, or a queue was full; -EBADMSG damage, and
 * -EIO unreadable, at the reply's offset_bytes; -ECANCELED the gateway has left; -EHOSTDOWN the node stops.
 */
void sn_verify_start(struct sn_request *req);
/* sn_verify_is_due -- @extent counts as damaged by how a read of it went: another read may tell better. */
bool sn_verify_is_due(const struct sn_extent *extent);
/* sn_verify_limit -- how far the chain of @extent is to be followed: its durable length, or all of the slot while it is unread. */
uint64_t sn_verify_limit(const struct sn_extent *extent);
/*
 * sn_verify_conclude -- @job has followed @extent's chain, its limit sn_verify_limit of when it began: is it whole?
 *
 * Marks the copy as damaged, or takes the mark away, and counts. One that was unread has the length, mark and CRC that
 * were found, if must_look_ahead is set. Returns 0; -EBADMSG damage; -EIO unreadable; -EBUSY
 * a queue was full, -ETIME its time was over, or what its before_read ended it with: nothing is known, the mark
 * stays as it is. Not once the copy was deleted.
 */
int sn_verify_conclude(struct sn_extent *extent, const struct sn_scan_job *job);
/* sn_verify_stop -- verifications at work and in line end soon, with -EHOSTDOWN; no other is taken. Once. */
void sn_verify_stop(struct node *node);
/* sn_verify_init -- once, when the port is open. Returns 0; -ENOMEM: then sn_verify_fini, too. */
int sn_verify_init(struct node *node);
/* sn_verify_fini -- free it; the disk is closed. No-op before sn_verify_init. */
void sn_verify_fini(struct node *node);

#endif /* CLEAVE_STORAGE_VERIFY_H */
