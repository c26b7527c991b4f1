/* SPDX-License-Identifier: Apache-2.0 */
/* kek.h -- a key that wraps volumes' data keys (KEK), made: a file that gateways have by --kek */
#ifndef CLEAVE_KEYS_KEK_H
#define CLEAVE_KEYS_KEK_H

#define KEK_WHY_BYTES 256u

/*
 * kek_make -- 256 random bits, 64 hex digits and the end of a line, as the file @path of mode 0600
 *
 * A file that is there is never written over: what it wraps would be lost.
 * Returns:   0; -EEXIST; -EIO no random bytes; as durable_write; and @why, of KEK_WHY_BYTES.
 */
int kek_make(const char *path, char *why);

#endif /* CLEAVE_KEYS_KEK_H */
