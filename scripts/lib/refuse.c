/*
 * Refuses system calls to the program that this is loaded into, once its loader is done: a seccomp filter that returns
 * an error for the calls in REFUSED, a list of numbers. REFUSED_WITH is the error number.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define MOST 64

__attribute__((constructor)) static void refuse(void)
{
	struct sock_filter filter[2 * MOST + 2];
	struct sock_fprog program = { .filter = filter };
	const char *list = getenv("REFUSED"), *error = getenv("REFUSED_WITH");
	unsigned short length = 0;
	char *rest;

	if (!list || !error)
		return;
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int count = 0; *list && count < MOST; count++, list = rest) {
		unsigned int number = strtoul(list, &rest, 10);

		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
								SECCOMP_RET_ERRNO | (strtoul(error, NULL, 10) & SECCOMP_RET_DATA));
		if (*rest == ',')
			rest++;
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = length;
	/* Programs that this one starts inherit the filter, but do not install it again. */
	unsetenv("LD_PRELOAD");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_Exit(99);
}
