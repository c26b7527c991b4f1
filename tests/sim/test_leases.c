/* SPDX-License-Identifier: Apache-2.0 */
/* test_leases.c -- read leases of real clients and gateways: who has them, and who waits for them */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cluster.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/session/read_lease.h"
#include "middletier/shard/takeover.h"
#include "vm-client/library/internal.h"

#define SEED 5u
#define LIMIT_NS NUM_S(60)
#define SHARDS 2u
#define SOON_NS NUM_MS(100) /* some round trips, and no lease */

struct client {
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_volume *volume;
	struct cleave_io io;
	bool is_open, is_done, is_closed;
};

static struct sim_cluster *cluster;
static struct client clients[3];
static uint8_t block[CLEAVE_BLOCK_BYTES];
static struct cleave_call call;
static bool is_answered;

static void
client_start(uint32_t index)
{
	struct client *client = &clients[index];
	const char *gateway = cluster->gateways[0].address;
	struct cleave_client_options options = { .gateways = &gateway,
		.gateway_count = 1,
		.message_count_max = 16,
		.backoff_max_ns = NUM_MS(10),
		.keepalive_ns = NUM_S(2) };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	*client = (struct client){ .host = cluster->client_hosts[index] };
	client->loop = sim_cluster_loop_create(cluster, client->host);
	options.loop = client->loop;
	options.sim_host = client->host;
	cr_assert_eq(cleave_client_create(&options, &client->client, error), 0, "%s", error);
}

static void
on_answer(struct cleave_call *unused, int rc, const char *reply, const char *error, void *arg)
{
	(void)unused;
	(void)reply;
	(void)arg;
	cr_assert_eq(rc, 0, "%s", error);
	is_answered = true;
}

static bool
is_true(void *arg)
{
	return *(bool *)arg;
}

static void
run_until(bool *flag, const char *what)
{
	sim_cluster_run_until(cluster, is_true, flag, LIMIT_NS, what);
}

/* By a client that opens nothing. */
static void
ask(const char *text)
{
	call = (struct cleave_call){ .must_not_repeat = true, .fn = on_answer };
	is_answered = false;
	cr_assert_eq(cleave_control(clients[2].client, &call, text), 0);
	run_until(&is_answered, text);
}

static void
create(const char *name, const char *more)
{
	char text[160];

	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.create\",\"name\":\"%s\",\"size_bytes\":%llu%s}", name,
	    (unsigned long long)(SHARDS * CLEAVE_CHUNK_BYTES), more);
	ask(text);
}

static void
setup(void)
{
	struct sim_cluster_options options = { .seed = SEED,
		.client_count = NUM_COUNT(clients),
		.shard_count = SHARDS,
		.knows_deaths = true,
		.has_leases = true };

	cluster = sim_cluster_create(&options);
	sim_cluster_start(cluster);
	for (uint32_t i = 0; i < NUM_COUNT(clients); i++)
		client_start(i);
	create("leased", ",\"reads\":\"direct\"");
	create("plain", "");
	sim_cluster_run(cluster, MT_READ_LEASE_NS); /* since the first claims */
}

static void
teardown(void)
{
	for (uint32_t i = 0; i < NUM_COUNT(clients); i++) {
		sim_host_kill(clients[i].host, SIM_DEATH_RESET);
		cleave_client_destroy(clients[i].client);
		loop_destroy(clients[i].loop);
	}
	sim_cluster_destroy(cluster);
}

TestSuite(leases, .init = setup, .fini = teardown, .timeout = 120);

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct client *client = arg;

	cr_assert_eq(rc, 0, "%s", error);
	client->volume = volume;
	client->is_open = true;
	cr_assert_eq(leases_want(volume, false), 0);
}

static void
open_volume(struct client *client, const char *name, unsigned flags)
{
	client->is_open = false;
	cr_assert_eq(cleave_volume_open(client->client, name, flags, on_open, client), 0);
	run_until(&client->is_open, "a volume is opened");
}

static void
on_done(struct cleave_io *io, int rc, void *arg)
{
	struct client *client = arg;

	(void)io;
	cr_assert_eq(rc, 0, "%d", rc);
	client->is_done = true;
}

static void
begin(struct client *client, enum cleave_op op)
{
	client->is_done = false;
	client->io = (struct cleave_io){ .op = op,
		.length_bytes = sizeof(block),
		.data = block,
		.fn = on_done,
		.arg = client };
	cr_assert_eq(cleave_submit(client->volume, &client->io), 0);
}

/* How long it took. */
static uint64_t
request(struct client *client, enum cleave_op op)
{
	uint64_t from_ns = sim_world_now_ns(cluster->world);

	begin(client, op);
	run_until(&client->is_done, "a request is answered");
	return sim_world_now_ns(cluster->world) - from_ns;
}

static uint32_t
held_count(const struct client *client)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SHARDS; i++)
		count += leases_hold(client->volume, i, client->client->map->epoch_of_shard[i]);
	return count;
}

/* Where block 0 of the volume is. */
static uint32_t
shard_of(const struct client *client)
{
	return wire_shard_of(client->volume->info.segment_base, 0, SHARDS);
}

static bool
has_all(void *arg)
{
	return held_count(arg) == SHARDS;
}

static void
open_leased(struct client *client)
{
	open_volume(client, "leased", CLEAVE_OPEN_TAKE);
	sim_cluster_run_until(cluster, has_all, client, LIMIT_NS, "leases on all shards");
}

static void
on_closed(void *arg)
{
	((struct client *)arg)->is_closed = true;
}

Test(leases, a_session_has_them_for_as_long_as_it_wants)
{
	open_leased(&clients[0]);
	for (uint32_t i = 0; i < 100; i++) {
		sim_cluster_run(cluster, NUM_MS(20));
		cr_assert_eq(held_count(&clients[0]), SHARDS, "after %u ms", 20 * (i + 1));
	}
	cr_assert_not(
	    leases_hold(clients[0].volume, 0, clients[0].client->map->epoch_of_shard[0] + 1));
}

Test(leases, of_a_volume_that_is_read_at_gateways_there_are_none)
{
	open_volume(&clients[0], "plain", 0);
	(void)request(&clients[0], CLEAVE_WRITE);
	sim_cluster_run(cluster, NUM_S(1));
	cr_assert_eq(held_count(&clients[0]), 0);
}

/* A lease of such a one would have to be waited for at each change. */
Test(leases, a_reader_beside_the_writer_has_none)
{
	open_leased(&clients[0]);
	open_volume(&clients[1], "leased", CLEAVE_OPEN_READ_ONLY);
	(void)request(&clients[1], CLEAVE_READ);
	sim_cluster_run(cluster, NUM_S(1));
	cr_assert_eq(held_count(&clients[1]), 0);
	cr_assert_lt(request(&clients[0], CLEAVE_WRITE), SOON_NS);
}

Test(leases, end_by_themselves_where_nobody_answers)
{
	open_leased(&clients[0]);
	sim_loop_pause(cluster->gateways[0].loop, NUM_S(1));
	sim_cluster_run(cluster, MT_READ_LEASE_NS);
	cr_assert_eq(held_count(&clients[0]), 0);
}

Test(leases, a_newer_session_is_let_in_when_they_are_over)
{
	uint64_t waited_ns;

	open_leased(&clients[0]);
	open_volume(&clients[1], "leased", CLEAVE_OPEN_TAKE);
	waited_ns = request(&clients[1], CLEAVE_WRITE);
	/* Leases are renewed twice while they last. */
	cr_assert_geq(waited_ns, MT_READ_LEASE_NS / 2 - SOON_NS);
	cr_assert_leq(waited_ns, MT_READ_LEASE_NS + SOON_NS);
	cr_assert_not(leases_hold_any(clients[0].volume, shard_of(&clients[0])));
	cr_assert_lt(request(&clients[1], CLEAVE_WRITE), SOON_NS);
}

Test(leases, those_that_were_returned_keep_nobody_out)
{
	open_leased(&clients[0]);
	cleave_volume_close(clients[0].volume, on_closed, &clients[0]);
	run_until(&clients[0].is_closed, "it is closed");
	open_volume(&clients[1], "leased", 0);
	cr_assert_lt(request(&clients[1], CLEAVE_WRITE), SOON_NS);
}

/* The question that renews them is on its way out: the return is sent behind it. */
Test(leases, those_that_are_being_renewed_are_returned_too)
{
	struct loop_link *link, *next;

	open_leased(&clients[0]);
	LIST_FOREACH_SAFE(&clients[0].volume->connections, link, next) {
		struct connection *connection = LIST_ENTRY(link, struct connection, link);

		leases_on_ready(connection);
		cr_assert(connection->lease.is_sending);
	}
	cr_assert(leases_return(clients[0].volume)); /* as the close does */
	cleave_volume_close(clients[0].volume, on_closed, &clients[0]);
	run_until(&clients[0].is_closed, "it is closed");
	open_volume(&clients[1], "leased", 0);
	cr_assert_lt(request(&clients[1], CLEAVE_WRITE), SOON_NS);
}

Test(leases, a_session_that_connects_anew_does_not_wait_for_its_own)
{
	struct connection *connection;

	open_leased(&clients[0]);
	(void)request(&clients[0], CLEAVE_WRITE);
	connection =
	    LIST_ENTRY(list_first(&clients[0].volume->connections), struct connection, link);
	connection_reset(connection);
	cr_assert_lt(request(&clients[0], CLEAVE_WRITE), SOON_NS);
	cr_assert(leases_hold_any(clients[0].volume, shard_of(&clients[0])));
}

/* Again, and it knows of no lease any more. */
static const struct mt_shard *
start_gateway_anew(void)
{
	sim_cluster_gateway_kill(cluster, 0);
	sim_cluster_gateway_start(cluster, 0);
	run_until(&cluster->gateways[0].is_ready, "the gateway serves");
	return &cluster->gateways[0].gateway->ports[0].shards[0];
}

Test(leases, a_new_owner_takes_changes_when_those_of_before_are_over)
{
	const struct mt_shard *shard;
	uint64_t over_ns;

	open_leased(&clients[0]);
	shard = start_gateway_anew();
	over_ns = shard->takeover->claimed_ns + MT_READ_LEASE_NS;
	open_volume(&clients[1], "leased", CLEAVE_OPEN_TAKE);
	begin(&clients[1], CLEAVE_WRITE);
	/* Reads need not wait. */
	open_volume(&clients[2], "plain", 0);
	(void)request(&clients[2], CLEAVE_READ);
	cr_assert_lt(loop_now_ns(cluster->gateways[0].loop), over_ns);
	cr_assert_not(clients[1].is_done);
	run_until(&clients[1].is_done, "it is written");
	cr_assert_geq(loop_now_ns(cluster->gateways[0].loop), over_ns);
	cr_assert_leq(loop_now_ns(cluster->gateways[0].loop), over_ns + SOON_NS);
	cr_assert_not(leases_hold_any(clients[0].volume, shard_of(&clients[0])));
}

Test(leases, a_new_owner_takes_changes_of_other_volumes_at_once)
{
	const struct mt_shard *shard;

	open_leased(&clients[0]);
	shard = start_gateway_anew();
	open_volume(&clients[1], "plain", 0);
	(void)request(&clients[1], CLEAVE_WRITE);
	cr_assert_lt(loop_now_ns(cluster->gateways[0].loop),
	    shard->takeover->claimed_ns + MT_READ_LEASE_NS);
}

Test(leases, reads_do_not_wait_for_those_of_an_owner_before)
{
	const struct mt_shard *shard;

	open_leased(&clients[0]);
	shard = start_gateway_anew();
	open_volume(&clients[1], "leased", CLEAVE_OPEN_TAKE);
	(void)request(&clients[1], CLEAVE_READ);
	cr_assert_lt(loop_now_ns(cluster->gateways[0].loop),
	    shard->takeover->claimed_ns + MT_READ_LEASE_NS);
}

/* ---- what changes a volume, and is no session ---- */

static void
expect_none(const struct client *client)
{
	for (uint32_t i = 0; i < SHARDS; i++)
		cr_assert_not(leases_hold_any(client->volume, i), "shard %u", i);
}

/* The gateway's table, when the volume is another one: whoever reads it at the gateway may see that from then on. */
static struct mt_volume before;

static bool
is_changed(void *arg)
{
	const struct mt_volume *now =
	    &mt_volumes_by_name(&cluster->gateways[0].gateway->volumes, "leased")->volume;

	(void)arg;
	return now->size_bytes != before.size_bytes || now->reads != before.reads ||
	    memcmp(&now->scope, &before.scope, sizeof(now->scope)) != 0;
}

/* @text is asked while client 0 has leases on all shards: it has none when the volume is another one. */
static void
expect_fence(const char *text)
{
	open_leased(&clients[0]);
	before = mt_volumes_by_name(&cluster->gateways[0].gateway->volumes, "leased")->volume;
	call = (struct cleave_call){ .must_not_repeat = true, .fn = on_answer };
	is_answered = false;
	cr_assert_eq(cleave_control(clients[2].client, &call, text), 0);
	sim_cluster_run_until(cluster, is_changed, NULL, LIMIT_NS, text);
	expect_none(&clients[0]);
	run_until(&is_answered, text);
	expect_none(&clients[0]);
}

Test(leases, are_over_when_their_volume_is_rolled_back)
{
	ask("{\"op\":\"snapshot.create\",\"name\":\"leased@s\"}");
	expect_fence("{\"op\":\"snapshot.rollback\",\"name\":\"leased@s\",\"force\":true}");
}

Test(leases, are_over_when_its_end_is_cut_off)
{
	expect_fence("{\"op\":\"volume.resize\",\"name\":\"leased\",\"size_bytes\":4096,"
		     "\"shrink\":true,\"force\":true}");
}

Test(leases, are_over_when_it_is_read_at_gateways_alone)
{
	expect_fence("{\"op\":\"volume.reads\",\"name\":\"leased\",\"reads\":\"gateway\","
		     "\"force\":true}");
	open_volume(&clients[1], "leased", 0);
	(void)request(&clients[1], CLEAVE_WRITE);
	sim_cluster_run(cluster, NUM_S(1));
	cr_assert_eq(held_count(&clients[1]), 0);
}

Test(leases, are_had_of_a_volume_that_became_one)
{
	ask("{\"op\":\"volume.reads\",\"name\":\"plain\",\"reads\":\"hot\"}");
	open_volume(&clients[0], "plain", 0);
	sim_cluster_run_until(cluster, has_all, &clients[0], LIMIT_NS, "leases on all shards");
}

/* ---- maps ---- */

static bool
looks(const struct client *client, uint32_t index)
{
	struct map_block found;

	return maps_look(client->volume, index * CLEAVE_BLOCK_BYTES, &found);
}

static bool
has_map(void *arg)
{
	return looks(arg, 1);
}

static void
open_mapped(struct client *client)
{
	const struct maps_options options = { .miss_max = 1 };

	open_leased(client);
	cr_assert_eq(maps_want(client->volume, &options), 0);
	(void)request(client, CLEAVE_READ);
	sim_cluster_run_until(cluster, has_map, client, LIMIT_NS, "a map");
}

Test(leases, a_session_is_told_where_blocks_lie)
{
	open_mapped(&clients[0]);
	cr_assert(looks(&clients[0], 0), "never written");
	block[0] = 1; /* zeros would be known as such */
	(void)request(&clients[0], CLEAVE_WRITE);
	cr_assert_not(looks(&clients[0], 0), "its own write");
	cr_assert(looks(&clients[0], 1));
	sim_cluster_run(cluster, NUM_S(2));
	(void)request(&clients[0], CLEAVE_READ); /* which asks again */
	sim_cluster_run_until(cluster, has_map, &clients[0], LIMIT_NS, "another map");
	cr_assert_not(looks(&clients[0], 0), "it is in the log");
	(void)request(&clients[0], CLEAVE_DISCARD);
	cr_assert_not(looks(&clients[0], 0));
	sim_cluster_run(cluster, NUM_S(2));
	(void)request(&clients[0], CLEAVE_READ);
	sim_cluster_run_until(cluster, has_map, &clients[0], LIMIT_NS, "one more");
	cr_assert(looks(&clients[0], 0), "zeros of the log are zeros");
}

Test(leases, a_map_of_an_owner_before_is_void)
{
	open_mapped(&clients[0]);
	(void)start_gateway_anew();
	sim_cluster_run(cluster, NUM_S(1)); /* until then leases of the one before hold */
	(void)request(&clients[0], CLEAVE_READ);
	cr_assert(leases_hold_any(clients[0].volume, shard_of(&clients[0])));
	cr_assert_not(looks(&clients[0], 1));
	(void)request(&clients[0], CLEAVE_READ);
	sim_cluster_run_until(cluster, has_map, &clients[0], LIMIT_NS, "a map of the new one");
}

Test(leases, a_session_that_was_taken_over_has_no_maps)
{
	open_mapped(&clients[0]);
	open_volume(&clients[1], "leased", CLEAVE_OPEN_TAKE);
	(void)request(&clients[1], CLEAVE_WRITE);
	cr_assert_not(looks(&clients[0], 0));
	cr_assert_not(looks(&clients[0], 1));
}
