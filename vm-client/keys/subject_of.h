/* SPDX-License-Identifier: Apache-2.0 */
/* subject_of.h -- "gateway/1" and a cluster's id, as people type them, and the URI of a certificate that they make */
#ifndef CLEAVE_KEYS_SUBJECT_OF_H
#define CLEAVE_KEYS_SUBJECT_OF_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/secure.h"

#define SUBJECT_OF_CLUSTER_BYTES 17u /* 16 hex digits */
#define SUBJECT_OF_URI_BYTES 128u

/* subject_of -- @text, "gateway/1", of cluster @cluster_id, not 0. 0 and, where not NULL, the URI; -EINVAL it is none. */
int subject_of(const char *text, uint64_t cluster_id, struct split_subject *ret_subject,
    char ret_uri[SUBJECT_OF_URI_BYTES]);
bool subject_of_is_valid(const char *text);
/* subject_of_cluster -- 1 to 16 hex digits, not 0. 0 or -EINVAL. */
int subject_of_cluster(const char *text, uint64_t *ret_id);

#endif /* CLEAVE_KEYS_SUBJECT_OF_H */
