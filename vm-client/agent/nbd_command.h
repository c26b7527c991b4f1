/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_command.h -- what a client may ask for, and which blocks and how much memory that takes; nothing is changed */
#ifndef CLEAVE_VM_CLIENT_NBD_COMMAND_H
#define CLEAVE_VM_CLIENT_NBD_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "nbd.h"

/* nbd_command_is_change -- enum nbd_command's that change something. */
bool nbd_command_is_change(uint16_t type);
/* nbd_command_end -- the first byte behind what @head asks for. */
uint64_t nbd_command_end(const struct nbd_request_head *head);
/* nbd_command_has_payload -- length_bytes of it follow the head. */
bool nbd_command_has_payload(const struct nbd_connection *connection,
    const struct nbd_request_head *head);

/* The needs of a command: its blocks, and memory. */
struct nbd_command_shape {
	int rc; /* 0: it may be done; else a negative errno that is the reply, and it needs nothing */
	uint64_t first_bytes, end_bytes, data_bytes;
	bool has_edge[2];
	uint32_t part_max;
};
/* nbd_command_shape_of -- may it be done, and what does it need? Once a request: it looks at all of the head. */
struct nbd_command_shape nbd_command_shape_of(const struct nbd_connection *connection,
    const struct nbd_request_head *head);

#endif /* CLEAVE_VM_CLIENT_NBD_COMMAND_H */
