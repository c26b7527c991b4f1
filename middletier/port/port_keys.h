/* SPDX-License-Identifier: Apache-2.0 */
/* port_keys.h -- what a port encrypts records with: its keyring, and who draws salts and counters */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_KEYS_H
#define CLEAVE_MIDDLETIER_PORT_PORT_KEYS_H

struct mt_port;

/* mt_port_keys_init -- before the port's engines, which read the keyring: it is empty. Returns 0; -ENOMEM. */
int mt_port_keys_init(struct mt_port *port);
/* mt_port_keys_fini -- after the port's engines: all keys are wiped. Without init: does nothing. */
void mt_port_keys_fini(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_KEYS_H */
