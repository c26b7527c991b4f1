/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transport_verbs_keyed.c -- keyed connections over RDMA, on a fake of its libraries
 *
 * Who gets in, and what both are told, is test_auth.c's, test_rekey.c's and test_qp.c's, which run over the fake as well.
 * Here is what RDMA adds: what a device may write before anybody is believed, an enemy on each of the two lanes, ports
 * that take open connections beside keyed ones, and what fails while a connection is made.
 */

#include <stdlib.h>

#include "cleave/status.h"
#include "splitlib/core/alloc.h"
#include "splitlib/secure/seal.h"
#include "splitlib/verbs/verbs.h"
#include "unit/verbs_fixture.h"

#define PAYLOAD_BYTES 100u
#define MESSAGES 3u
/* A few have to wait, less than AUTH_TIME_NS under sanitizers. */
#define CROWD (AUTH_MAX + 8u)

static struct fixture f;
static struct test_send sends[MESSAGES];

/* The enemy's deed, done once: a byte of the @nth message (from 0) to a lane, or its immediate data. */
static struct {
	uint32_t number; /* of the lane's end; 0: of whichever first gets a message of @kind */
	enum verbs_work kind;
	uint32_t nth, at, seen_count;
	bool is_immediate, is_done;
} enemy;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	memset(&enemy, 0, sizeof(enemy));
	verbs_fixture_begin();
}

static void
teardown(void)
{
	verbs_fixture_end();
}

TestSuite(transport_verbs_keyed, .init = setup, .fini = teardown, .timeout = 100);

static void
open_keyed(void)
{
	if (f.server_key == NULL)
		fixture_make_keys(&f);
	fixture_open(&f, NET_VERBS, NULL, NULL);
}

static const struct verbs_qp *
verbs_qp_of(const struct split_qp *qp)
{
	return qp->transport;
}

/* All memory of the port's for frames and posted receives is free. */
static void
check_stages(const struct split_port *port)
{
	const struct verbs_port *verbs = port->verbs;

	for (uint32_t i = 0; i < STAGE_NR; i++)
		cr_assert_eq(verbs->stages[i].free_count, verbs->stages[i].count, "stage %u", i);
}

static void
check_all_is_back(void)
{
	fixture_idle(&f);
	cr_assert_eq(split_port_receives_free(f.client_port), 256);
	cr_assert_eq(split_port_receives_free(f.server_port), 256);
	check_stages(f.client_port);
	check_stages(f.server_port);
	fixture_close(&f);
}

static bool
both_closed(struct fixture *fixture, uint64_t wanted)
{
	(void)wanted;
	return fixture->client.closed_count > 0 && fixture->server.closed_count > 0;
}

static bool
ready_or_closed(struct fixture *fixture, uint64_t wanted)
{
	return both_ready(fixture, wanted) || client_closed(fixture, wanted);
}

/* The connection that came in. */
static struct split_qp *
accepted(void)
{
	struct loop_link *link = list_first(&f.server_port->qps);

	return link != NULL ? LIST_ENTRY(link, struct split_qp, link) : NULL;
}

static bool
handshake_is_under_way(struct fixture *fixture, uint64_t wanted)
{
	return fixture->server_port->auth_count == wanted;
}

/* ---- what a device may write, and when ---- */

Test(transport_verbs_keyed, who_is_not_believed_reaches_no_receive_of_the_pool)
{
	const struct verbs_qp *vq;

	open_keyed();
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, handshake_is_under_way, 1);
	vq = verbs_qp_of(accepted());
	cr_assert_null(vq->data.ibv);
	cr_assert_not_null(vq->greeting);
	fixture_run(&f, both_ready, 0);
	vq = verbs_qp_of(f.server.qp);
	cr_assert_not_null(vq->data.ibv);
	/* Once hellos are over their memory is given up, at both ends. */
	fixture_idle(&f);
	cr_assert_null(vq->greeting);
	cr_assert_null(verbs_qp_of(f.client.qp)->greeting);
	check_all_is_back();
}

Test(transport_verbs_keyed, no_peer_may_read_or_write_memory)
{
	open_keyed();
	fixture_connect_both(&f);
	cr_assert_eq(fake_verbs_access(verbs_qp_of(f.server.qp)->data.ibv->qp_num), 0);
	cr_assert_eq(fake_verbs_access(verbs_qp_of(f.client.qp)->data.ibv->qp_num), 0);
	/* Writes of no bytes keep the connection alive. */
	cr_assert_eq(fake_verbs_access(verbs_qp_of(f.server.qp)->control.ibv->qp_num),
	    IBV_ACCESS_REMOTE_WRITE);
	fixture_close(&f);
}

static struct side crowd[CROWD];
static uint32_t auths_max;
static bool has_waited;

static bool
crowd_is_answered(struct fixture *fixture, uint64_t wanted)
{
	uint64_t count = 0;

	auths_max = (uint32_t)num_max(auths_max, fixture->server_port->auth_count);
	has_waited = has_waited || !list_is_empty(&fixture->server_port->auth_waiting);
	for (uint32_t i = 0; i < CROWD; i++)
		count += crowd[i].ready_count + crowd[i].closed_count;
	return count >= wanted;
}

Test(transport_verbs_keyed, a_crowd_shakes_hands_in_turns)
{
	struct split_connect_options connect = { .ops = &side_ops,
		.timeout_ns = NUM_S(60),
		.peer_roles = FIXTURE_ROLES };

	auths_max = 0;
	open_keyed();
	connect.address = f.address;
	for (uint32_t i = 0; i < CROWD; i++) {
		connect.arg = &crowd[i];
		cr_assert_not_null(connect_qp(f.client_port, &connect));
	}
	fixture_run(&f, crowd_is_answered, CROWD);
	for (uint32_t i = 0; i < CROWD; i++)
		cr_assert_eq(crowd[i].ready_count, 1, "%u: %s", i, crowd[i].reason);
	cr_assert_leq(auths_max, AUTH_MAX);
	cr_assert(has_waited, "nobody had to wait");
	fixture_close(&f);
}

/* ---- an enemy ---- */

static void
enemy_on_message(uint32_t to_number, const struct ibv_recv_wr *receive, struct ibv_wc *wc)
{
	uint32_t at = enemy.at;

	if (enemy.is_done || (enum verbs_work)(receive->wr_id >> VERBS_WORK_SHIFT) != enemy.kind ||
	    (enemy.number != 0 && enemy.number != to_number) || enemy.seen_count++ != enemy.nth)
		return;
	if (enemy.is_immediate) {
		wc->imm_data ^= htobe32(enemy.at);
		enemy.is_done = true;
		return;
	}
	if (at >= wc->byte_len)
		return;
	for (int i = 0; i < receive->num_sge; i++) {
		if (at < receive->sg_list[i].length) {
			fake_entry_memory(&receive->sg_list[i])[at] ^= 1;
			enemy.is_done = true;
			return;
		}
		at -= receive->sg_list[i].length;
	}
}

static void
enemy_begin(enum verbs_work kind, const struct ibv_qp *to, uint32_t nth, uint32_t at)
{
	memset(&enemy, 0, sizeof(enemy));
	enemy.kind = kind;
	enemy.number = to != NULL ? to->qp_num : 0;
	enemy.nth = nth;
	enemy.at = at;
	fake_verbs.on_message = enemy_on_message;
}

static void
meet(void)
{
	memset(&f.client, 0, sizeof(f.client));
	memset(&f.server, 0, sizeof(f.server));
	f.accept_count = 0;
	(void)fixture_connect(&f, &side_ops);
}

Test(transport_verbs_keyed, any_byte_of_a_message)
{
	dev_ptr memory;

	open_keyed();
	memory = pattern_alloc(f.client_port, PAYLOAD_BYTES, 5);
	for (uint32_t at = 0; at < SEAL_HEAD_BYTES + PAYLOAD_BYTES; at += 3) {
		meet();
		fixture_run(&f, both_ready, 0);
		f.server.mode = SIDE_RELEASE;
		enemy_begin(VERBS_WORK_RECEIVE, verbs_qp_of(f.server.qp)->data.ibv, 0, at);
		for (uint32_t i = 0; i < MESSAGES; i++) {
			test_send_init(&sends[i], &f.client, WIRE_ECHO, i, memory, PAYLOAD_BYTES);
			cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
		}
		fixture_run(&f, both_closed, 0);
		cr_assert(enemy.is_done);
		cr_assert_eq(f.server.message_count, 0, "byte %u", at);
		cr_assert_eq(f.server.closed_rc, -EBADMSG, "byte %u: %s", at, f.server.reason);
	}
	check_all_is_back();
}

/* Greetings: of the connector two flights and its hello, of the acceptor a flight and its hello. */
static void
any_byte_of_a_greeting(bool is_to_acceptor, uint32_t nth)
{
	uint32_t ended_count = 0, at = 0;

	open_keyed();
	for (bool is_in = true; is_in; at += at < WIRE_HEADER_BYTES + 8 ? 3 : 61) {
		/* Both ends get greetings in turns: the acceptor's are the 0th, 2nd and 3rd of all. */
		enemy_begin(VERBS_WORK_GREETING_RECEIVE, NULL,
		    is_to_acceptor ? (nth == 0 ? 0 : nth + 1) : (nth == 0 ? 1 : 4), at);
		meet();
		fixture_run(&f, ready_or_closed, 0);
		is_in = enemy.is_done || enemy.seen_count <= enemy.nth;
		if (!both_ready(&f, 0)) {
			ended_count++;
			cr_assert_eq(f.client.ready_count, 0, "byte %u", at);
			if (is_to_acceptor)
				cr_assert_eq(f.accept_count, 0, "byte %u", at);
			continue;
		}
		/* TLS ignores some of the bytes of its records' heads; nothing else goes unnoticed. */
		cr_assert(!is_in || (at >= WIRE_HEADER_BYTES && nth < 2), "byte %u", at);
		split_qp_close(f.client.qp);
		fixture_run(&f, both_closed, 0);
	}
	cr_assert_gt(ended_count, 20);
	fake_verbs.on_message = NULL;
	check_all_is_back();
}

Test(transport_verbs_keyed, any_byte_of_the_first_flight)
{
	any_byte_of_a_greeting(true, 0);
}

Test(transport_verbs_keyed, any_byte_of_the_acceptors_flight)
{
	any_byte_of_a_greeting(false, 0);
}

Test(transport_verbs_keyed, any_byte_of_the_last_flight)
{
	any_byte_of_a_greeting(true, 1);
}

/* Where the data lane leads is said in these two. */
Test(transport_verbs_keyed, any_byte_of_the_hello)
{
	any_byte_of_a_greeting(true, 2);
}

Test(transport_verbs_keyed, any_byte_of_the_hellos_answer)
{
	any_byte_of_a_greeting(false, 2);
}

/* A peer that wants credits says so over the control lane. */
static void
want_credits(void)
{
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 0, DEV_PTR_NULL, 0);
	f.client.qp->credits = 0;
	f.client.qp->is_dormant = true;
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
}

Test(transport_verbs_keyed, any_byte_of_credits)
{
	open_keyed();
	for (uint32_t at = 0; at < SEAL_HEAD_BYTES; at += 5) {
		meet();
		fixture_run(&f, both_ready, 0);
		enemy_begin(VERBS_WORK_CONTROL_RECEIVE, verbs_qp_of(f.server.qp)->control.ibv, 0,
		    at);
		want_credits();
		fixture_run(&f, both_closed, 0);
		cr_assert(enemy.is_done);
		cr_assert_eq(f.server.closed_rc, -EBADMSG, "byte %u: %s", at, f.server.reason);
	}
	fixture_close(&f);
}

/* Immediate data says how many receives were given back only where nothing is sealed. */
Test(transport_verbs_keyed, immediate_data_is_not_believed)
{
	open_keyed();
	fixture_connect_both(&f);
	f.server.mode = SIDE_ANSWER;
	f.client.mode = SIDE_RELEASE;
	enemy_begin(VERBS_WORK_CONTROL_RECEIVE, verbs_qp_of(f.server.qp)->control.ibv, 0, 0xff);
	enemy.is_immediate = true;
	want_credits();
	fixture_idle(&f);
	cr_assert(enemy.is_done);
	cr_assert(split_qp_state(f.client.qp) == SPLIT_QP_READY);
	cr_assert_leq(verbs_qp_of(f.server.qp)->control_credits, VERBS_CONTROL_WINDOW);
	cr_assert(split_qp_state(f.server.qp) == SPLIT_QP_READY, "%s", f.server.reason);
	fixture_close(&f);
}

/* A request that wants a handshake is made one with a hello, or the answer to it one without. */
static enum rdma_cm_event_type enemy_event;

static void
enemy_on_private_data(enum rdma_cm_event_type type, uint8_t *data)
{
	if (type != enemy_event)
		return;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		data[6] = 0; /* the hello's length */
	else
		data[10] = 0; /* is it keyed? */
}

Test(transport_verbs_keyed, a_request_without_its_handshake_is_refused)
{
	for (uint32_t i = 0; i < 2; i++) {
		enum split_security server = i == 0 ? SPLIT_SECURITY_DEFAULT : SPLIT_SECURITY_OPEN;

		setup();
		f.server_security = server;
		open_keyed();
		enemy_event = RDMA_CM_EVENT_CONNECT_REQUEST;
		fake_verbs.on_private_data = enemy_on_private_data;
		(void)fixture_connect(&f, &side_ops);
		fixture_run(&f, client_closed, 0);
		cr_assert_eq(f.client.closed_rc, -EKEYREJECTED, "%s", f.client.reason);
		cr_assert_eq(f.client.ready_count, 0);
		if (i == 0) {
			cr_assert_eq(f.accept_count, 0);
			cr_assert(strstr(f.refused, "without a key") != NULL, "%s", f.refused);
		}
		fixture_close(&f);
		fixture_free_keys(&f);
	}
}

Test(transport_verbs_keyed, an_answer_without_a_handshake_is_refused)
{
	open_keyed();
	enemy_event = RDMA_CM_EVENT_CONNECT_RESPONSE;
	fake_verbs.on_private_data = enemy_on_private_data;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EKEYREJECTED, "%s", f.client.reason);
	cr_assert(strstr(f.client.reason, "without a handshake") != NULL, "%s", f.client.reason);
	fixture_close(&f);
}

/* A refusal in the clear means no more than a cut cable, whatever it says. */
static void
enemy_on_refusal(enum rdma_cm_event_type type, uint8_t *data)
{
	if (type == RDMA_CM_EVENT_REJECTED)
		num_put_le16(data + 6, status_from_errno(-ESTALE));
}

Test(transport_verbs_keyed, a_refusal_in_the_clear_says_not_believed)
{
	fixture_make_keys(&f);
	split_key_free(f.server_key);
	f.server_key = NULL;
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fake_verbs.on_private_data = enemy_on_refusal;
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.closed_rc, -EKEYREJECTED, "%d", f.client.closed_rc);
	fixture_close(&f);
}

/* ---- payloads ---- */

/* A port with a key that takes open connections as well: receives are cut for sealed heads. */
Test(transport_verbs_keyed, an_open_connection_to_a_port_with_a_key_gets_its_payloads)
{
	static const uint32_t bytes[] = { 0, 1, 31, 32, 33, 64, 4096, 65536 };
	dev_ptr memory;

	fixture_make_keys(&f);
	split_key_free(f.client_key);
	f.client_key = NULL;
	f.server_security = SPLIT_SECURITY_OPEN;
	fixture_open(&f, NET_VERBS, NULL, NULL);
	fixture_connect_both(&f);
	cr_assert_eq(split_qp_security(f.server.qp), SPLIT_SECURITY_OPEN);
	memory = pattern_alloc(f.client_port, 65536, 5);
	for (uint32_t i = 0; i < NUM_COUNT(bytes); i++) {
		test_send_init(&sends[0], &f.client, WIRE_ECHO, i, memory, bytes[i]);
		cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
		fixture_run(&f, server_got, i + 1);
		cr_assert_eq(f.server.held[0]->payload_bytes, bytes[i]);
		pattern_check(f.server_port, f.server.held[0]->payload, bytes[i], 5, 0);
		side_answer(f.server.held[0]);
		f.server.held_count = 0;
		fixture_run(&f, client_got, i + 1);
		pattern_check(f.client_port, f.client.held[0]->payload, bytes[i], 5, 0);
		split_msg_release(f.client.held[0]);
		f.client.held_count = 0;
	}
	check_all_is_back();
}

/* dev_mixed_recv cuts where its caller says, not where a sealed head ends; and this host opens what comes. */
Test(transport_verbs_keyed, a_posted_receive_gets_its_parts)
{
	enum { HOST_BYTES = WIRE_HEADER_BYTES + 50, BYTES = 5000 };
	struct dev_memory_options options = { .kind = DEV_MEMORY_NIC,
		.bytes = 65536,
		.dmabuf_fd = -1 };
	struct dev_completion completion;
	struct dev_event *event;
	dev_ptr memory, to, nic;
	uint8_t *host;

	fake_verbs.max_dm_size = 256 * 1024;
	f.is_without_handlers = true;
	open_keyed();
	(void)fixture_connect(&f, &side_ops);
	while (f.client.ready_count == 0)
		(void)fixture_run_for(&f, never, 0, NUM_MS(5));
	memory = pattern_alloc(f.client_port, BYTES, 5);
	to = dev_alloc(f.server_port, BYTES);
	host = host_alloc(f.server_port, HOST_BYTES);
	cr_assert_not_null(dev_memory_open(f.server_port, &options, &nic), "%s",
	    split_port_reason(f.server_port));
	cr_assert_null(dev_mixed_recv(f.server.qp, host, HOST_BYTES, nic, 4096));
	cr_assert_eq(errno, ENOTSUP);
	event = dev_mixed_recv(f.server.qp, host, HOST_BYTES, to, BYTES);
	cr_assert_not_null(event);
	test_send_init(&sends[0], &f.client, WIRE_ECHO, 7, memory, BYTES);
	cr_assert_eq(split_send(f.client.qp, &sends[0].send), 0);
	fixture_run(&f, client_sent, 1);
	while (dev_poll(event, &completion) == -EAGAIN)
		(void)fixture_run_for(&f, never, 0, NUM_MS(5));
	cr_assert_eq(completion.rc, 0);
	cr_assert_eq(((struct wire_header *)(void *)host)->request_id, 7);
	for (uint32_t i = 0; i < 50; i++)
		cr_assert_eq(host[WIRE_HEADER_BYTES + i],
		    (uint8_t)(num_mix_u64(5 + i / 8) >> (8 * (i % 8))), "byte %u", i);
	pattern_check(f.server_port, to, BYTES - 50, 5, 50);
	fixture_close(&f);
}

/* ---- what fails ---- */

Test(transport_verbs_keyed, each_call_that_fails_while_connecting_is_a_clean_error)
{
	static const char *const names[] = { "rdma_connect", "rdma_accept", "rdma_establish",
		"rdma_init_qp_attr", "ibv_reg_mr", "ibv_create_qp", "ibv_modify_qp",
		"ibv_post_recv", "ibv_post_send", "confirmation" };
	const struct split_port_options small = { .receive_count = 32,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(1),
		.keepalive_ns = NUM_S(2) };

	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		uint32_t nth = 1;

		do {
			setup();
			fixture_make_keys(&f);
			fixture_open(&f, NET_VERBS, &small, &small);
			fake_verbs.fail_name = names[i];
			fake_verbs.fail_nth = nth++;
			(void)fixture_connect(&f, &side_ops);
			fixture_run(&f, ready_or_closed, 0);
			if (f.client.closed_count > 0)
				cr_assert_neq(f.client.reason[0], '\0', "%s", names[i]);
			fixture_close(&f);
			fixture_free_keys(&f);
			cr_assert_eq(fake_verbs.object_count, 0, "%s, call %u", names[i], nth - 1);
			cr_assert_eq(split_alloc_live_count(), 0, "%s, call %u", names[i], nth - 1);
		} while (fake_verbs.fail_count > 0);
		cr_assert_gt(nth, 2, "%s is never called", names[i]);
	}
}

Test(transport_verbs_keyed, a_device_that_goes_during_the_handshake_ends_it)
{
	open_keyed();
	(void)fixture_connect(&f, &side_ops);
	fixture_run(&f, handshake_is_under_way, 1);
	fake_verbs_remove();
	fixture_run(&f, client_closed, 0);
	cr_assert_eq(f.client.ready_count, 0);
	fixture_run(&f, handshake_is_under_way, 0);
	fixture_close(&f);
}

/* A device that gives nothing back: what it was given is free again all the same. */
Test(transport_verbs_keyed, frames_of_a_silent_peer_are_taken_back)
{
	dev_ptr memory;

	open_keyed();
	fixture_connect_both(&f);
	memory = pattern_alloc(f.client_port, PAYLOAD_BYTES, 5);
	fake_verbs.is_deaf = true;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		test_send_init(&sends[i], &f.client, WIRE_ECHO, i, memory, PAYLOAD_BYTES);
		cr_assert_eq(split_send(f.client.qp, &sends[i].send), 0);
	}
	fixture_idle(&f);
	cr_assert_lt(((struct verbs_port *)f.client_port->verbs)->stages[STAGE_FRAME].free_count,
	    ((struct verbs_port *)f.client_port->verbs)->stages[STAGE_FRAME].count);
	fake_verbs_time_out();
	fake_verbs.is_deaf = false;
	fixture_run(&f, both_closed, 0);
	cr_assert_eq(f.client.failed_count, MESSAGES);
	check_all_is_back();
}
