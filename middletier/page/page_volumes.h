/* SPDX-License-Identifier: Apache-2.0 */
/* page_volumes.h -- parts of /api/cluster: volumes, what waited for their limits, and the trash. NULL: no memory */
#ifndef CLEAVE_MIDDLETIER_PAGE_PAGE_VOLUMES_H
#define CLEAVE_MIDDLETIER_PAGE_PAGE_VOLUMES_H

#include <jansson.h>

struct mt_ask;
struct mt_gateway;

#define MT_PAGE_VOLUMES_MAX 100u /* the first by name; of the others their number alone */
#define MT_PAGE_TRASH_MAX 50u    /* the first to be purged */
#define MT_PAGE_WAITS_MAX 32u    /* volumes, those that waited longest */

/* mt_page_volumes -- as `volume list` has them, with who opened each */
json_t *mt_page_volumes(const struct mt_gateway *gateway);
/* mt_page_trash -- as `trash list` has them, the first to be purged first */
json_t *mt_page_trash(const struct mt_gateway *gateway);
/* mt_page_waits -- members as "limits" of a port in `status`, of all ports that answered together */
json_t *mt_page_waits(const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_PAGE_PAGE_VOLUMES_H */
