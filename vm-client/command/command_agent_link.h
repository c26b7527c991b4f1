/* SPDX-License-Identifier: Apache-2.0 */
/* command_agent_link.h -- the agent that attach, detach and exports ask: which one, started where none runs, asked */
#ifndef CLEAVE_COMMAND_AGENT_LINK_H
#define CLEAVE_COMMAND_AGENT_LINK_H

#include <jansson.h>
#include <stdbool.h>

struct command_session;

/* command_agent_given -- the agent that was named, by --agent or $CLEAVE_AGENT; NULL: none was. */
const char *command_agent_given(const struct command_session *session);
/*
 * command_agent_open -- connect to the agent, which is started where @may_start and none answers
 *
 * Returns: 0 and *@ret_fd, the caller's to close; a negative errno, and session->error says why.
 */
int command_agent_open(struct command_session *session, bool may_start, int *ret_fd);
/*
 * command_agent_ask -- one question, and its answer, which may take as long as --timeout says
 *
 * Ownership: @request is taken over. *@ret_reply, an object, is the caller's.
 * Returns:   0; a negative errno, and session->error: -ETIMEDOUT no answer in time; -EINVAL the agent refuses.
 */
int command_agent_ask(struct command_session *session, int fd, json_t *request, json_t **ret_reply);
/*
 * command_agent_list -- all exports, part by part, as one answer to @op, "list" or "reload"
 *
 * An agent of a release that knows no parts has one. Returns: as command_agent_ask.
 */
int command_agent_list(struct command_session *session, int fd, const char *op, json_t **ret_reply);

#endif /* CLEAVE_COMMAND_AGENT_LINK_H */
