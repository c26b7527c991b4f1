/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_claim.c -- a node remembers which gateway has a shard's epoch: every opcode x whose epoch, over connections with keys
 *
 * Claims are built in with planted bugs, claim_forgotten and lent_all, that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "storage-node/claim.c"
#include "storage-node/claim_page.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/gather.h"
#include "support/key_maker.h"
#include "support/node_rig.h"

#define CLUSTER "cleave://1122334455667788/"
#define SHARD 3u
#define EPOCH 5u

static struct key_authority authority;
static struct split_key *node_key, *keys[2];
static struct split_port *ports[2]; /* of gateway/1 and gateway/2 */
static struct node_rig *rig;
static struct rig_extent extent;

/* The rig's connection is gateway/@number's from here on. */
static void
come_as(uint32_t number)
{
	const struct wire_hello hello = { .role = WIRE_ROLE_GATEWAY,
		.cluster_id = RIG_CLUSTER_ID,
		.session_id = 0x57,
		.attach = 0x0e };

	rig_disconnect(rig);
	rig->port = ports[number - 1];
	cr_assert_eq(rig_connect_as(rig, &hello), 0);
}

static void
setup(void)
{
	key_authority_make(&authority, 0, 0);
	node_key = key_make(&authority, CLUSTER "node/7");
	keys[0] = key_make(&authority, CLUSTER "gateway/1");
	keys[1] = key_make(&authority, CLUSTER "gateway/2");
	rig = rig_create(&(struct rig_options){ .node_key = node_key, .own_key = keys[0] });
	ports[0] = rig->port;
	ports[1] = rig_port_open(rig, keys[1]);
	cr_assert_eq(rig_start(rig), 0, "%s", rig->ready_reason);
	come_as(1);
	rig_extent_init(&extent, SHARD, EPOCH, 1, EXTENT_LOG);
}

static void
teardown(void)
{
	rig_disconnect(rig);
	rig->port = ports[0];
	split_port_close(ports[1]);
	rig_extent_fini(&extent);
	rig_destroy(rig);
	split_key_free(keys[0]);
	split_key_free(keys[1]);
	split_key_free(node_key);
	key_authority_fini(&authority);
}

struct mutant_set mutants_on;

TestSuite(claim, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t
refused_count(void)
{
	return node_counters(rig->node)->claims_refused;
}

/* A request about the extent, as whoever is connected, under @epoch. */
static int
ask(enum wire_opcode opcode, uint32_t epoch)
{
	struct wire_node request = { .opcode = opcode,
		.id = extent.id,
		.epoch = epoch,
		.kind = extent.kind };
	uint8_t byte = 0, list[WIRE_STRETCH_BYTES];

	switch (opcode) {
	case WIRE_EXTENT_READ:
		request.length_bytes = 4096;
		break;
	case WIRE_EXTENT_FIND:
		request.length_bytes = 4096;
		request.block_count = 1;
		break;
	case WIRE_EXTENT_GATHER:
		wire_gather_encode(list, &(struct wire_stretch){ 0, 4096 }, 1);
		request.length_bytes = 4096;
		request.stretch_count = 1;
		return rig_call_rc(rig, &request, list, sizeof(list), NULL);
	case WIRE_EXTENT_CREATE:
		request.id.counter++;
		break;
	case WIRE_EXTENT_DELETE:
		request.offset_bytes = extent.incarnation + 1; /* no such copy */
		break;
	case WIRE_EXTENT_TRUNCATE:
		request.offset_bytes = 4096;
		break;
	default:
		break;
	}
	if (opcode == WIRE_EXTENT_APPEND) { /* what is in it is judged later */
		request.length_bytes = 4096;
		request.offset_bytes = extent.acked_bytes + 4096;
		return rig_call_rc(rig, &request, (uint8_t[4096]){ byte }, 4096, NULL);
	}
	return rig_call_rc(rig, &request, NULL, 0, NULL);
}

/* Every request about an extent but LIST, which tells names and lengths. */
static const enum wire_opcode opcodes[] = { WIRE_EXTENT_CREATE, WIRE_EXTENT_APPEND,
	WIRE_EXTENT_READ, WIRE_EXTENT_FREEZE, WIRE_EXTENT_TRUNCATE, WIRE_EXTENT_DELETE,
	WIRE_EXTENT_VERIFY, WIRE_EXTENT_FIND, WIRE_EXTENT_GATHER, WIRE_SHARD_FENCE };

static bool
is_look(enum wire_opcode opcode)
{
	return opcode == WIRE_EXTENT_READ || opcode == WIRE_EXTENT_FIND ||
	    opcode == WIRE_EXTENT_GATHER || opcode == WIRE_EXTENT_VERIFY;
}

Test(claim, another_gateway_is_refused_under_the_owners_epoch_whatever_it_asks_for)
{
	uint64_t refused;

	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	come_as(2);
	for (size_t i = 0; i < NUM_COUNT(opcodes); i++) {
		refused = refused_count();
		cr_assert_eq(ask(opcodes[i], EPOCH), -ENOKEY, "0x%02x", opcodes[i]);
		cr_assert_eq(refused_count(), refused + 1);
		/* Older ones: too old to change anything, and nobody's to look. */
		cr_assert_eq(ask(opcodes[i], EPOCH - 1), is_look(opcodes[i]) ? -ENOKEY : -ESTALE,
		    "0x%02x", opcodes[i]);
	}
	cr_assert_geq(rig_list(rig, SHARD, (struct wire_extent_entry[4]){ { 0 } }, 4), 1);
	/* None of it has changed anything: the owner goes on. */
	come_as(1);
	cr_assert_eq(rig_append(rig, &extent, 2), 0);
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes));
}

Test(claim, the_owner_is_not_refused_whatever_it_asks_for)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	for (size_t i = 0; i < NUM_COUNT(opcodes); i++)
		cr_assert_neq(ask(opcodes[i], EPOCH), -ENOKEY, "0x%02x", opcodes[i]);
	cr_assert_eq(refused_count(), 0u);
}

Test(claim, a_take_over_is_the_next_owners)
{
	struct wire_node_reply reply;
	uint64_t claims;

	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	claims = node_counters(rig->node)->claims;
	come_as(2);
	cr_assert_eq(rig_freeze(rig, &extent, EPOCH + 1, &reply), 0);
	cr_assert_eq(node_counters(rig->node)->claims, claims + 1);
	cr_assert_eq(rig_cut(rig, &extent, EPOCH + 1, extent.acked_bytes), 0);
	/* The one before it may still look; it changes nothing, and is told what it always was. */
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), 0);
	cr_assert_eq(ask(WIRE_EXTENT_APPEND, EPOCH), -ESTALE);
	cr_assert_eq(ask(WIRE_EXTENT_TRUNCATE, EPOCH), -ESTALE);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), -ENOKEY);
	cr_assert_eq(ask(WIRE_EXTENT_DELETE, EPOCH + 1), -ENOKEY);
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + 1), -ENOKEY);
	/* And has it back with the next epoch. */
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + 2), 0);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 2), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 2), -ENOKEY);
}

/* ---- what the owner has lent ---- */

/* The owner lends its extent to gateway/@number; 0: to nobody any more. */
static int
lend(uint64_t number, uint32_t epoch)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_EXTENT_LEND,
		.id = extent.id,
		.offset_bytes = number,
		.epoch = epoch },
	    NULL, 0, NULL);
}

/* gateway/2 may look at what is the shard's, append to what was lent, and nothing else. */
static bool
may_do_more(void)
{
	uint32_t more = 0;

	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), 0);
	cr_assert_eq(ask(WIRE_EXTENT_GATHER, EPOCH), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	for (size_t i = 0; i < NUM_COUNT(opcodes); i++) {
		if (is_look(opcodes[i]) || opcodes[i] == WIRE_EXTENT_APPEND)
			continue;
		more += ask(opcodes[i], EPOCH) != -ENOKEY;
	}
	extent.id.counter++;
	more += ask(WIRE_EXTENT_APPEND, EPOCH) != -ENOKEY;
	extent.id.counter--;
	more += lend(2, EPOCH) != -ENOKEY;
	return more > 0;
}

Test(claim, who_is_lent_an_extent_may_append_there_and_look)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(lend(2, EPOCH), 0);
	cr_assert_not(may_do_more());
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH - 1), -ENOKEY, "under another epoch");
	come_as(1);
	cr_assert_eq(rig_append(rig, &extent, 1), 0, "the owner is what it was");
	cr_assert_eq(lend(0, EPOCH), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
	cr_assert_eq(ask(WIRE_EXTENT_APPEND, EPOCH), -ENOKEY);
}

Test(claim, the_planted_bug_lets_it_change_all)
{
	mutant_set_add(&mutants_on, MUTANT_lent_all);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(lend(2, EPOCH), 0);
	cr_assert(may_do_more());
}

Test(claim, a_loan_is_to_another_one_alone_and_by_the_owner_alone)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(lend(3, EPOCH), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
	cr_assert_eq(lend(2, EPOCH), -ENOKEY);
	cr_assert_eq(ask(WIRE_EXTENT_APPEND, EPOCH), -ENOKEY);
}

Test(claim, a_loan_ends_with_the_epoch_and_with_the_node)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(lend(2, EPOCH), 0);
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + 1), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), -ENOKEY);
	come_as(1);
	cr_assert_eq(lend(2, EPOCH), -ESTALE, "it is too old");
	cr_assert_eq(lend(2, EPOCH + 1), 0);
	rig_kill(rig, true);
	cr_assert_eq(rig_start(rig), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), -ENOKEY);
}

/* gateway/1 had the epoch before, and no request of gateway/2 has fenced it off here yet. */
Test(claim, the_owner_before_says_nothing_of_the_newest_owners_loan)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
	cr_assert_eq(lend(1, EPOCH + 1), 0);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
	cr_assert_eq(lend(0, EPOCH), -ESTALE);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0, "it is lent yet");
}

Test(claim, an_epoch_far_above_the_fence_ends_no_loan)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(lend(2, EPOCH), 0);
	come_as(2);
	cr_assert_eq(lend(2, EPOCH + (1u << 20) + 1), -EOVERFLOW);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), 0);
}

/* Whatever it comes with first: nodes that were away hear of a new owner by a length, a deletion, or a read. */
Test(claim, any_request_under_a_higher_epoch_makes_it_the_senders)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	for (uint32_t i = 0; i < NUM_COUNT(opcodes); i++) {
		uint32_t epoch = EPOCH + 1 + i;

		come_as(2 - i % 2);
		cr_assert_neq(ask(opcodes[i], epoch), -ENOKEY, "0x%02x", opcodes[i]);
		come_as(1 + i % 2);
		cr_assert_eq(ask(WIRE_EXTENT_READ, epoch), -ENOKEY, "0x%02x", opcodes[i]);
	}
}

/* An epoch to which no take-over comes would shut the owner out. */
Test(claim, an_epoch_far_above_the_fence_is_nobodys)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + (1u << 20) + 1), -ENOKEY);
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + (1u << 20) + 1), -EOVERFLOW);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
}

/* gateway/1 has EPOCH + 1; then the node is killed, or loses its power, and starts. gateway/2 comes first. */
static void
start_behind_a_freeze(void (*meanwhile)(void))
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(rig_freeze(rig, &extent, EPOCH + 1, NULL), 0);
	rig_kill(rig, true);
	if (meanwhile != NULL)
		meanwhile();
	cr_assert_eq(rig_start(rig), 0, "%s", rig->ready_reason);
	come_as(2);
}

/* As where no page tells: the fence is known, and not whose it is. */
static void
the_first_that_comes_has_it(void)
{
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), -ENOKEY);
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + 2), 0);
}

Test(claim, a_start_knows_whose_the_newest_epoch_is)
{
	start_behind_a_freeze(NULL);
	for (size_t i = 0; i < NUM_COUNT(opcodes); i++)
		cr_assert_eq(ask(opcodes[i], EPOCH + 1), -ENOKEY, "0x%02x", opcodes[i]);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
	cr_assert_eq(rig_cut(rig, &extent, EPOCH + 1, extent.acked_bytes), 0);
	/* A take-over is what it was. */
	come_as(2);
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + 2), 0);
	rig_kill(rig, true);
	cr_assert_eq(rig_start(rig), 0);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 2), -ENOKEY);
}

Test(claim, a_start_of_a_node_that_keeps_no_claims_lets_another_in)
{
	mutant_set_add(&mutants_on, MUTANT_claim_forgotten);
	start_behind_a_freeze(NULL);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
}

static void
rot_claims(void)
{
	disk_sim_rot(rig->disk, ondisk_claims_offset(0) + 40 + 12 * SHARD, 1);
}

static void
lose_claims(void)
{
	static const uint8_t zeros[ONDISK_PAGE_BYTES];

	disk_sim_poke(rig->disk, ondisk_claims_offset(0), zeros, sizeof(zeros));
}

static void
break_claims(void)
{
	cr_assert_eq(disk_sim_set_bad(rig->disk, ondisk_claims_offset(0), ONDISK_PAGE_BYTES), 0);
}

Test(claim, a_rotten_page_costs_the_claims_and_not_the_start)
{
	start_behind_a_freeze(rot_claims);
	the_first_that_comes_has_it();
}

Test(claim, a_page_that_was_never_written_costs_the_claims_and_not_the_fence)
{
	start_behind_a_freeze(lose_claims);
	the_first_that_comes_has_it();
}

Test(claim, a_page_that_cannot_be_read_costs_the_claims_and_not_the_start)
{
	start_behind_a_freeze(break_claims);
	the_first_that_comes_has_it();
}

/* The owner changed, and the page that says so did not come to the disk: an older one names nobody's epoch. */
Test(claim, a_page_that_is_older_than_the_fence_counts_for_nothing)
{
	struct disk_sim_rule rule = { .ops = DISK_FAULT_OP(DISK_WRITE),
		.rc = -EIO,
		.offset_bytes = ondisk_claims_offset(0),
		.bytes = ONDISK_PAGE_BYTES,
		.count = 100 };

	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_eq(disk_sim_add_rule(rig->disk, &rule), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_SHARD_FENCE, EPOCH + 1), 0, "a page that fails stops nobody");
	rig_kill(rig, true);
	cr_assert_eq(rig_start(rig), 0);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), 0);
	come_as(1);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH + 1), -ENOKEY);
}

/* Shards of the first page, its last, and of the second; more than one while a page is being written. */
Test(claim, claims_that_come_together_are_all_kept)
{
	static const uint32_t shards[] = { 0, 1, 2, 3, ONDISK_CLAIM_SHARDS - 1, ONDISK_CLAIM_SHARDS,
		CLEAVE_SHARDS_MAX - 1 };
	struct rig_call *calls[NUM_COUNT(shards)];
	struct wire_node fence = { .opcode = WIRE_SHARD_FENCE, .epoch = EPOCH };

	for (size_t i = 0; i < NUM_COUNT(shards); i++) {
		fence.id.shard = shards[i];
		calls[i] = rig_post(rig, &fence, NULL, 0);
	}
	for (size_t i = 0; i < NUM_COUNT(shards); i++) {
		cr_assert_eq(rig_wait(calls[i]), 0);
		rig_done(calls[i]);
	}
	cr_assert_eq(rig_stop(rig), 0);
	rig_kill(rig, false);
	cr_assert_eq(rig_start(rig), 0);
	come_as(2);
	for (size_t i = 0; i < NUM_COUNT(shards); i++) {
		fence.id.shard = shards[i];
		cr_assert_eq(rig_call_rc(rig, &fence, NULL, 0, NULL), -ENOKEY, "%u", shards[i]);
	}
}

/* A read of what is not here is answered at once, while the disk has still to write whose epoch it was. */
Test(claim, a_stop_waits_for_a_claim_at_the_disk)
{
	disk_sim_set_slowness(rig->disk, 1000);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOENT);
	cr_assert_eq(rig->node->claim_writes_count, 1);
	cr_assert_eq(rig_stop(rig), 0);
	cr_assert_eq(rig->node->claim_writes_count, 0);
	rig_kill(rig, false);
	disk_sim_set_slowness(rig->disk, 1);
	cr_assert_eq(rig_start(rig), 0);
	come_as(2);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), -ENOKEY);
}

/* Another shard's epochs are another's. */
Test(claim, shards_are_claimed_one_by_one)
{
	struct wire_node fence = { .opcode = WIRE_SHARD_FENCE,
		.id = { .shard = SHARD + 1 },
		.epoch = EPOCH };

	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	come_as(2);
	cr_assert_eq(rig_call_rc(rig, &fence, NULL, 0, NULL), 0);
	fence.id.shard = SHARD;
	cr_assert_eq(rig_call_rc(rig, &fence, NULL, 0, NULL), -ENOKEY);
}

/* As a recovery comes, which has no metadata store: it lists and reads what is there, and changes nothing. */
Test(claim, who_has_no_store_reads_and_changes_nothing)
{
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	cr_assert_eq(rig_append(rig, &extent, 1), 0);
	rig_disconnect(rig);
	rig->port = ports[1];
	cr_assert_eq(rig_connect(rig), 0);
	cr_assert_eq(ask(WIRE_EXTENT_READ, EPOCH), 0);
	cr_assert_eq(ask(WIRE_EXTENT_FREEZE, EPOCH), -ENOTUNIQ);
	cr_assert_eq(ask(WIRE_EXTENT_APPEND, EPOCH), -ENOTUNIQ);
}
