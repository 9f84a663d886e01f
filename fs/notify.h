/* SPDX-License-Identifier: MIT */
#ifndef TDFS_NOTIFY_H
#define TDFS_NOTIFY_H

/* Tells a service manager that asked for it (Type=notify: the socket in NOTIFY_SOCKET) that the
 * mount serves. Returns 0, also where nobody asked, or an errno. */
int tdfs_notify_ready(void);

#endif
