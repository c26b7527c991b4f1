/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h -- volumes, snapshots and the cluster's key once more, in shard 0's manifest */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_MIRROR_H
#define CLEAVE_MIDDLETIER_CLUSTER_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "catalog/data_key.h"
#include "cleave/loop.h"
#include "cluster/mirror_names.h"
#include "common/shard_state.h"
#include "manifest/edit.h"

struct mt_gateway;
struct mt_snapshot;
struct mt_volume;

#define MT_MIRROR_EDITS_MAX 16u

struct mt_mirror {
	struct mt_gateway *gateway;
	bool is_owner;           /* shard 0 serves here */
	bool is_out;             /* all but these six is the port's */
	bool is_dirty;           /* changed while it is out */
	uint64_t rest_until_ns;  /* none is made before */
	struct loop_timer timer; /* it could not be made, or is to rest: again */
	struct loop_post post;
	struct mt_volume *volumes; /* a copy, by id */
	uint32_t volume_count;
	struct mt_snapshot *snapshots; /* and by number */
	uint32_t snapshot_count;
	struct mt_data_key *data_keys; /* by id */
	uint32_t data_key_count;
	struct mt_mirror_names names; /* kept from one copy to the next */
	struct mt_cluster cluster;
	bool are_keys_incomplete; /* data keys are not known, or some could not be read: likewise */
	bool is_incomplete;       /* some could not be read: what is missing is not deleted */
	struct mt_edit edits[MT_MIRROR_EDITS_MAX];
	uint32_t edit_count;
	bool takes_back; /* they would take something out of the manifest, or a number back */
	bool is_checked; /* and may: the store is no older than the manifest */
	int rc;
};

/* mt_mirror_init -- a mirror that does nothing before the first kick. Returns 0; -ENOMEM. */
int mt_mirror_init(struct mt_gateway *gateway);
/* mt_mirror_kick -- on main: copy the volumes and snapshots anew, as a table of them has changed. */
void mt_mirror_kick(struct mt_gateway *gateway);
/* mt_mirror_on_shard -- on main: @shard of this gateway is in @state now; only shard 0 matters here. */
void mt_mirror_on_shard(struct mt_gateway *gateway, uint32_t shard, enum mt_shard_state state);
/* mt_mirror_fini -- free the copy. Nobody runs the ports' loops any more. */
void mt_mirror_fini(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_MIRROR_H */
