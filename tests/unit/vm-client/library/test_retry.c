/* SPDX-License-Identifier: Apache-2.0 */
/* test_retry.c -- a client whose gateway is busy, gone, wrong, elsewhere, or too slow */
#include "unit/client_fixture.h"
#include "vm-client/library/internal.h"

static void
expect_content(struct fixture *f, uint64_t offset_bytes, const uint8_t *data, uint64_t bytes)
{
	cr_assert(memcmp(f->fake.volumes[0].data + offset_bytes, data, bytes) == 0);
}

Test(retry, verdicts)
{
	cr_assert(retry_verdict_io(-EBUSY, false) == RETRY_LATER);
	cr_assert(retry_verdict_io(-EHOSTDOWN, true) == RETRY_LATER);
	cr_assert(retry_verdict_io(-ESTALE, true) == RETRY_REMAP);
	cr_assert(retry_verdict_io(-EREMCHG, false) == RETRY_REMAP);
	cr_assert(retry_verdict_io(-ESHUTDOWN, false) == RETRY_FATAL);
	cr_assert(retry_verdict_io(-EBADMSG, false) == RETRY_CHECKSUM);
	cr_assert(retry_verdict_io(-EBADMSG, true) == RETRY_NONE);
	cr_assert(retry_verdict_io(-ENOSPC, false) == RETRY_NONE);
	cr_assert(retry_verdict_io(-EIO, true) == RETRY_NONE);
}

static const int transient_rcs[] = { -EBUSY, -EHOSTDOWN, -EAGAIN, -ENOMEM, -ETIMEDOUT };

CLIENT_BOTH(retry, transient_errors_are_retried)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	uint8_t *data = fixture_data(4096, 1);

	for (size_t i = 0; i < NUM_COUNT(transient_rcs); i++) {
		f->fake.status_rc = transient_rcs[i];
		f->fake.status_count = 5;
		cr_assert(fixture_io(f, CLEAVE_WRITE, i * 4096, 4096, data) == 0);
		expect_content(f, i * 4096, data, 4096);
	}
	cr_assert(fixture_stats(f)->messages_delayed == 5 * NUM_COUNT(transient_rcs));
	free(data);
	fixture_destroy(f);
}

static const int final_rcs[] = { -ENOSPC, -EIO, -EROFS, -ERANGE, -EINVAL, -EUCLEAN };

CLIENT_BOTH(retry, final_errors_are_told)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	uint8_t *data = fixture_data(NUM_KIB(256), 1);

	for (size_t i = 0; i < NUM_COUNT(final_rcs); i++) {
		f->fake.status_rc = final_rcs[i];
		f->fake.status_count = 1;
		cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == final_rcs[i]);
		f->fake.status_count = 1;
		cr_assert(fixture_io(f, CLEAVE_READ, 0, NUM_KIB(256), data) == final_rcs[i]);
	}
	cr_assert(fixture_stats(f)->ios_failed == 2 * NUM_COUNT(final_rcs));
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, damaged_payloads_are_sent_again)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	uint8_t *data = fixture_data(4096, 1), *back = fixture_data(4096, 2);

	f->fake.write_checksum_count = 2;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	expect_content(f, 0, data, 4096);
	f->fake.corrupt_count = 3;
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, back) == 0);
	cr_assert(memcmp(data, back, 4096) == 0);
	cr_assert(fixture_stats(f)->checksum_errors == 5);
	/* A checksum that stays wrong is an error. */
	f->fake.write_checksum_count = 1000;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == -EBADMSG);
	f->fake.corrupt_count = 1000;
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, back) == -EBADMSG);
	f->fake.corrupt_count = 0;
	/* The gateway found no good replica: asking again does not help. */
	f->fake.log_count = 0;
	f->fake.status_rc = -EBADMSG;
	f->fake.status_count = 1;
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, back) == -EBADMSG);
	cr_assert(f->fake.log_count == 1);
	free(data);
	free(back);
	fixture_destroy(f);
}

/* Connections are lost at every nth message; what was in flight is done by the gateway, or not. */
static void
survive_losses(enum net_kind kind, bool is_drop_done)
{
	for (uint32_t nth = 1; nth <= 16; nth++) {
		struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
		uint8_t *data = fixture_data(NUM_MIB(1), nth);

		f->fake.drop_after = nth;
		f->fake.is_drop_done = is_drop_done;
		f->fake.delay_ns = NUM_US(100);
		for (uint32_t i = 0; i < 16; i++)
			cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i * NUM_KIB(64), NUM_KIB(64),
				      data + i * NUM_KIB(64)) == 0);
		fixture_wait(f, 16);
		for (uint32_t i = 0; i < 16; i++)
			cr_assert(f->ios[i].rc == 0, "nth %u: io %u: %d", nth, i, f->ios[i].rc);
		expect_content(f, 0, data, NUM_MIB(1));
		cr_assert(f->fake.drop_after == 0);
		cr_assert(fixture_stats(f)->messages_resent > 0);
		cr_assert(f->fake.order_violations == 0);
		free(data);
		fixture_destroy(f);
	}
}

CLIENT_BOTH(retry, lost_connections_with_requests_done)
{
	survive_losses(kind, true);
}

CLIENT_BOTH(retry, lost_connections_with_requests_dropped)
{
	survive_losses(kind, false);
}

CLIENT_BOTH(retry, incarnations_grow_in_one_session)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	uint8_t *data = fixture_data(4096, 1);
	const struct fake_record *log = f->fake.log;

	for (uint32_t i = 0; i < 5; i++) {
		fake_gateway_cut(&f->fake);
		cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	}
	for (uint32_t i = 1; i < f->fake.log_count; i++) {
		cr_assert(log[i].session_id == log[0].session_id);
		cr_assert(log[i].incarnation > log[i - 1].incarnation);
		cr_assert(log[i].io.request_id > log[i - 1].io.request_id);
	}
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, refused_hellos_are_repeated)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	uint8_t *data = fixture_data(4096, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	fixture_client(f);
	f->fake.refuse_count = 4;
	f->fake.refuse_rc = -EBUSY;
	cr_assert(fixture_open(f, "v") == 0);
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	cr_assert(fixture_stats(f)->connection_losses == 4);
	free(data);
	fixture_destroy(f);
}

static const int fatal_rcs[] = { -ESHUTDOWN, -ENOENT, -ENOKEY, -EPROTONOSUPPORT };

CLIENT_BOTH(retry, fatal_refusals_fail_the_volume)
{
	for (size_t i = 0; i < NUM_COUNT(fatal_rcs); i++) {
		struct fixture *f = fixture_create(kind, 2, 4);
		uint8_t *data = fixture_data(NUM_MIB(1), 1);

		fake_gateway_add(&f->fake, "v", NUM_MIB(64));
		fixture_client(f);
		/* At both ports, with whichever level they are asked. */
		f->fake.refuse_count = fatal_rcs[i] == -EPROTONOSUPPORT ? 4 : 1;
		f->fake.refuse_rc = fatal_rcs[i];
		f->fake.is_holding = true;
		cr_assert(fixture_open(f, "v") == 0);
		for (uint32_t k = 0; k < 4; k++)
			cr_assert(
			    fixture_submit(f, k, CLEAVE_WRITE, 4096 * k, NUM_MIB(1), data) == 0);
		cr_assert(fixture_submit(f, 4, CLEAVE_FLUSH, 0, 0, NULL) == 0);
		fixture_wait(f, 5);
		for (uint32_t k = 0; k < 5; k++)
			cr_assert(f->ios[k].rc == fatal_rcs[i], "io %u: %d", k, f->ios[k].rc);
		cr_assert(fixture_io(f, CLEAVE_FLUSH, 0, 0, NULL) == fatal_rcs[i]);
		free(data);
		fixture_destroy(f);
	}
}

CLIENT_BOTH(retry, a_stale_session_ends_everything_at_once)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(256));
	uint8_t *data = fixture_data(NUM_MIB(1), 1);

	/* Some in flight on each port, some blocked, some not yet messages. */
	f->fake.is_holding = true;
	for (uint32_t i = 0; i < 500; i++)
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i % 250 * NUM_MIB(1), NUM_MIB(1),
			      data) == 0);
	fixture_wait_held(f, 64);
	f->fake.status_count = 1;
	f->fake.status_rc = -ESHUTDOWN;
	fake_gateway_release(&f->fake, false);
	fixture_wait(f, 500);
	for (uint32_t i = 0; i < 500; i++)
		cr_assert(f->ios[i].rc == -ESHUTDOWN || f->ios[i].rc == 0);
	cr_assert(f->ios[499].rc == -ESHUTDOWN);
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, data) == -ESHUTDOWN);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, a_new_epoch_is_learnt_from_the_map)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(256));
	uint8_t *data = fixture_data(4096, 1);

	for (uint32_t i = 0; i < 4; i++)
		f->fake.epoch_of_shard[i] = 9;
	for (uint32_t i = 0; i < 4; i++)
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i * NUM_MIB(64), 4096, data) == 0);
	fixture_wait(f, 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert(f->ios[i].rc == 0);
	cr_assert(f->fake.map_count == 1, "%u maps", f->fake.map_count);
	cr_assert(fixture_stats(f)->messages_remapped == 4);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, a_moved_shard_is_followed)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(256));
	uint8_t *data = fixture_data(NUM_MIB(1), 1);

	for (uint32_t i = 0; i < 4; i++)
		f->fake.port_of_shard[i] = 1 - f->fake.port_of_shard[i];
	for (uint32_t i = 0; i < 64; i++)
		cr_assert(
		    fixture_submit(f, i, CLEAVE_WRITE, i * NUM_MIB(4), NUM_MIB(1), data) == 0);
	fixture_wait(f, 64);
	for (uint32_t i = 0; i < 64; i++)
		cr_assert(f->ios[i].rc == 0);
	cr_assert(f->fake.map_count >= 1);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, a_port_that_went_away_is_left)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(256));
	uint8_t *data = fixture_data(4096, 1);

	/* Everything is served by port 0 now, and maps no longer name port 1. */
	for (uint32_t i = 0; i < 4; i++)
		f->fake.port_of_shard[i] = 0;
	f->fake.port_count = 1;
	for (uint32_t i = 0; i < 4; i++)
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i * NUM_MIB(64), 4096, data) == 0);
	fixture_wait(f, 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert(f->ios[i].rc == 0);
	fixture_pass(f, NUM_MS(20));
	cr_assert(!list_is_empty(&f->volume->connections));
	cr_assert(f->volume->connections.next == f->volume->connections.prev, "one is left");
	/* And back again. */
	f->fake.port_count = 2;
	f->fake.port_of_shard[0] = f->fake.port_of_shard[1] = 1;
	for (uint32_t i = 0; i < 4; i++)
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i * NUM_MIB(64), 4096, data) == 0);
	fixture_wait(f, 8);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, an_old_map_makes_no_storm)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	uint8_t *data = fixture_data(4096, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	f->options.io_timeout_ns = NUM_MS(300);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	f->fake.epoch_of_shard[0] = 9;
	f->fake.map_epoch_of_shard[0] = 1;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == -ETIMEDOUT);
	cr_assert(f->fake.map_count > 5, "%u maps", f->fake.map_count);
	cr_assert(f->fake.map_count < 60, "%u maps", f->fake.map_count);
	f->fake.map_epoch_of_shard[0] = 0;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	free(data);
	fixture_destroy(f);
}

static const char *const broken_maps[] = { "", "{}", "{\"map\":7}" };

CLIENT_BOTH(retry, broken_maps_are_fetched_again)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	uint8_t *data = fixture_data(4096, 1);

	for (uint32_t i = 0; i < 4; i++)
		f->fake.epoch_of_shard[i] = 9;
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data) == 0);
	for (size_t i = 0; i < NUM_COUNT(broken_maps); i++) {
		f->fake.control_answer = broken_maps[i];
		fixture_pass(f, NUM_MS(20));
	}
	cr_assert(f->done_count == 0);
	cr_assert(fixture_stats(f)->protocol_errors > 0);
	f->fake.control_answer = NULL;
	fixture_wait(f, 1);
	cr_assert(f->ios[0].rc == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, answers_that_break_the_protocol)
{
	for (int way = FAKE_WRONG_ID; way <= FAKE_WRONG_LENGTH; way++) {
		struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
		uint8_t *data = fixture_data(8192, 1);

		f->fake.answers = (__typeof__(f->fake.answers))way;
		f->fake.wrong_answer_count = 3;
		cr_assert(fixture_io(f, CLEAVE_READ, 0, 8192, data) == 0, "way %d", way);
		cr_assert(fixture_stats(f)->protocol_errors == 3);
		cr_assert(data[0] == 0);
		free(data);
		fixture_destroy(f);
	}
}

/* Time-outs: the connection goes first, so that nothing given up takes effect later (I11). */

static struct fixture *
impatient_fixture(enum net_kind kind)
{
	struct fixture *f = fixture_create(kind, 2, 4);

	fake_gateway_add(&f->fake, "v", NUM_MIB(256));
	f->options.io_timeout_ns = NUM_MS(100);
	f->options.message_count_max = 32;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	return f;
}

CLIENT_BOTH(retry, time_out_closes_the_connection)
{
	struct fixture *f = impatient_fixture(kind);
	uint8_t *old = fixture_data(4096, 1), *new = fixture_data(4096, 2);

	f->fake.is_holding = true;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, old) == -ETIMEDOUT);
	cr_assert(fixture_stats(f)->timeouts == 1);
	/* The gateway dropped what the old incarnation had in flight, or did it before this one. */
	f->fake.is_holding = false;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, new) == 0);
	fake_gateway_release(&f->fake, false);
	expect_content(f, 0, new, 4096);
	cr_assert(f->fake.log[f->fake.log_count - 1].incarnation > f->fake.log[0].incarnation);
	free(old);
	free(new);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, time_out_of_what_waits)
{
	struct fixture *f = impatient_fixture(kind);
	uint8_t *data = fixture_data(NUM_MIB(1), 1);

	/* In flight, blocked behind that, without a message, and a flush behind all. */
	f->fake.is_holding = true;
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, NUM_MIB(1), data) == 0);
	cr_assert(fixture_submit(f, 1, CLEAVE_WRITE, 4096, NUM_MIB(1), data) == 0);
	for (uint32_t i = 2; i < 10; i++)
		cr_assert(
		    fixture_submit(f, i, CLEAVE_WRITE, i * NUM_MIB(8), NUM_MIB(1), data) == 0);
	cr_assert(fixture_submit(f, 10, CLEAVE_FLUSH, 0, 0, NULL) == 0);
	fixture_wait(f, 11);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert(f->ios[i].rc == -ETIMEDOUT, "io %u: %d", i, f->ios[i].rc);
	cr_assert(f->ios[10].rc == 0 && f->done[10] == 10);
	f->fake.is_holding = false;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, NUM_MIB(1), data) == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, time_out_while_nobody_can_be_reached)
{
	struct fixture *f = impatient_fixture(kind);
	uint8_t *data = fixture_data(4096, 1);

	f->fake.refuses_all = true;
	fake_gateway_cut(&f->fake);
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, data) == -ETIMEDOUT);
	f->fake.refuses_all = false;
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, data) == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(retry, others_survive_the_time_out_of_one)
{
	struct fixture *f = impatient_fixture(kind);
	uint8_t *data = fixture_data(NUM_KIB(64), 1);

	f->fake.is_holding = true;
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, 4096, data) == 0);
	fixture_pass(f, NUM_MS(60));
	for (uint32_t i = 1; i < 10; i++)
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i * 4096, 4096, data + i * 4096) == 0);
	fixture_wait(f, 1);
	cr_assert(f->ios[0].rc == -ETIMEDOUT);
	f->fake.is_holding = false;
	fixture_wait(f, 10);
	for (uint32_t i = 1; i < 10; i++)
		cr_assert(f->ios[i].rc == 0, "io %u: %d", i, f->ios[i].rc);
	expect_content(f, 4096, data + 4096, 9 * 4096);
	free(data);
	fixture_destroy(f);
}

/* A link that swallows everything, one way or both, and works again: found by keep-alive. */
static void
survive_silence(bool is_to_gateway, bool is_to_client)
{
	struct fixture *f = fixture_create(NET_SIM, 2, 4);
	uint8_t *data = fixture_data(NUM_MIB(1), 1);
	uint64_t started_ns;

	fake_gateway_add(&f->fake, "v", NUM_MIB(256));
	f->options.keepalive_ns = NUM_S(2);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	if (is_to_gateway)
		sim_net_cut(f->client_host, f->gateway_host);
	if (is_to_client)
		sim_net_cut(f->gateway_host, f->client_host);
	f->done_count = 0;
	started_ns = sim_world_now_ns(f->world);
	for (uint32_t i = 0; i < 16; i++)
		cr_assert(
		    fixture_submit(f, i, CLEAVE_WRITE, i * NUM_MIB(16), NUM_MIB(1), data) == 0);
	fixture_pass(f, NUM_S(12));
	cr_assert(f->done_count == 0);
	sim_net_heal_all(f->net);
	fixture_wait(f, 16);
	for (uint32_t i = 0; i < 16; i++)
		cr_assert(f->ios[i].rc == 0, "io %u: %d", i, f->ios[i].rc);
	cr_assert(sim_world_now_ns(f->world) - started_ns < NUM_S(25));
	cr_assert(fixture_stats(f)->connection_losses > 0);
	cr_assert(f->fake.order_violations == 0);
	free(data);
	fixture_destroy(f);
}

Test(retry, silent_links_are_found)
{
	survive_silence(true, true);
	survive_silence(true, false);
	survive_silence(false, true);
}

/* Everything at once, from a seed: every request ends, and what was acknowledged is there. */
CLIENT_BOTH(retry, chaos)
{
	struct fixture *f = fixture_create(kind, 2, 4);
	uint8_t *model = calloc(1, NUM_MIB(1));
	uint8_t *data[600];
	uint64_t dice = kind == NET_SIM ? 77 : 78;

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	f->options.message_count_max = 64;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	f->fake.delay_ns = NUM_US(200);
	for (uint32_t i = 0; i < 600; i++) {
		uint64_t offset, bytes;

		dice = num_mix_u64(dice + i + 1);
		offset = dice % 256 * 4096;
		bytes = num_min(NUM_MIB(1) - offset, (dice >> 20) % 40 * 4096 + 4096);
		data[i] = fixture_data(bytes, i);
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, offset, bytes, data[i]) == 0);
		memcpy(model + offset, data[i], bytes);
		if (dice >> 60 == 0)
			fixture_pass(f, NUM_MS(1));
		if (dice >> 59 == 7)
			f->fake.drop_after = 1 + dice % 5;
		if (dice >> 59 == 9) {
			f->fake.status_rc = -EBUSY;
			f->fake.status_count = 3;
		}
		if (dice >> 59 == 11)
			f->fake.epoch_of_shard[dice % 4]++;
		if (dice >> 59 == 13)
			f->fake.port_of_shard[dice % 4] ^= 1;
		if (dice >> 59 == 15)
			f->fake.write_checksum_count = 1;
		f->fake.is_drop_done = (dice & 64) != 0;
	}
	fixture_wait(f, 600);
	cr_assert(f->fake.overlap_violations == 0);
	cr_assert(f->fake.order_violations == 0);
	for (uint32_t i = 0; i < 600; i++) {
		cr_assert(f->ios[i].rc == 0, "io %u: %d", i, f->ios[i].rc);
		free(data[i]);
	}
	expect_content(f, 0, model, NUM_MIB(1));
	free(model);
	fixture_destroy(f);
}
