/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c -- tables of metrics as OpenMetrics text, and its way out over HTTP */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/http_listen.h"
#include "base/metrics.h"
#include "base/metrics_http.h"
#include "base/num.h"
#include "base/resolve.h"

#define SEED 5u
#define ERROR_BYTES 256u

struct sample {
	bool is_up;
	uint32_t slots;
	uint64_t writes;
};
static const struct metric_member members[] = {
	METRIC_MEMBER(struct sample, is_up, "up", "bool", "1 while it is", METRIC_GAUGE),
	METRIC_MEMBER(struct sample, slots, "slots", "count", "of a disk", METRIC_GAUGE),
	METRIC_MEMBER(struct sample, writes, "writes", "count", "done", METRIC_COUNTER),
};

/* ---- text ---- */

static char *
text_of(const struct metric_object *objects, size_t count)
{
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_not_null(out);
	metrics_write(out, "x", members, NUM_COUNT(members), objects, count);
	metrics_write_end(out);
	cr_assert_eq(fclose(out), 0);
	return text;
}

Test(metrics, values_of_a_name_stand_together_behind_its_type_and_help)
{
	const struct sample samples[] = { { true, 7, UINT64_MAX }, { false, 0, 3 } };
	struct metric_object objects[] = { { .values = &samples[0] }, { .values = &samples[1] } };
	char *text;

	metric_label_u64(&objects[0], "node", 1);
	metric_label_u64(&objects[1], "node", 2);
	metric_label(&objects[1], "domain", "b");
	text = text_of(objects, 2);
	cr_assert_str_eq(text,
	    "# TYPE x_up gauge\n# HELP x_up 1 while it is\n"
	    "x_up{node=\"1\"} 1\nx_up{node=\"2\",domain=\"b\"} 0\n"
	    "# TYPE x_slots gauge\n# HELP x_slots of a disk\n"
	    "x_slots{node=\"1\"} 7\nx_slots{node=\"2\",domain=\"b\"} 0\n"
	    "# TYPE x_writes counter\n# HELP x_writes done\n"
	    "x_writes_total{node=\"1\"} 18446744073709551615\n"
	    "x_writes_total{node=\"2\",domain=\"b\"} 3\n# EOF\n");
	free(text);
}

Test(metrics, one_object_needs_no_label_and_none_writes_nothing)
{
	const struct sample sample = { .slots = 1 };
	struct metric_object object = { .values = &sample };
	char *text = text_of(&object, 1);

	cr_assert_not_null(strstr(text, "\nx_slots 1\n"));
	free(text);
	text = text_of(NULL, 0);
	cr_assert_str_eq(text, "# EOF\n");
	free(text);
}

Test(metrics, label_that_would_break_the_text_is_quoted)
{
	struct metric_object object = { 0 };

	metric_label(&object, "domain", "a\"b\\c\nd");
	cr_assert_str_eq(object.labels, "domain=\"a\\\"b\\\\c\\nd\"");
}

Test(metrics, label_that_does_not_fit_is_left_out_whole)
{
	char value[METRIC_LABELS_BYTES + 1];
	struct metric_object object;

	/* Texts of each length: afterwards nothing is there, or all of it. */
	for (size_t bytes = 0; bytes < sizeof(value); bytes++) {
		size_t labels_bytes;

		memset(value, bytes % 2 == 0 ? '"' : 'v', sizeof(value));
		value[bytes] = '\0';
		object = (struct metric_object){ 0 };
		metric_label(&object, "a", "1");
		metric_label(&object, "b", value);
		labels_bytes = strlen(object.labels);
		cr_assert_lt(labels_bytes, sizeof(object.labels));
		cr_assert_eq(object.labels[labels_bytes - 1], '"');
		cr_assert(labels_bytes == strlen("a=\"1\"") ||
		    labels_bytes == strlen("a=\"1\",b=\"\"") + bytes * (bytes % 2 == 0 ? 2 : 1));
	}
	cr_assert_str_eq(object.labels, "a=\"1\"");
}

/* ---- HTTP ---- */

struct monitor {
	struct loop *loop;
	struct metrics_http *http;
	/* How the daemon answers: at once with rc, or when the timer fires, or never. */
	int rc;
	bool is_late, is_silent;
	struct metrics_scrape *asked;
	uint32_t asked_count;
	struct loop_timer timer;
	/* The client's side. */
	int fd;
	struct loop_fd watcher;
	char answer[8192];
	size_t bytes;
	bool is_over;
};

static void
monitor_on_timer(struct loop_timer *timer, void *arg)
{
	struct monitor *monitor = arg;

	(void)timer;
	(void)fputs("late 1\n# EOF\n", metrics_scrape_out(monitor->asked));
	metrics_scrape_finish(monitor->asked, 0);
	monitor->asked = NULL;
}

static void
monitor_on_scrape(struct metrics_scrape *scrape, void *arg)
{
	struct monitor *monitor = arg;

	monitor->asked_count++;
	monitor->asked = scrape;
	if (monitor->is_silent)
		return;
	if (monitor->is_late) {
		loop_timer_start(monitor->loop, &monitor->timer, NUM_MS(5));
		return;
	}
	(void)fputs("now 1\n# EOF\n", metrics_scrape_out(scrape));
	metrics_scrape_finish(scrape, monitor->rc);
}

static void
monitor_on_refusal(struct metrics_scrape *scrape, void *arg)
{
	(void)arg;
	(void)fputs("not well\n", metrics_scrape_out(scrape));
	metrics_scrape_refuse(scrape);
}

static const struct metrics_path paths[] = {
	{ "/metrics", METRICS_TYPE_METRICS, NULL, false, monitor_on_scrape },
	{ "/page", METRICS_TYPE_TEXT, NULL, true, monitor_on_scrape },
	{ "/sick", METRICS_TYPE_TEXT, "default-src 'none'", false, monitor_on_refusal },
};

static struct metrics_http *
start_at(struct loop *loop, const char *address, struct monitor *monitor, char error[ERROR_BYTES])
{
	const struct metrics_http_options options = { .address = address,
		.paths = paths,
		.path_count = NUM_COUNT(paths),
		.arg = monitor };

	return metrics_http_start(loop, &options, error, ERROR_BYTES);
}

static void
monitor_init(struct monitor *monitor)
{
	char error[ERROR_BYTES];

	*monitor = (struct monitor){ .loop = loop_ev_create(SEED), .fd = -1 };
	cr_assert_not_null(monitor->loop);
	loop_timer_init(&monitor->timer, monitor_on_timer, monitor);
	monitor->http = start_at(monitor->loop, "127.0.0.1:0", monitor, error);
	cr_assert_not_null(monitor->http, "%s", error);
}

static void
monitor_hang_up(struct monitor *monitor)
{
	loop_fd_stop(monitor->loop, &monitor->watcher);
	cr_assert_eq(close(monitor->fd), 0);
	monitor->fd = -1;
}

static void
monitor_fini(struct monitor *monitor)
{
	if (monitor->fd >= 0)
		monitor_hang_up(monitor);
	metrics_http_stop(monitor->http);
	loop_timer_stop(monitor->loop, &monitor->timer);
	loop_destroy(monitor->loop);
}

static int
monitor_connect(const struct monitor *monitor)
{
	const char *port = strrchr(metrics_http_address(monitor->http), ':') + 1;
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void
monitor_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct monitor *monitor = arg;
	ssize_t bytes = read(watcher->fd, monitor->answer + monitor->bytes,
	    sizeof(monitor->answer) - 1 - monitor->bytes);

	(void)events;
	if (bytes <= 0)
		monitor->is_over = true;
	else
		monitor->bytes += (size_t)bytes;
	monitor->answer[monitor->bytes] = '\0';
}

static bool
monitor_is_over(void *arg)
{
	return ((const struct monitor *)arg)->is_over;
}

static bool
monitor_is_asked(void *arg)
{
	return ((const struct monitor *)arg)->asked != NULL;
}

static void
monitor_send(struct monitor *monitor, const char *text)
{
	monitor->fd = monitor_connect(monitor);
	monitor->bytes = 0;
	monitor->is_over = false;
	cr_assert_eq(write(monitor->fd, text, strlen(text)), (ssize_t)strlen(text));
	loop_fd_init(&monitor->watcher, monitor->fd, monitor_on_readable, monitor);
	cr_assert_eq(loop_fd_start(monitor->loop, &monitor->watcher, LOOP_READABLE), 0);
}

/* The whole answer to a request after which the connection closes. */
static const char *
monitor_ask_as(struct monitor *monitor, const char *first_line, const char *host)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
	    "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", first_line,
	    host);
	monitor_send(monitor, text);
	cr_assert_eq(loop_run(monitor->loop, monitor_is_over, monitor), 0);
	monitor_hang_up(monitor);
	return monitor->answer;
}

static const char *
monitor_ask(struct monitor *monitor, const char *first_line)
{
	return monitor_ask_as(monitor, first_line, "x");
}

static bool
begins_with(const char *text, const char *head)
{
	return strncmp(text, head, strlen(head)) == 0;
}

static bool
ends_with(const char *text, const char *tail)
{
	size_t bytes = strlen(text), tail_bytes = strlen(tail);

	return bytes >= tail_bytes && strcmp(text + bytes - tail_bytes, tail) == 0;
}

Test(metrics_http, answers_what_the_daemon_writes_now_or_later)
{
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	cr_assert_not_null(
	    strstr(answer, "Content-Type: application/openmetrics-text; version=1.0.0"));
	cr_assert(ends_with(answer, "\r\n\r\nnow 1\n# EOF\n"), "%s", answer);
	monitor.is_late = true;
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	cr_assert(ends_with(answer, "\r\n\r\nlate 1\n# EOF\n"), "%s", answer);
	answer = monitor_ask(&monitor, "HEAD /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	cr_assert(ends_with(answer, "\r\n\r\n"), "%s", answer);
	monitor_fini(&monitor);
}

Test(metrics_http, daemon_that_cannot_tell_is_a_503)
{
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	monitor.rc = -ESHUTDOWN;
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 503 "), "%s", answer);
	cr_assert_null(strstr(answer, "now 1"), "half of a text: %s", answer);
	monitor_fini(&monitor);
}

Test(metrics_http, who_is_not_well_says_why_in_a_503_of_its_own)
{
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	answer = monitor_ask(&monitor, "GET /sick");
	cr_assert(begins_with(answer, "HTTP/1.1 503 "), "%s", answer);
	cr_assert(ends_with(answer, "\r\n\r\nnot well\n"), "%s", answer);
	cr_assert_not_null(strstr(answer, "\r\nContent-Type: text/plain"), "%s", answer);
	monitor_fini(&monitor);
}

/* Nobody keeps an answer, guesses what it is, or runs what stands in it; nobody is told something to send back. */
Test(metrics_http, answers_have_the_headers_that_browsers_want)
{
	static const char *const all[] = { "GET /metrics", "GET /nothing", "POST /metrics" };
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	for (size_t i = 0; i < NUM_COUNT(all); i++) {
		answer = monitor_ask(&monitor, all[i]);
		cr_assert_not_null(strstr(answer, "\r\nX-Content-Type-Options: nosniff\r\n"));
		cr_assert_not_null(strstr(answer, "\r\nCache-Control: no-store\r\n"));
		cr_assert_null(strstr(answer, "Cookie"), "%s", answer);
		cr_assert_null(strstr(answer, "Content-Security-Policy"), "%s", answer);
	}
	cr_assert_not_null(strstr(answer, "\r\nAllow: GET, HEAD\r\n"), "%s", answer);
	answer = monitor_ask(&monitor, "HEAD /sick");
	cr_assert_not_null(strstr(answer, "\r\nContent-Security-Policy: default-src 'none'\r\n"),
	    "%s", answer);
	answer = monitor_ask(&monitor, "GET /nothing");
	cr_assert(ends_with(answer, "there is /metrics /page /sick alone\n"), "%s", answer);
	monitor_fini(&monitor);
}

static void
lookup(const char *name, struct resolve_answer *ret_answer)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6 }; /* 2001:db8::1: not ours */
	struct sockaddr_in ours = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	*ret_answer = (struct resolve_answer){ .rc = EAI_NONAME };
	if (strcmp(name, "gw1.example") != 0)
		return;
	memcpy(at.sin6_addr.s6_addr, "\x20\x01\x0d\xb8", 4);
	at.sin6_addr.s6_addr[15] = 1;
	*ret_answer = (struct resolve_answer){ .count = 2 };
	memcpy(&ret_answer->addresses[0], &at, sizeof(at));
	memcpy(&ret_answer->addresses[1], &ours, sizeof(ours));
}

Test(metrics_http, name_is_looked_up_and_its_first_address_here_is_taken)
{
	struct loop *loop = loop_ev_create(SEED);
	struct metrics_http *http;
	char error[ERROR_BYTES];

	resolve_replace(lookup);
	http = start_at(loop, "gw1.example:0", NULL, error);
	cr_assert_not_null(http, "%s", error);
	cr_assert(begins_with(metrics_http_address(http), "tcp://127.0.0.1:"), "%s",
	    metrics_http_address(http));
	metrics_http_stop(http);
	cr_assert_null(start_at(loop, "gw2.example:0", NULL, error));
	cr_assert_not_null(strstr(error, "gw2.example"), "%s", error);
	resolve_replace(NULL);
	loop_destroy(loop);
}

/* A site whose name means our address for the moment reads no page through its visitor's browser. */
Test(metrics_http, page_is_not_told_by_a_name_that_others_own)
{
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	answer = monitor_ask_as(&monitor, "GET /page", "evil.example:9710");
	cr_assert(begins_with(answer, "HTTP/1.1 421 "), "%s", answer);
	cr_assert_null(strstr(answer, "now 1"), "%s", answer);
	answer = monitor_ask_as(&monitor, "GET /page", "localhost:9710");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	answer = monitor_ask_as(&monitor, "GET /page", "[::1]:9710");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	answer = monitor_ask_as(&monitor, "GET /metrics", "gw1.monitored.example:9710");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	monitor_fini(&monitor);
}

Test(metrics_http, everything_else_is_refused_and_disturbs_nobody)
{
	static const struct {
		const char *first_line, *status;
	} cases[] = {
		{ "GET /", "HTTP/1.1 404 " },
		{ "GET /metrics/x", "HTTP/1.1 404 " },
		{ "HEAD /metric", "HTTP/1.1 404 " },
		{ "POST /sick", "HTTP/1.1 405 " },
		{ "POST /metrics", "HTTP/1.1 405 " },
		{ "DELETE /metrics", "HTTP/1.1 405 " },
		{ "\x01\x02\x03", "HTTP/1.1 4" },
	};
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		answer = monitor_ask(&monitor, cases[i].first_line);
		cr_assert(answer[0] == '\0' || begins_with(answer, cases[i].status), "%zu: %s", i,
		    answer);
		cr_assert(i == NUM_COUNT(cases) - 1 || answer[0] != '\0', "%zu: no answer", i);
	}
	cr_assert_eq(monitor.asked_count, 0);
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	monitor_fini(&monitor);
}

Test(metrics_http, head_without_end_is_refused_when_it_is_too_long)
{
	struct monitor monitor;
	char *text = malloc(64 * 1024);

	cr_assert_not_null(text);
	memset(text, 'a', 64 * 1024 - 1);
	memcpy(text, "GET /", 5);
	text[64 * 1024 - 1] = '\0';
	monitor_init(&monitor);
	monitor_send(&monitor, text);
	cr_assert_eq(loop_run(monitor.loop, monitor_is_over, &monitor), 0);
	cr_assert(monitor.bytes == 0 || begins_with(monitor.answer, "HTTP/1.1 4"), "%s",
	    monitor.answer);
	cr_assert_eq(monitor.asked_count, 0);
	monitor_fini(&monitor);
	free(text);
}

Test(metrics_http, client_that_goes_before_its_answer_harms_nobody)
{
	struct monitor monitor;
	const char *answer;

	monitor_init(&monitor);
	monitor.is_silent = true;
	monitor_send(&monitor, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	cr_assert_eq(loop_run(monitor.loop, monitor_is_asked, &monitor), 0);
	monitor_hang_up(&monitor);
	(void)fputs("gone 1\n", metrics_scrape_out(monitor.asked));
	metrics_scrape_finish(monitor.asked, 0);
	monitor.is_silent = false;
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(ends_with(answer, "now 1\n# EOF\n"), "%s", answer);
	monitor_fini(&monitor);
}

Test(metrics_http, stop_forgets_who_has_no_answer_yet)
{
	struct monitor monitor;

	monitor_init(&monitor);
	monitor.is_silent = true;
	monitor_send(&monitor, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	cr_assert_eq(loop_run(monitor.loop, monitor_is_asked, &monitor), 0);
	monitor_fini(&monitor); /* the sanitizer tells of what is left */
}

Test(metrics_http, connection_is_kept_for_the_next_question)
{
	struct monitor monitor;

	monitor_init(&monitor);
	monitor.is_silent = true;
	monitor_send(&monitor, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	for (uint32_t i = 1; i <= 3; i++) {
		struct metrics_scrape *scrape;

		cr_assert_eq(loop_run(monitor.loop, monitor_is_asked, &monitor), 0);
		scrape = monitor.asked;
		monitor.asked = NULL;
		metrics_scrape_finish(scrape, 0);
		cr_assert_eq(monitor.asked_count, i);
		cr_assert_gt(write(monitor.fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 34), 0);
	}
	monitor_fini(&monitor);
}

/* Requests that were answered in the turns of a loop. */
struct turns {
	struct monitor *monitor;
	uint32_t last_count, most; /* up to the last turn; the most in one */
};

#define PIPELINED 50u

static bool
turns_are_over(void *arg)
{
	struct turns *turns = arg;
	uint32_t count = turns->monitor->asked_count;

	if (count - turns->last_count > turns->most)
		turns->most = count - turns->last_count;
	turns->last_count = count;
	return count == METRICS_CONNECTIONS_MAX * PIPELINED;
}

/* The loop has a lease to renew, or a disk to write to: it goes on however much is asked. */
Test(metrics_http, clients_that_never_stop_asking_do_not_keep_the_loop)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct monitor monitor;
	struct turns turns = { .monitor = &monitor };
	char text[PIPELINED * (sizeof(request) - 1)];
	int fds[METRICS_CONNECTIONS_MAX];

	for (uint32_t i = 0; i < PIPELINED; i++)
		memcpy(text + i * (sizeof(request) - 1), request, sizeof(request) - 1);
	monitor_init(&monitor);
	for (size_t i = 0; i < NUM_COUNT(fds); i++) {
		fds[i] = monitor_connect(&monitor);
		cr_assert_eq(write(fds[i], text, sizeof(text)), (ssize_t)sizeof(text));
	}
	cr_assert_eq(loop_run(monitor.loop, turns_are_over, &turns), 0);
	cr_assert_leq(turns.most, 2 * METRICS_CONNECTIONS_MAX, "%u in a turn", turns.most);
	for (size_t i = 0; i < NUM_COUNT(fds); i++)
		cr_assert_eq(close(fds[i]), 0);
	monitor_fini(&monitor);
}

/* More than there are places, all there before the daemon looks; the last of them says something. */
Test(metrics_http, silent_clients_keep_nobody_out)
{
	struct monitor monitor;
	int fds[3 * METRICS_CONNECTIONS_MAX];
	const char *answer;

	monitor_init(&monitor);
	for (size_t i = 0; i < NUM_COUNT(fds); i++)
		fds[i] = monitor_connect(&monitor);
	for (uint32_t i = 0; i < 3; i++) {
		answer = monitor_ask(&monitor, "GET /metrics");
		cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%u: %s", i, answer);
	}
	for (size_t i = 0; i < NUM_COUNT(fds); i++)
		cr_assert_eq(close(fds[i]), 0);
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	monitor_fini(&monitor);
}

/* Requests that have begun, and never end, are as good as silent. */
Test(metrics_http, half_requests_keep_nobody_out)
{
	struct monitor monitor;
	int fds[METRICS_CONNECTIONS_MAX];
	const char *answer;

	monitor_init(&monitor);
	for (size_t i = 0; i < NUM_COUNT(fds); i++) {
		fds[i] = monitor_connect(&monitor);
		cr_assert_eq(write(fds[i], "GET /met", 8), 8);
	}
	answer = monitor_ask(&monitor, "GET /metrics");
	cr_assert(begins_with(answer, "HTTP/1.1 200 "), "%s", answer);
	for (size_t i = 0; i < NUM_COUNT(fds); i++)
		cr_assert_eq(close(fds[i]), 0);
	monitor_fini(&monitor);
}

Test(metrics_http, address_that_cannot_be_had_is_named)
{
	struct loop *loop = loop_ev_create(SEED);
	struct metrics_http *http;
	char error[ERROR_BYTES];
	const char *taken;

	cr_assert_null(start_at(loop, "here", NULL, error));
	cr_assert_not_null(strstr(error, "'here'"), "%s", error);
	http = start_at(loop, "[::1]:0", NULL, error);
	if (http == NULL)
		http = start_at(loop, "localhost:0", NULL, error);
	cr_assert_not_null(http, "%s", error);
	taken = metrics_http_address(http) + strlen("tcp://");
	cr_assert_null(start_at(loop, taken, NULL, error));
	cr_assert_not_null(strstr(error, taken), "%s", error);
	cr_assert_not_null(strstr(error, strerror(EADDRINUSE)), "%s", error);
	metrics_http_stop(http);
	metrics_http_stop(NULL);
	loop_destroy(loop);
}

static struct metrics_http *
start_open(struct loop *loop, const char *address, char error[ERROR_BYTES])
{
	const struct metrics_http_options options = { .address = address,
		.is_open = true,
		.paths = paths,
		.path_count = NUM_COUNT(paths) };

	return metrics_http_start(loop, &options, error, ERROR_BYTES);
}

/* gw3.example is 0.0.0.0, which this machine has and others reach. */
static void
lookup_any(const char *name, struct resolve_answer *ret_answer)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	*ret_answer = (struct resolve_answer){ .rc = EAI_NONAME };
	if (strcmp(name, "gw3.example") != 0)
		return;
	*ret_answer = (struct resolve_answer){ .count = 1 };
	memcpy(&ret_answer->addresses[0], &any, sizeof(any));
}

Test(metrics_http, address_that_other_hosts_reach_is_refused_unless_it_is_open)
{
	static const char *const open[] = { "0.0.0.0:0", "[::]:0", "[::ffff:10.0.0.1]:0",
		"192.0.2.1:9710", "gw3.example:0" };
	struct loop *loop = loop_ev_create(SEED);
	struct metrics_http *http;
	char error[ERROR_BYTES];

	resolve_replace(lookup_any);
	for (size_t i = 0; i < NUM_COUNT(open); i++) {
		cr_assert_null(start_at(loop, open[i], NULL, error), "%s", open[i]);
		cr_assert(begins_with(error, open[i]), "%s", error);
		cr_assert_not_null(strstr(error, HTTP_OPEN_TEXT), "%s", error);
	}
	http = start_open(loop, "0.0.0.0:0", error);
	cr_assert_not_null(http, "%s", error);
	metrics_http_stop(http);
	http = start_open(loop, "gw3.example:0", error);
	cr_assert_not_null(http, "%s", error);
	metrics_http_stop(http);
	resolve_replace(NULL);
	loop_destroy(loop);
}
