/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c -- see resolve.h */
#include "base/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/num.h"

struct resolve_call {
	struct errand errand;
	char name[RESOLVE_NAME_BYTES];
	struct resolve_answer answer;
	resolve_fn fn;
	void *arg;
};

static struct resolve_call *
call_of(struct errand *errand)
{
	return NUM_CONTAINER_OF(errand, struct resolve_call, errand);
}

static void
lookup_system(const char *name, struct resolve_answer *ret_answer)
{
	assert(name[0] != '\0' && ret_answer->count == 0);
	/* A stream, or each address would be there once for each kind of socket. */
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *infos = NULL;

	ret_answer->rc = getaddrinfo(name, NULL, &hints, &infos);
	ret_answer->err = errno;
	if (ret_answer->rc != 0)
		return;
	for (const struct addrinfo *info = infos; info != NULL; info = info->ai_next) {
		if (ret_answer->count == RESOLVE_ADDRESSES_MAX)
			break;
		if (info->ai_family != AF_INET && info->ai_family != AF_INET6)
			continue;
		assert(info->ai_addrlen <= sizeof(ret_answer->addresses[0]));
		memcpy(&ret_answer->addresses[ret_answer->count++], info->ai_addr,
		    info->ai_addrlen);
	}
	freeaddrinfo(infos);
	if (ret_answer->count == 0)
		ret_answer->rc = EAI_NONAME;
}

#ifdef CLEAVE_TEST_BUILD
static _Atomic(void (*)(const char *name, struct resolve_answer *ret_answer)) lookup_replaced;

void
resolve_replace(void (*lookup)(const char *name, struct resolve_answer *ret_answer))
{
	atomic_store(&lookup_replaced, lookup);
}

static void
lookup(const char *name, struct resolve_answer *ret_answer)
{
	void (*replaced)(const char *, struct resolve_answer *) = atomic_load(&lookup_replaced);

	(replaced != NULL ? replaced : lookup_system)(name, ret_answer);
}
#else
static void
lookup(const char *name, struct resolve_answer *ret_answer)
{
	lookup_system(name, ret_answer);
}
#endif

static void
call_work(struct errand *errand)
{
	assert(call_of(errand)->answer.count == 0);
	lookup(call_of(errand)->name, &call_of(errand)->answer);
}

static void
call_share(struct errand *errand, const struct errand *finished)
{
	assert(errand != finished && strcmp(errand->key, finished->key) == 0);
	call_of(errand)->answer = call_of((struct errand *)finished)->answer;
}

static void
call_drop(struct errand *errand)
{
	alloc_free(ALLOC_SPLIT, call_of(errand));
}

static void
call_done(struct errand *errand)
{
	struct resolve_call *call = call_of(errand);

	assert(call->fn != NULL && call->answer.count <= RESOLVE_ADDRESSES_MAX);
	call->fn(&call->answer, call->arg);
	call_drop(errand);
}

struct resolve_call *
resolve_start(struct errand_desk *desk, const char *name, resolve_fn fn, void *arg)
{
	struct resolve_call *call = alloc_zeroed(ALLOC_SPLIT, 1, sizeof(*call));
	int rc;

	assert(fn != NULL);
	assert(name[0] != '\0' && strlen(name) < RESOLVE_NAME_BYTES);
	if (call == NULL)
		return NULL;
	(void)snprintf(call->name, sizeof(call->name), "%s", name); /* it fits */
	call->fn = fn;
	call->arg = arg;
	call->errand = (struct errand){ .key = call->name,
		.work = call_work,
		.share = call_share,
		.done = call_done,
		.drop = call_drop };
	rc = errand_start(desk, &call->errand);
	if (rc == 0)
		return call;
	call_drop(&call->errand);
	errno = -rc;
	return NULL;
}

void
resolve_cancel(struct resolve_call *call)
{
	errand_abandon(&call->errand);
}

/* ---- for who waits ---- */

struct resolve_wait {
	struct resolve_answer *answer;
	bool is_done;
};

static void
wait_on_answer(const struct resolve_answer *answer, void *arg)
{
	struct resolve_wait *wait = arg;

	assert(!wait->is_done);
	*wait->answer = *answer;
	wait->is_done = true;
}

static uint64_t
wait_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
	return (uint64_t)now.tv_sec * NUM_S(1) + (uint64_t)now.tv_nsec;
}

void
resolve_wait(const char *name, uint64_t timeout_ns, struct resolve_answer *ret_answer)
{
	struct resolve_wait wait = { .answer = ret_answer };
	uint64_t until_ns = wait_now_ns() + timeout_ns, now_ns;
	struct errand_desk desk;
	int rc = errand_desk_init(&desk, NULL);

	assert(name[0] != '\0' && ret_answer != NULL);
	*ret_answer = (struct resolve_answer){ .rc = EAI_AGAIN };
	if (rc == 0 && resolve_start(&desk, name, wait_on_answer, &wait) == NULL) {
		rc = -errno;
		errand_desk_fini(&desk);
	}
	if (rc != 0) {
		*ret_answer = (struct resolve_answer){ .rc = EAI_SYSTEM, .err = -rc };
		return;
	}
	while (!wait.is_done && (now_ns = wait_now_ns()) < until_ns)
		errand_desk_wait(&desk, until_ns - now_ns);
	errand_desk_fini(&desk);
}

const char *
resolve_text(const struct resolve_answer *answer)
{
	assert(answer->rc != 0);
	return answer->rc == EAI_SYSTEM ? strerror(answer->err) : gai_strerror(answer->rc);
}
