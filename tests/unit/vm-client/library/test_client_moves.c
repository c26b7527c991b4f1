/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_moves.c -- shards that move between gateways, as a client sees it
 *
 * Two fake gateways, A and B, share a volume's content. A test moves shards between them, cuts one off,
 * or lets one answer with a map of yesterday.
 */
#include "unit/client_fixture.h"
#include "vm-client/library/internal.h"

#define SHARDS 4u
#define PIECE CLIENT_MESSAGE_BYTES_MAX
#define BLOCK CLEAVE_BLOCK_BYTES
#define VOLUME_BYTES NUM_MIB(1)

static struct fixture *f;
static struct fake_gateway *a, b;
static struct sim_host *b_host;
static uint8_t *blocks[64]; /* what was written last */
static uint8_t *data[512];
static uint32_t data_count;

/* Both listen; A has the volume "v" and all shards. B takes the volume over when it is opened. */
static void
begin(uint32_t configured_count, bool is_b_in_map)
{
	struct fake_options options = { .port_count = 1, .shard_count = SHARDS };

	f = fixture_create(NET_SIM, 1, SHARDS);
	a = &f->fake;
	b_host = options.sim_host = sim_host_create(f->net, "other");
	options.loop = f->gateway_loop;
	options.address = "sim://other:1";
	fake_gateway_init(&b, &options);
	f->gateways[1] = b.addresses[0];
	f->options.gateway_count = configured_count;
	if (is_b_in_map)
		a->foreign[0] = b.addresses[0];
	b.foreign[0] = a->addresses[0];
	for (uint32_t i = 0; i < SHARDS; i++)
		b.port_of_shard[i] = 1;
	fake_gateway_add(a, "v", VOLUME_BYTES);
}

/* From now on B has the same volume, content and attach. */
static void
share_volume(void)
{
	b.volumes[0] = a->volumes[0];
	b.volume_count = 1;
}

static void
open_volume(void)
{
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	share_volume();
}

static void
end(void)
{
	fixture_close(f);
	b.volume_count = 0; /* the memory is A's */
	fake_gateway_fini(&b);
	fixture_destroy(f);
	while (data_count > 0)
		free(data[--data_count]);
}

/* @to owns @shard under @epoch, and both know. */
static void
move_shard(uint32_t shard, struct fake_gateway *to, uint32_t epoch)
{
	a->port_of_shard[shard] = to == a ? 0 : 1;
	b.port_of_shard[shard] = to == a ? 1 : 0;
	a->epoch_of_shard[shard] = b.epoch_of_shard[shard] = epoch;
}

static void
move_all(struct fake_gateway *to, uint32_t epoch)
{
	for (uint32_t i = 0; i < SHARDS; i++)
		move_shard(i, to, epoch);
}

/* Requests @first_io and on write @count blocks from @first on. */
static void
submit_writes_as(uint32_t first_io, uint32_t first, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t block = first + i;

		blocks[block] = data[data_count++] = fixture_data(BLOCK, seed + block);
		cr_assert_eq(fixture_submit(f, first_io + i, CLEAVE_WRITE, (uint64_t)block * BLOCK,
				 BLOCK, blocks[block]),
		    0);
	}
}

static void
submit_writes(uint32_t first, uint32_t count, uint64_t seed)
{
	submit_writes_as(first, first, count, seed);
}

static void
expect_writes(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_eq(f->ios[i].rc, 0);
		cr_assert_eq(memcmp(a->volumes[0].data + (uint64_t)i * BLOCK, blocks[i], BLOCK), 0);
	}
}

static uint64_t
now_ns(void)
{
	return sim_world_now_ns(f->world);
}

Test(client_moves, shards_move_one_by_one_in_the_middle_of_writes)
{
	begin(1, true);
	open_volume();
	a->is_holding = true;
	submit_writes(0, 64, 1);
	fixture_wait_held(f, 64);
	a->is_holding = false;
	fake_gateway_release(a, true);
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		move_shard(shard, &b, 2);
		submit_writes_as(64 + shard * 16, shard * 16, 16, 100 * (shard + 2));
		fixture_wait(f, 64 + 16 * (shard + 1));
	}
	expect_writes(64);
	/* And back. */
	move_all(a, 3);
	submit_writes(0, 64, 1000);
	fixture_wait(f, 192);
	expect_writes(64);
	cr_assert_gt(fixture_stats(f)->messages_remapped, 0);
	cr_assert_eq(a->overlap_violations + b.overlap_violations, 0);
	cr_assert_eq(a->order_violations + b.order_violations, 0);
	end();
}

/* Requests that A holds are done there or never: the new owner fenced it. They are sent once more. */
Test(client_moves, what_a_dead_owner_held_is_sent_to_the_next)
{
	begin(2, true);
	open_volume();
	a->is_holding = true;
	submit_writes(0, 32, 1);
	fixture_wait_held(f, 32);
	move_all(&b, 2);
	a->refuses_all = true;
	fake_gateway_cut(a);
	fixture_wait(f, 32);
	expect_writes(32);
	cr_assert_eq(fake_gateway_count(&b, WIRE_WRITE), 32);
	end();
}

/* Stopped, its connections stay; so does one of a machine that lost its power, for long enough. */
static void
silent_owner(uint32_t configured_count)
{
	uint64_t begin_ns;

	begin(configured_count, true);
	open_volume();
	submit_writes(0, 32, 1);
	fixture_wait(f, 32);
	sim_net_partition(f->gateway_host, f->client_host);
	move_all(&b, 2);
	begin_ns = now_ns();
	submit_writes(0, 32, 2);
	fixture_wait(f, 64);
	expect_writes(32);
	cr_assert_lt(now_ns() - begin_ns, NUM_S(6));
	sim_net_join(f->gateway_host, f->client_host);
	end();
}

Test(client_moves, a_silent_owner_is_left)
{
	silent_owner(2);
}

Test(client_moves, gateways_are_learnt_from_the_map)
{
	silent_owner(1);
}

Test(client_moves, one_that_comes_back_with_an_old_map_is_not_believed)
{
	begin(2, true);
	open_volume();
	move_all(&b, 2);
	submit_writes(0, 16, 1);
	fixture_wait(f, 16);
	/* A has slept, and thinks that it still owns everything. */
	memset(a->port_of_shard, 0, sizeof(a->port_of_shard));
	for (uint32_t i = 0; i < SHARDS; i++)
		a->epoch_of_shard[i] = 1;
	a->log_count = 0;
	for (uint32_t round = 0; round < 5; round++) {
		fake_gateway_cut(&b);
		submit_writes(0, 16, round + 2);
		fixture_wait(f, 16 * (round + 2));
		expect_writes(16);
	}
	cr_assert_eq(a->log_count, 0, "it was sent something");
	end();
}

Test(client_moves, both_unreachable_then_one_returns)
{
	begin(2, true);
	open_volume();
	sim_net_partition(f->gateway_host, f->client_host);
	sim_net_partition(b_host, f->client_host);
	move_all(&b, 2);
	submit_writes(0, 16, 1);
	fixture_pass(f, NUM_S(15));
	cr_assert_eq(f->done_count, 0);
	sim_net_join(b_host, f->client_host);
	fixture_wait(f, 16);
	expect_writes(16);
	end();
}

/* Each says that the other owns everything. */
Test(client_moves, a_map_that_never_settles_ends_in_the_time_out)
{
	begin(2, true);
	f->options.io_timeout_ns = NUM_S(5);
	f->options.backoff_max_ns = NUM_MS(100);
	open_volume();
	for (uint32_t i = 0; i < SHARDS; i++) {
		a->port_of_shard[i] = b.port_of_shard[i] = 1;
		a->epoch_of_shard[i] = b.epoch_of_shard[i] = 5;
	}
	a->map_count = b.map_count = a->log_count = b.log_count = 0;
	submit_writes(0, 8, 1);
	fixture_wait(f, 8);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(f->ios[i].rc, -ETIMEDOUT);
	/* 5 s, a tenth of a second and half of that between two maps. */
	cr_assert_leq(a->map_count + b.map_count, 120);
	cr_assert_leq(a->log_count + b.log_count, 8 * 120);
	end();
}

Test(client_moves, an_owner_that_is_only_slow_is_not_stormed)
{
	begin(1, true);
	open_volume();
	a->map_count = b.map_count = 0;
	a->is_holding = true;
	submit_writes(0, 16, 1);
	fixture_pass(f, NUM_S(9));
	cr_assert_leq(a->map_count + b.map_count, 8);
	cr_assert_eq(a->held_count, 16);
	fake_gateway_release(a, false);
	fixture_wait(f, 16);
	expect_writes(16);
	cr_assert_eq(fake_gateway_count(&b, WIRE_WRITE), 0);
	end();
}

/* Twelve pieces, four at a time, four seconds each: longer than a request may wait, and it goes on. */
Test(client_moves, the_time_begins_anew_with_each_answer)
{
	uint8_t *all = fixture_data(12 * PIECE, 1), *one = fixture_data(BLOCK, 2);

	begin(1, true);
	f->options.io_timeout_ns = NUM_S(5);
	f->options.message_count_max = 4;
	open_volume();
	a->is_holding = true;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 12 * PIECE, all), 0);
	/* A message behind it, of which nothing can be asked for yet. */
	cr_assert_eq(fixture_submit(f, 1, CLEAVE_WRITE, 12 * PIECE, BLOCK, one), 0);
	for (uint32_t i = 0; i < 16 && f->done_count < 2; i++) {
		fixture_pass(f, NUM_S(4));
		fake_gateway_release(a, false);
	}
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[0].rc, 0);
	cr_assert_eq(f->ios[1].rc, 0);
	cr_assert_eq(memcmp(a->volumes[0].data, all, 12 * PIECE), 0);
	free(all);
	free(one);
	end();
}

/* But a read takes turns with it. */
Test(client_moves, a_read_does_not_wait_for_all_of_a_long_change)
{
	uint8_t *all = fixture_data(12 * PIECE, 1), *one = fixture_data(BLOCK, 2);

	begin(1, true);
	f->options.message_count_max = 4;
	open_volume();
	a->is_holding = true;
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_WRITE, 0, 12 * PIECE, all), 0);
	cr_assert_eq(fixture_submit(f, 1, CLEAVE_READ, 12 * PIECE, BLOCK, one), 0);
	fixture_wait_held(f, 4);
	fake_gateway_release(a, false);
	fixture_wait_held(f, 4);
	fake_gateway_release(a, false);
	fixture_wait_held(f, 4);
	cr_assert_eq(f->done_count, 1);
	cr_assert_eq(f->ios[1].rc, 0);
	a->is_holding = false;
	fake_gateway_release(a, false);
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[0].rc, 0);
	free(all);
	free(one);
	end();
}

Test(client_moves, one_that_owns_nothing_is_not_connected_to)
{
	begin(1, true);
	open_volume();
	submit_writes(0, 16, 1);
	fixture_wait(f, 16);
	cr_assert_eq(b.hello_count, 0);
	end();
}

/* Merging. */

static struct client_map *
make_map(const char *address, uint32_t epoch)
{
	struct client_map *map = calloc(1, sizeof(*map));

	cr_assert_not_null(map);
	map->shard_count = 2;
	map->port_count = 1;
	snprintf(map->ports[0], sizeof(map->ports[0]), "%s", address);
	map->epoch_of_shard[0] = map->epoch_of_shard[1] = epoch;
	return map;
}

static const char *
owner_of(const struct client_map *map, uint32_t shard)
{
	return map->ports[map->port_of_shard[shard]];
}

Test(client_map, greater_epochs_win_shard_by_shard)
{
	struct client_map *map = make_map("sim://a:1", 5), *other = make_map("sim://b:1", 4);

	other->epoch_of_shard[1] = 6;
	cr_assert(map_merge(map, other));
	cr_assert_str_eq(owner_of(map, 0), "sim://a:1");
	cr_assert_eq(map->epoch_of_shard[0], 5);
	cr_assert_str_eq(owner_of(map, 1), "sim://b:1");
	cr_assert_not(map_merge(map, other), "nothing new");
	/* The same epoch at another place: who shall own it has changed. */
	other->epoch_of_shard[0] = 5;
	cr_assert(map_merge(map, other));
	cr_assert_str_eq(owner_of(map, 0), "sim://b:1");
	free(map);
	free(other);
}

Test(client_map, offered_again_and_again_less_is_taken)
{
	struct client_map *map = make_map("sim://a:1", 50), *other = make_map("sim://b:1", 2);

	for (uint32_t i = 0; i < 8; i++)
		cr_assert_not(map_merge(map, other));
	cr_assert(map_merge(map, other));
	cr_assert_str_eq(owner_of(map, 0), "sim://b:1");
	cr_assert_eq(map->epoch_of_shard[1], 2);
	free(map);
	free(other);
}

Test(client_map, another_number_of_shards_replaces_it)
{
	struct client_map *map = make_map("sim://a:1", 5), *other = make_map("sim://b:1", 1);

	other->shard_count = 1;
	cr_assert(map_merge(map, other));
	cr_assert_eq(map->shard_count, 1);
	cr_assert_str_eq(owner_of(map, 0), "sim://b:1");
	free(map);
	free(other);
}

Test(client_map, without_room_for_an_old_owner_the_new_one_is_taken)
{
	struct client_map *map = make_map("sim://a:1", 5), *other = make_map("sim://b:1", 1);

	other->port_count = CLIENT_PORTS_MAX;
	for (uint32_t i = 0; i < CLIENT_PORTS_MAX; i++)
		snprintf(other->ports[i], sizeof(other->ports[i]), "sim://b:%u", i + 1);
	cr_assert(map_merge(map, other));
	cr_assert_str_eq(owner_of(map, 0), "sim://b:1");
	free(map);
	free(other);
}

static bool
is_refused(void *arg)
{
	struct loop_link *link, *next;

	(void)arg;
	LIST_FOREACH_SAFE(&f->volume->connections, link, next) {
		if (LIST_ENTRY(link, struct connection, link)->refused[0] != '\0')
			return true;
	}
	return false;
}

/* Volumes there have the same ids, and none is this one: that is no end of it, and nothing is read there. */
CLIENT_BOTH(client_moves, a_gateway_of_another_cluster_at_the_address_ends_no_volume)
{
	uint8_t block[CLEAVE_BLOCK_BYTES];
	uint32_t read_count;

	f = fixture_with_volume(kind, NUM_MIB(1));
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_READ, 0, sizeof(block), block), 0);
	fixture_wait(f, 1);
	read_count = fake_gateway_count(&f->fake, WIRE_READ);
	f->fake.cluster_id = 2;
	fake_gateway_cut(&f->fake);
	cr_assert_eq(fixture_submit(f, 1, CLEAVE_READ, 0, sizeof(block), block), 0);
	fixture_run(f, is_refused);
	cr_assert_eq(fake_gateway_count(&f->fake, WIRE_READ), read_count);
	f->fake.cluster_id = 1;
	fixture_wait(f, 2);
	cr_assert_eq(f->ios[1].rc, 0, "rc=%d", f->ios[1].rc);
	fixture_destroy(f);
}

static bool
is_asked_at_another(void *arg)
{
	(void)arg;
	return strstr(f->client->control.error, "another cluster's gateway answers") != NULL;
}

/* A volume is open, and the address that was configured has been given to another cluster: it is asked for no map. */
CLIENT_BOTH(client_moves, a_gateway_of_another_cluster_is_asked_for_no_map)
{
	uint8_t block[CLEAVE_BLOCK_BYTES];
	uint32_t asked_count;

	f = fixture_with_volume(kind, NUM_MIB(1));
	f->fake.cluster_id = 2;
	fake_gateway_cut(&f->fake);
	asked_count = fake_gateway_count(&f->fake, WIRE_CONTROL);
	cr_assert_eq(fixture_submit(f, 0, CLEAVE_READ, 0, sizeof(block), block), 0);
	fixture_run(f, is_asked_at_another);
	cr_assert_eq(fake_gateway_count(&f->fake, WIRE_CONTROL), asked_count);
	cr_assert_eq(f->client->cluster_id, 1);
	f->fake.cluster_id = 1;
	fixture_wait(f, 1);
	cr_assert_eq(f->ios[0].rc, 0, "rc=%d", f->ios[0].rc);
	fixture_destroy(f);
}
