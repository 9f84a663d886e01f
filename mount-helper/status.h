/* SPDX-License-Identifier: MIT */
#ifndef STATUS_H
#define STATUS_H

/* The exit statuses of mount(8), which hands a helper's on. */
enum {
	STATUS_DONE = 0,
	STATUS_USAGE = 1,  /* wrong use, or no right to do it */
	STATUS_SYSTEM = 2, /* no memory, no process, no program */
	STATUS_MOUNT = 32, /* the mount failed */
};

#endif
