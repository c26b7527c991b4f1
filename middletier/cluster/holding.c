/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding.c -- is the session that has a volume open for writing still there?
 *
 * The volume's key names that session: an attach number, a session id, and for people its client (holder.h). A
 * session that is closed is taken out of the key, so the next writer asks nobody. One that ended otherwise
 * stays there, and whether it is alive only the ports know: a second writer is refused as long as any port of
 * any gateway has a queue pair of it, and for the session time after the last one was seen.
 *
 *	main: our ports --(connected: done)--> every other gateway that lives --> answer
 *	           ^                                       |           |
 *	           '-- again, for readers that may just be leaving     '-- a fence: when a read lease lasts no longer
 *
 * This is courtesy, not safety: whatever is judged here, an attach raises the attach number, and ports refuse
 * what is older (I11). A session that is wrongly thought gone was silent at all gateways for the session time,
 * and learns that it was taken. One that is wrongly thought alive is so until
 *	its queue pairs have ended (a silent peer's: after the transport's keep-alive, 10 s), and
 *	the session time after that; counted anew where a gateway died, or was stopped, meanwhile, for what it
 *	    had seen is lost, and its clients may be on their way to the next one.
 * A gateway that gave shards away and lives is asked, so shards that go to and fro make nobody wait longer.
 *
 * Who lives is what our view of the members says, which may be a moment old. An attach needs no more: see above. Before
 * a volume is rolled back, cut or deleted the store is asked, and a gateway that it lists and we do not see yet stops that.
 *
 * What a gateway has heard is in the volume's entry (heard_ns): when it first saw the attach number, when a
 * queue pair of that session came, and when the last one went.
 */
#include "cluster/holding.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/peer.h"
#include "common/alloc.h"
#include "common/port.h"
#include "session/read_lease.h"
#include "session/session.h"

/* A reader that closes sends nothing, and its queue pair's end may come behind its next command. */
#define HOLDER_TRIES_MAX 5u
#define HOLDER_PAUSE_NS NUM_MS(60)
#define HOLDER_TEXT_BYTES 128u

struct mt_holding {
	struct mt_gateway *gateway;
	struct mt_volume volume;
	struct mt_holder_answer answer;
	uint64_t silent_ns; /* of its session, the least that any gateway says */
	bool is_telling;    /* who is there is not the question */
	bool is_fence;      /* ... and the answer waits until no read lease lasts */
	uint32_t try_count;
	uint32_t left_count; /* peers that have not answered */
	mt_holder_fn fn;     /* NULL: nobody asks */
	void *arg;
	struct loop_timer timer;
	uint64_t peer_ids[MT_GATEWAYS_MAX];
	struct mt_peer_call calls[MT_GATEWAYS_MAX];
};

static int holding_ask(struct mt_holding *holding);

/* ---- what this gateway knows ---- */

uint64_t
mt_holder_silent_ns(struct mt_gateway *gateway, uint64_t volume_id, uint64_t attach)
{
	const struct mt_volume_entry *entry = mt_volumes_by_id(&gateway->volumes, volume_id);
	uint64_t heard_ns = gateway->claimed_ns;

	assert(volume_id != 0);
	if (entry != NULL && entry->volume.attach == attach)
		heard_ns = num_max(heard_ns, entry->heard_ns);
	return loop_now_ns(gateway->options.loop) - heard_ns;
}

bool
mt_holder_count(const struct mt_ask *ask, uint32_t *ret_reader_count)
{
	uint32_t writer_count = 0;

	assert(ask->kind == MT_ASK_SESSIONS && ask->left_count == 0);
	*ret_reader_count = 0;
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		writer_count += ask->legs[i].status.asked_writer_count;
		*ret_reader_count += ask->legs[i].status.asked_reader_count;
	}
	return writer_count > 0;
}

void
mt_holder_on_claim(struct mt_gateway *gateway)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	gateway->claimed_ns = loop_now_ns(gateway->options.loop);
}

static void
left_on_port(struct loop_post *post, void *arg)
{
	(void)post;
	mt_session_told(arg);
}

static void
left_on_main(struct loop_post *post, void *arg)
{
	struct mt_session *session = arg;
	struct mt_gateway *gateway = session->port->gateway;
	struct mt_volume_entry *entry =
	    mt_volumes_by_id(&gateway->volumes, session->hello.volume_id);

	assert(session->is_telling);
	if (entry != NULL && entry->volume.attach == session->hello.attach)
		entry->heard_ns = loop_now_ns(gateway->options.loop);
	post->fn = left_on_port;
	loop_post(session->port->loop, post);
}

void
mt_holder_on_left(struct mt_session *session)
{
	assert(session->hello.volume_id != 0);
	assert(!session->is_telling);
	session->is_telling = true;
	session->left_post = (struct loop_post){ .fn = left_on_main, .arg = session };
	loop_post(session->port->main_loop, &session->left_post);
}

/* ---- asking all ---- */

/* The answer is given. The last act of its caller: the holding is gone. */
static void
holding_finish(struct mt_holding *holding)
{
	struct mt_holder_answer *answer = &holding->answer;
	uint64_t session_ns = holding->gateway->options.session_ns;
	mt_holder_fn fn = holding->fn;

	assert(fn != NULL && holding->left_count == 0);
	answer->attach = holding->volume.attach;
	if (holding->volume.session_id == 0) {
		answer->is_connected = false;
	} else if (answer->is_connected || answer->unknown_gateway != 0) {
		answer->is_held = true;
		answer->left_ns = session_ns;
	} else if (holding->silent_ns < session_ns) {
		answer->is_held = true;
		answer->left_ns = session_ns - holding->silent_ns;
	}
	holding->fn = NULL;
	fn(answer, holding->arg);
}

static void
holding_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_holding *holding = arg;

	assert(holding->fn != NULL);
	(void)timer;
	if (holding->is_fence) {
		holding_finish(holding); /* read leases are over */
		return;
	}
	if (holding_ask(holding) == 0)
		return;
	holding->answer.unknown_gateway = holding->gateway->options.gateway_id;
	holding_finish(holding);
}

/* All gateways and ports have answered. */
static void
holding_end(struct mt_holding *holding)
{
	assert(holding->left_count == 0);
	if (holding->is_fence && holding->answer.unknown_gateway == 0 && !MUTANT(fence_unwaited)) {
		loop_timer_start(holding->gateway->options.loop, &holding->timer, MT_READ_LEASE_NS);
		return;
	}
	if (holding->is_telling || holding->answer.reader_count == 0 ||
	    (holding->answer.is_connected && holding->volume.session_id != 0) ||
	    ++holding->try_count >= HOLDER_TRIES_MAX) {
		holding_finish(holding);
		return;
	}
	holding->answer = (struct mt_holder_answer){ 0 };
	loop_timer_start(holding->gateway->options.loop, &holding->timer, HOLDER_PAUSE_NS);
}

static void
holding_on_peer(struct mt_peer_call *call, void *arg)
{
	struct mt_holding *holding = arg;
	json_t *reply = call->reply == NULL ? NULL : json_loads(call->reply, 0, NULL);
	json_int_t silent_ms = 0, readers = 0;
	int is_connected = 0;

	assert(call >= holding->calls && call < holding->calls + MT_GATEWAYS_MAX);
	assert(holding->left_count > 0);
	if (call->rc != 0 ||
	    json_unpack(reply, "{s:b, s:I, s:I}", "connected", &is_connected, "silent_ms",
		&silent_ms, "readers", &readers) != 0 ||
	    silent_ms < 0 || readers < 0) {
		holding->answer.unknown_gateway = holding->peer_ids[call - holding->calls];
	} else {
		holding->answer.is_connected |= is_connected != 0;
		holding->answer.reader_count += (uint32_t)num_min((uint64_t)readers, UINT16_MAX);
		holding->silent_ns = num_min(holding->silent_ns,
		    num_min((uint64_t)silent_ms, UINT32_MAX) * NUM_MS(1));
	}
	json_decref(reply);
	mt_free(call->reply);
	call->reply = NULL;
	assert(holding->left_count > 0);
	if (--holding->left_count == 0)
		holding_end(holding);
}

static void
holding_ask_peers(struct mt_holding *holding)
{
	struct mt_gateway *gateway = holding->gateway;
	const struct mt_member *member = &gateway->member;
	char text[HOLDER_TEXT_BYTES];
	uint32_t count = 0;

	assert(holding->left_count == 0);
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.holder\",\"id\":%" PRIu64 ",\"attach\":%" PRIu64 "}",
	    holding->volume.id, holding->volume.attach);
	holding->left_count = 1;
	for (uint32_t i = 0; i < member->peer_count && count < MT_GATEWAYS_MAX; i++) {
		const struct mt_member_peer *peer = &member->peers[i];

		if (peer->gateway_id == gateway->options.gateway_id || peer->port_count == 0)
			continue;
		holding->peer_ids[count] = peer->gateway_id;
		if (mt_peer_call(gateway, &holding->calls[count], peer->ports[0], text,
			holding_on_peer, holding) == 0)
			holding->left_count++;
		else
			holding->answer.unknown_gateway = peer->gateway_id;
		count++;
	}
	if (--holding->left_count == 0)
		holding_end(holding);
}

static void
holding_on_ports(struct mt_ask *ask, void *arg)
{
	struct mt_holding *holding = arg;
	struct mt_holder_answer *answer = &holding->answer;

	assert(holding->fn != NULL);
	answer->is_connected = mt_holder_count(ask, &answer->reader_count);
	holding->silent_ns =
	    mt_holder_silent_ns(holding->gateway, holding->volume.id, holding->volume.attach);
	if (!holding->is_telling && answer->is_connected && holding->volume.session_id != 0)
		holding_finish(holding);
	else
		holding_ask_peers(holding);
}

static int
holding_ask(struct mt_holding *holding)
{
	assert(holding->volume.id != 0);
	assert(holding->left_count == 0);
	return mt_ask_ports(holding->gateway, MT_ASK_SESSIONS, &holding->volume, holding_on_ports,
	    holding);
}

/* ---- who lives ---- */

/* Shall the gateway of @item be asked, as the process that it is? */
static bool
listed_is_seen(const struct mt_gateway *gateway, const struct meta_item *item)
{
	const struct mt_member *member = &gateway->member;
	struct mt_member_peer listed = { .gateway_id = 0 };
	char key[MT_MEMBER_KEY_BYTES];
	const char *field;

	if (MUTANT(fence_unlisted))
		return true;
	if (mt_member_decode(item->value, item->value_bytes, &listed, &field) != 0)
		return false;
	/* With our number: ours, or that of a process that was started since, while this one had lost its lease. */
	mt_member_key(key, gateway->options.gateway_id);
	if (strcmp(item->key, key) == 0)
		return listed.boot_id == gateway->options.boot_id;
	for (uint32_t i = 0; i < member->peer_count; i++) {
		mt_member_key(key, member->peers[i].gateway_id);
		if (strcmp(item->key, key) == 0)
			return member->peers[i].boot_id == listed.boot_id &&
			    member->peers[i].port_count > 0;
	}
	return false;
}

/*
 * The gateways that live, by the store: one that our view of them lacks yet may have users, and may serve by what it read
 * before a fence's attach. One that comes later reads of that before it serves.
 */
static void
holding_on_listed(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_holding *holding = arg;
	struct mt_gateway *gateway = holding->gateway;
	uint64_t unknown = rc != 0 ? gateway->options.gateway_id : 0;

	assert(holding->fn != NULL);
	for (uint32_t i = 0; i < count && rc == 0 && unknown == 0; i++) {
		if (!listed_is_seen(gateway, &items[i]))
			unknown = strtoull(items[i].key + strlen(META_LEASED_PREFIX), NULL, 10);
	}
	if (unknown == 0 && holding_ask(holding) != 0)
		unknown = gateway->options.gateway_id;
	if (unknown == 0)
		return;
	holding->answer.unknown_gateway = unknown;
	holding_finish(holding);
}

static int
holding_list(struct mt_holding *holding)
{
	struct meta *meta = holding->gateway->options.meta;

	return meta->ops->list(meta, META_LEASED_PREFIX, holding_on_listed, holding);
}

/* ---- what is asked ---- */

enum holding_kind { HOLDING_ASK, HOLDING_ASK_ALL, HOLDING_TELL, HOLDING_FENCE };

static int
holding_start(struct mt_gateway *gateway, const struct mt_volume *volume, enum holding_kind kind,
    mt_holder_fn fn, void *arg)
{
	struct mt_holding *holding = gateway->holding;
	int rc;

	assert(fn != NULL);
	if (holding == NULL) {
		holding = gateway->holding = mt_calloc(1, sizeof(*holding));
		if (holding == NULL)
			return -ENOMEM;
		holding->gateway = gateway;
		loop_timer_init(&holding->timer, holding_on_timer, holding);
	}
	assert(holding->fn == NULL);
	holding->volume = *volume;
	holding->answer = (struct mt_holder_answer){ 0 };
	holding->is_telling = kind == HOLDING_TELL || kind == HOLDING_FENCE;
	holding->is_fence = kind == HOLDING_FENCE;
	holding->try_count = 0;
	holding->fn = fn;
	holding->arg = arg;
	if (kind == HOLDING_ASK_ALL || kind == HOLDING_FENCE)
		rc = holding_list(holding);
	else
		rc = holding_ask(holding);
	if (rc != 0)
		holding->fn = NULL;
	return rc;
}

int
mt_holder_ask(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg)
{
	assert(volume->id != 0);
	return holding_start(gateway, volume, HOLDING_ASK, fn, arg);
}

int
mt_holder_ask_all(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg)
{
	assert(volume->id != 0);
	return holding_start(gateway, volume, HOLDING_ASK_ALL, fn, arg);
}

int
mt_holder_tell(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg)
{
	assert(volume->attach > 0);
	return holding_start(gateway, volume, HOLDING_TELL, fn, arg);
}

int
mt_holder_fence(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg)
{
	assert(volume->attach > 0 && volume->session_id == 0);
	return holding_start(gateway, volume, HOLDING_FENCE, fn, arg);
}

void
mt_holder_fini(struct mt_gateway *gateway)
{
	struct mt_holding *holding = gateway->holding;

	if (holding == NULL)
		return;
	loop_timer_stop(gateway->options.loop, &holding->timer);
	for (uint32_t i = 0; i < MT_GATEWAYS_MAX; i++)
		mt_free(holding->calls[i].reply);
	mt_free(holding);
	gateway->holding = NULL;
}
