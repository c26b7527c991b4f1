/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c -- queue pairs in, requests out
 *
 * Gateways send requests about extents; anyone may ask for the status and an echo. A message is
 * decoded once, becomes a request (request.c), and goes to the file of its opcode, which ends it by
 * sn_request_finish. Clients that read by tickets are reader.c's. A queue pair that goes away takes nothing with it: its requests go on to their end,
 * and the answer is dropped.
 *
 * Connections that have asked for nothing about extents give way to others where the node runs out of places or
 * receives (split_qp_keep): a gateway's connection is kept from its first such request on.
 *
 * A message that fails a check closes its queue pair, with one line in the log that names the field.
 */
#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "append.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/tcp_address.h"
#include "change.h"
#include "claim.h"
#include "cleave/level.h"
#include "control.h"
#include "fence.h"
#include "find.h"
#include "gather.h"
#include "node_state.h"
#include "peer.h"
#include "permit.h"
#include "read.h"
#include "reader.h"
#include "refusal.h"
#include "request.h"
#include "store.h"
#include "verify.h"

/* The rights of @qp, which are its argument. */
static struct sn_peer *
peer_of(const struct split_qp *qp)
{
	return split_qp_arg(qp);
}

/* ---- requests ---- */

static void
server_break(struct node *node, struct split_msg *msg, const char *field)
{
	assert(field != NULL);
	SN_COUNT(node, messages_bad, 1);
	log_limited(LOG_WARN,
	    "server: closed a connection for a bad message peer=%s opcode=0x%02x field=%s: is that a "
	    "gateway, and of a release that fits?",
	    split_qp_peer(msg->qp), msg->header->opcode, field);
	split_qp_close(msg->qp);
	split_msg_release(msg);
}

static void
server_run(struct sn_request *req)
{
	assert(req->extent == NULL);
	switch (req->wire.opcode) {
	case WIRE_EXTENT_APPEND:
		sn_append_start(req);
		break;
	case WIRE_EXTENT_READ:
		sn_read_start(req);
		break;
	case WIRE_EXTENT_FIND:
		sn_find_start(req);
		break;
	case WIRE_EXTENT_GATHER:
		sn_gather_start(req);
		break;
	case WIRE_EXTENT_LEND:
		sn_claim_lend(req);
		break;
	case WIRE_EXTENT_LIST:
		sn_list_run(req);
		break;
	case WIRE_EXTENT_VERIFY:
		sn_verify_start(req);
		break;
	case WIRE_TICKET_KEY:
		sn_permit_tell_key(req);
		break;
	case WIRE_VOLUME_FENCE:
		sn_permit_fence(req);
		break;
	default:
		sn_change_start(req);
		break;
	}
}

static void
server_on_request(struct node *node, struct split_msg *msg)
{
	struct sn_request *req;
	struct wire_node wire;
	const char *field = "opcode";
	int rc = 0;

	if (peer_of(msg->qp)->is_reader)
		sn_reader_note_refused(sn_reader_of(peer_of(msg->qp)), msg);
	if (!peer_of(msg->qp)->is_gateway || wire_node_decode(msg->header, &wire, &field) != 0) {
		server_break(node, msg, field);
		return;
	}
	req = sn_request_take(node, msg, &wire);
	if (!sn_store_allows(node, &peer_of(msg->qp)->store, wire.opcode, split_qp_peer(msg->qp)))
		rc = -ENOTUNIQ;
	else if (node->sm.state != NODE_READY)
		rc = -EHOSTDOWN;
	else if (wire.opcode != WIRE_EXTENT_READ || !store_id_is_zero(&peer_of(msg->qp)->store))
		/* A recovery, which has no store, reads, and owns nothing. */
		rc = sn_claim_judge(node, split_qp_subject(msg->qp), &wire, split_qp_peer(msg->qp));
	if (rc != 0) {
		sn_request_fail(req, rc);
		return;
	}
	split_qp_keep(msg->qp);
	server_run(req);
}

static void
server_on_echo(struct node *node, struct split_msg *msg)
{
	struct dev_piece piece = { .ptr = msg->payload, .bytes = msg->payload_bytes };
	struct wire_header header = *msg->header;

	header.opcode = WIRE_ECHO | WIRE_REPLY;
	sn_reply_raw(node, msg, &header, piece.bytes > 0 ? &piece : NULL);
}

static void
server_on_direct(struct node *node, struct split_msg *msg)
{
	const char *field = "opcode";

	if (!peer_of(msg->qp)->is_reader ||
	    sn_reader_run(sn_reader_of(peer_of(msg->qp)), msg, &field) != 0)
		server_break(node, msg, field);
}

static void
server_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct node *node = ((struct sn_peer *)arg)->node;

	(void)qp;
	CHECK_OBJ(node, SN_NODE_MAGIC);
	for (uint32_t i = 0; i < count; i++) {
		const char *field = NULL;

		/* A message before this one was bad, and closed the queue pair. */
		if (msgs[i]->qp == NULL || split_qp_state(msgs[i]->qp) != SPLIT_QP_READY) {
			split_msg_release(msgs[i]);
			continue;
		}
		switch (msgs[i]->header->opcode) {
		case WIRE_ECHO:
			server_on_echo(node, msgs[i]);
			break;
		case WIRE_CONTROL:
			if (sn_control_run(node, msgs[i], &field) != 0)
				server_break(node, msgs[i], field);
			break;
		case WIRE_TICKETS:
		case WIRE_DIRECT_READ:
			server_on_direct(node, msgs[i]);
			break;
		default:
			server_on_request(node, msgs[i]);
			break;
		}
	}
}

/* ---- connections ---- */

static void
server_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct sn_peer *peer = arg;

	sn_peer_leave(peer);
	if (peer->is_reader)
		sn_reader_close(sn_reader_of(peer));
	log_debug("server: closed peer=%s rc=%s reason=%s", split_qp_peer(qp), log_errno(rc),
	    reason != NULL ? reason : "-");
}

static const struct split_qp_ops server_qp_ops = {
	.on_messages = server_on_messages,
	.on_closed = server_on_closed,
};

/*
 * May who has @subject (NULL: the connection is open) come with @role? Gateways alone ask about extents; the status
 * is for operators as well. Returns 0; -EKEYREJECTED and @why.
 */
static int
server_judge_subject(const struct split_subject *subject, enum wire_role role, char *why)
{
	static const struct split_wanted gateway = { .roles = SPLIT_ROLE_GATEWAY },
					 asking = { .roles = SPLIT_ROLE_GATEWAY | SPLIT_ROLE_ADMIN |
						     SPLIT_ROLE_MONITOR };

	if (subject == NULL || MUTANT(accept_role_ignored))
		return 0;
	return split_subject_check(subject, role == WIRE_ROLE_GATEWAY ? &gateway : &asking, why);
}

static int
server_judge_hello(const struct node *node, const void *hello, uint32_t hello_bytes,
    struct wire_hello *ret_hello, const char **ret_field)
{
	int rc = wire_hello_decode(hello, hello_bytes, ret_hello, ret_field);

	if (rc != 0)
		return rc;
	*ret_field = "role";
	if (ret_hello->role != WIRE_ROLE_GATEWAY && ret_hello->role != WIRE_ROLE_CLIENT)
		return -EPROTO;
	/* A client comes for the status alone, or, with a session, to read by tickets. */
	*ret_field = "volume_id";
	if (ret_hello->role == WIRE_ROLE_CLIENT && ret_hello->volume_id != 0)
		return -EPROTO;
	*ret_field = "cluster_id";
	if (ret_hello->cluster_id != node->super.cluster_id &&
	    !(ret_hello->role == WIRE_ROLE_CLIENT && ret_hello->cluster_id == 0))
		return -EXDEV;
	return 0;
}

static void
server_accept(struct node *node, struct split_qp *qp, struct sn_peer *peer, uint8_t level)
{
	/* Clients have no use for it. */
	struct store_id ours = peer->is_reader ? (struct store_id){ 0, 0 }
					       : sn_fence_store_id(node);
	uint8_t answer[WIRE_HELLO_BYTES];

	assert(node->sm.state == NODE_READY);
	SN_COUNT(node, connections, 1);
	sn_peer_join(peer);
	wire_hello_encode(answer,
	    &(struct wire_hello){ .level = wire_level_answer(level, node->options.level_max),
		.role = WIRE_ROLE_NODE,
		.node_id = node->super.node_id,
		.cluster_id = node->super.cluster_id,
		.session_id = ours.high,
		.attach = ours.low });
	split_qp_accept(qp, &server_qp_ops, peer, answer, sizeof(answer));
}

/* Accepts @qp, whose gateway sn_store_meet or sn_store_join has let in. */
static void
server_accept_gateway(struct node *node, struct split_qp *qp, const struct store_id *store,
    uint8_t level)
{
	struct sn_peer *peer = sn_peer_of_store(node, store);

	if (peer != NULL) {
		server_accept(node, qp, peer, level);
		return;
	}
	SN_COUNT(node, connections_refused, 1);
	log_limited(LOG_WARN,
	    "server: refused a connection, gateways of %u metadata stores are connected peer=%s: stop those "
	    "that are not this cluster's",
	    SN_PEERS_MAX, split_qp_peer(qp));
	split_qp_reject(qp, -EBUSY);
}

static void
server_refuse(struct node *node, struct split_qp *qp, int rc, const char *field,
    uint64_t cluster_id)
{
	char why[WIRE_HELLO_BYTES + 1] = "";
	bool is_news;

	assert(rc < 0);
	assert(field != NULL);
	is_news = sn_refusal_is_news(node, split_qp_peer(qp), rc, rc == -EXDEV ? cluster_id : 0);
	SN_COUNT(node, connections_refused, 1);
	if (rc != -EXDEV) {
		if (is_news)
			log_limited(LOG_WARN,
			    "server: refused a connection peer=%s field=%s rc=%s: its hello does not "
			    "fit (field=state: this node stops)",
			    split_qp_peer(qp), field, log_errno(rc));
		split_qp_reject(qp, rc);
		return;
	}
	(void)snprintf(why, sizeof(why), "it is of cluster %016" PRIx64 ", not %016" PRIx64,
	    node->super.cluster_id, cluster_id); /* fits */
	if (is_news)
		log_limited(LOG_WARN,
		    "server: refused, it is of another cluster peer=%s cluster_id=%016" PRIx64
		    " ours=%016" PRIx64 ": is that gateway's --node or --cluster-id wrong? A disk "
		    "that is to change its cluster is formatted anew",
		    split_qp_peer(qp), cluster_id, node->super.cluster_id);
	split_qp_refuse(qp, rc, why);
}

static void
server_refuse_subject(struct node *node, struct split_qp *qp, int rc, const char *why)
{
	SN_COUNT(node, connections_refused, 1);
	if (sn_refusal_is_news(node, split_qp_peer(qp), rc, 0))
		log_limited(LOG_WARN,
		    "server: refused, its key is not for this peer=%s reason=\"%s\"",
		    split_qp_peer(qp), why);
	split_qp_refuse(qp, rc, why);
}

/* A client that reads by tickets; its hello is good. */
static void
server_accept_reader(struct node *node, struct split_qp *qp, const struct wire_hello *hello)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct sn_reader *reader = NULL;
	int rc = sn_reader_judge(node, qp, why);

	if (rc == 0) {
		reader = sn_reader_open(node, qp, hello->session_id);
		if (reader != NULL) {
			server_accept(node, qp, &reader->peer, hello->level);
			return;
		}
		rc = -ENOMEM;
		(void)snprintf(why, sizeof(why), "out of memory");
	}
	SN_COUNT(node, connections_refused, 1);
	if (sn_refusal_is_news(node, split_qp_peer(qp), rc, 0))
		log_limited(LOG_WARN,
		    "audit: refused, a client that would read peer=%s reason=\"%s\"",
		    split_qp_peer(qp), why);
	split_qp_refuse(qp, rc, why);
}

static void
server_on_accept(struct split_qp *qp, const void *hello_in, uint32_t hello_bytes, void *arg)
{
	struct node *node = arg;
	struct wire_hello hello = { 0 };
	struct store_id store;
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	const char *field = NULL;
	int rc = server_judge_hello(node, hello_in, hello_bytes, &hello, &field);

	CHECK_OBJ(node, SN_NODE_MAGIC);
	if (rc == 0 && node->sm.state != NODE_READY) {
		rc = -EHOSTDOWN;
		field = "state";
	}
	if (rc != 0) {
		server_refuse(node, qp, rc, field, hello.cluster_id);
		return;
	}
	if (hello.role == WIRE_ROLE_CLIENT && hello.session_id != 0) {
		server_accept_reader(node, qp, &hello);
		return;
	}
	rc = server_judge_subject(split_qp_subject(qp), hello.role, why);
	if (rc != 0) {
		server_refuse_subject(node, qp, rc, why);
		return;
	}
	if (hello.role == WIRE_ROLE_CLIENT) {
		server_accept(node, qp, sn_peer_of_client(node), hello.level);
		return;
	}
	store = (struct store_id){ hello.session_id, hello.attach };
	rc = sn_store_meet(node, &hello, split_qp_peer(qp));
	if (rc == 0) {
		server_accept_gateway(node, qp, &store, hello.level);
	} else if (rc > 0) {
		sn_store_join(node, qp, hello.level);
	} else {
		SN_COUNT(node, connections_refused, 1);
		split_qp_reject(qp, rc);
	}
}

int
sn_server_listen(struct node *node)
{
	int rc;

	assert(node->sm.state == NODE_RECOVERING); /* every extent is known: requests may come */
	rc = split_listen(node->port, node->listen, server_on_accept, node, node->address);
	/* The caller tells the errno, which does not say which limit of an RDMA device it was. */
	if (rc != 0 && split_port_reason(node->port)[0] != '\0')
		log_error("listen: %s", split_port_reason(node->port));
	if (rc == 0 && node->options.advertise != NULL) {
		tcp_address_publish(node->options.advertise, node->address, node->advertise);
		log_info("node: clients are told address=%s", node->advertise);
	}
	return rc;
}

int
sn_server_init(struct node *node)
{
	int rc;

	sn_store_init(node, server_accept_gateway);
	sn_peers_init(node);
	sn_readers_init(node);
	rc = sn_control_init(node);
	return rc != 0 ? rc : sn_request_init(node);
}

void
sn_server_fini(struct node *node)
{
	sn_readers_fini(node);
	sn_request_fini(node);
	sn_control_fini(node);
}
