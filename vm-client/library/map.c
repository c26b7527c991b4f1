/* SPDX-License-Identifier: Apache-2.0 */
/* map.c -- the JSON texts that gateways answer with, checked and made into structs */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/reader.h"
#include "internal.h"
#include "volume_info.h"

#define MAP_OLDER_MAX 8u

static void
read_shards(struct reader *reader, const json_t *object, struct client_map *map)
{
	size_t count = map->shard_count;
	const json_t *ports = reader_array(reader, object, "port_of_shard", count, count);
	const json_t *epochs = reader_array(reader, object, "epoch_of_shard", count, count);

	assert(map->shard_count > 0 && map->port_count > 0);
	if (ports == NULL || epochs == NULL)
		return;
	for (size_t i = 0; i < count && reader->field == NULL; i++) {
		map->port_of_shard[i] = (uint8_t)reader_number(reader, json_array_get(ports, i),
		    "port_of_shard", 0, map->port_count - 1);
		map->epoch_of_shard[i] = (uint32_t)reader_number(reader, json_array_get(epochs, i),
		    "epoch_of_shard", 0, UINT32_MAX);
	}
}

static void
read_map(struct reader *reader, const json_t *root, struct client_map *map)
{
	const json_t *object = reader_object(reader, root, "map");
	const json_t *ports;

	assert(map != NULL);
	memset(map, 0, sizeof(*map));
	map->shard_count =
	    (uint32_t)reader_range(reader, object, "shard_count", 1, CLEAVE_SHARDS_MAX);
	ports = reader_array(reader, object, "ports", 1, CLIENT_PORTS_MAX);
	if (reader->field != NULL)
		return;
	map->port_count = (uint32_t)json_array_size(ports);
	for (uint32_t i = 0; i < map->port_count; i++)
		reader_copy(reader, json_array_get(ports, i), "ports", map->ports[i],
		    sizeof(map->ports[i]));
	read_shards(reader, object, map);
}

/* An open volume: what it is, and what its opening has made of it. */
static void
read_opened(struct reader *reader, const json_t *root, struct cleave_volume_info *info,
    enum volume_reads *ret_reads)
{
	const json_t *volume = json_object_get(root, "volume");
	const char *reads = json_string_value(json_object_get(volume, "reads"));

	assert(reader->field == NULL);
	volume_info_read(reader, volume, info);
	/* A word of a later release means that it is read at gateways, as all was before. */
	*ret_reads = VOLUME_READS_GATEWAY;
	if (reads != NULL && strcmp(reads, "hot") == 0)
		*ret_reads = VOLUME_READS_HOT;
	else if (reads != NULL && strcmp(reads, "direct") == 0)
		*ret_reads = VOLUME_READS_DIRECT;
	info->attach = reader_u64(reader, root, "attach", INT64_MAX);
	info->is_read_only = json_is_true(json_object_get(root, "read_only"));
}

/* An address in @map's list; added when there is room. CLIENT_PORTS_MAX: there is none. */
static uint32_t
map_port(struct client_map *map, const char *address)
{
	assert(map->port_count <= CLIENT_PORTS_MAX);
	for (uint32_t i = 0; i < map->port_count; i++) {
		if (strcmp(map->ports[i], address) == 0)
			return i;
	}
	if (map->port_count < CLIENT_PORTS_MAX)
		memcpy(map->ports[map->port_count++], address, strlen(address) + 1);
	else
		return CLIENT_PORTS_MAX;
	return map->port_count - 1;
}

/* @next is about to replace @map: may shard @i of it stay as it was? */
static void
merge_shard(const struct client_map *map, struct client_map *next, uint32_t i)
{
	uint32_t port;

	assert(
	    map->port_of_shard[i] < map->port_count && next->port_of_shard[i] < next->port_count);
	assert(i < map->shard_count && i < next->shard_count);
	if (next->epoch_of_shard[i] >= map->epoch_of_shard[i] ||
	    map->older_count[i] == MAP_OLDER_MAX)
		return;
	port = map_port(next, map->ports[map->port_of_shard[i]]);
	if (port == CLIENT_PORTS_MAX)
		return;
	next->port_of_shard[i] = (uint8_t)port;
	next->epoch_of_shard[i] = map->epoch_of_shard[i];
	next->older_count[i] = (uint8_t)(map->older_count[i] + 1);
}

bool
map_merge(struct client_map *map, const struct client_map *newer)
{
	static _Thread_local struct client_map next;
	bool has_changed = false;

	assert(newer != map && newer->port_count <= CLIENT_PORTS_MAX &&
	    newer->shard_count <= CLEAVE_SHARDS_MAX);
	assert(newer->shard_count > 0 && newer->port_count > 0);
	next = *newer;
	memset(next.older_count, 0, sizeof(next.older_count));
	has_changed = next.shard_count != map->shard_count;
	for (uint32_t i = 0; i < next.shard_count && !has_changed; i++)
		merge_shard(map, &next, i);
	for (uint32_t i = 0; i < next.shard_count && !has_changed; i++)
		has_changed = next.epoch_of_shard[i] != map->epoch_of_shard[i] ||
		    strcmp(next.ports[next.port_of_shard[i]], map->ports[map->port_of_shard[i]]) !=
			0;
	*map = next;
	return has_changed;
}

static int
parse(const char *text, struct cleave_volume_info *ret_info, enum volume_reads *ret_reads,
    struct client_map *ret_map, const char **ret_field)
{
	struct reader reader = { 0 };
	struct cleave_volume_info info;
	struct client_map *map = client_malloc(sizeof(*map));
	json_t *root = map == NULL ? NULL : reader_load(&reader, text, strlen(text));
	int rc = map == NULL ? -ENOMEM : 0;

	assert(ret_map != NULL && ret_field != NULL);
	if (root != NULL) {
		read_map(&reader, root, map);
		if (reader.field == NULL && ret_info != NULL)
			read_opened(&reader, root, &info, ret_reads);
	}
	if (rc == 0)
		rc = reader_rc(&reader);
	if (rc == 0) {
		*ret_map = *map;
		if (ret_info != NULL)
			*ret_info = info;
	} else {
		*ret_field = reader.field != NULL ? reader.field : "memory";
	}
	json_decref(root);
	free(map);
	return rc;
}

int
map_parse(const char *text, struct client_map *ret_map, const char **ret_field)
{
	return parse(text, NULL, NULL, ret_map, ret_field);
}

int
map_parse_attach(const char *text, struct cleave_volume_info *ret_info,
    enum volume_reads *ret_reads, struct client_map *ret_map, const char **ret_field)
{
	return parse(text, ret_info, ret_reads, ret_map, ret_field);
}
