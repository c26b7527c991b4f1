/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure_metrics.c -- see secure_metrics.h
 *
 * A connection shows the certificate that the daemon has when it begins. Whose the peer's is, is judged with each
 * request, by the key as it is then: who was revoked meanwhile is refused, on a connection that stands, too. The
 * handshake itself takes any certificate, or none, so that who is refused is told why, as any HTTP client shows it.
 */
#include "cleave/secure_metrics.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/config.h"
#include "base/config_check.h"
#include "base/log.h"
#include "base/metrics_http.h"
#include "cleave/secure_options.h"
#include "cleave/split.h"
#include "handshake.h"
#include "hosts.h"
#include "key.h"
#include "peer.h"
#include "subject.h"

#define GUEST_MAGIC 0x54534547u /* "GEST" */
#define METRICS_PRIORITY "NORMAL:-VERS-ALL:+VERS-TLS1.3"
#define METRICS_ROLES (SPLIT_ROLE_MONITOR | SPLIT_ROLE_ADMIN)
#define METRICS_FORBIDDEN 403u   /* HTTP's */
#define METRICS_UNAVAILABLE 503u /* likewise */

struct guest {
	uint32_t magic;
	const struct secure_metrics *metrics;
	gnutls_session_t session; /* libmicrohttpd's */
	struct split_key *key;    /* a share: the session borrows its credentials */
	char peer[SPLIT_ADDRESS_BYTES_MAX];
};

static void
guest_close(void *arg)
{
	struct guest *guest = arg;

	CHECK_OBJ(guest, GUEST_MAGIC);
	split_key_free(guest->key);
	guest->magic = 0;
	alloc_free(ALLOC_SPLIT, guest);
}

/* Before its handshake. 0, or a negative error of GnuTLS. */
static int
session_prepare(const struct guest *guest)
{
	int rc = gnutls_priority_set_direct(guest->session, METRICS_PRIORITY, NULL);

	if (rc >= 0)
		rc = gnutls_credentials_set(guest->session, GNUTLS_CRD_CERTIFICATE,
		    guest->key->credentials);
	gnutls_handshake_set_max_packet_length(guest->session, HANDSHAKE_BYTES_MAX);
	if (guest->metrics->takes_anybody)
		return rc;
	gnutls_certificate_server_set_request(guest->session, GNUTLS_CERT_REQUEST);
	/* A certificate of another authority shall come and be told so. */
	gnutls_certificate_send_x509_rdn_sequence(guest->session, 1);
	return rc;
}

static void *
guest_open(void *session, const char *peer, void *arg)
{
	const struct secure_metrics *metrics = arg;
	struct guest *guest = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*guest));

	if (guest == NULL)
		return NULL;
	guest->magic = GUEST_MAGIC;
	guest->metrics = metrics;
	guest->session = session;
	guest->key = split_key_share(metrics->key(metrics->arg));
	(void)snprintf(guest->peer, sizeof(guest->peer), "%s", peer);
	if (session_prepare(guest) >= 0)
		return guest;
	guest_close(guest);
	return NULL;
}

static unsigned
guest_judge(void *arg, char *ret_why, size_t why_bytes)
{
	const struct guest *guest = arg;
	const struct secure_metrics *metrics = guest->metrics;
	char who[SUBJECT_TEXT_BYTES_MAX] = "nobody";
	struct peer peer;

	CHECK_OBJ(guest, GUEST_MAGIC);
	if (metrics->takes_anybody)
		return 0;
	if (metrics->is_ready != NULL && !metrics->is_ready(metrics->arg)) {
		(void)snprintf(ret_why, why_bytes,
		    "it is starting: whose keys were revoked is not known yet\n");
		return METRICS_UNAVAILABLE;
	}
	if (peer_judge(guest->session, metrics->key(metrics->arg), METRICS_ROLES, log_wall_s(),
		&peer) == 0)
		return 0;
	if (peer.subject.role != 0)
		subject_text(&peer.subject, who);
	log_limited(LOG_WARN, "audit: %s: refused at its metrics by=%s peer=%s: %s", metrics->noun,
	    who, guest->peer, peer.why);
	(void)snprintf(ret_why, why_bytes,
	    "refused: %s. The key of a monitor or an admin of this cluster is wanted, as cleave key issue "
	    "monitor/NAME makes it\n",
	    peer.why);
	return METRICS_FORBIDDEN;
}

const struct metrics_guard secure_metrics_guard = {
	.open = guest_open,
	.judge = guest_judge,
	.close = guest_close,
};

void
secure_metrics_check(const struct config_program *program, struct config_result *result,
    const struct secure *secure, const char *text, const struct secure_metrics_words *words)
{
	bool has_key = secure->key != NULL;

	if (words->wants_tls && !has_key)
		config_problem(program, result,
		    "--metrics-tls: TLS wants a key: --key FILE, as cleave key issue makes it");
	config_refuse_open(program, result, text, words->is_open || has_key);
}

static bool
key_names_host(const struct split_key *key)
{
	gnutls_x509_crt_t certificate;
	gnutls_datum_t der;
	struct hosts hosts = { .count = 0 };

	if (gnutls_certificate_get_crt_raw(key->credentials, 0, 0, &der) < 0 ||
	    gnutls_x509_crt_init(&certificate) < 0)
		return false;
	if (gnutls_x509_crt_import(certificate, &der, GNUTLS_X509_FMT_DER) >= 0)
		hosts_of(certificate, &hosts);
	gnutls_x509_crt_deinit(certificate);
	return hosts.count > 0;
}

void
secure_metrics_tell(const struct secure_metrics *metrics, const char *address, bool is_tls)
{
	log_info("%s: metrics listen=%s%s", metrics->noun, address,
	    !is_tls                      ? ""
		: metrics->takes_anybody ? " tls=anybody"
					 : " tls=monitors");
	if (is_tls && !key_names_host(metrics->key(metrics->arg)))
		log_warn(
		    "%s: its key names no host, so that who asks for its metrics cannot know it: "
		    "cleave key issue, or renew, --host NAME",
		    metrics->noun);
}
