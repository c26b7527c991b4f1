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
 * compressed harder when its chunk is flushed. A standard volume that wants no compression gets none while
 * its shard's log is short. Where merges have to keep up with what comes, LZ4 is less work than none: the flush
 * would compress the same blocks later, and takes long records as they are instead (HASTE.md); what it reads, and
 * what three nodes write of the log, is half. What looks dense is stored raw there, too.
 *
 * For a volume that asks for "auto", standard and capacity writes go to what auto_engine.c found best, under load with
 * time counting four times, and beyond that to none.
 */
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/volume_table.h"
#include "catalog/wish.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "session/auto_state.h"
#include "write/auto_engine.h"
#include "write/policy.h"

#define POLICY_QUEUE_HIGH 32u /* jobs waiting: about 100 us of LZ4 work for one thread */
#define POLICY_LZ4_LEVEL 1
#define POLICY_LZ4_FAST_LEVEL (-7)
#define POLICY_TIME_WEIGHT_HIGH 4u

enum policy_load { POLICY_LOAD_NORMAL, POLICY_LOAD_HIGH, POLICY_LOAD_EXTREME, POLICY_LOAD_NR };

static const struct mt_policy policy_none = { .codec_id = ENGINE_NONE };
static const struct mt_policy policy_urgent = { .codec_id = ENGINE_NONE, .is_urgent = true };
static const struct mt_policy policy_pressed = { .codec_id = ENGINE_LZ4,
	.level = POLICY_LZ4_LEVEL,
	.probe = ENGINE_PROBE_SKIP };
static const struct mt_policy policy_lz4 = { .codec_id = ENGINE_LZ4, .level = POLICY_LZ4_LEVEL };
static const struct mt_policy policy_lz4_fast = { .codec_id = ENGINE_LZ4,
	.level = POLICY_LZ4_FAST_LEVEL };

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
policy_standard(const struct mt_volume *volume, enum policy_load load, bool is_pressed)
{
	assert(volume->codec_id != MT_CODEC_AUTO);
	if (volume->codec_id == ENGINE_NONE)
		return is_pressed && load == POLICY_LOAD_NORMAL ? policy_pressed : policy_none;
	switch (load) {
	case POLICY_LOAD_NORMAL:
		return (struct mt_policy){ .codec_id = volume->codec_id, .level = volume->level };
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

	assert(volume->codec_id != MT_CODEC_AUTO);
	if (volume->codec_id == ENGINE_ZSTD)
		level = volume->level;
	switch (load) {
	case POLICY_LOAD_NORMAL:
		return (struct mt_policy){ .codec_id = ENGINE_ZSTD, .level = level };
	case POLICY_LOAD_HIGH:
		return policy_lz4;
	default:
		return policy_lz4_fast;
	}
}

static struct mt_policy
policy_auto(struct mt_auto *autos, enum service_class service_class, enum policy_load load)
{
	assert(service_class != SERVICE_LATENCY); /* nobody compresses for it */
	if (load == POLICY_LOAD_EXTREME)
		return policy_none;
	return mt_auto_pick(&autos[service_class], service_class,
	    load == POLICY_LOAD_HIGH ? POLICY_TIME_WEIGHT_HIGH : 1);
}

struct mt_policy
mt_policy_pick(const struct mt_port *port, const struct mt_volume *volume, struct mt_auto *autos,
    enum service_class service_class, bool is_pressed)
{
	enum policy_load load = policy_load_of(port);

	assert(service_class < SERVICE_CLASS_NR);
	if (service_class == SERVICE_LATENCY)
		return policy_urgent;
	if (volume->codec_id == MT_CODEC_AUTO)
		return policy_auto(autos, service_class, load);
	if (service_class == SERVICE_CAPACITY)
		return policy_capacity(volume, load);
	return policy_standard(volume, load, is_pressed);
}

void
mt_policy_learn(const struct mt_volume *volume, struct mt_auto *autos,
    enum service_class service_class, struct engine_job *job)
{
	const char *name;
	int level;

	assert(service_class < SERVICE_CLASS_NR);
	if (!job->must_time || job->rc != 0)
		return;
	job->must_time = false;
	if (!mt_auto_learn(&autos[service_class], service_class, job))
		return;
	name = mt_auto_chosen(&autos[service_class], &level);
	log_limited(LOG_INFO,
	    "volume: engine auto has settled on engine=%s level=%d volume=%" PRIu64 " class=%s",
	    name, level, volume->id, service_class_name(service_class));
}
