/* SPDX-License-Identifier: Apache-2.0 */
/* place.c -- see place.h */
#include "catalog/place.h"

#include <string.h>

#include "base/check.h"
#include "catalog/cluster_key.h"
#include "cleave/meta.h"

void
mt_place_of(struct meta *meta, char ret_place[META_PLACE_BYTES])
{
	const char *place = meta->ops->place == NULL ? "" : meta->ops->place(meta);

	assert(strlen(place) < META_PLACE_BYTES);
	memcpy(ret_place, place, strlen(place) + 1);
}

bool
mt_place_is_valid(const char *place)
{
	size_t bytes = strlen(place);

	return bytes < META_PLACE_BYTES && strspn(place, "0123456789TZ@:.-") == bytes;
}

/* A birth time may be known to one kernel and not to the next: then the inode alone decides. */
bool
mt_place_is_other(struct meta *meta, const struct mt_cluster *cluster)
{
	char found[META_PLACE_BYTES];
	size_t inode_bytes = strcspn(cluster->place, "@");

	assert(inode_bytes < META_PLACE_BYTES);
	mt_place_of(meta, found);
	if (found[0] == '\0' || cluster->place[0] == '\0')
		return false;
	if (inode_bytes != strcspn(found, "@") || strncmp(found, cluster->place, inode_bytes) != 0)
		return true;
	return found[inode_bytes] != '\0' && cluster->place[inode_bytes] != '\0' &&
	    strcmp(found, cluster->place) != 0;
}
