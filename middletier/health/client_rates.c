/* SPDX-License-Identifier: Apache-2.0 */
/* client_rates.c -- see client_rates.h */
#include "health/client_rates.h"

#include "base/check.h"

static const struct mt_client_sample *
sample_at(const struct mt_client_rates *rates, uint64_t number)
{
	assert(number < rates->count && number + MT_CLIENT_SAMPLES >= rates->count);
	return &rates->samples[number % MT_CLIENT_SAMPLES];
}

void
mt_client_rates_note(struct mt_client_rates *rates, const struct mt_client_sample *sample)
{
	if (rates->count > 0) {
		const struct mt_client_sample *newest = sample_at(rates, rates->count - 1);

		assert(sample->at_ns >= newest->at_ns);
		if (sample->at_ns - newest->at_ns < MT_CLIENT_STEP_NS)
			return;
	}
	rates->samples[rates->count++ % MT_CLIENT_SAMPLES] = *sample;
}

void
mt_client_rates_grown(const struct mt_client_rates *rates, struct mt_client_sample *ret_grown)
{
	uint64_t kept = num_min(rates->count, MT_CLIENT_SAMPLES), at;
	const struct mt_client_sample *newest, *old;

	*ret_grown = (struct mt_client_sample){ .at_ns = 0 };
	if (kept < 2)
		return;
	newest = sample_at(rates, rates->count - 1);
	at = rates->count - kept;
	while (at < rates->count - 2 &&
	    newest->at_ns - sample_at(rates, at)->at_ns > MT_CLIENT_SPAN_NS)
		at++;
	old = sample_at(rates, at);
	*ret_grown = (struct mt_client_sample){ .at_ns = newest->at_ns - old->at_ns,
		.reads = newest->reads - old->reads,
		.read_bytes = newest->read_bytes - old->read_bytes,
		.writes = newest->writes - old->writes,
		.write_bytes = newest->write_bytes - old->write_bytes };
}
