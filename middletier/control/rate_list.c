/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rate_list.c -- the busiest volumes of a gateway
 *
 * A port tells its own busiest, so a volume that is the hundred and first at each of many ports is counted with others.
 */
#include "control/rate_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/volume_table.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "port/port_status.h"
#include "session/rates.h"

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct mt_rate *)a)->name, ((const struct mt_rate *)b)->name);
}

/* A row of a volume that was deleted, or has another name now, and that nobody has open. */
static bool
is_of_nothing(const struct mt_ask *ask, const struct mt_rate *rate)
{
	char name[MT_NAME_BYTES];

	if (rate->name[0] == '\0' || rate->session_count > 0)
		return false;
	(void)snprintf(name, sizeof(name), "%s", rate->name);
	name[strcspn(name, "@")] = '\0';
	return mt_volumes_by_name(&ask->gateway->volumes, name) == NULL;
}

/* All that ports have told, in any order, of volumes that are there. */
static uint32_t
gather(const struct mt_ask *ask, struct mt_rate *rates)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->rates != NULL && k < status->rate_count; k++)
			if (!is_of_nothing(ask, &status->rates[k]))
				rates[count++] = status->rates[k];
	}
	return count;
}

/* A row for each name, in its order: that without a name is the first. Returns how many. */
static uint32_t
add_up(struct mt_rate *rates, uint32_t count)
{
	uint32_t kept = 0;

	qsort(rates, count, sizeof(*rates), by_name);
	for (uint32_t i = 0; i < count; i++) {
		if (kept > 0 && by_name(&rates[kept - 1], &rates[i]) == 0)
			mt_rate_sum(&rates[kept - 1], &rates[i]);
		else
			rates[kept++] = rates[i];
	}
	return kept;
}

struct mt_rate *
mt_rate_list(const struct mt_ask *ask, uint32_t max, uint32_t *ret_count)
{
	uint32_t count = 0, told;
	struct mt_rate *rates, other;

	*ret_count = 0;
	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		count += ask->legs[i].status.rate_count;
	if (count == 0)
		return NULL;
	rates = mt_calloc(count, sizeof(*rates));
	if (rates == NULL)
		return NULL;
	count = add_up(rates, gather(ask, rates));
	assert(count > 0 && rates[0].name[0] == '\0');
	other = rates[0];
	count--;
	memmove(&rates[0], &rates[1], count * sizeof(*rates));
	qsort(rates, count, sizeof(*rates), mt_rate_order);
	told = (uint32_t)num_min(count, max);
	for (uint32_t i = told; i < count; i++)
		mt_rate_sum(&other, &rates[i]);
	rates[told] = other;
	*ret_count = told + 1;
	return rates;
}
