/* SPDX-License-Identifier: Apache-2.0 */
/* real_etcd.h -- members of a real etcd on loopback, of the programs that this machine has */
#ifndef CLEAVE_TESTS_REAL_ETCD_H
#define CLEAVE_TESTS_REAL_ETCD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define REAL_ETCD_MEMBERS_MAX 3u

struct real_etcd {
	uint32_t count;
	char folder[64];
	char urls[REAL_ETCD_MEMBERS_MAX][40];
	uint16_t ports[REAL_ETCD_MEMBERS_MAX], peer_ports[REAL_ETCD_MEMBERS_MAX];
	int port_fds[REAL_ETCD_MEMBERS_MAX], peer_fds[REAL_ETCD_MEMBERS_MAX]; /* which hold them */
	pid_t pids[REAL_ETCD_MEMBERS_MAX];                                    /* 0: does not run */
};

/* real_etcd_is_here -- is there an `etcd` to run? */
bool real_etcd_is_here(void);
/* real_etcd_start -- a new etcd of @count members; they end with this process. Not ready yet: ask them. */
void real_etcd_start(struct real_etcd *etcd, uint32_t count);
/* real_etcd_stop -- kill them all, and remove what they have written */
void real_etcd_stop(struct real_etcd *etcd);
/* real_etcd_kill -- kill -9 of a member; real_etcd_run: start it again */
void real_etcd_kill(struct real_etcd *etcd, uint32_t member);
void real_etcd_run(struct real_etcd *etcd, uint32_t member);
/* real_etcd_ctl -- `etcdctl ARGUMENTS` about all members. Returns its exit status. */
int real_etcd_ctl(const struct real_etcd *etcd, const char *arguments);

#endif /* CLEAVE_TESTS_REAL_ETCD_H */
