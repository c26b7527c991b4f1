/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h -- which engine compresses a write: the choice (policy.c), and the engine "auto" that
 * measures before it chooses (auto_engine.c)
 */
#ifndef CLEAVE_MIDDLETIER_POLICY_H
#define CLEAVE_MIDDLETIER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/engine.h"
#include "cleave/wire.h"

struct mt_port;
struct mt_volume;

/* A volume's codec_id: no codec of its own, and in no record. */
#define MT_CODEC_AUTO 255u

/* ---- auto_engine.c: time and saving of each engine, of one volume and service class ---- */

#define MT_AUTO_CANDIDATES 6u

struct mt_auto_measure {
	uint32_t sample_count;
	uint32_t block_ns_x16;     /* moving average: time a block */
	uint32_t stored_bytes_x16; /* moving average: what is stored of a block */
};

/* All zeros: nothing known yet. */
struct mt_auto {
	struct mt_auto_measure measures[MT_AUTO_CANDIDATES];
	bool is_settled;
	uint8_t chosen;               /* candidate; when settled */
	uint8_t trial;                /* candidate that was tried last */
	uint16_t wrong_x256;          /* how often the probe was wrong: moving average */
	uint32_t trial_left_count;    /* writes before the next trial */
	uint32_t trial_every_count;   /* doubles while trials change nothing */
	uint32_t settled_stored_x16;  /* of the chosen one, when it was */
	uint32_t settled_write_count; /* since then */
};

/* What is to become of one write. */
struct mt_policy {
	uint8_t codec_id;
	int level;
	bool is_urgent;
	bool is_auto;            /* mt_auto_learn wants to hear of it */
	enum engine_probe probe; /* may the engine leave out what does not look compressible? */
};

/* mt_auto_pick -- for the next write. @time_weight: what time counts; 1 when there is enough of it. */
struct mt_policy mt_auto_pick(struct mt_auto *auto_engine, enum service_class service_class,
    uint32_t time_weight);
/*
 * mt_auto_learn -- a STORE that mt_auto_pick chose has run
 *
 * @job: as it came back, with codec_id, level and probe as they went, and run_ns. Returns: true when
 * another engine than before is settled on; mt_auto_chosen says which.
 */
bool mt_auto_learn(struct mt_auto *auto_engine, enum service_class service_class,
    const struct engine_job *job);
/* mt_auto_chosen -- what is settled on: "lz4", or "none" while nothing is. */
const char *mt_auto_chosen(const struct mt_auto *auto_engine, int *ret_level);

/* ---- policy.c ---- */

/*
 * mt_policy_pick -- from the volume's wish, the message's service class and the port's load
 *
 * @autos: what is known of this volume, SERVICE_CLASS_NR of them; looked at for MT_CODEC_AUTO alone.
 */
struct mt_policy mt_policy_pick(const struct mt_port *port, const struct mt_volume *volume,
    struct mt_auto *autos, enum service_class service_class);

/* mt_policy_learn -- @job, a STORE that was chosen above, has run; once, and cheap unless it was auto. */
void mt_policy_learn(const struct mt_volume *volume, struct mt_auto *autos,
    enum service_class service_class, struct engine_job *job);

/* What a volume may ask for: an engine, or auto. */
struct mt_wish {
	const char *name;
	uint8_t codec_id;
	int level_min, level_max, level_default;
};
/* mt_wish_by_name, mt_wish_by_id -- false: there is none, and *@ret_wish is untouched. */
bool mt_wish_by_name(const char *name, struct mt_wish *ret_wish);
bool mt_wish_by_id(uint8_t codec_id, struct mt_wish *ret_wish);

#endif /* CLEAVE_MIDDLETIER_POLICY_H */
