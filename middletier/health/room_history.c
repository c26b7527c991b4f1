/* SPDX-License-Identifier: Apache-2.0 */
/* room_history.c -- see room_history.h: a sample in five minutes is kept, and what a rate is of lies between two */
#include "health/room_history.h"

#include "base/check.h"

static const struct mt_room_sample *
history_at(const struct mt_room_history *history, uint32_t index)
{
	assert(index < history->count);
	return &history->samples[(history->first + index) % MT_ROOM_SAMPLES];
}

void
mt_room_history_note(struct mt_room_history *history, const struct mt_room_sample *sample)
{
	assert(sample->at_ns > 0);
	assert(sample->at_ns >= history->newest.at_ns);
	history->newest = *sample;
	if (history->count > 0 &&
	    sample->at_ns - history_at(history, history->count - 1)->at_ns < MT_ROOM_STEP_NS)
		return;
	if (history->count == MT_ROOM_SAMPLES) {
		history->first = (history->first + 1) % MT_ROOM_SAMPLES;
		history->count--;
	}
	history->samples[(history->first + history->count) % MT_ROOM_SAMPLES] = *sample;
	history->count++;
}

/* The oldest sample that is not older than @span_ns; there is always one. */
static const struct mt_room_sample *
history_since(const struct mt_room_history *history, uint64_t span_ns)
{
	uint32_t index = 0;

	assert(history->count > 0);
	while (index + 1 < history->count &&
	    history->newest.at_ns - history_at(history, index)->at_ns > span_ns)
		index++;
	return history_at(history, index);
}

void
mt_room_history_rates(const struct mt_room_history *history, struct mt_room_rates *ret_rates)
{
	const struct mt_room_sample *newest = &history->newest, *hour, *day;

	*ret_rates = (struct mt_room_rates){ .hour_ns = 0 };
	if (history->count == 0)
		return;
	hour = history_since(history, MT_ROOM_HOUR_NS);
	day = history_at(history, 0);
	*ret_rates = (struct mt_room_rates){
		.hour_ns = newest->at_ns - hour->at_ns,
		.hour_write_bytes = newest->write_bytes - hour->write_bytes,
		.hour_stored_bytes = newest->stored_bytes - hour->stored_bytes,
		.day_ns = newest->at_ns - day->at_ns,
		.day_gain_bytes = (int64_t)(newest->used_bytes - day->used_bytes),
	};
}
