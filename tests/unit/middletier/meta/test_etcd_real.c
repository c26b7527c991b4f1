/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_etcd_real.c -- meta_etcd on three real members that are killed and stopped; and what libcurl must not do
 *
 * No test judges by the clock: each waits until the store answers again.
 */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/etcd_curl.h"
#include "middletier/meta/meta_etcd.h"
#include "support/real_etcd.h"
#include "unit/meta_fixture.h"

#define MEMBERS 3u

static void
members_init(struct fixture *f, struct real_etcd *etcd)
{
	if (!real_etcd_is_here())
		cr_skip_test("there is no etcd");
	real_etcd_start(etcd, MEMBERS);
	fixture_init_real(f, etcd);
}

static void
members_fini(struct fixture *f, struct real_etcd *etcd)
{
	fixture_fini(f);
	real_etcd_stop(etcd);
}

struct sum {
	uint64_t least, most; /* what it may be by now */
};

/* Adds one, by compare-and-swap, until that is answered. */
static void
add_one(struct fixture *f, struct sum *sum)
{
	for (;;) {
		struct answer now = { 0 };
		struct meta_op ops[2];
		char value[32];
		int rc;

		cr_assert_eq(f->meta->ops->list(f->meta, "sum", on_list, &now), 0);
		wait_for(f, &now);
		cr_assert(now.rc == 0 || now.rc == -ETIMEDOUT);
		if (now.rc != 0)
			continue;
		(void)snprintf(value, sizeof(value), "%lu",
		    now.item_count == 0 ? 1 : strtoul(now.items[0].value, NULL, 10) + 1);
		ops[0] = compare("sum", now.item_count == 0 ? 0 : now.items[0].version);
		ops[1] = put("sum", value);
		rc = txn(f, ops, 2);
		cr_assert(rc == 0 || rc == -EAGAIN || rc == -ETIMEDOUT, "%d", rc);
		sum->least += rc == 0;
		sum->most += rc == 0 || rc == -ETIMEDOUT;
		if (rc == 0)
			return;
	}
}

static void
check_sum(struct fixture *f, const struct sum *sum)
{
	uint64_t value = strtoull(list(f, "sum").items[0].value, NULL, 10);

	cr_assert_geq(value, sum->least);
	cr_assert_leq(value, sum->most);
}

static int
renew_until_answered(struct fixture *f, uint64_t lease)
{
	int rc;

	do {
		rc = lease_renew(f, lease);
	} while (rc == -ETIMEDOUT);
	return rc;
}

Test(etcd_real, members_are_killed_in_turn, .timeout = 120)
{
	struct real_etcd etcd;
	struct fixture f;
	struct sum sum = { 0 };
	uint64_t lease;

	members_init(&f, &etcd);
	lease = grant(&f, NUM_S(1000));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	for (uint32_t i = 0; i < 2 * MEMBERS; i++) {
		real_etcd_kill(&etcd, i % MEMBERS);
		for (uint32_t k = 0; k < 5; k++)
			add_one(&f, &sum);
		cr_assert_eq(renew_until_answered(&f, lease), 0);
		real_etcd_run(&etcd, i % MEMBERS);
		for (uint32_t k = 0; k < 5; k++)
			add_one(&f, &sum);
	}
	check_sum(&f, &sum);
	cr_assert_neq(version_of(&f, "gateways/1"), 0);
	members_fini(&f, &etcd);
}

/* The leader is among them. */
Test(etcd_real, members_are_stopped_in_turn, .timeout = 120)
{
	struct real_etcd etcd;
	struct fixture f;
	struct answer watch = { 0 };
	struct sum sum = { 0 };
	uint64_t lease;

	members_init(&f, &etcd);
	lease = grant(&f, NUM_S(1000));
	cr_assert_eq(put_leased(&f, "gateways/1", lease), 0);
	cr_assert_eq(f.meta->ops->watch(f.meta, "sum", on_watch, &watch), 0);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		cr_assert_eq(kill(etcd.pids[i], SIGSTOP), 0);
		for (uint32_t k = 0; k < 5; k++)
			add_one(&f, &sum);
		watch.is_done = false;
		add_one(&f, &sum);
		wait_for(&f, &watch); /* also where the stream came from the one that stands */
		cr_assert_eq(renew_until_answered(&f, lease), 0);
		cr_assert_eq(kill(etcd.pids[i], SIGCONT), 0);
	}
	check_sum(&f, &sum);
	cr_assert_neq(version_of(&f, "gateways/1"), 0);
	members_fini(&f, &etcd);
}

Test(etcd_real, history_is_compacted_under_a_watch, .timeout = 60)
{
	struct real_etcd etcd;
	struct fixture f;
	struct answer watch = { 0 };
	struct sum sum = { 0 };
	char command[64];

	members_init(&f, &etcd);
	cr_assert_eq(f.meta->ops->watch(f.meta, "sum", on_watch, &watch), 0);
	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t k = 0; k < 20; k++)
			add_one(&f, &sum);
		(void)snprintf(command, sizeof(command), "compact %lu",
		    version_of(&f, "sum") & ((UINT64_C(1) << 48) - 1));
		cr_assert_eq(real_etcd_ctl(&etcd, command), 0);
		real_etcd_kill(&etcd, i);
		real_etcd_run(&etcd, i);
		watch.is_done = false;
		add_one(&f, &sum);
		wait_for(&f, &watch);
	}
	check_sum(&f, &sum);
	members_fini(&f, &etcd);
}

static void
user_open(struct fixture *f, const struct real_etcd *etcd, const char *user, const char *password)
{
	const char *urls[] = { etcd->urls[0] };

	f->meta->ops->close(f->meta);
	f->meta = meta_etcd_open(&(struct meta_etcd_options){ .loop = f->loop,
	    .http = etcd_curl_open(
		&(struct etcd_curl_options){ .loop = f->loop, .urls = urls, .url_count = 1 }),
	    .endpoints = urls,
	    .endpoint_count = 1,
	    .prefix = "/cleave/7/",
	    .user = user,
	    .password = password });
	cr_assert_not_null(f->meta);
}

/* On a machine that is busy a request ends "perhaps", which is no refusal. */
static void
check_refused(struct fixture *f, const char *why)
{
	bool is_refused;
	int rc;

	do {
		rc = put_one(f, "k", "w");
	} while (rc == -ETIMEDOUT);
	cr_assert_eq(rc, -EIO, "%d", rc);
	cr_assert_not_null(strstr(meta_etcd_trouble(f->meta, &is_refused), why), "%s",
	    meta_etcd_trouble(f->meta, &is_refused));
}

Test(etcd_real, users_are_asked_for_a_password_and_a_role, .timeout = 60)
{
	struct real_etcd etcd;
	struct fixture f;

	if (!real_etcd_is_here())
		cr_skip_test("there is no etcd");
	real_etcd_start(&etcd, 1);
	fixture_init_real(&f, &etcd);
	cr_assert_eq(real_etcd_ctl(&etcd, "user add root:secret"), 0);
	cr_assert_eq(real_etcd_ctl(&etcd, "user grant-role root root"), 0);
	cr_assert_eq(real_etcd_ctl(&etcd, "user add cleave:secret"), 0);
	cr_assert_eq(real_etcd_ctl(&etcd, "role add cleave"), 0);
	cr_assert_eq(real_etcd_ctl(&etcd,
			 "role grant-permission cleave readwrite --prefix /cleave/7/"),
	    0);
	cr_assert_eq(real_etcd_ctl(&etcd, "user add other:secret"), 0);
	cr_assert_eq(real_etcd_ctl(&etcd, "user grant-role cleave cleave"), 0);
	cr_assert_eq(real_etcd_ctl(&etcd, "auth enable"), 0);
	user_open(&f, &etcd, "cleave", "secret");
	cr_assert_eq(loop_run(f.loop, etcd_is_ready, &f), 0);
	cr_assert_eq(put_one(&f, "k", "v"), 0);
	cr_assert_eq(put_leased(&f, "gateways/1", grant(&f, NUM_S(1000))), 0);
	user_open(&f, &etcd, "cleave", "wrong");
	check_refused(&f, "user cleave");
	user_open(&f, &etcd, "other", "secret");
	check_refused(&f, "role");
	user_open(&f, &etcd, NULL, NULL);
	check_refused(&f, "--meta-user");
	members_fini(&f, &etcd);
}

/* ---- a connection that ends without an answer ---- */

struct closer {
	int listen_fd;
	char url[40];
	uint32_t request_count; /* with a whole body */
};

/* Reads one request: its headers, and "{}". False: the connection has ended. */
static bool
closer_read(int fd)
{
	char text[4096];
	size_t count = 0;

	for (;;) {
		ssize_t bytes = read(fd, text + count, sizeof(text) - 1 - count);

		if (bytes <= 0)
			return false;
		count += (size_t)bytes;
		text[count] = '\0';
		if (strstr(text, "\r\n\r\n{}") != NULL)
			return true;
	}
}

/* Answers the first request of a connection, and closes it after the second one. */
static void *
closer_main(void *arg)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
	struct closer *closer = arg;
	int fd;

	while ((fd = accept4(closer->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (closer_read(fd)) {
			(void)__atomic_add_fetch(&closer->request_count, 1, __ATOMIC_SEQ_CST);
			(void)!write(fd, answer, sizeof(answer) - 1);
			if (closer_read(fd))
				(void)__atomic_add_fetch(&closer->request_count, 1,
				    __ATOMIC_SEQ_CST);
		}
		(void)close(fd);
	}
	return NULL;
}

struct heard {
	bool is_done;
	int rc;
	bool was_sent;
};

static void
on_heard(const struct etcd_http_answer *answer, void *arg)
{
	*(struct heard *)arg =
	    (struct heard){ .is_done = true, .rc = answer->rc, .was_sent = answer->was_sent };
}

static bool
heard_is_done(void *arg)
{
	return ((struct heard *)arg)->is_done;
}

static struct heard
ask_closer(struct loop *loop, struct etcd_http *http)
{
	struct heard heard = { 0 };

	cr_assert_not_null(http->ops->post(http,
	    &(struct etcd_http_request){ .line = ETCD_LINE_REQUEST,
		.path = "/v3/kv/txn",
		.body = "{}",
		.body_bytes = 2,
		.timeout_ns = NUM_S(60) },
	    on_heard, &heard));
	cr_assert_eq(loop_run(loop, heard_is_done, &heard), 0);
	return heard;
}

/* Left to itself, libcurl sends the second one again over a new connection, and calls that a success. */
Test(etcd_curl, request_on_a_connection_that_ends_is_sent_once, .timeout = 60)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	struct closer closer = { .listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	const char *urls[] = { closer.url };
	struct loop *loop = loop_ev_create(1);
	struct etcd_http *http;
	struct heard heard;
	pthread_t thread;

	cr_assert_eq(bind(closer.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(closer.listen_fd, 8), 0);
	cr_assert_eq(getsockname(closer.listen_fd, (struct sockaddr *)&address, &bytes), 0);
	(void)snprintf(closer.url, sizeof(closer.url), "http://127.0.0.1:%u",
	    ntohs(address.sin_port));
	cr_assert_eq(pthread_create(&thread, NULL, closer_main, &closer), 0);
	http = etcd_curl_open(
	    &(struct etcd_curl_options){ .loop = loop, .urls = urls, .url_count = 1 });
	heard = ask_closer(loop, http);
	cr_assert_eq(heard.rc, 0);
	heard = ask_closer(loop, http);
	cr_assert_lt(heard.rc, 0);
	cr_assert(heard.was_sent);
	cr_assert_eq(__atomic_load_n(&closer.request_count, __ATOMIC_SEQ_CST), 2);
	http->ops->close(http);
	/* Nobody listens: nothing was sent. */
	(void)shutdown(closer.listen_fd, SHUT_RDWR);
	(void)close(closer.listen_fd);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	http = etcd_curl_open(
	    &(struct etcd_curl_options){ .loop = loop, .urls = urls, .url_count = 1 });
	heard = ask_closer(loop, http);
	cr_assert_eq(heard.rc, -ECONNREFUSED);
	cr_assert_not(heard.was_sent);
	http->ops->close(http);
	loop_destroy(loop);
}
