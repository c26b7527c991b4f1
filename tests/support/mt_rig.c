/* SPDX-License-Identifier: Apache-2.0 */
/* mt_rig.c -- see mt_rig.h */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "engines/sim/offload_sim.h"
#include "made_cluster.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/replicate.h"
#include "middletier/gateway/gateway.h"
#include "middletier/index/ring.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "mt_rig.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/format/format_pages.h"
#include "storage-node/format/ondisk.h"

#define RIG_SEGMENT 1u

/* ---- nodes ---- */

static int
disk_put(void *arg, uint64_t offset_bytes, const void *page)
{
	disk_sim_poke(arg, offset_bytes, page, DISK_ALIGN);
	return 0;
}

static uint64_t
node_slot_bytes(const struct mt_rig *rig, uint32_t index)
{
	uint64_t own_bytes = rig->options.node_slot_bytes[index];

	return own_bytes != 0 ? own_bytes : rig->options.slot_bytes;
}

static uint64_t
disk_bytes(const struct mt_rig *rig, uint32_t index)
{
	return ONDISK_SLOTS_OFFSET + rig->options.slot_count * node_slot_bytes(rig, index);
}

static void
node_make_disk(struct mt_rig_node *node, uint32_t index)
{
	const struct mt_rig *rig = node->rig;
	struct disk_sim_options disk = { .capacity_bytes = disk_bytes(rig, index),
		.seed = rig->options.seed * 1000 + index };
	struct node_format format = { .capacity_bytes = disk_bytes(rig, index),
		.slot_bytes = node_slot_bytes(rig, index),
		.cluster_id = MT_RIG_CLUSTER_ID,
		.node_id = node->id,
		.disk_uuid = { (uint8_t)(index + 1) } };
	char reason[FORMAT_REASON_BYTES_MAX];

	node->disk = disk_sim_create(&disk);
	if (node->disk == NULL || node_format(&format, disk_put, node->disk, reason) != 0)
		abort();
}

static void
node_on_ready(struct node *node, int rc, const char *reason, void *arg)
{
	(void)node;
	(void)arg;
	if (rc != 0) {
		fprintf(stderr, "node: %s\n", reason);
		abort();
	}
}

void
mt_rig_node_start(struct mt_rig *rig, uint32_t index)
{
	struct mt_rig_node *own = &rig->nodes[index];
	struct node_options options = { .sim_host = own->host,
		.listen = own->address,
		.cluster_id = MT_RIG_CLUSTER_ID,
		.device_bytes = NUM_MIB(16),
		.level_max = rig->node_level_max,
		.direct = rig->options.direct,
		.on_ready = node_on_ready };

	if (own->node != NULL)
		return;
	if (!sim_host_is_up(own->host))
		sim_host_start(own->host);
	own->loop = sim_loop_create(rig->world, sim_host_name(own->host));
	options.loop = own->loop;
	if (own->loop == NULL || disk_sim_open(own->disk, own->loop, &options.disk) != 0)
		abort();
	own->node = node_create(&options);
	if (own->node == NULL)
		abort();
	node_start(own->node);
}

void
mt_rig_node_kill(struct mt_rig *rig, uint32_t index, bool is_power_loss)
{
	struct mt_rig_node *own = &rig->nodes[index];

	if (own->node == NULL)
		return;
	sim_host_kill(own->host, SIM_DEATH_RESET);
	node_destroy(own->node);
	loop_destroy(own->loop);
	own->node = NULL;
	own->loop = NULL;
	if (is_power_loss)
		disk_sim_power_loss(own->disk);
}

void
mt_rig_node_blank(struct mt_rig *rig, uint32_t index)
{
	assert(rig->nodes[index].node == NULL);
	disk_sim_destroy(rig->nodes[index].disk);
	node_make_disk(&rig->nodes[index], index);
}

/* ---- gateway ---- */

static void
gateway_on_ready(void *arg)
{
	((struct mt_rig *)arg)->is_ready = true;
}

static void
gateway_on_failed(int rc, const char *text, void *arg)
{
	(void)rc;
	(void)text;
	((struct mt_rig *)arg)->has_failed = true;
}

static void
gateway_on_stopped(void *arg)
{
	((struct mt_rig *)arg)->has_stopped = true;
}

void
mt_rig_gateway_start(struct mt_rig *rig)
{
	char error[256] = "";

	assert(rig->gateway == NULL);
	if (!sim_host_is_up(rig->gateway_host))
		sim_host_start(rig->gateway_host);
	rig->is_ready = rig->has_failed = rig->has_stopped = false;
	rig->gateway_loop = sim_loop_create(rig->world, "gateway");
	rig->meta = meta_memory_open(rig->store, rig->gateway_loop);
	if (!rig->is_unmade)
		made_cluster_at(rig->store, &rig->gateway_options, rig->options.level);
	rig->gateway_options.loop = rig->gateway_loop;
	rig->gateway_options.meta = rig->meta;
	rig->gateway_options.boot_id++;
	rig->gateway = mt_gateway_create(&rig->gateway_options, error, sizeof(error));
	if (rig->gateway == NULL || mt_gateway_start(rig->gateway, error, sizeof(error)) != 0) {
		fprintf(stderr, "gateway: %s\n", error);
		abort();
	}
}

static void
gateway_end(struct mt_rig *rig)
{
	mt_gateway_destroy(rig->gateway);
	rig->meta->ops->close(rig->meta);
	loop_destroy(rig->gateway_loop);
	rig->gateway = NULL;
	rig->meta = NULL;
	rig->gateway_loop = NULL;
}

void
mt_rig_gateway_kill(struct mt_rig *rig)
{
	if (rig->gateway == NULL)
		return;
	sim_host_kill(rig->gateway_host, SIM_DEATH_RESET);
	gateway_end(rig);
	sim_host_start(rig->gateway_host);
}

static bool
gateway_has_stopped(void *arg)
{
	return ((struct mt_rig *)arg)->has_stopped;
}

void
mt_rig_gateway_stop(struct mt_rig *rig)
{
	mt_gateway_stop(rig->gateway, gateway_on_stopped, rig);
	if (!mt_rig_run_until(rig, gateway_has_stopped, rig))
		abort();
	gateway_end(rig);
}

void
mt_rig_gateway_restart(struct mt_rig *rig)
{
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	if (!mt_rig_wait_ready(rig))
		abort();
}

/* ---- the rig ---- */

struct mt_rig *
mt_rig_create(const struct mt_rig_options *options)
{
	struct mt_rig *rig = calloc(1, sizeof(*rig));
	struct mt_gateway_options *gateway;

	assert(rig != NULL);
	rig->options = *options;
	rig->options.seed += rig->options.seed == 0;
	rig->options.node_count = options->node_count != 0 ? options->node_count : 3;
	rig->options.slot_bytes = options->slot_bytes != 0 ? options->slot_bytes : NUM_KIB(256);
	rig->options.slot_count = options->slot_count != 0 ? options->slot_count : 32;
	rig->world = sim_world_create(rig->options.seed);
	rig->net = sim_net_create(rig->world);
	rig->store = meta_store_create(
	    &(struct meta_store_options){ .loop = sim_world_nature(rig->world) });
	rig->gateway_host = sim_host_create(rig->net, "gateway");
	gateway = &rig->gateway_options;
	*gateway = (struct mt_gateway_options){ .cluster_id = MT_RIG_CLUSTER_ID,
		.gateway_id = 1,
		.shard_count = options->shard_count != 0 ? options->shard_count : 1,
		.min_replicas = options->min_replicas != 0 ? options->min_replicas : 3,
		.lease_ns = options->lease_ns,
		.node_count = rig->options.node_count,
		.ports[0] = { .address = "sim://gateway:1", .cpu = -1 },
		.port_count = 1,
		.is_single_loop = true,
		.sim_host = rig->gateway_host,
		.engine_workers = &offload_sim_ops,
		.device_bytes = options->device_bytes != 0 ? options->device_bytes : NUM_MIB(16),
		.hot_bytes = options->hot_bytes,
		.mirror_bytes = options->mirror_bytes,
		.client_receives = 32,
		.node_timeout_ns = NUM_S(2),
		.on_ready = gateway_on_ready,
		.on_failed = gateway_on_failed,
		.arg = rig };
	for (uint32_t i = 0; i < rig->options.node_count; i++) {
		struct mt_rig_node *node = &rig->nodes[i];
		char name[16];

		(void)snprintf(name, sizeof(name), "node%u", i + 1);
		node->rig = rig;
		node->id = i + 1;
		node->host = sim_host_create(rig->net, name);
		(void)snprintf(node->address, sizeof(node->address), "sim://node%u:1", i + 1);
		(void)snprintf(gateway->nodes[i].address, sizeof(gateway->nodes[i].address),
		    "sim://node%u:1", i + 1);
		node_make_disk(node, i);
	}
	return rig;
}

void
mt_rig_destroy(struct mt_rig *rig)
{
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < rig->options.node_count; i++)
		mt_rig_node_kill(rig, i, false);
	mt_rig_run(rig, NUM_S(1)); /* what was killed is freed in a turn of the world */
	for (uint32_t i = 0; i < rig->options.node_count; i++)
		disk_sim_destroy(rig->nodes[i].disk);
	meta_store_destroy(rig->store);
	sim_net_destroy(rig->net);
	sim_world_destroy(rig->world);
	log_set_sink(NULL, NULL);
	free(rig->log);
	free(rig);
}

void
mt_rig_up(struct mt_rig *rig)
{
	for (uint32_t i = 0; i < rig->options.node_count; i++)
		mt_rig_node_start(rig, i);
	mt_rig_gateway_start(rig);
	if (!mt_rig_wait_ready(rig))
		abort();
}

struct mt_port *
mt_rig_port(struct mt_rig *rig)
{
	return &rig->gateway->ports[0];
}

struct mt_shard *
mt_rig_shard(struct mt_rig *rig, uint32_t index)
{
	return &rig->gateway->ports[0].shards[index];
}

struct mt_link *
mt_rig_link(struct mt_rig *rig, uint32_t index)
{
	return &rig->gateway->ports[0].links[index];
}

void
mt_rig_run(struct mt_rig *rig, uint64_t ns)
{
	(void)sim_world_run(rig->world, NULL, NULL, sim_world_now_ns(rig->world) + ns);
}

bool
mt_rig_run_until(struct mt_rig *rig, bool (*until)(void *arg), void *arg)
{
	return sim_world_run(rig->world, until, arg,
		   sim_world_now_ns(rig->world) + MT_RIG_LIMIT_NS) == 0;
}

static bool
rig_is_ready(void *arg)
{
	return ((struct mt_rig *)arg)->is_ready;
}

bool
mt_rig_wait_ready(struct mt_rig *rig)
{
	return mt_rig_run_until(rig, rig_is_ready, rig);
}

struct state_wait {
	struct mt_rig *rig;
	enum mt_shard_state state;
};

static bool
shard_is_in_state(void *arg)
{
	const struct state_wait *wait = arg;
	struct mt_port *port = mt_rig_port(wait->rig);

	return port->shard_count > 0 && port->shards[0].sm.state == wait->state;
}

bool
mt_rig_wait_state(struct mt_rig *rig, enum mt_shard_state state)
{
	struct state_wait wait = { rig, state };

	return mt_rig_run_until(rig, shard_is_in_state, &wait);
}

/* ---- calls and commits ---- */

struct call_wait {
	struct mt_call call;
	struct mt_rig *rig;
	bool is_done;
	int rc;
	struct wire_node_reply reply;
	uint8_t *bytes; /* room for a READ's answer; NULL: not wanted */
};

static void
call_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct call_wait *wait = arg;

	(void)call;
	wait->is_done = true;
	wait->rc = rc;
	if (reply != NULL)
		wait->reply = *reply;
	if (msg != NULL && wait->bytes != NULL)
		dev_copy_to_host(mt_rig_port(wait->rig)->split, wait->bytes, msg->payload,
		    msg->payload_bytes);
	if (msg != NULL)
		split_msg_release(msg);
}

static bool
call_is_done(void *arg)
{
	return ((struct call_wait *)arg)->is_done;
}

static int
call_wait_for(struct mt_rig *rig, uint32_t index, struct call_wait *wait)
{
	int rc;

	wait->rig = rig;
	wait->call.fn = call_on_answer;
	wait->call.arg = wait;
	rc = mt_link_call(mt_rig_link(rig, index), &wait->call);
	if (rc != 0)
		return rc;
	return mt_rig_run_until(rig, call_is_done, wait) ? wait->rc : -ETIME;
}

int
mt_rig_call(struct mt_rig *rig, uint32_t index, const struct wire_node *request,
    struct wire_node_reply *ret_reply)
{
	struct call_wait wait = { .call.request = *request };
	int rc = call_wait_for(rig, index, &wait);

	if (ret_reply != NULL)
		*ret_reply = wait.reply;
	return rc;
}

int
mt_rig_read(struct mt_rig *rig, uint32_t index, const struct extent_id *id, uint64_t offset_bytes,
    uint8_t *out, uint32_t bytes)
{
	struct call_wait wait = { .call.request = { .opcode = WIRE_EXTENT_READ,
				      .id = *id,
				      .offset_bytes = offset_bytes,
				      .length_bytes = bytes,
				      .epoch = mt_rig_shard(rig, 0)->epoch },
		.bytes = out };

	return call_wait_for(rig, index, &wait);
}

static void
commit_on_done(int rc, void *arg)
{
	struct call_wait *wait = arg;

	wait->rc = rc;
	wait->is_done = true;
}

int
mt_rig_commit(struct mt_rig *rig, const struct mt_edit *edits, uint32_t count)
{
	struct call_wait wait = { .rig = rig };
	int rc = mt_manifest_commit(mt_rig_shard(rig, 0), edits, count, commit_on_done, &wait);

	if (rc != 0)
		return rc;
	return mt_rig_run_until(rig, call_is_done, &wait) ? wait.rc : -ETIME;
}

int
mt_rig_commit_newer(struct mt_rig *rig)
{
	const struct mt_cluster *cluster = &rig->gateway->cluster;
	struct mt_edit edit = { .kind = MT_EDIT_CLUSTER,
		.next_volume_id = cluster->next_volume_id,
		.next_segment = cluster->next_segment,
		.next_snapshot = cluster->next_snapshot,
		.next_clone = cluster->next_clone,
		.shard_count = cluster->shard_count,
		.level = CLEAVE_LEVEL_MAX + 1 };

	return mt_rig_commit(rig, &edit, 1);
}

/* ---- the log ---- */

static void
extent_on_created(struct mt_extent *extent, int rc, void *arg)
{
	(void)extent;
	commit_on_done(rc, arg);
}

struct mt_extent *
mt_rig_log_open(struct mt_rig *rig)
{
	struct mt_shard *shard = mt_rig_shard(rig, 0);
	struct call_wait wait = { .rig = rig };
	struct mt_extent *extent = mt_extent_create(shard, EXTENT_LOG, extent_on_created, &wait);
	struct mt_edit edit = { .kind = MT_EDIT_EXTENT_OPENED, .extent_kind = EXTENT_LOG };

	if (extent == NULL || !mt_rig_run_until(rig, call_is_done, &wait) || wait.rc != 0)
		return NULL;
	edit.id = extent->id;
	edit.replica_count = extent->replica_count;
	memcpy(edit.replicas, extent->replicas, sizeof(extent->replicas));
	if (mt_rig_commit(rig, &edit, 1) != 0 || mt_shard_extent_add(shard, extent) != 0)
		abort();
	mt_extent_use(extent); /* nothing of it is in the index: it would be reclaimed */
	return extent;
}

struct mt_extent *
mt_rig_extent(struct mt_rig *rig, const struct extent_id *id)
{
	struct mt_shard *shard = mt_rig_shard(rig, 0);

	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL &&
		    extent_id_pack(&shard->extents[i]->id) == extent_id_pack(id))
			return shard->extents[i];
	}
	(void)fprintf(stderr, "mt_rig: an extent is gone\n");
	abort();
}

void
mt_rig_log_seal(struct mt_rig *rig, struct mt_extent *extent)
{
	struct mt_edit edit = { .kind = MT_EDIT_EXTENT_SEALED,
		.id = extent->id,
		.length_bytes = extent->acked_bytes };

	edit.replica_count = extent->replica_count;
	memcpy(edit.replicas, extent->replicas, sizeof(extent->replicas));
	if (mt_rig_commit(rig, &edit, 1) != 0)
		abort();
	mt_extent_seal(extent, extent->acked_bytes);
	mt_extent_truncate_replicas(extent);
	mt_rig_run(rig, NUM_MS(10));
}

static void
batch_on_done(struct mt_append *batch, int rc, void *arg)
{
	(void)batch;
	commit_on_done(rc, arg);
}

/* Descriptors and payload of @record_count writes; payload in the ring. */
static void
batch_fill(struct mt_rig *rig, struct mt_append *batch, uint32_t block, uint32_t record_count,
    uint64_t *ret_position)
{
	struct mt_shard *shard = mt_rig_shard(rig, 0);
	struct split_port *port = mt_rig_port(rig)->split;
	uint8_t *descs = batch->hosts[0] + WIRE_HEADER_BYTES + BATCH_HEADER_BYTES;
	uint8_t *bytes = malloc((size_t)record_count * CLEAVE_BLOCK_BYTES);
	uint32_t write_count = rig->appends_no_write ? 0 : rig->appends_discards ? 1 : record_count;
	uint32_t desc_bytes = 0, payload_bytes = write_count * CLEAVE_BLOCK_BYTES;

	for (uint32_t i = 0; i < record_count; i++) {
		uint8_t *data = bytes + (size_t)i * CLEAVE_BLOCK_BYTES;
		struct record_desc record = { .kind = RECORD_WRITE,
			.codec_id = ENGINE_NONE,
			.stored_bytes = CLEAVE_BLOCK_BYTES,
			.segment = RIG_SEGMENT,
			.block = block + i,
			.block_count = 1 };

		if (i >= write_count) {
			record.kind = RECORD_DISCARD;
			record.stored_bytes = 0;
			desc_bytes += record_encode(descs + desc_bytes, &record);
			continue;
		}
		memset(data, (int)(shard->next_sequence + i), CLEAVE_BLOCK_BYTES);
		record.stored_crc = crc32c(0, data, CLEAVE_BLOCK_BYTES);
		record.block_crcs[0] = record.stored_crc;
		desc_bytes += record_encode(descs + desc_bytes, &record);
	}
	if (mt_ring_reserve(shard->ring, (uint32_t)num_max(payload_bytes, 1), ret_position) != 0)
		abort();
	batch->payload = mt_ring_at(shard->ring, *ret_position);
	dev_copy_from_host(port, batch->payload, bytes, payload_bytes);
	free(bytes);
	batch->info = (struct batch_info){ .kind = EXTENT_LOG,
		.record_count = record_count,
		.base_sequence = shard->next_sequence,
		.cut = shard->cut,
		.desc_bytes = desc_bytes,
		.used_bytes = BATCH_HEADER_BYTES + desc_bytes + payload_bytes };
	batch->info.batch_bytes = (uint32_t)num_round_up(batch->info.used_bytes, BATCH_ALIGN);
}

/* To replica @index alone, past mt_extent_append. */
static int
batch_send_to(struct mt_rig *rig, struct mt_extent *extent, struct mt_append *batch, uint32_t index)
{
	const struct batch_info *info = &batch->info;
	uint32_t head_bytes = BATCH_HEADER_BYTES + info->desc_bytes;
	struct call_wait wait = { .call.request = { .opcode = WIRE_EXTENT_APPEND,
				      .id = extent->id,
				      .kind = extent->kind,
				      .offset_bytes = info->offset_bytes,
				      .length_bytes = info->batch_bytes,
				      .epoch = extent->shard->epoch } };

	wait.call.host = batch->hosts[0];
	wait.call.head_bytes = head_bytes;
	wait.call.pieces[wait.call.piece_count++] =
	    (struct dev_piece){ batch->payload, info->used_bytes - head_bytes };
	if (info->batch_bytes > info->used_bytes)
		wait.call.pieces[wait.call.piece_count++] =
		    (struct dev_piece){ mt_rig_port(rig)->zero_page,
			    info->batch_bytes - info->used_bytes };
	return call_wait_for(rig, mt_rig_index(&extent->replicas[index]), &wait);
}

static int
batch_send_some(struct mt_rig *rig, struct mt_extent *extent, struct mt_append *batch,
    uint32_t replica_mask, uint64_t mark_bytes)
{
	int rc = 0;

	batch->info.id = extent->id;
	batch->info.offset_bytes = extent->end_bytes;
	batch->info.mark_bytes = mark_bytes == UINT64_MAX ? extent->acked_bytes : mark_bytes;
	batch->info.prev_crc = extent->chain_crc;
	batch_head_encode(batch->hosts[0] + WIRE_HEADER_BYTES, &batch->info);
	for (uint32_t i = 0; i < extent->replica_count && rc == 0; i++) {
		if ((replica_mask & 1u << i) != 0)
			rc = batch_send_to(rig, extent, batch, i);
	}
	extent->end_bytes += batch->info.batch_bytes;
	extent->chain_crc = batch->info.batch_crc;
	return rc;
}

int
mt_rig_append(struct mt_rig *rig, struct mt_extent *extent, uint32_t block, uint32_t record_count,
    uint32_t replica_mask, uint64_t mark_bytes)
{
	struct mt_port *port = mt_rig_port(rig);
	struct call_wait wait = { .rig = rig };
	struct mt_append batch;
	uint64_t position;
	int rc;

	if (mt_append_init(&batch, port) != 0)
		abort();
	batch_fill(rig, &batch, block, record_count, &position);
	batch.fn = batch_on_done;
	batch.arg = &wait;
	if (replica_mask == (1u << extent->replica_count) - 1) {
		rc = mt_extent_append(extent, &batch);
		if (rc == 0)
			rc = mt_rig_run_until(rig, call_is_done, &wait) ? wait.rc : -ETIME;
	} else {
		rc = batch_send_some(rig, extent, &batch, replica_mask, mark_bytes);
	}
	mt_rig_shard(rig, 0)->next_sequence += record_count;
	mt_ring_release(mt_rig_shard(rig, 0)->ring, position);
	mt_append_fini(&batch, port);
	return rc;
}

struct mt_extent *
mt_rig_log_filled(struct mt_rig *rig, uint32_t number)
{
	struct mt_extent *extent = mt_rig_log_open(rig);

	if (extent == NULL)
		abort();
	for (uint32_t i = 0; i < 4; i++) {
		if (mt_rig_append(rig, extent, number * 200 + i * 40, 30,
			(1u << extent->replica_count) - 1, UINT64_MAX) != 0)
			abort();
	}
	mt_rig_log_seal(rig, extent);
	return extent;
}

uint32_t
mt_rig_index(const struct mt_replica *replica)
{
	return replica->node_id - 1;
}

int64_t
mt_rig_data_offset(struct mt_rig *rig, uint32_t index, const struct extent_id *id,
    uint64_t offset_bytes)
{
	struct disk_sim *disk = rig->nodes[index].disk;
	uint8_t page[DISK_ALIGN];
	struct ondisk_super super;
	const char *field;

	disk_sim_peek(disk, ondisk_super_offset(0), page, sizeof(page));
	if (ondisk_super_decode(page, disk_bytes(rig, index), &super, &field) != 0)
		abort();
	for (uint32_t i = 0; i < super.slot_count; i++) {
		struct ondisk_slot slot;

		disk_sim_peek(disk, ondisk_slot_offset(&super, i), page, sizeof(page));
		if (ondisk_slot_decode(page, &super, i, &slot, &field) == 0 &&
		    extent_id_pack(&slot.id) == extent_id_pack(id))
			return (int64_t)(ondisk_data_offset(&super, i) + offset_bytes);
	}
	return -1;
}

/* ---- the log's lines ---- */

static void
rig_on_log(enum log_level level, const char *line, void *arg)
{
	struct mt_rig *rig = arg;
	size_t bytes = strlen(line) + 1;

	(void)level;
	if (getenv("CLEAVE_TEST_LOG") != NULL)
		fprintf(stderr, "%s\n", line);
	rig->log = realloc(rig->log, rig->log_bytes + bytes + 1);
	assert(rig->log != NULL);
	memcpy(rig->log + rig->log_bytes, line, bytes);
	rig->log_bytes += bytes;
	rig->log[rig->log_bytes - 1] = '\n';
	rig->log[rig->log_bytes] = '\0';
}

void
mt_rig_log_start(struct mt_rig *rig)
{
	log_set_sink(rig_on_log, rig);
}

bool
mt_rig_logged(const struct mt_rig *rig, const char *text)
{
	return rig->log != NULL && strstr(rig->log, text) != NULL;
}

void
mt_rig_log_clear(struct mt_rig *rig)
{
	rig->log_bytes = 0;
	if (rig->log != NULL)
		rig->log[0] = '\0';
}
