/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h -- what the files of the `cleave` command share
 */
#ifndef CLEAVE_COMMAND_H
#define CLEAVE_COMMAND_H

#endif /* CLEAVE_COMMAND_H */
