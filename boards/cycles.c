/*
 * Reads the processor's cycle counter in user mode on every online CPU, with the bare
 * instruction, and prints the result for each CPU.
 * Counts cycles with perf, as other programs do, while a command runs. If the kernel has no such
 * event, the command runs nevertheless.
 * Prints PMUSERENR, the register that grants access, and runs a short KVM guest if the kernel has
 * KVM.
 * Does not judge the results: the host does.
 *
 *   cycles read
 *   cycles access
 *   cycles guest CPU
 *   cycles perf CPU COMMAND [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __aarch64__
#include <linux/kvm.h>
#endif

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
	/* ARM1176 has its own register. */
	uint32_t value;

	__asm__ volatile("mrc p15, 0, %0, c15, c12, 1" : "=r"(value) : : "memory");
	return value;
#endif
}

/* User mode may always read PMUSERENR, but ARM1176 has no such register that it may read. */
static uint32_t read_access(void)
{
#if defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("mrs %0, pmuserenr_el0" : "=r"(value));
	return value;
#elif __ARM_ARCH >= 7
	uint32_t value;

	__asm__ volatile("mrc p15, 0, %0, c9, c14, 0" : "=r"(value));
	return value;
#else
	return 0;
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

/* Long enough to see a change, because an emulated counter advances in steps. */
#define WINDOW_NS 10000000

/* Fails if the CPU is not online. */
static int stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static void say_access_on(int cpu)
{
	if (stay_on(cpu))
		return;
	if (sigsetjmp(refused, 1))
		printf("CPU %d: no access register\n", cpu);
	else
		printf("CPU %d: access %#x\n", cpu, read_access());
}

static void read_on(int cpu)
{
	uint32_t first, last;
	uint64_t begun, passed;

	if (stay_on(cpu))
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

#ifdef __aarch64__
/* The address of the guest's code, and an unmapped address. */
#define GUEST_CODE 0x10000
#define GUEST_NOTHING 0x20000

static int failed(const char *what)
{
	printf("guest: %s: %s\n", what, strerror(errno));
	return 1;
}

/* Runs a guest that stores a word to the unmapped address. The store exits the guest. */
static int run_guest(int cpu)
{
	/* movz x0, #2, lsl #16; str w0, [x0]; b . */
	static const uint32_t code[] = { 0xd2a00040, 0xb9000000, 0x14000000 };
	struct kvm_userspace_memory_region region = { 0 };
	struct kvm_vcpu_init init;
	struct kvm_one_reg pc;
	uint64_t start = GUEST_CODE;
	int kvm, vm, vcpu, length;
	struct kvm_run *run;
	void *memory;

	if (stay_on(cpu))
		return failed("CPU");
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		return failed("/dev/kvm");
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		return failed("KVM_CREATE_VM");
	memory = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return failed("mmap");
	memcpy(memory, code, sizeof(code));
	__builtin___clear_cache(memory, (char *)memory + sizeof(code));
	region.guest_phys_addr = GUEST_CODE;
	region.memory_size = 0x10000;
	region.userspace_addr = (uintptr_t)memory;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		return failed("KVM_SET_USER_MEMORY_REGION");
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		return failed("KVM_CREATE_VCPU");
	memset(&init, 0, sizeof(init));
	if (ioctl(vm, KVM_ARM_PREFERRED_TARGET, &init) || ioctl(vcpu, KVM_ARM_VCPU_INIT, &init))
		return failed("KVM_ARM_VCPU_INIT");
	pc.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | KVM_REG_ARM_CORE_REG(regs.pc);
	pc.addr = (uintptr_t)&start;
	if (ioctl(vcpu, KVM_SET_ONE_REG, &pc))
		return failed("KVM_SET_ONE_REG");
	length = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	run = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		return failed("mmap");
	if (ioctl(vcpu, KVM_RUN, 0))
		return failed("KVM_RUN");
	if (run->exit_reason != KVM_EXIT_MMIO || run->mmio.phys_addr != GUEST_NOTHING) {
		printf("guest: unexpected exit reason %u\n", run->exit_reason);
		return 1;
	}
	printf("guest: ran\n");
	return 0;
}
#else
static int run_guest(int cpu)
{
	printf("guest: not supported by this program (CPU %d)\n", cpu);
	return 0;
}
#endif

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
	if (argc == 2 && !strcmp(argv[1], "access")) {
		signal(SIGILL, on_signal);
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
			say_access_on(cpu);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "guest"))
		return run_guest(atoi(argv[2]));
	if (argc >= 4 && !strcmp(argv[1], "perf")) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		return count_by_perf(atoi(argv[2]), argv + 3);
	}
	fprintf(stderr, "usage: cycles read | cycles access | cycles guest CPU | cycles perf CPU COMMAND [ARGUMENT...]\n");
	return 2;
}
