/* SPDX-License-Identifier: Apache-2.0 */
/* block_status.h -- what a range of a volume holds, from the index alone */
#ifndef CLEAVE_MIDDLETIER_READ_BLOCK_STATUS_H
#define CLEAVE_MIDDLETIER_READ_BLOCK_STATUS_H

#include "cleave/wire.h"

struct mt_read;

#define READ_STATUS_BLOCKS_MAX 4096u /* of an answer: the others have to wait for so long */
#define READ_STATUS_BYTES_MAX (READ_STATUS_BLOCKS_MAX * WIRE_STATUS_ENTRY_BYTES)
_Static_assert(READ_STATUS_BYTES_MAX <= WIRE_CLIENT_PAYLOAD_BYTES_MAX, "an answer");

/* mt_read_status -- answer a BLOCK_STATUS from the index. Ends in mt_read_on_painted, possibly at once. */
void mt_read_status(struct mt_read *read);

#endif /* CLEAVE_MIDDLETIER_READ_BLOCK_STATUS_H */
