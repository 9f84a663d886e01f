/* SPDX-License-Identifier: MIT */
#ifndef TOPICS_H
#define TOPICS_H

#include <stddef.h>

/* What `tinydelta help TOPIC` explains besides the commands. An array that ends with a zeroed one.
 */
struct topic {
	const char *name, *summary, *text;
};

extern const struct topic topics[];

#endif
