/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_debt.c -- writes that were given up, and what waits until it is known that they are over
 *
 * Two fake gateways share a volume's content: A has shard 0, B has shard 1. A test loses a write at A,
 * keeps A from admitting a new connection, and looks at what B is sent meanwhile.
 */
#include "unit/client_fixture.h"

#define SHARDS 2u
#define BLOCK CLEAVE_BLOCK_BYTES
#define VOLUME_BYTES (32 * CLEAVE_CHUNK_BYTES)
#define TIMEOUT_NS NUM_S(8)

static struct fixture *f;
static struct fake_gateway *a, b;
static uint8_t data[BLOCK], back[BLOCK];

static void
begin(void)
{
	struct fake_options options = { .port_count = 1, .shard_count = SHARDS };

	f = fixture_create(NET_SIM, 1, SHARDS);
	a = &f->fake;
	options.loop = f->gateway_loop;
	options.sim_host = sim_host_create(f->net, "other");
	options.address = "sim://other:1";
	fake_gateway_init(&b, &options);
	f->gateways[1] = b.addresses[0];
	f->options.gateway_count = 2;
	f->options.io_timeout_ns = TIMEOUT_NS;
	a->foreign[0] = b.addresses[0];
	b.foreign[0] = a->addresses[0];
	a->port_of_shard[1] = b.port_of_shard[0] = 1;
	fake_gateway_add(a, "v", VOLUME_BYTES);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	b.volumes[0] = a->volumes[0];
	b.volume_count = 1;
}

static void
end(void)
{
	if (f->volume != NULL)
		fixture_close(f);
	b.volume_count = 0; /* the memory is A's */
	fake_gateway_fini(&b);
	fixture_destroy(f);
}

/* @to is the owner of @shard for both, under @epoch. */
static void
move_shard(uint32_t shard, struct fake_gateway *to, uint32_t epoch)
{
	a->port_of_shard[shard] = to == a ? 0 : 1;
	b.port_of_shard[shard] = to == a ? 1 : 0;
	a->epoch_of_shard[shard] = b.epoch_of_shard[shard] = epoch;
}

/* Request @index, at a block of @shard; no two overlap. */
static void
submit(uint32_t index, enum cleave_op op, uint32_t shard)
{
	uint64_t at = 0;

	while (wire_shard_of(FAKE_SEGMENT_BASE, at, SHARDS) != shard)
		at += CLEAVE_CHUNK_BYTES;
	cr_assert(at < VOLUME_BYTES);
	cr_assert_eq(fixture_submit(f, index, op, at + index * BLOCK, BLOCK,
			 op == CLEAVE_READ ? back : data),
	    0);
}

static void
pass(uint64_t ns)
{
	fixture_pass(f, ns);
}

/* Request @index, a write to A, is sent, is not answered, and A admits nobody. */
static void
lose_write(uint32_t index)
{
	a->is_holding = true;
	submit(index, CLEAVE_WRITE, 0);
	fixture_wait_held(f, 1);
	a->refuses_all = true;
}

/* The same, and its time is over. */
static void
give_write_up(void)
{
	lose_write(0);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, -ETIMEDOUT);
	cr_assert_eq(fixture_stats(f)->writes_owed, 1);
	a->is_holding = false;
}

static uint32_t
b_writes(void)
{
	return fake_gateway_count(&b, WIRE_WRITE);
}

Test(client_debt, a_write_given_up_holds_those_to_other_ports)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	submit(2, CLEAVE_DISCARD, 1);
	pass(NUM_S(4));
	cr_assert_eq(b.log_count, 0);
	/* A has a newer incarnation: what the older one had sent is over. */
	a->refuses_all = false;
	fixture_wait(f, 3);
	cr_assert_eq(f->ios[1].rc, 0);
	cr_assert_eq(f->ios[2].rc, 0);
	cr_assert_eq(b.log_count, 2);
	end();
}

Test(client_debt, reads_go_on)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	submit(2, CLEAVE_READ, 1);
	fixture_wait(f, 2);
	cr_assert_eq(f->done[1], 2);
	cr_assert_eq(f->ios[2].rc, 0);
	cr_assert_eq(b_writes(), 0);
	end();
}

Test(client_debt, a_newer_epoch_pays)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	pass(NUM_S(1));
	cr_assert_eq(b_writes(), 0);
	move_shard(0, &b, 2);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, 0);
	cr_assert(a->refuses_all);
	end();
}

/* Nobody asks for anything; the map comes by itself. */
Test(client_debt, a_newer_epoch_pays_before_anything_waits)
{
	begin();
	give_write_up();
	move_shard(0, &b, 2);
	pass(NUM_S(2));
	submit(1, CLEAVE_WRITE, 1);
	pass(NUM_MS(5));
	cr_assert_eq(f->done_count, 2);
	cr_assert_eq(f->ios[1].rc, 0);
	end();
}

/* An heir that has not claimed the shard yet. */
Test(client_debt, the_same_epoch_elsewhere_does_not_pay)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	move_shard(0, &b, 1);
	pass(NUM_S(3));
	cr_assert_eq(b_writes(), 0);
	move_shard(0, &b, 2);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, 0);
	end();
}

Test(client_debt, given_up_while_it_waits_to_be_sent_again)
{
	begin();
	lose_write(0);
	fake_gateway_cut(a);
	pass(NUM_S(1));
	cr_assert_eq(a->held_count, 0);
	/* Not given up yet: nobody waits for it. */
	submit(1, CLEAVE_WRITE, 1);
	fixture_wait(f, 1);
	cr_assert_eq(f->done[0], 1);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[0].rc, -ETIMEDOUT);
	submit(2, CLEAVE_WRITE, 1);
	pass(NUM_S(4));
	cr_assert_eq(b_writes(), 1);
	a->is_holding = a->refuses_all = false;
	fixture_wait(f, 3);
	cr_assert_eq(f->ios[2].rc, 0);
	end();
}

/* The write could take effect at either, and nobody would know where. */
Test(client_debt, a_lost_write_has_one_place_to_land)
{
	begin();
	lose_write(0);
	fake_gateway_cut(a);
	move_shard(0, &b, 1);
	pass(NUM_S(3));
	cr_assert_eq(b_writes(), 0);
	move_shard(0, &b, 2);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, 0);
	cr_assert_eq(b_writes(), 1);
	cr_assert_eq(fixture_stats(f)->writes_owed, 0);
	end();
}

Test(client_debt, an_answer_makes_none)
{
	begin();
	a->status_count = 1;
	a->status_rc = -EIO;
	submit(0, CLEAVE_WRITE, 0);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, -EIO);
	/* Told again and again that it was not done. */
	a->status_count = UINT32_MAX;
	a->status_rc = -EBUSY;
	submit(1, CLEAVE_WRITE, 0);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, -ETIMEDOUT);
	a->refuses_all = true;
	fake_gateway_cut(a);
	submit(2, CLEAVE_WRITE, 1);
	fixture_wait(f, 3);
	cr_assert_eq(f->ios[2].rc, 0);
	cr_assert_eq(fixture_stats(f)->writes_owed, 0);
	end();
}

Test(client_debt, reads_make_none)
{
	begin();
	a->is_holding = true;
	submit(0, CLEAVE_READ, 0);
	fixture_wait_held(f, 1);
	a->refuses_all = true;
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, -ETIMEDOUT);
	submit(1, CLEAVE_WRITE, 1);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, 0);
	end();
}

Test(client_debt, what_was_never_sent_makes_none)
{
	begin();
	a->refuses_all = true;
	fake_gateway_cut(a);
	submit(0, CLEAVE_WRITE, 0);
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, -ETIMEDOUT);
	submit(1, CLEAVE_WRITE, 1);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, 0);
	end();
}

Test(client_debt, held_writes_end_in_time_and_owe_nothing)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, -ETIMEDOUT);
	cr_assert_eq(b_writes(), 0);
	cr_assert_eq(fixture_stats(f)->writes_owed, 1);
	a->refuses_all = false;
	submit(2, CLEAVE_WRITE, 1);
	fixture_wait(f, 3);
	cr_assert_eq(f->ios[2].rc, 0);
	cr_assert_eq(b_writes(), 1);
	end();
}

/* A was reconnected to; the write is not sent again, as B has another debt. */
Test(client_debt, paid_when_it_is_given_up)
{
	begin();
	a->is_holding = b.is_holding = true;
	submit(0, CLEAVE_WRITE, 1);
	pass(TIMEOUT_NS / 2);
	submit(1, CLEAVE_WRITE, 0);
	fixture_wait_held(f, 1);
	b.refuses_all = true;
	fixture_wait(f, 1);
	cr_assert_eq(fixture_stats(f)->writes_owed, 1);
	fake_gateway_cut(a);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, -ETIMEDOUT);
	cr_assert_eq(fixture_stats(f)->writes_owed, 1);
	cr_assert_eq(fake_gateway_count(a, WIRE_WRITE), 1);
	a->refuses_all = true;
	fake_gateway_cut(a);
	b.is_holding = b.refuses_all = false;
	submit(2, CLEAVE_WRITE, 1);
	fixture_wait(f, 3);
	cr_assert_eq(f->ios[2].rc, 0);
	end();
}

Test(client_debt, all_of_them_are_paid_first)
{
	begin();
	a->is_holding = b.is_holding = true;
	submit(0, CLEAVE_WRITE, 0);
	submit(1, CLEAVE_WRITE, 1);
	submit(2, CLEAVE_WRITE, 1);
	fixture_wait_held(f, 1);
	pass(NUM_MS(10));
	cr_assert_eq(b.held_count, 2);
	a->refuses_all = b.refuses_all = true;
	fixture_wait(f, 3);
	cr_assert_eq(fixture_stats(f)->writes_owed, 3);
	a->is_holding = b.is_holding = false;
	submit(3, CLEAVE_WRITE, 1);
	b.refuses_all = false;
	pass(NUM_S(3));
	cr_assert_eq(b_writes(), 2);
	a->refuses_all = false;
	fixture_wait(f, 4);
	cr_assert_eq(f->ios[3].rc, 0);
	end();
}

Test(client_debt, a_volume_closes_with_one)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	fixture_close(f);
	cr_assert_eq(f->ios[1].rc, -ETIMEDOUT);
	end();
}

Test(client_debt, a_session_that_is_fenced_forgets_it)
{
	begin();
	give_write_up();
	submit(1, CLEAVE_WRITE, 1);
	a->volumes[0].attach++;
	a->refuses_all = false;
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, -ESHUTDOWN);
	cr_assert_eq(b_writes(), 0);
	end();
}

/* Maps are asked for while somebody waits, but with pauses. */
Test(client_debt, maps_are_not_stormed_for)
{
	begin();
	f->options.backoff_max_ns = NUM_MS(20);
	give_write_up();
	pass(NUM_S(1));
	a->map_count = b.map_count = 0;
	pass(NUM_S(2));
	/* Whoever is not admitted asks, too: both together as often as the longest pause allows. */
	cr_assert_leq(a->map_count + b.map_count, 220);
	submit(1, CLEAVE_WRITE, 1);
	a->map_count = b.map_count = 0;
	pass(NUM_S(2));
	cr_assert_gt(a->map_count + b.map_count, 0);
	cr_assert_leq(a->map_count + b.map_count, 220);
	end();
}
