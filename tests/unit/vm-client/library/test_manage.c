/* SPDX-License-Identifier: Apache-2.0 */
/* test_manage.c -- volumes and snapshots by typed calls, on a loop: requests, answers, what goes wrong */
#include <jansson.h>

#include "base/alloc.h"
#include "cleave/manage.h"
#include "library/ask.h"
#include "unit/client_fixture.h"
#include "unit/json_memory.h"

/* The arguments of a handler, copied: the answer is gone when it returns. */
struct told {
	struct fixture *f;
	struct cleave_ask ask;
	struct cleave_volume_entry volumes[8];
	struct cleave_snapshot snapshots[8];
	struct cleave_gateway_entry gateway;
	struct cleave_node_entry node;
	struct cleave_shard_entry shard;
	struct cleave_gateway_status status;
	struct cleave_cluster_level level;
	uint32_t count;
	bool is_more;
	char answer[1024]; /* as it came; "": none did */
};

static void
told_rc(struct told *told, const struct cleave_ask *ask, int rc, bool has_answer, const char *error)
{
	struct fixture *f = told->f;

	cr_assert(ask == &told->ask);
	cr_assert(!f->is_answered, "a handler was called twice");
	cr_assert((rc == 0) == (error == NULL));
	cr_assert((rc == 0) == has_answer);
	snprintf(told->answer, sizeof(told->answer), "%s", ask->answer == NULL ? "" : ask->answer);
	f->rc = rc;
	f->is_answered = true;
	snprintf(f->error, sizeof(f->error), "%s", error == NULL ? "" : error);
}

static void
on_done(struct cleave_ask *ask, int rc, const char *error, void *arg)
{
	told_rc(arg, ask, rc, rc == 0, error);
}

static void
on_volume(struct cleave_ask *ask, int rc, const struct cleave_volume_entry *volume,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, volume != NULL, error);
	told->count = volume != NULL;
	if (volume != NULL)
		told->volumes[0] = *volume;
}

static void
on_volumes(struct cleave_ask *ask, int rc, const struct cleave_volume_page *page, const char *error,
    void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, page != NULL, error);
	if (page == NULL)
		return;
	told->count = page->volume_count;
	told->is_more = page->is_more;
	for (uint32_t i = 0; i < page->volume_count; i++)
		told->volumes[i] = page->volumes[i];
}

static void
on_snapshot(struct cleave_ask *ask, int rc, const struct cleave_snapshot *snapshot,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, snapshot != NULL, error);
	if (snapshot != NULL)
		told->snapshots[0] = *snapshot;
}

static void
on_snapshots(struct cleave_ask *ask, int rc, const struct cleave_snapshot_page *page,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, page != NULL, error);
	if (page == NULL)
		return;
	told->count = page->snapshot_count;
	told->is_more = page->is_more;
	for (uint32_t i = 0; i < page->snapshot_count; i++)
		told->snapshots[i] = page->snapshots[i];
}

static void
on_gateways(struct cleave_ask *ask, int rc, const struct cleave_gateway_entry *gateways,
    uint32_t count, const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, rc == 0, error);
	cr_assert((gateways != NULL) == (count > 0));
	told->count = count;
	if (count > 0)
		told->gateway = gateways[count - 1];
}

static void
on_nodes(struct cleave_ask *ask, int rc, const struct cleave_node_entry *nodes, uint32_t count,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, rc == 0, error);
	cr_assert((nodes != NULL) == (count > 0));
	told->count = count;
	if (count > 0)
		told->node = nodes[count - 1];
}

static void
on_shards(struct cleave_ask *ask, int rc, const struct cleave_shard_entry *shards, uint32_t count,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, rc == 0, error);
	cr_assert((shards != NULL) == (count > 0));
	told->count = count;
	if (count > 0)
		told->shard = shards[count - 1];
}

static void
on_status(struct cleave_ask *ask, int rc, const struct cleave_gateway_status *status,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, status != NULL, error);
	if (status != NULL)
		told->status = *status;
}

static void
on_level(struct cleave_ask *ask, int rc, const struct cleave_cluster_level *level,
    const char *error, void *arg)
{
	struct told *told = arg;

	told_rc(told, ask, rc, level != NULL, error);
	if (level != NULL)
		told->level = *level;
}

/* The calls, each with arguments that are good. */

static int
start_create(struct told *told)
{
	const struct cleave_volume_options options = {
		.name = "v",
		.size_bytes = NUM_MIB(1),
		.service_class = CLEAVE_SERVICE_CAPACITY,
		.engine = "zstd",
		.has_level = true,
		.level = -2,
		.replicas = 2,
	};

	return cleave_volume_create(told->f->client, &told->ask, &options, on_volume, told);
}

static int
start_create_plain(struct told *told)
{
	const struct cleave_volume_options options = { .name = "v", .size_bytes = 4096 };

	return cleave_volume_create(told->f->client, &told->ask, &options, on_volume, told);
}

static int
start_delete(struct told *told)
{
	return cleave_volume_delete(told->f->client, &told->ask, "v",
	    CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SNAPSHOTS, on_done, told);
}

static int
start_list(struct told *told)
{
	return cleave_volume_list(told->f->client, &told->ask, "u", on_volumes, told);
}

static int
start_show(struct told *told)
{
	return cleave_volume_show(told->f->client, &told->ask, "v", on_volume, told);
}

static int
start_rename(struct told *told)
{
	return cleave_volume_rename(told->f->client, &told->ask, "v", "w", on_volume, told);
}

static int
start_set_size(struct told *told)
{
	return cleave_volume_set_size(told->f->client, &told->ask, "v", NUM_MIB(2),
	    CLEAVE_MANAGE_SHRINK, on_volume, told);
}

static int
start_check_size(struct told *told)
{
	return cleave_volume_set_size(told->f->client, &told->ask, "v", 4096,
	    CLEAVE_MANAGE_SHRINK | CLEAVE_MANAGE_CHECK, on_volume, told);
}

static int
start_snapshot(struct told *told)
{
	return cleave_snapshot_create(told->f->client, &told->ask, "v@s", on_snapshot, told);
}

static int
start_snapshots(struct told *told)
{
	return cleave_snapshot_list(told->f->client, &told->ask, "v", 7, on_snapshots, told);
}

static int
start_snapshot_delete(struct told *told)
{
	return cleave_snapshot_delete(told->f->client, &told->ask, "v@s", on_done, told);
}

static int
start_rollback(struct told *told)
{
	return cleave_snapshot_rollback(told->f->client, &told->ask, "v@s", CLEAVE_MANAGE_FORCE,
	    on_volume, told);
}

static int
start_clone(struct told *told)
{
	return cleave_snapshot_clone(told->f->client, &told->ask, "v@s", "c", on_volume, told);
}

static int
start_gateways(struct told *told)
{
	return cleave_gateway_list(told->f->client, &told->ask, on_gateways, told);
}

static int
start_nodes(struct told *told)
{
	return cleave_node_list(told->f->client, &told->ask, on_nodes, told);
}

static int
start_shards(struct told *told)
{
	return cleave_shard_list(told->f->client, &told->ask, on_shards, told);
}

static int
start_status(struct told *told)
{
	return cleave_gateway_status(told->f->client, &told->ask, on_status, told);
}

static int
start_level(struct told *told)
{
	return cleave_cluster_level(told->f->client, &told->ask, NULL, 0, on_level, told);
}

static int
start_upgrade(struct told *told)
{
	static const char *const without[] = { "3", "tcp://n:4" };

	return cleave_cluster_upgrade(told->f->client, &told->ask, without, 2, on_level, told);
}

#define GATEWAYS                                                                                         \
	"{\"member\":\"in\",\"lease_ms\":9000,\"gateways\":[{\"gateway\":\"00000000000000aa\",\"boot\":" \
	"\"00000000000000bb\",\"self\":true,\"ports\":[\"tcp://a:1\",\"tcp://a:2\"],\"shards_owned\":3," \
	"\"shards_share\":4,\"seen_for_ms\":5,\"lease_left_ms\":6}]}"
#define NODES                                                                                          \
	"{\"nodes\":[{\"id\":7,\"trouble\":\"refused\",\"address\":\"tcp://n:1\",\"domain\":\"rack\"," \
	"\"state\":\"down\",\"slots_total\":100,\"slots_free\":93,\"slot_bytes\":4096}]}"
#define STATUS(shards)                                                                             \
	"{\"gateway\":\"00000000000000aa\",\"boot\":\"00000000000000bb\",\"cluster\":"             \
	"\"00000000000000cc\",\"state\":\"serving\",\"uptime_ns\":9,\"shard_count\":64,"           \
	"\"volume_count\":2,\"ports\":[{\"sessions_open\":3},{\"sessions_open\":4}]," shards       \
	"\"gateway_count\":1}"
#define SHARDS                                                                                     \
	"\"shards\":[{\"shard\":1,\"port\":0,\"state\":\"serving\",\"epoch\":5,\"extents\":6,"     \
	"\"extents_lacking\":1,\"log_bytes\":7,\"run_bytes\":8,"                                   \
	"\"index_blocks\":2}],"

#define VOLUME(name)                                                                               \
	"{\"name\":\"" name "\",\"id\":3,\"size_bytes\":1048576,\"service_class\":\"capacity\","   \
	"\"engine\":\"zstd\",\"level\":-2,\"replicas\":2,\"segment_base\":9,\"segment_count\":1,"  \
	"\"attach\":4}"
#define SNAPSHOT(number)                                                                           \
	"{\"number\":" number ",\"name\":\"s\",\"volume\":\"v\",\"volume_id\":3,"                  \
	"\"size_bytes\":1048576,\"segment_base\":9,\"segment_count\":1,\"created_s\":1700000000,"  \
	"\"state\":\"live\",\"clones\":2}"

static const struct {
	int (*start)(struct told *told);
	const char *request, *answer;
	bool is_change;
} calls[] = {
	{ start_create,
	    "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":1048576,"
	    "\"service_class\":\"capacity\",\"engine\":\"zstd\",\"level\":-2,\"replicas\":2}",
	    "{\"volume\":" VOLUME("v") "}", true },
	{ start_create_plain,
	    "{\"op\":\"volume.create\",\"name\":\"v\",\"size_bytes\":4096,"
	    "\"service_class\":\"standard\"}",
	    "{\"volume\":" VOLUME("v") "}", true },
	{ start_delete,
	    "{\"op\":\"volume.delete\",\"name\":\"v\",\"force\":true,\"snapshots\":true}", "{}",
	    true },
	{ start_list, "{\"op\":\"volume.list\",\"after\":\"u\"}",
	    "{\"volumes\":[" VOLUME("v") "," VOLUME("w") "],\"more\":true}", false },
	{ start_show, "{\"op\":\"volume.show\",\"name\":\"v\"}", "{\"volume\":" VOLUME("v") "}",
	    false },
	{ start_rename, "{\"op\":\"volume.rename\",\"name\":\"v\",\"new\":\"w\"}",
	    "{\"volume\":" VOLUME("w") "}", true },
	{ start_set_size,
	    "{\"op\":\"volume.resize\",\"name\":\"v\",\"size_bytes\":2097152,\"shrink\":true}",
	    "{\"volume\":" VOLUME("v") "}", true },
	{ start_check_size,
	    "{\"op\":\"volume.resize\",\"name\":\"v\",\"size_bytes\":4096,\"shrink\":true,\"check\":true}",
	    "{\"volume\":" VOLUME("v") "}", false },
	{ start_snapshot, "{\"op\":\"snapshot.create\",\"name\":\"v@s\"}",
	    "{\"snapshot\":" SNAPSHOT("8") "}", true },
	{ start_snapshots, "{\"op\":\"snapshot.list\",\"name\":\"v\",\"after\":7}",
	    "{\"snapshots\":[" SNAPSHOT("8") "," SNAPSHOT("9") "],\"more\":false}", false },
	{ start_snapshot_delete, "{\"op\":\"snapshot.delete\",\"name\":\"v@s\"}", "{}", true },
	{ start_rollback, "{\"op\":\"snapshot.rollback\",\"name\":\"v@s\",\"force\":true}",
	    "{\"volume\":" VOLUME("v") "}", true },
	{ start_clone, "{\"op\":\"clone\",\"name\":\"v@s\",\"new\":\"c\"}",
	    "{\"volume\":" VOLUME("c") "}", true },
	{ start_gateways, "{\"op\":\"gateways\"}", GATEWAYS, false },
	{ start_nodes, "{\"op\":\"node.list\"}", NODES, false },
	{ start_shards, "{\"op\":\"status\"}", STATUS(SHARDS), false },
	{ start_status, "{\"op\":\"status\"}", STATUS(SHARDS), false },
	{ start_level, "{\"op\":\"cluster.level\"}",
	    "{\"from\":1,\"level\":1,\"next\":2,\"missing\":[\"a\",\"b\"]}", false },
	{ start_upgrade, "{\"op\":\"cluster.upgrade\",\"without\":[\"3\",\"tcp://n:4\"]}",
	    "{\"from\":1,\"level\":2,\"next\":0,\"missing\":[]}", true },
};

static struct told
told_of(struct fixture *f)
{
	return (struct told){ .f = f };
}

/* A call, start to end: the arguments of its handler. */
static int
run(struct told *told, int (*start)(struct told *told))
{
	int rc;

	told->f->is_answered = false;
	rc = start(told);
	cr_assert(rc == 0, "start: %d", rc);
	cr_assert(!told->f->is_answered, "a callback ran inside the call");
	fixture_run(told->f, fixture_is_answered);
	return told->f->rc;
}

CLIENT_BOTH(manage, each_call_is_its_request_and_takes_its_answer)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	for (size_t i = 0; i < NUM_COUNT(calls); i++) {
		f->fake.control_answer = calls[i].answer;
		cr_assert(run(&told, calls[i].start) == 0, "case %zu: %d %s", i, f->rc, f->error);
		cr_assert_str_eq(f->fake.control_last, calls[i].request, "case %zu: %s", i,
		    f->fake.control_last);
	}
	fixture_destroy(f);
}

Test(manage, a_volume_has_all_that_a_gateway_says)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);
	const struct cleave_volume_entry *volume = &told.volumes[0];

	fixture_client(f);
	f->fake.control_answer =
	    "{\"volume\":{\"name\":\"v\",\"id\":3,\"size_bytes\":1048576,"
	    "\"service_class\":\"capacity\",\"engine\":\"zstd\",\"level\":-2,\"replicas\":2,"
	    "\"segment_base\":9,\"segment_count\":1,\"attach\":4,\"origin\":12,"
	    "\"holder\":{\"client\":\"qemu[7]@host\",\"address\":\"10.0.0.1:5\","
	    "\"gateway\":\"tcp://10.0.0.9:7100\",\"since_s\":1700000000}}}";
	cr_assert(run(&told, start_show) == 0, "%s", f->error);
	cr_assert_str_eq(volume->info.name, "v");
	cr_assert(volume->info.id == 3);
	cr_assert(volume->info.size_bytes == NUM_MIB(1));
	cr_assert(volume->info.service_class == CLEAVE_SERVICE_CAPACITY);
	cr_assert_str_eq(volume->info.engine, "zstd");
	cr_assert(volume->info.level == -2);
	cr_assert(volume->info.replicas == 2);
	cr_assert(volume->info.segment_base == 9);
	cr_assert(volume->info.segment_count == 1);
	cr_assert(volume->info.attach == 4);
	cr_assert(!volume->info.is_read_only);
	cr_assert(volume->origin == 12);
	cr_assert(volume->has_writer);
	cr_assert_str_eq(volume->writer.client, "qemu[7]@host");
	cr_assert_str_eq(volume->writer.address, "10.0.0.1:5");
	cr_assert(volume->writer.since_s == 1700000000);
	/* And of one that nobody writes nothing is left. */
	f->fake.control_answer = "{\"volume\":" VOLUME("v") "}";
	cr_assert(run(&told, start_show) == 0, "%s", f->error);
	cr_assert(!volume->has_writer && volume->origin == 0 && volume->writer.client[0] == '\0');
	fixture_destroy(f);
}

Test(manage, levels_are_told_with_who_does_not_speak_them)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	f->fake.control_answer =
	    "{\"from\":1,\"level\":1,\"next\":2,\"missing\":[\"gateway 2\",\"node 3\"]}";
	cr_assert(run(&told, start_level) == 0, "%s", f->error);
	cr_assert(told.level.from == 1 && told.level.level == 1 && told.level.next == 2);
	cr_assert(told.level.missing_count == 2);
	cr_assert_str_eq(told.level.missing, "gateway 2\nnode 3");
	f->fake.control_answer = "{\"from\":1,\"level\":1,\"next\":2,\"missing\":[7]}";
	cr_assert(run(&told, start_level) == -EBADMSG, "%d", f->rc);
	fixture_destroy(f);
}

/* A gateway of level 1 tells none. */
Test(manage, levels_that_are_not_told_are_the_first)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	f->fake.control_answer = GATEWAYS;
	cr_assert(run(&told, start_gateways) == 0, "%s", f->error);
	cr_assert(told.gateway.level_min == 1 && told.gateway.level_max == 1);
	f->fake.control_answer = NODES;
	cr_assert(run(&told, start_nodes) == 0, "%s", f->error);
	cr_assert(told.node.level == 0);
	fixture_destroy(f);
}

/* The answer's text has members that no struct has: newer gateways may say more. */
Test(manage, an_answer_is_there_as_it_came)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);
	const char *answer = "{\"volume\":" VOLUME("v") ",\"mood\":\"good\"}";

	fixture_client(f);
	f->fake.control_answer = answer;
	cr_assert(run(&told, start_show) == 0, "%s", f->error);
	cr_assert_str_eq(told.answer, answer);
	f->fake.control_answer = "{\"volume\":7}";
	cr_assert(run(&told, start_show) == -EBADMSG);
	cr_assert_str_eq(told.answer, "{\"volume\":7}", "also when it cannot be read");
	f->fake.control_answer = NULL;
	cr_assert(run(&told, start_rename) == -ENOENT);
	cr_assert_str_eq(told.answer, "{\"error\":\"no such volume: v\"}", "%s", told.answer);
	fixture_destroy(f);
}

Test(manage, lists_come_in_pages)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	f->fake.control_answer = "{\"volumes\":[" VOLUME("v") "," VOLUME("w") "],\"more\":true}";
	cr_assert(run(&told, start_list) == 0, "%s", f->error);
	cr_assert(told.count == 2 && told.is_more);
	cr_assert_str_eq(told.volumes[1].info.name, "w");
	f->fake.control_answer = "{\"volumes\":[],\"more\":false}";
	cr_assert(run(&told, start_list) == 0, "%s", f->error);
	cr_assert(told.count == 0 && !told.is_more);
	f->fake.control_answer = "{\"snapshots\":[" SNAPSHOT("8") "," SNAPSHOT(
	    "11") "],\"more\":true}";
	cr_assert(run(&told, start_snapshots) == 0, "%s", f->error);
	cr_assert(told.count == 2 && told.is_more);
	cr_assert_str_eq(told.snapshots[1].name, "v@s");
	cr_assert(told.snapshots[1].number == 11);
	cr_assert(told.snapshots[1].volume_id == 3);
	cr_assert(told.snapshots[1].size_bytes == NUM_MIB(1));
	cr_assert(told.snapshots[1].created_s == 1700000000);
	cr_assert(told.snapshots[1].clone_count == 2);
	fixture_destroy(f);
}

Test(manage, a_cluster_is_told_in_structs)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	f->fake.control_answer = GATEWAYS;
	cr_assert(run(&told, start_gateways) == 0, "%s", f->error);
	cr_assert(told.count == 1 && told.gateway.id == 0xaa && told.gateway.boot_id == 0xbb);
	cr_assert(told.gateway.is_asked && told.gateway.port_count == 2);
	cr_assert_str_eq(told.gateway.address, "tcp://a:1");
	cr_assert(told.gateway.shards_owned == 3 && told.gateway.shards_share == 4);
	cr_assert(told.gateway.seen_for_ms == 5 && told.gateway.lease_left_ms == 6);
	f->fake.control_answer = NODES;
	cr_assert(run(&told, start_nodes) == 0, "%s", f->error);
	cr_assert(told.count == 1 && told.node.id == 7);
	cr_assert_str_eq(told.node.address, "tcp://n:1");
	cr_assert_str_eq(told.node.domain, "rack");
	cr_assert_str_eq(told.node.state, "down");
	cr_assert_str_eq(told.node.trouble, "refused");
	cr_assert(told.node.slots_total == 100 && told.node.slots_free == 93);
	cr_assert(told.node.slot_bytes == 4096);
	f->fake.control_answer = STATUS(SHARDS);
	cr_assert(run(&told, start_shards) == 0, "%s", f->error);
	cr_assert(told.count == 1 && told.shard.shard == 1 && told.shard.port == 0);
	cr_assert_str_eq(told.shard.state, "serving");
	cr_assert(told.shard.epoch == 5 && told.shard.extents == 6);
	cr_assert(told.shard.extents_lacking == 1 && told.shard.log_bytes == 7);
	cr_assert(told.shard.run_bytes == 8 && told.shard.index_blocks == 2);
	f->fake.control_answer = STATUS("");
	cr_assert(run(&told, start_shards) == 0 && told.count == 0, "too many for an answer");
	cr_assert(run(&told, start_status) == 0, "%s", f->error);
	cr_assert(told.status.id == 0xaa && told.status.boot_id == 0xbb);
	cr_assert(told.status.cluster_id == 0xcc && told.status.uptime_ns == 9);
	cr_assert_str_eq(told.status.state, "serving");
	cr_assert(told.status.port_count == 2 && told.status.sessions_open == 7);
	cr_assert(told.status.shard_count == 64 && told.status.volume_count == 2);
	cr_assert(told.status.gateway_count == 1);
	fixture_destroy(f);
}

CLIENT_BOTH(manage, a_volume_is_made_shown_changed_and_deleted)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	cr_assert(run(&told, start_create) == 0, "%s", f->error);
	cr_assert(told.volumes[0].info.size_bytes == NUM_MIB(1));
	cr_assert(run(&told, start_create) == -EEXIST);
	cr_assert_str_eq(f->error, "the volume exists: v");
	cr_assert(run(&told, start_set_size) == 0, "%s", f->error);
	cr_assert(told.volumes[0].info.size_bytes == NUM_MIB(2));
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	cr_assert(run(&told, start_show) == 0, "%s", f->error);
	cr_assert(told.volumes[0].has_writer);
	cr_assert_str_eq(told.volumes[0].writer.client, "somebody");
	fixture_close(f);
	cr_assert(run(&told, start_delete) == 0, "%s", f->error);
	cr_assert(run(&told, start_show) == -ENOENT);
	cr_assert_str_eq(f->error, "no such volume: v");
	fixture_destroy(f);
}

CLIENT_BOTH(manage, an_error_comes_with_its_text)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	for (size_t i = 0; i < NUM_COUNT(calls); i++) {
		f->fake.control_status_count = 1;
		f->fake.control_status_rc = -ENOTEMPTY;
		cr_assert(run(&told, calls[i].start) == -ENOTEMPTY, "case %zu: %d", i, f->rc);
		cr_assert_str_eq(f->error, "as the test said");
	}
	fixture_destroy(f);
}

CLIENT_BOTH(manage, a_change_is_not_sent_twice_when_its_connection_is_lost)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	for (size_t i = 0; i < NUM_COUNT(calls); i++) {
		uint32_t before = f->fake.control_count;

		f->fake.control_answer = calls[i].answer;
		f->fake.control_drop_count = 1;
		cr_assert(run(&told, calls[i].start) == (calls[i].is_change ? -ECONNRESET : 0),
		    "case %zu: %d", i, f->rc);
		cr_assert(f->fake.control_count - before == (calls[i].is_change ? 1 : 2),
		    "case %zu", i);
	}
	fixture_destroy(f);
}

static const struct {
	int (*start)(struct told *told);
	const char *answer, *named;
} broken[] = {
	{ start_show, "", "not a JSON object" },
	{ start_show, "[]", "not a JSON object" },
	{ start_show, "{\"volume\":", "not a JSON object" },
	{ start_delete, "7", "not a JSON object" },
	{ start_show, "{}", "volume" },
	{ start_show, "{\"volume\":[]}", "volume" },
	{ start_show, "{\"volume\":{\"name\":7}}", "name" },
	{ start_show,
	    "{\"volume\":{\"name\":\"v\",\"id\":3,\"size_bytes\":1048576,"
	    "\"service_class\":\"capacity\",\"engine\":\"zstd\",\"level\":1,\"replicas\":2,"
	    "\"segment_base\":9,\"segment_count\":1}}",
	    "attach" },
	{ start_show,
	    "{\"volume\":{\"name\":\"v\",\"id\":3,\"size_bytes\":1048576,"
	    "\"service_class\":\"capacity\",\"engine\":\"zstd\",\"level\":1,\"replicas\":2,"
	    "\"segment_base\":9,\"segment_count\":1,\"attach\":1,\"origin\":-1}}",
	    "origin" },
	{ start_show,
	    "{\"volume\":{\"name\":\"v\",\"id\":3,\"size_bytes\":1048576,"
	    "\"service_class\":\"capacity\",\"engine\":\"zstd\",\"level\":1,\"replicas\":2,"
	    "\"segment_base\":9,\"segment_count\":1,\"attach\":1,\"holder\":7}}",
	    "since_s" },
	{ start_list, "{\"volumes\":{}}", "volumes" },
	{ start_list, "{\"volumes\":[],\"more\":true}", "more" },
	{ start_list, "{\"volumes\":[" VOLUME("v") ",7]}", "volume" },
	{ start_list, "{\"volumes\":[" VOLUME("v") "," VOLUME("v") "]}", "volumes" },
	{ start_list, "{\"volumes\":[" VOLUME("w") "," VOLUME("v") "]}", "volumes" },
	{ start_snapshot, "{\"snapshot\":7}", "name" },
	{ start_snapshot, "{\"snapshot\":" SNAPSHOT("0") "}", "number" },
	{ start_snapshot, "{\"snapshot\":" SNAPSHOT("-1") "}", "number" },
	{ start_snapshots, "{\"snapshots\":[" SNAPSHOT("8") "," SNAPSHOT("8") "]}", "snapshots" },
	{ start_gateways, "{}", "gateways" },
	{ start_gateways, "{\"gateways\":[{\"ports\":[],\"gateway\":\"x\"}]}", "gateway" },
	{ start_gateways, "{\"gateways\":[{\"gateway\":\"00000000000000aa\"}]}", "ports" },
	{ start_nodes, "{\"nodes\":7}", "nodes" },
	{ start_nodes, "{\"nodes\":[7]}", "id" },
	{ start_shards, "{\"shards\":{}}", "shards" },
	{ start_shards, "{\"shards\":[{\"shard\":-1}]}", "shard" },
	{ start_status, "{}", "ports" },
	{ start_status, "{\"ports\":[7]}", "gateway" },
};

Test(manage, an_answer_that_cannot_be_read_is_refused)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	for (size_t i = 0; i < NUM_COUNT(broken); i++) {
		f->fake.control_answer = broken[i].answer;
		cr_assert(run(&told, broken[i].start) == -EBADMSG, "case %zu: %d", i, f->rc);
		cr_assert(strstr(f->error, broken[i].named) != NULL, "case %zu: %s", i, f->error);
	}
	f->fake.control_answer = NULL;
	cr_assert(run(&told, start_create) == 0, "the client goes on: %s", f->error);
	fixture_destroy(f);
}

Test(manage, what_can_never_be_good_is_refused_at_once)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);
	struct cleave_volume_options options = { .name = "v", .size_bytes = 4096 };
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 2];

	fixture_client(f);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
#define CREATE cleave_volume_create(f->client, &told.ask, &options, on_volume, &told)
	options.size_bytes = 0;
	cr_assert(CREATE == -EINVAL);
	options.size_bytes = 4097;
	cr_assert(CREATE == -EINVAL);
	options.size_bytes = CLEAVE_VOLUME_BYTES_MAX + 4096;
	cr_assert(CREATE == -ERANGE);
	options.size_bytes = 4096;
	options.service_class = (enum cleave_service_class)3;
	cr_assert(CREATE == -EINVAL);
	options.service_class = CLEAVE_SERVICE_STANDARD;
	options.engine = "\xff";
	cr_assert(CREATE == -EINVAL);
	options.engine = NULL;
	options.name = name;
	cr_assert(CREATE == -EINVAL);
	options.name = "";
	cr_assert(CREATE == -EINVAL);
	options.name = "v\xc3";
	cr_assert(CREATE == -EINVAL);
#undef CREATE
	cr_assert(cleave_volume_delete(f->client, &told.ask, "v", CLEAVE_MANAGE_SHRINK, on_done,
		      &told) == -EINVAL);
	cr_assert(cleave_volume_list(f->client, &told.ask, "", on_volumes, &told) == -EINVAL);
	cr_assert(cleave_volume_show(f->client, &told.ask, name, on_volume, &told) == -EINVAL);
	cr_assert(
	    cleave_volume_rename(f->client, &told.ask, "v", "a b", on_volume, &told) == -EINVAL);
	cr_assert(cleave_volume_set_size(f->client, &told.ask, "v", 4096, 16, on_volume, &told) ==
	    -EINVAL);
	cr_assert(
	    cleave_volume_set_size(f->client, &told.ask, "v", 1, 0, on_volume, &told) == -EINVAL);
	cr_assert(cleave_snapshot_create(f->client, &told.ask, "", on_snapshot, &told) == -EINVAL);
	cr_assert(cleave_snapshot_list(f->client, &told.ask, NULL, UINT64_MAX, on_snapshots,
		      &told) == -EINVAL);
	cr_assert(cleave_snapshot_delete(f->client, &told.ask, "\n", on_done, &told) == -EINVAL);
	cr_assert(cleave_snapshot_rollback(f->client, &told.ask, "v@s", CLEAVE_MANAGE_SNAPSHOTS,
		      on_volume, &told) == -EINVAL);
	cr_assert(
	    cleave_snapshot_clone(f->client, &told.ask, "v@s", name, on_volume, &told) == -EINVAL);
	cr_assert(
	    cleave_snapshot_clone(f->client, &told.ask, "", "c", on_volume, &told) == -EINVAL);
	cr_assert(run(&told, start_create) == 0, "%s", f->error);
	cr_assert(f->fake.control_count == 1, "none of them was sent");
	fixture_destroy(f);
}

/* Calls end with their client: no handler, and nothing is left behind. */
Test(manage, a_client_that_ends_takes_its_calls_along)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	f->fake.control_is_holding = true;
	f->is_answered = false;
	cr_assert(start_show(&told) == 0);
	cleave_client_destroy(f->client);
	f->client = NULL;
	cr_assert(!f->is_answered);
	fixture_destroy(f);
}

/* @call ends well, or with an error that a lack of memory may be; true: nothing failed. */
static bool
run_without_memory(struct told *told, size_t call)
{
	struct fixture *f = told->f;
	bool has_failed;
	int rc;

	f->is_answered = false;
	f->rc = 0;
	rc = calls[call].start(told);
	if (rc == 0)
		fixture_run(f, fixture_is_answered);
	has_failed = rc != 0 || f->rc != 0;
	cr_assert(rc == 0 || rc == -ENOMEM, "case %zu: %d", call, rc);
	/* jansson does not always say why it cannot read. */
	cr_assert(f->rc == 0 || f->rc == -ENOMEM || f->rc == -EBADMSG, "case %zu: %d", call, f->rc);
	return !has_failed;
}

Test(manage, the_nth_allocation_fails)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);
	struct told told = told_of(f);

	fixture_client(f);
	json_memory_begin(); /* the gateway's answer is a text here */
	for (size_t i = 0; i < NUM_COUNT(calls); i++) {
		uint32_t nth = 1;

		f->fake.control_answer = calls[i].answer;
		do {
			alloc_fail_at(ALLOC_CLIENT, nth++);
			(void)run_without_memory(&told, i);
			cr_assert(f->rc == 0 || f->error[0] != '\0', "case %zu", i);
		} while (alloc_has_failed(ALLOC_CLIENT));
		cr_assert(nth > 5, "case %zu: it allocates", i);
		alloc_fail_at(ALLOC_CLIENT, 0);
		cr_assert(run_without_memory(&told, i), "case %zu: %s", i, f->error);
	}
	json_memory_end();
	fixture_destroy(f);
}
