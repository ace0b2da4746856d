/*
 * Delays a measuring thread in one of several ways until SIGTERM arrives, and then prints the
 * beginning and the end of each delay, in nanoseconds of CLOCK_MONOTONIC.
 *
 *   culprit NAME CPU [PID | FILE]
 *
 * The names are those of the table below. It prints its process ID first.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define MEMORY (48u << 20)
#define TIMERS 1000
#define THREADS 64

static struct {
	uint64_t begin, end;
} times[100000];

static volatile sig_atomic_t ended;
static const char *target;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
	struct timespec span = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}

static void spin_ns(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		;
}

static void must(int is_done, const char *what)
{
	if (is_done)
		return;
	fprintf(stderr, "culprit: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void set_policy(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	must(!sched_setscheduler(0, policy, &param), "policy");
}

static void write_to(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	must(file >= 0, path);
	must(write(file, text, strlen(text)) > 0, path);
	close(file);
}

/* A signal stops the process. */
static void stop(void)
{
	kill(atoi(target), SIGSTOP);
	pause_ns(10 * MS);
	kill(atoi(target), SIGCONT);
}

/* A tracer stops all threads of the process. */
static void trace(void)
{
	int threads[THREADS], count = 0, i, status;
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%s/task", target);
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)) && count < THREADS)
		if (entry->d_name[0] != '.')
			threads[count++] = atoi(entry->d_name);
	closedir(folder);
	for (i = 0; i < count; i++) {
		ptrace(PTRACE_SEIZE, threads[i], 0, 0);
		ptrace(PTRACE_INTERRUPT, threads[i], 0, 0);
	}
	for (i = 0; i < count; i++)
		waitpid(threads[i], &status, __WALL);
	pause_ns(10 * MS);
	for (i = 0; i < count; i++)
		ptrace(PTRACE_DETACH, threads[i], 0, 0);
}

/* The freezer stops a control group. */
static void freeze(void)
{
	write_to(target, "1");
	pause_ns(10 * MS);
	write_to(target, "0");
}

static void busy(void)
{
	spin_ns(3 * MS);
}

/* A thread with a higher priority waits for a lock that this thread holds. */
static pthread_mutex_t lock;
static volatile int is_held;

static void *wait_for_lock(void *unused)
{
	cpu_set_t set;

	(void)unused;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	must(!sched_setaffinity(0, sizeof(set), &set), "CPU");
	set_policy(SCHED_FIFO, 90);
	for (;;) {
		if (is_held) {
			pthread_mutex_lock(&lock);
			pthread_mutex_unlock(&lock);
		}
		pause_ns(MS / 4);
	}
	return NULL;
}

static void begin_lock(void)
{
	pthread_mutexattr_t attributes;
	pthread_t waits;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &attributes);
	must(!pthread_create(&waits, NULL, wait_for_lock, NULL), "thread");
}

static void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	is_held = 1;
	spin_ns(5 * MS);
	is_held = 0;
	pthread_mutex_unlock(&lock);
}

/* Work of the kernel during which a kernel without preemption does not switch. */
static char *populated(void)
{
	char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(memory != MAP_FAILED, "memory");
	madvise(memory, MEMORY, MADV_NOHUGEPAGE);
	must(!madvise(memory, MEMORY, MADV_POPULATE_WRITE), "memory");
	return memory;
}

static void unmap(void)
{
	munmap(populated(), MEMORY);
}

static void end_process(void)
{
	pid_t child = fork();

	if (!child) {
		populated();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void list_tasks(void)
{
	write_to("/proc/sysrq-trigger", "t");
}

/* Another CPU goes offline, for which the kernel stops all of them. */
static void unplug(void)
{
	write_to(target, "0");
	write_to(target, "1");
}

static void begin_deadline(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { sizeof(attributes), 6, 0, 0, 0, 4 * MS, 40 * MS, 40 * MS };

	must(!syscall(SYS_sched_setattr, 0, &attributes, 0), "SCHED_DEADLINE");
}

static void begin_fifo(void)
{
	set_policy(SCHED_FIFO, 80);
}

static void begin_low_fifo(void)
{
	set_policy(SCHED_FIFO, 10);
}

/* An ordinary thread that cannot run until the kernel intervenes. */
static void begin_starving(void)
{
	pid_t parent = getpid();

	if (!fork()) {
		while (kill(parent, 0) == 0)
			busy();
		_exit(0);
	}
	set_policy(SCHED_FIFO, 10);
}

/* Many timers of one CPU expire at once, again and again. An interval would not suffice: without a read, a timer of this
 * kind expires once. */
static int timers[TIMERS];

static void begin_timers(void)
{
	int i;

	for (i = 0; i < TIMERS; i++)
		must((timers[i] = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0, "timer");
}

static void start_timers(void)
{
	uint64_t when = now_ns() + 40 * MS;
	struct itimerspec at = { .it_value = { when / 1000000000, when % 1000000000 } };
	int i;

	for (i = 0; i < TIMERS; i++)
		must(!timerfd_settime(timers[i], TFD_TIMER_ABSTIME, &at, NULL), "timer");
	pause_ns(50 * MS);
}

static void nothing(void)
{
}

/* How a culprit begins, what it repeats, and the pause after that; without one, it never sleeps. */
static const struct {
	const char *name;
	void (*begin)(void), (*repeat)(void);
	uint64_t pause_ns;
	int is_elsewhere;
} culprits[] = {
	{ "stop", nothing, stop, 40 * MS, 1 },
	{ "trace", nothing, trace, 40 * MS, 1 },
	{ "freeze", nothing, freeze, 40 * MS, 1 },
	{ "unplug", nothing, unplug, 40 * MS, 1 },
	{ "equal", begin_fifo, busy, 40 * MS, 0 },
	{ "deadline", begin_deadline, busy, 37 * MS, 0 },
	{ "lock", begin_lock, hold_lock, 40 * MS, 0 },
	{ "unmap", nothing, unmap, 20 * MS, 0 },
	{ "exit", nothing, end_process, 20 * MS, 0 },
	{ "tasks", nothing, list_tasks, 40 * MS, 0 },
	{ "timers", begin_timers, start_timers, 0, 0 },
	{ "ordinary", nothing, busy, 0, 0 },
	{ "throttled", begin_low_fifo, busy, 0, 0 },
	{ "starved", begin_starving, busy, 0, 0 },
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned int which, done = 0, i;
	cpu_set_t set;

	for (which = 0; argc > 2 && which < sizeof(culprits) / sizeof(culprits[0]); which++)
		if (!strcmp(culprits[which].name, argv[1]))
			break;
	if (argc < 3 || which == sizeof(culprits) / sizeof(culprits[0])) {
		fprintf(stderr, "usage: culprit NAME CPU [PID | FILE]\n");
		return 2;
	}
	target = argc > 3 ? argv[3] : "";
	CPU_ZERO(&set);
	CPU_SET(culprits[which].is_elsewhere ? 0 : atoi(argv[2]), &set);
	must(!sched_setaffinity(0, sizeof(set), &set), "CPU");
	sigaction(SIGTERM, &action, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	culprits[which].begin();
	while (!ended && done < sizeof(times) / sizeof(times[0])) {
		times[done].begin = now_ns();
		culprits[which].repeat();
		times[done++].end = now_ns();
		if (culprits[which].pause_ns)
			pause_ns(culprits[which].pause_ns);
	}
	for (i = 0; i < done; i++)
		printf("%llu %llu\n", (unsigned long long)times[i].begin, (unsigned long long)times[i].end);
	return 0;
}
