/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_release.c -- see etcd_release.h
 *
 *	none --> reading --> deleting --> done
 *	            ^           |            \
 *	            +-----------+             the claim, the key gateways/ID, and the leases of both are gone
 *	         either has changed, or the answer was lost
 *
 * Why that is no other process's: the claim names its process, and the lease of gateways/ID says who it was granted
 * to. Where that is another one the key stays. All are read in one step, and deleted in one step, if both keys are
 * as they were read: a newer incarnation, which puts both anew, makes that fail.
 *
 * Why nothing of the dead process comes later: a renewal, or a put under a lease, that is still on its way
 * compares that the lease is there.
 */
#include "meta/etcd_release.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "meta/etcd_call.h"
#include "meta/etcd_json.h"
#include "meta/etcd_lease_value.h"

#define RELEASE_NS NUM_S(5)

enum release_state {
	RELEASE_NONE,
	RELEASE_READING,
	RELEASE_DELETING,
	RELEASE_DONE,
	RELEASE_STATE_NR
};

static const struct sm_state release_table[RELEASE_STATE_NR] = {
	[RELEASE_NONE] = { "none", SM_TO(RELEASE_READING), SM_INITIAL },
	[RELEASE_READING] = { "reading", SM_TO(RELEASE_DELETING) | SM_TO(RELEASE_DONE), 0 },
	[RELEASE_DELETING] = { "deleting", SM_TO(RELEASE_READING) | SM_TO(RELEASE_DONE), 0 },
	[RELEASE_DONE] = { "done", 0, SM_FINAL },
};

static bool release_read(struct etcd_release *release);

static void
release_finish(struct etcd_release *release, int rc)
{
	assert(release->call == NULL);
	sm_move(&release->sm, RELEASE_DONE);
	release->fn(rc, release->other, release->arg);
}

static void
release_claim_key(const struct etcd_release *release, char out[ETCD_KEY_BYTES_MAX])
{
	char name[32];

	assert(release->gateway_id != 0);
	(void)snprintf(name, sizeof(name), "%" PRIu64, release->gateway_id);
	etcd_client_key(release->client, out, ETCD_CLAIMS, name);
}

static void
release_member_key(const struct etcd_release *release, char out[ETCD_KEY_BYTES_MAX])
{
	char name[sizeof(META_LEASED_PREFIX) + 24];

	assert(release->gateway_id != 0);
	(void)snprintf(name, sizeof(name), META_LEASED_PREFIX "%" PRIu64, release->gateway_id);
	etcd_client_key(release->client, out, ETCD_KEYS, name);
}

/* False: no time is left. */
static bool
release_call(struct etcd_release *release, struct etcd_text *body, bool is_change, etcd_call_fn fn)
{
	uint64_t now_ns = loop_now_ns(release->client->loop);

	assert(release->call == NULL);
	if (now_ns >= release->deadline_ns) {
		etcd_text_fini(body);
		return false;
	}
	release->call = etcd_call_start(release->client,
	    &(struct etcd_call_options){ .line = ETCD_LINE_LEASE,
		.path = "/v3/kv/txn",
		.body = body,
		.may_repeat = !is_change,
		.is_linear = true,
		.is_change = is_change,
		.budget_ns = release->deadline_ns - now_ns,
		.fn = fn,
		.arg = release });
	return release->call != NULL;
}

/* ---- deleting ---- */

static void
release_on_deleted(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_release *release = arg;

	assert(release->sm.state == RELEASE_DELETING);
	release->call = NULL;
	if (rc == 0 && answer->has_succeeded) {
		release_finish(release, 0);
		return;
	}
	if (rc != 0 && rc != -ETIMEDOUT) {
		release_finish(release, -EIO);
		return;
	}
	release->has_perhaps |= rc == -ETIMEDOUT;
	sm_move(&release->sm, RELEASE_READING);
	if (!release_read(release))
		release_finish(release, -ETIMEDOUT);
}

/* The lease that @kv hangs on, if it was granted to the process whose claim it is; else NULL. */
static const struct etcd_kv *
release_lease(const struct etcd_release *release, const struct etcd_answer *answer,
    const struct etcd_kv *kv)
{
	char key[ETCD_KEY_BYTES_MAX];
	const struct etcd_kv *found;
	uint32_t head_bytes;
	uint64_t lease = 0;

	assert(release->sm.state == RELEASE_READING);
	if (kv == NULL || etcd_lease_of(kv->value, kv->value_bytes, &lease, &head_bytes) != 0 ||
	    lease == 0)
		return NULL;
	etcd_lease_key(release->client, key, lease);
	found = etcd_answer_find(answer, key);
	return found != NULL && etcd_lease_is_by(found->value, found->value_bytes, release->other)
	    ? found
	    : NULL;
}

static void
release_delete(struct etcd_release *release, const struct etcd_answer *answer)
{
	char claim_key[ETCD_KEY_BYTES_MAX], member_key[ETCD_KEY_BYTES_MAX];
	const struct etcd_kv *claim, *member, *claim_lease, *member_lease;
	struct etcd_text body = { 0 };

	assert(release->sm.state == RELEASE_READING);
	assert(release->call == NULL);
	release_claim_key(release, claim_key);
	release_member_key(release, member_key);
	claim = etcd_answer_find(answer, claim_key);
	member = etcd_answer_find(answer, member_key);
	claim_lease = release_lease(release, answer, claim);
	member_lease = release_lease(release, answer, member);
	etcd_json_txn_begin(&body);
	etcd_json_compare_revision(&body, claim_key, claim->mod_revision);
	etcd_json_compare_revision(&body, member_key, member == NULL ? 0 : member->mod_revision);
	etcd_json_txn_then(&body);
	etcd_json_delete(&body, claim_key);
	if (claim_lease != NULL)
		etcd_json_delete(&body, claim_lease->key);
	if (member_lease != NULL) {
		etcd_json_delete(&body, member_key);
		etcd_json_delete(&body, member_lease->key);
	}
	etcd_json_txn_end(&body);
	sm_move(&release->sm, RELEASE_DELETING);
	if (!release_call(release, &body, true, release_on_deleted))
		release_finish(release, -ETIMEDOUT);
}

/* ---- reading ---- */

/* Splits release->other. Has that process surely ended? */
static bool
release_is_of_dead(struct etcd_release *release, const struct etcd_kv *claim)
{
	uint32_t head_bytes;
	uint64_t lease;
	char *process;

	assert(release->sm.state == RELEASE_READING);
	if (etcd_lease_of(claim->value, claim->value_bytes, &lease, &head_bytes) != 0)
		return false;
	(void)snprintf(release->other, sizeof(release->other), "%s", claim->value + head_bytes);
	process = strchr(release->other, '\n');
	if (process == NULL)
		return false;
	*process++ = '\0';
	return release->is_dead != NULL && release->is_dead(process);
}

static void
release_on_read(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_release *release = arg;
	char key[ETCD_KEY_BYTES_MAX];
	const struct etcd_kv *claim;

	assert(release->sm.state == RELEASE_READING);
	release->call = NULL;
	if (rc != 0) {
		release_finish(release, rc == -ETIMEDOUT ? rc : -EIO);
		return;
	}
	release_claim_key(release, key);
	claim = etcd_answer_find(answer, key);
	/* Without a claim it is not known whose process the key gateways/ID is: its lease decides. */
	if (claim == NULL)
		release_finish(release, release->has_perhaps ? 0 : -ENOENT);
	else if (!release_is_of_dead(release, claim))
		release_finish(release, -EBUSY);
	else
		release_delete(release, answer);
}

/* False: no time, or no memory, is left. */
static bool
release_read(struct etcd_release *release)
{
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX];

	assert(release->sm.state == RELEASE_READING);
	etcd_json_txn_begin(&body);
	etcd_json_txn_then(&body);
	release_claim_key(release, key);
	etcd_json_get(&body, key, false, true);
	release_member_key(release, key);
	etcd_json_get(&body, key, false, true);
	etcd_client_key(release->client, key, ETCD_LEASES, "");
	etcd_json_get(&body, key, true, true);
	etcd_json_txn_end(&body);
	return release_call(release, &body, false, release_on_read);
}

/* ---- its life ---- */

void
etcd_release_init(struct etcd_release *release, struct etcd_client *client,
    bool (*is_dead)(const char *process))
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	*release = (struct etcd_release){ .client = client, .is_dead = is_dead };
	sm_init(&release->sm, "etcd-release", release_table, RELEASE_NONE, 0);
}

void
etcd_release_fini(struct etcd_release *release)
{
	CHECK_OBJ(release->client, ETCD_CLIENT_MAGIC);
	etcd_call_cancel(release->call);
	release->call = NULL;
}

int
etcd_release_start(struct etcd_release *release, uint64_t gateway_id, meta_etcd_claim_fn fn,
    void *arg)
{
	assert(fn != NULL);
	assert(gateway_id != 0);
	if (release->sm.state != RELEASE_NONE)
		return -EBUSY;
	release->gateway_id = gateway_id;
	release->deadline_ns = loop_now_ns(release->client->loop) + RELEASE_NS;
	release->fn = fn;
	release->arg = arg;
	sm_move(&release->sm, RELEASE_READING);
	return release_read(release) ? 0 : -ENOMEM;
}
