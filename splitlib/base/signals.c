/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- see signals.h */
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"

#define SIGNALS_MAGIC 0x4c4e4753u /* "SGNL" */

static void
signals_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct signals *signals = arg;
	struct signalfd_siginfo info;

	(void)events;
	CHECK_OBJ(signals, SIGNALS_MAGIC);
	if (read(watcher->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	/* A terminal's has no sender; a sender in another name space of processes has no number here. */
	if (info.ssi_code == SI_KERNEL || info.ssi_pid == 0)
		(void)snprintf(signals->text, sizeof(signals->text), "SIG%s",
		    sigabbrev_np((int)info.ssi_signo));
	else
		(void)snprintf(signals->text, sizeof(signals->text), "SIG%s from pid=%u uid=%u",
		    sigabbrev_np((int)info.ssi_signo), info.ssi_pid, info.ssi_uid);
	signals->fn((int)info.ssi_signo, signals->arg);
}

int
signals_init(struct signals *signals, struct loop *loop, signals_fn fn, void *arg)
{
	sigset_t set;
	int fd, rc;

	assert(loop != NULL);
	assert(fn != NULL);
	*signals = (struct signals){ .loop = loop, .fn = fn, .arg = arg };
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	loop_fd_init(&signals->watcher, fd, signals_on_readable, signals);
	rc = loop_fd_start(loop, &signals->watcher, LOOP_READABLE);
	if (rc != 0) {
		(void)close(fd); /* nothing was written to it */
		return rc;
	}
	signals->magic = SIGNALS_MAGIC;
	return 0;
}

void
signals_fini(struct signals *signals)
{
	if (signals->magic == 0)
		return;
	CHECK_OBJ(signals, SIGNALS_MAGIC);
	signals->magic = 0;
	loop_fd_stop(signals->loop, &signals->watcher);
	(void)close(signals->watcher.fd);
}
