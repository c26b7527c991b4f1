/* SPDX-License-Identifier: Apache-2.0 */
/* service_class.c -- service classes between their two forms: a number on the wire, a name for people */
#include <errno.h>
#include <string.h>

#include "cleave/wire.h"

static const char *const class_names[SERVICE_CLASS_NR] = {
#define CLASS_NAME(symbol, name) [SERVICE_##symbol] = (name),
	SERVICE_CLASS_LIST(CLASS_NAME)
#undef CLASS_NAME
};

const char *
service_class_name(unsigned service_class)
{
	return service_class < SERVICE_CLASS_NR ? class_names[service_class] : NULL;
}

int
service_class_parse(const char *name, enum service_class *ret_class)
{
	for (unsigned i = 0; i < SERVICE_CLASS_NR; i++) {
		if (strcmp(name, class_names[i]) == 0) {
			*ret_class = (enum service_class)i;
			return 0;
		}
	}
	return -EINVAL;
}
