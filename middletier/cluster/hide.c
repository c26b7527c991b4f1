/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide.c -- the shards are told what no scope shows, though its volume is there (hidden.c)
 *
 *	compare the key "cluster" --> each port: each shard that serves --> all have answered
 *
 * Whatever makes a scope show something puts that key (control_snapshot.c): if it is what it was when the tables
 * were read, nobody has since, and nobody can any more. Shards remember it as long as they serve, so it is told
 * after each reading. Where there is more than is found in a turn, or than a shard remembers, further turns follow:
 * what merges have taken away a shard forgets.
 */
#include "cluster/hide.h"

#include <errno.h>

#include "base/check.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/index_cuts.h"
#include "merge/flush.h"

/* The last act of whoever calls it. */
static void
hide_finish(struct mt_hide *hide, bool is_left)
{
	void (*fn)(bool is_left, void *arg) = hide->fn;

	assert(fn != NULL && hide->left_count == 0);
	hide->fn = NULL;
	fn(is_left, hide->arg);
}

static void
hide_on_leg(struct loop_post *post, void *arg)
{
	struct mt_hide *hide = ((struct mt_hide_leg *)arg)->hide;
	bool is_left = hide->at != 0;

	assert(hide->fn != NULL);
	(void)post;
	assert(hide->left_count > 0);
	if (--hide->left_count > 0)
		return;
	for (uint32_t i = 0; i < hide->gateway->port_count; i++)
		is_left = is_left || hide->legs[i].is_left;
	hide_finish(hide, is_left);
}

static void
hide_on_port(struct loop_post *post, void *arg)
{
	struct mt_hide_leg *leg = arg;
	const struct mt_hide *hide = leg->hide;

	(void)post;
	assert(hide->hidden_count > 0 && hide->hidden_count <= MT_HIDDEN_MAX);
	leg->is_left = false;
	for (uint32_t i = 0; i < leg->port->shard_count; i++) {
		struct mt_shard *shard = &leg->port->shards[i];

		if (shard->sm.state != MT_SHARD_SERVING) {
			leg->is_left = leg->is_left || shard->sm.state != MT_SHARD_IDLE;
			continue;
		}
		if (!mt_index_hide_all(shard->block_index, hide->hidden, hide->hidden_count))
			leg->is_left = true;
		mt_flush_kick(shard);
	}
	leg->post.fn = hide_on_leg;
	loop_post(leg->port->main_loop, &leg->post);
}

static void
hide_on_compared(int rc, void *arg)
{
	struct mt_hide *hide = arg;
	struct mt_gateway *gateway = hide->gateway;

	assert(hide->fn != NULL && hide->left_count == 0);
	/* -EAGAIN: the tables are old, and are being read anew. */
	if (rc != 0 || gateway->sm.state >= MT_GATEWAY_FAILED) {
		hide->at = 0; /* nobody was told */
		hide_finish(hide, rc != -EAGAIN);
		return;
	}
	hide->left_count = gateway->port_count;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct mt_hide_leg *leg = &hide->legs[i];

		leg->hide = hide;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = hide_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
}

bool
mt_hide_start(struct mt_hide *hide, struct mt_gateway *gateway, void (*fn)(bool is_left, void *arg),
    void *arg)
{
	const struct mt_volumes *volumes = &gateway->volumes;
	struct meta *meta = gateway->options.meta;
	const struct meta_op compare = { .kind = META_COMPARE_VERSION,
		.key = "cluster",
		.version = volumes->snapshots.cluster_version };

	assert(hide->fn == NULL && hide->left_count == 0);
	hide->gateway = gateway;
	hide->hidden_count = mt_hidden_find(volumes, &hide->at, hide->hidden, MT_HIDDEN_MAX);
	if (hide->hidden_count == 0 ||
	    meta->ops->txn(meta, &compare, 1, hide_on_compared, hide) != 0) {
		hide->at = 0;
		return false;
	}
	hide->fn = fn;
	hide->arg = arg;
	return true;
}
