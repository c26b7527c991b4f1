/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message_payload.h -- what a message carries: its header, bytes of its request there and back, and extents of a status
 *
 * Nothing here changes a message's state. All of it is the loop's thread's.
 */
#ifndef CLEAVE_VM_CLIENT_MESSAGE_PAYLOAD_H
#define CLEAVE_VM_CLIENT_MESSAGE_PAYLOAD_H

#include <stdbool.h>

#include "internal.h"

/* cleave_payload_encode -- @message, QUEUED: its header, as the map is now; request_id and epoch are what that says. */
void cleave_payload_encode(struct message *message);
/* cleave_payload_stage -- give a write its place in device memory, message->piece, and its CRC. */
void cleave_payload_stage(struct message *message);
/*
 * cleave_payload_place -- the host memory that the payload of the answer that comes in is to go to
 *
 * NULL: none in particular, cleave_payload_take has it. Once a message sent: an answer that comes twice is not placed.
 */
void *cleave_payload_place(struct message *message);
/*
 * cleave_payload_take -- a read's data goes to the caller's memory, if it is not there yet, and is checked there
 *
 * 0; -EBADMSG and message->is_damaged: it is not what @reply's CRC is of.
 */
int cleave_payload_take(struct message *message, const struct wire_io_reply *reply,
    const struct split_msg *msg);
/*
 * cleave_payload_is, cleave_payload_peeked -- a read's only block is at @block: is that its CRC? It goes to the caller's
 * memory, of whichever kind.
 */
bool cleave_payload_is(const struct message *message, dev_ptr block, uint32_t crc);
void cleave_payload_peeked(struct message *message, dev_ptr block);
/* cleave_payload_loaded -- a read's data is in its staging, checked: it goes to the caller's host memory, if that is where. */
void cleave_payload_loaded(struct message *message);
/*
 * cleave_payload_take_status -- the extents in @payload go to the request, as far as it has room
 *
 * 0, message->told_bytes and ->is_full; -EBADMSG: they are damaged, or of more than was asked for; none was told.
 */
int cleave_payload_take_status(struct message *message, const struct wire_io_reply *reply,
    dev_ptr payload);
/* cleave_payload_extent -- add the next extent of a status to @io; false: there is no room for it. */
bool cleave_payload_extent(struct cleave_io *io, const struct wire_status *status);

#endif /* CLEAVE_VM_CLIENT_MESSAGE_PAYLOAD_H */
