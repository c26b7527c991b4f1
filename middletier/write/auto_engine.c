/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_engine.c -- the engine "auto": measures on the writes themselves, and settles
 *
 *	            enough samples of each               its saving changed
 *	MEASURING ------------------------> SETTLED ---------------------------> MEASURING
 *	writes take turns                   nearly all writes go to the best; now and then
 *	among the candidates                one tries another, less and less often
 *
 * What a write costs is the time its engine took and what is stored of it, three times, on its way and
 * on disk. A service class has a price for a byte; the best candidate is the one with the least sum.
 * Every sample is a write that had to be stored anyway, so measuring costs no work of its own, only
 * that some writes are stored in a form that is not the best.
 *
 * Data that nothing compresses must cost nothing. LZ4 goes first, and when it saves nothing, storing
 * raw is settled on at once; from there trials back off. Of a volume that holds both kinds, the
 * engine's probe (engine.h) tells the dense blocks without compressing them. It looks at 128 bytes, so
 * it can be wrong; trials therefore compress whatever it says, and when it is wrong too often for this
 * volume, it is not asked any more.
 *
 * No clock, no randomness: the same writes with the same times give the same choices.
 */

#include "write/auto_engine.h"
#include "base/check.h"
#include "base/num.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "session/auto_state.h"
#include "write/policy.h"

#define AUTO_SAMPLES_MIN 8u      /* of each candidate, before settling */
#define AUTO_SHIFT 3             /* weight of a sample: 1/8 */
#define AUTO_SHIFT_CHOSEN 6      /* of the chosen one, which has many */
#define AUTO_TRIAL_EVERY_MIN 16u /* writes */
#define AUTO_TRIAL_EVERY_MAX 1024u
#define AUTO_MARGIN_SHIFT 5         /* another must be 1/32 better to be taken */
#define AUTO_DRIFT_SHIFT 2          /* the chosen one's saving is another by a quarter */
#define AUTO_SETTLED_COUNT_MIN 512u /* writes before that is looked at */
#define AUTO_WRONG_MAX_X256 32u     /* the probe is wrong once in eight times: do not ask it */
#define AUTO_CLIP 8u                /* a sample counts at most 8 times the average: preemption */

#define BLOCK_X16 (CLEAVE_BLOCK_BYTES * 16u)

#define FOR_STANDARD (1u << SERVICE_STANDARD)
#define FOR_CAPACITY (1u << SERVICE_CAPACITY)

struct candidate {
	uint8_t codec_id;
	int8_t level;
	uint8_t classes;
};

/* The first two have to be these: see mt_auto_learn. */
enum { CANDIDATE_NONE, CANDIDATE_FIRST };
static const struct candidate candidates[MT_AUTO_CANDIDATES] = {
	[CANDIDATE_NONE] = { ENGINE_NONE, 0, FOR_STANDARD | FOR_CAPACITY },
	[CANDIDATE_FIRST] = { ENGINE_LZ4, 1, FOR_STANDARD | FOR_CAPACITY },
	{ ENGINE_SNAPPY, 0, FOR_STANDARD },
	{ ENGINE_DEFLATE, 0, FOR_STANDARD | FOR_CAPACITY },
	{ ENGINE_ZSTD, 1, FOR_STANDARD | FOR_CAPACITY },
	{ ENGINE_ZSTD, 3, FOR_CAPACITY },
};

/*
 * Engine time, in ns, that is worth a stored byte less: it is sent, checked and written three times, and
 * kept. At 12, a block that compresses to half is worth 25 us; LZ4 takes 7 to 13 for it, zstd 17 to 27.
 */
static const uint32_t price_ns[SERVICE_CLASS_NR] = {
	[SERVICE_STANDARD] = 12,
	[SERVICE_CAPACITY] = 64,
};

static bool
candidate_is_for(uint32_t index, enum service_class service_class)
{
	assert(index < MT_AUTO_CANDIDATES);
	return (candidates[index].classes & (1u << service_class)) != 0;
}

static uint32_t
candidate_of(const struct engine_job *job)
{
	for (uint32_t i = 0; i < MT_AUTO_CANDIDATES; i++)
		if (candidates[i].codec_id == job->codec_id && candidates[i].level == job->level)
			return i;
	return CANDIDATE_NONE; /* load made another choice; mt_auto_pick does not */
}

static uint64_t
candidate_cost(const struct mt_auto *self, uint32_t index, enum service_class service_class,
    uint32_t time_weight)
{
	const struct mt_auto_measure *measure = &self->measures[index];

	assert(index < MT_AUTO_CANDIDATES);
	assert(time_weight > 0);
	return (uint64_t)measure->block_ns_x16 * time_weight +
	    (uint64_t)measure->stored_bytes_x16 * price_ns[service_class];
}

static uint32_t
best_candidate(const struct mt_auto *self, enum service_class service_class, uint32_t time_weight,
    uint32_t best)
{
	uint64_t best_cost = candidate_cost(self, best, service_class, time_weight);

	assert(best < MT_AUTO_CANDIDATES);
	best_cost -= best_cost >> AUTO_MARGIN_SHIFT; /* what is in place stays, for a little less */
	for (uint32_t i = 0; i < MT_AUTO_CANDIDATES; i++) {
		uint64_t cost = candidate_cost(self, i, service_class, time_weight);

		if (!candidate_is_for(i, service_class) || self->measures[i].sample_count == 0)
			continue;
		if (cost < best_cost) {
			best_cost = cost;
			best = i;
		}
	}
	return best;
}

static bool
probe_is_trusted(const struct mt_auto *self)
{
	return self->wrong_x256 <= AUTO_WRONG_MAX_X256;
}

/* ---- which ---- */

/* The first that has too few samples; MT_AUTO_CANDIDATES: none. */
static uint32_t
candidate_unknown(const struct mt_auto *self, enum service_class service_class)
{
	for (uint32_t i = 0; i < MT_AUTO_CANDIDATES; i++)
		if (candidate_is_for(i, service_class) &&
		    self->measures[i].sample_count < AUTO_SAMPLES_MIN)
			return i;
	return MT_AUTO_CANDIDATES;
}

/* The next one round that is not the chosen one. */
static uint32_t
candidate_to_try(struct mt_auto *self, enum service_class service_class)
{
	assert(self->is_settled);
	do
		self->trial = (uint8_t)((self->trial + 1) % MT_AUTO_CANDIDATES);
	while (self->trial == self->chosen || self->trial == CANDIDATE_NONE ||
	    !candidate_is_for(self->trial, service_class));
	return self->trial;
}

struct mt_policy
mt_auto_pick(struct mt_auto *self, enum service_class service_class, uint32_t time_weight)
{
	enum engine_probe probe = ENGINE_PROBE_REPORT;
	uint32_t index;

	assert(price_ns[service_class] > 0);
	assert(time_weight > 0);
	if (!self->is_settled) {
		index = candidate_unknown(self, service_class);
		/* All have been sent, but not all have come back: more of the first. */
		if (index == MT_AUTO_CANDIDATES)
			index = CANDIDATE_FIRST;
	} else if (self->trial_left_count == 0) {
		self->trial_left_count = self->trial_every_count;
		index = candidate_to_try(self, service_class);
	} else {
		self->trial_left_count--;
		index = self->chosen;
		if (time_weight > 1)
			index = best_candidate(self, service_class, time_weight, index);
		probe = index != CANDIDATE_NONE && probe_is_trusted(self) ? ENGINE_PROBE_SKIP
									  : ENGINE_PROBE_NONE;
	}
	return (struct mt_policy){
		.codec_id = candidates[index].codec_id,
		.level = candidates[index].level,
		.is_auto = true,
		.probe = probe,
	};
}

/* ---- what came of it ---- */

static uint32_t
average(uint32_t before_x16, uint64_t sample_x16, int shift)
{
	int64_t step = (int64_t)sample_x16 - before_x16;

	assert(shift > 0);
	return (uint32_t)(before_x16 + step / (1 << shift));
}

static void
measure_add(struct mt_auto_measure *measure, uint64_t ns_x16, uint64_t stored_x16, int shift)
{
	ns_x16 = num_min(ns_x16, UINT32_MAX / AUTO_CLIP);
	if (measure->sample_count == 0) {
		measure->block_ns_x16 = (uint32_t)ns_x16;
		measure->stored_bytes_x16 = (uint32_t)stored_x16;
	} else {
		ns_x16 = num_min(ns_x16, (uint64_t)measure->block_ns_x16 * AUTO_CLIP + 16);
		measure->block_ns_x16 = average(measure->block_ns_x16, ns_x16, shift);
		measure->stored_bytes_x16 = average(measure->stored_bytes_x16, stored_x16, shift);
	}
	if (measure->sample_count < UINT32_MAX)
		measure->sample_count++;
}

static void
settle(struct mt_auto *self, uint32_t index)
{
	assert(index < MT_AUTO_CANDIDATES);
	self->is_settled = true;
	self->chosen = (uint8_t)index;
	self->trial_every_count = AUTO_TRIAL_EVERY_MIN;
	self->trial_left_count = AUTO_TRIAL_EVERY_MIN;
	self->settled_stored_x16 = self->measures[index].stored_bytes_x16;
	self->settled_write_count = 0;
}

/* The content is another: what was measured says nothing any more. */
static void
start_over(struct mt_auto *self)
{
	uint16_t wrong_x256 = self->wrong_x256;

	assert(self->is_settled);
	*self = (struct mt_auto){ .wrong_x256 = wrong_x256, .chosen = self->chosen };
}

static bool
has_drifted(const struct mt_auto *self)
{
	uint32_t now_x16 = self->measures[self->chosen].stored_bytes_x16;
	uint32_t then_x16 = self->settled_stored_x16;
	uint32_t difference_x16 = now_x16 > then_x16 ? now_x16 - then_x16 : then_x16 - now_x16;

	assert(self->is_settled);
	return self->settled_write_count >= AUTO_SETTLED_COUNT_MIN &&
	    difference_x16 > then_x16 >> AUTO_DRIFT_SHIFT;
}

/* True: settled just now. */
static bool
learn_measuring(struct mt_auto *self, enum service_class service_class, uint32_t index)
{
	const struct mt_auto_measure *first = &self->measures[CANDIDATE_FIRST];

	assert(!self->is_settled);
	if (index == CANDIDATE_FIRST && first->sample_count == AUTO_SAMPLES_MIN &&
	    first->stored_bytes_x16 > BLOCK_X16 - BLOCK_X16 / 16) {
		settle(self, CANDIDATE_NONE); /* trials will find what another saves */
		return true;
	}
	if (candidate_unknown(self, service_class) != MT_AUTO_CANDIDATES)
		return false;
	settle(self, best_candidate(self, service_class, 1, CANDIDATE_NONE));
	return true;
}

/* True: another one is chosen. */
static bool
learn_trial(struct mt_auto *self, enum service_class service_class, bool has_saved)
{
	uint32_t best = best_candidate(self, service_class, 1, self->chosen);

	assert(self->is_settled);
	if (best != self->chosen) {
		settle(self, best);
		return true;
	}
	self->trial_every_count = self->chosen == CANDIDATE_NONE && has_saved
	    ? AUTO_TRIAL_EVERY_MIN
	    : (uint32_t)num_min(2u * self->trial_every_count, AUTO_TRIAL_EVERY_MAX);
	self->trial_left_count = (uint32_t)num_min(self->trial_left_count, self->trial_every_count);
	return false;
}

/* The probe is judged where it had something to say and the engine ran all the same. */
static void
learn_probe(struct mt_auto *self, const struct engine_job *job, bool has_saved)
{
	if (job->probe == ENGINE_PROBE_REPORT && job->is_dense && job->codec_id != ENGINE_NONE)
		self->wrong_x256 =
		    (uint16_t)average(self->wrong_x256, has_saved ? 256 : 0, AUTO_SHIFT);
}

bool
mt_auto_learn(struct mt_auto *self, enum service_class service_class, const struct engine_job *job)
{
	uint32_t index = candidate_of(job), block_count = job->block_count;
	bool has_saved = job->dst_bytes < job->src_bytes;
	bool was_trial = job->probe == ENGINE_PROBE_REPORT;
	uint64_t ns_x16;
	int shift = !was_trial && index == self->chosen ? AUTO_SHIFT_CHOSEN : AUTO_SHIFT;

	assert(job->rc == 0);
	assert(block_count > 0);
	assert(price_ns[service_class] > 0);
	ns_x16 = job->run_ns * 16 / block_count;
	if (job->is_zero)
		return false; /* no engine saw it */
	learn_probe(self, job, has_saved);
	/* A block that the probe would leave out next time costs an engine nothing. */
	if (was_trial && job->is_dense && !has_saved && probe_is_trusted(self))
		ns_x16 = self->measures[CANDIDATE_NONE].block_ns_x16;
	measure_add(&self->measures[index], ns_x16, (uint64_t)job->dst_bytes * 16 / block_count,
	    shift);
	if (!self->is_settled)
		return learn_measuring(self, service_class, index);
	if (was_trial)
		return learn_trial(self, service_class, has_saved);
	self->settled_write_count++;
	if (has_drifted(self))
		start_over(self);
	return false;
}

const char *
mt_auto_chosen(const struct mt_auto *self, int *ret_level)
{
	uint32_t index = self->is_settled ? self->chosen : CANDIDATE_NONE;

	*ret_level = candidates[index].level;
	return engine_by_id(candidates[index].codec_id)->name;
}
