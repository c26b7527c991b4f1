/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h -- a resolver that a test tells what to say, and that waits when the test wants it to
 *
 * lookup_set names the addresses of a name; any other one does not exist. A name that begins with "held" is
 * answered when lookup_release is called, on its thread.
 */
#ifndef CLEAVE_TESTS_LOOKUP_H
#define CLEAVE_TESTS_LOOKUP_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#include "base/resolve.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const char *const *addresses;
	uint32_t address_count;
	uint32_t asked_count, answered_count; /* calls of the resolver */
	bool is_released;
} lookup_table = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static inline void
lookup_take(const char *text, struct sockaddr_storage *ret_address)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (strchr(text, ':') != NULL) {
		(void)inet_pton(AF_INET6, text, &v6.sin6_addr);
		memcpy(ret_address, &v6, sizeof(v6));
		return;
	}
	(void)inet_pton(AF_INET, text, &v4.sin_addr);
	memcpy(ret_address, &v4, sizeof(v4));
}

static inline void
lookup_fake(const char *name, struct resolve_answer *ret_answer)
{
	pthread_mutex_lock(&lookup_table.lock);
	lookup_table.asked_count++;
	pthread_cond_broadcast(&lookup_table.changed);
	while (strncmp(name, "held", 4) == 0 && !lookup_table.is_released)
		pthread_cond_wait(&lookup_table.changed, &lookup_table.lock);
	ret_answer->count = lookup_table.address_count;
	for (uint32_t i = 0; i < lookup_table.address_count; i++)
		lookup_take(lookup_table.addresses[i], &ret_answer->addresses[i]);
	if (ret_answer->count == 0)
		ret_answer->rc = EAI_NONAME;
	lookup_table.answered_count++;
	pthread_cond_broadcast(&lookup_table.changed);
	pthread_mutex_unlock(&lookup_table.lock);
}

static inline void
lookup_set(const char *const *addresses, uint32_t count)
{
	pthread_mutex_lock(&lookup_table.lock);
	lookup_table.addresses = addresses;
	lookup_table.address_count = count;
	pthread_mutex_unlock(&lookup_table.lock);
	resolve_replace(lookup_fake);
}

static inline void
lookup_wait(const uint32_t *count, uint32_t wanted)
{
	pthread_mutex_lock(&lookup_table.lock);
	while (*count < wanted)
		pthread_cond_wait(&lookup_table.changed, &lookup_table.lock);
	pthread_mutex_unlock(&lookup_table.lock);
}

/* Until the resolver was called so often. */
static inline void
lookup_wait_asked(uint32_t wanted)
{
	lookup_wait(&lookup_table.asked_count, wanted);
}

static inline void
lookup_release(void)
{
	pthread_mutex_lock(&lookup_table.lock);
	lookup_table.is_released = true;
	pthread_cond_broadcast(&lookup_table.changed);
	pthread_mutex_unlock(&lookup_table.lock);
}

/* All that was asked has been answered: no thread looks at this any more. */
static inline void
lookup_drain(void)
{
	lookup_release();
	lookup_wait(&lookup_table.answered_count, lookup_table.asked_count);
}

#endif /* CLEAVE_TESTS_LOOKUP_H */
