/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h -- what frames every message; cleave/wire.h has the messages */
#ifndef CLEAVE_SPLIT_WIRE_H
#define CLEAVE_SPLIT_WIRE_H

#include "cleave/wire.h"

/*
 * wire_frame_check -- what frames any message: magic, version, CRC, payload_bytes, reserved
 *
 * Returns 0; -EPROTO, -EPROTONOSUPPORT for another version; *@ret_field names the field.
 */
int wire_frame_check(const struct wire_header *header, const char **ret_field);
/* wire_frame_stamp -- fill these fields of a message about to leave. */
void wire_frame_stamp(struct wire_header *header, uint32_t payload_bytes, uint16_t credits);

#endif /* CLEAVE_SPLIT_WIRE_H */
