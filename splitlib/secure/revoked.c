/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.c -- see revoked.h
 *
 *	text --GnuTLS--> CRLs --which authority of the key signed it?--> number, serials --higher than ours, or others?--> taken
 *	                                   none: foreign                              no: older, or the same
 *
 *	taken --> beside those that are there --> a list whose serials are all on newer ones goes
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
#include "base/mutant.h"

/* Lists of one text, by what became of them. */
struct verdict {
	unsigned taken, same, older, foreign;
};

/* A list of the text, read. */
struct given {
	struct revoked_list list;
	unsigned authority; /* KEY_AUTHORITIES_MAX: none of ours */
};

/* All of a text. */
struct givens {
	struct given *given;
	unsigned count;
};

void
revoked_free(struct revoked *revoked)
{
	if (revoked == NULL)
		return;
	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX; i++) {
		for (uint32_t k = 0; k < revoked->of[i].count; k++)
			revoked_list_fini(&revoked->of[i].lists[k]);
	}
	alloc_free(ALLOC_SPLIT, revoked->text);
	alloc_free(ALLOC_SPLIT, revoked);
}

/* On one of the first @count, which are the newest. */
static bool
lists_have(const struct revoked_lists *of, uint32_t count, const struct key_serial *serial)
{
	assert(count <= of->count);
	for (uint32_t i = 0; i < count; i++) {
		if (revoked_list_has(&of->lists[i], serial))
			return true;
	}
	return false;
}

bool
revoked_has(const struct revoked *revoked, unsigned authority, const struct key_serial *serial)
{
	uint32_t count;

	assert(authority < KEY_AUTHORITIES_MAX);
	if (revoked == NULL)
		return false;
	count = revoked->of[authority].count;
	if (MUTANT(revoked_forgotten))
		count = count == 0 ? 0 : 1; /* the newest alone */
	return lists_have(&revoked->of[authority], count, serial);
}

/* ---- lists of one authority ---- */

static void
givens_fini(struct givens *givens)
{
	for (unsigned i = 0; i < givens->count; i++)
		revoked_list_fini(&givens->given[i].list);
	alloc_free(ALLOC_SPLIT, givens->given);
}

/* Does @list name anybody who is not on the @count newest ones? */
static bool
list_adds(const struct revoked_lists *of, uint32_t count, const struct revoked_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (!lists_have(of, count, &list->serials[i]))
			return true;
	}
	return false;
}

static void
lists_remove(struct revoked_lists *of, uint32_t at)
{
	assert(at < of->count);
	revoked_list_fini(&of->lists[at]);
	memmove(&of->lists[at], &of->lists[at + 1], (of->count - at - 1) * sizeof(of->lists[0]));
	of->count--;
}

/* Lists that name nobody whom newer ones do not are not needed. The newest stays, for its number. */
static void
lists_prune(struct revoked_lists *of)
{
	for (uint32_t i = 1; i < of->count;) {
		if (list_adds(of, i, &of->lists[i]))
			i++;
		else
			lists_remove(of, i);
	}
}

/* A copy of @list in its place. Where there is no room the oldest goes, which is told (gaps). */
static int
lists_insert(struct revoked_lists *of, const struct revoked_list *list)
{
	struct revoked_list copy;
	uint32_t at = 0;
	int rc = revoked_list_copy(list, &copy);

	if (rc != 0)
		return rc;
	assert(of->count <= REVOKED_LISTS_MAX);
	while (at < of->count && !revoked_list_is_newer(&copy, &of->lists[at]))
		at++;
	memmove(&of->lists[at + 1], &of->lists[at], (of->count - at) * sizeof(of->lists[0]));
	of->lists[at] = copy;
	of->count++;
	lists_prune(of);
	if (of->count > REVOKED_LISTS_MAX)
		lists_remove(of, of->count - 1);
	return 0;
}

static bool
lists_know(const struct revoked_lists *of, const struct revoked_list *list)
{
	for (uint32_t i = 0; i < of->count; i++) {
		const struct revoked_list *known = &of->lists[i];

		if (known->number == list->number && known->count == list->count &&
		    memcmp(known->serials, list->serials, list->count * sizeof(list->serials[0])) ==
			0)
			return true; /* written anew, perhaps */
	}
	return false;
}

/* @list, whose authority is known: into @of where it is newer than what is there, or names others. */
static int
list_judge(const struct revoked_list *list, struct revoked_lists *of, struct verdict *verdict,
    struct split_revoked_gaps *gaps, char *why)
{
	if (lists_know(of, list)) {
		verdict->same++;
		return 0;
	}
	if (of->count > 0 && list->number <= of->lists[0].number &&
	    !list_adds(of, of->count, list)) {
		verdict->older++;
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "a list of revoked keys is number %" PRIu64 ", and number %" PRIu64
		    " is known: give the newest; was the authority's folder put back from a copy? "
		    "See cleave key adopt",
		    list->number, of->lists[0].number);
		return 0;
	}
	verdict->taken++;
	/* Lists of one number: the longer one is newer. */
	if (of->count > 0 && !revoked_list_is_newer(list, &of->lists[0])) {
		gaps->older_number = list->number;
		gaps->newest_number = of->lists[0].number;
	}
	return lists_insert(of, list);
}

static int
givens_judge(const struct givens *givens, struct revoked *revoked, struct verdict *verdict,
    char *why)
{
	int rc = 0;

	for (unsigned i = 0; i < givens->count && rc == 0; i++) {
		const struct given *given = &givens->given[i];

		if (given->authority == KEY_AUTHORITIES_MAX)
			verdict->foreign++;
		else
			rc = list_judge(&given->list, &revoked->of[given->authority], verdict,
			    &revoked->gaps, why);
	}
	return rc;
}

/* ---- what they lack ---- */

static bool
givens_have(const struct givens *givens, unsigned authority, const struct key_serial *serial)
{
	for (unsigned i = 0; i < givens->count; i++) {
		if (givens->given[i].authority == authority &&
		    revoked_list_has(&givens->given[i].list, serial))
			return true;
	}
	return false;
}

static bool
givens_are_of(const struct givens *givens, unsigned authority)
{
	for (unsigned i = 0; i < givens->count; i++) {
		if (givens->given[i].authority == authority)
			return true;
	}
	return false;
}

/* As `cleave key list` shows it: without the zeros before it. */
static void
gaps_add(struct split_revoked_gaps *gaps, const struct key_serial *serial)
{
	size_t at = strlen(gaps->serials), from = 0;

	if (gaps->lacked_count++ >= SPLIT_REVOKED_NAMED_MAX)
		return;
	if (at > 0)
		at += (size_t)snprintf(gaps->serials + at, sizeof(gaps->serials) - at, ", ");
	while (from + 1 < KEY_SERIAL_BYTES && serial->bytes[from] == 0)
		from++;
	for (; from < KEY_SERIAL_BYTES; from++, at += 2)
		(void)snprintf(gaps->serials + at, sizeof(gaps->serials) - at, "%02x",
		    serial->bytes[from]);
}

/* Each that was revoked @before, once. */
static void
gaps_find(const struct revoked *before, const struct givens *givens, struct revoked *revoked)
{
	for (unsigned i = 0; before != NULL && i < KEY_AUTHORITIES_MAX; i++) {
		const struct revoked_lists *of = &before->of[i];

		if (!givens_are_of(givens, i))
			continue;
		for (uint32_t k = 0; k < of->count; k++) {
			for (uint32_t n = 0; n < of->lists[k].count; n++) {
				const struct key_serial *serial = &of->lists[k].serials[n];

				if (lists_have(of, k, serial) || givens_have(givens, i, serial))
					continue;
				gaps_add(&revoked->gaps, serial);
				revoked->gaps.lost_count += !revoked_has(revoked, i, serial);
			}
		}
	}
}

/* Where all are too long together the oldest go: who is on the newest one is out in any case. */
static void
revoked_fit(struct revoked *revoked)
{
	revoked->bytes = 0;
	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX; i++) {
		for (uint32_t k = 0; k < revoked->of[i].count; k++)
			revoked->bytes += revoked->of[i].lists[k].bytes;
	}
	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX; i++) {
		struct revoked_lists *of = &revoked->of[i];

		while (revoked->bytes > SPLIT_REVOKED_BYTES_MAX && of->count > 1) {
			revoked->bytes -= of->lists[of->count - 1].bytes;
			lists_remove(of, of->count - 1);
		}
	}
}

/* The text of all: an authority's oldest first, as releases want it that know one list of each. */
static int
revoked_join(struct revoked *revoked, char *why)
{
	size_t at = 0;

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
		for (uint32_t k = revoked->of[i].count; k > 0; k--) {
			const struct revoked_list *list = &revoked->of[i].lists[k - 1];

			memcpy(revoked->text + at, list->text, list->bytes);
			at += list->bytes;
		}
	}
	assert(at == revoked->bytes);
	return 0;
}

static int
revoked_begin(const struct split_key *key, struct revoked *revoked)
{
	int rc = 0;

	for (unsigned i = 0; i < KEY_AUTHORITIES_MAX && key->revoked != NULL; i++) {
		const struct revoked_lists *from = &key->revoked->of[i];

		for (uint32_t k = 0; k < from->count && rc == 0; k++) {
			rc = revoked_list_copy(&from->lists[k], &revoked->of[i].lists[k]);
			revoked->of[i].count += rc == 0;
		}
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

/* All lists of @text, for givens_fini, also where it fails. */
static int
givens_read(const struct split_key *key, const char *text, size_t bytes, struct givens *ret,
    char *why)
{
	gnutls_x509_crl_t *crls = NULL;
	unsigned count = 0;
	int rc = revoked_import(text, bytes, &crls, &count, why);

	*ret = (struct givens){ NULL, 0 };
	if (rc != 0)
		return rc;
	ret->given = alloc_zeroed(ALLOC_SPLIT, (size_t)count + 1, sizeof(*ret->given));
	rc = ret->given == NULL ? -ENOMEM : 0;
	for (unsigned i = 0; i < count && rc == 0; i++) {
		ret->count++;
		rc = revoked_list_read(key, crls[i], &ret->given[i].list, &ret->given[i].authority,
		    why);
	}
	for (unsigned i = 0; i < count; i++)
		gnutls_x509_crl_deinit(crls[i]);
	gnutls_free(crls);
	return rc;
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
	struct givens givens = { NULL, 0 };
	int rc = revoked == NULL ? -ENOMEM : 0;

	CHECK_OBJ(key, KEY_MAGIC);
	why[0] = '\0';
	if (rc == 0)
		rc = revoked_begin(key, revoked);
	if (rc == 0)
		rc = givens_read(key, text, bytes, &givens, why);
	if (rc == 0)
		rc = givens_judge(&givens, revoked, &verdict, why);
	if (rc == 0)
		rc = verdict_rc(&verdict, why);
	if (rc == 0) {
		revoked_fit(revoked);
		gaps_find(key->revoked, &givens, revoked);
		rc = revoked_join(revoked, why);
	}
	givens_fini(&givens);
	if (rc == 0)
		return revoked;
	if (rc == -ENOMEM)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "out of memory");
	revoked_free(revoked);
	errno = -rc;
	return NULL;
}
