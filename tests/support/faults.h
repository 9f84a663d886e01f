/* SPDX-License-Identifier: MIT */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include "sys.h"

/*
 * Faults for the library's system calls. Calls are counted from 1; one hook at a time.
 */

/* Counts, and lets everything happen. */
void faults_count(void);
/* The call number `nth` gets `answer` (an errno or TDL__SYS_SHORT) once. */
void faults_fail_nth(unsigned nth, int answer);
/* Every call of this kind gets `answer`, from the `from`th of them on, `times` times. */
void faults_fail_op(enum tdl__op op, unsigned from, unsigned times, int answer);
/* Besides what was asked for last, every call of this kind gets `answer`. */
void faults_and_op(enum tdl__op op, int answer);
/* `action` is called before call number `nth`, and before each where nth is 0. */
void faults_do(unsigned nth, void (*action)(void *context), void *context);
/* `action` is called before the `nth` call of a kind. */
void faults_do_at(enum tdl__op op, unsigned nth, void (*action)(void *context), void *context);
/* No more faults; returns how many calls there were. */
unsigned faults_off(void);
/* Whether a fault was given. */
bool faults_hit(void);

const char *op_name(enum tdl__op op);
/* The kind of the call that was hit, and the name that it concerned. */
const char *faults_hit_what(void);

#endif
