/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c -- see workload.h */
#include "workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"

#define WAIT_LIMIT_NS NUM_S(600)
#define STAMP_MAGIC 0x4b434f4c42444c4fu

/* What stands at the beginning of each block that a workload writes. */
struct stamp {
	uint64_t magic;
	uint64_t block;
	uint32_t client;
	uint32_t number;   /* of the operation */
	uint32_t fill_crc; /* of the rest of the block */
	uint32_t reserved;
};

struct operation {
	enum cleave_op op;
	uint32_t first_block, block_count;
};

struct slot {
	struct workload *workload;
	struct cleave_io io;
	uint8_t data[WORKLOAD_BLOCKS_MAX * CLEAVE_BLOCK_BYTES];
	uint32_t number;
	uint32_t floors[WORKLOAD_BLOCKS_MAX]; /* reads: what had happened at submission */
	bool is_busy;
};

struct block {
	uint32_t happened; /* newest operation known to have happened; 0: none, zeros */
	uint32_t issued;   /* newest operation submitted */
};

struct workload {
	struct workload_options options;
	struct sim_cluster *cluster;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_volume *volume;
	struct cleave_call call;
	struct block *blocks;
	uint32_t block_count;
	struct operation *operations; /* by number; 0 is none */
	uint32_t issued_count, completed_count, operation_max;
	struct loop_task next_task;
	struct slot slots[WORKLOAD_IN_FLIGHT];
	bool is_called, is_opened, is_verifying;
	uint32_t verify_next_block;
};

/* Half of the blocks compress well, the others not at all. */
static void
block_fill(uint8_t *data, uint32_t client, uint64_t block, uint32_t number)
{
	struct stamp stamp = { STAMP_MAGIC, block, client, number, 0, 0 };
	uint64_t state = num_mix_u64(((uint64_t)client << 56) ^ (block << 32) ^ number);
	uint8_t *rest = data + sizeof(stamp);
	size_t rest_bytes = CLEAVE_BLOCK_BYTES - sizeof(stamp);

	if (number % 2 == 0) {
		memset(rest, (int)(state & 0xff), rest_bytes);
	} else {
		for (size_t at = 0; at + 8 <= rest_bytes; at += 8) {
			state = num_mix_u64(state + at);
			memcpy(rest + at, &state, 8);
		}
	}
	stamp.fill_crc = crc32c(0, rest, rest_bytes);
	memcpy(data, &stamp, sizeof(stamp));
}

static bool
block_is_zero(const uint8_t *data)
{
	return data[0] == 0 && memcmp(data, data + 1, CLEAVE_BLOCK_BYTES - 1) == 0;
}

static bool
operation_covers(const struct operation *operation, uint32_t block)
{
	return block >= operation->first_block &&
	    block < operation->first_block + operation->block_count;
}

/* Zeros: nothing has happened yet, or a discard between floor and the newest may have. */
static void
check_zero(struct workload *workload, uint32_t block, uint32_t floor)
{
	if (floor == 0)
		return;
	for (uint32_t n = floor; n <= workload->blocks[block].issued; n++)
		if (workload->operations[n].op == CLEAVE_DISCARD &&
		    operation_covers(&workload->operations[n], block))
			return;
	sim_cluster_fail(workload->cluster, "client %u block %u: zeros, but operation %u was there",
	    workload->options.client_index + 1, block, floor);
}

static void
check_block(struct workload *workload, uint32_t block, const uint8_t *data, uint32_t floor)
{
	struct stamp stamp;
	uint32_t client = workload->options.client_index;

	if (block_is_zero(data)) {
		check_zero(workload, block, floor);
		return;
	}
	memcpy(&stamp, data, sizeof(stamp));
	if (stamp.magic != STAMP_MAGIC || stamp.block != block || stamp.client != client ||
	    stamp.fill_crc != crc32c(0, data + sizeof(stamp), CLEAVE_BLOCK_BYTES - sizeof(stamp)))
		sim_cluster_fail(workload->cluster,
		    "client %u block %u: garbage (block %" PRIu64 " client %u operation %u)",
		    client + 1, block, stamp.block, stamp.client + 1, stamp.number);
	if (stamp.number < floor || stamp.number > workload->blocks[block].issued ||
	    !operation_covers(&workload->operations[stamp.number], block))
		sim_cluster_fail(workload->cluster,
		    "client %u block %u: operation %u, but %u to %u were possible", client + 1,
		    block, stamp.number, floor, workload->blocks[block].issued);
	workload->blocks[block].happened =
	    (uint32_t)num_max(workload->blocks[block].happened, stamp.number);
}

static void
slot_on_done(struct cleave_io *io, int rc, void *arg)
{
	struct slot *slot = arg;
	struct workload *workload = slot->workload;
	uint32_t first = (uint32_t)(io->offset_bytes / CLEAVE_BLOCK_BYTES);
	uint32_t count = (uint32_t)(io->length_bytes / CLEAVE_BLOCK_BYTES);

	if (rc != 0)
		sim_cluster_fail(workload->cluster, "client %u: op %d at block %u of %u: %s",
		    workload->options.client_index + 1, (int)io->op, first, count, strerror(-rc));
	for (uint32_t i = 0; i < count; i++) {
		struct block *block = &workload->blocks[first + i];

		if (io->op == CLEAVE_READ)
			check_block(workload, first + i, slot->data + i * CLEAVE_BLOCK_BYTES,
			    slot->floors[i]);
		else
			block->happened = (uint32_t)num_max(block->happened, slot->number);
	}
	sim_world_trace(workload->cluster->world, "client %u done op=%d block=%u count=%u",
	    workload->options.client_index + 1, (int)io->op, first, count);
	slot->is_busy = false;
	workload->completed_count++;
	loop_defer(workload->loop, &workload->next_task);
}

static void
slot_submit(struct slot *slot, enum cleave_op op, uint32_t first, uint32_t count)
{
	struct workload *workload = slot->workload;
	int rc;

	slot->io = (struct cleave_io){ .op = op,
		.offset_bytes = (uint64_t)first * CLEAVE_BLOCK_BYTES,
		.length_bytes = (uint64_t)count * CLEAVE_BLOCK_BYTES,
		.data = op == CLEAVE_DISCARD ? NULL : slot->data,
		.fn = slot_on_done,
		.arg = slot };
	for (uint32_t i = 0; i < count; i++) {
		struct block *block = &workload->blocks[first + i];

		slot->floors[i] = block->happened;
		if (op == CLEAVE_READ)
			continue;
		block->issued = slot->number;
		if (op == CLEAVE_WRITE)
			block_fill(slot->data + i * CLEAVE_BLOCK_BYTES,
			    workload->options.client_index, first + i, slot->number);
	}
	slot->is_busy = true;
	rc = cleave_submit(workload->volume, &slot->io);
	if (rc != 0)
		sim_cluster_fail(workload->cluster, "cleave_submit: %s", strerror(-rc));
}

static void
slot_issue_random(struct slot *slot)
{
	struct workload *workload = slot->workload;
	uint32_t count = 1 + (uint32_t)loop_random_below(workload->loop, WORKLOAD_BLOCKS_MAX);
	uint32_t first = (uint32_t)loop_random_below(workload->loop, workload->block_count - count);
	uint32_t dice = (uint32_t)loop_random_below(workload->loop, 100);
	enum cleave_op op = CLEAVE_WRITE;

	if (dice < workload->options.read_percent)
		op = CLEAVE_READ;
	else if (dice < workload->options.read_percent + workload->options.discard_percent)
		op = CLEAVE_DISCARD;
	slot->number = ++workload->issued_count;
	workload->operations[slot->number] = (struct operation){ op, first, count };
	slot_submit(slot, op, first, count);
}

static void
slot_issue_verify(struct slot *slot)
{
	struct workload *workload = slot->workload;
	uint32_t first = workload->verify_next_block;
	uint32_t count = (uint32_t)num_min(WORKLOAD_BLOCKS_MAX, workload->block_count - first);

	workload->verify_next_block += count;
	slot_submit(slot, CLEAVE_READ, first, count);
}

static void
workload_on_next(struct loop_task *task, void *arg)
{
	struct workload *workload = arg;

	(void)task;
	for (uint32_t i = 0; i < WORKLOAD_IN_FLIGHT; i++) {
		if (workload->slots[i].is_busy)
			continue;
		if (workload->is_verifying) {
			if (workload->verify_next_block < workload->block_count)
				slot_issue_verify(&workload->slots[i]);
		} else if (workload->issued_count < workload->options.op_count) {
			slot_issue_random(&workload->slots[i]);
		}
	}
}

static bool
workload_is_idle(const struct workload *workload)
{
	for (uint32_t i = 0; i < WORKLOAD_IN_FLIGHT; i++)
		if (workload->slots[i].is_busy)
			return false;
	return true;
}

bool
workload_is_done(const struct workload *workload)
{
	return workload->issued_count == workload->options.op_count && workload_is_idle(workload);
}

uint32_t
workload_completed_count(const struct workload *workload)
{
	return workload->completed_count;
}

static void
on_created(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct workload *workload = arg;

	(void)call;
	(void)reply;
	if (rc != 0)
		sim_cluster_fail(workload->cluster, "volume.create: %d, %s", rc, error);
	workload->is_called = true;
}

static void
on_opened(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct workload *workload = arg;

	if (rc != 0)
		sim_cluster_fail(workload->cluster, "open: %d, %s", rc, error);
	workload->volume = volume;
	workload->is_opened = true;
}

static bool
is_called(void *arg)
{
	return ((struct workload *)arg)->is_called;
}

static bool
is_opened(void *arg)
{
	return ((struct workload *)arg)->is_opened;
}

static void
workload_open(struct workload *workload)
{
	char name[24], request[128];
	int rc;

	(void)snprintf(name, sizeof(name), "volume%u", workload->options.client_index + 1);
	(void)snprintf(request, sizeof(request),
	    "{\"op\":\"volume.create\",\"name\":\"%s\",\"size_bytes\":%" PRIu64 "}", name,
	    workload->options.volume_bytes);
	workload->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_created, .arg = workload };
	rc = cleave_control(workload->client, &workload->call, request);
	if (rc != 0)
		sim_cluster_fail(workload->cluster, "cleave_control: %d", rc);
	sim_cluster_run_until(workload->cluster, is_called, workload, WAIT_LIMIT_NS,
	    "the volume is made");
	rc = cleave_volume_open(workload->client, name, 0, on_opened, workload);
	if (rc != 0)
		sim_cluster_fail(workload->cluster, "cleave_volume_open: %d", rc);
	sim_cluster_run_until(workload->cluster, is_opened, workload, WAIT_LIMIT_NS,
	    "the volume is open");
}

struct workload *
workload_create(const struct workload_options *options)
{
	static const char *const gateways[] = { "sim://gateway:1" };
	struct workload *workload = calloc(1, sizeof(*workload));
	struct cleave_client_options client = { .gateways = gateways,
		.gateway_count = 1,
		.message_count_max = 64,
		.io_timeout_ns = NUM_S(300),
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	assert(workload != NULL);
	workload->options = *options;
	workload->cluster = options->cluster;
	workload->block_count = (uint32_t)(options->volume_bytes / CLEAVE_BLOCK_BYTES);
	workload->blocks = calloc(workload->block_count, sizeof(*workload->blocks));
	workload->operations = calloc(options->op_count + 1, sizeof(*workload->operations));
	workload->loop = sim_loop_create(options->cluster->world,
	    sim_host_name(options->cluster->client_hosts[options->client_index]));
	assert(workload->blocks != NULL);
	assert(workload->operations != NULL);
	assert(workload->loop != NULL);
	loop_task_init(&workload->next_task, workload_on_next, workload);
	for (uint32_t i = 0; i < WORKLOAD_IN_FLIGHT; i++)
		workload->slots[i].workload = workload;
	client.loop = workload->loop;
	client.sim_host = options->cluster->client_hosts[options->client_index];
	if (cleave_client_create(&client, &workload->client, error) != 0)
		sim_cluster_fail(workload->cluster, "client: %s", error);
	workload_open(workload);
	return workload;
}

void
workload_destroy(struct workload *workload)
{
	cleave_client_destroy(workload->client);
	loop_destroy(workload->loop);
	free(workload->operations);
	free(workload->blocks);
	free(workload);
}

void
workload_start(struct workload *workload)
{
	loop_defer(workload->loop, &workload->next_task);
}

static bool
is_verified(void *arg)
{
	const struct workload *workload = arg;

	return workload->verify_next_block == workload->block_count && workload_is_idle(workload);
}

void
workload_verify_all(struct workload *workload)
{
	workload->is_verifying = true;
	workload->verify_next_block = 0;
	loop_defer(workload->loop, &workload->next_task);
	sim_cluster_run_until(workload->cluster, is_verified, workload, WAIT_LIMIT_NS,
	    "the whole volume is read");
	workload->is_verifying = false;
}
