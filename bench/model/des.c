/* SPDX-License-Identifier: Apache-2.0 */
/* des.c -- a closed queueing network, event by event; see des.h */
#include "des.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/num.h"

#define WARMUP_SHARE 5u /* a fifth of the requests come before what is counted */

struct request {
	uint32_t route, step, server;
	uint64_t begin_ps;
	double stored_bytes;
	struct request *next; /* in a station's queue */
};

struct queue {
	struct request *head, **tail;
	bool is_busy[DES_SERVERS_MAX];
};

struct event {
	uint64_t at_ps, sequence;
	struct request *request;
};

struct run {
	struct des *des;
	struct request *requests;
	struct queue *queues;
	struct event *heap;
	uint32_t event_count;
	uint64_t now_ps, sequence, random;
	uint64_t done_count, warm_count, wanted_count, warm_ps;
	uint64_t *latencies_ps;
};

static void *
must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

/* 0 <= result < 1 */
static double
chance(struct run *run)
{
	run->random += UINT64_C(0x9e3779b97f4a7c15);
	return (double)(num_mix_u64(run->random) >> 11) / (double)(UINT64_C(1) << 53);
}

/* ---- events, the earliest first, then in the order they were made ---- */

static bool
event_before(const struct event *a, const struct event *b)
{
	return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->sequence < b->sequence;
}

static void
event_push(struct run *run, uint64_t delay_ps, struct request *request)
{
	struct event event = { run->now_ps + delay_ps, run->sequence++, request };
	uint32_t at = run->event_count++;

	while (at > 0 && event_before(&event, &run->heap[(at - 1) / 2])) {
		run->heap[at] = run->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	run->heap[at] = event;
}

static struct event
event_pop(struct run *run)
{
	struct event first = run->heap[0], last = run->heap[--run->event_count];
	uint32_t at = 0;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < run->event_count &&
		    event_before(&run->heap[child + 1], &run->heap[child]))
			child++;
		if (child >= run->event_count || !event_before(&run->heap[child], &last))
			break;
		run->heap[at] = run->heap[child];
		at = child;
	}
	run->heap[at] = last;
	return first;
}

/* ---- steps ---- */

static const struct des_step *
step_of(const struct run *run, const struct request *request)
{
	return &run->des->routes[request->route].steps[request->step];
}

static uint64_t
step_ps(struct run *run, const struct request *request, const struct des_step *step, double speed,
    double *ret_bytes)
{
	double bytes = step->fixed_bytes + step->stored_times * request->stored_bytes;
	double ns = step->ns * (1 + step->spread * (2 * chance(run) - 1));

	*ret_bytes = bytes;
	if (step->station >= 0 && run->des->stations[step->station].gbps > 0)
		ns += bytes * 8 / run->des->stations[step->station].gbps;
	return (uint64_t)(ns * 1000 / speed);
}

/* The fastest free server; -1: none. */
static int
server_free(const struct des_station *station, const struct queue *queue)
{
	int best = -1;

	for (uint32_t i = 0; i < station->server_count; i++)
		if (!queue->is_busy[i] && (best < 0 || station->speeds[i] > station->speeds[best]))
			best = (int)i;
	return best;
}

static void
serve(struct run *run, struct request *request, int server)
{
	const struct des_step *step = step_of(run, request);
	struct des_station *station = &run->des->stations[step->station];
	double bytes;
	uint64_t ps = step_ps(run, request, step, station->speeds[server], &bytes);

	run->queues[step->station].is_busy[server] = true;
	request->server = (uint32_t)server;
	if (run->done_count >= run->warm_count) {
		station->bytes += bytes;
		station->busy_ps += (double)ps;
	}
	event_push(run, ps, request);
}

static void
step_begin(struct run *run, struct request *request)
{
	const struct des_step *step = step_of(run, request);
	struct queue *queue;
	double bytes;
	int server;

	if (step->station < 0) {
		event_push(run, step_ps(run, request, step, 1, &bytes), request);
		return;
	}
	queue = &run->queues[step->station];
	server = server_free(&run->des->stations[step->station], queue);
	if (server >= 0) {
		serve(run, request, server);
		return;
	}
	request->next = NULL;
	*queue->tail = request;
	queue->tail = &request->next;
}

static void
request_begin(struct run *run, struct request *request)
{
	double share = run->des->stored_share, half = share < 0.5 ? share * 0.8 : (1 - share) * 0.8;

	request->step = 0;
	request->begin_ps = run->now_ps;
	/* Blocks compress differently: uniform round the mean. */
	request->stored_bytes = run->des->block_bytes * (share - half + 2 * half * chance(run));
	step_begin(run, request);
}

static void
request_done(struct run *run, struct request *request)
{
	if (run->done_count >= run->warm_count)
		run->latencies_ps[run->done_count - run->warm_count] = run->now_ps -
		    request->begin_ps;
	run->done_count++;
	if (run->done_count == run->warm_count)
		run->warm_ps = run->now_ps;
	request_begin(run, request);
}

static void
step_done(struct run *run, struct request *request)
{
	const struct des_step *step = step_of(run, request);

	if (step->station >= 0) {
		struct queue *queue = &run->queues[step->station];
		struct request *waiting = queue->head;

		queue->is_busy[request->server] = false;
		if (waiting != NULL) {
			queue->head = waiting->next;
			if (queue->head == NULL)
				queue->tail = &queue->head;
			serve(run, waiting, (int)request->server);
		}
	}
	if (++request->step < run->des->routes[request->route].step_count)
		step_begin(run, request);
	else
		request_done(run, request);
}

/* ---- a run ---- */

static int
compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
run_result(struct run *run, uint64_t count, struct des_result *ret_result)
{
	double sum = 0;

	qsort(run->latencies_ps, count, sizeof(uint64_t), compare_u64);
	for (uint64_t i = 0; i < count; i++)
		sum += (double)run->latencies_ps[i];
	*ret_result = (struct des_result){
		.seconds = (double)(run->now_ps - run->warm_ps) / 1e12,
		.request_count = count,
		.mean_us = sum / (double)count / 1e6,
		.p50_us = (double)run->latencies_ps[count / 2] / 1e6,
		.p99_us = (double)run->latencies_ps[count - 1 - count / 100] / 1e6,
		.p999_us = (double)run->latencies_ps[count - 1 - count / 1000] / 1e6,
	};
	ret_result->gbps = (double)count * run->des->block_bytes * 8 / ret_result->seconds / 1e9;
}

void
des_run(struct des *des, uint64_t request_count, struct des_result *ret_result)
{
	uint64_t warm_count = request_count / WARMUP_SHARE + 1;
	struct run run = {
		.des = des,
		.requests = must(calloc(des->window_count, sizeof(struct request))),
		.queues = must(calloc(des->station_count, sizeof(struct queue))),
		.heap = must(calloc(des->window_count, sizeof(struct event))),
		.latencies_ps = must(calloc(request_count, sizeof(uint64_t))),
		.warm_count = warm_count,
		.wanted_count = warm_count + request_count,
		.random = des->seed,
	};

	assert(des->route_count > 0);
	for (uint32_t i = 0; i < des->station_count; i++) {
		run.queues[i].tail = &run.queues[i].head;
		des->stations[i].bytes = des->stations[i].busy_ps = 0;
	}
	for (uint32_t i = 0; i < des->window_count; i++) {
		run.requests[i].route = i % des->route_count;
		request_begin(&run, &run.requests[i]);
	}
	while (run.done_count < run.wanted_count) {
		struct event event = event_pop(&run);

		run.now_ps = event.at_ps;
		step_done(&run, event.request);
	}
	run_result(&run, request_count, ret_result);
	free(run.requests);
	free(run.queues);
	free(run.heap);
	free(run.latencies_ps);
}
