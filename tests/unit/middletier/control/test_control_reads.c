/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_reads.c -- volumes that may be read past their gateway; their clients' LEASE */
#include <errno.h>

#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/unreached.h"
#include "middletier/common/metric.h"
#include "middletier/common/port.h"
#include "unit/control_rig.h"

static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_READS);
}

static void
setup_before(void)
{
	rig_setup_at(CLEAVE_LEVEL_READS - 1);
}

TestSuite(reads, .init = setup, .fini = rig_teardown);

static const char request[] = "{'op':'volume.create','name':'v','size_bytes':8192,'reads':'%s'}";

static enum mt_reads
reads_of(const char *name)
{
	return mt_volumes_by_name(&sg.gateway->volumes, name)->volume.reads;
}

Test(reads, users_are_offered_all_three)
{
	refused(ask(-EINVAL, request, "somehow"), "must be gateway, hot or direct");
	done(ask(0, request, "direct"));
	cr_assert_eq(reads_of("v"), MT_READS_DIRECT);
	done(ask(0, "{'op':'volume.reads','name':'v','reads':'gateway'}"));
	cr_assert_eq(reads_of("v"), MT_READS_GATEWAY);
	done(ask(0, "{'op':'volume.reads','name':'v','reads':'hot'}"));
	cr_assert_eq(reads_of("v"), MT_READS_HOT);
	done(ask(0, "{'op':'volume.reads','name':'v','reads':'direct'}"));
	cr_assert_eq(reads_of("v"), MT_READS_DIRECT);
}

Test(reads, a_cluster_of_a_level_before_has_none, .init = setup_before)
{
	refused(ask(-ENOTSUP, request, "direct"), "has no read leases");
	done(ask(0, request, "gateway"));
}

/* The address of the one node of volume 1's. */
static void
expect_node_at(const char *address)
{
	json_t *answer = ask(0, "{'op':'volume.nodes','id':1}");
	const json_t *nodes = json_object_get(answer, "nodes");

	cr_assert_eq(json_array_size(nodes), 1u);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(nodes, 0), "address")),
	    address);
	json_decref(answer);
}

/* A node may be behind a router, or on a network of its own. */
Test(reads, clients_are_told_the_address_that_a_node_advertises)
{
	struct mt_link *link = &sg.gateway->ports[0].links[0];

	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	link->is_direct = true;
	link->node_id = 7;
	expect_node_at(link->config.address);
	(void)snprintf(link->advertise, sizeof(link->advertise), "tcp://node7.example:7201");
	expect_node_at("tcp://node7.example:7201");
}

static json_int_t
hot_pages_told(void)
{
	json_t *answer = ask(0, "{'op':'volume.nodes','id':1}");
	json_int_t pages = json_integer_value(json_object_get(answer, "hot_pages"));

	json_decref(answer);
	return pages;
}

Test(reads, who_asks_is_told_whether_hot_blocks_can_be_read)
{
	struct mt_gateway_options *options = &sg.gateway->options;
	struct split_key *key = (struct split_key *)(void *)options; /* is looked at by nobody */

	done(ask(0, request, "hot"));
	options->hot_bytes = options->port_count * NUM_MIB(1);
	cr_assert_eq(hot_pages_told(), 0, "it is everybody's");
	options->hot_bytes = options->port_count * NUM_MIB(2);
	cr_assert_eq(hot_pages_told(), 1);
	options->hot_bytes = options->port_count * NUM_MIB(16);
	cr_assert_eq(hot_pages_told(), 12);
	options->key = key;
	cr_assert_eq(hot_pages_told(), 0, "connections have keys");
	options->security = SPLIT_SECURITY_OPEN;
	cr_assert_eq(hot_pages_told(), 12);
	options->key = NULL;
	options->security = SPLIT_SECURITY_DEFAULT;
}

/* Nodes that take no clients are nobody's business. */
Test(reads, who_opens_a_volume_is_told_of_nodes_that_take_clients)
{
	struct mt_link *link = &sg.gateway->ports[0].links[0];
	json_t *answer;

	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	answer = ask(0, "{'op':'volume.nodes','id':1}");
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 0u);
	json_decref(answer);
	link->is_direct = true;
	link->node_id = 7;
	answer = ask(0, "{'op':'volume.nodes','id':1}");
	cr_assert_eq(json_array_size(json_object_get(answer, "nodes")), 1u);
	cr_assert_eq(json_integer_value(
			 json_object_get(json_array_get(json_object_get(answer, "nodes"), 0),
			     "id")),
	    7);
	cr_assert(json_is_false(
	    json_object_get(json_array_get(json_object_get(answer, "nodes"), 0), "keyed")));
	json_decref(answer);
	link->ticket.key.number = 3;
	answer = ask(0, "{'op':'volume.nodes','id':1}");
	cr_assert(json_is_true(
	    json_object_get(json_array_get(json_object_get(answer, "nodes"), 0), "keyed")));
	json_decref(answer);
	refused(ask(-ENOENT, "{'op':'volume.nodes','id':99}"), "there is no volume 99");
}

static bool
is_unreached(uint32_t node_id)
{
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		const struct mt_unreached_word *word = &sg.gateway->unreached.words[i];

		if (word->node_id != node_id)
			continue;
		cr_assert_eq(word->volume_id, 1);
		cr_assert_eq(word->attach,
		    mt_volumes_by_name(&sg.gateway->volumes, "v")->volume.attach);
		cr_assert_gt(strlen(word->address), 0);
		return true;
	}
	return false;
}

/* A node that this gateway does not reach either is nobody's news. */
Test(reads, a_client_says_which_nodes_it_does_not_reach)
{
	struct mt_link *link = &sg.gateway->ports[0].links[0];
	uint32_t state = link->sm.state;

	done(ask(0, "{'op':'volume.create','name':'v','size_bytes':8192}"));
	link->is_direct = true;
	link->node_id = 7;
	done(ask(0, "{'op':'volume.nodes','id':1,'unreached':[7]}"));
	cr_assert_not(is_unreached(7));
	link->sm.state = MT_LINK_UP;
	done(ask(0, "{'op':'volume.nodes','id':1,'unreached':[8,'x',-1,0,7]}"));
	cr_assert_not(is_unreached(8));
	cr_assert(is_unreached(7));
	/* Asked without it: that is over. */
	done(ask(0, "{'op':'volume.nodes','id':1}"));
	link->sm.state = state;
	cr_assert_not(is_unreached(7));
	refused(ask(-EINVAL, "{'op':'volume.nodes','id':1,'unreached':7}"), "unreached");
}

static struct wire_header
lease_request(bool is_return)
{
	struct wire_header header;

	wire_lease_encode(&header, &(struct wire_lease){ .is_return = is_return });
	return header;
}

/* On a connection without a volume. */
Test(reads, who_has_nothing_is_told_so)
{
	struct wire_hello hello = { .level = CLEAVE_LEVEL_READS, .role = WIRE_ROLE_CLIENT };
	struct sg_qp other;

	sg_connect(&sg, &other, &hello);
	cr_assert_eq(sg_wait_open(&other), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct wire_header header = lease_request(i == 1);
		struct wire_lease answer;
		const char *field;

		sg_send(&other, &header, NULL, 0);
		cr_assert(sg_wait_replies(&other, i + 1));
		cr_assert_eq(wire_lease_decode(&other.replies[i].header, &answer, &field), 0, "%s",
		    field);
		cr_assert(answer.is_reply);
		cr_assert_eq(answer.is_return, i == 1);
		cr_assert_eq(answer.payload_bytes, WIRE_LEASE_HEAD_BYTES);
	}
	sg_close(&other);
}

/* A session of the volume, which is attached; what its client says of reads at nodes with a LEASE. */
static void
tell(const struct wire_lease *lease)
{
	struct wire_hello hello = sg_hello(1, 0xa, 0, 1);
	struct wire_header header;
	struct sg_qp session;

	hello.level = CLEAVE_LEVEL_READS;
	hello.attach = mt_volumes_by_name(&sg.gateway->volumes, "v")->volume.attach;
	sg_connect(&sg, &session, &hello);
	cr_assert_eq(sg_wait_open(&session), 0);
	wire_lease_encode(&header, lease);
	sg_send(&session, &header, NULL, 0);
	cr_assert(sg_wait_replies(&session, 1));
	sg_close(&session);
}

Test(reads, a_client_tells_what_it_has_read_at_nodes)
{
	const struct wire_lease lease = { .read_count = 3,
		.read_bytes = 12288,
		.suspect = extent_id_pack(&(struct extent_id){ CLEAVE_SHARDS_MAX - 1, 1, 1 }),
		.suspect_node = 1 }; /* of no shard that is served here */
	const uint64_t *metrics = sg.gateway->ports[0].metrics;

	done(ask(0, request, "direct"));
	done(ask(0, "{'op':'volume.attach','name':'v','session':'000000000000000a'}"));
	tell(&lease);
	cr_assert_eq(metrics[MT_METRIC_direct_reads], 3);
	cr_assert_eq(metrics[MT_METRIC_direct_read_bytes], 12288);
	cr_assert_eq(metrics[MT_METRIC_replica_read_errors], 0);
	done(ask(0, "{'op':'volume.reads','name':'v','reads':'gateway','force':true}"));
	done(ask(0, "{'op':'volume.attach','name':'v','session':'000000000000000a'}"));
	tell(&lease);
	cr_assert_eq(metrics[MT_METRIC_direct_reads], 3, "who does not read so is not heard");
}

Test(reads, a_client_tells_what_it_has_read_of_hot_blocks)
{
	const struct wire_lease lease = { .wants_hot = true, .peeked_count = 5 };
	const uint64_t *metrics = sg.gateway->ports[0].metrics;

	done(ask(0, request, "hot"));
	done(ask(0, "{'op':'volume.attach','name':'v','session':'000000000000000a'}"));
	tell(&lease);
	cr_assert_eq(metrics[MT_METRIC_hot_peeks], 5);
	done(ask(0, "{'op':'volume.reads','name':'v','reads':'direct','force':true}"));
	done(ask(0, "{'op':'volume.attach','name':'v','session':'000000000000000a'}"));
	tell(&lease);
	cr_assert_eq(metrics[MT_METRIC_hot_peeks], 5, "who does not read so is not heard");
}

Test(reads, a_connection_of_a_level_before_knows_no_lease)
{
	struct wire_hello hello = { .level = 1, .role = WIRE_ROLE_CLIENT };
	struct wire_header header = lease_request(false);
	struct sg_qp other;

	sg_connect(&sg, &other, &hello);
	cr_assert_eq(sg_wait_open(&other), 0);
	sg_send(&other, &header, NULL, 0);
	cr_assert(sg_wait_closed(&other));
}
