/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_guard.c -- see http_guard.h
 *
 * libmicrohttpd makes a session for each connection, with credentials of its own, and would have a certificate and a
 * private key in memory for them, as text. It gets a function that has none. The guard gives the session others before
 * its handshake begins; a connection for which it has no memory keeps those, and its handshake fails.
 */
#include "base/http_guard.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/tcp_address.h"

static int
guard_no_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
    gnutls_pcert_st **certificates, unsigned *count, gnutls_ocsp_data_st **ocsp,
    unsigned *ocsp_count, gnutls_privkey_t *private_key, unsigned *flags)
{
	(void)session;
	(void)info;
	(void)certificates;
	(void)count;
	(void)ocsp;
	(void)ocsp_count;
	(void)private_key;
	(void)flags;
	return -1;
}

struct MHD_OptionItem *
http_guard_options(bool is_tls)
{
	static gnutls_certificate_retrieve_function3 *const none = guard_no_certificate;
	static struct MHD_OptionItem items[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};

	/* The library takes a function for a void *, which C does not. */
	memcpy(&items[0].ptr_value, &none, sizeof(items[0].ptr_value));
	return is_tls ? items : items + 1;
}

void *
http_guard_open(const struct metrics_guard *guard, void *arg, struct MHD_Connection *connection,
    int fd)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	struct sockaddr_storage at;
	char peer[SPLIT_ADDRESS_BYTES_MAX] = "";
	socklen_t bytes = sizeof(at);

	assert(guard != NULL);
	if (info == NULL || info->tls_session == NULL)
		return NULL;
	if (getpeername(fd, (struct sockaddr *)&at, &bytes) == 0)
		tcp_address_format(&at, peer);
	return guard->open(info->tls_session, peer, arg);
}
