/* SPDX-License-Identifier: Apache-2.0 */
/* revoked_list.c -- see revoked_list.h */
#include "revoked_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/plain.h"
#include "key.h"

#define REVOKED_NUMBER_BYTES_MAX 20u /* RFC 5280 */
#define REVOKED_ISSUER_BYTES_MAX 128u

void
revoked_list_fini(struct revoked_list *list)
{
	alloc_free(ALLOC_SPLIT, list->serials);
	alloc_free(ALLOC_SPLIT, list->text);
	*list = (struct revoked_list){ .text = NULL };
}

static int
serial_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct key_serial));
}

/* 0 or -EINVAL: it has no number, or one that no authority of ours makes. */
static int
list_number(gnutls_x509_crl_t crl, uint64_t *ret_number)
{
	uint8_t bytes[REVOKED_NUMBER_BYTES_MAX];
	size_t count = sizeof(bytes);
	uint64_t number = 0;

	if (gnutls_x509_crl_get_number(crl, bytes, &count, NULL) < 0)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (number > UINT64_MAX >> 8)
			return -EINVAL;
		number = number << 8 | bytes[i];
	}
	*ret_number = number;
	return 0;
}

static int
list_serials(gnutls_x509_crl_t crl, struct revoked_list *list)
{
	int count = gnutls_x509_crl_get_crt_count(crl);

	if (count < 0)
		return -EINVAL;
	list->serials =
	    alloc_zeroed(ALLOC_SPLIT, (size_t)count + 1, sizeof(*list->serials)); /* never none */
	if (list->serials == NULL)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		uint8_t bytes[KEY_SERIAL_BYTES + 1];
		size_t serial_bytes = sizeof(bytes);
		time_t when;

		if (gnutls_x509_crl_get_crt_serial(crl, (unsigned)i, bytes, &serial_bytes, &when) <
			0 ||
		    key_serial_set(&list->serials[i], bytes, serial_bytes) != 0)
			return -EINVAL;
	}
	list->count = (uint32_t)count;
	qsort(list->serials, list->count, sizeof(*list->serials), serial_compare);
	return 0;
}

/* As GnuTLS writes it: nothing that stood around it is passed on. */
static int
list_text(gnutls_x509_crl_t crl, struct revoked_list *list)
{
	gnutls_datum_t text;

	if (gnutls_x509_crl_export2(crl, GNUTLS_X509_FMT_PEM, &text) < 0)
		return -ENOMEM;
	list->text = alloc_zeroed(ALLOC_SPLIT, 1, (size_t)text.size + 1);
	if (list->text != NULL) {
		memcpy(list->text, text.data, text.size);
		list->bytes = text.size;
	}
	gnutls_free(text.data);
	return list->text == NULL ? -ENOMEM : 0;
}

int
revoked_list_copy(const struct revoked_list *from, struct revoked_list *to)
{
	*to = *from;
	to->serials = alloc_zeroed(ALLOC_SPLIT, (size_t)from->count + 1, sizeof(*to->serials));
	to->text = alloc_zeroed(ALLOC_SPLIT, 1, from->bytes + 1);
	if (to->serials == NULL || to->text == NULL) {
		revoked_list_fini(to);
		return -ENOMEM;
	}
	memcpy(to->serials, from->serials, from->count * sizeof(*to->serials));
	memcpy(to->text, from->text, from->bytes);
	return 0;
}

/* GnuTLS's objections to @crl, but for its times: a list stays good until the next one. */
static unsigned
list_verdict(gnutls_x509_crl_t crl, gnutls_x509_crt_t authority)
{
	static const unsigned times = GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED |
	    GNUTLS_CERT_REVOCATION_DATA_ISSUED_IN_FUTURE;
	unsigned verdict = GNUTLS_CERT_INVALID;

	if (gnutls_x509_crl_verify(crl, &authority, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS,
		&verdict) < 0)
		return GNUTLS_CERT_INVALID;
	/* INVALID is said of each; what else is said is the reason. */
	return (verdict & times) != 0 ? verdict & ~(times | GNUTLS_CERT_INVALID) : verdict;
}

/* The authority of @key that signed @crl; KEY_AUTHORITIES_MAX: none. Two may have one name: it is the signature that counts. */
static unsigned
list_authority(const struct split_key *key, gnutls_x509_crl_t crl)
{
	for (unsigned i = 0; i < key->authority_count; i++) {
		if (list_verdict(crl, key->authorities[i]) == 0)
			return i;
	}
	return KEY_AUTHORITIES_MAX;
}

static void
why_foreign(gnutls_x509_crl_t crl, char *why)
{
	char issuer[REVOKED_ISSUER_BYTES_MAX];
	size_t bytes = sizeof(issuer);

	if (gnutls_x509_crl_get_issuer_dn(crl, issuer, &bytes) < 0)
		(void)snprintf(issuer, sizeof(issuer), "?");
	(void)plain_text(issuer); /* others wrote it */
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
	    "a list of revoked keys is of another authority (CA), or was changed: %s", issuer);
}

bool
revoked_list_has(const struct revoked_list *list, const struct key_serial *serial)
{
	return list->count > 0 &&
	    bsearch(serial, list->serials, list->count, sizeof(*serial), serial_compare) != NULL;
}

int
revoked_list_read(const struct split_key *key, gnutls_x509_crl_t crl, struct revoked_list *ret,
    unsigned *ret_authority, char *why)
{
	int rc;

	*ret = (struct revoked_list){ .text = NULL };
	*ret_authority = list_authority(key, crl);
	if (*ret_authority == KEY_AUTHORITIES_MAX) {
		why_foreign(crl, why);
		return 0;
	}
	rc = list_number(crl, &ret->number);
	if (rc == 0)
		rc = list_text(crl, ret);
	if (rc == 0)
		rc = list_serials(crl, ret);
	if (rc == -EINVAL)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "a list of revoked keys has no number, or a serial that is none");
	return rc;
}

bool
revoked_list_is_newer(const struct revoked_list *list, const struct revoked_list *than)
{
	return list->number != than->number ? list->number > than->number
					    : list->count > than->count;
}
