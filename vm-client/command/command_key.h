/* SPDX-License-Identifier: Apache-2.0 */
/* command_key.h -- cleave key: a cluster's authority and the keys of its daemons and people (keys/ca.h) */
#ifndef CLEAVE_COMMAND_KEY_H
#define CLEAVE_COMMAND_KEY_H

#include <jansson.h>
#include <stdint.h>

#include "command.h"
#include "keys/issued.h"

struct ca;

/* None prints a secret, and but for publish none asks a gateway. command_key.c: */
int command_key_init(struct command_session *session);
int command_key_issue(struct command_session *session);
int command_key_renew(struct command_session *session);
int command_key_revoke(struct command_session *session);
int command_key_adopt(struct command_session *session);
int command_key_kek(struct command_session *session);
int command_key_publish(struct command_session *session);
/* command_key_show.c: */
int command_key_show(struct command_session *session);
int command_key_list(struct command_session *session);

/* command_key_now_s -- seconds since 1970: certificates are the one place where the time of the day counts. */
uint64_t command_key_now_s(void);
/* command_key_guard -- no core file, and no debugger, of a process that has private keys. */
void command_key_guard(void);
/* command_key_open -- the authority in --ca, else $CLEAVE_CA; NULL with *@ret_rc and session->error. */
struct ca *command_key_open(struct command_session *session, int *ret_rc);
/* command_key_json -- of a list's entry: subject, serial, from, until, days_left, state. NULL: no memory. */
json_t *command_key_json(const struct issued_entry *entry, uint64_t now_s);
/* command_key_days -- until @until_s, rounded down; 0 when it is over. */
uint64_t command_key_days(uint64_t until_s, uint64_t now_s);

#endif /* CLEAVE_COMMAND_KEY_H */
