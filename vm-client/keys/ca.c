/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca.c -- see ca.h
 *
 *	init:    DIR.XXXXXX/{issued.json, ca.pem, revoked.pem, ca.key} --rename--> DIR
 *	issue:   issued.json with the new serial, then the key file: killed between them, a serial is listed whose key nobody has
 *	revoke:  issued.json, then revoked.pem: killed between them, the same command writes the second
 */
#include "ca.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/durable.h"
#include "base/num.h"
#include "certificate.h"
#include "key_look.h"
#include "subject_of.h"

#define CA_MAGIC 0x20204143u /* "CA  " */
#define CA_TEXT_BYTES_MAX 65536u
#define CA_SECRET_MODE 0600
#define CA_PUBLIC_MODE 0644

_Static_assert(CA_WHY_BYTES >= CERTIFICATE_WHY_BYTES && CA_WHY_BYTES >= KEY_LOOK_WHY_BYTES,
    "each takes the same text");

struct ca {
	uint32_t magic;
	char path[PATH_MAX];
	int fd; /* of the folder, locked */
	struct issued issued;
	struct certificate_pair pair;
};

static int ca_fail(int rc, char *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int
ca_fail(int rc, char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, CA_WHY_BYTES, format, args); /* cut where too long */
	va_end(args);
	return rc;
}

static int
ca_file(const char *folder, const char *name, char ret_path[PATH_MAX])
{
	return snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int
ca_write(const char *folder, const char *name, const void *text, size_t bytes, mode_t mode,
    char *why)
{
	char path[PATH_MAX];
	int rc = ca_file(folder, name, path);

	if (rc == 0)
		rc = durable_write(path, text, bytes, mode, true);
	return rc == 0 ? 0 : ca_fail(rc, why, "%s/%s: %s", folder, name, strerror(-rc));
}

static int
write_issued(const char *folder, const struct issued *issued, char *why)
{
	size_t bytes;
	char *text = issued_encode(issued, &bytes);
	int rc = text == NULL ? ca_fail(-ENOMEM, why, "out of memory")
			      : ca_write(folder, CA_ISSUED_NAME, text, bytes, CA_SECRET_MODE, why);

	free(text);
	return rc;
}

static int
write_revoked(const char *folder, const struct issued *issued, const struct certificate_pair *pair,
    uint64_t now_s, char *why)
{
	struct certificate_text text = { 0 };
	int rc = certificate_crl(issued, pair, now_s, &text, why);

	if (rc == 0)
		rc = ca_write(folder, CA_REVOKED_NAME, text.text, text.bytes, CA_PUBLIC_MODE, why);
	certificate_text_fini(&text);
	return rc;
}

static int
write_lists(const char *folder, const struct issued *issued, const struct certificate_pair *pair,
    uint64_t now_s, char *why)
{
	int rc = write_issued(folder, issued, why);

	return rc != 0 ? rc : write_revoked(folder, issued, pair, now_s, why);
}

/* ---- a new one ---- */

static int
write_pair(const char *folder, const struct certificate_pair *pair, char *why)
{
	struct certificate_text certificate = { 0 }, key = { 0 };
	int rc = certificate_text_add(&certificate, pair->certificate, why);

	if (rc == 0)
		rc = certificate_text_add_key(&key, pair->private_key, why);
	if (rc == 0)
		rc = ca_write(folder, CA_CERTIFICATE_NAME, certificate.text, certificate.bytes,
		    CA_PUBLIC_MODE, why);
	if (rc == 0)
		rc = ca_write(folder, CA_KEY_NAME, key.text, key.bytes, CA_SECRET_MODE, why);
	certificate_text_fini(&certificate);
	certificate_text_fini(&key);
	return rc;
}

/* All of it, in the folder @folder, which nobody else has. */
static int
init_in(const char *folder, uint64_t cluster_id, uint64_t days, uint64_t now_s, char *why)
{
	const struct issued issued = { .cluster_id = cluster_id };
	char name[64], serial[ISSUED_SERIAL_TEXT_BYTES];
	const struct certificate_wish wish = { .subject = name,
		.from_s = now_s - num_min(now_s, CA_EARLY_S),
		.until_s = now_s + days * CA_DAY_S };
	struct certificate_pair pair;
	int rc;

	(void)snprintf(name, sizeof(name), "Cleave cluster %016" PRIx64, cluster_id);
	rc = certificate_serial(serial, why);
	if (rc == 0)
		rc = certificate_make(&wish, serial, NULL, &pair, why);
	if (rc != 0)
		return rc;
	rc = write_lists(folder, &issued, &pair, now_s, why);
	if (rc == 0)
		rc = write_pair(folder, &pair, why);
	certificate_pair_fini(&pair);
	return rc;
}

static void
forget(const char *folder)
{
	static const char *const names[] = { CA_ISSUED_NAME, CA_REVOKED_NAME, CA_CERTIFICATE_NAME,
		CA_KEY_NAME };
	char path[PATH_MAX];

	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		if (ca_file(folder, names[i], path) == 0)
			(void)unlink(path); /* it may not have come so far */
	}
	(void)rmdir(folder);
}

int
ca_init(const char *path, uint64_t cluster_id, uint64_t days, uint64_t now_s, char *why)
{
	char beside[PATH_MAX], clean[PATH_MAX];
	size_t bytes = strlen(path);
	int rc;

	assert(cluster_id != 0 && days > 0 && days <= CA_DAYS_MAX);
	while (bytes > 1 && path[bytes - 1] == '/')
		bytes--;
	if (bytes == 0 || bytes + 8 > sizeof(clean))
		return ca_fail(-EINVAL, why, "'%s': a folder is wanted", path);
	(void)snprintf(clean, sizeof(clean), "%.*s", (int)bytes, path);
	if (snprintf(beside, sizeof(beside), "%s.XXXXXX", clean) >= (int)sizeof(beside) ||
	    mkdtemp(beside) == NULL) /* 0700 */
		return ca_fail(-errno, why, "%s: %s", clean, strerror(errno));
	rc = init_in(beside, cluster_id, days, now_s, why);
	if (rc == 0 && rename(beside, clean) != 0)
		rc = errno == ENOTEMPTY || errno == EEXIST
		    ? ca_fail(-EEXIST, why,
			  "%s holds something: an authority is made in a new folder, and never over another one",
			  clean)
		    : ca_fail(-errno, why, "%s: %s", clean, strerror(errno));
	if (rc != 0) {
		forget(beside);
		return rc;
	}
	rc = durable_sync_folder(clean);
	return rc == 0 ? 0 : ca_fail(rc, why, "%s: %s", clean, strerror(-rc));
}

/* ---- one that there is ---- */

static int
check_modes(const struct ca *ca, char *why)
{
	struct stat st;

	if (fstat(ca->fd, &st) != 0)
		return ca_fail(-errno, why, "%s: %s", ca->path, strerror(errno));
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return ca_fail(-EACCES, why,
		    "%s: others than its owner may write in it: chmod 700 it, and see whether the files in it are yours",
		    ca->path);
	if (fstatat(ca->fd, CA_KEY_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return ca_fail(-errno, why, "%s/" CA_KEY_NAME ": %s", ca->path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return ca_fail(-EACCES, why,
		    "%s/" CA_KEY_NAME
		    ": others than its owner may read it: chmod 600 it; who has read it can be everybody: then make a new authority",
		    ca->path);
	return 0;
}

static int
read_pair(struct ca *ca, char *why)
{
	char *certificate = NULL, *key = NULL;
	size_t certificate_bytes = 0, key_bytes = 0;
	char told[CERTIFICATE_WHY_BYTES] = "";
	int rc = durable_read(ca->fd, CA_CERTIFICATE_NAME, CA_TEXT_BYTES_MAX, &certificate,
	    &certificate_bytes);

	if (rc != 0)
		return ca_fail(rc, why, "%s/" CA_CERTIFICATE_NAME ": %s", ca->path, strerror(-rc));
	rc = durable_read(ca->fd, CA_KEY_NAME, CA_TEXT_BYTES_MAX, &key, &key_bytes);
	if (rc != 0)
		(void)ca_fail(rc, why, "%s/" CA_KEY_NAME ": %s", ca->path, strerror(-rc));
	if (rc == 0) {
		rc = certificate_pair_read(certificate, certificate_bytes, key, key_bytes,
		    &ca->pair, told);
		if (rc != 0)
			(void)ca_fail(rc, why, "%s: %.300s", ca->path,
			    rc == -ENOMEM ? "out of memory" : told);
		explicit_bzero(key, key_bytes);
	}
	free(certificate);
	free(key);
	return rc;
}

/* The list and the certificate are of one cluster: its name is in both. */
static int
check_cluster(const struct ca *ca, char *why)
{
	char name[64], wanted[64];
	size_t bytes = sizeof(name);

	(void)snprintf(wanted, sizeof(wanted), "Cleave cluster %016" PRIx64, ca->issued.cluster_id);
	if (gnutls_x509_crt_get_dn_by_oid(ca->pair.certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0,
		name, &bytes) >= 0 &&
	    strcmp(name, wanted) == 0)
		return 0;
	return ca_fail(-EINVAL, why,
	    "%s: " CA_ISSUED_NAME " is of another cluster than " CA_CERTIFICATE_NAME, ca->path);
}

static int
read_issued(struct ca *ca, char *why)
{
	const char *wrong = NULL;
	size_t bytes;
	char *text;
	int rc = durable_read(ca->fd, CA_ISSUED_NAME, DURABLE_BYTES_MAX, &text, &bytes);

	if (rc != 0)
		return ca_fail(rc, why, "%s/" CA_ISSUED_NAME ": %s", ca->path, strerror(-rc));
	rc = issued_decode(text, bytes, &ca->issued, &wrong);
	free(text);
	return rc == 0 ? 0
		       : ca_fail(rc, why, "%s/" CA_ISSUED_NAME ": %s", ca->path,
			     rc == -ENOMEM ? "out of memory" : wrong);
}

static int
open_in(struct ca *ca, char *why)
{
	int rc;

	ca->fd = open(ca->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ca->fd < 0)
		return ca_fail(-errno, why, "%s: %s", ca->path, strerror(errno));
	if (flock(ca->fd, LOCK_EX | LOCK_NB) != 0)
		return ca_fail(errno == EWOULDBLOCK ? -EBUSY : -errno, why, "%s: %s", ca->path,
		    errno == EWOULDBLOCK
			? "another cleave key works in it: try again when it has ended"
			: strerror(errno));
	rc = check_modes(ca, why);
	if (rc == 0)
		rc = read_pair(ca, why);
	if (rc == 0)
		rc = read_issued(ca, why);
	return rc == 0 ? check_cluster(ca, why) : rc;
}

struct ca *
ca_open(const char *path, char *why)
{
	struct ca *ca = alloc_zeroed(ALLOC_CLIENT, 1, sizeof(*ca));
	int rc;

	if (ca == NULL) {
		errno = -ca_fail(-ENOMEM, why, "out of memory");
		return NULL;
	}
	ca->magic = CA_MAGIC;
	ca->fd = -1;
	if (snprintf(ca->path, sizeof(ca->path), "%s", path) >= (int)sizeof(ca->path))
		rc = ca_fail(-ENAMETOOLONG, why, "%s", strerror(ENAMETOOLONG));
	else
		rc = open_in(ca, why);
	if (rc == 0)
		return ca;
	ca_close(ca);
	errno = -rc;
	return NULL;
}

void
ca_close(struct ca *ca)
{
	if (ca == NULL)
		return;
	CHECK_OBJ(ca, CA_MAGIC);
	certificate_pair_fini(&ca->pair);
	issued_fini(&ca->issued);
	if (ca->fd >= 0)
		(void)close(ca->fd); /* and the lock goes */
	ca->magic = 0;
	alloc_free(ALLOC_CLIENT, ca);
}

const struct issued *
ca_issued(const struct ca *ca)
{
	CHECK_OBJ(ca, CA_MAGIC);
	return &ca->issued;
}

/* ---- issuing ---- */

/* When a certificate of @days, 0 as usual, ends. */
static int
end_of(const struct ca *ca, uint64_t days, uint64_t now_s, uint64_t *ret_until_s, char *why)
{
	time_t ends = gnutls_x509_crt_get_expiration_time(ca->pair.certificate);
	uint64_t own_s = ends > 0 ? (uint64_t)ends : 0;
	uint64_t until_s = now_s + (days == 0 ? CA_DAYS_DEFAULT : days) * CA_DAY_S;

	assert(days <= CA_DAYS_MAX);
	if (own_s <= now_s)
		return ca_fail(-EKEYEXPIRED, why,
		    "%s: the authority itself has expired: make a new one", ca->path);
	if (days != 0 && until_s > own_s)
		return ca_fail(-EINVAL, why,
		    "%s: the authority itself expires in %" PRIu64
		    " days: no certificate is longer",
		    ca->path, (own_s - now_s) / CA_DAY_S);
	*ret_until_s = num_min(until_s, own_s);
	return 0;
}

static int
key_text(const struct ca *ca, const struct certificate_pair *pair, struct certificate_text *text,
    char *why)
{
	int rc = certificate_text_add(text, pair->certificate, why);

	if (rc == 0)
		rc = certificate_text_add_key(text, pair->private_key, why);
	return rc == 0 ? certificate_text_add(text, ca->pair.certificate, why) : rc;
}

/* The list first: what nobody knows of nobody can revoke. */
static int
give_out(struct ca *ca, const struct ca_wish *wish, const struct certificate_text *text,
    const struct issued_entry *entry, char *why)
{
	int rc = issued_add(&ca->issued, entry);

	if (rc != 0)
		return ca_fail(rc, why, "%s: %s", ca->path,
		    rc == -ENOSPC ? "it has issued as many as its list holds" : "out of memory");
	rc = write_issued(ca->path, &ca->issued, why);
	if (rc != 0) {
		ca->issued.count--;
		return rc;
	}
	rc = durable_write(wish->out, text->text, text->bytes, CA_SECRET_MODE, wish->replaces);
	if (rc == 0)
		return 0;
	return ca_fail(rc, why, "%s: %s; serial %s is listed, and nobody has its key", wish->out,
	    strerror(-rc), entry->serial);
}

static int
issue(struct ca *ca, const struct ca_wish *wish, const struct certificate_wish *certificate,
    struct issued_entry *ret_entry, char *why)
{
	struct issued_entry entry = { .from_s = certificate->from_s,
		.until_s = certificate->until_s };
	struct certificate_text text = { 0 };
	struct certificate_pair pair;
	int rc = certificate_serial(entry.serial, why);

	(void)snprintf(entry.subject, sizeof(entry.subject), "%s", wish->subject); /* fits */
	if (rc == 0)
		rc = certificate_make(certificate, entry.serial, &ca->pair, &pair, why);
	if (rc != 0)
		return rc;
	rc = key_text(ca, &pair, &text, why);
	if (rc == 0)
		rc = give_out(ca, wish, &text, &entry, why);
	certificate_text_fini(&text);
	certificate_pair_fini(&pair);
	if (rc == 0)
		*ret_entry = entry;
	return rc;
}

/* @wish without its hosts, which @hosts are. */
static int
issue_with(struct ca *ca, const struct ca_wish *wish, const struct hosts *hosts, uint64_t now_s,
    struct issued_entry *ret_entry, char *why)
{
	char uri[SUBJECT_OF_URI_BYTES];
	struct certificate_wish certificate = { .subject = wish->subject,
		.uri = uri,
		.hosts = hosts,
		.from_s = now_s - num_min(now_s, CA_EARLY_S) };
	struct split_subject subject;
	struct stat st;
	int rc;

	(void)ca_fail(0, why, "out of memory");
	if (subject_of(wish->subject, ca->issued.cluster_id, &subject, uri) != 0)
		return ca_fail(-EINVAL, why,
		    "'%.80s' is no subject: gateway/N, node/N, client/NAME, admin/NAME or monitor/NAME; a name has at "
		    "most 63 letters, digits and . _ -",
		    wish->subject);
	certificate.role = subject.role;
	rc = end_of(ca, wish->days, now_s, &certificate.until_s, why);
	if (rc != 0)
		return rc;
	if (!wish->replaces && lstat(wish->out, &st) == 0)
		return ca_fail(-EEXIST, why,
		    "%s is there: another name, or --replace where it may go", wish->out);
	rc = durable_may_write(wish->out); /* else a serial is listed that nobody has the key of */
	return rc == 0 ? issue(ca, wish, &certificate, ret_entry, why)
		       : ca_fail(rc, why, "%s: %s: nothing was issued", wish->out, strerror(-rc));
}

static int
take_hosts(const struct ca_wish *wish, struct hosts *ret, char *why)
{
	int rc = 0;

	*ret = (struct hosts){ .count = 0 };
	for (uint32_t i = 0; rc == 0 && i < wish->host_count; i++) {
		rc = hosts_add(ret, wish->hosts[i]);
		if (rc == -EINVAL)
			(void)ca_fail(rc, why,
			    "--host: '%.253s': a DNS name (gw1.example) or an IP address (10.0.0.1, fd00::1) is wanted",
			    wish->hosts[i]);
		else if (rc != 0)
			(void)ca_fail(rc, why, "--host: a certificate has at most %u", HOSTS_MAX);
	}
	return rc;
}

int
ca_issue(struct ca *ca, const struct ca_wish *wish, uint64_t now_s, struct issued_entry *ret_entry,
    char *why)
{
	struct hosts hosts;
	int rc = take_hosts(wish, &hosts, why);

	CHECK_OBJ(ca, CA_MAGIC);
	return rc == 0 ? issue_with(ca, wish, &hosts, now_s, ret_entry, why) : rc;
}

/*
 * Is it whole, and all of it in a renewed one, too? A certificate is no secret: who asks shows by the private key that the
 * file is its subject's. 0, or a negative errno.
 */
static int
check_whole(const char *path, const struct key_look *look, char *why)
{
	if ((look->problems & (KEY_PROBLEM_NO_KEY | KEY_PROBLEM_OTHER_KEY)) != 0)
		return ca_fail(-ENOKEY, why,
		    "%s: its own private key is not in it, so whose it is cannot be told: nothing was changed. Issue "
		    "%s a new one, and revoke the old one, %s",
		    path, look->subject, look->serial);
	if (look->other_authorities > 0)
		return ca_fail(-ENOTUNIQ, why,
		    "%s: it has another authority, too, which a renewed one would lack: nothing was changed. Issue %s a "
		    "new one with the new authority, and append the other one's " CA_CERTIFICATE_NAME,
		    path, look->subject);
	return 0;
}

/* A file may be anybody's work: hosts are kept of a certificate that this authority has signed, and of no other. */
int
ca_renew(struct ca *ca, const struct ca_wish *wish, uint64_t now_s, struct issued_entry *ret_entry,
    struct issued_entry *ret_old, char *why)
{
	const char *path = wish->out;
	struct ca_wish renewed = *wish;
	const struct issued_entry *old;
	char told[KEY_LOOK_WHY_BYTES];
	struct key_look look;
	struct hosts hosts;
	int rc = take_hosts(wish, &hosts, why);

	CHECK_OBJ(ca, CA_MAGIC);
	if (rc != 0)
		return rc;
	rc = key_look(path, ca->pair.certificate, now_s, &look, told);
	if (rc != 0)
		return ca_fail(rc, why, "%s: %.400s", path, told);
	key_look_compare(&look, &ca->issued);
	old = issued_find(&ca->issued, look.serial);
	if ((look.problems & (KEY_PROBLEM_UNKNOWN | KEY_PROBLEM_WRONG_CA)) != 0 || old == NULL)
		return ca_fail(-ENOENT, why, "%s: %s has not issued it: nothing was changed", path,
		    ca->path);
	if (old->revoked_s != 0)
		return ca_fail(-EKEYREVOKED, why,
		    "%s: it is revoked. Issue a new one where its subject is to have one", path);
	rc = check_whole(path, &look, why);
	if (rc != 0)
		return rc;
	*ret_old = *old;
	renewed.subject = ret_old->subject;
	renewed.replaces = true;
	return issue_with(ca, &renewed, hosts.count > 0 ? &hosts : &look.hosts, now_s, ret_entry,
	    why);
}

/* ---- revoking ---- */

int
ca_revoke(struct ca *ca, const char *what, uint64_t now_s, uint32_t *ret_count, char *why)
{
	CHECK_OBJ(ca, CA_MAGIC);
	if (issued_revoke(&ca->issued, what, now_s, ret_count) == 0)
		return ca_fail(-ENOENT, why,
		    "%s has issued nothing that is called '%.80s' and valid: see cleave key list",
		    ca->path, what);
	/* A higher number says that the list has more. */
	ca->issued.crl_number += *ret_count > 0;
	return write_lists(ca->path, &ca->issued, &ca->pair, now_s, why);
}

struct adoption {
	struct ca *ca;
	uint64_t now_s;
	uint32_t count;
};

static int
adopt_serial(const char *serial, void *arg)
{
	struct adoption *adoption = arg;
	int rc = issued_adopt(&adoption->ca->issued, serial,
	    adoption->now_s + CA_DAYS_MAX * CA_DAY_S, adoption->now_s);

	adoption->count += rc > 0;
	return rc < 0 ? rc : 0;
}

int
ca_adopt(struct ca *ca, const char *text, size_t bytes, uint64_t now_s, uint32_t *ret_count,
    char *why)
{
	struct adoption adoption = { .ca = ca, .now_s = now_s };
	uint64_t number;
	int rc;

	CHECK_OBJ(ca, CA_MAGIC);
	(void)ca_fail(0, why, "out of memory");
	rc = certificate_crl_read(text, bytes, ca->pair.certificate, adopt_serial, &adoption,
	    &number, why);
	if (rc != 0)
		return rc;
	if (adoption.count > 0 || number > ca->issued.crl_number)
		ca->issued.crl_number = num_max(number, ca->issued.crl_number) + 1;
	*ret_count = adoption.count;
	return write_lists(ca->path, &ca->issued, &ca->pair, now_s, why);
}
