/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.c -- see descriptors.h: the first three, and the limit, raised as far as the operator allows */
#include "base/descriptors.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"

void
descriptors_hold_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest that is free: this one, as those below are open. */
		if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return;
	}
}

uint64_t
descriptors_raise(uint64_t wanted_count)
{
	struct rlimit limit = { 0 }, raised;

	assert(wanted_count > 0);
	(void)getrlimit(RLIMIT_NOFILE, &limit); /* cannot fail: nothing of it is the caller's */
	if (limit.rlim_cur >= wanted_count)
		return limit.rlim_cur;
	raised = limit;
	raised.rlim_cur = num_min(wanted_count, limit.rlim_max);
	/* Forbidden, perhaps, by a sandbox: then it stays as it is. */
	return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

uint64_t
descriptors_prepare(const char *noun, uint64_t connection_count)
{
	uint64_t wanted_count = connection_count + DESCRIPTORS_SPARE;
	uint64_t count = descriptors_raise(wanted_count);
	uint64_t room_count = count > DESCRIPTORS_SPARE ? count - DESCRIPTORS_SPARE : 0;

	assert(wanted_count > connection_count); /* a count, not a bound of something else */
	if (count >= wanted_count)
		return connection_count;
	log_warn(
	    "%s: the hard limit on open files is too low for all connections: raise RLIMIT_NOFILE"
	    " (ulimit -n, LimitNOFILE=) limit=%" PRIu64 " wanted=%" PRIu64 " connections=%" PRIu64
	    " of=%" PRIu64,
	    noun, count, wanted_count, room_count, connection_count);
	return room_count;
}
