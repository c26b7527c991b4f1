/* SPDX-License-Identifier: Apache-2.0 */
/* test_join_plan.c -- what comes next for a disk that is to become a node: each row of the table */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "storage-node/join/join_plan.h"

#define CLUSTER 0xc1ea7e0000000001u
#define OURS "11111111-1111-1111-1111-111111111111"
#define THEIRS "22222222-2222-2222-2222-222222222222"

static struct join_disk
disk_of(enum format_content content, uint64_t cluster_id, uint32_t node_id)
{
	struct join_disk disk = { .content = content,
		.format = { .cluster_id = cluster_id, .node_id = node_id } };

	if (content == FORMAT_DISK)
		(void)snprintf(disk.uuid, sizeof(disk.uuid), "%s", OURS);
	return disk;
}

static void
know(struct join_cluster *cluster, uint32_t id, const char *member, const char *disk)
{
	struct join_node *node = &cluster->nodes[cluster->count++];

	node->id = id;
	(void)snprintf(node->member, sizeof(node->member), "%s", member);
	(void)snprintf(node->disk, sizeof(node->disk), "%s", disk);
}

static void
expect(const struct join_disk *disk, const struct join_cluster *cluster, enum join_step step,
    uint32_t node_id)
{
	const struct join_node *node = NULL;

	cr_assert_eq(join_plan(disk, cluster, &node), step);
	cr_assert_eq(node == NULL ? 0 : node->id, node_id);
}

Test(join_plan, what_is_no_disk_of_this_cluster_is_formatted_or_refused_there)
{
	struct join_cluster cluster = { .cluster_id = CLUSTER };
	struct join_disk disk = disk_of(FORMAT_EMPTY, 0, 0);

	expect(&disk, &cluster, JOIN_FORMAT, 0);
	disk = disk_of(FORMAT_OTHER, 0, 0);
	expect(&disk, &cluster, JOIN_FORMAT, 0);
	/* Another cluster's node has the number of one here: that says nothing. */
	know(&cluster, 4, "in", THEIRS);
	disk = disk_of(FORMAT_DISK, CLUSTER + 1, 4);
	expect(&disk, &cluster, JOIN_FORMAT, 0);
}

Test(join_plan, a_disk_that_nobody_knows_is_added)
{
	struct join_cluster cluster = { .cluster_id = CLUSTER };
	struct join_disk disk = disk_of(FORMAT_DISK, CLUSTER, 4);

	expect(&disk, &cluster, JOIN_ADD, 0);
	know(&cluster, 5, "in", THEIRS);
	expect(&disk, &cluster, JOIN_ADD, 0);
}

Test(join_plan, a_number_and_its_disk_are_a_member_or_have_left)
{
	static const struct {
		const char *member;
		enum join_step step;
	} rows[] = { { "in", JOIN_MEMBER }, { "draining", JOIN_MEMBER }, { "out", JOIN_LEFT },
		{ "lost", JOIN_LEFT }, { "what a later release calls it", JOIN_LEFT } };
	struct join_disk disk = disk_of(FORMAT_DISK, CLUSTER, 4);

	for (size_t i = 0; i < NUM_COUNT(rows); i++) {
		struct join_cluster cluster = { .cluster_id = CLUSTER };

		know(&cluster, 4, rows[i].member, OURS);
		expect(&disk, &cluster, rows[i].step, 4);
		cluster.nodes[0].disk[0] = '\0';
		expect(&disk, &cluster, rows[i].step, 4);
	}
}

Test(join_plan, another_disk_has_the_number_or_another_number_the_disk)
{
	struct join_disk disk = disk_of(FORMAT_DISK, CLUSTER, 4);
	struct join_cluster cluster = { .cluster_id = CLUSTER };

	know(&cluster, 4, "in", THEIRS);
	expect(&disk, &cluster, JOIN_TAKEN, 4);
	cluster.count = 0;
	know(&cluster, 7, "draining", OURS);
	expect(&disk, &cluster, JOIN_TAKEN, 7);
	cluster.count = 0;
	know(&cluster, 7, "lost", OURS);
	expect(&disk, &cluster, JOIN_LEFT, 7);
	/* Both right: that counts, whatever else is told. */
	know(&cluster, 4, "in", OURS);
	expect(&disk, &cluster, JOIN_MEMBER, 4);
}

Test(join_plan, an_answer_is_read_or_refused_whole)
{
	static const char *const wrong[] = { "", "[]", "{}", "{\"cluster_id\":\"0\",\"nodes\":[]}",
		"{\"cluster_id\":\"1\"}", "{\"cluster_id\":\"1\",\"nodes\":{}}",
		"{\"cluster_id\":\"1\",\"nodes\":[{}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[{\"id\":0,\"member\":\"in\",\"address\":\"a\","
		"\"disk\":\"d\"}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[{\"id\":1,\"member\":\"in\",\"address\":\"a\"}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[{\"id\":1,\"member\":\"a member of a long name\","
		"\"address\":\"a\",\"disk\":\"d\"}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[1,2,3,4,5,6,7,8,9]}" };
	struct join_cluster cluster = { 0 };

	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_eq(join_plan_read(wrong[i], &cluster), -EPROTO, "%s", wrong[i]);
	cr_assert_eq(cluster.cluster_id, 0, "untouched");
	cr_assert_eq(join_plan_read("{\"cluster_id\":\"c1ea7e0000000001\",\"later\":1,\"nodes\":[{"
				    "\"id\":4,\"member\":\"in\",\"address\":\"tcp://a:1\","
				    "\"disk\":\"" OURS "\"}]}",
			 &cluster),
	    0);
	cr_assert_eq(cluster.cluster_id, CLUSTER);
	cr_assert_eq(cluster.count, 1);
	cr_assert_eq(cluster.nodes[0].id, 4);
	cr_assert_str_eq(cluster.nodes[0].disk, OURS);
}

/* A node in an answer to node.list. */
#define NODE(member, total, slot_bytes)                                                            \
	"{\"id\":1,\"member\":\"" member "\",\"slots_total\":" total ",\"slot_bytes\":" slot_bytes \
	"}"

static uint64_t
slots_of(const char *nodes)
{
	char reply[1024];
	uint64_t slot_bytes = 1;

	(void)snprintf(reply, sizeof(reply), "{\"nodes\":[%s],\"later\":1}", nodes);
	cr_assert_eq(join_plan_read_slots(reply, &slot_bytes), 0, "%s", reply);
	return slot_bytes;
}

Test(join_plan, the_clusters_slots_are_those_that_most_bytes_are_in)
{
	cr_assert_eq(slots_of(NODE("in", "100", "16777216")), NUM_MIB(16));
	/* A large node outweighs two small ones. */
	cr_assert_eq(slots_of(NODE("in", "9", "1048576") "," NODE("in", "1000",
			 "16777216") "," NODE("in", "9", "1048576")),
	    NUM_MIB(16));
	/* Three that were not heard of when the cluster was made are members, too. */
	cr_assert_eq(slots_of(NODE("", "90", "1048576") "," NODE("", "90", "1048576") "," NODE("in",
			 "2", "67108864")),
	    NUM_MIB(1));
	cr_assert_eq(slots_of(NODE("in", "4", "4194304") "," NODE("in", "1", "16777216")),
	    NUM_MIB(4));
	cr_assert_eq(slots_of(NODE("in", "1", "16777216") "," NODE("in", "4", "4194304")),
	    NUM_MIB(4));
	cr_assert_eq(slots_of(NODE("in", "4", "1048576") "," NODE("draining", "1000", "16777216")),
	    NUM_MIB(1));
}

Test(join_plan, where_no_node_tells_its_slots_they_are_not_known)
{
	cr_assert_eq(slots_of(""), 0);
	cr_assert_eq(slots_of("{}"), 0);
	cr_assert_eq(slots_of("1,null"), 0);
	cr_assert_eq(slots_of("{\"id\":1,\"slots_total\":4}"), 0);
	cr_assert_eq(slots_of(NODE("in", "0", "0")), 0, "never reached");
	cr_assert_eq(slots_of(NODE("in", "100", "\"1M\"")), 0);
	/* None that a disk could be formatted with. */
	cr_assert_eq(slots_of(NODE("in", "100", "134217728")), 0);
	cr_assert_eq(slots_of(NODE("in", "100", "1048577")), 0);
	cr_assert_eq(slots_of(NODE("in", "9223372036854775807", "1048576")), 0);
}

Test(join_plan, what_is_no_list_of_nodes_is_refused)
{
	static const char *const wrong[] = { "", "[]", "{}", "{\"nodes\":{}}", "{\"nodes\":[" };
	uint64_t slot_bytes = 7;

	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_eq(join_plan_read_slots(wrong[i], &slot_bytes), -EPROTO, "%s", wrong[i]);
	cr_assert_eq(slot_bytes, 7, "untouched");
}

Test(join_plan, a_node_that_a_gateway_reaches_is_known)
{
	static const char reply[] =
	    "{\"nodes\":[{\"id\":3,\"state\":\"up\"},{\"id\":4,\"state\":\"connecting\"},{\"id\":5}]}";

	cr_assert_eq(join_plan_read_up(reply, 3), 1);
	cr_assert_eq(join_plan_read_up(reply, 4), 0);
	cr_assert_eq(join_plan_read_up(reply, 5), 0, "it says nothing");
	cr_assert_eq(join_plan_read_up(reply, 6), 0, "nobody knows it");
	cr_assert_eq(join_plan_read_up("{}", 3), -EPROTO);
	cr_assert_eq(join_plan_read_up("{", 3), -EPROTO);
}
