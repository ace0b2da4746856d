/*
 * Refuses system calls to the program that this is loaded into, once its loader is done: a seccomp filter lets the calls
 * in REFUSED, a list of numbers, fail with the error number REFUSED_WITH. If REFUSED_TIMES is set, only this number of calls
 * fail, and then the kernel makes them: a process beside the program decides.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64

/* What the program and the process that decides share. */
struct shared {
	/* The program's descriptor for the notifications. */
	atomic_int listener;
	atomic_bool is_taken;
};

/* Answers the notifications until the program has ended. */
static void decide(int listener, int error, long times)
{
	struct pollfd wait = { .fd = listener, .events = POLLIN };

	while (poll(&wait, 1, -1) >= 0 && wait.revents & POLLIN) {
		struct seccomp_notif call;
		struct seccomp_notif_resp answer;

		memset(&call, 0, sizeof(call));
		memset(&answer, 0, sizeof(answer));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		answer.id = call.id;
		if (times-- > 0)
			answer.error = -error;
		else
			answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	_exit(0);
}

/*
 * Starts the process that decides. The program gives it the descriptor without a system call, because the call might be
 * one that is refused.
 */
static struct shared *start_deciding(int error, long times)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t program = getpid(), child;
	int listener;

	if (shared == MAP_FAILED)
		_exit(99);
	atomic_store(&shared->listener, -1);
	child = fork();
	if (child) {
		waitpid(child, NULL, 0);
		return shared;
	}
	/* Not a child of the program, and without its streams. */
	if (fork())
		_exit(0);
	for (int stream = 0; stream < 3; stream++)
		close(stream);
	while ((listener = atomic_load(&shared->listener)) < 0) {
		if (kill(program, 0))
			_exit(0);
		usleep(100);
	}
	listener = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, program, 0), listener, 0);
	if (listener < 0)
		kill(program, SIGKILL);
	atomic_store(&shared->is_taken, true);
	decide(listener, error, times);
	return NULL;
}

__attribute__((constructor)) static void refuse(void)
{
	struct sock_filter filter[2 * MOST + 2];
	struct sock_fprog program = { .filter = filter };
	const char *list = getenv("REFUSED"), *error = getenv("REFUSED_WITH"), *times = getenv("REFUSED_TIMES");
	unsigned short length = 0;
	struct shared *shared = NULL;
	int listener;
	unsigned int action;
	char *rest;

	if (!list || !error)
		return;
	action = times ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | (strtoul(error, NULL, 10) & SECCOMP_RET_DATA);
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int count = 0; *list && count < MOST; count++, list = rest) {
		unsigned int number = strtoul(list, &rest, 10);

		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
		if (*rest == ',')
			rest++;
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = length;
	/* Programs that this one starts inherit the filter, but do not install it again. */
	unsetenv("LD_PRELOAD");
	if (times)
		shared = start_deciding(atoi(error), atol(times));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		_exit(99);
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, times ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &program);
	if (listener < 0)
		_exit(99);
	if (shared) {
		atomic_store(&shared->listener, listener);
		while (!atomic_load(&shared->is_taken))
			;
	}
}
