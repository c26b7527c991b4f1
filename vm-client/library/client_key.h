/* SPDX-License-Identifier: Apache-2.0 */
/* client_key.h -- a client's key, for who else speaks in its name */
#ifndef CLEAVE_VM_CLIENT_CLIENT_KEY_H
#define CLEAVE_VM_CLIENT_CLIENT_KEY_H

struct cleave_client;
struct split_key;

/* client_key -- as it is until the next cleave_client_rekey; the client's. NULL: it has none. */
const struct split_key *client_key(const struct cleave_client *client);

#endif /* CLEAVE_VM_CLIENT_CLIENT_KEY_H */
