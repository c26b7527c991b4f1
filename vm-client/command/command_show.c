/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_show.c -- what hangs on a volume: its origin, snapshots, clones, sessions; and one snapshot, `volume show V@S`
 *
 * Snapshots cut what a volume holds into parts: what was written between two of them, and is still stored, is the
 * later one's. Deleting that snapshot frees of its part what was written over before the next snapshot, or since: the
 * gateway tells a bound for it (middletier/port/usage_walk.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define SHOW_CLONES_MAX 8u /* by name, in a table; --json has more */

void
command_put_between(json_t *snapshot, const json_t *usage)
{
	static const char *const members[] = { "stored_bytes", "freed_bytes_max" };
	const json_t *part;
	size_t i;

	json_array_foreach(json_object_get(usage, "snapshots"), i, part)
	{
		if (!json_equal(json_object_get(part, "number"),
			json_object_get(snapshot, "number")))
			continue;
		for (size_t k = 0; k < NUM_COUNT(members); k++)
			json_object_set(snapshot, members[k], json_object_get(part, members[k]));
	}
}

/* ---- tables ---- */

static const json_t *
part_of(const json_t *usage, uint64_t number)
{
	const json_t *part;
	size_t i;

	json_array_foreach(json_object_get(usage, "snapshots"), i, part)
	{
		if (command_u64(part, "number") == number)
			return part;
	}
	return NULL;
}

static void
add_bytes(struct table *table, const json_t *part, const char *member)
{
	char text[TABLE_NUMBER_BYTES];

	table_add(table, "%s",
	    part == NULL ? "?" : table_format_size(command_u64(part, member), text));
}

static void
add_freed(struct table *table, const json_t *part, uint64_t clone_count)
{
	char text[TABLE_NUMBER_BYTES];

	if (clone_count > 0)
		table_add(table, "not while it has clones");
	else if (part == NULL)
		table_add(table, "?");
	else if (command_u64(part, "freed_bytes_max") == 0)
		table_add(table, "nothing");
	else
		table_add(table, "at most %s",
		    table_format_size(command_u64(part, "freed_bytes_max"), text));
}

static int
print_snapshots(const struct cleave_snapshot *snapshots, uint32_t count, const json_t *usage,
    FILE *out)
{
	static const struct table_column columns[] = { { "SNAPSHOT", false }, { "TAKEN", false },
		{ "SIZE", true }, { "STORED", true }, { "CLONES", true },
		{ "DELETING FREES", false } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	uint64_t stored = command_u64(usage, "layer_bytes") + command_u64(usage, "run_bytes");
	char text[TABLE_NUMBER_BYTES];
	int rc;

	assert(count > 0);
	for (uint32_t i = 0; i < count; i++) {
		const struct cleave_snapshot *snapshot = &snapshots[i];
		const json_t *part = part_of(usage, snapshot->number);
		const char *at = strchr(snapshot->name, '@');

		table_add(table, "%s", at == NULL ? snapshot->name : at + 1);
		table_add(table, "%s", table_format_date(snapshot->created_s, text));
		table_add(table, "%s", table_format_size(snapshot->size_bytes, text));
		add_bytes(table, part, "stored_bytes");
		table_add(table, "%" PRIu32, snapshot->clone_count);
		add_freed(table, part, snapshot->clone_count);
		stored -= num_min(stored, command_u64(part, "stored_bytes"));
	}
	table_add(table, "(since)");
	table_add(table, "-");
	table_add(table, "-");
	table_add(table, "%s", table_format_size(stored, text));
	table_add(table, "-");
	table_add(table, "-");
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

static int
print_sessions(const json_t *sessions, FILE *out)
{
	static const struct table_column columns[] = { { "SESSION", false }, { "CLIENT", false },
		{ "FROM", false }, { "ACCESS", false }, { "CONNECTIONS", true } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	const json_t *session;
	size_t i;
	int rc;

	assert(json_array_size(sessions) > 0);
	json_array_foreach(sessions, i, session)
	{
		const char *client = json_string_value(json_object_get(session, "client"));
		const char *snapshot = json_string_value(json_object_get(session, "snapshot"));

		table_add(table, "%s", command_text(session, "session"));
		table_add(table, "%s", client == NULL ? "-" : client);
		table_add(table, "%s", command_text(session, "peer"));
		table_add(table, "%s%s%s", command_text(session, "access"),
		    snapshot == NULL ? "" : " of @", snapshot == NULL ? "" : snapshot);
		table_add(table, "%" PRIu64, command_u64(session, "connections"));
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* "NAME of @SNAPSHOT, NAME of @SNAPSHOT and 12 more" */
static void
print_clones(const json_t *shown, bool is_of_volume, FILE *out)
{
	uint64_t count = command_u64(shown, "clone_count");
	const json_t *clone;
	size_t i;

	assert(count > 0);
	json_array_foreach(json_object_get(shown, "clones"), i, clone)
	{
		if (i == SHOW_CLONES_MAX)
			break;
		fprintf(out, "%s%s", i == 0 ? "" : ", ", command_text(clone, "name"));
		if (is_of_volume)
			fprintf(out, " of @%s", command_text(clone, "snapshot"));
		if (json_is_true(json_object_get(clone, "trash")))
			fputs(" (in the trash)", out);
	}
	if (count > i)
		fprintf(out, " and %" PRIu64 " more", count - i);
	fputc('\n', out);
}

/* Nothing of a volume that is not encrypted. */
static void
print_encryption(const json_t *volume, FILE *out)
{
	uint64_t count = command_u64(volume, "key_count");

	if (!json_is_true(json_object_get(volume, "encrypted")))
		return;
	fprintf(out, "\nencrypted with key %" PRIu64 ", wrapped with KEK %s",
	    command_u64(volume, "key"), command_text(volume, "kek"));
	if (count > 1)
		fprintf(out, "; %" PRIu64 " older keys are retiring", count - 1);
	fputc('\n', out);
}

int
command_print_hanging(const json_t *shown, const struct cleave_snapshot *snapshots, uint32_t count,
    const json_t *usage, FILE *out)
{
	const json_t *sessions = json_object_get(usage, "sessions");
	const char *origin = json_string_value(
	    json_object_get(json_object_get(shown, "volume"), "origin_name"));
	int rc = 0;

	assert(out != NULL && (snapshots != NULL || count == 0));
	if (origin != NULL)
		fprintf(out, "\nclone of %s\n", origin);
	print_encryption(json_object_get(shown, "volume"), out);
	command_print_flattening(json_object_get(json_object_get(shown, "volume"), "flattening"),
	    usage, out);
	if (command_u64(shown, "clone_count") > 0) {
		fputs("\nclones: ", out);
		print_clones(shown, true, out);
	}
	if (count > 0) {
		fputc('\n', out);
		rc = print_snapshots(snapshots, count, usage, out);
	}
	if (rc == 0 && json_array_size(sessions) > 0) {
		fputc('\n', out);
		rc = print_sessions(sessions, out);
	}
	return rc;
}

/* ---- one snapshot ---- */

/* Bytes of the parts of older snapshots: the snapshot shows of them what was not written again. */
static uint64_t
older_bytes(const json_t *usage, uint64_t number)
{
	const json_t *part;
	uint64_t bytes = 0;
	size_t i;

	json_array_foreach(json_object_get(usage, "snapshots"), i, part)
	{
		if (command_u64(part, "number") < number)
			bytes += command_u64(part, "stored_bytes");
	}
	return bytes;
}

static int
print_snapshot(const json_t *shown, const json_t *usage, FILE *out)
{
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	const json_t *snapshot = json_object_get(shown, "snapshot");
	uint64_t number = command_u64(snapshot, "number");
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char text[TABLE_NUMBER_BYTES];
	int rc;

	table_add(table, "name");
	table_add(table, "%s@%s", command_text(snapshot, "volume"), command_text(snapshot, "name"));
	table_add(table, "size");
	table_add(table, "%s", table_format_size(command_u64(snapshot, "size_bytes"), text));
	table_add(table, "taken");
	table_add(table, "%s", table_format_date(command_u64(snapshot, "created_s"), text));
	table_add(table, "number");
	table_add(table, "%" PRIu64, number);
	if (command_u64(snapshot, "group") != 0) {
		table_add(table, "group, of one point in time");
		table_add(table, "%" PRIu64, command_u64(snapshot, "group"));
	}
	table_add(table, "stored since the one before");
	add_bytes(table, part_of(usage, number), "stored_bytes");
	table_add(table, "shared with older snapshots");
	table_add(table, "at most %s", table_format_size(older_bytes(usage, number), text));
	table_add(table, "deleting frees");
	add_freed(table, part_of(usage, number), command_u64(shown, "clone_count"));
	table_add(table, "clones");
	table_add(table, "%" PRIu64, command_u64(shown, "clone_count"));
	rc = table_print(table, 0, out);
	table_destroy(table);
	if (rc == 0 && command_u64(shown, "clone_count") > 0) {
		fputs("\nclones: ", out);
		print_clones(shown, false, out);
	}
	return rc;
}

int
command_snapshot_show(struct command_session *session)
{
	const char *name = session->options->name;
	char volume[CLEAVE_VOLUME_NAME_BYTES_MAX + 2];
	json_t *shown = NULL, *usage = NULL;
	int rc = command_ask(session, json_pack("{s:s, s:s}", "op", "snapshot.show", "name", name),
	    false, &shown);

	assert(strchr(name, '@') != NULL);
	(void)snprintf(volume, sizeof(volume), "%.*s",
	    (int)num_min(strcspn(name, "@"), sizeof(volume) - 1), name);
	if (rc == 0)
		rc = command_usage(session, volume, &usage);
	if (rc == 0)
		command_put_between(json_object_get(shown, "snapshot"), usage);
	if (rc == 0)
		rc = session->options->is_json ? command_print_json(shown, session->out)
					       : print_snapshot(shown, usage, session->out);
	json_decref(usage);
	json_decref(shown);
	return rc;
}
