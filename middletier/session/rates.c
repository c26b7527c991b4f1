/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c -- what a port has answered of each volume: a table that is searched when a session comes, never by requests */
#include "session/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "common/alloc.h"
#include "common/port.h"

struct mt_rates {
	struct mt_rate *rows; /* MT_RATES_MAX; NULL: no memory */
	uint32_t row_count;   /* in use */
	struct mt_rate other;
};

void
mt_rates_init(struct mt_port *port)
{
	assert(port->rates == NULL);
	port->rates = mt_calloc(1, sizeof(*port->rates));
	if (port->rates != NULL)
		port->rates->rows = mt_calloc(MT_RATES_MAX, sizeof(struct mt_rate));
}

void
mt_rates_fini(struct mt_port *port)
{
	if (port->rates != NULL)
		mt_free(port->rates->rows);
	mt_free(port->rates);
	port->rates = NULL;
}

/* A row for a name that has none; NULL: sessions hold all. What gives way is counted with others from now on. */
static struct mt_rate *
row_make(struct mt_rates *rates)
{
	struct mt_rate *oldest = NULL;

	assert(rates->row_count <= MT_RATES_MAX);
	if (rates->rows == NULL)
		return NULL;
	if (rates->row_count < MT_RATES_MAX)
		return &rates->rows[rates->row_count++];
	for (uint32_t i = 0; i < MT_RATES_MAX; i++) {
		struct mt_rate *row = &rates->rows[i];

		if (row->session_count == 0 && (oldest == NULL || row->used_ns < oldest->used_ns))
			oldest = row;
	}
	if (oldest != NULL) {
		mt_rate_sum(&rates->other, oldest);
		*oldest = (struct mt_rate){ .used_ns = 0 };
	}
	return oldest;
}

static struct mt_rate *
row_of(struct mt_rates *rates, const char *name)
{
	for (uint32_t i = 0; i < rates->row_count; i++) {
		if (strcmp(rates->rows[i].name, name) == 0)
			return &rates->rows[i];
	}
	return NULL;
}

struct mt_rate *
mt_rate_hold(struct mt_port *port, const char *name, uint64_t now_ns)
{
	struct mt_rates *rates = port->rates;
	struct mt_rate *row;

	if (rates == NULL)
		return NULL;
	row = name[0] == '\0' ? &rates->other : row_of(rates, name);
	if (row == NULL) {
		row = row_make(rates);
		if (row != NULL)
			(void)snprintf(row->name, sizeof(row->name), "%s", name);
		else
			row = &rates->other;
	}
	row->session_count++;
	row->used_ns = now_ns;
	return row;
}

void
mt_rate_drop(struct mt_rate *rate)
{
	if (rate == NULL)
		return;
	assert(rate->session_count > 0);
	rate->session_count--;
}

static void
rate_use(struct mt_rate *rate, uint64_t now_ns, uint64_t count)
{
	rate->used_ns = now_ns;
	if (now_ns - rate->window_ns >= MT_RATE_WINDOW_NS) {
		rate->before_requests =
		    now_ns - rate->window_ns < 2 * MT_RATE_WINDOW_NS ? rate->window_requests : 0;
		rate->window_requests = 0;
		rate->window_ns = now_ns;
	}
	rate->window_requests += count;
}

void
mt_rate_add(struct mt_rate *rate, enum mt_rate_op op, uint64_t now_ns, uint64_t took_ns,
    uint64_t bytes, int rc)
{
	struct mt_rate_count *count;

	assert(op < MT_RATE_OP_NR && rc <= 0);
	if (rate == NULL)
		return;
	count = &rate->counts[op];
	count->requests++;
	count->took_ns += took_ns;
	if (rc == 0)
		count->bytes += bytes;
	else
		count->errors++;
	rate_use(rate, now_ns, 1);
}

void
mt_rate_add_direct(struct mt_rate *rate, uint64_t now_ns, uint64_t count, uint64_t bytes)
{
	if (rate == NULL || count == 0)
		return;
	rate->direct_reads += count;
	rate->direct_bytes += bytes;
	rate_use(rate, now_ns, count);
}

uint64_t
mt_rate_busy(const struct mt_rate *rate, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - num_min(rate->window_ns, now_ns);

	if (age_ns >= 2 * MT_RATE_WINDOW_NS)
		return 0;
	return rate->window_requests + (age_ns < MT_RATE_WINDOW_NS ? rate->before_requests : 0);
}

void
mt_rate_add_wait(struct mt_rate *rate, uint64_t held_ns)
{
	if (rate == NULL)
		return;
	rate->held++;
	rate->held_ns += held_ns;
}

void
mt_rate_sum(struct mt_rate *rate, const struct mt_rate *from)
{
	for (uint32_t i = 0; i < MT_RATE_OP_NR; i++) {
		rate->counts[i].requests += from->counts[i].requests;
		rate->counts[i].errors += from->counts[i].errors;
		rate->counts[i].bytes += from->counts[i].bytes;
		rate->counts[i].took_ns += from->counts[i].took_ns;
	}
	rate->direct_reads += from->direct_reads;
	rate->direct_bytes += from->direct_bytes;
	rate->held += from->held;
	rate->held_ns += from->held_ns;
	rate->window_requests += from->window_requests;
	rate->before_requests += from->before_requests;
}

int
mt_rate_order(const void *a, const void *b)
{
	const struct mt_rate *first = a, *second = b;
	uint64_t first_busy = first->window_requests + first->before_requests;
	uint64_t second_busy = second->window_requests + second->before_requests;

	if (first_busy != second_busy)
		return first_busy > second_busy ? -1 : 1;
	return strcmp(first->name, second->name);
}

struct mt_rate *
mt_rates_take(const struct mt_port *port, uint64_t now_ns, uint32_t max, uint32_t *ret_count)
{
	const struct mt_rates *rates = port->rates;
	struct mt_rate *copies, other;
	uint32_t count;

	*ret_count = 0;
	if (rates == NULL)
		return NULL;
	count = rates->row_count;
	copies = mt_calloc(count + 1, sizeof(*copies));
	if (copies == NULL)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		copies[i] = rates->rows[i];
		/* Compared from here on by this alone: windows of ports do not begin together. */
		copies[i].window_requests = mt_rate_busy(&rates->rows[i], now_ns);
		copies[i].before_requests = 0;
	}
	qsort(copies, count, sizeof(*copies), mt_rate_order);
	other = rates->other;
	for (uint32_t i = max; i < count; i++)
		mt_rate_sum(&other, &copies[i]);
	count = (uint32_t)num_min(count, max);
	copies[count] = other;
	*ret_count = count + 1;
	return copies;
}
