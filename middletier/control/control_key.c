/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_key.c -- lists of revoked keys, for all gateways and nodes
 *
 *	{"op":"key.publish","lists":PEM,"force":BOOL}      {"changed":BOOL}, false: the cluster has it already
 *
 *	read what the store has --> judge the list by our own key --> does it lack any? whom would it cut off? ask the ports
 *	                          --> one transaction --> read anew: the ports know
 *
 * Refused: a list of another authority, one that is older than what is known, and what is no list. Without "force" one
 * that names this gateway's own key, or that of a node that is connected: a slip in SUBJECT would stop the cluster.
 * And one that lacks keys which were revoked before: the authority's folder is an old copy, and agents, commands and
 * whoever else has its list from a file would let those in. Gateways and nodes do not, forced or not (secure/revoked.h).
 */
#include "control/control_key.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cleave/secure.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/revoked.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "extent/link_revoked.h"

static void
publish_on_known(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	if (rc == -ECANCELED)
		return; /* its port goes, and takes it along */
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
	else
		mt_control_finish(request, json_pack("{s:b}", "changed", true));
}

/* The change is in the store; ports shall know before the answer. */
static void
publish_on_made(struct mt_control_request *request)
{
	request->waiter = (struct mt_volumes_waiter){ .fn = publish_on_known, .arg = request };
	mt_revoked_read(request->gateway, &request->waiter);
}

/* @next: our key with the lists that were given. */
static void
publish_make(struct mt_control_request *request, const struct split_key *next)
{
	const struct mt_revoked *revoked = &request->gateway->revoked;
	size_t bytes;
	const struct meta_op ops[] = {
		mt_change_compare(MT_REVOKED_KEY, revoked->version),
		mt_change_put(MT_REVOKED_KEY, split_key_revoked(next, &bytes)),
	};

	mt_control_change(request, ops, NUM_COUNT(ops), publish_on_made);
}

static void
publish_on_doubts(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_doubts *found = NULL;

	assert(ask->kind == MT_ASK_DOUBTS && ask->left_count == 0);
	for (uint32_t i = 0; found == NULL && i < ask->gateway->port_count; i++) {
		if (ask->legs[i].status.doubts.count > 0)
			found = &ask->legs[i].status.doubts;
	}
	if (found == NULL || MUTANT(publish_unasked))
		publish_make(request, ask->key);
	else
		mt_control_refuse(request, -ENOTEMPTY,
		    "%s is on the list, and connected%s: those on it are cut off, and come back only with a renewed key. "
		    "Say --force if that is meant",
		    found->first, found->count > 1 ? ", and others" : "");
}

/* Is the list of an authority's folder that is an old copy? True: it is refused. Forced it is told. */
static bool
publish_refuse_gaps(struct mt_control_request *request, const struct split_key *next)
{
	struct split_revoked_gaps gaps;
	bool is_one;

	split_key_revoked_gaps(next, &gaps);
	if (gaps.older_number != 0 && !request->is_forced) {
		mt_control_refuse(request, -ESTALE,
		    "a list of revoked keys is number %" PRIu64 ", and number %" PRIu64
		    " is known: give the newest. Was the authority's folder put back from a copy? "
		    "Give it the cluster's list, by cleave key adopt, or say --force",
		    gaps.older_number, gaps.newest_number);
		return true;
	}
	if (gaps.lacked_count == 0)
		return false;
	is_one = gaps.lacked_count == 1;
	if (request->is_forced) {
		mt_control_event(request, CLEAVE_EVENT_KEYS_REVOKED, "gateway",
		    "audit: a list of revoked keys is published, forced, that lacks %" PRIu32
		    " revoked before: %s serials=\"%s\"",
		    gaps.lacked_count,
		    gaps.lost_count == 0 ? "they stay revoked" : "there is no room for all of them",
		    gaps.serials);
		return false;
	}
	mt_control_refuse(request, -ENOTEMPTY,
	    "the list lacks %" PRIu32 " key%s that %s revoked before (serial%s %s%s): was the "
	    "authority's folder put back from a copy? Give it the cluster's list, by cleave key "
	    "adopt. Or say --force, where they have expired",
	    gaps.lacked_count, is_one ? "" : "s", is_one ? "was" : "were", is_one ? "" : "s",
	    gaps.serials, gaps.lacked_count > SPLIT_REVOKED_NAMED_MAX ? ", ..." : "");
	return true;
}

/* Is @next without those who serve data now? */
static void
publish_look(struct mt_control_request *request, const struct split_key *next)
{
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];
	int rc;

	if (split_key_is_revoked(next)) {
		mt_control_refuse(request, -ENOTEMPTY,
		    "%s, the gateway that was asked, is on the list: it would serve nobody any more. Give it another "
		    "key first (cleave key issue, then reload), or say --force",
		    split_subject_text(split_key_subject(next), who));
		return;
	}
	rc = mt_ask_key(request->gateway, MT_ASK_DOUBTS, next, publish_on_doubts, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}

static void
publish_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_revoked *revoked = &request->gateway->revoked;
	const char *lists = json_string_value(json_object_get(request->in, "lists"));
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *next;

	if (rc == -ECANCELED)
		return; /* its port goes, and takes it along */
	if (rc != 0) {
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
		return;
	}
	next = split_key_revoke(revoked->key, lists, strlen(lists), why);
	if (next == NULL && errno == EALREADY && !revoked->is_stored) {
		next = split_key_share(
		    revoked->key); /* the store was put back: it gets what we know */
		why[0] = '\0';
	}
	if (next == NULL && errno == EALREADY) {
		mt_control_finish(request, json_pack("{s:b}", "changed", false));
	} else if (next == NULL || why[0] != '\0') {
		mt_control_refuse(request, next != NULL ? -EKEYREJECTED : -errno, "%s", why);
	} else if (publish_refuse_gaps(request, next)) {
		/* told */
	} else if (request->is_forced) {
		publish_make(request, next);
	} else {
		publish_look(request, next);
	}
	split_key_free(next);
}

void
mt_control_key_publish(struct mt_control_request *request)
{
	uint32_t level = request->gateway->cluster.level;
	const char *lists = "";
	const struct reader_member members[] = {
		{ "lists", READER_TEXT, true, 1, SPLIT_REVOKED_BYTES_MAX, { .text = &lists } },
		{ "force", READER_BOOL, false, 0, 0, { .flag = &request->is_forced } },
	};
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
	} else if (request->gateway->revoked.key == NULL) {
		mt_control_fail(request, -EINVAL,
		    "this gateway has no key, and believes nobody's list: give it one (--key)");
	} else if (level < CLEAVE_LEVEL_REVOKED) {
		mt_control_refuse(request, -ENOTSUP,
		    "the cluster is of level %" PRIu32
		    ", which has no lists of revoked keys: when every gateway and node runs this "
		    "release, run cleave cluster upgrade",
		    (uint32_t)num_max(level, CLEAVE_LEVEL_MIN));
	} else {
		request->waiter =
		    (struct mt_volumes_waiter){ .fn = publish_on_read, .arg = request };
		mt_revoked_read(request->gateway, &request->waiter);
	}
}
