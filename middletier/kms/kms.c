/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kms.c -- the KEKs of a gateway, and calls that wrap and unwrap data keys with them
 *
 *	mt_kms_wrap, _unwrap --- a file's KEK -------------------------> done --> (a turn of the loop) --> fn
 *	                     `-- a program's --> errand: up to 3 tries --'
 *
 * An errand has a copy of all that it needs: a program may hang longer than this gateway lives.
 */
#include "kms/kms.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/errand.h"
#include "base/list.h"
#include "base/num.h"
#include "common/alloc.h"
#include "kms/kek_command.h"

#define KMS_VERSION 1u
#define KMS_DATA_BYTES (1u + MT_DEK_BYTES + 4u + 8u)

struct mt_kms {
	struct loop *loop;   /* NULL: calls at once alone */
	struct mt_kek *keks; /* pages of their own */
	uint32_t kek_count;
	size_t keks_bytes;
	uint64_t command_ns;
	struct loop_link done; /* mt_kms_call: their fn is next */
	struct loop_timer timer;
	bool has_desk;
	struct errand_desk desk;
};

/* A call to a program: of its own, since it may outlive its caller. */
struct kms_errand {
	struct errand errand;
	struct mt_kms *kms; /* these two are done's alone */
	struct mt_kms_call *call;
	struct mt_kek kek;
	uint64_t command_ns;
	struct mt_kms_call copy; /* what work reads, and fills in */
};

/* ---- a program ---- */

/*
 *	u8 version 1 | DEK 32 | u32 id | u64 volume
 *
 * What it wraps for us names what it is for: a wrapped key that is put in another's place does not open.
 */
static void
plain_fill(const struct mt_kms_call *call, uint8_t ret_plain[KMS_DATA_BYTES])
{
	ret_plain[0] = KMS_VERSION;
	memcpy(ret_plain + 1, call->dek, MT_DEK_BYTES);
	num_put_le32(ret_plain + 1 + MT_DEK_BYTES, (uint32_t)call->data_key.id);
	num_put_le64(ret_plain + 1 + MT_DEK_BYTES + 4, call->data_key.volume);
}

static int
plain_take(const uint8_t *plain, int bytes, struct mt_kms_call *call)
{
	if (bytes != (int)KMS_DATA_BYTES || plain[0] != KMS_VERSION ||
	    num_get_le32(plain + 1 + MT_DEK_BYTES) != call->data_key.id ||
	    num_get_le64(plain + 1 + MT_DEK_BYTES + 4) != call->data_key.volume)
		return -EBADMSG;
	memcpy(call->dek, plain + 1, MT_DEK_BYTES);
	return 0;
}

/* Once. 0; -EIO, -ETIMEDOUT, -ENOMEM, -EBADMSG. */
static int
command_once(const struct mt_kek *kek, uint64_t command_ns, struct mt_kms_call *call)
{
	uint8_t plain[KMS_DATA_BYTES], out[MT_WRAPPED_BYTES_MAX];
	struct mt_kek_run run = { .op = "unwrap",
		.data = call->data_key.wrapped,
		.data_bytes = call->data_key.wrapped_bytes,
		.timeout_ns = command_ns };
	int rc;

	plain_fill(call, plain);
	if (call->is_wrap)
		run = (struct mt_kek_run){ "wrap", plain, sizeof(plain), command_ns };
	rc = mt_kek_command(kek, &run, out, call->why);
	gnutls_memset(plain, 0, sizeof(plain));
	if (rc > 0 && call->is_wrap) {
		memcpy(call->data_key.wrapped, out, (size_t)rc);
		call->data_key.wrapped_bytes = (uint32_t)rc;
		rc = 0;
	} else if (rc > 0) {
		rc = plain_take(out, rc, call);
	}
	gnutls_memset(out, 0, sizeof(out));
	return rc;
}

static void
command_run(const struct mt_kek *kek, uint64_t command_ns, struct mt_kms_call *call)
{
	assert(kek->kind == MT_KEK_COMMAND);
	for (uint32_t i = 0; i < MT_KMS_TRIES; i++) {
		call->rc = command_once(kek, command_ns, call);
		if (call->rc != -EIO && call->rc != -ETIMEDOUT)
			break;
	}
}

/* ---- a call ---- */

static const struct mt_kek *
kms_find(const struct mt_kms *kms, const char *name)
{
	for (uint32_t i = 0; kms != NULL && i < kms->kek_count; i++) {
		if (strcmp(kms->keks[i].name, name) == 0)
			return &kms->keks[i];
	}
	return NULL;
}

bool
mt_kms_has(const struct mt_kms *kms, const char *name)
{
	return kms_find(kms, name) != NULL;
}

/* The rc in words, where nothing was said yet. */
static void
call_explain(struct mt_kms_call *call)
{
	const char *kek = call->data_key.kek;

	if (call->rc == 0)
		call->why[0] = '\0';
	else if (call->rc == -ENOKEY)
		(void)snprintf(call->why, sizeof(call->why),
		    "this gateway has no KEK '%s': start it with --kek", kek);
	else if (call->rc == -EBADMSG)
		(void)snprintf(call->why, sizeof(call->why),
		    "the KEK '%s' does not open key %u of volume %llu: it is another one, or what "
		    "was wrapped has changed",
		    kek, (unsigned)call->data_key.id, (unsigned long long)call->data_key.volume);
	else if (call->why[0] == '\0')
		(void)snprintf(call->why, sizeof(call->why), "the KEK '%s' cannot be used: %s", kek,
		    strerrordesc_np(-call->rc));
}

/* With a KEK whose key we have; or with none. */
static void
call_run(const struct mt_kek *kek, struct mt_kms_call *call)
{
	if (kek == NULL)
		call->rc = -ENOKEY;
	else if (call->is_wrap)
		call->rc = mt_kek_seal(kek, &call->data_key, call->dek);
	else
		call->rc = mt_kek_open(kek, &call->data_key, call->dek);
}

static void
kms_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_kms *kms = arg;
	struct loop_link *link = list_pop_front(&kms->done);
	struct mt_kms_call *call;

	(void)timer;
	assert(link != NULL);
	call = LIST_ENTRY(link, struct mt_kms_call, link);
	if (!list_is_empty(&kms->done))
		loop_timer_start(kms->loop, &kms->timer, 0);
	call->fn(call, call->arg);
}

/* The call's fn is called in another turn. */
static void
call_finish(struct mt_kms *kms, struct mt_kms_call *call)
{
	call_explain(call);
	if (list_is_empty(&kms->done))
		loop_timer_start(kms->loop, &kms->timer, 0);
	list_push_back(&kms->done, &call->link);
}

static void
errand_work(struct errand *errand)
{
	struct kms_errand *self = LIST_ENTRY(errand, struct kms_errand, errand);

	command_run(&self->kek, self->command_ns, &self->copy);
}

static void
errand_drop(struct errand *errand)
{
	struct kms_errand *self = LIST_ENTRY(errand, struct kms_errand, errand);

	gnutls_memset(&self->copy, 0, sizeof(self->copy));
	mt_free(self);
}

static void
errand_done(struct errand *errand)
{
	struct kms_errand *self = LIST_ENTRY(errand, struct kms_errand, errand);
	struct mt_kms_call *call = self->call;

	list_remove(&call->link);
	call->data_key = self->copy.data_key;
	memcpy(call->dek, self->copy.dek, sizeof(call->dek));
	memcpy(call->why, self->copy.why, sizeof(call->why));
	call->rc = self->copy.rc;
	call_finish(self->kms, call);
	errand_drop(errand);
}

static int
errand_send(struct mt_kms *kms, const struct mt_kek *kek, struct mt_kms_call *call)
{
	struct kms_errand *self = mt_calloc(1, sizeof(*self));
	int rc;

	if (self == NULL)
		return -ENOMEM;
	self->errand =
	    (struct errand){ .work = errand_work, .done = errand_done, .drop = errand_drop };
	self->kms = kms;
	self->call = call;
	self->kek = *kek;
	self->command_ns = kms->command_ns;
	self->copy = *call;
	rc = errand_start(&kms->desk, &self->errand);
	if (rc != 0)
		errand_drop(&self->errand);
	return rc;
}

static void
call_send(struct mt_kms *kms, struct mt_kms_call *call)
{
	const struct mt_kek *kek = kms_find(kms, call->data_key.kek);

	assert(call->fn != NULL && kms->loop != NULL);
	assert(call->data_key.id != 0 && call->data_key.volume != 0);
	call->why[0] = '\0';
	call->link = (struct loop_link){ 0 };
	if (kek != NULL && kek->kind == MT_KEK_COMMAND) {
		call->rc = errand_send(kms, kek, call);
		if (call->rc == 0)
			return;
	} else {
		call_run(kek, call);
	}
	call_finish(kms, call);
}

void
mt_kms_wrap(struct mt_kms *kms, struct mt_kms_call *call)
{
	call->is_wrap = true;
	call_send(kms, call);
}

void
mt_kms_unwrap(struct mt_kms *kms, struct mt_kms_call *call)
{
	call->is_wrap = false;
	call_send(kms, call);
}

int
mt_kms_unwrap_now(struct mt_kms *kms, struct mt_kms_call *call)
{
	const struct mt_kek *kek = kms_find(kms, call->data_key.kek);

	call->is_wrap = false;
	call->why[0] = '\0';
	if (kek != NULL && kek->kind == MT_KEK_COMMAND)
		command_run(kek, kms->command_ns, call);
	else
		call_run(kek, call);
	call_explain(call);
	return call->rc;
}

void
mt_kms_call_wipe(struct mt_kms_call *call)
{
	gnutls_memset(call->dek, 0, sizeof(call->dek));
}

int
mt_kms_draw(uint8_t ret_dek[MT_DEK_BYTES])
{
	return gnutls_rnd(GNUTLS_RND_KEY, ret_dek, MT_DEK_BYTES) < 0 ? -EIO : 0;
}

/* ---- life ---- */

/* Pages for the keys, out of core files; and out of swap, where we are let. */
static int
keks_map(struct mt_kms *kms, uint32_t count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *pages;

	kms->keks_bytes = (count * sizeof(*kms->keks) + page) / page * page;
	pages =
	    mmap(NULL, kms->keks_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return -ENOMEM;
	(void)madvise(pages, kms->keks_bytes, MADV_DONTDUMP);
	(void)mlock(pages, kms->keks_bytes);
	kms->keks = pages;
	return 0;
}

static int
keks_load(struct mt_kms *kms, const char *const *texts, uint32_t count, char *why)
{
	for (uint32_t i = 0; i < count; i++) {
		struct mt_kek *kek = &kms->keks[kms->kek_count];
		int rc = mt_kek_parse(texts[i], kek, why);

		if (rc == 0 && kms_find(kms, kek->name) != NULL) {
			(void)snprintf(why, MT_ERROR_BYTES, "'%.200s': there are two KEKs '%s'",
			    texts[i], kek->name);
			rc = -EINVAL;
		}
		if (rc == 0)
			rc = mt_kek_load(kek, why);
		if (rc != 0)
			return rc;
		kms->kek_count++;
	}
	return 0;
}

static bool
keks_have_command(const struct mt_kms *kms)
{
	for (uint32_t i = 0; i < kms->kek_count; i++) {
		if (kms->keks[i].kind == MT_KEK_COMMAND)
			return true;
	}
	return false;
}

int
mt_kms_open(const char *const *texts, uint32_t count, struct loop *loop, uint64_t command_ns,
    struct mt_kms **ret_kms, char *why)
{
	struct mt_kms *kms;
	int rc;

	why[0] = '\0';
	if (count > MT_KEKS_MAX) {
		(void)snprintf(why, MT_ERROR_BYTES, "at most %u KEKs", MT_KEKS_MAX);
		return -EINVAL;
	}
	kms = mt_calloc(1, sizeof(*kms));
	if (kms == NULL)
		return -ENOMEM;
	kms->loop = loop;
	kms->command_ns = command_ns != 0 ? command_ns : MT_KEK_COMMAND_NS;
	list_init(&kms->done);
	loop_timer_init(&kms->timer, kms_on_timer, kms);
	rc = keks_map(kms, count);
	if (rc == 0)
		rc = keks_load(kms, texts, count, why);
	if (rc == 0 && loop != NULL && keks_have_command(kms)) {
		rc = errand_desk_init(&kms->desk, loop);
		kms->has_desk = rc == 0;
	}
	if (rc != 0) {
		mt_kms_close(kms);
		return rc;
	}
	*ret_kms = kms;
	return 0;
}

void
mt_kms_close(struct mt_kms *kms)
{
	if (kms == NULL)
		return;
	if (kms->has_desk)
		errand_desk_fini(&kms->desk);
	while (list_pop_front(&kms->done) != NULL)
		;
	if (kms->loop != NULL)
		loop_timer_stop(kms->loop, &kms->timer);
	if (kms->keks != NULL) {
		gnutls_memset(kms->keks, 0, kms->keks_bytes);
		(void)munmap(kms->keks, kms->keks_bytes);
	}
	mt_free(kms);
}
