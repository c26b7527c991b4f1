/* SPDX-License-Identifier: Apache-2.0 */
/* table.c -- see table.h; cells are kept as text until the widths are known */
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/num.h"
#include "base/plain.h"

#define TABLE_CELLS_STEP 64u

struct table {
	const struct table_column *columns;
	uint32_t column_count;
	char **cells; /* row by row */
	uint32_t cell_count, cells_max;
	bool is_incomplete; /* a cell is missing */
};

struct table *
table_create(const struct table_column *columns, uint32_t column_count)
{
	struct table *table = calloc(1, sizeof(*table));

	assert(column_count > 0 && column_count <= TABLE_COLUMNS_MAX);
	if (table == NULL)
		return NULL;
	table->columns = columns;
	table->column_count = column_count;
	return table;
}

void
table_destroy(struct table *table)
{
	if (table == NULL)
		return;
	assert(table->cell_count <= table->cells_max);
	for (uint32_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

static bool
table_grow(struct table *table)
{
	uint32_t cells_max = table->cells_max * 2 + TABLE_CELLS_STEP;
	char **cells;

	assert(table->cell_count <= table->cells_max);
	if (table->cell_count < table->cells_max)
		return true;
	if (table->cell_count / table->column_count >= TABLE_ROWS_MAX)
		return false;
	cells = reallocarray(table->cells, cells_max, sizeof(*cells));
	if (cells == NULL)
		return false;
	table->cells = cells;
	table->cells_max = cells_max;
	return true;
}

void
table_add(struct table *table, const char *format, ...)
{
	va_list args;
	char *text;
	int bytes;

	assert(format != NULL);
	if (table == NULL || table->is_incomplete)
		return;
	if (!table_grow(table)) {
		table->is_incomplete = true;
		return;
	}
	va_start(args, format);
	bytes = vasprintf(&text, format, args);
	va_end(args);
	if (bytes < 0)
		table->is_incomplete = true;
	else
		table->cells[table->cell_count++] = plain_text(text); /* also of others */
}

static void
print_row(const struct table *table, const size_t *widths, const char *const *cells,
    uint32_t indent, FILE *out)
{
	assert(table->column_count > 0 && widths != NULL && cells != NULL);
	assert(!table->is_incomplete);
	fprintf(out, "%*s", (int)indent, "");
	for (uint32_t i = 0; i < table->column_count; i++) {
		bool is_last = i + 1 == table->column_count;
		/* No blanks at a line's end. */
		int width = is_last && !table->columns[i].is_right ? 0 : (int)widths[i];

		fprintf(out, "%*s%s", table->columns[i].is_right ? width : -width, cells[i],
		    is_last ? "\n" : "  ");
	}
}

int
table_print(const struct table *table, uint32_t indent, FILE *out)
{
	size_t widths[TABLE_COLUMNS_MAX] = { 0 };
	const char *titles[TABLE_COLUMNS_MAX];

	assert(out != NULL);
	if (table == NULL || table->is_incomplete)
		return -ENOMEM;
	assert(table->cell_count % table->column_count == 0);
	for (uint32_t i = 0; i < table->column_count; i++) {
		titles[i] = table->columns[i].title == NULL ? "" : table->columns[i].title;
		widths[i] = strlen(titles[i]);
	}
	for (uint32_t i = 0; i < table->cell_count; i++) {
		size_t *width = &widths[i % table->column_count];

		*width = num_max(*width, strlen(table->cells[i]));
	}
	if (table->columns[0].title != NULL)
		print_row(table, widths, titles, indent, out);
	for (uint32_t i = 0; i < table->cell_count; i += table->column_count)
		print_row(table, widths, (const char *const *)&table->cells[i], indent, out);
	return 0;
}

static void
table_add_field(struct table *table, const struct table_field *field, const void *entry)
{
	assert(entry != NULL);
	const char *member = (const char *)entry + field->offset;
	char text[TABLE_NUMBER_BYTES];
	uint64_t wide;
	uint32_t narrow;
	int number;

	assert((field->format == TABLE_CELL) == (field->cell != NULL));
	switch (field->format) {
	case TABLE_TEXT:
		table_add(table, "%s", member);
		break;
	case TABLE_INT:
		memcpy(&number, member, sizeof(number));
		table_add(table, "%d", number);
		break;
	case TABLE_U32:
		memcpy(&narrow, member, sizeof(narrow));
		table_add(table, "%" PRIu32, narrow);
		break;
	case TABLE_U64:
		memcpy(&wide, member, sizeof(wide));
		table_add(table, "%" PRIu64, wide);
		break;
	case TABLE_BYTES:
		memcpy(&wide, member, sizeof(wide));
		table_add(table, "%s", table_format_size(wide, text));
		break;
	case TABLE_CELL:
		field->cell(table, entry);
		break;
	}
}

int
table_print_list(const struct table_field *fields, uint32_t field_count, const void *entries,
    uint32_t count, size_t entry_bytes, FILE *out)
{
	struct table_column columns[TABLE_COLUMNS_MAX];
	struct table *table;
	int rc;

	assert(entry_bytes > 0 && out != NULL);
	assert(field_count > 0 && field_count <= TABLE_COLUMNS_MAX);
	assert((count == 0) == (entries == NULL));
	for (uint32_t i = 0; i < field_count; i++) {
		assert((fields[i].format == TABLE_CELL) == (fields[i].cell != NULL));
		columns[i].title = fields[i].title;
		columns[i].is_right = fields[i].format == TABLE_CELL
		    ? fields[i].is_right
		    : fields[i].format != TABLE_TEXT;
	}
	table = table_create(columns, field_count);
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < field_count; k++)
			table_add_field(table, &fields[k], (const char *)entries + i * entry_bytes);
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

const char *
table_format_size(uint64_t bytes, char ret_text[TABLE_NUMBER_BYTES])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	uint32_t power = 0;
	uint64_t unit = 1, hundredths;

	while (power + 1 < NUM_COUNT(units) && bytes / unit >= 1024) {
		unit <<= 10;
		power++;
	}
	if (bytes % unit == 0) {
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%" PRIu64 " %s", bytes / unit,
		    units[power]);
		return ret_text;
	}
	/* Rounded down: 1023.99 MiB does not become a GiB. The rest is shifted so as to fit. */
	hundredths = unit > NUM_GIB(1) ? (bytes % unit >> 10) * 100 / (unit >> 10)
				       : bytes % unit * 100 / unit;
	assert(hundredths < 100);
	(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%" PRIu64 ".%02" PRIu64 " %s", bytes / unit,
	    hundredths, units[power]);
	return ret_text;
}

const char *
table_format_ratio(uint64_t above, uint64_t below, char ret_text[TABLE_NUMBER_BYTES])
{
	if (below == 0)
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "-");
	else
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%.2f", (double)above / (double)below);
	return ret_text;
}

const char *
table_format_id(uint64_t id, char ret_text[TABLE_NUMBER_BYTES])
{
	(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%016" PRIx64, id);
	return ret_text;
}

const char *
table_format_date(uint64_t since_s, char ret_text[TABLE_NUMBER_BYTES])
{
	time_t since = (time_t)since_s;
	struct tm tm;

	if (gmtime_r(&since, &tm) == NULL ||
	    strftime(ret_text, TABLE_NUMBER_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		ret_text[0] = '\0';
	return ret_text;
}

const char *
table_format_time(uint64_t ns, char ret_text[TABLE_NUMBER_BYTES])
{
	uint64_t s = ns / NUM_S(1), m = s / 60, h = m / 60, d = h / 24;
	unsigned seconds = (unsigned)(s % 60), minutes = (unsigned)(m % 60),
		 hours = (unsigned)(h % 24);

	if (d > 0)
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%" PRIu64 "d %02uh %02um %02us", d,
		    hours, minutes, seconds);
	else if (h > 0)
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%uh %02um %02us", hours, minutes,
		    seconds);
	else if (m > 0)
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%um %02us", minutes, seconds);
	else
		(void)snprintf(ret_text, TABLE_NUMBER_BYTES, "%us", seconds);
	return ret_text;
}
