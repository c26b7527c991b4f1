/* SPDX-License-Identifier: Apache-2.0 */
/* dev_memory.h -- a port's device memory, of whichever kind: its arena, the device's own, a dmabuf */
#ifndef CLEAVE_SPLIT_DEV_MEMORY_H
#define CLEAVE_SPLIT_DEV_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"

struct transport_ops;

#define SPLIT_MEMORY_MAGIC 0x594d454du /* "MEMY" */

/* Device memory that is not the arena's. Its addresses are its own, whether the host can map it or not. */
struct dev_memory {
	uint32_t magic;
	struct loop_link link; /* in port->memories */
	struct split_port *port;
	enum dev_memory_kind kind;
	uint8_t *base; /* pages that nobody may touch, or the dmabuf's */
	uint64_t bytes;
	bool is_mapped;
	int dmabuf_fd; /* -1: none */
	uint64_t dmabuf_offset_bytes;
	const struct transport_ops *ops;
	void *transport;
};
/* dev_memory_find -- where @memory lies, all of it. NULL: in none. */
struct dev_memory *dev_memory_find(const struct split_port *port, const void *memory,
    uint64_t bytes);
/* dev_memory_has -- whether all of it is device memory of @port, of any kind. */
bool dev_memory_has(const struct split_port *port, const void *memory, uint64_t bytes);
/* dev_memory_is_reached -- whether this host's engines can work there. */
bool dev_memory_is_reached(const struct split_port *port, dev_ptr memory, uint64_t bytes);
/* dev_memory_copy_out, dev_memory_copy_in -- between there and host memory; guarded, not counted. */
void dev_memory_copy_out(const struct split_port *port, void *dst, const void *src, uint64_t bytes);
void dev_memory_copy_in(const struct split_port *port, void *dst, const void *src, uint64_t bytes);
/* dev_memory_publish -- one store of eight bytes at @dst, a multiple of 8, that peers see before what is sent later. */
void dev_memory_publish(const struct split_port *port, void *dst, uint64_t value);
/* dev_memories_fini -- close all of @port. */
void dev_memories_fini(struct split_port *port);

#endif /* CLEAVE_SPLIT_DEV_MEMORY_H */
