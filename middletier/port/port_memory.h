/* SPDX-License-Identifier: Apache-2.0 */
/* port_memory.h -- how a port's device and host memory is shared out */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_MEMORY_H
#define CLEAVE_MIDDLETIER_PORT_PORT_MEMORY_H

#include <stdint.h>

struct mt_port;
struct mt_port_options;

/* mt_port_receive_count -- receives of a port with @device_bytes of device memory, and else @options. */
uint32_t mt_port_receive_count(const struct mt_port_options *options, uint64_t device_bytes);
/*
 * mt_port_device_bytes_least -- 0: @options->device_bytes has room for a ring; else the least that has, in whole MiB
 *
 * Of @options it looks at device_bytes, client_receives, and of the settings at has_read_ahead and frame_bytes. Threads: any.
 */
uint64_t mt_port_device_bytes_least(const struct mt_port_options *options);
/* mt_port_device_bytes -- its device memory with what is beside it: the table of hot blocks. */
uint64_t mt_port_device_bytes(const struct mt_port_options *options);
/*
 * mt_port_memory_take -- frames, hot blocks and merges get their parts of an open port's device memory; heads theirs
 *
 * After mt_read_path_init. Returns 0; -ENOMEM.
 */
int mt_port_memory_take(struct mt_port *port);
/* mt_port_host_bytes -- host memory for links, and for as many shards as there can be rings. */
uint64_t mt_port_host_bytes(const struct mt_port_options *options);
/*
 * mt_port_rings_plan -- the size of @port's rings and how many there can be at once, for @shard_count shards
 *
 * Sets the ring_ members of @port, and logs where not all of them could be here at once. There is room for one:
 * mt_port_device_bytes_least.
 */
void mt_port_rings_plan(struct mt_port *port, uint32_t shard_count);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_MEMORY_H */
