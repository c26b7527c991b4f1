/* SPDX-License-Identifier: Apache-2.0 */
/* test_choose.c -- which copy is read next, and when there is no hope */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>

#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/extent/choose.h"
#include "middletier/extent/node_link.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/time_passes.h"

#define COPIES 3u

static struct mt_link links[COPIES];
static struct mt_port port = { .links = links, .link_count = COPIES };
static struct mt_replica replicas[COPIES];
static uint32_t rotor;
static struct mt_copies copies;
static struct mt_chooser chooser;

/* Copy i is at node i + 1, whose link is up and idle. */
static void
setup(void)
{
	for (uint32_t i = 0; i < COPIES; i++) {
		links[i] = (struct mt_link){ .node_id = i + 1, .sm.state = MT_LINK_UP };
		replicas[i] = (struct mt_replica){ .node_id = i + 1 };
	}
	rotor = 0;
	copies = (struct mt_copies){ .replicas = replicas, .count = COPIES, .rotor = &rotor };
	mt_chooser_reset(&chooser);
}

TestSuite(choose, .init = setup);

/* The next choice; its link must be that of the copy's node. */
static int
pick(void)
{
	struct mt_link *link = NULL;
	int index = mt_chooser_pick(&chooser, &port, &copies, &link);

	if (index >= 0)
		cr_assert_eq(link, &links[replicas[index].node_id - 1]);
	else
		cr_assert_null(link);
	return index;
}

static void
down(uint32_t index)
{
	links[index].sm.state = MT_LINK_DOWN;
}

Test(choose, ties_rotate)
{
	for (int i = 0; i < 7; i++)
		cr_assert_eq(pick(), i % (int)COPIES);
}

Test(choose, ties_rotate_when_the_rotor_wraps)
{
	rotor = UINT32_MAX;
	cr_assert_eq(pick(), (int)(UINT32_MAX % COPIES));
	cr_assert_eq(rotor, 0);
	cr_assert_eq(pick(), 0);
}

Test(choose, least_loaded_before_whose_turn_it_is)
{
	links[0].call_count = 2;
	links[1].call_count = 2;
	links[2].call_count = 1;
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pick(), 2);
}

Test(choose, tie_among_the_least_loaded_rotates)
{
	uint32_t seen[COPIES] = { 0 };

	links[0].call_count = 9;
	for (int i = 0; i < 6; i++)
		seen[pick()]++;
	cr_assert_eq(seen[0], 0);
	cr_assert_gt(seen[1], 0);
	cr_assert_gt(seen[2], 0);
}

Test(choose, damaged_last_whatever_the_load)
{
	replicas[1].is_damaged = true;
	links[0].call_count = links[2].call_count = 1000;
	rotor = 1;
	for (int i = 0; i < 4; i++)
		cr_assert_neq(pick(), 1);
	mt_chooser_note_failed(&chooser, 0);
	cr_assert_eq(pick(), 2);
	mt_chooser_note_bad(&chooser, 2);
	cr_assert_eq(pick(), 1);
}

Test(choose, least_loaded_of_the_damaged)
{
	for (uint32_t i = 0; i < COPIES; i++)
		replicas[i].is_damaged = true;
	links[0].call_count = links[2].call_count = 1;
	cr_assert_eq(pick(), 1);
	mt_chooser_note_bad(&chooser, 1);
	cr_assert_eq(pick(), 2); /* it is its turn */
}

Test(choose, damaged_copy_whose_link_alone_is_up)
{
	replicas[2].is_damaged = true;
	down(0);
	down(1);
	cr_assert_eq(pick(), 2);
}

Test(choose, link_that_is_not_up_is_not_asked)
{
	down(0);
	links[1].sm.state = MT_LINK_CONNECTING;
	links[2].call_count = 1000;
	cr_assert_eq(pick(), 2);
}

Test(choose, unknown_node_is_not_asked)
{
	replicas[0].node_id = 99;
	replicas[1].node_id = 0; /* links whose node is not known yet have that, too */
	links[1].node_id = 0;
	cr_assert_eq(pick(), 2);
}

Test(choose, all_down)
{
	for (uint32_t i = 0; i < COPIES; i++)
		down(i);
	cr_assert_eq(pick(), -1);
	cr_assert_not(mt_chooser_is_hopeless(&chooser, COPIES));
	links[1].sm.state = MT_LINK_UP;
	cr_assert_eq(pick(), 1);
}

Test(choose, rotor_moves_on_though_nobody_is_up)
{
	for (uint32_t i = 0; i < COPIES; i++)
		down(i);
	(void)pick();
	cr_assert_eq(rotor, 1);
}

/* The invariant: as long as another can be asked, who failed is not. */
Test(choose, each_once_then_nobody)
{
	uint32_t seen = 0;

	links[1].call_count = 5;
	replicas[2].is_damaged = true;
	for (uint32_t i = 0; i < COPIES; i++) {
		int index = pick();

		cr_assert_geq(index, 0);
		cr_assert_eq(seen & 1u << index, 0);
		seen |= 1u << index;
		if (i % 2 == 0)
			mt_chooser_note_failed(&chooser, (uint32_t)index);
		else
			mt_chooser_note_bad(&chooser, (uint32_t)index);
	}
	cr_assert_eq(pick(), -1);
	cr_assert_not(mt_chooser_is_hopeless(&chooser, COPIES));
}

Test(choose, what_could_not_be_reached_is_asked_again_what_is_bad_is_not)
{
	mt_chooser_note_failed(&chooser, 0);
	mt_chooser_note_bad(&chooser, 1);
	mt_chooser_note_failed(&chooser, 2);
	cr_assert_eq(pick(), -1);
	mt_chooser_retry(&chooser);
	for (int i = 0; i < 6; i++)
		cr_assert_neq(pick(), 1);
	mt_chooser_note_failed(&chooser, 0);
	cr_assert_eq(pick(), 2);
}

Test(choose, one_that_failed_first_may_turn_out_bad)
{
	mt_chooser_note_failed(&chooser, 0);
	mt_chooser_note_bad(&chooser, 0);
	mt_chooser_retry(&chooser);
	for (int i = 0; i < 6; i++)
		cr_assert_neq(pick(), 0);
}

Test(choose, bad_stays_bad_when_it_fails_later)
{
	mt_chooser_note_bad(&chooser, 0);
	mt_chooser_note_failed(&chooser, 0);
	mt_chooser_retry(&chooser);
	for (int i = 0; i < 6; i++)
		cr_assert_neq(pick(), 0);
}

Test(choose, hopeless_when_all_are_bad_and_no_sooner)
{
	for (uint32_t i = 0; i < COPIES; i++) {
		cr_assert_not(mt_chooser_is_hopeless(&chooser, COPIES));
		mt_chooser_note_bad(&chooser, i);
	}
	cr_assert(mt_chooser_is_hopeless(&chooser, COPIES));
	mt_chooser_retry(&chooser);
	cr_assert(mt_chooser_is_hopeless(&chooser, COPIES));
	cr_assert_eq(pick(), -1);
}

Test(choose, hopeless_counts_the_copies_there_are)
{
	cr_assert(mt_chooser_is_hopeless(&chooser, 0));
	mt_chooser_note_bad(&chooser, 0);
	cr_assert(mt_chooser_is_hopeless(&chooser, 1));
	cr_assert_not(mt_chooser_is_hopeless(&chooser, 2));
	mt_chooser_note_bad(&chooser, 2);
	cr_assert_not(
	    mt_chooser_is_hopeless(&chooser, 2)); /* there is no third, and the second may do */
	mt_chooser_note_bad(&chooser, 1);
	cr_assert(mt_chooser_is_hopeless(&chooser, 2));
}

Test(choose, reset_forgets)
{
	for (uint32_t i = 0; i < COPIES; i++)
		mt_chooser_note_bad(&chooser, i);
	mt_chooser_reset(&chooser);
	cr_assert_not(mt_chooser_is_hopeless(&chooser, COPIES));
	cr_assert_geq(pick(), 0);
}

Test(choose, fewer_copies)
{
	copies.count = 1;
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pick(), 0);
	mt_chooser_note_failed(&chooser, 0);
	cr_assert_eq(pick(), -1);
	copies.count = 2; /* a repair has added one */
	cr_assert_eq(pick(), 1);
}

Test(choose, replica_index_is_checked, .signal = SIGABRT)
{
	mt_chooser_note_bad(&chooser, MT_REPLICAS_MAX);
}

Test(choose, copy_count_is_checked, .signal = SIGABRT)
{
	copies.count = MT_REPLICAS_MAX + 1;
	(void)pick();
}

Test(choose, no_copies_are_no_choice, .signal = SIGABRT)
{
	copies.count = 0;
	(void)pick();
}

/* ---- short requests of one turn ---- */

static struct sim_world *world;
static struct mt_chooser_turn turn;

static void
begin_turns(void)
{
	world = sim_world_create(1);
	port.loop = sim_world_nature(world);
	turn = (struct mt_chooser_turn){ .link = NULL };
	copies.turn = &turn;
}

static void
end_turns(void)
{
	port.loop = NULL;
	sim_world_destroy(world);
}

/* As mt_link_call does. */
static int
ask(void)
{
	int index = pick();

	if (index >= 0)
		links[index].call_count++;
	return index;
}

Test(choose, short_requests_of_a_turn_go_together)
{
	begin_turns();
	for (uint32_t i = 0; i < CHOOSE_JOIN_MAX; i++)
		cr_assert_eq(ask(), 0);
	cr_assert_eq(ask(), 2, "it is far ahead; of the others it is its turn");
	cr_assert_eq(ask(), 2, "and the next ones go there");
	end_turns();
}

Test(choose, next_turn_begins_with_the_least_loaded)
{
	begin_turns();
	cr_assert_eq(ask(), 0);
	cr_assert_eq(ask(), 0);
	time_passes(world, port.loop, 1000);
	cr_assert_eq(ask(), 2);
	cr_assert_eq(ask(), 2);
	end_turns();
}

Test(choose, requests_that_are_not_short_are_spread)
{
	begin_turns();
	cr_assert_eq(ask(), 0);
	copies.turn = NULL;
	cr_assert_eq(ask(), 1);
	cr_assert_eq(ask(), 2);
	end_turns();
}

Test(choose, nobody_follows_to_where_a_copy_failed_is_damaged_or_cannot_be_asked)
{
	begin_turns();
	cr_assert_eq(ask(), 0);
	mt_chooser_note_failed(&chooser, 0);
	cr_assert_neq(pick(), 0);
	mt_chooser_reset(&chooser);
	turn.link = &links[0];
	replicas[0].is_damaged = true;
	cr_assert_neq(pick(), 0);
	replicas[0].is_damaged = false;
	turn.link = &links[0];
	down(0);
	cr_assert_neq(pick(), 0);
	end_turns();
}

Test(choose, who_has_no_copy_there_chooses_for_those_that_follow)
{
	begin_turns();
	cr_assert_eq(ask(), 0);
	replicas[0].node_id = 99; /* another extent */
	cr_assert_neq(ask(), 0);
	cr_assert_eq(turn.link, links[1].call_count > 0 ? &links[1] : &links[2]);
	end_turns();
}
