/* SPDX-License-Identifier: Apache-2.0 */
/* test_etcd_health.c -- what operators and monitors are told of an etcd: silent, slow, nearly full */
#include "base/log.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/etcd_latency.h"
#include "splitlib/sim/loop_sim.h"
#include "support/fake_etcd.h"
#include "unit/etcd_fixture.h"
#include "unit/meta_fixture.h"

static char last_line[1024];
static uint32_t line_count;

/* Counts lines of a level that says more than "this happened". */
static void
on_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level < LOG_WARN)
		return;
	line_count++;
	(void)snprintf(last_line, sizeof(last_line), "%s", line);
}

static void
health_init(struct fixture *f)
{
	fixture_init_etcd(f, 1);
	f->meta->ops->close(f->meta);
	f->way = fake_etcd_open(f->etcd, f->loop);
	f->meta = meta_etcd_open(&(struct meta_etcd_options){ .loop = f->loop,
	    .http = f->way,
	    .endpoints = etcd_names,
	    .endpoint_count = ETCD_MEMBERS,
	    .prefix = "/cleave/c1ea7e0000000001/",
	    .measures = true });
	cr_assert_eq(loop_run(f->loop, etcd_is_ready, f), 0);
	line_count = 0;
	log_set_sink(on_line, NULL);
}

static void
health_fini(struct fixture *f)
{
	log_set_sink(NULL, NULL);
	fixture_fini(f);
}

static struct meta_report
report(struct fixture *f)
{
	struct meta_report report;

	f->meta->ops->report(f->meta, &report);
	return report;
}

Test(etcd_health, silence_is_told_each_ten_seconds_with_the_endpoints)
{
	struct fixture f;
	uint64_t lease;

	health_init(&f);
	lease = grant(&f, NUM_S(10));
	cr_assert_eq(report(&f).unreachable_s, 0);
	/* A day without a request is none without an answer. */
	run_for(&f, NUM_S(86400));
	fake_etcd_cut_off(f.way, true);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(lease_renew(&f, lease), -ETIMEDOUT);
	cr_assert_eq(line_count, 0);
	cr_assert_geq(report(&f).unreachable_s, 6);
	cr_assert_lt(report(&f).unreachable_s, 10);
	for (uint32_t i = 0; i < 16; i++)
		cr_assert_eq(lease_renew(&f, lease), -ETIMEDOUT);
	cr_assert_eq(line_count, 3);
	cr_assert_not_null(strstr(last_line, "unreachable for_s=3"), "%s", last_line);
	cr_assert_not_null(strstr(last_line,
			       "endpoints=http://a:2379,http://b:2379,http://c:2379 last=http://"),
	    "%s", last_line);
	fake_etcd_cut_off(f.way, false);
	cr_assert_eq(lease_renew(&f, lease), -ENOENT);
	cr_assert_eq(report(&f).unreachable_s, 0);
	health_fini(&f);
}

Test(etcd_health, slowness_is_told_once_against_the_lease)
{
	struct fixture f;
	uint64_t lease;

	health_init(&f);
	lease = grant(&f, NUM_S(3));
	cr_assert_lt(report(&f).request_last_ns, NUM_MS(500));
	fake_etcd_set_delay(f.etcd, NUM_MS(300), NUM_MS(301));
	for (uint32_t i = 0; i < 200; i++)
		cr_assert_eq(lease_renew(&f, lease), 0);
	cr_assert_eq(line_count, 1);
	cr_assert_not_null(strstr(last_line, "etcd is slow"), "%s", last_line);
	cr_assert_not_null(strstr(last_line, "limit_ms=500"), "%s", last_line);
	cr_assert_geq(report(&f).request_last_ns, NUM_MS(600));
	cr_assert_geq(report(&f).request_p99_ns, NUM_MS(600));
	/* Fast again, and slow again: told again. */
	fake_etcd_set_delay(f.etcd, NUM_US(50), NUM_US(500));
	for (uint32_t i = 0; i < 200; i++)
		cr_assert_eq(lease_renew(&f, lease), 0);
	cr_assert_lt(report(&f).request_p99_ns, NUM_MS(250));
	fake_etcd_set_delay(f.etcd, NUM_MS(300), NUM_MS(301));
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(lease_renew(&f, lease), 0);
	cr_assert_eq(line_count, 2);
	health_fini(&f);
}

Test(etcd_health, p99_leaves_out_one_of_a_hundred)
{
	struct etcd_latency latency = { 0 };

	cr_assert_eq(etcd_latency_last(&latency), 0);
	cr_assert_eq(etcd_latency_p99(&latency), 0);
	for (uint64_t i = 1; i <= 99; i++)
		cr_assert_not(etcd_latency_add(&latency, i));
	cr_assert_eq(etcd_latency_p99(&latency), 99);
	cr_assert_not(etcd_latency_add(&latency, 1000));
	cr_assert_eq(etcd_latency_p99(&latency), 99);
	cr_assert_eq(etcd_latency_last(&latency), 1000);
	for (uint32_t i = 0; i < ETCD_LATENCY_SAMPLES; i++)
		cr_assert_not(etcd_latency_add(&latency, 7));
	cr_assert_eq(etcd_latency_p99(&latency), 7);
}

static void
check_size(bool tells_quota)
{
	struct fixture f;

	health_init(&f);
	fake_etcd_set_size(f.etcd, NUM_MIB(10), NUM_MIB(64), tells_quota);
	run_for(&f, NUM_S(100));
	cr_assert_eq(report(&f).database_bytes, NUM_MIB(10));
	cr_assert_eq(report(&f).quota_bytes, NUM_MIB(64));
	cr_assert_eq(line_count, 0);
	fake_etcd_set_size(f.etcd, NUM_MIB(32), NUM_MIB(64), tells_quota);
	run_for(&f, NUM_S(1000));
	cr_assert_eq(line_count, 1);
	cr_assert_not_null(strstr(last_line, "33554432 of the 67108864 bytes"), "%s", last_line);
	cr_assert_not_null(strstr(last_line, "etcdctl defrag"), "%s", last_line);
	fake_etcd_set_size(f.etcd, NUM_MIB(10), NUM_MIB(64), tells_quota);
	run_for(&f, NUM_S(100));
	fake_etcd_set_size(f.etcd, NUM_MIB(60), NUM_MIB(64), tells_quota);
	run_for(&f, NUM_S(100));
	cr_assert_eq(line_count, 2);
	health_fini(&f);
}

Test(etcd_health, database_is_measured_against_its_quota_and_told_at_half)
{
	check_size(false);
}

Test(etcd_health, quota_is_in_the_status_from_version_3_6_on)
{
	check_size(true);
}

Test(etcd_health, members_that_do_not_answer_are_named)
{
	struct fixture f;

	health_init(&f);
	run_for(&f, NUM_S(5));
	cr_assert_eq(report(&f).member_count, ETCD_MEMBERS);
	cr_assert_eq(report(&f).bad_count, 0, "%s", report(&f).bad_names);
	cr_assert_str_eq(report(&f).bad_names, "");
	fake_etcd_set_down(f.etcd, 1, true);
	run_for(&f, NUM_S(1));
	cr_assert_eq(report(&f).bad_count, 0, "it may be on its way");
	run_for(&f, NUM_S(2));
	cr_assert_eq(report(&f).bad_count, 1);
	cr_assert_not_null(strstr(report(&f).bad_names, "http://b:2379 ("), "%s",
	    report(&f).bad_names);
	cr_assert_geq(report(&f).bad_ns, NUM_MS(1500));
	fake_etcd_set_hung(f.etcd, 2, true);
	run_for(&f, NUM_S(3));
	cr_assert_eq(report(&f).bad_count, 2);
	cr_assert_not_null(strstr(report(&f).bad_names, "), http://c:2379 ("), "%s",
	    report(&f).bad_names);
	cr_assert_geq(report(&f).bad_ns, NUM_S(4), "the first");
	fake_etcd_set_down(f.etcd, 1, false);
	fake_etcd_set_hung(f.etcd, 2, false);
	run_for(&f, NUM_S(3));
	cr_assert_eq(report(&f).bad_count, 0, "%s", report(&f).bad_names);
	health_fini(&f);
}

Test(etcd_health, a_member_that_answers_may_be_none)
{
	struct fixture f;

	health_init(&f);
	f.etcd->members[0].is_leaderless = true; /* on the side of a few */
	run_for(&f, NUM_S(4));
	cr_assert_str_eq(report(&f).bad_names, "http://a:2379 (no leader)");
	f.etcd->members[0].is_leaderless = false;
	fake_etcd_set_foreign(f.etcd, 1, true);
	fake_etcd_set_no_etcd(f.etcd, 2, true);
	run_for(&f, NUM_S(4));
	cr_assert_str_eq(report(&f).bad_names,
	    "http://b:2379 (it is of another etcd), http://c:2379 (this is no etcd)");
	health_fini(&f);
}

/* A client that may not ask is answered all the same. */
Test(etcd_health, a_member_that_refuses_us_is_there)
{
	struct fixture f;

	health_init(&f);
	fake_etcd_set_user(f.etcd, "cleave", "secret");
	run_for(&f, NUM_S(5));
	cr_assert_eq(report(&f).bad_count, 0, "%s", report(&f).bad_names);
	health_fini(&f);
}

/* Members come and go while one is asked: nothing is lost, and nothing hangs. */
Test(etcd_health, members_that_fail_are_asked_again)
{
	struct fixture f;

	health_init(&f);
	fake_etcd_set_size(f.etcd, NUM_MIB(10), NUM_MIB(64), false);
	for (uint32_t i = 0; i < 20; i++) {
		fake_etcd_set_down(f.etcd, i % ETCD_MEMBERS, true);
		fake_etcd_set_hung(f.etcd, (i + 1) % ETCD_MEMBERS, i % 2 == 0);
		run_for(&f, NUM_S(20) + NUM_MS(i * 37));
		fake_etcd_set_down(f.etcd, i % ETCD_MEMBERS, false);
		fake_etcd_set_hung(f.etcd, (i + 1) % ETCD_MEMBERS, false);
	}
	run_for(&f, NUM_S(140));
	cr_assert_eq(report(&f).quota_bytes, NUM_MIB(64));
	/* Closed while a member is asked. */
	fake_etcd_set_hung(f.etcd, 0, true);
	fake_etcd_set_hung(f.etcd, 1, true);
	fake_etcd_set_hung(f.etcd, 2, true);
	run_for(&f, NUM_S(61));
	health_fini(&f);
}
