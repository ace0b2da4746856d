/*
 * Reads the processor's cycle counter in user mode on every CPU that is online, by the bare instruction, and says for each what came of it.
 * Also counts cycles by perf, as other programs do, while a command runs; where the kernel knows no such event, the command runs all the same.
 * Judges nothing: the host does.
 *
 *   cycles read
 *   cycles perf CPU COMMAND [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint32_t read_counter(void)
{
#if defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("isb; mrs %0, pmccntr_el0" : "=r"(value) : : "memory");
	return value;
#elif __ARM_ARCH >= 7
	uint32_t value;

	__asm__ volatile("isb; mrc p15, 0, %0, c9, c13, 0" : "=r"(value) : : "memory");
	return value;
#else
	/* ARM1176, which has a register of its own. */
	uint32_t value;

	__asm__ volatile("mrc p15, 0, %0, c15, c12, 1" : "=r"(value) : : "memory");
	return value;
#endif
}

static sigjmp_buf refused;

static void on_signal(int number)
{
	siglongjmp(refused, number);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* For so long, because an emulated counter moves in steps. */
#define WINDOW_NS 10000000

static void read_on(int cpu)
{
	uint32_t first, last;
	uint64_t begun, passed;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* It is not online. */
	if (sched_setaffinity(0, sizeof(set), &set))
		return;
	if (sigsetjmp(refused, 1)) {
		printf("CPU %d: SIGILL\n", cpu);
		return;
	}
	begun = now_ns();
	first = read_counter();
	do {
		passed = now_ns() - begun;
	} while (passed < WINDOW_NS);
	last = read_counter();
	if (first == last)
		printf("CPU %d: stands\n", cpu);
	else
		printf("CPU %d: moves, %u MHz\n", cpu, (unsigned int)((uint64_t)(last - first) * 1000 / passed));
}

static int count_by_perf(int cpu, char **command)
{
	struct perf_event_attr attr;
	uint64_t count = 0;
	int event, status;
	pid_t child;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = PERF_TYPE_HARDWARE;
	attr.config = PERF_COUNT_HW_CPU_CYCLES;
	event = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0);
	if (event < 0) {
		printf("perf: %s\n", strerror(errno));
		if (errno != ENOENT)
			return 1;
	}
	child = fork();
	if (child == 0) {
		execvp(command[0], command);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	if (event >= 0) {
		if (read(event, &count, sizeof(count)) != sizeof(count))
			return 1;
		printf("perf: %s\n", count ? "counted" : "counted nothing");
		close(event);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	int cpu;

	if (argc == 2 && !strcmp(argv[1], "read")) {
		signal(SIGILL, on_signal);
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
			read_on(cpu);
		return 0;
	}
	if (argc >= 4 && !strcmp(argv[1], "perf")) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		return count_by_perf(atoi(argv[2]), argv + 3);
	}
	fprintf(stderr, "usage: cycles read | cycles perf CPU COMMAND [ARGUMENT...]\n");
	return 2;
}
