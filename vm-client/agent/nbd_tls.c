/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_tls.c -- see nbd_tls.h */
#include "nbd_tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "nbd.h"

#define TLS_PATH_BYTES_MAX 4096
#define TLS_PRIORITY_CERTIFICATES "NORMAL"
#define TLS_PRIORITY_PSK "NORMAL:+ECDHE-PSK:+DHE-PSK:+PSK"

struct nbd_tls {
	gnutls_certificate_credentials_t certificates; /* NULL: PSK */
	gnutls_psk_server_credentials_t psk;
	bool verifies_peer;
};

/* ---- credentials ---- */

static int
refuse(char *ret_error, size_t error_bytes, const char *file, const char *why)
{
	(void)snprintf(ret_error, error_bytes, "%s: %s", file, why);
	return -EINVAL;
}

/* "FOLDER/NAME", which must be readable. */
static int
file_in(char out[TLS_PATH_BYTES_MAX], const char *folder, const char *name, char *ret_error,
    size_t error_bytes)
{
	if (snprintf(out, TLS_PATH_BYTES_MAX, "%s/%s", folder, name) >= TLS_PATH_BYTES_MAX)
		return refuse(ret_error, error_bytes, folder, "the path is too long");
	if (access(out, R_OK) != 0)
		return refuse(ret_error, error_bytes, out, strerror(errno));
	return 0;
}

static int
load_certificates(struct nbd_tls *tls, const char *folder, char *ret_error, size_t error_bytes)
{
	char ca[TLS_PATH_BYTES_MAX], certificate[TLS_PATH_BYTES_MAX], key[TLS_PATH_BYTES_MAX];
	int rc;

	assert(tls->certificates == NULL && tls->psk == NULL);
	if (file_in(ca, folder, "ca-cert.pem", ret_error, error_bytes) != 0 ||
	    file_in(certificate, folder, "server-cert.pem", ret_error, error_bytes) != 0 ||
	    file_in(key, folder, "server-key.pem", ret_error, error_bytes) != 0)
		return -EINVAL;
	rc = gnutls_certificate_allocate_credentials(&tls->certificates);
	if (rc < 0)
		return refuse(ret_error, error_bytes, folder, gnutls_strerror(rc));
	rc = gnutls_certificate_set_x509_trust_file(tls->certificates, ca, GNUTLS_X509_FMT_PEM);
	if (rc <= 0)
		return refuse(ret_error, error_bytes, ca,
		    rc == 0 ? "there is no certificate in it" : gnutls_strerror(rc));
	rc = gnutls_certificate_set_x509_key_file(tls->certificates, certificate, key,
	    GNUTLS_X509_FMT_PEM);
	return rc < 0 ? refuse(ret_error, error_bytes, certificate, gnutls_strerror(rc)) : 0;
}

static int
load_psk(struct nbd_tls *tls, const char *file, char *ret_error, size_t error_bytes)
{
	int rc;

	assert(tls->certificates == NULL && tls->psk == NULL);
	if (access(file, R_OK) != 0)
		return refuse(ret_error, error_bytes, file, strerror(errno));
	rc = gnutls_psk_allocate_server_credentials(&tls->psk);
	if (rc == 0)
		rc = gnutls_psk_set_server_credentials_file(tls->psk, file);
	return rc < 0 ? refuse(ret_error, error_bytes, file, gnutls_strerror(rc)) : 0;
}

struct nbd_tls *
nbd_tls_create(const struct nbd_tls_options *options, char *ret_error, size_t error_bytes)
{
	struct nbd_tls *tls = client_calloc(1, sizeof(*tls));
	int rc;

	assert((options->certificates != NULL) != (options->psk_file != NULL));
	if (tls == NULL) {
		(void)refuse(ret_error, error_bytes, "TLS", "out of memory");
		return NULL;
	}
	tls->verifies_peer = options->verifies_peer;
	rc = options->certificates != NULL
	    ? load_certificates(tls, options->certificates, ret_error, error_bytes)
	    : load_psk(tls, options->psk_file, ret_error, error_bytes);
	if (rc != 0) {
		nbd_tls_destroy(tls);
		return NULL;
	}
	return tls;
}

void
nbd_tls_destroy(struct nbd_tls *tls)
{
	if (tls == NULL)
		return;
	if (tls->certificates != NULL)
		gnutls_certificate_free_credentials(tls->certificates);
	if (tls->psk != NULL)
		gnutls_psk_free_server_credentials(tls->psk);
	free(tls);
}

/* ---- the stream ---- */

static int
errno_of(ssize_t rc)
{
	assert(rc < 0);
	if (rc == GNUTLS_E_AGAIN)
		return -EAGAIN;
	if (rc == GNUTLS_E_INTERRUPTED)
		return -EINTR;
	/* A peer that just goes is nothing to complain about. */
	return rc == GNUTLS_E_PREMATURE_TERMINATION ? -ECONNRESET : -EPROTO;
}

ssize_t
nbd_tls_read(void *session, void *data, size_t bytes)
{
	ssize_t n = gnutls_record_recv(session, data, bytes);

	return n < 0 ? errno_of(n) : n;
}

/* Sends a record at a time; TLS wants a record that the socket did not take again as it was. */
ssize_t
nbd_tls_writev(void *session, const struct iovec *iovecs, int count)
{
	ssize_t sent = 0;

	assert(session != NULL && count >= 0);
	for (int i = 0; i < count; i++) {
		size_t at = 0;

		while (at < iovecs[i].iov_len) {
			ssize_t n = gnutls_record_send(session,
			    (const uint8_t *)iovecs[i].iov_base + at, iovecs[i].iov_len - at);

			if (n < 0)
				return sent > 0 ? sent : errno_of(n);
			at += (size_t)n;
			sent += n;
		}
	}
	return sent;
}

static ssize_t
tls_read(struct nbd_connection *connection, void *data, size_t bytes)
{
	return nbd_tls_read(connection->tls_session, data, bytes);
}

static ssize_t
tls_writev(struct nbd_connection *connection, const struct iovec *iovecs, int count)
{
	return nbd_tls_writev(connection->tls_session, iovecs, count);
}

static bool
tls_has_pending(const struct nbd_connection *connection)
{
	return gnutls_record_check_pending(connection->tls_session) > 0;
}

static const struct nbd_stream_ops tls_stream = {
	.read = tls_read,
	.writev = tls_writev,
	.has_pending = tls_has_pending,
};

/* ---- sessions ---- */

int
nbd_tls_begin(struct nbd_tls *tls, struct nbd_connection *connection)
{
	bool is_psk = tls->psk != NULL;
	gnutls_session_t session;
	int rc = gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);

	assert((tls->certificates == NULL) == is_psk);
	assert(connection->tls_session == NULL);
	if (rc < 0)
		return -ENOMEM;
	rc = gnutls_priority_set_direct(session,
	    is_psk ? TLS_PRIORITY_PSK : TLS_PRIORITY_CERTIFICATES, NULL);
	if (rc == 0 && is_psk)
		rc = gnutls_credentials_set(session, GNUTLS_CRD_PSK, tls->psk);
	else if (rc == 0)
		rc = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->certificates);
	if (rc < 0) {
		gnutls_deinit(session);
		return -ENOMEM;
	}
	if (!is_psk && tls->verifies_peer) {
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
		gnutls_session_set_verify_cert(session, NULL, 0);
	}
	gnutls_transport_set_int2(session, connection->in_fd, connection->out_fd);
	connection->tls_session = session;
	connection->stream = &tls_stream;
	return 0;
}

int
nbd_tls_handshake(struct nbd_connection *connection, bool *ret_wants_output, const char **ret_text)
{
	gnutls_session_t session = connection->tls_session;
	int rc;

	assert(session != NULL && !connection->is_secure);
	do
		rc = gnutls_handshake(session);
	while (rc < 0 && rc != GNUTLS_E_AGAIN && gnutls_error_is_fatal(rc) == 0);
	*ret_wants_output = rc == GNUTLS_E_AGAIN && gnutls_record_get_direction(session) == 1;
	if (rc == 0)
		return 0;
	if (rc == GNUTLS_E_AGAIN)
		return -EAGAIN;
	*ret_text = gnutls_strerror(rc);
	return -EPROTO;
}

void
nbd_tls_close(void *session)
{
	assert(session != NULL);
	(void)gnutls_bye(session, GNUTLS_SHUT_WR); /* the socket may be gone */
	gnutls_deinit(session);
}

void
nbd_tls_end(struct nbd_connection *connection)
{
	if (connection->tls_session == NULL)
		return;
	nbd_tls_close(connection->tls_session);
	connection->tls_session = NULL;
}
