/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_thread.c -- layer 2: the library's own thread, event fd, blocking helpers */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "cleave/manage.h"
#include "support/fake_gateway.h"

#define WAIT_MS 30000
#define THREADS 4
#define IOS_PER_THREAD 200

/* A gateway on a thread of its own. */
struct remote {
	struct loop *loop;
	struct fake_gateway fake;
	pthread_t thread;
	struct loop_post post;
	const char *gateways[1];
	struct cleave_client_options options;
	struct cleave *cleave;
	struct cleave_disk *disk;
	char error[CLEAVE_ERROR_BYTES_MAX];
};

static void *
remote_main(void *arg)
{
	struct remote *r = arg;

	(void)loop_run(r->loop, NULL, NULL);
	return NULL;
}

static void
remote_on_stop(struct loop_post *post, void *arg)
{
	struct remote *r = arg;

	(void)post;
	loop_stop(r->loop);
}

static struct remote *
remote_create(void)
{
	struct remote *r = calloc(1, sizeof(*r));
	struct fake_options options = {
		.address = "tcp://127.0.0.1:0",
		.port_count = 2,
		.shard_count = 4,
	};
	int rc;

	cr_assert(r != NULL);
	r->loop = options.loop = loop_ev_create(3);
	fake_gateway_init(&r->fake, &options);
	fake_gateway_add(&r->fake, "v", NUM_MIB(128));
	fake_gateway_add(&r->fake, "large", NUM_GIB(130))->is_hole = true;
	r->gateways[0] = r->fake.addresses[0];
	r->options.gateways = r->gateways;
	r->options.forgets_gateways = true;
	r->options.gateway_count = 1;
	r->options.backoff_min_ns = NUM_MS(1);
	rc = cleave_start(&r->options, &r->cleave, r->error);
	cr_assert(rc == 0, "%s", r->error);
	return r;
}

static void
remote_run(struct remote *r)
{
	cr_assert(pthread_create(&r->thread, NULL, remote_main, r) == 0);
}

static struct remote *
remote_with_disk(void)
{
	struct remote *r = remote_create();
	int rc;

	remote_run(r);
	rc = cleave_disk_open(r->cleave, "v", 0, &r->disk, r->error);
	cr_assert(rc == 0, "%s", r->error);
	return r;
}

static void
remote_destroy(struct remote *r)
{
	cleave_disk_close(r->disk);
	cleave_stop(r->cleave);
	r->post = (struct loop_post){ .fn = remote_on_stop, .arg = r };
	loop_post(r->loop, &r->post);
	cr_assert(pthread_join(r->thread, NULL) == 0);
	fake_gateway_fini(&r->fake);
	loop_destroy(r->loop);
	free(r);
}

static uint8_t *
data_create(uint64_t bytes, uint64_t seed)
{
	uint64_t *data = malloc(bytes);

	cr_assert(data != NULL);
	for (uint64_t i = 0; i < bytes / 8; i++)
		data[i] = num_mix_u64(seed * 999983 + i + 1);
	return (uint8_t *)data;
}

Test(client_thread, blocking_helpers)
{
	struct remote *r = remote_with_disk();
	uint8_t *data = data_create(NUM_MIB(40), 1), *back = data_create(NUM_MIB(40), 2);

	cr_assert(strcmp(cleave_disk_info(r->disk)->name, "v") == 0);
	/* More than one request may hold. */
	cr_assert(cleave_pwrite(r->disk, data, NUM_MIB(40), NUM_MIB(1)) == 0);
	cr_assert(cleave_pread(r->disk, back, NUM_MIB(40), NUM_MIB(1)) == 0);
	cr_assert(memcmp(data, back, NUM_MIB(40)) == 0);
	cr_assert(cleave_discard(r->disk, NUM_MIB(2), NUM_MIB(1)) == 0);
	cr_assert(cleave_write_zeroes(r->disk, 4096, NUM_MIB(3)) == 0);
	cr_assert(cleave_flush(r->disk) == 0);
	memset(data, 0, NUM_MIB(2) + 4096);
	cr_assert(cleave_pread(r->disk, back, NUM_MIB(4), NUM_MIB(1)) == 0);
	cr_assert(memcmp(data, back, NUM_MIB(4)) == 0);
	cr_assert(cleave_pread(r->disk, back, 4096, 1) == -EINVAL);
	cr_assert(cleave_pread(r->disk, back, 4096, NUM_MIB(128)) == -ERANGE);
	free(data);
	free(back);
	remote_destroy(r);
}

/* None of it is begun: what its first piece would have been has a good shape. */
Test(client_thread, a_long_request_of_a_bad_shape_is_refused_whole)
{
	struct remote *r = remote_with_disk();
	const uint64_t bytes = NUM_MIB(33); /* more than one request may hold */
	uint8_t *data = data_create(bytes, 1);
	struct cleave_extent extents[4];
	struct cleave_disk *large;
	uint32_t count = 7;

	cr_assert(cleave_pwrite(r->disk, data, bytes - 1, 0) == -EINVAL);
	cr_assert(cleave_pread(r->disk, data, bytes - 1, 0) == -EINVAL);
	cr_assert(cleave_pwrite(r->disk, data, bytes, NUM_MIB(128) - NUM_MIB(32)) == -ERANGE);
	cr_assert(cleave_pread(r->disk, data, bytes, NUM_MIB(128) - NUM_MIB(32)) == -ERANGE);
	cr_assert(cleave_pread(r->disk, data, 0, 0) == -EINVAL);
	cr_assert(cleave_disk_open(r->cleave, "large", 0, &large, r->error) == 0, "%s", r->error);
	cr_assert(cleave_block_status(large, NUM_GIB(130) - 1, 0, extents, 4, &count) == -EINVAL);
	cr_assert(cleave_block_status(large, NUM_GIB(130), 4096, extents, 4, &count) == -ERANGE);
	cr_assert(cleave_block_status(large, UINT64_MAX - 4095, NUM_GIB(64), extents, 4, &count) ==
	    -ERANGE);
	cr_assert(count == 7, "untouched on failure");
	cleave_disk_close(large);
	/* The gateway is on another thread: an answered request comes behind whatever was begun. */
	cr_assert(cleave_pread(r->disk, data, 4096, 0) == 0);
	cr_assert(fake_gateway_count(&r->fake, WIRE_READ) == 1);
	cr_assert(fake_gateway_count(&r->fake, WIRE_WRITE) == 0);
	cr_assert(fake_gateway_count(&r->fake, WIRE_BLOCK_STATUS) == 0);
	free(data);
	remote_destroy(r);
}

Test(client_thread, vectors)
{
	struct remote *r = remote_with_disk();
	const uint64_t bytes = NUM_MIB(33); /* more than one request may hold */
	uint8_t *data = data_create(bytes, 1), *back = data_create(bytes, 2);
	/* Within a message and across; empty; of one byte, so that nothing behind it is aligned. */
	struct iovec vector[] = { { data, 1 }, { data + 1, 0 }, { data + 1, 4096 },
		{ data + 4097, 100000 }, { data + 104097, bytes - 104097 }, { data, 0 } };
	const uint32_t count = NUM_COUNT(vector);

	cr_assert(cleave_pwritev(r->disk, vector, count, NUM_MIB(1)) == 0);
	cr_assert(memcmp(r->fake.volumes[0].data + NUM_MIB(1), data, bytes) == 0);
	for (uint32_t i = 0; i < count; i++)
		vector[i].iov_base = back + ((uint8_t *)vector[i].iov_base - data);
	cr_assert(cleave_preadv(r->disk, vector, count, NUM_MIB(1)) == 0);
	cr_assert(memcmp(data, back, bytes) == 0);

	vector[0].iov_len = 2; /* no multiple of a block any more */
	cr_assert(cleave_preadv(r->disk, vector, count, 0) == -EINVAL);
	vector[0].iov_len = SIZE_MAX - 4095 - bytes;
	cr_assert(cleave_preadv(r->disk, vector, 2, 0) == -ERANGE);
	vector[1].iov_len = SIZE_MAX; /* more than a number holds */
	cr_assert(cleave_preadv(r->disk, vector, 2, 0) == -EINVAL);
	vector[0].iov_len = 4096;
	cr_assert(cleave_preadv(r->disk, vector, 1, NUM_MIB(128)) == -ERANGE);
	cr_assert(cleave_preadv(r->disk, vector, 0, 0) == -EINVAL);
	cr_assert(cleave_pwritev(r->disk, vector, CLEAVE_VECTOR_MAX + 1, 0) == -EINVAL);
	free(data);
	free(back);
	remote_destroy(r);
}

Test(client_thread, block_status_of_any_range)
{
	struct remote *r = remote_with_disk();
	struct cleave_extent extents[4];
	struct cleave_disk *large;
	uint32_t count = 0;

	memset(r->fake.volumes[0].data + NUM_MIB(70), 1, NUM_MIB(2));
	cr_assert(cleave_block_status(r->disk, NUM_MIB(128), 0, extents, 4, &count) == 0);
	cr_assert(count == 3);
	cr_assert(extents[0].length_bytes == NUM_MIB(70));
	cr_assert(extents[0].flags == (CLEAVE_EXTENT_HOLE | CLEAVE_EXTENT_ZERO));
	cr_assert(extents[1].length_bytes == NUM_MIB(2) && extents[1].flags == 0);
	cr_assert(extents[2].length_bytes == NUM_MIB(56));
	cr_assert(cleave_block_status(r->disk, NUM_MIB(128), 0, extents, 1, &count) == 0);
	cr_assert(count == 1 && extents[0].length_bytes == NUM_MIB(70));
	/* More than is asked about at a time. */
	cr_assert(cleave_disk_open(r->cleave, "large", 0, &large, r->error) == 0, "%s", r->error);
	cr_assert(cleave_block_status(large, NUM_GIB(130), 0, extents, 1, &count) == 0);
	cr_assert(count == 1 && extents[0].length_bytes == NUM_GIB(130));
	cleave_disk_close(large);
	cr_assert(cleave_block_status(r->disk, 4096, NUM_MIB(128), extents, 1, &count) == -ERANGE);
	cr_assert(cleave_block_status(r->disk, 512, 0, extents, 1, &count) == -EINVAL);
	remote_destroy(r);
}

Test(client_thread, errors_have_texts)
{
	struct remote *r = remote_create();
	struct cleave_disk *disk = NULL;
	char *reply = NULL;

	remote_run(r);
	cr_assert(cleave_disk_open(r->cleave, "w", 0, &disk, r->error) == -ENOENT);
	cr_assert(strstr(r->error, "'w'") != NULL, "%s", r->error);
	cr_assert(cleave_disk_open(r->cleave, "", 0, &disk, r->error) == -EINVAL);
	cr_assert(disk == NULL);
	cr_assert(
	    cleave_control_wait(r->cleave, "{\"op\":\"status\"}", false, &reply, r->error) == 0);
	cr_assert(strstr(reply, "serving") != NULL);
	free(reply);
	cr_assert(cleave_control_wait(r->cleave, "{\"op\":\"nonsense\"}", false, &reply,
		      r->error) == -EINVAL);
	cr_assert(strstr(r->error, "unknown") != NULL, "%s", r->error);
	free(reply);
	remote_destroy(r);
}

Test(client_thread, volumes_are_managed)
{
	struct remote *r = remote_create();
	struct cleave_volume_entry volume, *volumes = NULL;
	uint32_t count = 0;

	remote_run(r);
	for (char name[] = "a"; name[0] < 'f'; name[0]++) {
		const struct cleave_volume_options options = { .name = name, .size_bytes = 8192 };

		cr_assert(cleave_volume_create_wait(r->cleave, &options, &volume, r->error) == 0,
		    "%s", r->error);
		cr_assert_str_eq(volume.info.name, name);
		cr_assert(
		    cleave_volume_create_wait(r->cleave, &options, &volume, r->error) == -EEXIST);
		cr_assert(strstr(r->error, "exists") != NULL, "%s", r->error);
	}
	cr_assert(cleave_volume_rename_wait(r->cleave, "e", "w", &volume, r->error) == 0);
	cr_assert_str_eq(volume.info.name, "w");
	cr_assert(
	    cleave_volume_set_size_wait(r->cleave, "w", 4096, 0, &volume, r->error) == -EINVAL);
	cr_assert(cleave_volume_set_size_wait(r->cleave, "w", 4096, CLEAVE_MANAGE_SHRINK, &volume,
		      r->error) == 0);
	cr_assert(volume.info.size_bytes == 4096);
	/* The gateway hands out two at a time; all that it has are wanted. */
	cr_assert(cleave_volume_list_wait(r->cleave, &volumes, &count, r->error) == 0, "%s",
	    r->error);
	cr_assert(count >= 5);
	cr_assert_str_eq(volumes[count - 1].info.name, "w");
	free(volumes);
	cr_assert(cleave_volume_delete_wait(r->cleave, "w", 0, r->error) == 0, "%s", r->error);
	cr_assert(cleave_volume_show_wait(r->cleave, "w", &volume, r->error) == -ENOENT);
	cr_assert(strstr(r->error, "no such volume") != NULL, "%s", r->error);
	cr_assert(cleave_volume_show_wait(r->cleave, "", &volume, r->error) == -EINVAL);
	cr_assert(r->error[0] != '\0');
	cr_assert(cleave_volume_show_wait(r->cleave, "x", &volume, NULL) == -ENOENT);
	remote_destroy(r);
}

Test(client_thread, a_cluster_is_listed)
{
	struct remote *r = remote_create();
	struct cleave_gateway_entry *gateways = NULL;
	struct cleave_shard_entry *shards = NULL;
	struct cleave_node_entry *nodes = NULL;
	struct cleave_gateway_status status;
	uint32_t count = 0;

	remote_run(r);
	cr_assert(cleave_node_list_wait(r->cleave, &nodes, &count, r->error) == 0, "%s", r->error);
	cr_assert(count == 1 && nodes[0].id == 7);
	free(nodes);
	cr_assert(cleave_shard_list_wait(r->cleave, &shards, &count, r->error) == 0, "%s",
	    r->error);
	cr_assert(count == 0 && shards == NULL);
	/* An older gateway knows no such request, and has a shorter status. */
	cr_assert(cleave_gateway_list_wait(r->cleave, &gateways, &count, r->error) == -EINVAL);
	cr_assert(strstr(r->error, "unknown") != NULL, "%s", r->error);
	cr_assert(cleave_gateway_status_wait(r->cleave, &status, r->error) == -EBADMSG);
	cr_assert(strstr(r->error, "ports") != NULL, "%s", r->error);
	remote_destroy(r);
}

#define SNAPSHOTS(more) "{\"snapshot\":" SNAPSHOT ",\"snapshots\":[" SNAPSHOT "],\"more\":" more "}"
#define SNAPSHOT                                                                                   \
	"{\"number\":8,\"name\":\"s\",\"volume\":\"v\",\"volume_id\":3,\"size_bytes\":4096,"       \
	"\"created_s\":1,\"clones\":0}"

Test(client_thread, snapshots_are_managed)
{
	struct remote *r = remote_create();
	struct cleave_snapshot snapshot, *snapshots = NULL;
	struct cleave_volume_entry volume;
	uint32_t count = 0;

	r->fake.control_answer = SNAPSHOTS("false");
	remote_run(r);
	cr_assert(cleave_snapshot_create_wait(r->cleave, "v@s", &snapshot, r->error) == 0, "%s",
	    r->error);
	cr_assert_str_eq(snapshot.name, "v@s");
	cr_assert(cleave_snapshot_list_wait(r->cleave, NULL, &snapshots, &count, r->error) == 0,
	    "%s", r->error);
	cr_assert(count == 1 && snapshots[0].number == 8);
	free(snapshots);
	cr_assert(cleave_snapshot_delete_wait(r->cleave, "v@s", r->error) == 0, "%s", r->error);
	cr_assert(cleave_snapshot_clone_wait(r->cleave, "v@s", "c", &volume, r->error) == -EBADMSG);
	cr_assert(strstr(r->error, "volume") != NULL, "%s", r->error);
	cr_assert(
	    cleave_snapshot_rollback_wait(r->cleave, "v@s", 0, &volume, r->error) == -EBADMSG);
	cr_assert(strstr(r->error, "volume") != NULL, "%s", r->error);
	remote_destroy(r);
}

Test(client_thread, a_list_without_an_end_is_refused)
{
	struct remote *r = remote_create();
	struct cleave_snapshot *snapshots = NULL;
	uint32_t count = 7;

	r->fake.control_answer = SNAPSHOTS("true");
	remote_run(r);
	cr_assert(
	    cleave_snapshot_list_wait(r->cleave, "v", &snapshots, &count, r->error) == -EBADMSG);
	cr_assert(snapshots == NULL && count == 7 && r->error[0] != '\0');
	remote_destroy(r);
}

Test(client_thread, start_refuses_bad_options)
{
	const char *gateways[] = { "nonsense" };
	struct cleave_client_options options = { .gateways = gateways, .gateway_count = 1 };
	struct cleave *cleave = NULL;
	char error[CLEAVE_ERROR_BYTES_MAX];

	cr_assert(cleave_start(&options, &cleave, error) == -EINVAL);
	cr_assert(strstr(error, "nonsense") != NULL, "%s", error);
	cr_assert(cleave == NULL);
	cleave_stop(NULL);
	cleave_disk_close(NULL);
}

static uint32_t
reap_all(struct remote *r, uint32_t count)
{
	struct pollfd fd = { .fd = cleave_event_fd(r->cleave), .events = POLLIN };
	struct cleave_io *ios[7];
	uint32_t reaped = 0;

	while (reaped < count) {
		uint32_t now;

		cr_assert(poll(&fd, 1, WAIT_MS) == 1, "nothing to reap after %u", reaped);
		now = cleave_reap(r->cleave, ios, 7);
		for (uint32_t i = 0; i < now; i++)
			cr_assert(ios[i]->rc == 0, "rc %d", ios[i]->rc);
		reaped += now;
	}
	cr_assert(poll(&fd, 1, 0) == 0, "readable without anything to reap");
	return reaped;
}

Test(client_thread, submit_and_reap)
{
	struct remote *r = remote_with_disk();
	uint8_t *data = data_create(NUM_MIB(1), 1);
	static struct cleave_io ios[256];
	struct cleave_io *none[1];

	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 256; i++) {
			ios[i] = (struct cleave_io){ .op = CLEAVE_WRITE,
				.offset_bytes = i * 4096,
				.length_bytes = 4096,
				.data = data + i * 4096 };
			cr_assert(cleave_disk_submit(r->disk, &ios[i]) == 0);
		}
		cr_assert(reap_all(r, 256) == 256);
	}
	cr_assert(cleave_reap(r->cleave, none, 1) == 0);
	ios[0].length_bytes = 1;
	cr_assert(cleave_disk_submit(r->disk, &ios[0]) == -EINVAL);
	ios[0].length_bytes = NUM_MIB(16);
	ios[0].offset_bytes = NUM_MIB(120);
	cr_assert(cleave_disk_submit(r->disk, &ios[0]) == -ERANGE);
	free(data);
	remote_destroy(r);
}

struct writer {
	struct remote *r;
	uint32_t index;
	pthread_t thread;
	uint8_t *data;
};

static void *
writer_main(void *arg)
{
	struct writer *writer = arg;
	uint64_t base = writer->index * NUM_MIB(8);
	uint8_t back[4096];

	for (uint32_t i = 0; i < IOS_PER_THREAD; i++) {
		uint8_t *block = writer->data + i * 4096;

		cr_assert(cleave_pwrite(writer->r->disk, block, 4096, base + i * 4096) == 0);
		cr_assert(cleave_pread(writer->r->disk, back, 4096, base + i * 4096) == 0);
		cr_assert(memcmp(block, back, 4096) == 0);
	}
	return NULL;
}

Test(client_thread, threads_share_a_disk)
{
	struct remote *r = remote_with_disk();
	struct writer writers[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ .r = r,
			.index = i,
			.data = data_create(IOS_PER_THREAD * 4096, i) };
		cr_assert(pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]) == 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		cr_assert(pthread_join(writers[i].thread, NULL) == 0);
		free(writers[i].data);
	}
	remote_destroy(r);
}

Test(client_thread, stop_gives_requests_up)
{
	struct remote *r = remote_create();
	uint8_t *data = data_create(4096, 1);
	static struct cleave_io io;

	r->fake.is_holding = true;
	remote_run(r);
	cr_assert(cleave_disk_open(r->cleave, "v", 0, &r->disk, r->error) == 0);
	io = (struct cleave_io){ .op = CLEAVE_WRITE, .length_bytes = 4096, .data = data };
	cr_assert(cleave_disk_submit(r->disk, &io) == 0);
	cleave_stop(r->cleave);
	r->cleave = NULL;
	r->disk = NULL; /* gone with it */
	free(data);
	remote_destroy(r);
}

/* The library's thread has its own: here fails what the caller's thread allocates. */
Test(client_thread, the_nth_allocation_of_a_start_fails_with_a_text)
{
	struct remote *r = remote_create();
	struct cleave *cleave = NULL;
	uint32_t nth = 1;
	int rc;

	remote_run(r);
	for (;; nth++) {
		r->error[0] = '\0';
		alloc_fail_at(ALLOC_CLIENT, nth);
		rc = cleave_start(&r->options, &cleave, r->error);
		if (rc == 0)
			break;
		cr_assert_eq(rc, -ENOMEM);
		cr_assert_null(cleave);
		cr_assert_neq(r->error[0], '\0', "allocation %u", nth);
	}
	cr_assert_gt(nth, 3);
	alloc_fail_at(ALLOC_CLIENT, 1);
	r->error[0] = '\0';
	cr_assert_eq(cleave_disk_open(r->cleave, "v", 0, &r->disk, r->error), -ENOMEM);
	cr_assert_neq(r->error[0], '\0');
	cr_assert_eq(cleave_disk_open(r->cleave, "v", 0, &r->disk, r->error), 0);
	cleave_stop(cleave);
	remote_destroy(r);
}
