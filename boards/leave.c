/*
 * Leaves an emulated board with a status: leave [STATUS]. QEMU ends at once, with STATUS as its own exit code.
 * Freestanding, because it has to start on every board. Returns 1 where nobody listens to semihosting calls.
 *
 * Arm, Semihosting for AArch32 and AArch64 (2024Q1), 5.5 the instructions, 6.9 SYS_EXIT_EXTENDED.
 */

#define SYS_EXIT_EXTENDED 0x20
#define ADP_STOPPED_APPLICATION_EXIT 0x20026

/* The kernel enters with argc, argv on the stack and a return address of nobody. */
#ifdef __aarch64__
__asm__(".globl _start\n_start: mov x0, sp\n b leave\n");
#else
__asm__(".globl _start\n_start: mov r0, sp\n b leave\n");
#endif

__attribute__((noreturn, used)) void leave(unsigned long *stack)
{
	const char *text = stack[0] > 1 ? (const char *)stack[2] : "0";
	unsigned long block[2] = { ADP_STOPPED_APPLICATION_EXIT, 0 };

	for (; *text >= '0' && *text <= '9'; text++)
		block[1] = block[1] * 10 + (*text - '0');

#ifdef __aarch64__
	register unsigned long x0 __asm__("x0") = SYS_EXIT_EXTENDED;
	register unsigned long *x1 __asm__("x1") = block;
	__asm__ volatile("hlt #0xf000" : "+r"(x0) : "r"(x1) : "memory");

	register unsigned long x8 __asm__("x8") = 93; /* exit */
	x0 = 1;
	__asm__ volatile("svc #0" : : "r"(x0), "r"(x8));
#else
	register unsigned long r0 __asm__("r0") = SYS_EXIT_EXTENDED;
	register unsigned long *r1 __asm__("r1") = block;
	__asm__ volatile("svc #0x123456" : "+r"(r0) : "r"(r1) : "memory");

	register unsigned long r7 __asm__("r7") = 1; /* exit */
	r0 = 1;
	__asm__ volatile("svc #0" : : "r"(r0), "r"(r7));
#endif
	__builtin_unreachable();
}
