/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c -- options, control calls, opening and closing */
#include "unit/client_fixture.h"
#include "vm-client/library/internal.h"

Test(client, bad_options_are_named)
{
	struct loop *loop = loop_ev_create(1);
	const char *gateways[] = { "127.0.0.1" };
	struct cleave_client_options options = { .loop = loop };
	struct cleave_client *client = NULL;
	char error[CLEAVE_ERROR_BYTES_MAX];

	cr_assert(cleave_client_create(&options, &client, error) == -EINVAL);
	cr_assert(strstr(error, "gateways") != NULL, "%s", error);
	options.gateways = gateways;
	options.gateway_count = 1;
	cr_assert(cleave_client_create(&options, &client, error) == -EINVAL);
	cr_assert(strstr(error, "gateway '127.0.0.1': HOST:PORT") != NULL, "%s", error);
	gateways[0] = "tcp://127.0.0.1:1";
	options.message_count_max = CLEAVE_MESSAGES_MAX + 1;
	cr_assert(cleave_client_create(&options, &client, error) == -EINVAL);
	cr_assert(strstr(error, "message_count_max") != NULL, "%s", error);
	options.message_count_max = 1;
	options.backoff_min_ns = NUM_S(5);
	cr_assert(cleave_client_create(&options, &client, NULL) == -EINVAL);
	cr_assert(client == NULL);
	loop_destroy(loop);
}

CLIENT_BOTH(client, control_answers)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	fake_gateway_add(&f->fake, "v", 4096);
	cr_assert(fixture_control(f, "{\"op\":\"volume.show\",\"name\":\"v\"}") == 0);
	cr_assert(strstr(f->reply, "\"size_bytes\":4096") != NULL, "%s", f->reply);
	cr_assert(fixture_control(f, "{\"op\":\"volume.show\",\"name\":\"w\"}") == -ENOENT);
	cr_assert(strstr(f->error, "no such volume: w") != NULL, "%s", f->error);
	cr_assert(fixture_stats(f)->connects == 0, "one control connection, kept");
	cr_assert(f->fake.hello_count == 1);
	fixture_destroy(f);
}

CLIENT_BOTH(client, control_retries_busy)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	f->fake.control_status_count = 3;
	f->fake.control_status_rc = -EBUSY;
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0);
	cr_assert(f->fake.control_count == 4);
	fixture_destroy(f);
}

CLIENT_BOTH(client, control_repeats_after_a_lost_connection)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	f->fake.control_drop_count = 2;
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0);
	cr_assert(f->fake.hello_count == 3);
	fixture_destroy(f);
}

CLIENT_BOTH(client, a_change_is_not_repeated)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	f->call.must_not_repeat = true;
	f->fake.control_drop_count = 1;
	f->fake.control_drop_done = true;
	cr_assert(
	    fixture_control(f, "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":4096}") ==
	    -ECONNRESET);
	cr_assert(f->fake.control_count == 1);
	cr_assert(f->fake.volume_count == 1);
	fixture_destroy(f);
}

CLIENT_BOTH(client, a_request_says_who_asks)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	f->options.name = "me \"and\" you\t[7]@host";
	fixture_client(f);
	f->fake.control_drop_count = 1; /* sent twice: it is said once */
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0, "%s", f->error);
	cr_assert(strcmp(f->fake.control_last, "{\"op\":\"status\"}") == 0, "%s",
	    f->fake.control_last);
	cr_assert(strncmp(f->fake.control_by, "me \\", 4) == 0, "%s", f->fake.control_by);
	fixture_destroy(f);
}

CLIENT_BOTH(client, a_gateway_of_a_release_before_is_not_told_who_asks)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	f->fake.is_old_port[0] = true;
	f->options.is_impatient = true; /* its refusal of the level is no failure */
	fixture_client(f);
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0, "%s", f->error);
	cr_assert(f->fake.hello_count == 2);
	cr_assert(strcmp(f->fake.control_by, "") == 0, "%s", f->fake.control_by);
	fixture_destroy(f);
}

CLIENT_BOTH(client, who_asks_is_left_out_for_a_gateway_that_went_back)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0, "%s", f->error);
	cr_assert(strcmp(f->fake.control_by, "") != 0);
	/* The connection ends with the request, which then goes to a release before. */
	f->fake.is_old_port[0] = true;
	f->fake.control_drop_count = 1;
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0, "%s", f->error);
	cr_assert(strcmp(f->fake.control_last, "{\"op\":\"status\"}") == 0, "%s",
	    f->fake.control_last);
	cr_assert(strcmp(f->fake.control_by, "") == 0, "%s", f->fake.control_by);
	fixture_destroy(f);
}

CLIENT_BOTH(client, control_times_out)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	f->options.control_timeout_ns = NUM_MS(50);
	fixture_client(f);
	f->fake.control_is_holding = true;
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == -ETIMEDOUT);
	cr_assert(strstr(f->error, f->gateways[0]) != NULL, "%s", f->error);
	/* The next one goes over a new connection. */
	f->fake.control_is_holding = false;
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0);
	cr_assert(f->fake.hello_count == 2);
	fixture_destroy(f);
}

CLIENT_BOTH(client, busy_until_the_deadline_says_why)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	f->options.control_timeout_ns = NUM_MS(
	    500); /* an answer came before, on a busy machine, too */
	fixture_client(f);
	f->fake.control_status_count = 1000000;
	f->fake.control_status_rc = -EHOSTDOWN;
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == -ETIMEDOUT);
	cr_assert(strstr(f->error, "as the test said") != NULL, "%s", f->error);
	fixture_destroy(f);
}

CLIENT_BOTH(client, the_second_gateway_answers)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	f->gateways[1] = f->gateways[0];
	f->gateways[0] = kind == NET_TCP ? "tcp://127.0.0.1:1" : "sim://gateway:99";
	f->options.gateway_count = 2;
	f->options.is_impatient = true;
	fixture_client(f);
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == 0, "%s", f->error);
	fixture_destroy(f);
}

CLIENT_BOTH(client, impatient_calls_fail_at_once)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	f->gateways[0] = kind == NET_TCP ? "tcp://127.0.0.1:1" : "sim://gateway:99";
	f->options.is_impatient = true;
	fixture_client(f);
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == -ECONNREFUSED, "%d", f->rc);
	cr_assert(strstr(f->error, f->gateways[0]) != NULL, "%s", f->error);
	/* And again: not because of a rest of the first. */
	cr_assert(fixture_control(f, "{\"op\":\"status\"}") == -ECONNREFUSED, "%d", f->rc);
	fixture_destroy(f);
}

Test(client, control_limits)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	static struct cleave_call calls[CLEAVE_CALLS_MAX + 1];
	char *text = malloc(CLEAVE_CALL_BYTES_MAX + 2);

	fixture_client(f);
	memset(text, ' ', CLEAVE_CALL_BYTES_MAX + 1);
	text[CLEAVE_CALL_BYTES_MAX + 1] = '\0';
	f->call.fn = fixture_on_reply;
	cr_assert(cleave_control(f->client, &f->call, text) == -EMSGSIZE);
	memcpy(text, "{\"op\":\"status\"}", 15);
	text[CLEAVE_CALL_BYTES_MAX] = '\0';
	cr_assert(fixture_control(f, text) == 0, "the longest one");
	for (uint32_t i = 0; i < CLEAVE_CALLS_MAX; i++) {
		calls[i].fn = fixture_on_reply;
		calls[i].arg = f;
		cr_assert(cleave_control(f->client, &calls[i], "{\"op\":\"status\"}") == 0);
	}
	calls[CLEAVE_CALLS_MAX].fn = fixture_on_reply;
	cr_assert(cleave_control(f->client, &calls[CLEAVE_CALLS_MAX], "{}") == -ENOBUFS);
	free(text);
	fixture_destroy(f); /* with calls outstanding */
}

CLIENT_BOTH(client, open_and_close)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(16));
	const struct cleave_volume_info *info = cleave_volume_info(f->volume);

	cr_assert(strcmp(info->name, "v") == 0);
	cr_assert(info->id == 1);
	cr_assert(info->size_bytes == NUM_MIB(16));
	cr_assert(info->attach == 1);
	cr_assert(info->segment_base == FAKE_SEGMENT_BASE);
	cr_assert(strcmp(info->engine, "lz4") == 0);
	fixture_close(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	cr_assert(cleave_volume_info(f->volume)->attach == 2);
	fixture_destroy(f);
}

CLIENT_BOTH(client, open_refused)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	cr_assert(fixture_open(f, "nobody") == -ENOENT);
	cr_assert(f->volume == NULL);
	cr_assert(strstr(f->error, "nobody") != NULL, "%s", f->error);
	cr_assert(cleave_volume_open(f->client, "", 0, fixture_on_open, f) == -EINVAL);
	cr_assert(cleave_volume_open(f->client, "v", 128, fixture_on_open, f) == -EINVAL);
	cr_assert(cleave_volume_open(f->client,
		      "0123456789012345678901234567890123456789012345678901234567890123", 0,
		      fixture_on_open, f) == -EINVAL);
	cr_assert(cleave_volume_open(f->client, "\xff", 0, fixture_on_open, f) == -EINVAL);
	fixture_destroy(f);
}

/* Answers to an attach that make no sense: each is refused, and the member named. */
struct answer_case {
	const char *text;
	const char *named;
};

#define VOLUME                                                                                     \
	"\"volume\":{\"name\":\"v\",\"id\":1,\"size_bytes\":8192,\"service_class\":\"standard\","  \
	"\"engine\":\"lz4\",\"level\":1,\"replicas\":3,\"segment_base\":9,\"segment_count\":1}"

static const struct answer_case answer_cases[] = {
	{ "", "JSON" },
	{ "[]", "JSON" },
	{ "{\"map\":{}}", "shard_count" },
	{ "{" VOLUME ",\"attach\":1}", "map" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":0,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[],\"epoch_of_shard\":[]}}",
	    "shard_count" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":99999,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[],\"epoch_of_shard\":[]}}",
	    "shard_count" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "ports" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[7],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "ports" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[1],\"epoch_of_shard\":[1]}}",
	    "port_of_shard" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":2,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1,2]}}",
	    "port_of_shard" },
	{ "{" VOLUME ",\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[-1]}}",
	    "epoch_of_shard" },
	{ "{" VOLUME ",\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "attach" },
	{ "{\"volume\":{\"name\":\"v\",\"id\":1,\"size_bytes\":8191,\"service_class\":\"latency\","
	  "\"engine\":\"lz4\",\"level\":1,\"replicas\":3,\"segment_base\":9,\"segment_count\":1},"
	  "\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "size_bytes" },
	{ "{\"volume\":{\"name\":\"v\",\"id\":1,\"size_bytes\":8192,\"service_class\":\"fast\","
	  "\"engine\":\"lz4\",\"level\":1,\"replicas\":3,\"segment_base\":9,\"segment_count\":1},"
	  "\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "service_class" },
	{ "{\"volume\":{\"name\":\"w\",\"id\":1,\"size_bytes\":8192,\"service_class\":\"latency\","
	  "\"engine\":\"lz4\",\"level\":1,\"replicas\":3,\"segment_base\":9,\"segment_count\":1},"
	  "\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "name" },
	{ "{\"volume\":{\"name\":\"v\",\"id\":1,\"size_bytes\":8192,\"service_class\":\"latency\","
	  "\"engine\":\"lz4\",\"level\":1,\"replicas\":3,\"segment_base\":9,\"segment_count\":0},"
	  "\"attach\":1,\"map\":{\"shard_count\":1,\"ports\":[\"sim://a:1\"],"
	  "\"port_of_shard\":[0],\"epoch_of_shard\":[1]}}",
	    "segment_count" },
};

Test(client, attach_answers_are_checked)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);

	fixture_client(f);
	for (size_t i = 0; i < NUM_COUNT(answer_cases); i++) {
		f->fake.control_answer = answer_cases[i].text;
		cr_assert(fixture_open(f, "v") == -EBADMSG, "case %zu", i);
		cr_assert(strstr(f->error, answer_cases[i].named) != NULL, "case %zu: %s", i,
		    f->error);
	}
	fixture_destroy(f);
}

CLIENT_BOTH(client, a_second_session_ends_the_first)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	struct cleave_volume *first = f->volume;
	uint8_t *data = fixture_data(8192, 1);

	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 8192, data) == 0);
	cr_assert(fixture_open(f, "v") == 0);
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == 0);
	/* The first one learns it from its next request, and stays dead. */
	FIXTURE_SWAP(f->volume, first);
	cr_assert(fixture_io(f, CLEAVE_WRITE, 4096, 4096, data) == -ESHUTDOWN, "%d", f->ios[0].rc);
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, data) == -ESHUTDOWN);
	fixture_close(f);
	f->volume = first;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 4096, 4096, data) == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client, a_volume_that_is_held_is_busy)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	fixture_client(f);
	f->fake.attach_refuse_count = 1;
	cr_assert(fixture_open(f, "v") == -EBUSY, "%d", f->rc);
	cr_assert(strstr(f->error, "in use by somebody") != NULL, "%s", f->error);
	cr_assert(f->fake.attach_count == 1, "it is not asked for again");
	cr_assert(!f->fake.is_taking);
	f->is_answered = false;
	cr_assert(cleave_volume_open(f->client, "v", CLEAVE_OPEN_TAKE, fixture_on_open, f) == 0);
	fixture_run(f, fixture_is_answered);
	cr_assert(f->rc == 0 && f->fake.is_taking);
	cr_assert(cleave_volume_open(f->client, "v", CLEAVE_OPEN_TAKE | CLEAVE_OPEN_READ_ONLY,
		      fixture_on_open, f) == -EINVAL);
	fixture_destroy(f);
}

/* The volume's holder is silent, and may be gone soon. */
CLIENT_BOTH(client, an_open_waits_for_a_silent_holder)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	fixture_client(f);
	f->fake.attach_refuse_count = 3;
	f->fake.attach_retry_ms = 5;
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	cr_assert(f->fake.attach_count == 4);
	fixture_destroy(f);
}

/* Attaches are refused with @refuse_rc, or in the holder's name; the open ends with @rc, tried now and then until its time is over. */
static void
open_ends_in_time(int refuse_rc, int rc)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	f->options.control_timeout_ns = NUM_S(2);
	fixture_client(f);
	f->fake.attach_refuse_count = UINT32_MAX;
	f->fake.attach_refuse_rc = refuse_rc;
	f->fake.attach_retry_ms = 600000;
	cr_assert(fixture_open(f, "v") == rc, "%d", f->rc);
	cr_assert(f->fake.attach_count >= 4 && f->fake.attach_count <= 6, "%u",
	    f->fake.attach_count);
	fixture_destroy(f);
}

Test(client, an_open_does_not_wait_for_ever)
{
	open_ends_in_time(0, -EBUSY);
}

/* A host of the metadata store was lost while a gateway asked it; a program that began just then need not fail. */
CLIENT_BOTH(client, an_open_that_the_store_did_not_answer_is_sent_again)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	fixture_client(f);
	f->fake.attach_refuse_count = 1;
	f->fake.attach_refuse_rc = -ETIMEDOUT;
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	cr_assert(f->fake.attach_count == 2);
	fixture_destroy(f);
}

Test(client, an_open_that_the_store_never_answers_fails)
{
	open_ends_in_time(-ETIMEDOUT, -ETIMEDOUT);
}

CLIENT_BOTH(client, a_writer_that_closes_says_so_and_a_reader_need_not)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));

	fixture_close(f);
	cr_assert(f->fake.detach_count == 1);
	f->is_answered = false;
	cr_assert(
	    cleave_volume_open(f->client, "v", CLEAVE_OPEN_READ_ONLY, fixture_on_open, f) == 0);
	fixture_run(f, fixture_is_answered);
	cr_assert(f->rc == 0 && f->fake.attach_count == 1, "it attaches nothing");
	fixture_close(f);
	cr_assert(f->fake.detach_count == 1);
	fixture_destroy(f);
}

static int lost_rc;
static char lost_text[CLEAVE_ERROR_BYTES_MAX];

static void
on_lost(struct cleave_volume *volume, int rc, const char *text, void *arg)
{
	(void)volume;
	(void)arg;
	cr_assert(lost_rc == 0, "told twice");
	lost_rc = rc;
	snprintf(lost_text, sizeof(lost_text), "%s", text);
}

static bool
is_lost(void *arg)
{
	(void)arg;
	return lost_rc != 0;
}

CLIENT_BOTH(client, who_lost_a_volume_is_told_who_took_it)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(1));
	struct cleave_volume *first = f->volume;
	uint8_t *data = fixture_data(4096, 1);

	lost_rc = 0;
	cleave_volume_on_lost(first, on_lost, f);
	cr_assert(fixture_open(f, "v") == 0);
	FIXTURE_SWAP(f->volume, first);
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == -ESHUTDOWN);
	fixture_run(f, is_lost);
	cr_assert(lost_rc == -ESHUTDOWN);
	cr_assert(strcmp(lost_text, "volume 'v': taken by somebody at elsewhere") == 0, "%s",
	    lost_text);
	fixture_close(f);
	cr_assert(f->fake.detach_count == 0, "what is lost is not ours to close");
	f->volume = first;
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client, destroy_with_everything_outstanding)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(64));
	uint8_t *data = fixture_data(NUM_MIB(1), 1);

	f->fake.is_holding = true;
	for (uint32_t i = 0; i < 32; i++)
		cr_assert(
		    fixture_submit(f, i, CLEAVE_WRITE, i / 2 * NUM_MIB(1), NUM_MIB(1), data) == 0);
	cr_assert(fixture_submit(f, 32, CLEAVE_FLUSH, 0, 0, NULL) == 0);
	fixture_wait_held(f, 1);
	cleave_client_destroy(f->client);
	f->client = NULL;
	f->volume = NULL;
	cr_assert(f->done_count == 0);
	free(data);
	fixture_destroy(f);
}

/* The volumes' own calls wait in the client's lists. */
CLIENT_BOTH(client, destroy_with_volumes_being_opened)
{
	struct fixture *f = fixture_create(kind, 2, 4);

	fixture_client(f);
	f->is_answered = false;
	cr_assert(cleave_volume_open(f->client, "v", 0, fixture_on_open, f) == 0);
	cr_assert(cleave_volume_open(f->client, "w", 0, fixture_on_open, f) == 0);
	cleave_client_destroy(f->client);
	f->client = NULL;
	cr_assert(!f->is_answered);
	fixture_destroy(f);
}

Test(client, errors_have_texts)
{
	cr_assert(strstr(cleave_error_text(-ESHUTDOWN), "newer session") != NULL);
	cr_assert(strcmp(cleave_error_text(-ENOSPC), "no space left") == 0);
	cr_assert(strcmp(cleave_error_text(-ECONNREFUSED), strerror(ECONNREFUSED)) == 0);
	cr_assert(strcmp(cleave_error_text(0), "ok") == 0);
}

Test(client, backoff_grows_to_its_limit)
{
	struct loop *loop = loop_ev_create(7);

	for (uint32_t attempt = 0; attempt < 200; attempt++) {
		uint64_t top = attempt > 10 ? NUM_S(1) : num_min(NUM_MS(2) << attempt, NUM_S(1));
		uint64_t delay = retry_delay_ns(loop, attempt, NUM_MS(2), NUM_S(1));

		cr_assert(delay <= top && delay >= top / 2, "attempt %u: %lu", attempt, delay);
	}
	loop_destroy(loop);
}
