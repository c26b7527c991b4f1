/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.c -- keeps host code out of device memory (I1)
 *
 * Two mechanisms behind one pair of calls. A protection key belongs to a thread: entering changes
 * one register, and the memory stays shut for everyone else. Page protection belongs to the process:
 * entering opens every arena for all threads, so a stray access is only caught while nobody is
 * inside; with one thread that is exact.
 *
 * guard_arenas and the page protections are changed under guard_lock. The nesting depth is the
 * thread's own. The mode is set once and read relaxed: memory is registered before it is entered,
 * by whoever hands it to other threads.
 */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"

#define GUARD_ARENAS_MAX 256
#define GUARD_TEXT_BYTES 128

struct guard_arena {
	void *memory;
	size_t bytes;
};

static pthread_once_t guard_once = PTHREAD_ONCE_INIT;
static enum guard_mode guard_mode_now; /* GUARD_OFF until guard_choose has run */
static char guard_text[GUARD_TEXT_BYTES] = "off: not initialised";
static int guard_pkey = -1;

static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;
static struct guard_arena guard_arenas[GUARD_ARENAS_MAX]; /* mprotect mode; guard_lock */
static uint32_t guard_arena_count;                        /* guard_lock */
static uint32_t guard_inside_count;                       /* threads inside; guard_lock */

static _Thread_local uint32_t guard_depth;

static enum guard_mode
guard_mode_load(void)
{
	return __atomic_load_n(&guard_mode_now, __ATOMIC_RELAXED);
}

static void
guard_choose_off(const char *why)
{
	assert(guard_mode_load() == GUARD_OFF);
	(void)snprintf(guard_text, sizeof(guard_text), "off: %s", why);
}

static void
guard_choose_pkey(void)
{
	int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);

	assert(guard_pkey < 0); /* once a process */
	if (key < 0) {
		char why[GUARD_TEXT_BYTES - sizeof("off: ")];

		(void)snprintf(why, sizeof(why), "pkey_alloc: %s", strerrordesc_np(errno));
		guard_choose_off(why);
		return;
	}
	guard_pkey = key;
	(void)snprintf(guard_text, sizeof(guard_text), "pkey");
	__atomic_store_n(&guard_mode_now, GUARD_PKEY, __ATOMIC_RELAXED);
}

static void
guard_choose(void)
{
	const char *wanted = getenv("CLEAVE_GUARD");

	assert(guard_mode_load() == GUARD_OFF && guard_pkey < 0);
	if (wanted == NULL) {
#ifdef CLEAVE_TEST_BUILD
		wanted = "pkey";
#else
		guard_choose_off("not a test build");
		return;
#endif
	}
	if (strcmp(wanted, "pkey") == 0) {
		guard_choose_pkey();
	} else if (strcmp(wanted, "mprotect") == 0) {
		(void)snprintf(guard_text, sizeof(guard_text), "mprotect");
		__atomic_store_n(&guard_mode_now, GUARD_MPROTECT, __ATOMIC_RELAXED);
	} else if (strcmp(wanted, "off") == 0) {
		guard_choose_off("asked for by CLEAVE_GUARD");
	} else {
		guard_choose_off("CLEAVE_GUARD is none of pkey, mprotect, off");
	}
}

enum guard_mode
guard_init(void)
{
	(void)pthread_once(&guard_once, guard_choose); /* fails only for a bad control block */
	return guard_mode_load();
}

const char *
guard_mode_text(void)
{
	(void)guard_init();
	assert(guard_text[0] != '\0');
	return guard_text;
}

static int
guard_protect_arena(const struct guard_arena *arena, int protection)
{
	assert(guard_mode_load() == GUARD_MPROTECT);
	return mprotect(arena->memory, arena->bytes, protection) == 0 ? 0 : -errno;
}

static int
guard_add_arena(void *memory, size_t bytes)
{
	struct guard_arena arena = { .memory = memory, .bytes = bytes };
	int rc = 0;

	assert(guard_mode_load() == GUARD_MPROTECT);
	(void)pthread_mutex_lock(&guard_lock);
	if (guard_arena_count == GUARD_ARENAS_MAX)
		rc = -ENOBUFS;
	else if (guard_inside_count == 0)
		rc = guard_protect_arena(&arena, PROT_NONE);
	if (rc == 0)
		guard_arenas[guard_arena_count++] = arena;
	(void)pthread_mutex_unlock(&guard_lock);
	return rc;
}

static void
guard_remove_arena(void *memory, size_t bytes)
{
	uint32_t i = 0;

	assert(guard_mode_load() == GUARD_MPROTECT);
	(void)pthread_mutex_lock(&guard_lock);
	while (i < guard_arena_count &&
	    (guard_arenas[i].memory != memory || guard_arenas[i].bytes != bytes))
		i++;
	assert(i < guard_arena_count); /* removed as it was added, once */
	/* The range was mapped when it was added: giving access back cannot fail. */
	(void)guard_protect_arena(&guard_arenas[i], PROT_READ | PROT_WRITE);
	guard_arenas[i] = guard_arenas[--guard_arena_count];
	(void)pthread_mutex_unlock(&guard_lock);
}

int
guard_add(void *memory, size_t bytes)
{
	assert(memory != NULL);
	assert(bytes > 0);
	switch (guard_init()) {
	case GUARD_OFF:
		return 0;
	case GUARD_PKEY:
		if (pkey_mprotect(memory, bytes, PROT_READ | PROT_WRITE, guard_pkey) != 0)
			return -errno;
		return 0;
	case GUARD_MPROTECT:
		return guard_add_arena(memory, bytes);
	}
	return -EINVAL;
}

void
guard_remove(void *memory, size_t bytes)
{
	assert(memory != NULL);
	assert(bytes > 0);
	switch (guard_mode_load()) {
	case GUARD_OFF:
		break;
	case GUARD_PKEY:
		/* Key 0 is everybody's; the range was mapped when it was added. */
		(void)pkey_mprotect(memory, bytes, PROT_READ | PROT_WRITE, 0);
		break;
	case GUARD_MPROTECT:
		guard_remove_arena(memory, bytes);
		break;
	}
}

/* A thread goes in or out: the first in opens all arenas, the last out shuts them. */
static void
guard_cross(bool is_entering)
{
	int protection = is_entering ? PROT_READ | PROT_WRITE : PROT_NONE;

	(void)pthread_mutex_lock(&guard_lock);
	assert(guard_arena_count <= GUARD_ARENAS_MAX);
	assert(is_entering || guard_inside_count > 0);
	if (!is_entering)
		guard_inside_count--;
	if (guard_inside_count == 0)
		for (uint32_t i = 0; i < guard_arena_count; i++) {
			int rc = guard_protect_arena(&guard_arenas[i], protection);

			assert(rc == 0); /* an arena was unmapped before guard_remove */
		}
	if (is_entering)
		guard_inside_count++;
	(void)pthread_mutex_unlock(&guard_lock);
}

void
guard_enter(void)
{
	assert(guard_depth < UINT32_MAX);
	if (guard_depth++ > 0)
		return;
	/* Chosen here at the latest, so that the leave acts in the mode of its enter. */
	switch (guard_init()) {
	case GUARD_OFF:
		break;
	case GUARD_PKEY:
		(void)pkey_set(guard_pkey, 0);
		break;
	case GUARD_MPROTECT:
		guard_cross(true);
		break;
	}
}

void
guard_leave(void)
{
	assert(guard_depth > 0);
	if (--guard_depth > 0)
		return;
	switch (guard_mode_load()) {
	case GUARD_OFF:
		break;
	case GUARD_PKEY:
		(void)pkey_set(guard_pkey, PKEY_DISABLE_ACCESS);
		break;
	case GUARD_MPROTECT:
		guard_cross(false);
		break;
	}
}
