/* SPDX-License-Identifier: Apache-2.0 */
/* send_assemble.h -- what goes next on the wire, of the sends that are queued */
#ifndef CLEAVE_SPLIT_SEND_ASSEMBLE_H
#define CLEAVE_SPLIT_SEND_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cleave/split.h"

struct split_qp;

/*
 * send_gather -- what is to go next, stamped, as an I/O vector
 *
 * Returns the entries written, at most @iov_max, for about @bytes_max bytes; *@ret_bytes their sum.
 */
uint32_t send_gather(struct split_qp *qp, struct iovec *iov, uint32_t iov_max, uint64_t bytes_max,
    uint64_t *ret_bytes);
/* send_advance -- @bytes of what send_gather gave are out: finish the sends that are through. */
void send_advance(struct split_qp *qp, uint64_t bytes);
/*
 * For transports that post whole messages: send_prepare stamps the header of one of qp->sendable,
 * which cannot be taken back from then on; send_complete ends it, in the queue or out of it.
 */
void send_prepare(struct split_qp *qp, struct split_send *send);
void send_complete(struct split_qp *qp, struct split_send *send, int rc);
/* send_is_final -- stamped: its header and length may not change any more. */
bool send_is_final(const struct split_send *send);
/* send_is_sealed -- its frame was made, and is on its way. send_set_sealed -- so it is, of a final one. */
bool send_is_sealed(const struct split_send *send);
void send_set_sealed(struct split_send *send);
/* send_total_bytes -- header and payload. */
uint64_t send_total_bytes(const struct split_send *send);
/* send_flush -- finish every send with @rc. */
void send_flush(struct split_qp *qp, int rc);

#endif /* CLEAVE_SPLIT_SEND_ASSEMBLE_H */
