/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_tls.h -- TLS for NBD, by GnuTLS: certificates, or keys that both sides know (PSK)
 *
 * A *credential set* is loaded once, at start, with errors that name the file. A *session* is one
 * connection's; after its handshake it is the connection's stream.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_TLS_H
#define CLEAVE_VM_CLIENT_NBD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct nbd_connection;
struct nbd_tls;

struct nbd_tls_options {
	const char
	    *certificates;    /* folder: ca-cert.pem, server-cert.pem, server-key.pem; or NULL */
	const char *psk_file; /* "user:hex key" lines (psktool); or NULL */
	bool verifies_peer;   /* certificates: clients must show one that the CA signed */
};

/* nbd_tls_create -- NULL and a text that names the file. Exactly one of the two sources. */
struct nbd_tls *nbd_tls_create(const struct nbd_tls_options *options, char *ret_error,
    size_t error_bytes);
void nbd_tls_destroy(struct nbd_tls *tls);

/* nbd_tls_begin -- a session for @connection, whose stream becomes TLS. 0 or -ENOMEM. */
int nbd_tls_begin(struct nbd_tls *tls, struct nbd_connection *connection);
/*
 * nbd_tls_handshake -- go on with it
 *
 * 0: it is over, the stream may be used; -EAGAIN: when the socket is readable (or writable:
 * *@ret_wants_output); -EPROTO and a text.
 */
int nbd_tls_handshake(struct nbd_connection *connection, bool *ret_wants_output,
    const char **ret_text);
/* nbd_tls_read, nbd_tls_writev -- of a session: as struct nbd_stream_ops says. */
ssize_t nbd_tls_read(void *session, void *data, size_t bytes);
ssize_t nbd_tls_writev(void *session, const struct iovec *iovecs, int count);
/* nbd_tls_close -- say goodbye, and free it. */
void nbd_tls_close(void *session);
/* nbd_tls_end -- say goodbye as far as the socket takes it, and free the session. No-op without one. */
void nbd_tls_end(struct nbd_connection *connection);

#endif /* CLEAVE_VM_CLIENT_NBD_TLS_H */
