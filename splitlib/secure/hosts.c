/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c -- see hosts.h */
#include "hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

#define HOSTS_LABEL_BYTES_MAX 63u
#define HOSTS_V4_BYTES sizeof(struct in_addr)
#define HOSTS_V6_BYTES sizeof(struct in6_addr)

/* Bytes of the address that @text is, in network order; 0: it is none. */
static unsigned
address_bytes(const char *text, uint8_t out[HOSTS_V6_BYTES])
{
	if (inet_pton(AF_INET, text, out) == 1)
		return HOSTS_V4_BYTES;
	return inet_pton(AF_INET6, text, out) == 1 ? HOSTS_V6_BYTES : 0;
}

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Labels of letters, digits, - and _, with dots between. The last one is no number: 10.0.0.300 is a slip, not a name. */
static bool
is_name(const char *text)
{
	size_t bytes = strlen(text), label_bytes = 0;
	bool has_letter = false;

	if (bytes == 0 || bytes >= HOSTS_NAME_BYTES)
		return false;
	for (size_t i = 0; i <= bytes; i++) {
		char c = text[i];

		if (c == '.' || c == '\0') {
			if (label_bytes == 0 || label_bytes > HOSTS_LABEL_BYTES_MAX ||
			    text[i - 1] == '-' || (c == '\0' && !has_letter))
				return false;
			label_bytes = 0;
			has_letter = false;
			continue;
		}
		if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '_' &&
		    (c != '-' || label_bytes == 0))
			return false;
		has_letter |= is_letter(c);
		label_bytes++;
	}
	return true;
}

int
hosts_add(struct hosts *hosts, const char *text)
{
	uint8_t bytes[HOSTS_V6_BYTES];

	if (address_bytes(text, bytes) == 0 && !is_name(text))
		return -EINVAL;
	for (unsigned i = 0; i < hosts->count; i++) {
		if (strcmp(hosts->names[i], text) == 0)
			return 0;
	}
	if (hosts->count == HOSTS_MAX)
		return -ENOSPC;
	memcpy(hosts->names[hosts->count++], text, strlen(text) + 1);
	return 0;
}

void
hosts_of(gnutls_x509_crt_t certificate, struct hosts *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0;; i++) {
		char san[HOSTS_NAME_BYTES] = "", text[INET6_ADDRSTRLEN];
		size_t bytes = sizeof(san);
		int kind = gnutls_x509_crt_get_subject_alt_name(certificate, i, san, &bytes, NULL);

		if (kind == GNUTLS_E_SHORT_MEMORY_BUFFER)
			continue;
		if (kind < 0)
			return;
		/* A name with a zero in it is another one to who reads it to its end. */
		if (kind == GNUTLS_SAN_DNSNAME && strnlen(san, sizeof(san)) == bytes)
			(void)hosts_add(ret, san); /* left out, else */
		if (kind == GNUTLS_SAN_IPADDRESS &&
		    (bytes == HOSTS_V4_BYTES || bytes == HOSTS_V6_BYTES) &&
		    inet_ntop(bytes == HOSTS_V4_BYTES ? AF_INET : AF_INET6, san, text,
			sizeof(text)) != NULL)
			(void)hosts_add(ret, text);
	}
}

int
hosts_put(const struct hosts *hosts, gnutls_x509_crt_t certificate)
{
	int rc = 0;

	assert(hosts->count <= HOSTS_MAX);
	for (unsigned i = 0; rc >= 0 && i < hosts->count; i++) {
		const char *name = hosts->names[i];
		uint8_t bytes[HOSTS_V6_BYTES];
		unsigned count = address_bytes(name, bytes);

		rc = count > 0
		    ? gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, bytes,
			  count, GNUTLS_FSAN_APPEND)
		    : gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, name,
			  (unsigned)strlen(name), GNUTLS_FSAN_APPEND);
	}
	return rc;
}
