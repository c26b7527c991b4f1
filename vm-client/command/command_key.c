/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_key.c -- cleave key init, issue, renew, revoke, adopt, kek: see command_key.h
 *
 * A private key is made here, goes into its file, and is nowhere else: not on the command line, not in what is printed.
 */
#include "command_key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"
#include "base/durable.h"
#include "command_ask.h"
#include "keys/ca.h"
#include "keys/kek.h"
#include "keys/subject_of.h"
#include "table.h"

#define PUBLISH_BYTES_MAX 15360u /* of a list: with an escape a line a request has room for it */

uint64_t
command_key_now_s(void)
{
	/* tidy: allow call: certificates have dates, which a loop does not know */
	return (uint64_t)time(NULL);
}

void
command_key_guard(void)
{
	const struct rlimit none = { 0, 0 };

	/* Where either is forbidden, the other one holds; neither is worth the command. */
#ifndef __SANITIZE_ADDRESS__ /* it looks for leaks as a debugger does */
	(void)prctl(PR_SET_DUMPABLE, 0);
#endif
	(void)setrlimit(RLIMIT_CORE, &none);
}

uint64_t
command_key_days(uint64_t until_s, uint64_t now_s)
{
	return until_s > now_s ? (until_s - now_s) / CA_DAY_S : 0;
}

static const char *
folder_of(const struct command_options *options)
{
	const char *folder = options->ca != NULL ? options->ca : getenv("CLEAVE_CA");

	return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

static int
refuse_no_folder(struct command_session *session)
{
	return command_fail(session, -EINVAL,
	    "--ca DIR is required, or $CLEAVE_CA: the folder of the cluster's authority");
}

struct ca *
command_key_open(struct command_session *session, int *ret_rc)
{
	const char *folder = folder_of(session->options);
	char why[CA_WHY_BYTES] = "";
	struct ca *ca;

	command_key_guard();
	if (folder == NULL) {
		*ret_rc = refuse_no_folder(session);
		return NULL;
	}
	ca = ca_open(folder, why);
	if (ca == NULL)
		*ret_rc = command_fail(session, -errno, "%s", why);
	return ca;
}

json_t *
command_key_json(const struct issued_entry *entry, uint64_t now_s)
{
	char from[TABLE_NUMBER_BYTES], until[TABLE_NUMBER_BYTES];

	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s}", "subject", entry->subject, "serial",
	    entry->serial, "from", table_format_date(entry->from_s, from), "until",
	    table_format_date(entry->until_s, until), "days_left",
	    (json_int_t)command_key_days(entry->until_s, now_s), "state",
	    issued_state(entry, now_s));
}

static int
print_object(struct command_session *session, json_t *object)
{
	int rc = object == NULL ? -ENOMEM : command_print_json(object, session->out);

	json_decref(object);
	return rc;
}

int
command_key_init(struct command_session *session)
{
	const struct command_options *options = session->options;
	const char *folder = folder_of(options);
	uint64_t cluster_id, days = options->days == 0 ? CA_OWN_DAYS_DEFAULT : options->days;
	char why[CA_WHY_BYTES] = "", id[TABLE_NUMBER_BYTES];
	int rc;

	if (folder == NULL)
		return refuse_no_folder(session);
	if (options->cluster_id == NULL)
		return command_fail(session, -EINVAL,
		    "--cluster-id HEX is required: the cluster's id, as its gateways and nodes have it");
	if (subject_of_cluster(options->cluster_id, &cluster_id) != 0)
		return command_fail(session, -EINVAL,
		    "--cluster-id: '%s': 1 to 16 hex digits are wanted, and not 0",
		    options->cluster_id);
	command_key_guard();
	rc = ca_init(folder, cluster_id, days, command_key_now_s(), why);
	if (rc != 0)
		return command_fail(session, rc, "%s", why);
	table_format_id(cluster_id, id);
	if (options->is_json)
		return print_object(session,
		    json_pack("{s:s, s:s, s:I}", "ca", folder, "cluster", id, "days_left",
			(json_int_t)days));
	fprintf(session->out,
	    "%s is the authority of cluster %s for %" PRIu64 " days.\n"
	    "Whoever reads " CA_KEY_NAME
	    " in it can be any gateway, node, client or admin. Keep the folder off the cluster's\n"
	    "hosts, encrypted, with a copy in a safe. Where it is lost, the cluster runs on until its keys expire, and none\n"
	    "can be made or revoked: then a new authority is made, and every key anew.\n",
	    folder, id, days);
	return 0;
}

static int
print_issued(struct command_session *session, const struct issued_entry *entry, const char *file,
    const struct issued_entry *old)
{
	uint64_t now_s = command_key_now_s();
	char until[TABLE_NUMBER_BYTES];

	if (session->options->is_json) {
		json_t *object = command_key_json(entry, now_s);

		if (object != NULL &&
		    (json_object_set_new(object, "file", json_string(file)) != 0 ||
			(old != NULL &&
			    json_object_set_new(object, "replaces", json_string(old->serial)) !=
				0))) {
			json_decref(object);
			object = NULL;
		}
		return print_object(session, object);
	}
	fprintf(session->out, "%s is the key of %s, serial %s, until %s (%" PRIu64 " days)\n", file,
	    entry->subject, entry->serial, table_format_date(entry->until_s, until),
	    command_key_days(entry->until_s, now_s));
	if (old != NULL)
		fprintf(session->out,
		    "The one before, serial %s, is valid until %s: revoke it where somebody may have a copy.\n",
		    old->serial, table_format_date(old->until_s, until));
	return 0;
}

int
command_key_issue(struct command_session *session)
{
	const struct command_options *options = session->options;
	const struct ca_wish wish = { .subject = options->name,
		.out = options->out,
		.hosts = options->hosts.items,
		.host_count = options->hosts.count,
		.days = options->days,
		.replaces = options->must_replace };
	char why[CA_WHY_BYTES] = "";
	struct issued_entry entry;
	struct ca *ca;
	int rc = 0;

	if (options->out == NULL)
		return command_fail(session, -EINVAL,
		    "--out FILE is required: where the key goes, which is printed nowhere");
	ca = command_key_open(session, &rc);
	if (ca == NULL)
		return rc;
	rc = ca_issue(ca, &wish, command_key_now_s(), &entry, why);
	ca_close(ca);
	if (rc != 0)
		return command_fail(session, rc, "%s", why);
	return print_issued(session, &entry, options->out, NULL);
}

int
command_key_renew(struct command_session *session)
{
	const struct command_options *options = session->options;
	const struct ca_wish wish = { .out = options->file,
		.hosts = options->hosts.items,
		.host_count = options->hosts.count,
		.days = options->days };
	struct issued_entry entry, old;
	char why[CA_WHY_BYTES] = "";
	int rc = 0;
	struct ca *ca = command_key_open(session, &rc);

	if (ca == NULL)
		return rc;
	rc = ca_renew(ca, &wish, command_key_now_s(), &entry, &old, why);
	ca_close(ca);
	if (rc != 0)
		return command_fail(session, rc, "%s", why);
	return print_issued(session, &entry, options->file, &old);
}

/* The list of the authority's folder has changed: @count keys by what was named, which is told under @key in JSON. */
static int
say_list(struct command_session *session, const char *key, const char *named, uint32_t count,
    const char *how)
{
	char file[PATH_MAX];

	assert(key != NULL && named != NULL);
	(void)snprintf(file, sizeof(file), "%s/" CA_REVOKED_NAME, folder_of(session->options));
	if (session->options->is_json)
		return print_object(session,
		    json_pack("{s:s, s:I, s:s}", key, named, "count", (json_int_t)count, "file",
			file));
	fprintf(session->out,
	    "%s: %" PRIu32
	    " revoked%s; %s lists all that are: cleave key publish gives it to the cluster\n",
	    named, count, how, file);
	return 0;
}

int
command_key_revoke(struct command_session *session)
{
	const struct command_options *options = session->options;
	char why[CA_WHY_BYTES] = "";
	uint32_t count = 0;
	int rc = 0;
	struct ca *ca = command_key_open(session, &rc);

	if (ca == NULL)
		return rc;
	rc = ca_revoke(ca, options->name, command_key_now_s(), &count, why);
	ca_close(ca);
	if (rc != 0)
		return command_fail(session, rc, "%s", why);
	return say_list(session, "revoked", options->name, count,
	    count == 0 ? ", it was before" : "");
}

/* durable_read's error, in words. */
static const char *
why_unread(int rc)
{
	return rc == -EINVAL ? "it is no regular file" : strerror(-rc);
}

int
command_key_adopt(struct command_session *session)
{
	const struct command_options *options = session->options;
	char why[CA_WHY_BYTES] = "", *text = NULL;
	uint32_t count = 0;
	size_t bytes = 0;
	struct ca *ca;
	int rc = durable_read(AT_FDCWD, options->file, SPLIT_REVOKED_BYTES_MAX, &text, &bytes);

	if (rc != 0)
		return command_fail(session, rc, "%s: %s", options->file, why_unread(rc));
	ca = command_key_open(session, &rc);
	if (ca != NULL)
		rc = ca_adopt(ca, text, bytes, command_key_now_s(), &count, why);
	free(text);
	if (ca == NULL)
		return rc;
	ca_close(ca);
	if (rc != 0)
		return command_fail(session, rc, "%s: %s", options->file, why);
	return say_list(session, "adopted", options->file, count, " here, too");
}

int
command_key_kek(struct command_session *session)
{
	const struct command_options *options = session->options;
	char why[KEK_WHY_BYTES];
	int rc;

	command_key_guard();
	rc = kek_make(options->file, why);
	if (rc != 0)
		return command_fail(session, rc, "%s", why);
	if (options->is_json)
		return print_object(session, json_pack("{s:s}", "file", options->file));
	fprintf(session->out,
	    "%s is a KEK: give it to all gateways of the cluster (--kek file:%s), with a copy in a safe. Whoever has it\n"
	    "and a disk reads encrypted volumes; without it nobody does, and no recovery helps.\n",
	    options->file, options->file);
	return 0;
}

int
command_key_publish(struct command_session *session)
{
	const struct command_options *options = session->options;
	char told[sizeof(session->error)], *text = NULL;
	json_t *reply = NULL, *request;
	size_t bytes = 0;
	int rc = durable_read(AT_FDCWD, options->file, PUBLISH_BYTES_MAX, &text, &bytes);

	if (rc == -EFBIG)
		return command_fail(session, rc,
		    "%s: longer than %u bytes, some 300 keys that were revoked and have not expired: make a new "
		    "authority (SECURITY.md)",
		    options->file, PUBLISH_BYTES_MAX);
	if (rc != 0)
		return command_fail(session, rc, "%s: %s", options->file, why_unread(rc));
	/* A file of bytes that are no text is no list. */
	request = strlen(text) == bytes
	    ? json_pack("{s:s, s:s}", "op", "key.publish", "lists", text)
	    : NULL;
	free(text);
	if (request == NULL)
		return command_fail(session, -EINVAL, "%s: it is no list of revoked keys (PEM)",
		    options->file);
	if (options->is_forced && json_object_set_new(request, "force", json_true()) != 0) {
		json_decref(request);
		return command_fail(session, -ENOMEM, "out of memory");
	}
	rc = command_ask(session, request, true, &reply);
	/* The gateway has seen bytes, and no name. */
	if (rc == -EINVAL || rc == -EKEYREJECTED || rc == -ESTALE) {
		(void)snprintf(told, sizeof(told), "%s", session->error);
		(void)command_fail(session, rc, "%.200s: %s", options->file, told);
	}
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: %s\n", options->file,
		    json_is_true(json_object_get(reply, "changed"))
			? "the cluster has it; connections of those on it are closed"
			: "the cluster has had it already");
	json_decref(reply);
	return rc;
}
