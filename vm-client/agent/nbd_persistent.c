/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_persistent.c -- see nbd_persistent.h */
#include "nbd_persistent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "library/exports_file.h"

#define PERSISTENT_MAGIC 0x5350424eu /* "NBPS" */
#define PERSISTENT_PROBLEMS_MAX 16u  /* of the file, that are told */
#define PERSISTENT_AGAIN_NS_MIN NUM_S(1)
#define PERSISTENT_AGAIN_NS_MAX NUM_S(60)

struct nbd_persistent {
	uint32_t magic;
	struct nbd_server *server;
	const char *path;
	uint64_t generation; /* of the file: exports that it listed have this one */
	uint32_t problem_count;
	char problems[PERSISTENT_PROBLEMS_MAX][EXPORTS_FILE_ERROR_BYTES];
	struct loop_timer timer;
	bool is_looking;                           /* a volume is being opened */
	char looked_at[CLEAVE_NAME_BYTES_MAX + 1]; /* which */
};

/* ---- looking ---- */

static void persistent_look_next(struct nbd_persistent *persistent);

static struct nbd_export *
persistent_find(struct nbd_persistent *persistent, const char *name)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&persistent->server->exports, link, next) {
		struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (export->is_persistent && strcmp(export->name, name) == 0)
			return export;
	}
	return NULL;
}

static void
persistent_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct nbd_persistent *persistent = arg;
	struct nbd_export *export;
	uint64_t now_ns;

	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	assert(persistent->is_looking && (rc == 0) == (volume != NULL));
	persistent->is_looking = false;
	if (rc == 0)
		cleave_volume_close(volume, NULL, NULL);
	now_ns = loop_now_ns(persistent->server->options.loop);
	/* The export may have been detached meanwhile, and attached again. */
	export = persistent_find(persistent, persistent->looked_at);
	if (export != NULL && rc == 0) {
		if (nbd_export_set_problem(export, ""))
			log_info("agent: '%s' is there", export->name);
		export->look_ns = UINT64_MAX;
	} else if (export != NULL) {
		if (nbd_export_set_problem(export, error == NULL ? cleave_error_text(rc) : error))
			log_warn("agent: '%s' of %s cannot be had, and is tried again: %s",
			    export->name, persistent->path, export->problem);
		export->look_delay_ns =
		    num_min(num_max(2 * export->look_delay_ns, PERSISTENT_AGAIN_NS_MIN),
			PERSISTENT_AGAIN_NS_MAX);
		export->look_ns = now_ns + export->look_delay_ns;
	}
	persistent_look_next(persistent);
}

static void
persistent_open(struct nbd_persistent *persistent, const struct nbd_export *export)
{
	int rc;

	persistent->is_looking = true;
	(void)snprintf(persistent->looked_at, sizeof(persistent->looked_at), "%s", export->name);
	rc = cleave_volume_open(persistent->server->options.client, export->name,
	    CLEAVE_OPEN_READ_ONLY, persistent_on_open, persistent);
	if (rc != 0)
		persistent_on_open(NULL, rc, cleave_error_text(rc), persistent);
}

/* The export that has waited longest is looked at when it is due; the timer stops when none waits. */
static void
persistent_look_next(struct nbd_persistent *persistent)
{
	struct loop *loop = persistent->server->options.loop;
	const struct nbd_export *first = NULL;
	struct loop_link *link, *next;

	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	if (persistent->is_looking)
		return;
	LIST_FOREACH_SAFE(&persistent->server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (export->is_persistent && export->look_ns != UINT64_MAX &&
		    (first == NULL || export->look_ns < first->look_ns))
			first = export;
	}
	loop_timer_stop(loop, &persistent->timer);
	if (first != NULL)
		loop_timer_start(loop, &persistent->timer,
		    first->look_ns - num_min(first->look_ns, loop_now_ns(loop)));
}

static void
persistent_on_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_persistent *persistent = arg;
	struct loop_link *link, *next;
	struct nbd_export *due = NULL;
	uint64_t now_ns;

	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	assert(timer == &persistent->timer && !persistent->is_looking);
	now_ns = loop_now_ns(persistent->server->options.loop);
	LIST_FOREACH_SAFE(&persistent->server->exports, link, next) {
		struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (export->is_persistent && export->look_ns <= now_ns &&
		    (due == NULL || export->look_ns < due->look_ns))
			due = export;
	}
	if (due != NULL)
		persistent_open(persistent, due);
	else
		persistent_look_next(persistent);
}

void
nbd_persistent_look(struct nbd_persistent *persistent, struct nbd_export *export)
{
	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	assert(export->is_persistent);
	export->look_ns = loop_now_ns(persistent->server->options.loop);
	export->look_delay_ns = 0;
	persistent_look_next(persistent);
}

/* ---- the file ---- */

static void
persistent_problem(struct nbd_persistent *persistent, const char *text)
{
	if (persistent->problem_count < PERSISTENT_PROBLEMS_MAX) {
		log_error("agent: %s", text);
		(void)snprintf(persistent->problems[persistent->problem_count],
		    sizeof(persistent->problems[0]), "%s", text);
	}
	persistent->problem_count++;
}

/* An export that is there already, by --volume or from a client's attach, becomes one of the file's. */
static void
persistent_take(struct nbd_persistent *persistent, const struct exports_line *line, uint32_t number)
{
	bool is_read_only = line->is_read_only || strchr(line->name, '@') != NULL;
	struct nbd_export *export = nbd_export_by_name(persistent->server, line->name);
	char text[EXPORTS_FILE_ERROR_BYTES];

	if (export != NULL && !export->is_persistent)
		export->outlives_file = !export->is_on_demand;
	if (export == NULL)
		export = nbd_export_add(persistent->server, line->name, is_read_only);
	if (export == NULL) {
		(void)snprintf(text, sizeof(text), "%.100s:%u: %.150s: %s", persistent->path,
		    number, line->name, strerror(errno));
		persistent_problem(persistent, text);
		return;
	}
	if (export->is_read_only != is_read_only && export->user_count == 0 &&
	    export->sm.state == NBD_EXPORT_CLOSED)
		export->is_read_only = is_read_only;
	if (export->is_read_only != is_read_only) {
		(void)snprintf(text, sizeof(text),
		    "%.100s:%u: '%.130s' is %s, and in use: detach it first", persistent->path,
		    number, line->name, export->is_read_only ? "read-only" : "for writing");
		persistent_problem(persistent, text);
	}
	export->is_on_demand = false;
	export->generation = persistent->generation;
	if (export->is_persistent)
		return;
	export->is_persistent = true;
	nbd_persistent_look(persistent, export);
	log_info("agent: attached name=%s by=%s:%u", export->name, persistent->path, number);
}

static void
persistent_on_line(const struct exports_line *line, uint32_t number, const char *error, void *arg)
{
	struct nbd_persistent *persistent = arg;

	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	if (line == NULL)
		persistent_problem(persistent, error);
	else
		persistent_take(persistent, line, number);
}

/* Exports that were the file's, and are no more. */
static void
persistent_drop(struct nbd_persistent *persistent)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&persistent->server->exports, link, next) {
		struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (!export->is_persistent || export->generation == persistent->generation)
			continue;
		log_info("agent: detached name=%s users=%u: %s does not have it any more",
		    export->name, export->user_count, persistent->path);
		export->is_persistent = false;
		export->is_on_demand =
		    !export->outlives_file; /* it goes when its last client has */
		if (export->is_on_demand && export->user_count == 0 && !export->is_attaching &&
		    export->sm.state == NBD_EXPORT_CLOSED)
			nbd_export_free(export);
		else
			loop_defer(persistent->server->options.loop, &export->open_task);
	}
}

void
nbd_persistent_load(struct nbd_persistent *persistent)
{
	char error[EXPORTS_FILE_ERROR_BYTES];

	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	persistent->problem_count = 0;
	persistent->generation++;
	if (exports_file_read(persistent->path, persistent_on_line, persistent, error) != 0) {
		persistent_problem(persistent, error);
		return;
	}
	if (persistent->problem_count > PERSISTENT_PROBLEMS_MAX)
		log_error("agent: %s: %u more lines are wrong", persistent->path,
		    persistent->problem_count - PERSISTENT_PROBLEMS_MAX);
	/* A line that is wrong may be that of an export that is missing. */
	if (persistent->problem_count == 0)
		persistent_drop(persistent);
}

const char *
nbd_persistent_path(const struct nbd_persistent *persistent)
{
	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	return persistent->path;
}

json_t *
nbd_persistent_problems(const struct nbd_persistent *persistent)
{
	json_t *problems = json_array();

	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	for (uint32_t i = 0; i < num_min(persistent->problem_count, PERSISTENT_PROBLEMS_MAX); i++)
		(void)json_array_append_new(problems, json_string(persistent->problems[i]));
	return problems;
}

/* ---- life ---- */

struct nbd_persistent *
nbd_persistent_create(struct nbd_server *server, const char *path)
{
	struct nbd_persistent *persistent = client_calloc(1, sizeof(*persistent));

	assert(path != NULL);
	if (persistent == NULL)
		return NULL;
	persistent->magic = PERSISTENT_MAGIC;
	persistent->server = server;
	persistent->path = path;
	loop_timer_init(&persistent->timer, persistent_on_timer, persistent);
	return persistent;
}

void
nbd_persistent_destroy(struct nbd_persistent *persistent)
{
	if (persistent == NULL)
		return;
	CHECK_OBJ(persistent, PERSISTENT_MAGIC);
	loop_timer_stop(persistent->server->options.loop, &persistent->timer);
	persistent->magic = 0;
	free(persistent);
}
