/* SPDX-License-Identifier: Apache-2.0 */
/* real_etcd.c -- members of a real etcd on loopback; see real_etcd.h */
#include "real_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "test_folder.h"

/*
 * A port that is given to nobody else while *@ret_fd is open: a socket is bound to it and does not listen. An etcd, which
 * says SO_REUSEADDR as well, may listen there; whoever asks for any port gets another one, also while its member is down.
 */
static uint16_t
port_hold(int *ret_fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, rc;

	assert(fd >= 0);
	rc = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	assert(rc == 0);
	rc = bind(fd, (struct sockaddr *)&address, sizeof(address));
	assert(rc == 0);
	rc = getsockname(fd, (struct sockaddr *)&address, &bytes);
	assert(rc == 0);
	*ret_fd = fd;
	return ntohs(address.sin_port);
}

bool
real_etcd_is_here(void)
{
	return access("/usr/bin/etcd", X_OK) == 0 && access("/usr/bin/etcdctl", X_OK) == 0;
}

static void
exec_member(const struct real_etcd *etcd, uint32_t member)
{
	char name[8], data[80], client[40], peer[40], cluster[256] = "", log[80];
	int fd;

	(void)snprintf(name, sizeof(name), "m%u", member);
	(void)snprintf(data, sizeof(data), "%s/%s", etcd->folder, name);
	(void)snprintf(log, sizeof(log), "%s/%s.log", etcd->folder, name);
	(void)snprintf(client, sizeof(client), "%s", etcd->urls[member]);
	(void)snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", etcd->peer_ports[member]);
	for (uint32_t i = 0; i < etcd->count; i++)
		(void)snprintf(cluster + strlen(cluster), sizeof(cluster) - strlen(cluster),
		    "%sm%u=http://127.0.0.1:%u", i == 0 ? "" : ",", i, etcd->peer_ports[i]);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
	(void)close_range(STDERR_FILENO + 1, ~0u, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)execl("/usr/bin/etcd", "etcd", "--name", name, "--data-dir", data,
	    "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls",
	    peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
	    "--unsafe-no-fsync", "--bcrypt-cost", "4", "--heartbeat-interval", "50",
	    "--election-timeout", "500", "--logger", "zap", (char *)NULL);
	_exit(127);
}

void
real_etcd_run(struct real_etcd *etcd, uint32_t member)
{
	assert(member < etcd->count);
	assert(etcd->pids[member] == 0);
	etcd->pids[member] = fork();
	if (etcd->pids[member] == 0)
		exec_member(etcd, member);
	assert(etcd->pids[member] > 0);
}

void
real_etcd_start(struct real_etcd *etcd, uint32_t count)
{
	assert(count <= REAL_ETCD_MEMBERS_MAX);
	*etcd = (struct real_etcd){ .count = count };
	test_folder_make(etcd->folder, sizeof(etcd->folder), "etcd");
	for (uint32_t i = 0; i < count; i++) {
		etcd->ports[i] = port_hold(&etcd->port_fds[i]);
		etcd->peer_ports[i] = port_hold(&etcd->peer_fds[i]);
		(void)snprintf(etcd->urls[i], sizeof(etcd->urls[i]), "http://127.0.0.1:%u",
		    etcd->ports[i]);
	}
	for (uint32_t i = 0; i < count; i++)
		real_etcd_run(etcd, i);
}

void
real_etcd_kill(struct real_etcd *etcd, uint32_t member)
{
	assert(member < etcd->count);
	if (etcd->pids[member] == 0)
		return;
	(void)kill(etcd->pids[member], SIGKILL);
	(void)waitpid(etcd->pids[member], NULL, 0);
	etcd->pids[member] = 0;
}

static int
entry_remove(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void
real_etcd_stop(struct real_etcd *etcd)
{
	for (uint32_t i = 0; i < etcd->count; i++) {
		real_etcd_kill(etcd, i);
		(void)close(etcd->port_fds[i]);
		(void)close(etcd->peer_fds[i]);
	}
	etcd->count = 0;
	if (etcd->folder[0] != '\0')
		(void)nftw(etcd->folder, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

int
real_etcd_ctl(const struct real_etcd *etcd, const char *arguments)
{
	char command[1024];
	int status;
	pid_t pid;

	(void)snprintf(command, sizeof(command),
	    "ETCDCTL_API=3 exec etcdctl --command-timeout=5s --endpoints=%s,%s,%s %s >%s/ctl.log 2>&1",
	    etcd->urls[0], etcd->urls[etcd->count > 1 ? 1 : 0], etcd->urls[etcd->count - 1],
	    arguments, etcd->folder);
	pid = fork();
	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	assert(pid > 0);
	assert(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
