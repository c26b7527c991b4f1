/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_holder.c -- the op "volume.holder": who has its answer relies on every port of the gateway
 *
 * The op is built in with its planted bug, which no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/control/control_holder.c"

#include "base/list.h"
#include "middletier/cluster/volume_refresh.h"
#include "middletier/session/session.h"
#include "unit/control_elsewhere.h"

struct mutant_set mutants_on;

static struct sg_qp writer;

static void
open_writer(void)
{
	struct wire_hello hello = sg_hello(1, 0xa, 1, 1);

	setup_cluster();
	json_decref(ask(0, "{'op':'volume.attach','name':'v','session':'000000000000000a'}"));
	hello.cluster_id = 0;
	sg_connect(&sg, &writer, &hello);
	cr_assert_eq(sg_wait_open(&writer), 0);
}

static void
close_writer(void)
{
	sg_close(&writer);
	teardown_cluster();
}

TestSuite(holder, .init = open_writer, .fini = close_writer);

static bool
may_write(void)
{
	const struct mt_port *port = &peers[0].gateway->ports[0];
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		const struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);

		if (session->hello.attach == 1 && mt_session_may_write(session))
			return true;
	}
	return false;
}

/* The tables have another gateway's attach, as while one port-wide word about a reading follows the other. */
static void
ask_of_what_ports_do_not_know(void)
{
	struct mt_volume volume = entry_of("v")->volume;

	mt_volumes_unwatch(peers[0].gateway);
	volume.attach = 2;
	volume.session_id = OTHERS_SESSION;
	put_elsewhere(&volume);
	cr_assert(may_write());
	json_decref(ask(0, "{'op':'volume.holder','id':1,'attach':2}"));
}

Test(holder, an_answer_comes_when_the_ports_know_the_attach)
{
	ask_of_what_ports_do_not_know();
	cr_assert_not(may_write());
}

Test(holder, a_planted_bug_answers_before)
{
	mutant_set_add(&mutants_on, MUTANT_holder_untold);
	ask_of_what_ports_do_not_know();
	cr_assert(may_write());
}
