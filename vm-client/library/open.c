/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c -- a volume's life: attached, used, closed
 *
 *	ATTACHING --> OPEN --> DRAINING --> CLOSING --> CLOSED
 *	    |          |                      ^
 *	    |          '--> FAILED -----------'   after cleave_volume_close
 *	    '--> CLOSED                           the attach was refused
 *
 * The session's id is chosen here, once; a repeated attach (its answer was lost) names the same one. An attach
 * that is refused because of a session that is silent is sent again when that one's time may be over, and one
 * that the metadata store did not answer after a pause.
 * A session that attached is ended at a gateway when its last connection has gone; one that was lost is not
 * ours to end, and one that only reads has nothing to give back.
 * A volume's id goes with the attach where one is wanted. A gateway that does not know that word is asked without: it may
 * give another volume, which is closed again before the open fails.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

static const struct sm_state volume_table[VOLUME_STATE_NR] = {
	[VOLUME_ATTACHING] = { "attaching", SM_TO(VOLUME_OPEN) | SM_TO(VOLUME_CLOSED), SM_INITIAL },
	[VOLUME_OPEN] = { "open", SM_TO(VOLUME_DRAINING) | SM_TO(VOLUME_FAILED), 0 },
	[VOLUME_DRAINING] = { "draining", SM_TO(VOLUME_CLOSING) | SM_TO(VOLUME_FAILED), 0 },
	[VOLUME_FAILED] = { "failed", SM_TO(VOLUME_CLOSING), SM_FAILURE },
	[VOLUME_CLOSING] = { "closing", SM_TO(VOLUME_CLOSED), 0 },
	[VOLUME_CLOSED] = { "closed", 0, SM_FINAL },
};

#define OPEN_AGAIN_NS NUM_MS(500)
#define OPEN_WHAT_BYTES 80u

static void open_on_timer(struct loop_timer *timer, void *arg);

static struct cleave_volume *
volume_create(struct cleave_client *client, const char *name, unsigned flags)
{
	struct cleave_volume *volume = client_calloc(1, sizeof(*volume));

	assert(strlen(name) <= CLEAVE_NAME_BYTES_MAX);
	if (volume == NULL)
		return NULL;
	volume->magic = VOLUME_MAGIC;
	volume->client = client;
	if (debts_init(volume) != 0) {
		free(volume);
		return NULL;
	}
	volume->flags = flags;
	volume->is_detached = (flags & CLEAVE_OPEN_READ_ONLY) != 0;
	(void)snprintf(volume->info.name, sizeof(volume->info.name), "%s", name); /* it fits */
	volume->session_id = loop_random_u64(client->loop) | 1;                   /* 0 means none */
	/* Request ids begin at random, so that one in a log or in `cleave slow` is of one request alone. */
	volume->send_count = volume->session_id >> (REQUEST_INDEX_BITS + 1);
	sm_init(&volume->sm, "volume", volume_table, VOLUME_ATTACHING, client->next_volume_index++);
	list_init(&volume->ios);
	list_init(&volume->due_ios);
	list_init(&volume->split_ios);
	list_init(&volume->split_reads);
	list_init(&volume->messages);
	list_init(&volume->homeless);
	list_init(&volume->delayed);
	list_init(&volume->remapping);
	list_init(&volume->connections);
	overlap_init(&volume->overlap);
	loop_task_init(&volume->task, volume_task_on, volume);
	loop_timer_init(&volume->timer, volume_timer_on, volume);
	loop_timer_init(&volume->open_timer, open_on_timer, volume);
	stall_init(volume);
	pace_init(volume);
	list_push_back(&client->volumes, &volume->link);
	return volume;
}

void
volume_free(struct cleave_volume *volume)
{
	struct loop *loop = volume->client->loop;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(list_is_empty(&volume->connections));
	loop_timer_stop(loop, &volume->timer);
	loop_timer_stop(loop, &volume->open_timer);
	stall_fini(volume);
	pace_fini(volume);
	peeks_fini(volume);
	direct_fini(volume);
	maps_fini(volume);
	leases_fini(volume);
	loop_task_cancel(loop, &volume->task);
	list_remove(&volume->split_wait);
	list_remove(&volume->link);
	debts_fini(volume);
	volume->magic = 0;
	free(volume);
}

/* Else it is opened by its id alone, and its name is that of the answer. */
static bool
open_has_name(const struct cleave_volume *volume)
{
	return volume->info.name[0] != '\0';
}

/* "volume 'NAME'", or "volume ID", for people. */
static const char *
open_what(const struct cleave_volume *volume, char out[OPEN_WHAT_BYTES])
{
	if (open_has_name(volume))
		(void)snprintf(out, OPEN_WHAT_BYTES, "volume '%.64s'", volume->info.name);
	else
		(void)snprintf(out, OPEN_WHAT_BYTES, "volume %" PRIu64, volume->wanted_id);
	return out;
}

/* @map: room for the one that the answer names. */
static int
volume_take_attach(struct cleave_volume *volume, const char *reply, struct client_map *map,
    char ret_error[CLEAVE_ERROR_BYTES_MAX])
{
	struct cleave_volume_info info = { .is_read_only = false };
	const char *field;
	int rc = map_parse_attach(reply, &info, &volume->reads, map, &field);

	assert(volume->sm.state == VOLUME_ATTACHING);
	if (rc == 0 && open_has_name(volume) && strcmp(info.name, volume->info.name) != 0) {
		field = "name";
		rc = -EBADMSG;
	}
	if (rc == 0 && info.is_read_only) {
		volume->flags |= CLEAVE_OPEN_READ_ONLY;
		volume->is_detached = true;
	}
	info.is_read_only = (volume->flags & CLEAVE_OPEN_READ_ONLY) != 0;
	if (rc == 0) {
		volume->info = info;
		volume->cluster_id = volume->client->cluster_id;
	} else if (rc == -EBADMSG) {
		(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX,
		    "volume '%.127s': the gateway's answer cannot be understood: %.60s",
		    volume->info.name, field);
	}
	return rc;
}

/* In how long a gateway's answer lets the attach be sent again; 0: never. */
static json_int_t
open_retry_ms(int rc, const char *reply)
{
	json_t *root;
	json_int_t retry_ms;

	assert(rc <= 0);
	if (reply == NULL) /* nobody answered */
		return 0;
	if (rc == -ETIMEDOUT) /* of the store: perhaps it was done; again is no harm */
		return OPEN_AGAIN_NS / NUM_MS(1);
	if (rc != -EUSERS)
		return 0;
	root = json_loads(reply, 0, NULL);
	retry_ms = json_integer_value(json_object_get(root, "retry_ms"));
	json_decref(root);
	return retry_ms;
}

/* A silent holder has the volume, or the store is silent: the attach will be sent again. */
static bool
open_waits(struct cleave_volume *volume, int rc, const char *reply)
{
	struct loop *loop = volume->client->loop;
	json_int_t retry_ms = open_retry_ms(rc, reply);

	assert(volume->sm.state == VOLUME_ATTACHING);
	if (retry_ms <= 0 || loop_now_ns(loop) >= volume->open_until_ns)
		return false;
	/* The holder may come back and end the wait: so not all of the time at once. */
	loop_timer_start(loop, &volume->open_timer,
	    num_min((uint64_t)num_min((uint64_t)retry_ms, 1000) * NUM_MS(1), OPEN_AGAIN_NS));
	return true;
}

static void
open_finish(struct cleave_volume *volume, int rc, const char *text)
{
	cleave_open_fn fn = volume->open_fn;
	void *arg = volume->open_arg;

	assert(volume->sm.state == VOLUME_ATTACHING && rc <= 0);
	if (rc != 0) {
		sm_move(&volume->sm, VOLUME_CLOSED);
		volume_free(volume);
		fn(NULL, rc == -EUSERS ? -EBUSY : rc, text, arg);
		return;
	}
	sm_move(&volume->sm, VOLUME_OPEN);
	if (limits_are_set(&volume->info.limits))
		pace_set(volume, &volume->info.limits);
	/* Without memory for it, all is read at gateways. */
	if (volume->reads == VOLUME_READS_HOT && !volume->info.is_read_only)
		(void)peeks_want(volume, &(struct peeks_options){ 0 });
	if (volume->reads == VOLUME_READS_DIRECT && !volume->info.is_read_only)
		(void)direct_want(volume);
	volume_on_map(volume);
	fn(volume, 0, NULL, arg);
}

/* The gateway does not know that an id can be said: it will be asked without. */
static bool
open_unsays_id(struct cleave_volume *volume, int rc, const char *reply)
{
	assert(volume->sm.state == VOLUME_ATTACHING);
	if (rc != -EINVAL || reply == NULL || volume->wanted_id == 0 || volume->is_id_unsaid ||
	    !open_has_name(volume))
		return false;
	volume->is_id_unsaid = true;
	loop_timer_start(volume->client->loop, &volume->open_timer, 0);
	return true;
}

/* An open that fails once the volume that it got has been closed. */
struct open_other {
	cleave_open_fn fn;
	void *arg;
	char text[CLEAVE_ERROR_BYTES_MAX];
};

static void
open_on_other_closed(void *arg)
{
	struct open_other *other = arg;

	assert(other->fn != NULL);
	other->fn(NULL, -ENOENT, other->text, other->arg);
	free(other);
}

/* Another volume than the one that is wanted was got: whoever comes next is not kept waiting for our session. */
static void
open_give_back(struct cleave_volume *volume)
{
	struct open_other *other = client_calloc(1, sizeof(*other));

	assert(volume->info.id != volume->wanted_id);
	if (other == NULL) {
		open_finish(volume, -ENOMEM, "out of memory");
		return;
	}
	other->fn = volume->open_fn;
	other->arg = volume->open_arg;
	(void)snprintf(other->text, sizeof(other->text),
	    "volume '%.64s' is another one by now: it was deleted, or renamed, and made anew",
	    volume->info.name);
	sm_move(&volume->sm, VOLUME_OPEN);
	cleave_volume_close(volume, open_on_other_closed, other);
}

static void
volume_on_attach(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_volume *volume = arg;
	char text[CLEAVE_ERROR_BYTES_MAX] = "", what[OPEN_WHAT_BYTES];
	struct client_map *map = NULL;

	(void)call;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(call == &volume->attach);
	if (open_waits(volume, rc, reply) || open_unsays_id(volume, rc, reply))
		return;
	/* A gateway that says more about a volume than what is wrong names it. */
	if (error != NULL && strncmp(error, "volume '", strlen("volume '")) == 0)
		(void)snprintf(text, sizeof(text), "%s", error);
	else if (error != NULL)
		(void)snprintf(text, sizeof(text), "%s: %.300s", open_what(volume, what), error);
	if (rc == 0) {
		map = client_malloc(sizeof(*map));
		rc = map == NULL ? -ENOMEM : volume_take_attach(volume, reply, map, text);
	}
	if (rc == 0 && volume->wanted_id != 0 && volume->info.id != volume->wanted_id) {
		free(map);
		open_give_back(volume);
		return;
	}
	if (rc == 0)
		rc = client_set_map(volume->client, map);
	free(map);
	if (rc < 0 && text[0] == '\0')
		(void)snprintf(text, sizeof(text), "%s: %s", open_what(volume, what),
		    cleave_error_text(rc));
	open_finish(volume, rc < 0 ? rc : 0, text);
}

/* 0, or why it cannot be sent. */
static int
open_send(struct cleave_volume *volume)
{
	struct cleave_client *client = volume->client;
	const char *name = open_has_name(volume) ? volume->info.name : NULL;
	char session[17];
	json_t *request;
	char *text;
	int rc;

	assert(volume->sm.state == VOLUME_ATTACHING);
	(void)snprintf(session, sizeof(session), "%016llx", (unsigned long long)volume->session_id);
	if ((volume->flags & CLEAVE_OPEN_READ_ONLY) != 0)
		request = json_pack("{s:s, s:s*}", "op", "volume.open", "name", name);
	else
		request = json_pack("{s:s, s:s*, s:s, s:b, s:s}", "op", "volume.attach", "name",
		    name, "session", session, "take",
		    (int)((volume->flags & CLEAVE_OPEN_TAKE) != 0), "client", client->name);
	if (request != NULL && volume->wanted_id != 0 && !volume->is_id_unsaid &&
	    json_object_set_new(request, "id", json_integer((json_int_t)volume->wanted_id)) != 0) {
		json_decref(request);
		return -ENOMEM;
	}
	text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	json_decref(request);
	/* jansson refuses what is not UTF-8, and a gateway would too. */
	if (text == NULL)
		return -EINVAL;
	volume->attach = (struct cleave_call){ .fn = volume_on_attach, .arg = volume };
	rc = cleave_control(client, &volume->attach, text);
	free(text);
	return rc;
}

static void
open_on_timer(struct loop_timer *timer, void *arg)
{
	struct cleave_volume *volume = arg;
	int rc;

	(void)timer;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(timer == &volume->open_timer);
	rc = open_send(volume);
	if (rc != 0)
		open_finish(volume, rc, cleave_error_text(rc));
}

/* ---- the session's end ---- */

static void
detach_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_volume *volume = arg;

	(void)call;
	(void)rc; /* what could not be said is found out in the session's time */
	(void)reply;
	(void)error;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(call == &volume->attach && volume->is_detaching);
	volume->is_detaching = false;
	volume_wake(volume);
}

bool
volume_detach(struct cleave_volume *volume)
{
	char text[128];

	assert(list_is_empty(&volume->connections));
	if (volume->is_detached || volume->fail_rc != 0)
		return volume->is_detaching;
	volume->is_detached = true;
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.detach\",\"id\":%llu,\"session\":\"%016llx\"}",
	    (unsigned long long)volume->info.id, (unsigned long long)volume->session_id);
	volume->attach = (struct cleave_call){ .fn = detach_on_answer, .arg = volume };
	volume->is_detaching = cleave_control(volume->client, &volume->attach, text) == 0;
	if (volume->is_detaching)
		call_hasten(&volume->attach, volume->client, CLIENT_PARTING_NS);
	return volume->is_detaching;
}

/* Up to three names, @ between them; the first is not empty. What else is wrong the gateway says. */
static bool
name_is_possible(const char *name)
{
	assert(name != NULL);
	for (uint32_t i = 0; i < 3; i++) {
		size_t bytes = strcspn(name, "@");

		if ((i == 0 && bytes == 0) || bytes > CLEAVE_VOLUME_NAME_BYTES_MAX)
			return false;
		if (name[bytes] == '\0')
			return true;
		name += bytes + 1;
	}
	return false;
}

int
cleave_volume_open_as(struct cleave_client *client, const struct cleave_open_options *options,
    cleave_open_fn fn, void *arg)
{
	const unsigned both = CLEAVE_OPEN_READ_ONLY | CLEAVE_OPEN_TAKE;
	struct cleave_volume *volume;
	int rc;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(fn != NULL);
	if ((options->name == NULL ? options->id == 0 : !name_is_possible(options->name)) ||
	    (options->flags & ~both) != 0 || (options->flags & both) == both ||
	    options->id > INT64_MAX)
		return -EINVAL;
	volume = volume_create(client, options->name == NULL ? "" : options->name, options->flags);
	if (volume == NULL)
		return -ENOMEM;
	volume->wanted_id = options->id;
	volume->open_fn = fn;
	volume->open_arg = arg;
	volume->open_until_ns = loop_now_ns(client->loop) + client->options.control_timeout_ns;
	rc = open_send(volume);
	if (rc != 0)
		volume_free(volume);
	return rc;
}

int
cleave_volume_open(struct cleave_client *client, const char *name, unsigned flags,
    cleave_open_fn fn, void *arg)
{
	return cleave_volume_open_as(client,
	    &(struct cleave_open_options){ .name = name, .flags = flags }, fn, arg);
}
