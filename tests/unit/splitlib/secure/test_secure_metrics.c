/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon's metrics over TLS: where it speaks it, who is told, who is refused with which words, what is left over. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/log.h"
#include "base/metrics_http.h"
#include "base/num.h"
#include "cleave/secure_metrics.h"
#include "cleave/secure_options.h"
#include "splitlib/secure/key.h"
#include "support/key_maker.h"

#define SEED 7u
#define ERROR_BYTES 512u
#define CLUSTER "cleave://00c0ffee00c0ffee/"
#define MONITOR CLUSTER "monitor/prometheus"
#define GET "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
#define SILENT_COUNT (METRICS_CONNECTIONS_MAX + 4u)

static struct key_authority ours, other;
static struct split_key *own; /* the daemon's, as it is now */
static struct loop *loop;
static struct metrics_http *http;
static bool is_not_ready;
static uint32_t told_count;
static char logged[1024];

static const struct split_key *
own_key(void *arg)
{
	(void)arg;
	return own;
}

static bool
is_ready(void *arg)
{
	(void)arg;
	return !is_not_ready;
}

static void
on_scrape(struct metrics_scrape *scrape, void *arg)
{
	(void)arg;
	told_count++;
	(void)fputs("told 1\n# EOF\n", metrics_scrape_out(scrape));
	metrics_scrape_finish(scrape, 0);
}

static const struct metrics_path paths[] = {
	{ "/metrics", METRICS_TYPE_METRICS, NULL, false, on_scrape },
};

static void
on_line(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	(void)snprintf(logged, sizeof(logged), "%s", line);
}

static struct metrics_http *
start(const char *address, const struct secure_metrics_words *words, struct secure_metrics *metrics,
    char error[ERROR_BYTES])
{
	const struct metrics_http_options options = { .address = address,
		.is_open = words->is_open,
		.wants_tls = words->wants_tls,
		.guard = metrics == NULL ? NULL : &secure_metrics_guard,
		.guard_arg = metrics,
		.paths = paths,
		.path_count = 1 };

	return metrics_http_start(loop, &options, error, ERROR_BYTES);
}

static struct secure_metrics metrics;

static void
begin(bool is_open)
{
	const struct secure_metrics_words words = { .is_open = is_open, .wants_tls = true };
	char error[ERROR_BYTES];

	metrics = (struct secure_metrics){ .noun = "test",
		.key = own_key,
		.is_ready = is_ready,
		.takes_anybody = is_open };
	http = start("127.0.0.1:0", &words, &metrics, error);
	cr_assert_not_null(http, "%s", error);
}

static void
setup(void)
{
	key_authority_make(&ours, 0, 0);
	key_authority_make(&other, 0, 0);
	own = key_make(&ours, CLUSTER "node/3");
	loop = loop_ev_create(SEED);
	cr_assert_not_null(loop);
	log_set_sink(on_line, NULL);
}

static void
teardown(void)
{
	metrics_http_stop(http);
	loop_destroy(loop);
	split_key_free(own);
	cr_assert_eq(alloc_live_count(ALLOC_SPLIT), 0, "something is left");
	key_authority_fini(&ours);
	key_authority_fini(&other);
}

TestSuite(secure_metrics, .init = setup, .fini = teardown, .timeout = 60);

/* ---- who asks ---- */

struct asker {
	int fd;
	gnutls_certificate_credentials_t none;
	gnutls_session_t session;
	struct loop_fd watcher;
	const char *request; /* to be sent when the handshake is complete */
	char answer[4096];
	size_t bytes;
	bool is_over, is_complete;
};

static int
connect_to_it(void)
{
	const char *port = strrchr(metrics_http_address(http), ':') + 1;
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static void
asker_send(struct asker *asker)
{
	cr_assert_eq(gnutls_record_send(asker->session, asker->request, strlen(asker->request)),
	    (ssize_t)strlen(asker->request));
	asker->request = NULL;
}

static void
asker_go(struct asker *asker)
{
	ssize_t rc = 0;

	if (!asker->is_complete) {
		rc = gnutls_handshake(asker->session);
		asker->is_complete = rc == 0;
	}
	if (asker->is_complete && asker->request != NULL)
		asker_send(asker);
	while (asker->is_complete) {
		rc = gnutls_record_recv(asker->session, asker->answer + asker->bytes,
		    sizeof(asker->answer) - 1 - asker->bytes);
		if (rc <= 0)
			break;
		asker->bytes += (size_t)rc;
		asker->answer[asker->bytes] = '\0';
	}
	asker->is_over = (rc == 0 && asker->is_complete) ||
	    (rc < 0 && gnutls_error_is_fatal((int)rc));
}

static void
asker_on_event(struct loop_fd *watcher, unsigned events, void *arg)
{
	(void)watcher;
	(void)events;
	asker_go(arg);
}

/* An asker shows @key, or nothing; and believes anybody. */
static void
asker_init(struct asker *asker, const struct split_key *key)
{
	*asker = (struct asker){ .fd = connect_to_it() };
	cr_assert_geq(gnutls_certificate_allocate_credentials(&asker->none), 0);
	cr_assert_geq(gnutls_init(&asker->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
	cr_assert_geq(gnutls_set_default_priority(asker->session), 0);
	cr_assert_geq(gnutls_credentials_set(asker->session, GNUTLS_CRD_CERTIFICATE,
			  key != NULL ? key->credentials : asker->none),
	    0);
	gnutls_transport_set_int(asker->session, asker->fd);
	loop_fd_init(&asker->watcher, asker->fd, asker_on_event, asker);
	cr_assert_eq(loop_fd_start(loop, &asker->watcher, LOOP_READABLE), 0);
}

static void
asker_fini(struct asker *asker)
{
	loop_fd_stop(loop, &asker->watcher);
	gnutls_deinit(asker->session);
	gnutls_certificate_free_credentials(asker->none);
	cr_assert_eq(close(asker->fd), 0);
}

static bool
asker_has_answer(void *arg)
{
	const struct asker *asker = arg;
	const char *body = strstr(asker->answer, "\r\n\r\n");

	return asker->is_over || (body != NULL && body[4] != '\0');
}

/* The answer; "": none, the connection has ended. */
static const char *
asker_ask(struct asker *asker)
{
	asker->request = GET;
	asker->bytes = 0;
	asker->answer[0] = '\0';
	asker_go(asker);
	cr_assert_eq(loop_run(loop, asker_has_answer, asker), 0);
	return asker->answer;
}

static void
check_told(struct asker *asker)
{
	const char *answer = asker_ask(asker);

	cr_assert(strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "'%s'", answer);
	cr_assert_not_null(strstr(answer, "told 1"));
}

static void
check_refused(struct asker *asker, const char *status, const char *words)
{
	const char *answer = asker_ask(asker);

	cr_assert(strncmp(answer + 9, status, 3) == 0, "'%s'", answer);
	cr_assert_not_null(strstr(answer, words), "%s: '%s'", words, answer);
	cr_assert_null(strstr(answer, "told 1"));
}

static struct split_key *
make(const struct key_authority *signer, const struct key_wish *wish)
{
	char text[KEY_MAKER_TEXT_BYTES], why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *key;

	key_make_text(signer, signer, wish, text);
	key = key_parse(text, strlen(text), why);
	cr_assert_not_null(key, "%s", why);
	return key;
}

static void
check_asker(const struct split_key *key, const char *status, const char *words)
{
	struct asker asker;

	asker_init(&asker, key);
	if (words == NULL)
		check_told(&asker);
	else
		check_refused(&asker, status, words);
	asker_fini(&asker);
}

Test(secure_metrics, monitors_and_admins_of_the_cluster_are_told_and_all_others_hear_why_not)
{
	static const struct {
		struct key_wish wish;
		bool is_other;
		const char *words; /* NULL: it is told */
	} cases[] = {
		{ { .uri = MONITOR }, false, NULL },
		{ { .uri = CLUSTER "admin/ann" }, false, NULL },
		{ { .uri = CLUSTER "client/db1" }, false,
		    "refused: client/db1 is no admin or monitor. The key" },
		{ { .uri = CLUSTER "gateway/1" }, false, "gateway/1 is no admin or monitor" },
		{ { .uri = CLUSTER "node/3" }, false, "node/3 is no admin or monitor" },
		{ { .uri = "cleave://0000000000000bad/monitor/m" }, false,
		    "monitor/m is of cluster 0000000000000bad" },
		{ { .uri = MONITOR }, true, "monitor/prometheus is of another authority (CA)" },
		{ { .uri = MONITOR, .ends_s = 2000 }, false,
		    "monitor/prometheus expired 1970-01-01" },
		{ { .uri = MONITOR, .begins_s = 3900000000 }, false,
		    "monitor/prometheus begins 2093-" },
	};

	begin(false);
	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		struct split_key *key = make(cases[i].is_other ? &other : &ours, &cases[i].wish);

		logged[0] = '\0';
		check_asker(key, "403", cases[i].words);
		if (cases[i].words == NULL)
			cr_assert_str_eq(logged, "");
		split_key_free(key);
	}
	cr_assert_eq(told_count, 2);
	check_asker(NULL, "403", "there is no certificate");
	cr_assert_eq(told_count, 2);
}

Test(secure_metrics, a_refusal_is_in_the_log_with_who_and_where_from)
{
	struct split_key *client = key_make(&ours, CLUSTER "client/db1");

	begin(false);
	check_asker(client, "403", "client/db1");
	cr_assert_not_null(strstr(logged, "by=client/db1 peer=tcp://127.0.0.1:"), "%s", logged);
	check_asker(NULL, "403", "there is no certificate");
	cr_assert_not_null(strstr(logged, "by=nobody peer=tcp://127.0.0.1:"), "%s", logged);
	split_key_free(client);
}

Test(secure_metrics, where_it_is_open_anybody_is_told)
{
	begin(true);
	check_asker(NULL, NULL, NULL);
}

/* The key changes under a connection that stands: by a list, and by a renewed file, of which the old one is gone. */
Test(secure_metrics, each_request_is_judged_by_the_key_as_it_is_then)
{
	struct split_key *monitor = key_make(&ours, MONITOR),
			 *admin = key_make(&ours, CLUSTER "admin/ann");
	char text[KEY_MAKER_TEXT_BYTES] = "", why[SPLIT_KEY_WHY_BYTES_MAX];
	const struct split_key *revoked = monitor;
	struct split_key *next;
	struct asker asker, standing;

	begin(false);
	asker_init(&asker, monitor);
	asker_init(&standing, admin);
	check_told(&asker);
	check_told(&asker);
	check_told(&standing);
	key_make_list(&ours, 1, &revoked, 1, text);
	next = split_key_revoke(own, text, strlen(text), why);
	cr_assert_not_null(next, "%s", why);
	split_key_free(own);
	own = next;
	check_refused(&asker, "403", "the key of monitor/prometheus was revoked");
	check_told(&standing);
	/* Another authority's: who was believed is not. */
	split_key_free(own);
	own = key_make(&other, CLUSTER "node/3");
	check_refused(&standing, "403", "of another authority");
	check_asker(admin, "403", "of another authority");
	asker_fini(&asker);
	asker_fini(&standing);
	split_key_free(monitor);
	split_key_free(admin);
}

Test(secure_metrics, nobody_is_told_before_the_lists_are_known)
{
	struct split_key *monitor = key_make(&ours, MONITOR);
	struct asker asker;

	begin(false);
	is_not_ready = true;
	asker_init(&asker, monitor);
	check_refused(&asker, "503", "whose keys were revoked is not known yet");
	is_not_ready = false;
	check_told(&asker);
	asker_fini(&asker);
	split_key_free(monitor);
}

Test(secure_metrics, without_memory_for_a_connection_it_ends_and_the_next_one_does_not)
{
	struct split_key *monitor = key_make(&ours, MONITOR);
	struct asker asker;

	begin(false);
	asker_init(&asker, monitor);
	alloc_fail_at(ALLOC_SPLIT, 1);
	cr_assert_str_eq(asker_ask(&asker), "");
	cr_assert(alloc_has_failed(ALLOC_SPLIT));
	cr_assert(!asker.is_complete);
	asker_fini(&asker);
	check_asker(monitor, NULL, NULL);
	split_key_free(monitor);
}

/* Silent, in the middle of their handshakes, or behind them: those who ask find a place, and all is gone in the end. */
Test(secure_metrics, who_is_silent_keeps_nobody_out)
{
	struct split_key *monitor = key_make(&ours, MONITOR);
	struct asker askers[SILENT_COUNT];

	begin(false);
	for (uint32_t i = 0; i < SILENT_COUNT; i++) {
		asker_init(&askers[i], monitor);
		if (i % 4 == 1)
			cr_assert_lt(gnutls_handshake(askers[i].session),
			    0); /* its first flight alone */
		if (i % 4 == 2)
			cr_assert_gt(write(askers[i].fd, "GET / HTTP/1.0\r\n\r\n", 18), 0);
		if (i % 4 == 3)
			check_told(&askers[i]);
		loop_fd_stop(loop, &askers[i].watcher);
	}
	check_asker(monitor, NULL, NULL);
	for (uint32_t i = 0; i < SILENT_COUNT; i++)
		asker_fini(&askers[i]);
	split_key_free(monitor);
}

static bool
plain_is_over(void *arg)
{
	struct asker *plain = arg;
	ssize_t bytes =
	    read(plain->fd, plain->answer + plain->bytes, sizeof(plain->answer) - 1 - plain->bytes);

	if (bytes > 0)
		plain->bytes += (size_t)bytes;
	plain->answer[plain->bytes] = '\0';
	return bytes == 0 || (bytes < 0 && errno != EAGAIN);
}

Test(secure_metrics, who_does_not_speak_tls_is_told_nothing)
{
	struct asker plain = { .fd = -1 };

	begin(true);
	plain.fd = connect_to_it();
	loop_fd_init(&plain.watcher, plain.fd, asker_on_event, &plain);
	cr_assert_eq(write(plain.fd, GET, strlen(GET)), (ssize_t)strlen(GET));
	cr_assert_eq(loop_run(loop, plain_is_over, &plain), 0);
	cr_assert_null(strstr(plain.answer, "HTTP/"), "%s", plain.answer);
	cr_assert_eq(told_count, 0);
	cr_assert_eq(close(plain.fd), 0);
}

/* ---- where, and with which words ---- */

Test(secure_metrics, it_speaks_tls_where_others_reach_it_and_where_the_word_says_so)
{
	static const struct {
		const char *address;
		bool has_key;
		struct secure_metrics_words words;
		bool starts, is_tls;
	} cases[] = {
		{ "127.0.0.1:0", false, { false, false }, true, false },
		{ "0.0.0.0:0", false, { false, false }, false, false },
		{ "0.0.0.0:0", false, { true, false }, true, false },
		{ "127.0.0.1:0", true, { false, false }, true, false },
		{ "127.0.0.1:0", true, { true, false }, true, false },
		{ "127.0.0.1:0", true, { false, true }, true, true },
		{ "127.0.0.1:0", true, { true, true }, true, true },
		{ "0.0.0.0:0", true, { false, false }, true, true },
		{ "0.0.0.0:0", true, { true, false }, true, false },
		{ "0.0.0.0:0", true, { false, true }, true, true },
		{ "0.0.0.0:0", true, { true, true }, true, true },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		struct secure_metrics guard = { .noun = "test", .key = own_key };
		struct metrics_http *made;
		char error[ERROR_BYTES] = "";

		made = start(cases[i].address, &cases[i].words, cases[i].has_key ? &guard : NULL,
		    error);
		cr_assert_eq(made != NULL, cases[i].starts, "%zu: %s", i, error);
		if (made != NULL)
			cr_assert_eq(metrics_http_is_tls(made), cases[i].is_tls, "%zu", i);
		metrics_http_stop(made);
	}
}

Test(secure_metrics, words_are_refused_where_they_are_wrong)
{
	static const struct config_program program = { .name = "test" };
	static const struct {
		const char *address;
		bool has_key;
		struct secure_metrics_words words;
		uint32_t problem_count;
	} cases[] = {
		{ NULL, false, { false, false }, 0 },
		{ "127.0.0.1:1", false, { false, false }, 0 },
		{ "10.0.0.1:1", false, { false, false }, 1 },
		{ "10.0.0.1:1", false, { true, false }, 0 },
		{ "127.0.0.1:1", false, { false, true }, 1 },
		{ "10.0.0.1:1", false, { false, true }, 2 },
		{ "10.0.0.1:1", false, { true, true }, 1 },
		{ "10.0.0.1:1", true, { false, false }, 0 },
		{ "127.0.0.1:1", true, { false, true }, 0 },
		{ "10.0.0.1:1", true, { true, true }, 0 },
	};

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		const struct secure secure = { .key = cases[i].has_key ? own : NULL };
		struct config_result result = { 0 };

		secure_metrics_check(&program, &result, &secure, cases[i].address, &cases[i].words);
		cr_assert_eq(result.problem_count, cases[i].problem_count, "%zu: %u", i,
		    result.problem_count);
	}
}

Test(secure_metrics, a_key_that_names_no_host_is_told)
{
	struct secure_metrics guard = { .noun = "test", .key = own_key };

	secure_metrics_tell(&guard, "tcp://127.0.0.1:1", false);
	cr_assert_not_null(strstr(logged, "test: metrics listen=tcp://127.0.0.1:1"), "%s", logged);
	cr_assert_null(strstr(logged, "tls="), "%s", logged);
	secure_metrics_tell(&guard, "tcp://10.0.0.1:1", true);
	cr_assert_not_null(strstr(logged, "its key names no host"), "%s", logged);
	split_key_free(own);
	own = make(&ours,
	    &(const struct key_wish){ .uri = CLUSTER "node/3", .host = "node3.example" });
	secure_metrics_tell(&guard, "tcp://10.0.0.1:1", true);
	cr_assert_not_null(strstr(logged, "listen=tcp://10.0.0.1:1 tls=monitors"), "%s", logged);
	guard.takes_anybody = true;
	secure_metrics_tell(&guard, "tcp://10.0.0.1:1", true);
	cr_assert_not_null(strstr(logged, " tls=anybody"), "%s", logged);
}
