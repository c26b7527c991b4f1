/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c -- see peer.h */
#include "peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "subject.h"

static int peer_refuse(struct peer *peer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int
peer_refuse(struct peer *peer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(peer->why, sizeof(peer->why), format, args); /* cut where too long */
	va_end(args);
	return -EKEYREJECTED;
}

/* The peer's own certificate; NULL: there is none that can be read. The caller frees it. */
static gnutls_x509_crt_t
peer_certificate(gnutls_session_t session)
{
	unsigned count = 0;
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
	gnutls_x509_crt_t certificate;

	if (chain == NULL || count == 0 || gnutls_x509_crt_init(&certificate) < 0)
		return NULL;
	if (gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER) == 0)
		return certificate;
	gnutls_x509_crt_deinit(certificate);
	return NULL;
}

/* Times first: whose clock is wrong shows by them. */
static int
judge_times(struct peer *peer, gnutls_x509_crt_t certificate, uint64_t now_s, const char *who)
{
	char at[KEY_TIME_BYTES_MAX], now[KEY_TIME_BYTES_MAX];
	time_t begins = gnutls_x509_crt_get_activation_time(certificate);
	time_t ends = gnutls_x509_crt_get_expiration_time(certificate);

	key_time_text(now_s, now);
	if (ends < 0 || now_s > (uint64_t)ends) {
		key_time_text(ends > 0 ? (uint64_t)ends : 0, at);
		return peer_refuse(peer, "the certificate of %s expired %s, here it is %s", who, at,
		    now);
	}
	if (begins < 0 || now_s < (uint64_t)begins) {
		key_time_text(begins > 0 ? (uint64_t)begins : 0, at);
		return peer_refuse(peer, "the certificate of %s begins %s, here it is %s", who, at,
		    now);
	}
	return 0;
}

/* Is it signed by an authority of @key? Its times count as well. */
static int
judge_signature(struct peer *peer, const struct split_key *key, gnutls_x509_crt_t certificate,
    uint64_t now_s, const char *who)
{
	unsigned authority = key_authority_of(key, certificate);

	if (authority == KEY_AUTHORITIES_MAX)
		return peer_refuse(peer, "the certificate of %s is of another authority (CA)", who);
	if (key_certificate_serial(certificate, &peer->certificate.serial) != 0)
		return peer_refuse(peer, "the certificate of %s has no serial number", who);
	memcpy(peer->certificate.authority, key->authority_ids[authority], KEY_ID_BYTES);
	return judge_times(peer, key->authorities[authority], now_s, "the authority (CA)");
}

static int
judge_certificate(struct peer *peer, const struct split_key *key, gnutls_x509_crt_t certificate,
    unsigned roles, uint64_t now_s)
{
	const struct split_subject *subject = &peer->subject;
	uint64_t cluster_id = key->subject.cluster_id;
	char who[SUBJECT_TEXT_BYTES_MAX] = "nobody", wanted[64], why[SPLIT_KEY_WHY_BYTES_MAX];
	int rc;

	if (key_certificate_subject(certificate, &peer->subject) == 0)
		subject_text(subject, who);
	rc = judge_signature(peer, key, certificate, now_s, who);
	if (rc != 0)
		return rc;
	if (subject->role == 0)
		return peer_refuse(peer, "the certificate has no subject");
	if (subject->cluster_id != cluster_id)
		return peer_refuse(peer, "%s is of cluster %016" PRIx64 ", not of %016" PRIx64, who,
		    subject->cluster_id, cluster_id);
	if (((unsigned)subject->role & roles) == 0) {
		subject_roles_text(roles, wanted, sizeof(wanted));
		return peer_refuse(peer, "%s is no %s", who, wanted);
	}
	if (key_judge(key, &peer->certificate, who, why) != 0)
		return peer_refuse(peer, "%s", why);
	return judge_times(peer, certificate, now_s, who);
}

int
peer_judge(gnutls_session_t session, const struct split_key *key, unsigned roles, uint64_t now_s,
    struct peer *ret)
{
	gnutls_x509_crt_t certificate = peer_certificate(session);
	int rc;

	CHECK_OBJ(key, KEY_MAGIC);
	memset(ret, 0, sizeof(*ret));
	if (certificate == NULL)
		return peer_refuse(ret, "there is no certificate");
	rc = judge_certificate(ret, key, certificate, roles, now_s);
	gnutls_x509_crt_deinit(certificate);
	return rc;
}
