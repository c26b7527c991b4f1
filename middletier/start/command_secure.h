/* SPDX-License-Identifier: Apache-2.0 */
/* command_secure.h -- the key of a gateway: whose it is, which number it gives, where it lets a gateway listen */
#ifndef CLEAVE_MIDDLETIER_START_COMMAND_SECURE_H
#define CLEAVE_MIDDLETIER_START_COMMAND_SECURE_H

#include <stdbool.h>

struct config_result;
struct mt_command_line;
struct mt_gateway_options;
struct mt_gateway;
struct secure;

/*
 * mt_command_secure_take -- *@ret_secure as the command line and the environment say; and @options borrows from it
 *
 * The key has to be a gateway's, of --cluster-id. With @is_server its number is the gateway's, and --gateway-id may not
 * be another; and ports that others reach want a key, or the word open. A dump of the store needs none, and takes none. What is wrong goes to config_problem. The caller
 * closes *@ret_secure when the gateway is gone.
 */
void mt_command_secure_take(const struct mt_command_line *values, bool is_server,
    struct config_result *result, struct mt_gateway_options *options, struct secure *ret_secure);
/*
 * mt_command_secure_reload -- the key's file is read again, for @gateway, which runs; @secure is what it had
 *
 * What is wrong goes to the log, and all stays as it was.
 */
void mt_command_secure_reload(const struct mt_command_line *fresh, struct secure *secure,
    struct mt_gateway *gateway);
/*
 * mt_command_secure_tell -- what its log says of that when it starts: secure_tell
 *
 * And a warning where there is a key, and @place, the metadata store, is an etcd in the clear on a network: whoever is on
 * that says who owns what, whatever keys there are.
 */
void mt_command_secure_tell(const struct secure *secure, const struct mt_gateway_options *options,
    const char *place);

#endif /* CLEAVE_MIDDLETIER_START_COMMAND_SECURE_H */
