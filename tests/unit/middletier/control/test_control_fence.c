/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_fence.c -- roll-backs, cuts and other "reads" of a volume that may be read past its gateway
 *
 * The first of two gateways asks. Who asks all gateways, and what changes "reads", is built in with planted bugs.
 */
#define CLEAVE_MUTANTS
#include "middletier/cluster/holding.c"
#include "middletier/control/control_reads.c"

#include "unit/control_elsewhere.h"

struct mutant_set mutants_on;

static void
put_reads(enum mt_reads reads)
{
	struct mt_volume volume = entry_of("v")->volume;

	volume.reads = reads;
	put_elsewhere(&volume);
}

static void
setup_leased(void)
{
	setup_cluster();
	memset(&mutants_on, 0, sizeof(mutants_on));
	made_cluster_raise(rig->store, CLEAVE_LEVEL_READS);
	put_reads(MT_READS_DIRECT);
}

TestSuite(fence, .init = setup_leased, .fini = teardown_cluster);

static const char roll_back[] = "{'op':'snapshot.rollback','name':'v@s'}";
static const char force_back[] = "{'op':'snapshot.rollback','name':'v@s','force':true}";
static const char shrink[] = "{'op':'volume.resize','name':'v','size_bytes':4096,'shrink':true}";
static const char grow[] = "{'op':'volume.resize','name':'v','size_bytes':2147483648}";
static const char at_gateways[] = "{'op':'volume.reads','name':'v','reads':'gateway'}";

static const struct mt_volume *
volume_now(void)
{
	return &entry_of("v")->volume;
}

/* How long the answer to @text took. */
static uint64_t
took_ns(const char *text)
{
	uint64_t from_ns = sim_world_now_ns(rig->world);

	json_decref(ask(0, "%s", text));
	return sim_world_now_ns(rig->world) - from_ns;
}

static void
attach_elsewhere(void)
{
	struct mt_volume volume = *volume_now();

	volume.attach++;
	volume.session_id = OTHERS_SESSION;
	put_elsewhere(&volume);
}

/* The fence's attach number is in the tables. */
static bool
is_fenced(void *arg)
{
	const struct mt_holding *holding = peers[0].gateway->holding;

	(void)arg;
	return holding != NULL && holding->fn != NULL && holding->is_fence;
}

/* ---- who waits ---- */

Test(fence, a_roll_back_waits_for_read_leases)
{
	uint64_t attach = volume_now()->attach;

	cr_assert_geq(took_ns(roll_back), MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->attach, attach + 2);
	cr_assert_eq(volume_now()->reads, MT_READS_DIRECT);
}

Test(fence, so_does_a_cut)
{
	uint64_t attach = volume_now()->attach;

	cr_assert_geq(took_ns(shrink), MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->attach, attach + 1);
	cr_assert_eq(volume_now()->size_bytes, 4096);
}

Test(fence, so_does_a_change_of_reads)
{
	uint64_t attach = volume_now()->attach;

	cr_assert_geq(took_ns(at_gateways), MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->attach, attach + 2);
	cr_assert_eq(volume_now()->reads, MT_READS_GATEWAY);
}

Test(fence, what_grows_or_is_as_it_is_waits_for_nobody)
{
	uint64_t attach = volume_now()->attach;

	cr_assert_lt(took_ns(grow), MT_READ_LEASE_NS);
	cr_assert_lt(took_ns("{'op':'volume.reads','name':'v','reads':'direct'}"),
	    MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->attach, attach);
}

Test(fence, volumes_that_are_read_at_gateways_wait_for_nobody)
{
	uint64_t attach;

	put_reads(MT_READS_GATEWAY);
	attach = volume_now()->attach;
	cr_assert_lt(took_ns(roll_back), MT_READ_LEASE_NS);
	cr_assert_lt(took_ns(shrink), MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->attach, attach + 1, "the roll-back's");
	/* Older sessions have no leases; newer ones have another number. */
	cr_assert_lt(took_ns("{'op':'volume.reads','name':'v','reads':'direct'}"),
	    MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->attach, attach + 2);
}

Test(fence, a_planted_bug_waits_for_nobody)
{
	mutant_set_add(&mutants_on, MUTANT_fence_unwaited);
	cr_assert_lt(took_ns(roll_back), MT_READ_LEASE_NS);
}

Test(fence, nor_does_one_that_changes_reads)
{
	mutant_set_add(&mutants_on, MUTANT_reads_unfenced);
	cr_assert_lt(took_ns(at_gateways), MT_READ_LEASE_NS);
	cr_assert_eq(volume_now()->reads, MT_READS_GATEWAY);
}

/* ---- while it waits ---- */

Test(fence, who_attached_meanwhile_keeps_the_volume)
{
	uint32_t count = begin(roll_back, is_fenced);
	uint64_t attach;

	attach_elsewhere();
	attach = volume_now()->attach;
	expect_end(count, -ENOTEMPTY, "in use by");
	cr_assert_eq(volume_now()->attach, attach);
	cr_assert_eq(volume_now()->session_id, OTHERS_SESSION);
}

/* He may have leases of his own: they are waited for, too. */
Test(fence, who_insists_puts_him_out_and_waits_again)
{
	uint32_t count = begin(force_back, is_fenced);
	uint64_t attached_ns = sim_world_now_ns(rig->world);

	attach_elsewhere();
	expect_end(count, 0, "volume");
	cr_assert_eq(volume_now()->session_id, 0);
	cr_assert_geq(sim_world_now_ns(rig->world) - attached_ns, 2 * MT_READ_LEASE_NS);
}

Test(fence, what_the_volume_has_grown_by_meanwhile_is_not_rolled_back)
{
	uint32_t count = begin(roll_back, is_fenced);
	struct mt_volume volume = *volume_now();

	volume.size_bytes *= 2;
	volume.segment_count = mt_volume_segment_count(volume.size_bytes);
	put_elsewhere(&volume);
	expect_end(count, -EINVAL, "--shrink");
	cr_assert_eq(volume_now()->size_bytes, 2 * SIZE_BYTES);
}

/* ---- who is asked ---- */

/* The second gateway lives, and the first one does not know yet. */
static void
overlook(void)
{
	struct mt_member *member = &peers[0].gateway->member;

	cr_assert_eq(member->peer_count, 2);
	cr_assert_eq(member->peers[0].gateway_id, peers[0].id);
	member->peer_count = 1;
}

Test(fence, a_gateway_that_is_not_seen_yet_may_have_granted_some)
{
	uint32_t count = begin(shrink, is_fenced);

	overlook();
	expect_end(count, -ETIMEDOUT, "gateway 2 does not say");
	cr_assert_eq(volume_now()->size_bytes, SIZE_BYTES);
}

Test(fence, a_planted_bug_does_not_ask_it)
{
	uint32_t count = begin(shrink, is_fenced);

	mutant_set_add(&mutants_on, MUTANT_fence_unlisted);
	overlook();
	expect_end(count, 0, "volume");
}

/* The request has begun to ask who uses the volume. */
static bool
is_asked(void *arg)
{
	const struct mt_holding *holding = peers[0].gateway->holding;

	(void)arg;
	return holding != NULL && holding->fn != NULL && !holding->is_telling;
}

/* Until there are @arg replies: the first gateway reads anew who the members are, and does not hear of the second. */
static bool
is_overlooked_to_the_end(void *arg)
{
	peers[0].gateway->member.peer_count = 1;
	return qp.reply_count >= *(const uint32_t *)arg;
}

static void
expect_end_overlooked(const char *text, int rc, const char *word)
{
	uint32_t count;

	put_reads(MT_READS_GATEWAY);
	count = begin(text, is_asked);
	overlook();
	cr_assert(mt_rig_run_until(rig, is_overlooked_to_the_end, &count));
	expect_end(count, rc, word);
}

/* A gateway that is not seen may have users, of whatever volume. */
Test(fence, nor_is_a_volume_that_is_read_at_gateways_changed_while_one_is_not_seen)
{
	expect_end_overlooked(roll_back, -ENOTEMPTY, "gateway 2 does not say");
	cr_assert_eq(volume_now()->attach, 0);
}

Test(fence, nor_is_it_cut)
{
	expect_end_overlooked(shrink, -ENOTEMPTY, "gateway 2 does not say");
	cr_assert_eq(volume_now()->size_bytes, SIZE_BYTES);
}

Test(fence, by_force_it_is)
{
	uint32_t count;

	put_reads(MT_READS_GATEWAY);
	count = begin(force_back, is_asked);
	overlook();
	expect_end(count, 0, "volume");
}

/* Started while the first gateway had lost its lease: it may serve by what it read before the fence. */
Test(fence, another_process_of_the_own_number_may_have_granted_some)
{
	const struct mt_gateway *gateway = peers[0].gateway;
	char key[MT_MEMBER_KEY_BYTES], value[128];
	struct meta_item item = { .key = key, .value = value };

	mt_member_key(key, gateway->options.gateway_id);
	for (uint64_t other = 0; other < 2; other++) {
		item.value_bytes = (size_t)snprintf(value, sizeof(value),
		    "{\"format\":1,\"boot_id\":\"%016" PRIx64 "\",\"ports\":[\"tcp://h:1\"]}",
		    gateway->options.boot_id + other);
		cr_assert_eq(listed_is_seen(gateway, &item), other == 0);
	}
}

/* ---- the op ---- */

Test(fence, reads_of_an_attached_volume_change_by_force)
{
	json_decref(ask(0, "{'op':'volume.attach','name':'v','session':'000000000000000a'}"));
	refused(ask(-ENOTEMPTY, "%s", at_gateways), "in use by");
	json_decref(ask(0, "{'op':'volume.reads','name':'v','reads':'gateway','force':true}"));
	cr_assert_eq(volume_now()->session_id, 0);
}
