/* SPDX-License-Identifier: Apache-2.0 */
/* test_link_ticket.c -- a gateway's tickets, judged by real nodes: made, ended by a restart, by time, by a newer attach */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/ticket.h"
#include "middletier/cluster/ask.h"
#include "middletier/extent/link_ticket.h"
#include "middletier/extent/node_link.h"
#include "splitlib/core/port.h"
#include "storage-node/node.h"
#include "storage-node/permit.h"
#include "support/mt_rig.h"

#define SESSION UINT64_C(0x1234567890)
#define VOLUME 5u
#define ATTACH 3u

static struct mt_rig *rig;

static void
begin(enum node_direct direct)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .direct = direct });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(link_ticket, .fini = teardown, .timeout = 60);

static int
make(uint32_t index, struct wire_ticket *ret_ticket)
{
	*ret_ticket = (struct wire_ticket){ .id = { 0, 1, 2 },
		.from_bytes = 4096,
		.to_bytes = 8192,
		.volume_id = VOLUME,
		.attach = ATTACH };
	return mt_link_ticket(mt_rig_link(rig, index), SESSION, NULL, ret_ticket);
}

static int
judge(uint32_t index, const struct wire_ticket *ticket, uint64_t session_id)
{
	struct node *node = rig->nodes[index].node;
	const struct ticket_bearer bearer = { node_id(node), session_id, NULL };
	struct sn_ticket believed;

	return sn_permit_judge(node, ticket, &bearer, "peer", &believed);
}

static bool
has_ticket(void *arg)
{
	return make(0, arg) == 0;
}

Test(link_ticket, the_node_that_it_is_made_for_believes_it_and_no_other)
{
	struct wire_ticket ticket;

	begin(NODE_DIRECT_TRUSTED);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(make(i, &ticket), 0);
		cr_assert_eq(judge(i, &ticket, SESSION), 0);
		cr_assert_neq(judge((i + 1) % 3, &ticket, SESSION), 0);
		cr_assert_eq(judge(i, &ticket, SESSION + 1), -EKEYREJECTED);
	}
}

Test(link_ticket, it_is_for_one_client)
{
	const struct split_subject subject = { 1, SPLIT_ROLE_CLIENT, "db" };
	struct wire_ticket ticket;
	struct ticket_bearer bearer;
	struct sn_ticket believed;

	begin(NODE_DIRECT_TRUSTED);
	cr_assert_eq(make(0, &ticket), 0);
	cr_assert_eq(mt_link_ticket(mt_rig_link(rig, 0), SESSION, &subject, &ticket), 0);
	cr_assert_eq(judge(0, &ticket, SESSION), -EKEYREJECTED);
	bearer = (struct ticket_bearer){ node_id(rig->nodes[0].node), SESSION, &subject };
	cr_assert_eq(sn_permit_judge(rig->nodes[0].node, &ticket, &bearer, "peer", &believed), 0);
}

static bool
is_key_told(void *arg)
{
	const struct mt_link *link = arg;

	return !link->ticket.is_asked && link->ticket.key.number != 0;
}

Test(link_ticket, a_key_stays_in_no_receive)
{
	struct split_port *port;
	uint8_t bytes[WIRE_TICKET_KEY_ANSWER_BYTES];
	struct mt_link *link;

	begin(NODE_DIRECT_TRUSTED);
	link = mt_rig_link(rig, 0);
	port = mt_rig_port(rig)->split;
	mt_link_ticket_ask(link);
	cr_assert(link->ticket.is_asked);
	cr_assert(mt_rig_run_until(rig, is_key_told, link));
	for (uint32_t i = 0; i < port->pool.count; i++) {
		dev_copy_to_host(port, bytes, port->pool.receives[i].payload, sizeof(bytes));
		cr_assert_neq(memcmp(bytes + 8, link->ticket.key.key, WIRE_TICKET_KEY_BYTES), 0);
	}
}

Test(link_ticket, a_node_that_takes_no_clients_is_asked_for_no_key)
{
	struct wire_ticket ticket;

	begin(NODE_DIRECT_OFF);
	cr_assert_eq(make(0, &ticket), -ENOTSUP);
	mt_port_volume_fence(mt_rig_port(rig), VOLUME, ATTACH);
	cr_assert_eq(mt_rig_link(rig, 0)->call_count, 0);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_not(mt_rig_logged(rig, "tells no key"));
}

/* A cluster of open connections, and nodes that believe in keys alone. */
Test(link_ticket, a_node_that_tells_no_key_serves_all_else)
{
	struct wire_ticket ticket;

	begin(NODE_DIRECT_KEYED);
	cr_assert_eq(make(0, &ticket), -EAGAIN);
	cr_assert(mt_rig_logged(rig, "tells no key for tickets"));
	cr_assert(mt_link_is_up(mt_rig_link(rig, 0)));
}

/* A node lets a recovery list and read alone, and whoever asks for more is cut off. */
Test(link_ticket, a_gateway_without_a_store_asks_for_no_key)
{
	static struct mt_cluster recovery;
	struct mt_link *link;

	begin(NODE_DIRECT_TRUSTED);
	link = mt_rig_link(rig, 0);
	recovery = *link->port->cluster;
	recovery.store_id = (struct store_id){ 0, 0 };
	link->port->cluster = &recovery;
	mt_link_ticket_lost(link);
	mt_link_ticket_ask(link);
	cr_assert_not(link->ticket.is_asked);
}

Test(link_ticket, a_restart_of_the_node_ends_it_and_the_next_one_is_by_another_key)
{
	struct wire_ticket before, ticket;

	begin(NODE_DIRECT_TRUSTED);
	cr_assert_eq(make(0, &before), 0);
	mt_rig_node_kill(rig, 0, false);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(make(0, &ticket), -ENOTSUP, "it is down");
	mt_rig_node_start(rig, 0);
	cr_assert(mt_rig_run_until(rig, has_ticket, &ticket));
	cr_assert_eq(judge(0, &before, SESSION), -EKEYREVOKED);
	cr_assert_eq(judge(0, &ticket, SESSION), 0);
}

Test(link_ticket, a_key_that_is_old_is_asked_for_again)
{
	struct wire_ticket ticket;

	begin(NODE_DIRECT_TRUSTED);
	sim_loop_set_skew(rig->gateway_loop, NUM_MS(WIRE_TICKET_KEY_MS) / 2, 0);
	cr_assert_eq(make(0, &ticket), -EAGAIN);
	cr_assert(mt_rig_run_until(rig, has_ticket, &ticket));
	cr_assert_eq(judge(0, &ticket, SESSION), 0);
}

Test(link_ticket, a_fence_ends_tickets_of_older_attaches_at_every_node)
{
	struct wire_ticket tickets[3];

	begin(NODE_DIRECT_TRUSTED);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(make(i, &tickets[i]), 0);
	mt_port_volume_fence(mt_rig_port(rig), VOLUME, ATTACH);
	mt_rig_run(rig, NUM_S(1));
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(judge(i, &tickets[i], SESSION), 0);
	mt_port_volume_fence(mt_rig_port(rig), VOLUME, ATTACH + 1);
	mt_rig_run(rig, NUM_S(1));
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(judge(i, &tickets[i], SESSION), -EKEYREVOKED);
}

static void
on_asked(struct mt_ask *ask, void *arg)
{
	(void)ask;
	*(bool *)arg = true;
}

static bool
is_true(void *arg)
{
	return *(bool *)arg;
}

/* A volume may come back from the trash: then its next attach has tickets again. */
Test(link_ticket, an_attach_that_ports_are_told_of_fences_older_ones_and_a_deletion_that_one)
{
	struct mt_volume volume = { .id = VOLUME, .attach = ATTACH + 1 };
	struct wire_ticket ticket, newer;
	bool is_asked = false;

	begin(NODE_DIRECT_TRUSTED);
	cr_assert_eq(make(0, &ticket), 0);
	newer = ticket;
	newer.attach++;
	cr_assert_eq(mt_link_ticket(mt_rig_link(rig, 0), SESSION, NULL, &newer), 0);
	cr_assert_eq(mt_ask_ports(rig->gateway, MT_ASK_ATTACH, &volume, on_asked, &is_asked), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_asked));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(judge(0, &ticket, SESSION), -EKEYREVOKED);
	cr_assert_eq(judge(0, &newer, SESSION), 0);
	is_asked = false;
	cr_assert_eq(mt_ask_ports(rig->gateway, MT_ASK_DELETE, &volume, on_asked, &is_asked), 0);
	cr_assert(mt_rig_run_until(rig, is_true, &is_asked));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(judge(0, &newer, SESSION), -EKEYREVOKED);
	newer.attach++;
	cr_assert_eq(mt_link_ticket(mt_rig_link(rig, 0), SESSION, NULL, &newer), 0);
	cr_assert_eq(judge(0, &newer, SESSION), 0);
}

Test(link_ticket, fences_have_a_bound_and_those_beyond_it_are_left_out)
{
	struct wire_ticket ticket;

	begin(NODE_DIRECT_TRUSTED);
	for (uint32_t i = 0; i < 2 * LINK_FENCES_MAX; i++)
		mt_port_volume_fence(mt_rig_port(rig), VOLUME + 1 + i, ATTACH + 1);
	cr_assert_leq(mt_rig_link(rig, 0)->call_count, LINK_FENCES_MAX + 2);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_link(rig, 0)->call_count, 0);
	cr_assert_eq(make(0, &ticket), 0);
	ticket.volume_id = VOLUME + 2 * LINK_FENCES_MAX; /* of the last one */
	cr_assert_eq(mt_link_ticket(mt_rig_link(rig, 0), SESSION, NULL, &ticket), 0);
	cr_assert_eq(judge(0, &ticket, SESSION), 0, "left out");
	mt_port_volume_fence(mt_rig_port(rig), ticket.volume_id, ATTACH + 1);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(judge(0, &ticket, SESSION), -EKEYREVOKED, "there is room again");
}

/* As a port does that is killed: what is out ends unseen, and nothing is left of it. */
Test(link_ticket, a_gateway_is_killed_while_fences_are_out)
{
	begin(NODE_DIRECT_TRUSTED);
	mt_port_volume_fence(mt_rig_port(rig), VOLUME, ATTACH);
	mt_rig_gateway_kill(rig);
}
