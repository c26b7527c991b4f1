/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rekey.c -- another key for a port that runs: a renewed file, or one more list of revoked ones
 *
 *	the same authority, not revoked      the connection goes on: who its peer is has not changed
 *	revoked, or its authority is gone    it ends now; its peer comes again, and is told why in the handshake
 *	a handshake under way                shows the key that it began with, and judges by the new one
 *
 * Connections are not made anew for a renewed key: their secrets are of the connection alone, and the certificate that
 * began them was valid then. Who must not go on is on a list of revoked ones.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "cleave/split.h"
#include "port.h"
#include "qp.h"
#include "sealed.h"
#include "secure/key.h"

/* Does @key not believe @qp's peer any more? @why: a sentence then. */
static bool
rekey_doubts(const struct split_key *key, const struct split_qp *qp, char *why)
{
	const struct split_subject *subject = split_qp_subject(qp);
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	if (subject == NULL || !qp_is_open(qp))
		return false;
	return key_judge(key, &qp->sealed->certificate, split_subject_text(subject, who), why) != 0;
}

uint32_t
split_port_rekey(struct split_port *port, const struct split_key *key, split_unbelieved_fn fn,
    void *arg)
{
	struct split_key *before = (struct split_key *)(uintptr_t)port->options.key; /* our share */
	struct loop_link *link, *next;
	uint32_t ended_count = 0;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(before != NULL && key != NULL);
	port->options.key = split_key_share(key);
	split_key_free(before);
	LIST_FOREACH_SAFE(&port->qps, link, next) {
		struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);
		char why[SPLIT_KEY_WHY_BYTES_MAX];

		if (!rekey_doubts(key, qp, why))
			continue;
		if (fn != NULL)
			fn(qp, why, arg);
		qp_fail(qp, -EKEYREJECTED, "%s", why);
		ended_count++;
	}
	return ended_count;
}

uint32_t
split_port_doubts(const struct split_port *port, const struct split_key *key,
    split_unbelieved_fn fn, void *arg)
{
	uint32_t count = 0;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	assert(port->options.key != NULL && key != NULL);
	for (const struct loop_link *link = port->qps.next; link != &port->qps; link = link->next) {
		const struct split_qp *qp = LIST_ENTRY(link, struct split_qp, link);
		char why[SPLIT_KEY_WHY_BYTES_MAX];

		if (!rekey_doubts(key, qp, why))
			continue;
		fn(qp, why, arg);
		count++;
	}
	return count;
}

const struct split_key *
split_port_key(const struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return port->options.key;
}
