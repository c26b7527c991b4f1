/* SPDX-License-Identifier: Apache-2.0 */
/* test_port.c -- a port's end, with a thread of its own and engine threads */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/gateway/gateway.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "middletier/port/port.h"
#include "middletier/port/port_shards.h"
#include "support/made_cluster.h"
#include "support/sim_gateway.h"
#include "unit/lookup.h"

#define JOBS 2000u

static struct {
	struct loop *loop;
	struct meta_store *store;
	struct meta *meta;
	struct mt_gateway *gateway;
	struct engine_job jobs[JOBS];
	uint32_t done_count;
	bool has_stopped;
} real;

static void
on_stopped(void *arg)
{
	(void)arg;
	real.has_stopped = true;
}

static bool
is_taking(void *arg)
{
	(void)arg;
	return real.gateway->sm.state == MT_GATEWAY_TAKING;
}

static bool
has_stopped(void *arg)
{
	(void)arg;
	return real.has_stopped;
}

static uint32_t turns;

static bool
next_turn(void *arg)
{
	(void)arg;
	return turns++ % 2 == 1;
}

/* With a port at @address, which tells others @advertise. */
static void
start_at(const char *address, const char *advertise)
{
	static struct mt_gateway_options options;
	char error[256] = "";

	log_set_level(LOG_OFF);
	real.loop = loop_ev_create(1);
	real.store = meta_store_create(&(struct meta_store_options){ .loop = real.loop });
	real.meta = meta_memory_open(real.store, real.loop);
	options = (struct mt_gateway_options){ .loop = real.loop,
		.meta = real.meta,
		.cluster_id = 1,
		.gateway_id = 1,
		.boot_id = 1,
		.shard_count = 2,
		.node_count = 1,
		.nodes[0].address = "tcp://127.0.0.1:1",
		.ports[0] = { .cpu = -1 },
		.port_count = 1,
		.device_bytes = NUM_MIB(16),
		.engine_threads = 1,
		.node_timeout_ns = NUM_S(1) };
	(void)snprintf(options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "%s", address);
	(void)snprintf(options.ports[0].advertise, SPLIT_ADDRESS_BYTES_MAX, "%s", advertise);
	made_cluster(real.store, &options);
	real.gateway = mt_gateway_create(&options, error, sizeof(error));
	cr_assert_eq(mt_gateway_start(real.gateway, error, sizeof(error)), 0, "%s", error);
	cr_assert_eq(loop_run(real.loop, is_taking, NULL), 0);
}

static void
start(void)
{
	start_at("tcp://127.0.0.1:0", "");
}

static void
end(void)
{
	mt_gateway_destroy(real.gateway);
	real.meta->ops->close(real.meta);
	meta_store_destroy(real.store);
	loop_destroy(real.loop);
}

/* Shards and the port's memory are still there. */
static void
on_job(struct engine_job *job, void *arg)
{
	struct mt_port *port = arg;

	cr_assert_eq(job->rc, 0);
	cr_assert_eq(port->shard_count, 2);
	for (uint32_t i = 0; i < port->shard_count; i++) {
		cr_assert_not_null(port->shards[i].write);
	}
	cr_assert_not_null(port->split);
	real.done_count++;
}

/* As after a stop that did not wait for the last of them: each ends before what it refers to goes. */
Test(port, engine_jobs_left_at_its_end_find_shards_and_memory)
{
	struct mt_port *port;
	dev_ptr memory;

	start();
	mt_gateway_stop(real.gateway, on_stopped, NULL);
	cr_assert_eq(loop_run(real.loop, has_stopped, NULL), 0);
	port = &real.gateway->ports[0];
	memory = dev_alloc(port->split, 2 * ENGINE_RECORD_BYTES_MAX);
	cr_assert_not(dev_ptr_is_null(memory));
	for (uint32_t i = 0; i < JOBS; i++) {
		struct engine_job *job = &real.jobs[i];

		*job = (struct engine_job){ .kind = ENGINE_JOB_COPY,
			.src = memory,
			.src_bytes = ENGINE_RECORD_BYTES_MAX,
			.dst = dev_ptr_add(memory, ENGINE_RECORD_BYTES_MAX),
			.dst_cap_bytes = ENGINE_RECORD_BYTES_MAX,
			.fn = on_job,
			.arg = port };
		cr_assert_eq(engine_submit(port->engines, job), 0);
	}
	end();
	cr_assert_eq(real.done_count, JOBS);
}

/* Main talks to a port that is busy: with sets, and with its end; and is told of every shard. */
Test(port, sets_come_faster_than_they_can_be_followed)
{
	static uint64_t wanted[MT_SHARD_SET_WORDS];
	struct mt_port *port;

	start();
	port = &real.gateway->ports[0];
	for (uint32_t i = 0; i < 3000; i++) {
		wanted[0] = i % 4;
		mt_port_shards(port, wanted, i % 7 == 0 ? -ESTALE : 0);
		if (i % 50 == 0)
			cr_assert_eq(loop_run(real.loop, next_turn, NULL), 0);
	}
	mt_gateway_stop(real.gateway, on_stopped, NULL);
	cr_assert_eq(loop_run(real.loop, has_stopped, NULL), 0);
	end();
}

static uint32_t edges[MT_PORT_STATE_NR];
static const struct sm_state *port_states;

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	if (strcmp(sm->name, "port") != 0)
		return;
	port_states = sm->table;
	edges[from] |= SM_TO(to);
}

/* A port is stopped as it opened, and another when it has shards. */
Test(port, every_edge_of_its_states_is_taken)
{
	struct sg sg;

	sg_init(&sg, 3);
	sm_set_tracer(on_move);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_stop(&sg);
	cr_assert_eq(edges[MT_PORT_OPENING], SM_TO(MT_PORT_STOPPING), "main has read no cluster");
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_S(1));
	sg_stop(&sg);
	sm_set_tracer(NULL);
	for (uint32_t i = 0; i < MT_PORT_STATE_NR; i++)
		cr_assert_eq(edges[i], port_states[i].to, "%s", port_states[i].name);
	sg_fini(&sg);
}

/* The key that other gateways and, by maps, clients read: @wanted with the port that it got, or with @port. */
static void
expect_published(const char *address, const char *advertise, const char *wanted, const char *port)
{
	char text[2 * SPLIT_ADDRESS_BYTES_MAX], *key;

	lookup_set((const char *const[]){ "127.0.0.1" }, 1);
	start_at(address, advertise);
	key = mt_member_encode(real.gateway);
	(void)snprintf(text, sizeof(text), "\"ports\":[\"%s%s\"]", wanted,
	    port != NULL ? port : strrchr(real.gateway->ports[0].address, ':'));
	cr_assert_not_null(strstr(key, text), "'%s' is not in '%s'", text, key);
	cr_assert_neq(strcmp(strrchr(real.gateway->ports[0].address, ':'), ":0"), 0);
	free(key);
	mt_gateway_stop(real.gateway, on_stopped, NULL);
	cr_assert_eq(loop_run(real.loop, has_stopped, NULL), 0);
	end();
	memset(&real, 0, sizeof(real));
}

Test(port, what_others_are_told)
{
	expect_published("tcp://127.0.0.1:0", "", "tcp://127.0.0.1", NULL);
	expect_published("tcp://localhost:0", "", "tcp://127.0.0.1", NULL); /* as it always was */
	expect_published("tcp://0.0.0.0:0", "", "tcp://0.0.0.0", NULL);
	expect_published("tcp://gw1.example:0", "", "tcp://gw1.example", NULL);
	expect_published("tcp://127.0.0.1:0", "tcp://gw1.example:0", "tcp://gw1.example", NULL);
	expect_published("tcp://0.0.0.0:0", "tcp://10.0.0.5:7100", "tcp://10.0.0.5", ":7100");
}
