/* SPDX-License-Identifier: Apache-2.0 */
/* domain.h -- failure domains of storage nodes, as people write them: "dc1/rack2/host5" */
#ifndef CLEAVE_BASE_DOMAIN_H
#define CLEAVE_BASE_DOMAIN_H

#include <stdbool.h>

#define DOMAIN_BYTES_MAX 64u /* its end included */
#define DOMAIN_PARTS_MAX 4u

/* domain_is_valid -- "", or up to DOMAIN_PARTS_MAX names with "/" between them: what may stand in a key. Threads: any. */
bool domain_is_valid(const char *domain);
/*
 * domain_check -- may a node get it now? NULL, or a static text that says what one is
 *
 * It has no blanks besides, for it would seem to end there where nodes are listed. Those of before may have some.
 * Threads: any.
 */
const char *domain_check(const char *domain);

#endif /* CLEAVE_BASE_DOMAIN_H */
