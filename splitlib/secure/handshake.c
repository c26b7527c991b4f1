/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.c -- see handshake.h
 *
 *	connector                        acceptor
 *	step(nothing)  -- ClientHello -->  step
 *	step  <-- ServerHello .. Finished --
 *	 1    -- Certificate .. Finished -->  step
 *	                                   1
 *
 * GnuTLS makes the handshake and checks its signatures: who completes it has the private key of the certificate that it
 * showed. Whether that certificate means anything is judged after the handshake (peer.h), so that the side that does not
 * believe the other can still tell it why, under keys that both have.
 */
#include "handshake.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/num.h"
#include "key.h"
#include "peer.h"
#include "subject.h"

#define HANDSHAKE_MAGIC 0x4b534948u /* "HISK" */
#define HANDSHAKE_LABEL "EXPORTER-cleave-v1"
/*
 * TLS 1.3 alone, its AEADs, X25519 or P-256: what a certificate may be signed with is left to GnuTLS. No bytes that
 * pretend to be TLS 1.2: nothing between us and the peer reads them.
 */
#define HANDSHAKE_PRIORITY                                                                         \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:-CIPHER-ALL:"     \
	"+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:%DISABLE_TLS13_COMPAT_MODE"
#define HANDSHAKE_CONTEXT_BYTES_MAX (4u + 8u + 2u * SUBJECT_URI_BYTES_MAX)
#define HANDSHAKE_CALLS_MAX 64u /* of GnuTLS in a step: warnings are no end */

_Static_assert(HANDSHAKE_WHY_BYTES_MAX == PEER_WHY_BYTES_MAX, "one sentence");

struct handshake {
	uint32_t magic;
	bool is_acceptor;
	bool is_complete;
	bool is_failed;
	struct split_key *key; /* a share of it */
	gnutls_session_t session;
	struct peer peer;       /* as it was judged */
	uint32_t message_count; /* that have come */
	size_t received_bytes;
	const uint8_t *in; /* of the step */
	size_t in_bytes;
	uint8_t out[HANDSHAKE_BYTES_MAX];
	size_t out_bytes;
	char why[HANDSHAKE_WHY_BYTES_MAX];
};

static int handshake_refuse(struct handshake *handshake, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int
handshake_refuse(struct handshake *handshake, int rc, const char *format, ...)
{
	va_list args;

	assert(rc < 0);
	va_start(args, format);
	(void)vsnprintf(handshake->why, sizeof(handshake->why), format,
	    args); /* cut where too long */
	va_end(args);
	return rc;
}

static ssize_t
handshake_push(gnutls_transport_ptr_t arg, const void *data, size_t bytes)
{
	struct handshake *handshake = arg;

	if (bytes > sizeof(handshake->out) - handshake->out_bytes) {
		gnutls_transport_set_errno(handshake->session, ENOSPC);
		return -1;
	}
	memcpy(handshake->out + handshake->out_bytes, data, bytes);
	handshake->out_bytes += bytes;
	return (ssize_t)bytes;
}

static ssize_t
handshake_pull(gnutls_transport_ptr_t arg, void *data, size_t bytes)
{
	struct handshake *handshake = arg;
	size_t taken = num_min(bytes, handshake->in_bytes);

	if (taken == 0) {
		gnutls_transport_set_errno(handshake->session, EAGAIN);
		return -1;
	}
	memcpy(data, handshake->in, taken);
	handshake->in += taken;
	handshake->in_bytes -= taken;
	return (ssize_t)taken;
}

/* GnuTLS asks before it waits: nothing ever comes while it does. */
static int
handshake_pull_timeout(gnutls_transport_ptr_t arg, unsigned milliseconds)
{
	const struct handshake *handshake = arg;

	(void)milliseconds;
	return handshake->in_bytes > 0 ? 1 : 0;
}

static int
session_init(struct handshake *handshake)
{
	unsigned flags = handshake->is_acceptor ? GNUTLS_SERVER : GNUTLS_CLIENT;
	gnutls_session_t session;

	if (gnutls_init(&session, flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) <
	    0)
		return -ENOMEM;
	handshake->session = session;
	if (gnutls_priority_set_direct(session, HANDSHAKE_PRIORITY, NULL) < 0 ||
	    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, handshake->key->credentials) <
		0)
		return -ENOMEM;
	if (handshake->is_acceptor) {
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
		/* A certificate of another authority shall come and be told so. */
		gnutls_certificate_send_x509_rdn_sequence(session, 1);
	}
	gnutls_handshake_set_timeout(session, GNUTLS_INDEFINITE_TIMEOUT); /* the caller's */
	gnutls_handshake_set_max_packet_length(session, HANDSHAKE_BYTES_MAX);
	gnutls_transport_set_ptr(session, handshake);
	gnutls_transport_set_push_function(session, handshake_push);
	gnutls_transport_set_pull_function(session, handshake_pull);
	gnutls_transport_set_pull_timeout_function(session, handshake_pull_timeout);
	return 0;
}

struct handshake *
handshake_create(const struct split_key *key, bool is_acceptor)
{
	struct handshake *handshake = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*handshake));

	CHECK_OBJ(key, KEY_MAGIC);
	if (handshake == NULL)
		return NULL;
	handshake->magic = HANDSHAKE_MAGIC;
	handshake->key = split_key_share(key);
	handshake->is_acceptor = is_acceptor;
	if (session_init(handshake) != 0) {
		handshake_free(handshake);
		return NULL;
	}
	return handshake;
}

void
handshake_free(struct handshake *handshake)
{
	if (handshake == NULL)
		return;
	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	if (handshake->session != NULL)
		gnutls_deinit(handshake->session); /* overwrites its secrets */
	split_key_free(handshake->key);
	handshake->magic = 0;
	alloc_free(ALLOC_SPLIT, handshake);
}

static int
step_fail(struct handshake *handshake, int rc)
{
	handshake->is_failed = true;
	if (rc == GNUTLS_E_MEMORY_ERROR)
		return handshake_refuse(handshake, -ENOMEM, "out of memory");
	if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED)
		return handshake_refuse(handshake, -EPROTO,
		    "the handshake failed: the peer says %s",
		    gnutls_alert_get_name(gnutls_alert_get(handshake->session)));
	if (rc == GNUTLS_E_CERTIFICATE_REQUIRED || rc == GNUTLS_E_NO_CERTIFICATE_FOUND)
		return handshake_refuse(handshake, -EPROTO, "the handshake failed: no certificate");
	return handshake_refuse(handshake, -EPROTO, "the handshake failed: %s",
	    gnutls_strerror(rc));
}

int
handshake_step(struct handshake *handshake, const void *in, size_t bytes)
{
	int rc = GNUTLS_E_AGAIN;

	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	assert(!handshake->is_complete && !handshake->is_failed);
	handshake->in = in;
	handshake->in_bytes = bytes;
	handshake->out_bytes = 0;
	handshake->received_bytes += bytes;
	handshake->message_count += bytes > 0;
	if (handshake->message_count > HANDSHAKE_MESSAGES_MAX ||
	    handshake->received_bytes > HANDSHAKE_BYTES_MAX) {
		handshake->is_failed = true;
		return handshake_refuse(handshake, -EPROTO, "the handshake is too long");
	}
	for (uint32_t calls = 0; calls < HANDSHAKE_CALLS_MAX; calls++) {
		rc = gnutls_handshake(handshake->session);
		if (rc == GNUTLS_E_SUCCESS || gnutls_error_is_fatal(rc) != 0)
			break;
		if (rc == GNUTLS_E_AGAIN && handshake->in_bytes == 0)
			break;
	}
	handshake->in = NULL;
	if (rc == GNUTLS_E_AGAIN && handshake->in_bytes == 0)
		return 0;
	if (rc != GNUTLS_E_SUCCESS)
		return step_fail(handshake, rc);
	/* Messages behind a handshake are sealed. */
	if (handshake->in_bytes > 0)
		return step_fail(handshake, GNUTLS_E_UNEXPECTED_PACKET);
	if (gnutls_protocol_get_version(handshake->session) != GNUTLS_TLS1_3)
		return step_fail(handshake, GNUTLS_E_UNSUPPORTED_VERSION_PACKET);
	handshake->is_complete = true;
	return 1;
}

const uint8_t *
handshake_out(const struct handshake *handshake, size_t *ret_bytes)
{
	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	*ret_bytes = handshake->out_bytes;
	return handshake->out;
}

const char *
handshake_why(const struct handshake *handshake)
{
	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	return handshake->why;
}

int
handshake_judge(struct handshake *handshake, const struct split_key *key, unsigned roles,
    uint64_t now_s, struct split_subject *ret_peer)
{
	int rc;

	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	assert(handshake->is_complete);
	rc = peer_judge(handshake->session, key, roles, now_s, &handshake->peer);
	(void)snprintf(handshake->why, sizeof(handshake->why), "%s", handshake->peer.why);
	*ret_peer = handshake->peer.subject;
	return rc;
}

const struct key_certificate *
handshake_certificate(const struct handshake *handshake)
{
	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	return &handshake->peer.certificate;
}

static size_t
context_put_subject(uint8_t *out, const struct split_subject *subject)
{
	char uri[SUBJECT_URI_BYTES_MAX] = "";

	if (subject->role != 0)
		subject_format(subject, uri);
	memcpy(out, uri, strlen(uri) + 1); /* its end, too: no two pairs of texts are alike */
	return strlen(uri) + 1;
}

int
handshake_secrets(struct handshake *handshake, const struct handshake_context *context,
    uint8_t out_secret[HANDSHAKE_SECRET_BYTES], uint8_t in_secret[HANDSHAKE_SECRET_BYTES])
{
	const struct split_subject *mine = &handshake->key->subject,
				   *peer = &handshake->peer.subject;
	uint8_t bytes[HANDSHAKE_CONTEXT_BYTES_MAX];
	uint8_t secrets[2 * HANDSHAKE_SECRET_BYTES];
	size_t at = 0;
	int rc;

	CHECK_OBJ(handshake, HANDSHAKE_MAGIC);
	assert(handshake->is_complete);
	bytes[at++] = context->format;
	bytes[at++] = context->offered;
	bytes[at++] = context->chosen;
	bytes[at++] = 0;
	num_put_le64(bytes + at, mine->cluster_id);
	at += sizeof(uint64_t);
	at += context_put_subject(bytes + at, handshake->is_acceptor ? peer : mine);
	at += context_put_subject(bytes + at, handshake->is_acceptor ? mine : peer);
	rc = gnutls_prf_rfc5705(handshake->session, strlen(HANDSHAKE_LABEL), HANDSHAKE_LABEL, at,
	    (const char *)bytes, sizeof(secrets), (char *)secrets);
	if (rc < 0)
		return handshake_refuse(handshake, -EPROTO, "no keys: %s", gnutls_strerror(rc));
	/* The first half is the connector's to send with. */
	memcpy(handshake->is_acceptor ? in_secret : out_secret, secrets, HANDSHAKE_SECRET_BYTES);
	memcpy(handshake->is_acceptor ? out_secret : in_secret, secrets + HANDSHAKE_SECRET_BYTES,
	    HANDSHAKE_SECRET_BYTES);
	gnutls_memset(secrets, 0, sizeof(secrets));
	return 0;
}
