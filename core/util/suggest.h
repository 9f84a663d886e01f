/* SPDX-License-Identifier: MIT */
#ifndef NEAREST_H
#define NEAREST_H

/*
 * Finds what was meant by a word that is not known: offer it every name that is, then look at
 * `name`, which is NULL where none is near.
 */
struct nearest {
	const char *word, *name;
	unsigned distance; /* of `name` */
};

void nearest_offer(struct nearest *nearest, const char *name);

#endif
