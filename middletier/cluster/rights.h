/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights.h -- who may ask for what: the role of an identity (cleave/secure.h), and what a client may do with a volume
 *
 *	right          a gateway  a node  a client, with a volume's  an admin  a monitor
 *	FIND           yes        no      yes                        yes       yes
 *	VOLUME_LOOK    yes        no      r                          yes       yes
 *	VOLUME_READ    no         no      r                          yes       no
 *	VOLUME_WRITE   no         no      r and w                    yes       no
 *	SNAPSHOT       no         no      s                          yes       no
 *	CLONE          no         no      r and s                    yes       no
 *	ROLLBACK       no         no      s and w                    yes       no
 *	ALTER          no         no      a                          yes       no
 *	LOOK           yes        no      no                         yes       yes
 *	PEER           yes        no      no                         yes       no
 *	CLUSTER        no         no      no                         yes       no
 *
 * Each op of the table in control/control.c has one. A connection without an identity (NULL for a subject) is of a port
 * without a key, which asks nobody. A client's letters are those of its user's entry (catalog/user_key.h).
 *
 * A volume of which a client has no letter is none, to that client: it is told what it would be told if there were no
 * such volume. So who asks learns nothing but the patterns of its own rights.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_RIGHTS_H
#define CLEAVE_MIDDLETIER_CLUSTER_RIGHTS_H

#include <stdbool.h>

#include "catalog/user_key.h"
#include "cleave/secure.h"

struct mt_gateway;

enum mt_right {
	MT_RIGHT_NONE,        /* of an op that was given none: nobody has it */
	MT_RIGHT_FIND,        /* which gateways and ports there are, what shards wait for */
	MT_RIGHT_VOLUME_LOOK, /* at a volume and its snapshots; of a list, at those that one may look at */
	MT_RIGHT_VOLUME_READ,  /* open it, or a snapshot, for reading; close it */
	MT_RIGHT_VOLUME_WRITE, /* open it for writing, which is for reading, too */
	MT_RIGHT_SNAPSHOT,     /* snapshots: make, rename, protect, delete */
	MT_RIGHT_CLONE, /* of a snapshot: whoever has the clone reads what was there, so r as well */
	MT_RIGHT_ROLLBACK, /* of a volume: its data changes */
	MT_RIGHT_ALTER,    /* volumes: make, delete, rename, resize, limit; those in the trash */
	MT_RIGHT_LOOK,     /* at the cluster: status, health, events, nodes */
	MT_RIGHT_PEER,     /* what gateways ask each other */
	MT_RIGHT_CLUSTER,  /* nodes, gateways, levels, copies, users */
	MT_RIGHT_NR
};

/*
 * mt_right_allows -- may somebody of @role, one bit of enum split_role, do what needs @right?
 *
 * @may: of a client, bits of MT_MAY_ALL for the volume in question; others' is not looked at.
 */
bool mt_right_allows(enum split_role role, unsigned may, enum mt_right right);
/* mt_right_name -- "VOLUME_LOOK", for logs. mt_right_letters -- "rw": what a client needs; "": no letter helps, or none is needed. */
const char *mt_right_name(enum mt_right right);
const char *mt_right_letters(enum mt_right right, char ret_text[MT_MAY_TEXT_BYTES]);

/*
 * mt_right_judge -- may @subject do what needs @right with the volume @name?
 *
 * @subject: NULL, and it may. @name: NULL: it is about no volume.
 * Returns 0; -ENOENT: to that client there is no such volume; -ENOKEY: it may not; -EHOSTDOWN: the users have not been
 * read yet. On main.
 */
int mt_right_judge(const struct mt_gateway *gateway, const struct split_subject *subject,
    const char *name, enum mt_right right);
/* mt_right_sees -- the same of MT_RIGHT_VOLUME_LOOK, for lists. */
bool mt_right_sees(const struct mt_gateway *gateway, const struct split_subject *subject,
    const char *name);
/* mt_right_may -- a client's letters for a volume; of any other, and where there is no @subject, MT_MAY_ALL. */
unsigned mt_right_may(const struct mt_gateway *gateway, const struct split_subject *subject,
    const char *name);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_RIGHTS_H */
