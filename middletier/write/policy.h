/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h -- which engine compresses a write: the choice (policy.c), and the engine "auto" that
 * measures before it chooses (auto_engine.c)
 */
#ifndef CLEAVE_MIDDLETIER_WRITE_POLICY_H
#define CLEAVE_MIDDLETIER_WRITE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/engine.h"
#include "cleave/wire.h"

struct mt_auto;
struct mt_port;
struct mt_volume;

/* The decision about a write. */
struct mt_policy {
	uint8_t codec_id;
	int level;
	bool is_urgent;
	bool is_auto;            /* mt_auto_learn wants to hear of it */
	enum engine_probe probe; /* may the engine leave out what does not look compressible? */
};

/*
 * mt_policy_pick -- from the volume's wish, the message's service class and the port's load
 *
 * @autos: what is known of this volume, SERVICE_CLASS_NR of them; looked at for MT_CODEC_AUTO alone. @is_pressed: the
 * shard's log has become long (PACE_COMPRESS); looked at for volumes without a codec alone.
 */
struct mt_policy mt_policy_pick(const struct mt_port *port, const struct mt_volume *volume,
    struct mt_auto *autos, enum service_class service_class, bool is_pressed);

/* mt_policy_learn -- @job, a STORE that was chosen above, has run; once, and cheap unless it was auto. */
void mt_policy_learn(const struct mt_volume *volume, struct mt_auto *autos,
    enum service_class service_class, struct engine_job *job);

#endif /* CLEAVE_MIDDLETIER_WRITE_POLICY_H */
