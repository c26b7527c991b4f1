/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kms.h -- the KEKs of a gateway, and calls that wrap and unwrap data keys with them
 *
 * Threads: the loop's that it was opened with. Nothing here blocks that but mt_kms_open and the calls whose name ends
 * in _now.
 */
#ifndef CLEAVE_MIDDLETIER_KMS_KMS_H
#define CLEAVE_MIDDLETIER_KMS_KMS_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/data_key.h"
#include "cleave/loop.h"
#include "common/limits.h"
#include "kms/kek.h"

struct mt_kms;

#define MT_KEKS_MAX 16u
#define MT_KMS_TRIES 3u /* of a program that fails or hangs */

/* A data key on its way through; the caller's, from the call until fn, who wipes it then: mt_kms_call_wipe. */
struct mt_kms_call {
	struct mt_data_key
	    data_key;              /* id, volume and kek; wrap fills the rest in, unwrap needs it */
	uint8_t dek[MT_DEK_BYTES]; /* wrap needs it, unwrap fills it in */
	int rc;                    /* 0; or as mt_kms_wrap */
	char why[MT_ERROR_BYTES];  /* for people; "" with 0 */
	/* The last act of the loop's turn that has the answer, once. */
	void (*fn)(struct mt_kms_call *call, void *arg);
	void *arg;
	/* kms.c's. */
	struct loop_link link;
	bool is_wrap;
};

/*
 * mt_kms_open -- the KEKs that @texts name, each as --kek has it, are read
 *
 * @loop: NULL where the calls that end in _now are all that is wanted. @command_ns: how long a program may take
 * [MT_KEK_COMMAND_NS].
 * Returns:   0 and *@ret_kms, also for none; -EINVAL two of one name, or too many; -ENOMEM; as mt_kek_load; and @why, of
 *            MT_ERROR_BYTES.
 * Ownership: the caller's until mt_kms_close. The texts are copied. Memory with keys is in no core file, and where the
 *            system lets us, in no swap.
 */
int mt_kms_open(const char *const *texts, uint32_t count, struct loop *loop, uint64_t command_ns,
    struct mt_kms **ret_kms, char *why);
/* mt_kms_close -- NULL is a no-op. Calls that are out are forgotten: their fn is not called. Waits for no program. */
void mt_kms_close(struct mt_kms *kms);
/* mt_kms_has -- is there a KEK of that name? NULL has none. */
bool mt_kms_has(const struct mt_kms *kms, const char *name);

/*
 * mt_kms_wrap -- call->dek, for call->data_key's id and volume, with the KEK that it names
 *
 * call->fn, once, never within this call. call->rc: 0; -ENOKEY there is no KEK of that name here; -EIO, -ETIMEDOUT the
 * program failed, MT_KMS_TRIES times; -ENOMEM, -EAGAIN no memory, or no thread, for it.
 */
void mt_kms_wrap(struct mt_kms *kms, struct mt_kms_call *call);
/* mt_kms_unwrap -- the reverse. And -EBADMSG: it is another KEK, or the bytes have changed. */
void mt_kms_unwrap(struct mt_kms *kms, struct mt_kms_call *call);
/* mt_kms_unwrap_now -- the same, at once; may block. call->rc, too. */
int mt_kms_unwrap_now(struct mt_kms *kms, struct mt_kms_call *call);
/* mt_kms_call_wipe -- its secret is gone. */
void mt_kms_call_wipe(struct mt_kms_call *call);
/* mt_kms_draw -- a new data key, from the system's random bytes. 0; -EIO. */
int mt_kms_draw(uint8_t ret_dek[MT_DEK_BYTES]);

#endif /* CLEAVE_MIDDLETIER_KMS_KMS_H */
