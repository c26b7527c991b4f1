/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs_memory.c -- registered memory of fake_verbs.h: pages, the device's own, dmabufs */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/fake_verbs.h"

#undef ibv_reg_mr

#define MRS_MAX 4096u

struct fake_dm {
	struct ibv_dm ibv;
	uint8_t *memory;
	size_t bytes;
};

/* A key is the place, and a count so that no key comes twice. */
static struct fake_mr *mrs[MRS_MAX];
static uint32_t mr_count;

struct fake_mr *
fake_mr_find(uint32_t key)
{
	struct fake_mr *mr = mrs[key % MRS_MAX];

	return mr != NULL && mr->ibv.lkey == key ? mr : NULL;
}

bool
fake_mr_has(const struct fake_mr *mr, uint64_t address, uint64_t bytes)
{
	return address >= mr->begin && address - mr->begin <= mr->ibv.length &&
	    bytes <= mr->ibv.length - (address - mr->begin);
}

void
fake_entries_check(const struct ibv_sge *sges, int count)
{
	for (int i = 0; i < count; i++) {
		const struct fake_mr *mr = fake_mr_find(sges[i].lkey);

		assert(mr != NULL && fake_mr_has(mr, sges[i].addr, sges[i].length));
	}
}

uint8_t *
fake_entry_memory(const struct ibv_sge *entry)
{
	const struct fake_mr *mr = entry->lkey != 0 ? fake_mr_find(entry->lkey) : NULL;

	return mr != NULL ? mr->memory + (entry->addr - mr->begin)
			  : (uint8_t *)(uintptr_t)entry->addr;
}

static struct fake_mr *
mr_make(struct ibv_pd *pd, uint64_t begin, void *memory, size_t length, unsigned access)
{
	struct fake_mr *mr = fake_make(sizeof(*mr));
	uint32_t key;

	do
		key = ++mr_count;
	while (mrs[key % MRS_MAX] != NULL);
	mr->ibv = (struct ibv_mr){ .context = pd->context,
		.pd = pd,
		.length = length,
		.lkey = key,
		.rkey = key };
	mr->access = access;
	mr->begin = begin;
	mr->memory = memory;
	mrs[key % MRS_MAX] = mr;
	return mr;
}

struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (fake_must_fail("ibv_reg_mr"))
		return NULL;
	return &mr_make(pd, (uintptr_t)addr, addr, length, (unsigned)access)->ibv;
}

/* The function that verbs.h calls where the access is not a constant. */
struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	assert(iova == (uintptr_t)addr);
	return ibv_reg_mr(pd, addr, length, (int)access);
}

struct ibv_mr *
ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
    int access)
{
	struct fake_mr *mr;
	void *mapping;

	if (fake_must_fail("ibv_reg_dmabuf_mr"))
		return NULL;
	if (!fake_verbs.has_dmabuf) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mapping = mmap(NULL, offset + length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED) /* of an exporter that lets nobody write */
		mapping = mmap(NULL, offset + length, PROT_READ, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return NULL;
	mr = mr_make(pd, iova, (uint8_t *)mapping + offset, length, (unsigned)access);
	mr->mapping = mapping;
	return &mr->ibv;
}

int
ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct fake_mr *mr = (struct fake_mr *)ibv;

	if (mr->mapping != NULL)
		(void)munmap(mr->mapping,
		    (size_t)(mr->memory - (uint8_t *)mr->mapping) + ibv->length);
	mrs[ibv->lkey % MRS_MAX] = NULL;
	return fake_unmake(mr);
}

/* The device's memory: whole words alone. */
static int
fake_memcpy_to_dm(struct ibv_dm *ibv, uint64_t offset, const void *host, size_t length)
{
	struct fake_dm *dm = (struct fake_dm *)ibv;

	if (fake_must_fail("ibv_memcpy_to_dm"))
		return errno;
	if (offset % 4 != 0 || length % 4 != 0)
		return EINVAL;
	if (offset + length > dm->bytes)
		return EFAULT;
	memcpy(dm->memory + offset, host, length);
	return 0;
}

static int
fake_memcpy_from_dm(void *host, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	struct fake_dm *dm = (struct fake_dm *)ibv;

	if (fake_must_fail("ibv_memcpy_from_dm"))
		return errno;
	if (offset % 4 != 0 || length % 4 != 0)
		return EINVAL;
	if (offset + length > dm->bytes)
		return EFAULT;
	memcpy(host, dm->memory + offset, length);
	return 0;
}

static struct ibv_dm *
fake_alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr)
{
	struct fake_dm *dm;

	if (fake_must_fail("ibv_alloc_dm"))
		return NULL;
	dm = fake_make(sizeof(*dm));
	dm->ibv.context = c;
	dm->ibv.memcpy_to_dm = fake_memcpy_to_dm;
	dm->ibv.memcpy_from_dm = fake_memcpy_from_dm;
	dm->bytes = attr->length;
	dm->memory = calloc(1, dm->bytes);
	return &dm->ibv;
}

static int
fake_free_dm(struct ibv_dm *ibv)
{
	free(((struct fake_dm *)ibv)->memory);
	return fake_unmake(ibv);
}

static struct ibv_mr *
fake_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length,
    unsigned access)
{
	struct fake_dm *dm = (struct fake_dm *)ibv;

	if (fake_must_fail("ibv_reg_dm_mr"))
		return NULL;
	assert((access & IBV_ACCESS_ZERO_BASED) != 0 && offset + length <= dm->bytes);
	return &mr_make(pd, 0, dm->memory + offset, length, access)->ibv;
}

static int
fake_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
    struct ibv_device_attr_ex *attr, size_t bytes)
{
	(void)input;
	memset(attr, 0, bytes);
	attr->max_dm_size = fake_verbs.max_dm_size;
	return ibv_query_device(c, &attr->orig_attr);
}

void
fake_memory_reset(void)
{
	fake_device_contexts[fake_device_index].query_device_ex = fake_query_device_ex;
	fake_device_contexts[fake_device_index].alloc_dm = fake_alloc_dm;
	fake_device_contexts[fake_device_index].free_dm = fake_free_dm;
	fake_device_contexts[fake_device_index].reg_dm_mr = fake_reg_dm_mr;
}
