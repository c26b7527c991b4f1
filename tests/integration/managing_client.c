/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managing_client.c -- a program that manages its volumes: made, kept, cloned, rolled back, listed, deleted
 *
 *	managing_client GATEWAY
 *
 * Every blocking call of cleave/manage.h, against the cluster of test_manage.py; what it asks for is looked at through
 * cleave/client.h. Prints "managed" when each was as it should be; else the first that was not, and exits with 1.
 */
#include <cleave/manage.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define SNAPSHOTS 150 /* more than one answer has */

static struct cleave *cleave;
static char error[CLEAVE_ERROR_BYTES_MAX];

static void
expect_that(int is_so, const char *what, int line)
{
	if (is_so)
		return;
	fprintf(stderr, "managing_client.c:%d: %s (the last error: %s)\n", line, what, error);
	exit(1);
}

#define EXPECT(condition) expect_that((condition), #condition, __LINE__)
/* A call, and what it is to return; its text for people goes to `error`. */
#define EXPECT_RC(call, rc) expect_that((call) == (rc), #call " is not " #rc, __LINE__)

static struct cleave_disk *
disk_open(const char *name)
{
	struct cleave_disk *disk = NULL;

	EXPECT_RC(cleave_disk_open(cleave, name, 0, &disk, error), 0);
	return disk;
}

/* The block at @offset_bytes of a volume or snapshot holds @byte alone. */
static int
holds(const char *name, uint64_t offset_bytes, unsigned char byte)
{
	unsigned char block[CLEAVE_BLOCK_BYTES], want[CLEAVE_BLOCK_BYTES];
	struct cleave_disk *disk = disk_open(name);
	int rc = cleave_pread(disk, block, sizeof(block), offset_bytes);

	cleave_disk_close(disk);
	memset(want, byte, sizeof(want));
	if (rc != 0 || memcmp(block, want, sizeof(block)) != 0)
		fprintf(stderr, "%s at %llu: pread says %d, the block begins with %d, not %d\n",
		    name, (unsigned long long)offset_bytes, rc, block[0], byte);
	return rc == 0 && memcmp(block, want, sizeof(block)) == 0;
}

static int
write_block(struct cleave_disk *disk, uint64_t offset_bytes, unsigned char byte)
{
	unsigned char block[CLEAVE_BLOCK_BYTES];

	memset(block, byte, sizeof(block));
	return cleave_pwrite(disk, block, sizeof(block), offset_bytes);
}

static void
look_at_the_cluster(void)
{
	struct cleave_gateway_entry *gateways = NULL;
	struct cleave_node_entry *nodes = NULL;
	struct cleave_shard_entry *shards = NULL;
	struct cleave_gateway_status status;
	uint32_t count = 0, serving = 0;

	EXPECT_RC(cleave_gateway_status_wait(cleave, &status, error), 0);
	EXPECT(strcmp(status.state, "serving") == 0 && status.gateway_count == 2);
	EXPECT_RC(cleave_gateway_list_wait(cleave, &gateways, &count, error), 0);
	EXPECT(count == 2 && gateways[0].is_asked + gateways[1].is_asked == 1);
	EXPECT(strncmp(gateways[0].address, "tcp://", 6) == 0);
	EXPECT(gateways[!gateways[0].is_asked].id == status.id);
	EXPECT(gateways[!gateways[0].is_asked].lease_left_ms > 0);
	EXPECT_RC(cleave_node_list_wait(cleave, &nodes, &count, error), 0);
	EXPECT(count == 3);
	for (uint32_t i = 0; i < count; i++)
		EXPECT(strcmp(nodes[i].state, "up") == 0 && nodes[i].id == i + 1 &&
		    nodes[i].slots_free < nodes[i].slots_total && nodes[i].slot_bytes == 4 * MIB);
	EXPECT_RC(cleave_shard_list_wait(cleave, &shards, &count, error), 0);
	EXPECT(count == status.shard_count);
	for (uint32_t i = 0; i < count; i++)
		serving += strcmp(shards[i].state, "serving") == 0;
	EXPECT(serving > 0 && serving < count); /* the others are the other gateway's */
	free(gateways);
	free(nodes);
	free(shards);
}

static void
make_a_volume(void)
{
	const struct cleave_volume_options options = { .name = "v", .size_bytes = 64 * MIB };
	const struct cleave_volume_options odd = {
		.name = "odd",
		.size_bytes = 4 * MIB,
		.service_class = CLEAVE_SERVICE_CAPACITY,
		.engine = "zstd",
		.has_level = true,
		.level = -3,
		.replicas = 2,
	};
	struct cleave_volume_entry volume, *volumes = NULL;
	uint32_t count = 0;

	EXPECT_RC(cleave_volume_list_wait(cleave, &volumes, &count, error), 0);
	EXPECT(count == 0 && volumes == NULL);
	EXPECT_RC(cleave_volume_create_wait(cleave, &options, &volume, error), 0);
	EXPECT(volume.info.size_bytes == 64 * MIB && volume.info.replicas == 3);
	EXPECT_RC(cleave_volume_create_wait(cleave, &options, &volume, error), -EEXIST);
	EXPECT_RC(cleave_volume_create_wait(cleave, &odd, &volume, error), 0);
	EXPECT(strcmp(volume.info.engine, "zstd") == 0 && volume.info.level == -3);
	EXPECT_RC(cleave_volume_list_wait(cleave, &volumes, &count, error), 0);
	EXPECT(count == 2 && strcmp(volumes[0].info.name, "odd") == 0);
	EXPECT(volumes[0].info.service_class == CLEAVE_SERVICE_CAPACITY);
	free(volumes);
	EXPECT_RC(cleave_volume_delete_wait(cleave, "odd", CLEAVE_MANAGE_PURGE, error), 0);
	EXPECT_RC(cleave_volume_show_wait(cleave, "odd", &volume, error), -ENOENT);
}

/* The volume goes on being written while it is kept, cloned, and rolled back. */
static void
keep_and_roll_back(void)
{
	struct cleave_disk *disk = disk_open("v");
	struct cleave_snapshot snapshot, *snapshots = NULL;
	struct cleave_volume_entry volume, clone;
	uint32_t count = 0;

	EXPECT_RC(write_block(disk, 0, 'a'), 0);
	EXPECT_RC(cleave_volume_show_wait(cleave, "v", &volume, error), 0);
	EXPECT(volume.has_writer && strstr(volume.writer.client, "managing_client") != NULL);
	EXPECT_RC(cleave_snapshot_create_wait(cleave, "v@monday", &snapshot, error), 0);
	EXPECT(strcmp(snapshot.name, "v@monday") == 0 && snapshot.number > 0);
	EXPECT(snapshot.volume_id == volume.info.id && snapshot.size_bytes == 64 * MIB);
	EXPECT(snapshot.created_s >= volume.writer.since_s && snapshot.clone_count == 0);
	EXPECT_RC(cleave_snapshot_create_wait(cleave, "v@monday", &snapshot, error), -EEXIST);
	EXPECT_RC(cleave_snapshot_create_wait(cleave, "w@monday", &snapshot, error), -ENOENT);
	EXPECT_RC(write_block(disk, 0, 'b'), 0);
	EXPECT(holds("v@monday", 0, 'a'));

	EXPECT_RC(cleave_snapshot_clone_wait(cleave, "v@monday", "c", &clone, error), 0);
	EXPECT(clone.origin == snapshot.number && clone.info.id != volume.info.id);
	EXPECT_RC(cleave_snapshot_clone_wait(cleave, "v@monday", "c", &clone, error), -EEXIST);
	EXPECT(holds("c", 0, 'a'));
	EXPECT_RC(cleave_snapshot_list_wait(cleave, "v", &snapshots, &count, error), 0);
	EXPECT(count == 1 && snapshots[0].number == snapshot.number);
	EXPECT(snapshots[0].clone_count == 1);
	free(snapshots);
	EXPECT_RC(cleave_snapshot_list_wait(cleave, "c", &snapshots, &count, error), 0);
	EXPECT(count == 0 && snapshots == NULL);
	EXPECT_RC(cleave_snapshot_delete_wait(cleave, "v@monday", error), -ENOTEMPTY);
	EXPECT_RC(cleave_volume_delete_wait(cleave, "v", CLEAVE_MANAGE_FORCE, error), -ENOTEMPTY);

	EXPECT_RC(cleave_snapshot_rollback_wait(cleave, "v@monday", 0, &volume, error), -ENOTEMPTY);
	EXPECT_RC(write_block(disk, 4096, 'b'), 0); /* it was refused: the session goes on */
	EXPECT_RC(cleave_snapshot_rollback_wait(cleave, "v@monday", CLEAVE_MANAGE_FORCE, &volume,
		      error),
	    0);
	EXPECT(write_block(disk, 0, 'c') < 0);
	cleave_disk_close(disk);
	EXPECT(holds("v", 0, 'a') && holds("v", 4096, 0));
	EXPECT_RC(cleave_volume_delete_wait(cleave, "c", CLEAVE_MANAGE_PURGE, error), 0);
}

/* The clone lets go of what it was made of, which can be deleted then. */
static void
flatten(void)
{
	struct cleave_snapshot snapshot;
	struct cleave_volume_entry clone;

	EXPECT_RC(cleave_snapshot_create_wait(cleave, "v@base", &snapshot, error), 0);
	EXPECT_RC(cleave_snapshot_clone_wait(cleave, "v@base", "f", &clone, error), 0);
	EXPECT_RC(cleave_volume_flatten_wait(cleave, "v", 0, error), -EINVAL);
	EXPECT_RC(cleave_volume_flatten_wait(cleave, "f", CLEAVE_MANAGE_CANCEL, error), -ENOENT);
	EXPECT_RC(cleave_volume_flatten_wait(cleave, "f", 0, error), 0);
	while (clone.origin != 0)
		EXPECT_RC(cleave_volume_show_wait(cleave, "f", &clone, error), 0);
	EXPECT_RC(cleave_snapshot_delete_wait(cleave, "v@base", error), 0);
	EXPECT(holds("f", 0, 'a') && holds("f", 4096, 0));
	EXPECT_RC(cleave_volume_delete_wait(cleave, "f", CLEAVE_MANAGE_PURGE, error), 0);
}

static void
protect_and_rename(void)
{
	struct cleave_snapshot snapshot, *snapshots = NULL;
	uint32_t count = 0;

	EXPECT_RC(cleave_snapshot_create_wait(cleave, "v@t", &snapshot, error), 0);
	EXPECT_RC(cleave_snapshot_rename_wait(cleave, "v@t", "monday", error), -EEXIST);
	EXPECT_RC(cleave_snapshot_rename_wait(cleave, "v@t", "tuesday", error), 0);
	EXPECT_RC(cleave_snapshot_protect_wait(cleave, "v@t", true, error), -ENOENT);
	EXPECT_RC(cleave_snapshot_protect_wait(cleave, "v@tuesday", true, error), 0);
	EXPECT_RC(cleave_snapshot_protect_wait(cleave, "v@tuesday", true, error), 0);
	EXPECT_RC(cleave_snapshot_list_wait(cleave, "v", &snapshots, &count, error), 0);
	EXPECT(count == 2 && strcmp(snapshots[1].name, "v@tuesday") == 0);
	EXPECT(!snapshots[0].is_protected && snapshots[1].is_protected);
	free(snapshots);
	EXPECT_RC(cleave_snapshot_delete_wait(cleave, "v@tuesday", error), -ENOTEMPTY);
	EXPECT(strstr(error, "protected") != NULL);
	EXPECT_RC(cleave_volume_delete_wait(cleave, "v", CLEAVE_MANAGE_SNAPSHOTS, error),
	    -ENOTEMPTY);
	EXPECT(strstr(error, "'tuesday' is protected") != NULL);
	EXPECT_RC(cleave_volume_delete_wait(cleave, "v",
		      CLEAVE_MANAGE_SNAPSHOTS | CLEAVE_MANAGE_PURGE, error),
	    -ENOTEMPTY);
	EXPECT_RC(cleave_snapshot_protect_wait(cleave, "v@tuesday", false, error), 0);
	EXPECT_RC(cleave_snapshot_delete_wait(cleave, "v@tuesday", error), 0);
}

/* "v" is opened by its id, and not by another one; by its id alone, too, whatever its name is. */
static void
open_by_id(uint64_t id)
{
	struct cleave_open_options how = { .name = "v", .id = id + 1 };
	struct cleave_volume_entry renamed;
	struct cleave_disk *disk = NULL;

	EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), -ENOENT);
	EXPECT(strstr(error, "another one by now") != NULL);
	how.flags = CLEAVE_OPEN_READ_ONLY;
	EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), -ENOENT);
	how.id = id;
	EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), 0);
	EXPECT(cleave_disk_info(disk)->id == id);
	cleave_disk_close(disk);
	EXPECT_RC(cleave_volume_rename_wait(cleave, "v", "renamed", &renamed, error), 0);
	EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), -ENOENT);
	how.name = NULL;
	for (int i = 0; i < 2; i++) {
		how.flags = i == 0 ? CLEAVE_OPEN_READ_ONLY : 0;
		EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), 0);
		EXPECT(cleave_disk_info(disk)->id == id);
		EXPECT(strcmp(cleave_disk_info(disk)->name, "renamed") == 0);
		cleave_disk_close(disk);
	}
	how.id = 123456;
	EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), -ENOENT);
	EXPECT(strstr(error, "volume 123456: ") != NULL);
	how.id = 0;
	EXPECT_RC(cleave_disk_open_as(cleave, &how, &disk, error), -EINVAL);
	EXPECT_RC(cleave_volume_rename_wait(cleave, "renamed", "v", &renamed, error), 0);
}

/* Away and back, with its snapshot, while another volume has its name. */
static void
throw_away_and_restore(void)
{
	const struct cleave_volume_options other = { .name = "v", .size_bytes = 4 * MIB };
	struct cleave_delete_options how = { .name = "v",
		.flags = CLEAVE_MANAGE_SNAPSHOTS,
		.keep_s = 3600 };
	const struct cleave_delete_options wrong = { .name = "v",
		.flags = CLEAVE_MANAGE_PURGE,
		.keep_s = 3600 };
	struct cleave_trash_entry *trash = NULL;
	struct cleave_volume_entry volume, back;
	uint32_t count = 0;

	EXPECT_RC(cleave_volume_show_wait(cleave, "v", &volume, error), 0);
	open_by_id(volume.info.id);
	EXPECT_RC(cleave_trash_list_wait(cleave, &trash, &count, error), 0);
	EXPECT(count == 0 && trash == NULL);
	EXPECT_RC(cleave_volume_delete_as_wait(cleave, &wrong, error), -EINVAL);
	how.id = volume.info.id + 1;
	EXPECT_RC(cleave_volume_delete_as_wait(cleave, &how, error), -ENOENT);
	how.id = volume.info.id;
	EXPECT_RC(cleave_volume_delete_as_wait(cleave, &how, error), 0);
	EXPECT_RC(cleave_volume_show_wait(cleave, "v", &back, error), -ENOENT);
	EXPECT_RC(cleave_trash_list_wait(cleave, &trash, &count, error), 0);
	EXPECT(count == 1 && strcmp(trash[0].name, "v") == 0 && trash[0].id == volume.info.id);
	EXPECT(trash[0].keep_s == 3600 && trash[0].left_s > 3000 && trash[0].left_s <= 3600);
	EXPECT(trash[0].snapshot_count == 1 && trash[0].by[0] != '\0' && trash[0].deleted_s > 0);
	free(trash);
	EXPECT_RC(cleave_volume_create_wait(cleave, &other, &back, error), 0);
	EXPECT_RC(cleave_trash_restore_wait(cleave, "v", NULL, &back, error), -EEXIST);
	EXPECT_RC(cleave_trash_restore_wait(cleave, "v", "u", &back, error), 0);
	EXPECT(back.info.id == volume.info.id && strcmp(back.info.name, "u") == 0);
	EXPECT(holds("u", 0, 'a') && holds("u@monday", 0, 'a'));
	EXPECT_RC(cleave_volume_delete_wait(cleave, "v", 0, error), 0);
	EXPECT_RC(cleave_trash_purge_wait(cleave, "v", error), 0);
	EXPECT_RC(cleave_trash_purge_wait(cleave, "v", error), -ENOENT);
	EXPECT_RC(cleave_volume_rename_wait(cleave, "u", "v", &back, error), 0);
}

static void
rename_and_resize(void)
{
	struct cleave_volume_entry volume;

	EXPECT_RC(cleave_volume_rename_wait(cleave, "v", "w", &volume, error), 0);
	EXPECT(strcmp(volume.info.name, "w") == 0);
	EXPECT(holds("w@monday", 0, 'a'));
	EXPECT_RC(cleave_volume_set_size_wait(cleave, "w", 128 * MIB, 0, &volume, error), 0);
	EXPECT(volume.info.size_bytes == 128 * MIB);
	EXPECT_RC(cleave_volume_set_size_wait(cleave, "w", 32 * MIB, 0, &volume, error), -EINVAL);
	EXPECT_RC(cleave_volume_set_size_wait(cleave, "w", 32 * MIB,
		      CLEAVE_MANAGE_SHRINK | CLEAVE_MANAGE_CHECK, &volume, error),
	    0);
	EXPECT(volume.info.size_bytes == 128 * MIB);
	EXPECT_RC(cleave_volume_set_size_wait(cleave, "w", 32 * MIB, CLEAVE_MANAGE_SHRINK, &volume,
		      error),
	    0);
	EXPECT(volume.info.size_bytes == 32 * MIB);
	/* To the size that it had. */
	EXPECT_RC(cleave_snapshot_rollback_wait(cleave, "w@monday", 0, &volume, error), 0);
	EXPECT(volume.info.size_bytes == 64 * MIB);
}

/* All processes are of this release: there is nothing above the level that the cluster was made with. */
static void
ask_for_the_level(void)
{
	struct cleave_cluster_level level;

	EXPECT_RC(cleave_cluster_level_wait(cleave, NULL, 0, &level, error), 0);
	EXPECT(level.level >= 2 && level.next == 0 && level.missing_count == 0);
	EXPECT_RC(cleave_cluster_upgrade_wait(cleave, NULL, 0, &level, error), 0);
	EXPECT(level.from == level.level);
}

static void
list_many_and_delete(void)
{
	struct cleave_snapshot snapshot, *snapshots = NULL;
	struct cleave_volume_entry *volumes = NULL;
	char name[32];
	uint32_t count = 0;

	for (int i = 0; i < SNAPSHOTS; i++) {
		(void)snprintf(name, sizeof(name), "w@s%03d", i);
		EXPECT_RC(cleave_snapshot_create_wait(cleave, name, &snapshot, error), 0);
	}
	EXPECT_RC(cleave_snapshot_list_wait(cleave, NULL, &snapshots, &count, error), 0);
	EXPECT(count == SNAPSHOTS + 1 && strcmp(snapshots[0].name, "w@monday") == 0);
	for (uint32_t i = 1; i < count; i++)
		EXPECT(snapshots[i].number > snapshots[i - 1].number);
	EXPECT(strcmp(snapshots[SNAPSHOTS].name, name) == 0);
	free(snapshots);
	EXPECT_RC(cleave_snapshot_delete_wait(cleave, "w@monday", error), 0);
	EXPECT_RC(cleave_snapshot_delete_wait(cleave, "w@monday", error), -ENOENT);
	EXPECT_RC(cleave_volume_delete_wait(cleave, "w", CLEAVE_MANAGE_SNAPSHOTS, error), 0);
	EXPECT_RC(cleave_volume_list_wait(cleave, &volumes, &count, error), 0);
	EXPECT(count == 0);
}

int
main(int argc, char *argv[])
{
	const char *gateways[1];
	struct cleave_client_options options = { .gateways = gateways, .gateway_count = 1 };

	if (argc != 2)
		return 2;
	gateways[0] = argv[1];
	EXPECT_RC(cleave_start(&options, &cleave, error), 0);
	look_at_the_cluster();
	make_a_volume();
	keep_and_roll_back();
	flatten();
	protect_and_rename();
	throw_away_and_restore();
	rename_and_resize();
	ask_for_the_level();
	list_many_and_delete();
	cleave_stop(cleave);
	printf("managed\n");
	return 0;
}
