/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.c -- which engine compresses a write, how hard, and whether it goes ahead of others
 *
 * By the message's service class, its volume's wish, and the jobs that wait for the port's engine
 * threads (an inline set has none waiting):
 *
 *	class      fewer than HIGH wait      HIGH to 2 x HIGH          more
 *	latency    none, urgent              none, urgent              none, urgent
 *	standard   the volume's engine       lz4, fast                 none
 *	capacity   zstd, the volume's level  lz4                       lz4, fast
 *
 * Under load the engines give up ratio for rate, step by step; what was stored raw or quickly is
 * compressed harder when its chunk is flushed. A standard volume that wants no compression never
 * gets any.
 */
#include "base/check.h"
#include "internal.h"

#define POLICY_QUEUE_HIGH 32u /* jobs waiting: about 100 us of LZ4 work for one thread */
#define POLICY_LZ4_LEVEL 1
#define POLICY_LZ4_FAST_LEVEL (-7)

enum policy_load { POLICY_LOAD_NORMAL, POLICY_LOAD_HIGH, POLICY_LOAD_EXTREME, POLICY_LOAD_NR };

static const struct mt_policy policy_none = { ENGINE_NONE, 0, false };
static const struct mt_policy policy_urgent = { ENGINE_NONE, 0, true };
static const struct mt_policy policy_lz4 = { ENGINE_LZ4, POLICY_LZ4_LEVEL, false };
static const struct mt_policy policy_lz4_fast = { ENGINE_LZ4, POLICY_LZ4_FAST_LEVEL, false };

static enum policy_load
policy_load_of(const struct mt_port *port)
{
	uint32_t queued_count;

	if (port->engines == NULL)
		return POLICY_LOAD_NORMAL;
	queued_count = engine_set_queued_count(port->engines);
	if (queued_count >= 2 * POLICY_QUEUE_HIGH)
		return POLICY_LOAD_EXTREME;
	return queued_count >= POLICY_QUEUE_HIGH ? POLICY_LOAD_HIGH : POLICY_LOAD_NORMAL;
}

static struct mt_policy
policy_standard(const struct mt_volume *volume, enum policy_load load)
{
	if (volume->codec_id == ENGINE_NONE)
		return policy_none;
	switch (load) {
	case POLICY_LOAD_NORMAL:
		return (struct mt_policy){ volume->codec_id, volume->level, false };
	case POLICY_LOAD_HIGH:
		return policy_lz4_fast;
	default:
		return policy_none;
	}
}

static struct mt_policy
policy_capacity(const struct mt_volume *volume, enum policy_load load)
{
	int level = engine_by_id(ENGINE_ZSTD)->level_default;

	if (volume->codec_id == ENGINE_ZSTD)
		level = volume->level;
	switch (load) {
	case POLICY_LOAD_NORMAL:
		return (struct mt_policy){ ENGINE_ZSTD, level, false };
	case POLICY_LOAD_HIGH:
		return policy_lz4;
	default:
		return policy_lz4_fast;
	}
}

struct mt_policy
mt_policy_pick(const struct mt_port *port, const struct mt_volume *volume,
    enum service_class service_class)
{
	enum policy_load load = policy_load_of(port);

	assert(service_class < SERVICE_CLASS_NR);
	if (service_class == SERVICE_LATENCY)
		return policy_urgent;
	if (service_class == SERVICE_CAPACITY)
		return policy_capacity(volume, load);
	return policy_standard(volume, load);
}
