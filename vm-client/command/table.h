/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h -- aligned columns of text, and numbers that people read
 */
#ifndef CLEAVE_TABLE_H
#define CLEAVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16u
#define TABLE_ROWS_MAX 1000000u
#define TABLE_NUMBER_BYTES 48u

struct table_column {
	const char *title; /* NULL in the first column: no line of titles */
	bool is_right;     /* aligned, as numbers are */
};

struct table;

/* table_create -- @columns (borrowed): 1..TABLE_COLUMNS_MAX. NULL: out of memory. */
struct table *table_create(const struct table_column *columns, uint32_t column_count);
/* NULL is a no-op. */
void table_destroy(struct table *table);
/*
 * table_add -- the next cell, row by row from the left
 *
 * Does not fail: table_print tells when memory or TABLE_ROWS_MAX did not suffice. @table may be NULL.
 */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* table_print -- columns two spaces apart, @indent spaces before each line. 0 or -ENOMEM. */
int table_print(const struct table *table, uint32_t indent, FILE *out);

/* A column of a list: a member of each entry, in a format. */
enum table_format {
	TABLE_TEXT,  /* char[] */
	TABLE_INT,   /* int */
	TABLE_U32,   /* uint32_t */
	TABLE_U64,   /* uint64_t */
	TABLE_BYTES, /* uint64_t: table_format_size */
	TABLE_CELL,  /* as cell says */
};
struct table_field {
	const char *title;
	enum table_format format;
	size_t offset; /* of the member */
	bool is_right; /* TABLE_CELL: aligned as numbers are, which they are without it */
	void (*cell)(struct table *table, const void *entry); /* TABLE_CELL: adds one cell */
};
#define TABLE_FIELD(title, format, type, member)                                                   \
	{                                                                                          \
		title, format, offsetof(type, member), false, NULL                                 \
	}
/* A column of more than one member: @cell prints it. */
#define TABLE_FIELD_OF(title, is_right, cell)                                                      \
	{                                                                                          \
		title, TABLE_CELL, 0, is_right, cell                                               \
	}
/*
 * table_print_list -- a line of titles, and a line for each of @count entries of @entry_bytes
 *
 * @fields: 1..TABLE_COLUMNS_MAX. Returns 0 or -ENOMEM.
 */
int table_print_list(const struct table_field *fields, uint32_t field_count, const void *entries,
    uint32_t count, size_t entry_bytes, FILE *out);

/* table_format_size -- "0 B", "512 B", "4 KiB", "1.50 GiB"; two digits where it is not even. */
const char *table_format_size(uint64_t bytes, char ret_text[TABLE_NUMBER_BYTES]);
/* table_format_ratio -- "2.13", "-" where @below is 0. */
const char *table_format_ratio(uint64_t above, uint64_t below, char ret_text[TABLE_NUMBER_BYTES]);
/* table_format_id -- 16 hex digits, as gateways and clusters are named. */
const char *table_format_id(uint64_t id, char ret_text[TABLE_NUMBER_BYTES]);
/* table_format_date -- @since_s seconds after 1970: "2026-01-31T23:59:59Z"; "" when that is no date. */
const char *table_format_date(uint64_t since_s, char ret_text[TABLE_NUMBER_BYTES]);
/* table_format_time -- "42s", "3m 05s", "2h 00m 07s", "12d 03h 00m 07s". */
const char *table_format_time(uint64_t ns, char ret_text[TABLE_NUMBER_BYTES]);

#endif /* CLEAVE_TABLE_H */
