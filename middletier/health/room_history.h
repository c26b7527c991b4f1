/* SPDX-License-Identifier: Apache-2.0 */
/* room_history.h -- how room was used lately: what a gateway has seen since it started, for a day at most */
#ifndef CLEAVE_MIDDLETIER_HEALTH_ROOM_HISTORY_H
#define CLEAVE_MIDDLETIER_HEALTH_ROOM_HISTORY_H

#include <stdint.h>

#include "base/num.h"

#define MT_ROOM_STEP_NS NUM_S(300) /* between two samples that are kept */
#define MT_ROOM_SAMPLES 289u       /* a day of them, and the one that it began with */
#define MT_ROOM_HOUR_NS NUM_S(3600)

/* A sample: what a look has found. */
struct mt_room_sample {
	uint64_t at_ns;
	uint64_t used_bytes;                /* of the room for data, by the whole cluster */
	uint64_t write_bytes, stored_bytes; /* of clients, at this gateway, since it started */
};

/* A ring, oldest first from @first on; all zeros is empty. */
struct mt_room_history {
	struct mt_room_sample samples[MT_ROOM_SAMPLES];
	uint32_t first, count;
	struct mt_room_sample newest; /* of the last look, kept or not; at_ns 0: none */
};

/* Rates: what lies between samples. */
struct mt_room_rates {
	/* Up to the last hour, less where the gateway has not run so long. hour_ns 0: nothing is known. */
	uint64_t hour_ns, hour_write_bytes, hour_stored_bytes;
	uint64_t day_ns;        /* up to the last day */
	int64_t day_gain_bytes; /* more in use at its end than at its beginning; below 0: less */
};

/* mt_room_history_note -- @sample is the newest; time does not go back. */
void mt_room_history_note(struct mt_room_history *history, const struct mt_room_sample *sample);
void mt_room_history_rates(const struct mt_room_history *history, struct mt_room_rates *ret_rates);

#endif /* CLEAVE_MIDDLETIER_HEALTH_ROOM_HISTORY_H */
