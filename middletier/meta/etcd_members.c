/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_members.c -- see etcd_members.h */
#include "meta/etcd_members.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "meta/etcd_client.h"
#include "meta/etcd_json.h"

#define MEMBERS_EVERY_NS NUM_S(1)
#define MEMBERS_CALL_NS NUM_S(1)

/* Why @http is no good answer, into @why; false: it is one. A refusal (who are you?) is an answer, too. */
static bool
is_bad(const struct etcd_client *client, const struct etcd_http_answer *http,
    char why[ETCD_MEMBER_WHY_BYTES])
{
	struct etcd_answer answer;
	bool is_answer;

	(void)snprintf(why, ETCD_MEMBER_WHY_BYTES, "%s",
	    http->rc == 0 ? "this is no etcd" : http->error);
	if (http->rc != 0 || http->body_bytes == 0 ||
	    etcd_answer_decode(http->body, http->body_bytes, &answer) != 0)
		return true;
	is_answer = answer.is_error
	    ? answer.code != ETCD_CODE_UNAVAILABLE
	    : client->cluster_id == 0 || answer.cluster_id == client->cluster_id;
	if (!is_answer)
		(void)snprintf(why, ETCD_MEMBER_WHY_BYTES, "%s",
		    answer.is_error ? answer.message : "it is of another etcd");
	else if (!answer.is_error && !answer.has_leader)
		(void)snprintf(why, ETCD_MEMBER_WHY_BYTES, "no leader");
	is_answer = is_answer && (answer.is_error || answer.has_leader);
	etcd_answer_fini(&answer);
	return !is_answer;
}

static void
member_on_answer(const struct etcd_http_answer *http, void *arg)
{
	struct etcd_member *member = arg;
	char why[ETCD_MEMBER_WHY_BYTES];

	assert(member->http_call != NULL);
	member->http_call = NULL;
	if (!is_bad(member->members->client, http, why)) {
		member->bad_ns = 0;
		return;
	}
	if (member->bad_ns == 0)
		member->bad_ns = num_max(member->asked_ns, 1);
	memcpy(member->why, why, sizeof(why));
}

static void
member_ask(struct etcd_member *member, uint32_t endpoint)
{
	struct etcd_client *client = member->members->client;

	if (member->http_call != NULL)
		return; /* it has until its time is over */
	member->asked_ns = loop_now_ns(client->loop);
	/* Without memory it is asked the next time. */
	member->http_call = client->http->ops->post(client->http,
	    &(struct etcd_http_request){ .endpoint = endpoint,
		.line = ETCD_LINE_REQUEST,
		.path = "/v3/maintenance/status",
		.body = "{}",
		.body_bytes = 2,
		.token = client->token,
		.timeout_ns = MEMBERS_CALL_NS },
	    member_on_answer, member);
}

static void
members_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_members *members = arg;
	struct etcd_client *client = members->client;

	assert(timer == &members->timer);
	(void)timer;
	for (uint32_t i = 0; i < client->endpoint_count; i++)
		member_ask(&members->each[i], i);
	loop_timer_start(client->loop, &members->timer, MEMBERS_EVERY_NS);
}

uint32_t
etcd_members_bad(const struct etcd_members *members, uint64_t *ret_ns, char *ret_text, size_t bytes)
{
	const struct etcd_client *client = members->client;
	uint64_t now_ns = loop_now_ns(client->loop);
	uint32_t count = 0;
	size_t used = 0;

	assert(bytes > 0);
	*ret_ns = 0;
	ret_text[0] = '\0';
	for (uint32_t i = 0; i < client->endpoint_count; i++) {
		const struct etcd_member *member = &members->each[i];

		if (member->bad_ns == 0 || now_ns < member->bad_ns + ETCD_MEMBER_BAD_NS)
			continue;
		*ret_ns = num_max(*ret_ns, now_ns - member->bad_ns);
		if (used < bytes)
			used += (size_t)snprintf(ret_text + used, bytes - used, "%s%s (%s)",
			    count == 0 ? "" : ", ", etcd_client_endpoint_name(client, i),
			    member->why);
		count++;
	}
	return count;
}

void
etcd_members_init(struct etcd_members *members, struct etcd_client *client, bool is_on)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	*members = (struct etcd_members){ .client = client };
	for (uint32_t i = 0; i < ETCD_ENDPOINTS_MAX; i++)
		members->each[i].members = members;
	loop_timer_init(&members->timer, members_on_timer, members);
	if (is_on)
		loop_timer_start(client->loop, &members->timer, MEMBERS_EVERY_NS);
}

void
etcd_members_fini(struct etcd_members *members)
{
	struct etcd_http *http = members->client->http;

	loop_timer_stop(members->client->loop, &members->timer);
	for (uint32_t i = 0; i < ETCD_ENDPOINTS_MAX; i++) {
		if (members->each[i].http_call != NULL)
			http->ops->cancel(http, members->each[i].http_call);
		members->each[i].http_call = NULL;
	}
}
