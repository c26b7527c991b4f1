/* SPDX-License-Identifier: Apache-2.0 */
/* command_key_show.c -- cleave key show, list: see command_key.h */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command_key.h"
#include "keys/ca.h"
#include "keys/key_look.h"
#include "table.h"

/* ---- a file ---- */

static const char *
text_of(const struct key_look *look, unsigned at)
{
	return 1u << at == KEY_PROBLEM_REFUSED ? look->refusal : key_problem_text(at);
}

static json_t *
problems_json(const struct key_look *look)
{
	json_t *problems = json_array();

	for (unsigned i = 0; i < KEY_PROBLEM_NR; i++) {
		if ((look->problems & 1u << i) != 0 &&
		    json_array_append_new(problems,
			json_pack("{s:s, s:s}", "code", key_problem_code(i), "text",
			    text_of(look, i))) != 0) {
			json_decref(problems);
			return NULL;
		}
	}
	return problems;
}

static json_t *
hosts_json(const struct hosts *hosts)
{
	json_t *names = json_array();

	for (unsigned i = 0; i < hosts->count; i++) {
		if (json_array_append_new(names, json_string(hosts->names[i])) != 0) {
			json_decref(names);
			return NULL;
		}
	}
	return names;
}

static int
show_json(struct command_session *session, const struct key_look *look, uint64_t now_s)
{
	char from[TABLE_NUMBER_BYTES], until[TABLE_NUMBER_BYTES], id[TABLE_NUMBER_BYTES];
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:s, s:s, s:o}",
	    "file", session->options->file, "subject", look->subject, "cluster",
	    table_format_id(look->cluster_id, id), "serial", look->serial, "from",
	    table_format_date(look->from_s, from), "until", table_format_date(look->until_s, until),
	    "days_left", (json_int_t)command_key_days(look->until_s, now_s), "hosts",
	    hosts_json(&look->hosts), "issuer", look->issuer, "fingerprint", look->fingerprint,
	    "problems", problems_json(look));
	int rc = object == NULL ? -ENOMEM : command_print_json(object, session->out);

	json_decref(object);
	return rc;
}

static int
show_table(struct command_session *session, const struct key_look *look, uint64_t now_s)
{
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char date[TABLE_NUMBER_BYTES], id[TABLE_NUMBER_BYTES];
	int rc;

	table_add(table, "subject");
	table_add(table, "%s", look->subject[0] != '\0' ? look->subject : "-");
	table_add(table, "cluster");
	table_add(table, "%s", table_format_id(look->cluster_id, id));
	table_add(table, "serial");
	table_add(table, "%s", look->serial);
	table_add(table, "from");
	table_add(table, "%s", table_format_date(look->from_s, date));
	table_add(table, "until");
	table_add(table, "%s, %" PRIu64 " days left", table_format_date(look->until_s, date),
	    command_key_days(look->until_s, now_s));
	for (unsigned i = 0; i < look->hosts.count; i++) {
		table_add(table, "host");
		table_add(table, "%s", look->hosts.names[i]);
	}
	table_add(table, "issuer");
	table_add(table, "%s", look->issuer);
	table_add(table, "fingerprint");
	table_add(table, "%s", look->fingerprint);
	for (unsigned i = 0; i < KEY_PROBLEM_NR; i++) {
		if ((look->problems & 1u << i) == 0)
			continue;
		table_add(table, "WRONG");
		table_add(table, "%s", text_of(look, i));
	}
	rc = table_print(table, 0, session->out);
	table_destroy(table);
	return rc;
}

/* Where an authority is named, its list is asked, too. */
static int
compare(struct command_session *session, struct key_look *look)
{
	struct ca *ca;
	int rc = 0;

	if (session->options->ca == NULL)
		return 0;
	ca = command_key_open(session, &rc);
	if (ca == NULL)
		return rc;
	key_look_compare(look, ca_issued(ca));
	ca_close(ca);
	return 0;
}

int
command_key_show(struct command_session *session)
{
	const char *path = session->options->file;
	uint64_t now_s = command_key_now_s();
	char why[KEY_LOOK_WHY_BYTES] = "";
	struct key_look look;
	int rc;

	command_key_guard();
	rc = key_look(path, NULL, now_s, &look, why);
	if (rc != 0)
		return command_fail(session, rc, "%s: %.400s", path, why);
	rc = compare(session, &look);
	if (rc != 0)
		return rc;
	rc = session->options->is_json ? show_json(session, &look, now_s)
				       : show_table(session, &look, now_s);
	/* A key that ends soon works still. */
	if (rc == 0 && (look.problems & ~(unsigned)KEY_PROBLEM_SOON) != 0)
		session->exit_status = COMMAND_EXIT_FAILURE;
	return rc;
}

/* ---- all that were issued ---- */

static int
list_json(struct command_session *session, const struct issued *issued, uint64_t now_s)
{
	json_t *list = json_array(), *object;
	char id[TABLE_NUMBER_BYTES];
	int rc = list == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; rc == 0 && i < issued->count; i++) {
		if (json_array_append_new(list, command_key_json(&issued->entries[i], now_s)) != 0)
			rc = -ENOMEM;
	}
	object = rc != 0 ? NULL
			 : json_pack("{s:s, s:O}", "cluster",
			       table_format_id(issued->cluster_id, id), "issued", list);
	if (object != NULL)
		rc = command_print_json(object, session->out);
	else
		rc = -ENOMEM;
	json_decref(object);
	json_decref(list);
	return rc;
}

static int
list_table(struct command_session *session, const struct issued *issued, uint64_t now_s)
{
	static const struct table_column columns[] = { { "SUBJECT", false }, { "SERIAL", false },
		{ "FROM", false }, { "UNTIL", false }, { "DAYS", true }, { "STATE", false } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char date[TABLE_NUMBER_BYTES];
	int rc;

	for (uint32_t i = 0; i < issued->count; i++) {
		const struct issued_entry *entry = &issued->entries[i];

		table_add(table, "%s", entry->subject);
		table_add(table, "%s", entry->serial);
		table_add(table, "%s", table_format_date(entry->from_s, date));
		table_add(table, "%s", table_format_date(entry->until_s, date));
		table_add(table, "%" PRIu64, command_key_days(entry->until_s, now_s));
		table_add(table, "%s", issued_state(entry, now_s));
	}
	rc = table_print(table, 0, session->out);
	table_destroy(table);
	return rc;
}

int
command_key_list(struct command_session *session)
{
	uint64_t now_s = command_key_now_s();
	int rc = 0;
	struct ca *ca = command_key_open(session, &rc);

	if (ca == NULL)
		return rc;
	rc = session->options->is_json ? list_json(session, ca_issued(ca), now_s)
				       : list_table(session, ca_issued(ca), now_s);
	ca_close(ca);
	return rc;
}
