/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stall.c -- a volume whose requests nobody answers: said once, with the reason, and once when it is over
 *
 *	QUIET --messages--> WATCHING --the oldest message is STALL_NS old--> ASKING --answer, or a tick--> TOLD
 *	  ^                  |    ^                                           |                             |
 *	  +--- no messages --+    +-------- the oldest message is younger again: "over", if it was told ----+
 *
 * A message is 64 KiB or one chunk, so a long request that makes progress is no stall. A timer looks once
 * in STALL_NS while there are messages; when there are none it stops (I12).
 *
 * The reason has two halves: what this side sees of the oldest message (no connection, no answer, which
 * error), and what the gateway that answers control requests says of its shards ("waits"). When that does
 * not come before the next look, the first half is told alone. One volume of a client asks at a time; the
 * others tell what they see.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

#define STALL_NS NUM_S(1)

static const struct sm_state stall_table[STALL_STATE_NR] = {
	[STALL_QUIET] = { "quiet", SM_TO(STALL_WATCHING), SM_INITIAL | SM_FINAL },
	[STALL_WATCHING] = { "watching", SM_TO(STALL_QUIET) | SM_TO(STALL_ASKING), 0 },
	[STALL_ASKING] = { "asking", SM_TO(STALL_QUIET) | SM_TO(STALL_WATCHING) | SM_TO(STALL_TOLD),
	    0 },
	[STALL_TOLD] = { "told", SM_TO(STALL_QUIET) | SM_TO(STALL_WATCHING), 0 },
};

static void stall_on_timer(struct loop_timer *timer, void *arg);

void
stall_init(struct cleave_volume *volume)
{
	struct stall *stall = &volume->stall;

	assert(volume->client != NULL && !stall->timer.is_active);
	sm_init(&stall->sm, "stall", stall_table, STALL_QUIET, volume->client->next_volume_index);
	loop_timer_init(&stall->timer, stall_on_timer, volume);
}

void
stall_fini(struct cleave_volume *volume)
{
	struct cleave_client *client = volume->client;

	loop_timer_stop(client->loop, &volume->stall.timer);
	if (client->stalled == volume)
		client->stalled = NULL; /* the answer is nobody's any more */
}

void
stall_watch(struct cleave_volume *volume)
{
	struct stall *stall = &volume->stall;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(!list_is_empty(&volume->messages));
	if (volume->client->options.on_stall == NULL || stall->sm.state != STALL_QUIET)
		return;
	sm_move(&stall->sm, STALL_WATCHING);
	loop_timer_start(volume->client->loop, &stall->timer, STALL_NS);
}

/* ---- what is told ---- */

static void
stall_tell(struct cleave_volume *volume, uint64_t waited_ns, bool is_over, const char *reason)
{
	struct cleave_client *client = volume->client;
	const struct cleave_stall told = {
		.volume = volume->info.name,
		.waited_ns = waited_ns,
		.request_count = volume->io_count,
		.is_over = is_over,
		.reason = reason,
	};

	assert(is_over || reason[0] != '\0');
	assert(client->options.on_stall != NULL);
	client->options.on_stall(&told, client->options.stall_arg);
}

/* The part of the text that this side knows about @message. */
static void
stall_see(const struct message *message, char *ret_text, size_t text_bytes)
{
	const struct connection *connection = message->connection;
	const char *address = connection == NULL ? "" : connection->address;

	assert(connection == NULL || connection->volume == message->volume);
	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(message->sm.state != MESSAGE_FREE && text_bytes > 0);
	if (message->is_write && message->sm.state == MESSAGE_QUEUED && message_is_held(message))
		(void)snprintf(ret_text, text_bytes,
		    "a write that was given up may still take effect elsewhere");
	else if (message->sm.state == MESSAGE_SENT || message->sm.state == MESSAGE_ANSWERED)
		(void)snprintf(ret_text, text_bytes, "%s has not answered", address);
	else if (message->sm.state == MESSAGE_QUEUED && connection == NULL)
		(void)snprintf(ret_text, text_bytes, "no gateway is known to serve shard %u",
		    message->shard);
	else if (message->sm.state == MESSAGE_QUEUED && connection->sm.state != CONNECTION_UP)
		(void)snprintf(ret_text, text_bytes, "there is no connection to %s", address);
	else if (message->sm.state == MESSAGE_QUEUED)
		(void)snprintf(ret_text, text_bytes, "%s takes no more for now", address);
	else if (message->sm.state == MESSAGE_DIRECT)
		(void)snprintf(ret_text, text_bytes, "a storage node has not answered");
	else if (message->is_paced)
		(void)snprintf(ret_text, text_bytes, "it waits for the volume's limits");
	else if (message->rc != 0)
		(void)snprintf(ret_text, text_bytes, "shard %u: %s", message->shard,
		    cleave_error_text(message->rc));
	else
		(void)snprintf(ret_text, text_bytes, "it waits for another request");
}

/* The oldest message; NULL: there is none. */
static const struct message *
stall_oldest(const struct cleave_volume *volume)
{
	const struct loop_link *link = list_first((struct loop_link *)&volume->messages);

	return link == NULL ? NULL : LIST_ENTRY(link, const struct message, all_link);
}

/* Why a gateway does not believe our key, or we not its; "": none is refused. Whatever else is seen follows from it. */
static const char *
stall_refused(const struct cleave_volume *volume)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE((struct loop_link *)(uintptr_t)&volume->connections, link, next) {
		const struct connection *connection =
		    LIST_ENTRY(link, const struct connection, link);

		if (connection->refused[0] != '\0')
			return connection->refused;
	}
	return "";
}

static void
stall_report(struct cleave_volume *volume, const char *gateway_says)
{
	const struct message *oldest = stall_oldest(volume);
	const char *refused = stall_refused(volume);
	char seen[CLEAVE_ERROR_BYTES_MAX], text[2 * CLEAVE_ERROR_BYTES_MAX];

	assert(oldest != NULL);
	sm_move(&volume->stall.sm, STALL_TOLD);
	stall_see(oldest, seen, sizeof(seen));
	(void)snprintf(text, sizeof(text), "%s%s%s%s%s", refused, refused[0] == '\0' ? "" : "; ",
	    seen, gateway_says[0] == '\0' ? "" : "; ", gateway_says);
	stall_tell(volume, loop_now_ns(volume->client->loop) - volume->stall.since_ns, false, text);
}

/* ---- the gateway's half ---- */

static const char *
stall_wait_text(const json_t *waits, size_t index)
{
	return json_string_value(json_object_get(json_array_get(waits, index), "text"));
}

/* How many of @waits say @text between the indexes @from and @to. */
static size_t
stall_count_waits(const json_t *waits, const char *text, size_t from, size_t to)
{
	size_t count = 0;

	assert(from <= to);
	for (size_t i = from; i < to; i++) {
		const char *other = stall_wait_text(waits, i);

		count += other != NULL && strcmp(other, text) == 0;
	}
	return count;
}

/* The texts of {"waits":[{"shard":N,"text":T}, ...]}, each once, as many as fit. */
static void
stall_read_waits(const char *reply, char *ret_text, size_t text_bytes)
{
	json_t *object = json_loads(reply, JSON_REJECT_DUPLICATES, NULL), *item;
	const json_t *waits = json_object_get(object, "waits");
	size_t index, used = 0;

	assert(text_bytes > 0);
	ret_text[0] = '\0';
	json_array_foreach(waits, index, item)
	{
		const char *text = stall_wait_text(waits, index);
		const json_t *shard = json_object_get(item, "shard");
		char more[48] = "";
		size_t count;

		if (text == NULL || !json_is_integer(shard) || used >= text_bytes ||
		    stall_count_waits(waits, text, 0, index) > 0)
			continue;
		count = stall_count_waits(waits, text, index + 1, json_array_size(waits));
		if (count > 0)
			(void)snprintf(more, sizeof(more), " (and %zu more shards)", count);
		used += (size_t)snprintf(ret_text + used, text_bytes - used, "%sshard %lld %s%s",
		    used == 0 ? "the gateway says: " : "; ", (long long)json_integer_value(shard),
		    text, more);
	}
	json_decref(object);
}

static void
stall_on_waits(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_client *client = arg;
	struct cleave_volume *volume = client->stalled;
	char says[CLEAVE_ERROR_BYTES_MAX] = "";

	(void)call;
	(void)error; /* what was seen here says it */
	assert(call == &client->stall_call && client->is_stall_call_out);
	client->is_stall_call_out = false;
	client->stalled = NULL;
	if (volume == NULL || volume->stall.sm.state != STALL_ASKING ||
	    stall_oldest(volume) == NULL)
		return;
	if (rc == 0)
		stall_read_waits(reply, says, sizeof(says));
	stall_report(volume, says);
}

static void
stall_ask(struct cleave_volume *volume)
{
	struct cleave_client *client = volume->client;

	assert(client->is_stall_call_out || client->stalled == NULL);
	assert(volume->stall.sm.state == STALL_WATCHING);
	sm_move(&volume->stall.sm, STALL_ASKING);
	volume->stall.was_answered = false;
	if (client->is_stall_call_out)
		return;
	client->stall_call = (struct cleave_call){ .fn = stall_on_waits, .arg = client };
	client->is_stall_call_out =
	    cleave_control(client, &client->stall_call, "{\"op\":\"waits\"}") == 0;
	client->stalled = client->is_stall_call_out ? volume : NULL;
}

/* ---- looking ---- */

/* How the oldest message is, and so the volume: in trouble for as long as that is old. */
static void
stall_look(struct cleave_volume *volume, uint64_t now_ns)
{
	struct stall *stall = &volume->stall;
	const struct message *oldest = stall_oldest(volume);
	bool is_stalled = oldest != NULL && now_ns - oldest->begun_ns >= STALL_NS;
	bool was_told = stall->sm.state == STALL_TOLD;

	assert(oldest == NULL || oldest->begun_ns <= now_ns);
	assert(stall->sm.state != STALL_QUIET);
	if (is_stalled && stall->sm.state == STALL_WATCHING) {
		stall->since_ns = oldest->begun_ns;
		stall_ask(volume);
	} else if (is_stalled && stall->sm.state == STALL_ASKING) {
		stall_report(volume, "");
	} else if (!is_stalled && stall->sm.state != STALL_WATCHING) {
		sm_move(&stall->sm, STALL_WATCHING);
		if (was_told)
			stall_tell(volume, now_ns - stall->since_ns, true,
			    stall->was_answered
				? ""
				: "its requests were given up, nobody has answered");
	}
	if (oldest == NULL && stall->sm.state == STALL_WATCHING)
		sm_move(&stall->sm, STALL_QUIET);
}

static void
stall_on_timer(struct loop_timer *timer, void *arg)
{
	struct cleave_volume *volume = arg;
	struct loop *loop = volume->client->loop;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(timer == &volume->stall.timer && volume->stall.sm.state != STALL_QUIET);
	stall_look(volume, loop_now_ns(loop));
	if (volume->stall.sm.state != STALL_QUIET)
		loop_timer_start(loop, timer, STALL_NS);
}
