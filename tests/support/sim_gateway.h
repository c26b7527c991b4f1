/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_gateway.h -- a gateway in virtual time without storage nodes, and raw clients of it
 *
 * For tests of what a gateway does before a block reaches a node: hellos, sessions, control requests,
 * refusals. Its shards wait for nodes that never answer, so a write that passes every check stays in
 * flight. Clients speak the split library directly.
 */
#ifndef CLEAVE_TESTS_SIM_GATEWAY_H
#define CLEAVE_TESTS_SIM_GATEWAY_H

#include <jansson.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/meta/meta_store.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"

#define SG_CLUSTER_ID 0xc1ea7e0000000001u
#define SG_DEADLINE_NS NUM_S(60)
#define SG_REPLIES_MAX 64

struct sg {
	struct sim_world *world;
	struct sim_net *net;
	struct sim_host *gateway_host, *client_host;
	struct loop *gateway_loop, *client_loop;
	struct meta_store *store;
	struct meta *meta;
	struct mt_gateway_options options;
	struct mt_gateway *gateway;
	struct split_port *client;
	bool has_failed, has_stopped;
	bool is_unmade; /* sg_start does not make the cluster where there is none */
	char failure[512];
	char error[256]; /* of create or start */
};

struct sg_reply {
	struct wire_header header;
	char *text; /* a control answer's, NUL-terminated */
};

struct sg_qp {
	struct sg *sg;
	struct split_port *port; /* that it is of */
	struct split_qp *qp;
	bool is_ready, is_closed;
	int close_rc;
	struct sg_reply replies[SG_REPLIES_MAX];
	uint32_t reply_count;
	uint64_t next_request_id;
};

/* sg_init -- world, network, store; options as a small gateway has them. sg_fini: all of it. */
void sg_init(struct sg *sg, uint64_t seed);
void sg_fini(struct sg *sg);
/* sg_client_key -- clients are of another process from here on, which has @key, or none; all connections of before end. */
void sg_client_key(struct sg *sg, const struct split_key *key);
/* sg_start -- 0, or what mt_gateway_start said, with sg->error. */
int sg_start(struct sg *sg);
/* sg_stop -- orderly, then destroyed; sg_kill -- at once. sg_start may follow either. */
void sg_stop(struct sg *sg);
void sg_kill(struct sg *sg);
/* sg_run -- until @until(@arg); false when the deadline or the end of all events comes first. */
bool sg_run(struct sg *sg, bool (*until)(void *arg), void *arg);
void sg_run_for(struct sg *sg, uint64_t ns);

/*
 * sg_open_port -- another port of the clients' machine, with a key (cleave/secure.h); split_port_close before sg_fini
 *
 * What is connected while sg->client is that port is by that key.
 */
struct split_port *sg_open_port(struct sg *sg, const struct split_key *key);

/*
 * sg_client_open -- the client's half alone, of gateways that are another rig's, in @world and on @net
 *
 * @options: theirs. The client connects to ports[0] of sg->options: change the address. sg_client_close before the rig goes.
 */
void sg_client_open(struct sg *sg, struct sim_world *world, struct sim_net *net,
    const struct mt_gateway_options *options);
void sg_client_close(struct sg *sg);

/* sg_connect -- NULL @hello: a control session's. Port 0 of the gateway. Does not wait. */
void sg_connect(struct sg *sg, struct sg_qp *qp, const struct wire_hello *hello);
/* sg_wait_open -- run until it is ready (0) or closed (its rc). */
int sg_wait_open(struct sg_qp *qp);
bool sg_wait_closed(struct sg_qp *qp);
void sg_close(struct sg_qp *qp);
/* sg_send -- any header and @bytes of payload; answers gather in qp->replies. */
void sg_send(struct sg_qp *qp, const struct wire_header *header, const void *payload,
    uint32_t bytes);
/* sg_wait_replies -- run until there are @count. */
bool sg_wait_replies(struct sg_qp *qp, uint32_t count);
/* sg_control -- ask and wait; returns the answer (json_decref) and its status as an errno. */
json_t *sg_control(struct sg_qp *qp, const char *text, int *ret_rc);
/* sg_hello -- of an I/O session. */
struct wire_hello sg_hello(uint64_t volume_id, uint64_t session_id, uint64_t attach,
    uint64_t incarnation);
/* sg_io -- a request's header. */
struct wire_header sg_io(enum wire_opcode opcode, uint64_t segment, uint64_t offset_bytes,
    uint32_t length_bytes, uint32_t epoch);

#endif /* CLEAVE_TESTS_SIM_GATEWAY_H */
