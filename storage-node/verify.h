/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h -- a whole copy is read and checked while it is in use */
#ifndef CLEAVE_STORAGE_VERIFY_H
#define CLEAVE_STORAGE_VERIFY_H

#include <stdint.h>

#include "cleave/loop.h"

struct node;
struct sn_request;

#define SN_VERIFIES_MAX 4u                    /* at work or in line; others are told to try again */
#define SN_VERIFY_BUFFER_BYTES (512u * 1024u) /* of device memory */

/* A request's share of it. */
struct sn_verify_request {
	struct loop_link link; /* in line */
	uint64_t incarnation;  /* of the copy that was asked about */
};

/*
 * sn_verify_start -- @req, a VERIFY: answered when the copy has been read, or at once
 *
 * Errors, told to the gateway: -ENOENT it is not here, or goes meanwhile; -EBUSY too many are asked for;
 * -EBADMSG, -EIO damage, at offset_bytes; -ECANCELED the gateway has left; -EHOSTDOWN the node stops.
 */
void sn_verify_start(struct sn_request *req);
/* sn_verify_stop -- those at work and in line end soon; no other is taken. */
void sn_verify_stop(struct node *node);
/* sn_verify_init -- after the port is open. Returns 0 or -ENOMEM. */
int sn_verify_init(struct node *node);
/* sn_verify_fini -- nothing more is read. No-op before sn_verify_init. */
void sn_verify_fini(struct node *node);

#endif /* CLEAVE_STORAGE_VERIFY_H */
