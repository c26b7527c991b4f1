/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c -- a volume's life: attached, used, closed
 *
 *	ATTACHING --> OPEN --> DRAINING --> CLOSING --> CLOSED
 *	    |          |                      ^
 *	    |          '--> FAILED -----------'   after cleave_volume_close
 *	    '--> CLOSED                           the attach was refused
 *
 * The session's id is chosen here, once; a repeated attach (its answer was lost) names the same one.
 */
#include <errno.h>
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

static struct cleave_volume *
volume_create(struct cleave_client *client, const char *name, unsigned flags)
{
	struct cleave_volume *volume = calloc(1, sizeof(*volume));

	if (volume == NULL)
		return NULL;
	volume->magic = VOLUME_MAGIC;
	volume->client = client;
	if (debts_init(volume) != 0) {
		free(volume);
		return NULL;
	}
	volume->flags = flags;
	(void)snprintf(volume->info.name, sizeof(volume->info.name), "%s", name); /* it fits */
	volume->session_id = loop_random_u64(client->loop) | 1;                   /* 0 means none */
	sm_init(&volume->sm, "volume", volume_table, VOLUME_ATTACHING, client->next_volume_index++);
	list_init(&volume->ios);
	list_init(&volume->split_ios);
	list_init(&volume->messages);
	list_init(&volume->homeless);
	list_init(&volume->delayed);
	list_init(&volume->remapping);
	list_init(&volume->connections);
	overlap_init(&volume->overlap);
	loop_task_init(&volume->task, volume_task_on, volume);
	loop_timer_init(&volume->timer, volume_timer_on, volume);
	list_push_back(&client->volumes, &volume->link);
	return volume;
}

void
volume_free(struct cleave_volume *volume)
{
	struct loop *loop = volume->client->loop;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	loop_timer_stop(loop, &volume->timer);
	loop_task_cancel(loop, &volume->task);
	list_remove(&volume->split_wait);
	list_remove(&volume->link);
	debts_fini(volume);
	volume->magic = 0;
	free(volume);
}

/* @map: room for the one that the answer names. */
static int
volume_take_attach(struct cleave_volume *volume, const char *reply, struct client_map *map,
    char ret_error[CLEAVE_ERROR_BYTES_MAX])
{
	struct cleave_volume_info info = { .is_read_only = false };
	const char *field;
	int rc = map_parse_attach(reply, &info, map, &field);

	if (rc == 0 && strcmp(info.name, volume->info.name) != 0) {
		field = "name";
		rc = -EBADMSG;
	}
	if (rc == 0 && info.is_read_only)
		volume->flags |= CLEAVE_OPEN_READ_ONLY;
	info.is_read_only = (volume->flags & CLEAVE_OPEN_READ_ONLY) != 0;
	if (rc == 0)
		volume->info = info;
	else
		(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX,
		    "volume '%.127s': the gateway's answer makes no sense: %.60s",
		    volume->info.name, field);
	return rc;
}

static void
volume_on_attach(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_volume *volume = arg;
	struct cleave_client *client = volume->client;
	cleave_open_fn fn = volume->open_fn;
	void *fn_arg = volume->open_arg;
	char text[CLEAVE_ERROR_BYTES_MAX] = "";
	struct client_map *map = NULL;

	(void)call;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	if (error != NULL)
		(void)snprintf(text, sizeof(text), "volume '%.64s': %.160s", volume->info.name,
		    error);
	if (rc == 0) {
		map = malloc(sizeof(*map));
		rc = map == NULL ? -ENOMEM : volume_take_attach(volume, reply, map, text);
	}
	if (rc == 0)
		rc = client_set_map(client, map);
	free(map);
	if (rc < 0) {
		sm_move(&volume->sm, VOLUME_CLOSED);
		volume_free(volume);
		fn(NULL, rc, text, fn_arg);
		return;
	}
	sm_move(&volume->sm, VOLUME_OPEN);
	volume_on_map(volume);
	fn(volume, 0, NULL, fn_arg);
}

/* Up to three names, @ between them; the first is not empty. What else is wrong the gateway says. */
static bool
name_is_possible(const char *name)
{
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
cleave_volume_open(struct cleave_client *client, const char *name, unsigned flags,
    cleave_open_fn fn, void *arg)
{
	struct cleave_volume *volume;
	char session[17];
	json_t *request;
	char *text;
	int rc = -ENOMEM;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(fn != NULL);
	if (!name_is_possible(name) || (flags & ~(unsigned)CLEAVE_OPEN_READ_ONLY) != 0)
		return -EINVAL;
	volume = volume_create(client, name, flags);
	if (volume == NULL)
		return -ENOMEM;
	volume->open_fn = fn;
	volume->open_arg = arg;
	volume->attach.fn = volume_on_attach;
	volume->attach.arg = volume;
	(void)snprintf(session, sizeof(session), "%016llx", (unsigned long long)volume->session_id);
	request =
	    json_pack("{s:s, s:s, s:s}", "op", "volume.attach", "name", name, "session", session);
	text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	json_decref(request);
	/* jansson refuses what is not UTF-8, and a gateway would too. */
	if (text == NULL)
		rc = -EINVAL;
	else
		rc = cleave_control(client, &volume->attach, text);
	free(text);
	if (rc != 0)
		volume_free(volume);
	return rc;
}
