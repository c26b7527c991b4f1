/* SPDX-License-Identifier: Apache-2.0 */
/* field.h -- decoders name the first field that is wrong */
#ifndef CLEAVE_BASE_FIELD_H
#define CLEAVE_BASE_FIELD_H

/*
 * FIELD_EXPECT -- where @condition is false, sets *ret_field to @name and returns @rc from the function
 *
 * The order of a decoder's checks is the order in which a field is blamed.
 */
#define FIELD_EXPECT(condition, name, rc)                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			*ret_field = (name);                                                       \
			return (rc);                                                               \
		}                                                                                  \
	} while (0)

#endif /* CLEAVE_BASE_FIELD_H */
