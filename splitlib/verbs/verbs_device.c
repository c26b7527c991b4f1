/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_device.c -- what a port has of its RDMA device: memory, queues
 *
 * Both arenas are registered once. The completion queue of messages holds what the pool, posted
 * receives and the budget of sends can complete; the one of control lanes what its queue pairs can:
 * so neither overruns, whatever fails at one time.
 */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/dev_memory.h"
#include "core/device_memory.h"
#include "core/port.h"
#include "core/sealed.h"
#include "core/transport.h"

#define VERBS_HEADER_STAGES 1024u
#define VERBS_HOST_STAGES 64u
#define VERBS_HOST_STAGES_KEYED 256u /* each posted receive of a keyed queue pair takes one */
#define VERBS_DEVICE_STAGES 16u
#define VERBS_FRAME_STAGES 1024u

void
verbs_memory_reason(struct verbs_port *verbs, uint64_t bytes, int err)
{
	struct rlimit limit = { 0 };

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	assert(err >= 0);
	(void)getrlimit(RLIMIT_MEMLOCK, &limit); /* zero then */
	if (limit.rlim_cur < RLIM_INFINITY && (err == ENOMEM || err == EAGAIN || err == EPERM))
		transport_reason(verbs->port,
		    "cannot lock %llu MiB: raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=): now %llu KiB",
		    (unsigned long long)(bytes >> 20), (unsigned long long)(limit.rlim_cur >> 10));
	else
		transport_reason(verbs->port, "registering %llu MiB: %s",
		    (unsigned long long)(bytes >> 20), strerrordesc_np(err));
}

int
verbs_arena_register(struct verbs_port *verbs, const struct arena *arena, struct ibv_mr **ret_mr)
{
	int err;

	assert(arena->memory != NULL);
	/* The kernel pins the pages through our mapping: the guard counts. */
	guard_enter();
	*ret_mr = ibv_reg_mr(verbs->pd, arena->memory, arena->bytes, IBV_ACCESS_LOCAL_WRITE);
	err = errno;
	guard_leave();
	if (*ret_mr != NULL)
		return 0;
	verbs_memory_reason(verbs, arena->bytes, err);
	return err != 0 ? -err : -ENOMEM;
}

static int
pool_init(struct verbs_port *verbs, enum verbs_stage stage, uint32_t count, uint32_t slot_bytes)
{
	struct verbs_pool *pool = &verbs->stages[stage];
	int rc = arena_init(&pool->arena, (uint64_t)count * slot_bytes,
	    stage >= STAGE_DEVICE ? ARENA_DEVICE : 0);

	assert(stage < STAGE_NR);
	assert(count > 0);
	assert(pool->free == NULL);
	if (rc != 0)
		return rc;
	pool->count = count;
	pool->slot_bytes = slot_bytes;
	pool->free = split_calloc(count, sizeof(*pool->free));
	if (pool->free == NULL)
		return -ENOMEM;
	for (uint32_t i = count; i > 0; i--)
		pool->free[pool->free_count++] = i - 1;
	return verbs_arena_register(verbs, &pool->arena, &pool->mr);
}

void
verbs_mr_destroy(struct ibv_mr **mr)
{
	if (*mr != NULL)
		(void)ibv_dereg_mr(*mr); /* fails only while a window is bound: we bind none */
	*mr = NULL;
}

static void
pool_fini(struct verbs_pool *pool)
{
	verbs_mr_destroy(&pool->mr);
	split_free(pool->free);
	arena_fini(&pool->arena);
	*pool = (struct verbs_pool){ 0 };
}

struct verbs_slot
verbs_slot_take(struct verbs_port *verbs, enum verbs_stage stage)
{
	struct verbs_pool *pool = &verbs->stages[stage];

	assert(stage < STAGE_NR);
	if (pool->free_count == 0)
		return VERBS_NO_SLOT;
	return (
	    struct verbs_slot){ .stage = (uint8_t)stage, .index = pool->free[--pool->free_count] };
}

void
verbs_slot_give(struct verbs_port *verbs, struct verbs_slot *slot)
{
	if (verbs_slot_is(*slot)) {
		struct verbs_pool *pool = &verbs->stages[slot->stage];

		assert(pool->free_count < pool->count);
		assert(slot->index < pool->count);
		pool->free[pool->free_count++] = slot->index;
	}
	*slot = VERBS_NO_SLOT;
}

uint8_t *
verbs_slot_memory(const struct verbs_port *verbs, struct verbs_slot slot)
{
	const struct verbs_pool *pool = &verbs->stages[slot.stage];

	assert(slot.stage < STAGE_NR);
	assert(slot.index < pool->count);
	return pool->arena.memory + (uint64_t)slot.index * pool->slot_bytes;
}

bool
verbs_entry(const struct verbs_port *verbs, const void *memory, uint64_t bytes,
    struct ibv_sge *ret_entry)
{
	const struct dev_memory *other;

	assert(bytes <= UINT32_MAX);
	*ret_entry = (struct ibv_sge){ .addr = (uintptr_t)memory, .length = (uint32_t)bytes };
	if (arena_has(&verbs->port->device, memory, bytes)) {
		ret_entry->lkey = verbs->device_mr->lkey;
	} else if (arena_has(&verbs->port->host, memory, bytes)) {
		ret_entry->lkey = verbs->host_mr->lkey;
	} else {
		other = dev_memory_find(verbs->port, memory, bytes);
		return other != NULL && verbs_memory_entry(other, ret_entry);
	}
	return true;
}

static int
device_memory_init(struct verbs_port *verbs)
{
	bool is_keyed = verbs->port->options.key != NULL;
	int rc = verbs_arena_register(verbs, &verbs->port->host, &verbs->host_mr);

	if (rc == 0)
		rc = verbs_arena_register(verbs, &verbs->port->device, &verbs->device_mr);
	if (rc == 0)
		rc = pool_init(verbs, STAGE_HEADER, VERBS_HEADER_STAGES, WIRE_HEADER_BYTES);
	if (rc == 0)
		rc = pool_init(verbs, STAGE_HOST,
		    is_keyed ? VERBS_HOST_STAGES_KEYED : VERBS_HOST_STAGES,
		    SPLIT_HEADER_BYTES_MAX + SEAL_EXTRA_BYTES);
	if (rc == 0)
		rc = pool_init(verbs, STAGE_DEVICE, VERBS_DEVICE_STAGES,
		    WIRE_PAYLOAD_BYTES_MAX + SEAL_HEAD_BYTES);
	if (rc == 0 && is_keyed)
		rc = pool_init(verbs, STAGE_FRAME, VERBS_FRAME_STAGES, VERBS_FRAME_BYTES);
	return rc;
}

int
verbs_device_errno(struct verbs_port *verbs, const char *what)
{
	int err = errno != 0 ? errno : EIO;

	transport_reason(verbs->port, "RDMA device %s: %s: %s",
	    ibv_get_device_name(verbs->context->device), what, strerrordesc_np(err));
	return -err;
}

static int
device_queues_init(struct verbs_port *verbs)
{
	struct split_port *port = verbs->port;
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = port->pool.count, .max_sge = 2 } };
	uint64_t cqe_max = (uint64_t)num_max((uint64_t)verbs->attr.max_cqe, 1);
	uint64_t cqe = (uint64_t)port->pool.count + port->options.event_count_max +
	    VERBS_SEND_BUDGET + VERBS_ONE_SIDED_MAX;

	assert(verbs->cq == NULL);
	assert(verbs->srq == NULL);
	if (cqe > cqe_max || port->pool.count > (uint64_t)verbs->attr.max_srq_wr) {
		transport_reason(port,
		    "the device's queues (%d completions, %d receives) are short",
		    verbs->attr.max_cqe, verbs->attr.max_srq_wr);
		return -EINVAL;
	}
	verbs->qp_count_max =
	    (uint32_t)num_min(port->options.qp_count_max, cqe_max / VERBS_CONTROL_COMPLETIONS);
	port->qp_room = verbs->qp_count_max;
	verbs->completions = ibv_create_comp_channel(verbs->context);
	if (verbs->completions == NULL)
		return verbs_device_errno(verbs, "completion channel");
	verbs->cq = ibv_create_cq(verbs->context, (int)cqe, NULL, verbs->completions, 0);
	verbs->control_cq = ibv_create_cq(verbs->context,
	    (int)(verbs->qp_count_max * VERBS_CONTROL_COMPLETIONS), NULL, verbs->completions, 0);
	if (verbs->cq == NULL || verbs->control_cq == NULL)
		return verbs_device_errno(verbs, "completion queue");
	if (port->pool.count == 0)
		return 0;
	verbs->srq = ibv_create_srq(verbs->pd, &srq);
	return verbs->srq != NULL ? 0 : verbs_device_errno(verbs, "shared receive queue");
}

static int
fd_watch(struct verbs_port *verbs, struct loop_fd *watcher, int fd,
    void (*fn)(struct loop_fd *, unsigned, void *), bool *ret_is_watched)
{
	int flags = fcntl(fd, F_GETFL);
	int rc;

	assert(fd >= 0);
	(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK); /* a valid descriptor */
	loop_fd_init(watcher, fd, fn, verbs);
	rc = loop_fd_start(verbs->port->loop, watcher, LOOP_READABLE);
	*ret_is_watched = rc == 0;
	return rc;
}

static int
device_init(struct verbs_port *verbs)
{
	int rc;

	if (ibv_query_device(verbs->context, &verbs->attr) != 0)
		return verbs_device_errno(verbs, "asking the device for its limits");
	verbs->head_bytes = verbs->port->options.key != NULL ? SEAL_HEAD_BYTES : WIRE_HEADER_BYTES;
	verbs->sge_max =
	    (uint32_t)num_min((uint64_t)num_max((uint64_t)verbs->attr.max_sge, 2), VERBS_SGE_MAX);
	verbs->pd = ibv_alloc_pd(verbs->context);
	if (verbs->pd == NULL)
		return verbs_device_errno(verbs, "protection domain");
	rc = device_memory_init(verbs);
	if (rc == 0)
		rc = device_queues_init(verbs);
	if (rc == 0)
		rc = fd_watch(verbs, &verbs->completion_watcher, verbs->completions->fd,
		    verbs_on_completion_fd, &verbs->is_completion_watched);
	if (rc == 0)
		rc = fd_watch(verbs, &verbs->async_watcher, verbs->context->async_fd,
		    verbs_on_async_fd, &verbs->is_async_watched);
	return rc;
}

int
verbs_device_open(struct verbs_port *verbs, struct rdma_cm_id *id)
{
	struct ibv_context *context = id->verbs;
	int rc;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	if (context == NULL) {
		transport_reason(verbs->port, "there is no RDMA device with this address");
		return -ENODEV;
	}
	if (verbs->context == context && verbs->device.state == VERBS_DEVICE_OPEN)
		return 0;
	if (verbs->device.state == VERBS_DEVICE_LEAVING) {
		transport_reason(verbs->port, "%s is gone", verbs->device_name);
		return -ENODEV;
	}
	if (verbs->context != NULL) {
		transport_reason(verbs->port, "a port has one RDMA device: open another port");
		return -EXDEV;
	}
	verbs->context = context;
	rc = device_init(verbs);
	if (rc != 0) {
		verbs_device_close(verbs);
		return rc;
	}
	verbs_device_found(verbs, id);
	verbs_memories_regain(verbs);
	verbs_on_poll_task(&verbs->poll_task, verbs); /* arms both queues */
	if (verbs->device.state == VERBS_DEVICE_OPEN)
		return 0;
	transport_reason(verbs->port, "%s", verbs->lost_text);
	return -ENODEV;
}

/* Receives of the shared receive queue are the pool's again. */
static void
receives_take_back(struct receive_pool *pool)
{
	for (uint32_t i = 0; pool->srq_count > 0 && i < pool->count; i++)
		if (pool->receives[i].is_in_device) {
			pool->receives[i].is_in_device = false;
			pool->srq_count--;
			receive_pool_push(pool, &pool->receives[i]);
		}
	assert(pool->srq_count == 0);
}

void
verbs_device_close(struct verbs_port *verbs)
{
	struct loop *loop = verbs->port->loop;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	/* A failure here can only leak: nothing uses these any more. */
	loop_task_cancel(loop, &verbs->poll_task);
	if (verbs->is_completion_watched)
		loop_fd_stop(loop, &verbs->completion_watcher);
	if (verbs->is_async_watched)
		loop_fd_stop(loop, &verbs->async_watcher);
	verbs->is_completion_watched = verbs->is_async_watched = false;
	if (verbs->srq != NULL)
		(void)ibv_destroy_srq(verbs->srq);
	if (verbs->control_cq != NULL)
		(void)ibv_destroy_cq(verbs->control_cq);
	if (verbs->cq != NULL)
		(void)ibv_destroy_cq(verbs->cq);
	if (verbs->completions != NULL)
		(void)ibv_destroy_comp_channel(verbs->completions);
	receives_take_back(&verbs->port->pool);
	verbs_regions_lose(verbs);
	verbs_memories_lose(verbs);
	for (uint32_t i = 0; i < STAGE_NR; i++)
		pool_fini(&verbs->stages[i]);
	verbs_mr_destroy(&verbs->device_mr);
	verbs_mr_destroy(&verbs->host_mr);
	if (verbs->pd != NULL)
		(void)ibv_dealloc_pd(verbs->pd);
	verbs->srq = NULL;
	verbs->cq = verbs->control_cq = NULL;
	verbs->completions = NULL;
	verbs->pd = NULL;
	verbs->context = NULL;
	verbs->is_armed = false;
	verbs->busy_until_ns = 0;
}
