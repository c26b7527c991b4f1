/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.c -- see revoked.h
 *
 *	text --GnuTLS--> CRLs --which authority of the key signed it?--> number, serials --higher than ours?--> taken
 *	                                   none: foreign                              no: older, or the same
 *
 * The order of the checks: whoever has no signature of ours learns nothing of our numbers, and gets no list of its own
 * into our memory.
 */
#include "revoked.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/plain.h"

#define REVOKED_NUMBER_BYTES_MAX 20u /* RFC 5280 */
#define REVOKED_ISSUER_BYTES_MAX 128u

/* Lists of one text, by what became of them. */
struct verdict {
	unsigned taken, same, older, foreign;
};

static void
list_fini(struct revoked_list *list)
{
	alloc_free(ALLOC_SPLIT, list->serials);
	alloc_free(ALLOC_SPLIT, list->text);
	*list = (struct revoked_list){ .text = NULL };
}

void
revoked_free(struct revoked *revoked)
{
	if (revoked == NULL)
		return;
	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX; i++)
		list_fini(&revoked->lists[i]);
	alloc_free(ALLOC_SPLIT, revoked->text);
	alloc_free(ALLOC_SPLIT, revoked);
}

static int
serial_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct key_serial));
}

bool
revoked_has(const struct revoked *revoked, unsigned authority, const struct key_serial *serial)
{
	const struct revoked_list *list;

	assert(authority < KEY_AUTHORITIES_MAX);
	if (revoked == NULL || revoked->lists[authority].count == 0)
		return false;
	list = &revoked->lists[authority];
	return bsearch(serial, list->serials, list->count, sizeof(*serial), serial_compare) != NULL;
}

/* ---- one list ---- */

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

static int
list_copy(const struct revoked_list *from, struct revoked_list *to)
{
	*to = *from;
	to->serials = alloc_zeroed(ALLOC_SPLIT, (size_t)from->count + 1, sizeof(*to->serials));
	to->text = alloc_zeroed(ALLOC_SPLIT, 1, from->bytes + 1);
	if (to->serials == NULL || to->text == NULL) {
		list_fini(to);
		return -ENOMEM;
	}
	memcpy(to->serials, from->serials, from->count * sizeof(*to->serials));
	memcpy(to->text, from->text, from->bytes);
	return 0;
}

/* ---- all of a text ---- */

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

/* @crl, whose authority is known: into @list where it is newer than what is there. */
static int
list_judge(gnutls_x509_crl_t crl, struct revoked_list *list, struct verdict *verdict, char *why)
{
	struct revoked_list next = { .text = NULL };
	int rc = list_number(crl, &next.number);

	if (rc == 0)
		rc = list_text(crl, &next);
	if (rc == 0 && list->text != NULL && next.number == list->number &&
	    strcmp(next.text, list->text) == 0) {
		verdict->same++;
	} else if (rc == 0 && list->text != NULL && next.number <= list->number) {
		verdict->older++;
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "a list of revoked keys is number %" PRIu64 ", and number %" PRIu64
		    " is known: give the newest",
		    next.number, list->number);
	} else if (rc == 0) {
		rc = list_serials(crl, &next);
		if (rc == 0) {
			list_fini(list);
			*list = next;
			verdict->taken++;
			return 0;
		}
	}
	list_fini(&next);
	if (rc == -EINVAL)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "a list of revoked keys has no number, or a serial that is none");
	return rc;
}

static int
lists_judge(const struct split_key *key, gnutls_x509_crl_t *crls, unsigned count,
    struct revoked *revoked, struct verdict *verdict, char *why)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned authority = list_authority(key, crls[i]);
		int rc = 0;

		if (authority == KEY_AUTHORITIES_MAX) {
			verdict->foreign++;
			why_foreign(crls[i], why);
		} else {
			rc = list_judge(crls[i], &revoked->lists[authority], verdict, why);
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* The text of all. */
static int
revoked_join(struct revoked *revoked, char *why)
{
	size_t at = 0;

	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX; i++)
		revoked->bytes += revoked->lists[i].bytes;
	if (revoked->bytes > SPLIT_REVOKED_BYTES_MAX) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "the lists of revoked keys are longer than %u bytes together",
		    SPLIT_REVOKED_BYTES_MAX);
		return -EFBIG;
	}
	revoked->text = alloc_zeroed(ALLOC_SPLIT, 1, revoked->bytes + 1);
	if (revoked->text == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX; i++) {
		const struct revoked_list *list = &revoked->lists[i];

		if (list->text != NULL)
			memcpy(revoked->text + at, list->text, list->bytes);
		at += list->bytes;
	}
	assert(at == revoked->bytes);
	return 0;
}

static int
revoked_begin(const struct split_key *key, struct revoked *revoked)
{
	int rc = 0;

	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX && key->revoked != NULL && rc == 0; i++) {
		if (key->revoked->lists[i].text != NULL)
			rc = list_copy(&key->revoked->lists[i], &revoked->lists[i]);
	}
	return rc;
}

static int
revoked_import(const char *text, size_t bytes, gnutls_x509_crl_t **ret_crls, unsigned *ret_count,
    char *why)
{
	gnutls_datum_t datum = { .size = (unsigned)bytes };
	gnutls_x509_crl_t *crls = NULL;
	unsigned count = 0;
	int rc;

	if (bytes > SPLIT_REVOKED_BYTES_MAX) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "it is longer than %u bytes, which lists of revoked keys are not",
		    SPLIT_REVOKED_BYTES_MAX);
		return -EFBIG;
	}
	datum.data =
	    alloc_zeroed(ALLOC_SPLIT, 1, bytes + 1); /* GnuTLS searches it for PEM's lines */
	if (datum.data == NULL)
		return -ENOMEM;
	memcpy(datum.data, text, bytes);
	rc = gnutls_x509_crl_list_import2(&crls, &count, &datum, GNUTLS_X509_FMT_PEM, 0);
	alloc_free(ALLOC_SPLIT, datum.data);
	if (rc == GNUTLS_E_MEMORY_ERROR)
		return -ENOMEM;
	if (rc < 0) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "it is no list of revoked keys (PEM, X509 CRL): %s", gnutls_strerror(rc));
		return -EINVAL;
	}
	*ret_crls = crls;
	*ret_count = count;
	return 0;
}

static int
verdict_rc(const struct verdict *verdict, char *why)
{
	if (verdict->taken > 0)
		return 0;
	if (verdict->foreign > 0)
		return -EKEYREJECTED;
	if (verdict->older > 0)
		return -ESTALE;
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "the list of revoked keys is known already");
	return -EALREADY;
}

struct revoked *
revoked_take(const struct split_key *key, const char *text, size_t bytes, char *why)
{
	struct revoked *revoked = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*revoked));
	struct verdict verdict = { 0 };
	gnutls_x509_crl_t *crls = NULL;
	unsigned count = 0;
	int rc = revoked == NULL ? -ENOMEM : 0;

	CHECK_OBJ(key, KEY_MAGIC);
	why[0] = '\0';
	if (rc == 0)
		rc = revoked_begin(key, revoked);
	if (rc == 0)
		rc = revoked_import(text, bytes, &crls, &count, why);
	if (rc == 0)
		rc = lists_judge(key, crls, count, revoked, &verdict, why);
	if (rc == 0)
		rc = verdict_rc(&verdict, why);
	if (rc == 0)
		rc = revoked_join(revoked, why);
	for (unsigned i = 0; i < count; i++)
		gnutls_x509_crl_deinit(crls[i]);
	gnutls_free(crls);
	if (rc == 0)
		return revoked;
	if (rc == -ENOMEM)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "out of memory");
	revoked_free(revoked);
	errno = -rc;
	return NULL;
}
