/* SPDX-License-Identifier: Apache-2.0 */
/* client_rates.h -- what clients read and wrote at this gateway in the last ten seconds, as its looks have seen it */
#ifndef CLEAVE_MIDDLETIER_HEALTH_CLIENT_RATES_H
#define CLEAVE_MIDDLETIER_HEALTH_CLIENT_RATES_H

#include <stdint.h>

#include "base/num.h"

#define MT_CLIENT_STEP_NS NUM_MS(900) /* between two samples that are kept, at least */
#define MT_CLIENT_SPAN_NS NUM_S(10)
#define MT_CLIENT_SAMPLES 16u

/* A sample: counters of all ports. As the answer: by how much they have grown in at_ns. */
struct mt_client_sample {
	uint64_t at_ns;
	uint64_t reads, read_bytes, writes, write_bytes;
};

/* A ring; all zeros is empty. */
struct mt_client_rates {
	struct mt_client_sample samples[MT_CLIENT_SAMPLES];
	uint64_t count; /* that were kept: the n-th lies at n modulo MT_CLIENT_SAMPLES */
};

/* mt_client_rates_note -- @sample is the newest; neither time nor counters go back. */
void mt_client_rates_note(struct mt_client_rates *rates, const struct mt_client_sample *sample);
/* mt_client_rates_grown -- up to the last MT_CLIENT_SPAN_NS; at_ns 0: two looks have not been kept yet. */
void mt_client_rates_grown(const struct mt_client_rates *rates, struct mt_client_sample *ret_grown);

#endif /* CLEAVE_MIDDLETIER_HEALTH_CLIENT_RATES_H */
