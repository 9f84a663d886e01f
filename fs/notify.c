/* SPDX-License-Identifier: MIT */
/*
 * The one word that systemd wants to hear: sd_notify(3) is a datagram. Knows nothing of mounts.
 */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int tdfs_notify_ready(void)
{
	static const char ready[] = "READY=1";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = !path ? 0 : strlen(path);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	int fd, err = 0;

	if (n == 0)
		return 0;
	if ((*path != '/' && *path != '@') || n >= sizeof address.sun_path)
		return EINVAL;
	memcpy(address.sun_path, path, n);
	if (*path == '@') /* a name that is in no file system */
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (sendto(fd, ready, sizeof ready - 1, MSG_NOSIGNAL, (struct sockaddr *)&address, length) <
	    0)
		err = errno;
	close(fd);
	return err;
}
