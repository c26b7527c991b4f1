/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev_memory.c -- device memory of other kinds than a port's arena
 *
 * The RDMA device's own memory has no addresses here, and a GPU's may have none. A dev_ptr needs some,
 * that nothing else has and that can be counted on: so pages are reserved that nobody may touch, and
 * the transport translates. Host code that follows such a pointer dies at once (I1). A dmabuf that the
 * host can map lies at its mapping, behind the guard like the arena.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc.h"
#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "dev_memory.h"
#include "dev_ptr_raw.h"
#include "device_memory.h"
#include "port.h"
#include "transport.h"

#define MEMORY_PAGE_BYTES 4096u
#define MEMORY_BYTES_MAX NUM_GIB(1024)

static bool
memory_has(const struct dev_memory *self, const void *memory, uint64_t bytes)
{
	uintptr_t from = (uintptr_t)memory, begin = (uintptr_t)self->base;

	assert(self->bytes > 0);
	return from >= begin && from - begin <= self->bytes &&
	    bytes <= self->bytes - (from - begin);
}

struct dev_memory *
dev_memory_find(const struct split_port *port, const void *memory, uint64_t bytes)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	for (const struct loop_link *link = port->memories.next; link != &port->memories;
	     link = link->next) {
		struct dev_memory *self = LIST_ENTRY(link, struct dev_memory, link);

		if (memory_has(self, memory, bytes))
			return self;
	}
	return NULL;
}

bool
dev_memory_has(const struct split_port *port, const void *memory, uint64_t bytes)
{
	return arena_has(&port->device, memory, bytes) ||
	    dev_memory_find(port, memory, bytes) != NULL;
}

bool
dev_memory_is_reached(const struct split_port *port, dev_ptr memory, uint64_t bytes)
{
	const struct dev_memory *self;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (list_is_empty(&port->memories))
		return true;
	self = dev_memory_find(port, dev_ptr_raw(memory), bytes);
	return self == NULL || self->is_mapped;
}

static struct dev_memory *
memory_out_of_reach(const struct split_port *port, const void *memory, uint64_t bytes)
{
	struct dev_memory *self;

	if (list_is_empty(&port->memories))
		return NULL;
	self = dev_memory_find(port, memory, bytes);
	return self != NULL && !self->is_mapped ? self : NULL;
}

/* A device that cannot copy any more is going away: its queue pairs end by themselves. */
static void
memory_copy(struct dev_memory *self, const void *at, void *host, uint64_t bytes, bool is_out)
{
	uint64_t offset_bytes = (uint64_t)((const uint8_t *)at - self->base);

	assert(self->kind == DEV_MEMORY_NIC); /* dev_memory_is_mapped */
	assert(offset_bytes + bytes <= self->bytes);
	if (self->ops->memory_copy(self, offset_bytes, host, bytes, is_out) != 0 && is_out)
		memset(host, 0, bytes);
}

void
dev_memory_copy_out(const struct split_port *port, void *dst, const void *src, uint64_t bytes)
{
	struct dev_memory *self = memory_out_of_reach(port, src, bytes);

	if (self != NULL) {
		memory_copy(self, src, dst, bytes, true);
		return;
	}
	guard_enter();
	memcpy(dst, src, bytes);
	guard_leave();
}

void
dev_memory_copy_in(const struct split_port *port, void *dst, const void *src, uint64_t bytes)
{
	struct dev_memory *self = memory_out_of_reach(port, dst, bytes);
	uint8_t bounce[MEMORY_PAGE_BYTES];

	if (self == NULL) {
		guard_enter();
		memcpy(dst, src, bytes);
		guard_leave();
		return;
	}
	for (uint64_t at = 0; at < bytes; at += sizeof(bounce)) {
		uint64_t part = num_min(bytes - at, sizeof(bounce));

		guard_enter();
		memcpy(bounce, (const uint8_t *)src + at, part);
		guard_leave();
		memory_copy(self, (const uint8_t *)dst + at, bounce, part, false);
	}
}

/*
 * Memory that the host cannot map takes eight aligned bytes in one piece as well (ibv_memcpy_to_dm), in the order in which
 * they are given. The fence is for what is sent next: a device is told of that by a store of ours.
 */
void
dev_memory_publish(const struct split_port *port, void *dst, uint64_t value)
{
	struct dev_memory *self = memory_out_of_reach(port, dst, sizeof(value));
	uint64_t stored = htole64(value);

	if (self != NULL) {
		memory_copy(self, dst, &stored, sizeof(stored), false);
		atomic_thread_fence(memory_order_seq_cst);
		return;
	}
	guard_enter();
	atomic_store_explicit((_Atomic uint64_t *)dst, stored, memory_order_seq_cst);
	guard_leave();
}

/* Addresses for it. */
static int
memory_map(struct dev_memory *self)
{
	int rc;

	assert(!self->is_mapped);
	assert(self->bytes > 0);
	if (self->kind == DEV_MEMORY_DMABUF) {
		self->base = mmap(NULL, self->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		    self->dmabuf_fd, (off_t)self->dmabuf_offset_bytes);
		self->is_mapped = self->base != MAP_FAILED;
	}
	if (!self->is_mapped) /* what the exporter of a dmabuf does not let us */
		self->base = mmap(NULL, self->bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (self->base == MAP_FAILED)
		return -ENOMEM;
	rc = self->is_mapped ? guard_add(self->base, self->bytes) : 0;
	if (rc != 0)
		(void)munmap(self->base, self->bytes); /* it was mapped: cannot fail */
	return rc;
}

static void
memory_unmap(struct dev_memory *self)
{
	assert(self->base != NULL && self->base != MAP_FAILED);
	if (self->is_mapped)
		guard_remove(self->base, self->bytes);
	(void)munmap(self->base, self->bytes); /* it was mapped: cannot fail */
}

static int
memory_init(struct dev_memory *self, const struct dev_memory_options *options)
{
	int rc;

	assert(self->magic == 0 && self->port->transport != NULL);
	self->magic = SPLIT_MEMORY_MAGIC;
	self->kind = options->kind;
	self->bytes = num_round_up(options->bytes, MEMORY_PAGE_BYTES);
	self->dmabuf_offset_bytes = options->dmabuf_offset_bytes;
	self->ops = self->port->transport;
	assert(self->ops->memory_open != NULL);
	self->dmabuf_fd = -1;
	if (self->kind == DEV_MEMORY_DMABUF) {
		self->dmabuf_fd = fcntl(options->dmabuf_fd, F_DUPFD_CLOEXEC, 0);
		if (self->dmabuf_fd < 0)
			return -EINVAL;
	}
	rc = memory_map(self);
	if (rc != 0)
		goto err_fd;
	rc = self->ops->memory_open(self);
	if (rc != 0)
		goto err_map;
	return 0;

err_map:
	memory_unmap(self);
err_fd:
	if (self->dmabuf_fd >= 0)
		(void)close(self->dmabuf_fd); /* nothing was written */
	return rc;
}

static int
options_check(struct split_port *port, const struct dev_memory_options *options)
{
	port->reason[0] = '\0';
	if ((unsigned)options->kind >= DEV_MEMORY_KIND_NR || options->bytes == 0 ||
	    options->bytes > MEMORY_BYTES_MAX ||
	    options->dmabuf_offset_bytes % MEMORY_PAGE_BYTES != 0)
		return -EINVAL;
	if (port->transport == NULL) {
		transport_reason(port, "a port without an address has no device yet");
		return -ENOTCONN;
	}
	if (port->transport->memory_open == NULL) {
		transport_reason(port, "%s:// has no device with memory", port->transport->scheme);
		return -ENOTSUP;
	}
	return port->memory_count < SPLIT_MEMORIES_MAX ? 0 : -ENOBUFS;
}

struct dev_memory *
dev_memory_open(struct split_port *port, const struct dev_memory_options *options,
    dev_ptr *ret_memory)
{
	struct dev_memory *self;
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	rc = options_check(port, options);
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	self = split_calloc(1, sizeof(*self));
	if (self == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	self->port = port;
	assert(port->memory_count < SPLIT_MEMORIES_MAX);
	rc = memory_init(self, options);
	if (rc != 0) {
		split_free(self);
		errno = -rc;
		return NULL;
	}
	list_push_back(&port->memories, &self->link);
	port->memory_count++;
	*ret_memory = dev_ptr_of(self->base);
	return self;
}

void
dev_memory_close(struct dev_memory *self)
{
	if (self == NULL)
		return;
	CHECK_OBJ(self, SPLIT_MEMORY_MAGIC);
	assert(self->port->memory_count > 0 && list_contains(&self->link));
	self->ops->memory_close(self);
	memory_unmap(self);
	if (self->dmabuf_fd >= 0)
		(void)close(self->dmabuf_fd); /* nothing was written */
	list_remove(&self->link);
	self->port->memory_count--;
	self->magic = 0;
	split_free(self);
}

bool
dev_memory_is_mapped(const struct dev_memory *self)
{
	CHECK_OBJ(self, SPLIT_MEMORY_MAGIC);
	return self->is_mapped;
}

void
dev_memories_fini(struct split_port *port)
{
	struct loop_link *link;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while ((link = list_first(&port->memories)) != NULL)
		dev_memory_close(LIST_ENTRY(link, struct dev_memory, link));
}
