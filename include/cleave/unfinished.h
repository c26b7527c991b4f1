/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unfinished.h -- the names of volumes that an import, or a restore, has not filled yet
 *
 *	NAME.importing-NUMBER, NAME.restore-ID  --all is in it-->  NAME
 *
 * A name is all that marks such a volume. Who has a right to NAME has it to these, too (catalog/user_key.h).
 */
#ifndef CLEAVE_UNFINISHED_H
#define CLEAVE_UNFINISHED_H

#include <stddef.h>
#include <string.h>

#define CLEAVE_IMPORT_MARK ".importing-"
#define CLEAVE_IMPORT_DIGITS 8u /* of base 16, behind the mark: the name's end */
#define CLEAVE_RESTORE_MARK ".restore-"
#define CLEAVE_RESTORE_DIGITS 16u

/* unfinished_before -- how many bytes of @name stand before @mark and its digits; 0: it does not end so. Any thread. */
static inline size_t
unfinished_before(const char *name, const char *mark, size_t digits)
{
	size_t mark_bytes = strlen(mark), bytes = strlen(name), before;

	if (bytes <= mark_bytes + digits)
		return 0;
	before = bytes - mark_bytes - digits;
	return strncmp(name + before, mark, mark_bytes) == 0 &&
		strspn(name + before + mark_bytes, "0123456789abcdef") == digits
	    ? before
	    : 0;
}

#endif /* CLEAVE_UNFINISHED_H */
