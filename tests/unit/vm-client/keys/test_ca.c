/* SPDX-License-Identifier: Apache-2.0 */
/* test_ca.c -- an authority: what it issues, what it refuses, what is wrong with a key file; at a time that the test says */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/durable.h"
#include "base/num.h"
#include "cleave/secure.h"
#include "unit/ca_rig.h"
#include "vm-client/keys/ca.h"
#include "vm-client/keys/certificate.h"
#include "vm-client/keys/key_look.h"

static uint32_t
count_files(const char *folder)
{
	DIR *dir = opendir(folder);
	uint32_t count = 0;

	cr_assert_not_null(dir, "%s", folder);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count - 2;
}

static unsigned
problems(struct rig *rig, uint64_t now_s)
{
	int rc = key_look(rig->key, NULL, now_s, &rig->look, rig->why);

	cr_assert_eq(rc, 0, "%s", rig->why);
	return rig->look.problems;
}

static void
compare(struct rig *rig)
{
	struct ca *ca = ca_open(rig->ca, rig->why);

	cr_assert_not_null(ca, "%s", rig->why);
	key_look_compare(&rig->look, ca_issued(ca));
	ca_close(ca);
}

static void
write_text(const struct rig *rig, const char *text, size_t bytes)
{
	cr_assert_eq(durable_write(rig->key, text, bytes, 0600, true), 0);
}

Test(ca, key_that_it_issues_is_one_that_daemons_take)
{
	static const char *const subjects[] = { "gateway/1", "node/3", "client/db-1", "admin/ann",
		"monitor/prometheus" };
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *key;
	struct stat st;
	struct rig rig;

	rig_init(&rig);
	for (size_t i = 0; i < NUM_COUNT(subjects); i++) {
		cr_assert_eq(issue(&rig, subjects[i], 0, NOW, i > 0), 0, "%s", rig.why);
		cr_assert_eq(stat(rig.key, &st), 0);
		cr_assert_eq(st.st_mode & 0777u, 0600u);
		cr_assert_eq(problems(&rig, NOW), 0u, "%x", rig.look.problems);
		cr_assert_str_eq(rig.look.subject, subjects[i]);
		cr_assert_str_eq(rig.look.serial, rig.entry.serial);
		cr_assert_eq(rig.look.cluster_id, CLUSTER);
		cr_assert_eq(rig.look.until_s, NOW + CA_DAYS_DEFAULT * (uint64_t)CA_DAY_S);
		key = split_key_load(rig.key, why);
		cr_assert_not_null(key, "%s", why);
		cr_assert_eq(split_key_subject(key)->cluster_id, CLUSTER);
		split_key_free(key);
		compare(&rig);
		cr_assert_eq(rig.look.problems, 0u);
	}
	rig_fini(&rig);
}

Test(ca, init_changes_nothing_where_something_is)
{
	struct rig rig;
	size_t bytes, after_bytes;
	char *text, *after;

	rig_init(&rig);
	text = read_text(in(rig.ca, CA_KEY_NAME), &bytes);
	cr_assert_eq(ca_init(rig.ca, CLUSTER, 10, NOW, rig.why), -EEXIST);
	cr_assert_not_null(strstr(rig.why, rig.ca), "%s", rig.why);
	after = read_text(in(rig.ca, CA_KEY_NAME), &after_bytes);
	cr_assert(bytes == after_bytes && memcmp(text, after, bytes) == 0);
	/* The key is in a safe: the rest is there still. */
	cr_assert_eq(unlink(in(rig.ca, CA_KEY_NAME)), 0);
	cr_assert_eq(ca_init(rig.ca, CLUSTER, 10, NOW, rig.why), -EEXIST);
	cr_assert_eq(count_files(rig.folder), 1u, "what was begun is left");
	cr_assert_null(ca_open(rig.ca, rig.why));
	cr_assert_not_null(strstr(rig.why, CA_KEY_NAME), "%s", rig.why);
	/* Nowhere to be made. */
	cr_assert_eq(ca_init(in(rig.ca, "no/ca"), CLUSTER, 10, NOW, rig.why), -ENOENT);
	cr_assert_eq(ca_init("", CLUSTER, 10, NOW, rig.why), -EINVAL);
	free(text);
	free(after);
	rig_fini(&rig);
}

Test(ca, what_it_does_not_issue)
{
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "gateway/0", 0, NOW, false), -EINVAL);
	cr_assert_not_null(strstr(rig.why, "gateway/N"), "%s", rig.why);
	cr_assert_eq(issue(&rig, "node/1", 1001, NOW, false), -EINVAL);
	cr_assert_not_null(strstr(rig.why, "in 1000 days"), "%s", rig.why);
	cr_assert_eq(issue(&rig, "node/1", 0, NOW + 1000 * (uint64_t)CA_DAY_S, false),
	    -EKEYEXPIRED);
	cr_assert_eq(count_files(rig.folder), 1u);
	cr_assert_eq(issue(&rig, "node/1", 0, NOW, false), 0);
	cr_assert_eq(issue(&rig, "node/2", 0, NOW, false), -EEXIST);
	cr_assert_not_null(strstr(rig.why, "--replace"), "%s", rig.why);
	/* As long as the authority has, where nobody asked for more. */
	cr_assert_eq(issue(&rig, "node/2", 0, NOW + 990 * (uint64_t)CA_DAY_S, true), 0);
	cr_assert_eq(rig.entry.until_s, NOW + 1000 * (uint64_t)CA_DAY_S);
	/* A request that was refused is in no list. */
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_issued(ca)->count, 2u);
	ca_close(ca);
	rig_fini(&rig);
}

/* How many the list has. */
static uint32_t
listed(struct rig *rig)
{
	struct ca *ca = ca_open(rig->ca, rig->why);
	uint32_t count;

	cr_assert_not_null(ca);
	count = ca_issued(ca)->count;
	ca_close(ca);
	return count;
}

Test(ca, what_has_no_folder_for_its_file_is_not_listed)
{
	struct rig rig;

	rig_init(&rig);
	(void)snprintf(rig.key, PATH_BYTES, "%s/no/key", rig.folder);
	cr_assert_eq(issue(&rig, "node/1", 0, NOW, false), -ENOENT);
	cr_assert_not_null(strstr(rig.why, "nothing was issued"), "%s", rig.why);
	cr_assert_eq(listed(&rig), 0u);
	/* A folder is no file that could be replaced. */
	(void)snprintf(rig.key, PATH_BYTES, "%s", rig.ca);
	cr_assert_eq(issue(&rig, "node/1", 0, NOW, true), -EISDIR);
	cr_assert_eq(listed(&rig), 0u);
	rig_fini(&rig);
}

Test(ca, file_that_fails_behind_that_leaves_its_serial_in_the_list)
{
	char part[PATH_BYTES + 16];
	struct rig rig;

	rig_init(&rig);
	(void)snprintf(rig.key, PATH_BYTES, "%s/key", rig.folder);
	(void)snprintf(part, sizeof(part), "%s/.key.part", rig.folder);
	cr_assert_eq(mkdir(part, 0700), 0);
	cr_assert_eq(issue(&rig, "node/1", 0, NOW, false), -EISDIR);
	cr_assert_not_null(strstr(rig.why, "is listed, and nobody has its key"), "%s", rig.why);
	cr_assert_eq(listed(&rig), 1u);
	rig_fini(&rig);
}

Test(ca, is_opened_by_one_at_a_time_and_by_its_owner_alone)
{
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_not_null(ca);
	cr_assert_null(ca_open(rig.ca, rig.why));
	cr_assert_eq(errno, EBUSY);
	ca_close(ca);
	cr_assert_eq(chmod(in(rig.ca, CA_KEY_NAME), 0640), 0);
	cr_assert_null(ca_open(rig.ca, rig.why));
	cr_assert(errno == EACCES && strstr(rig.why, "chmod 600") != NULL, "%s", rig.why);
	cr_assert_eq(chmod(in(rig.ca, CA_KEY_NAME), 0600), 0);
	cr_assert_eq(chmod(rig.ca, 0770), 0);
	cr_assert_null(ca_open(rig.ca, rig.why));
	cr_assert(errno == EACCES && strstr(rig.why, "chmod 700") != NULL, "%s", rig.why);
	cr_assert_null(ca_open(rig.folder, rig.why));
	cr_assert_null(ca_open(rig.key, rig.why));
	cr_assert_eq(errno, ENOENT);
	ca_close(NULL);
	rig_fini(&rig);
}

/* A file of another authority among its own. */
Test(ca, files_of_two_authorities_are_refused)
{
	static const char *const names[] = { CA_KEY_NAME, CA_CERTIFICATE_NAME, CA_ISSUED_NAME };
	char other[PATH_BYTES];
	struct rig rig;

	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		rig_init(&rig);
		(void)snprintf(other, sizeof(other), "%s/other", rig.folder);
		cr_assert_eq(ca_init(other, CLUSTER + 1, 10, NOW, rig.why), 0);
		char *from = strdup(in(other, names[i]));
		cr_assert_eq(rename(from, in(rig.ca, names[i])), 0);
		free(from);
		cr_assert_null(ca_open(rig.ca, rig.why), "%s", names[i]);
		cr_assert_eq(errno, EINVAL, "%s: %s", names[i], rig.why);
		cr_assert_not_null(strstr(rig.why, rig.ca), "%s", rig.why);
		rig_fini(&rig);
	}
}

Test(ca, renewed_key_has_the_subject_and_another_serial)
{
	char first[ISSUED_SERIAL_TEXT_BYTES];
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "node/7", 10, NOW, false), 0);
	memcpy(first, rig.entry.serial, sizeof(first));
	ca = ca_open(rig.ca, rig.why);
	/* Also after it has expired. */
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = rig.key, .days = 20 },
			 NOW + 11 * (uint64_t)CA_DAY_S, &rig.entry, &rig.old, rig.why),
	    0, "%s", rig.why);
	cr_assert_str_eq(rig.old.serial, first);
	cr_assert_str_neq(rig.entry.serial, first);
	cr_assert_str_eq(rig.entry.subject, "node/7");
	cr_assert_eq(problems(&rig, NOW + 11 * (uint64_t)CA_DAY_S), (unsigned)KEY_PROBLEM_SOON);
	cr_assert_str_eq(rig.look.serial, rig.entry.serial);
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = in(rig.folder, "none") }, NOW,
			 &rig.entry, &rig.old, rig.why),
	    -ENOENT);
	ca_close(ca);
	rig_fini(&rig);
}

Test(ca, key_of_another_authority_and_one_that_is_revoked_are_not_renewed)
{
	struct rig rig, other;
	struct ca *ca;

	rig_init(&rig);
	rig_init(&other);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, false), 0);
	ca = ca_open(other.ca, other.why);
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = rig.key }, NOW, &rig.entry,
			 &rig.old, rig.why),
	    -ENOENT);
	ca_close(ca);
	cr_assert_eq(problems(&rig, NOW), 0u);
	compare(&other);
	key_look_compare(&rig.look, &(const struct issued){ .cluster_id = CLUSTER });
	cr_assert_eq(rig.look.problems, (unsigned)KEY_PROBLEM_UNKNOWN);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_revoke(ca, "node/7", NOW, &(uint32_t){ 0 }, rig.why), 0);
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = rig.key }, NOW, &rig.entry,
			 &rig.old, rig.why),
	    -EKEYREVOKED);
	ca_close(ca);
	cr_assert_eq(problems(&rig, NOW), 0u, "the file itself cannot know");
	compare(&rig);
	cr_assert_eq(rig.look.problems, (unsigned)KEY_PROBLEM_REVOKED);
	rig_fini(&rig);
	rig_fini(&other);
}

static void
check_hosts(struct rig *rig, const char *a, const char *b)
{
	unsigned count = a == NULL ? 0 : b == NULL ? 1 : 2;

	cr_assert_eq(problems(rig, NOW), 0u);
	cr_assert_eq(rig->look.hosts.count, count);
	if (count > 0)
		cr_assert_str_eq(rig->look.hosts.names[0], a);
	if (count > 1)
		cr_assert_str_eq(rig->look.hosts.names[1], b);
}

Test(ca, hosts_of_a_certificate_are_those_that_were_named_and_a_renewed_one_has_them)
{
	static const char *const hosts[] = { "gw1.example", "10.0.0.1", "gw1.example" };
	static const char *const others[] = { "fd00::1" };
	struct ca_wish wish = { .subject = "client/db1", .hosts = hosts, .host_count = 3 };
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	wish.out = rig.key;
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_issue(ca, &wish, NOW, &rig.entry, rig.why), 0, "%s", rig.why);
	check_hosts(&rig, "gw1.example", "10.0.0.1");
	wish = (struct ca_wish){ .out = rig.key };
	cr_assert_eq(ca_renew(ca, &wish, NOW, &rig.entry, &rig.old, rig.why), 0, "%s", rig.why);
	cr_assert_str_eq(rig.look.serial, rig.old.serial);
	check_hosts(&rig, "gw1.example", "10.0.0.1");
	cr_assert_str_eq(rig.look.serial, rig.entry.serial);
	/* Hosts that are named take the place of those before. */
	wish.hosts = others;
	wish.host_count = 1;
	cr_assert_eq(ca_renew(ca, &wish, NOW, &rig.entry, &rig.old, rig.why), 0, "%s", rig.why);
	check_hosts(&rig, "fd00::1", NULL);
	ca_close(ca);
	cr_assert_eq(issue(&rig, "client/db1", 0, NOW, true), 0);
	check_hosts(&rig, NULL, NULL);
	rig_fini(&rig);
}

Test(ca, what_is_no_host_is_refused_and_nothing_is_listed)
{
	static const char *const wrong[] = { "gw1.example", "https://gw1" };
	struct ca_wish wish = { .subject = "gateway/1", .hosts = wrong, .host_count = 2 };
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "gateway/1", 0, NOW, false), 0);
	ca = ca_open(rig.ca, rig.why);
	wish.out = rig.key;
	wish.replaces = true;
	cr_assert_eq(ca_issue(ca, &wish, NOW, &rig.entry, rig.why), -EINVAL);
	cr_assert_not_null(strstr(rig.why, "--host: 'https://gw1'"), "%s", rig.why);
	cr_assert_eq(ca_renew(ca, &wish, NOW, &rig.entry, &rig.old, rig.why), -EINVAL);
	cr_assert_eq(ca_issued(ca)->count, 1u);
	ca_close(ca);
	rig_fini(&rig);
}

/* Whoever has a key file may write into it what he likes: the subject and the serial of the certificate in it, too. */
Test(ca, a_certificate_that_somebody_else_signed_is_not_renewed)
{
	struct certificate_wish wish = { .subject = "another authority", .until_s = NOW * 2 };
	struct certificate_pair authority, forged;
	struct certificate_text text = { 0 };
	struct hosts hosts = { .count = 0 };
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, false), 0);
	cr_assert_eq(certificate_make(&wish, rig.entry.serial, NULL, &authority, rig.why), 0);
	cr_assert_eq(hosts_add(&hosts, "gw1.example"), 0);
	wish.subject = "node/7";
	wish.uri = "cleave://c1ea7e0000000001/node/7";
	wish.role = SPLIT_ROLE_NODE;
	wish.hosts = &hosts;
	cr_assert_eq(certificate_make(&wish, rig.entry.serial, &authority, &forged, rig.why), 0);
	cr_assert_eq(certificate_text_add(&text, forged.certificate, rig.why), 0);
	cr_assert_eq(certificate_text_add_key(&text, forged.private_key, rig.why), 0);
	cr_assert_eq(certificate_text_add(&text, authority.certificate, rig.why), 0);
	write_text(&rig, text.text, text.bytes);
	cr_assert_eq(problems(&rig, NOW), 0u, "by itself it is a key file");
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = rig.key }, NOW, &rig.entry,
			 &rig.old, rig.why),
	    -ENOENT);
	cr_assert_not_null(strstr(rig.why, "has not issued it"), "%s", rig.why);
	/* Without any authority's certificate, too. */
	write_text(&rig, text.text, (size_t)(strstr(text.text, "-----END PRIVATE") - text.text));
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = rig.key }, NOW, &rig.entry,
			 &rig.old, rig.why),
	    -ENOENT);
	cr_assert_eq(ca_issued(ca)->count, 1u);
	ca_close(ca);
	certificate_text_fini(&text);
	certificate_pair_fini(&authority);
	certificate_pair_fini(&forged);
	rig_fini(&rig);
}

static void
check_text(const char *path, const char *text, size_t bytes)
{
	size_t now_bytes;
	char *now = read_text(path, &now_bytes);

	cr_assert(now_bytes == bytes && memcmp(now, text, bytes) == 0, "%s has changed", path);
	free(now);
}

/* The key file is @text: a renewal is refused with @rc, and neither that nor the list has changed. */
static void
check_not_renewed(struct rig *rig, const char *text, size_t bytes, int rc, const char *word)
{
	const struct ca_wish wish = { .out = rig->key };
	struct ca *ca = ca_open(rig->ca, rig->why);
	size_t list_bytes;
	char *list = read_text(in(rig->ca, CA_ISSUED_NAME), &list_bytes);

	cr_assert_not_null(ca, "%s", rig->why);
	write_text(rig, text, bytes);
	cr_assert_eq(ca_renew(ca, &wish, NOW, &rig->entry, &rig->old, rig->why), rc, "%s",
	    rig->why);
	cr_assert(strstr(rig->why, word) != NULL && strstr(rig->why, rig->key) != NULL, "%s",
	    rig->why);
	ca_close(ca);
	check_text(rig->key, text, bytes);
	check_text(in(rig->ca, CA_ISSUED_NAME), list, list_bytes);
	free(list);
}

/* A certificate is shown to whoever connects: a copy of it is nobody's key. */
Test(ca, a_certificate_without_its_private_key_is_not_renewed)
{
	static const char key_begins[] = "-----BEGIN PRIVATE KEY";
	size_t bytes, other_bytes;
	char *text, *other, *at;
	struct rig rig;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "node/8", 0, NOW, false), 0);
	other = read_text(rig.key, &other_bytes);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, true), 0);
	text = read_text(rig.key, &bytes);
	check_not_renewed(&rig, text, (size_t)(strstr(text, key_begins) - text), -ENOKEY,
	    "its own private key is not in it");
	cr_assert_not_null(strstr(rig.why, "node/7"), "%s", rig.why);
	/* The private key of another file, which is behind its certificate. */
	at = strstr(other, key_begins);
	memcpy(strstr(text, key_begins), at, other_bytes - (size_t)(at - other));
	check_not_renewed(&rig, text, bytes, -ENOKEY, "its own private key is not in it");
	free(text);
	free(other);
	rig_fini(&rig);
}

/* @text with the certificate of the authority in @folder behind it, for free. */
static char *
with_authority(const char *text, size_t bytes, const char *folder, size_t *ret_bytes)
{
	size_t ca_bytes;
	char *ca = read_text(in(folder, CA_CERTIFICATE_NAME), &ca_bytes);
	char *both = malloc(bytes + ca_bytes);

	cr_assert_not_null(both);
	memcpy(both, text, bytes);
	memcpy(both + bytes, ca, ca_bytes);
	free(ca);
	*ret_bytes = bytes + ca_bytes;
	return both;
}

/* While one authority replaces another, key files have both: a renewed one would have lost one of them. */
Test(ca, a_key_file_with_another_authority_is_not_renewed)
{
	size_t bytes, both_bytes;
	struct rig rig, other;
	char *text, *both;
	struct ca *ca;

	rig_init(&rig);
	rig_init(&other);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, false), 0);
	text = read_text(rig.key, &bytes);
	both = with_authority(text, bytes, other.ca, &both_bytes);
	check_not_renewed(&rig, both, both_bytes, -ENOTUNIQ, "it has another authority, too");
	free(both);
	/* The same authority twice is one. */
	both = with_authority(text, bytes, rig.ca, &both_bytes);
	write_text(&rig, both, both_bytes);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_renew(ca, &(const struct ca_wish){ .out = rig.key }, NOW, &rig.entry,
			 &rig.old, rig.why),
	    0, "%s", rig.why);
	ca_close(ca);
	cr_assert_eq(problems(&rig, NOW), 0u);
	free(both);
	free(text);
	rig_fini(&rig);
	rig_fini(&other);
}

Test(ca, revoked_by_serial_or_by_subject_and_once)
{
	char first[ISSUED_SERIAL_TEXT_BYTES];
	uint32_t count = 9;
	struct rig rig;
	struct ca *ca;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "client/a", 0, NOW, true), 0);
	memcpy(first, rig.entry.serial, sizeof(first));
	cr_assert_eq(issue(&rig, "client/a", 0, NOW, true), 0);
	cr_assert_eq(issue(&rig, "client/ab", 0, NOW, true), 0);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(ca_revoke(ca, "client/b", NOW, &count, rig.why), -ENOENT);
	cr_assert_eq(ca_revoke(ca, first, NOW, &count, rig.why), 0);
	cr_assert_eq(count, 1u);
	cr_assert_eq(unlink(in(rig.ca, CA_REVOKED_NAME)), 0);
	cr_assert_eq(ca_revoke(ca, first, NOW + 1, &count, rig.why), 0);
	cr_assert_eq(count, 0u);
	cr_assert_eq(access(in(rig.ca, CA_REVOKED_NAME), R_OK), 0, "the list is written anew");
	cr_assert_eq(ca_revoke(ca, "client/a", NOW + 2, &count, rig.why), 0);
	cr_assert_eq(count, 1u);
	ca_close(ca);
	ca = ca_open(rig.ca, rig.why);
	cr_assert_eq(issued_find(ca_issued(ca), first)->revoked_s, NOW, "the first time stays");
	cr_assert_eq(ca_issued(ca)->entries[2].revoked_s, 0u);
	cr_assert_eq(ca_issued(ca)->crl_number, 2u, "counted up where none was revoked");
	ca_close(ca);
	rig_fini(&rig);
}

/* ---- what is wrong with a file ---- */

Test(key_look, each_problem_has_its_name)
{
	const uint64_t end_s = NOW + 100 * (uint64_t)CA_DAY_S;
	struct rig rig;
	size_t bytes, other_bytes;
	char *text, *other, *at;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, false), 0);
	other = read_text(rig.key, &other_bytes);
	cr_assert_eq(issue(&rig, "node/7", 100, NOW, true), 0);
	text = read_text(rig.key, &bytes);
	cr_assert_eq(problems(&rig, NOW - 2 * CA_EARLY_S), (unsigned)KEY_PROBLEM_NOT_YET);
	cr_assert_eq(problems(&rig, end_s + 1), (unsigned)KEY_PROBLEM_EXPIRED);
	cr_assert_eq(problems(&rig, end_s - 29 * CA_DAY_S), (unsigned)KEY_PROBLEM_SOON);
	cr_assert_eq(problems(&rig, end_s - 31 * CA_DAY_S), 0u);
	cr_assert_eq(problems(&rig, NOW + 1001 * (uint64_t)CA_DAY_S),
	    (unsigned)(KEY_PROBLEM_EXPIRED | KEY_PROBLEM_CA_EXPIRED));
	cr_assert_eq(chmod(rig.key, 0644), 0);
	cr_assert_eq(problems(&rig, NOW), (unsigned)KEY_PROBLEM_MODE);
	/* Certificates of one, the private key of another: from the second BEGIN on. */
	at = strstr(other, "-----BEGIN PRIVATE KEY");
	memcpy(strstr(text, "-----BEGIN PRIVATE KEY"), at, other_bytes - (size_t)(at - other));
	write_text(&rig, text, bytes);
	cr_assert_eq(problems(&rig, NOW), (unsigned)KEY_PROBLEM_OTHER_KEY);
	/* The authority is missing. */
	at = strstr(strstr(other, "-----END PRIVATE KEY"), "-----BEGIN CERTIFICATE");
	write_text(&rig, other, (size_t)(at - other));
	cr_assert_eq(problems(&rig, NOW), (unsigned)KEY_PROBLEM_NO_CA);
	/* Nothing but the authority. */
	write_text(&rig, at, strlen(at));
	cr_assert_eq(problems(&rig, NOW),
	    (unsigned)(KEY_PROBLEM_NO_CERTIFICATE | KEY_PROBLEM_NO_KEY));
	free(text);
	free(other);
	rig_fini(&rig);
}

Test(key_look, authority_of_another_cluster_is_wrong)
{
	size_t bytes, ca_bytes;
	char *text, *ca, *at;
	struct rig rig, other;

	rig_init(&rig);
	rig_init(&other);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, false), 0);
	text = read_text(rig.key, &bytes);
	ca = read_text(in(other.ca, CA_CERTIFICATE_NAME), &ca_bytes);
	at = strstr(strstr(text, "-----END PRIVATE KEY"), "-----BEGIN CERTIFICATE");
	cr_assert_eq(ca_bytes, bytes - (size_t)(at - text));
	memcpy(at, ca, ca_bytes);
	write_text(&rig, text, bytes);
	cr_assert_eq(problems(&rig, NOW), (unsigned)KEY_PROBLEM_WRONG_CA);
	free(text);
	free(ca);
	rig_fini(&rig);
	rig_fini(&other);
}

Test(key_look, file_that_ends_too_early_is_never_right)
{
	struct key_look look;
	struct rig rig;
	size_t bytes;
	char *text;

	rig_init(&rig);
	cr_assert_eq(issue(&rig, "node/7", 0, NOW, false), 0);
	text = read_text(rig.key, &bytes);
	for (size_t cut = 40; cut < bytes; cut += 7) { /* within its last line GnuTLS is lenient */
		text[bytes - cut] = '\0';
		cr_assert(key_look_text(text, bytes - cut, NULL, NOW, &look, rig.why) != 0 ||
			(look.problems & ~(unsigned)KEY_PROBLEM_SOON) != 0,
		    "%zu bytes fewer", cut);
	}
	cr_assert_eq(key_look("/dev/null", NULL, NOW, &look, rig.why), -EINVAL);
	cr_assert_eq(key_look(rig.folder, NULL, NOW, &look, rig.why), -EINVAL);
	free(text);
	rig_fini(&rig);
}

Test(ca, nth_allocation_that_fails_is_told_and_leaks_nothing)
{
	uint32_t live = alloc_live_count(ALLOC_CLIENT), failures = 0;
	struct rig rig;
	int rc = -ENOMEM;

	rig_init(&rig);
	for (uint32_t nth = 1; rc != 0; nth++) {
		cr_assert_lt(nth, 50u);
		alloc_fail_at(ALLOC_CLIENT, nth);
		rc = issue(&rig, "node/1", 0, NOW, true);
		cr_assert(rc == 0 || rc == -ENOMEM, "%d %s", rc, rig.why);
		cr_assert_eq(alloc_live_count(ALLOC_CLIENT), live);
		failures += rc != 0;
	}
	alloc_fail_at(ALLOC_CLIENT, 0);
	cr_assert_geq(failures, 5u);
	cr_assert_eq(problems(&rig, NOW), 0u);
	rig_fini(&rig);
}

/* ---- files ---- */

Test(durable, file_is_as_it_was_where_it_cannot_be_written_whole)
{
	const struct rlimit small = { 8192, RLIM_INFINITY };
	char *big = calloc(1, 65536), *text;
	struct rig rig;
	size_t bytes;

	rig_init(&rig);
	cr_assert_eq(durable_write(rig.key, "old", 3, 0600, false), 0);
	cr_assert_eq(durable_write(rig.key, "new", 3, 0600, false), -EEXIST);
	(void)signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0); /* as a full disk */
	cr_assert_eq(durable_write(rig.key, big, 65536, 0600, true), -EFBIG);
	text = read_text(rig.key, &bytes);
	cr_assert(bytes == 3 && memcmp(text, "old", 3) == 0);
	cr_assert_eq(count_files(rig.folder), 2u, "what was begun is left");
	free(text);
	free(big);
	rig_fini(&rig);
}

Test(durable, what_a_killed_process_left_is_in_nobodys_way)
{
	struct rig rig;
	size_t bytes;
	char *text;
	int fd;

	rig_init(&rig);
	fd = open(in(rig.folder, ".key.part"), O_WRONLY | O_CREAT, 0644);
	cr_assert_eq(write(fd, "half", 4), 4);
	close(fd);
	cr_assert_eq(durable_write(rig.key, "whole", 5, 0600, false), 0);
	text = read_text(rig.key, &bytes);
	cr_assert_str_eq(text, "whole");
	cr_assert_eq(count_files(rig.folder), 2u);
	free(text);
	/* A link that lies there is not followed. */
	cr_assert_eq(symlink(rig.key, in(rig.folder, ".other.part")), 0);
	cr_assert_eq(durable_write(in(rig.folder, "other"), "x", 1, 0600, false), 0);
	text = read_text(rig.key, &bytes);
	cr_assert_str_eq(text, "whole");
	free(text);
	rig_fini(&rig);
}
