/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_memory.c -- memory of the RDMA device, and dmabufs, as messages and regions use it
 *
 * A device that lacks something says so when it is asked for its limits, or its library has no such call
 * (EOPNOTSUPP). Either way the port's reason names the device and what is missing.
 *
 * The device's own memory counts from zero in its registrations; a dmabuf is registered at the
 * addresses that its dev_ptr has. Copies to and from the device's memory go by whole words of
 * four bytes, which is all that some devices can do.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/dev_memory.h"
#include "core/port.h"
#include "core/transport.h"
#include "verbs.h"

#define NIC_WORD_BYTES 4u
#define NIC_BOUNCE_BYTES 4096u

struct verbs_memory {
	struct ibv_dm *dm; /* NIC */
	struct ibv_mr *mr;
};

static const char *
device_name(const struct verbs_port *verbs)
{
	return ibv_get_device_name(verbs->context->device);
}

static int
nic_open(struct verbs_port *verbs, struct verbs_memory *self, uint64_t bytes)
{
	struct ibv_alloc_dm_attr attr = { .length = bytes, .log_align_req = 12 };
	struct ibv_device_attr_ex limits = { 0 };

	assert(bytes > 0);
	if (ibv_query_device_ex(verbs->context, NULL, &limits) != 0 || limits.max_dm_size == 0) {
		transport_reason(verbs->port, "RDMA device %s has no memory of its own",
		    device_name(verbs));
		return -ENOTSUP;
	}
	if (bytes > limits.max_dm_size) {
		transport_reason(verbs->port, "RDMA device %s has at most %llu KiB of memory",
		    device_name(verbs), (unsigned long long)(limits.max_dm_size >> 10));
		return -ENOMEM;
	}
	errno = 0;
	self->dm = ibv_alloc_dm(verbs->context, &attr);
	if (self->dm == NULL) {
		int rc = errno == EOPNOTSUPP ? -ENOTSUP : -ENOMEM;

		transport_reason(verbs->port, "RDMA device %s: %llu KiB of its memory: %s",
		    device_name(verbs), (unsigned long long)(bytes >> 10), strerrordesc_np(errno));
		return rc;
	}
	return 0;
}

static struct ibv_mr *
memory_register(struct verbs_port *verbs, const struct dev_memory *memory,
    const struct verbs_memory *self, uint64_t offset_bytes, uint64_t bytes, unsigned access)
{
	assert(offset_bytes + bytes <= memory->bytes);
	if (memory->kind == DEV_MEMORY_NIC)
		return ibv_reg_dm_mr(verbs->pd, self->dm, offset_bytes, bytes,
		    access | IBV_ACCESS_ZERO_BASED);
	return ibv_reg_dmabuf_mr(verbs->pd, memory->dmabuf_offset_bytes + offset_bytes, bytes,
	    (uintptr_t)memory->base + offset_bytes, memory->dmabuf_fd, (int)access);
}

static int
register_error(struct verbs_port *verbs, const struct dev_memory *memory, int err)
{
	const char *what = memory->kind == DEV_MEMORY_NIC ? "its memory" : "a dmabuf";

	if (err == EOPNOTSUPP || err == ENOSYS || err == EPROTONOSUPPORT) {
		transport_reason(verbs->port, "RDMA device %s cannot register %s",
		    device_name(verbs), what);
		return -ENOTSUP;
	}
	transport_reason(verbs->port, "RDMA device %s: registering %s: %s", device_name(verbs),
	    what, strerrordesc_np(err));
	return err != 0 ? -err : -ENOMEM;
}

int
verbs_memory_open(struct dev_memory *memory)
{
	struct verbs_port *verbs = memory->port->verbs;
	struct verbs_memory *self;
	int rc = 0;

	CHECK_OBJ(memory, SPLIT_MEMORY_MAGIC);
	assert(memory->transport == NULL);
	if (verbs == NULL || verbs->pd == NULL) {
		transport_reason(memory->port, "the port's RDMA device is not known yet");
		return -ENOTCONN;
	}
	self = split_calloc(1, sizeof(*self));
	if (self == NULL)
		return -ENOMEM;
	if (memory->kind == DEV_MEMORY_NIC)
		rc = nic_open(verbs, self, memory->bytes);
	if (rc != 0)
		goto err_self;
	errno = 0;
	self->mr = memory_register(verbs, memory, self, 0, memory->bytes, IBV_ACCESS_LOCAL_WRITE);
	if (self->mr == NULL) {
		rc = register_error(verbs, memory, errno);
		goto err_dm;
	}
	memory->transport = self;
	return 0;

err_dm:
	if (self->dm != NULL)
		(void)ibv_free_dm(self->dm); /* nothing is registered there */
err_self:
	split_free(self);
	return rc;
}

static void
memory_forget(struct verbs_memory *self)
{
	if (self->mr != NULL)
		(void)ibv_dereg_mr(self->mr); /* fails only while a window is bound: we bind none */
	if (self->dm != NULL)
		(void)ibv_free_dm(self->dm); /* nothing is registered there any more */
	self->mr = NULL;
	self->dm = NULL;
}

void
verbs_memory_close(struct dev_memory *memory)
{
	CHECK_OBJ(memory, SPLIT_MEMORY_MAGIC);
	memory_forget(memory->transport);
	split_free(memory->transport);
	memory->transport = NULL;
}

void
verbs_memories_lose(struct verbs_port *verbs)
{
	const struct loop_link *memories = &verbs->port->memories;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	for (struct loop_link *link = memories->next; link != memories; link = link->next)
		memory_forget(LIST_ENTRY(link, struct dev_memory, link)->transport);
}

void
verbs_memories_regain(struct verbs_port *verbs)
{
	const struct loop_link *memories = &verbs->port->memories;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	for (struct loop_link *link = memories->next; link != memories; link = link->next) {
		const struct dev_memory *memory = LIST_ENTRY(link, struct dev_memory, link);
		struct verbs_memory *self = memory->transport;

		/* Where the next device cannot have it, it stays out of reach: sends say so. */
		if (memory->kind == DEV_MEMORY_DMABUF)
			self->mr = memory_register(verbs, memory, self, 0, memory->bytes,
			    IBV_ACCESS_LOCAL_WRITE);
	}
}

/* At most NIC_BOUNCE_BYTES of whole words that hold them. */
static int
nic_copy(struct ibv_dm *dm, uint64_t offset_bytes, uint8_t *host, uint64_t bytes, bool is_out)
{
	uint8_t words[NIC_BOUNCE_BYTES + 2 * NIC_WORD_BYTES];
	uint64_t skip_bytes = offset_bytes % NIC_WORD_BYTES;
	uint64_t from = offset_bytes - skip_bytes;
	uint64_t count = num_round_up(skip_bytes + bytes, NIC_WORD_BYTES);
	int rc = 0;

	assert(bytes > 0);
	assert(bytes <= NIC_BOUNCE_BYTES);
	/* The other bytes of the first and the last word stay. */
	if (is_out || count != bytes)
		rc = ibv_memcpy_from_dm(words, dm, from, count);
	if (rc != 0)
		return -rc;
	if (is_out) {
		memcpy(host, words + skip_bytes, bytes);
		return 0;
	}
	memcpy(words + skip_bytes, host, bytes);
	return -ibv_memcpy_to_dm(dm, from, words, count);
}

int
verbs_memory_copy(struct dev_memory *memory, uint64_t offset_bytes, void *host, uint64_t bytes,
    bool is_out)
{
	const struct verbs_memory *self = memory->transport;

	CHECK_OBJ(memory, SPLIT_MEMORY_MAGIC);
	assert(offset_bytes + bytes <= memory->bytes);
	if (self->dm == NULL)
		return -ENODEV; /* it went with its device */
	for (uint64_t at = 0; at < bytes; at += NIC_BOUNCE_BYTES) {
		int rc = nic_copy(self->dm, offset_bytes + at, (uint8_t *)host + at,
		    num_min(bytes - at, NIC_BOUNCE_BYTES), is_out);

		if (rc != 0)
			return rc;
	}
	return 0;
}

bool
verbs_memory_entry(const struct dev_memory *memory, struct ibv_sge *entry)
{
	const struct verbs_memory *self = memory->transport;

	CHECK_OBJ(memory, SPLIT_MEMORY_MAGIC);
	if (self->mr == NULL)
		return false;
	if (memory->kind == DEV_MEMORY_NIC)
		entry->addr -= (uintptr_t)memory->base;
	entry->lkey = self->mr->lkey;
	return true;
}

struct ibv_mr *
verbs_memory_register(struct verbs_port *verbs, const void *from, uint64_t bytes, unsigned access,
    uint64_t *ret_address)
{
	const struct dev_memory *memory = dev_memory_find(verbs->port, from, bytes);
	struct ibv_mr *mr;
	int err;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	assert(bytes > 0);
	*ret_address = (uintptr_t)from;
	if (memory != NULL && memory->kind == DEV_MEMORY_NIC)
		*ret_address = 0;
	if (memory != NULL && ((const struct verbs_memory *)memory->transport)->mr == NULL) {
		errno = ENODEV; /* it went with its device */
		return NULL;
	}
	if (memory != NULL)
		return memory_register(verbs, memory, memory->transport,
		    (uint64_t)((const uint8_t *)from - memory->base), bytes, access);
	/* The kernel pins the pages through our mapping: the guard counts. */
	guard_enter();
	mr = ibv_reg_mr(verbs->pd, (void *)(uintptr_t)from, bytes, access);
	err = errno;
	guard_leave();
	errno = err;
	return mr;
}

void
verbs_entry_copy_out(const struct verbs_port *verbs, const struct ibv_sge *entry, void *to)
{
	for (struct loop_link *link = verbs->port->memories.next; link != &verbs->port->memories;
	     link = link->next) {
		struct dev_memory *memory = LIST_ENTRY(link, struct dev_memory, link);
		const struct verbs_memory *self = memory->transport;

		if (memory->kind == DEV_MEMORY_NIC && self->mr != NULL &&
		    self->mr->lkey == entry->lkey) {
			dev_memory_copy_out(verbs->port, to, memory->base + entry->addr,
			    entry->length);
			return;
		}
	}
	memcpy(to, (const void *)(uintptr_t)entry->addr, entry->length);
}
