/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_password.h -- the password of an etcd's user, in the first line of a file of the operator's */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_PASSWORD_H
#define CLEAVE_MIDDLETIER_META_ETCD_PASSWORD_H

#define ETCD_PASSWORD_BYTES 256u /* with its end */

/* etcd_password_read -- from @file. 0; -ENODATA its first line is empty; -EIO; what open(2) says. Waits for the disk. */
int etcd_password_read(const char *file, char ret_password[ETCD_PASSWORD_BYTES]);
/* etcd_password_strerror -- what etcd_password_read's @rc means, for people; valid until the next strerror(3) */
const char *etcd_password_strerror(int rc);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_PASSWORD_H */
