/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_packet.h -- what an agent and its successor say to each other: JSON, descriptors, bytes
 *
 *	one packet of a SOCK_SEQPACKET socket: the object's text, a NUL, bytes; with up to two descriptors
 */
#ifndef CLEAVE_VM_CLIENT_NBD_PACKET_H
#define CLEAVE_VM_CLIENT_NBD_PACKET_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "nbd.h"

#define NBD_PACKET_HEAD_BYTES_MAX 1024u
#define NBD_PACKET_BYTES_MAX (NBD_PACKET_HEAD_BYTES_MAX + NBD_INPUT_BYTES)
#define NBD_PACKET_FDS_MAX 2 /* a socket, and the file that goes along */

/* nbd_packet_limit -- packets are sent and received at @fd while the caller waits, so long at most. 0 or -errno. */
int nbd_packet_limit(int fd, int limit_s);
/*
 * nbd_packet_send -- @object, which is taken over, with @fd_count descriptors and @bytes of @data behind it
 *
 * The descriptors stay the caller's. @object may be NULL: there was no memory for it. Returns 0; -ENOMEM; what
 * sendmsg said.
 */
int nbd_packet_send(int fd, json_t *object, const int *fds, uint32_t fd_count, const void *data,
    size_t bytes);
/*
 * nbd_packet_receive -- the next packet's object; NULL: errno says why, ECONNRESET: the peer has gone, and all it said was received
 *
 * @buffer: NBD_PACKET_BYTES_MAX, which *@ret_data points into. @ret_fds: the descriptors that came, the caller's
 * to close, else -1.
 */
json_t *nbd_packet_receive(int fd, uint8_t *buffer, int ret_fds[NBD_PACKET_FDS_MAX],
    const uint8_t **ret_data, size_t *ret_bytes);
/* nbd_packet_close -- the descriptors that came with a packet; -1 is none. */
void nbd_packet_close(const int fds[NBD_PACKET_FDS_MAX]);

#endif /* CLEAVE_VM_CLIENT_NBD_PACKET_H */
