/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_fixture.h -- a client and a fake gateway, over TCP in real time or simulated in virtual time
 *
 * CLIENT_BOTH(suite, name) declares one behaviour and runs it over each. Every wait is bounded: a
 * behaviour that does not come is a failure, not a hang.
 */
#ifndef CLEAVE_TESTS_CLIENT_FIXTURE_H
#define CLEAVE_TESTS_CLIENT_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/client.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"
#include "support/fake_gateway.h"

#define FIXTURE_WAIT_NS NUM_S(30)
#define FIXTURE_IOS_MAX 1024u

enum net_kind { NET_TCP, NET_SIM };

#define CLIENT_BOTH(suite, name)                                                                   \
	static void name##_over(enum net_kind kind);                                               \
	Test(suite, name##_over_tcp)                                                               \
	{                                                                                          \
		name##_over(NET_TCP);                                                              \
	}                                                                                          \
	Test(suite, name##_over_sim)                                                               \
	{                                                                                          \
		name##_over(NET_SIM);                                                              \
	}                                                                                          \
	static void name##_over(enum net_kind kind)

#define FIXTURE_SWAP(a, b)                                                                         \
	do {                                                                                       \
		__typeof__(a) swapped_ = (a);                                                      \
		(a) = (b);                                                                         \
		(b) = swapped_;                                                                    \
	} while (0)

struct fixture {
	enum net_kind kind;
	struct sim_world *world;
	struct sim_net *net;
	struct sim_host *gateway_host, *client_host;
	struct loop *gateway_loop, *client_loop;
	struct loop_timer guard;
	bool has_timed_out;
	struct fake_gateway fake;
	struct cleave_client_options options;
	const char *gateways[2];
	struct cleave_client *client;
	struct cleave_volume *volume;
	bool is_answered; /* open, close, control */
	int rc;
	char error[CLEAVE_ERROR_BYTES_MAX];
	char reply[65537];
	struct cleave_call call;
	struct cleave_io ios[FIXTURE_IOS_MAX];
	uint32_t done[FIXTURE_IOS_MAX]; /* indices of ios in order of completion */
	uint32_t done_count;
};

static inline void
fixture_on_guard(struct loop_timer *timer, void *arg)
{
	struct fixture *f = arg;

	(void)timer;
	f->has_timed_out = true;
	loop_stop(f->client_loop);
}

/* Run until @until(@f) is true. */
static inline void
fixture_run(struct fixture *f, bool (*until)(void *arg))
{
	int rc;

	if (f->kind == NET_SIM) {
		rc =
		    sim_world_run(f->world, until, f, sim_world_now_ns(f->world) + FIXTURE_WAIT_NS);
		cr_assert(rc == 0, "not in time: rc %d", rc);
		return;
	}
	f->has_timed_out = false;
	loop_timer_start(f->client_loop, &f->guard, FIXTURE_WAIT_NS);
	(void)loop_run(f->client_loop, until, f);
	loop_timer_stop(f->client_loop, &f->guard);
	cr_assert(!f->has_timed_out, "not in time");
}

static inline bool
fixture_is_answered(void *arg)
{
	return ((struct fixture *)arg)->is_answered;
}

static inline void
fixture_sim_init(struct fixture *f, struct fake_options *fake_options)
{
	f->world = sim_world_create(42);
	f->net = sim_net_create(f->world);
	f->gateway_loop = sim_loop_create(f->world, "gateway");
	f->client_loop = sim_loop_create(f->world, "client");
	f->gateway_host = fake_options->sim_host = sim_host_create(f->net, "gateway");
	f->client_host = f->options.sim_host = sim_host_create(f->net, "client");
	fake_options->address = "sim://gateway:1";
}

/* The gateway alone; fixture_client makes the client when the test has set its options. */
static inline struct fixture *
fixture_create(enum net_kind kind, uint32_t port_count, uint32_t shard_count)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct fake_options fake_options = {
		.address = "tcp://127.0.0.1:0",
		.port_count = port_count,
		.shard_count = shard_count,
	};

	cr_assert(f != NULL);
	f->kind = kind;
	if (kind == NET_SIM)
		fixture_sim_init(f, &fake_options);
	else
		f->gateway_loop = f->client_loop = loop_ev_create(1);
	loop_timer_init(&f->guard, fixture_on_guard, f);
	fake_options.loop = f->gateway_loop;
	fake_gateway_init(&f->fake, &fake_options);
	f->gateways[0] = f->fake.addresses[0];
	f->options.loop = f->client_loop;
	f->options.gateways = f->gateways;
	f->options.gateway_count = 1;
	f->options.forgets_gateways = true; /* the next test's port may be the same */
	f->options.backoff_min_ns = NUM_MS(1);
	f->options.backoff_max_ns = NUM_MS(20);
	return f;
}

static inline void
fixture_client(struct fixture *f)
{
	int rc = cleave_client_create(&f->options, &f->client, f->error);

	cr_assert(rc == 0, "create: %d %s", rc, f->error);
}

static inline void
fixture_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct fixture *f = arg;

	f->volume = volume;
	f->rc = rc;
	f->is_answered = true;
	snprintf(f->error, sizeof(f->error), "%s", error == NULL ? "" : error);
}

/* Returns what open said. */
static inline int
fixture_open(struct fixture *f, const char *name)
{
	int rc;

	f->is_answered = false;
	rc = cleave_volume_open(f->client, name, 0, fixture_on_open, f);
	cr_assert(rc == 0, "open: %d", rc);
	cr_assert(!f->is_answered, "a callback ran inside the call");
	fixture_run(f, fixture_is_answered);
	return f->rc;
}

/* A client with an open volume "v" of @bytes. */
static inline struct fixture *
fixture_with_volume(enum net_kind kind, uint64_t bytes)
{
	struct fixture *f = fixture_create(kind, 2, 4);

	fake_gateway_add(&f->fake, "v", bytes);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	return f;
}

static inline void
fixture_on_closed(void *arg)
{
	struct fixture *f = arg;

	f->volume = NULL;
	f->is_answered = true;
}

static inline void
fixture_close(struct fixture *f)
{
	f->is_answered = false;
	cleave_volume_close(f->volume, fixture_on_closed, f);
	cr_assert(!f->is_answered, "a callback ran inside the call");
	fixture_run(f, fixture_is_answered);
}

static inline void
fixture_destroy(struct fixture *f)
{
	if (f->volume != NULL)
		fixture_close(f);
	cleave_client_destroy(f->client);
	fake_gateway_fini(&f->fake);
	if (f->kind == NET_SIM) {
		sim_net_destroy(f->net);
		sim_world_destroy(f->world);
	} else {
		loop_destroy(f->client_loop);
	}
	free(f);
}

static inline void
fixture_on_reply(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct fixture *f = arg;

	(void)call;
	f->rc = rc;
	f->is_answered = true;
	snprintf(f->reply, sizeof(f->reply), "%s", reply == NULL ? "" : reply);
	snprintf(f->error, sizeof(f->error), "%s", error == NULL ? "" : error);
	cr_assert((error == NULL) == (rc == 0));
}

static inline int
fixture_control(struct fixture *f, const char *request)
{
	int rc;

	f->is_answered = false;
	f->call.fn = fixture_on_reply;
	f->call.arg = f;
	rc = cleave_control(f->client, &f->call, request);
	cr_assert(rc == 0, "control: %d", rc);
	cr_assert(!f->is_answered, "a callback ran inside the call");
	fixture_run(f, fixture_is_answered);
	return f->rc;
}

static inline void
fixture_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct fixture *f = arg;

	cr_assert(io->rc == rc);
	f->done[f->done_count++] = (uint32_t)(io - f->ios);
}

/* Start ios[@index]; returns what cleave_submit said. */
static inline int
fixture_submit(struct fixture *f, uint32_t index, enum cleave_op op, uint64_t offset_bytes,
    uint64_t length_bytes, void *data)
{
	uint32_t done_count = f->done_count;
	int rc;

	f->ios[index] = (struct cleave_io){
		.op = op,
		.offset_bytes = offset_bytes,
		.length_bytes = length_bytes,
		.data = data,
		.fn = fixture_on_io,
		.arg = f,
		.rc = 1,
	};
	rc = cleave_submit(f->volume, &f->ios[index]);
	cr_assert(done_count == f->done_count, "a callback ran inside the call");
	return rc;
}

static inline bool
fixture_is_all_done(void *arg)
{
	struct fixture *f = arg;

	return f->done_count == f->ios[FIXTURE_IOS_MAX - 1].split_bytes;
}

/* Run until @count requests have completed since the fixture was made. */
static inline void
fixture_wait(struct fixture *f, uint32_t count)
{
	/* The last request is never used: its cursor holds what is waited for. */
	f->ios[FIXTURE_IOS_MAX - 1].split_bytes = count;
	fixture_run(f, fixture_is_all_done);
}

/* A request, start to end. */
static inline int
fixture_io(struct fixture *f, enum cleave_op op, uint64_t offset_bytes, uint64_t length_bytes,
    void *data)
{
	int rc = fixture_submit(f, 0, op, offset_bytes, length_bytes, data);

	if (rc != 0)
		return rc;
	fixture_wait(f, f->done_count + 1);
	return f->ios[0].rc;
}

static inline bool
fixture_passes(void *arg)
{
	struct fixture *f = arg;

	return f->is_answered;
}

static inline void
fixture_on_pass(struct loop_timer *timer, void *arg)
{
	(void)timer;
	((struct fixture *)arg)->is_answered = true;
}

/* Let @ns pass: for "nothing happens" (in real time, too, so keep it short). */
static inline void
fixture_pass(struct fixture *f, uint64_t ns)
{
	struct loop_timer timer = { 0 };

	f->is_answered = false;
	loop_timer_init(&timer, fixture_on_pass, f);
	loop_timer_start(f->client_loop, &timer, ns);
	fixture_run(f, fixture_passes);
}

static inline bool
fixture_is_held(void *arg)
{
	struct fixture *f = arg;

	return f->fake.held_count >= f->ios[FIXTURE_IOS_MAX - 1].split_bytes;
}

/* Run until the gateway holds @count requests or more. */
static inline void
fixture_wait_held(struct fixture *f, uint32_t count)
{
	f->ios[FIXTURE_IOS_MAX - 1].split_bytes = count;
	fixture_run(f, fixture_is_held);
}

/* @bytes of content that differs from block to block and from @seed to seed. */
static inline uint8_t *
fixture_data(uint64_t bytes, uint64_t seed)
{
	uint64_t *data = malloc(bytes);

	cr_assert(data != NULL);
	for (uint64_t i = 0; i < bytes / sizeof(*data); i++)
		data[i] = num_mix_u64(seed * 1000003 + i + 1);
	return (uint8_t *)data;
}

static inline const struct cleave_stats *
fixture_stats(const struct fixture *f)
{
	return cleave_client_stats(f->client);
}

#endif /* CLEAVE_TESTS_CLIENT_FIXTURE_H */
