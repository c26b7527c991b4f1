/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.h -- a port's memory: two arenas, and the pool of receives */
#ifndef CLEAVE_SPLIT_DEVICE_MEMORY_H
#define CLEAVE_SPLIT_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "cleave/split.h"

struct split_port;

#define SPLIT_RECEIVE_MAGIC 0x56434552u /* "RECV" */
#define SPLIT_REPLY_PIECES_MAX 16u      /* of split_msg_reply */

/* A mapping, cut by first fit. The pieces are listed outside of it: the host may not look in. */
struct arena {
	uint8_t *memory;
	uint64_t bytes;
	struct loop_link blocks; /* struct arena_block, by offset, no gaps */
	bool is_device;          /* behind the guard */
	bool is_huge;            /* of reserved huge pages */
	uint64_t mapped_bytes;
};

/* A receive of the pool: one header slot, one payload buffer, and the reply made from it. */
struct split_receive {
	uint32_t magic;
	bool is_reply;              /* what it holds */
	bool is_held;               /* a handler owns it */
	bool is_in_device;          /* an RDMA device's shared receive queue has it */
	struct split_msg msg;       /* what handlers see */
	struct wire_header *header; /* its slot in host memory */
	dev_ptr payload;
	struct split_port *port;
	struct loop_link link; /* in qp->messages while a handler holds it, or port->orphans */
	/* The answer: split_msg_reply. */
	struct split_send reply;
	struct dev_piece pieces[SPLIT_REPLY_PIECES_MAX];
	void (*reply_fn)(int rc, void *arg);
	void *reply_arg;
};

struct receive_pool {
	struct split_receive *receives; /* options.receive_count of them */
	struct split_receive **free;    /* a stack: the hottest buffer is used first */
	uint32_t free_count;
	uint32_t srq_count; /* in the hands of an RDMA device's shared receive queue */
	uint32_t count;
	uint32_t payload_bytes_max; /* of one receive */
	dev_ptr payloads;
	uint8_t *headers;
	uint32_t
	    header_stride_bytes; /* of one receive: room for a sealed head where there is a key */
};

enum arena_flags {
	ARENA_DEVICE = 1u << 0, /* behind the guard */
	ARENA_HUGE = 1u << 1,   /* of reserved huge pages, if there are enough */
};
/* arena_init -- map @bytes > 0, rounded up to pages, as @flags (enum arena_flags) say. 0 or a negative errno. */
int arena_init(struct arena *arena, uint64_t bytes, uint32_t flags);
/* arena_fini -- unmap it, with whatever is allocated there. No-op after an arena_init that failed. */
void arena_fini(struct arena *arena);
/* arena_populate -- make its pages now. Where the kernel cannot, they come with the first use. */
void arena_populate(struct arena *arena);
/* arena_alloc -- @bytes aligned to @align, a power of two; NULL: nothing fits. At start-up: it walks a list. */
void *arena_alloc(struct arena *arena, size_t bytes, size_t align);
/* arena_free -- @memory, of arena_alloc; NULL is a no-op. */
void arena_free(struct arena *arena, const void *memory);
/* arena_has -- whether all of it lies in there. */
bool arena_has(const struct arena *arena, const void *memory, uint64_t bytes);
/*
 * receive_pool_init -- options.receive_count receives from both arenas, all free
 *
 * Returns 0; -EINVAL they do not fit into the arenas; -ENOMEM.
 */
int receive_pool_init(struct split_port *port);
/* receive_pool_fini -- give their memory back to the arenas. */
void receive_pool_fini(struct split_port *port);

/* receive_wipe -- zeros in a receive that holds a secret. */
void receive_wipe(struct split_receive *receive);

static inline struct split_receive *
receive_pool_pop(struct receive_pool *pool)
{
	return pool->free_count == 0 ? NULL : pool->free[--pool->free_count];
}

static inline void
receive_pool_push(struct receive_pool *pool, struct split_receive *receive)
{
	assert(pool->free_count < pool->count);
	if (receive->msg.is_secret)
		receive_wipe(receive);
	pool->free[pool->free_count++] = receive;
}

#endif /* CLEAVE_SPLIT_DEVICE_MEMORY_H */
