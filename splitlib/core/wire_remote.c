/* SPDX-License-Identifier: Apache-2.0 */
/* wire_remote.c -- the key of a region, as it travels */
#include <errno.h>

#include "base/num.h"
#include "cleave/split.h"

#define RIGHTS_ALL ((uint32_t)(DEV_REGION_READ | DEV_REGION_WRITE))

void
dev_remote_encode(uint8_t out[DEV_REMOTE_BYTES], const struct dev_remote *remote)
{
	num_put_le64(out, remote->address);
	num_put_le64(out + 8, remote->bytes);
	num_put_le32(out + 16, remote->key);
	num_put_le32(out + 20, remote->rights);
}

int
dev_remote_decode(const uint8_t in[DEV_REMOTE_BYTES], struct dev_remote *ret_remote)
{
	struct dev_remote remote = { .address = num_get_le64(in),
		.bytes = num_get_le64(in + 8),
		.key = num_get_le32(in + 16),
		.rights = num_get_le32(in + 20) };

	if (remote.bytes == 0 || remote.bytes > UINT64_MAX - remote.address || remote.rights == 0 ||
	    (remote.rights & ~RIGHTS_ALL) != 0)
		return -EPROTO;
	*ret_remote = remote;
	return 0;
}
