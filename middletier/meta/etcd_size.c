/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_size.c -- how large the database of an etcd is, against its quota; see etcd_size.h
 *
 *	sleeping --> asking the size --> asking the quota --> sleeping
 *	   ^               |                                     a version that tells both at once, or no answer
 *	   +---------------+
 *
 * The size is in every member's status, the quota only from version 3.6 on. Before, it is among its metrics: an
 * HTTP answer that is no JSON, so it is asked for below etcd_call.
 */
#include "meta/etcd_size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "meta/etcd_call.h"
#include "meta/etcd_client.h"
#include "meta/etcd_json.h"

#define SIZE_FIRST_NS NUM_S(1)
#define SIZE_EVERY_NS NUM_S(60)
#define SIZE_CALL_NS NUM_S(5)
#define QUOTA_DEFAULT_BYTES NUM_GIB(2) /* --quota-backend-bytes 0 */
#define QUOTA_METRIC "\netcd_server_quota_backend_bytes "
#define QUOTA_MAX 9e18 /* of a double that is cast */

enum size_state { SIZE_SLEEPING, SIZE_ASKING_SIZE, SIZE_ASKING_QUOTA, SIZE_STATE_NR };

static const struct sm_state size_table[SIZE_STATE_NR] = {
	[SIZE_SLEEPING] = { "sleeping", SM_TO(SIZE_ASKING_SIZE), SM_INITIAL },
	[SIZE_ASKING_SIZE] = { "asking-size", SM_TO(SIZE_SLEEPING) | SM_TO(SIZE_ASKING_QUOTA), 0 },
	[SIZE_ASKING_QUOTA] = { "asking-quota", SM_TO(SIZE_SLEEPING), 0 },
};

static void
size_sleep(struct etcd_size *size)
{
	struct loop *loop = size->client->loop;

	assert(size->call == NULL);
	assert(size->http_call == NULL);
	sm_move(&size->sm, SIZE_SLEEPING);
	loop_timer_start(loop, &size->timer,
	    SIZE_EVERY_NS + loop_random_below(loop, SIZE_EVERY_NS / 10));
}

static void
size_judge(struct etcd_size *size)
{
	bool is_half = size->database_bytes >= size->quota_bytes / 2;

	assert(size->database_bytes > 0);
	assert(size->quota_bytes > 0);
	if (is_half && !size->is_told)
		log_warn("meta: the etcd's database has %" PRIu64 " of the %" PRIu64
			 " bytes of its quota: when that is used up it takes no writes, and every "
			 "gateway stops: make room by `etcdctl compact` and `etcdctl defrag`, or "
			 "give it a larger --quota-backend-bytes",
		    size->database_bytes, size->quota_bytes);
	size->is_told = is_half;
	size_sleep(size);
}

/* The quota that @text, as Prometheus reads it, tells; 0: none. */
static uint64_t
quota_read(const char *text, size_t bytes)
{
	const char *at = memmem(text, bytes, QUOTA_METRIC, strlen(QUOTA_METRIC));
	char number[32] = "";
	double quota;

	assert(bytes > 0);
	if (at == NULL)
		return 0;
	at += strlen(QUOTA_METRIC);
	memcpy(number, at, num_min(sizeof(number) - 1, (size_t)(text + bytes - at)));
	quota = strtod(number, NULL);
	return quota >= 1 && quota < QUOTA_MAX ? (uint64_t)quota : 0;
}

static void
size_on_metrics(const struct etcd_http_answer *http, void *arg)
{
	struct etcd_size *size = arg;
	uint64_t quota_bytes = 0;

	assert(size->sm.state == SIZE_ASKING_QUOTA);
	size->http_call = NULL;
	if (http->rc == 0 && http->status == 200 && http->body_bytes > 0)
		quota_bytes = quota_read(http->body, http->body_bytes);
	/* A quota told before is better than none. */
	if (quota_bytes != 0)
		size->quota_bytes = quota_bytes;
	size_judge(size);
}

static void
size_ask_quota(struct etcd_size *size)
{
	struct etcd_client *client = size->client;

	assert(size->http_call == NULL);
	sm_move(&size->sm, SIZE_ASKING_QUOTA);
	/* A POST is answered like a GET. */
	size->http_call = client->http->ops->post(client->http,
	    &(struct etcd_http_request){ .endpoint = client->current[ETCD_LINE_REQUEST],
		.line = ETCD_LINE_REQUEST,
		.path = "/metrics",
		.body = "{}",
		.body_bytes = 2,
		.timeout_ns = SIZE_CALL_NS },
	    size_on_metrics, size);
	if (size->http_call == NULL)
		size_sleep(size);
}

static void
size_on_status(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_size *size = arg;

	assert(size->sm.state == SIZE_ASKING_SIZE);
	size->call = NULL;
	if (rc != 0 || answer->database_bytes == 0) {
		size_sleep(size);
		return;
	}
	size->database_bytes = answer->database_bytes;
	if (answer->quota_bytes == 0) {
		size_ask_quota(size);
		return;
	}
	size->quota_bytes = answer->quota_bytes;
	size_judge(size);
}

static void
size_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_size *size = arg;
	struct etcd_text body = { 0 };

	assert(size->sm.state == SIZE_SLEEPING);
	(void)timer;
	assert(size->call == NULL);
	etcd_text_add(&body, "{}");
	sm_move(&size->sm, SIZE_ASKING_SIZE);
	size->call = etcd_call_start(size->client,
	    &(struct etcd_call_options){ .line = ETCD_LINE_REQUEST,
		.path = "/v3/maintenance/status",
		.body = &body,
		.may_repeat = true,
		.budget_ns = SIZE_CALL_NS,
		.fn = size_on_status,
		.arg = size });
	if (size->call == NULL)
		size_sleep(size);
}

void
etcd_size_init(struct etcd_size *size, struct etcd_client *client, bool is_on)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	*size = (struct etcd_size){ .client = client, .quota_bytes = QUOTA_DEFAULT_BYTES };
	sm_init(&size->sm, "etcd-size", size_table, SIZE_SLEEPING, 0);
	loop_timer_init(&size->timer, size_on_timer, size);
	if (is_on)
		loop_timer_start(client->loop, &size->timer, SIZE_FIRST_NS);
}

void
etcd_size_fini(struct etcd_size *size)
{
	struct etcd_http *http = size->client->http;

	CHECK_OBJ(size->client, ETCD_CLIENT_MAGIC);
	etcd_call_cancel(size->call);
	size->call = NULL;
	if (size->http_call != NULL)
		http->ops->cancel(http, size->http_call);
	size->http_call = NULL;
	loop_timer_stop(size->client->loop, &size->timer);
}
