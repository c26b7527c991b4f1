/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_limit_share.c -- a limit over all ports: the rule, and a client that keeps none beside it, in virtual time
 *
 * The model has gateways with ports, each with a limiter as throttle.c has it. Each gateway counts its ports' use at its own
 * times, hears of the others' a while later, and tells its ports their share.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "base/bucket.h"
#include "base/num.h"
#include "base/random.h"
#include "middletier/port/limit_share.h"
#include "middletier/port/throttle.h"

#define ALL LIMIT_SHARE_ALL

/* ---- the rule ---- */

Test(limit_share, all_is_for_each_where_nobody_wants)
{
	const struct limit_use uses[] = { { .quiet = 2, .quiet_spent = ALL, .spent = ALL },
		{ .quiet = 1 } };

	cr_assert_eq(mt_limit_share(uses, 2, ALL), ALL);
	cr_assert_eq(mt_limit_share(NULL, 0, ALL), ALL);
	cr_assert_eq(mt_limit_share(NULL, 0, ALL - 1), ALL);
}

Test(limit_share, a_single_port_that_wants_has_all)
{
	const struct limit_use use = { .wanting = 1, .spent = ALL };

	cr_assert_eq(mt_limit_share(&use, 1, ALL), ALL);
}

Test(limit_share, ports_that_want_share_what_the_quiet_leave)
{
	const struct limit_use uses[] = { { .wanting = 2, .spent = ALL },
		{ .wanting = 1, .quiet = 1, .quiet_spent = ALL / 4, .spent = ALL } };

	cr_assert_eq(mt_limit_share(uses, 2, ALL), ALL / 4);
}

Test(limit_share, over_it_those_that_use_most_are_cut_to_the_same)
{
	const struct limit_use uses[] = { { .quiet = 4, .quiet_spent = 4 * ALL * 9 / 10 },
		{ .quiet = 2, .quiet_spent = ALL / 8 } };
	uint32_t share = mt_limit_share(uses, 2, ALL - 1);

	cr_assert(share <= (ALL - ALL / 8) / 4 && share >= (ALL - ALL / 8) / 4 * 95 / 100, "%u",
	    share);
}

Test(limit_share, nobody_is_left_without_any)
{
	const struct limit_use uses[] = { { .wanting = 1 },
		{ .quiet = 1, .quiet_spent = 3 * ALL, .spent = 3 * ALL } };

	cr_assert_eq(mt_limit_share(uses, 2, ALL), LIMIT_SHARE_MIN);
}

Test(limit_share, a_debt_is_what_all_used_beyond_the_limit)
{
	struct limit_debt debt = { 0 };

	mt_limit_debt_add(&debt, 9 * ALL, NUM_S(5), NUM_S(10));
	cr_assert_eq(debt.debt_ns, 0, "nothing is known of the time before");
	mt_limit_debt_add(&debt, 3 * ALL, NUM_S(5), NUM_S(11));
	cr_assert_eq(debt.debt_ns, NUM_S(2));
	mt_limit_debt_add(&debt, ALL / 2, NUM_S(5), NUM_S(12));
	cr_assert_eq(debt.debt_ns, NUM_MS(1500));
	cr_assert_gt(mt_limit_debt_all(&debt, NUM_S(5)), ALL);
	for (uint64_t at_s = 13; at_s < 40; at_s++)
		mt_limit_debt_add(&debt, 3 * ALL, NUM_S(5), NUM_S(at_s));
	cr_assert_eq(debt.debt_ns, NUM_S(6), "no more is remembered");
	cr_assert_eq(mt_limit_debt_all(&debt, NUM_S(5)), ALL / 2);
	debt.debt_ns = NUM_S(5);
	cr_assert_eq(mt_limit_debt_all(&debt, NUM_S(5)), ALL);
}

/* ---- the model ---- */

#define GATEWAYS 2u
#define PORTS_MAX 8u /* of a gateway */
#define STEP_NS NUM_MS(1)
#define IOPS 400u

struct model_port {
	struct limiter limiter;
	uint64_t want_a_second; /* requests that come; UINT64_MAX: as many as may go */
	uint64_t come;          /* thousandths of a request */
	uint64_t held_ns, spent_ns, done;
	uint32_t waiting; /* of a client that waits for answers */
	uint32_t share;
};

static struct {
	uint32_t ports;
	uint64_t round_ns, heard_each_ns; /* rounds; answers of the other gateway */
	uint64_t now_ns, counted_ns[GATEWAYS], held;
	struct model_port all[GATEWAYS][PORTS_MAX];
	struct limit_use told[GATEWAYS], heard[GATEWAYS];
	struct limit_debt debts[GATEWAYS];
	uint64_t heard_ns;
	uint32_t in_flight; /* of a client that waits for answers: requests that are at clients */
	uint64_t dice[4];
} model;

static const struct cleave_limits limits = { .iops = IOPS };

static void
begin(uint32_t ports, uint64_t want_a_second)
{
	memset(&model, 0, sizeof(model));
	random_seed(model.dice, 5);
	model.ports = ports;
	model.round_ns = NUM_MS(200);
	model.heard_each_ns = NUM_MS(60);
	model.now_ns = NUM_S(100);
	for (uint32_t g = 0; g < GATEWAYS; g++) {
		model.counted_ns[g] = model.now_ns - g * NUM_MS(70);
		for (uint32_t i = 0; i < ports; i++) {
			struct model_port *port = &model.all[g][i];

			limiter_set(&port->limiter, &limits, MT_THROTTLE_SPARE_NS, model.now_ns);
			port->share = ALL;
			port->want_a_second = want_a_second;
		}
	}
}

static uint64_t
depth_ns(void)
{
	return model.all[0][0].limiter.depth_ns;
}

static void
step_port(struct model_port *port)
{
	const struct limiter_cost cost = { .is_write = true, .data_bytes = 4096 };

	port->come += port->want_a_second == UINT64_MAX ? 0 : port->want_a_second;
	while (port->want_a_second == UINT64_MAX || port->come >= 1000) {
		if (limiter_wait_ns(&port->limiter, true, model.now_ns) > 0) {
			port->held_ns = model.now_ns;
			port->come = num_min(port->come, 64000);
			model.held++;
			return;
		}
		port->spent_ns +=
		    limiter_take_share(&port->limiter, &cost, port->share, model.now_ns);
		port->done++;
		port->come -= port->want_a_second == UINT64_MAX ? 0 : 1000;
	}
}

/* Each request of the client goes to a port by chance, and the next when it is answered. */
static void
step_closed(void)
{
	const struct limiter_cost cost = { .is_write = true, .data_bytes = 4096 };

	for (; model.in_flight > 0; model.in_flight--)
		model.all[random_below(model.dice, GATEWAYS)][random_below(model.dice, model.ports)]
		    .waiting++;
	for (uint32_t k = 0; k < GATEWAYS * model.ports; k++) {
		struct model_port *port = &model.all[k % GATEWAYS][k / GATEWAYS];

		while (
		    port->waiting > 0 && limiter_wait_ns(&port->limiter, true, model.now_ns) == 0) {
			port->spent_ns +=
			    limiter_take_share(&port->limiter, &cost, port->share, model.now_ns);
			port->done++;
			port->waiting--;
			model.in_flight++;
		}
		if (port->waiting > 0)
			port->held_ns = model.now_ns;
	}
}

static void
round_of(uint32_t g)
{
	uint64_t passed_ns = model.now_ns - model.counted_ns[g];
	struct limit_use uses[GATEWAYS] = { model.heard[0], model.heard[1] };
	uint32_t share;
	uint32_t all;

	uses[g] = (struct limit_use){ 0 };
	for (uint32_t i = 0; i < model.ports; i++) {
		struct model_port *port = &model.all[g][i];
		uint64_t spent = port->spent_ns * ALL / passed_ns;

		uses[g].spent += spent;
		if (port->held_ns + NUM_S(1) > model.now_ns) {
			uses[g].wanting++;
		} else {
			uses[g].quiet++;
			uses[g].quiet_spent += spent;
		}
		port->spent_ns = 0;
	}
	model.counted_ns[g] = model.now_ns;
	model.told[g] = uses[g];
	mt_limit_debt_add(&model.debts[g], uses[0].spent + uses[1].spent, depth_ns(), model.now_ns);
	all = mt_limit_debt_all(&model.debts[g], depth_ns());
	share = mt_limit_share(uses, GATEWAYS, all);
	for (uint32_t i = 0; i < model.ports; i++) {
		struct model_port *port = &model.all[g][i];
		bool is_wanting = port->held_ns + NUM_S(1) > model.now_ns;

		port->share = is_wanting || all < ALL ? share : ALL;
	}
}

static void
run(uint64_t time_ns)
{
	for (uint64_t until_ns = model.now_ns + time_ns; model.now_ns < until_ns;
	     model.now_ns += STEP_NS) {
		step_closed();
		for (uint32_t g = 0; g < GATEWAYS; g++) {
			for (uint32_t i = 0; i < model.ports; i++)
				step_port(&model.all[g][i]);
		}
		if (model.now_ns - model.heard_ns >= model.heard_each_ns) {
			memcpy(model.heard, model.told, sizeof(model.heard));
			model.heard_ns = model.now_ns;
		}
		for (uint32_t g = 0; g < GATEWAYS; g++) {
			if (model.now_ns - model.counted_ns[g] >= model.round_ns)
				round_of(g);
		}
	}
}

static uint64_t
run_done(uint64_t time_ns)
{
	uint64_t before = 0, after = 0;

	for (uint32_t k = 0; k < GATEWAYS * model.ports; k++)
		before += model.all[k % GATEWAYS][k / GATEWAYS].done;
	run(time_ns);
	for (uint32_t k = 0; k < GATEWAYS * model.ports; k++)
		after += model.all[k % GATEWAYS][k / GATEWAYS].done;
	return after - before;
}

/* Per cent of the limit, in each of five stretches of ten seconds, once it has settled. */
static void
expect_limit(uint64_t least, uint64_t most)
{
	run(NUM_S(15));
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t percent = run_done(NUM_S(10)) * 100 / (10 * IOPS);

		cr_assert(percent >= least && percent <= most, "%" PRIu64, percent);
	}
}

Test(limit_share_model, a_client_that_wants_all_has_the_limit_through_any_number_of_ports)
{
	for (uint32_t ports = 1; ports <= PORTS_MAX; ports *= 2) {
		begin(ports, UINT64_MAX);
		expect_limit(95, 103);
	}
}

/* Below the limit at each port, nearly four times it with all of them. */
Test(limit_share_model, a_client_that_is_below_it_everywhere_is_seen_too)
{
	begin(2, IOPS * 9 / 10);
	expect_limit(90, 103);
}

Test(limit_share_model, what_one_port_does_not_use_others_may)
{
	begin(2, UINT64_MAX);
	model.all[0][0].want_a_second = IOPS / 10;
	model.all[1][1].want_a_second = 0;
	expect_limit(95, 103);
}

/* Most of its requests wait at one port or another, the others have nothing to do meanwhile. */
Test(limit_share_model, a_client_that_waits_for_answers_has_the_limit)
{
	begin(2, 0);
	model.in_flight = 64;
	expect_limit(90, 103);
	begin(8, 0);
	model.in_flight = 16;
	expect_limit(90, 103);
}

/* Rounds take long where a machine is busy. */
Test(limit_share_model, slow_rounds_are_made_good)
{
	begin(2, 0);
	model.in_flight = 64;
	model.round_ns = NUM_MS(900);
	model.heard_each_ns = NUM_MS(700);
	expect_limit(95, 106);
}

/* At its limit, from one port to the next, and with a burst now and then: it is never held. */
Test(limit_share_model, a_client_that_keeps_its_limit_does_not_notice)
{
	begin(4, 0);
	for (uint32_t i = 0; i < 60; i++) {
		struct model_port *port =
		    &model.all[random_below(model.dice, GATEWAYS)][random_below(model.dice, 4)];

		port->want_a_second = IOPS;
		if (i % 10 == 0)
			port->come = IOPS * 1000 / 4; /* a burst of 250 ms */
		run(NUM_MS(500) + random_below(model.dice, NUM_S(2)));
		port->want_a_second = 0;
		if (i % 10 == 9)
			run(NUM_S(1)); /* it has saved for another */
	}
	cr_assert_eq(model.held, 0);
	for (uint32_t k = 0; k < GATEWAYS * 4; k++)
		cr_assert_eq(model.all[k % GATEWAYS][k / GATEWAYS].share, ALL);
}
