/* SPDX-License-Identifier: Apache-2.0 */
/* kek_command.h -- a program that has a KEK is run: it wraps and unwraps what it is handed */
#ifndef CLEAVE_MIDDLETIER_KMS_KEK_COMMAND_H
#define CLEAVE_MIDDLETIER_KMS_KEK_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "kms/kek.h"

#define MT_KEK_COMMAND_NS UINT64_C(5000000000) /* so long a program may take */

/* A program is run for this. */
struct mt_kek_run {
	const char *op; /* "wrap" or "unwrap" */
	const uint8_t *data;
	size_t data_bytes; /* at most MT_WRAPPED_BYTES_MAX */
	uint64_t timeout_ns;
};

/*
 * mt_kek_command -- run kek->place once
 *
 *	its standard input:  {"op":"wrap","kek":"NAME","data":"BASE64"}    its standard output: {"data":"BASE64"}
 *
 * One that does not end in time is killed, with all of its process group. Its environment is ours.
 * Shape:     @ret_data has room for MT_WRAPPED_BYTES_MAX; @why for MT_ERROR_BYTES: which program, what it did, and how
 *            its standard error begins.
 * Returns:   how many bytes came back, at least 1; -EIO it could not be run, ended with an error or a signal, or said
 *            something else; -ETIMEDOUT; -ENOMEM.
 * Threads:   any that blocks SIGPIPE, or ignores it; blocks.
 */
int mt_kek_command(const struct mt_kek *kek, const struct mt_kek_run *run, uint8_t *ret_data,
    char *why);

#endif /* CLEAVE_MIDDLETIER_KMS_KEK_COMMAND_H */
