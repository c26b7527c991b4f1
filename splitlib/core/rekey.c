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
		const struct split_subject *subject = split_qp_subject(qp);
		char who[SPLIT_SUBJECT_TEXT_BYTES_MAX], why[SPLIT_KEY_WHY_BYTES_MAX];

		if (subject == NULL || !qp_is_open(qp))
			continue;
		if (key_judge(key, &qp->sealed->certificate, split_subject_text(subject, who),
			why) == 0)
			continue;
		if (fn != NULL)
			fn(qp, why, arg);
		qp_fail(qp, -EKEYREJECTED, "%s", why);
		ended_count++;
	}
	return ended_count;
}

const struct split_key *
split_port_key(const struct split_port *port)
{
	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return port->options.key;
}
