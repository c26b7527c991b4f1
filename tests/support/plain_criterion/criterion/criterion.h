/* SPDX-License-Identifier: Apache-2.0 */
/*
 * criterion.h -- what our tests use of Criterion, without its arena
 *
 * Criterion maps its arena where the thread sanitizer allows no memory, so under that sanitizer the
 * tests are built on this: one fork a test, the same macros, far fewer comforts.
 */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_SKIPPED 77

struct plain_options {
	void (*init)(void);
	void (*fini)(void);
	int signal; /* that must end the test */
	int exit_code;
	double timeout;
	bool disabled;
	const char *description;
};

struct plain_test {
	struct plain_test *next;
	const char *suite, *name;
	void (*fn)(void); /* NULL: the options of a suite */
	struct plain_options options;
};

void plain_register(struct plain_test *test);
void plain_fail(const char *file, int line, const char *expression) __attribute__((noreturn));
void plain_skip(void) __attribute__((noreturn));

#define Test(suite_, name_, ...)                                                                   \
	static void suite_##_##name_##_body(void);                                                 \
	static struct plain_test suite_##_##name_##_test = { .suite = #suite_,                     \
		.name = #name_,                                                                    \
		.fn = suite_##_##name_##_body,                                                     \
		.options = { __VA_ARGS__ } };                                                      \
	__attribute__((constructor)) static void suite_##_##name_##_register(void)                 \
	{                                                                                          \
		plain_register(&suite_##_##name_##_test);                                          \
	}                                                                                          \
	static void suite_##_##name_##_body(void)

#define TestSuite(suite_, ...)                                                                     \
	static struct plain_test suite_##_suite = { .suite = #suite_,                              \
		.options = { __VA_ARGS__ } };                                                      \
	__attribute__((constructor)) static void suite_##_suite_register(void)                     \
	{                                                                                          \
		plain_register(&suite_##_suite);                                                   \
	}                                                                                          \
	struct plain_test

/* Messages are for people who see the real thing; here the place is enough. */
#define plain_assert(condition)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			plain_fail(__FILE__, __LINE__, #condition);                                \
	} while (0)

#define cr_assert(condition, ...) plain_assert(condition)
#define cr_assert_not(condition, ...) plain_assert(!(condition))
#define cr_assert_eq(a, b, ...) plain_assert((a) == (b))
#define cr_assert_neq(a, b, ...) plain_assert((a) != (b))
#define cr_assert_lt(a, b, ...) plain_assert((a) < (b))
#define cr_assert_leq(a, b, ...) plain_assert((a) <= (b))
#define cr_assert_gt(a, b, ...) plain_assert((a) > (b))
#define cr_assert_geq(a, b, ...) plain_assert((a) >= (b))
#define cr_assert_null(a, ...) plain_assert((a) == NULL)
#define cr_assert_not_null(a, ...) plain_assert((a) != NULL)
#define cr_assert_str_eq(a, b, ...) plain_assert(strcmp((a), (b)) == 0)
#define cr_assert_str_neq(a, b, ...) plain_assert(strcmp((a), (b)) != 0)
#define cr_assert_arr_eq(a, b, bytes, ...) plain_assert(memcmp((a), (b), (bytes)) == 0)
#define cr_assert_arr_neq(a, b, bytes, ...) plain_assert(memcmp((a), (b), (bytes)) != 0)
#define cr_assert_fail(...) plain_fail(__FILE__, __LINE__, "cr_assert_fail")
#define cr_expect(condition, ...) plain_assert(condition)
#define cr_expect_eq(a, b, ...) plain_assert((a) == (b))
#define cr_skip_test(...) plain_skip()
#define cr_skip(...) plain_skip()
#define cr_log_info(...) ((void)0)
#define cr_log_warn(...) ((void)0)

#endif /* PLAIN_CRITERION_H */
