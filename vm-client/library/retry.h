/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h -- what an error means for a session: for the agent, which keeps volumes open, too */
#ifndef CLEAVE_VM_CLIENT_RETRY_H
#define CLEAVE_VM_CLIENT_RETRY_H

#include <stdbool.h>

/*
 * retry_is_fatal -- @rc, 0 or a negative errno, ended a session, and no other attempt can end otherwise
 *
 * It is @rc of a connection or of a request of the volume. Of a control request, which may be about a name, it says nothing.
 */
bool retry_is_fatal(int rc);

#endif /* CLEAVE_VM_CLIENT_RETRY_H */
