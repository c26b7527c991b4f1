/* SPDX-License-Identifier: Apache-2.0 */
/*
 * issued.h -- the list of all certificates that an authority has issued: DIR/issued.json
 *
 *	{"format":1,"cluster":"c1ea7e0000000001","crl_number":3,"issued":[
 *	    {"subject":"gateway/1","serial":"<32 hex digits>","from":SECONDS,"until":SECONDS,"revoked":0}]}
 *
 * A certificate is in the list before its key is in a file, so that none is anywhere that nobody could revoke.
 */
#ifndef CLEAVE_KEYS_ISSUED_H
#define CLEAVE_KEYS_ISSUED_H

#include <stddef.h>
#include <stdint.h>

#define ISSUED_SERIAL_BYTES 16u
#define ISSUED_SERIAL_TEXT_BYTES (2 * ISSUED_SERIAL_BYTES + 1)
#define ISSUED_SUBJECT_BYTES 80u
#define ISSUED_SUBJECT_UNKNOWN                                                                     \
	"?" /* of a revoked key: issued by a folder that is lost, this is a copy of before */
#define ISSUED_MAX 32768u /* 8 MiB of text at most: DURABLE_BYTES_MAX */

struct issued_entry {
	char subject[ISSUED_SUBJECT_BYTES];
	char serial[ISSUED_SERIAL_TEXT_BYTES]; /* lower case */
	uint64_t from_s, until_s;
	uint64_t revoked_s; /* 0: it is not */
};

struct issued {
	uint64_t cluster_id;
	uint64_t crl_number; /* of the newest list of revoked ones */
	struct issued_entry *entries;
	uint32_t count;
};

/*
 * issued_decode -- any bytes. 0, and @ret for issued_fini; -EINVAL it is no list, @ret_why says where; -ENOMEM
 *
 * What it takes, issued_encode writes: subjects are ones, serials are 32 hex digits and different, times in order.
 */
int issued_decode(const char *text, size_t bytes, struct issued *ret, const char **ret_why);
/* issued_encode -- its text, to free(); NULL: out of memory. */
char *issued_encode(const struct issued *issued, size_t *ret_bytes);
/* issued_add -- one more: a copy of @entry. 0; -ENOSPC ISSUED_MAX; -ENOMEM. */
int issued_add(struct issued *issued, const struct issued_entry *entry);
/* issued_find -- the entry of @serial; NULL. */
struct issued_entry *issued_find(const struct issued *issued, const char *serial);
/*
 * issued_revoke -- @what, a serial; or a subject: all of its certificates that have not expired
 *
 * Returns how many there are; *@ret_count of them were not revoked before.
 */
uint32_t issued_revoke(struct issued *issued, const char *what, uint64_t now_s,
    uint32_t *ret_count);
/*
 * issued_adopt -- @serial is revoked, whether it is there or not: a new entry is of ISSUED_SUBJECT_UNKNOWN, until @until_s
 *
 * 1: by this; 0: it was before; -ENOSPC ISSUED_MAX; -ENOMEM.
 */
int issued_adopt(struct issued *issued, const char *serial, uint64_t until_s, uint64_t now_s);
/* issued_state -- "valid", "revoked", "expired", at @now_s. */
const char *issued_state(const struct issued_entry *entry, uint64_t now_s);
void issued_fini(struct issued *issued);

#endif /* CLEAVE_KEYS_ISSUED_H */
