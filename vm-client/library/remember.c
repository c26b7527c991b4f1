/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remember.c -- where a cluster's gateways were last, for when none of those configured is there any more
 *
 *	$XDG_STATE_HOME/cleave/<cluster's id>.gateways     [$HOME/.local/state]
 *	{"format":1,"asked":["tcp://gw1.example:7100"],"ports":["tcp://10.0.0.4:7100", ...]}
 *
 * "asked" is what the session was configured with, "ports" what its last map named. A client reads the newest
 * file in which any of its own gateways stands: so it never turns to a cluster that nobody told it of. It
 * tries what it finds there last, and lets go of a gateway that says it is of another cluster.
 *
 * Nothing here is an error to anybody: who has no such directory starts as if it had forgotten. A file that
 * others may have written is not read. Writing is an errand, as a home directory may be far away; it replaces the
 * file as a whole.
 */
#include "remember.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/errand.h"
#include "base/reader.h"
#include "internal.h"

#define REMEMBER_SUFFIX ".gateways"
#define REMEMBER_FORMAT 1u
#define REMEMBER_FILES_MAX 64u /* that are looked at */
#define REMEMBER_BYTES_MAX (CLIENT_PORTS_MAX * 2u * SPLIT_ADDRESS_BYTES_MAX)
#define REMEMBER_ID_BYTES 16u

/* The words of one file. */
struct remembered {
	uint64_t cluster_id;
	struct timespec written;
	char asked[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	char ports[CLIENT_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	uint32_t asked_count, port_count;
};

/* A file that is being written. */
struct remember_write {
	struct errand errand;
	struct cleave_client *client; /* untouched but in done */
	char folder[PATH_MAX], path[PATH_MAX];
	char *text;
};

/* $XDG_STATE_HOME/cleave, made so far as it has to be when somebody writes. False: there is none. */
static bool
remember_folder(char ret_folder[PATH_MAX])
{
	const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
	int bytes = -1;

	/* The standard wants paths that are not absolute to be ignored. */
	if (state != NULL && state[0] == '/')
		bytes = snprintf(ret_folder, PATH_MAX, "%s/cleave", state);
	else if (home != NULL && home[0] == '/')
		bytes = snprintf(ret_folder, PATH_MAX, "%s/.local/state/cleave", home);
	return bytes > 0 && bytes < PATH_MAX - 64;
}

/* ---- reading ---- */

static uint32_t
read_list(struct reader *reader, const json_t *root, const char *name, size_t max,
    char (*ret_list)[SPLIT_ADDRESS_BYTES_MAX])
{
	const json_t *list = reader_array(reader, root, name, 1, max);
	size_t count = list == NULL ? 0 : json_array_size(list);

	assert(max > 0 && ret_list != NULL);
	for (size_t i = 0; i < count; i++)
		reader_copy(reader, json_array_get(list, i), name, ret_list[i],
		    SPLIT_ADDRESS_BYTES_MAX);
	return (uint32_t)count;
}

static int
remember_parse(const char *text, size_t bytes, struct remembered *ret)
{
	struct reader reader = { 0 };
	json_t *root = reader_load(&reader, text, bytes);

	assert(ret->asked_count == 0 && ret->port_count == 0);
	if (root != NULL) {
		(void)reader_range(&reader, root, "format", REMEMBER_FORMAT, REMEMBER_FORMAT);
		ret->asked_count =
		    read_list(&reader, root, "asked", CLEAVE_GATEWAYS_MAX, ret->asked);
		ret->port_count = read_list(&reader, root, "ports", CLIENT_PORTS_MAX, ret->ports);
	}
	json_decref(root);
	return reader_rc(&reader);
}

/* A file of ours, that nobody else may write, of @folder. 0, or it is none. */
static int
remember_read(int folder, const char *name, struct remembered *ret)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[REMEMBER_BYTES_MAX];
	struct stat status;
	ssize_t bytes;

	assert(folder >= 0 && ret->cluster_id != 0);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		(void)close(fd); /* nothing was written */
		return -EPERM;
	}
	bytes = read(fd, text, sizeof(text));
	(void)close(fd); /* nothing was written */
	if (bytes <= 0 || (size_t)bytes == sizeof(text))
		return -EBADMSG;
	ret->written = status.st_mtim;
	return remember_parse(text, (size_t)bytes, ret);
}

/* "<16 hex digits>.gateways" */
static bool
name_to_cluster(const char *name, uint64_t *ret_cluster_id)
{
	char id[REMEMBER_ID_BYTES + 1];

	if (strlen(name) != REMEMBER_ID_BYTES + strlen(REMEMBER_SUFFIX) ||
	    strcmp(name + REMEMBER_ID_BYTES, REMEMBER_SUFFIX) != 0 ||
	    strspn(name, "0123456789abcdef") != REMEMBER_ID_BYTES)
		return false;
	memcpy(id, name, REMEMBER_ID_BYTES);
	id[REMEMBER_ID_BYTES] = '\0';
	*ret_cluster_id = strtoull(id, NULL, 16); /* nothing but digits */
	return *ret_cluster_id != 0;
}

static bool
is_configured(const struct cleave_client *client, const char *address)
{
	assert(client->options.gateway_count > 0 &&
	    client->options.gateway_count <= CLEAVE_GATEWAYS_MAX);
	for (uint32_t i = 0; i < client->options.gateway_count; i++) {
		if (strcmp(client->gateways[i], address) == 0)
			return true;
	}
	return false;
}

static bool
remembered_is_ours(const struct cleave_client *client, const struct remembered *file)
{
	assert(file->asked_count <= CLEAVE_GATEWAYS_MAX && file->port_count <= CLIENT_PORTS_MAX);
	for (uint32_t i = 0; i < file->asked_count; i++) {
		if (is_configured(client, file->asked[i]))
			return true;
	}
	for (uint32_t i = 0; i < file->port_count; i++) {
		if (is_configured(client, file->ports[i]))
			return true;
	}
	return false;
}

static bool
is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* How many of @file's ports before @index are of its host. */
static uint32_t
port_rank(const struct remembered *file, uint32_t index)
{
	const char *colon = strrchr(file->ports[index], ':');
	size_t bytes = colon == NULL ? 0 : (size_t)(colon - file->ports[index]) + 1;
	uint32_t rank = 0;

	assert(index < file->port_count && file->port_count <= CLIENT_PORTS_MAX);
	for (uint32_t i = 0; i < index; i++)
		rank += strncmp(file->ports[i], file->ports[index], bytes) == 0;
	return rank;
}

/* A few of each host, before more of any: it is hosts that are gone. */
static void
remembered_take(struct cleave_client *client, const struct remembered *file)
{
	struct remember *remember = &client->remember;

	assert(client->map == NULL && remember->port_count == 0);
	remember->cluster_id = file->cluster_id;
	for (uint32_t rank = 0; rank < file->port_count; rank++) {
		for (uint32_t i = 0; i < file->port_count; i++) {
			if (remember->port_count == REMEMBER_PORTS_MAX)
				return;
			if (port_rank(file, i) == rank && !is_configured(client, file->ports[i]))
				memcpy(remember->ports[remember->port_count++], file->ports[i],
				    SPLIT_ADDRESS_BYTES_MAX);
		}
	}
}

void
remember_init(struct cleave_client *client)
{
	struct remembered *files; /* the one that is read, and the newest of ours */
	char folder[PATH_MAX];
	struct dirent *entry;
	uint32_t count = 0;
	DIR *dir;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(client->map == NULL && client->remember.desk == NULL);
	client->remember.is_on = client->options.sim_host == NULL &&
	    !client->options.forgets_gateways;
	if (!client->remember.is_on || !remember_folder(folder) || (dir = opendir(folder)) == NULL)
		return;
	files = client_calloc(2, sizeof(*files));
	while (files != NULL && count < REMEMBER_FILES_MAX && (entry = readdir(dir)) != NULL) {
		memset(&files[0], 0, sizeof(files[0]));
		if (!name_to_cluster(entry->d_name, &files[0].cluster_id))
			continue;
		count++;
		if (remember_read(dirfd(dir), entry->d_name, &files[0]) == 0 &&
		    remembered_is_ours(client, &files[0]) &&
		    is_newer(&files[0].written, &files[1].written))
			files[1] = files[0];
	}
	(void)closedir(dir); /* nothing was written */
	if (files != NULL)
		remembered_take(client, &files[1]);
	free(files);
}

void
remember_fini(struct cleave_client *client)
{
	struct remember *remember = &client->remember;

	assert(client->is_destroying);
	if (remember->desk != NULL) {
		errand_desk_fini(remember->desk);
		free(remember->desk);
	}
	free(remember->text);
	*remember = (struct remember){ .is_on = false };
}

/* ---- writing: on a thread ---- */

/* Each folder on the way there, as far as it is missing. */
static void
make_folders(const char *folder)
{
	char path[PATH_MAX];

	assert(folder[0] == '/');
	(void)snprintf(path, sizeof(path), "%s", folder); /* it fits */
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0700); /* or what follows fails */
		*slash = '/';
	}
	(void)mkdir(path, 0700);
}

static void
write_work(struct errand *errand)
{
	struct remember_write *self = NUM_CONTAINER_OF(errand, struct remember_write, errand);
	size_t bytes = strlen(self->text);
	char path[PATH_MAX];
	bool is_whole;
	int fd;

	assert(self->text != NULL && self->path[0] == '/');
	make_folders(self->folder);
	(void)snprintf(path, sizeof(path), "%.4000s/.gateways.XXXXXX", self->folder);
	fd = mkostemp(path, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return;
	is_whole = write(fd, self->text, bytes) == (ssize_t)bytes && fsync(fd) == 0;
	is_whole = close(fd) == 0 && is_whole;
	if (!is_whole || rename(path, self->path) != 0)
		(void)unlink(path); /* nobody looks for it */
}

static void
write_drop(struct errand *errand)
{
	struct remember_write *self = NUM_CONTAINER_OF(errand, struct remember_write, errand);

	free(self->text);
	free(self);
}

static void remember_write(struct cleave_client *client);

static void
write_done(struct errand *errand)
{
	struct remember_write *self = NUM_CONTAINER_OF(errand, struct remember_write, errand);
	struct cleave_client *client = self->client;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(client->remember.is_writing);
	client->remember.is_writing = false;
	write_drop(errand);
	if (client->remember.is_stale)
		remember_write(client);
}

static struct errand_desk *
remember_desk(struct cleave_client *client)
{
	struct remember *remember = &client->remember;

	assert(client->remember.is_on);
	if (remember->desk != NULL)
		return remember->desk;
	remember->desk = client_calloc(1, sizeof(*remember->desk));
	if (remember->desk != NULL && errand_desk_init(remember->desk, client->loop) != 0) {
		free(remember->desk);
		remember->desk = NULL;
	}
	return remember->desk;
}

/* remember->text, to the file of the cluster. Where that cannot be begun the next map tries again. */
static void
remember_write(struct cleave_client *client)
{
	struct remember *remember = &client->remember;
	struct remember_write *self = client_calloc(1, sizeof(*self));
	struct errand_desk *desk = remember_desk(client);

	assert(remember->is_on && remember->cluster_id != 0);
	assert(!remember->is_writing && remember->text != NULL);
	remember->is_stale = false;
	if (self == NULL || desk == NULL || !remember_folder(self->folder)) {
		free(self);
		return;
	}
	(void)snprintf(self->path, sizeof(self->path), "%.4000s/%016llx" REMEMBER_SUFFIX,
	    self->folder, (unsigned long long)remember->cluster_id);
	self->client = client;
	self->text = client_strdup(remember->text);
	self->errand =
	    (struct errand){ .work = write_work, .done = write_done, .drop = write_drop };
	if (self->text != NULL && errand_start(desk, &self->errand) == 0)
		remember->is_writing = true;
	else
		write_drop(&self->errand);
}

/* ---- a map has come ---- */

static int
compare_addresses(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Sorted, so that gateways which name the same ports in another order change nothing. NULL: no memory. */
static char *
remember_text(const struct cleave_client *client)
{
	const struct client_map *map = client->map;
	char ports[CLIENT_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	json_t *asked = json_array(), *named = json_array(), *root;
	char *text;

	assert(map->port_count > 0 && map->port_count <= CLIENT_PORTS_MAX);
	assert(client->options.gateway_count <= CLEAVE_GATEWAYS_MAX);
	memcpy(ports, map->ports, sizeof(ports));
	qsort(ports, map->port_count, sizeof(ports[0]), compare_addresses);
	for (uint32_t i = 0; i < client->options.gateway_count; i++)
		json_array_append_new(asked, json_string(client->gateways[i]));
	for (uint32_t i = 0; i < map->port_count; i++)
		json_array_append_new(named, json_string(ports[i]));
	root = json_pack("{s:i, s:o, s:o}", "format", (int)REMEMBER_FORMAT, "asked", asked, "ports",
	    named);
	text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

void
remember_on_map(struct cleave_client *client, uint64_t cluster_id)
{
	struct remember *remember = &client->remember;
	char *text;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(remember->is_on || (remember->text == NULL && !remember->is_writing));
	assert(client->map != NULL);
	remember->port_count = 0; /* the map knows better */
	if (!remember->is_on || cluster_id == 0)
		return;
	text = remember_text(client);
	if (text == NULL ||
	    (cluster_id == remember->cluster_id && remember->text != NULL &&
		strcmp(text, remember->text) == 0)) {
		free(text);
		return;
	}
	free(remember->text);
	remember->text = text;
	remember->cluster_id = cluster_id;
	if (remember->is_writing)
		remember->is_stale = true;
	else
		remember_write(client);
}
