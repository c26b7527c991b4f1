/* SPDX-License-Identifier: Apache-2.0 */
/* command_volume.c -- cleave volume create, list, show, delete, rename */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_unfinished.h"
#include "table.h"

void
command_create_options(const struct command_options *options,
    struct cleave_volume_options *ret_options)
{
	assert(options->service_class < SERVICE_CLASS_NR && options->replicas <= UINT32_MAX);
	assert(options->name != NULL && options->size_bytes % CLEAVE_BLOCK_BYTES == 0);
	assert(options->name != NULL && options->size_bytes > 0);
	/* The choices stand as enum cleave_service_class has them. */
	_Static_assert(CLEAVE_SERVICE_STANDARD == 0 && CLEAVE_SERVICE_CAPACITY == 2, "choices");
	*ret_options = (struct cleave_volume_options){
		.name = options->name,
		.size_bytes = options->size_bytes,
		.service_class = (enum cleave_service_class)options->service_class,
		.engine = options->engine == 0 ? NULL : command_engines[options->engine],
		.has_level = options->level_text != NULL,
		.level = options->level,
		.replicas = (uint32_t)options->replicas,
		.is_encrypted = options->is_encrypted,
		.kek = options->kek,
	};
}

/* Printing. */

static const char *
class_name(const struct cleave_volume_entry *volume)
{
	assert((unsigned)volume->info.service_class < SERVICE_CLASS_NR);
	return command_service_classes[volume->info.service_class];
}

bool
command_is_writer_silent(const struct cleave_volume_entry *volume, const json_t *told,
    bool is_whole)
{
	const json_t *count = json_object_get(told, "session_count");

	return volume->has_writer && is_whole && json_is_integer(count) &&
	    json_integer_value(count) == 0;
}

/* The writer that the volume's key names: that stays, of one that died without a word, until another one opens it. */
static void
print_writer(struct table *table, const struct cleave_volume_entry *volume, const json_t *usage)
{
	bool is_whole = command_u64(usage, "shard_count") == command_u64(usage, "shard_total");
	char when[TABLE_NUMBER_BYTES];

	table_add(table, "writer");
	if (!volume->has_writer)
		table_add(table, "-");
	else
		table_add(table, "%s at %s, since %s%s", volume->writer.client,
		    volume->writer.address, table_format_date(volume->writer.since_s, when),
		    command_is_writer_silent(volume, usage, is_whole)
			? ": silent, no gateway has a session of it"
			: "");
}

int
command_print_volume(const struct cleave_volume_entry *volume, const char *reads,
    const json_t *usage, FILE *out)
{
	assert(volume != NULL && out != NULL);
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	const struct cleave_volume_info *info = &volume->info;
	const struct {
		const char *title;
		uint64_t value;
	} counts[] = { { "replicas", info->replicas }, { "id", info->id },
		{ "segment_base", info->segment_base }, { "segment_count", info->segment_count },
		{ "attach", info->attach } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char size[TABLE_NUMBER_BYTES], limits[COMMAND_LIMITS_TEXT_BYTES];
	int rc;

	assert(volume != NULL);
	table_add(table, "name");
	table_add(table, "%s", info->name);
	table_add(table, "size");
	table_add(table, "%s (%" PRIu64 " bytes)", table_format_size(info->size_bytes, size),
	    info->size_bytes);
	table_add(table, "service class");
	table_add(table, "%s", class_name(volume));
	table_add(table, "engine");
	table_add(table, "%s, level %d", info->engine, info->level);
	for (size_t i = 0; i < NUM_COUNT(counts); i++) {
		table_add(table, "%s", counts[i].title);
		table_add(table, "%" PRIu64, counts[i].value);
	}
	table_add(table, "encrypted");
	if (volume->key_id == 0)
		table_add(table, "no");
	else
		table_add(table, "with key %" PRIu32, volume->key_id);
	table_add(table, "limits");
	command_limits_text(&info->limits, limits, sizeof(limits));
	table_add(table, "%s", limits);
	table_add(table, "reads");
	table_add(table, "%s", reads);
	print_writer(table, volume, usage);
	if (usage != NULL)
		command_print_usage(table, usage, info->size_bytes);
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* A line of the list: the volume, and the object that it was read from, which tells more. */
struct volume_line {
	const struct cleave_volume_entry *volume;
	const json_t *told;
	bool is_whole;
};

static const struct cleave_volume_entry *
line_volume(const void *entry)
{
	const struct volume_line *line = entry;

	return line->volume;
}

/* A member that is a text; @none: it is absent. */
static const char *
line_text(const void *entry, const char *member, const char *none)
{
	const struct volume_line *line = entry;
	const char *text = json_string_value(json_object_get(line->told, member));

	return text == NULL ? none : text;
}

/* A member that is a number; "?" where no gateway tells it. */
static void
line_number(struct table *table, const void *entry, const char *member, bool is_bytes)
{
	const struct volume_line *line = entry;
	const json_t *value = json_object_get(line->told, member);
	char text[TABLE_NUMBER_BYTES];

	if (!json_is_integer(value))
		table_add(table, "?");
	else if (is_bytes)
		table_add(table, "%s", table_format_size(command_u64(line->told, member), text));
	else
		table_add(table, "%" PRIu64, command_u64(line->told, member));
}

static void
cell_name(struct table *table, const void *entry)
{
	table_add(table, "%s", line_volume(entry)->info.name);
}

static void
cell_size(struct table *table, const void *entry)
{
	char text[TABLE_NUMBER_BYTES];

	table_add(table, "%s", table_format_size(line_volume(entry)->info.size_bytes, text));
}

static void
cell_stored(struct table *table, const void *entry)
{
	line_number(table, entry, "stored_bytes", true);
}

static void
cell_snapshots(struct table *table, const void *entry)
{
	line_number(table, entry, "snapshot_count", false);
}

static void
cell_sessions(struct table *table, const void *entry)
{
	line_number(table, entry, "session_count", false);
}

static void
cell_class(struct table *table, const void *entry)
{
	table_add(table, "%s", class_name(line_volume(entry)));
}

static void
cell_engine(struct table *table, const void *entry)
{
	table_add(table, "%s", line_volume(entry)->info.engine);
}

static void
cell_replicas(struct table *table, const void *entry)
{
	table_add(table, "%" PRIu32, line_volume(entry)->info.replicas);
}

static void
cell_id(struct table *table, const void *entry)
{
	table_add(table, "%" PRIu64, line_volume(entry)->info.id);
}

static void
cell_writer(struct table *table, const void *entry)
{
	const struct volume_line *line = entry;
	const struct cleave_volume_entry *volume = line_volume(entry);

	table_add(table, "%s%s", volume->has_writer ? volume->writer.client : "-",
	    command_is_writer_silent(volume, line->told, line->is_whole) ? ", silent" : "");
}

static void
cell_origin(struct table *table, const void *entry)
{
	table_add(table, "%s",
	    line_text(entry, "origin_name", line_volume(entry)->origin == 0 ? "-" : "?"));
}

static void
cell_limits(struct table *table, const void *entry)
{
	char text[COMMAND_LIMITS_TEXT_BYTES];

	command_limits_text(&line_volume(entry)->info.limits, text, sizeof(text));
	table_add(table, "%s", text);
}

int
command_print_volumes(const struct cleave_volume_entry *volumes, uint32_t count, const json_t *told,
    bool is_whole, FILE *out)
{
	static const struct table_field fields[] = {
		TABLE_FIELD_OF("NAME", false, cell_name),
		TABLE_FIELD_OF("SIZE", true, cell_size),
		TABLE_FIELD_OF("STORED", true, cell_stored),
		TABLE_FIELD_OF("SNAPSHOTS", true, cell_snapshots),
		TABLE_FIELD_OF("SESSIONS", true, cell_sessions),
		TABLE_FIELD_OF("CLASS", false, cell_class),
		TABLE_FIELD_OF("ENGINE", false, cell_engine),
		TABLE_FIELD_OF("REPLICAS", true, cell_replicas),
		TABLE_FIELD_OF("ID", true, cell_id),
		TABLE_FIELD_OF("WRITER", false, cell_writer),
		TABLE_FIELD_OF("ORIGIN", false, cell_origin),
		TABLE_FIELD_OF("LIMITS", false, cell_limits),
	};
	struct volume_line *lines = calloc(num_max(count, 1), sizeof(*lines));
	int rc;

	assert(out != NULL);
	assert(volumes != NULL || count == 0);
	if (lines == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		lines[i] = (struct volume_line){ &volumes[i], json_array_get(told, i), is_whole };
	rc = table_print_list(fields, NUM_COUNT(fields), count == 0 ? NULL : lines, count,
	    sizeof(*lines), out);
	free(lines);
	return rc;
}

/* Commands. */

int
command_volume_create(struct command_session *session)
{
	struct command_question question;
	struct cleave_volume_options options;
	int rc;

	assert(session->options->name != NULL);
	command_create_options(session->options, &options);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_create(session->client, &question.ask, &options, command_on_volume,
		&question));
	if (rc == 0)
		rc = session->options->is_json
		    ? command_print_json(question.reply, session->out)
		    : command_print_volume(question.entries, "gateway", NULL, session->out);
	command_question_fini(&question);
	return rc;
}

/* 0 and volume @name in @question, which command_question_fini ends in any case. */
static int
ask_volume(struct command_session *session, const char *name, struct command_question *question)
{
	assert(name != NULL);
	command_question_init(question, session);
	return command_wait(question,
	    cleave_volume_show(session->client, &question->ask, name, command_on_volume, question));
}

/* Prints the volume in @shown. Its snapshots, with what each holds, go into @shown's reply, for --json. */
static int
show_volume(struct command_session *session, struct command_question *shown,
    struct command_question *snapshots, json_t *usage)
{
	json_t *list = json_object_get(snapshots->reply, "snapshots"), *snapshot;
	char reads[COMMAND_READS_TEXT_BYTES];
	size_t i;
	int rc;

	json_array_foreach(list, i, snapshot) command_put_between(snapshot, usage);
	if (json_object_set(shown->reply, "usage", usage) != 0 ||
	    json_object_set(shown->reply, "snapshots", list) != 0)
		return -ENOMEM;
	if (session->options->is_json)
		return command_print_json(shown->reply, session->out);
	rc = command_reads_text(session, shown->entries, reads, sizeof(reads));
	if (rc == 0)
		rc = command_print_volume(shown->entries, reads, usage, session->out);
	return rc != 0 ? rc
		       : command_print_hanging(shown->reply, snapshots->entries, snapshots->count,
			     usage, session->out);
}

int
command_volume_show(struct command_session *session)
{
	struct command_question question, snapshots;
	const char *name = session->options->name;
	json_t *usage = NULL;
	int rc;

	assert(name != NULL);
	if (strchr(name, '@') != NULL)
		return command_snapshot_show(session);
	rc = ask_volume(session, name, &question);
	command_question_init(&snapshots, session);
	if (rc == 0)
		rc = command_usage(session, name, &usage);
	if (rc == 0)
		rc = command_ask_snapshots(&snapshots);
	if (rc == 0)
		rc = show_volume(session, &question, &snapshots, usage);
	json_decref(usage);
	command_question_fini(&snapshots);
	command_question_fini(&question);
	return rc;
}

static int
ask_info(struct command_session *session, const char *name, struct cleave_volume_info *ret_info)
{
	struct command_question question;
	const struct cleave_volume_entry *volume;
	int rc = ask_volume(session, name, &question);

	assert(ret_info != NULL);
	volume = question.entries;
	assert(rc != 0 || question.count == 1);
	if (rc == 0)
		*ret_info = volume->info;
	command_question_fini(&question);
	return rc;
}

int
command_volume_size(struct command_session *session, const char *name, uint64_t *ret_size_bytes,
    uint64_t *ret_id)
{
	struct cleave_volume_info info;
	int rc = ask_info(session, name, &info);

	if (rc != 0)
		return rc;
	*ret_size_bytes = info.size_bytes;
	*ret_id = info.id;
	return 0;
}

int
command_find_volume(struct command_session *session, struct cleave_volume_info *ret_info)
{
	assert(session->options->name != NULL);
	/* A name that is too long stays so: it is refused. */
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 2];
	const char *given = session->options->name;

	(void)snprintf(name, sizeof(name), "%.*s",
	    (int)num_min(strcspn(given, "@"), sizeof(name) - 1), given);
	return ask_info(session, name, ret_info);
}

/* @trash: where it is now; NULL: it is gone, on purpose or in a cluster of level 1. */
static void
print_deleted(const struct command_session *session, const json_t *trash)
{
	const char *name = session->options->name;
	char time[TABLE_NUMBER_BYTES];

	if (trash == NULL)
		fprintf(session->out, "volume '%s': deleted\n", name);
	else
		fprintf(session->out,
		    "volume '%s': in the trash for %s, as id %" PRIu64
		    ": cleave trash restore brings it back, cleave trash purge frees its room\n",
		    name, table_format_time(NUM_S(command_u64(trash, "keep_s")), time),
		    command_u64(trash, "id"));
}

int
command_volume_delete(struct command_session *session)
{
	const struct command_options *options = session->options;
	unsigned flags = (options->is_forced ? CLEAVE_MANAGE_FORCE : 0u) |
	    (options->has_snapshots ? CLEAVE_MANAGE_SNAPSHOTS : 0u) |
	    (options->is_purge ? CLEAVE_MANAGE_PURGE : 0u);
	const struct cleave_delete_options how = { .name = options->name,
		.flags = flags,
		.keep_s = options->keep_ns / NUM_S(1) };
	struct command_question question;
	int rc;

	assert(options->name != NULL);
	if (options->is_purge && options->keep_ns != 0)
		return command_fail(session, -EINVAL,
		    "--keep or --purge: a volume that is purged is not kept");
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_delete_as(session->client, &question.ask, &how, command_on_done,
		&question));
	if (rc == 0 && options->is_json)
		rc = command_print_json(question.reply, session->out);
	else if (rc == 0)
		print_deleted(session, json_object_get(question.reply, "trash"));
	command_question_fini(&question);
	return rc;
}

static int
list_start(struct command_question *question)
{
	const struct cleave_volume_entry *volumes = question->entries;

	assert(question->session->client != NULL);
	assert(question->entries != NULL || question->count == 0);
	return cleave_volume_list(question->session->client, &question->ask,
	    question->count == 0 ? NULL : volumes[question->count - 1].info.name,
	    command_on_volumes, question);
}

int
command_ask_volumes(struct command_question *question)
{
	return command_wait_pages(question, "volumes", list_start);
}

int
command_volume_list(struct command_session *session)
{
	struct command_question question;
	json_t *volumes;
	bool is_whole = true;
	int rc;

	assert(session->client != NULL && session->out != NULL);
	command_question_init(&question, session);
	rc = command_ask_volumes(&question);
	volumes = json_object_get(question.reply, "volumes");
	if (rc == 0)
		rc = command_put_use(session, volumes, &is_whole);
	if (rc == 0 &&
	    (json_object_set_new(question.reply, "more", json_false()) != 0 ||
		json_object_set_new(question.reply, "whole", json_boolean(is_whole)) != 0))
		rc = -ENOMEM;
	if (rc == 0 && session->options->is_json)
		rc = command_print_json(question.reply, session->out);
	else if (rc == 0)
		rc = command_print_volumes(question.entries, question.count, volumes, is_whole,
		    session->out);
	if (rc == 0 && !session->options->is_json && !is_whole)
		fputs("not all shards answer: STORED and SESSIONS are at least that\n",
		    session->out);
	if (rc == 0 && !session->options->is_json)
		command_print_unfinished(question.entries, question.count, volumes, is_whole,
		    session->out);
	command_question_fini(&question);
	return rc;
}

int
command_volume_rename(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;

	assert(options->name != NULL && options->new_name != NULL);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_volume_rename(session->client, &question.ask, options->name,
		    options->new_name, command_on_volume, &question)),
	    "renamed");
}
