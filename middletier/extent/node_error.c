/* SPDX-License-Identifier: Apache-2.0 */
/* node_error.c -- see node_error.h */
#include "extent/node_error.h"

#include <errno.h>

#include "base/check.h"

bool
mt_is_fenced(int rc)
{
	assert(rc <= 0);
	return rc == -ESTALE || rc == -EACCES;
}

bool
mt_is_busy(int rc)
{
	assert(rc <= 0);
	return rc == -EBUSY || rc == -ENOBUFS || rc == -ENOMEM;
}

bool
mt_is_link_lost(int rc)
{
	assert(rc <= 0);
	return rc == -ECONNRESET || rc == -ETIMEDOUT || rc == -ENOTCONN;
}

bool
mt_is_copy_lost(int rc)
{
	assert(rc <= 0);
	return rc == -ERANGE || rc == -EUCLEAN || rc == -ENOENT || rc == -EBADMSG || rc == -EPERM ||
	    rc == -EINVAL;
}

bool
mt_is_copy_bad(int rc)
{
	assert(rc <= 0);
	switch (rc) {
	case -EBADMSG:
	case -EIO:
	case -EUCLEAN:
	case -ERANGE:
	case -ENOENT:
	case -EMSGSIZE:
	case -EPROTO:
		return true;
	default:
		return false;
	}
}
