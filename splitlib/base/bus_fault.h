/* SPDX-License-Identifier: Apache-2.0 */
/* bus_fault.h -- a process that dies of SIGBUS says of which file: one that was cut off, or whose disk fails */
#ifndef CLEAVE_BASE_BUS_FAULT_H
#define CLEAVE_BASE_BUS_FAULT_H

/*
 * bus_fault_tell -- from here on a SIGBUS is told on standard error: "@program: PATH is shorter ... : @help"
 *
 * A file that is read as memory (the metadata store's) has no other way to fail. The process ends by SIGBUS all the same,
 * with a core dump where there are some. Once a process; both texts are static.
 */
void bus_fault_tell(const char *program, const char *help);

#endif /* CLEAVE_BASE_BUS_FAULT_H */
