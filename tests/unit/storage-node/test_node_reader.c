/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_node_reader.c -- clients that read by tickets: what is believed, when it ends, and what else they may ask
 *
 * Two sessions, a and b, at a node of a cluster with keys, and at one where everybody is trusted. Tickets' checks are
 * built in with planted bugs, ticket_unchecked and fence_volume_ignored.
 */
#define CLEAVE_MUTANTS
#include "storage-node/permit.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/num.h"
#include "cleave/ticket.h"
#include "splitlib/core/device_memory.h"
#include "splitlib/core/port.h"
#include "storage-node/reader.h"
#include "support/key_maker.h"
#include "support/node_rig.h"

#define CLUSTER "cleave://1122334455667788/"
#define SESSION_A UINT64_C(0xaaaa0001)
#define SESSION_B UINT64_C(0xbbbb0002)
#define VOLUME 5u
#define ATTACH 3u
#define FROM 4096u
#define TO 12000u

static struct key_authority authority;
static struct split_key *node_key, *gateway_key, *client_key, *other_key, *monitor_key;
static struct split_port *gateway_port, *client_port, *other_port, *monitor_port, *open_port,
    *sign_port;
static struct node_rig *rig;
static struct rig_extent extent;
static struct wire_ticket_key ticket_key;

struct mutant_set mutants_on;

static const struct wire_hello gateway_hello = { .role = WIRE_ROLE_GATEWAY,
	.level = 2,
	.cluster_id = RIG_CLUSTER_ID,
	.session_id = 0x57,
	.attach = 0x0e };

static int
come(struct split_port *port, const struct wire_hello *hello)
{
	rig_disconnect(rig);
	rig->port = port;
	return rig_connect_as(rig, hello);
}

static void
come_as_gateway(void)
{
	cr_assert_eq(come(gateway_port, &gateway_hello), 0);
}

static int
try_as_client(struct split_port *port, uint64_t session_id)
{
	return come(port,
	    &(struct wire_hello){ .role = WIRE_ROLE_CLIENT,
		.level = 2,
		.cluster_id = RIG_CLUSTER_ID,
		.session_id = session_id });
}

static void
come_as_client(uint64_t session_id)
{
	cr_assert_eq(try_as_client(client_port, session_id), 0);
}

static int
ask_key(struct wire_ticket_key *ret_key)
{
	const struct wire_node request = { .opcode = WIRE_TICKET_KEY, .id = { UINT32_MAX, 0, 0 } };
	struct rig_call *call = rig_post(rig, &request, NULL, 0);
	const char *field = NULL;
	int rc = rig_wait(call);

	if (rc == 0)
		cr_assert_eq(wire_ticket_key_decode(call->payload, call->payload_bytes, ret_key,
				 &field),
		    0, "%s", field);
	rig_done(call);
	return rc;
}

static int
fence(uint64_t volume_id, uint64_t attach)
{
	return rig_call_rc(rig,
	    &(struct wire_node){ .opcode = WIRE_VOLUME_FENCE,
		.id = { UINT32_MAX, 0, 0 },
		.volume_id = volume_id,
		.offset_bytes = attach },
	    NULL, 0, NULL);
}

static void
begin(const struct rig_options *options)
{
	rig = rig_create(options);
	gateway_port = rig->port;
	cr_assert_eq(rig_start(rig), 0, "%s", rig->ready_reason);
	come_as_gateway();
	rig_extent_init(&extent, 3, 5, 1, EXTENT_RUN);
	cr_assert_eq(rig_extent_create(rig, &extent), 0);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(rig_append(rig, &extent, 1), 0);
	cr_assert_gt(extent.acked_bytes, TO);
}

static void
setup_keyed(void)
{
	key_authority_make(&authority, 0, 0);
	node_key = key_make(&authority, CLUSTER "node/7");
	gateway_key = key_make(&authority, CLUSTER "gateway/1");
	client_key = key_make(&authority, CLUSTER "client/db");
	other_key = key_make(&authority, CLUSTER "client/web");
	monitor_key = key_make(&authority, CLUSTER "monitor/m");
	begin(&(struct rig_options){ .node_key = node_key,
	    .own_key = gateway_key,
	    .direct = NODE_DIRECT_KEYED,
	    .security = SPLIT_SECURITY_OPEN,
	    .connections_max = 16 });
	client_port = rig_port_open(rig, client_key);
	other_port = rig_port_open(rig, other_key);
	monitor_port = rig_port_open(rig, monitor_key);
	open_port = rig_port_open(rig, NULL);
	cr_assert_eq(ask_key(&ticket_key), 0);
}

static void
setup_trusted(void)
{
	begin(&(struct rig_options){ .direct = NODE_DIRECT_TRUSTED });
	client_port = rig_port_open(rig, NULL);
	cr_assert_eq(ask_key(&ticket_key), 0);
}

static void
setup_off(void)
{
	begin(&(struct rig_options){ .direct = NODE_DIRECT_OFF });
	client_port = rig_port_open(rig, NULL);
}

static void
teardown(void)
{
	mutants_on = (struct mutant_set){ 0 };
	rig_disconnect(rig);
	rig->port = gateway_port;
	split_port_close(client_port);
	split_port_close(other_port);
	split_port_close(monitor_port);
	split_port_close(open_port);
	split_port_close(sign_port);
	rig_extent_fini(&extent);
	rig_destroy(rig);
	split_key_free(node_key);
	split_key_free(gateway_key);
	split_key_free(client_key);
	split_key_free(other_key);
	split_key_free(monitor_key);
	if (node_key != NULL)
		key_authority_fini(&authority);
}

TestSuite(node_reader, .init = setup_keyed, .fini = teardown, .timeout = 120);
TestSuite(node_reader_trusted, .init = setup_trusted, .fini = teardown, .timeout = 60);
TestSuite(node_reader_off, .init = setup_off, .fini = teardown, .timeout = 60);

/* A ticket for @key's client; NULL: for one without. */
static struct wire_ticket
make_ticket_of(const struct split_key *key, uint64_t session_id, uint32_t slot)
{
	const struct ticket_bearer bearer = { RIG_NODE_ID, session_id,
		key == NULL ? NULL : split_key_subject(key) };
	struct wire_ticket ticket = { .id = extent.id,
		.from_bytes = FROM,
		.to_bytes = TO,
		.volume_id = VOLUME,
		.attach = ATTACH,
		.slot = slot };

	cr_assert_eq(ticket_make(&ticket_key, &bearer, &ticket), 0);
	return ticket;
}

/* For who is connected now. */
static struct wire_ticket
make_ticket(uint64_t session_id, uint32_t slot)
{
	return make_ticket_of(rig->port == other_port ? other_key : client_key, session_id, slot);
}

/* A client's request; its answer, and in @ret_bytes (may be NULL) what that carries. */
static int
direct_call(const struct wire_direct *request, const void *payload, uint32_t payload_bytes,
    struct wire_node_reply *ret_reply, void *ret_bytes)
{
	struct wire_header header;
	struct rig_call *call;
	int rc;

	wire_direct_encode(&header, request);
	call = rig_post_raw(rig, &header, payload, payload_bytes);
	rc = rig_wait(call);
	*ret_reply = call->reply;
	if (rc == 0 && ret_bytes != NULL)
		memcpy(ret_bytes, call->payload, call->payload_bytes);
	rig_done(call);
	return rc;
}

/* The node's answer to @count tickets: a bit for each that it has taken. */
static uint64_t
present(const struct wire_ticket *tickets, uint32_t count)
{
	uint8_t bytes[WIRE_TICKETS_MAX * WIRE_TICKET_BYTES];
	struct wire_node_reply reply;

	cr_assert_leq(count, WIRE_TICKETS_MAX);
	for (uint32_t i = 0; i < count; i++)
		wire_ticket_encode(bytes + i * WIRE_TICKET_BYTES, &tickets[i]);
	cr_assert_eq(direct_call(&(struct wire_direct){ .opcode = WIRE_TICKETS,
				     .ticket_count = count },
			 bytes, count * WIRE_TICKET_BYTES, &reply, NULL),
	    0);
	return reply.offset_bytes;
}

static uint64_t
present_one(uint64_t made_for, uint32_t slot)
{
	const struct wire_ticket ticket = make_ticket(made_for, slot);

	return present(&ticket, 1);
}

static int
read_direct(uint32_t slot, uint64_t offset_bytes, uint32_t bytes, void *out)
{
	struct wire_node_reply reply;

	return direct_call(&(struct wire_direct){ .opcode = WIRE_DIRECT_READ,
			       .id = extent.id,
			       .offset_bytes = offset_bytes,
			       .length_bytes = bytes,
			       .slot = slot },
	    NULL, 0, &reply, out);
}

static void
expect_served(uint32_t slot)
{
	uint8_t bytes[TO - FROM];

	cr_assert_eq(read_direct(slot, FROM, sizeof(bytes), bytes), 0);
	cr_assert_arr_eq(bytes, extent.data + FROM, sizeof(bytes));
}

static void
expect_ended(uint32_t slot)
{
	cr_assert_eq(read_direct(slot, FROM, 4096, NULL), -EKEYREVOKED);
}

static uint64_t
refused_count(void)
{
	return node_counters(rig->node)->direct_refused;
}

/* ---- what a ticket is for ---- */

Test(node_reader, a_session_reads_by_its_own_ticket)
{
	uint8_t bytes[100];

	come_as_client(SESSION_A);
	expect_ended(0); /* there is none yet */
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	expect_served(0);
	cr_assert_eq(read_direct(0, TO - 1, 1, bytes), 0);
	cr_assert_eq(bytes[0], extent.data[TO - 1]);
	cr_assert_eq(node_counters(rig->node)->direct_reads, 2);
	cr_assert_eq(node_counters(rig->node)->tickets, 1);
}

Test(node_reader, nobody_reads_a_byte_beside_its_range)
{
	struct extent_id id = extent.id;

	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 7), 1);
	cr_assert_eq(read_direct(7, FROM - 1, 2, NULL), -EKEYREVOKED);
	cr_assert_eq(read_direct(7, FROM, TO - FROM + 1, NULL), -EKEYREVOKED);
	cr_assert_eq(read_direct(7, TO, 1, NULL), -EKEYREVOKED);
	cr_assert_eq(read_direct(6, FROM, 1, NULL), -EKEYREVOKED, "another slot");
	extent.id.counter++;
	cr_assert_eq(read_direct(7, FROM, 1, NULL), -EKEYREVOKED, "another extent");
	extent.id = id;
	cr_assert_eq(refused_count(), 5);
	expect_served(7);
}

Test(node_reader, a_ticket_is_no_use_to_another_session)
{
	come_as_client(SESSION_B);
	cr_assert_eq(present_one(SESSION_A, 0), 0);
	cr_assert_eq(node_counters(rig->node)->tickets_refused, 1);
	expect_ended(0);
	mutant_set_add(&mutants_on, MUTANT_ticket_unchecked);
	cr_assert_eq(present_one(SESSION_A, 0), 1, "the check is what keeps it out");
}

Test(node_reader, a_ticket_is_no_use_to_another_client_that_knows_its_session)
{
	struct wire_ticket ticket = make_ticket_of(client_key, SESSION_A, 0);

	cr_assert_eq(try_as_client(other_port, SESSION_A), 0);
	cr_assert_eq(present(&ticket, 1), 0);
	expect_ended(0);
	ticket = make_ticket_of(NULL, SESSION_A, 0);
	cr_assert_eq(present(&ticket, 1), 0, "nor one of a client without a key");
	cr_assert_eq(present_one(SESSION_A, 0), 1, "it may have its own");
}

Test(node_reader, a_ticket_is_of_one_connection)
{
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	come_as_client(SESSION_A);
	expect_ended(0);
	cr_assert_eq(present_one(SESSION_A, 0), 1, "until it is presented again");
}

Test(node_reader, a_slot_holds_the_ticket_that_came_last)
{
	struct wire_ticket ticket;

	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	ticket = make_ticket(SESSION_A, 0);
	ticket.to_bytes++; /* forged */
	cr_assert_eq(present(&ticket, 1), 0);
	expect_ended(0);
}

Test(node_reader, as_many_slots_as_there_are_hold_tickets_and_no_more)
{
	struct wire_ticket tickets[WIRE_TICKETS_MAX];

	come_as_client(SESSION_A);
	for (uint32_t slot = 0; slot < WIRE_TICKET_SLOTS_MAX; slot += WIRE_TICKETS_MAX) {
		for (uint32_t i = 0; i < WIRE_TICKETS_MAX; i++)
			tickets[i] = make_ticket(SESSION_A, slot + i);
		cr_assert_eq(present(tickets, WIRE_TICKETS_MAX), UINT64_MAX);
	}
	expect_served(0);
	expect_served(WIRE_TICKET_SLOTS_MAX - 1);
}

Test(node_reader, a_ticket_for_no_slot_ends_the_connection)
{
	const struct wire_direct request = { .opcode = WIRE_TICKETS, .ticket_count = 1 };
	struct wire_ticket ticket;
	uint8_t bytes[WIRE_TICKET_BYTES];
	struct wire_node_reply reply;

	come_as_client(SESSION_A);
	ticket = make_ticket(SESSION_A, WIRE_TICKET_SLOTS_MAX);
	wire_ticket_encode(bytes, &ticket);
	cr_assert_eq(direct_call(&request, bytes, sizeof(bytes), &reply, NULL), -ECONNRESET);
	cr_assert_eq(node_counters(rig->node)->messages_bad, 1);
}

Test(node_reader, a_client_without_memory_is_refused_and_a_slot_holds_nothing)
{
	rig_disconnect(rig);
	sn_alloc_fail_at(1);
	cr_assert_eq(try_as_client(client_port, SESSION_A), -ENOMEM);
	sn_alloc_fail_at(0);
	come_as_client(SESSION_A);
	sn_alloc_fail_at(1);
	cr_assert_eq(present_one(SESSION_A, 0), 0);
	sn_alloc_fail_at(0);
	expect_ended(0);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
}

/* Whoever's message comes next lies where the answer lay. */
Test(node_reader, a_key_that_was_told_lies_in_no_receive)
{
	const struct receive_pool *pool = &rig->node->port->pool;
	static uint8_t bytes[4096];

	cr_assert_gt(pool->count, 0);
	for (uint32_t i = 0; i < pool->count; i++) {
		dev_copy_to_host(rig->node->port, bytes, pool->receives[i].payload, sizeof(bytes));
		cr_assert_null(memmem(bytes, sizeof(bytes), ticket_key.key, sizeof(ticket_key.key)),
		    "receive %u", i);
	}
}

/* ---- when it ends ---- */

Test(node_reader, every_ticket_ends_with_the_node)
{
	struct wire_ticket_key before = ticket_key;

	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	rig_kill(rig, false);
	cr_assert_eq(rig_start(rig), 0, "%s", rig->ready_reason);
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 0);
	come_as_gateway();
	cr_assert_eq(ask_key(&ticket_key), 0);
	cr_assert_neq(memcmp(before.key, ticket_key.key, sizeof(before.key)), 0);
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	expect_served(0);
}

/* On the node's clock. */
static void
pass(uint64_t duration_ns)
{
	sim_loop_set_skew(rig->node_loop, duration_ns, 0);
}

Test(node_reader, a_key_is_told_for_a_while_and_believed_for_twice_as_long)
{
	const uint64_t told_ns = NUM_MS(WIRE_TICKET_KEY_MS);
	struct wire_ticket_key first = ticket_key, second;

	pass(told_ns / 2);
	cr_assert_eq(ask_key(&second), 0);
	cr_assert_eq(second.number, first.number);
	pass(told_ns / 2);
	cr_assert_eq(ask_key(&second), 0);
	cr_assert_neq(second.number, first.number);
	/* The first one still counts; so does the second. */
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	ticket_key = second;
	cr_assert_eq(present_one(SESSION_A, 1), 1);
	pass(told_ns);
	expect_ended(0);
	expect_served(1);
	ticket_key = first;
	cr_assert_eq(present_one(SESSION_A, 0), 0);
	pass(told_ns);
	expect_ended(1);
}

Test(node_reader, a_newer_attach_ends_tickets_of_older_ones)
{
	cr_assert_eq(sn_permit_fenced_below(rig->node, VOLUME), 0);
	come_as_gateway();
	cr_assert_eq(fence(VOLUME + 1, ATTACH + 9), 0, "another volume's");
	cr_assert_eq(fence(VOLUME, ATTACH), 0, "its own attach");
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	come_as_gateway();
	cr_assert_eq(fence(VOLUME, ATTACH + 1), 0);
	cr_assert_eq(fence(VOLUME, ATTACH), 0, "an older one comes late");
	cr_assert_eq(sn_permit_fenced_below(rig->node, VOLUME), ATTACH + 1);
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 0);
	mutant_set_add(&mutants_on, MUTANT_fence_volume_ignored);
	cr_assert_eq(present_one(SESSION_A, 0), 1, "the fence is what keeps it out");
}

/* Another connection; the rig's stays open, and is put aside. */
static int
come_beside(struct split_port *port, const struct wire_hello *hello)
{
	rig->qp = NULL;
	rig->port = port;
	return rig_connect_as(rig, hello);
}

static void
become(struct split_qp *qp, struct split_port *port)
{
	rig->qp = qp;
	rig->port = port;
	rig->is_connected = true;
	rig->is_closed = false;
}

/* A fence by another connection, while the rig's stays. */
static void
fence_beside(uint64_t attach)
{
	struct split_qp *qp = rig->qp;
	struct split_port *port = rig->port;

	cr_assert_eq(come_beside(gateway_port, &gateway_hello), 0);
	cr_assert_eq(fence(VOLUME, attach), 0);
	rig_disconnect(rig);
	become(qp, port);
}

Test(node_reader, a_ticket_that_was_believed_ends_by_a_fence_too)
{
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	fence_beside(ATTACH);
	expect_served(0);
	fence_beside(ATTACH + 1);
	expect_ended(0);
}

Test(node_reader, where_fences_find_no_room_every_ticket_ends_and_another_key_is_drawn)
{
	struct wire_ticket_key before = ticket_key;

	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	rig->node->permit->fence_count = SN_FENCED_MAX; /* as if so many were there */
	fence_beside(ATTACH);
	expect_ended(0);
	cr_assert_eq(present_one(SESSION_A, 0), 0);
	come_as_gateway();
	cr_assert_eq(ask_key(&ticket_key), 0);
	cr_assert_neq(memcmp(before.key, ticket_key.key, sizeof(before.key)), 0);
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	expect_served(0);
}

/* ---- who may ask for what ---- */

Test(node_reader, a_gateway_without_a_key_is_told_none)
{
	struct wire_ticket_key key;

	cr_assert_eq(come(open_port, &gateway_hello), 0, "it is let in: security is open");
	cr_assert_eq(ask_key(&key), -EKEYREJECTED);
	cr_assert_eq(fence(VOLUME, ATTACH + 1), -EKEYREJECTED);
	cr_assert_eq(refused_count(), 2);
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 0), 1, "nothing was fenced");
}

/* A payload is no secret there, and the key is one. */
Test(node_reader, a_gateway_whose_connection_is_signed_alone_is_told_none)
{
	const struct split_port_options options = { .loop = rig->gateway_loop,
		.key = gateway_key,
		.security = SPLIT_SECURITY_SIGN,
		.sim_host = rig->gateway_host,
		.device_bytes = NUM_MIB(8),
		.receive_count = 16,
		.receive_payload_bytes = WIRE_PAYLOAD_BYTES_MAX };
	struct wire_ticket_key key;

	sign_port = open_roce_instance(&options);
	cr_assert_eq(come(sign_port, &gateway_hello), 0);
	cr_assert_eq(split_qp_security(rig->qp), SPLIT_SECURITY_SIGN);
	cr_assert_eq(ask_key(&key), -EKEYREJECTED);
	cr_assert_eq(refused_count(), 1);
	cr_assert_eq(fence(VOLUME, ATTACH), 0, "a fence is no secret");
	come_as_gateway();
	cr_assert_eq(ask_key(&key), 0);
}

Test(node_reader, who_is_no_client_or_has_no_key_does_not_come_to_read)
{
	cr_assert_eq(try_as_client(open_port, SESSION_A), -EKEYREJECTED);
	cr_assert_eq(try_as_client(monitor_port, SESSION_A), -EKEYREJECTED);
	cr_assert_eq(try_as_client(gateway_port, SESSION_A), -EKEYREJECTED);
	cr_assert_eq(node_counters(rig->node)->connections_refused, 3);
	/* A client's key without a session comes for the status, which is for others. */
	cr_assert_eq(try_as_client(client_port, 0), -EKEYREJECTED);
}

Test(node_reader, a_client_may_ask_for_nothing_else)
{
	static const enum wire_opcode opcodes[] = { WIRE_EXTENT_CREATE, WIRE_EXTENT_APPEND,
		WIRE_EXTENT_READ, WIRE_EXTENT_FREEZE, WIRE_EXTENT_TRUNCATE, WIRE_EXTENT_DELETE,
		WIRE_EXTENT_LIST, WIRE_EXTENT_VERIFY, WIRE_EXTENT_FIND, WIRE_SHARD_FENCE,
		WIRE_TICKET_KEY, WIRE_VOLUME_FENCE, WIRE_EXTENT_GATHER };

	for (size_t i = 0; i < NUM_COUNT(opcodes); i++) {
		const struct wire_header header = { .opcode = (uint8_t)opcodes[i],
			.object_id = 1,
			.length_bytes = 4096,
			.epoch = 5 };
		uint64_t refused = refused_count();

		come_as_client(SESSION_A);
		cr_assert_eq(present_one(SESSION_A, 0), 1);
		cr_assert_eq(rig_send_raw(rig, &header, NULL, 0), -ECONNRESET, "0x%02x",
		    opcodes[i]);
		cr_assert_eq(refused_count(), refused + 1, "0x%02x", opcodes[i]);
	}
	come_as_gateway();
	cr_assert(rig_extent_matches(rig, &extent, extent.acked_bytes), "nothing has changed");
}

Test(node_reader, a_gateway_reads_by_no_ticket)
{
	struct wire_node_reply reply;

	come_as_gateway();
	cr_assert_eq(direct_call(&(struct wire_direct){ .opcode = WIRE_DIRECT_READ,
				     .id = extent.id,
				     .length_bytes = 1 },
			 NULL, 0, &reply, NULL),
	    -ECONNRESET);
}

Test(node_reader, a_client_is_told_of_its_own_connection_alone)
{
	char *text;

	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_A, 9), 1);
	cr_assert_eq(rig_control(rig, "{\"op\":\"status\"}", &text), 0);
	cr_assert_str_eq(text,
	    "{\"role\":\"node\",\"node_id\":7,\"tickets\":1,\"tickets_max\":1024}");
	free(text);
	cr_assert_eq(rig_control(rig, "{\"op\":\"revoked\"}", &text), -ENOTSUP);
	free(text);
	cr_assert_eq(refused_count(), 1);
	/* Nor does the hello tell it which store the node obeys. */
	for (uint32_t i = 32; i < 48; i++)
		cr_assert_eq(rig->hello[i], 0);
}

/* ---- places: there are 16, 12 for clients, six for each key ---- */

static int
try_beside(struct split_port *port, uint64_t session_id)
{
	return come_beside(port,
	    &(struct wire_hello){ .role = WIRE_ROLE_CLIENT, .level = 2, .session_id = session_id });
}

/* Their sessions are SESSION_A, and those that follow; each has shown a ticket. */
static void
fill_with_clients(struct split_qp *ret_clients[12])
{
	rig_disconnect(rig);
	for (uint32_t i = 0; i < 12; i++) {
		cr_assert_eq(try_beside(i < 6 ? client_port : other_port, SESSION_A + i), 0);
		cr_assert_eq(present_one(SESSION_A + i, 0), 1);
		ret_clients[i] = rig->qp;
	}
}

static bool
has_reader(uint64_t session_id)
{
	const struct loop_link *link;

	for (link = rig->node->readers.next; link != &rig->node->readers; link = link->next) {
		if (LIST_ENTRY(link, struct sn_reader, link)->session_id == session_id)
			return true;
	}
	return false;
}

Test(node_reader, gateways_find_a_place_however_many_clients_come)
{
	struct split_qp *clients[12];

	fill_with_clients(clients);
	cr_assert_eq(try_beside(other_port, SESSION_B), -EBUSY);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(come_beside(gateway_port, &gateway_hello), 0, "gateway %u", i);
		cr_assert_eq(ask_key(&ticket_key), 0);
	}
	/* A client that goes makes room for another. */
	become(clients[0], client_port);
	rig_disconnect(rig);
	cr_assert_eq(try_as_client(client_port, SESSION_B), 0);
}

/* As after its restart, when clients with tickets of other gateways were there first. */
Test(node_reader, the_client_that_was_used_least_gives_its_place_to_a_gateway)
{
	struct split_qp *clients[12];

	fill_with_clients(clients);
	become(clients[0], client_port);
	expect_served(0);
	for (uint32_t i = 0; i < 4 + 11; i++) {
		cr_assert_eq(come_beside(gateway_port, &gateway_hello), 0, "gateway %u", i);
		cr_assert_eq(ask_key(&ticket_key), 0);
	}
	cr_assert_eq(rig->node->reader_count, 1);
	cr_assert(has_reader(SESSION_A), "it was used last");
	cr_assert_eq(split_port_counters(node_port(rig->node))->qps_cut, 11);
}

Test(node_reader, one_key_has_half_of_the_places_for_clients)
{
	rig_disconnect(rig);
	for (uint32_t i = 0; i < 6; i++) {
		cr_assert_eq(try_beside(client_port, SESSION_A + i), 0);
		cr_assert_eq(present_one(SESSION_A + i, 0), 1);
	}
	cr_assert_eq(try_beside(client_port, SESSION_B), -EBUSY);
	cr_assert_eq(try_beside(other_port, SESSION_B), 0);
	cr_assert_eq(present_one(SESSION_B, 0), 1);
}

/* ---- without keys ---- */

Test(node_reader_trusted, tickets_are_checked_there_too)
{
	come_as_client(SESSION_A);
	cr_assert_eq(present_one(SESSION_B, 0), 0);
	cr_assert_eq(present_one(SESSION_A, 0), 1);
	expect_served(0);
	cr_assert_eq(read_direct(0, TO, 1, NULL), -EKEYREVOKED);
}

Test(node_reader_trusted, the_status_says_that_clients_are_taken)
{
	char *text;

	come_as_gateway();
	cr_assert_eq(rig_control(rig, "{\"op\":\"status\"}", &text), 0);
	cr_assert_not_null(strstr(text, "\"direct\":\"trusted\""));
	free(text);
}

Test(node_reader_off, no_client_is_taken_and_no_key_told)
{
	struct wire_ticket_key key;
	char *text;

	cr_assert_eq(ask_key(&key), -ENOTSUP);
	cr_assert_eq(fence(VOLUME, ATTACH), -ENOTSUP);
	cr_assert_eq(rig_control(rig, "{\"op\":\"status\"}", &text), 0);
	cr_assert_null(strstr(text, "\"direct\":"));
	free(text);
	cr_assert_eq(try_as_client(client_port, SESSION_A), -ENOTSUP);
	cr_assert_eq(try_as_client(client_port, 0), 0, "the status is for whoever asks");
}
