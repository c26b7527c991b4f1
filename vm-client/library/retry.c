/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c -- what an error means for a request, and how long to wait before it is sent again */
#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "internal.h"

enum retry_verdict
retry_verdict_io(int rc, bool is_read)
{
	assert(rc < 0);
	switch (rc) {
	case -EBUSY:
	case -EHOSTDOWN:
	case -ENOMEDIUM: /* the gateway has not got the data key yet */
	case -EAGAIN:
	case -ENOMEM:
	case -ETIMEDOUT: /* of the gateway: ours is not over */
	case -ECANCELED:
		return RETRY_LATER;
	case -EBADMSG:
		/* A write was damaged on its way; a read's blocks are bad on every replica. */
		return is_read ? RETRY_NONE : RETRY_CHECKSUM;
	case -ESTALE:
	case -EREMCHG:
		return RETRY_REMAP;
	case -ESHUTDOWN:
		return RETRY_FATAL;
	default:
		return RETRY_NONE;
	}
}

bool
retry_is_fatal(int rc)
{
	assert(rc <= 0);
	switch (rc) {
	case -ESHUTDOWN:       /* a newer session */
	case -ENOENT:          /* the volume was deleted, or is none for this key any more */
	case -ENOKEY:          /* the key gives no right to it */
	case -EXDEV:           /* another cluster answers here */
	case -EPROTONOSUPPORT: /* another version */
		return true;
	default:
		return false;
	}
}

uint64_t
retry_delay_ns(struct loop *loop, uint32_t attempt, uint64_t min_ns, uint64_t max_ns)
{
	uint64_t delay_ns = min_ns;

	assert(min_ns > 0);
	while (attempt > 0 && delay_ns < max_ns) {
		delay_ns *= 2;
		attempt--;
	}
	delay_ns = num_min(delay_ns, max_ns);
	/* Half of it at random: those that failed together do not come back together. */
	return delay_ns - loop_random_below(loop, delay_ns / 2 + 1);
}
