/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c -- see faults.h */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "etcd_faults.h"
#include "faults.h"
#include "peeker.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/extent.h"
#include "storage-node/node_state.h"
#include "store.h"
#include "zombies.h"

#define USED_PAGE_TRIES 256u
#define DRIFT_PPM_MAX 10000u

uint64_t
sim_faults_duration_ns(struct sim_cluster *cluster)
{
	return sim_world_random_below(cluster->world,
	    UINT64_C(1000) << sim_cluster_below(cluster, 24));
}

/* Faults that may cost a gateway its lease, or move shards, whatever the metadata store does. */
static bool
is_disturbing(enum sim_fault fault)
{
	switch (fault) {
	case SIM_FAULT_all_power:
	case SIM_FAULT_few_return:
	case SIM_FAULT_gateway_kill:
	case SIM_FAULT_gateway_stop:
	case SIM_FAULT_gateway_pause:
	case SIM_FAULT_zombie:
	case SIM_FAULT_intruder_older:
	case SIM_FAULT_meta_timeout:
	case SIM_FAULT_meta_cut:
	case SIM_FAULT_deposed:
	case SIM_FAULT_meta_slow:
	case SIM_FAULT_meta_down:
		return true;
	default:
		return false;
	}
}

/* A gateway stands still. */
static bool
is_pausing(enum sim_fault fault)
{
	return fault == SIM_FAULT_gateway_pause || fault == SIM_FAULT_zombie;
}

/* Until @until_ns; 0: nothing does. */
static void
note_disturbed(struct sim_faults *faults, uint64_t until_ns)
{
	if (until_ns == 0)
		return;
	faults->stall.is_disturbed = true;
	faults->disturbed_until_ns =
	    num_max(faults->disturbed_until_ns, until_ns + 4 * faults->cluster->options.lease_ns);
}

/* Before such a fault begins, and when it is over. */
static void
note_disturbance(struct sim_faults *faults, enum sim_fault fault)
{
	if (is_disturbing(fault))
		note_disturbed(faults, sim_world_now_ns(faults->cluster->world));
}

static bool
has_disturbing(const struct sim_faults *faults)
{
	for (uint32_t i = 0; i < faults->active_count; i++)
		if (is_disturbing(faults->active[i].fault))
			return true;
	return false;
}

/* Whom. */

static uint32_t
random_node(struct sim_faults *faults)
{
	return sim_cluster_below(faults->cluster, faults->cluster->options.node_count);
}

static uint32_t
random_gateway(struct sim_faults *faults)
{
	return sim_cluster_below(faults->cluster, faults->cluster->options.gateway_count);
}

static uint32_t
random_workload(struct sim_faults *faults)
{
	return sim_cluster_below(faults->cluster, faults->workload_count);
}

/* Gateways are in the middle of everything. */
static void
random_link(struct sim_faults *faults, struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	uint32_t gateway = random_gateway(faults);
	uint32_t dice = sim_cluster_below(cluster, 10);

	self->a = cluster->gateways[gateway].host;
	if (dice == 0 && cluster->options.gateway_count > 1)
		self->b = cluster->gateways[(gateway + 1) % cluster->options.gateway_count].host;
	else if (dice < 7)
		self->b = cluster->nodes[random_node(faults)].host;
	else
		self->b = workload_host(faults->workloads[random_workload(faults)]);
	if (sim_cluster_below(cluster, 2) == 0) {
		struct sim_host *host = self->a;

		self->a = self->b;
		self->b = host;
	}
}

/* A page of the disk that something was written to. Returns false when chance finds none. */
static bool
used_page(struct sim_faults *faults, const struct disk_sim *disk, uint64_t *ret_offset)
{
	uint64_t pages = disk_sim_capacity(disk) / DISK_ALIGN;
	uint8_t page[DISK_ALIGN];

	for (uint32_t i = 0; i < USED_PAGE_TRIES; i++) {
		/* The used part lies in front. */
		uint64_t range = pages >> sim_cluster_below(faults->cluster, 6);
		uint64_t index = 32 + sim_world_random_below(faults->cluster->world, range);

		if (index >= pages)
			continue;
		disk_sim_peek(disk, index * DISK_ALIGN, page, sizeof(page));
		if (page[0] != 0 || memcmp(page, page + 1, sizeof(page) - 1) != 0) {
			*ret_offset = index * DISK_ALIGN;
			return true;
		}
	}
	return false;
}

/* Processes. */

static void
lose_all_power(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(cluster, i);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_kill(cluster, i, true);
}

/* The one whose disk may lie, and another: what they say is to be believed, or not. */
static void
inject_few_return(struct sim_faults *faults, struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;

	lose_all_power(cluster);
	self->until_ns = sim_world_now_ns(cluster->world) + cluster->options.node_timeout_ns +
	    cluster->options.lease_ns + sim_world_random_below(cluster->world, NUM_S(4));
	sim_cluster_node_start(cluster, faults->victim);
	sim_cluster_node_start(cluster, random_node(faults));
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
}

static bool
inject_process(struct sim_faults *faults, struct sim_fault_active *self, uint64_t pause_ns)
{
	struct sim_cluster *cluster = faults->cluster;

	switch (self->fault) {
	case SIM_FAULT_node_kill:
	case SIM_FAULT_node_power:
		self->index = random_node(faults);
		sim_cluster_node_kill(cluster, self->index, self->fault == SIM_FAULT_node_power);
		return true;
	case SIM_FAULT_all_power:
		lose_all_power(cluster);
		return true;
	case SIM_FAULT_few_return:
		inject_few_return(faults, self);
		return true;
	case SIM_FAULT_gateway_kill:
		self->index = random_gateway(faults);
		sim_cluster_gateway_kill(cluster, self->index);
		return true;
	case SIM_FAULT_gateway_stop:
		self->index = random_gateway(faults);
		sim_cluster_gateway_stop(cluster, self->index);
		return true;
	case SIM_FAULT_intruder_empty:
	case SIM_FAULT_intruder:
		sim_intruder_start(cluster, &faults->intruder, self->fault == SIM_FAULT_intruder);
		return true;
	case SIM_FAULT_intruder_older:
		sim_intruder_start_older(cluster, &faults->intruder, &self->until_ns);
		return true;
	case SIM_FAULT_zombie:
	case SIM_FAULT_stranded:
		sim_zombies_inject(faults, self, random_gateway(faults));
		return true;
	case SIM_FAULT_client_kill:
		self->index = random_workload(faults);
		workload_kill(faults->workloads[self->index]);
		return true;
	case SIM_FAULT_client_takeover:
		workload_takeover(faults->workloads[random_workload(faults)]);
		return true;
	case SIM_FAULT_client_pause:
		workload_pause(faults->workloads[random_workload(faults)], pause_ns);
		return true;
	case SIM_FAULT_node_pause:
		self->index = random_node(faults);
		if (cluster->nodes[self->index].loop != NULL)
			sim_loop_pause(cluster->nodes[self->index].loop, pause_ns);
		return true;
	case SIM_FAULT_gateway_pause:
		self->index = random_gateway(faults);
		if (cluster->gateways[self->index].loop != NULL) {
			sim_loop_pause(cluster->gateways[self->index].loop, pause_ns);
			cluster->gateways[self->index].still_until_ns = self->until_ns;
			sim_store_ring(cluster->store, cluster->gateways[self->index].meta, false);
		}
		return true;
	default:
		return false;
	}
}

/* The network, the metadata store, clocks. */

static void
inject_slow_link(struct sim_faults *faults, const struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	struct sim_link_options slow = { .latency_min_ns = NUM_MS(1),
		.latency_max_ns = NUM_MS(1 + sim_cluster_below(cluster, 100)),
		.tail_ppm = 10000,
		.tail_ns = NUM_MS(200), /* a packet was lost and is sent again */
		.bytes_per_s = UINT64_C(100000) << sim_cluster_below(cluster, 10) };

	sim_net_set_link(self->a, self->b, &slow);
}

static void
each_other_host(struct sim_faults *faults, struct sim_host *host,
    void (*fn)(struct sim_host *a, struct sim_host *b))
{
	struct sim_cluster *cluster = faults->cluster;

	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (cluster->gateways[i].host != host)
			fn(host, cluster->gateways[i].host);
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		if (cluster->nodes[i].host != host)
			fn(host, cluster->nodes[i].host);
	for (uint32_t i = 0; i < cluster->options.client_count; i++)
		if (cluster->client_hosts[i] != host)
			fn(host, cluster->client_hosts[i]);
}

static void
inject_drift(struct sim_faults *faults)
{
	struct sim_cluster *cluster = faults->cluster;
	uint32_t dice = sim_cluster_below(cluster, 3);
	struct loop *loop = dice == 0 ? cluster->nodes[random_node(faults)].loop
				      : cluster->gateways[random_gateway(faults)].loop;

	if (loop != NULL)
		sim_loop_set_skew(loop, 0,
		    (int32_t)sim_cluster_below(cluster, 2 * DRIFT_PPM_MAX + 1) -
			(int32_t)DRIFT_PPM_MAX);
}

/* The case that leases are for: an owner that does not know that it is none, and is still asked. */
static void
inject_deposed(struct sim_faults *faults, struct sim_fault_active *self,
    const struct sim_cluster_gateway *gateway)
{
	struct sim_cluster *cluster = faults->cluster;
	struct sim_fault_active takeover = { .fault = SIM_FAULT_deposed,
		.workload = faults->workloads[random_workload(faults)] };
	uint64_t now_ns = sim_world_now_ns(cluster->world);

	self->index = gateway->index;
	self->process = gateway->meta;
	self->until_ns = now_ns + 3 * cluster->options.lease_ns +
	    sim_world_random_below(cluster->world, NUM_S(4));
	if (gateway->meta == NULL)
		return;
	sim_store_cut_off(cluster->store, gateway->meta, true);
	/* Mostly before the lease ends: who writes on tells the old owner by its nodes. */
	takeover.until_ns = now_ns +
	    sim_world_random_below(cluster->world, cluster->options.lease_ns * 3 / 2);
	if (faults->active_count + 1 < SIM_FAULTS_ACTIVE_MAX)
		faults->active[faults->active_count++] = takeover;
}

/* The peer of a connection that was closed is told so after all that was sent before. */
static void
inject_late(struct sim_faults *faults, struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	const struct workload *workload = faults->workloads[random_workload(faults)];

	self->a = workload_host(workload);
	self->b = cluster->gateways[random_gateway(faults)].host;
	self->until_ns = sim_world_now_ns(cluster->world) + workload_timeout_ns(workload) +
	    sim_world_random_below(cluster->world, NUM_S(1));
	sim_net_cut(self->a, self->b);
}

static void
each_node_host(struct sim_faults *faults, struct sim_host *host,
    void (*fn)(struct sim_host *a, struct sim_host *b))
{
	for (uint32_t i = 0; i < faults->cluster->options.node_count; i++)
		fn(host, faults->cluster->nodes[i].host);
}

/* For as long as it takes to be noticed, and to give shards away (cluster/severed.c), or some seconds less. */
static void
inject_severed(struct sim_faults *faults, struct sim_fault_active *self,
    const struct sim_cluster_gateway *gateway)
{
	struct sim_cluster *cluster = faults->cluster;

	self->a = gateway->host;
	self->until_ns = sim_world_now_ns(cluster->world) + cluster->options.node_timeout_ns +
	    NUM_S(4) + sim_world_random_below(cluster->world, NUM_S(12));
	each_node_host(faults, self->a, sim_net_partition);
}

static bool
inject_network(struct sim_faults *faults, struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	struct sim_cluster_gateway *gateway = &cluster->gateways[random_gateway(faults)];

	switch (self->fault) {
	case SIM_FAULT_partition:
		random_link(faults, self);
		sim_net_partition(self->a, self->b);
		return true;
	case SIM_FAULT_cut:
		random_link(faults, self);
		sim_net_cut(self->a, self->b);
		return true;
	case SIM_FAULT_late:
		inject_late(faults, self);
		return true;
	case SIM_FAULT_reset:
		random_link(faults, self);
		(void)sim_net_reset(self->a, self->b);
		return true;
	case SIM_FAULT_isolate:
		self->a = sim_cluster_below(cluster, 2) == 0
		    ? gateway->host
		    : cluster->nodes[random_node(faults)].host;
		each_other_host(faults, self->a, sim_net_partition);
		return true;
	case SIM_FAULT_severed:
		inject_severed(faults, self, gateway);
		return true;
	case SIM_FAULT_slow_link:
		random_link(faults, self);
		inject_slow_link(faults, self);
		return true;
	case SIM_FAULT_meta_timeout:
		sim_store_set_timeouts(cluster->store, 200, 200);
		return true;
	case SIM_FAULT_meta_cut:
		self->index = gateway->index;
		self->process = gateway->meta;
		sim_store_cut_off(cluster->store, gateway->meta, true);
		return true;
	case SIM_FAULT_deposed:
		inject_deposed(faults, self, gateway);
		return true;
	case SIM_FAULT_meta_slow:
		sim_store_set_delay(cluster->store, NUM_MS(1),
		    NUM_MS(2 + sim_cluster_below(cluster, 600)));
		return true;
	case SIM_FAULT_meta_down:
		sim_store_set_down(cluster->store, true);
		return true;
	case SIM_FAULT_meta_stall:
		if (faults->stall.is_on)
			return false;
		self->until_ns = sim_world_now_ns(cluster->world) +
		    sim_world_random_below(cluster->world, NUM_S(40));
		sim_store_set_stalled(cluster->store, true);
		/* With an etcd, what is about leases waits for disks, too. */
		sim_stall_begin(&faults->stall, cluster,
		    sim_store_is_etcd(cluster->store) || has_disturbing(faults) ||
			sim_world_now_ns(cluster->world) < faults->disturbed_until_ns);
		return true;
	case SIM_FAULT_drift:
		inject_drift(faults);
		return true;
	default:
		return false;
	}
}

/* Disks. */

static void
disk_errors_begin(struct disk_sim *disk, enum disk_op op, bool is_sticky)
{
	struct disk_fault *fault = disk_sim_fault(disk);

	*fault = (struct disk_fault){ .ops = DISK_FAULT_OP(op),
		.at_count = 1,
		.is_sticky = is_sticky,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
}

/* Other users of the disks would leave what is kept back for manifests and runs, too. */
static void
inject_all_full(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		struct sim_cluster_node *own = &cluster->nodes[i];
		uint32_t left;

		if (own->node == NULL || !own->is_ready)
			continue;
		left = sn_extent_reserve(own->node, EXTENT_LOG) + sim_cluster_below(cluster, 3);
		if (own->node->free_count > left) {
			own->taken_count += own->node->free_count - left;
			own->node->free_count = left;
		}
	}
}

static void
undo_all_full(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		struct sim_cluster_node *own = &cluster->nodes[i];

		if (own->node != NULL)
			own->node->free_count += own->taken_count;
		own->taken_count = 0;
	}
}

/* Among those that succeed: also of two that are in flight for one extent, the first. */
static void
on_disk_write_failed(void *arg)
{
	struct sim_cluster_node *node = arg;
	struct disk_fault *fault = disk_sim_fault(node->disk);

	fault->at_count = fault->seen_count + 1 + sim_cluster_below(node->cluster, 16);
}

/* All, or one among others, and again. */
static void
inject_write_errors(struct sim_cluster_node *node)
{
	struct disk_fault *fault = disk_sim_fault(node->disk);

	disk_errors_begin(node->disk, DISK_WRITE, sim_cluster_below(node->cluster, 2) == 0);
	fault->at_count = 1 + sim_cluster_below(node->cluster, 4);
	if (!fault->is_sticky) {
		fault->on_hit = on_disk_write_failed;
		fault->arg = node;
	}
}

static bool
inject_disk(struct sim_faults *faults, struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;
	struct disk_sim *disk;
	uint64_t offset;

	self->index = random_node(faults);
	disk = cluster->nodes[self->index].disk;
	switch (self->fault) {
	case SIM_FAULT_disk_stall:
		if (cluster->nodes[self->index].node != NULL)
			disk_sim_stall(disk, sim_faults_duration_ns(cluster));
		return true;
	case SIM_FAULT_disk_slow:
		disk_sim_set_slowness(disk, 10u << sim_cluster_below(cluster, 7));
		return true;
	case SIM_FAULT_disk_write_error:
		inject_write_errors(&cluster->nodes[self->index]);
		return true;
	case SIM_FAULT_disk_full:
		disk_sim_set_full(disk, true);
		return true;
	case SIM_FAULT_all_full:
		inject_all_full(cluster);
		return true;
	default:
		break;
	}
	/* Faults that destroy data, or a disk for ever. */
	self->index = faults->victim;
	disk = cluster->nodes[self->index].disk;
	faults->has_destroyed = faults->has_destroyed || self->fault >= SIM_FAULT_disk_rot;
	cluster->spared_node = faults->victim;
	switch (self->fault) {
	case SIM_FAULT_disk_read_error: /* of all copies at once they are errors for clients */
		disk_errors_begin(disk, DISK_READ, true);
		return true;
	case SIM_FAULT_disk_flush_error:
		/* No room for more: enough fail. */
		(void)disk_sim_add_rule(disk,
		    &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_FLUSH),
			.rc = -EIO,
			.count = 1 });
		return true;
	case SIM_FAULT_disk_rot:
		for (uint32_t i = 0; i < 4 && used_page(faults, disk, &offset); i++)
			disk_sim_rot(disk, offset + sim_cluster_below(cluster, DISK_ALIGN),
			    sim_cluster_below(cluster, 8));
		return true;
	case SIM_FAULT_disk_bad_sector:
		if (used_page(faults, disk, &offset))
			(void)disk_sim_set_bad(disk, offset, DISK_ALIGN); /* enough are bad */
		return true;
	case SIM_FAULT_disk_lost_write:
		disk_sim_lose_next_write(disk);
		return true;
	case SIM_FAULT_disk_misdirect:
		if (used_page(faults, disk, &offset))
			disk_sim_misdirect_next_write(disk, offset);
		return true;
	case SIM_FAULT_disk_lie:
		disk_sim_set_lying(disk, true);
		return true;
	case SIM_FAULT_disk_blank:
		sim_cluster_node_replace(cluster, self->index);
		return true;
	default:
		return false;
	}
}

/* Undoing. */

static void
undo_disk(struct sim_faults *faults, const struct sim_fault_active *self)
{
	struct disk_sim *disk = faults->cluster->nodes[self->index].disk;

	switch (self->fault) {
	case SIM_FAULT_disk_slow:
		disk_sim_set_slowness(disk, 1);
		break;
	case SIM_FAULT_disk_read_error:
	case SIM_FAULT_disk_write_error:
		*disk_sim_fault(disk) = (struct disk_fault){ 0 };
		break;
	case SIM_FAULT_disk_flush_error:
		disk_sim_clear_rules(disk);
		if (sim_cluster_below(faults->cluster, 2) == 0 &&
		    faults->cluster->nodes[self->index].node != NULL) {
			sim_cluster_node_kill(faults->cluster, self->index, true);
			sim_cluster_node_start(faults->cluster, self->index);
		}
		break;
	case SIM_FAULT_disk_full:
		disk_sim_set_full(disk, false);
		break;
	case SIM_FAULT_all_full:
		undo_all_full(faults->cluster);
		break;
	case SIM_FAULT_disk_lie:
		disk_sim_set_lying(disk, false);
		break;
	case SIM_FAULT_disk_blank:
		sim_cluster_node_start(faults->cluster, self->index);
		break;
	default:
		break;
	}
}

static void
undo_network(struct sim_faults *faults, const struct sim_fault_active *self)
{
	struct sim_cluster *cluster = faults->cluster;

	switch (self->fault) {
	case SIM_FAULT_partition:
		sim_net_join(self->a, self->b);
		break;
	case SIM_FAULT_cut:
	case SIM_FAULT_late:
		sim_net_heal(self->a, self->b);
		break;
	case SIM_FAULT_isolate:
		each_other_host(faults, self->a, sim_net_join);
		break;
	case SIM_FAULT_severed:
		each_node_host(faults, self->a, sim_net_join);
		break;
	case SIM_FAULT_slow_link:
		sim_net_set_link(self->a, self->b, &cluster->options.link);
		break;
	case SIM_FAULT_meta_timeout:
		sim_store_set_timeouts(cluster->store, 0, 0);
		break;
	case SIM_FAULT_meta_slow:
		sim_store_set_delay(cluster->store, NUM_US(50), NUM_US(500));
		break;
	case SIM_FAULT_meta_down:
		sim_store_set_down(cluster->store, false);
		break;
	case SIM_FAULT_meta_stall:
		sim_stall_end(&faults->stall);
		sim_store_set_stalled(cluster->store, false);
		break;
	case SIM_FAULT_deposed:
		if (self->workload != NULL)
			workload_takeover(self->workload);
		/* fall through */
	case SIM_FAULT_meta_cut:
		if (self->process != NULL && self->process == cluster->gateways[self->index].meta)
			sim_store_cut_off(cluster->store, cluster->gateways[self->index].meta,
			    false);
		break;
	default:
		if (self->fault >= SIM_FAULT_COMMON_NR)
			sim_etcd_undo(faults, self);
		else
			undo_disk(faults, self);
		break;
	}
}

static void
undo(struct sim_faults *faults, const struct sim_fault_active *self)
{
	switch (self->fault) {
	case SIM_FAULT_node_kill:
	case SIM_FAULT_node_power:
		sim_cluster_node_start(faults->cluster, self->index);
		break;
	case SIM_FAULT_all_power:
	case SIM_FAULT_few_return:
		sim_cluster_start_all(faults->cluster);
		break;
	case SIM_FAULT_gateway_kill:
		sim_cluster_gateway_start(faults->cluster, self->index);
		break;
	case SIM_FAULT_gateway_stop: /* stopped, or still about to */
		sim_cluster_gateway_kill(faults->cluster, self->index);
		sim_cluster_gateway_start(faults->cluster, self->index);
		break;
	case SIM_FAULT_intruder_empty:
	case SIM_FAULT_intruder:
	case SIM_FAULT_intruder_older:
		sim_intruder_kill(&faults->intruder);
		break;
	case SIM_FAULT_client_kill:
		workload_restart(faults->workloads[self->index]);
		break;
	default:
		undo_network(faults, self);
		break;
	}
}

uint64_t
sim_faults_next_ns(const struct sim_faults *faults)
{
	uint64_t next_ns = SIM_FOR_EVER;

	for (uint32_t i = 0; i < faults->active_count; i++)
		next_ns = num_min(next_ns, faults->active[i].until_ns);
	return next_ns;
}

static void
undo_at(struct sim_faults *faults, uint32_t i)
{
	struct sim_fault_active self = faults->active[i];

	sim_world_trace(faults->cluster->world, "undo %s", sim_fault_name(self.fault));
	faults->active[i] = faults->active[--faults->active_count];
	note_disturbance(faults, self.fault);
	undo(faults, &self);
}

void
sim_faults_expire(struct sim_faults *faults)
{
	uint64_t now_ns = sim_world_now_ns(faults->cluster->world);

	for (uint32_t i = faults->active_count; i-- > 0;)
		if (faults->active[i].until_ns <= now_ns)
			undo_at(faults, i);
	sim_peeker_expire(faults->peeker);
}

void
sim_faults_heal(struct sim_faults *faults)
{
	struct sim_cluster *cluster = faults->cluster;

	while (faults->active_count > 0)
		undo_at(faults, faults->active_count - 1);
	sim_peeker_heal(faults->peeker);
	sim_net_heal_all(cluster->net);
	for (uint32_t i = 0; i < cluster->options.node_count; i++) {
		struct sim_cluster_node *node = &cluster->nodes[i];

		if (node->loop != NULL)
			sim_loop_pause(node->loop, 0);
	}
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		if (cluster->gateways[i].loop != NULL)
			sim_loop_pause(cluster->gateways[i].loop, 0);
	sim_cluster_start_all(cluster);
	sim_cluster_replace_broken(cluster);
	for (uint32_t i = 0; i < faults->workload_count; i++) {
		workload_pause(faults->workloads[i], 0);
		workload_restart(faults->workloads[i]);
	}
}

/* A third of the faults is of the etcd, where there is one. */
static enum sim_fault
choose_fault(struct sim_faults *faults)
{
	struct sim_cluster *cluster = faults->cluster;
	uint64_t allowed = faults->allowed;
	uint32_t limit = SIM_FAULT_COMMON_NR, fault;

	/* A write that its client has given up is still on its way. */
	if (sim_run_has_haste(cluster->options.seed) && (allowed & SIM_FAULT(late)) != 0 &&
	    sim_cluster_below(cluster, 2) == 0)
		return SIM_FAULT_late;
	if (sim_store_is_etcd(cluster->store)) {
		limit = SIM_FAULT_NR;
		if ((allowed & SIM_FAULTS_OF_ETCD) != 0 && sim_cluster_below(cluster, 3) == 0)
			allowed &= SIM_FAULTS_OF_ETCD;
	}
	do
		fault = sim_cluster_below(cluster, limit);
	while ((allowed >> fault & 1) == 0);
	return (enum sim_fault)fault;
}

void
sim_faults_inject(struct sim_faults *faults)
{
	struct sim_cluster *cluster = faults->cluster;
	struct sim_fault_active self = { 0 };
	uint64_t duration_ns = sim_faults_duration_ns(cluster);

	note_disturbed(faults, sim_peeker_inject(faults->peeker));
	if (faults->allowed == 0 || faults->active_count == SIM_FAULTS_ACTIVE_MAX ||
	    sim_peeker_is_alone(faults->peeker))
		return;
	self.fault = choose_fault(faults);
	if (is_pausing(self.fault) && sim_peeker_forbids_pauses(faults->peeker))
		return;
	/* An owner that does not know that it is none shows when the volume is attached elsewhere. */
	if (faults->is_owner_stale && (faults->allowed & SIM_FAULT(client_takeover)) != 0 &&
	    sim_cluster_below(cluster, 2) == 0)
		self.fault = SIM_FAULT_client_takeover;
	faults->is_owner_stale = self.fault == SIM_FAULT_gateway_pause ||
	    self.fault == SIM_FAULT_meta_cut;
	self.until_ns = sim_world_now_ns(cluster->world) + duration_ns;
	sim_world_trace(cluster->world, "fault %s for %.6f s", sim_fault_name(self.fault),
	    (double)duration_ns / 1e9);
	faults->counts[self.fault]++;
	note_disturbance(faults, self.fault);
	if (self.fault >= SIM_FAULT_COMMON_NR ? sim_etcd_inject(faults, &self)
					      : inject_process(faults, &self, duration_ns) ||
		    inject_network(faults, &self) || inject_disk(faults, &self))
		faults->active[faults->active_count++] = self;
}
