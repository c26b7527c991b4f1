/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_model.c -- volumes that want more than a port can do, in virtual time: window and queue together
 *
 *	clients (depth each) --> held, by volume --window--> waits for a batch --> batch: processor, then disk --> clients
 *
 * The port is as the real one where it matters: no more than two batches are under way, so they grow with what waits; each
 * costs the processor something, and each request in it as well; then disks take their time, of all batches at once. All
 * requests of a batch end together. Clients send again after a while. What disturbs from outside takes the processor
 * away, for milliseconds at a time.
 */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "base/list.h"
#include "base/num.h"
#include "base/random.h"
#include "middletier/port/share_queue.h"
#include "middletier/port/share_window.h"

#define STEP_NS NUM_US(50)
#define VOLUMES_MAX 32u
#define DEPTH_MAX 32u
#define BATCH_MAX 64u
#define BATCHES 2u

struct request {
	struct share_item item; /* held; or in a list of its place */
	uint32_t volume;
	uint64_t due_ns; /* it comes back from its client then */
};

struct volume {
	struct share share;
	struct share_flow flow;
	struct request requests[DEPTH_MAX];
	uint64_t done;
};

struct batch {
	struct loop_link requests;
	uint32_t count; /* 0: it is free */
	uint64_t end_ns;
};

struct model {
	/* Said by a test. */
	uint32_t volume_count, depth;
	uint64_t request_ns, batch_ns; /* of the processor */
	uint64_t disk_ns, client_ns;
	uint32_t disturbed; /* of 1000 steps begin with a time without the processor */
	bool is_open;       /* nobody is held */
	/* Found. */
	struct volume volumes[VOLUMES_MAX];
	struct batch batches[BATCHES];
	struct loop_link away, waiting; /* at clients; for a batch */
	struct share_queue queue;
	struct share_window window;
	struct share_seen seen;
	uint64_t processor_ns, tick_ns; /* it is free then; the next tick */
	uint64_t dice[4];
};

static struct model model;

static struct request *
request_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct request, item.link);
}

/* Odd volumes have @weight, others 100. */
static void
begin(uint64_t weight)
{
	random_seed(model.dice, 11);
	list_init(&model.away);
	list_init(&model.waiting);
	mt_share_queue_init(&model.queue);
	mt_share_window_init(&model.window);
	model.seen = (struct share_seen){ .now_ns = NUM_S(1) };
	model.tick_ns = model.seen.now_ns + SHARE_TICK_NS;
	mt_share_window_restart(&model.window, &model.seen);
	for (uint32_t i = 0; i < BATCHES; i++)
		list_init(&model.batches[i].requests);
	for (uint32_t i = 0; i < model.volume_count; i++) {
		struct volume *volume = &model.volumes[i];

		mt_share_set(&volume->share, i % 2 == 1 ? weight : 0, 0);
		mt_share_flow_init(&volume->flow, &volume->share);
		for (uint32_t k = 0; k < model.depth; k++) {
			volume->requests[k] = (struct request){ .volume = i, .item.cost = 1 };
			list_push_back(&model.away, &volume->requests[k].item.link);
		}
	}
}

static void
setup(void)
{
	model = (struct model){ .volume_count = 12,
		.depth = 16,
		.request_ns = NUM_US(50),
		.batch_ns = NUM_US(300),
		.disk_ns = NUM_US(100),
		.client_ns = NUM_US(500) };
}

TestSuite(share_model, .init = setup);

static void
end_batch(struct batch *batch)
{
	struct loop_link *link;

	while ((link = list_pop_front(&batch->requests)) != NULL) {
		struct request *request = request_of(link);

		model.volumes[request->volume].done++;
		request->due_ns = model.seen.now_ns + model.client_ns / 2 +
		    random_below(model.dice, model.client_ns);
		list_push_back(&model.away, link);
	}
	model.seen.done += batch->count;
	model.seen.under_way -= batch->count;
	batch->count = 0;
}

static void
fill_batch(struct batch *batch)
{
	struct loop_link *link;
	uint64_t start_ns = num_max(model.seen.now_ns, model.processor_ns);

	while (batch->count < BATCH_MAX && (link = list_pop_front(&model.waiting)) != NULL) {
		list_push_back(&batch->requests, link);
		batch->count++;
	}
	if (batch->count == 0)
		return;
	model.processor_ns = start_ns + model.batch_ns + batch->count * model.request_ns;
	batch->end_ns = model.processor_ns + model.disk_ns;
}

static void
come_back(void)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&model.away, link, next) {
		struct request *request = request_of(link);
		struct volume *volume = &model.volumes[request->volume];

		if (request->due_ns > model.seen.now_ns)
			continue;
		list_remove(link);
		if (mt_share_is_short(&model.queue, &volume->flow, model.seen.now_ns,
			mt_share_window_moment_ns(&model.window)))
			mt_share_window_short(&model.window,
			    mt_share_is_owed(&volume->share, model.seen.now_ns));
		mt_share_push(&model.queue, &volume->flow, &request->item);
	}
}

static void
let_go(void)
{
	struct share_flow *flow;
	struct share_item *item;

	while ((model.is_open || model.seen.under_way < mt_share_window_max(&model.window)) &&
	    (item = mt_share_pop(&model.queue, model.seen.now_ns, &flow)) != NULL) {
		list_push_back(&model.waiting, &item->link);
		model.seen.under_way++;
	}
	model.seen.held = model.queue.count;
}

static void
run(uint64_t time_ns)
{
	uint64_t until_ns = model.seen.now_ns + time_ns;

	while (model.seen.now_ns < until_ns) {
		if (random_below(model.dice, 1000) < model.disturbed)
			model.processor_ns = num_max(model.processor_ns, model.seen.now_ns) +
			    random_below(model.dice, NUM_MS(8));
		for (uint32_t i = 0; i < BATCHES; i++) {
			if (model.batches[i].count > 0 &&
			    model.batches[i].end_ns <= model.seen.now_ns)
				end_batch(&model.batches[i]);
		}
		come_back();
		let_go();
		for (uint32_t i = 0; i < BATCHES; i++) {
			if (model.batches[i].count == 0)
				fill_batch(&model.batches[i]);
		}
		model.seen.area_ns += model.seen.under_way * STEP_NS;
		model.seen.now_ns += STEP_NS;
		if (model.seen.now_ns < model.tick_ns)
			continue;
		model.tick_ns += SHARE_TICK_NS;
		if (model.is_open)
			mt_share_window_restart(&model.window, &model.seen);
		else
			mt_share_window_tick(&model.window, &model.seen);
	}
}

/* Hundredths: what odd volumes had in the last @time_ns, of what the others had. */
static uint64_t
run_ratio(uint64_t time_ns)
{
	uint64_t sums[2] = { 0 };

	for (uint32_t i = 0; i < model.volume_count; i++)
		model.volumes[i].done = 0;
	run(time_ns);
	for (uint32_t i = 0; i < model.volume_count; i++)
		sums[i % 2] += model.volumes[i].done;
	return sums[1] * 100 / sums[0];
}

/* Per cent of what ends if nobody is held, in the same time. */
static uint64_t
run_cost(uint64_t time_ns)
{
	uint64_t before, held, open;

	before = model.seen.done;
	run(time_ns);
	held = model.seen.done - before;
	model.is_open = true;
	run(NUM_S(1));
	before = model.seen.done;
	run(time_ns);
	open = model.seen.done - before;
	model.is_open = false;
	return held * 100 / open;
}

static void
expect(uint64_t ratio_least, uint64_t ratio_most, uint64_t cost_least)
{
	uint64_t ratio, cost;

	run(NUM_S(4)); /* it finds its window */
	ratio = run_ratio(NUM_S(10));
	cost = run_cost(NUM_S(10));
	cr_assert(ratio >= ratio_least && ratio <= ratio_most, "%" PRIu64, ratio);
	cr_assert_geq(cost, cost_least, "%" PRIu64, cost);
}

Test(share_model, weights_hold_where_the_processor_is_busy)
{
	begin(200);
	expect(195, 205, 85);
}

Test(share_model, weights_hold_among_many_volumes)
{
	model.volume_count = 32;
	begin(200);
	expect(195, 205, 85);
}

Test(share_model, weights_hold_of_ten_to_one)
{
	begin(1000);
	expect(900, 1100, 75);
}

Test(share_model, weights_hold_on_a_machine_that_others_use)
{
	model.disturbed = 8; /* a good half of the time */
	begin(200);
	expect(180, 220, 75);
	model.disturbed = 2;
	expect(190, 210, 75);
}

Test(share_model, weights_hold_where_disks_are_slow_and_batches_full)
{
	model.volume_count = 32;
	model.disk_ns = NUM_MS(4);
	begin(200);
	expect(190, 210, 90);
}

/* Nobody is in another's way: what is held would wait for nothing. */
Test(share_model, nobody_is_held_where_disks_answer_late)
{
	model.disk_ns = NUM_MS(20);
	model.depth = 4;
	begin(200);
	expect(98, 102, 95);
}

Test(share_model, nobody_is_held_where_few_are_under_way)
{
	model.volume_count = 2;
	model.depth = 4;
	begin(200);
	expect(98, 102, 99);
}

/* Per cent of a minimum that is @times what each of twelve volumes has without any, in each of three stretches. */
static void
expect_minimum(uint32_t times, uint64_t percent_least)
{
	uint64_t least;

	begin(100);
	model.is_open = true;
	run(NUM_S(1));
	model.volumes[3].done = 0;
	run(NUM_S(10));
	least = times * model.volumes[3].done / 10;
	mt_share_set(&model.volumes[3].share, 100, least);
	mt_share_flow_renew(&model.queue, &model.volumes[3].flow);
	model.is_open = false;
	run(NUM_S(6));
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t percent;

		model.volumes[3].done = 0;
		run(NUM_S(10));
		percent = model.volumes[3].done * 10 / least;
		cr_assert_geq(percent, percent_least, "%u times: %" PRIu64, times, percent);
	}
}

/*
 * A volume with 16 in flight has several times what others have: all that it wants is under way then, and no choice helps it
 * more, but that fewer of the others' are.
 */
Test(share_model, a_minimum_is_had)
{
	for (uint32_t times = 2; times <= 5; times++) {
		setup();
		expect_minimum(times, 98);
	}
}

Test(share_model, a_minimum_is_had_on_a_machine_that_others_use)
{
	for (uint32_t times = 2; times <= 4; times++) {
		for (uint32_t disturbed = 2; disturbed <= 6; disturbed += 2) {
			setup();
			model.disturbed = disturbed;
			expect_minimum(times, 96);
		}
	}
}

/* A volume that is owed nothing makes nobody's window narrower than it has to be. */
Test(share_model, a_small_minimum_costs_no_more_than_a_weight)
{
	begin(200);
	mt_share_set(&model.volumes[3].share, 200, 10);
	expect(195, 205, 80);
	cr_assert_eq(model.window.narrower, 0);
}

/* The port becomes four times as slow, and as fast again: the window is as large as it would be anyway. */
Test(share_model, the_window_follows_the_port)
{
	uint64_t ratio;

	begin(200);
	run(NUM_S(4));
	model.request_ns *= 4;
	model.batch_ns *= 4;
	run(NUM_S(4));
	ratio = run_ratio(NUM_S(10));
	cr_assert(ratio >= 195 && ratio <= 205, "%" PRIu64, ratio);
	model.request_ns /= 4;
	model.batch_ns /= 4;
	expect(195, 205, 85);
}
