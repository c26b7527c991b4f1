/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- see keys.h */
#include "keys.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "cleave/secure.h"
#include "splitlib/secure/key.h"
#include "support/key_maker.h"

#define KEYS_MAX 48u

struct sim_key {
	char subject[SPLIT_SUBJECT_TEXT_BYTES_MAX];
	bool is_alien;
	struct split_key *key;
	int fd; /* of its file; -1: nobody has asked for one */
	char path[32];
	char text[KEY_MAKER_TEXT_BYTES];
};

struct sim_keys {
	struct key_authority ours, alien;
	struct sim_key keys[KEYS_MAX];
	uint32_t count;
};

struct sim_keys *
sim_keys_create(void)
{
	struct sim_keys *keys = calloc(1, sizeof(*keys));

	assert(keys != NULL);
	key_authority_make(&keys->ours, 0, 0);
	key_authority_make(&keys->alien, 0, 0);
	return keys;
}

void
sim_keys_destroy(struct sim_keys *keys)
{
	if (keys == NULL)
		return;
	for (uint32_t i = 0; i < keys->count; i++) {
		split_key_free(keys->keys[i].key);
		if (keys->keys[i].fd >= 0)
			(void)close(keys->keys[i].fd); /* it has been read */
	}
	key_authority_fini(&keys->ours);
	key_authority_fini(&keys->alien);
	free(keys);
}

static struct sim_key *
keys_get(struct sim_keys *keys, const char *subject, bool is_alien)
{
	char uri[128], why[SPLIT_KEY_WHY_BYTES_MAX];
	const struct key_wish wish = { .uri = uri };
	const struct key_authority *authority = is_alien ? &keys->alien : &keys->ours;
	struct sim_key *key;

	for (uint32_t i = 0; i < keys->count; i++)
		if (keys->keys[i].is_alien == is_alien &&
		    strcmp(keys->keys[i].subject, subject) == 0)
			return &keys->keys[i];
	assert(keys->count < KEYS_MAX);
	key = &keys->keys[keys->count++];
	(void)snprintf(key->subject, sizeof(key->subject), "%s", subject); /* fits */
	(void)snprintf(uri, sizeof(uri), "cleave://%016" PRIx64 "/%s", (uint64_t)SIM_CLUSTER_ID,
	    subject);
	key->is_alien = is_alien;
	key->fd = -1;
	key_make_text(authority, authority, &wish, key->text);
	key->key = key_parse(key->text, strlen(key->text), why);
	assert(key->key != NULL);
	return key;
}

const struct split_key *
sim_keys_of(struct sim_keys *keys, const char *subject)
{
	return keys == NULL ? NULL : keys_get(keys, subject, false)->key;
}

const struct split_key *
sim_keys_of_number(struct sim_keys *keys, const char *role, uint64_t number)
{
	char subject[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	(void)snprintf(subject, sizeof(subject), "%s/%" PRIu64, role, number);
	return sim_keys_of(keys, subject);
}

const struct split_key *
sim_keys_alien(struct sim_keys *keys, const char *subject)
{
	return keys_get(keys, subject, true)->key;
}

const char *
sim_keys_path(struct sim_keys *keys, const char *subject)
{
	struct sim_key *key;
	size_t bytes;

	if (keys == NULL)
		return NULL;
	key = keys_get(keys, subject, false);
	if (key->fd >= 0)
		return key->path;
	bytes = strlen(key->text);
	key->fd = memfd_create("key", MFD_CLOEXEC);
	assert(key->fd >= 0);
	if (fchmod(key->fd, 0600) != 0 || write(key->fd, key->text, bytes) != (ssize_t)bytes)
		abort(); /* no memory for a few kilobytes */
	(void)snprintf(key->path, sizeof(key->path), "/proc/self/fd/%d", key->fd);
	return key->path;
}
