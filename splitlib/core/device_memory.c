/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_memory.c -- a port's two arenas, and its pool of receives
 *
 * An arena is one mapping, cut by first fit at start-up. What is where is kept in a list beside it:
 * the host may not look into device memory. The device arena lies behind the guard.
 *
 * The pool's payload buffers are a page further apart than they are long. Buffers of a power of two
 * would start in the same sets of a cache, and a batch of small messages, of which each fills only the
 * beginning of its buffer, would evict itself. Free receives are a stack, so that the buffer that
 * was used last, and is still in the cache, is used first.
 *
 * Pages are not locked: the soft device is this process. A transport with a real device registers
 * the arena, and meets RLIMIT_MEMLOCK there.
 */
#include <errno.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc.h"
#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "dev_memory.h"
#include "dev_ptr_raw.h"
#include "device_memory.h"
#include "port.h"

#define POOL_SEALED_STRIDE_BYTES 128u /* a sealed head, and lines of their own */
#define ARENA_PAGE_BYTES 4096u
#define ARENA_HUGE_PAGE_BYTES (2u << 20)
#define ARENA_ALIGN 64u
#define POOL_STAGGER_BYTES 4096u
#define POOL_ALIAS_BYTES                                                                           \
	65536u /* payloads so far apart, or a multiple of it, share a cache's sets */

struct arena_block {
	struct loop_link link;
	uint64_t offset_bytes;
	uint64_t bytes;
	bool is_used;
};

static struct arena_block *
block_create(uint64_t offset_bytes, uint64_t bytes)
{
	struct arena_block *block = split_calloc(1, sizeof(*block));

	assert(bytes > 0);
	if (block != NULL) {
		block->offset_bytes = offset_bytes;
		block->bytes = bytes;
	}
	return block;
}

/* Maps the system's reserved huge pages; it says at once when there are too few. */
static uint8_t *
arena_map_huge(struct arena *arena)
{
	uint64_t mapped_bytes = num_round_up(arena->bytes, ARENA_HUGE_PAGE_BYTES);
	uint8_t *memory = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);

	assert(arena->bytes > 0);
	if (memory == MAP_FAILED)
		return NULL;
	arena->mapped_bytes = mapped_bytes;
	arena->is_huge = true;
	return memory;
}

/* Aligned to a huge page, so that the kernel can use them throughout. */
static uint8_t *
arena_map(struct arena *arena)
{
	uint64_t bytes = arena->bytes, mapped_bytes = bytes + ARENA_HUGE_PAGE_BYTES;
	uint64_t head_bytes;
	uint8_t *memory;

	assert(num_is_aligned(bytes, ARENA_PAGE_BYTES));
	memory = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	head_bytes = num_round_up((uintptr_t)memory, ARENA_HUGE_PAGE_BYTES) - (uintptr_t)memory;
	/* Unmapping the ends of what was mapped can only waste address space, if it fails. */
	if (head_bytes > 0)
		(void)munmap(memory, head_bytes);
	(void)munmap(memory + head_bytes + bytes, ARENA_HUGE_PAGE_BYTES - head_bytes);
	/* A hint: a kernel without transparent huge pages refuses, and small pages do as well. */
	(void)madvise(memory + head_bytes, bytes, MADV_HUGEPAGE);
	arena->mapped_bytes = bytes;
	return memory + head_bytes;
}

void
arena_populate(struct arena *arena)
{
	assert(arena->memory != NULL);
	guard_enter();
	(void)madvise(arena->memory, arena->bytes, MADV_POPULATE_WRITE);
	guard_leave();
}

int
arena_init(struct arena *arena, uint64_t bytes, uint32_t flags)
{
	bool is_device = (flags & ARENA_DEVICE) != 0;
	struct arena_block *whole;
	int rc;

	assert(bytes > 0);
	*arena = (struct arena){ .bytes = num_round_up(bytes, ARENA_PAGE_BYTES),
		.is_device = is_device };
	list_init(&arena->blocks);
	whole = block_create(0, arena->bytes);
	if (whole == NULL)
		return -ENOMEM;
	if ((flags & ARENA_HUGE) != 0)
		arena->memory = arena_map_huge(arena);
	if (arena->memory == NULL)
		arena->memory = arena_map(arena);
	if (arena->memory == NULL) {
		rc = -ENOMEM;
		goto err_block;
	}
	rc = is_device ? guard_add(arena->memory, arena->mapped_bytes) : 0;
	if (rc != 0)
		goto err_map;
	list_push_back(&arena->blocks, &whole->link);
	return 0;

err_map:
	(void)munmap(arena->memory, arena->mapped_bytes); /* it was mapped: cannot fail */
	arena->memory = NULL;
err_block:
	split_free(whole);
	return rc;
}

void
arena_fini(struct arena *arena)
{
	struct loop_link *link;

	if (arena->memory == NULL)
		return;
	while ((link = list_pop_front(&arena->blocks)) != NULL)
		split_free(LIST_ENTRY(link, struct arena_block, link));
	if (arena->is_device)
		guard_remove(arena->memory, arena->mapped_bytes);
	(void)munmap(arena->memory, arena->mapped_bytes); /* it was mapped: cannot fail */
	arena->memory = NULL;
}

/* Cut @bytes off the front of @block; what is left becomes a free block behind it. */
static int
block_cut(struct arena_block *block, uint64_t bytes)
{
	struct arena_block *rest;

	assert(!block->is_used);
	assert(bytes > 0);
	assert(bytes <= block->bytes);
	if (block->bytes == bytes)
		return 0;
	rest = block_create(block->offset_bytes + bytes, block->bytes - bytes);
	if (rest == NULL)
		return -ENOMEM;
	block->bytes = bytes;
	list_insert_before(block->link.next, &rest->link);
	return 0;
}

void *
arena_alloc(struct arena *arena, size_t bytes, size_t align)
{
	struct loop_link *link, *next;
	uint64_t wanted_bytes = num_round_up(num_max(bytes, 1), ARENA_ALIGN);

	assert(align > 0 && (align & (align - 1)) == 0);
	assert(arena->memory != NULL);
	if (bytes > arena->bytes)
		return NULL;
	LIST_FOREACH_SAFE(&arena->blocks, link, next) {
		struct arena_block *block = LIST_ENTRY(link, struct arena_block, link);
		uint64_t skip_bytes = num_round_up(block->offset_bytes, align) -
		    block->offset_bytes;

		if (block->is_used || block->bytes < skip_bytes ||
		    block->bytes - skip_bytes < wanted_bytes)
			continue;
		if (skip_bytes > 0) {
			if (block_cut(block, skip_bytes) != 0)
				return NULL;
			block = LIST_ENTRY(block->link.next, struct arena_block, link);
		}
		if (block_cut(block, wanted_bytes) != 0)
			return NULL;
		block->is_used = true;
		return arena->memory + block->offset_bytes;
	}
	return NULL;
}

/* Join @block with a free one right behind it. */
static void
block_join_next(struct arena *arena, struct arena_block *block)
{
	struct arena_block *next;

	if (block->link.next == &arena->blocks)
		return;
	next = LIST_ENTRY(block->link.next, struct arena_block, link);
	assert(next->offset_bytes == block->offset_bytes + block->bytes);
	if (block->is_used || next->is_used)
		return;
	block->bytes += next->bytes;
	list_remove(&next->link);
	split_free(next);
}

void
arena_free(struct arena *arena, const void *memory)
{
	uint64_t offset_bytes = (uint64_t)((const uint8_t *)memory - arena->memory);
	struct arena_block *found = NULL;
	struct loop_link *link, *next;

	if (memory == NULL)
		return;
	LIST_FOREACH_SAFE(&arena->blocks, link, next) {
		struct arena_block *block = LIST_ENTRY(link, struct arena_block, link);

		if (block->offset_bytes == offset_bytes && block->is_used)
			found = block;
	}
	assert(found != NULL); /* freed what was not allocated */
	found->is_used = false;
	block_join_next(arena, found);
	if (found->link.prev != &arena->blocks)
		block_join_next(arena, LIST_ENTRY(found->link.prev, struct arena_block, link));
}

bool
arena_has(const struct arena *arena, const void *memory, uint64_t bytes)
{
	uintptr_t from = (uintptr_t)memory, begin = (uintptr_t)arena->memory;

	return from >= begin && from - begin <= arena->bytes &&
	    bytes <= arena->bytes - (from - begin);
}

static uint64_t
pool_stride_bytes(const struct receive_pool *pool)
{
	uint64_t bytes = num_round_up(pool->payload_bytes_max, ARENA_PAGE_BYTES);

	assert(pool->payload_bytes_max > 0);
	return bytes % POOL_ALIAS_BYTES != 0 && bytes > POOL_ALIAS_BYTES
	    ? bytes
	    : bytes + POOL_STAGGER_BYTES;
}

static void
receive_init(struct split_receive *receive, struct split_port *port, uint32_t index)
{
	struct receive_pool *pool = &port->pool;

	assert(index < pool->count);
	receive->magic = SPLIT_RECEIVE_MAGIC;
	receive->port = port;
	receive->header = (struct wire_header *)(void *)(pool->headers +
	    (size_t)index * pool->header_stride_bytes);
	receive->payload = dev_ptr_add(pool->payloads, index * pool_stride_bytes(pool));
	receive->msg.header = receive->header;
	receive->msg.payload = receive->payload;
}

int
receive_pool_init(struct split_port *port)
{
	struct receive_pool *pool = &port->pool;
	uint32_t count = port->options.receive_count;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(pool->receives == NULL);
	*pool = (struct receive_pool){
		.count = count,
		.payload_bytes_max = port->options.receive_payload_bytes,
		.header_stride_bytes = port->options.key != NULL ? POOL_SEALED_STRIDE_BYTES
								 : WIRE_HEADER_BYTES,
	};
	if (count == 0)
		return 0;
	/* The caller's sizes do not fit: that is no shortage of memory. */
	if (pool_stride_bytes(pool) * count > port->device.bytes ||
	    (uint64_t)pool->header_stride_bytes * count > port->host.bytes)
		return -EINVAL;
	pool->headers =
	    arena_alloc(&port->host, (size_t)pool->header_stride_bytes * count, ARENA_ALIGN);
	pool->payloads = dev_ptr_of(
	    arena_alloc(&port->device, pool_stride_bytes(pool) * count, ARENA_PAGE_BYTES));
	pool->receives = split_calloc(count, sizeof(*pool->receives));
	pool->free = split_calloc(count, sizeof(struct split_receive *));
	if (pool->headers == NULL || dev_ptr_is_null(pool->payloads) || pool->receives == NULL ||
	    pool->free == NULL) {
		receive_pool_fini(port);
		return -ENOMEM;
	}
	for (uint32_t i = count; i > 0; i--) {
		receive_init(&pool->receives[i - 1], port, i - 1);
		receive_pool_push(pool, &pool->receives[i - 1]);
	}
	return 0;
}

void
receive_pool_fini(struct split_port *port)
{
	struct receive_pool *pool = &port->pool;

	arena_free(&port->host, pool->headers);
	if (!dev_ptr_is_null(pool->payloads))
		arena_free(&port->device, dev_ptr_raw(pool->payloads));
	split_free(pool->receives);
	split_free(pool->free);
	*pool = (struct receive_pool){ 0 };
}

void
receive_wipe(struct split_receive *receive)
{
	static const uint8_t zeros[ARENA_PAGE_BYTES];
	const struct split_port *port = receive->port;
	uint64_t bytes = port->pool.payload_bytes_max;

	CHECK_OBJ(receive, SPLIT_RECEIVE_MAGIC);
	for (uint64_t at = 0; at < bytes; at += sizeof(zeros))
		dev_memory_copy_in(port, dev_ptr_raw(dev_ptr_add(receive->payload, at)), zeros,
		    num_min(bytes - at, sizeof(zeros)));
	receive->msg.is_secret = false;
}

uint32_t
split_port_receives_free(const struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return port->pool.free_count + port->pool.srq_count;
}

void *
host_alloc(struct split_port *port, size_t bytes)
{
	void *memory;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	memory = arena_alloc(&port->host, bytes, ARENA_ALIGN);
	if (memory == NULL)
		errno = ENOMEM;
	return memory;
}

void
host_free(struct split_port *port, void *memory)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	arena_free(&port->host, memory);
}

dev_ptr
dev_alloc(struct split_port *port, size_t bytes)
{
	void *memory;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	memory = arena_alloc(&port->device, bytes,
	    bytes >= ARENA_PAGE_BYTES ? ARENA_PAGE_BYTES : ARENA_ALIGN);
	if (memory == NULL)
		errno = ENOMEM;
	return dev_ptr_of(memory);
}

void
dev_free(struct split_port *port, dev_ptr memory)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	arena_free(&port->device, dev_ptr_raw(memory));
}

const char *
split_port_pages_text(const struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (port->device.is_huge)
		return "reserved 2 MiB pages";
	return port->options.wants_huge_pages
	    ? "transparent huge pages at best: too few are reserved (vm.nr_hugepages)"
	    : "transparent huge pages where the kernel has them";
}

void
dev_copy_to_host(struct split_port *port, void *dst, dev_ptr src, size_t bytes)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	dev_memory_copy_out(port, dst, dev_ptr_raw(src), bytes);
	metric_add(&port->counters.copied_to_host_bytes, bytes);
}

void
dev_copy_from_host(struct split_port *port, dev_ptr dst, const void *src, size_t bytes)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	dev_memory_copy_in(port, dev_ptr_raw(dst), src, bytes);
	metric_add(&port->counters.copied_from_host_bytes, bytes);
}

void
dev_publish(struct split_port *port, dev_ptr dst, uint64_t value)
{
	void *to = dev_ptr_raw(dst);

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(num_is_aligned((uintptr_t)to, sizeof(value)));
	assert(dev_memory_has(port, to, sizeof(value)));
	dev_memory_publish(port, to, value);
	metric_add(&port->counters.copied_from_host_bytes, sizeof(value));
}
